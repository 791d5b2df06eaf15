package online_test

// This file tests properties of every optimizer, loss and noise.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/optimizers"
	"blankout/online/synthetic"
)

// TestWeightTwo checks that an event of weight 2 has the same effect as learning the event twice, bit by bit. The test
// settings do not depend on the number of events: standardize = none, no ridge, no constant noise.
func TestWeightTwo(t *testing.T) {
	for _, rule := range optimizers.Table {
		for _, loss := range []string{"logistic", "hinge"} {
			if rule.Name == "irls" {
				continue // its window counts an event of weight 2 only once
			}
			c := online.DefaultConfig()
			c.Optimizer, c.Loss, c.Noise, c.Standardize = rule.Name, loss, "dropout:0.3", "none"
			if rule.Name != "dropout-descent" && rule.Name != "ftrl" { // only the ridge of these two optimizers does not depend on the number of events
				c.C = math.Inf(1)
			}
			for _, classes := range []int{2, 3} {
				once, twice := streamed(t, c, classes), streamed(t, c, classes)
				s := synthetic.NewStream(3, classes)
				for range 100 {
					e := s.Next()
					e.Weight = 2
					once.learn(e)
					e.Weight = 1
					twice.learn(e)
					twice.learn(e)
				}
				first, second := once.model(), twice.model()
				a, b := first.Intercept, second.Intercept
				must.True(t, slices.Equal(a, b), "%s, %s: intercepts %v learned at weight 2, %v learned twice", rule.Name, loss, a, b)
				for i := range first.Rows.Len() {
					column, a := first.Rows.Column(i)
					b := second.Rows.Row(column)
					must.Require(t, slices.Equal(a[model.ScalerWidth:], b[model.ScalerWidth:]), "%s, %s: column %d: %v learned at weight 2, %v learned twice", rule.Name, loss, column, a, b)
				}
			}
		}
	}
}

// TestPoison checks that every optimizer and loss survives corrupted events. Values that are NaN, infinite or beyond
// the limits are rejected and counted. Readings may jump by twelve orders of magnitude or to the limit, and an event
// may have very many features. These events must be learned without harm to later predictions.
func TestPoison(t *testing.T) {
	t.Parallel()
	poison := func(t *testing.T, c online.Config, classes int) {
		l, calm := streamed(t, c, classes), streamed(t, c, classes)
		s, s2 := synthetic.NewStream(13, classes), synthetic.NewStream(13, classes)
		wrong, calmWrong := 0, 0
		const n = 1200
		for i := range n {
			e := s.Next()
			switch i {
			case 500, 502:
				for j := range e.Features.Value {
					e.Features.Value[j] *= 1e12
				}
			case 510:
				e.Features.Value[0], e.Features.Value[2] = 1e30, -1e30
			case 520:
				e.Weight = 1e-30
			}
			scores := slices.Clone(l.learn(e))
			must.Finite(t, scores, "event", i)
			label := e.Label
			switch i {
			case 530:
				many := &event.Example{Weight: 1, Features: event.Vec{Index: make([]uint32, 5000), Value: make([]float64, 5000)}}
				for j := range many.Features.Index {
					many.Features.Index[j], many.Features.Value[j] = 2000+uint32(j), 1
				}
				l.learn(many)
			case 540, 541, 542, 543, 544:
				bad := *e
				bad.Features.Value = slices.Clone(e.Features.Value)
				bad.Features.Value[1] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e308, -1e31}[i-540]
				must.True(t, l.learn(&bad) == nil, "a feature of %v was learned", bad.Features.Value[1])
			case 545:
				e.Weight = math.Inf(1)
				must.True(t, l.learn(e) == nil, "an infinite weight was learned")
			}
			calmScores := calm.learn(s2.Next())
			if i > 800 {
				if model.Predict(scores) != label {
					wrong++
				}
				if model.Predict(calmScores) != label {
					calmWrong++
				}
			}
		}
		must.True(t, wrong <= calmWrong+calmWrong/4+10, "%d of 400 wrong after the poison, %d without any", wrong, calmWrong)
		r := l.Report()
		must.True(t, r.Refused == 6 && r.Events == n+1, "%d refused and %d learned", r.Refused, r.Events)
		finite(t, l.Learner)
	}
	for _, s := range settings(t, 6, longtest.Asked()) {
		if s.classes > 0 {
			t.Run(s.String(), func(t *testing.T) { poison(t, s.c, s.classes) })
		}
	}
}

// TestPasses checks that mixture weights, policies and the unit of targets do not change after the first pass over a
// finite data set. Later passes repeat events that are already learned, so their losses cannot be used for comparisons.
func TestPasses(t *testing.T) {
	for _, classes := range []int{2, 0} {
		c := online.DefaultConfig()
		if c.Optimizer = "adagrad"; classes == 0 {
			c.Loss = "squared"
		}
		s := setting{c, classes}
		l := newRun(t, s, 131)
		var events []*event.Example
		for i := range 1500 {
			e := l.next()
			copied := *e
			copied.Features, copied.Field, copied.Missing = e.Features.Clone(), slices.Clone(e.Field), slices.Clone(e.Missing)
			if copied.Target += float64(i) / 10; i%4 == 0 && len(copied.Field) > 1 { // omits a field
				copied.Features.Index, copied.Features.Value, copied.Field = copied.Features.Index[1:], copied.Features.Value[1:], copied.Field[1:]
			}
			l.learn(&copied)
			events = append(events, &copied)
		}
		l.EndPass()
		var was *model.Linear
		for i := range 3 * len(events) {
			e := events[i%len(events)]
			if classes == 0 {
				x := *e
				x.Target *= 10
				e = &x
			}
			if l.learn(e); i == 256 { // the comparisons of the first pass take effect here
				was = l.model()
			}
		}
		is := l.model()
		must.True(t, slices.Equal(was.Experts, is.Experts) && was.Missing.Policies == is.Missing.Policies,
			"%d classes: mixture weights %v and policies %v have become %v and %v", classes, was.Experts, was.Missing.Policies, is.Experts, is.Missing.Policies)
		must.True(t, was.Layout.Scale == is.Layout.Scale, "%d classes: the unit has become %v, was %v", classes, is.Layout.Scale, was.Layout.Scale)
	}
}

// TestFixedPoint makes many passes with each optimizer that uses the noisy gradient. The weights must approach the
// optimum of the batch objective |w|^2 + kappa sum loss, which slow descent computes.
func TestFixedPoint(t *testing.T) {
	const dim = 5
	r := rand.New(rand.NewPCG(2, 3))
	var events []event.Example
	for range 60 {
		e := event.Example{Weight: 1, Label: r.IntN(2)}
		for d := range uint32(dim) {
			if r.IntN(3) > 0 {
				eventtest.Put(&e, d, r.NormFloat64()+float64(e.Label)*float64(d%3)*0.7)
			}
		}
		events = append(events, e)
	}
	for i, name := range []string{"logistic", "hinge", "logistic:chen", "quadratic"} {
		for _, noise := range longtest.Few([]string{"none", "dropout:0.4", "gaussian:0.7", "dropout:0.1+group:0.4"}, i, 2) {
			c := online.DefaultConfig()
			c.Loss, c.Noise, c.C, c.Standardize, c.Average = name, noise, 0.5, "none", 0.3
			c.Optimizer = "adagrad"
			schema := event.NewSchema(4, []string{"0", "1"}, 2)
			schema.NumericIndices, schema.ColumnGroups = true, &event.ColumnGroups{Every: 2}
			l := start(t, c, schema)
			learned := must.Get(loss.ParseNoise(noise))(t)
			lossOf := must.Get(loss.Parse(name))(t)
			grouped, inGroups := learned.(loss.GroupDropout)
			objective := func(w []float64, b float64) float64 {
				j := 0.0
				c0, c1, c2 := learned.Coefficients()
				norm := 0.0
				for _, w := range w {
					norm += w * w
				}
				for i := range events {
					f, v := b, c0*norm
					var groups [][]string
					var parts []float64
					for n, d := range events[i].Features.Index {
						x := events[i].Features.Value[n]
						f += w[d] * x
						v += w[d] * w[d] * (c1*x + c2*x*x)
						if inGroups {
							groups, parts = append(groups, []string{fmt.Sprint(d / 2)}), append(parts, w[d]*x)
						}
					}
					if inGroups {
						v = synthetic.SlowVariance(grouped, groups, events[i].Features.Index, parts)
					}
					value, _, _ := lossOf.At(float64(2*events[i].Label-1), f, v)
					j += value
				}
				return norm + loss.Cost(lossOf, c.C)*j
			}
			best := minimize(objective, dim)
			const passes = 200
			for range passes {
				for i := range events {
					l.learn(&events[i])
				}
				l.EndPass()
			}
			published := l.model()
			w := must.List(dim, func(d int) float64 { return published.Weight(uint32(d), 0) })
			got := objective(w, published.Intercept[0])
			must.True(t, got <= best*1.002+1e-9, "%s, %s: objective %v after %d passes, optimum %v", name, noise, got, passes, best)
		}
	}
}

// minimize returns the minimum of a convex function of dim weights and an intercept, by cyclic golden-section search.
func minimize(f func(w []float64, b float64) float64, dim int) float64 {
	p := make([]float64, dim+1)
	at := func() float64 { return f(p[:dim], p[dim]) }
	best := at()
	for range 200 {
		before := best
		for d := range p {
			lo, hi := p[d]-2, p[d]+2
			for hi-lo > 1e-5 {
				a, b := hi-0.618*(hi-lo), lo+0.618*(hi-lo)
				p[d] = a
				fa := at()
				p[d] = b
				if fb := at(); fa < fb {
					hi = b
				} else {
					lo = a
				}
			}
			p[d] = (lo + hi) / 2
		}
		if best = at(); before-best < 1e-10*best {
			break
		}
	}
	return best
}

// TestNoisyGradientByBound checks the default gradient of dropout-descent. It must be the clean gradient with the
// quadratic noising penalty, and the noisy gradient with other approximations of the expected loss.
func TestNoisyGradientByBound(t *testing.T) {
	scores := func(bound string, n online.NoisyGradient) (out []float64) {
		c := online.DefaultConfig()
		c.Loss, c.Optimizer, c.Noise, c.NoisyGradient, c.Calibrate = "logistic:"+bound, "dropout-descent", "dropout:0.3", n, "off"
		l, r := streamLearner(t, c, 2), rand.New(rand.NewPCG(8, 8))
		for range 300 {
			out = append(out, l.Learn(synthetic.Drawn(r), nil).Scores[0])
		}
		return out
	}
	same := func(a, b []float64) bool {
		for i := range a {
			if a[i] != b[i] {
				return false
			}
		}
		return true
	}
	for bound, want := range map[string]online.NoisyGradient{"gaussian": "true", "chen": "true", "quadratic-noising": "false"} {
		noisy, clean := scores(bound, "true"), scores(bound, "false")
		must.True(t, !same(noisy, clean), "%s: both gradients are one", bound)
		got := scores(bound, online.AutoGradient)
		must.True(t, same(got, map[online.NoisyGradient][]float64{"true": noisy, "false": clean}[want]), "%s: auto is not %s", bound, want)
	}
}
