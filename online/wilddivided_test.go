package online_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

// followFew learns n events, each changed by spoil first. It returns the measures from an event on, with the labels
// from before spoil.
func followFew(t *testing.T, f *synthetic.FewColumns, mode string, n, from int, spoil spoil) (o outcome) {
	t.Helper()
	schema := event.NewSchema(10, []string{"0", "1"}, 2)
	if f.Kind != event.Sparse {
		for range synthetic.FewWidth + 1 {
			schema.Fields = append(schema.Fields, event.Field{Name: "a*b", Kind: f.Kind})
		}
	}
	c := online.DefaultConfig()
	c.Standardize = mode
	l := must.Get(online.New(c, schema))
	for i := range n {
		e := f.Next()
		y := float64(2*e.Label - 1)
		if spoil != nil {
			spoil(i, e)
		}
		s := l.Learn(e, nil).Scores[0]
		if i < from {
			continue
		}
		if y*s <= 0 {
			o.error += 100 / float64(n-from)
		}
		o.loss += (max(-y*s, 0) + math.Log1p(math.Exp(-math.Abs(s)))) / float64(n-from)
	}
	finite(t, l)
	return o
}

// divided runs f with each kind of column that is divided.
func divided(t *testing.T, f func(t *testing.T, run func(n, from int, s spoil) outcome)) {
	for _, c := range []struct {
		name, mode string
		kind       event.Kind
	}{{"sparse", "auto", event.Sparse}, {"cross", "auto", event.Cross}, {"all", "all", event.Sparse}} {
		t.Run(c.name, func(t *testing.T) {
			f(t, func(n, from int, s spoil) outcome {
				few := &synthetic.FewColumns{R: rand.New(rand.NewPCG(1, 15)), Kind: c.kind}
				return followFew(t, few, c.mode, n, from, s)
			})
		})
	}
}

// One outlier in several columns at any position.
func TestOneWildDivided(t *testing.T) {
	longtest.NotRaced(t)
	divided(t, func(t *testing.T, run func(n, from int, s spoil) outcome) {
		clean := run(2000, 0, nil).loss
		for i, at := range []int{0, 1, 3, 9, 32, 64, 500, 1100} {
			for j, wild := range []float64{-1e4, 1e30} {
				if !longtest.Some(i+j+1, 2) {
					continue
				}
				got := run(2000, 0, func(i int, e *event.Example) {
					if i == at {
						synthetic.Change(e, func(float64) float64 { return wild })
					}
				}).loss
				if !(got <= 1.1*clean+0.01) {
					t.Errorf("%g at %d: log-loss %.3f, clean %.3f", wild, at, got, clean)
				}
			}
		}
	})
}

// Sequences that once ruined a column permanently: the error after 2,000 further events.
func TestWildSequencesDivided(t *testing.T) {
	longtest.NotRaced(t)
	const at, n, from = 1500, 5000, 1500 + 90 + 2000
	added := func(x ...float64) spoil { // a ninth column
		return func(i int, e *event.Example) {
			if k := i - at; k >= 0 && k < len(x) {
				e.Features.Index = append(e.Features.Index, synthetic.FewWidth+1)
				e.Features.Value = append(e.Features.Value, x[k])
				if e.Field != nil {
					e.Field = append(e.Field, synthetic.FewWidth+1)
				}
			}
		}
	}
	spoilt := func(first, events int, to func(k int, x float64) float64) spoil {
		return func(i int, e *event.Example) {
			if k := i - first; k >= 0 && k < events {
				synthetic.Change(e, func(x float64) float64 { return to(k, x) })
			}
		}
	}
	divided(t, func(t *testing.T, run func(n, from int, s spoil) outcome) {
		clean := run(n, from, nil)
		sequences := map[string]spoil{
			"0 1 1e30":              added(0, 1, 1e30),
			"0 1 0 1 0 1 0 1000":    added(0, 1, 0, 1, 0, 1, 0, 1000),
			"1.5^k":                 spoilt(at, 60, func(k int, _ float64) float64 { return math.Pow(1.5, float64(k)) }),
			"2^k":                   spoilt(at, 90, func(k int, _ float64) float64 { return math.Pow(-2, float64(k)) }),
			"1e30 60 times":         spoilt(at, 60, func(int, float64) float64 { return 1e30 }),
			"5 sentinels":           spoilt(0, 5, func(int, float64) float64 { return math.MaxInt64 }),
			"70 sentinels":          spoilt(0, 70, func(int, float64) float64 { return -999 }),
			"nothing but sentinels": spoilt(0, at, func(int, float64) float64 { return math.MaxInt64 }),
			"a thousandfold":        spoilt(at, n, func(_ int, x float64) float64 { return 1000 * x }),
		}
		for i, name := range slices.Sorted(maps.Keys(sequences)) {
			if !longtest.Some(i, 2) {
				continue
			}
			s := sequences[name]
			if got := run(n, from, s); !(got.error <= clean.error+1.5) || !(got.loss < 2*clean.loss) {
				t.Errorf("%s: error %.2f %%, log-loss %.3f; clean %.2f, %.3f", name, got.error, got.loss, clean.error, clean.loss)
			}
		}
	})
}

// A share of the events has outliers, with true or flipped labels.
func TestWildShareDivided(t *testing.T) {
	longtest.NotRaced(t)
	divided(t, func(t *testing.T, run func(n, from int, s spoil) outcome) {
		const n = 5000
		clean := run(n, 0, nil)
		for i, share := range []float64{0.005, 0.02} {
			for j, wild := range []float64{1e30, -1000} {
				for k, flip := range []bool{false, true} {
					if !longtest.Some(i+j+k+1, 2) {
						continue
					}
					r := rand.New(rand.NewPCG(3, 3))
					got := run(n, 0, func(_ int, e *event.Example) {
						if r.Float64() < share {
							if synthetic.Change(e, func(float64) float64 { return wild }); flip {
								e.Label = 1 - e.Label
							}
						}
					})
					if !(got.error <= clean.error+3) || share == 0.005 && !(got.loss <= 1.3*clean.loss) {
						t.Errorf("share %v of %g, labels flipped %v: error %.2f %%, log-loss %.3f; clean %.2f, %.3f", share, wild, flip, got.error, got.loss, clean.error, clean.loss)
					}
				}
			}
		}
	})
}
