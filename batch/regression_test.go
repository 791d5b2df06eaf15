package batch

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"blankout/internal/loss"
	"blankout/internal/must"
)

// numbersOf draws targets that depend on the features: numbers with heavy tails, or counts.
func numbersOf(x [][]float64, target loss.Target, seed uint64) []float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	y := make([]float64, len(x))
	for i, row := range x {
		f := 0.7*row[0] - 0.4*row[1] + 0.2
		if target == loss.Count {
			y[i] = math.Floor(math.Exp(f) + 1.5*r.Float64())
		} else {
			y[i] = 500 + 3*f + r.NormFloat64()*math.Exp(r.NormFloat64())
		}
	}
	return y
}

// numbered returns d with targets parsed from its class names, if the loss is for regression.
func numbered(t testing.TB, d *Data, lossName string) *Data {
	t.Helper()
	target := loss.LabelsOf(lossName)
	if target == loss.Sign {
		return d
	}
	s := *d
	s.Schema = d.Schema.Clone()
	s.Schema.Target, s.Schema.Classes = target, nil
	s.labels, s.targets = make([]int32, d.Rows()), make([]float64, d.Rows())
	for i := range s.targets {
		s.targets[i] = must.Get(strconv.ParseFloat(d.Schema.Classes[d.Label(i)], 64))(t)
	}
	return &s
}

// lossesOfNumbers returns the regression losses whose minimum can be certified. The quantile and Huber losses occur
// twice, with two values of their parameter.
func lossesOfNumbers() []loss.Loss {
	out := []loss.Loss{loss.Quantile{T: 0.1}, loss.Huber{D: 0.2}}
	for _, l := range loss.All() {
		if facts := l.Facts(); facts.Regression && facts.Convex {
			out = append(out, l)
		}
	}
	return out
}

// TestNumbers checks that every regression loss is solved to a certified gap. The lower bound (objective minus gap)
// must be below the value at every random point and at the solutions of other solvers.
func TestNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	x, _ := drawProblem(t, 21, 80, 6, false)
	data := denseData(t, x, make([]float64, len(x)))
	for _, l := range lossesOfNumbers() {
		y := numbersOf(x, l.Facts().Target, 5)
		for _, n := range []loss.Noise{loss.NoNoise{}, loss.Dropout{Q: 0.3}, loss.Dropout{Q: 0.9}, loss.Gaussian{SD: 0.5}, loss.GroupDropout{Q: 0.1, Groups: 0.4}} {
			for _, it := range everyIntercept {
				name := fmt.Sprint(l, " ", n, " ", it)
				o := newExpected(t, data, y, l, n, 1, it)
				best := solve(t, o, Options{Tol: 1e-6})
				if !best.Converged || !(best.Gap <= 1.01e-6*math.Abs(best.Objective)) {
					t.Errorf("%s: the gap stays at %v of %v after %d steps", name, best.Gap, best.Objective, best.Iterations)
				}
				other := solve(t, o, Options{Solver: LBFGS, Tol: 1e-4})
				if off := 1e-4 * (1 + math.Abs(best.Objective)); math.Abs(other.Objective-best.Objective) > off {
					t.Errorf("%s: lbfgs ends at %.12g, newton at %.12g", name, other.Objective, best.Objective)
				}
				for k := range 12 {
					w := append([]float64(nil), best.W...)
					for i := range w {
						w[i] += math.Pow(10, float64(-k)) * r.NormFloat64()
					}
					gap := o.Gap(w)
					if true := o.ValueGrad(w, nil) - best.Objective; gap < true-1e-13*math.Abs(best.Objective) {
						t.Errorf("%s: gap %g below the true %g", name, gap, true)
					}
				}
			}
		}
	}
}

// TestNumbersThatAreAllEqual checks that the solution is the intercept alone if all targets are equal.
func TestNumbersThatAreAllEqual(t *testing.T) {
	x, _ := drawProblem(t, 22, 30, 5, false)
	for _, value := range []float64{0, 7.25, -1e9} {
		y := slices.Repeat([]float64{value}, len(x))
		data := denseData(t, x, y)
		s := *data
		s.Schema = data.Schema.Clone()
		s.Schema.Target, s.Schema.Classes = loss.Real, nil
		s.targets = y
		for _, l := range []string{"squared", "absolute", "quantile:0.9", "quantile:0.1", "huber:1"} {
			for _, noise := range []string{"none", "dropout:0.5", "silent:0.5"} {
				for _, solver := range []Solver{"", Newton, IRLS, LBFGS} {
					c := DefaultConfig()
					c.Loss, c.Noise, c.Solver = l, noise, solver
					fit, err := Train(context.Background(), &s, c)
					if err != nil {
						t.Errorf("%s %s %s: %v", l, noise, solver, err)
						continue
					}
					w := fit.Problems[0].W
					if w[5] != value || slices.ContainsFunc(w[:5], func(x float64) bool { return x != 0 }) || !fit.Converged || fit.Objective != 0 || fit.Gap != 0 {
						t.Errorf("%s %s %s: weights %v, objective %v, gap %v for targets of %v", l, noise, solver, w, fit.Objective, fit.Gap, value)
					}
				}
			}
		}
	}
	// A penalty on the intercept pulls the intercept to 0. Rows with weight 0 may have other targets.
	data := denseData(t, x, nil)
	o := newExpected(t, data, slices.Repeat([]float64{7}, len(x)), loss.Linear{}, loss.NoNoise{}, 1, PenalizedIntercept)
	if r := solve(t, o, Options{}); !(r.W[5] < 6.9) {
		t.Errorf("a penalized intercept is %v", r.W[5])
	}
	weight := make([]float64, len(x))
	y := slices.Repeat([]float64{3}, len(x))
	y[4], weight[5] = 9, 1
	o = must.Get(NewExpected(Problem{Data: data, Y: y, Weight: weight, Loss: loss.Quantile{T: 0.9}, Kappa: 1, Intercept: FreeIntercept, Penalty: Ridge(5, 1, FreeIntercept)}))(t)
	if r := solve(t, o, Options{}); r.W[5] != 3 || r.Objective != 0 {
		t.Errorf("%+v", r)
	}
}

// TestQuantileAmongOutliers checks that a quantile between outliers is found. Between the outliers the objective has no
// curvature within the initial smoothing. Noise does not smooth the objective, because the weights are 0.
func TestQuantileAmongOutliers(t *testing.T) {
	x, _ := drawProblem(t, 23, 60, 2, false)
	for _, size := range []float64{1e4, 1e9, 1e12} {
		y := make([]float64, len(x))
		for i, row := range x {
			if y[i] = 5 + 3*row[0] - 2*row[1]; i%7 == 0 {
				y[i] *= size
			}
		}
		data := denseData(t, x, y)
		data.Schema = data.Schema.Clone()
		data.Schema.Target, data.Schema.Classes, data.targets = loss.Real, nil, y
		for _, noise := range []string{"none", "dropout:0.3", "silent:0.5"} {
			c := DefaultConfig()
			c.Loss, c.Noise = "quantile:0.9", noise
			fit, err := Train(context.Background(), data, c)
			if err != nil {
				t.Fatalf("size %g, noise %s: %v", size, noise, err)
			}
			if !fit.Converged {
				t.Errorf("size %g, noise %s: %+v", size, noise, fit.Solution)
			}
		}
	}
}
