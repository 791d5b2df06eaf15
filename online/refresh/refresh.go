// Package refresh solves windows of the latest events by iteratively reweighted least squares (IRLS;
// learner.irls_batch).
package refresh

import (
	"cmp"
	"context"
	"slices"

	"blankout/batch"
	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/failpoint"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/rows"
)

// Refresh solves the latest events exactly, together with a quadratic summary of all earlier events. Every Size events
// the iterate (with Pairs, that of the levels with refreshes, see trial) becomes
//
//	argmin sum_{n in window} loss_n(w) + 1/2 (w - c)' D (w - c),
//	D = R + sum_{before the window} 2 dv (x^2 + Var[x~]),
//
// where R is the ridge of the objective. This is the proximal step of dropout descent with the exact loss instead of
// its linearization (docs/mathematics.md). A row stores the sums of D as one more value for each level and output,
// after the values of the optimizer. Only columns that occur in the window change. Under silent noise an event counts
// once for each rate, see batch.Expected. Its terms of D also count once for each rate.
//
// By default the window is the Size events since the last refresh, and c is the iterate. A sliding window has the
// latest Reach events, a multiple of Size, of which the oldest leave after every refresh. The leaving events are
// expanded to second order at the solution w. Let h be their terms of D, and g their gradient. Then
//
//	c <- (D c + h w - g)/(D + h),  D <- D + h,
//
// by coordinate; a row stores c as one more value. If all events leave, c = w.
type Refresh struct {
	Settings
	rows.Layout
	window   window
	trial    trial
	Failures uint64 // number of refreshes without a solution, which changed nothing
}

// Settings are the settings of a Refresh. The caller must also call SetLayout.
type Settings struct {
	Size         int // number of events between refreshes; 0 disables them
	Reach        int // length of the window, at least Size
	Loss         loss.Loss
	Ridge        float64 // ridge h0
	Intercept    bool    // whether there is an intercept
	Penalized    bool    // whether the ridge applies to the intercept
	Marginalized bool    // the loss is the expected loss under the noise
	Only         bool    // there is no other optimizer
	Pairs        bool    // each noise level is learned twice, see trial; otherwise every refresh takes effect
}

func (s *Settings) sliding() bool { return s.Reach > s.Size }

// Parts returns the number of values that the refresh needs in a row per noise level and output: one for D, and one
// each for c and for the differences (see trial), if these exist.
func (s *Settings) Parts() (parts int) {
	if s.Size == 0 {
		return 0
	}
	parts = 1
	if s.sliding() {
		parts++
	}
	if s.Pairs {
		parts++
	}
	return parts
}

// CenterOf returns the center c of a row. If the window does not slide, c is the iterate.
func (r *Refresh) CenterOf(row []float64) []float64 {
	if !r.sliding() {
		return r.Weights(row)
	}
	return r.Center(row)
}

// Rescale adapts D, c and the differences (see trial) of the weights at from <= j < to of a row to a change of the
// feature's scale by ratio.
func (r *Refresh) Rescale(row []float64, from, to int, ratio float64) {
	for part := range r.Parts() {
		values := r.Part(row, r.Layout.Refresh+part)[from:to]
		for k := range values {
			if part == 0 { // D
				values[k] /= ratio * ratio
			} else {
				values[k] *= ratio
			}
		}
	}
}

// Shifted adapts c and the differences of the intercepts at from <= j < to. It must be called after shift times the
// weights of row have been added to these intercepts.
func (r *Refresh) Shifted(intercepts, row []float64, from, to int, shift float64) {
	for part := r.Layout.Refresh + 1; part < r.Layout.Refresh+r.Parts(); part++ {
		of, values := r.Part(row, part), r.Part(intercepts, part)
		for j := from; j < to; j++ {
			values[j] += of[j] * shift
		}
	}
}

// Forget multiplies D by keep.
func (r *Refresh) Forget(row []float64, keep float64) {
	if r.Size == 0 {
		return
	}
	d := r.Curvature(row)
	for j := range d {
		d[j] *= keep
	}
}

// window holds events in raw form, before standardization.
type window struct {
	ends    []uint32 // end of each event's features in the lists column and value
	column  []uint32
	value   []float64
	labels  []uint32
	weights []float64
}

func (w *window) add(e *event.Example, weight float64) {
	w.column = append(w.column, e.Features.Index...)
	w.value = append(w.value, e.Features.Value...)
	w.ends = append(w.ends, uint32(len(w.column)))
	w.labels = append(w.labels, uint32(e.Label))
	w.weights = append(w.weights, weight)
}

// drop removes the n oldest events.
func (w *window) drop(n int) {
	if n == 0 {
		return
	}
	gone := w.ends[n-1]
	w.column, w.value = slices.Delete(w.column, 0, int(gone)), slices.Delete(w.value, 0, int(gone))
	w.labels, w.weights = slices.Delete(w.labels, 0, n), slices.Delete(w.weights, 0, n)
	w.ends = slices.Delete(w.ends, 0, n)
	for i := range w.ends {
		w.ends[i] -= gone
	}
}

// Solvable reports whether a refresh supports a loss. The loss must be convex, t-logistic or have the quadratic noising
// penalty. The t-logistic loss is solved by convex steps (theta-steps), and the penalty is held at the current weights.
func Solvable(l loss.Loss) bool {
	switch l.(type) {
	case loss.TLogistic, loss.LogisticQuadratic:
		return true
	}
	return l.Facts().Convex
}

// Weights are the weights that a refresh changes. They are in rows with the given Layout.
type Weights struct {
	Model        *model.Linear // standardizes events like the learner, and has the rows of the columns
	Bias         []float64     // row of the intercepts
	Levels       []Level
	Active       int                 // number of outputs in use
	Output       func(class int) int // returns the output of a class
	InverseDecay float64             // factor of new terms of D
	// Dead returns the standardized value of a column when silently missing, for silent noise. If Dead is nil, the
	// value is 0.
	Dead func(column uint32) float64
}

// Level is a noise level.
type Level struct {
	Noise   loss.Noise
	Inverse float64 // as in rows.Step
}

// Add adds a learned event to the window. due reports whether Solve must be called.
func (r *Refresh) Add(e *event.Example, weight float64) (due bool) {
	if r.Size == 0 || weight == 0 {
		return false
	}
	r.window.add(e, weight)
	// The number of events in the window is a multiple of Size after each refresh.
	return len(r.window.ends)%r.Size == 0
}

// Solve solves the window and updates the weights.
func (r *Refresh) Solve(w Weights) {
	first := 0 // first level that is refreshed
	if r.Pairs {
		r.settle(&w)
		first = len(w.Levels) / 2
	}
	leaving := max(0, len(r.window.ends)-(r.Reach-r.Size)) // number of events that leave the window
	var vec event.Vec
	start := uint32(0)
	var b batch.Builder
	for _, end := range r.window.ends {
		e := event.Example{Features: event.Vec{Index: r.window.column[start:end], Value: r.window.value[start:end]}, Weight: 1}
		vec = w.Model.Standardized(&e, event.Vec{Index: vec.Index[:0], Value: vec.Value[:0]})
		e.Features = model.WithoutBasisColumns(vec) // the second-order expert learns splines, and the optimizer presence columns
		if err := b.Add(&e); err != nil {
			panic(err) // impossible, because the caller has checked the events
		}
		start = end
	}
	d := b.Data(w.Model.Schema)
	if w.Dead != nil {
		d.SetDead(w.Dead)
	}
	var list [][]float64
	for c := range d.Columns() {
		column := d.Column(c)
		list = append(list, w.Model.Rows.Touch(column))
		if r.Pairs {
			r.trial.columns = append(r.trial.columns, column)
		}
	}
	if r.Intercept {
		list = append(list, w.Bias)
	}
	y := make([]float64, len(r.window.labels))
	for v := first; v < len(w.Levels); v++ {
		for k := range w.Active {
			for i, label := range r.window.labels {
				y[i] = rows.Y(w.Output(int(label)), k, r.Outputs)
			}
			r.solveOutput(&w, &w.Levels[v], v*r.Outputs+k, d, y, list, leaving)
		}
	}
	r.window.drop(leaving)
}

// solveOutput solves the window for index j (a noise level and output). It updates the values at j of rows, the rows of
// the columns of d and of the intercept.
func (r *Refresh) solveOutput(w *Weights, lv *Level, j int, d *batch.Data, y []float64, rows [][]float64, leaving int) {
	before, found := r.penalty(w, j, rows)
	p := batch.Problem{Data: d, Y: y, Weight: r.window.weights, Loss: r.Loss, Noise: lv.Noise, Kappa: 1, Intercept: batch.NoIntercept, Penalty: before, Threads: 1}
	if !r.Marginalized && !r.holds() {
		p.Noise = loss.NoNoise{}
	}
	if r.Intercept {
		p.Intercept = batch.PenalizedIntercept
	}
	steps := 1
	robust, isRobust := r.Loss.(loss.TLogistic)
	if isRobust {
		// Theta-steps minimize the convex part of the loss, with each event weighted by its influence.
		p.Loss, steps = robust.Theta(), 3
	}
	noisy := expected(p)
	o, weights := noisy, noisy.Weights()
	var held []float64 // by view, see hold
	if r.holds() {
		o, held = r.hold(p, noisy, found)
	}
	for range steps {
		if isRobust {
			m := slices.Clone(weights)
			eachView(noisy, d, d.Rows(), found, func(i, n, _ int, f, variance float64) { m[i] *= robust.Influence(y[n], f, variance) })
			o.Weigh(m)
		}
		// This tolerance corresponds to about 1e-6 in the weights.
		solution, err := batch.Solve(context.Background(), o, batch.Options{Solver: batch.Newton, Dual: true, Tol: 1e-12, MaxIterations: 50, Start: found})
		if err = cmp.Or(err, failpoint.Here("learn.refresh")); err != nil || slices.ContainsFunc(solution.W, func(x float64) bool { return x-x != 0 }) {
			r.Failures++
			return
		}
		found = solution.W
	}

	curvature, gradient := make([]float64, len(rows)), make([]float64, len(rows))
	eachView(noisy, d, leaving, found, func(i, n, view int, f, variance float64) {
		_, df, shrink := r.Loss.At(y[n], f, variance)
		_, _, dv := r.Loss.At(y[n], f, max(variance, LeastVariance))
		if held != nil {
			_, df, _ = loss.LogisticGaussian{}.At(y[n], f, 0)
			shrink, dv = held[i]/2, held[i]/2
		}
		h := 2 * dv * weights[i]
		df, shrink = df*weights[i], 2*shrink*weights[i]
		row := d.Row(n)
		for at, c := range row.Index {
			x, noise := noisy.AtView(view, row.At(at), c)
			curvature[c] += h * (x*x + noise)
			gradient[c] += df * x
			if noise != 0 {
				gradient[c] += shrink * noise * found[c]
			}
		}
		if r.Intercept {
			curvature[len(rows)-1] += h
			gradient[len(rows)-1] += df
		}
	})
	for c, row := range rows {
		h, d := curvature[c], r.Curvature(row)
		if r.Only && d[j] == 0 {
			r.Weights(row)[j] = found[c] // if the column was never refreshed, its old value is no evidence, and the average moves with the iterate
		} else {
			r.take(row, j, found[c], lv.Inverse)
		}
		if metric := before.R[c]; r.sliding() && h > 0 {
			r.Center(row)[j] = (metric*before.Center[c] + h*found[c] - gradient[c]) / (metric + h)
		}
		d[j] += h * w.InverseDecay
	}
}

// expected returns the objective of a problem.
func expected(p batch.Problem) *batch.Expected {
	o, err := batch.NewExpected(p)
	if err != nil {
		panic(err) // impossible, because New has checked the settings
	}
	return o
}

// penalty returns the quadratic summary of the events before the window, for index j of rows, and the weights.
func (r *Refresh) penalty(w *Weights, j int, rows [][]float64) (p batch.Penalty, weights []float64) {
	for _, row := range rows {
		p.Center = append(p.Center, r.CenterOf(row)[j])
		p.R = append(p.R, r.Curvature(row)[j]/w.InverseDecay+r.Ridge)
		weights = append(weights, r.Weights(row)[j])
	}
	if r.Intercept && !r.Penalized {
		// The intercept gets a small penalty, because a window with a single class would make it infinite.
		p.R[len(rows)-1] = max(r.Curvature(w.Bias)[j]/w.InverseDecay, 0.01)
	}
	return p, weights
}

// holds reports whether the loss has the quadratic noising penalty, which a refresh holds at the current weights.
func (r *Refresh) holds() bool { return r.Loss == loss.Loss(loss.LogisticQuadratic{}) }

// hold returns the objective of p with the logistic loss without noise plus the quadratic noising penalty, whose factors
// A2(f), the second derivatives of the log-partition, are held at the given weights:
//
//	R_q(w; weights) = 1/2 sum_n A2(f_n(weights)) v_n(w).
//
// This is a convex quadratic in w, although R_q(w) is not convex (Wager, Wang and Liang 2013, eq. 17). noisy is the
// objective of p under the noise. hold also returns A2 by view.
func (r *Refresh) hold(p batch.Problem, noisy *batch.Expected, weights []float64) (o *batch.Expected, held []float64) {
	penalty, m := make([]float64, len(weights)), noisy.Weights()
	eachView(noisy, p.Data, p.Data.Rows(), weights, func(i, n, view int, f, variance float64) {
		_, _, dv := r.Loss.At(p.Y[n], f, variance)
		held = append(held, 2*dv)
		row := p.Data.Row(n)
		for at, c := range row.Index {
			_, noise := noisy.AtView(view, row.At(at), c)
			penalty[c] += 2 * dv * m[i] * noise
		}
	})
	metric, center := slices.Clone(p.Penalty.R), slices.Clone(p.Penalty.Center)
	for c, x := range penalty {
		if metric[c] += x; metric[c] > 0 {
			center[c] *= p.Penalty.R[c] / metric[c]
		}
	}
	p.Loss, p.Noise, p.Penalty = loss.LogisticGaussian{}, loss.NoNoise{}, batch.Penalty{R: metric, Center: center}
	return expected(p), held
}

// LeastVariance is the smallest variance of a score for computing D. The hinge loss without noise has no curvature that
// could be summed.
const LeastVariance = 0.01

// eachView calls f for each view (see batch.Expected) of the first rows of d, with the view's index in Weights, its row
// and its number, and with the score by the given weights and the variance of the score.
func eachView(o *batch.Expected, d *batch.Data, rows int, weights []float64, f func(i, n, view int, score, variance float64)) {
	for n := range rows {
		row := d.Row(n)
		for view := range o.Views() {
			score, variance := 0.0, 0.0
			for at, c := range row.Index {
				x, noise := o.AtView(view, row.At(at), c)
				score += weights[c] * x
				variance += weights[c] * weights[c] * noise
			}
			if d.Columns() < len(weights) {
				score += weights[d.Columns()]
			}
			f(n*o.Views()+view, n, view, score, variance)
		}
	}
}

// State encodes or decodes the state.
func (r *Refresh) State(c *coder.Coder) {
	r.window.state(c)
	r.trial.state(c)
	c.Uint(&r.Failures)
}

// Consistent reports whether the decoded state is consistent.
func (r *Refresh) Consistent() bool {
	n := 0
	if r.Pairs {
		n = r.half()
	}
	return r.window.consistent() && len(r.trial.gain) == n && len(r.trial.trust) == n
}

func (w *window) state(c *coder.Coder) {
	c.Uint32s(&w.ends)
	c.Uint32s(&w.column)
	c.Floats(&w.value)
	c.Uint32s(&w.labels)
	c.Floats(&w.weights)
}

// consistent reports whether the lengths of the lists in a decoded state match.
func (w *window) consistent() bool {
	n := len(w.ends)
	return n == len(w.labels) && n == len(w.weights) && len(w.column) == len(w.value) && slices.IsSorted(w.ends) &&
		(n == 0 || int(w.ends[n-1]) == len(w.column))
}
