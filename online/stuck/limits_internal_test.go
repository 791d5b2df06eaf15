package stuck

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
)

// limited passes readings of a numeric field to Limits.
type limited struct {
	Limits
	t      *testing.T
	fields []event.Field
}

func newLimited(t *testing.T) *limited {
	return &limited{t: t, fields: []event.Field{{Kind: event.Sparse}, {Name: "x", Kind: event.Numeric}, {Name: "w", Kind: event.Categorical}}}
}

// counts reports whether a reading is accepted under the current limits.
func (l *limited) counts(x float64) bool {
	counts := true
	l.Each(func(b Bounds) { counts = x >= b.Low && x <= b.High && !(b.NoZero && x == 0) })
	return counts
}

// take passes a reading to Limits, and returns whether the reading was accepted. The test fails unless Take reports
// each change of limits.
func (l *limited) take(x float64) bool {
	counts := l.counts(x)
	var before, after []Bounds
	l.Each(func(b Bounds) { before = append(before, b) })
	e := &event.Example{Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{x, 1}}, Field: []uint16{1, 2}}
	changed := l.Take(e, l.fields)
	l.Each(func(b Bounds) { after = append(after, b) })
	if different := len(before) != len(after) || len(after) > 0 && before[0] != after[0]; different != changed {
		l.t.Fatalf("at %v the limits were %+v, are %+v, and changed is %v", x, before, after, changed)
	}
	return counts
}

// feed passes n readings to Limits, and returns how many readings were not accepted.
func (l *limited) feed(n int, next func(i int) float64) (odd int) {
	for i := range n {
		if !l.take(next(i)) {
			odd++
		}
	}
	return odd
}

// TestFewOutlyingReadings checks suspicious readings that are each followed by another value. Four of them must be
// accepted if they are more than 1 % of the readings. Three must not be accepted.
func TestFewOutlyingReadings(t *testing.T) {
	for _, c := range []struct{ before, needed int }{{leastReadings, some}, {390, some}, {500, some + 2}, {5000, enough}} {
		l, r := newLimited(t), rand.New(rand.NewPCG(9, 10))
		l.feed(c.before, func(int) float64 { return 20 + r.NormFloat64() })
		for n := range 30 {
			if counts := l.take(0); counts != (n >= c.needed) {
				t.Errorf("after %d readings and %d zeros 0 counts: %v", c.before, n, counts)
			}
			l.take(20)
		}
	}
}

// TestNoLimits checks that there are no limits for new fields, for constant fields, and for fields that are 0 early.
func TestNoLimits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	l := newLimited(t)
	if odd := l.feed(leastReadings, func(i int) float64 { return map[bool]float64{true: 0, false: math.Exp(20 * r.NormFloat64())}[i == 150] }); odd > 0 {
		t.Errorf("%d readings of a young field do not count", odd)
	}
	if odd := l.feed(1000, func(int) float64 { return 0 }); odd > 0 {
		t.Errorf("%d zeros do not count", odd)
	}
	l = newLimited(t)
	if odd := l.feed(2000, func(i int) float64 { return float64(7 - i/1000) }); odd > 0 {
		t.Errorf("%d readings of a constant do not count", odd)
	}
}

// TestLimitsState restores Limits at different points. The restored Limits must continue like the original, with equal
// bytes.
func TestLimitsState(t *testing.T) {
	l, r := newLimited(t), rand.New(rand.NewPCG(7, 8))
	code := func(l *Limits) []byte {
		c := &coder.Coder{}
		l.State(c)
		return c.Out
	}
	for n := range 4000 {
		x := 20 + r.NormFloat64()
		if n > 1000 && r.IntN(50) == 0 {
			x = []float64{0, 1e6, -1e6 * r.Float64()}[r.IntN(3)]
		}
		if l.take(x); n%97 != 0 {
			continue
		}
		data := code(&l.Limits)
		c := coder.Read(data)
		var again Limits
		if again.State(c); !c.Done() || !bytes.Equal(code(&again), data) || !slices.Equal(again.fields, l.Limits.fields) {
			t.Fatalf("event %d: the state does not come back", n)
		}
		l.Limits = again
	}
	data := code(&l.Limits)
	for i := range data {
		c := coder.Read(data[:i])
		var d Limits
		if d.State(c); c.Done() {
			t.Fatalf("%d bytes of %d are a state", i, len(data))
		}
	}
}
