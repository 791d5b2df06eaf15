package levels

import (
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/experts"
	"blankout/online/refresh"
	"blankout/online/rows"
	"blankout/online/schedule"
	"blankout/online/silent"
)

// This file makes the step of an event, for all noise levels at once.

// step is reusable memory for one step, by noise level and output. Its contents are valid only during one event.
type step struct {
	rows.Step
	value       []float64 // losses of the iterates
	average     []float64 // result of averageVariances
	coefficient []float64
	raised      []float64
	slopes      []float64 // by noise level: derivative of the iterate's loss with respect to the coefficient of the lags
	ridge       []float64 // ridge factor by row
	touched     [][]float64
	// If features are dropped together, groups has the groups of the event, together has its rows in their order, and summed
	// is scratch memory. Otherwise groups is nil.
	groups   *rows.Groups
	together rows.Event
	summed   []float64
}

func newStep(strength []float64, outputs int) step {
	s := step{Step: rows.NewStep(strength, outputs), raised: make([]float64, len(strength)), slopes: make([]float64, len(strength))}
	for _, p := range []*[]float64{&s.value, &s.average, &s.coefficient} {
		*p = make([]float64, len(s.DF))
	}
	return s
}

// Learn implements experts.Expert. A weight above 1 makes several steps. Averages and iterates are compared by their
// scores in in.Earlier, which AppendComponents appended when the event arrived. If that is nil, they are compared by
// their current scores.
func (e *Expert) Learn(in *experts.Input, _, sums, target []float64, _ int, weight float64) {
	if weight > 0 && weight <= 1 { // usual weights need a single step
		e.learn(in, sums, target, weight)
		return
	}
	first := true
	schedule.Parts(weight, e.Optimizer.Proximal, func(part float64) {
		if !first {
			e.Sum(in, sums)
		}
		first = false
		e.learn(in, sums, target, part)
	})
}

// learn makes one step. weight multiplies the gradients. It is at most 1, except for parts of very large weights.
func (e *Expert) learn(x *experts.Input, sums, target []float64, weight float64) {
	s, in := &e.step, x.Event
	if e.silent != nil {
		e.takeSilent(in, in.Rows)
	}
	stands := e.standsFor(sums, target)
	if stands > 0 || s.groups != nil {
		e.variances(x, in.Rows, sums)
	}
	if stands == 0 {
		e.steps++
		e.advance()
		return
	}
	weight *= stands
	e.gradients(sums, target, weight)
	if every := e.comparesEvery(); e.steps%every == 0 && e.levels[0].Compares() {
		e.compare(x, sums, every)
	}
	if e.Windows() {
		e.window.Judge(in.Rows, in.X, s.F, target, e.active, weight)
	}
	e.steps++
	s.Importance, s.Count, s.InverseDecay = weight, e.steps, e.inverseDecay
	s.NoOvershoot = weight > 1 || e.steps <= model.FirstReadings && e.Adapts && e.Grouped()
	e.place(x, in.Rows)
	e.addSquares(in, -1)
	e.optimizer.Step(&s.Step)
	e.addSquares(in, 1)
	if e.silent != nil {
		e.stepSilent(weight)
	}
	e.advance()
}

// standsFor returns for how many events the current event is learned, see schedule.StandsFor. It is 1 without adaptation, for
// silent noise, with windows, which compare each event, and after the first pass, from which on weights converge to the batch
// solution.
func (e *Expert) standsFor(sums, target []float64) float64 {
	if !e.samples || e.silent != nil || e.Windows() || e.Passed() {
		return 1
	}
	return schedule.StandsFor(e.steps, sums[:e.layout.N], target[:e.active], e.Outputs)
}

// advance counts a step in the averages.
func (e *Expert) advance() {
	for v := range e.levels {
		if e.levels[v].Advance() {
			e.rebase(v)
		}
	}
}

// Averages and iterates are compared at one step in seldom after comparesSeldom steps.
const comparesSeldom, seldom = 65_536, 16

// comparesEvery returns the number of steps per comparison of averages and iterates. Each comparison counts once, even
// if it represents several steps. Otherwise the few late comparisons would outweigh all earlier comparisons, and chance
// would decide.
func (e *Expert) comparesEvery() uint64 {
	if e.steps > comparesSeldom {
		return seldom
	}
	return schedule.Every(e.steps)
}

// silentPace is the factor of the silent level's rate, unless the user has set the rate. If there are several outputs,
// steps are not proximal. The default rate is then too small for the silent level, because its gradients shrink with
// the missing features.
const silentPace = 10.0 / 3

// gradients computes the derivatives of the expected losses, and the learning rates. variances must have been called.
func (e *Expert) gradients(sums, target []float64, weight float64) {
	s, k, n := &e.step, e.Outputs, e.layout.N
	s.F = sums[:n:n]
	iterate, lag := sums[:n], sums[n:][:n]
	targets, values, dfs, hs, variances, shrinks := s.Y[:n], s.value[:n], s.DF[:n], s.H[:n], s.Variance[:n], s.Shrink[:n]
	for v := range e.levels {
		if e.isSilent(v) {
			copy(targets[v*k:], target[:k])
			s.slopes[v] = e.silent.Begin(targets[v*k:][:e.active], weight, values[v*k:])
			break
		}
		strength, slope := e.levels[v].strength, 0.0
		if e.Clean {
			strength = 0
		}
		for j := v * k; j < v*k+e.active; j++ {
			y, f := target[j-v*k], iterate[j]
			value, df, dv := e.Loss.At(y, f, variances[j])
			slope += df * lag[j]
			targets[j], values[j] = y, value
			h := 2 * weight * dv
			dfs[j], hs[j], shrinks[j] = weight*df, h, h*strength
		}
		s.slopes[v] = slope
	}
	raised := false
	for v := range e.levels {
		lv := &e.levels[v]
		lv.Adapt(lv.Coefficient * s.slopes[v])
		s.raised[v] = lv.Raise()
		raised = raised || s.raised[v] != 0
	}
	if raised {
		loss.Exps(s.raised)
	}
	minus, inverse := s.MinusEta[:n], s.Inverse[:n]
	for v := range e.levels {
		lv := &e.levels[v]
		rate := -lv.Rate(e.Rate)
		if e.isSilent(v) && e.Outputs > 1 && e.FreeRate {
			rate *= silentPace
		}
		if raised {
			rate *= s.raised[v]
		}
		for j := v * k; j < (v+1)*k; j++ {
			minus[j], inverse[j] = rate, lv.Inverse
		}
	}
}

// place sets up the step for an event: its rows and segments.
func (e *Expert) place(in *experts.Input, of [][]float64) {
	s := &e.step
	if s.groups != nil {
		s.Event = s.together
		s.Ridge = e.ridges(s.Rows)
		s.groups.Segment(&s.Step)
		return
	}
	s.Event = rows.Event{Rows: of, Intercepts: true, X: in.Values, Basis: in.Basis, Ridge: e.ridges(of)}
	if s.Ungroup(); len(in.Event.Pairs) > 0 {
		e.segmentPairs(in)
	}
}

// ridges returns, by row, the factor of the weight w in the gradient of the ridge. The ridge of one pass is spread over
// the events of a feature.
func (e *Expert) ridges(of [][]float64) []float64 {
	s, n, ridge, passes := &e.step, len(of), e.ridge, 1.0
	if e.period > 0 {
		ridge, passes = e.Ridge, float64(max(e.steps-1, e.period))/float64(e.period)
	}
	if ridge == 0 {
		if len(s.ridge) < n {
			s.ridge = make([]float64, 2*n)
		}
		return s.ridge[:n]
	}
	s.ridge = slices.Grow(s.ridge[:0], n)[:n]
	for i, row := range of {
		count := row[model.StatCount]
		if passes != 1 {
			count /= passes
		}
		if s.ridge[i] = ridge; count > 1 {
			s.ridge[i] = ridge / count
		}
	}
	if s.ridge[n-1] = 0; e.Penalized {
		s.ridge[n-1] = ridge / max(float64(e.steps)/passes, 1)
	}
	return s.ridge
}

// compare compares each level's average with its iterate at one event in the given number. If in.Earlier is nil, it
// compares expected losses under the level's noise. Otherwise it compares losses without noise of the scores when the
// event arrived, because readers of the model predict complete events.
func (e *Expert) compare(in *experts.Input, sums []float64, every uint64) {
	s, k, n, components := &e.step, e.Outputs, e.layout.N, in.Earlier
	var variances []float64
	if components == nil {
		variances = e.averageVariances(in)
	}
	for v := range e.levels {
		lv, gain, at := &e.levels[v], 0.0, v*k
		if e.isSilent(v) && components == nil {
			gain = e.silent.Gain(s.Y[at:][:e.active], lv.Coefficient, s.value[at:])
		} else {
			for j := at; j < at+e.active; j++ {
				iterate, f, variance := s.value[j], sums[j]+lv.Coefficient*sums[n+j], 0.0
				if components != nil {
					iterate, _, _ = e.Loss.At(s.Y[j], components[j], 0)
					f = components[n+j]
				} else {
					variance = variances[j]
				}
				average, _, _ := e.Loss.At(s.Y[j], f, variance)
				gain += average - iterate
			}
		}
		lv.Compare(gain, every)
		lv.Choose()
	}
}

// Accumulate adds the expected curvature of the loss at an unlabeled event to the accumulators. The curvature is
// averaged over both labels, with the probabilities that the iterate predicts.
func (e *Expert) Accumulate(x *experts.Input, sums []float64, weight float64) {
	s, in := &e.step, x.Event
	s.touched = append(e.rows.Table.TouchAll(in.Columns, s.touched[:0]), in.Rows[len(in.Rows)-1])
	e.variances(x, s.touched, sums)
	for v := range e.levels {
		at := v * e.Outputs
		h := s.H[at:][:e.active]
		for k := range h {
			h[k] = 1 / (1 + loss.Exp(-sums[at+k])) // the probability of the positive label
		}
		if e.isSilent(v) {
			e.takeSilent(in, s.touched)
			e.silent.Curvatures(h, h)
		} else {
			for k, p := range h {
				_, _, up := e.Loss.At(1, sums[at+k], s.Variance[at+k])
				_, _, down := e.Loss.At(-1, sums[at+k], s.Variance[at+k])
				h[k] = 2 * (p*up + (1-p)*down)
			}
		}
		for k := range h {
			h[k] *= weight
		}
	}
	s.InverseDecay = e.inverseDecay
	e.place(x, s.touched)
	e.optimizer.Unlabeled(&s.Step)
}

// The part below has the noise level with silent noise (loss.Silent), which is the last level. Only its gradient differs
// from the gradients of other levels. Its weights are in the same rows, and scales, averages and rates are handled in
// the same way.

// Silent returns the silent noise. some reports whether a level, the last one, has silent noise.
func (c *Settings) Silent() (n loss.Silent, some bool) {
	n, some = c.Noises[len(c.Noises)-1].(loss.Silent)
	return n, some
}

// isSilent reports whether the given level has silent noise.
func (e *Expert) isSilent(level int) bool { return e.silent != nil && level == len(e.levels)-1 }

// takeSilent prepares the silent level for an event with these rows.
func (e *Expert) takeSilent(in *encode.Input, of [][]float64) {
	event := rows.Event{Rows: of, Intercepts: true, X: in.X}
	if !e.Intercept {
		event.Rows, event.Intercepts = of[:in.Features()], false
	}
	var units []int32
	if e.silent.Noise.Groups {
		units = in.Units
	}
	e.silent.Take(event, in.Dead, units)
}

// stepSilent makes the step of the silent level, after gradients.
func (e *Expert) stepSilent(weight float64) {
	s, at := &e.step, e.silent.First
	e.silent.Ridge = e.ridges(e.silent.Rows)
	e.silent.Step(s.Y[at:][:e.active], silent.Settings{
		Eta: -s.MinusEta[at], Start: e.Start, InverseDecay: e.inverseDecay, Inverse: s.Inverse[at], Importance: weight, Proximal: e.Adapts && e.Outputs == 1 || s.NoOvershoot,
	})
}

// The part below solves windows of the latest events by IRLS (iteratively reweighted least squares, package refresh). The
// windows supplement or replace the optimizer's steps.

// parts returns the number of values that a row has per noise level and output.
func (c *Settings) parts() int {
	return c.Optimizer.Parts + c.Window.Parts()
}

// Windows reports whether windows of events are solved by IRLS.
func (c *Settings) Windows() bool { return c.Window.Size > 0 }

// signed reports whether the values of a part change sign when the weights do. Accumulators keep their sign.
func (e *Expert) signed(part int) bool {
	return part != 1 && !(e.Windows() && part == e.layout.Refresh)
}

// setIntercept sets the intercept with index j, if there are intercepts, to b. center becomes its value at the start of the
// window.
func (e *Expert) setIntercept(j int, b, center float64) {
	if intercepts := e.rows.Intercepts; e.Intercept {
		e.optimizer.Set(intercepts, j, b)
		e.window.CenterOf(intercepts)[j] = center
	}
}

// Learned adds a learned event to the window. If the window is complete, Learned solves it. m standardizes events,
// output returns the output of a class, and dead returns the standardized value of a silently missing column.
func (e *Expert) Learned(x *event.Example, weight float64, m *model.Linear, output func(class int) int, dead func(column uint32) float64) {
	if !e.Windows() || !e.window.Add(x, weight) {
		return
	}
	w := refresh.Weights{Model: m, Bias: e.rows.Intercepts, Active: e.active, InverseDecay: e.inverseDecay, Output: output, Dead: dead}
	for v := range e.levels {
		w.Levels = append(w.Levels, refresh.Level{Noise: e.Noises[v], Inverse: e.levels[v].Inverse})
	}
	e.window.Solve(w)
}

// Failures returns the number of windows that had no solution. Such windows change nothing.
func (e *Expert) Failures() uint64 { return e.window.Failures }

// The part below measures the influence of an event on the weights.

// Influence returns the factor in (0, 1] by which the loss reduces the weight of an event, for an output of a level. y
// is the target, and f is the predicted score. A small factor means that the label is probably wrong. The factor is 1
// if the loss gives all events equal weight. sums is the result of Sum for the event.
func (e *Expert) Influence(in *experts.Input, sums []float64, level, output int, y, f float64) float64 {
	of, ok := e.Loss.(interface {
		Influence(y, f, v float64) float64
	})
	if !ok {
		return 1
	}
	e.variances(in, in.Rows, sums)
	return of.Influence(y, f, e.step.Variance[level*e.Outputs+output])
}
