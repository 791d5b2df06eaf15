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

// TestTrial checks when refreshes take effect. An optimizer with a small step learns y = sign(x), and the label changes
// its sign after half of the events. Refreshes must be in effect while they predict the following events better, and
// the weights with refreshes must equal the optimizer's after the window has become misleading. The optimizer's own
// weights must be those without refreshes, to the bit.
func TestTrial(t *testing.T) {
	const size, half = 50, 1000
	x := refresh.Refresh{Settings: refresh.Settings{Size: size, Reach: 20 * size, Loss: loss.LogisticGaussian{}, Ridge: 0.5, Intercept: true, Penalized: true, Pairs: true}}
	width := rows.FirstPart + 2*(3+x.Parts())
	x.SetLayout(rows.Layout{Outputs: 1, N: 2, Refresh: 3})
	table, bias := model.NewTable(width), make([]float64, width)
	w := refresh.Weights{Table: table, Bias: bias, Active: 1, Output: func(class int) int { return class }, InverseDecay: 1,
		Levels: []refresh.Level{{Noise: loss.NoNoise{}, Inverse: 1}, {Noise: loss.NoNoise{}, Inverse: 1}},
		Model:  &model.Linear{Head: model.Head{Schema: &event.Schema{NumericIndices: true}, Scaler: model.Scaler{Mode: model.StandardizeNone}, Layout: model.Layout{Width: width}}, Rows: table}}
	alone, draw := 0.0, rand.New(rand.NewPCG(1, 2))
	var losses [2][2]float64 // by half of the stream and level
	for i := range 2 * half {
		value, label := draw.NormFloat64(), 0
		if value+0.5*draw.NormFloat64() > 0 != (i >= half) {
			label = 1
		}
		row, y := table.Touch(1), rows.Y(label, 0, 1)
		scores := []float64{x.Weights(row)[0]*value + x.Weights(bias)[0], x.Weights(row)[1]*value + x.Weights(bias)[1]}
		for level, f := range scores {
			losses[i/half][level] += math.Log1p(math.Exp(-y * f))
		}
		x.Judge([][]float64{row, bias}, []float64{value, 1}, scores, []float64{y}, 1, 1)
		step := func(w float64) float64 { return w + 0.02*y*value/(1+math.Exp(y*w*value)) }
		x.Weights(row)[0] = step(x.Weights(row)[0])
		x.Weights(row)[1] = step(x.Weights(row)[1])
		alone = step(alone)
		if x.Weights(row)[0] != alone {
			t.Fatalf("event %d: the optimizer's weight is %v, without refreshes %v", i+1, x.Weights(row)[0], alone)
		}
		if x.Add(&event.Example{Features: event.Vec{Index: []uint32{1}, Value: []float64{value}}, Label: label, Weight: 1}, 1) {
			x.Solve(w)
		}
		if trusted := x.Weights(row)[1] != x.Weights(row)[0]; i == half-1 && !trusted {
			t.Error("refreshes are not in effect before the change")
		} else if i == half+10*size && trusted {
			t.Error("refreshes are in effect although they are misleading")
		}
	}
	if losses[0][1] > 0.95*losses[0][0] || losses[1][1] > losses[1][0]+size {
		t.Errorf("losses before the change and after it, without and with refreshes: %.1f", losses)
	}
	t.Logf("losses %.1f, %d failures", losses, x.Failures)
	if x.Failures > 0 {
		t.Errorf("%d failures", x.Failures)
	}
}
