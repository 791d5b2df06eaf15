package experts

// This file adapts the experts to changes of columns, scales and outputs, writes their weights to rows, and encodes
// their state.

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
	"blankout/online/encode"
)

// fits reports whether any expert supports this many columns, or at least the numeric columns among them.
func (x *Experts) fits(columns []uint32) bool {
	numbers, _ := slices.BinarySearch(columns, model.FirstBasisColumn)
	return PairsFit(numbers, x.Outputs) || ColumnsFit(len(columns), x.Outputs)
}

// UpdateColumns updates the columns of the experts from a labeled event, before the event is learned. It applies
// changed scales and adds new numeric columns. The result others reports whether the experts then have a different set
// of columns.
func (x *Experts) UpdateColumns(in *encode.Input, n *encode.Encoder) (others bool) {
	if x.off {
		return false
	}
	look := x.look || x.splines.splines != n.Scaling.Scaler.Splines
	for i := range in.Moves {
		m := &in.Moves[i]
		switch {
		case !m.Numeric:
		case m.Was.Scale == 0:
			look = true
		case m.Renews || m.Ratio != 1 || m.Shift != 0:
			x.change(func(e Expert) { e.Move(m) })
		}
	}
	return look && x.lookFor(in, n)
}

// change calls f for each expert, and marks the rows as out of date.
func (x *Experts) change(f func(e Expert)) {
	for _, e := range x.List {
		f(e)
	}
	x.stale = true
}

// lookFor adds the numeric columns of an event that are not followed yet, and their splines, to the followed columns.
// It reports whether there were any.
func (x *Experts) lookFor(in *encode.Input, n *encode.Encoder) bool {
	x.look = false
	x.read.Clear()
	n.Numbers(in, &x.read)
	columns, splines := slices.Clone(x.columns[:x.numbers]), n.Scaling.Scaler.Splines
	for _, v := range x.read.Values {
		if at, known := slices.BinarySearch(columns, v.Column); !known {
			columns = slices.Insert(columns, at, v.Column)
		}
	}
	if len(columns) == x.numbers && splines == x.splines.splines {
		return false
	}
	x.splines.splines = splines
	x.follow(columns, n.Table)
	return true
}

// Review updates the followed columns after the encoder has reviewed which columns are numeric.
func (x *Experts) Review(r *encode.Review, t *model.Table) {
	x.look = x.look || r.Some
	gone := func(c uint32) bool { return slices.Contains(r.Removed, c) }
	if columns := slices.Clone(x.columns[:x.numbers]); slices.ContainsFunc(columns, gone) {
		x.follow(slices.DeleteFunc(columns, gone), t)
	}
}

// follow makes the given numeric columns and their splines the columns of the experts. It adds rows for the splines.
func (x *Experts) follow(numbers []uint32, t *model.Table) {
	was := x.columns
	x.set(x.splines.with(numbers))
	for _, column := range was {
		if _, stays := slices.BinarySearch(x.columns, column); !stays {
			clear(t.Touch(column)[x.At:][:x.Outputs])
		}
	}
	for _, column := range x.columns {
		if row := t.Touch(column); column >= model.FirstBasisColumn && row[model.StatInverse] == 0 {
			row[model.StatCount], row[model.StatInverse] = 1, 1
		}
	}
}

// set makes these columns the followed columns of all experts. If no expert supports so many, it turns the experts off.
func (x *Experts) set(columns []uint32) {
	if !x.fits(columns) {
		x.off, columns = true, nil
	}
	x.columns = columns
	x.numbers, _ = slices.BinarySearch(columns, model.FirstBasisColumn)
	x.splines.place(columns)
	for _, e := range x.List {
		e.Follow(columns, x.numbers)
	}
	x.apply()
}

// Rescale adapts the experts to a new unit of regression targets: targets and scores are multiplied by factor and
// shifted by shift.
func (x *Experts) Rescale(factor, shift, keep float64) {
	x.change(func(e Expert) { e.Rescale(factor, shift, keep) })
}

// Regroup replaces the old outputs by one new output for each list in from, see rows.Regroup. at is the new index of the
// published weights in the rows. The rows have no published weights at that index yet.
func (x *Experts) Regroup(from [][]int, at int) {
	x.each(func(e Expert, first, _ int) {
		if factor := e.Regroup(from); factor != 1 {
			x.mixture.Multiply(first, factor)
		}
	})
	x.Outputs, x.At = len(from), at
	x.set(x.columns)
}

// Forget multiplies the memory of the second-order expert by keep. The spline expert needs no such decay, because one
// of its learning rates adapts fast.
func (x *Experts) Forget(keep float64) {
	for _, e := range x.List[:min(1, len(x.List))] {
		e.Forget(keep)
	}
	x.stale = true
}

// freshKeep is the fraction of their memory that StartFresh keeps for the experts that are not second-order.
const freshKeep = 0.1

// StartFresh resets the second-order expert. The other experts keep their weights but change faster. All components
// get their initial mixture weights.
func (x *Experts) StartFresh() {
	if len(x.List) == 0 {
		return
	}
	x.List[0].(restarts).Restart()
	x.fresh = true
	for _, e := range x.List[1:] {
		e.Forget(freshKeep)
	}
	x.mixture.Again()
	x.gain = Gain{}
	x.apply()
}

// Publish writes the mixed weights of the experts, without the base scores, to the rows of their columns.
func (x *Experts) Publish(t *model.Table) {
	if !x.stale {
		return
	}
	x.stale = false
	for _, column := range x.columns {
		x.ColumnWeights(column, t.Touch(column)[x.At:][:x.Outputs])
	}
}

// State encodes or decodes the experts. splines are the splines of the model that is read with the state.
func (x *Experts) State(c *coder.Coder, splines *model.Splines) {
	if len(x.List) == 0 {
		return
	}
	c.Bool(&x.off)
	c.Bool(&x.look)
	columns := x.columns
	if c.Uint32s(&columns); c.Decode {
		if c.Failed || !slices.IsSorted(columns) || len(columns) > 0 && !x.fits(columns) || !follows(columns, splines) {
			c.Failed = true
			return
		}
		x.splines.splines = splines
		x.set(columns)
	}
	for i, e := range x.List {
		e.State(c)
		c.Uint(&x.idle[i])
	}
	x.mixture.State(c)
	c.Uint(&x.learned)
	x.gain.State(c)
	if c.Decode && !c.Failed {
		for _, e := range x.List {
			e.Follow(x.columns, x.numbers)
		}
		x.apply()
	}
}

// follows reports whether columns are valid followed columns: numeric columns, and then all spline columns of some of
// these. curves are the splines of the model.
func follows(columns []uint32, curves *model.Splines) bool {
	numbers, _ := slices.BinarySearch(columns, model.FirstBasisColumn)
	s := splines{splines: curves}
	return slices.Equal(s.with(columns[:numbers]), columns)
}
