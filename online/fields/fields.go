// Package fields finds what events lack: which of the fields that events usually have are null or left
// out. It knows no weights.
package fields

import (
	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/mixture"
)

// Fields is what is known about fields that events lack: which they usually have. What is published of
// that, and of which rule scores such events better, is a model.Missing, which scores the events of the
// stream too.
type Fields struct {
	Missing *model.Missing
	usual   model.FieldUse
	// Kinds counts fields as usual does, but each of several of one name for itself.
	Kinds model.FieldUse
	// For sparse text formats whose Schema says that columns go missing.
	columns model.ColumnUse
	kinds   model.FieldSet // of the event at hand: its fields, each of several of one name
	came    model.FieldSet // see PresentIn
	Lacking
}

// Lacking is what the event at hand lacks.
type Lacking struct {
	Named   bool           // the event has fields
	Present model.FieldSet // if it has
	Lack    model.Lack
	Range   int     // of the shares that answer it
	Scale   float64 // the features' factor for that
}

const (
	// Fields are counted in all of the first events, then in every n-th.
	usualFirst, usualEvery = 1024, 16
	usualMemory            = 500 // counted events
)

// New returns the Fields of a stream that begins.
// absent is that of the Schema.
func New(rules model.MissingPolicies, absent string) Fields {
	m := model.NewMissing(rules, nil, nil, nil)
	m.Known = absent == event.AbsentMissing
	return Fields{
		Missing: m,
		usual:   model.FieldUse{Memory: usualMemory, AbsentIsZero: absent == event.AbsentZero},
		Kinds:   model.FieldUse{Memory: usualMemory},
		columns: model.ColumnUse{Memory: usualMemory},
		Lacking: Lacking{Scale: 1},
	}
}

// Take finds out what an event lacks. It says whether Count has something to count.
func (f *Fields) Take(e *event.Example, fields []event.Field) (counts bool) {
	f.Lack, f.Range, f.Scale, f.Named = model.Lack{}, 0, 1, false
	if len(e.Field) == 0 && len(e.Missing) == 0 && !f.Missing.Known {
		return false // nothing, or a sparse text format without fields
	}
	if 64*len(f.Present) < len(fields) {
		f.Present = model.NewFieldSet(len(fields))
	}
	f.Named = !f.sparse(e, fields)
	if f.Lack = f.Missing.Lack(fields, e, f.Present); f.Lack.Some() {
		f.Range, f.Scale = mixture.Range(f.Lack), f.Missing.Scale(f.Lack)
	}
	return true
}

func (f *Fields) sparse(e *event.Example, fields []event.Field) bool {
	return f.Missing.Known && e.IsSparse(fields)
}

// PresentIn returns the fields that an event held as it came, if Take was called with e, which is the same
// event or has some of them declared missing. The result holds until the next call.
func (f *Fields) PresentIn(came, e *event.Example, fields []event.Field) model.FieldSet {
	if came == e || !f.Named {
		return f.Present
	}
	if len(f.came) != len(f.Present) {
		f.came = make(model.FieldSet, len(f.Present))
	}
	f.Missing.Lack(fields, came, f.came)
	return f.came
}

// Count counts the fields of an event as it came, which is of the given number, if it is its turn; Take was
// called with e, see PresentIn: what a model declares missing is no less usual. It says whether the rates at
// which named fields are missing are known anew.
func (f *Fields) Count(came, e *event.Example, fields []event.Field, number uint64) (rates bool) {
	if number > usualFirst && number%usualEvery != 0 {
		return false
	}
	review := number%usualFirst == 0 || number >= 16 && number&(number-1) == 0
	if f.sparse(e, fields) {
		if f.columns.Count(fields, e); review {
			f.Missing = f.columns.Review(f.Missing)
		}
		return false
	}
	if f.usual.Count(f.PresentIn(came, e, fields), came.Missing); review {
		f.Missing = f.usual.Review(f.Missing, fields)
	}
	clear(f.kinds)
	f.kinds = f.kinds.Room(len(fields))
	f.kinds.Add(came.Field)
	f.Kinds.Count(f.kinds, nil)
	return review
}

// Rates returns at which rates groups, or fields of none, have been missing.
func (f *Fields) Rates(fields []event.Field) map[string]float64 { return f.usual.Rates(fields) }

// Usual returns which fields are usual after so many events, nil while that is not known.
func (f *Fields) Usual(number uint64) *model.Missing {
	if number < usualFirst {
		return nil
	}
	return f.Missing
}

// All returns what the event at hand lacks, all of its fields counted.
func (f *Fields) All(fields []event.Field) model.Lack {
	k := f.Lack
	if f.Named && !k.Some() {
		k.Named, k.Silent = f.Present.Count(fields)
	}
	return k
}

// Misfit says whether what State has read does not fit itself.
func (f *Fields) Misfit() bool { return len(f.columns.Columns) != len(f.columns.Present) }

// State codes what is counted.
func (f *Fields) State(c *coder.Coder) {
	if f.Missing.Known {
		c.Uint(&f.columns.Events)
		c.Uint32s(&f.columns.Columns)
		c.Uints(&f.columns.Present)
	}
	c.Uint(&f.usual.Events)
	c.Uints(&f.usual.Present)
	c.Uints(&f.usual.Null)
	c.Uint(&f.Kinds.Events)
	c.Uints(&f.Kinds.Present)
}
