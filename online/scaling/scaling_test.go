package scaling_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/scaling"
)

// TestDense checks that a column in nearly all events is dense unless its value is always 1. A column in half of the
// events must not be dense. A dense column that becomes rare must no longer be dense, and scores and state must not
// change.
func TestDense(t *testing.T) {
	s, r := scaling.New(scaling.Settings{}, model.StandardizeAuto, false), rand.New(rand.NewPCG(1, 2))
	rows, weights, intercept := map[uint32][]float64{}, map[uint32]float64{}, 0.0
	row := func(column uint32) []float64 {
		if rows[column] == nil {
			rows[column] = make([]float64, model.ScalerWidth+1)
			rows[column][model.ScalerWidth] = float64(column)
			weights[column] = 0.1 * float64(column)
		}
		return rows[column]
	}
	move := func(row []float64, ratio, shift float64) {
		column := uint32(row[model.ScalerWidth])
		intercept += weights[column] * shift
		weights[column] *= ratio
	}
	score := func() float64 { return intercept + weights[1]*s.Scaler.Apply(row(1), 5) }
	var gone []uint32
	learn := func(x event.Vec) {
		columns, raw, _ := s.Columns(x)
		for i, column := range columns {
			stats := row(column)[:model.ScalerWidth]
			_, dense := find(s.Scaler.Dense, column)
			m := s.Observe(column, stats, raw[i], s.Scaler.Deviations(stats, raw[i]), s.Treat(event.Sparse, dense, false, s.Settled()), 0)
			move(row(column), m.Ratio, m.Shift)
		}
		if before := score(); s.Count(x) {
			gone = append(gone, s.Review(nil, row, move)...)
			if after := score(); math.Abs(after-before) > 1e-9 {
				t.Fatalf("event %d: a score of %v has become %v", s.Events, before, after)
			}
		}
	}
	s.AddField(event.Sparse, model.TransformAuto)
	for i := range 1500 {
		x := event.Vec{Index: []uint32{1, 2}, Value: []float64{5 + r.NormFloat64(), 1}}
		if i%2 == 0 {
			x.Index, x.Value = append(x.Index, 3), append(x.Value, r.Float64())
		}
		learn(x)
	}
	if len(s.Scaler.Dense) != 1 || s.Scaler.Dense[0] != 1 || len(gone) > 0 {
		t.Fatalf("dense columns %v, gone %v, want 1 alone", s.Scaler.Dense, gone)
	}
	again, was := scaling.New(scaling.Settings{}, model.StandardizeAuto, false), &coder.Coder{}
	s.DenseState(was)
	c := coder.Read(was.Out)
	again.Scaler = s.Scaler
	if again.DenseState(c); !c.Done() || again.Misfit() || again.Events != s.Events {
		t.Error("the state does not come back")
	}
	for range 600 {
		learn(event.Vec{Index: []uint32{2}, Value: []float64{1}})
	}
	if len(s.Scaler.Dense) != 0 || len(gone) != 1 {
		t.Errorf("dense columns %v, gone %v, want none and 1", s.Scaler.Dense, gone)
	}
}

func find(list []uint32, x uint32) (int, bool) {
	for i, y := range list {
		if y == x {
			return i, true
		}
	}
	return 0, false
}
