package online_test

import (
	"fmt"
	"maps"
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
	"blankout/online/synthetic"
)

// numberLearner returns a regression Learner for events with three numeric fields.
func numberLearner(t testing.TB, c online.Config) *online.Learner {
	t.Helper()
	return newLearner(t, c, eventtest.Schema(3, c.Loss))
}

// TestRegressionLearned checks every regression loss with every optimizer that supports it. The error must be far
// smaller than the error of predicting the mean. The published model must predict the same as the Learner, in the unit
// of the targets. A restored Learner must continue bit by bit.
func TestRegressionLearned(t *testing.T) {
	longtest.Numeric(t)
	for i, lossName := range synthetic.NumberLosses {
		for j, rule := range []string{"adagrad", "ftrl", "dropout-descent"} {
			for k, noise := range []string{"auto", "dropout:0.1"} {
				if fixed := rule == "dropout-descent"; fixed && noise == "auto" || !fixed && (i+j+k)%2 > 0 || !longtest.Some(i+j, 2) {
					continue
				}
				t.Run(lossName+"/"+rule+"/"+noise, func(t *testing.T) {
					c := asIs(online.DefaultConfig()) // Learn takes numbers as they are
					c.Loss, c.Optimizer, c.Noise = lossName, rule, noise
					l := numberLearner(t, c)
					events := synthetic.NumbersOf(3000, l.Schema().Target, 1)
					var half []event.Block
					for i, e := range events {
						if i == len(events)/2 {
							half = blocksOf(t, l)
						}
						var model *model.Linear
						if i%500 == 499 {
							model = l.Snapshot().Model()
						}
						want := scoresOf(l, e)[0]
						got := alone(l.Learn(e, nil)).Scores[0]
						must.Require(t, math.Abs(got-want) <= 1e-9*(1+math.Abs(want)) || i <= 40, "event %d: Learn says %v, Score %v", i, got, want)
						if i%500 == 499 {
							got := model.Score(e, make([]float64, 1))[0]
							must.Require(t, math.Abs(got-want) <= 1e-9*(1+math.Abs(want)), "event %d: the published model says %v, the learner %v", i, got, want)
							snapshot := l.Snapshot().Model()
							// the sums have another order
							got, want := snapshot.Score(e, make([]float64, 1))[0], scoresOf(l, e)[0]
							must.Require(t, math.Abs(got-want) <= 1e-14*math.Abs(want), "event %d: the snapshot says %v, the learner %v", i, got, want)
						}
					}
					n := l.Report().Numbers
					bar := must.Either(lossName == "quantile:0.8" || l.Schema().Target == loss.Count, 0.85, 0.5)
					if rule == "dropout-descent" {
						bar += 0.1
					}
					baselines := l.Report().Baselines
					mean := *baselines.Report(true).MeanMAE
					must.True(t, n.Window.MAE() < bar*mean, "MAE %.4g lately, that of the mean is %.4g", n.Window.MAE(), mean)
					if q, ok := n.Loss.(loss.Quantile); ok && noise == "auto" && math.Abs(n.Window.Coverage(q)-q.T) > 0.06 {
						t.Errorf("%.3f of the targets lately at or below the quantile", n.Window.Coverage(q))
					} else if within := n.Window.Within / n.Window.Asked; !(within > 0.82 && within < 0.99) && rule == "adagrad" {
						t.Errorf("%.3f of the targets lately within their interval", within)
					}
					again := must.Get(online.Restore(c, half))(t)
					for _, e := range events[len(events)/2:] {
						again.Learn(e, nil)
					}
					sameState(t, "restored in the middle", blocksOf(t, l), blocksOf(t, again))
				})
			}
		}
	}
}

// TestRegressionRefuses checks that a regression Learner rejects a Schema of classes, and targets beyond the limit. A
// classifier must reject a Schema of targets.
func TestRegressionRefuses(t *testing.T) {
	c := online.DefaultConfig()
	c.Loss = "squared"
	must.Fails(t, must.Err(online.New(c, event.NewSchema(8, nil, 2))), "numbers with a schema of classes")
	must.Fails(t, must.Err(online.New(online.DefaultConfig(), synthetic.NumberSchema(loss.Real))), "classes with a schema of numbers")
	l := numberLearner(t, c)
	must.True(t, alone(l.Learn(&event.Example{Target: math.NaN(), Weight: 1}, nil)).Scores == nil && alone(l.Learn(&event.Example{Target: 1e31, Weight: 1}, nil)).Scores == nil && l.Report().Refused == 2,
		"a target that is not finite, or beyond 1e30, is learned")
}

// numberEvent returns an event with the target 3 + 2x - z + noise.
func numberEvent(r *rand.Rand) *event.Example {
	x, z := r.NormFloat64(), r.NormFloat64()
	e := eventtest.Event(0, x, z)
	e.Target = 3 + 2*x - z + 0.3*r.NormFloat64()
	return e
}

// predicted returns the prediction of the published model for an event.
func predicted(l *online.Learner, e *event.Example) float64 {
	m := l.Snapshot().Model()
	return m.Value(m.Score(e, make([]float64, 1))[0])
}

// TestRegressionIsEquivariant replaces the targets y by a y + b. From the second event on, predictions p must become a
// p + b.
func TestRegressionIsEquivariant(t *testing.T) {
	longtest.NotRaced(t)
	for h, rule := range []string{"auto", "adagrad"} {
		for j, lossName := range []string{"squared", "absolute", "quantile:0.8", "huber:1", "poisson"} {
			counts := lossName == "poisson"
			units := [][2]float64{{1e-12, 0}, {1e12, 0}, {1e-3, 0}}
			if !counts {
				units = append(units, [][2]float64{{1, 1e9}, {1e-9, 0.09}, {1e12, -1e18}, {7, -21}}...)
			}
			for _, unit := range longtest.Few(units, h+j, 6) {
				t.Run(fmt.Sprint(rule, "/", lossName, "/", unit), func(t *testing.T) {
					t.Parallel()
					c := with(func(c *online.Config) { c.Loss, c.Optimizer = lossName, rule })
					plain, other := numberLearner(t, c), numberLearner(t, c)
					r, again := rand.New(rand.NewPCG(5, 6)), rand.New(rand.NewPCG(5, 6))
					tolerance := 1e-6
					if unit[1] != 0 {
						tolerance = 1e-3 // the test's targets are rounded to a millionth of their spread
					}
					for i := range 1500 {
						e, f := numberEvent(r), numberEvent(again)
						if counts {
							e.Target = math.Floor(math.Exp(e.Target / 2))
							f.Target = e.Target
						}
						f.Target = unit[0]*f.Target + unit[1]
						if i > 0 && (i < 20 || i%35 == 0) {
							got, want := predicted(other, f), unit[0]*predicted(plain, e)+unit[1]
							must.Require(t, math.Abs(got-want) <= tolerance*unit[0], "event %d: %v, want %v", i, got, want)
						}
						plain.Learn(e, nil)
						other.Learn(f, nil)
					}
				})
			}
		}
	}
}

// TestOutliersAmongTargets adds outliers to the targets, at any position and up to one in a hundred. The error must
// increase only a little.
func TestOutliersAmongTargets(t *testing.T) {
	longtest.NotRaced(t)
	first := func(n int, y float64) func(i int) []float64 {
		return func(i int) (out []float64) {
			for i == 0 && len(out) < n {
				out = append(out, y)
			}
			return out
		}
	}
	at := func(event int, y float64) func(i int) []float64 {
		return func(i int) []float64 {
			if i == event {
				return []float64{y}
			}
			return nil
		}
	}
	streams := map[string]func(i int) []float64{
		"none": at(-1, 0), "1e30 first": at(0, 1e30), "-1e20 first": at(0, -1e20), "1e9 tenth": at(10, 1e9), "1e6 25th": at(25, 1e6), "1e9 at 5000": at(5000, 1e9),
		"30 first": first(30, 1e9), "one in a hundred": func(i int) []float64 {
			if i%100 == 57 {
				return []float64{1e9}
			}
			return nil
		},
		"both sides": func(i int) []float64 {
			switch i % 200 {
			case 31:
				return []float64{1e4}
			case 131:
				return []float64{-1e12}
			}
			return nil
		},
	}
	for i, name := range slices.Sorted(maps.Keys(streams)) {
		extra := streams[name]
		for _, lossName := range longtest.Few([]string{"squared", "absolute", "quantile:0.5", "huber:1"}, i, 4) {
			t.Run(name+"/"+lossName, func(t *testing.T) {
				t.Parallel()
				l, r := numberLearner(t, with(func(c *online.Config) { c.Loss, c.Optimizer = lossName, "auto" })), rand.New(rand.NewPCG(7, 8))
				for i := range must.Either(longtest.Asked(), 12000, 8000) {
					for _, y := range extra(i) {
						e := eventtest.Event(0, 0.1, 0.1)
						e.Target = y
						l.Learn(e, nil)
					}
					l.Learn(numberEvent(r), nil)
				}
				off, in, m := 0.0, 0.0, l.Snapshot().Model()
				for range 2000 {
					e := numberEvent(r)
					value := m.Value(m.Score(e, make([]float64, 1))[0])
					off += math.Abs(e.Target-value) / 2000
					if low, high := m.Interval(value, model.MissingVariance{}); low <= e.Target && e.Target <= high {
						in += 1.0 / 2000
					}
				}
				must.True(t, off <= 0.27 && in >= 0.86 && in <= 0.95, "MAE %.3f, coverage %.3f; want .24 and .9", off, in)
			})
		}
	}
}

// TestTargetsThatChange checks that the learner adapts if the unit of the targets changes. After many zeros between
// rare sales, it must still predict the sales.
func TestTargetsThatChange(t *testing.T) {
	longtest.Numeric(t)
	for _, factor := range longtest.Few([]float64{1e-3, 1e3, 1e9}, 0, 2) {
		l, r := numberLearner(t, with(func(c *online.Config) { c.Loss, c.Optimizer = "squared", "auto" })), rand.New(rand.NewPCG(7, 8))
		for i := range 9000 {
			e := numberEvent(r)
			if i >= 3000 {
				e.Target *= factor
			}
			l.Learn(e, nil)
		}
		off := 0.0
		for range 1000 {
			e := numberEvent(r)
			off += math.Abs(factor*e.Target-predicted(l, e)) / 1000
		}
		must.True(t, off <= 0.26*factor, "targets %v times as large: MAE %v", factor, off)
	}
	for _, often := range longtest.Few([]int{10, 40}, 1, 2) {
		l, r := numberLearner(t, with(func(c *online.Config) { c.Loss, c.Optimizer = "squared", "auto" })), rand.New(rand.NewPCG(7, 8))
		for i := range 20000 {
			e := numberEvent(r)
			if e.Target = 0; i%often == 0 {
				e.Target = 100 + 20*r.NormFloat64()
			}
			l.Learn(e, nil)
		}
		got, want := predicted(l, numberEvent(r)), 100/float64(often)
		must.True(t, math.Abs(got-want) <= 0.5*want, "one sale of 100 in %d: %v predicted", often, got)
	}
}

// TestIntervalCoversWhatIsMissing checks that nine of ten targets are in their interval, for any number of missing
// fields of the predicted event. It learns from events with missing fields, and from complete events.
func TestIntervalCoversWhatIsMissing(t *testing.T) {
	longtest.NotRaced(t)
	for i, lossName := range []string{"squared", "absolute", "poisson"} {
		for j, learned := range []float64{0, 0.3} {
			for _, missing := range longtest.Few([]model.MissingPolicy{"auto", "none"}, i+j, 3) {
				c := online.DefaultConfig()
				c.Loss, c.MissingPolicy = lossName, string(missing)
				l := newLearner(t, c, eventtest.Schema(5, lossName))
				events := synthetic.Correlated(9000, l.Schema().Target)
				for _, e := range synthetic.Blanked(events[:6000], learned, 1) {
					l.Learn(e, nil)
				}
				m := l.Snapshot().Model()
				got := m.Missing.Policies[2].Largest()
				must.True(t, missing != "auto" || got == model.MissingImpute, "%s: events that lack three tenths are answered by %s, where filling in halves the error", lossName, got)
				for _, fraction := range []float64{0, 0.1, 0.3} {
					t.Run(fmt.Sprintf("%s/%s/learned with %v/%v", lossName, missing, learned, fraction), func(t *testing.T) {
						in := 0.0
						for _, e := range synthetic.Blanked(events[6000:], fraction, 2) {
							value := m.Value(m.Score(e, make([]float64, 1))[0])
							low, high := m.Interval(value, model.ScoreVariance(m, e))
							if low <= e.Target && e.Target <= high {
								in++
							}
						}
						in /= 3000
						must.True(t, in > 0.87 && in < 0.93, "%.3f of the targets lie within their interval", in)
					})
				}
			}
		}
	}
}
