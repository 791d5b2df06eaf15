package online_test

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/online"
	"blankout/online/synthetic"
)

// ordinary draws an event of a shop into x and returns its label. An event has three normal fields, an amount whose
// logarithm has mean 3 and standard deviation 1, and the hour of the day. The smallest possible expected log-loss is
// .433.
func ordinary(r *rand.Rand, x []float64) float64 {
	for d := range 3 {
		x[d] = r.NormFloat64()
	}
	x[3] = math.Exp(3 + r.NormFloat64())
	x[4] = float64(r.IntN(24))
	return 1.5*x[0] - 1.25*x[1] + x[2] + 0.02*(x[3]-33) + 0.06*(x[4]-11.5)
}

// payment draws data like a shop's with a rare class. The probability of the class depends on the logarithm of the
// amount.
func payment(r *rand.Rand, x []float64) float64 {
	ordinary(r, x)
	return -6 + 1.2*x[0] - x[1] + 0.8*x[2] + math.Log(x[3]) - 3
}

// heavy returns a draw with three normal and two lognormal fields. sigma is the standard deviation of the logarithms of
// the lognormal fields. Predicting only the class frequencies has a log-loss of .54.
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

// source is a stream of two classes. A test corrupts some of its events.
type source struct {
	name  string
	start func(t *testing.T, seed uint64) (l *online.Learner, next func() *event.Example)
	// change replaces the readings of an event that a test corrupts.
	change func(e *event.Example, to func(x float64) float64)
	free   uint16  // a column and field that are not in any event
	few    bool    // the stream is synthetic.FewColumns
	limit  float64 // largest growth of the error after a sequence of outliers, in percent
}

// fieldSources returns a stream of five numbers, once as named fields and once as sparse columns. A test corrupts the
// given field.
func fieldSources(name string, draw draw, field int) (out []source) {
	const width = 5
	for _, sparse := range []bool{false, true} {
		out = append(out, source{
			name: name + map[bool]string{false: "/named", true: "/sparse"}[sparse], free: width + 1, limit: 1.2,
			start: func(t *testing.T, seed uint64) (*online.Learner, func() *event.Example) {
				schema, s := synthetic.FieldsSchema(width+1), synthetic.NewFields(seed, width, draw)
				if sparse {
					schema = event.NewSchema(10, []string{"0", "1"}, 2)
				}
				return newLearner(t, online.DefaultConfig(), schema), func() *event.Example {
					e := *s.Next()
					if sparse {
						e.Field = nil
					}
					return &e
				}
			},
			change: func(e *event.Example, to func(x float64) float64) {
				e.Features.Value[field] = to(e.Features.Value[field])
			},
		})
	}
	return out
}

// fewSources returns streams of few sparse columns, one for each kind of column that is divided by a scale.
func fewSources() (out []source) {
	for _, c := range []struct {
		name, mode string
		kind       event.Kind
	}{{"few/sparse", "auto", event.Sparse}, {"few/cross", "auto", event.Cross}, {"few/all", "all", event.Sparse}} {
		out = append(out, source{
			name: c.name, free: synthetic.FewWidth + 1, few: true, limit: 1.5, change: synthetic.Change,
			start: func(t *testing.T, seed uint64) (*online.Learner, func() *event.Example) {
				schema := event.NewSchema(10, []string{"0", "1"}, 2)
				if c.kind != event.Sparse {
					for range synthetic.FewWidth + 1 {
						schema.Fields = append(schema.Fields, event.Field{Name: "a*b", Kind: c.kind})
					}
				}
				few := &synthetic.FewColumns{R: rand.New(rand.NewPCG(seed, 15)), Kind: c.kind}
				return newLearner(t, with(func(x *online.Config) { x.Standardize = c.mode }), schema), few.Next
			},
		})
	}
	return out
}

type outcome struct{ error, loss float64 } // in percent; in nats

// follow learns n events, each after a change by spoil. It returns the measures of the events from index from on. The
// measures use the labels before spoil changed them.
func (s source) follow(t *testing.T, seed uint64, n, from int, spoil spoil) (o outcome) {
	t.Helper()
	l, next := s.start(t, seed)
	for i := range n {
		e := next()
		y := float64(2*e.Label - 1)
		if spoil != nil {
			spoil(i, e)
		}
		f := l.Learn(e, nil).Scores[0]
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

// each runs f as a subtest for each source. k is the index of the source.
func each(t *testing.T, f func(t *testing.T, k int, s source), sources ...[]source) {
	longtest.NotRaced(t)
	t.Parallel()
	for k, s := range slices.Concat(sources...) {
		t.Run(s.name, func(t *testing.T) { f(t, k, s) })
	}
}

// TestOrdinaryAmount checks the loss on the stream ordinary, for all events and for the first events.
func TestOrdinaryAmount(t *testing.T) {
	each(t, func(t *testing.T, _ int, s source) {
		for seed := range uint64(2) {
			if all := s.follow(t, seed, 12_000, 0, nil); !(all.loss <= 0.48) {
				t.Errorf("seed %d: log-loss %.3f", seed, all.loss)
			}
			if first := s.follow(t, seed, 500, 0, nil); !(first.loss <= 0.6) {
				t.Errorf("seed %d: log-loss %.3f of the first 500", seed, first.loss)
			}
		}
	}, fieldSources("ordinary", ordinary, 3))
}

// TestOneOutlier adds one outlier of different sizes at different positions. The error must increase only a little.
func TestOneOutlier(t *testing.T) {
	positions, values := []int{0, 2, 8, 32, 64, 1000}, []float64{-1e4, 1e30}
	if longtest.Asked() {
		positions, values = []int{0, 1, 2, 3, 5, 7, 8, 9, 12, 20, 31, 32, 35, 63, 64, 79, 150, 500, 1000, 1100}, []float64{-1e4, math.MaxInt64, 1e30}
	}
	each(t, func(t *testing.T, k int, s source) {
		clean := s.follow(t, 1, 2000, 0, nil).loss
		for i, at := range positions {
			for j, outlier := range values {
				if (i+j+k)%2 > 0 && !longtest.Asked() {
					continue // test half of the sources at each position
				}
				got := s.follow(t, 1, 2000, 0, func(i int, e *event.Example) {
					if i == at {
						s.change(e, func(float64) float64 { return outlier })
					}
				}).loss
				if !(got <= 1.1*clean+0.01) {
					t.Errorf("%g at %d: log-loss %.3f, clean %.3f", outlier, at, got, clean)
				}
			}
		}
	}, fieldSources("steep", synthetic.Steep, 2), fieldSources("ordinary", ordinary, 3), fieldSources("payment", payment, 3), fewSources())
}

// TestExtremeSequences checks sequences of outliers that permanently damaged the model of an earlier version. It checks
// the error directly after a sequence and after 2,000 further events.
func TestExtremeSequences(t *testing.T) {
	const at, n, from = 1500, 5000, 1500 + 90 + 2000
	each(t, func(t *testing.T, k int, s source) {
		added := func(n int, value func(k int) float64) spoil { // in a column that is not in other events
			return func(i int, e *event.Example) {
				if k := i - at; k >= 0 && k < n {
					eventtest.Put(e, uint32(s.free), value(k))
					if e.Field != nil {
						e.Field = append(e.Field, s.free)
					}
				}
			}
		}
		list := func(x ...float64) spoil { return added(len(x), func(k int) float64 { return x[k] }) }
		spoilt := func(first, events int, to func(k int, x float64) float64) spoil {
			return func(i int, e *event.Example) {
				if k := i - first; k >= 0 && k < events {
					s.change(e, func(x float64) float64 { return to(k, x) })
				}
			}
		}
		series := func(n int, value func(k int) float64) spoil {
			if s.few {
				return spoilt(at, n, func(k int, _ float64) float64 { return value(k) })
			}
			return added(n, value)
		}
		until := func(n int, outlier float64) spoil { return spoilt(0, n, func(int, float64) float64 { return outlier }) }
		lasting := func(factor, offset float64) spoil {
			return spoilt(at, n, func(_ int, x float64) float64 { return x*factor + offset })
		}
		clean := s.follow(t, 1, n, from, nil)
		sequences := map[string]spoil{
			"0 1 1e30":              list(0, 1, 1e30),
			"0 1 0 1 0 1 0 1000":    list(0, 1, 0, 1, 0, 1, 0, 1000),
			"1.5^k":                 series(60, func(k int) float64 { return math.Pow(1.5, float64(k)) }),
			"2^k":                   series(90, func(k int) float64 { return math.Pow(-2, float64(k)) }),
			"1e30 60 times":         series(60, func(int) float64 { return 1e30 }),
			"5 sentinels":           until(5, math.MaxInt64),
			"20 sentinels":          until(20, math.MaxInt64),
			"70 sentinels":          until(70, -999),
			"nothing but sentinels": until(at, math.MaxInt64),
			"a thousandfold":        lasting(1000, 0),
		}
		if !s.few {
			sequences["a thousandfold and more"], sequences["elsewhere"] = lasting(1000, 1e6), lasting(1, 1e9)
		}
		for i, name := range slices.Sorted(maps.Keys(sequences)) {
			if (i+k)%2 > 0 && !longtest.Asked() {
				continue
			}
			if got := s.follow(t, 1, n, from, sequences[name]); !(got.error <= clean.error+s.limit) || !(got.loss < 2*clean.loss) {
				t.Errorf("%s: error %.2f %%, log-loss %.3f; clean %.2f, %.3f", name, got.error, got.loss, clean.error, clean.loss)
			}
		}
	}, fieldSources("steep", synthetic.Steep, 2), fewSources())
}

// TestOutlierFraction checks the error if a fraction of the events has an outlier, with true or with flipped labels.
func TestOutlierFraction(t *testing.T) {
	each(t, func(t *testing.T, k int, s source) {
		const n = 6000
		clean := s.follow(t, 1, n, 0, nil)
		for i, fraction := range []float64{0.005, 0.02} {
			for h, flip := range []bool{false, true} {
				for j, outlier := range []float64{1e30, -1000} {
					if (h+i+j+k)%2 > 0 && !longtest.Asked() {
						continue
					}
					r := rand.New(rand.NewPCG(3, 3))
					got := s.follow(t, 1, n, 0, func(_ int, e *event.Example) {
						if r.Float64() < fraction {
							if s.change(e, func(float64) float64 { return outlier }); flip {
								e.Label = 1 - e.Label
							}
						}
					})
					if !(got.error <= clean.error+3) || fraction == 0.005 && !(got.loss <= 1.3*clean.loss) {
						t.Errorf("share %v of %g, labels flipped %v: error %.2f %%, log-loss %.3f; clean %.2f, %.3f", fraction, outlier, flip, got.error, got.loss, clean.error, clean.loss)
					}
				}
			}
		}
	}, fieldSources("steep", synthetic.Steep, 2), fewSources())
}

// TestHeavyTails checks that lognormal fields do not increase the error, for any standard deviation of their
// logarithms.
func TestHeavyTails(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	for i, sigma := range []float64{1, 2, 3, 5} {
		for k, s := range fieldSources("heavy", heavy(sigma), 0) {
			for seed := range 2 {
				if (i+seed+k)%2 > 0 && !longtest.Asked() {
					continue
				}
				if got := s.follow(t, uint64(seed), 8000, 0, nil); !(got.loss <= 0.56) {
					t.Errorf("%s, sigma %v, seed %d: log-loss %.3f", s.name, sigma, seed, got.loss)
				}
			}
		}
	}
}
