package encode

// This file declares readings missing that carry no information: those of stuck fields and, if silent death is
// expected, the first zeros of a field and readings far outside its limits. It also determines the values of features
// that have died silently.

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/scaling"
	"blankout/online/silent"
	"blankout/online/stuck"
)

// Faulty selects which readings are detected.
type Faulty struct {
	Stuck    bool // stuck fields
	Declares bool // stuck fields are declared missing
	Limits   bool // readings beyond limits; these count unless silent death is expected, because streams have valid ones
}

// faults detects readings that carry no information.
type faults struct {
	Faulty
	detector stuck.Detector
	limits   stuck.Limits
	found    *model.Faults // in force, as in the model
	declared event.Example // scratch for an event with declared readings
}

// Faults returns what is declared missing, or nil.
func (n *Encoder) Faults() *model.Faults { return n.faults.found }

// Stuck returns the stuck fields, whether they are declared missing or not.
func (n *Encoder) Stuck() []stuck.Run { return n.faults.detector.Stuck() }

// declare returns an event with the detected readings declared missing. The result is valid until the next call.
func (n *Encoder) declare(e *event.Example) *event.Example {
	if n.faults.found == nil {
		return e
	}
	h := model.Head{Schema: n.schema, Faults: n.faults.found}
	return h.Declare(e, &n.faults.declared)
}

// Repeats returns what the detector of stuck fields knows of a field, see stuck.Detector.
func (n *Encoder) Repeats(id int) (fraction float64, never, ok bool) {
	return n.faults.detector.Repeats(id)
}

// Find updates the detectors with a learned event, as it arrived. It returns the fields that have become stuck or have
// recovered.
func (n *Encoder) Find(e *event.Example, now stuck.Moment) (changes []stuck.Change) {
	f, changed := &n.faults, false
	if f.Limits {
		changed = f.limits.Take(e, n.schema.Fields)
	}
	if f.Stuck {
		changes = f.detector.Take(e, n.schema.Fields, now)
	}
	if changed || len(changes) > 0 {
		f.enforce()
	}
	return changes
}

// enforce puts what has been detected in force.
func (f *faults) enforce() {
	var fields []model.StuckField
	if f.Declares {
		for _, r := range f.detector.Stuck() {
			fields = append(fields, model.StuckField{Field: r.Field, Value: r.Value})
		}
	}
	var limits []model.FieldLimits
	if f.Limits {
		f.limits.Each(func(b stuck.Bounds) { limits = append(limits, model.FieldLimits(b)) })
	}
	f.found = model.NewFaults(fields, limits)
}

// state codes the detectors. It resets those that the settings exclude.
func (f *faults) state(c *coder.Coder) {
	f.detector.State(c)
	f.limits.State(c)
	if !c.Decode {
		return
	}
	if !f.Stuck {
		f.detector = stuck.Detector{}
	}
	if !f.Limits {
		f.limits = stuck.Limits{}
	}
	f.enforce()
}

// Silence is what an Encoder provides about features that die silently.
type Silence struct {
	Learned bool // the values of an Input's features when they are dead
	Groups  bool // and the units that die as a whole
	Value   model.SilentValue
}

// deaths holds the values of numbers when they are dead.
type deaths struct {
	Silence
	values *silent.Values
	read   scaling.Read // scratch for ReadDead
}

// Dead returns the values of numbers when they are dead, or nil if no number has been read.
func (n *Encoder) Dead() *model.Dead { return n.deaths.values.Dead() }

// ReadsWhenDead returns the standardized value of a column when it is dead.
func (n *Encoder) ReadsWhenDead(column uint32) float64 {
	row := n.Table.Row(column)
	if row == nil {
		return 0
	}
	return n.deaths.values.Standardized(&n.Scaling.Scaler, column, row[:model.ScalerWidth])
}

// The numbers of the first deadFirst labeled events are read, then those of one in deadEvery. If a level has silent
// noise, those of all events are read.
const deadFirst, deadEvery = 1024, 16

// ReadDead updates the values of dead numbers from a labeled event, except from outliers.
func (n *Encoder) ReadDead(in *Input) {
	d := &n.deaths
	if n.Scaling.Scaler.Mode == model.StandardizeNone || !d.Learned && in.Number > deadFirst && in.Number%deadEvery != 0 {
		return
	}
	d.read.Clear()
	n.Numbers(in, &d.read)
	walk := d.values.Walk()
	for _, v := range d.read.Values {
		if !model.IsOutlier(v.X) {
			walk.Read(v.Column, v.Raw)
		}
	}
}

// ForgetDead removes columns that are no longer numbers.
func (n *Encoder) ForgetDead(r *Review) { n.deaths.values.Forget(r.Removed) }

// FillDead fills in the values of an event's features when they are dead.
func (n *Encoder) FillDead(in *Input) {
	columns, walk := in.Columns[:in.Features()], n.deaths.values.Walk()
	in.Dead = slices.Grow(in.Dead[:0], len(columns))[:len(columns)]
	in.DeadRaw = append(in.DeadRaw[:0], in.Raw...)
	for i, column := range columns {
		if column >= model.FirstBasisColumn {
			in.Dead[i] = in.X[i] // a presence column follows its number, which is present
			continue
		}
		in.Dead[i] = walk.Standardized(&n.Scaling.Scaler, column, in.Rows[i][:model.ScalerWidth])
		in.DeadRaw[i] = walk.Raw(column, in.Raw[i])
	}
}

// died fills in what training needs about features that die silently or together.
func (n *Encoder) died(in *Input) {
	d := &n.deaths
	columns := in.Columns[:in.Features()]
	if in.Fields, in.Splines = in.Fields[:0], n.Scaling.Scaler.Splines; (n.together.Fields || d.Groups) && len(in.Event.Field) > 0 {
		in.Fields = n.Scaling.Scaler.FieldsOf(in.Event, columns, in.Fields)
	}
	if in.Dead, in.Units = in.Dead[:0], in.Units[:0]; !d.Learned {
		return
	}
	if n.FillDead(in); !d.Groups {
		return
	}
	for i, column := range columns {
		field := uint16(0)
		if i < len(in.Fields) {
			field = in.Fields[i]
		}
		in.Units = append(in.Units, n.together.Grouping.Of(field, in.Splines.Source(column)))
	}
}

// Silently fills to with a copy of an event in which some features have died silently: dead is by index in Columns.
// FillDead must have been called. Nothing is missing from the copy. It shares Rows and Columns with in. Nothing else
// may fill to.
func (in *Input) Silently(dead []bool, to *Input) {
	n := in.Features()
	to.Event, to.Number, to.Scale, to.Rows, to.Columns = in.Event, in.Number, 1, in.Rows, in.Columns[:n]
	to.X, to.Raw = append(to.X[:0], in.X...), append(to.Raw[:0], in.Raw[:n]...)
	for i, gone := range dead[:n] { // selects between bits, because a branch would be unpredictable
		x, raw := math.Float64bits(in.X[i]), math.Float64bits(in.Raw[i])
		deadX, deadRaw := math.Float64bits(in.Dead[i]), math.Float64bits(in.DeadRaw[i])
		if gone {
			x = deadX
		}
		if gone {
			raw = deadRaw
		}
		to.X[i], to.Raw[i] = math.Float64frombits(x), math.Float64frombits(raw)
	}
}
