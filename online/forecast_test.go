package online_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

// The forecast for half of the features, or groups, missing equals the error of the published model on new events,
// declared and silent.
func TestForecastAsMeasured(t *testing.T) {
	longtest.NotRaced(t)
	s, next := synthetic.SilentStream(2)
	l := must.Get(online.New(online.DefaultConfig(), s))
	for range 8000 {
		l.Learn(next(), nil)
	}
	metrics, m := l.Report(), l.Snapshot().Model()
	forecast, grouping := metrics.Forecasts(), model.NewGrouping(s)
	if again := metrics.Forecasts(); again.Declared[5].Error != forecast.Declared[5].Error || again.SilentGroups[5].Error != forecast.SilentGroups[5].Error {
		t.Error("a second call returns another forecast")
	}
	r := rand.New(rand.NewPCG(3, 5))
	// dies returns which columns of an event die, in whole groups or independently.
	dies := func(columns []uint32, fields []uint16, groups bool) []bool {
		dead, of := make([]bool, len(columns)), map[string]bool{}
		for i, field := range fields {
			name := s.Fields[field].Name
			if groups && s.Fields[field].Group != "" {
				name = s.Fields[field].Group
			}
			if _, drawn := of[name]; !drawn {
				of[name] = r.IntN(2) == 0
			}
			dead[i] = of[name]
		}
		m.Scaler.Curves.Follow(columns, dead)
		return dead
	}
	if !grouping.Declared() {
		t.Fatal("the fields have no groups")
	}
	const events = 10000
	fresh := make([]*event.Example, events)
	for i := range fresh {
		fresh[i] = next()
	}
	for _, c := range []struct {
		groups, silent bool
		points         []online.ForecastPoint
	}{{false, false, forecast.Declared}, {false, true, forecast.Silent}, {true, false, forecast.DeclaredGroups}, {true, true, forecast.SilentGroups}} {
		var whole, wrong, logLoss float64
		scores := make([]float64, m.Outputs)
		measure := func(e *event.Example, scores []float64) (miss, loss float64) {
			if m.Predict(scores) != e.Label {
				miss = 100.0 / events
			}
			return miss, -math.Log(m.Probabilities(scores, make([]float64, 2))[e.Label]) / events
		}
		for _, e := range fresh {
			x := m.Standardized(e, event.Vec{})
			field := m.Scaler.FieldsOf(e, x.Index, nil)
			dead := dies(x.Index, field, c.groups)
			miss, _ := measure(e, m.Score(e, scores))
			whole += miss
			var left event.Example
			if c.silent {
				model.DeleteSilently(m, e, x.Index, dead, &left)
				scores = m.Score(&left, scores)
			} else {
				m.Delete(e, x, field, dead, true, &left)
				scores = m.ScoreLacking(left.Features, &left, scores)
			}
			miss, loss := measure(e, scores)
			wrong, logLoss = wrong+miss, logLoss+loss
		}
		at, zero := c.points[5], c.points[0]
		if math.Abs(zero.Error-whole) > 3 || math.Abs(at.Error-wrong) > 3 || math.Abs(*at.LogLoss-logLoss) > 0.03 || *zero.LogLoss > logLoss-0.05 {
			t.Errorf("groups %v, silent %v: errors %v and %v and log-losses %v and %v are forecast, of whole events and half; they are %v, %v and, of half, %v",
				c.groups, c.silent, zero.Error, at.Error, *zero.LogLoss, *at.LogLoss, whole, wrong, logLoss)
		}
	}
}
