package online_test

import (
	"math"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

func numberLearner(t testing.TB, c online.Config) *online.Learner {
	t.Helper()
	return must.Get(online.New(c, synthetic.NumberSchema(loss.LabelsOf(c.Loss))))
}

// Every loss of numbers learns with every rule that supports it, far better than the mean. The published model predicts
// the same as the Learner, in the unit of the targets. A restored Learner continues with the same bits.
func TestNumbersLearned(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	for i, lossName := range synthetic.NumberLosses {
		for j, rule := range []string{"adagrad", "sgd", "ftrl", "dropout-descent"} {
			for k, noise := range []string{"auto", "dropout:0.1"} {
				if fixed := rule == "dropout-descent"; fixed && noise == "auto" || !fixed && (i+j+k)%2 > 0 {
					continue
				}
				t.Run(lossName+"/"+rule+"/"+noise, func(t *testing.T) {
					c := online.DefaultConfig()
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
						if got := l.Learn(e, nil).Scores[0]; math.Abs(got-want) > 1e-9*(1+math.Abs(want)) && i > 40 {
							t.Fatalf("event %d: Learn says %v, Score %v", i, got, want)
						}
						if i%500 == 499 {
							if got := model.Score(e, make([]float64, 1))[0]; math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
								t.Fatalf("event %d: the published model says %v, the learner %v", i, got, want)
							}
							snapshot := l.Snapshot().Model()
							if got, want := snapshot.Score(e, make([]float64, 1))[0], scoresOf(l, e)[0]; math.Abs(got-want) > 1e-14*math.Abs(want) { // sums in another order
								t.Fatalf("event %d: the snapshot says %v, the learner %v", i, got, want)
							}
						}
					}
					n := l.Report().Numbers
					bar := 0.5
					if lossName == "quantile:0.8" || l.Schema().Target == loss.Count {
						bar = 0.85
					}
					if rule == "sgd" || rule == "dropout-descent" {
						bar += 0.1
					}
					baselines := l.Report().Baselines
					if mean := *baselines.Report(true).MeanMAE; !(n.Window.MAE() < bar*mean) {
						t.Errorf("MAE %.4g lately, that of the mean is %.4g", n.Window.MAE(), mean)
					}
					if q, ok := n.Loss.(loss.Quantile); ok && noise == "auto" && math.Abs(n.Window.Coverage(q)-q.T) > 0.06 {
						t.Errorf("%.3f of the targets lately at or below the quantile", n.Window.Coverage(q))
					} else if within := n.Window.Within / n.Window.Asked; !(within > 0.82 && within < 0.99) && rule == "adagrad" {
						t.Errorf("%.3f of the targets lately within their interval", within)
					}
					again := must.Get(online.Restore(c, half))
					for _, e := range events[len(events)/2:] {
						again.Learn(e, nil)
					}
					sameState(t, "restored in the middle", blocksOf(t, l), blocksOf(t, again))
				})
			}
		}
	}
}

// The unit of the targets does not matter: targets times a power of two give predictions times the same power, with
// equal bits.
func TestNumbersUnit(t *testing.T) {
	longtest.NotRaced(t)
	for _, lossName := range []string{"squared", "absolute", "huber:0.5"} {
		for _, rule := range []string{"adagrad", "sgd", "ftrl"} {
			c := online.DefaultConfig()
			c.Loss, c.Optimizer = lossName, rule
			small, large := numberLearner(t, c), numberLearner(t, c)
			events, larger := synthetic.NumbersOf(600, loss.Real, 1), synthetic.NumbersOf(600, loss.Real, 1<<20)
			for i := range events {
				a, b := small.Learn(events[i], nil).Scores[0], large.Learn(larger[i], nil).Scores[0]
				if i > 30 && math.Abs(a*(1<<20)-b) > 1e-6*math.Abs(b) {
					t.Fatalf("%s %s event %d: %v and %v", lossName, rule, i, a*(1<<20), b)
				}
			}
		}
	}
}

// One outlier among the targets, of any size, is soon forgotten.
func TestNumbersWild(t *testing.T) {
	for _, lossName := range []string{"squared", "huber:1", "poisson"} {
		c := online.DefaultConfig()
		c.Loss = lossName
		l := numberLearner(t, c)
		for i, e := range synthetic.NumbersOf(4000, l.Schema().Target, 1) {
			if i == 500 {
				e.Target = 1e30
			}
			if scores := l.Learn(e, nil).Scores; scores[0]-scores[0] != 0 {
				t.Fatalf("%s event %d: a score of %v", lossName, i, scores[0])
			}
		}
		sum, mean, last := 0.0, 0.0, synthetic.NumbersOf(4000, l.Schema().Target, 1)[3000:]
		m := l.Snapshot().Model()
		for _, e := range last {
			mean += e.Target / float64(len(last))
		}
		base := 0.0
		for _, e := range last {
			sum += math.Abs(e.Target - m.Value(m.Score(e, make([]float64, 1))[0]))
			base += math.Abs(e.Target - mean)
		}
		if sum > 0.6*base {
			t.Errorf("%s: absolute error %v, of the mean %v", lossName, sum, base)
		}
	}
}

// A Learner of numbers rejects a state of classes and the other way round.
func TestNumbersRefuse(t *testing.T) {
	c := online.DefaultConfig()
	c.Loss = "squared"
	if _, err := online.New(c, event.NewSchema(8, nil, 2)); err == nil {
		t.Error("numbers with a schema of classes")
	}
	if _, err := online.New(online.DefaultConfig(), synthetic.NumberSchema(loss.Real)); err == nil {
		t.Error("classes with a schema of numbers")
	}
	for _, change := range []func(*online.Config){
		func(c *online.Config) { c.Optimizer = "arow" }, func(c *online.Config) { c.Optimizer, c.IRLSBatch = "irls", 100 }, func(c *online.Config) { c.IRLSBatch = 100 },
		func(c *online.Config) { c.Noise = "group:0.3" }, func(c *online.Config) { c.ClassWeight = map[string]float64{"1": 2} },
		func(c *online.Config) { c.Calibrate = "on" }, func(c *online.Config) { c.Threshold = 0.4 }, func(c *online.Config) { c.MissingPolicy = "rescale" },
	} {
		c := online.DefaultConfig()
		c.Loss = "squared"
		if change(&c); c.Check() == nil {
			t.Errorf("%+v is not refused", c)
		}
	}
	l := numberLearner(t, c)
	if l.Learn(&event.Example{Target: math.NaN(), Weight: 1}, nil).Scores != nil || l.Learn(&event.Example{Target: 1e31, Weight: 1}, nil).Scores != nil || l.Report().Refused != 2 {
		t.Error("a target that is not finite, or beyond 1e30, is learned")
	}
}
