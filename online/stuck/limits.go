package stuck

// This file detects two kinds of suspicious readings: a first zero, and a reading far outside all other readings. The
// cause is usually a dead sensor and not a measurement.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/event"
)

// Limits learns, for each numeric field, the range of its readings and whether it is ever 0.
//
// Two kinds of readings are suspicious and do not count. The first kind is a zero in a field that has never been zero.
// The second kind is a reading whose distance from all others is more than far times their range. A correct suspicious
// reading must count eventually, but the value of a dead sensor must not. The difference is that a dead sensor keeps
// its value. So suspicious readings are evidence only after another value has followed, at most runEvidence per run of
// one value. If the evidence, or its fraction of the readings, is large enough, the value 0 or the larger range becomes
// usual. A sensor that dies repeatedly reaches that as well; Detector then detects it.
//
// The zero value is for a new stream.
type Limits struct {
	fields []bounds // fields by id
}

const (
	// A field has limits after leastReadings readings.
	leastReadings = 200
	// A reading is suspicious if its distance from all other readings is more than far times their range.
	far = 10
	// runEvidence is the largest evidence from one run of equal readings.
	runEvidence = 4
	// The evidence enough always suffices. The evidence some suffices if it is also more than one in oneIn of the
	// readings.
	enough, some, oneIn = 20, 4, 100
)

// Bounds has the limits of a field.
type Bounds struct {
	Field     uint16
	Low, High float64
	NoZero    bool
}

// bounds holds the readings of a field.
type bounds struct {
	numeric   bool
	zero      bool // whether 0 is an accepted value
	readings  uint64
	low, high float64 // range of the accepted readings
	odd       [2]oddity
}

// oddity is the evidence that suspicious readings of one kind are correct.
type oddity struct {
	value     float64 // value of the current run
	run       uint64  // number of suspicious readings in the run, 0 for no run
	evidence  uint64
	low, high float64 // range of the evidence
}

// The kinds of suspicious readings.
const (
	oddZero = iota
	oddFar
)

// Take processes an event in its raw form. changed reports whether limits have changed.
func (l *Limits) Take(e *event.Example, fields []event.Field) (changed bool) {
	for id := len(l.fields); id < min(len(fields), mostFields); id++ {
		l.fields = append(l.fields, bounds{numeric: id > 0 && fields[id].Kind == event.Numeric})
	}
	for i, id := range e.Field {
		if int(id) < len(l.fields) && l.fields[id].numeric && l.fields[id].observe(e.Features.Value[i]) {
			changed = true
		}
	}
	return changed
}

// observe processes a reading. changed reports whether the limits of the field have changed.
func (b *bounds) observe(x float64) (changed bool) {
	kind := b.kindOf(x)
	for k := range b.odd {
		if o := &b.odd[k]; o.run > 0 && (k != kind || x != o.value) {
			o.evidence += min(o.run, runEvidence)
			o.low, o.high = min(o.low, o.value), max(o.high, o.value)
			o.run = 0
			changed = b.accept(k) || changed
		}
	}
	if changed {
		kind = b.kindOf(x)
	}
	if kind >= 0 {
		o := &b.odd[kind]
		if o.run++; o.evidence == 0 && o.run == 1 {
			o.low, o.high = x, x
		}
		o.value = x
		return changed
	}
	if b.readings == 0 {
		b.low, b.high = x, x
	}
	was := *b
	b.readings++
	b.zero, b.low, b.high = b.zero || x == 0, min(b.low, x), max(b.high, x)
	return changed || b.known() && (!was.known() || b.zero != was.zero || b.low != was.low || b.high != was.high)
}

// known reports whether the limits are in effect. They are not in effect for a constant field.
func (b *bounds) known() bool { return b.readings >= leastReadings && b.low < b.high }

// kindOf returns the kind of a suspicious reading, or -1 if the reading is not suspicious.
func (b *bounds) kindOf(x float64) int {
	low, high := b.limits()
	switch {
	case !b.known():
		return -1
	case x == 0 && !b.zero:
		return oddZero
	case x < low || x > high:
		return oddFar
	}
	return -1
}

func (b *bounds) limits() (low, high float64) {
	reach := far * (b.high - b.low)
	return b.low - reach, b.high + reach
}

// accept accepts suspicious readings of a kind if there is enough evidence. It reports whether it has accepted them.
func (b *bounds) accept(kind int) bool {
	o := &b.odd[kind]
	if o.evidence < enough && (o.evidence < some || oneIn*o.evidence <= b.readings) {
		return false
	}
	if b.zero = b.zero || kind == oddZero; kind == oddFar {
		b.low, b.high = min(b.low, o.low), max(b.high, o.high)
	}
	*o = oddity{}
	return true
}

// Each calls f with the limits in effect, in the order of the fields.
func (l *Limits) Each(f func(Bounds)) {
	for id := range l.fields {
		if b := &l.fields[id]; b.known() {
			low, high := b.limits()
			f(Bounds{uint16(id), low, high, !b.zero})
		}
	}
}

// State encodes or decodes the Limits.
func (l *Limits) State(c *coder.Coder) {
	n := uint64(len(l.fields))
	c.Uint(&n)
	if c.Decode {
		*l = Limits{}
		if n > mostFields {
			c.Failed = true
			return
		}
		l.fields = make([]bounds, n)
	}
	for id := range l.fields {
		b := &l.fields[id]
		if c.Bool(&b.numeric); !b.numeric {
			continue
		}
		c.Bool(&b.zero)
		c.Uint(&b.readings)
		c.Each(&b.low, &b.high)
		for k := range b.odd {
			o := &b.odd[k]
			c.Uint(&o.run)
			c.Uint(&o.evidence)
			c.Each(&o.value, &o.low, &o.high)
		}
		c.Failed = c.Failed || !(b.low <= b.high) || math.Abs(b.low) > event.MaxMagnitude || math.Abs(b.high) > event.MaxMagnitude
	}
}
