package readings

// This file determines the missing fields of an event. A field is missing if most events have it, but it is null or absent
// in this event.

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/mixture"
)

// Fields counts which fields events usually have. Its published form is model.Missing, which also has the policies for
// missing fields.
type Fields struct {
	Missing *model.Missing
	usual   model.FieldUse
	// Kinds counts the events with each field. If several fields have the same name, it also counts each of them
	// separately.
	Kinds model.FieldUse
	// Counts by column, for sparse text formats in which columns can be missing.
	columns model.ColumnUse
	kinds   model.FieldSet // fields of the current event, if several share a name
	came    model.FieldSet // see PresentIn
	due     bool           // Review has something to do
	numbers bool           // labels are numbers, not classes
	asked   []uint32       // fields whose lack may be read in two ways, see Ask
	Current
}

// Current describes the missing fields of the current event.
type Current struct {
	Named   bool           // the event has named fields
	Present model.FieldSet // present fields, if Named
	Missed  model.MissingCount
	Range   int     // range of the missing fraction
	Scale   float64 // factor of the features, which makes up for missing ones
}

const (
	// Fields are counted in each of the first usualFirst events, then in one event in usualEvery.
	usualFirst, usualEvery = 1024, 16
	usualMemory            = 500 // number of counted events over which counts decay
)

// New returns the Fields of a new stream. absent is Schema.Absent.
func New(policies model.MissingPolicies, absent string, regression bool) Fields {
	m := model.NewMissing(policies, nil, nil, nil)
	m.ColumnsCanBeMissing = absent == event.AbsentMissing
	return Fields{
		Missing: m, numbers: regression,
		usual:   model.FieldUse{Memory: usualMemory, AbsentIsZero: absent == event.AbsentZero},
		Kinds:   model.FieldUse{Memory: usualMemory},
		columns: model.ColumnUse{Memory: usualMemory},
		Current: Current{Scale: 1},
	}
}

// Take determines the missing fields of an event. counts reports whether the event has fields for Count.
func (f *Fields) Take(e *event.Example, fields []event.Field) (counts bool) {
	f.Missed, f.Range, f.Scale, f.Named = model.MissingCount{}, 0, 1, false
	if len(e.Field) == 0 && len(e.Missing) == 0 && !f.Missing.ColumnsCanBeMissing {
		return false // no features, or a sparse text format without fields
	}
	if 64*len(f.Present) < len(fields) {
		f.Present = model.NewFieldSet(len(fields))
	}
	f.Named = !f.sparse(e, fields)
	if f.Missed = f.Missing.CountMissing(fields, e, f.Present); f.Missed.Some() {
		f.Range, f.Scale = mixture.Range(f.Missed), f.Missing.Scale(f.Missed)
	}
	return true
}

func (f *Fields) sparse(e *event.Example, fields []event.Field) bool {
	return f.Missing.ColumnsCanBeMissing && e.IsSparse(fields)
}

// PresentIn returns the fields that an event had when it arrived. Call it after Take(e). e is the event came, or a copy
// of it with some fields declared missing. The result is valid until the next call.
func (f *Fields) PresentIn(came, e *event.Example, fields []event.Field) model.FieldSet {
	if came == e || !f.Named {
		return f.Present
	}
	if len(f.came) != len(f.Present) {
		f.came = make(model.FieldSet, len(f.Present))
	}
	f.Missing.CountMissing(fields, came, f.came)
	return f.came
}

// Count counts the fields that came had when it arrived, if number is in the sample. A field that was declared missing
// after arrival counts as present. rates reports whether the rates of missing fields have changed. Call Count after
// Take(e); came and e are as in PresentIn.
func (f *Fields) Count(came, e *event.Example, fields []event.Field, number uint64) (rates bool) {
	if number > usualFirst && number%usualEvery != 0 {
		return false
	}
	f.due = number%usualFirst == 0 || number >= 16 && number&(number-1) == 0
	if f.sparse(e, fields) {
		f.columns.Count(fields, e)
		return false
	}
	f.usual.Count(f.PresentIn(came, e, fields), came.Missing, f.class(came))
	clear(f.kinds)
	f.kinds = f.kinds.Room(len(fields))
	f.kinds.Add(came.Field)
	f.Kinds.Count(f.kinds, nil, -1)
	return f.due
}

// class returns the class of an event, or -1 if it has none or labels are numbers.
func (f *Fields) class(e *event.Example) int {
	if e.Label == event.Unlabeled || f.numbers {
		return -1
	}
	return e.Label
}

// Review makes the counts take effect if that is due. Call it after the counted event has been predicted, so that the
// event is predicted and learned with the same usual fields.
func (f *Fields) Review(fields []event.Field) {
	if f.due {
		f.Missing, f.due = f.usual.Review(f.columns.Review(f.Missing), fields), false
		f.asked = f.usual.AppendAmbiguous(f.asked[:0], fields)
	}
}

// After asksFrom events, one in askFirst is asked about a field that it lacks, and after asksFirst events one in askEvery.
// Earlier predictions say little about what is better later.
const asksFrom, asksFirst, askFirst, askEvery = 1024, 8192, 4, 32

// Telling returns, in ascending order, the fields that are often null and whose null says something about the class.
func (f *Fields) Telling() []uint16 { return f.usual.AppendTelling(nil) }

// Ask returns a field that an event lacks and whose lack may be read in two ways: as a value, or as a loss. The caller
// compares the losses of both readings (model.Missing.Otherwise), for Answer. ok is false for most events.
func (f *Fields) Ask(e *event.Example, fields []event.Field, number uint64) (id uint16, ok bool) {
	every := uint64(askFirst)
	if number > asksFirst {
		every = askEvery
	}
	random := event.Mix(number)
	if number <= asksFrom || len(f.asked) == 0 || random%every != 0 || len(e.Field) == 0 && len(e.Missing) == 0 || f.sparse(e, fields) {
		return 0, false
	}
	from := int(random >> 32 % uint64(len(f.asked)))
	for i := range f.asked {
		if id = uint16(f.asked[(from+i)%len(f.asked)]); !slices.Contains(e.Field, id) {
			return id, true
		}
	}
	return 0, false
}

// Answer takes the losses of an event that lacks a field, with the reading in effect and with the other reading.
func (f *Fields) Answer(id uint16, loss, other float64) {
	gain := loss - other // of the other reading
	if slices.Contains(f.Missing.Usual, id) {
		gain = -gain
	}
	f.usual.Gain(id, gain)
}

// Rates returns the rate at which each group has been missing, and the rate of each field without a group.
func (f *Fields) Rates(fields []event.Field) map[string]float64 { return f.usual.Rates(fields) }

// Usual returns which fields most events have, after the given number of events. It returns nil if there are too few
// events.
func (f *Fields) Usual(number uint64) *model.Missing {
	if number < usualFirst {
		return nil
	}
	return f.Missing
}

// All returns the missing count of the current event e. It includes the counts of present fields even if no field is
// missing. In a sparse text format each feature counts as a field, because a mask can declare each column missing.
func (f *Fields) All(e *event.Example, fields []event.Field) model.MissingCount {
	k := f.Missed
	switch {
	case k.Some():
	case e.IsSparse(fields):
		k = f.Missing.CountColumns(fields, e)
	case f.Named:
		k.Named, k.AlwaysPresent = f.Present.Count(fields)
	}
	return k
}

// Misfit reports whether the decoded column counts are inconsistent.
func (f *Fields) Misfit() bool {
	n := len(f.columns.Columns)
	return n != len(f.columns.Present) || n != len(f.columns.Least) || n != len(f.columns.Mean)
}

// State encodes or decodes the counts.
func (f *Fields) State(c *coder.Coder) {
	if f.Missing.ColumnsCanBeMissing {
		c.Uint(&f.columns.Events)
		c.Uint32s(&f.columns.Columns)
		c.Uints(&f.columns.Present)
		c.Floats(&f.columns.Least, &f.columns.Mean)
	}
	c.Uint(&f.usual.Events)
	c.Uints(&f.usual.Present)
	c.Uints(&f.usual.Null)
	c.Floats(&f.usual.Gains, &f.usual.Squares)
	c.Failed = c.Failed || len(f.usual.Gains) != len(f.usual.Squares)
	c.Uint32s(&f.asked)
	c.Uints(&f.usual.Classes)
	coder.Length(c, &f.usual.Lacked, math.MaxUint16)
	for id := range f.usual.Lacked {
		c.Uints(&f.usual.Lacked[id])
	}
	c.Uint(&f.Kinds.Events)
	c.Uints(&f.Kinds.Present)
}
