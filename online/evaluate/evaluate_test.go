package evaluate_test

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/evaluate"
)

type source struct{ batches []event.Batch }

func (s *source) Next(_ context.Context, b *event.Batch) error {
	if len(s.batches) == 0 {
		return io.EOF
	}
	*b, s.batches = s.batches[0], s.batches[1:]
	return nil
}

// TestObjective checks the objective of a model with only an intercept: the sum of the losses of the labels, weighted
// by event and class. Invalid events and columns without a row must not change it. With a spline, a number and its
// basis column must be missing together.
func TestObjective(t *testing.T) {
	for _, hat := range []float64{0, 0.3} {
		testObjective(t, hat)
	}
}

func testObjective(t *testing.T, hat float64) {
	r := rand.New(rand.NewPCG(1, 2))
	m := evaluate.Model{
		Linear: &model.Linear{Head: model.Head{Schema: &event.Schema{NumericIndices: true}, Outputs: 1, Intercept: []float64{0.4}, Layout: model.Layout{Width: model.ScalerWidth + 1, Weight: model.ScalerWidth}, Scaler: model.Scaler{Mode: model.StandardizeNone}},
			Rows: model.NewTable(model.ScalerWidth + 1)},
		Noise: loss.Dropout{Q: 0.2}, Loss: loss.LogisticGaussian{}, C: 3, Penalized: true, Classes: []float64{1, 5}, Active: 1,
		Decision: model.Decision{},
	}
	row := m.Rows.Touch(2)
	row[model.StatInverse], row[model.ScalerWidth] = 1, 0.7
	if hat != 0 {
		m.Bound, m.Scaler.Splines = true, &model.Splines{Columns: []uint32{2}, Knots: [][]float64{model.Present()}}
		row := m.Rows.Touch(model.FirstBasisColumn)
		row[model.StatInverse], row[model.ScalerWidth] = 1, hat
	}
	_, _, c2 := m.Noise.Coefficients()
	var events []event.Batch
	want, wrong, weight := 0.4*0.4+0.7*0.7+hat*hat, 0.0, 0.0
	kappa := loss.Cost(m.Loss, m.C)
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
			value, _, _ := m.Loss.At(y, f, c2*of*of)
			want += kappa * e.Weight * m.Classes[e.Label] * value
			if weight += e.Weight; (f > 0) != (e.Label == 1) {
				wrong += e.Weight
			}
		}
		events = append(events, b)
	}
	one := math.NaN()
	for _, threads := range []int{1, 3} {
		got, fraction, _, err := evaluate.Objective(t.Context(), m, &source{events}, threads)
		if err != nil || math.Abs(got-want) > 1e-9*want || math.Abs(fraction-wrong/weight) > 1e-12 {
			t.Errorf("hat %v, %d threads: objective %v, wrong %v, %v; want %v, %v", hat, threads, got, fraction, err, want, wrong/weight)
		}
		if threads > 1 && got != one {
			t.Errorf("%v on one thread, %v on %d", one, got, threads)
		}
		one = got
	}
}
