package online

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/synthetic"
)

// The transform is chosen by the first readings, or by the configuration.
func TestTransform(t *testing.T) {
	c := DefaultConfig()
	c.FieldTransform = map[string]string{"f1": "none", "f4": "asinh"}
	l, err := New(c, synthetic.FieldsSchema(5))
	if err != nil {
		t.Fatal(err)
	}
	s := synthetic.NewFields(2, 5, func(r *rand.Rand, x []float64) float64 {
		for d := range x {
			x[d] = r.NormFloat64()
		}
		x[0], x[1] = math.Exp(4*x[0]), math.Exp(4*x[1])
		return x[2]
	})
	for range 300 {
		l.Learn(s.Next(), nil)
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
func renewal(t *testing.T, seed uint64) (*Learner, *synthetic.FieldStream) {
	c := DefaultConfig()
	c.Optimizer, c.Average = "adagrad", 0 // mixture weights and averages move at every event
	l, err := New(c, synthetic.FieldsSchema(5))
	if err != nil {
		t.Fatal(err)
	}
	s := synthetic.NewFields(seed, 5, synthetic.Steep)
	for range 271 { // 272 is 256 and one sixteenth
		l.Learn(s.Next(), nil)
	}
	l.publishSecond() // so that rows hold all that a score is made of
	return l, s
}

// A wild reading at which the statistics are renewed leaves the weights and the
// intercept as they are; an ordinary one moves them, and no score.
func TestWildReadingAtRenewal(t *testing.T) {
	for _, wild := range []bool{false, true} {
		l, s := renewal(t, 4)
		e := s.Next()
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
			e := s.Next()
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
	sequence := func(s *synthetic.FieldStream, i int) *event.Example {
		e := s.Next()
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
		var streams [2]*synthetic.FieldStream
		for k := range learners {
			l, err := New(c, synthetic.FieldsSchema(5))
			if err != nil {
				t.Fatal(err)
			}
			learners[k], streams[k] = l, synthetic.NewFields(7, 5, synthetic.Steep)
		}
		for i := range 900 {
			for k := range learners {
				learners[k].Learn(sequence(streams[k], i), nil)
			}
			if i%13 == 5 {
				blocks, err := learners[0].Snapshot().Blocks()
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
