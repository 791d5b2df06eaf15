package refresh_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online/refresh"
	"blankout/online/rows"
)

// TestCenterOfAllIsTheSolution checks the case that all events have left the window. The center of the quadratic
// summary must then be the solution, at which the gradient of the events, including the noise, and the gradient of the
// earlier summary cancel. Spline columns must get no weight, because the second-order expert learns their weights.
func TestCenterOfAllIsTheSolution(t *testing.T) {
	for _, c := range []struct {
		noise  loss.Noise
		of     loss.Loss
		curved bool
	}{
		{loss.NoNoise{}, loss.LogisticGaussian{}, false}, {loss.NoNoise{}, loss.LogisticGaussian{}, true},
		{loss.Dropout{Q: 0.3}, loss.LogisticGaussian{}, false}, {loss.Dropout{Q: 0.3}, loss.LogisticGaussian{}, true},
		{loss.Dropout{Q: 0.5}, loss.LogisticGaussian{}, false}, {loss.Dropout{Q: 0.5}, loss.LogisticGaussian{}, true},
		{loss.Silent{D: 0.5}, loss.LogisticGaussian{}, false}, {loss.Silent{D: 0.5}, loss.LogisticGaussian{}, true},
		{loss.Dropout{Q: 0.5}, loss.LogisticQuadratic{}, false}, {loss.Dropout{Q: 0.3}, loss.LogisticQuadratic{}, true},
	} {
		noise, curved := c.noise, c.curved
		t.Run(fmt.Sprint(c.of, "/", noise, "/", curved), func(t *testing.T) {
			const n = 120
			r := refresh.Refresh{Settings: refresh.Settings{Size: n, Reach: n + 1, Loss: c.of, Ridge: 0.5, Intercept: true, Penalized: true, Marginalized: c.of != loss.Loss(loss.LogisticQuadratic{})},
				Layout: rows.Layout{Outputs: 1, N: 1, Refresh: 3}}
			scaler := model.Scaler{Mode: model.StandardizeNone}
			if curved {
				splines := must.Get(model.NewSplines([]uint32{0, 2}, [][]float64{{-1, 0, 1}, {-2, 0, 0.5, 2}}))(t)
				scaler.Splines = splines
			}
			width := rows.FirstPart + 5
			table := model.NewTable(width)
			bias := make([]float64, width)
			w := refresh.Weights{Table: table, Bias: bias, Active: 1, Output: func(class int) int { return class }, InverseDecay: 1, Levels: []refresh.Level{{Noise: noise, Inverse: 1}}, Dead: func(column uint32) float64 { return 0.3 * float64(column) },
				Model: &model.Linear{Head: model.Head{Schema: event.NewSchema(4, []string{"a", "b"}, 2), Scaler: scaler, Layout: model.Layout{Width: width}}, Rows: table}}
			draw := rand.New(rand.NewPCG(1, 2))
			for i := range n {
				x := []float64{draw.NormFloat64(), draw.NormFloat64(), draw.NormFloat64()}
				label := 0
				if math.Abs(x[0])+x[1] > 0.8+0.3*draw.NormFloat64() {
					label = 1
				}
				weight := 1.0
				if i == n-1 {
					weight = 1e-12 // the event stays in the window, but has no effect
				}
				if due := r.Add(&event.Example{Features: event.Vec{Index: []uint32{0, 1, 2}, Value: x}, Label: label, Weight: 1}, weight); due != (i == n-1) {
					t.Fatalf("after %d events it is due: %v", i+1, due)
				}
			}
			r.Solve(w)
			if r.Failures > 0 {
				t.Fatal("it found no solution")
			}
			hats := 0
			check := func(name string, row []float64) {
				got, want := r.Center(row)[0], r.Weights(row)[0]
				if !(math.Abs(got-want) <= 1e-5) {
					t.Errorf("%s: the center is %v, the solution %v", name, got, want)
				}
			}
			check("the intercept", bias)
			for slot := range table.Len() {
				column, row := table.Column(slot)
				check(fmt.Sprint("column ", column), row)
				if column >= model.FirstBasisColumn && r.Weights(row)[0] != 0 {
					hats++
				}
			}
			if hats > 0 {
				t.Errorf("%d hats have weights", hats)
			}
		})
	}
}
