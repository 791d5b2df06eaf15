package batch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/must"
)

// windowProblem returns a problem that resembles a window of recent events: few rows, each with a few of many columns.
// Its quadratic penalty pulls every parameter to a center.
func windowProblem(t testing.TB, loss loss.Loss, noise loss.Noise, rows, columns, entries int) Problem {
	r := rand.New(rand.NewPCG(uint64(rows), uint64(columns)))
	var b Builder
	var y []float64
	for range rows {
		e := event.Example{Weight: 1}
		step := columns / entries
		for k := range entries {
			eventtest.Put(&e, uint32(k*step+r.IntN(step)), r.NormFloat64())
		}
		must.Do(t, b.Add(&e))
		y = append(y, float64(2*r.IntN(2)-1))
	}
	d := b.Data(event.NewSchema(20, nil, 2))
	p := Problem{Data: d, Y: y, Loss: loss, Noise: noise, Kappa: 1, Intercept: PenalizedIntercept, Threads: 1}
	for range d.Columns() + 1 {
		p.Penalty.R = append(p.Penalty.R, 0.05+2*r.Float64())
		p.Penalty.Center = append(p.Penalty.Center, 0.1*r.NormFloat64())
	}
	return p
}

// TestDual checks that the solution in the dual equals the solution in the primal, for every loss and for IRLS.
func TestDual(t *testing.T) {
	robust := must.Get(loss.NewTLogistic(1.5))(t)
	for _, m := range []loss.Loss{loss.LogisticGaussian{}, loss.LogisticChen{}, loss.HingeGaussian{Ell: 1}, loss.HingeChen{Ell: 1}, robust.Theta(), loss.Quadratic{}} {
		for _, noise := range []loss.Noise{loss.NoNoise{}, loss.Dropout{Q: 0.5}, loss.Dropout{Q: 0.01}} {
			t.Run(fmt.Sprint(m, "/", noise), func(t *testing.T) {
				p := windowProblem(t, m, noise, 30, 300, 15)
				o := must.Get(NewExpected(p))(t)
				// Check that P^-1 P is the identity, where P is the majorizer.
				o.Majorise(true)
				w := make([]float64, o.Dim())
				for i := range w {
					w[i] = 0.1 * math.Sin(float64(i))
				}
				grad, back := make([]float64, o.Dim()), make([]float64, o.Dim())
				o.ValueGrad(w, grad)
				d := o.dual()
				if d == nil || !d.exact {
					t.Fatal("no dual of the majoriser")
				}
				o.HessVec(w, grad)
				d.apply(grad, back)
				for i := range w {
					if math.Abs(back[i]-w[i]) > 1e-9 {
						t.Fatalf("parameter %d: P^-1 P gives %v, want %v", i, back[i], w[i])
					}
				}
				o.Majorise(false)
				if o.plainHinge() > 0 {
					return // the hinge has its own solver
				}
				best := math.Inf(1)
				var values []float64
				for _, opt := range []Options{{Solver: Newton, Dual: true}, {Solver: IRLS, Dual: true}, {Solver: Newton}, {Solver: LBFGS}} {
					opt.Tol = 1e-9
					r := must.Get(Solve(t.Context(), o, opt))(t)
					values = append(values, r.Objective)
					best = min(best, r.Objective)
				}
				for i, v := range values[:3] {
					if v > best+1e-7*math.Abs(best) {
						t.Errorf("solver %d: objective %.12g, best %.12g", i, v, best)
					}
				}
			})
		}
	}
}

func TestDualIsForFewRows(t *testing.T) {
	p := windowProblem(t, loss.LogisticChen{}, loss.NoNoise{}, 30, 28, 14)
	o := must.Get(NewExpected(p))(t)
	o.ValueGrad(make([]float64, o.Dim()), make([]float64, o.Dim()))
	if o.dual() != nil {
		t.Error("a dual larger than the primal")
	}
	p = windowProblem(t, loss.LogisticChen{}, loss.NoNoise{}, 20, 300, 15)
	p.Penalty.R[len(p.Penalty.R)-1] = 0
	o = must.Get(NewExpected(p))(t)
	o.ValueGrad(make([]float64, o.Dim()), make([]float64, o.Dim()))
	if o.dual() != nil {
		t.Error("a dual with a parameter that nothing holds")
	}
}

// BenchmarkDual measures an IRLS step on text (wide rows) and on images (dense rows).
func BenchmarkDual(b *testing.B) {
	for _, shape := range [][3]int{{10, 20_000, 200}, {20, 20_000, 200}, {20, 784, 150}, {32, 784, 150}} {
		for _, noise := range []loss.Noise{loss.NoNoise{}, loss.Dropout{Q: 0.5}} {
			p := windowProblem(b, loss.LogisticGaussian{}, noise, shape[0], shape[1], shape[2])
			for _, dual := range []bool{false, true} {
				b.Run(fmt.Sprintf("%dx%d/%v/dual=%v", shape[0], shape[1], noise, dual), func(b *testing.B) {
					for b.Loop() {
						o := must.Get(NewExpected(p))(b)
						must.Get(Solve(b.Context(), o, Options{Solver: Newton, Tol: 1e-6, MaxIterations: 50, Dual: dual}))(b)
					}
				})
			}
		}
	}
}
