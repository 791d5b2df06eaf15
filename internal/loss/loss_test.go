package loss

import (
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"blankout/internal/must"
)

// all returns one loss for each line of the table. A loss that requires a parameter gets a valid one.
func all() (out []Loss) {
	for _, l := range table {
		for _, x := range []float64{l.standard, 1.5, 0.8} {
			if loss, err := l.make(x); err == nil {
				out = append(out, loss)
				break
			}
		}
	}
	return out
}

// everyLoss returns each loss of the table, some with several parameters, and the reweighted loss of each t-logistic
// solver step.
func everyLoss() []Loss {
	out := append(all(), HingeGaussian{0.5}, HingeChen{0.5}, SquaredHinge{0.5}, Absolute{}.Facts().Clean, Quantile{0.1}, Quantile{0.1}.Facts().Clean)
	for _, x := range []float64{1.1, 1.6, 1.9} {
		l, err := NewTLogistic(x)
		if err != nil {
			panic(err)
		}
		out = append(out, l, l.Theta())
	}
	return out
}

// target returns a random valid target of a loss.
func target(l Loss, r *rand.Rand) float64 {
	switch l.Facts().Target {
	case Count:
		return float64(r.IntN(5))
	case Real:
		return 2 * r.NormFloat64()
	}
	return float64(2*r.IntN(2) - 1)
}

// TestFacts checks the Facts of every loss by sampling. A property that Facts states must hold for all samples, and a
// property that Facts denies must fail for some sample.
func TestFacts(t *testing.T) {
	for _, l := range everyLoss() {
		t.Run(l.String(), func(t *testing.T) {
			facts := l.Facts()
			check := func(what string, says, is bool) {
				t.Helper()
				must.True(t, says == is, "%s: the facts say %v, sampled it is %v", what, says, is)
			}
			r := rand.New(rand.NewPCG(7, 8))
			value := func(y, f, v float64) float64 { value, _, _ := l.At(y, f, v); return value }
			convex, clean, above, labelFree, hinge, towards, falls, negative := true, true, true, true, true, true, false, false
			probability := facts.Target == Sign
			for range 20_000 {
				y := target(l, r)
				f, s := 3*r.NormFloat64(), math.Exp(2*r.NormFloat64())
				g, u := 3*r.NormFloat64(), math.Exp(2*r.NormFloat64())
				if facts.Target == Count {
					s, u = min(s, 5), min(u, 5) // keeps e^(s^2/2) finite
				}
				a, b := value(y, f, s*s), value(y, g, u*u)
				size := 1e-9 * (1 + math.Abs(a) + math.Abs(b))
				convex = convex && value(y, (f+g)/2, (s+u)*(s+u)/4) <= (a+b)/2+size && (u < s || value(y, f, u*u) >= a-size)
				c, d := value(y, f, 0), value(y, g, 0)
				clean = clean && value(y, (f+g)/2, 0) <= (c+d)/2+size
				lower := 0.0
				if facts.Lower != nil {
					lower = facts.Lower(y)
					negative = negative || a < 0
				}
				above = above && a >= lower-size && c >= lower-size
				other := target(l, r)
				labelFree = labelFree && math.Abs((a-c)-(value(other, f, s*s)-value(other, f, 0))) <= 1e-7*(1+math.Abs(a))
				_, _, dv := l.At(y, f, s*s)
				falls = falls || dv < 0
				ell := facts.Margin
				if ell == 0 {
					ell = 1
				}
				hinge = hinge && math.Abs(c-max(0, ell-y*f)) <= size
				if facts.Target == Sign {
					probability = probability && math.Abs(math.Exp(-value(1, f, 0))+math.Exp(-value(-1, f, 0))-1) < 1e-7
					_, df, _ := l.At(y, f, 0)
					towards = towards && y*df <= 1e-12
				}
				if facts.Clean != nil {
					p, pdf, _ := l.At(y, f, 0)
					q, qdf, _ := facts.Clean.At(y, f, 0)
					must.Require(t, math.Abs(p-q) <= 1e-7*(1+p) && math.Abs(pdf-qdf) <= 1e-7, "at y=%g f=%g without noise it is %g (%g), its clean form %v %g (%g)", y, f, p, pdf, facts.Clean, q, qdf)
				}
			}
			check("convex", facts.Convex, convex)
			check("convex without noise", facts.CleanConvex, clean)
			check("never below its bound", true, above)
			check("sometimes below 0", facts.Lower != nil, negative)
			check("label-free penalty", facts.LabelFree, labelFree)
			check("the hinge without noise", facts.Margin > 0, hinge)
			check("falls as the noise grows", facts.Falls, falls)
			check("a probability", facts.Probability, probability)
			must.True(t, towards, "a larger margin costs more")

			// At a kink the slope jumps within 1e-9.
			for _, y := range []float64{1, 2, -1, -0.5, 0} {
				if facts.Target.Check(y) != nil {
					continue
				}
				at := []float64{-3, -2, -1, -0.7, -0.5, 0, 0.3, 0.5, 1, 2, 3, y, 1 / (y + 1e-300)}
				if facts.Kink != nil {
					at = append(at, facts.Kink(y))
				}
				for _, f := range at {
					if math.Abs(f) > 100 {
						continue
					}
					_, left, _ := l.At(y, f-1e-9, 0)
					_, right, _ := l.At(y, f+1e-9, 0)
					is := facts.Kink != nil && facts.Kink(y) == f
					check(fmt.Sprintf("kink at y=%g f=%g", y, f), is, math.Abs(left-right) > 1e-3)
				}
			}
		})
	}
}

// TestTargets checks which targets are rejected. The minimum over f of a squared loss must be at the target, or at its
// logarithm for a count.
func TestTargets(t *testing.T) {
	for target, refused := range map[Target][]float64{
		Sign: {0, 0.5, 2, math.NaN(), math.Inf(1)}, Real: {math.NaN(), math.Inf(-1)}, Count: {-1, math.NaN(), math.Inf(1)},
	} {
		for _, y := range refused {
			must.True(t, target.Check(y) != nil, "target kind %d takes %v", target, y)
		}
		for _, y := range map[Target][]float64{Sign: {-1, 1}, Real: {-2.5, 0, 1}, Count: {0, 3, 2.5}}[target] {
			must.Do(t, target.Check(y), "target kind", target)
		}
	}
	for _, l := range all() {
		best := func(y float64) float64 { return y }
		switch l.Facts().Target {
		case Sign:
			continue
		case Count:
			best = math.Log
		}
		for _, y := range []float64{0.5, 1, 3} {
			_, df, _ := l.At(y, best(y), 0)
			must.True(t, math.Abs(df) <= 1e-12 || l.Facts().Kink != nil, "%v: the slope at the target %v is %v", l, y, df)
			_, left, _ := l.At(y, best(y)-1e-6, 0)
			_, right, _ := l.At(y, best(y)+1e-6, 0)
			must.True(t, left < 0 && right > 0, "%v: the slopes beside the target %v are %v and %v", l, y, left, right)
		}
	}
}

// TestConjugates checks the Fenchel-Young inequality phi(f) + phi*(a) >= a f: only the slope at f attains equality. It
// also checks that the nearest dual variable is in the domain.
func TestConjugates(t *testing.T) {
	found := 0
	r := rand.New(rand.NewPCG(9, 10))
	for _, l := range everyLoss() {
		c, ok := l.(Conjugate)
		if !ok {
			continue
		}
		found++
		for range 2000 {
			y, f := target(l, r), 2*r.NormFloat64()
			value, df, _ := l.At(y, f, 0)
			nearest, dual := c.Conjugate(y, df)
			must.Require(t, math.Abs(nearest-df) <= 1e-15 && math.Abs(value+dual-df*f) <= 1e-12*(1+value),
				"%v at y=%g f=%g: phi + phi* - a f = %g at its own slope %g (nearest %g)", l, y, f, value+dual-df*f, df, nearest)
			a := 2 * r.NormFloat64()
			nearest, dual = c.Conjugate(y, a)
			again, _ := c.Conjugate(y, nearest)
			must.Require(t, again == nearest && value+dual >= nearest*f-1e-12, "%v at y=%g f=%g a=%g: phi + phi* - a f = %g at %g (nearest to itself %g)", l, y, f, a, value+dual-nearest*f, nearest, again)
		}
	}
	must.Require(t, found >= 2, "nobody knows a conjugate")
}

// TestLosses checks every loss at random points. Its derivatives must match central differences, and its values must be
// finite.
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
				ff, fv, vv := l.At2(y, f, v)
				near(t, "ff", y, f, v, ff, (dfUp-dfDown)/(2*hf), 1e-7*scale/min(v, 1))
				near(t, "fv", y, f, v, fv, (dvUp-dvDown)/(2*hf), 1e-7*scale/min(v, 1))
				near(t, "vv", y, f, v, vv, (dvvUp-dvvDown)/(2*hv), 1e-6*scale/min(v*v, 1))
			}
			for _, f := range []float64{0, 1, -1, 40, -40, 1e8, -1e8} {
				for _, v := range []float64{0, 1e-300, 1e-12, 1, 1e12} {
					if l.Facts().Target == Count && max(f, v) > 700 {
						continue // e^f or e^v is infinite, which is correct
					}
					value, df, dv := l.At(target(l, r), f, v)
					ff, fv, vv := l.At2(1, f, v)
					for i, x := range []float64{value, df, dv, ff, fv, vv} {
						must.True(t, !math.IsNaN(x) && (i >= 3 || !math.IsInf(x, 0)), "At(%g, %g): term %d is %g", f, v, i, x)
					}
				}
			}
		})
	}
}

func near(t *testing.T, what string, y, f, v, got, want, tol float64) {
	t.Helper()
	must.Require(t, math.Abs(got-want) <= tol, "%s at y=%g f=%g v=%g: %g, finite difference %g (tolerance %g)", what, y, f, v, got, want, tol)
}

// TestGaussianExpectation compares the closed forms with numerical integration of the loss over the normal density.
func TestGaussianExpectation(t *testing.T) {
	plainResidual := map[Loss]func(m float64) float64{
		Absolute{}: math.Abs,
		Linear{}:   func(m float64) float64 { return m * m / 2 },
	}
	plain := map[Loss]func(u float64) float64{
		HingeGaussian{1}:   func(m float64) float64 { return max(0, 1-m) },
		HingeGaussian{0.5}: func(m float64) float64 { return max(0, 0.5-m) },
		LogisticGaussian{}: func(m float64) float64 { return Softplus(-m) },
		SquaredHinge{1}:    func(m float64) float64 { return max(0, 1-m) * max(0, 1-m) },
		Erf{}:              func(m float64) float64 { return 1 - math.Erf(2*m) },
	}
	// The regression losses in plainResidual are functions of the residual y - f, the losses in plain are functions of
	// the margin y f.
	for _, level := range []float64{0.2, 0.5, 0.9} {
		plainResidual[Quantile{level}] = func(m float64) float64 { return max(level*m, (level-1)*m) }
	}
	for _, d := range []float64{0.3, 1.5} {
		plainResidual[Huber{d}] = func(m float64) float64 {
			return must.Either(math.Abs(m) > d, d*math.Abs(m)-d*d/2, m*m/2)
		}
	}
	for l, g := range plain {
		for _, y := range []float64{-1, 1} {
			for f := -6.0; f <= 6; f += 1.5 {
				for _, v := range []float64{0.01, 0.3, 1, 16, 256} {
					s := math.Sqrt(v)
					want := expectation(func(f float64) float64 { return g(y * f) }, f, s)
					got, _, _ := l.At(y, f, v)
					must.True(t, math.Abs(got-want) <= 2e-8*(1+s), "%s at y=%g f=%g v=%g: %.12g, integral %.12g", l, y, f, v, got, want)
				}
			}
		}
	}
	for l, g := range plainResidual {
		for _, y := range []float64{-1.7, 0.4} {
			for f := -6.0; f <= 6; f += 1.5 {
				for _, v := range []float64{0.01, 0.3, 1, 16} {
					s := math.Sqrt(v)
					want := expectation(func(f float64) float64 { return g(y - f) }, f, s)
					got, _, _ := l.At(y, f, v)
					must.True(t, math.Abs(got-want) <= 1e-7*(1+s), "%s at y=%g f=%g v=%g: %.12g, integral %.12g", l, y, f, v, got, want)
				}
				got, _, _ := l.At(y, f, 0)
				must.True(t, math.Abs(got-g(y-f)) <= 1e-12, "%s at y=%g f=%g without noise: %g, want %g", l, y, f, got, g(y-f))
			}
		}
	}
	for _, f := range []float64{-2, 0.5} { // the score of a count is the logarithm of its rate
		got, want := first(PoissonGaussian{}.At(3, f, 0.7)), expectation(func(f float64) float64 { return math.Exp(f) - 3*f }, f, math.Sqrt(0.7))
		must.True(t, math.Abs(got-want) <= 1e-8, "poisson at f=%g: %g, integral %g", f, got, want)
	}
}

func first(value, _, _ float64) float64 { return value }

// expectation integrates g(f + s z) over the normal density of z with the trapezoidal rule, up to 9 standard
// deviations.
func expectation(g func(f float64) float64, f, s float64) float64 {
	const n = 40_000
	sum, h := 0.0, 18.0/n
	for i := range n + 1 {
		z := -9 + h*float64(i)
		sum += h * g(f+s*z) * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
	}
	return sum
}

// TestLimits checks that each classification loss is the plain loss without noise. The Gaussian expectation must lie
// between the plain loss and the bound of Chen et al.
func TestLimits(t *testing.T) {
	plain := map[string]func(m float64) float64{
		"hinge":    func(m float64) float64 { return max(0, 1-m) },
		"logistic": func(m float64) float64 { return Softplus(-m) },
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		y, f, v := float64(2*r.IntN(2)-1), 3*r.NormFloat64(), math.Exp(3*r.NormFloat64())
		for name, g := range plain {
			gauss, _ := Parse(name)
			chen, _ := Parse(name + ":chen")
			for _, l := range []Loss{gauss, chen} {
				got, _, _ := l.At(y, f, 0)
				must.Require(t, math.Abs(got-g(y*f)) <= 1e-8, "%s at f=%g without noise: %g, want %g", l, f, got, g(y*f))
			}
			lower := g(y * f)
			middle, _, _ := gauss.At(y, f, v)
			upper, _, _ := chen.At(y, f, v)
			must.Require(t, middle >= lower-1e-8 && upper >= middle-1e-8, "%s at y=%g f=%g v=%g: %g <= %g <= %g does not hold", name, y, f, v, lower, middle, upper)
		}
	}
}

// TestMajoriser checks the quadratic function with the curvature gamma = 2 dv. This quadratic function must touch a
// bound of Chen et al. at (f, v) and lie above the bound everywhere. The bounds are concave functions of E[zeta^2] or
// E[f~^2] plus a linear term.
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
			got, _, _ := l.At(y, f1, v1)
			must.Require(t, got <= q+1e-12*(1+math.Abs(q)), "%s: majoriser of (%g, %g) at (%g, %g) is %g, the bound %g", l, f0, v0, f1, v1, q, got)
		}
	}
}

// TestSymmetry checks that changing the signs of label and score changes only the sign of the derivative.
func TestSymmetry(t *testing.T) {
	for _, l := range everyLoss() {
		if l.Facts().Target == Count {
			continue // y = -1 is not a valid target
		}
		for _, f := range []float64{-3, -0.2, 0, 0.7, 5} {
			mirrored := l
			switch q := l.(type) { // mirrored quantile
			case Quantile:
				mirrored = Quantile{1 - q.T}
			case quantileBound:
				q.tilt = 2 - q.tilt
				mirrored = q
			}
			a, da, va := l.At(1, f, 0.8)
			b, db, vb := mirrored.At(-1, -f, 0.8)
			must.True(t, math.Abs(a-b) <= 1e-15*(1+a) && math.Abs(da+db) <= 1e-15 && va == vb, "%s at f=%g: (%g %g %g) against (%g %g %g)", l, f, a, da, va, b, db, vb)
		}
	}
}

func TestParse(t *testing.T) {
	for _, l := range everyLoss() {
		if _, ok := l.(tTheta); ok {
			continue // the loss of a solver step, which Parse does not accept
		}
		got, err := Parse(l.String())
		must.True(t, err == nil && got.String() == l.String(), "Parse(%q) = %v, %v", l.String(), got, err)
	}
	for in, want := range map[string]string{
		"hinge": "hinge:gaussian", "logistic": "logistic:gaussian", "hinge:chen:0.25": "hinge:chen:0.25", "quadratic": "quadratic",
		"squared": "linear", "quantile:0.25": "quantile:0.25", "huber:2": "huber:2", "huber:2e+28": "huber:2e+28", "poisson": "poisson:gaussian",
	} {
		l, err := Parse(in)
		must.True(t, err == nil && l.String() == want, "Parse(%q) = %v, %v, want %s", in, l, err, want)
	}
	for _, in := range []string{"", "huber", "hinge:mcf", "hinge:gaussian:-1", "hinge:gaussian:x", "hinge:gaussian:1x", "t-logistic", "t-logistic:1", "t-logistic:2", "t-logistic:NaN", "probit:chen", "logistic:gaussian:2", "quadratic:chen", "quantile", "quantile:0", "quantile:1", "huber:0", "huber:-1", "absolute:1"} {
		l, err := Parse(in)
		must.True(t, err != nil, "Parse(%q) = %v, want an error", in, l)
	}
}

// TestLabelsOf checks that LabelsOf constructs no loss. LabelsOf is called for each event with missing fields, and
// constructing t-logistic takes milliseconds and 37 kB.
func TestLabelsOf(t *testing.T) {
	want := map[string]Target{"linear": Real, "squared": Real, "absolute": Real, "quantile": Real, "huber": Real, "poisson": Count}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		for _, name := range append(Names(), "ramp") {
			got := LabelsOf(name + ":1.5")
			must.Require(t, got == want[name], "%s: %v", name, got)
		}
	}
	runtime.ReadMemStats(&after)
	must.True(t, after.TotalAlloc-before.TotalAlloc <= 1<<20, "%d bytes for 100 questions about each loss", after.TotalAlloc-before.TotalAlloc)
}

// TestSoftplus checks that Softplus differs from math.Log1p by at most two units in the last place, from tiny values to
// the linear part.
func TestSoftplus(t *testing.T) {
	for u := -708.0; u <= 708; u += 0.00371 {
		want := max(u, 0) + math.Log1p(math.Exp(-math.Abs(u)))
		got := Softplus(u)
		must.Require(t, math.Abs(got-want) <= 5e-16*want, "Softplus(%v) = %v, want %v", u, got, want)
	}
	must.Equal(t, Softplus(0), math.Ln2, "Softplus(0)")
	must.True(t, Softplus(math.Inf(1)) == math.Inf(1) && Softplus(math.Inf(-1)) == 0 && math.IsNaN(Softplus(math.NaN())),
		"Softplus of what is not finite: %v, %v, %v", Softplus(math.Inf(1)), Softplus(math.Inf(-1)), Softplus(math.NaN()))
}

// TestCancellation evaluates losses where the direct formulas would lose digits by cancellation. It checks that all
// digits are correct.
func TestCancellation(t *testing.T) {
	// The expected values are tanh(s/2)/s and its derivative by s^2, ((1 - tanh^2) s/2 - tanh)/(2 s^3).
	for _, s := range []float64{1e-9, 1e-3, 0.01, 0.03, 0.0499999, 0.05, 0.0500001, 0.1, 1, 5, 40} {
		ratio := func(s float64) float64 { return math.Tanh(s/2) / s }
		got, slope := tanhRatio(s, math.Exp(-s))
		want := ratio(s)
		must.True(t, math.Abs(got/want-1) <= 1e-12, "tanh(s/2)/s at %v: %v, want %v", s, got, want)
		if s < 0.02 {
			continue // the expression below cancels
		}
		th := math.Tanh(s / 2)
		want = ((1-th*th)/2*s - th) / (2 * s * s * s)
		must.True(t, math.Abs(slope/want-1) <= 1e-9, "its derivative by s^2 at %v: %v, want %v", s, slope, want)
	}
	got, slope := tanhRatio(0, 1)
	must.True(t, got == 0.5 && slope == -1.0/24, "at 0: %v and %v, want 1/2 and -1/24", got, slope)
	// Far from the margin, (z + sqrt(z^2 + v))/2 equals v/(4 |z|).
	for _, z := range []float64{-1e3, -1e6, -1e12} {
		const v = 2
		value, _, _ := HingeChen{1}.At(1, 1-z, v)
		want := v / (4 * -z)
		must.True(t, math.Abs(value/want-1) <= 1e-6, "hinge:chen at z = %v: %v, want %v", z, value, want)
	}
}

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

// bisectG solves the equation of g by bisection.
func bisectG(t, u float64) float64 {
	expT := func(x float64) float64 { return math.Pow(max(1+(1-t)*x, 0), 1/(1-t)) }
	lo, hi := u/2, u/2+(math.Exp2(t-1)-1)/(t-1)
	for range 200 {
		g := lo + (hi-lo)/2
		if expT(u/2-g)+expT(-u/2-g) > 1 {
			lo = g
		} else {
			hi = g
		}
	}
	return lo
}

func TestTPartition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, x := range []float64{1.0001, 1.01, 1.3, 1.6, 1.9, 1.9999} {
		g := newTPartition(x)
		must.True(t, g.bound < 1e-8, "t=%v: the table is %v off", x, g.bound)
		for range 1500 {
			u := math.Exp(16*r.Float64()-8) - math.Exp(-8)
			p := g.at(u)
			want := bisectG(x, u) - u/2
			must.Require(t, math.Abs(p.h-want) <= 1e-13*(1+u)+1e-15/(x-1), "t=%v: h(%v) = %v, by bisection %v", x, u, p.h, want)
			off := math.Abs(g.lookUp(u) - p.h)
			must.Require(t, off <= g.bound, "t=%v: the table at %v is %v off, its bound is %v", x, u, off, g.bound)
			// One Newton step from the table must equal many steps.
			many := g.solve(u, 100)
			must.Require(t, math.Abs(p.h-many) <= 2e-14*(p.h+1e-300), "t=%v: h(%v) = %v, after many steps %v", x, u, p.h, many)
		}
		// At tSeries and tLimit, the formulas below and above the limit must agree.
		for _, u := range []float64{tSeries, tLimit} {
			a, b := g.at(u*(1-1e-12)), g.at(u)
			for i, pair := range [][2]float64{{a.h, b.h}, {a.small, b.small}, {a.ratio, b.ratio}, {a.bend, b.bend}} {
				tol := 1e-8
				if i == 3 { // a second derivative, which affects only step sizes
					tol = 1e-6
				}
				must.True(t, math.Abs(pair[0]-pair[1]) <= tol*math.Abs(pair[1]), "t=%v: term %d jumps at %v from %v to %v", x, i, u, pair[0], pair[1])
			}
		}
	}
}

// TestTLogistic compares the loss without noise with its definition. Close to t = 1 it must equal the logistic loss,
// and under noise it must be an upper bound of the numerical integral.
func TestTLogistic(t *testing.T) {
	for _, x := range []float64{1.1, 1.6, 1.9} {
		l := must.Get(NewTLogistic(x))(t)
		plain := func(u float64) float64 { // log(l)/(t-1), which equals -log p
			return math.Log(1+(1-x)*(u/2-bisectG(x, math.Abs(u)))) / (x - 1)
		}
		for _, f := range []float64{-30, -2, -0.01, 0, 0.3, 4, 50} {
			for _, y := range []float64{-1, 1} {
				got, _, _ := l.At(y, f, 0)
				want := plain(y * f)
				must.True(t, math.Abs(got-want) <= 1e-12*(1+math.Abs(f)), "t=%v: loss at %v is %v, want %v", x, y*f, got, want)
				xi, want := l.Influence(y, f, 0), math.Exp(-(x-1)*plain(y*f))
				must.True(t, math.Abs(xi-want) <= 1e-12, "t=%v: influence at %v is %v, want %v", x, y*f, xi, want)
			}
			for _, v := range []float64{0.1, 1, 9} {
				mean, part, h := 0.0, 0.0, 0.01
				for z := -8.0; z < 8; z += h {
					u := f + math.Sqrt(v)*(z+h/2)
					weight := h * math.Exp(-0.5*(z+h/2)*(z+h/2)) / math.Sqrt(2*math.Pi)
					a, _, _ := l.At(1, u, 0)
					b, _, _ := l.Theta().At(1, u, 0)
					mean, part = mean+weight*a, part+weight*b
				}
				a, _, _ := l.At(1, f, v)
				b, _, _ := l.Theta().At(1, f, v)
				must.True(t, a >= mean-1e-6 && b >= part-1e-6, "t=%v f=%v v=%v: bounds %v and %v lie below the expectations %v and %v", x, f, v, a, b, mean, part)
			}
		}
	}
	l := must.Get(NewTLogistic(1.0001))(t)
	for _, f := range []float64{-5, 0, 0.7, 3} {
		for _, v := range []float64{0, 2} {
			a, _, _ := l.At(1, f, v)
			b, _, _ := (LogisticChen{}).At(1, f, v)
			must.True(t, math.Abs(a-b) <= 2e-3, "t -> 1: %v at f=%v v=%v, the logistic bound is %v", a, f, v, b)
		}
	}
}

// TestProbit checks that the tail's series agrees with the closed form. The loss of very wrong predictions must be
// finite and exact: -log Phi(-40) = 804.608442013754 (to 15 digits, by the continued fraction of Mills' ratio).
func TestProbit(t *testing.T) {
	got, _, _ := (Probit{}).At(1, -40, 0)
	must.True(t, math.Abs(got-804.608442013754) <= 1e-10, "-log Phi(-40) = %.15g", got)
	mills := func(a float64) float64 { // (1-Phi(a))/phi(a)
		f := 0.0
		for k := 200; k > 0; k-- {
			f = float64(k) / (a + f)
		}
		return 1 / (a + f)
	}
	for _, a := range []float64{19.9, 20.1, 25, 100, 1e4} {
		value, df, _ := Probit{}.At(1, -a, 0)
		want := 0.5*a*a + 0.5*math.Log(2*math.Pi) - math.Log(mills(a))
		must.True(t, math.Abs(value-want) <= 1e-13*want && math.Abs(df+1/mills(a)) <= 1e-13*a, "at %v: %v and %v, want %v and %v", -a, value, df, want, -1/mills(a))
	}
	below, _, _ := Probit{}.At2(1, -20.000001, 0)
	above, _, _ := Probit{}.At2(1, -19.999999, 0)
	must.True(t, math.Abs(below-above) <= 1e-8, "the curvature jumps from %v to %v", below, above)
}

// TestSameBits checks that nothing that learns or scores calls a function of package math whose last bit depends on the
// processor.
func TestSameBits(t *testing.T) {
	depends := regexp.MustCompile(`math\.(Exp|Erfc|Pow|Sinh|Tanh|Cosh)\(`)
	for _, room := range []string{"../../online", "../../app/shards", "../model", "../measure"} {
		must.Do(t, filepath.WalkDir(room, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "synthetic") {
				must.True(t, !depends.Match(must.Get(os.ReadFile(path))(t)), "%s: call the function of package loss", path)
			}
			return err
		}))
	}
}
