package loss

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/must"
)

func TestLogisticTerms(t *testing.T) {
	for _, u := range []float64{0, 1e-300, 1e-9, 0.1, 0.7, 1, 2.5, 4, 7, 12, 30, 100, 1e4, 1e30, 1e200} {
		for _, v := range []float64{0, 1e-300, 1e-6, 0.03, 0.5, 1, 3, 20, 400, 1e5, 1e30, 1e200} {
			for _, u := range []float64{u, -u} {
				value, du, dv := logisticTerms(u, v)
				a, b, c := logisticTermsGo(u, v)
				must.True(t, value == a && du == b && dv == c, "logisticTerms(%g, %g) = %g, %g, %g; its reference %g, %g, %g", u, v, value, du, dv, a, b, c)
				// The expected sums by their definition, term by term.
				a, b, c = 0, 0, 0
				for i, p := range logisticP {
					cdf, phi, s := smoothStep(u, logisticT[i]*logisticT[i]+v)
					a, b, c = a+p*(u*cdf+s*phi), b+p*cdf, c+p*phi/(2*s)
				}
				must.True(t, math.Abs(value-a) <= 1e-12*max(1, math.Abs(a), math.Sqrt(v)) && math.Abs(du-b) <= 1e-12 && math.Abs(dv-c) <= 1e-12*c+1e-290,
					"logisticTerms(%g, %g) = %g, %g, %g; by definition %g, %g, %g", u, v, value, du, dv, a, b, c)
			}
		}
	}
}

// TestExps checks that Exps returns the bits of math.Exp, for any number of arguments and any values.
func TestExps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 709.9, -745.2, 1e300, -700.1, 0, math.Copysign(0, -1), 700, -700, 1e-320}
	for range 100_000 {
		x := make([]float64, r.IntN(14))
		for i := range x {
			if x[i] = math.Ldexp(r.NormFloat64(), r.IntN(13)-4); r.IntN(20) == 0 {
				x[i] = odd[r.IntN(len(odd))]
			}
		}
		got := slices.Clone(x)
		Exps(got)
		for i, x := range x {
			want := math.Exp(x)
			must.Require(t, math.Float64bits(got[i]) == math.Float64bits(want), "exp(%v) = %v, want %v", x, got[i], want)
		}
	}
}

func TestExpNegative(t *testing.T) {
	for y := 0.0; y <= 690; y += 0.01 {
		got, want := expNegative(y), math.Exp(-y)
		must.Require(t, math.Abs(got-want) <= 2e-14*want, "expNegative(%g) = %g, want %g", y, got, want)
	}
}

func BenchmarkLogisticGaussian(b *testing.B) {
	b.Run("reference", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			logisticTermsGo(float64(i&15)-8, 2)
		}
	})
	b.Run("At", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			LogisticGaussian{}.At(1, float64(i&15)-8, 2)
		}
	})
}
