package adagrad

// This file makes a step: all levels at once, each not further than where its loss and the distance in its
// preconditioner are least together.

import (
	"math"
	"slices"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/next/encode"
	"blankout/online/rows"
)

// eps keeps quotients finite.
const eps = 1e-8

// step is room for one step, by level and output but for raised, which is by level. It holds nothing from one event to
// the next.
type step struct {
	target, value, df, h, variance, shrink []float64
	kappa                                  []float64 // what one unit of -df moves the score by, at rate 1
	rates                                  []float64 // minus the rates, and behind them the inverse coefficients
	raised                                 []float64
	square                                 []float64 // of averages, see compare
	coefficient                            []float64
	ridge, gradients, roots                []float64 // by row
	rows                                   [][]float64
	fused                                  rows.Fused
	pairs                                  []float64 // by pair of features, level and output, see pairFactors
}

func newStep(n, levels int) step {
	// Room for whole vectors lets kernels take lists as they are.
	padded := (n + 3) &^ 3
	s := step{rates: make([]float64, n+padded), raised: make([]float64, levels)}
	for _, p := range []*[]float64{&s.target, &s.value, &s.df, &s.h, &s.variance, &s.shrink, &s.kappa, &s.square, &s.coefficient} {
		*p = make([]float64, n, padded)
	}
	s.rates = s.rates[:2*n]
	return s
}

// Update learns an event once: own is what Score wrote for it, with the weights as they are now. Target is y of each
// output. The weight multiplies gradients; it is at most 1 but for parts of very heavy events. Compares says that the
// event is one at which averages and iterates are compared, one of so many, 0 for not: by lanes, what AppendLanes wrote
// when the event came, or where that is nil as they are now.
func (e *Expert) Update(in *encode.Input, own *Scores, lanes, target []float64, weight float64, compares uint64, t *model.Table) {
	if e.silent != nil {
		e.takeSilent(in, in.Rows)
	}
	e.gradients(own, target, weight)
	if compares > 0 && e.levels[0].Compares() {
		e.compare(in, own, lanes, compares)
	}
	e.steps++
	if e.ridges(in); e.silent != nil {
		e.stepSilent(weight)
	}
	if e.growth != 1 {
		// With gradients times the root of growth the step is the same, and what is added to the sums grows by growth.
		root := math.Sqrt(e.growth)
		for _, list := range [3][]float64{e.step.df, e.step.shrink, e.step.ridge[:len(in.Rows)]} {
			for i := range list {
				list[i] *= root
			}
		}
	}
	e.pairFactors(in, own)
	switch others := e.others() * e.Outputs; {
	case e.layout.N == 1 && others == 1:
		e.stepOne(in, own, weight)
	case others > 0:
		e.stepAll(in, own, weight, others)
	}
	for v := range e.levels {
		if e.levels[v].Advance() {
			e.rebase(v, t, in.Rows[len(in.Rows)-1])
		}
	}
}

// gradients finds the derivatives of the expected losses, and the learning rates.
func (e *Expert) gradients(own *Scores, target []float64, weight float64) {
	s, k, n := &e.step, e.Outputs, e.layout.N
	iterate, lag, square := own.Iterate[:n], own.Lag[:n], own.Square[:n]
	targets, values, dfs, hs, variances, shrinks := s.target[:n], s.value[:n], s.df[:n], s.h[:n], s.variance[:n], s.shrink[:n]
	minus, inverse := s.rates[:n], s.rates[n:2*n]
	raised := false
	for v := range e.levels[:e.others()] {
		lv, corr := &e.levels[v], 0.0
		for j := v * k; j < v*k+e.active; j++ {
			y, f, variance := target[j-v*k], iterate[j], lv.strength*square[j]
			value, df, dv := e.Loss.At(y, f, variance)
			corr += df * lv.Coefficient * lag[j]
			targets[j], values[j], variances[j] = y, value, variance
			h := 2 * weight * dv
			dfs[j], hs[j], shrinks[j] = weight*df, h, h*lv.strength
		}
		lv.Adapt(corr)
		s.raised[v] = lv.Raise()
		raised = raised || s.raised[v] != 0
	}
	if e.silent != nil {
		raised = e.beginSilent(target, weight) || raised
	}
	if raised {
		loss.Exps(s.raised)
	}
	for v := range e.levels {
		lv, rate := &e.levels[v], e.rate(v)
		if raised {
			rate *= s.raised[v]
		}
		for j := v * k; j < (v+1)*k; j++ {
			minus[j], inverse[j] = rate, lv.Inverse
		}
	}
}

// ridges finds the factor of w in the ridge's gradient, by row: that of one pass spread over the events of a feature.
func (e *Expert) ridges(in *encode.Input) {
	s, n := &e.step, len(in.Rows)
	if e.ridge == 0 {
		if len(s.ridge) < n {
			s.ridge = make([]float64, 2*n)
		}
		return
	}
	s.ridge = slices.Grow(s.ridge[:0], n)[:n]
	for i, row := range in.Rows {
		s.ridge[i] = e.ridge / max(row[model.StatCount], 1)
	}
	if s.ridge[n-1] = 0; e.Penalized {
		s.ridge[n-1] = e.ridge / float64(e.steps)
	}
}

// proximal says whether steps are kept from overshooting: for several outputs, which share rows, the sums would cost as
// much as the step, and are left to events that count more than once.
func (e *Expert) proximal(weight float64) bool { return e.Adapts && e.Outputs == 1 || weight > 1 }

// stepAll makes the step of several levels or outputs: of so many of them, which are all but those of silent noise.
func (e *Expert) stepAll(in *encode.Input, own *Scores, weight float64, others int) {
	s, n := &e.step, e.layout.N
	root := math.Sqrt(e.growth)
	c := rows.AdagradConstants{Start: e.Start * e.growth, Eps: eps * root}
	ridge := s.ridge[:len(in.Rows)]
	if !e.proximal(weight) {
		e.eachRun(in, func(from, to int, df []float64) {
			rows.AdagradStep(in.Rows[from:to], rows.FirstPart, n, in.X[from:to], own.basis[from:to], ridge[from:to], df[:others], s.shrink[:others], s.rates, &c)
		})
		return
	}
	clear(s.kappa)
	s.fused.Begin(len(in.Rows), others)
	e.eachRun(in, func(from, to int, df []float64) {
		s.fused.Gradients(from, in.Rows[from:to], rows.FirstPart, n, in.X[from:to], own.basis[from:to], ridge[from:to], df, s.shrink, s.kappa, &c)
	})
	for j, kappa := range s.kappa[:others] {
		s.rates[j] *= e.share(j, own.Iterate[j], s.df[j]/root, -s.rates[j]*kappa*root, weight)
	}
	s.fused.Descend(0, in.Rows, rows.FirstPart, n, s.rates)
}

// stepOne makes the step of one level with one output.
func (e *Expert) stepOne(in *encode.Input, own *Scores, weight float64) {
	s, n := &e.step, len(in.Rows)
	s.gradients, s.roots = slices.Grow(s.gradients[:0], n)[:n], slices.Grow(s.roots[:0], n)[:n]
	e.eachRun(in, func(from, to int, df []float64) {
		rows.AdagradGradients1(in.Rows[from:to], rows.FirstPart, in.X[from:to], own.basis[from:to], s.ridge[from:to], df[0], s.shrink[0], e.Start*e.growth, s.gradients[from:to], s.roots[from:to])
	})
	root := math.Sqrt(e.growth)
	if kappa := rows.InverseRoots(s.roots, in.X, eps*root); e.proximal(weight) {
		s.rates[0] *= e.share(0, own.Iterate[0], s.df[0]/root, -s.rates[0]*kappa*root, weight)
	}
	rows.AdagradStep1(in.Rows, rows.FirstPart, s.gradients, s.roots, s.rates[0], s.rates[1])
}

const (
	// A step that moves the score by less is short enough for the curvature at its beginning to tell where it ends.
	shortStep = 0.1
	// The share is found to this part of it.
	shareTolerance = 0.01
	// After so many steps of Newton's method only bisections follow: it may go to and fro between two places where the
	// loss has hardly any curvature.
	mostNewton = 6
)

// share returns the share a of a step that does not overshoot: the derivative at f - a df kappa is a df, of which there
// is one solution in [0, 1] where the loss is convex. It is found by Newton's method between bounds.
func (e *Expert) share(j int, f, df, kappa, weight float64) float64 {
	s := &e.step
	a := 1 / (1 + max(s.h[j], 0)*kappa)
	if math.Abs(df)*kappa < shortStep {
		return a
	}
	low, high := 0.0, 1.0
	for i := range 20 {
		_, d, dv := e.Loss.At(s.target[j], f-a*df*kappa, s.variance[j])
		over := a - weight*d/df
		if math.Abs(over) <= shareTolerance*a {
			break
		}
		if over > 0 {
			high = a
		} else {
			low = a
		}
		if a -= over / (1 + 2*weight*dv*kappa); !(a > low && a < high) || i >= mostNewton {
			a = (low + high) / 2
		}
	}
	return a
}

// averageSquares sums in step.square, by level and output, what Scores.Square is for the averages.
func (e *Expert) averageSquares(in *encode.Input, own *Scores) {
	s, n := &e.step, in.Features()
	clear(s.square)
	for j := range s.coefficient {
		s.coefficient[j] = e.levels[j/e.Outputs].Coefficient
	}
	rows.SumAverages(in.Rows[:n], rows.FirstPart, e.layout.N, own.basis[:n], s.coefficient, s.square)
	e.comparePairs(in, s.square)
}

// compare has each level compare whether its average or its iterate does better at an event, one of so many: under its
// noise, or at what they said when the event came, without noise, as who reads the model meets whole events.
func (e *Expert) compare(in *encode.Input, own *Scores, lanes []float64, every uint64) {
	s, k := &e.step, e.Outputs
	if lanes == nil {
		e.averageSquares(in, own)
	}
	for v := range e.levels {
		lv, gain := &e.levels[v], 0.0
		if e.isSilent(v) && lanes == nil {
			at := v * k
			gain = e.silent.event.Gain(s.target[at:][:e.active], lv.Coefficient, s.value[at:])
			lv.Compare(gain*float64(every), every)
			lv.Choose()
			continue
		}
		for j := v * k; j < v*k+e.active; j++ {
			iterate, f, variance := s.value[j], own.Iterate[j]+lv.Coefficient*own.Lag[j], lv.strength*s.square[j]
			if lanes != nil {
				iterate, _, _ = e.Loss.At(s.target[j], lanes[j], 0)
				f, variance = lanes[e.layout.N+j], 0
			}
			average, _, _ := e.Loss.At(s.target[j], f, variance)
			gain += average - iterate
		}
		lv.Compare(gain*float64(every), every) // an event counts for those that were passed over
		lv.Choose()
	}
}

// Accumulate adds the expected curvature of an event without label to the sums of squared gradients: that of the loss
// averaged over both labels by the probability that the iterate gives them.
func (e *Expert) Accumulate(in *encode.Input, own *Scores, weight float64, t *model.Table) {
	s := &e.step
	for v := range e.levels {
		for j := v * e.Outputs; j < v*e.Outputs+e.active; j++ {
			p := 1 / (1 + loss.Exp(-own.Iterate[j]))
			variance := e.levels[v].strength * own.Square[j]
			_, _, up := e.Loss.At(1, own.Iterate[j], variance)
			_, _, down := e.Loss.At(-1, own.Iterate[j], variance)
			s.h[j] = 2 * weight * (p*up + (1-p)*down)
		}
	}
	s.rows = append(t.TouchAll(in.Columns, s.rows[:0]), in.Rows[len(in.Rows)-1])
	if e.silent != nil {
		e.takeSilent(in, s.rows)
		at := e.silent.event.First
		h := s.h[at:][:e.active]
		for k := range h {
			h[k] = 1 / (1 + loss.Exp(-own.Iterate[at+k]))
		}
		e.silent.event.Curvatures(h, h)
		for k := range h {
			h[k] *= weight
		}
	}
	for i, row := range s.rows {
		m := e.layout.Preconditioner(row)
		for j, h := range s.h {
			m[j] += e.growth * h * in.X[i] * in.X[i]
		}
	}
}
