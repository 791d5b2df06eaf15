package newton

// This file follows what changes around an expert: columns, their scales, the unit of targets,
// the classes; and holds its state.

import (
	"math"
	"slices"

	"blankout/internal/coder"
)

// Follow makes the columns those of the expert, at most MostColumns: new ones begin at 0, those
// that are not among them any more are left out.
func (e *Expert) Follow(columns []uint32) {
	wanted := slices.Compact(slices.Sorted(slices.Values(columns)))
	for i := len(e.columns) - 1; i >= 0; i-- {
		if _, stays := slices.BinarySearch(wanted, e.columns[i]); !stays {
			e.deaths.reset()
			e.remove(e.first + i)
			e.columns = slices.Delete(e.columns, i, i+1)
		}
	}
	for i, column := range wanted {
		if i == len(e.columns) || e.columns[i] != column {
			e.deaths.reset()
			e.columns = slices.Insert(e.columns, i, column)
			e.insert(e.first + i)
		}
	}
}

// certain is how many times the variance of a weight that is 0 for sure falls.
const certain = 1e12

// remove takes variable i out of z: A loses a row and a column. The other weights stay as they are;
// what they would have to be for the events so far may be far from what the next ones allow.
func (e *Expert) remove(i int) {
	ev := e.event
	ev.room(e.p.n)
	ev.full[i] = 1
	e.p.update(certain/e.p.leverage(ev.full, i), ev.gain)
	e.p, e.noise = e.p.without(i), slices.Delete(e.noise, i, i+1)
	for k := range e.u {
		e.u[k] = slices.Delete(e.u[k], i, i+1)
	}
}

// place returns the index of a column in z, -1 for one that is not followed.
func (e *Expert) place(column uint32) int {
	if i, known := slices.BinarySearch(e.columns, column); known {
		return e.first + i
	}
	return -1
}

// Move says that a column's values x are (x - shift)/ratio from here on. No score changes, unless
// that would extrapolate too far: where the intercept, or the score of a value 1, would change by more
// than mostMove the weight and what is known of it stay as they are, of the column in its new unit.
func (e *Expert) Move(column uint32, ratio, shift float64) {
	i := e.place(column)
	if i < 0 {
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
	e.deaths.scale(i, ratio)
	for _, u := range e.u {
		u[0] += shift * u[i]
		u[i] *= ratio
	}
}

// mostMove is small: weights follow few events closely where these allow it, and scales move most
// among the first.
const mostMove = 0.1

// Renew says that a column's values have another meaning from here on: what is known of it is
// forgotten.
func (e *Expert) Renew(column uint32) {
	if i := e.place(column); i >= 0 {
		e.deaths.reset()
		e.remove(i)
		e.insert(i)
	}
}

// Rescale says that targets y and all scores, those of the base learner and those at hand
// included, are factor y + shift from here on. It is for one output.
func (e *Expert) Rescale(factor, shift float64) {
	e.p.scale(1, 1/factor, -shift/factor)
	e.deaths.rescale(factor)
	for k, u := range e.u {
		for i := range u {
			if i != 1 {
				u[i] *= factor
			}
		}
		u[0] -= u[1] * shift
		e.event.scores[k] = factor*e.event.scores[k] + shift
	}
	if len(e.event.z) > 1 {
		e.event.z[1] = factor*e.event.z[1] + shift
	}
}

// Widen gives the expert so many outputs. Where one has decided between two classes it becomes
// that of the second, and its negation that of the first. The base's coefficient is then 1: the scores
// are to be multiplied by what is returned, which it was.
func (e *Expert) Widen(outputs int) (coefficient float64) {
	single := e.first == 2 && outputs > 1
	coefficient = 1
	if single {
		if c := e.Weights(0).Base; c >= leastCoefficient {
			coefficient = c
		}
		e.remove(1)
		e.first = 1
	}
	e.outputs = outputs
	for len(e.u) < outputs {
		e.u = append(e.u, make([]float64, e.p.n))
	}
	if single {
		for i, u := range e.u[0] {
			u /= coefficient
			e.u[0][i], e.u[1][i] = -u, u
		}
	}
	e.event = newEvent(outputs)
	e.deaths.reset()
	return coefficient
}

// Regroup gives an expert of several outputs as many as there are lists: each begins as the mean of those former ones.
func (e *Expert) Regroup(from [][]int) {
	was := e.u
	e.outputs, e.u = len(from), nil
	for _, list := range from {
		u := slices.Clone(was[list[0]])
		for i := range u {
			if len(list) == 1 {
				break
			}
			u[i] = 0
			for _, k := range list {
				u[i] += was[k][i] / float64(len(list))
			}
		}
		e.u = append(e.u, u)
	}
	e.event = newEvent(len(from))
	e.deaths.reset()
}

// leastCoefficient is the least that another is divided by.
const leastCoefficient = 0.1

// Set makes w the weight of a column for output k, as after Restart.
func (e *Expert) Set(column uint32, k int, w float64) {
	if i := e.place(column); i >= 0 {
		e.u[k][i] = w
	}
}

// Forget leaves a share of what is known: the weights stay, and move faster from here on.
func (e *Expert) Forget(keep float64) {
	for i := range e.p.n {
		d := &e.p.column(i)[i]
		*d = min(*d/keep, max(*d, 1/e.set.Ridge))
	}
}

// State walks the state. It is read by an Expert of the same settings and outputs.
func (e *Expert) State(c *coder.Coder) {
	columns := e.columns
	if c.Uint32s(&columns); c.Decode {
		if len(columns) > MostColumns || !slices.IsSorted(columns) || len(slices.Compact(slices.Clone(columns))) != len(columns) {
			c.Failed = true
			return
		}
		e.begin(e.outputs)
		e.Follow(columns)
	}
	c.Uint(&e.met)
	for _, list := range append([]*[]float64{&e.p.data, &e.noise}, pointers(e.u)...) {
		n := len(*list)
		c.Floats(list)
		c.Failed = c.Failed || len(*list) != n
	}
	if e.set.Groups > 0 {
		e.deaths.state(c, e.p.n, e.outputs)
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

func pointers(lists [][]float64) (out []*[]float64) {
	for i := range lists {
		out = append(out, &lists[i])
	}
	return out
}
