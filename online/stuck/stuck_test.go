package stuck_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/online/stuck"
)

// stream passes readings of numeric fields to a Detector.
type stream struct {
	stuck.Detector
	fields []event.Field
	n      uint64
	found  []stuck.Run // detected runs
	moved  []stuck.Run // runs that ended
	at     uint64      // event of the latest change
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
	for _, c := range s.Take(e, s.fields, stuck.Moment{Event: s.n, Time: int64(1000 * s.n)}) {
		if s.at = s.n; c.Moves {
			s.moved = append(s.moved, c.Run)
		} else {
			s.found = append(s.found, c.Run)
		}
	}
}

// TestStuckAtAnyValue checks that a field that always changed is detected after Least repeats of any value. The
// detection must not affect other fields. The first different value must end the run.
func TestStuckAtAnyValue(t *testing.T) {
	for _, at := range []float64{7.5, 0, -1e9} {
		s, r := newStream(2), rand.New(rand.NewPCG(1, 2))
		for range 1000 {
			s.take(r.NormFloat64(), r.NormFloat64())
		}
		for i := range 300 {
			if s.take(at, r.NormFloat64()); (len(s.Stuck()) == 1) != (i >= stuck.Least) {
				t.Fatalf("stuck at %v for %d repeats: %+v", at, i, s.Stuck())
			}
		}
		want := stuck.Run{Field: 1, Value: at, Repeats: stuck.Least, Since: stuck.Moment{Event: 1001, Time: 1001000}}
		if len(s.found) != 1 || s.found[0] != want || !slices.Equal(s.Stuck(), s.found) {
			t.Errorf("found %+v, want %+v", s.found, want)
		}
		if s.take(at+1, 0); len(s.Stuck()) != 0 || len(s.moved) != 1 || s.moved[0] != want {
			t.Errorf("released %+v, stuck %+v", s.moved, s.Stuck())
		}
	}
}

// TestNullsDoNotEndARun checks that events without the field do not end a run.
func TestNullsDoNotEndARun(t *testing.T) {
	s, r := newStream(1), rand.New(rand.NewPCG(1, 3))
	for range 500 {
		s.take(r.NormFloat64())
	}
	for range stuck.Least + 1 {
		s.take(3)
		s.take(math.NaN())
	}
	if len(s.found) != 1 || s.found[0].Since.Event != 501 {
		t.Errorf("%+v", s.found)
	}
}

// TestNoFalseAlarms checks that healthy streams raise no alarm. The streams have constants, status values, values in
// long runs of random length, a field that is mostly 0, files sorted by a column, or a number that is constant at
// first. Rain raises an alarm at most in its first dry spell.
func TestNoFalseAlarms(t *testing.T) {
	rainy := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 5))
		hold := func(most int) func(n int) float64 {
			left, x := 0, 0.0
			return func(int) float64 {
				if left--; left < 0 {
					left, x = r.IntN(most), r.NormFloat64()
				}
				return x
			}
		}
		rains, wet := 0.0, false
		for i, next := range []func(n int) float64{
			func(n int) float64 {
				if wet = r.Float64() < map[bool]float64{false: 0.02, true: 0.9}[wet]; wet {
					rains = math.Round(50*r.ExpFloat64()) / 10
				} else {
					rains = 0
				}
				return rains
			},
			func(int) float64 { return 3 },
			func(int) float64 { return r.NormFloat64() },
			func(int) float64 { return math.Round(r.NormFloat64()) },
			func(int) float64 { return max(0, math.Ceil(r.Float64()-0.97)) * r.Float64() },
			func(n int) float64 { return float64(n / 300) },
			hold(40),
			hold(400),
			func(n int) float64 { return float64(n / 60 % 24) },
			func(n int) float64 { return max(0, float64(n-5000)) * r.Float64() },
			func(n int) float64 { return float64(n) },
		} {
			s := newStream(1)
			for n := range 20_000 {
				s.take(next(n))
			}
			if i == 0 && len(s.found) == 1 && s.found[0].Since.Event < 500 {
				rainy++
			} else if len(s.found) > 0 {
				t.Errorf("seed %d, source %d: %+v", seed, i, s.found)
			}
		}
	}
	if rainy > 6 {
		t.Errorf("%d of 40 streams of rain raise an alarm", rainy)
	}
}

// TestNights checks a field that is 0 every night. It must raise at most one alarm, in the first night. If its sensor
// dies during the day, it must be detected: at once for any value except 0, and after weeks for 0.
func TestNights(t *testing.T) {
	for _, begin := range []int{0, 300, 600} { // in the night, at dawn, by day
		s, r := newStream(1), rand.New(rand.NewPCG(6, 7))
		power := func(n int) float64 {
			if hour := (n + begin) % 1000; hour > 450 {
				return float64(hour) * r.Float64()
			}
			return 0
		}
		for n := range 60_000 {
			s.take(power(n))
		}
		if len(s.found) > 1 || len(s.found) == 1 && s.found[0].Since.Event > 1000 || len(s.Stuck()) > 0 {
			t.Errorf("begun at %d: %+v", begin, s.found)
		}
		was := len(s.found)
		for range 2000 {
			s.take(123)
		}
		if len(s.found) != was+1 || s.found[was].Repeats > stuck.Least {
			t.Errorf("begun at %d: stuck by day: %+v", begin, s.found)
		}
		s.take(5)
		for range 20_000 {
			s.take(0)
		}
		if len(s.found) != was+2 || s.found[was+1].Repeats < 4*450 {
			t.Errorf("begun at %d: stuck at 0: %+v", begin, s.found)
		}
	}
}

// TestManyFields checks that a run must be longer if there are more fields. False alarms are then equally rare for any
// number of fields.
func TestManyFields(t *testing.T) {
	found := map[int]uint64{}
	for _, fields := range []int{1, 1000} {
		s, values := newStream(fields), make([]float64, fields)
		for n := range 2400 {
			for i := range values {
				values[i] = float64(n)
			}
			if n >= 2000 || n%11 > 0 {
				values[0] = 1
			}
			s.take(values...)
		}
		if len(s.found) != 1 {
			t.Fatalf("%d fields: %+v", fields, s.found)
		}
		found[fields] = s.found[0].Repeats
	}
	// r is 9/11, or 0.83 including the current run. log(1e-9)/log(r) is 111 repeats, and -log(1000)/log(r) is 37.
	if more := found[1000] - found[1]; more < 30 || more > 60 || found[1] < 104 || found[1] > 118 {
		t.Errorf("found after %v repeats", found)
	}
}

func BenchmarkTake(b *testing.B) {
	s, r := newStream(50), rand.New(rand.NewPCG(1, 2))
	values := make([][]float64, 64)
	for i := range values {
		for range 50 {
			values[i] = append(values[i], math.Round(2*r.NormFloat64()))
		}
	}
	e := &event.Example{}
	for i := range 50 {
		e.Features.Index, e.Field = append(e.Features.Index, uint32(i)), append(e.Field, uint16(i+1))
	}
	b.ReportAllocs()
	for i := range b.N {
		e.Features.Value = values[i%64]
		s.Take(e, s.fields, stuck.Moment{Event: uint64(i), Time: 0})
	}
}

// TestFlags checks that a flag is not detected at one of its two values. At a third value it must be detected. A field
// with three values must not be treated as a flag.
func TestFlags(t *testing.T) {
	for _, c := range []struct {
		values []float64
		at     float64
		found  bool
	}{{[]float64{0, 1}, 0, false}, {[]float64{0, 1}, 1, false}, {[]float64{0, 1}, 0.5, true}, {[]float64{-1, 0, 1}, 1, true}} {
		s, r := newStream(1), rand.New(rand.NewPCG(16, 17))
		healthy := func(n int) {
			for range n {
				s.take(c.values[r.IntN(len(c.values))])
			}
		}
		healthy(1000)
		for range 1000 {
			s.take(c.at)
		}
		if (len(s.found) > 0) != c.found {
			t.Errorf("%v stuck at %v: %+v", c.values, c.at, s.found)
		}
		healthy(1000)
		was := len(s.found)
		for range 2000 {
			s.take(0)
		}
		if flag := len(c.values) == 2; flag != (len(s.found) == was) { // the field's stuck value differs from the flag's values
			t.Errorf("%v stuck at 0 after %v: %+v", c.values, c.at, s.found)
		}
		if _, never, _ := s.Repeats(1); never != (len(c.values) == 2) {
			t.Errorf("%v: never is %v", c.values, never)
		}
	}
}
