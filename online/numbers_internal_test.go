package online

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/online/probe"
	"blankout/online/synthetic"
)

func numberLearner(t testing.TB, c Config) *Learner {
	t.Helper()
	l, err := New(c, synthetic.NumberSchema(loss.LabelsOf(c.Loss)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Moving the unit changes no prediction of any rule, nor, under the squared loss, what the
// next steps do.
func TestMoveUnit(t *testing.T) {
	longtest.NotRaced(t)
	for _, lossName := range synthetic.NumberLosses {
		for _, rule := range []string{"adagrad", "dropout-descent", "sgd", "ftrl"} {
			c := DefaultConfig()
			c.Loss, c.Optimizer, c.Noise = lossName, rule, "dropout:0.2"
			l, moved := numberLearner(t, c), numberLearner(t, c)
			events := synthetic.NumbersOf(300, l.Schema().Target, 1)
			for i, e := range events {
				if i == 200 {
					next := moved.unit
					next.Scale *= 1.7
					if next.Target == loss.Real {
						next.Center += 13
					}
					moved.moveTo(next)
				}
				a, b := scoresOf(l, e)[0], scoresOf(moved, e)[0]
				tolerance := 1e-9
				if i > 200 {
					if tolerance = 0.05; rule == "sgd" {
						break // which has no sums that could follow
					}
				}
				if math.Abs(a-b) > tolerance*max(math.Abs(a), 0.2) {
					t.Fatalf("%s %s event %d: %v, in another unit %v", lossName, rule, i, a, b)
				}
				l.Learn(e, nil)
				moved.Learn(e, nil)
			}
		}
	}
}

// The forecast of the squared error is what masks drawn give in the mean.
func TestNumbersForecast(t *testing.T) {
	longtest.NotRaced(t)
	for _, lossName := range []string{"squared", "poisson"} {
		c := DefaultConfig()
		c.Loss, c.Noise = lossName, "none"
		l := numberLearner(t, c)
		events := synthetic.NumbersOf(2000, l.Schema().Target, 1)
		for _, e := range events {
			l.Learn(e, nil)
		}
		m := l.Snapshot().Model()
		r := rand.New(rand.NewPCG(1, 2))
		var forecast [ForecastPoints]float64 // of the same weights, over all events
		drawn := forecast
		for _, e := range events {
			l.atHand(e)
			l.now.target = l.unit.Standard(l.unit.Clip(e.Target))
			l.judging(e)
			l.shares.Features = probe.Curves{}
			l.events = 0 // every event is a sample
			l.forecastExactly()
			x := m.Standardized(e, event.Vec{})
			for i := range forecast {
				forecast[i] += l.shares.Features.Error.At(i)
				const draws = 40
				for range draws {
					kept := event.Vec{}
					for j := range x.Index {
						if r.Float64() >= ForecastMissing(i) {
							kept.Index, kept.Value = append(kept.Index, x.Index[j]), append(kept.Value, x.Value[j])
						}
					}
					off := e.Target - m.Value(m.ScoreVec(kept, make([]float64, 1))[0])
					drawn[i] += off * off / draws
				}
			}
		}
		const tolerance = 0.03
		for i := range forecast {
			if a, b := math.Sqrt(forecast[i]), math.Sqrt(drawn[i]); math.Abs(a-b) > tolerance*b {
				t.Errorf("%s at %v: forecast %v, drawn %v", lossName, ForecastMissing(i), a, b)
			}
		}
	}
}
