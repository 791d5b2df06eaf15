package batch

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
)

// classData draws n examples of k classes. The examples lie in a plane of the space of 6 features.
func classData(t testing.TB, n, k int, names ...string) *Data {
	r := rand.New(rand.NewPCG(uint64(n), uint64(k)))
	s := event.NewSchema(20, nil, 10)
	var b Builder
	for range n {
		c := r.IntN(k)
		class, ok := s.Class([]byte(names[c]))
		must.Require(t, ok, "%v", names[c])
		e := event.Example{Weight: 1, Label: class}
		for d := range 6 {
			x := r.NormFloat64()
			if d%k == c {
				x += 2
			}
			eventtest.Put(&e, uint32(10*d), x)
		}
		must.Do(t, b.Add(&e))
	}
	return b.Data(s).SortClasses()
}

// trainError returns the fraction of examples that the model classifies wrongly.
func trainError(d *Data, m *model.Linear) float64 {
	wrong := 0
	for i := range d.Rows() {
		e := event.Example{Features: d.Vec(i, event.Vec{})}
		if model.Predict(m.Score(&e, make([]float64, m.Outputs))) != d.Label(i) {
			wrong++
		}
	}
	return float64(wrong) / float64(d.Rows())
}

// TestErrorOfWeights compares the weighted error of a model, with one thread and with several, with a plain sum.
func TestErrorOfWeights(t *testing.T) {
	d := classData(t, 700, 3, "a", "b", "c")
	c := DefaultConfig()
	c.Noise, c.Cost = "none", 1e-3
	m, r := must.Get(Train(context.Background(), d, c))(t).Model, rand.New(rand.NewPCG(3, 1))
	d.weights = make([]float64, d.Rows())
	wrong, all := 0.0, 0.0
	for i := range d.weights {
		d.weights[i] = math.Floor(5 * r.Float64())
		e := event.Example{Features: d.Vec(i, event.Vec{})}
		if model.Predict(m.Score(&e, make([]float64, m.Outputs))) != d.Label(i) {
			d.weights[i] *= 3
			wrong += d.weights[i]
		}
		all += d.weights[i]
	}
	for _, threads := range []int{1, 3} {
		got := d.ErrorOf(m, threads)
		must.True(t, wrong != 0 && math.Abs(got-wrong/all) <= 1e-12, "%d threads: error %v, want %v of %v", threads, got, wrong, all)
	}
}

func TestTrainOneAgainstTheRest(t *testing.T) {
	d := classData(t, 300, 3, "10", "9", "-2.5")
	got := fmt.Sprint(d.Schema.Classes)
	must.Require(t, got == "[-2.5 9 10]", "classes %s", got)
	c := DefaultConfig()
	c.Noise, c.Loss = "dropout:0.3", "hinge"
	f := must.Get(Train(context.Background(), d, c))(t)
	sum, gap := 0.0, 0.0
	for k := range 3 {
		y := make([]float64, d.Rows())
		for i := range y {
			y[i] = -1
			if d.Label(i) == k {
				y[i] = 1
			}
		}
		r := solve(t, newExpected(t, d, y, loss.HingeGaussian{Ell: 1}, loss.Dropout{Q: 0.3}, 2, FreeIntercept), Options{Tol: 1e-6})
		sum += r.Objective
		gap += r.Gap
	}
	must.True(t, f.Objective == sum && f.Gap == gap && f.Converged && f.Model.Outputs == 3, "objective %v gap %v, the three problems sum to %v and %v", f.Objective, f.Gap, sum, gap)
	e := trainError(d, f.Model)
	must.True(t, e <= 0.1, "training error %v", e)
	c.Threads = 4
	again := must.Get(Train(context.Background(), d, c))(t)
	must.True(t, again.Objective == f.Objective && again.Gap == f.Gap, "four threads: objective %v, one: %v", again.Objective, f.Objective)
}

func TestTrainOneAgainstOne(t *testing.T) {
	d := classData(t, 400, 4, "a", "b", "c", "d")
	c := DefaultConfig()
	c.Multiclass = "ovo"
	f := must.Get(Train(context.Background(), d, c))(t)
	must.Require(t, f.Model.Outputs == 6, "%d outputs for four classes", f.Model.Outputs)
	// Output 4 separates class 3 from class 1.
	var rows []int
	for i := range d.Rows() {
		if l := d.Label(i); l == 1 || l == 3 {
			rows = append(rows, i)
		}
	}
	pair := d.Subset(rows)
	y := must.List(len(rows), func(i int) float64 { return float64(pair.Label(i) - 2) })
	r := solve(t, newExpected(t, pair, y, loss.LogisticGaussian{}, loss.NoNoise{}, 1, FreeIntercept), Options{Tol: 1e-6})
	must.True(t, math.Abs(r.Objective-f.Problems[4].Objective) <= 1e-5*r.Objective, "classes 3 and 1 on their own: objective %v, among all %v", r.Objective, f.Problems[4].Objective)
	each := must.Get(f.Model.EachBlock())(t)
	blocks := slices.Collect(each)
	m := must.Get(model.ReadLinear(blocks))(t)
	e := trainError(d, m)
	must.True(t, e <= 0.15, "training error %v", e)
	got := f.TrainError(d)
	must.True(t, math.Abs(got-e) <= 1e-12, "TrainError %v, the model's %v", got, e)
}

func TestTrainRefuses(t *testing.T) {
	two := classData(t, 40, 2, "-1", "1")
	one := classData(t, 10, 1, "1")
	words := classData(t, 10, 2, "no", "yes")
	for _, c := range []struct {
		name   string
		d      *Data
		change func(*Config)
		want   string
	}{
		{"one class", one, func(*Config) {}, "at least two classes are needed"},
		{"no label", two.Unlabel(), func(*Config) {}, "no labeled example"},
		{"noise", two, func(c *Config) { c.Noise = "dropout:1" }, "must lie in [0, 1)"},
		{"poisson noise", two, func(c *Config) { c.Noise = "poisson" }, "negative feature"},
		{"loss", two, func(c *Config) { c.Loss = "hing" }, "want one of"},
		{"cost", two, func(c *Config) { c.Cost = 0 }, "positive"},
		{"intercept", two, func(c *Config) { c.Intercept = "yes" }, "want free"},
		{"solver", two, func(c *Config) { c.Solver = "sgd" }, "want newton"},
		{"numbers", words, func(c *Config) { c.Loss = "linear" }, "numbers for labels"},
		{"no classes", numbered(t, two, "linear"), func(c *Config) { c.Loss = "logistic" }, "classes for labels"},
		{"counts", numbered(t, two, "poisson"), func(c *Config) { c.Loss = "poisson" }, "not negative"},
		{"two bounds", two, func(c *Config) { c.Loss, c.Bound = "hinge:chen", "gaussian" }, "give only one bound"},
		{"two margins", two, func(c *Config) { c.Loss, c.Ell = "hinge:chen:2", 3 }, "ell = \"2:3\""},
		{"margin", two, func(c *Config) { c.Ell = 2 }, "has none"},
		{"bound of an exact one", two, func(c *Config) { c.Loss, c.Bound = "quadratic", "chen" }, "no bound chen"},
	} {
		cfg := DefaultConfig()
		c.change(&cfg)
		_, err := Train(context.Background(), c.d, cfg)
		must.True(t, err != nil && strings.Contains(err.Error(), c.want), "%s: error %v, want one with %q", c.name, err, c.want)
	}
}

// TestTrainNamesOfLosses checks that a loss may be given as one string or as several settings.
func TestTrainNamesOfLosses(t *testing.T) {
	d := classData(t, 60, 2, "3", "5")
	for _, c := range []struct {
		whole string
		apart func(*Config)
	}{
		{"hinge:chen:3", func(c *Config) { c.Loss, c.Bound, c.Ell = "hinge", "chen", 3 }},
		{"hinge:gaussian:2", func(c *Config) { c.Loss, c.Ell = "hinge", 2 }},
		{"poisson:gaussian", func(c *Config) { c.Loss = "poisson" }},
		{"linear", func(c *Config) { c.Loss = "squared" }},
		{"quantile:0.9", func(c *Config) { c.Loss = "quantile:0.9" }},
	} {
		whole, apart := DefaultConfig(), DefaultConfig()
		whole.Loss = c.whole
		c.apart(&apart)
		d := numbered(t, d, c.whole)
		a := must.Get(Train(context.Background(), d, whole))(t)
		b := must.Get(Train(context.Background(), d, apart))(t)
		must.True(t, a.Model.Loss == c.whole && a.Objective == b.Objective, "%s: %s with objective %v, want %v", c.whole, a.Model.Loss, a.Objective, b.Objective)
	}
}

// TestTrainNeverGivesNaN checks that training on data at the limits of floating point returns an error or a finite
// result.
func TestTrainNeverGivesNaN(t *testing.T) {
	longtest.NotRaced(t)
	for _, scale := range []float64{1e-30, 1, 1e8, 1e30, 1e150} {
		for _, constant := range []bool{false, true} {
			var b Builder
			r := rand.New(rand.NewPCG(1, 1))
			for i := range 40 {
				x := scale
				if !constant {
					x *= r.NormFloat64() + float64(i%2)
				}
				e := event.Example{Weight: 1, Label: i % 2, Features: event.Vec{Index: []uint32{0, 1, 2}, Value: []float64{x, x, 1}}}
				must.Do(t, b.Add(&e))
			}
			classes := b.Data(event.NewSchema(4, []string{"-1", "1"}, 2))
			for _, loss := range []string{"hinge", "logistic", "quadratic", "linear"} {
				d := numbered(t, classes, loss)
				for _, noise := range []string{"none", "dropout:0.5", "gaussian:1"} {
					for _, solver := range []Solver{"", IRLS, LBFGS} {
						for _, l2 := range []float64{-1, 0} {
							c := DefaultConfig()
							c.Loss, c.Noise, c.Solver, c.L2, c.MaxIterations = loss, noise, solver, l2, 200
							f, err := Train(context.Background(), d, c)
							if err == nil {
								must.Finite(t, f.Problems[0].W, "scale", scale, loss, noise, solver, "l2", l2)
								must.True(t, !math.IsNaN(f.Objective) && !math.IsNaN(f.Gap), "scale %g %s %s %s l2=%v: objective %v gap %v", scale, loss, noise, solver, l2, f.Objective, f.Gap)
							}
						}
					}
				}
			}
		}
	}
}

func ExampleTrain() {
	// There are ten events. One word determines the class, and another word always occurs with it.
	schema := event.NewSchema(4, []string{"ham", "spam"}, 2)
	var b Builder
	for i := range 10 {
		e := event.Example{Label: i % 2, Weight: 1}
		if i%2 == 1 {
			e.Features = event.Vec{Index: []uint32{1, 2}, Value: []float64{1, 1}}
		}
		if err := b.Add(&e); err != nil {
			fmt.Println(err)
		}
	}
	c := DefaultConfig()
	c.Noise = "dropout:0.5"
	fit, err := Train(context.Background(), b.Data(schema), c)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("weights %.2f %.2f, certified to %v\n", fit.Model.Weight(1, 0), fit.Model.Weight(2, 0), fit.Gap < 1e-5)
	// Output: weights 0.60 0.60, certified to true
}

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
	must.Require(t, err == nil, "%s: %v", c.Loss, err)
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
							off := math.Abs(got[i]/a-b-want[i]) / max(1, math.Abs(want[i]))
							must.Require(t, off < 2e-4, "event %d: %v, want %v (%v off)", i, got[i]/a-b, want[i], off)
						}
						// J and the gap scale with |w|^2.
						factor := must.Either(counts, 1, a*a)
						must.True(t, math.Abs(other.Objective/factor/fit.Objective-1) < 1e-4, "objective %v, want %v times %v", other.Objective, factor, fit.Objective)
						must.True(t, other.Gap <= c.Tol*other.Objective*1.01, "gap %v of %v", other.Gap, other.Objective)
						must.True(t, other.Converged && fit.Converged, "converged %v, %v", fit.Converged, other.Converged)
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
		must.True(t, u.scale != 1 && (u.center != 0) != count, "%v: %+v", l, u)
		r := Result{[]float64{1, -2, 3}, Solution{Objective: 2, Gap: 1}}
		w := slices.Clone(r.W)
		u.back(&r, 2)
		got := u.weightsIn(r.W, 2)
		must.True(t, math.Abs(got[0]-w[0])+math.Abs(got[1]-w[1])+math.Abs(got[2]-w[2]) <= 1e-12, "%v: %v came back as %v", l, w, got)
		must.True(t, r.Gap*2 == r.Objective, "%v: gap %v of objective %v", l, r.Gap, r.Objective)
		for _, intercept := range []Intercept{NoIntercept, PenalizedIntercept} {
			u := newTargetUnit(y, one, l, intercept)
			must.True(t, u.center == 0 && (u.scale != 1) != count, "%v, intercept %v: %+v", l, intercept, u)
		}
	}
	u := newTargetUnit([]float64{4, 4, 4}, one, loss.Linear{}, FreeIntercept)
	must.True(t, u.scale == 1 && u.center == 4, "equal targets: %+v", u)
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
			must.True(t, math.Abs(fit.Objective/want-1) < 1e-7, "%s, l2 %v: objective %v, want %v", name, l2, fit.Objective, want)
		}
	}
}

// TestMain fails the tests if a goroutine outlives a call.
func TestMain(m *testing.M) {
	longtest.CollectRarely()
	goleak.VerifyTestMain(m)
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
		must.True(t, off <= 0.05, "%s: predictions move by %.3f", name, off)
	}
}

// TestPercent checks that a fraction is formatted in percent with two significant digits and at most four decimals.
func TestPercent(t *testing.T) {
	for fraction, want := range map[float64]string{2.2355: "224", 0.5: "50", -0.0523: "5.2", 0.0049: "0.49", 0.000123: "0.012", 0.0000123: "0.0012", 1e-9: "0.0000", 0: "0.0000"} {
		got := percent(fraction)
		must.True(t, got == want, "%v is %s %%, want %s", fraction, got, want)
	}
}

// TestDigits checks that a measure is formatted with the given number of digits, without an exponent if that is
// readable.
func TestDigits(t *testing.T) {
	for _, c := range []struct {
		x    float64
		n    int
		want string
	}{{180.4, 2, "180"}, {7554.4, 4, "7554"}, {75544, 4, "75540"}, {-0.00012345, 4, "-0.0001234"}, {0, 2, "0"}, {0.4849, 4, "0.4849"},
		{1.5e20, 2, "1.5e+20"}, {3e-9, 2, "3e-09"}, {math.Inf(1), 4, "+Inf"}} {
		must.Equal(t, digits(c.x, c.n), c.want, c.x, "with", c.n, "digits")
	}
}

// TestValidationAlarm checks that a report has an alarm if the live weights are far from the exact weights. There must
// be no alarm if the live weights are better on the newest events.
func TestValidationAlarm(t *testing.T) {
	x := func(x float64) *float64 { return &x }
	for name, c := range map[string]struct {
		gap, gapError float64
		live, exact   *float64
		better, want  string
	}{
		"near":                    {0.99, 0, x(0.5), x(0.45), "exact", ""},
		"a gap of 248 %":          {2.48, 0, x(0.5), x(0.45), "exact", "the current weights are far from the exact solution on the same events: their objective is 248 % above the exact one"},
		"a gap by chance":         {1.2, 0.3, nil, nil, "neither", ""},
		"a log-loss of 1.56":      {0.2, 0, x(1.56), x(0.48), "neither", "the current weights are far from the exact solution on the same events: their log-loss is 1.56, that of the exact solution 0.48"},
		"small losses":            {0.2, 0, x(0.02), x(0.01), "exact", ""},
		"losses in proportion":    {0.2, 0, x(1.4), x(1), "exact", ""},
		"the stream has moved on": {2.48, 0, x(1.56), x(0.48), "live", ""},
		"numbers":                 {3, 0, nil, nil, "exact", "the current weights are far from the exact solution on the same events: their objective is 300 % above the exact one"},
	} {
		v := Validation{RelativeGap: &c.gap, GapError: c.gapError, Live: ModelMeasures{LogLoss: c.live}, Exact: ModelMeasures{LogLoss: c.exact}, Newest: &Newest{Better: c.better}}
		must.Equal(t, v.alarm(), c.want, name)
	}
	must.True(t, (&Validation{}).alarm() == "", "a report of nothing is an alarm")
}
