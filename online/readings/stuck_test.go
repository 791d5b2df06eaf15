package readings

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
	"blankout/internal/must"
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

// stay passes n events of the same values to the Detector.
func (s *stream) stay(n int, values ...float64) {
	for range n {
		s.take(values...)
	}
}

// draw passes n events of one random value to the Detector.
func (s *stream) draw(n int, value func() float64) {
	for range n {
		s.take(value())
	}
}

// TestFoundAgain checks a sensor that was stuck for long and then changes again. It must soon be detected if it is
// stuck at another value. A field with long runs of different values must raise only a few alarms.
func TestFoundAgain(t *testing.T) {
	s, r := newStream(1), rand.New(rand.NewPCG(8, 9))
	healthy := func(n int) {
		s.draw(n, r.NormFloat64)
	}
	healthy(1000)
	s.stay(50_000, 1.5)
	healthy(100)
	s.stay(1000, 2.5)
	must.True(t, len(s.found) == 2 && s.found[1].Repeats <= longerRun*Least+10, "%+v", s.found)
	healthy(10)
	was := len(s.found)
	for range 2000 {
		x := r.NormFloat64()
		s.stay(90+r.IntN(20), x)
	}
	more := len(s.found) - was
	must.True(t, more <= 2, "%d alarms about a field that has come to move in steps", more)
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
	s.stay(400, 1.25)
	longest := s.Detector.runs[1].ofKind
	must.True(t, len(s.found) == 1 && s.found[0].Repeats <= Least && longest[0] >= 20, "%+v, the longest runs before had %d repeats", s.found, longest)
	s = newStream(1)
	for n := range 5000 {
		x := must.Either(n%200 == 100, float64(n), 0.0)
		s.take(x)
	}
	for range 300 {
		s.take(5)
		must.Require(t, len(s.found) == 0, "%+v", s.found)
	}
}

// TestLongestByValue checks that the longest runs are stored by value, so that a long run of one value does not delay
// detection at another value.
func TestLongestByValue(t *testing.T) {
	s, r := newStream(1), rand.New(rand.NewPCG(18, 19))
	run := func(x float64, n int) {
		s.stay(n, x)
		s.take(r.NormFloat64())
	}
	for range 20 {
		run(3, 15)
		for range 30 {
			run(r.NormFloat64(), 1)
		}
	}
	run(7, 49)
	run(3, 100)
	must.True(t, len(s.found) == 1 && s.found[0].Repeats <= longerRun*15+10, "stuck at 3: %+v", s.found)
	run(7, 180)
	must.True(t, len(s.found) == 1, "stuck at 7: %+v", s.found)
	run(8, 180)
	must.True(t, len(s.found) == 1, "stuck at 8, a value without runs: %+v", s.found)
}

// TestMostFields checks that the number of monitored fields is limited, that the state of these fields is restored, and
// that a damaged state is no panic.
func TestMostFields(t *testing.T) {
	s, values := newStream(mostStuck+10), make([]float64, mostStuck+10)
	for n := range 200 {
		for i := range values {
			values[i] = float64(min(n, 100))
		}
		s.take(values...)
	}
	// field 0 has no name
	must.True(t, len(s.found) == mostStuck-1, "%d are stuck", len(s.found))
	c := &coder.Coder{}
	s.State(c)
	var d Detector
	read := coder.Read(c.Out)
	d.State(read)
	must.True(t, read.Done() && len(d.Stuck()) == len(s.Stuck()), "%d of %d fields are restored", len(d.Stuck()), len(s.Stuck()))
	for i := range 150 { // damaged bytes must give an error or a valid state
		cut, damaged := coder.Read(c.Out[:i]), slices.Clone(c.Out)
		damaged[i] ^= 0x81
		if d.State(coder.Read(damaged)); true {
			d.Stuck()
		}
		d.State(cut)
		must.Require(t, !cut.Done(), "%d bytes of %d are a state", i, len(c.Out))
	}
}

// TestRepeats checks that Repeats reports the fields that can never be detected as stuck. A stuck run must not change
// the fraction.
func TestRepeats(t *testing.T) {
	s, r := newStream(2), rand.New(rand.NewPCG(20, 21))
	for n := range 90 {
		s.take(1, float64(n))
	}
	x, never, ok := s.Repeats(1)
	must.True(t, never && ok && x <= rarely, "a young constant: %v %v %v", x, never, ok)
	s.stay(500, 1, 7)
	x, never, ok = s.Repeats(2)
	must.True(t, len(s.Stuck()) == 1 && x <= 0 && !never && ok, "a stuck field: %v %v %v", x, never, ok)
	for n := range 5000 {
		s.take(float64(n/500), 7)
	}
	x, never, ok = s.Repeats(1)
	must.True(t, never && ok && x >= rarely, "a field that moves rarely: %v %v %v", x, never, ok)
	s = newStream(5)
	for n := range 4000 {
		flag := must.Either(n%500 == 499, 1.0, 0)
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
		x, never, ok := s.Repeats(id)
		must.True(t, never == want.never && ok == want.ok && x >= want.low && x <= want.high, "field %d: %v %v %v", id, x, never, ok)
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
			s.take(at, r.NormFloat64())
			must.Require(t, (len(s.Stuck()) == 1) == (i >= Least), "stuck at %v for %d repeats: %+v", at, i, s.Stuck())
		}
		want := Run{Field: 1, Value: at, Repeats: Least, Since: Moment{Event: 1001, Time: 1001000}}
		must.True(t, len(s.found) == 1 && s.found[0] == want && slices.Equal(s.Stuck(), s.found), "found %+v, want %+v", s.found, want)
		s.take(at+1, 0)
		must.True(t, len(s.Stuck()) == 0 && len(s.moved) == 1 && s.moved[0] == want, "released %+v, stuck %+v", s.moved, s.Stuck())
	}
}

// TestNullsDoNotEndARun checks that events without the field do not end a run.
func TestNullsDoNotEndARun(t *testing.T) {
	s, r := newStream(1), rand.New(rand.NewPCG(1, 3))
	s.draw(500, r.NormFloat64)
	for range Least + 1 {
		s.take(3)
		s.take(math.NaN())
	}
	must.True(t, len(s.found) == 1 && s.found[0].Since.Event == 501, "%+v", s.found)
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
	must.True(t, rainy <= 6, "%d of 40 streams of rain raise an alarm", rainy)
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
		must.True(t, len(s.found) <= 1 && (len(s.found) != 1 || s.found[0].Since.Event <= 1000) && len(s.Stuck()) == 0, "begun at %d: %+v", begin, s.found)
		was := len(s.found)
		s.stay(2000, 123)
		must.True(t, len(s.found) == was+1 && s.found[was].Repeats <= Least, "begun at %d: stuck by day: %+v", begin, s.found)
		s.take(5)
		s.stay(20_000, 0)
		must.True(t, len(s.found) == was+2 && s.found[was+1].Repeats >= 4*450, "begun at %d: stuck at 0: %+v", begin, s.found)
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
		must.Require(t, len(s.found) == 1, "%d fields: %+v", fields, s.found)
		found[fields] = s.found[0].Repeats
	}
	// r is 9/11, or 0.83 including the current run. log(1e-9)/log(r) is 111 repeats, and -log(1000)/log(r) is 37.
	more := found[1000] - found[1]
	must.True(t, more >= 30 && more <= 60 && found[1] >= 104 && found[1] <= 118, "found after %v repeats", found)
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
		s.stay(1000, c.at)
		must.True(t, (len(s.found) > 0) == c.found, "%v stuck at %v: %+v", c.values, c.at, s.found)
		healthy(1000)
		was := len(s.found)
		s.stay(2000, 0)
		// the field's stuck value differs from the flag's values
		flag := len(c.values) == 2
		must.True(t, flag == (len(s.found) == was), "%v stuck at 0 after %v: %+v", c.values, c.at, s.found)
		_, never, _ := s.Repeats(1)
		must.True(t, never == (len(c.values) == 2), "%v: never is %v", c.values, never)
	}
}

// TestPlaceholders checks which repeated values count as placeholders: only those far from all other readings, or -1 and
// nines where nothing else is negative. Flags, counts, heavy tails and single outliers have none.
func TestPlaceholders(t *testing.T) {
	normal := func(r *rand.Rand) float64 { return 20 + 3*r.NormFloat64() }
	age := func(r *rand.Rand) float64 { return 18 + float64(r.IntN(70)) }
	for _, c := range []struct {
		name     string
		fraction float64
		value    float64
		draw     func(*rand.Rand) float64
		want     bool
	}{
		{"-999", 0.2, -999, normal, true}, {"9999", 0.1, 9999, normal, true}, {"largest int32", 0.1, math.MaxInt32, age, true},
		{"-1 of ages", 0.1, -1, age, true}, {"-99 of ages", 0.1, -99, age, true}, {"0 of ages", 0.1, 0, age, false}, {"-2 of ages", 0.1, -2, age, false},
		{"ordinary", 0.2, 21, normal, false}, {"one outlier", 0.005, 1e6, normal, false},
		{"flag", 0.2, 100, func(r *rand.Rand) float64 { return float64(r.IntN(2)) }, false},
		{"counts", 0.3, 0, func(r *rand.Rand) float64 { return math.Floor(r.ExpFloat64() * 5) }, false},
		{"heavy tails", 0, 0, func(r *rand.Rand) float64 { return math.Exp(3 * r.NormFloat64()) }, false},
		{"signed", 0.1, -1, func(r *rand.Rand) float64 { return math.Round(5 * r.NormFloat64()) }, false},
	} {
		r := rand.New(rand.NewPCG(5, 6))
		schema := eventtest.Schema(1, "", "no", "yes")
		var p, again Placeholders
		found := 0
		for i := range 3000 {
			x := c.draw(r)
			if r.Float64() < c.fraction {
				x = c.value
			}
			var e event.Example
			eventtest.Put(&e, 10, x, 1)
			for _, f := range p.Take(&e, schema.Fields) {
				if found++; f.Field != 1 || f.Column != 10 || f.Value != c.value || math.Abs(f.Fraction-c.fraction) > 0.2 || f.Low > f.High {
					t.Errorf("%s: %+v", c.name, f)
				}
			}
			if i == 40 || i == 2000 { // a restart
				var a, b coder.Coder
				p.State(&a)
				d := coder.Read(a.Out)
				again.State(d)
				must.Require(t, d.Done(), "the state cannot be read")
				p = again
				p.State(&b)
				must.Require(t, bytes.Equal(a.Out, b.Out), "the state changes")
			}
		}
		n := 0
		p.Each(func(model.StuckField) { n++ })
		must.True(t, (found == 1) == c.want && found <= 1 && n == found, "%s: found %d times, %d placeholders", c.name, found, n)
	}
}

// TestMemory checks that old runs are forgotten. A field that had long runs in the past must be detected as fast as a
// field that always changed.
func TestMemory(t *testing.T) {
	s, r := newStream(1), rand.New(rand.NewPCG(22, 23))
	for n := range 16 * stuckMemory {
		s.take(float64(1 + n/12))
	}
	s.draw(3*stuckMemory, r.NormFloat64)
	s.stay(100, 0.5)
	must.True(t, len(s.found) == 1 && s.found[0].Repeats == Least, "%+v", s.found)
}
