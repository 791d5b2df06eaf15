package batch

import (
	"math"
	"testing"

	"blankout/batch/internal/problems"
	"blankout/loss"
)

// The certificate made of sums over rows is that of the objective.
func TestDualGap(t *testing.T) {
	x, y := problems.Gaussian(7, 60, 5, false)
	d := denseData(t, x, y)
	for _, l := range []loss.Loss{loss.HingeGaussian{Ell: 1}, loss.LogisticGaussian{}} {
		for _, intercept := range []Intercept{FreeIntercept, PenalisedIntercept} {
			p := Problem{Data: d, Y: y, Loss: l, Noise: loss.Dropout{Q: 0.3}, Kappa: 1, Intercept: intercept, Penalty: Ridge(d.Columns(), 1, intercept)}
			o, err := NewExpected(p)
			if err != nil {
				t.Fatal(err)
			}
			rows, err := NewRowSums(p)
			if err != nil {
				t.Fatal(err)
			}
			w := []float64{0.3, -0.2, 0.1, 0.5, -0.4, 0.2}
			again := append([]float64(nil), w...)
			rows.Smooth(0.1)
			o.Smooth(0.1)
			gap, kink := DualGap(rows, p.Penalty, intercept == FreeIntercept, again)
			if want := o.Gap(w); math.Abs(gap-want) > 1e-12*want || math.Abs(kink-o.SmoothingGap()) > 1e-12 || math.Abs(w[5]-again[5]) > 1e-12 {
				t.Errorf("%v, %s: %v with kink %v at %v, want %v with %v at %v", l, intercept, gap, kink, again[5], want, o.SmoothingGap(), w[5])
			}
		}
	}
}
