package encode

import (
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
)

// Columns that are known to be 0 where they are left out stand among the others, but for those that are declared missing.
func TestWithZeros(t *testing.T) {
	s := event.NewSchema(8, []string{"no", "yes"}, 2)
	s.Absent = event.AbsentMissing
	n := New(Settings{Intercept: true, Standardize: model.StandardizeNone, Width: model.ScalerWidth, Policies: model.EveryRange(model.MissingNone), Transform: func(string) model.Transform { return "" }}, s)
	var in, to Input
	n.Observe(&event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1, 2, 3, 5, 8}, Value: []float64{1, 2, 3, 5, 8}}}, 1, &in)
	if got := n.WithZeros(&in, &to); got != &in {
		t.Errorf("no column is known to be 0: %v", got.Columns)
	}
	n.Fields.Missing = n.Fields.Missing.WithZeros([]uint32{1, 3, 5, 7, 8})
	e := &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{2, 5}, Value: []float64{20, 50}}, MissingColumns: []uint32{3}}
	n.Read(e, 2, &in)
	got := n.WithZeros(&in, &to)
	if !slices.Equal(got.Columns, []uint32{1, 2, 5, 8}) || !slices.Equal(got.X, []float64{0, 20, 50, 0, 1}) || len(got.Rows) != 5 || &got.Rows[3][0] != &n.Table.Row(8)[0] || got.Lack != in.Lack {
		t.Errorf("columns %v, values %v", got.Columns, got.X)
	}
	if len(in.Columns) != 2 {
		t.Errorf("the event itself has columns %v", in.Columns)
	}
}
