package online_test

// This file tests the effect of classes, units, outliers, missing fields, delayed labels and time.

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
)

// TestRenamedLabels checks that the names of classes do not matter. If two classes are exchanged, the score must change
// its sign.
func TestRenamedLabels(t *testing.T) {
	for _, s := range usual() {
		if s.classes == 0 {
			continue
		}
		plain, renamed := newRun(t, s, 31), newRun(t, s, 31)
		renamed.feed.labels = func(class int) string { return fmt.Sprintf("%q", []string{"zebra", "ape", "gnu"}[class]) }
		alike(t, s.String()+": renamed classes", 800, plain, renamed, 0)
		a, b := plain.Report().Total, renamed.Report().Total
		must.True(t, a == b, "%v: %+v, renamed %+v", s, a, b)
		must.True(t, len(renamed.schema.Classes) == s.classes && !slices.Contains(renamed.schema.Classes, "c0"), "%v: classes %q", s, renamed.schema.Classes)
	}
	// The classes are configured in advance, in both orders.
	s := usual()[0]
	var runs []*run
	for _, classes := range [][]string{{"c0", "c1"}, {"c1", "c0"}} {
		r := newRun(t, s, 37)
		r.in.c.Classes = classes
		r.in.follow(r.in.c.Schema())
		r.learner = start(t, s.c, r.in.schema)
		runs = append(runs, r)
	}
	for i := range 800 {
		a, b := runs[0].step(), runs[1].step()
		b[0] = -b[0]
		must.Require(t, near(a, b, 1e-6), "event %d: score %v, of exchanged classes %v", i, a, b)
	}
}

// sums computes the measures of returned scores from their definitions.
type sums struct {
	weight, wrong, logLoss float64
	scored                 []scored
}

type scored struct {
	score, weight float64
	positive      bool
}

// add adds an event with its scores as log-odds.
func (x *sums) add(scores []float64, e *event.Example) {
	x.weight += e.Weight
	best, p := 0, 0.0
	if len(scores) == 1 {
		if scores[0] > 0 {
			best = 1
		}
		if p = 1 / (1 + math.Exp(-scores[0])); e.Label == 0 {
			p = 1 / (1 + math.Exp(scores[0]))
		}
		x.scored = append(x.scored, scored{scores[0], e.Weight, e.Label == 1})
	} else {
		sum := 0.0
		for k, f := range scores {
			if sum += 1 / (1 + math.Exp(-f)); f > scores[best] {
				best = k
			}
		}
		p = 1 / (1 + math.Exp(-scores[e.Label])) / sum
	}
	if best != e.Label {
		x.wrong += e.Weight
	}
	x.logLoss += -e.Weight * math.Log(p)
}

// auc is the probability that a positive event has a higher score than a negative one.
func (x *sums) auc() float64 {
	above, pairs := 0.0, 0.0
	for _, p := range x.scored {
		for _, n := range x.scored {
			if p.positive && !n.positive {
				w := p.weight * n.weight
				pairs += w
				if p.score > n.score {
					above += w
				} else if p.score == n.score {
					above += w / 2
				}
			}
		}
	}
	return above / pairs
}

// TestMeasures compares the progressive measures with measures computed from the scores that Learn returned.
func TestMeasures(t *testing.T) {
	t.Parallel()
	for _, s := range settings(t, 1, longtest.Asked()) {
		if s.classes == 0 || s.c.Optimizer == "irls" {
			continue
		}
		s.c.Calibrate = "off"
		r := newRun(t, s, 41)
		r.feed.weights, r.feed.nulls = true, 0.1
		r.in.c.Classes = []string{"c0", "c1", "c2"}[:s.classes]
		r.in.follow(r.in.c.Schema())
		r.learner = start(t, s.c, r.in.schema)
		x, met := &sums{}, make([]uint64, s.classes)
		for range 500 {
			e := r.next()
			x.add(slices.Clone(r.Learn(e, nil).Scores), e)
			met[e.Label]++
		}
		got := r.Report()
		must.True(t, math.Abs(got.Total.Weight-x.weight) <= 1e-9 && math.Abs(got.Total.Wrong-x.wrong) <= 1e-9 && math.Abs(got.Total.LogLoss-x.logLoss) <= 1e-6*x.logLoss,
			"%v: measured %+v, of the scores weight %v, wrong %v, log-loss %v", s, got.Total, x.weight, x.wrong, x.logLoss)
		must.True(t, got.Events == 500 && got.Labeled() == 500 && slices.Equal(got.Classes, met), "%v: %d events, by class %v, want %v", s, got.Events, got.Classes, met)
		if s.classes == 2 {
			// the tolerance is needed because the learner computes the AUC from bins of scores
			auc := x.auc()
			must.True(t, math.Abs(got.Binary.AUC()-auc) <= 0.003, "%v: AUC %v, of the scores %v", s, got.Binary.AUC(), auc)
		}
		sum := got.Summary()
		must.True(t, math.Abs(*sum.Error-100*x.wrong/x.weight) <= 1e-9, "%v: summary %v", s, *sum.Error)
	}
}

// TestMeasuresOfRegression is TestMeasures for regression. Predictions before the first target are not measured.
func TestMeasuresOfRegression(t *testing.T) {
	t.Parallel()
	for _, s := range settings(t, 2, longtest.Asked()) {
		if s.classes > 0 || s.c.Optimizer == "irls" {
			continue
		}
		r := newRun(t, s, 43)
		r.feed.weights = true
		var weight, absolute, squared, y1, y2, last, lastError, lastWeight float64
		for i := range 500 {
			e := r.next()
			f := r.Learn(e, nil).Scores[0]
			if i > 0 {
				weight += e.Weight
				absolute += e.Weight * math.Abs(f-e.Target)
				squared += e.Weight * (f - e.Target) * (f - e.Target)
				y1 += e.Weight * e.Target
				y2 += e.Weight * e.Target * e.Target
				lastError += math.Abs(last - e.Target)
				lastWeight++
			}
			last = e.Target
		}
		got := r.Report().Numbers.Total
		must.True(t, math.Abs(got.Weight-weight) <= 1e-9 && math.Abs(got.MAE()-absolute/weight) <= 1e-9*absolute && math.Abs(got.RMSE()-math.Sqrt(squared/weight)) <= 1e-9*squared,
			"%v: weight %v, MAE %v, RMSE %v; of the predictions %v, %v, %v", s, got.Weight, got.MAE(), got.RMSE(), weight, absolute/weight, math.Sqrt(squared/weight))
		r2 := 1 - squared/(y2-y1*y1/weight)
		must.True(t, math.Abs(got.R2()-r2) <= 1e-6, "%v: R2 %v, of the predictions %v", s, got.R2(), r2)
		mean := absolute / weight
		must.True(t, mean < 0.95*lastError/lastWeight, "%v: mean error %v, of the last target %v", s, mean, lastError/lastWeight)
	}
}

// delayed learns events. The label of each event arrives after delay more events.
func delayed(r *run, events, delay int, each func(e *event.Example, told []float64)) {
	type waiting struct {
		e     *event.Example
		told  []float64
		prior *online.Prediction
	}
	var queue []waiting
	learn := func() {
		w := queue[0]
		queue = queue[1:]
		r.Learner.Learn(w.e, w.prior)
		each(w.e, w.told)
	}
	for range events {
		e := r.next()
		label := e.Label
		e.Label = event.Unlabeled
		w := waiting{e, r.scores(e), r.arrive(e)}
		e.Label = label
		if queue = append(queue, w); len(queue) > delay {
			learn()
		}
	}
	for len(queue) > 0 {
		learn()
	}
}

// TestDelayed checks that events with delayed labels are learned, and that each label is measured against the
// prediction at the event's arrival.
func TestDelayed(t *testing.T) {
	t.Parallel()
	for _, s := range settings(t, 3, longtest.Asked()) {
		if s.classes == 0 || s.c.Optimizer == "irls" {
			continue
		}
		s.c.Calibrate = "off"
		r := newRun(t, s, 47)
		r.feed.nulls = 0.05
		x, first := &sums{}, 0
		delayed(r, 400, 25, func(e *event.Example, told []float64) {
			if s.classes > 2 && len(told) < 3 {
				first++ // the event was predicted before this class existed
			}
			if len(told) == 1 && s.classes > 2 {
				told = []float64{-told[0], told[0]}
			}
			for len(told) < s.classes && s.classes > 2 {
				told = append(told, -60)
			}
			x.add(told, e)
		})
		got := r.Report()
		must.True(t, first <= 60 && got.Total.Weight == 400 && math.Abs(got.Total.Wrong-x.wrong) <= 1e-9,
			"%v: measured %+v, of what was predicted weight %v, wrong %v; %d events came before all classes", s, got.Total, x.weight, x.wrong, first)
		must.True(t, s.classes != 2 || math.Abs(got.Total.LogLoss-x.logLoss) <= 1e-6*x.logLoss, "%v: log-loss %v, of what was predicted %v", s, got.Total.LogLoss, x.logLoss)
	}
	// A delay of 0 must give the same learner as immediate labels.
	for _, s := range usual() {
		plain, later := newRun(t, s, 53), newRun(t, s, 53)
		for range 300 {
			plain.step()
		}
		delayed(later, 300, 0, func(*event.Example, []float64) {})
		e := plain.next()
		a, b := plain.scores(e), later.scores(e)
		must.True(t, near(a, b, 1e-9), "%v: predicted %v, with labels that come at once as later ones %v", s, a, b)
	}
}

// TestTargetUnit checks that if the targets are in another unit, the predictions differ only by that unit.
func TestTargetUnit(t *testing.T) {
	t.Parallel()
	for _, s := range settings(t, 5, longtest.Asked()) {
		if s.classes > 0 {
			continue
		}
		for _, unit := range []float64{1024, 1e-6} {
			plain, scaled := newRun(t, s, 61), newRun(t, s, 61)
			scaled.feed.target = func(y float64) float64 { return unit * y }
			tolerance := must.Either(unit == 1024, 1e-9, 1e-5)
			for i := range 400 {
				a, b := plain.step(), scaled.step()
				if b[0] /= unit; i > 0 && !near(a, b, tolerance) {
					t.Errorf("%v, event %d: predicted %v, of targets times %v over that %v", s, i, a, unit, b)
					break
				}
			}
			var told [2][]float64
			for at, r := range []*run{plain, scaled} {
				delayed(r, 300, 20, func(_ *event.Example, prediction []float64) { told[at] = append(told[at], prediction[0]) })
			}
			for i := range told[1] {
				told[1][i] /= unit
			}
			must.True(t, near(told[0], told[1], tolerance), "%v: with delayed labels targets times %v are not predicted times that", s, unit)
		}
	}
}

// TestFieldUnits checks that the predictions are equal if numeric fields are in other units.
func TestFieldUnits(t *testing.T) {
	for _, s := range usual() {
		plain, scaled := newRun(t, s, 67), newRun(t, s, 67)
		scaled.feed.value = func(name string, x float64) string {
			return number(x * map[string]float64{"temp": 1000, "load": 1e-4, "volt": 1024, "dose": 1e3}[name])
		}
		alike(t, s.String()+": other units", 800, plain, scaled, 1e-6)
	}
}

// TestHalfLife compares a half-life with the default of none. The half-life must have the lower error after a concept
// change, and the default must have the lower error without a change.
func TestHalfLife(t *testing.T) {
	lost := func(halfLife float64, turns bool) (n int) {
		c := online.DefaultConfig()
		c.Optimizer, c.Noise, c.OnDrift, c.HalfLife, c.Adapt, c.Average = "adagrad", "none", "log", halfLife, false, 0
		r := newRun(t, setting{c, 2}, 73)
		for i := range 4300 {
			r.feed.turned = turns && i >= 4000
			e := r.next()
			if scores := r.learn(e); i >= 4000 && r.wrong(scores, e) {
				n++
			}
		}
		return n
	}
	with, without := lost(20, true), lost(0, true)
	must.True(t, with < without*9/10, "%d of 300 wrong after the truth turned around with a half-life of 20 events, %d without", with, without)
	with, without = lost(20, false), lost(0, false)
	must.True(t, with >= without, "%d of 300 wrong with a half-life of 20 events where nothing changes, %d without", with, without)
}

// columnEvents returns events that have columns but no fields. Each class has its own columns, and some columns are
// common to all classes.
func columnEvents(n int, column func(i int) uint32) (events []*event.Example, schema *event.Schema) {
	schema = event.NewSchema(32, []string{"no", "yes"}, 2)
	schema.NumericIndices = true
	f := newFeed(83, 2)
	for range n {
		e := &event.Example{Weight: 1, Label: f.r.IntN(2)}
		for i := range 300 {
			if f.r.IntN(30) == 0 || i < 20 && i%2 == e.Label && f.r.IntN(5) == 0 {
				eventtest.Put(e, column(i), 1+f.r.Float64())
			}
		}
		events = append(events, e)
	}
	return events, schema
}

// TestHugeDimension checks that column numbers up to 2^32-1 work, and that only their order matters.
func TestHugeDimension(t *testing.T) {
	for _, optimizer := range []string{"auto", "adagrad", "ftrl"} {
		c := online.DefaultConfig()
		c.Optimizer = optimizer
		var all [][]float64
		for _, column := range []func(int) uint32{
			func(i int) uint32 { return uint32(i) },
			func(i int) uint32 { return math.MaxUint32 - 14_000_000*uint32(299-i) },
		} {
			events, schema := columnEvents(600, column)
			l := start(t, c, schema)
			var scores []float64
			for _, e := range events {
				scores = append(scores, l.learn(e)...)
			}
			all = append(all, scores)
			got := l.Report()
			must.True(t, got.Refused == 0 && got.Rows >= 300 && got.Total.Error() < 0.45, "%s: %d refused, %d rows, error %v", optimizer, got.Refused, got.Rows, got.Total.Error())
		}
		must.True(t, sameScores(all[0], all[1]), "%s: other numbers of columns give other scores", optimizer)
	}
}

// TestUnseenColumns checks that columns without a learned weight do not affect a prediction.
func TestUnseenColumns(t *testing.T) {
	for _, optimizer := range []string{"auto", "adagrad", "ftrl", "dropout-descent"} {
		c := online.DefaultConfig()
		if c.Optimizer = optimizer; optimizer == "dropout-descent" {
			c.Noise = "dropout:0.3"
		}
		events, schema := columnEvents(500, func(i int) uint32 { return uint32(i) })
		l := start(t, c, schema)
		for _, e := range events {
			l.learn(e)
		}
		before := l.Report().Rows
		for _, e := range events[:20] {
			want := l.scores(e)
			more := clone(e)
			more.Features.Index, more.Features.Value = append(more.Features.Index, 5000, 1<<31), append(more.Features.Value, 3, -7)
			got := l.scores(more)
			must.Require(t, sameScores(got, want), "%s: scores %v, with columns never seen %v", optimizer, want, got)
		}
		none := l.scores(&event.Example{Label: event.Unlabeled, Weight: 1})
		alone := l.scores(&event.Example{Label: event.Unlabeled, Weight: 1, Features: event.Vec{Index: []uint32{7777}, Value: []float64{1}}})
		must.True(t, sameScores(none, alone) && model.Predict(none) >= 0 && l.Report().Rows == before, "%s: %v without columns, %v with one never seen", optimizer, none, alone)
	}
}
