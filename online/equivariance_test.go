package online_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
)

// regression returns a learner of two numbers with a loss, with or without the experts.
func regression(t *testing.T, lossName, rule string) *online.Learner {
	t.Helper()
	c := online.DefaultConfig()
	c.Loss, c.Optimizer = lossName, rule
	s := event.NewSchema(8, nil, 2)
	s.Target = loss.LabelsOf(lossName)
	for _, name := range []string{"x", "z"} {
		s.AddField(event.Field{Name: name, Kind: event.Numeric})
	}
	return must.Get(online.New(c, s))
}

// numberEvent returns an event with the target 3 + 2x - z + noise.
func numberEvent(r *rand.Rand) *event.Example {
	x, z := r.NormFloat64(), r.NormFloat64()
	return &event.Example{Target: 3 + 2*x - z + 0.3*r.NormFloat64(), Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{x, z}}, Field: []uint16{1, 2}}
}

// predicted returns the prediction of the published model for an event.
func predicted(l *online.Learner, e *event.Example) float64 {
	m := l.Snapshot().Model()
	return m.Value(m.Score(e, make([]float64, 1))[0])
}

// Regression is equivariant: targets a y + b give predictions a times as large plus b, from the second event on.
func TestRegressionIsEquivariant(t *testing.T) {
	longtest.NotRaced(t)
	for h, rule := range []string{"auto", "adagrad"} {
		for j, lossName := range []string{"squared", "absolute", "quantile:0.8", "huber:1", "poisson"} {
			counts := lossName == "poisson"
			units := [][2]float64{{1e-12, 0}, {1e12, 0}, {1e-3, 0}}
			if !counts {
				units = append(units, [][2]float64{{1, 1e9}, {1e-9, 0.09}, {1e12, -1e18}, {7, -21}}...)
			}
			for k, unit := range units {
				if !longtest.Some(h+j+k, 3) {
					continue
				}
				t.Run(fmt.Sprint(rule, "/", lossName, "/", unit), func(t *testing.T) {
					t.Parallel()
					plain, other := regression(t, lossName, rule), regression(t, lossName, rule)
					r, again := rand.New(rand.NewPCG(5, 6)), rand.New(rand.NewPCG(5, 6))
					tolerance := 1e-6
					if unit[1] != 0 {
						tolerance = 1e-3 // the targets themselves are rounded to a millionth of their spread
					}
					for i := range 1500 {
						e, f := numberEvent(r), numberEvent(again)
						if counts {
							e.Target = math.Floor(math.Exp(e.Target / 2))
							f.Target = e.Target
						}
						f.Target = unit[0]*f.Target + unit[1]
						if i > 0 && (i < 20 || i%7 == 0) {
							if got, want := predicted(other, f), unit[0]*predicted(plain, e)+unit[1]; math.Abs(got-want) > tolerance*unit[0] {
								t.Fatalf("event %d: %v, want %v", i, got, want)
							}
						}
						plain.Learn(e, nil)
						other.Learn(f, nil)
					}
				})
			}
		}
	}
}

// From the second target on, the size of the first targets does not matter.
func TestSecondTargetIsPredicted(t *testing.T) {
	for _, lossName := range []string{"squared", "absolute"} {
		for _, start := range []float64{0.09, 0.11, 0, 1e-9, 43, -1e6} {
			l := regression(t, lossName, "auto")
			r := rand.New(rand.NewPCG(1, 1))
			for _, y := range []float64{start, start + 0.001} {
				e := numberEvent(r)
				e.Target = y
				l.Learn(e, nil)
			}
			if got := predicted(l, numberEvent(r)); math.Abs(got-start-0.0005) > 0.002 {
				t.Errorf("%s: %v after targets from %v on", lossName, got, start)
			}
		}
	}
}

// Outliers among the targets, at any place and up to one in a hundred, cost almost nothing.
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
		for j, lossName := range []string{"squared", "absolute", "quantile:0.5", "huber:1"} {
			if !longtest.Some(i+j, 4) {
				continue
			}
			t.Run(name+"/"+lossName, func(t *testing.T) {
				t.Parallel()
				l, r := regression(t, lossName, "auto"), rand.New(rand.NewPCG(7, 8))
				for i := range 12000 {
					for _, y := range extra(i) {
						l.Learn(&event.Example{Target: y, Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{0.1, 0.1}}, Field: []uint16{1, 2}}, nil)
					}
					l.Learn(numberEvent(r), nil)
				}
				off, in, m := 0.0, 0.0, l.Snapshot().Model()
				for range 2000 {
					e := numberEvent(r)
					value := m.Value(m.Score(e, make([]float64, 1))[0])
					off += math.Abs(e.Target-value) / 2000
					if low, high := m.Interval(value, model.Lacked{}); low <= e.Target && e.Target <= high {
						in += 1.0 / 2000
					}
				}
				if off > 0.27 || in < 0.86 || in > 0.95 {
					t.Errorf("MAE %.3f, coverage %.3f; want .24 and .9", off, in)
				}
			})
		}
	}
}

// The learner follows targets that change their unit. Zeros among rare sales do not make it forget the sales.
func TestTargetsThatChange(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	for _, factor := range []float64{1e-3, 1e3, 1e9} {
		l, r := regression(t, "squared", "auto"), rand.New(rand.NewPCG(7, 8))
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
		if off > 0.26*factor {
			t.Errorf("targets %v times as large: MAE %v", factor, off)
		}
	}
	for _, often := range []int{10, 40} {
		l, r := regression(t, "squared", "auto"), rand.New(rand.NewPCG(7, 8))
		for i := range 20000 {
			e := numberEvent(r)
			if e.Target = 0; i%often == 0 {
				e.Target = 100 + 20*r.NormFloat64()
			}
			l.Learn(e, nil)
		}
		if got, want := predicted(l, numberEvent(r)), 100/float64(often); math.Abs(got-want) > 0.5*want {
			t.Errorf("one sale of 100 in %d: %v predicted", often, got)
		}
	}
}
