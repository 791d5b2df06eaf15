package scaling_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/scaling"
)

// sparse passes events of a sparse text format to a Scaling. It returns the treatment of each numeric column, which is
// "dense" or "spread".
func sparse(t *testing.T, events int, next func(i int) event.Vec) map[uint32]string {
	s, rows := scaling.New(scaling.Settings{}, model.StandardizeAuto, false), map[uint32][]float64{}
	s.AddField(event.Sparse, model.TransformAuto)
	row := func(column uint32) []float64 {
		if rows[column] == nil {
			rows[column] = make([]float64, model.ScalerWidth)
		}
		return rows[column]
	}
	for i := range events {
		x := next(i)
		columns, raw, _ := s.Columns(x)
		for j, column := range columns {
			_, dense := find(s.Scaler.Dense, column)
			stats := row(column)
			s.Observe(column, stats, raw[j], s.Scaler.Deviations(stats, raw[j]), s.Treat(event.Sparse, dense, slices.Contains(s.SpreadColumns(), column), s.Settled()), 0)
		}
		if s.Count(x) {
			s.Review(nil, row, func([]float64, float64, float64) {})
		}
	}
	out := map[uint32]string{}
	for _, column := range s.Scaler.Dense {
		out[column] = "dense"
	}
	for _, column := range s.SpreadColumns() {
		out[column] += "spread"
		if got, want := rows[column][model.StatInverse], model.SpreadInverse(rows[column], float64(events)); math.Abs(got-want) > 0.1*want {
			t.Errorf("column %d is multiplied by %v, want %v", column, got, want)
		}
	}
	return out
}

// TestTable checks that the numeric columns of a table are found although many rows omit them. Columns that are always
// 1, hardly vary, or are rarely present must not be found. No word of a text may be found, however usual.
func TestTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	numbers := sparse(t, 3000, func(int) (x event.Vec) {
		for column, often := range []float64{1: 0.7, 2: 0.2, 3: 0.2, 4: 0.5, 5: 0.01, 6: 0.95} {
			if r.Float64() < often {
				value := []float64{1: r.NormFloat64(), 2: 100 * r.ExpFloat64() * r.ExpFloat64(), 3: 5 + r.Float64(), 4: 1, 5: r.Float64(), 6: r.NormFloat64()}[column]
				x.Index, x.Value = append(x.Index, uint32(column)), append(x.Value, value)
			}
		}
		return x
	})
	for column, want := range map[uint32]string{1: "spread", 2: "spread", 4: "", 5: "", 6: "dense"} {
		if numbers[column] != want {
			t.Errorf("column %d is %q, want %q", column, numbers[column], want)
		}
	}
	words := sparse(t, 1500, func(int) (x event.Vec) {
		for column := range uint32(2000) {
			if p := 5 / float64(column+10); column < 4 || r.Float64() < p {
				x.Index, x.Value = append(x.Index, column), append(x.Value, float64(1+r.IntN(3)))
			}
		}
		return x
	})
	if len(words) > 0 {
		t.Errorf("%d words are numbers: %v", len(words), words)
	}
}
