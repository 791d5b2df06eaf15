package papers

import (
	"math"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/must"
)

// TestPoissonPenalty checks that the product formula for R of Poisson regression equals the sum over all masks.
func TestPoissonPenalty(t *testing.T) {
	var b batch.Builder
	for _, x := range [][]float64{{1, 1, 1}, {0.5, -2, 1}} {
		must.Do(t, b.Add(&event.Example{Weight: 1, Features: event.Vec{Index: []uint32{0, 1, 2}, Value: x}}))
	}
	d := b.Data(event.NewSchema(8, []string{"0", "1"}, 2))
	w, q, want := []float64{0.3, -0.7, 1.1, 0.5}, 0.3, 0.0
	for i := range d.Rows() {
		row := d.Row(i)
		for mask := range 8 {
			chance, f := 1.0, w[3]
			for j := range 3 {
				if mask>>j&1 == 0 {
					chance *= q
				} else {
					chance *= 1 - q
					f += row.At(j) * w[j] / (1 - q)
				}
			}
			want += chance * math.Exp(f)
		}
		want -= math.Exp(row.Dot(w) + w[3])
	}
	if got := poissonPenalty(d, w, q); math.Abs(got-want) > 1e-12*want {
		t.Errorf("%v, want %v", got, want)
	}
}
