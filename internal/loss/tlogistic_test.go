package loss

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/must"
)

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
