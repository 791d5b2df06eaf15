package scaling

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
)

// TestMoveKeepsScores checks that applying each Move keeps every score while readings arrive. Only the restart of a
// column may change scores.
func TestMoveKeepsScores(t *testing.T) {
	for _, treatment := range []Treatment{Numeric, Divided, Spread} {
		mode := model.StandardizeAuto
		if treatment == Spread {
			mode = model.StandardizeAll
		}
		s, r := New(Settings{}, mode, false), rand.New(rand.NewPCG(1, 2))
		s.AddField(event.Numeric, model.TransformNone)
		stats, w, b, moves, anew := make([]float64, model.ScalerWidth), 0.3, -0.1, 0, 0
		score := func(x float64) float64 { return w*s.Scaler.Apply(stats, x) + b }
		for i := range 5000 {
			x := 7 + 2*r.NormFloat64()
			if i > 2500 {
				x += 3
			}
			before, count := score(8), stats[model.StatCount]
			m := s.Observe(5, stats, x, s.Scaler.Deviations(stats, x), treatment, 0)
			s.Events++
			if count < model.FirstReadings || m.Keep != 1 {
				anew++
				continue
			}
			if m != still {
				moves++
			}
			w, b = w*m.Ratio, b+w*m.Shift
			if after := score(8); math.Abs(after-before) > 1e-9 {
				t.Fatalf("%v, reading %d: a score of %v has become %v by %+v", treatment, i, before, after, m)
			}
		}
		if moves < 3 || anew > 200 {
			t.Errorf("%v: %d moves, %d readings of columns that began anew", treatment, moves, anew)
		}
	}
}

// TestKnots checks that knots are the quantiles of the first readings, and that a number that is often omitted gets a
// presence column. The gathered readings must be part of the state.
func TestKnots(t *testing.T) {
	set := Settings{Presence: true, Expert: func(numbers int) int { return 7 - 2*numbers }}
	s, r := New(set, model.StandardizeAuto, false), rand.New(rand.NewPCG(1, 2))
	for range 3 {
		s.AddField(event.Numeric, model.TransformNone)
	}
	for n := uint64(1); ; n++ {
		if s.CountForKnots(&event.Example{}, 9, func() []uint16 { return nil }) {
			if n != KnotEvents+1 {
				t.Errorf("knots after %d events", n)
			}
			break
		}
		s.Events++
		for column := range uint32(2) {
			if column == 0 || n%2 == 0 {
				s.Reading(column, uint16(column)+1, r.Float64(), 0)
			}
		}
		if n == 500 { // saves and restores the state
			var a, b coder.Coder
			s.KnotsState(&a)
			s = New(set, model.StandardizeAuto, false)
			s.Events = n
			for range 3 {
				s.AddField(event.Numeric, model.TransformNone)
			}
			s.KnotsState(coder.Read(a.Out))
			if s.KnotsState(&b); !bytes.Equal(a.Out, b.Out) {
				t.Fatal("the state does not come back")
			}
		}
	}
	knots := s.Scaler.Splines.Knots
	if len(knots) != 2 || len(knots[0]) != 3 || math.Abs(knots[0][1]-0.5) > 0.05 || !isPresence(knots[1]) || !s.Learned() {
		t.Errorf("knots %v", knots)
	}
	if hat := s.Scaler.Splines.BasisColumn(0, 0); !s.OwnBasisColumns()(hat) || s.OwnBasisColumns()(s.Scaler.Splines.BasisColumn(1, 0)) {
		t.Error("whose hats are whose is confused")
	}
	columns, _, numbers := s.Columns(event.Vec{Index: []uint32{0, 1}, Value: []float64{0.3, 0.4}})
	if numbers != 2 || len(columns) != 3 || columns[2] != s.Scaler.Splines.BasisColumn(1, 0) {
		t.Errorf("columns %v, of which %d are numbers", columns, numbers)
	}
}

// TestSteady checks that readings for which Steady is true change only the count and the moments, and that Steady is
// true for most readings.
func TestSteady(t *testing.T) {
	s, r := New(Settings{}, model.StandardizeAuto, false), rand.New(rand.NewPCG(3, 4))
	s.AddField(event.Numeric, model.TransformNone)
	stats, want, steady := [model.ScalerWidth]float64{}, [model.ScalerWidth]float64{}, 0
	for i := range 10000 {
		x := 7 + 2*r.NormFloat64()
		if i%1000 == 999 {
			x = 1e6
		}
		z := s.Scaler.Deviations(stats[:], x)
		want = stats
		m := s.Observe(5, want[:], x, z, Numeric, 0)
		n := stats[model.StatCount] + 1
		if math.Abs(z) > model.ScalerClip || !Steady(&stats, n) {
			stats = want
			continue
		}
		if steady++; m != still {
			t.Fatalf("reading %d moves by %v", i, m)
		}
		if model.AddReading(&stats, n, x); stats != want {
			t.Fatalf("reading %d makes %v, want %v", i, stats, want)
		}
	}
	if steady < 6800 {
		t.Errorf("%d are steady", steady)
	}
}
