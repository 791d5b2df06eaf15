package refresh

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"blankout"
	"blankout/internal/coder"
	"blankout/loss"
	"blankout/model"
	"blankout/online/rows"
)

// A refresh finds the least of the loss over its window and the penalty 1/2 (w-c)' D (w-c): it is more
// at every weight beside. What is published of the average stays, and D grows by what leaves.
func TestRefresh(t *testing.T) {
	for _, reach := range []int{40, 80} {
		r := rand.New(rand.NewPCG(1, 2))
		layout := rows.Layout{Outputs: 1, N: 1, Refresh: 3}
		l, noise := loss.Loss(loss.LogisticGaussian{}), loss.Dropout{Q: 0.3}
		_, _, c2 := noise.Coefficients()
		x := Refresh{Settings: Settings{Size: 40, Reach: reach, Loss: l, Ridge: 0.5, Intercept: true, Penalised: true, Marginalised: true}, Layout: layout}
		width := rows.FirstPart + 3 + x.Parts()
		table, bias := model.NewTable(width), make([]float64, width)
		s := &blankout.Schema{NumericIndices: true}
		w := Weights{Table: table, Bias: bias, Active: 1, Growth: 2, Levels: []Level{{noise, 4}},
			Model: &model.Linear{Head: model.Head{Schema: s, Scaler: model.Scaler{Mode: model.StandardiseNone}, Layout: model.Layout{Width: width}}, Rows: table}}
		var window []blankout.Example
		for n := range 200 {
			e := blankout.Example{Weight: 1 + r.Float64(), Label: r.IntN(2)}
			for c := range uint32(4) {
				e.Features.Index, e.Features.Value = append(e.Features.Index, c), append(e.Features.Value, float64(2*e.Label-1)*0.3+r.NormFloat64())
				table.Touch(c)
			}
			if window = append(window, e); !x.Add(&e, e.Weight) {
				continue
			}
			all := [][]float64{table.Row(0), table.Row(1), table.Row(2), table.Row(3), bias}
			var centre, metric, average, d []float64
			for _, row := range all {
				centre = append(centre, x.CentreOf(row)[0])
				metric = append(metric, x.Curvature(row)[0]/w.Growth+x.Ridge)
				average = append(average, x.Weights(row)[0]+x.Lags(row)[0]/4)
				d = append(d, x.Curvature(row)[0])
			}
			x.Solve(w)
			objective := func() (sum float64) {
				for i, row := range all {
					off := x.Weights(row)[0] - centre[i]
					sum += metric[i] * off * off / 2
				}
				for _, e := range window {
					f, v := x.Weights(bias)[0], 0.0
					for i, value := range e.Features.Value {
						part := x.Weights(all[i])[0] * value
						f, v = f+part, v+c2*part*part
					}
					value, _, _ := l.At(rows.Y(e.Label, 0, 1), f, v)
					sum += e.Weight * value
				}
				return sum
			}
			least := objective()
			for i, row := range all {
				for _, by := range []float64{-0.01, 0.01} {
					x.Weights(row)[0] += by
					if now := objective(); !(now > least) {
						t.Fatalf("reach %d, event %d: weight %d moved by %v gives %v, and the solution %v", reach, n+1, i, by, now, least)
					}
					x.Weights(row)[0] -= by
				}
				if got := x.Weights(row)[0] + x.Lags(row)[0]/4; math.Abs(got-average[i]) > 1e-12 {
					t.Fatalf("the average %v has become %v", average[i], got)
				}
				if leave := len(window) == reach; leave != (x.Curvature(row)[0] > d[i]) {
					t.Fatalf("reach %d, event %d: D %v has become %v", reach, n+1, d[i], x.Curvature(row)[0])
				}
			}
			if len(window) == reach {
				window = window[40:]
			}
		}
		if x.Failures > 0 {
			t.Errorf("%d failures", x.Failures)
		}
		x.Add(&blankout.Example{Features: blankout.Vec{Index: []uint32{1}, Value: []float64{2}}}, 1)
		var a, b coder.Coder
		x.State(&a)
		again := Refresh{}
		c := coder.Read(a.Out)
		again.State(c)
		if again.State(&b); !c.Done() || !again.Consistent() || !bytes.Equal(a.Out, b.Out) {
			t.Error("the state does not come back")
		}
	}
}
