package optimizers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online/rows"
)

// TestOptimizersKeepTheAverage checks that a step changes the lags opposite to the weights, so that averages stay. It
// must not change other parts of a row. No weight changes with learning rate 0, or for unlabeled events.
func TestOptimizersKeepTheAverage(t *testing.T) {
	for _, entry := range Table {
		for _, levels := range []int{1, 2} {
			for _, outputs := range []int{1, 3} {
				t.Run(fmt.Sprint(entry.Name, "/", levels, "/", outputs), func(t *testing.T) { testStep(t, entry, levels, outputs) })
			}
		}
	}
}

func testStep(t *testing.T, entry Entry, levels, outputs int) {
	r := rand.New(rand.NewPCG(1, 2))
	y := rows.Layout{Outputs: outputs, N: levels * outputs, Refresh: entry.Parts}
	logistic := must.Get(loss.Parse("logistic"))(t)
	rule := entry.Make(Settings{Layout: y, Loss: logistic, Eta: entry.Eta, Ridge: 0.1, StartSum: 1, Proximal: outputs == 1})
	strength := slices.Repeat([]float64{0.4}, levels)
	s := rows.NewStep(strength, outputs)
	const features = 7
	width := rows.FirstPart + (entry.Parts+1)*y.N // includes the refresh's sums
	table := make([][]float64, features+1)
	for i := range table {
		table[i] = make([]float64, width)
	}
	for event := range 40 {
		s.Reset(0)
		for i, row := range table[:features] {
			x := r.NormFloat64()
			s.Rows, s.X, s.Basis, s.Ridge = append(s.Rows, row), append(s.X, x), append(s.Basis, x*x), append(s.Ridge, 0.01*float64(i))
		}
		s.AddIntercepts(table[features], 0)
		s.Importance, s.Count, s.InverseDecay = 1, uint64(event+1), 1.5
		s.NoOvershoot = event%2 == 0
		for j := range y.N {
			s.Y[j], s.F[j], s.Variance[j] = float64(2*r.IntN(2)-1), r.NormFloat64(), r.Float64()
			_, df, dv := logistic.At(s.Y[j], s.F[j], s.Variance[j])
			s.DF[j], s.H[j], s.Shrink[j] = df, 2*dv, 2*dv*0.4
			s.MinusEta[j], s.Inverse[j] = -entry.Eta, 1+r.Float64()
		}
		rest := event%3 == 2 && entry.Sums // only the preconditioner changes
		if rest {
			clear(s.MinusEta)
		}
		s.Ungroup()
		was := make([][]float64, len(table))
		for i, row := range table {
			was[i] = slices.Clone(row)
		}
		unlabeled := event%5 == 4
		if unlabeled {
			rule.Unlabeled(&s)
		} else {
			rule.Step(&s)
		}
		for i, row := range table {
			if !slices.Equal(row[:rows.FirstPart], was[i][:rows.FirstPart]) {
				t.Fatalf("event %d: the statistics of row %d have changed", event, i)
			}
			if entry.Name != "irls" && !slices.Equal(y.Curvature(row), y.Curvature(was[i])) {
				t.Fatalf("event %d: the refresh's sums of row %d have changed", event, i)
			}
			for j, w := range y.Weights(row) {
				delta := w - y.Weights(was[i])[j]
				if (rest || unlabeled) && delta != 0 {
					t.Fatalf("event %d: the weight of row %d at %d has moved by %v", event, i, j, delta)
				}
				if got, want := y.Lags(row)[j], y.Lags(was[i])[j]-delta*s.Inverse[j]; !(math.Abs(got-want) <= 1e-12*(1+math.Abs(want))) {
					t.Fatalf("event %d, row %d at %d: lag %v, want %v", event, i, j, got, want)
				}
			}
		}
	}
	if moved := y.Weights(table[0])[0] != 0; moved != (entry.Name != "irls") {
		t.Errorf("weights moved: %v", moved)
	}
}
