package newton

// This file adapts an expert to changes of columns, scales, target units and classes, and encodes its state.

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/online/encode"
	"blankout/online/experts"
)

// Follow implements experts.Expert. New columns start with weight 0.
func (e *Expert) Follow(columns []uint32, numbers int) {
	if !experts.PairsFit(len(columns), e.outputs) {
		columns = columns[:numbers]
	}
	if !experts.PairsFit(len(columns), e.outputs) {
		columns = nil
	}
	e.follow(columns)
}

// follow makes wanted, which must be ascending, the columns of the expert.
func (e *Expert) follow(wanted []uint32) {
	for i := len(e.columns) - 1; i >= 0; i-- {
		if _, stays := slices.BinarySearch(wanted, e.columns[i]); !stays {
			e.groupNoise.reset()
			e.remove(e.first + i)
			e.columns = slices.Delete(e.columns, i, i+1)
		}
	}
	for i, column := range wanted {
		if i == len(e.columns) || e.columns[i] != column {
			e.groupNoise.reset()
			e.columns = slices.Insert(e.columns, i, column)
			e.insert(e.first + i)
		}
	}
}

// fix divides the variance of a weight that must be 0 by certain.
const certain = 1e12

// remove removes variable i from z, and its row and column from A. The other weights do not change: refitting them to
// past events without the variable could move them far away from the weights that fit later events.
func (e *Expert) remove(i int) {
	ev := &e.event
	ev.room(e.p.n)
	ev.full[i] = 1
	e.p.update(certain/e.p.leverage(ev.full, i), ev.gain)
	e.p, e.noise = e.p.remove(i), slices.Delete(e.noise, i, i+1)
	for k := range e.u {
		e.u[k] = slices.Delete(e.u[k], i, i+1)
	}
}

// place returns the index of a column's variable in z, or -1 if there is none.
func (e *Expert) place(column uint32) int {
	if i, known := slices.BinarySearch(e.columns, column); known {
		return e.first + i
	}
	return -1
}

// Move changes a column's values x to (x - shift)/ratio. Scores stay the same, except if that would extrapolate too
// far. A weight keeps its number and its variance if the change would shift the intercept, or the score of the value 1,
// by more than mostMove.
func (e *Expert) Move(m *encode.Move) {
	i, ratio, shift := e.place(m.Column), m.Ratio, m.Shift
	if i < 0 {
		return
	}
	if m.Renews {
		e.groupNoise.reset()
		e.remove(i)
		e.insert(i)
		return
	}
	most := mostMove / max(math.Abs(shift), ratio-1)
	for _, u := range e.u {
		if !(math.Abs(u[i]) <= most) {
			return
		}
	}
	e.p.scale(i, ratio, shift)
	e.noise[i] /= ratio * ratio
	e.groupNoise.scale(i, ratio)
	for _, u := range e.u {
		u[0] += shift * u[i]
		u[i] *= ratio
	}
}

// mostMove is small because the weights closely fit the first events, during which scales change most.
const mostMove = 0.1

// Rescale replaces each target y by factor y + shift. It converts all scores in the same way, including the scores of
// the base learner. It is only for one output.
func (e *Expert) Rescale(factor, shift, _ float64) {
	e.p.scale(1, 1/factor, -shift/factor)
	e.groupNoise.rescale(factor)
	for _, u := range e.u {
		for i := range u {
			if i != 1 {
				u[i] *= factor
			}
		}
		u[0] -= u[1] * shift
	}
}

// Regroup implements experts.Expert. If a single output for two classes becomes two, the coefficient of the base score
// becomes 1. The caller must multiply scores by its old value, which Regroup returns.
func (e *Expert) Regroup(from [][]int) (coefficient float64) {
	coefficient = 1
	if e.first == 2 {
		if c := 1 + e.Base(0); c >= leastCoefficient {
			coefficient = c
		}
		e.remove(1)
		e.first = 1
	}
	was := e.u
	e.outputs, e.u = len(from), nil
	for _, list := range from {
		u := make([]float64, e.p.n)
		for _, k := range list {
			for i, w := range was[max(k, ^k)] {
				if w /= coefficient * float64(len(list)); k < 0 {
					w = -w
				}
				if u[i] += w; len(list) == 1 {
					u[i] = w // even -0
				}
			}
		}
		e.u = append(e.u, u)
	}
	e.event.df, e.event.dv = make([]float64, len(from)), make([]float64, len(from))
	e.groupNoise.reset()
	return coefficient
}

// leastCoefficient is the smallest coefficient of the base score by which Regroup divides.
const leastCoefficient = 0.1

// Forget multiplies A by keep. The weights do not change, but later steps are larger.
func (e *Expert) Forget(keep float64) {
	for i := range e.p.n {
		d := &e.p.column(i)[i]
		*d = min(*d/keep, max(*d, 1/e.set.Ridge))
	}
}

// State encodes or decodes the state. The reader of the state must have the same settings and outputs.
func (e *Expert) State(c *coder.Coder) {
	columns := e.columns
	if c.Uint32s(&columns); c.Decode {
		if len(columns) > experts.MostColumns || !slices.IsSorted(columns) || len(slices.Compact(slices.Clone(columns))) != len(columns) {
			c.Failed = true
			return
		}
		e.begin(e.outputs)
		e.follow(columns)
	}
	c.Uint(&e.met)
	lists := []*[]float64{&e.p.data, &e.noise}
	for i := range e.u {
		lists = append(lists, &e.u[i])
	}
	for _, list := range lists {
		n := len(*list)
		c.Floats(list)
		c.Failed = c.Failed || len(*list) != n
	}
	if e.set.Groups > 0 {
		e.groupNoise.state(c, e.p.n, e.outputs)
	}
	if !c.Decode {
		return
	}
	if c.Failed {
		e.begin(e.outputs)
	}
	for j := range e.p.n {
		c.Failed = c.Failed || !(e.p.column(j)[j] > 0)
	}
}
