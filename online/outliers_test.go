package online_test

import (
	"encoding/json"
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
	"blankout/online/optimizers"
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
	longtest.Numeric(t)
	for k, s := range slices.Concat(sources...) {
		t.Run(s.name, func(t *testing.T) { f(t, k, s) })
	}
}

// TestOrdinaryAmount checks the loss on the stream ordinary, for all events and for the first events.
func TestOrdinaryAmount(t *testing.T) {
	each(t, func(t *testing.T, _ int, s source) {
		for seed := range must.Either[uint64](longtest.Asked(), 2, 1) {
			all := s.follow(t, seed, 12_000, 0, nil)
			must.True(t, all.loss <= 0.48, "seed %d: log-loss %.3f", seed, all.loss)
			first := s.follow(t, seed, 500, 0, nil)
			must.True(t, first.loss <= 0.6, "seed %d: log-loss %.3f of the first 500", seed, first.loss)
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
			for _, outlier := range longtest.Few(values, i+k, 6) {
				got := s.follow(t, 1, 2000, 0, func(i int, e *event.Example) {
					if i == at {
						s.change(e, func(float64) float64 { return outlier })
					}
				}).loss
				must.True(t, got <= 1.1*clean+0.01, "%g at %d: log-loss %.3f, clean %.3f", outlier, at, got, clean)
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
		for _, name := range longtest.Few(slices.Sorted(maps.Keys(sequences)), 4*k, 5) {
			got := s.follow(t, 1, n, from, sequences[name])
			must.True(t, got.error <= clean.error+s.limit && got.loss < 2*clean.loss, "%s: error %.2f %%, log-loss %.3f; clean %.2f, %.3f", name, got.error, got.loss, clean.error, clean.loss)
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
				for _, outlier := range longtest.Few([]float64{1e30, -1000}, h+i+k, 4) {
					r := rand.New(rand.NewPCG(3, 3))
					got := s.follow(t, 1, n, 0, func(_ int, e *event.Example) {
						if r.Float64() < fraction {
							if s.change(e, func(float64) float64 { return outlier }); flip {
								e.Label = 1 - e.Label
							}
						}
					})
					must.True(t, got.error <= clean.error+3 && (fraction != 0.005 || got.loss <= 1.3*clean.loss),
						"share %v of %g, labels flipped %v: error %.2f %%, log-loss %.3f; clean %.2f, %.3f", fraction, outlier, flip, got.error, got.loss, clean.error, clean.loss)
				}
			}
		}
	}, fieldSources("steep", synthetic.Steep, 2), fewSources())
}

// TestHeavyTails checks that lognormal fields do not increase the error, for any standard deviation of their
// logarithms.
func TestHeavyTails(t *testing.T) {
	longtest.Numeric(t)
	for i, sigma := range []float64{1, 2, 3, 5} {
		for k, s := range fieldSources("heavy", heavy(sigma), 0) {
			for seed := range 2 {
				if !longtest.Some(i+k+2*seed, 4) {
					continue
				}
				got := s.follow(t, uint64(seed), 8000, 0, nil)
				must.True(t, got.loss <= 0.56, "%s, sigma %v, seed %d: log-loss %.3f", s.name, sigma, seed, got.loss)
			}
		}
	}
}

// unitSensors draws an event with three numbers in very different units, and a class that depends on them. Every
// reading is multiplied by unit.
func unitSensors(r *rand.Rand, unit float64) *event.Example {
	x, z, q := 50+3*r.NormFloat64(), 0.002*r.NormFloat64(), r.NormFloat64()
	label := must.Either(r.Float64() < 1/(1+math.Exp(-0.8*(x-50)-900*z+1.2*math.Abs(q)-1)), 1, 0)
	return eventtest.Event(label, x*unit, z*unit, q*unit)
}

// TestScalesComeDown checks that a scale that is too large decreases again. The stream starts in another unit or with
// outliers, in labeled or unlabeled events. A few thousand events later the error must be as low as for a stream
// without such a start.
func TestScalesComeDown(t *testing.T) {
	longtest.NotRaced(t)
	type start struct {
		events    int
		unit      float64
		unlabeled bool
	}
	tested := func(start start) (lost float64) {
		l, r := newLearner(t, online.DefaultConfig(), eventtest.Schema(3, "", "a", "b")), rand.New(rand.NewPCG(3, 4))
		for i := range 14000 + start.events {
			e := unitSensors(r, 1)
			if i < start.events {
				if e = unitSensors(r, start.unit); start.unlabeled {
					e.Label = event.Unlabeled
				}
			}
			l.Learn(e, nil)
		}
		m, test := l.Snapshot().Model(), rand.New(rand.NewPCG(5, 6))
		for range 3000 {
			e := unitSensors(test, 1)
			f := m.Score(e, make([]float64, 1))[0]
			if e.Label == 0 {
				f = -f
			}
			lost += math.Log1p(math.Exp(-f)) / 3000
		}
		return lost
	}
	clean := tested(start{})
	for _, s := range longtest.Few([]start{{3, 1e22, false}, {500, 1000, false}, {1500, 1000, false}, {3000, 1000, false}, {2300, 1e22, false}, {3000, 1e-3, false}, {3000, 100, false}, {3000, 1e22, true}, {3000, 1000, true}}, 2, 3) {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			lost := tested(s)
			must.True(t, lost <= clean+0.006, "log-loss %.4f, without the first events %.4f", lost, clean)
		})
	}
}

func classifier(t *testing.T, rule string, classes int) *online.Learner {
	t.Helper()
	c := online.DefaultConfig()
	if c.Optimizer = rule; rule == "irls" {
		c.IRLSBatch = 200
	}
	if rule == "dropout-descent" || rule == "irls" {
		c.Noise = "dropout:0.3"
	}
	return newLearner(t, c, eventtest.Schema(2, "", []string{"a", "b", "c"}[:classes]...))
}

func labeled(r *rand.Rand, classes int) *event.Example {
	x, z := r.NormFloat64(), r.NormFloat64()
	label := must.Either(x > 0, 1, 0)
	if classes == 3 && z > 1 {
		label = 2
	}
	return eventtest.Event(label, x, z)
}

// TestOneWrongEventOfGreatWeight adds one mislabeled event with a large weight at different positions of the stream.
// The learner must recover from it at each position.
func TestOneWrongEventOfGreatWeight(t *testing.T) {
	longtest.Numeric(t)
	for i, rule := range optimizers.Names() {
		for _, classes := range longtest.Few([]int{2, 3}, i, 2) {
			clean := 0.0
			for k, at := range []int{-1, 0, 2000} {
				if k > 0 && !longtest.Some(i/2+k, 2) {
					continue
				}
				l, r := classifier(t, rule, classes), rand.New(rand.NewPCG(1, 2))
				for i := range 12000 {
					e := labeled(r, classes)
					if i == at {
						e.Weight, e.Label = 1e6, 1-min(e.Label, 1)
					}
					l.Learn(e, nil)
				}
				wrong, m := 0.0, l.Snapshot().Model()
				for range 4000 {
					e := labeled(r, classes)
					scores := m.Score(e, make([]float64, m.Outputs))
					if model.Predict(scores) != e.Label {
						wrong += 100. / 4000
					}
				}
				if at < 0 {
					clean = wrong
				}
				must.True(t, wrong <= clean+0.6, "%s, %d classes, at %d: %.2f %% wrong, without %.2f", rule, classes, at, wrong, clean)
			}
		}
	}
}

// extremes makes events with extreme valid values, targets and weights.
type extremes struct {
	r     *rand.Rand
	wild  float64 // fraction of numbers with extreme values
	event event.Example
}

func (x *extremes) number() float64 {
	switch {
	case x.r.Float64() >= x.wild:
		return math.Exp(3 + 2*x.r.NormFloat64()) // log-normal, like amounts of money
	case x.r.IntN(2) == 0:
		return math.Copysign(event.MaxMagnitude, x.r.NormFloat64())
	}
	return x.r.NormFloat64() * math.Pow(10, float64(x.r.IntN(60)-30))
}

func (x *extremes) next(classes int, counts bool) *event.Example {
	e := &x.event
	*e = event.Example{Features: event.Vec{Index: e.Features.Index[:0], Value: e.Features.Value[:0]}, Field: e.Field[:0], Weight: 1, Label: x.r.IntN(classes)}
	for c := range uint32(6) {
		if x.r.IntN(5) > 0 {
			eventtest.Put(e, c, x.number(), uint16(c))
		}
	}
	if x.r.IntN(20) == 0 {
		e.Weight = []float64{1e-30, 0.3, 7, 1e6, event.MaxMagnitude}[x.r.IntN(5)]
	}
	e.Target = x.number()
	if counts {
		if e.Target = math.Floor(math.Abs(e.Target)); x.r.IntN(2) == 0 {
			e.Target = float64(x.r.IntN(4))
		}
	}
	return e
}

// TestNothingOverflows checks that valid events never make a number in the state infinite or NaN. A state with such a
// number could not be saved.
func TestNothingOverflows(t *testing.T) {
	noises, scalings := []string{"none", "dropout:0.5"}, []string{"auto", "none"}
	if longtest.Asked() {
		noises, scalings = append(noises, "auto", "gaussian:0.3", "poisson", "dropout:0.2+group:0.4"), append(scalings, "all", "scale")
	} else if longtest.Race { // checks for data races between learners
		noises, scalings = noises[1:], scalings[:1]
	}
	for i, rule := range optimizers.Table {
		for j, name := range []string{"hinge", "squared-hinge", "logistic", "logistic:quadratic-noising", "quadratic", "probit", "erf", "t-logistic:1.5", "squared", "absolute", "quantile:0.9", "huber:1", "poisson", "poisson:quadratic-noising"} {
			for k, noise := range noises {
				for m, standardize := range scalings {
					c := online.DefaultConfig()
					c.Optimizer, c.Loss, c.Noise, c.Standardize = rule.Name, name, noise, standardize
					if rule.Name == "irls" {
						c.IRLSBatch = 40
					}
					if c.Check() != nil || (i+j+k+m)%2 > 0 { // pairs every optimizer and loss with every noise and scaling
						continue
					}
					if !longtest.Some(i+j/2+m, 3) {
						continue // one of each is enough
					}
					t.Run(fmt.Sprint(rule.Name, "/", name, "/", noise, "/", standardize), func(t *testing.T) {
						t.Parallel()
						schema := synthetic.FieldsSchema(6)
						if target := loss.LabelsOf(name); target != loss.Sign {
							schema = synthetic.NumberSchema(target)
							schema.Fields = synthetic.FieldsSchema(6).Fields
						}
						l := must.Get(online.New(c, schema))(t)
						x := extremes{r: rand.New(rand.NewPCG(1, 2))}
						for i := range 1300 {
							if x.wild = 0.3; i < 1050 {
								x.wild = 0.005
							}
							e := x.next(2, schema.Target == loss.Count)
							if noise == "poisson" {
								for j, v := range e.Features.Value {
									e.Features.Value[j] = math.Abs(v)
								}
							}
							must.Finite(t, l.Learn(e, nil).Scores, "event", i)
						}
						blocks, err := l.Snapshot().Blocks()
						if err == nil {
							_, err = online.Restore(c, blocks)
						}
						must.True(t, err == nil, "%v", err)
						must.Do(t, must.Err(json.Marshal(l.Report())))
						must.Do(t, must.Err(json.Marshal(l.Snapshot().Model().Head)))
					})
				}
			}
		}
	}
}

// TestStandardizeAll compares standardize = "all" with a dense computation: the same events with every zero given
// explicitly, so that every column is centered and scaled. Both must solve the same problem without noise, with one
// exact refresh at the end.
func TestStandardizeAll(t *testing.T) {
	const n, columns = 1200, 12
	c := online.DefaultConfig()
	c.Optimizer, c.IRLSBatch, c.Noise, c.Standardize = "irls", n, "none", "all"
	c.Average, c.Adapt = 0, false
	newLearner := func() *online.Learner {
		return must.Get(online.New(c, event.NewSchema(10, []string{"-", "+"}, 2)))(t)
	}
	sparse, dense := newLearner(), newLearner()
	r := rand.New(rand.NewPCG(8, 8))
	present := func(d int) float64 { return []float64{0.05, 0.3, 0.6, 0.8, 0.97, 1}[d%6] }
	event := func() (few, all *event.Example) {
		few, all = &event.Example{Weight: 1}, &event.Example{Weight: 1}
		f := 0.0
		for d := range columns {
			x := 0.0
			if r.Float64() < present(d) {
				x = 1
				if d >= 6 {
					x = 300 + 50*r.NormFloat64()
				}
				few.Features.Index = append(few.Features.Index, uint32(d))
				few.Features.Value = append(few.Features.Value, x)
				f += math.Sin(float64(d)) * (x - 0.5)
				if d >= 6 {
					f += math.Sin(float64(d)) * (0.02*(x-300) - x + 0.5)
				}
			}
			eventtest.Put(all, uint32(d), x)
		}
		if f+r.NormFloat64() > 0 {
			few.Label, all.Label = 1, 1
		}
		return few, all
	}
	for range n {
		few, all := event()
		sparse.Learn(few, nil)
		dense.Learn(all, nil)
	}
	all, few := dense.Snapshot().Model(), sparse.Snapshot().Model()
	must.Require(t, len(all.Scaler.Dense) == columns && len(few.Scaler.Dense) == 4, "dense columns %v of the whole events, %v of the sparse ones", all.Scaler.Dense, few.Scaler.Dense)
	// Over all events, with absent columns counted as 0, the statistics must be the same.
	for d := range uint32(columns) {
		a, b := few.Stats(few.Rows.Row(d)), all.Stats(all.Rows.Row(d))
		total := float64(n)
		mean, m2 := a[1]*a[0]/total, a[2]+a[1]*a[1]*a[0]*(total-a[0])/total
		must.True(t, math.Abs(mean-b[1]) <= 1e-9*math.Abs(b[1]) && math.Abs(m2-b[2]) <= 1e-9*b[2], "column %d: mean %v, squares %v; dense %v, %v", d, mean, m2, b[1], b[2])
		// the scale in effect is from up to a sixteenth of the events ago
		must.True(t, b[4] <= 0 || math.Abs(a[4]/b[4]-1) <= 0.05, "column %d: scale %v, dense %v", d, 1/a[4], 1/b[4])
	}
	off, square := 0.0, 0.0
	for range 1000 {
		few, all := event()
		a, b := scoresOf(sparse, few)[0], scoresOf(dense, all)[0]
		off += (a - b) * (a - b)
		square += b * b
	}
	relative := math.Sqrt(off / square)
	must.True(t, relative < 0.02, "scores are off by %.3g of their size", relative)
	// The errors are also similar without the IRLS window.
	c.Optimizer, c.IRLSBatch, c.Noise = "adagrad", 0, "auto"
	sparse, dense = newLearner(), newLearner()
	for range 4000 {
		few, all := event()
		sparse.Learn(few, nil)
		dense.Learn(all, nil)
	}
	a, b := sparse.Report().Window.MeanLogLoss(), dense.Report().Window.MeanLogLoss()
	must.True(t, a <= b+0.03, "log-loss %v, dense %v", a, b)
	t.Logf("progressive log-loss %.3f, of the whole events %.3f", a, b)
}

// TestColumnThatIsDenseNoMore checks a column that is no longer dense. It must again be divided by the bound of its
// readings, which is their mean plus three standard deviations. The result must be as if the column had never been
// centered.
func TestColumnThatIsDenseNoMore(t *testing.T) {
	c := online.DefaultConfig()
	c.Standardize = "auto"
	l := must.Get(online.New(c, event.NewSchema(10, []string{"-", "+"}, 2)))(t)
	r := rand.New(rand.NewPCG(3, 3))
	const column = 3
	var readings []float64
	for i := range 20 {
		e := &event.Example{Weight: 1, Label: i % 2, Features: event.Vec{Index: []uint32{0}, Value: []float64{1}}}
		if i < 10 {
			x := 2 + r.NormFloat64() // 0 is not an outlier here
			readings = append(readings, x)
			eventtest.Put(e, column, x)
		}
		l.Learn(e, nil)
		must.Require(t, i != 9 || len(l.Snapshot().Model().Scaler.Dense) == 1, "no dense column after ten events")
	}
	m := l.Snapshot().Model()
	dense := m.Scaler.Dense
	must.Require(t, len(dense) == 0, "dense columns: %d", dense)
	mean, squares := 0.0, 0.0
	for _, x := range readings {
		mean += x / float64(len(readings))
	}
	for _, x := range readings {
		squares += (x - mean) * (x - mean)
	}
	row := m.Stats(m.Rows.Row(column))
	want := 1 / (mean + 3*math.Sqrt(squares/float64(len(readings))))
	got := row[model.StatInverse]
	must.True(t, math.Abs(got-want) <= 1e-6*want, "divided by %v, want %v", 1/got, 1/want)
	must.Equal(t, row[model.StatCenter], 0, "center")
}
