package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/must"
)

// readings makes events with three columns: a number, an amount that is often 0, and a flag.
type readings struct{ *rand.Rand }

func (r readings) next() *event.Example {
	amount := 0.0
	if r.Float64() < 0.7 {
		amount = float64(1 + r.IntN(5))
	}
	return &event.Example{Field: []uint16{1, 2, 3}, Features: event.Vec{Index: []uint32{4, 7, 9}, Value: []float64{r.NormFloat64(), amount, float64(r.IntN(2))}}}
}

// TestFillValues checks that a value that begins to repeat is found, and no value of ordinary events: not a frequent 0,
// not one of few whole numbers, and not the value of a flag. 0 is a fill value of a column that has never read it.
func TestFillValues(t *testing.T) {
	r, s := readings{rand.New(rand.NewPCG(1, 1))}, Readings{}
	s.Follow([]uint32{4, 7, 9})
	feed := func(n int, change func(x []float64)) {
		for range n {
			e := r.next()
			change(e.Features.Value)
			if s.Note(e); s.Due() {
				s.Learn()
			}
		}
	}
	feed(7*readingsKept, func([]float64) {})
	got := s.Columns()[0].Fills
	must.True(t, len(got) == 0, "after seven blocks without a 0: %v", got)
	feed(43*readingsKept, func([]float64) {})
	for i, c := range s.Columns() {
		must.Require(t, slices.Equal(c.Fills, [][]float64{{0}, nil, nil}[i]), "column %d: %v", c.Column, c.Fills)
	}
	c := s.Columns()
	must.True(t, c[0].Zeros <= 0 && !c[0].Flag && !c[0].Least && c[1].Zeros >= 0.2 && c[1].Zeros <= 0.4 && c[1].Least && c[1].Most >= 0.15 && c[1].Most <= 0.25 && c[2].Flag, "%+v", c)
	// A fifth of the readings of each column is lost, and reads one value.
	feed(3*readingsKept, func(x []float64) {
		for i := range x {
			if r.Float64() < 0.2 {
				x[i] = -99
			}
		}
	})
	for i, want := range [][]float64{{0, -99}, nil, nil} {
		got := s.Columns()[i].Fills
		must.True(t, i >= 2 || slices.Equal(got, want) || i == 1 && len(got) == 0, "column %d: %v, want %v", i, got, want)
	}
	// A value of the amounts must repeat far more often than any other; how often they are 0 does not matter.
	feed(3*readingsKept, func(x []float64) {
		if r.Float64() < 0.5 {
			x[1] = 3
		}
	})
	must.EqualSlices(t, s.Columns()[1].Fills, []float64{3}, "amounts")
	// A column that reads 0 once can read it.
	feed(1, func(x []float64) { x[0] = 0 })
	feed(readingsKept, func([]float64) {})
	must.True(t, slices.Equal(s.Columns()[0].Fills, []float64{-99}), "after a 0: %v", s.Columns()[0].Fills)
	// The state continues equally, also within a block.
	feed(37, func([]float64) {})
	w := &coder.Coder{}
	s.State(w)
	var again Readings
	d := coder.Read(w.Out)
	again.State(d)
	must.Require(t, d.Done(), "the state cannot be read")
	for range 2 * readingsKept {
		e := r.next()
		for _, x := range []*Readings{&s, &again} {
			if x.Note(e); x.Due() {
				x.Learn()
			}
		}
	}
	a, b := &coder.Coder{}, &coder.Coder{}
	s.State(a)
	again.State(b)
	must.True(t, slices.Equal(a.Out, b.Out), "a restored Readings learns something else")
}

// TestTally compares the counts of a tally with those of a map: of readings of which many are equal, or none, of both
// zeros, and with some missing.
func TestTally(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for range 300 {
		values, none := 1+r.IntN(200), float64(1+r.IntN(60)-30)*0.37
		readings, counts, first, want, least := make([]float64, r.IntN(readingsKept+1)), map[float64]float64{}, 0.0, 0.0, noReading
		for i := range readings {
			x := float64(r.IntN(values)-values/2) * 0.37
			if readings[i] = x; x == 0 && r.IntN(2) == 0 {
				readings[i] = math.Copysign(0, -1)
			}
			if r.IntN(10) == 0 {
				readings[i] = noReading
				continue
			}
			counts[x]++
			if least = min(least, x); x != none && counts[x] > want {
				first, want = x, counts[x]
			}
		}
		var c tally
		c.take(readings)
		for x, n := range counts {
			must.Equal(t, c.count(x), n, fmt.Sprint("readings of ", x))
		}
		must.Equal(t, c.count(1e9), 0, "readings of what was not read")
		must.Equal(t, c.least, least, "least")
		if value, most := c.most(func(x float64) bool { return x != none }); most != want || most > 0 && value != first {
			t.Fatalf("of %d readings with %d values, %v is the most frequent with %v, want %v", len(readings), values, value, most, want)
		}
	}
}

// TestEachColumn checks that each column is given with its own readings, also in the last few columns.
func TestEachColumn(t *testing.T) {
	for _, n := range []uint32{1, 8, 20} {
		var r Readings
		var columns []uint32
		for column := range n {
			columns = append(columns, column)
		}
		r.Follow(columns)
		for k := range readingsKept {
			r.Note(&event.Example{Features: event.Vec{Index: columns, Value: must.Map(columns, func(column uint32) float64 { return float64(100*k) + float64(column) })}})
		}
		given := 0
		for i, c := range r.each {
			must.True(t, i == given && c.taken == readingsKept && c.readings[5] == 500+float64(i), "column %d, given as %d: %v", given, i, c.readings)
			given++
		}
		must.Equal(t, given, int(n), "columns")
	}
}

// TestUsualValue checks that a value that begins to repeat is found where another value is usual, whatever that is; that the
// usual value itself is found only if it becomes far more frequent, and never if it is 0.
func TestUsualValue(t *testing.T) {
	for _, usual := range []float64{0, 5, -1, 100} {
		for _, c := range []struct {
			often, dead, value float64
			want               []float64
		}{{0.6, 0.3, -3.25, []float64{-3.25}}, {0.6, 0, 0, nil}, {0.6, 0.3, usual, nil}, {0.1, 0.6, usual, []float64{usual}}, {0.1, 0.3, 2.5, []float64{2.5}}} {
			if usual == 0 {
				c.want = slices.DeleteFunc(c.want, func(x float64) bool { return x == 0 })
			}
			r, s := rand.New(rand.NewPCG(7, 8)), Readings{}
			s.Follow([]uint32{3})
			for i := range 12 * readingsKept {
				x := r.NormFloat64()
				if r.Float64() < c.often {
					x = usual
				}
				if i >= 9*readingsKept && r.Float64() < c.dead {
					x = c.value
				}
				if s.Note(&event.Example{Field: []uint16{1}, Features: event.Vec{Index: []uint32{3}, Value: []float64{x}}}); s.Due() {
					s.Learn()
				}
			}
			got := slices.DeleteFunc(slices.Clone(s.Columns()[0].Fills), func(x float64) bool { return x == 0 }) // where no reading was 0
			must.True(t, slices.Equal(got, c.want) || len(got)+len(c.want) == 0, "usual %v, %+v: %v", usual, c, got)
		}
	}
}

// TestFollow checks that columns that stay keep what is known of them, and that a column that leaves is forgotten.
func TestFollow(t *testing.T) {
	r, s := readings{rand.New(rand.NewPCG(1, 1))}, Readings{}
	s.Follow([]uint32{4, 7})
	for range 4 * readingsKept {
		if s.Note(r.next()); s.Due() {
			s.Learn()
		}
	}
	was := s.Columns()[1]
	s.Follow([]uint32{7, 9})
	now := s.Columns()
	must.True(t, len(now) == 2 && now[0].Column == 7 && now[0].Most == was.Most && now[1].Most == 0 && now[1].Flag, "%+v, was %+v", now, was)
	_, ok := s.Stale(0, 3)
	must.True(t, !ok, "the latest readings are those of other columns")
}
