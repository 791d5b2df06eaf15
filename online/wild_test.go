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

// ordinary draws the data of a shop: three normal fields, an amount whose logarithm has mean 3 and deviation 1, and the
// hour of the day. The smallest possible expected log-loss is .433.
func ordinary(r *rand.Rand, x []float64) float64 {
	for d := range 3 {
		x[d] = r.NormFloat64()
	}
	x[3] = math.Exp(3 + r.NormFloat64())
	x[4] = float64(r.IntN(24))
	return 1.5*x[0] - 1.25*x[1] + x[2] + 0.02*(x[3]-33) + 0.06*(x[4]-11.5)
}

// payment draws a shop's event with a rare class that depends on the logarithm of the amount.
func payment(r *rand.Rand, x []float64) float64 {
	ordinary(r, x)
	return -6 + 1.2*x[0] - x[1] + 0.8*x[2] + math.Log(x[3]) - 3
}

// heavy returns a draw of three normal and two lognormal fields with the given deviation of their logarithms. The class
// shares alone have a log-loss of .54.
func heavy(sigma float64) draw {
	return func(r *rand.Rand, x []float64) float64 {
		for d := range x {
			x[d] = r.NormFloat64()
		}
		odds := -1.3 + 0.3*(x[0]-x[1]+x[2]+x[3])
		x[3], x[4] = math.Exp(sigma*x[3]), math.Exp(sigma*x[4])
		return odds
	}
}

type (
	draw  func(r *rand.Rand, x []float64) (odds float64)
	spoil func(i int, e *event.Example)
)

type outcome struct{ error, loss float64 } // percent; nats

// follow learns n events, each changed by spoil first. It returns the measures from an event on, with the labels from
// before spoil. Events have named fields or are sparse text.
func follow(t *testing.T, seed uint64, sparse bool, draw draw, n, from int, spoil spoil) (o outcome) {
	t.Helper()
	const width = 5
	schema := synthetic.FieldsSchema(width + 1)
	if sparse {
		schema = event.NewSchema(10, []string{"0", "1"}, 2)
	}
	l := must.Get(online.New(online.DefaultConfig(), schema))
	s := synthetic.NewFields(seed, width, draw)
	for i := range n {
		e := s.Next()
		y := float64(2*e.Label - 1)
		if spoil != nil {
			spoil(i, e)
		}
		event := *e
		if sparse {
			event.Field = nil
		}
		f := l.Learn(&event, nil).Scores[0]
		if i < from {
			continue
		}
		if y*f <= 0 {
			o.error += 100 / float64(n-from)
		}
		o.loss += (max(-y*f, 0) + math.Log1p(math.Exp(-math.Abs(f)))) / float64(n-from)
	}
	finite(t, l)
	return o
}

// both runs f with named fields and with sparse columns.
func both(t *testing.T, f func(t *testing.T, sparse bool)) {
	for _, sparse := range []bool{false, true} {
		t.Run(map[bool]string{false: "named", true: "sparse"}[sparse], func(t *testing.T) { f(t, sparse) })
	}
}

// The first events of a stream with an ordinary amount, and the rest.
func TestOrdinaryAmount(t *testing.T) {
	longtest.NotRaced(t)
	both(t, func(t *testing.T, sparse bool) {
		for seed := range uint64(2) {
			if all := follow(t, seed, sparse, ordinary, 12_000, 0, nil); !(all.loss <= 0.48) {
				t.Errorf("seed %d: log-loss %.3f", seed, all.loss)
			}
			if first := follow(t, seed, sparse, ordinary, 500, 0, nil); !(first.loss <= 0.6) {
				t.Errorf("seed %d: log-loss %.3f of the first 500", seed, first.loss)
			}
		}
	})
}

// One outlier at any position and of any size.
func TestOneWildValue(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	positions, values := []int{0, 2, 8, 32, 64, 1000}, []float64{-1e4, 1e30}
	if longtest.Asked() {
		positions, values = []int{0, 1, 2, 3, 5, 7, 8, 9, 12, 20, 31, 32, 35, 63, 64, 79, 150, 1000}, []float64{-1e4, math.MaxInt64, 1e30}
	}
	both(t, func(t *testing.T, sparse bool) {
		for _, c := range []struct {
			name  string
			draw  draw
			field int
		}{{"steep", synthetic.Steep, 2}, {"ordinary", ordinary, 3}, {"payment", payment, 3}} {
			clean := follow(t, 1, sparse, c.draw, 2000, 0, nil).loss
			for i, at := range positions {
				for j, wild := range values {
					if (i+j)%2 > 0 != sparse && !longtest.Asked() {
						continue // at each position either named or sparse
					}
					got := follow(t, 1, sparse, c.draw, 2000, 0, func(i int, e *event.Example) {
						if i == at {
							e.Features.Value[c.field] = wild
						}
					}).loss
					if !(got <= 1.1*clean+0.01) {
						t.Errorf("%s, %g at %d: log-loss %.3f, clean %.3f", c.name, wild, at, got, clean)
					}
				}
			}
		}
	})
}

// Sequences that once ruined a model permanently: the error after 2,000 further events.
func TestWildSequences(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	const at = 1500
	values := func(n int, value func(k int) float64) spoil { // of a sixth field
		return func(i int, e *event.Example) {
			if k := i - at; k >= 0 && k < n {
				e.Features.Index = append(e.Features.Index, 6)
				e.Features.Value = append(e.Features.Value, value(k))
				e.Field = append(e.Field, 6)
			}
		}
	}
	list := func(x ...float64) spoil { return values(len(x), func(k int) float64 { return x[k] }) }
	until := func(n int, wild float64) spoil {
		return func(i int, e *event.Example) {
			if i < n {
				e.Features.Value[2] = wild
			}
		}
	}
	lasting := func(factor, offset float64) spoil {
		return func(i int, e *event.Example) {
			if i >= at {
				e.Features.Value[2] = e.Features.Value[2]*factor + offset
			}
		}
	}
	both(t, func(t *testing.T, sparse bool) {
		const n, from = 5000, at + 64 + 2000
		clean := follow(t, 1, sparse, synthetic.Steep, n, from, nil)
		sequences := map[string]spoil{
			"0 1 1e30":                list(0, 1, 1e30),
			"0 1 0 1 0 1 0 1000":      list(0, 1, 0, 1, 0, 1, 0, 1000),
			"1.5^k":                   values(60, func(k int) float64 { return math.Pow(1.5, float64(k)) }),
			"2^k":                     values(90, func(k int) float64 { return math.Pow(-2, float64(k)) }),
			"5 sentinels":             until(5, math.MaxInt64),
			"20 sentinels":            until(20, math.MaxInt64),
			"70 sentinels":            until(70, -999),
			"nothing but sentinels":   until(at, math.MaxInt64),
			"a thousandfold":          lasting(1000, 0),
			"a thousandfold and more": lasting(1000, 1e6),
			"elsewhere":               lasting(1, 1e9),
		}
		for i, name := range slices.Sorted(maps.Keys(sequences)) {
			if sparse != (i%2 > 0) && !longtest.Asked() {
				continue
			}
			spoil := sequences[name]
			if got := follow(t, 1, sparse, synthetic.Steep, n, from, spoil); !(got.error <= clean.error+1.2) || !(got.loss < 2*clean.loss) {
				t.Errorf("%s: error %.2f %%, log-loss %.3f; clean %.2f, %.3f", name, got.error, got.loss, clean.error, clean.loss)
			}
		}
	})
}

// A share of the events has an outlier, with true or flipped labels.
func TestWildShare(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	both(t, func(t *testing.T, sparse bool) {
		const n = 6000
		clean := follow(t, 1, sparse, synthetic.Steep, n, 0, nil)
		for i, share := range []float64{0.005, 0.02} {
			for _, flip := range []bool{false, true} {
				for j, wild := range []float64{1e30, -1000} {
					if sparse != (i+j == 1) && !longtest.Asked() {
						continue
					}
					r := rand.New(rand.NewPCG(3, 3))
					got := follow(t, 1, sparse, synthetic.Steep, n, 0, func(_ int, e *event.Example) {
						if r.Float64() < share {
							if e.Features.Value[2] = wild; flip {
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

// Lognormal fields do no harm, whatever their deviation.
func TestHeavyTails(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	both(t, func(t *testing.T, sparse bool) {
		for i, sigma := range []float64{1, 2, 3, 5} {
			for seed := range uint64(2) {
				if sparse != ((i+int(seed))%2 > 0) && !longtest.Asked() {
					continue
				}
				if got := follow(t, seed, sparse, heavy(sigma), 8000, 0, nil); !(got.loss <= 0.56) {
					t.Errorf("sigma %v, seed %d: log-loss %.3f", sigma, seed, got.loss)
				}
			}
		}
	})
}
