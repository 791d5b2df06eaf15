package batch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/must"
)

// trainedOn solves a regression on 200 events with targets transformed by f, and returns the predictions.
func trainedOn(t *testing.T, c Config, counts bool, f func(float64) float64) (predictions []float64, fit *Fit) {
	t.Helper()
	schema := event.NewSchema(8, nil, 0)
	schema.Target = loss.Real
	if counts {
		schema.Target = loss.Count
	}
	var b Builder
	rng := rand.New(rand.NewPCG(5, 6))
	var rows []event.Vec
	for range 200 {
		x := event.Vec{Index: []uint32{0, 1, 2}, Value: []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}}
		y := 2*x.Value[0] - x.Value[1] + 0.5*rng.NormFloat64()
		if counts {
			y = math.Exp(y / 2)
		}
		must.Do(t, b.Add(&event.Example{Features: x, Label: 0, Target: f(y), Weight: 1}))
		rows = append(rows, x)
	}
	fit, err := Train(t.Context(), b.Data(schema), c)
	if err != nil {
		t.Fatalf("%s: %v", c.Loss, err)
	}
	for _, x := range rows {
		score := fit.Model.Score(&event.Example{Features: x}, make([]float64, 1))
		predictions = append(predictions, fit.Model.Value(score[0]))
	}
	return predictions, fit
}

// TestTrainIsEquivariant checks that the predictions for targets a y + b are a times the predictions for y, plus b. For
// counts the test uses a y.
func TestTrainIsEquivariant(t *testing.T) {
	for _, name := range []string{"linear", "absolute", "quantile:0.9", "huber:1", "poisson"} {
		for _, noise := range []string{"none", "dropout:0.3"} {
			if name == "poisson" && noise != "none" {
				continue
			}
			c := DefaultConfig()
			c.Loss, c.Noise, c.Cost, c.Tol = name, noise, 1, 1e-7
			counts := name == "poisson"
			want, fit := trainedOn(t, c, counts, func(y float64) float64 { return y })
			for _, a := range []float64{1e-12, 1e-3, 1e3, 1e12} {
				for _, b := range []float64{0, 7, 1e6} {
					if counts && b != 0 {
						continue
					}
					t.Run(fmt.Sprint(name, noise, a, b), func(t *testing.T) {
						got, other := trainedOn(t, c, counts, func(y float64) float64 { return a * (y + b) })
						for i := range got {
							if off := math.Abs(got[i]/a-b-want[i]) / max(1, math.Abs(want[i])); !(off < 2e-4) {
								t.Fatalf("event %d: %v, want %v (%v off)", i, got[i]/a-b, want[i], off)
							}
						}
						// J and the gap scale with |w|^2.
						factor := a * a
						if counts {
							factor = 1
						}
						if off := math.Abs(other.Objective/factor/fit.Objective - 1); !(off < 1e-4) {
							t.Errorf("objective %v, want %v times %v", other.Objective, factor, fit.Objective)
						}
						if !(other.Gap <= c.Tol*other.Objective*1.01) {
							t.Errorf("gap %v of %v", other.Gap, other.Objective)
						}
						if !other.Converged || !fit.Converged {
							t.Errorf("converged %v, %v", fit.Converged, other.Converged)
						}
					})
				}
			}
		}
	}
}

// TestTargetUnit checks that a unit converts parameters back and forth without change. The intercept must be able to
// undo the unit's center and scale.
func TestTargetUnit(t *testing.T) {
	one := func(int) float64 { return 1 }
	y := []float64{2, 3, 5, 7, math.NaN(), 11}
	for _, l := range []loss.Loss{loss.Linear{}, loss.Huber{D: 1}, loss.Absolute{}, loss.PoissonGaussian{}} {
		count := l.Facts().Target == loss.Count
		u := newTargetUnit(y, one, l, FreeIntercept)
		if u.scale == 1 || (u.center != 0) == count {
			t.Errorf("%v: %+v", l, u)
		}
		r := Result{W: []float64{1, -2, 3}, Objective: 2, Gap: 1}
		w := slices.Clone(r.W)
		u.back(&r, 2)
		if got := u.weightsIn(r.W, 2); math.Abs(got[0]-w[0])+math.Abs(got[1]-w[1])+math.Abs(got[2]-w[2]) > 1e-12 {
			t.Errorf("%v: %v came back as %v", l, w, got)
		}
		if r.Gap*2 != r.Objective {
			t.Errorf("%v: gap %v of objective %v", l, r.Gap, r.Objective)
		}
		for _, intercept := range []Intercept{NoIntercept, PenalizedIntercept} {
			if u := newTargetUnit(y, one, l, intercept); u.center != 0 || (u.scale != 1) == count {
				t.Errorf("%v, intercept %v: %+v", l, intercept, u)
			}
		}
	}
	if u := newTargetUnit([]float64{4, 4, 4}, one, loss.Linear{}, FreeIntercept); u.scale != 1 || u.center != 4 {
		t.Errorf("equal targets: %+v", u)
	}
}

// TestTrainOutlier checks that one target of 1e9 among two hundred hardly changes the solutions of robust losses.
func TestTrainOutlier(t *testing.T) {
	for _, name := range []string{"absolute", "huber:1"} {
		c := DefaultConfig()
		c.Loss, c.Noise, c.Cost, c.Tol = name, "none", 1, 1e-12 // the tolerance is relative to an objective that the outlier makes large
		want, _ := trainedOn(t, c, false, func(y float64) float64 { return y })
		first := true
		got, _ := trainedOn(t, c, false, func(y float64) float64 {
			if first {
				first = false
				return 1e9
			}
			return y
		})
		off := 0.0
		for i := range got {
			off += math.Abs(got[i]-want[i]) / float64(len(got))
		}
		if off > 0.05 {
			t.Errorf("%s: predictions move by %.3f", name, off)
		}
	}
}

// TestStatedObjective compares the objective of a regression with its definition in docs/mathematics.md, computed from
// the weights and the original targets.
func TestStatedObjective(t *testing.T) {
	for _, name := range []string{"linear", "absolute", "quantile:0.9", "huber:1", "poisson"} {
		for _, l2 := range []float64{0, 3} {
			rng := rand.New(rand.NewPCG(8, 9))
			schema := event.NewSchema(8, nil, 0)
			l := must.Get(loss.Parse(name))(t)
			schema.Target = l.Facts().Target
			counts := schema.Target == loss.Count
			var b Builder
			var xs, ys []float64
			for range 300 {
				x := rng.NormFloat64()
				y := 10*x - 4 + 5*rng.NormFloat64()
				if counts {
					y = math.Round(math.Exp(1 + x/2 + rng.NormFloat64()/4))
				}
				xs, ys = append(xs, x), append(ys, y)
				must.Do(t, b.Add(&event.Example{Features: event.Vec{Index: []uint32{0}, Value: []float64{x}}, Target: y, Weight: 1}))
			}
			c := DefaultConfig()
			c.Loss, c.Noise, c.Cost, c.Tol, c.Intercept = name, "none", 2, 1e-9, FreeIntercept
			if l2 > 0 {
				c.L2 = l2
			}
			fit := must.Get(Train(t.Context(), b.Data(schema), c))(t)
			scale := newTargetUnit(ys, func(int) float64 { return 1 }, l, FreeIntercept).scale
			lambda, kappa := 1.0, 2.0
			if l2 > 0 {
				lambda, kappa = l2, 1
			}
			w := fit.Problems[0].W
			want := lambda * w[0] * w[0]
			for i, y := range ys {
				f := w[0]*xs[i] + w[1]
				off := math.Abs(y - f)
				switch name {
				case "linear":
					want += kappa * off * off / 2
				case "absolute":
					want += kappa * scale * off
				case "quantile:0.9":
					want += kappa * scale * max(0.9*(y-f), -0.1*(y-f))
				case "huber:1":
					want += kappa * (min(off, scale)*off - min(off, scale)*min(off, scale)/2)
				case "poisson":
					want += kappa / scale * (math.Exp(f) - y*f + y*math.Log(scale))
				}
			}
			if off := math.Abs(fit.Objective/want - 1); !(off < 1e-7) {
				t.Errorf("%s, l2 %v: objective %v, want %v", name, l2, fit.Objective, want)
			}
		}
	}
}
