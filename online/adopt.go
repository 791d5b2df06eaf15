package online

// This file compares the state with an exact solution, and takes over one.

import (
	"context"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/evaluate"
	"blankout/online/pace"
	"blankout/online/refresh"
	"blankout/online/rows"
)

// Evaluate returns what evaluate.Objective does of the published model. The level whose objective it is has
// the largest share.
func (l *Learner) Evaluate(ctx context.Context, s event.Source, threads int) (objective, wrong float64, numbers *measure.NumbersReport, err error) {
	m := evaluate.Model{
		Linear: l.published().WithCovariance(l.filling.Covariance).Compact().Apart(), Noise: l.levels[l.chosen].noise, Loss: l.set.loss, C: l.config.C, Penalized: l.config.Intercept == "penalized",
		Bound: l.groups != nil || l.scaling.Scaler.Curves != nil, Classes: l.classes, Active: l.activeScores(), Decision: l.decision(), Dead: l.readsWhenDead,
	}
	if l.set.numbers {
		m.Unit = &l.unit
	}
	return evaluate.Objective(ctx, m, s, threads)
}

// Adopt makes exact solutions, one for each level, the iterate and the average,
// and builds the metrics anew: what each rule would have gathered from the same
// events had it stood at the solution all along. That is the rule's own step with
// a rate of zero. Nothing is left of what was adapted to other weights: the
// learning rate's factor, the shares of the levels and the pasts that they are judged by (see
// horizon), the window of a refresh. The level with the largest share, whose solution is the
// one that was compared, begins with everything.
//
// In the average the solution counts as an iterate for each step so far: of these
// the average over the stream reaches back over a share 1/(1+p) (pace.Average), and
// so it goes on as if it had seen 1+p times as many.
//
// each presents the events learned from, standardized and with the weights of their
// classes, to the function it gets. rest is called between events, now and then.
func (l *Learner) Adopt(exact []*model.Linear, each func(func(e *event.Example)), rest func()) {
	slope := 1.0 // of scores in the targets' unit, where they are real numbers
	if l.set.numbers && l.unit.Target != loss.Count {
		slope = l.unit.Scale
	}
	place := func(row []float64, weight func(v, class int) float64) {
		w := l.weights(row)
		was := slices.Clone(w)
		clear(row[rows.FirstPart:])
		for j := range w {
			class := l.young.Class(j % l.k)
			if w[j] = was[j]; class >= 0 { // no solution has the output that classes share
				w[j] = weight(j/l.k, class)
			}
		}
		l.rule.Start(row)
		copy(l.refresh.CenterOf(row), w)
	}
	own := l.scaling.OwnHats()
	for slot := range l.table.Len() {
		column, _ := l.table.Column(slot)
		of := func(v, k int) float64 { return exact[v].Weight(column, k) / slope }
		if own(column) {
			of = func(int, int) float64 { return 0 }
		}
		place(l.table.Touch(column), of)
	}
	if l.set.intercept {
		was := append([]float64(nil), l.weights(l.bias)...)
		place(l.bias, func(v, class int) float64 {
			if class >= l.activeScores() {
				return was[v*l.k+class]
			}
			if l.set.numbers {
				return l.unit.Own(exact[v].Intercept[class])
			}
			return exact[v].Intercept[class]
		})
	}
	l.shares.Restart(l.one(l.chosen), l.shares.Rules())
	l.horizon = horizon{}
	l.takeForce()
	l.fade.Growth = 1
	l.refresh.Clear()
	for v := range l.levels {
		lv := &l.levels[v]
		lv.Adopt(l.steps)
		clear(lv.sumsq)
	}
	if l.set.noiseKind == constant {
		for slot := range l.table.Len() {
			_, row := l.table.Column(slot)
			for j, w := range l.weights(row) {
				l.levels[j/l.k].sumsq[j%l.k] += w * w
			}
		}
	}
	count := 0
	each(func(e *event.Example) {
		if count++; count%256 == 0 {
			rest()
		}
		l.remeasure(e)
	})
	// A rule that keeps its weights in another form makes that fit.
	l.forget(1)
	l.adoptSecond(func(column uint32, v, k int) float64 {
		if k = l.young.Class(k); k < 0 {
			return 0
		}
		return exact[v].Weight(column, k) / slope
	})
}

// remeasure adds an event, standardized, to the metrics and moves no weight.
func (l *bank) remeasure(e *event.Example) {
	now := &l.now
	s := &now.step
	clear(s.F)
	clear(now.lag)
	clear(now.q)
	l.touch(e.Features.Index)
	for i, row := range s.Rows {
		l.put(i, row, e.Features.Value[i])
	}
	l.arrange(e, e.Features.Index)
	if l.set.intercept {
		ridge := 0.0
		if l.config.Intercept == "penalized" {
			ridge = l.ridgeOf(float64(l.steps))
		}
		now.step.AddIntercepts(l.bias, ridge)
	}
	l.sum(0)
	l.takeSilent(e, e.Features.Index)
	label, weight := l.young.Output(e.Label), l.importance.Bound(e.Weight)
	if e.Label == event.Unlabeled {
		l.unlabeled(weight)
		return
	}
	repeats := min(math.Ceil(weight), pace.MostImportance) // as Learn
	for v := range l.levels {
		lv := &l.levels[v]
		for k := range l.active {
			j := v*l.k + k
			s.Y[j], s.Variance[j] = rows.Y(label, k, l.k), l.variance(lv, j, k)
			if l.set.numbers {
				s.Y[j] = l.unit.Standard(l.unit.Clip(e.Target))
			}
			if v == l.others() {
				continue
			}
			_, _, dv := l.set.loss.At(s.Y[j], s.F[j], max(s.Variance[j], refresh.LeastVariance))
			s.H[j] = 2 * weight * dv
		}
	}
	if l.refresh.Size > 0 {
		s.Growth = l.fade.Growth
		l.layout.Gather(s)
	}
	for range int(repeats) {
		part := weight / repeats
		for v := range l.levels {
			lv := &l.levels[v]
			for k := range l.active {
				j := v*l.k + k
				if s.MinusEta[j] = 0; v == l.others() {
					continue
				}
				_, df, dv := l.set.loss.At(s.Y[j], s.F[j], s.Variance[j])
				s.DF[j], s.H[j] = part*df, 2*part*dv
				if l.set.noisy {
					s.Shrink[j] = s.H[j] * lv.strength
				}
			}
		}
		if l.silent != nil {
			l.beginSilent(part)
		}
		l.update(part)
	}
}
