package batch

// This file computes the exact expectation over all masks of dropout, by enumerating them.

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"blankout/internal/loss"
)

// ExactBound is the Bound of the exact expectation over all masks of dropout.
const ExactBound = "exact"

const (
	// mostMasked is the largest number of features of an event: n features have 2^n masks.
	mostMasked = 16
	// mostMasks is the largest number of entries of all events under all masks. An entry takes 12 bytes.
	mostMasks = 1 << 25
)

// everyMask returns each event of d under every mask of dropout with rate q, with survivors divided by 1-q. The result
// of has the index of the row in d for each returned row. The result weights has the weight of that row times the
// probability of the mask. The argument weight replaces the weights of d unless it is nil. Events with weight 0 are
// left out.
func (d *Data) everyMask(q float64, weight []float64) (masked *Data, of []int, weights []float64, err error) {
	out := *d
	out.rows, out.chunks, out.labels, out.targets, out.weights, out.entries = nil, nil, nil, nil, nil, 0
	out.splines = nil // spline columns have already been removed with their number
	var unit []int
	total := 0 // expected number of entries so far
	for i := range d.Rows() {
		w := d.importance(weight, i)
		if w == 0 {
			continue
		}
		row, n := d.Row(i), 0
		if unit, n = d.unitsOf(row, unit); n > mostMasked {
			return nil, nil, nil, fmt.Errorf("bound exact: example %d has %d features, and its expectation is a sum over 2^%d masks: it is for events of at most %d", i, n, n, mostMasked)
		}
		if total += row.Len() << n / 2; total > mostMasks {
			return nil, nil, nil, fmt.Errorf("bound exact: the masks of the first %d examples have over %d entries: it is for fewer or smaller events", i+1, mostMasks)
		}
		c := &chunk{}
		for mask := range 1 << n {
			alive := bits.OnesCount(uint(mask))
			p := math.Pow(1-q, float64(alive)) * math.Pow(q, float64(n-alive))
			if p == 0 { // p is 0 without dropout
				continue
			}
			from := len(c.index)
			for j, u := range unit {
				if u >= 0 && mask>>u&1 == 1 {
					c.index, c.f64 = append(c.index, row.Index[j]), append(c.f64, row.At(j)/(1-q))
				}
			}
			out.rows = append(out.rows, rowRef{uint32(len(out.chunks)), uint32(from), uint32(len(c.index) - from)})
			out.labels, of, weights = append(out.labels, d.labels[i]), append(of, i), append(weights, w*p)
			if d.targets != nil {
				out.targets = append(out.targets, d.targets[i])
			}
		}
		if c.f64 == nil {
			c.f64 = []float64{}
		}
		out.entries += len(c.index)
		out.chunks = append(out.chunks, c)
	}
	out.weights = slices.Clone(weights)
	return &out, of, weights, nil
}

// unitsOf numbers the units among the entries of a row. Dropout removes a unit as a whole. A unit is a number with its
// spline columns, or any other entry alone. An entry whose value is 0 has unit -1. The result n is the number of units.
// The result units has the unit of each entry and uses the memory of out.
func (d *Data) unitsOf(row Row, out []int) (units []int, n int) {
	out = out[:0]
	first := map[uint32]int{}
	for j, c := range row.Index {
		if row.At(j) == 0 {
			out = append(out, -1)
			continue
		}
		source := d.splines.Source(d.columns[c])
		u, ok := first[source]
		if !ok {
			u, n = n, n+1
			first[source] = u
		}
		out = append(out, u)
	}
	return out, n
}

// exactRate returns the dropout rate of a noise whose masks can be enumerated.
func exactRate(noise loss.Noise) (q float64, err error) {
	switch n := noise.(type) {
	case loss.NoNoise:
		return 0, nil
	case loss.Dropout:
		return n.Q, nil
	}
	return 0, fmt.Errorf("bound exact: needs dropout, not noise %v: use --bound gaussian", noise)
}

// exactObjective returns the objective of c with the exact expectation of a loss.
func (c Config) exactObjective(d *Data, b Subproblem, l loss.Loss, q float64) (Objective, error) {
	masked, of, weights, err := d.everyMask(q, b.Weight)
	if err != nil {
		return nil, err
	}
	y := make([]float64, len(of))
	for i, row := range of {
		if y[i] = b.Y[row]; math.IsNaN(y[i]) && c.Alpha > 0 {
			return nil, fmt.Errorf("example %d: %w", row, ErrUnlabeled)
		}
	}
	b.Y, b.Weight, c.Alpha = y, weights, 0
	return NewExpected(c.Problem(masked, b, l, loss.NoNoise{}))
}
