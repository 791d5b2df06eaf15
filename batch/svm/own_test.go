package svm

import (
	"slices"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
)

// denseData returns the Data of a matrix with every column present. Examples have class 1 for y > 0, else class 0. The
// argument weights are their importance weights; nil means 1.
func denseData(t testing.TB, x [][]float64, y, weights []float64) *batch.Data {
	t.Helper()
	var b batch.Builder
	for i, row := range x {
		e := event.Example{Weight: 1}
		if y[i] > 0 {
			e.Label = 1
		}
		if weights != nil {
			e.Weight = weights[i]
		}
		for c, v := range row {
			if v != 0 || i == 0 { // the first row has every column
				eventtest.Put(&e, uint32(c), v)
			}
		}
		must.Do(t, b.Add(&e))
	}
	return b.Data(event.NewSchema(20, []string{"-1", "1"}, 2))
}

func constant(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }
