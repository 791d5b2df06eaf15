package online

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/online/probe"
)

// silentStream has events of two or three classes: a number around 10, one that is 0 every other time, one with a
// transform, one that bends the score, a number that seldom is there, and a category.
func silentStream(classes int) (*event.Schema, func() *event.Example) {
	s := event.NewSchema(12, []string{"a", "b", "c"}[:classes], classes)
	names := []string{"around", "zeros", "heavy", "bent", "seldom", "kind"}
	for id, name := range names {
		f := event.Field{Name: name, Kind: event.Numeric, Column: uint32(1 + id)}
		if name == "kind" {
			f.Kind = event.Categorical
		}
		if id < 2 {
			f.Group = "first"
		}
		s.AddField(f)
	}
	r := rand.New(rand.NewPCG(7, 11))
	return s, func() *event.Example {
		class := r.IntN(classes)
		z := float64(class) - 0.5*float64(classes-1)
		x := []float64{10 + z + r.NormFloat64(), 0, math.Exp(3*r.NormFloat64() + z), z*z + r.NormFloat64(), z + r.NormFloat64(), 1}
		if r.IntN(2) == 0 {
			x[1] = 3 + z + r.NormFloat64()
		}
		e := &event.Example{Label: class, Weight: 1}
		for id, v := range x {
			column := uint32(1 + id)
			switch {
			case names[id] == "seldom" && r.IntN(4) > 0:
				continue
			case names[id] == "kind":
				column = 20 + uint32(r.IntN(2)*class)
			}
			e.Field, e.Features.Index, e.Features.Value = append(e.Field, uint16(1+id)), append(e.Features.Index, column), append(e.Features.Value, v)
		}
		return e
	}
}

// What is forecast of silent loss is what the published model answers, of an event that lacks nothing, once the same features
// have died silently.
func TestSilentForecastAsAnswered(t *testing.T) {
	longtest.NotRaced(t)
	for name, change := range map[string]func(*Config){
		"auto":   func(c *Config) {},
		"key":    func(c *Config) { c.SilentMissing = 0.5 },
		"groups": func(c *Config) { c.ExpectedMissingGroups = 0.3 },
		"zero":   func(c *Config) { c.SilentValue = "zero" },
	} {
		for _, classes := range []int{2, 3} {
			c := DefaultConfig()
			change(&c)
			s, next := silentStream(classes)
			l, err := New(c, s)
			if err != nil {
				t.Fatal(err)
			}
			for range 3000 {
				l.Learn(next(), nil)
			}
			if l.scaling.Scaler.Curves == nil || !l.second.knows() {
				t.Fatal("there are no curves")
			}
			metrics := l.Report()
			if f := metrics.Forecasts(); f == nil || len(f.Silent) != ForecastPoints || f.Silent[0].Error != f.Declared[0].Error || f.Silent[9].LogLoss == nil || len(f.SilentGroups) != ForecastPoints {
				t.Fatalf("%+v", f)
			}
			compared, moved, off := 0, 0.0, 0.0
			for range 60 {
				e := next()
				l.atHand(e)
				if l.now.hasMoved || l.second.away {
					l.learnFrom(e)
					continue
				}
				for _, groups := range []bool{false, true} {
					l.drawMask(e, groups)
					l.sumLeft()
					l.sumGone()
					for point := 1; point < probe.Points; point++ {
						m := &model.Linear{Head: l.head(l.schema), Rows: l.table}
						m.Dead = l.dead.Dead()
						m.Missing = nil // a category is not sent, and nobody says so
						l.publishSecond()
						x := m.Standardized(e, event.Vec{})
						dead, last := make([]bool, x.Len()), map[uint32]int{}
						for i, column := range l.now.columns[:len(l.features())] {
							last[column] = int(l.probing.mask.Last[i])
						}
						for i, column := range x.Index {
							died, known := last[m.Scaler.Curves.Source(column)]
							dead[i] = known && died < point
						}
						var left event.Example
						model.DeleteSilently(m, e, x.Index, dead, &left)
						want := m.Score(&left, make([]float64, l.k))
						got := l.scoreGone(point)
						for k := range want {
							compared++
							off = max(off, math.Abs(got[k]-want[k]))
							moved = max(moved, math.Abs(got[k]-l.now.scores[k]))
						}
					}
				}
				l.learnFrom(e)
			}
			// Where no level learns from it, what dead numbers read is read at some events only: a mean is not quite the center.
			within := 0.3
			if name == "key" || name == "zero" {
				within = 1e-9
			}
			if off > within {
				t.Errorf("%s, %d classes: scores are off by %v", name, classes, off)
			}
			if compared < 500 || moved < 0.1 {
				t.Errorf("%s: %d scores are compared, of which one has moved by %v", name, compared, moved)
			}
		}
	}
}

// What is forecast of features, and of groups, half of which are gone is what the published model errs on fresh events, declared
// and silent.
func TestForecastAsMeasured(t *testing.T) {
	longtest.NotRaced(t)
	s, next := silentStream(2)
	l, err := New(DefaultConfig(), s)
	if err != nil {
		t.Fatal(err)
	}
	for range 8000 {
		l.Learn(next(), nil)
	}
	metrics, m := l.Report(), l.Published()
	forecast, grouping := metrics.Forecasts(), model.NewGrouping(s)
	if again := metrics.Forecasts(); again.Declared[5].Error != forecast.Declared[5].Error || again.SilentGroups[5].Error != forecast.SilentGroups[5].Error {
		t.Error("a second call returns another forecast")
	}
	r := rand.New(rand.NewPCG(3, 5))
	// dies returns which columns of an event die, in whole groups or one by one.
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
		points         []ForecastPoint
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
