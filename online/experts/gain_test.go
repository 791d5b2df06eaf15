package experts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/model"
	"blankout/internal/must"
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
	must.True(t, !g.Resting(), "it rests before enough events have told")
	take(20, 0.001)
	must.True(t, g.Resting(), "it does not rest where it gains %v of %v", g.gain, g.size)
	take(4*gainMemory, 0.0004) // relative to the loss 0.5, between leastGain and wakeGain
	must.True(t, g.Resting(), "it wakes at %v of %v", g.gain, g.size)
	c, other := &coder.Coder{}, Gain{}
	g.State(c)
	other.State(coder.Read(c.Out))
	must.True(t, other == g, "%+v, read again %+v", g, other)
	take(4*gainMemory, 0.0006)
	must.True(t, !g.Resting(), "it rests at %v of %v", g.gain, g.size)
	take(4*gainMemory, 0.0004)
	must.True(t, !g.Resting(), "it rests again at %v of %v", g.gain, g.size)
	take(4*gainMemory, 0.0001)
	must.True(t, g.Resting(), "it does not rest again at %v of %v", g.gain, g.size)
	take(20*gainMemory, 0)
	take(gainMemory, 0.1)
	must.True(t, math.Abs(g.gain-0.1*(1-1/math.E)) <= 0.001, "after as many events as it remembers it knows %v of a gain of 0.1", g.gain)
	was := g
	g.Take(math.Inf(1), math.Inf(1))
	must.True(t, g == was, "a difference that is not a number counts")
	g.Take(1e300, 0)
	must.True(t, g.gain <= 0.1, "one event counts for %v", g.gain)
	g.Take(-0.5, -0.5)
	must.True(t, g.size > 0, "losses below 0 have the size %v", g.size)
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
	pass(idleEnough-1, 0, false)
	must.True(t, !g.Resting(), "it rests too soon")
	c, other := &coder.Coder{}, Gain{}
	g.State(c)
	other.State(coder.Read(c.Out))
	must.True(t, other == g, "%+v, read again %+v", g, other)
	pass(1, 0, false)
	must.True(t, g.Resting(), "it does not rest: %+v", g)
	pass(20, 0, true)
	must.True(t, g.Resting(), "it wakes by what it gained before: %+v", g)
	pass(200, 0.1, true)
	must.True(t, !g.Resting(), "it does not wake: %+v", g)
	pass(idleEnough-1, 0.1, false)
	pass(1, 0.1, true)
	pass(idleEnough-1, 0.1, false)
	must.True(t, !g.Resting(), "one event in between does not count")
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

// TestSplinesRead compares the columns and values that are read from an event of a table with those of BasisValues: for
// values at knots, between them and beyond, and for splines with one knot.
func TestSplinesRead(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var columns []uint32
		var knots [][]float64
		var values []float64
		for i := range 1 + r.IntN(20) {
			own := []float64{0}
			for n := []int{1, 3, 4, mostKnots}[r.IntN(4)]; len(own) < n; {
				own = append(own, own[len(own)-1]+0.1+r.Float64())
			}
			columns, knots = append(columns, uint32(3*i)), append(knots, own)
			values = append(values, must.Either(r.IntN(3) == 0, own[r.IntN(len(own))], 4*r.Float64()-1))
		}
		s, most := splines{splines: must.Get(model.NewSplines(columns, knots))(t)}, 2*len(columns)
		all := s.with(columns)
		s.place(all)
		to, want := Input{Index: make([]int, most), X: make([]float64, most), Source: make([]int, most)}, Input{}
		n := s.read(columns, values, &to, 0)
		for i, value := range values {
			knot, first, next := s.splines.BasisValues(i, value)
			at := slices.Index(all, s.splines.BasisColumn(i, knot))
			if want.Index, want.X, want.Source = append(want.Index, at), append(want.X, first), append(want.Source, i); next > 0 {
				want.Index, want.X, want.Source = append(want.Index, at+1), append(want.X, next), append(want.Source, i)
			}
		}
		must.Equal(t, fmt.Sprint(to.Index[:n], to.X[:n], to.Source[:n]), fmt.Sprint(want.Index, want.X, want.Source), "columns, values, sources")
	}
}
