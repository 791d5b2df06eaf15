package refresh_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/refresh"
	"blankout/online/rows"
)

// TestRefresh checks that a refresh minimizes the loss over its window plus the penalty 1/2 (w-c)' D (w-c): the sum
// must be larger at neighboring weights. The published average must not change, and D must increase by the curvature of
// the leaving events.
func TestRefresh(t *testing.T) {
	dead := []float64{0.8, 0, -1.5, 0.2}
	for _, c := range []struct {
		reach        int
		marginalized bool
		noise        loss.Noise
	}{{40, true, loss.Dropout{Q: 0.3}}, {80, true, loss.Dropout{Q: 0.3}}, {80, false, loss.Dropout{Q: 0.3}},
		{40, true, loss.Silent{D: 0.5}}, {80, true, loss.Silent{D: 0.7}}, {80, false, loss.Silent{D: 0.7}}, {40, true, loss.Silent{}}} {
		reach, r := c.reach, rand.New(rand.NewPCG(1, 2))
		layout := rows.Layout{Outputs: 1, N: 1, Refresh: 3}
		l := loss.Loss(loss.LogisticGaussian{})
		// An event counts at each rate of silent noise. A feature then has the value keep (x-z) + z with variance
		// spread (x-z)^2, where z is its value when missing.
		rates, spreads, reads := []float64{0}, []float64{0.3 / 0.7}, []float64{0, 0, 0, 0}
		silent, ok := c.noise.(loss.Silent)
		switch {
		case !c.marginalized || ok && silent.D == 0:
			spreads[0] = 0
		case ok:
			rates, spreads, reads = nil, nil, dead
			for _, q := range silent.Rates() {
				rates, spreads = append(rates, q), append(spreads, q*(1-q))
			}
		}
		x := refresh.Refresh{Settings: refresh.Settings{Size: 40, Reach: reach, Loss: l, Ridge: 0.5, Intercept: true, Penalized: true, Marginalized: c.marginalized}, Layout: layout}
		width := rows.FirstPart + 3 + x.Parts()
		table, bias := model.NewTable(width), make([]float64, width)
		s := &event.Schema{NumericIndices: true}
		w := refresh.Weights{Table: table, Bias: bias, Active: 1, Output: func(class int) int { return class }, InverseDecay: 2, Levels: []refresh.Level{{Noise: c.noise, Inverse: 4}}, Dead: func(column uint32) float64 { return dead[column] },
			Model: &model.Linear{Head: model.Head{Schema: s, Scaler: model.Scaler{Mode: model.StandardizeNone}, Layout: model.Layout{Width: width}}, Rows: table}}
		var window []event.Example
		for n := range 200 {
			e := event.Example{Weight: 1 + r.Float64(), Label: r.IntN(2)}
			for c := range uint32(4) {
				eventtest.Put(&e, c, float64(2*e.Label-1)*0.3+r.NormFloat64())
				table.Touch(c)
			}
			if window = append(window, e); !x.Add(&e, e.Weight) {
				continue
			}
			all := [][]float64{table.Row(0), table.Row(1), table.Row(2), table.Row(3), bias}
			var center, metric, average, d []float64
			for _, row := range all {
				center = append(center, x.CenterOf(row)[0])
				metric = append(metric, x.Curvature(row)[0]/w.InverseDecay+x.Ridge)
				average = append(average, x.Weights(row)[0]+x.Lags(row)[0]/4)
				d = append(d, x.Curvature(row)[0])
			}
			x.Solve(w)
			scored := func(e *event.Example, rate int) (y, f, v float64) {
				f = x.Weights(bias)[0]
				for i, value := range e.Features.Value {
					above, w := value-reads[i], x.Weights(all[i])[0]
					f, v = f+w*((1-rates[rate])*above+reads[i]), v+spreads[rate]*w*w*above*above
				}
				return rows.Y(e.Label, 0, 1), f, v
			}
			objective := func() (sum float64) {
				for i, row := range all {
					off := x.Weights(row)[0] - center[i]
					sum += metric[i] * off * off / 2
				}
				for _, e := range window {
					for rate := range rates {
						value, _, _ := l.At(scored(&e, rate))
						sum += e.Weight * value / float64(len(rates))
					}
				}
				return sum
			}
			if len(window) == reach {
				for _, e := range window[:40] {
					for rate := range rates {
						y, f, v := scored(&e, rate)
						_, _, dv := l.At(y, f, max(v, refresh.LeastVariance))
						h := 2 * dv * e.Weight * w.InverseDecay / float64(len(rates))
						for i, value := range e.Features.Value {
							above := value - reads[i]
							mean := (1-rates[rate])*above + reads[i]
							d[i] += h * (mean*mean + spreads[rate]*above*above)
						}
						d[4] += h
					}
				}
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
				if got := x.Curvature(row)[0]; math.Abs(got-d[i]) > 1e-9*d[i] {
					t.Fatalf("reach %d, event %d: D has become %v, want %v", reach, n+1, got, d[i])
				}
			}
			if len(window) == reach {
				window = window[40:]
			}
		}
		if x.Failures > 0 {
			t.Errorf("%d failures", x.Failures)
		}
		comesBack(t, &x)
	}
}

func comesBack(t *testing.T, x *refresh.Refresh) {
	t.Helper()
	x.Add(&event.Example{Features: event.Vec{Index: []uint32{1}, Value: []float64{2}}}, 1)
	var a, b coder.Coder
	x.State(&a)
	again := refresh.Refresh{}
	c := coder.Read(a.Out)
	again.State(c)
	if again.State(&b); !c.Done() || !again.Consistent() || !bytes.Equal(a.Out, b.Out) {
		t.Error("the state does not come back")
	}
}

// TestRefreshOfOneClass checks a window in which all events with weight are of one class. The intercept must be finite,
// although it has no penalty in the objective.
func TestRefreshOfOneClass(t *testing.T) {
	x := refresh.Refresh{Settings: refresh.Settings{Size: 40, Reach: 40, Loss: loss.LogisticGaussian{}, Ridge: 0.5, Intercept: true}, Layout: rows.Layout{Outputs: 1, N: 1, Refresh: 3}}
	width := rows.FirstPart + 4
	table, bias := model.NewTable(width), make([]float64, width)
	w := refresh.Weights{Table: table, Bias: bias, Active: 1, Output: func(class int) int { return class }, InverseDecay: 1, Levels: []refresh.Level{{Noise: loss.NoNoise{}, Inverse: 1}},
		Model: &model.Linear{Head: model.Head{Schema: &event.Schema{NumericIndices: true}, Scaler: model.Scaler{Mode: model.StandardizeNone}, Layout: model.Layout{Width: width}}, Rows: table}}
	for i := range 2 * 40 {
		e := event.Example{Features: event.Vec{Index: []uint32{1}, Value: []float64{1}}, Label: i % 2, Weight: float64(i % 2)}
		if due := x.Add(&e, e.Weight); due != (i == 2*40-1) {
			t.Fatalf("after %d events, half of them without weight, it is due: %v", i+1, due)
		}
	}
	if x.Solve(w); x.Failures > 0 || !(x.Weights(bias)[0] > 1 && x.Weights(bias)[0] < 10) {
		t.Errorf("%d failures, the intercept is %v", x.Failures, x.Weights(bias)[0])
	}
}
