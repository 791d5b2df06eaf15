package online

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online/regression"
)

// TestObjective checks the objective of a model with only an intercept: the sum of the losses of the labels, weighted
// by event and class. Invalid events and columns without a row must not change it. With a spline, a number and its
// basis column must be missing together.
func TestObjective(t *testing.T) {
	for _, hat := range []float64{0, 0.3} {
		r := rand.New(rand.NewPCG(1, 2))
		m := evaluation{
			Linear: &model.Linear{Head: model.Head{Schema: &event.Schema{NumericIndices: true}, Outputs: 1, Intercept: []float64{0.4}, Layout: model.Layout{Width: model.ScalerWidth + 1, Weight: model.ScalerWidth}, Scaler: model.Scaler{Mode: model.StandardizeNone}},
				Rows: model.NewTable(model.ScalerWidth + 1)},
			noise: loss.Dropout{Q: 0.2}, loss: loss.LogisticGaussian{}, c: 3, penalized: true, classes: []float64{1, 5}, active: 1, chunk: 200,
		}
		row := m.Rows.Touch(2)
		row[model.StatInverse], row[model.ScalerWidth] = 1, 0.7
		if hat != 0 {
			m.Scaler.Splines = &model.Splines{Columns: []uint32{2}, Knots: [][]float64{model.Present()}}
			row := m.Rows.Touch(model.FirstBasisColumn)
			row[model.StatInverse], row[model.ScalerWidth] = 1, hat
		}
		_, _, c2 := m.noise.Coefficients()
		var events []event.Batch
		want, wrong, weight := 0.4*0.4+0.7*0.7+hat*hat, 0.0, 0.0
		kappa := loss.Cost(m.loss, m.c)
		for i := range 30 {
			b := event.Batch{}
			for range 20 {
				x := r.NormFloat64()
				e := event.Example{Label: r.IntN(2), Weight: r.Float64(), Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{9, x}}}
				if b.Examples = append(b.Examples, e); i == 7 {
					b.Examples[len(b.Examples)-1].Refused = &event.Refusal{}
					continue
				}
				of := 0.7*x + hat
				f, y := 0.4+of, float64(2*e.Label-1)
				value, _, _ := m.loss.At(y, f, c2*of*of)
				want += kappa * e.Weight * m.classes[e.Label] * value
				if weight += e.Weight; (f > 0) != (e.Label == 1) {
					wrong += e.Weight
				}
			}
			events = append(events, b)
		}
		one := math.NaN()
		for _, threads := range []int{1, 3} {
			got, fraction, _, err := m.objective(t.Context(), eventtest.Source(events...), threads)
			must.True(t, err == nil && math.Abs(got-want) <= 1e-9*want && math.Abs(fraction-wrong/weight) <= 1e-12,
				"hat %v, %d threads: objective %v, wrong %v, %v; want %v, %v", hat, threads, got, fraction, err, want, wrong/weight)
			must.True(t, threads <= 1 || got == one, "%v on one thread, %v on %d", one, got, threads)
			one = got
		}
	}
}

// TestObjectiveOfNoises checks the objectives of several classes and of a regression under constant noise, noise of
// groups, silent noise and no noise, with and without a ridge. Constant noise must also act on a column that no event
// has. Features that fail silently have dead values, one of them in a spline column that no number has.
func TestObjectiveOfNoises(t *testing.T) {
	for _, noise := range []loss.Noise{loss.NoNoise{}, loss.Gaussian{SD: 0.4}, loss.GroupDropout{Q: 0.2, Groups: 0.3}, loss.Silent{D: 0.6}, loss.Silent{D: 0.6, Groups: true}} {
		for _, outputs := range []int{1, 3} { // 1 is a regression
			for _, c := range []float64{3, math.Inf(1)} {
				s := event.NewSchema(20, []string{"a", "b", "c"}, 3)
				fields := []uint16{s.AddField(event.Field{Name: "x", Kind: event.Numeric, Group: "g"}), s.AddField(event.Field{Name: "y", Kind: event.Numeric}), s.AddField(event.Field{Name: "z", Kind: event.Numeric, Group: "g"})}
				m := evaluation{
					Linear: &model.Linear{Head: model.Head{Schema: s, Loss: "logistic", Outputs: outputs, Intercept: []float64{0.4, -0.2, 0.1}[:outputs],
						Layout: model.Layout{Width: model.ScalerWidth + outputs, Weight: model.ScalerWidth}, Scaler: model.Scaler{Mode: model.StandardizeNone}},
						Rows: model.NewTable(model.ScalerWidth + outputs)},
					noise: noise, loss: loss.LogisticGaussian{}, c: c, penalized: true, classes: []float64{1, 5, 0}, active: outputs, chunk: 100,
				}
				dead, columns := []float64{0, 0, 0}, []uint32{1, 2, 3, 4}
				if loss.IsSilent(noise) {
					dead = []float64{30, 0, -2}
					m.Scaler.Splines = &model.Splines{Columns: []uint32{1}, Knots: [][]float64{{-1, 0.5, 10, 30}}}
					for i := range 4 {
						columns = append(columns, m.Scaler.Splines.BasisColumn(0, i))
					}
					m.dead = func(column uint32) float64 {
						return map[uint32]float64{1: dead[0], 3: dead[2], columns[7]: 1}[column]
					}
				}
				center, scale := 0.0, 1.0
				if outputs == 1 {
					unit := regression.NewUnit(loss.Real, 0)
					center, scale = 7, 2.5
					unit.Center, unit.Scale = center, scale
					m.unit, m.loss, m.Loss, m.Layout.Scale = &unit, loss.Huber{D: 1}, "huber:2.5", scale
				}
				r := rand.New(rand.NewPCG(1, 2))
				squares, ridge := make([]float64, outputs), 0.0
				for _, column := range columns {
					for k := range outputs {
						w := r.NormFloat64()
						m.Rows.Touch(column)[model.ScalerWidth+k] = w
						squares[k] += w * w
					}
				}
				for k, b := range m.Intercept {
					ridge += squares[k] + (b-center)/scale*(b-center)/scale
				}
				kappa, exact := must.Either(math.IsInf(c, 1), 1, loss.Cost(m.loss, c)), m.loss
				if clean := m.loss.Facts().Clean; clean != nil && noise == loss.Noise(loss.NoNoise{}) {
					exact = clean
				}
				want, wrong, sum := must.Either(math.IsInf(c, 1), 0, ridge), 0.0, 0.0
				var b event.Batch
				for range 200 {
					e := event.Example{Label: must.Either(outputs == 1, 0, r.IntN(3)), Weight: r.Float64()}
					for j := range uint32(3) {
						eventtest.Put(&e, j+1, r.NormFloat64(), fields[j])
					}
					if outputs == 1 {
						e.Target = center + scale*r.NormFloat64()
					}
					b.Examples = append(b.Examples, e)
					best, at := math.Inf(-1), 0
					for k := range outputs {
						weight := func(column uint32) float64 { return m.Rows.Row(column)[model.ScalerWidth+k] }
						below, own, parts := (m.Intercept[k]-center)/scale, 0.0, [2]float64{} // of the groups g and y
						for j, x := range e.Features.Value {
							w := weight(uint32(j + 1))
							part := (x - dead[j]) * w
							if below += dead[j] * w; j == 0 && m.Scaler.Splines != nil {
								knot, first, next := m.Scaler.Splines.BasisValues(0, x)
								part += first*weight(columns[4+knot]) + next*weight(columns[5+knot]) - weight(columns[7])
								below += weight(columns[7])
							}
							own += part * part
							parts[j%2] += part
						}
						f, v := below+parts[0]+parts[1], 0.0
						joint := parts[0]*parts[0] + parts[1]*parts[1]
						switch n := noise.(type) {
						case loss.Gaussian:
							v = n.SD * n.SD * squares[k]
						case loss.GroupDropout:
							own, of := n.Q/(1-n.Q)*own, n.Groups/(1-n.Groups)
							v = of*joint + (1+of)*own
						}
						y := must.Either(e.Label == k, 1.0, -1)
						if outputs == 1 {
							y = (e.Target - center) / scale
							wrong += e.Weight * math.Abs(y-f) * scale
						}
						value, _, _ := exact.At(y, f, v)
						if n, ok := noise.(loss.Silent); ok {
							v, value = must.Either(n.Groups, joint, own), 0
							for _, q := range n.Rates() {
								at, _, _ := m.loss.At(y, (1-q)*f+q*below, q*(1-q)*v)
								value += at / float64(len(n.Rates()))
							}
						}
						want += kappa * e.Weight * m.classes[e.Label] * value
						if f > best {
							best, at = f, k
						}
					}
					if sum += e.Weight; outputs > 1 && at != e.Label {
						wrong += e.Weight
					}
				}
				for _, threads := range []int{1, 3} {
					got, fraction, numbers, err := m.objective(t.Context(), eventtest.Source(event.Batch{Examples: b.Examples[:60]}, event.Batch{Examples: b.Examples[60:]}), threads)
					if outputs == 1 {
						fraction = *numbers.MAE
					}
					must.True(t, err == nil && math.Abs(got-want) <= 1e-9*want && math.Abs(fraction-wrong/sum) <= 1e-12,
						"%v, c %v, %d outputs, %d threads: objective %v, wrong %v, %v; want %v, %v", noise, c, outputs, threads, got, fraction, err, want, wrong/sum)
				}
			}
		}
	}
}
