package papers

import (
	"math"
	"math/bits"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/must"
)

// TestExactDropout compares the expectation with the sum over all enumerated masks, and its gradient with finite
// differences.
func TestExactDropout(t *testing.T) {
	rows := [][]uint32{{0, 1, 2, 5}, {1, 3}, {4}, {0, 2, 3, 4, 5, 6}, {}}
	var b batch.Builder
	for i, index := range rows {
		x := event.Vec{Index: index}
		for range index {
			x.Value = append(x.Value, 1)
		}
		must.Do(t, b.Add(&event.Example{Features: x, Label: i % 2, Weight: 1}))
	}
	d := b.Data(Binary())
	// Test small and very large scores. The last weight is the intercept.
	for _, scale := range []float64{0.1, 1, 30} {
		for _, q := range []float64{0.1, 0.5, 0.9} {
			testExactDropout(t, d, rows, scale, q)
		}
	}
}

func testExactDropout(t *testing.T, d *batch.Data, rows [][]uint32, scale, q float64) {
	w := []float64{0.3, -1.2, 2.5, 0.7, -0.9, 1.1, -2, 0.4}
	for c := range w {
		w[c] *= scale
	}
	o := newExactDropout(d, q, 0.01, 2)
	got, want := o.expectations(w, nil), 0.0
	for i, index := range rows {
		e := 0.0
		for mask := range 1 << len(index) {
			alive := bits.OnesCount(uint(mask))
			f := w[7]
			for j, c := range index {
				if mask>>j&1 == 1 {
					f += w[c] / (1 - q)
				}
			}
			e += math.Pow(1-q, float64(alive)) * math.Pow(q, float64(len(index)-alive)) * (max(f, 0) + math.Log1p(math.Exp(-math.Abs(f))))
		}
		f := d.Row(i).Dot(w) + w[7]
		want += e - float64(i%2)*f
		if math.Abs(got[i]-e) > 1e-8*(1+e) {
			t.Errorf("q = %g, row %d: %.12g, by all masks %.12g", q, i, got[i], e)
		}
	}
	for _, x := range w[:7] {
		want += 0.01 * x * x
	}
	grad := make([]float64, len(w))
	if value := o.ValueGrad(w, grad); math.Abs(value-want) > 1e-7*(1+want) {
		t.Errorf("q = %g: %.12g, by all masks %.12g", q, value, want)
	}
	for c := range w {
		at := append([]float64(nil), w...)
		at[c] += 1e-5
		up := o.ValueGrad(at, nil)
		at[c] -= 2e-5
		if slope := (up - o.ValueGrad(at, nil)) / 2e-5; math.Abs(slope-grad[c]) > 1e-6 {
			t.Errorf("q = %g: gradient %d is %.9g, by differences %.9g", q, c, grad[c], slope)
		}
	}
}
