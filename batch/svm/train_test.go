package svm

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"blankout/batch"
	"blankout/batch/internal/problems"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/kernel"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestTrainIsThatOfBatchForTheLinearKernel checks that the machine with the linear kernel and without dropout equals
// the linear model of batch.Train. The cases vary intercept, margin, importance weights and penalty.
func TestTrainIsThatOfBatchForTheLinearKernel(t *testing.T) {
	ctx := context.Background()
	x, y := problems.Gaussian(71, 120, 6, true)
	weights := make([]float64, len(x))
	r := rand.New(rand.NewPCG(1, 1))
	for i := range weights {
		weights[i] = float64(r.IntN(3))
	}
	d := denseData(t, x, y, weights)
	for _, intercept := range []batch.Intercept{batch.FreeIntercept, batch.PenalizedIntercept, batch.NoIntercept} {
		for _, set := range []func(c *batch.Config){
			func(c *batch.Config) {},
			func(c *batch.Config) { c.Cost, c.Ell = 0.2, 0.5 },
			func(c *batch.Config) { c.L2 = 0.7 },
		} {
			c := batch.DefaultConfig()
			c.Loss, c.Intercept = "hinge", intercept
			set(&c)
			linear := must.Get(batch.Train(ctx, d, c))(t)
			c.Solver = batch.SMO
			smo := must.Get(batch.Train(ctx, d, c))(t)
			var kernel [3]*Fit
			for i, memory := range []int{1 << 30, 30_000, 0} { // memory for all of K, for some rows of K, and for two rows
				k := Config{Kernel: "linear", Memory: memory}
				kernel[i] = must.Get(Train(ctx, d, c, k))(t)
			}
			what := fmt.Sprintf("%s c=%v l2=%v ell=%v", intercept, c.Cost, c.L2, c.Ell)
			must.True(t, smo.Converged && math.Abs(smo.Objective-linear.Objective) <= 2e-6*linear.Objective && smo.Gap <= 1e-6*smo.Objective,
				"%s: SMO %v (gap %v), interior point %v", what, smo.Objective, smo.Gap, linear.Objective)
			for _, f := range kernel {
				must.True(t, f.Converged && math.Abs(f.Objective-linear.Objective) <= 2e-6*linear.Objective && f.Gap <= 1e-6*f.Objective,
					"%s: kernel %v (gap %v), linear %v", what, f.Objective, f.Gap, linear.Objective)
				must.True(t, f.Objective == kernel[0].Objective, "%s: %v with less memory, %v with more", what, f.Objective, kernel[0].Objective)
			}
			e := event.Example{Features: event.Vec{Index: []uint32{0, 3}, Value: []float64{0.5, 1.5}}}
			a, b := linear.Model.Score(&e, make([]float64, 1))[0], kernel[0].Model.Score(&e, make([]float64, 1))[0]
			must.True(t, math.Abs(a-b) <= 1e-2, "%s: the kernel model scores %v, the linear one %v", what, b, a)
		}
	}
}

func TestTrainManyClasses(t *testing.T) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(2, 2))
	var b batch.Builder
	for i := range 150 { // three concentric rings, which no linear model can separate
		angle := 2 * math.Pi * r.Float64()
		radius := float64(1+i%3) + 0.1*r.NormFloat64()
		e := event.Example{Label: i % 3, Weight: 1, Features: event.Vec{Index: []uint32{4, 9}, Value: []float64{radius * math.Cos(angle), radius * math.Sin(angle)}}}
		if i%10 == 9 {
			e.Label = event.Unlabeled
		}
		must.Do(t, b.Add(&e))
	}
	d := b.Data(event.NewSchema(8, []string{"a", "b", "c"}, 3))
	for _, multiclass := range []string{"ovr", "ovo"} {
		for _, k := range []Config{
			{Kernel: "rbf:0.5", Memory: 1 << 30},
			{Kernel: "rbf:0.5", Memory: 1 << 30, Drop: DropSVM{Q: 0.1, Keep: 0.7}},
			{Kernel: "rbf:0.5", Memory: 1 << 30, Drop: DropSVM{Q: 0.1, Keep: 0.7, Epochs: 3}},
			{Kernel: "poly:4", Memory: 1 << 30, Drop: DropSVM{Q: 0.01, Keep: 0.5}, Square: true},
		} {
			c := batch.DefaultConfig()
			c.Multiclass, c.Threads = multiclass, 3
			f := must.Get(Train(ctx, d, c, k))(t)
			what := fmt.Sprintf("%s %+v", multiclass, k)
			must.True(t, f.Converged && f.Model.Outputs == 3, "%s: %+v", what, f)
			e := f.TrainError(d)
			must.True(t, e <= 0.05, "%s: error %v", what, e)
			c.Threads = 1
			again := must.Get(Train(ctx, d, c, k))(t)
			must.True(t, slices.Equal(scoresOf(again, d), scoresOf(f, d)) && again.Objective == f.Objective && again.TrainError(d) == f.TrainError(d), "%s: another answer with another number of threads", what)
		}
	}
}

func TestTrainRefuses(t *testing.T) {
	ctx := context.Background()
	x, y := problems.Gaussian(73, 40, 3, false)
	d := denseData(t, x, y, nil)
	for name, set := range map[string]func(c *batch.Config, k *Config){
		"kernel":           func(_ *batch.Config, k *Config) { k.Kernel = "rbf:x" },
		"negative chi2":    func(_ *batch.Config, k *Config) { k.Kernel = "chi2" },
		"q":                func(_ *batch.Config, k *Config) { k.Drop.Q = -2 },
		"memory":           func(_ *batch.Config, k *Config) { k.Memory = 1000 },
		"no penalty":       func(c *batch.Config, _ *Config) { c.L2 = 0 },
		"cost":             func(c *batch.Config, _ *Config) { c.Cost = math.NaN() },
		"ell":              func(c *batch.Config, _ *Config) { c.Ell = 0 },
		"square intercept": func(c *batch.Config, k *Config) { k.Square, c.Intercept = true, batch.PenalizedIntercept },
	} {
		c, k := batch.DefaultConfig(), DefaultConfig()
		set(&c, &k)
		must.Fails(t, must.Err(Train(ctx, d, c, k)), name, "passed")
	}
	one := denseData(t, x, constant(1, len(y)), nil)
	must.Fails(t, must.Err(Train(ctx, one, batch.DefaultConfig(), DefaultConfig())), "one class passed")
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	must.Fails(t, must.Err(Train(canceled, d, batch.DefaultConfig(), DefaultConfig())), "a canceled training gave a model")
}

// scoresOf returns the scores of all rows of d.
func scoresOf(f *Fit, d *batch.Data) (all []float64) {
	for i := range d.Rows() {
		all = append(all, f.Model.ScoreVec(d.Vec(i, event.Vec{}), make([]float64, max(f.Model.Outputs, len(d.Schema.Classes))))...)
	}
	return all
}

// TestNewModelLeavesOut checks that a row whose coefficients are all 0 does not become a support vector.
func TestNewModelLeavesOut(t *testing.T) {
	x, y := problems.Gaussian(61, 30, 6, true)
	d := denseData(t, x, y, nil)
	coef := must.List(len(x), func(i int) float64 { return float64(i % 3) })
	m := must.Get(NewModel(model.Head{Schema: d.Schema, Outputs: 1, Intercept: []float64{1}}, kernel.RBF{Sigma: 1.5}, d, coef))(t)
	gram := must.Get(NewGram(kernel.RBF{Sigma: 1.5}, d, 1))(t)
	must.True(t, m.Support() == 20, "%d support vectors, want 20", m.Support())
	for i := range x {
		want := 1 + batch.Dot(gram.Row(i), coef)
		got := m.ScoreVec(d.Vec(i, event.Vec{}), make([]float64, 2))[0]
		must.True(t, math.Abs(got-want) <= 1e-12, "score of row %d is %v, want %v", i, got, want)
	}
}

// denseData returns the Data of a matrix with every column present. Examples have class 1 for y > 0, else class 0. The
// argument weights are their importance weights; nil means 1.
func denseData(t testing.TB, x [][]float64, y, weights []float64) *batch.Data {
	t.Helper()
	var b batch.Builder
	for i, row := range x {
		e := event.Example{Weight: 1}
		e.Label = must.Either(y[i] > 0, 1, 0)
		if weights != nil {
			e.Weight = weights[i]
		}
		for c, v := range row {
			if v != 0 || i == 0 { // the first row has every column
				eventtest.Put(&e, uint32(c), v)
			}
		}
		must.Do(t, b.Add(&e))
	}
	return b.Data(event.NewSchema(20, []string{"-1", "1"}, 2))
}

func constant(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }

func TestSetRefuses(t *testing.T) {
	for want, set := range map[string][2]string{
		"of a kernel":  {"noise", "none"},
		"not negative": {"drop-q", "-1"},
		"not a number": {"keep", "half"},
		"positive":     {"epochs", "0"},
		"want dropsvm": {"loss", "hinge"},
	} {
		c := DefaultConfig()
		must.ErrorContains(t, c.Set(set[0], set[1]), want, "error")
	}
}

// TestMain fails the tests if a goroutine outlives a call.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
