package online

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
)

// fieldStream makes reproducible events of numeric fields, as JSON gives them.
type fieldStream struct {
	r *rand.Rand
	x []float64
	e event.Example
	// draw fills x and returns the logarithm of the odds of class 1.
	draw func(r *rand.Rand, x []float64) float64
}

func newFields(seed uint64, n int, draw func(*rand.Rand, []float64) float64) *fieldStream {
	f := &fieldStream{r: rand.New(rand.NewPCG(seed, 14)), x: make([]float64, n), draw: draw}
	for d := range n {
		f.e.Features.Index = append(f.e.Features.Index, uint32(d+1))
		f.e.Field = append(f.e.Field, uint16(d+1))
	}
	f.e.Weight = 1
	return f
}

// next makes an event. It borrows x, which may be spoilt until the next call.
func (f *fieldStream) next() *event.Example {
	odds := f.draw(f.r, f.x)
	f.e.Label = 0
	if f.r.Float64() < 1/(1+math.Exp(-odds)) {
		f.e.Label = 1
	}
	f.e.Features.Index, f.e.Field = f.e.Features.Index[:len(f.x)], f.e.Field[:len(f.x)]
	f.e.Features.Value = append(f.e.Features.Value[:0], f.x...)
	return &f.e
}

func fieldsSchema(n int) *event.Schema {
	s := event.NewSchema(10, []string{"0", "1"}, 2)
	for d := range n {
		s.Fields = append(s.Fields, event.Field{Name: fmt.Sprint("f", d), Kind: event.Numeric})
	}
	return s
}

// ordinary is what a shop has: three normal fields, an amount whose logarithm has
// mean 3 and deviation 1, and the hour of the day. The least expected log-loss is .433.
func ordinary(r *rand.Rand, x []float64) float64 {
	for d := range 3 {
		x[d] = r.NormFloat64()
	}
	x[3] = math.Exp(3 + r.NormFloat64())
	x[4] = float64(r.IntN(24))
	return 1.5*x[0] - 1.25*x[1] + x[2] + 0.02*(x[3]-33) + 0.06*(x[4]-11.5)
}

// payment is a shop's with a rare class, of which the amount's logarithm tells.
func payment(r *rand.Rand, x []float64) float64 {
	ordinary(r, x)
	return -6 + 1.2*x[0] - x[1] + 0.8*x[2] + math.Log(x[3]) - 3
}

// steep is five normal fields of which the odds are a steep function.
func steep(r *rand.Rand, x []float64) (odds float64) {
	for d := range x {
		x[d] = r.NormFloat64()
		odds += 3.5 * x[d] * (1 - 0.1*float64(d))
	}
	return odds
}

// heavy is three normal and two lognormal fields, their logarithms of the given
// deviation. Who knows nothing of them but the classes' shares has a log-loss of .54.
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

// follow learns n events, each spoilt first, and returns the measures of those from
// an event on as it was labeled before it was spoilt. Events have named fields or,
// as sparse text, none.
func follow(t *testing.T, seed uint64, sparse bool, draw draw, n, from int, spoil spoil) (o outcome) {
	t.Helper()
	const width = 5
	schema := fieldsSchema(width + 1)
	if sparse {
		schema = event.NewSchema(10, []string{"0", "1"}, 2)
	}
	l, err := New(DefaultConfig(), schema)
	if err != nil {
		t.Fatal(err)
	}
	s := newFields(seed, width, draw)
	for i := range n {
		e := s.next()
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

// The first seconds of a stream with an ordinary amount, and the rest.
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

// One wild value at any position and of any size.
func TestOneWildValue(t *testing.T) {
	longtest.NotRaced(t)
	positions, values := []int{0, 2, 8, 32, 64, 1000}, []float64{-1e4, 1e30}
	if longtest.Asked() {
		positions, values = []int{0, 1, 2, 3, 5, 7, 8, 9, 12, 20, 31, 32, 35, 63, 64, 79, 150, 1000}, []float64{-1e4, math.MaxInt64, 1e30}
	}
	both(t, func(t *testing.T, sparse bool) {
		for _, c := range []struct {
			name  string
			draw  draw
			field int
		}{{"steep", steep, 2}, {"ordinary", ordinary, 3}, {"payment", payment, 3}} {
			clean := follow(t, 1, sparse, c.draw, 2000, 0, nil).loss
			for i, at := range positions {
				for j, wild := range values {
					if (i+j)%2 > 0 != sparse && !longtest.Asked() {
						continue // at each place either is met named or sparse
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

// Sequences that destroyed a model for good: error after 2,000 further events.
func TestWildSequences(t *testing.T) {
	longtest.NotRaced(t)
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
		clean := follow(t, 1, sparse, steep, n, from, nil)
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
			if got := follow(t, 1, sparse, steep, n, from, spoil); !(got.error <= clean.error+1.2) || !(got.loss < 2*clean.loss) {
				t.Errorf("%s: error %.2f %%, log-loss %.3f; clean %.2f, %.3f", name, got.error, got.loss, clean.error, clean.loss)
			}
		}
	})
}

// A share of the events has a wild reading, with true labels or flipped ones.
func TestWildShare(t *testing.T) {
	longtest.NotRaced(t)
	both(t, func(t *testing.T, sparse bool) {
		const n = 6000
		clean := follow(t, 1, sparse, steep, n, 0, nil)
		for i, share := range []float64{0.005, 0.02} {
			for _, flip := range []bool{false, true} {
				for j, wild := range []float64{1e30, -1000} {
					if sparse != (i+j == 1) && !longtest.Asked() {
						continue
					}
					r := rand.New(rand.NewPCG(3, 3))
					got := follow(t, 1, sparse, steep, n, 0, func(_ int, e *event.Example) {
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

// Lognormal fields are not worse than none, whatever their deviation.
func TestHeavyTails(t *testing.T) {
	longtest.NotRaced(t)
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

// The transform is chosen by the first readings, or by the configuration.
func TestTransform(t *testing.T) {
	c := DefaultConfig()
	c.FieldTransform = map[string]string{"f1": "none", "f4": "asinh"}
	l, err := New(c, fieldsSchema(5))
	if err != nil {
		t.Fatal(err)
	}
	s := newFields(2, 5, func(r *rand.Rand, x []float64) float64 {
		for d := range x {
			x[d] = r.NormFloat64()
		}
		x[0], x[1] = math.Exp(4*x[0]), math.Exp(4*x[1])
		return x[2]
	})
	for range 300 {
		l.Learn(s.next(), nil)
	}
	for d, want := range []model.Transform{"asinh", "", "", "", "asinh"} {
		if got := l.scaling.Scaler.Standardization(l.table.Row(uint32(d + 1))).Transform; got != want {
			t.Errorf("field f%d: transform %q, want %q", d, got, want)
		}
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Transform = "log" }, func(c *Config) { c.FieldTransform = map[string]string{"f0": "sinh"} },
	} {
		c := DefaultConfig()
		if change(&c); c.Check() == nil {
			t.Errorf("transform %q, %v: accepted", c.Transform, c.FieldTransform)
		}
	}
}

// renewal returns a learner of steep at an event before its columns are renewed.
func renewal(t *testing.T, seed uint64) (*Learner, *fieldStream) {
	c := DefaultConfig()
	c.Optimizer, c.Average = "adagrad", 0 // mixture weights and averages move at every event
	l, err := New(c, fieldsSchema(5))
	if err != nil {
		t.Fatal(err)
	}
	s := newFields(seed, 5, steep)
	for range 271 { // 272 is 256 and one sixteenth
		l.Learn(s.next(), nil)
	}
	l.publishSecond() // so that rows hold all that a score is made of
	return l, s
}

// A wild reading at which the statistics are renewed leaves the weights and the
// intercept as they are; an ordinary one moves them, and no score.
func TestWildReadingAtRenewal(t *testing.T) {
	for _, wild := range []bool{false, true} {
		l, s := renewal(t, 4)
		e := s.next()
		e.Weight = 1e-30 // which moves no weight by itself
		if wild {
			for d := range e.Features.Value {
				e.Features.Value[d] = 1e5
			}
		}
		probe := &event.Example{Weight: 1, Features: event.Vec{Index: e.Features.Index, Value: []float64{1, -1, 2, 0.5, -2}}, Field: e.Field}
		row := l.table.Row(3)
		before, center := slices.Clone(row), l.scaling.Scaler.Standardization(row)
		bias, score := slices.Clone(l.weights(l.bias)), scoresOf(l, probe)[0]
		l.Learn(e, nil)
		if l.scaling.Scaler.Standardization(l.table.Row(3)) == center {
			t.Fatal("nothing was renewed")
		}
		row = l.table.Row(3)
		same := slices.Equal(before[model.ScalerWidth:], row[model.ScalerWidth:]) && slices.Equal(bias, l.weights(l.bias))
		if same != wild {
			t.Errorf("wild %v: the weights stay: %v", wild, same)
		}
		if got := scoresOf(l, probe)[0]; !wild && math.Abs(got-score) > 1e-12*math.Abs(score) {
			t.Errorf("a score of %v became %v", score, got)
		}
	}
}

// A steep weight moves no intercept by more than maxMove, whatever is read.
func TestNoMoveExtrapolates(t *testing.T) {
	for _, weight := range []float64{0.5, 30, 1e6} {
		l, s := renewal(t, 4)
		l.weights(l.table.Row(3))[0] = weight
		for i := range 2000 {
			e := s.next()
			e.Weight = 1e-30                        // which moves no weight by itself
			e.Features.Value[2] += float64(i) / 100 // it wanders off
			before, slope := l.weights(l.bias)[0], l.weights(l.table.Row(3))[0]
			l.Learn(e, nil)
			if moved := math.Abs(l.weights(l.bias)[0] - before); moved > 5*maxMove { // of five columns
				t.Fatalf("event %d, weight %v: the intercept moved by %v", i, weight, moved)
			}
			if grown := l.weights(l.table.Row(3))[0] - slope; grown > maxMove {
				t.Fatalf("event %d: a weight of %v grew by %v", i, slope, grown)
			}
		}
	}
}

// Saved and restored at any place, the bits are those of a learner that went on.
func TestReadingsAreState(t *testing.T) {
	sequence := func(s *fieldStream, i int) *event.Example {
		e := s.next()
		if i > 600 {
			e.Features.Value[1] *= 1e6 // lasts
		}
		if i%9 == 3 {
			e.Features.Value[2] = 1e20
		}
		e.Features.Value[4] = max(0, e.Features.Value[4]-2) // nearly always 0
		return e
	}
	for _, kind := range []string{"dropout:0.3", "gaussian:0.3"} {
		c := DefaultConfig()
		c.Noise = kind
		var learners [2]*Learner
		var streams [2]*fieldStream
		for k := range learners {
			l, err := New(c, fieldsSchema(5))
			if err != nil {
				t.Fatal(err)
			}
			learners[k], streams[k] = l, newFields(7, 5, steep)
		}
		for i := range 900 {
			for k := range learners {
				learners[k].Learn(sequence(streams[k], i), nil)
			}
			if i%13 == 5 {
				blocks, err := learners[0].Blocks()
				if err != nil {
					t.Fatal(err)
				}
				if learners[0], err = Restore(c, blocks); err != nil {
					t.Fatal(err)
				}
			}
			if i%50 == 0 && !bytes.Equal(stateOf(t, learners[0]), stateOf(t, learners[1])) {
				t.Fatalf("%s, event %d: the states differ", kind, i)
			}
		}
		if row := learners[0].table.Row(2); learners[0].scaling.Scaler.Standardization(row).Scale < 1e5 {
			t.Errorf("%s: a change that lasts is not let through: %+v", kind, learners[0].scaling.Scaler.Standardization(row))
		}
		finite(t, learners[0])
	}
}
