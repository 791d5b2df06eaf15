package blankout

import (
	"math"
	"math/rand/v2"
	"testing"
)

// everyLoss lists each line of the table, the hinge with a second margin too.
func everyLoss() []Loss {
	var out []Loss
	for _, l := range losses {
		out = append(out, l.make(1))
		if l.hasEll {
			out = append(out, l.make(0.5))
		}
	}
	for _, x := range []float64{1.1, 1.6, 1.9} {
		l, err := NewTLogistic(x)
		if err != nil {
			panic(err)
		}
		out = append(out, l, l.Theta())
	}
	return out
}

// target returns a label that the loss is meant for.
func target(l Loss, r *rand.Rand) float64 {
	switch l.(type) {
	case PoissonQuadratic:
		return float64(r.IntN(5))
	case Linear, Quadratic:
		return 2 * r.NormFloat64()
	}
	return float64(2*r.IntN(2) - 1)
}

// TestLosses holds every loss to its contract at random points: derivatives
// against central differences, first and second, and a finite answer.
func TestLosses(t *testing.T) {
	for _, l := range everyLoss() {
		t.Run(l.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for range 500 {
				y, f, v := target(l, r), 2*r.NormFloat64(), math.Exp(2*r.NormFloat64())
				at := func(f, v float64) (a, b, c float64) { return l.At(y, f, v) }
				value, df, dv := at(f, v)
				hf, hv := 1e-5, 1e-5*v
				up, dfUp, dvUp := at(f+hf, v)
				down, dfDown, dvDown := at(f-hf, v)
				vUp, _, dvvUp := at(f, v+hv)
				vDown, _, dvvDown := at(f, v-hv)
				scale := 1 + math.Abs(value) + math.Abs(df) + math.Abs(dv)
				near(t, "df", y, f, v, df, (up-down)/(2*hf), 1e-7*scale)
				near(t, "dv", y, f, v, dv, (vUp-vDown)/(2*hv), 1e-7*scale/min(v, 1))
				ff, fv, vv := l.(Smooth).At2(y, f, v)
				near(t, "ff", y, f, v, ff, (dfUp-dfDown)/(2*hf), 1e-7*scale/min(v, 1))
				near(t, "fv", y, f, v, fv, (dvUp-dvDown)/(2*hf), 1e-7*scale/min(v, 1))
				near(t, "vv", y, f, v, vv, (dvvUp-dvvDown)/(2*hv), 1e-6*scale/min(v*v, 1))
			}
			for _, f := range []float64{0, 1, -1, 40, -40, 1e8, -1e8} {
				for _, v := range []float64{0, 1e-300, 1e-12, 1, 1e12} {
					if _, ok := l.(PoissonQuadratic); ok && f > 700 {
						continue // e^f is infinite, as it should be
					}
					value, df, dv := l.At(target(l, r), f, v)
					ff, fv, vv := l.(Smooth).At2(1, f, v)
					for i, x := range []float64{value, df, dv, ff, fv, vv} {
						if math.IsNaN(x) || (i < 3 && math.IsInf(x, 0)) {
							t.Errorf("At(%g, %g): term %d is %g", f, v, i, x)
						}
					}
				}
			}
		})
	}
}

func near(t *testing.T, what string, y, f, v, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Fatalf("%s at y=%g f=%g v=%g: %g, finite difference %g (tolerance %g)", what, y, f, v, got, want, tol)
	}
}

// TestGaussianExpectation compares the closed forms with numerical integration
// of the loss itself over the normal density.
func TestGaussianExpectation(t *testing.T) {
	plain := map[Loss]func(u float64) float64{
		HingeGaussian{1}:   func(m float64) float64 { return max(0, 1-m) },
		HingeGaussian{0.5}: func(m float64) float64 { return max(0, 0.5-m) },
		LogisticGaussian{}: func(m float64) float64 { return softplus(-m) },
	}
	for l, g := range plain {
		for _, y := range []float64{-1, 1} {
			for f := -6.0; f <= 6; f += 1.5 {
				for _, v := range []float64{0.01, 0.3, 1, 16, 256} {
					s := math.Sqrt(v)
					const n = 40_000 // trapezoids over 9 deviations
					want := 0.0
					h := 18.0 / n
					for i := range n + 1 {
						z := -9 + h*float64(i)
						want += h * g(y*(f+s*z)) * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
					}
					if got, _, _ := l.At(y, f, v); math.Abs(got-want) > 2e-8*(1+s) {
						t.Errorf("%s at y=%g f=%g v=%g: %.12g, integral %.12g", l, y, f, v, got, want)
					}
				}
			}
		}
	}
}

// TestLimits: without noise each classification loss is its plain self, and the
// Gaussian expectation lies between the plain loss and Chen's bound.
func TestLimits(t *testing.T) {
	plain := map[string]func(m float64) float64{
		"hinge":    func(m float64) float64 { return max(0, 1-m) },
		"logistic": func(m float64) float64 { return softplus(-m) },
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		y, f, v := float64(2*r.IntN(2)-1), 3*r.NormFloat64(), math.Exp(3*r.NormFloat64())
		for name, g := range plain {
			gauss, _ := ParseLoss(name)
			chen, _ := ParseLoss(name + ":chen")
			for _, l := range []Loss{gauss, chen} {
				if got, _, _ := l.At(y, f, 0); math.Abs(got-g(y*f)) > 1e-8 {
					t.Fatalf("%s at f=%g without noise: %g, want %g", l, f, got, g(y*f))
				}
			}
			lower := g(y * f)
			middle, _, _ := gauss.At(y, f, v)
			upper, _, _ := chen.At(y, f, v)
			if middle < lower-1e-8 || upper < middle-1e-8 {
				t.Fatalf("%s at y=%g f=%g v=%g: %g <= %g <= %g does not hold", name, y, f, v, lower, middle, upper)
			}
		}
	}
}

// TestMajoriser: the bounds of Chen et al. are concave functions of
// E[zeta^2] or E[f~^2] plus a linear term, so the quadratic with curvature
// gamma = 2 dv touches the bound at (f, v) and lies above it everywhere.
func TestMajoriser(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	bounds := []Loss{HingeChen{1}, HingeChen{0.5}, LogisticChen{}}
	for _, l := range everyLoss() {
		switch l.(type) {
		case TLogistic, tTheta:
			bounds = append(bounds, l)
		}
	}
	for _, l := range bounds {
		for range 5000 {
			y := float64(2*r.IntN(2) - 1)
			f0, v0 := 2*r.NormFloat64(), math.Exp(2*r.NormFloat64())
			f1, v1 := 3*r.NormFloat64(), math.Exp(3*r.NormFloat64())
			value, df, dv := l.At(y, f0, v0)
			q := value + df*(f1-f0) + dv*((f1-f0)*(f1-f0)+v1-v0)
			if got, _, _ := l.At(y, f1, v1); got > q+1e-12*(1+math.Abs(q)) {
				t.Fatalf("%s: majoriser of (%g, %g) at (%g, %g) is %g, the bound %g", l, f0, v0, f1, v1, q, got)
			}
		}
	}
}

// TestSymmetry: changing the signs of label and score changes nothing but the
// sign of the derivative.
func TestSymmetry(t *testing.T) {
	for _, l := range everyLoss() {
		if _, ok := l.(PoissonQuadratic); ok {
			continue
		}
		for _, f := range []float64{-3, -0.2, 0, 0.7, 5} {
			a, da, va := l.At(1, f, 0.8)
			b, db, vb := l.At(-1, -f, 0.8)
			if a != b || math.Abs(da+db) > 1e-15 || va != vb {
				t.Errorf("%s at f=%g: (%g %g %g) against (%g %g %g)", l, f, a, da, va, b, db, vb)
			}
		}
	}
}

func TestParseLoss(t *testing.T) {
	for _, l := range everyLoss() {
		if _, ok := l.(tTheta); ok {
			continue // a step of a solver, no loss to ask for
		}
		got, err := ParseLoss(l.String())
		if err != nil || got.String() != l.String() {
			t.Errorf("ParseLoss(%q) = %v, %v", l.String(), got, err)
		}
	}
	for in, want := range map[string]string{
		"hinge": "hinge:gaussian", "logistic": "logistic:gaussian", "hinge:chen:0.25": "hinge:chen:0.25", "quadratic": "quadratic",
	} {
		if l, err := ParseLoss(in); err != nil || l.String() != want {
			t.Errorf("ParseLoss(%q) = %v, %v, want %s", in, l, err, want)
		}
	}
	for _, in := range []string{"", "huber", "hinge:mcf", "hinge:gaussian:-1", "hinge:gaussian:x", "hinge:gaussian:1x", "t-logistic", "t-logistic:1", "t-logistic:2", "t-logistic:NaN", "probit:chen", "logistic:gaussian:2", "quadratic:chen"} {
		if l, err := ParseLoss(in); err == nil {
			t.Errorf("ParseLoss(%q) = %v, want an error", in, l)
		}
	}
}
