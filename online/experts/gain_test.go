package experts

import (
	"math"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/model"
)

// TestGain checks that experts rest if they reduce the loss by less than a two-thousandth, but not before 8,192 events.
// They must wake if they would reduce the loss by more than a thousandth.
func TestGain(t *testing.T) {
	var g Gain
	take := func(n int, gain float64) {
		for i := range n {
			swing := 0.3 * float64(1-i%2*2) // alternating, so that single events do not show the mean
			g.Take(0.5, 0.5-gain+swing)
		}
		g.Apply(1, true)
	}
	take(gainEnough-2, 0)
	if g.Resting() {
		t.Error("it rests before enough events have told")
	}
	take(20, 0.001)
	if !g.Resting() {
		t.Errorf("it does not rest where it gains %v of %v", g.gain, g.size)
	}
	take(4*gainMemory, 0.0004) // relative to the loss 0.5, between leastGain and wakeGain
	if !g.Resting() {
		t.Errorf("it wakes at %v of %v", g.gain, g.size)
	}
	c, other := &coder.Coder{}, Gain{}
	g.State(c)
	if other.State(coder.Read(c.Out)); other != g {
		t.Errorf("%+v, read again %+v", g, other)
	}
	take(4*gainMemory, 0.0006)
	if g.Resting() {
		t.Errorf("it rests at %v of %v", g.gain, g.size)
	}
	take(4*gainMemory, 0.0004)
	if g.Resting() {
		t.Errorf("it rests again at %v of %v", g.gain, g.size)
	}
	take(4*gainMemory, 0.0001)
	if !g.Resting() {
		t.Errorf("it does not rest again at %v of %v", g.gain, g.size)
	}
	take(20*gainMemory, 0)
	if take(gainMemory, 0.1); math.Abs(g.gain-0.1*(1-1/math.E)) > 0.001 {
		t.Errorf("after as many events as it remembers it knows %v of a gain of 0.1", g.gain)
	}
	was := g
	if g.Take(math.Inf(1), math.Inf(1)); g != was {
		t.Error("a difference that is not a number counts")
	}
	if g.Take(1e300, 0); g.gain > 0.1 {
		t.Errorf("one event counts for %v", g.gain)
	}
	if g.Take(-0.5, -0.5); g.size <= 0 {
		t.Errorf("losses below 0 have the size %v", g.size)
	}
}

// TestGainOfNoWeight checks experts without mixture weight in any prediction. They must rest after idleEnough events,
// whatever their gain was before. They must wake if their later gain is large enough.
func TestGainOfNoWeight(t *testing.T) {
	var g Gain
	event := uint64(0)
	pass := func(n int, gain float64, counts bool) {
		for range n {
			event++
			g.Take(0.5, 0.5-gain)
			g.Apply(event, counts)
		}
	}
	pass(1000, 0.1, true)
	if pass(idleEnough-1, 0, false); g.Resting() {
		t.Error("it rests too soon")
	}
	c, other := &coder.Coder{}, Gain{}
	g.State(c)
	if other.State(coder.Read(c.Out)); other != g {
		t.Errorf("%+v, read again %+v", g, other)
	}
	if pass(1, 0, false); !g.Resting() {
		t.Errorf("it does not rest: %+v", g)
	}
	if pass(20, 0, true); !g.Resting() {
		t.Errorf("it wakes by what it gained before: %+v", g)
	}
	if pass(200, 0.1, true); g.Resting() {
		t.Errorf("it does not wake: %+v", g)
	}
	pass(idleEnough-1, 0.1, false)
	pass(1, 0.1, true)
	if pass(idleEnough-1, 0.1, false); g.Resting() {
		t.Error("one event in between does not count")
	}
}

// These give the tests, which use the experts of other packages, access to private parts.

// FollowNumbers follows columns and the splines of c, or its current splines if c is nil.
func (x *Experts) FollowNumbers(columns []uint32, c *model.Splines, t *model.Table) {
	if c != nil {
		x.splines.splines = c
	}
	x.follow(columns, t)
}

// Numbers returns the number of followed columns that are no spline columns.
func (x *Experts) Numbers() int { return x.numbers }

// RestAfter, LeastWeight and WakeWeight are the constants of the same names.
const (
	RestAfter               = restAfter
	LeastWeight, WakeWeight = leastWeight, wakeWeight
)

// Learns is learns, for the next event.
func (x *Experts) Learns(i int, mix []float64) bool {
	learns := x.learns(i, mix)
	x.learned++
	return learns
}

// Fractions returns the fraction of readings near each knot of a spline, and the column of each knot.
func (x *Experts) Fractions(spline int) (fractions []float64, columns []uint32) {
	fractions = x.splines.fractions(spline)
	for knot := range fractions {
		columns = append(columns, x.splines.splines.BasisColumn(spline, knot))
	}
	return fractions, columns
}
