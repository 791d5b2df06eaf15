package refresh

// This file decides whether refreshes take effect. If a stream drifts, the solution of a window is worse than the
// optimizer's weights, which follow the stream.

import (
	"slices"

	"blankout/internal/coder"
	"blankout/online/rows"
)

// trial compares refreshed weights with the optimizer's weights, on the events that follow each refresh. The list of
// levels contains each noise level twice. The copies in the first half are never refreshed; those in the second half are.
// If refreshes are not trusted for a level and output, the weights in the second half equal those in the first half. Then
// a row stores the refreshed weights minus these weights. This difference is used only for the comparison. The index j
// counts the pairs of a level of the first half and an output.
type trial struct {
	// gain has the loss without noise of the refreshed weights minus that of the optimizer's weights, over the events
	// since the refresh. trust is a decayed sum of gain over earlier refreshes. If it is negative, refreshes are trusted.
	gain, trust []float64
	columns     []uint32  // columns with a difference
	scores      []float64 // scratch
}

const (
	// trustDecay is the factor by which the evidence of earlier refreshes decays at each refresh.
	trustDecay = 0.5
	// firstTrust is the initial value of trust, in nats: refreshes take effect until a comparison is lost.
	firstTrust = -1
)

// half returns the number of values by level and output in the first half of the levels.
func (r *Refresh) half() int { return r.N / 2 }

// SetLayout sets the layout of the rows. The comparison starts again.
func (r *Refresh) SetLayout(l rows.Layout) {
	r.Layout = l
	if r.Pairs {
		r.trial.gain, r.trial.trust = make([]float64, r.half()), slices.Repeat([]float64{firstTrust}, r.half())
	}
}

// difference returns by j the refreshed weights minus the weights of the second half, while refreshes are not trusted.
func (r *Refresh) difference(row []float64) []float64 {
	return r.Part(row, r.Layout.Refresh+r.Parts()-1)[r.half():]
}

// Judge adds a labeled event to the comparison, before the optimizer learns it. The event has the features x in rows
// of, whose last is the row of the intercepts. scores holds the scores by level and output, and target holds y by
// output, of which active are in use.
func (r *Refresh) Judge(of [][]float64, x, scores, target []float64, active int, weight float64) {
	if !r.Pairs || len(r.trial.columns) == 0 {
		return
	}
	t := &r.trial
	refreshed := append(t.scores[:0], scores[r.half():]...)
	for i, row := range of {
		for j, d := range r.difference(row) {
			refreshed[j] += d * x[i]
		}
	}
	t.scores = refreshed
	for j, f := range refreshed {
		if k := j % r.Outputs; k < active {
			with, _, _ := r.Loss.At(target[k], f, 0)
			without, _, _ := r.Loss.At(target[k], scores[j], 0)
			t.gain[j] += weight * (with - without)
		}
	}
}

// settle ends the comparison of the latest refresh and updates the weights of the second half.
func (r *Refresh) settle(w *Weights) {
	t := &r.trial
	var enters, leaves []int // values of j whose refreshes are trusted from now on, or are no longer trusted
	for j, gain := range t.gain {
		trusted := t.trust[j] < 0
		switch t.trust[j] = trustDecay*t.trust[j] + gain; {
		case t.trust[j] < 0 && !trusted:
			enters = append(enters, j)
		case t.trust[j] >= 0 && trusted:
			leaves = append(leaves, j)
		}
	}
	clear(t.gain)
	take := func(row []float64) {
		for _, j := range enters {
			r.move(row, r.half()+j, r.difference(row)[j], w.Levels[(r.half()+j)/r.Outputs].Inverse)
		}
		clear(r.difference(row))
	}
	for _, c := range t.columns {
		take(w.Model.Rows.Touch(c))
	}
	take(w.Bias)
	t.columns = t.columns[:0]
	if leaves == nil {
		return
	}
	back := func(row []float64) {
		for part := range r.Layout.Refresh {
			values := r.Part(row, part)
			for _, j := range leaves {
				values[r.half()+j] = values[j]
			}
		}
	}
	for slot := range w.Model.Rows.Len() {
		column, _ := w.Model.Rows.Column(slot)
		back(w.Model.Rows.Touch(column))
	}
	back(w.Bias)
}

// take makes the solution found for index j of a row take effect: now, or, while refreshes are not trusted, as a
// difference that is compared.
func (r *Refresh) take(row []float64, j int, found, inverse float64) {
	delta := found - r.Weights(row)[j]
	if i := j - r.half(); r.Pairs && r.trial.trust[i] >= 0 {
		r.difference(row)[i] = delta
		return
	}
	r.move(row, j, delta, inverse)
}

// move adds delta to the weight at j of a row. The average does not change.
func (r *Refresh) move(row []float64, j int, delta, inverse float64) {
	r.Weights(row)[j] += delta
	r.Lags(row)[j] -= delta * inverse
}

func (t *trial) state(c *coder.Coder) {
	c.Floats(&t.gain, &t.trust)
	c.Uint32s(&t.columns)
}
