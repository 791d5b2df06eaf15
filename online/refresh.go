package online

// This file solves a window of the latest events exactly.

import (
	"context"
	"slices"

	"blankout"
	"blankout/batch"
	"blankout/internal/coder"
	"blankout/internal/failpoint"
	"blankout/loss"
	"blankout/model"
)

// refresh solves the latest events exactly against a quadratic summary of
// everything before them: every size events the iterate becomes
//
//	argmin sum_{n in window} loss_n(w) + 1/2 (w - c)' D (w - c),
//	D = R + sum_{before the window} 2 dv (x^2 + Var[x~]),
//
// R being the ridge of the objective. It is the proximal step of dropout descent
// with the loss kept exact instead of linearised (docs/mathematics.md). D's sums
// are a further value of a row for each level and output, after the rule's own.
// Only columns that occur in the window take part.
//
// The window is the size events since the last refresh, and c then the iterate; or
// it slides: it holds the latest reach events, a multiple of size, of which the
// oldest leave it after every refresh. They are expanded to second order at
// the solution w, with h the sums they add to D and g their gradient,
//
//	c <- (D c + h w - g)/(D + h),  D <- D + h,
//
// by coordinate; c is one more value of a row. If all leave at once that is c = w.
type refresh struct {
	size     int // 0: none
	reach    int // of the window, at least size
	window   window
	failures uint64 // refreshes that found no solution and changed nothing
}

func (r *refresh) sliding() bool { return r.reach > r.size }

// window holds events as they came, before the Scaler.
type window struct {
	ends    []uint32 // of the events' features in column and value
	column  []uint32
	value   []float64
	labels  []uint32
	weights []float64
}

func (w *window) add(e *blankout.Example, weight float64) {
	w.column = append(w.column, e.Features.Index...)
	w.value = append(w.value, e.Features.Value...)
	w.ends = append(w.ends, uint32(len(w.column)))
	w.labels = append(w.labels, uint32(e.Label))
	w.weights = append(w.weights, weight)
}

// drop takes away the n oldest events.
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

// solvable says whether a refresh knows what to do with a loss: it is convex, or
// t-logistic, whose theta-steps are.
func solvable(l loss.Loss) bool {
	if _, ok := l.(loss.TLogistic); ok {
		return true
	}
	return l.Facts().Convex
}

// centreOf returns the c of a row, the iterate where the window does not slide.
func (l *bank) centreOf(row []float64) []float64 {
	if !l.refresh.sliding() {
		return l.weights(row)
	}
	return l.layout.Centre(row)
}

// collect takes the event at hand into the window and refreshes when that is due.
func (l *bank) collect(e *blankout.Example, weight float64) {
	if l.refresh.size == 0 || weight == 0 {
		return
	}
	w := &l.refresh.window
	w.add(e, weight)
	// After a refresh the window holds a multiple of size.
	if len(w.ends)%l.refresh.size != 0 {
		return
	}
	leaving := max(0, len(w.ends)-(l.refresh.reach-l.refresh.size))
	l.solveWindow(leaving)
	w.drop(leaving)
}

// solveWindow refreshes; the first leaving events are about to leave the window.
func (l *bank) solveWindow(leaving int) {
	w := &l.refresh.window
	m := l.standardiser()
	var b batch.Builder
	var vec blankout.Vec
	start := uint32(0)
	for _, end := range w.ends {
		e := blankout.Example{Features: blankout.Vec{Index: w.column[start:end], Value: w.value[start:end]}, Weight: 1}
		vec = m.Standardised(&e, blankout.Vec{Index: vec.Index[:0], Value: vec.Value[:0]})
		e.Features = vec
		if err := b.Add(&e); err != nil {
			panic(err) // Learn has checked it
		}
		start = end
	}
	d := b.Data(l.schema)
	rows := make([][]float64, d.Columns(), d.Columns()+1)
	for c := range rows {
		rows[c] = l.table.Touch(d.Column(c))
	}
	if l.set.intercept {
		rows = append(rows, l.bias)
	}
	y := make([]float64, len(w.labels))
	for v := range l.levels {
		for k := range l.active {
			for i, label := range w.labels {
				y[i] = target(int(label), k, l.k)
			}
			l.solveOutput(v, v*l.k+k, d, y, rows, leaving)
		}
	}
}

// solveOutput refreshes index j of the rows, which are those of the data's
// columns and of the intercept.
func (l *bank) solveOutput(v, j int, d *batch.Data, y []float64, rows [][]float64, leaving int) {
	lv := &l.levels[v]
	if failpoint.Here("learn.refresh") != nil {
		l.refresh.failures++
		return
	}
	p := batch.Problem{Data: d, Y: y, Weight: l.refresh.window.weights, Loss: l.set.loss, Noise: lv.noise, Kappa: 1, Intercept: batch.NoIntercept, Threads: 1}
	if !l.config.Marginalised {
		p.Noise = loss.NoNoise{}
	}
	if l.set.intercept {
		p.Intercept = batch.PenalisedIntercept
	}
	centre, metric := make([]float64, len(rows)), make([]float64, len(rows))
	for c, row := range rows {
		centre[c] = l.centreOf(row)[j]
		metric[c] = l.layout.Curvature(row)[j]/l.fade.Growth + l.set.ridge
	}
	if l.set.intercept && l.config.Intercept != "penalised" {
		// The intercept gets a small penalty, for a window of one class would send it to infinity.
		metric[len(rows)-1] = max(l.layout.Curvature(l.bias)[j]/l.fade.Growth, 0.01)
	}
	p.Penalty = batch.Penalty{R: metric, Centre: centre}

	found := make([]float64, len(rows))
	for c, row := range rows {
		found[c] = l.weights(row)[j]
	}
	steps := 1
	robust, isRobust := l.set.loss.(loss.TLogistic)
	if isRobust {
		// Theta-steps: the convex part with every event weighted by its influence.
		p.Loss, steps = robust.Theta(), 3
		p.Weight = slices.Clone(p.Weight)
	}
	for range steps {
		if isRobust {
			l.eachOf(d, lv, found, func(i int, f, variance float64) {
				p.Weight[i] = l.refresh.window.weights[i] * robust.Influence(y[i], f, variance)
			})
		}
		o, err := batch.NewExpected(p)
		if err != nil {
			panic(err) // New has checked the settings
		}
		// A gap of so little is some 1e-6 in the weights.
		r, err := batch.Solve(context.Background(), o, batch.Options{Solver: batch.Newton, Dual: true, Tol: 1e-12, MaxIterations: 50, Start: found})
		if err != nil || slices.ContainsFunc(r.W, func(w float64) bool { return w-w != 0 }) {
			l.refresh.failures++
			return
		}
		found = r.W
	}

	for c, row := range rows {
		delta := found[c] - l.weights(row)[j]
		l.weights(row)[j] = found[c]
		l.lags(row)[j] -= delta * lv.Inverse
	}
	_, c1, c2 := p.Noise.Coefficients()
	curvature, gradient := make([]float64, len(rows)), make([]float64, len(rows))
	l.eachOf(d, lv, found, func(i int, f, variance float64) {
		if i >= leaving {
			return
		}
		weight := l.refresh.window.weights[i]
		_, df, shrink := l.set.loss.At(y[i], f, variance)
		_, _, dv := l.set.loss.At(y[i], f, max(variance, refreshVariance))
		h := 2 * dv * weight
		df, shrink = df*weight, 2*shrink*weight
		row := d.Row(i)
		for n, c := range row.Index {
			x := row.At(n)
			noise := c1*x + c2*x*x
			curvature[c] += h * (x*x + noise)
			gradient[c] += df * x
			if noise != 0 {
				gradient[c] += shrink * noise * found[c]
			}
		}
		if l.set.intercept {
			curvature[len(rows)-1] += h
			gradient[len(rows)-1] += df
		}
	})
	for c, row := range rows {
		h := curvature[c]
		if l.refresh.sliding() && h > 0 {
			l.centreOf(row)[j] = (metric[c]*centre[c] + h*found[c] - gradient[c]) / (metric[c] + h)
		}
		l.layout.Curvature(row)[j] += h * l.fade.Growth
	}
}

// refreshVariance is what the metric takes the variance of a score to be at
// least: without noise the hinge has no curvature that could be summed.
const refreshVariance = 0.01

// eachOf calls f with the score of every event and its variance under weights.
func (l *bank) eachOf(d *batch.Data, lv *level, weights []float64, f func(i int, score, variance float64)) {
	_, c1, c2 := lv.noise.Coefficients()
	if !l.config.Marginalised {
		c1, c2 = 0, 0
	}
	for i := range d.Rows() {
		score, variance := 0.0, 0.0
		row := d.Row(i)
		for n, c := range row.Index {
			x := row.At(n)
			score += weights[c] * x
			variance += weights[c] * weights[c] * (c1*x + c2*x*x)
		}
		if l.set.intercept {
			score += weights[d.Columns()]
		}
		f(i, score, variance)
	}
}

func (w *window) state(c *coder.Coder) {
	c.Uint32s(&w.ends)
	c.Uint32s(&w.column)
	c.Floats(&w.value)
	c.Uint32s(&w.labels)
	c.Floats(&w.weights)
}

// consistent says whether the lists that were read fit each other.
func (w *window) consistent() bool {
	n := len(w.ends)
	return n == len(w.labels) && n == len(w.weights) && len(w.column) == len(w.value) && slices.IsSorted(w.ends) &&
		(n == 0 || int(w.ends[n-1]) == len(w.column))
}

// standardiser returns a model without weights, which standardises events as they are learned.
func (l *bank) standardiser() *model.Linear {
	return &model.Linear{Head: model.Head{Schema: l.schema, Scaler: l.scaling.Scaler, Layout: model.Layout{Width: l.table.Width()}}, Rows: l.table}
}
