package correct

// This file follows what changes around the experts: columns, their scales, the outputs; writes their weights to rows;
// and holds the state.

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
	"blankout/online/additive"
	"blankout/online/encode"
	"blankout/online/newton"
)

// fits says whether any expert has room for these columns, or for the numbers among them.
func (x *Experts) fits(columns []uint32) bool {
	numbers, _ := slices.BinarySearch(columns, model.FirstHat)
	return newton.Fits(numbers, x.outputs) || additive.Fits(len(columns), x.outputs)
}

// Meet takes up a labeled event before it is learned: scales that have moved, and numbers that have come. It returns whether other
// columns are followed from here on.
func (x *Experts) Meet(in *encode.Input, n *encode.Encoder) (others bool) {
	if x.off {
		return false
	}
	look := x.look || x.splines.curves != n.Scaling.Scaler.Curves
	for _, m := range in.Moves {
		switch {
		case !m.Numeric:
		case m.Was.Scale == 0:
			look = true
		case m.Was.Unit != m.Is.Unit || m.Is.Scale == 0:
			x.change(func(e Expert) { e.Renew(m.Column) })
		case m.Ratio != 1 || m.Shift != 0:
			x.change(func(e Expert) { e.Move(m.Column, m.Ratio, m.Shift) })
		}
	}
	return look && x.lookFor(in, n)
}

// change changes the experts.
func (x *Experts) change(f func(e Expert)) {
	for _, e := range x.list {
		f(e)
	}
	x.stale = true
}

// lookFor follows the numbers of an event that are not followed, and their splines, and returns whether there are any.
func (x *Experts) lookFor(in *encode.Input, n *encode.Encoder) bool {
	x.look = false
	x.read.Clear()
	n.Numbers(in, &x.read)
	columns, curves := slices.Clone(x.columns[:x.numbers]), n.Scaling.Scaler.Curves
	for _, v := range x.read.Values {
		if at, known := slices.BinarySearch(columns, v.Column); !known {
			columns = slices.Insert(columns, at, v.Column)
		}
	}
	if len(columns) == x.numbers && curves == x.splines.curves {
		return false
	}
	x.splines.curves = curves
	x.follow(columns, n.Table)
	return true
}

// Review takes up that it has been decided anew which columns are numbers.
func (x *Experts) Review(r *encode.Review, t *model.Table) {
	x.look = x.look || r.Some
	gone := func(c uint32) bool { return slices.Contains(r.Gone, c) }
	if columns := slices.Clone(x.columns[:x.numbers]); slices.ContainsFunc(columns, gone) {
		x.follow(slices.DeleteFunc(columns, gone), t)
	}
}

// follow makes these numbers and their splines the columns of the experts. Splines get rows.
func (x *Experts) follow(numbers []uint32, t *model.Table) {
	columns := x.splines.with(numbers)
	if !x.fits(columns) {
		x.off, columns = true, nil
	}
	for _, column := range x.columns {
		if _, stays := slices.BinarySearch(columns, column); !stays {
			clear(t.Touch(column)[x.at:][:x.outputs])
		}
	}
	for _, column := range columns {
		if row := t.Touch(column); column >= model.FirstHat && row[model.StatInverse] == 0 {
			row[model.StatCount], row[model.StatInverse] = 1, 1
		}
	}
	x.set(columns)
}

// set makes these columns those of the experts.
func (x *Experts) set(columns []uint32) {
	x.columns = columns
	x.numbers, _ = slices.BinarySearch(columns, model.FirstHat)
	x.splines.place(columns)
	for _, e := range x.list {
		e.Follow(columns, x.numbers)
	}
	x.force()
}

// Rescale says that targets and all scores are factor times what they were, and shift.
func (x *Experts) Rescale(factor, shift float64) {
	x.change(func(e Expert) { e.Rescale(factor, shift) })
}

// Grow gives the experts so many outputs. Where one has decided between two classes it becomes that of the second, and its
// negation that of the first. Rows are others, and have no weights yet.
func (x *Experts) Grow(outputs, at int) {
	lane := 0
	for _, e := range x.list {
		if factor := e.Grow(outputs); factor != 1 {
			x.weights.factors[lane] = NewTemperature(factor)
		}
		lane += len(e.Lanes())
	}
	x.resize(outputs, at)
}

// Regroup gives the experts as many outputs as there are lists: each begins as the mean of those former ones.
func (x *Experts) Regroup(from [][]int, at int) {
	for _, e := range x.list {
		e.Regroup(from)
	}
	x.resize(len(from), at)
}

func (x *Experts) resize(outputs, at int) {
	x.outputs, x.at = outputs, at
	columns := x.columns
	if !x.fits(columns) {
		x.off, columns = true, nil
	}
	x.set(columns)
}

// Forget leaves a part of what the second-order expert knows. Of splines there are fast ones already.
func (x *Experts) Forget(keep float64) {
	x.list[0].Forget(keep)
	x.stale = true
}

// freshKeep is the part of what others know that StartFresh leaves.
const freshKeep = 0.1

// StartFresh has the second-order expert start again without anything that it knows; the others keep their weights, and move
// faster. What lanes count is as at the beginning.
func (x *Experts) StartFresh() {
	x.list[0].Restart()
	for _, e := range x.list[1:] {
		e.Forget(freshKeep)
	}
	x.weights.shares.Again()
	x.gain = Gain{}
	x.force()
}

// Adopt has the experts begin again with what hat returns as their weights for the columns of splines. It returns whether there
// are such columns.
func (x *Experts) Adopt(hat func(column uint32, output int) float64) (some bool) {
	for _, e := range x.list {
		e.Restart()
		for _, column := range x.columns[x.numbers:] {
			if len(x.splines.curves.Knots[x.splines.curves.Of(column)]) == 1 {
				continue // it says that the number is there, and is the levels'
			}
			some = true
			for k := range x.outputs {
				e.Set(column, k, hat(column, k))
			}
		}
	}
	clear(x.weights.factors)
	clear(x.idle)
	x.gain = Gain{}
	x.force()
	return some
}

// Publish writes the experts' own weights, mixed, to the rows of their columns.
func (x *Experts) Publish(t *model.Table) {
	if !x.stale {
		return
	}
	x.stale = false
	for i, column := range x.columns {
		own := t.Touch(column)[x.at:][:x.outputs]
		clear(own)
		x.AddWeights(i, 1, own)
	}
}

// State codes the experts. Curves are those of the model that is read with it.
func (x *Experts) State(c *coder.Coder, curves *model.Curves) {
	c.Bool(&x.off)
	c.Bool(&x.look)
	columns := x.columns
	if c.Uint32s(&columns); c.Decode {
		if c.Failed || !slices.IsSorted(columns) || len(columns) > 0 && !x.fits(columns) || !follows(columns, curves) {
			c.Failed = true
			return
		}
		x.splines.curves = curves
		x.set(columns)
	}
	for i, e := range x.list {
		e.State(c)
		c.Uint(&x.idle[i])
	}
	x.weights.state(c)
	c.Uint(&x.learned)
	x.gain.State(c)
	if c.Decode && !c.Failed {
		for _, e := range x.list {
			e.Follow(x.columns, x.numbers)
		}
		x.force()
	}
}

// follows says whether columns are numbers and all columns of the splines of some of these, and no other ones.
func follows(columns []uint32, curves *model.Curves) bool {
	numbers, _ := slices.BinarySearch(columns, model.FirstHat)
	s := splines{curves: curves}
	return slices.Equal(s.with(columns[:numbers]), columns)
}
