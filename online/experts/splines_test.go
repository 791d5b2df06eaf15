package experts

import (
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/model"
	"blankout/internal/must"
)

// TestSplinesRead compares the columns and values that are read from an event of a table with those of BasisValues: for
// values at knots, between them and beyond, and for splines with one knot.
func TestSplinesRead(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var columns []uint32
		var knots [][]float64
		for i := range 1 + r.IntN(20) {
			own := []float64{0}
			for n := []int{1, 3, 4, mostKnots}[r.IntN(4)]; len(own) < n; {
				own = append(own, own[len(own)-1]+0.1+r.Float64())
			}
			columns, knots = append(columns, uint32(3*i)), append(knots, own)
		}
		s := splines{splines: must.Get(model.NewSplines(columns, knots))(t)}
		all := s.with(columns)
		s.place(all)
		values := make([]float64, len(columns))
		for i := range values {
			if values[i] = 4*r.Float64() - 1; r.IntN(3) == 0 {
				values[i] = knots[i][r.IntN(len(knots[i]))]
			}
		}
		to := Input{Index: make([]int, 2*len(columns)), X: make([]float64, 2*len(columns)), Source: make([]int, 2*len(columns))}
		n := s.read(columns, values, &to, 0)
		var index, sources []int
		var x []float64
		for i, value := range values {
			knot, first, next := s.splines.BasisValues(i, value)
			at := slices.Index(all, s.splines.BasisColumn(i, knot))
			if index, x, sources = append(index, at), append(x, first), append(sources, i); next > 0 {
				index, x, sources = append(index, at+1), append(x, next), append(sources, i)
			}
		}
		must.True(t, slices.Equal(to.Index[:n], index), "columns %v, want %v", to.Index[:n], index)
		must.True(t, slices.Equal(to.X[:n], x), "values %v, want %v", to.X[:n], x)
		must.True(t, slices.Equal(to.Source[:n], sources), "sources %v, want %v", to.Source[:n], sources)
	}
}
