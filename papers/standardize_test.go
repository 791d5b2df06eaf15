package papers

import (
	"math"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/must"
)

// TestZScores checks that each column has mean 0 and variance 1, with absent values as 0.
func TestZScores(t *testing.T) {
	var b batch.Builder
	for i := range 40 {
		x := event.Vec{Index: []uint32{3}, Value: []float64{5 + float64(i%7)}}
		if i%4 > 0 {
			x.Index, x.Value = append(x.Index, 8), append(x.Value, 2+float64(i%5))
		}
		must.Do(t, b.Add(&event.Example{Label: i % 2, Weight: 1, Features: x}))
	}
	d, _, err := zScores(b.Data(Binary()))
	must.Do(t, err)
	sum, squares := make([]float64, d.Columns()), make([]float64, d.Columns())
	for i := range d.Rows() {
		row := d.Row(i)
		for j, c := range row.Index {
			sum[c] += row.At(j)
			squares[c] += row.At(j) * row.At(j)
		}
	}
	for c := range sum {
		if n := float64(d.Rows()); math.Abs(sum[c]/n) > 1e-6 || math.Abs(squares[c]/n-1) > 1e-6 {
			t.Errorf("column %d: mean %v, variance %v", d.Column(c), sum[c]/n, squares[c]/n)
		}
	}
}
