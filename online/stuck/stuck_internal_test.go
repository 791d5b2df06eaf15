package stuck

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/eventtest"
)

// stream passes readings of numeric fields to a Detector.
type stream struct {
	Detector
	fields []event.Field
	n      uint64
	found  []Run  // detected runs
	moved  []Run  // runs that ended
	at     uint64 // event of the latest change
}

func newStream(fields int) *stream {
	s := &stream{fields: []event.Field{{Kind: event.Sparse}}}
	for i := range fields {
		s.fields = append(s.fields, event.Field{Name: fmt.Sprint("f", i+1), Kind: event.Numeric})
	}
	return s
}

// take passes an event to the Detector. values has a value for each field, or NaN for a missing field.
func (s *stream) take(values ...float64) {
	e := &event.Example{}
	for i, x := range values {
		if x == x {
			eventtest.Put(e, uint32(i), x, uint16(i+1))
		}
	}
	s.n++
	for _, c := range s.Take(e, s.fields, Moment{s.n, int64(1000 * s.n)}) {
		if s.at = s.n; c.Moves {
			s.moved = append(s.moved, c.Run)
		} else {
			s.found = append(s.found, c.Run)
		}
	}
}

// TestMemory checks that old runs are forgotten. A field that had long runs in the past must be detected as fast as a
// field that always changed.
func TestMemory(t *testing.T) {
	s, r := newStream(1), rand.New(rand.NewPCG(22, 23))
	for n := range 16 * memory {
		s.take(float64(1 + n/12))
	}
	for range 3 * memory {
		s.take(r.NormFloat64())
	}
	for range 100 {
		s.take(0.5)
	}
	if len(s.found) != 1 || s.found[0].Repeats != Least {
		t.Errorf("%+v", s.found)
	}
}

// TestFoundAgain checks a sensor that was stuck for long and then changes again. It must soon be detected if it is
// stuck at another value. A field with long runs of different values must raise only a few alarms.
func TestFoundAgain(t *testing.T) {
	s, r := newStream(1), rand.New(rand.NewPCG(8, 9))
	healthy := func(n int) {
		for range n {
			s.take(r.NormFloat64())
		}
	}
	healthy(1000)
	for range 50_000 {
		s.take(1.5)
	}
	healthy(100)
	for range 1000 {
		s.take(2.5)
	}
	if len(s.found) != 2 || s.found[1].Repeats > longer*Least+10 {
		t.Errorf("%+v", s.found)
	}
	healthy(10)
	was := len(s.found)
	for range 2000 {
		x := r.NormFloat64()
		for range 90 + r.IntN(20) {
			s.take(x)
		}
	}
	if more := len(s.found) - was; more > 2 {
		t.Errorf("%d alarms about a field that has come to move in steps", more)
	}
}

// TestKinds checks a field that is often 0. Its readings that are not 0 must be judged separately, so that it is soon
// detected at another value. A field that is nearly always 0 must not be judged by its few other readings.
func TestKinds(t *testing.T) {
	s, r := newStream(1), rand.New(rand.NewPCG(10, 11))
	for range 5000 {
		x := 0.0
		if r.Float64() < 0.2 {
			x = r.NormFloat64()
		}
		s.take(x)
	}
	for range 400 {
		s.take(1.25)
	}
	if longest := s.Detector.runs[1].ofKind; len(s.found) != 1 || s.found[0].Repeats > Least || longest[0] < 20 {
		t.Errorf("%+v, the longest runs before had %d repeats", s.found, longest)
	}
	s = newStream(1)
	for n := range 5000 {
		x := 0.0
		if n%200 == 100 {
			x = float64(n)
		}
		s.take(x)
	}
	for range 300 {
		if s.take(5); len(s.found) > 0 {
			t.Fatalf("%+v", s.found)
		}
	}
}

// TestLongestByValue checks that the longest runs are stored by value, so that a long run of one value does not delay
// detection at another value.
func TestLongestByValue(t *testing.T) {
	s, r := newStream(1), rand.New(rand.NewPCG(18, 19))
	run := func(x float64, n int) {
		for range n {
			s.take(x)
		}
		s.take(r.NormFloat64())
	}
	for range 20 {
		run(3, 15)
		for range 30 {
			run(r.NormFloat64(), 1)
		}
	}
	run(7, 49)
	if run(3, 100); len(s.found) != 1 || s.found[0].Repeats > longer*15+10 {
		t.Errorf("stuck at 3: %+v", s.found)
	}
	if run(7, 180); len(s.found) != 1 {
		t.Errorf("stuck at 7: %+v", s.found)
	}
	if run(8, 180); len(s.found) != 1 {
		t.Errorf("stuck at 8, a value without runs: %+v", s.found)
	}
}

// TestMostFields checks that the number of monitored fields is limited, and that the state of these fields is restored.
func TestMostFields(t *testing.T) {
	s, values := newStream(mostFields+10), make([]float64, mostFields+10)
	for n := range 200 {
		for i := range values {
			values[i] = float64(min(n, 100))
		}
		s.take(values...)
	}
	if len(s.found) != mostFields-1 { // field 0 has no name
		t.Errorf("%d are stuck", len(s.found))
	}
	c := &coder.Coder{}
	s.State(c)
	var d Detector
	read := coder.Read(c.Out)
	if d.State(read); !read.Done() || len(d.Stuck()) != len(s.Stuck()) {
		t.Errorf("%d of %d fields are restored", len(d.Stuck()), len(s.Stuck()))
	}
}

// TestRepeats checks that Repeats reports the fields that can never be detected as stuck. A stuck run must not change
// the fraction.
func TestRepeats(t *testing.T) {
	s, r := newStream(2), rand.New(rand.NewPCG(20, 21))
	for n := range 90 {
		s.take(1, float64(n))
	}
	if x, never, ok := s.Repeats(1); !never || !ok || x > rarely {
		t.Errorf("a young constant: %v %v %v", x, never, ok)
	}
	for range 500 {
		s.take(1, 7)
	}
	if x, never, ok := s.Repeats(2); len(s.Stuck()) != 1 || x > 0 || never || !ok {
		t.Errorf("a stuck field: %v %v %v", x, never, ok)
	}
	for n := range 5000 {
		s.take(float64(n/500), 7)
	}
	if x, never, ok := s.Repeats(1); !never || !ok || x < rarely {
		t.Errorf("a field that moves rarely: %v %v %v", x, never, ok)
	}
	s = newStream(5)
	for n := range 4000 {
		flag := 0.0
		if n%500 == 499 {
			flag = 1
		}
		rare := math.NaN()
		if n%100 == 0 {
			rare = r.Float64()
		}
		s.take(r.NormFloat64(), 1, flag, math.Round(2*r.NormFloat64()), rare)
	}
	for id, want := range map[int]struct {
		low, high float64
		never, ok bool
	}{0: {}, 1: {0, 0, false, true}, 2: {0.999, 1, true, true}, 3: {0.995, 0.998, true, true}, 4: {0.1, 0.3, false, true}, 5: {}, 6: {}} {
		if x, never, ok := s.Repeats(id); never != want.never || ok != want.ok || x < want.low || x > want.high {
			t.Errorf("field %d: %v %v %v", id, x, never, ok)
		}
	}
}
