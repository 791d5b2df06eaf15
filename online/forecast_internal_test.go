package online

import (
	"math"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/online/probe"
	"blankout/online/synthetic"
)

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
			s, next := synthetic.SilentStream(classes)
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
