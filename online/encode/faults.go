package encode

// This file finds readings that carry no information, and estimates the values that features have when they are silently
// missing.

import (
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/readings"
	"blankout/online/scaling"
	"blankout/online/silent"
)

// Faults returns the rules by which readings are declared missing, or nil if there are none.
func (n *Encoder) Faults() *model.Faults { return n.faults.InEffect() }

// Stuck returns the stuck fields, whether they are declared missing or not.
func (n *Encoder) Stuck() []readings.Run { return n.faults.Runs() }

// Repeats returns how often a field repeats its value, see readings.Detector.
func (n *Encoder) Repeats(id int) (fraction float64, never, ok bool) { return n.faults.Repeats(id) }

// Find looks for stuck fields and placeholders in a learned event in its raw form. It returns the fields that have become
// stuck or have recovered. If it has found a placeholder, the statistics of that column begin again with its other
// readings, and r has the changes.
func (n *Encoder) Find(e *event.Example, now readings.Moment) (changes []readings.Change, r *Review) {
	changes, found := n.faults.Find(e, n.schema.Fields, now)
	for _, x := range found {
		if r == nil {
			r = &Review{}
		}
		row := n.Table.Touch(x.Column)
		ratio, shift := n.Scaling.Restart(row, x.Others)
		r.Moves, r.Removed = append(r.Moves, Move{Row: row, Ratio: ratio, Shift: shift, Keep: 1}), append(r.Removed, x.Column)
	}
	return changes, r
}

// presences returns, in ascending order, the fields whose readings get a presence column whatever their number: those
// whose null tells the class, and those with a placeholder.
func (n *Encoder) presences() []uint16 {
	ids := append(n.Fields.Telling(), n.faults.Placeholders()...)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Silence selects which information about silently missing features an Input has.
type Silence struct {
	Learned bool // provide the values of an Input's features when silently missing
	Groups  bool // also provide the units that are missing as a whole
}

// deaths holds the values that numeric columns have when they are silently missing (dead).
type deaths struct {
	Silence
	values *silent.Values
	read   scaling.Read // scratch for ReadDead
}

// Dead returns the values of silently missing (dead) numeric columns, or nil before any number has been read.
func (n *Encoder) Dead() *model.Dead { return n.deaths.values.Dead() }

// ReadsWhenDead returns the standardized value of a column that is silently missing (dead).
func (n *Encoder) ReadsWhenDead(column uint32) float64 {
	row := n.Table.Row(column)
	if row == nil {
		return 0
	}
	return n.deaths.values.Standardized(&n.Scaling.Scaler, column, row[:model.ScalerWidth])
}

// The dead values are updated at the first deadFirst labeled events, and then at one event in deadEvery. If a noise
// level has silent noise, they are updated at every event.
const deadFirst, deadEvery = 1024, 16

// ReadDead updates the values of silently missing (dead) columns from a labeled event. It ignores outliers.
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

// ForgetDead removes columns that are no longer numeric.
func (n *Encoder) ForgetDead(r *Review) { n.deaths.values.Forget(r.Removed) }

// ImputeDead sets Dead and DeadRaw of an Input: the values that the event's features would have if they were silently
// missing.
func (n *Encoder) ImputeDead(in *Input) {
	columns, walk := in.Columns[:in.Features()], n.deaths.values.Walk()
	in.Dead = slices.Grow(in.Dead[:0], len(columns))[:len(columns)]
	in.DeadRaw = append(in.DeadRaw[:0], in.Raw...)
	for i, column := range columns {
		if column >= model.FirstBasisColumn {
			in.Dead[i] = in.X[i] // a presence column keeps its value, because the dead number is still present
			continue
		}
		in.Dead[i] = walk.Standardized(&n.Scaling.Scaler, column, in.Rows[i][:model.ScalerWidth])
		in.DeadRaw[i] = walk.Raw(column, in.Raw[i])
	}
}

// died sets the fields of an Input that describe features that are silently missing or dropped together.
func (n *Encoder) died(in *Input) {
	d := &n.deaths
	columns := in.Columns[:in.Features()]
	if in.Fields, in.Splines = in.Fields[:0], n.Scaling.Scaler.Splines; (n.together.Fields || d.Groups) && len(in.Event.Field) > 0 {
		in.Fields = n.Scaling.Scaler.FieldsOf(in.Event, columns, in.Fields)
	}
	if in.Dead, in.Units = in.Dead[:0], in.Units[:0]; !d.Learned {
		return
	}
	if n.ImputeDead(in); !d.Groups {
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

// Silently sets to to a copy of the Input in which some features are silently missing. dead is by index in Columns. The
// copy declares no field missing. ImputeDead must have been called before. The copy shares Rows and Columns with in,
// and is valid only for scoring.
func (in *Input) Silently(dead []bool, to *Input) {
	n := in.Features()
	to.Event, to.Number, to.Scale, to.Rows, to.Columns = in.Event, in.Number, 1, in.Rows, in.Columns[:n]
	to.X, to.Raw = append(to.X[:0], in.X...), append(to.Raw[:0], in.Raw[:n]...)
	for i, gone := range dead[:n] { // selects bits, because a branch would be unpredictable
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
