package refresh

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online/rows"
)

// TestRescaleShiftForget checks a change of a feature's scale or center. The quadratic summary must have the same value
// for the converted weights. Forget must scale D.
func TestRescaleShiftForget(t *testing.T) {
	for _, reach := range []int{40, 80} {
		x := Refresh{Settings: Settings{Size: 40, Reach: reach}, Layout: rows.Layout{Outputs: 2, N: 2, Refresh: 3}}
		row, bias := make([]float64, rows.FirstPart+2*(3+x.Parts())), make([]float64, rows.FirstPart+2*(3+x.Parts()))
		copy(x.Weights(row), []float64{1, 2})
		copy(x.Curvature(row), []float64{3, 5})
		if x.sliding() {
			copy(x.Center(row), []float64{4, -1})
			copy(x.Center(bias), []float64{7, 8})
		}
		const ratio, shift = 2.0, 0.5
		cost := func(j int) float64 {
			off := x.Weights(row)[j] - x.CenterOf(row)[j]
			return x.Curvature(row)[j] * off * off
		}
		score := func(j int, feature float64) float64 { return x.CenterOf(bias)[j] + feature*x.CenterOf(row)[j] }
		before, alone, at := cost(1), x.Curvature(row)[0], score(1, 3)
		x.Weights(row)[1] *= ratio
		x.Rescale(row, 1, 2, ratio)
		must.True(t, x.Curvature(row)[0] == alone && x.Curvature(row)[1] == 5/(ratio*ratio) && cost(1) == before,
			"reach %d: rescaled it costs %v, before %v; D %v", reach, cost(1), before, x.Curvature(row))
		x.Shifted(bias, row, 1, 2, shift)
		if x.sliding() {
			must.True(t, score(1, 3/ratio-shift) == at && x.Center(bias)[0] == 7, "the center says %v of what it said %v of; intercepts %v", score(1, 3/ratio-shift), at, x.Center(bias))
		}
		x.Forget(row, 0.5)
		must.True(t, x.Curvature(row)[0] == alone/2, "half of D %v is %v", alone, x.Curvature(row)[0])
	}
}

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
		x := Refresh{Settings: Settings{Size: 40, Reach: reach, Loss: l, Ridge: 0.5, Intercept: true, Penalized: true, Marginalized: c.marginalized}, Layout: layout}
		width := rows.FirstPart + 3 + x.Parts()
		table, bias := model.NewTable(width), make([]float64, width)
		s := &event.Schema{NumericIndices: true}
		w := Weights{Bias: bias, Active: 1, Output: func(class int) int { return class }, InverseDecay: 2, Levels: []Level{{Noise: c.noise, Inverse: 4}}, Dead: func(column uint32) float64 { return dead[column] },
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
						_, _, dv := l.At(y, f, max(v, LeastVariance))
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
					now := objective()
					must.Require(t, now > least, "reach %d, event %d: weight %d moved by %v gives %v, and the solution %v", reach, n+1, i, by, now, least)
					x.Weights(row)[0] -= by
				}
				got := x.Weights(row)[0] + x.Lags(row)[0]/4
				must.Require(t, math.Abs(got-average[i]) <= 1e-12, "the average %v has become %v", average[i], got)
				got = x.Curvature(row)[0]
				must.Require(t, math.Abs(got-d[i]) <= 1e-9*d[i], "reach %d, event %d: D has become %v, want %v", reach, n+1, got, d[i])
			}
			if len(window) == reach {
				window = window[40:]
			}
		}
		must.True(t, x.Failures <= 0, "%d failures", x.Failures)
		comesBack(t, &x)
	}
}

func comesBack(t *testing.T, x *Refresh) {
	t.Helper()
	x.Add(&event.Example{Features: event.Vec{Index: []uint32{1}, Value: []float64{2}}}, 1)
	var a, b coder.Coder
	x.State(&a)
	again := Refresh{}
	c := coder.Read(a.Out)
	again.State(c)
	again.State(&b)
	must.True(t, c.Done() && again.Consistent() && bytes.Equal(a.Out, b.Out), "the state does not come back")
}

// TestRefreshOfOneClass checks a window in which all events with weight are of one class. The intercept must be finite,
// although it has no penalty in the objective.
func TestRefreshOfOneClass(t *testing.T) {
	x := Refresh{Settings: Settings{Size: 40, Reach: 40, Loss: loss.LogisticGaussian{}, Ridge: 0.5, Intercept: true}, Layout: rows.Layout{Outputs: 1, N: 1, Refresh: 3}}
	width := rows.FirstPart + 4
	table, bias := model.NewTable(width), make([]float64, width)
	w := Weights{Bias: bias, Active: 1, Output: func(class int) int { return class }, InverseDecay: 1, Levels: []Level{{Noise: loss.NoNoise{}, Inverse: 1}},
		Model: &model.Linear{Head: model.Head{Schema: &event.Schema{NumericIndices: true}, Scaler: model.Scaler{Mode: model.StandardizeNone}, Layout: model.Layout{Width: width}}, Rows: table}}
	for i := range 2 * 40 {
		e := event.Example{Features: event.Vec{Index: []uint32{1}, Value: []float64{1}}, Label: i % 2, Weight: float64(i % 2)}
		due := x.Add(&e, e.Weight)
		must.Require(t, due == (i == 2*40-1), "after %d events, half of them without weight, it is due: %v", i+1, due)
	}
	x.Solve(w)
	must.True(t, x.Failures <= 0 && x.Weights(bias)[0] > 1 && x.Weights(bias)[0] < 10, "%d failures, the intercept is %v", x.Failures, x.Weights(bias)[0])
}

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
			r := Refresh{Settings: Settings{Size: n, Reach: n + 1, Loss: c.of, Ridge: 0.5, Intercept: true, Penalized: true, Marginalized: c.of != loss.Loss(loss.LogisticQuadratic{})},
				Layout: rows.Layout{Outputs: 1, N: 1, Refresh: 3}}
			scaler := model.Scaler{Mode: model.StandardizeNone}
			if curved {
				splines := must.Get(model.NewSplines([]uint32{0, 2}, [][]float64{{-1, 0, 1}, {-2, 0, 0.5, 2}}))(t)
				scaler.Splines = splines
			}
			width := rows.FirstPart + 5
			table := model.NewTable(width)
			bias := make([]float64, width)
			w := Weights{Bias: bias, Active: 1, Output: func(class int) int { return class }, InverseDecay: 1, Levels: []Level{{Noise: noise, Inverse: 1}}, Dead: func(column uint32) float64 { return 0.3 * float64(column) },
				Model: &model.Linear{Head: model.Head{Schema: event.NewSchema(4, []string{"a", "b"}, 2), Scaler: scaler, Layout: model.Layout{Width: width}}, Rows: table}}
			draw := rand.New(rand.NewPCG(1, 2))
			for i := range n {
				x := []float64{draw.NormFloat64(), draw.NormFloat64(), draw.NormFloat64()}
				label := must.Either(math.Abs(x[0])+x[1] > 0.8+0.3*draw.NormFloat64(), 1, 0)
				weight := 1.0
				if i == n-1 {
					weight = 1e-12 // the event stays in the window, but has no effect
				}
				due := r.Add(&event.Example{Features: event.Vec{Index: []uint32{0, 1, 2}, Value: x}, Label: label, Weight: 1}, weight)
				must.Require(t, due == (i == n-1), "after %d events it is due: %v", i+1, due)
			}
			r.Solve(w)
			must.Require(t, r.Failures <= 0, "it found no solution")
			hats := 0
			check := func(name string, row []float64) {
				got, want := r.Center(row)[0], r.Weights(row)[0]
				must.True(t, math.Abs(got-want) <= 1e-5, "%s: the center is %v, the solution %v", name, got, want)
			}
			check("the intercept", bias)
			for slot := range table.Len() {
				column, row := table.Column(slot)
				check(fmt.Sprint("column ", column), row)
				if column >= model.FirstBasisColumn && r.Weights(row)[0] != 0 {
					hats++
				}
			}
			must.True(t, hats <= 0, "%d hats have weights", hats)
		})
	}
}

// TestHeldPenalty compares a refresh under the quadratic noising penalty with its definition: at the solution w the
// gradient of sum_n log(1 + exp(-y f)) + 1/2 A2(f(was)) v(w) + 1/2 (w - c)' D (w - c) is 0, where was are the weights
// before, and v(w) = q/(1-q) sum_j x_j^2 w_j^2. The weights, the center c and D differ from 0 before.
func TestHeldPenalty(t *testing.T) {
	const n, q, ridge = 60, 0.4, 0.5
	r := Refresh{Settings: Settings{Size: n, Reach: 2 * n, Loss: loss.LogisticQuadratic{}, Ridge: ridge},
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
	r.Solve(Weights{Bias: make([]float64, width), Active: 1, Output: func(class int) int { return class }, InverseDecay: 1,
		Levels: []Level{{Noise: loss.Dropout{Q: q}, Inverse: 1}},
		Model:  &model.Linear{Head: model.Head{Schema: event.NewSchema(4, []string{"a", "b"}, 2), Layout: model.Layout{Width: width}}, Rows: table}})
	must.Require(t, r.Failures <= 0, "it found no solution")
	w := []float64{r.Weights(table.Row(0))[0], r.Weights(table.Row(1))[0]}
	sigma := func(f float64) float64 { return 1 / (1 + math.Exp(-f)) }
	for c := range w {
		gradient := (metric[c] + ridge) * (w[c] - center[c])
		for i, x := range xs {
			p := sigma(was[0]*x[0] + was[1]*x[1])
			gradient += -ys[i]*sigma(-ys[i]*(w[0]*x[0]+w[1]*x[1]))*x[c] + p*(1-p)*q/(1-q)*x[c]*x[c]*w[c]
		}
		must.True(t, math.Abs(gradient) <= 1e-4, "column %d: weight %v, gradient %v", c, w[c], gradient)
	}
}

// TestTrial checks when refreshes take effect. An optimizer with a small step learns y = sign(x), and the label changes
// its sign after half of the events. Refreshes must be in effect while they predict the following events better, and
// the weights with refreshes must equal the optimizer's after the window has become misleading. The optimizer's own
// weights must be those without refreshes, to the bit.
func TestTrial(t *testing.T) {
	const size, half = 50, 1000
	x := Refresh{Settings: Settings{Size: size, Reach: 20 * size, Loss: loss.LogisticGaussian{}, Ridge: 0.5, Intercept: true, Penalized: true, Pairs: true}}
	width := rows.FirstPart + 2*(3+x.Parts())
	x.SetLayout(rows.Layout{Outputs: 1, N: 2, Refresh: 3})
	table, bias := model.NewTable(width), make([]float64, width)
	w := Weights{Bias: bias, Active: 1, Output: func(class int) int { return class }, InverseDecay: 1,
		Levels: []Level{{Noise: loss.NoNoise{}, Inverse: 1}, {Noise: loss.NoNoise{}, Inverse: 1}},
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
		must.Require(t, x.Weights(row)[0] == alone, "event %d: the optimizer's weight is %v, without refreshes %v", i+1, x.Weights(row)[0], alone)
		if x.Add(&event.Example{Features: event.Vec{Index: []uint32{1}, Value: []float64{value}}, Label: label, Weight: 1}, 1) {
			x.Solve(w)
		}
		if trusted := x.Weights(row)[1] != x.Weights(row)[0]; i == half-1 && !trusted {
			t.Error("refreshes are not in effect before the change")
		} else if i == half+10*size && trusted {
			t.Error("refreshes are in effect although they are misleading")
		}
	}
	must.True(t, losses[0][1] <= 0.95*losses[0][0] && losses[1][1] <= losses[1][0]+size, "losses before the change and after it, without and with refreshes: %.1f", losses)
	t.Logf("losses %.1f, %d failures", losses, x.Failures)
	must.True(t, x.Failures <= 0, "%d failures", x.Failures)
}
