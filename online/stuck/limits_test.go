package stuck_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/online/stuck"
)

// limited passes readings of a numeric field to Limits.
type limited struct {
	stuck.Limits
	t      *testing.T
	fields []event.Field
}

func newLimited(t *testing.T) *limited {
	return &limited{t: t, fields: []event.Field{{Kind: event.Sparse}, {Name: "x", Kind: event.Numeric}, {Name: "w", Kind: event.Categorical}}}
}

// counts reports whether a reading is accepted under the current limits.
func (l *limited) counts(x float64) bool {
	counts := true
	l.Each(func(b stuck.Bounds) { counts = x >= b.Low && x <= b.High && !(b.NoZero && x == 0) })
	return counts
}

// take passes a reading to Limits, and returns whether the reading was accepted. The test fails unless Take reports
// each change of limits.
func (l *limited) take(x float64) bool {
	counts := l.counts(x)
	var before, after []stuck.Bounds
	l.Each(func(b stuck.Bounds) { before = append(before, b) })
	e := &event.Example{Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{x, 1}}, Field: []uint16{1, 2}}
	changed := l.Take(e, l.fields)
	l.Each(func(b stuck.Bounds) { after = append(after, b) })
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

// TestDeadSensorsDoNotCount checks that the value of a dead sensor never counts, however long it lasts and even if it
// recurs. The value is 0 or far outside the range.
func TestDeadSensorsDoNotCount(t *testing.T) {
	for _, dead := range []float64{0, -9999, 1e9} {
		l, r := newLimited(t), rand.New(rand.NewPCG(1, 2))
		healthy := func(int) float64 { return 20 + 3*r.NormFloat64() }
		if odd := l.feed(5000, healthy); odd > 0 {
			t.Errorf("%d healthy readings do not count", odd)
		}
		for range 4 {
			if odd := l.feed(3000, func(int) float64 { return dead }); odd != 3000 {
				t.Errorf("dead at %v: %d of 3,000 readings do not count", dead, odd)
			}
			if odd := l.feed(500, healthy); odd > 0 {
				t.Errorf("%d healthy readings do not count", odd)
			}
		}
	}
}

// TestOrdinaryReadingsCount checks that correct zeros, a new unit and correct spikes are accepted after about twenty
// readings. The zeros occur now and then, often, or all night. The readings of a new unit and the spikes vary.
func TestOrdinaryReadingsCount(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, c := range map[string]struct {
		next func(i int) float64
		most int
	}{
		"rare zeros":   {func(i int) float64 { return map[bool]float64{true: 0, false: 20 + r.NormFloat64()}[i%500 == 0] }, 21},
		"often zero":   {func(i int) float64 { return map[bool]float64{true: 0, false: 20 + r.NormFloat64()}[r.IntN(2) == 0] }, 60},
		"nights":       {func(i int) float64 { return map[bool]float64{true: 0, false: 20 + r.NormFloat64()}[i%100 < 40] }, 241},
		"another unit": {func(i int) float64 { return 20_000 + 1000*r.NormFloat64() }, 21},
		"spikes":       {func(i int) float64 { return 20 + r.NormFloat64()*math.Pow(10, float64(3*(i%7/6))) }, 60},
	} {
		l := newLimited(t)
		l.feed(2000, func(int) float64 { return 20 + r.NormFloat64() })
		odd := l.feed(10_000, c.next)
		if odd > c.most || odd == 0 {
			t.Errorf("%s: %d readings do not count", name, odd)
		}
		if odd := l.feed(5000, c.next); odd > 2 {
			t.Errorf("%s, later: %d readings do not count", name, odd)
		}
	}
}

// TestLimitsAfterAcceptance checks that accepted readings extend the limits only to their own value. They must not be
// evidence for other readings.
func TestLimitsAfterAcceptance(t *testing.T) {
	l, r := newLimited(t), rand.New(rand.NewPCG(11, 12))
	l.feed(2000, func(int) float64 { return 1e6 + 2*r.Float64() })
	l.feed(500, func(int) float64 { return 1e6 + 100 + r.Float64() })
	for x, counts := range map[float64]bool{1e6 + 900: true, 1e6 - 900: true, 1e6 + 1200: false, 1e6 - 1200: false, 5e5: false} {
		if l.counts(x) != counts {
			t.Errorf("%v counts: %v", x, !counts)
		}
	}
	for _, x := range []float64{-1e6, 2e6} {
		l.feed(100, func(int) float64 { return x })
		l.feed(100, func(int) float64 { return 1e6 + r.Float64() })
		if l.counts(x) {
			t.Errorf("%v, at which the sensor was dead once, counts", x)
		}
	}
}
