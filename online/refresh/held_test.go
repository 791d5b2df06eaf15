package refresh_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/refresh"
	"blankout/online/rows"
)

// TestHeldPenalty compares a refresh under the quadratic noising penalty with its definition: at the solution w the
// gradient of sum_n log(1 + exp(-y f)) + 1/2 A2(f(was)) v(w) + 1/2 (w - c)' D (w - c) is 0, where was are the weights
// before, and v(w) = q/(1-q) sum_j x_j^2 w_j^2. The weights, the center c and D differ from 0 before.
func TestHeldPenalty(t *testing.T) {
	const n, q, ridge = 60, 0.4, 0.5
	r := refresh.Refresh{Settings: refresh.Settings{Size: n, Reach: 2 * n, Loss: loss.LogisticQuadratic{}, Ridge: ridge},
		Layout: rows.Layout{Outputs: 1, N: 1, Refresh: 3}}
	width := rows.FirstPart + 5
	table := model.NewTable(width)
	was, center, metric := []float64{0.7, -1.1}, []float64{0.4, 0.9}, []float64{3, 8}
	for c := range was {
		row := table.Touch(uint32(c))
		r.Weights(row)[0], r.Center(row)[0], r.Curvature(row)[0] = was[c], center[c], metric[c]
	}
	draw := rand.New(rand.NewPCG(3, 4))
	var xs [][2]float64
	var ys []float64
	for range n {
		x, y := [2]float64{draw.NormFloat64(), 2 * draw.NormFloat64()}, 1.0
		if x[0]-x[1]+draw.NormFloat64() < 0 {
			y = -1
		}
		xs, ys = append(xs, x), append(ys, y)
		r.Add(&event.Example{Features: event.Vec{Index: []uint32{0, 1}, Value: x[:]}, Label: int(1+y) / 2, Weight: 1}, 1)
	}
	r.Solve(refresh.Weights{Table: table, Bias: make([]float64, width), Active: 1, Output: func(class int) int { return class }, InverseDecay: 1,
		Levels: []refresh.Level{{Noise: loss.Dropout{Q: q}, Inverse: 1}},
		Model:  &model.Linear{Head: model.Head{Schema: event.NewSchema(4, []string{"a", "b"}, 2), Layout: model.Layout{Width: width}}, Rows: table}})
	if r.Failures > 0 {
		t.Fatal("it found no solution")
	}
	w := []float64{r.Weights(table.Row(0))[0], r.Weights(table.Row(1))[0]}
	sigma := func(f float64) float64 { return 1 / (1 + math.Exp(-f)) }
	for c := range w {
		gradient := (metric[c] + ridge) * (w[c] - center[c])
		for i, x := range xs {
			p := sigma(was[0]*x[0] + was[1]*x[1])
			gradient += -ys[i]*sigma(-ys[i]*(w[0]*x[0]+w[1]*x[1]))*x[c] + p*(1-p)*q/(1-q)*x[c]*x[c]*w[c]
		}
		if math.Abs(gradient) > 1e-4 {
			t.Errorf("column %d: weight %v, gradient %v", c, w[c], gradient)
		}
	}
}
