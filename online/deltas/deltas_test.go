package deltas_test

import (
	"math"
	"slices"
	"testing"

	"blankout/internal/model"
	"blankout/online/deltas"
	"blankout/online/rows"
)

// TestInterval checks that a Delta contains the learner's fraction of the changes, and that decoding returns the
// encoded Delta. If there are no other learners, the Delta must contain the rows.
func TestInterval(t *testing.T) {
	y := rows.Layout{Outputs: 1, N: 1}
	width := rows.FirstPart + 3
	for _, peers := range []int{1, 5} {
		table, bias := model.NewTable(width), make([]float64, width)
		touch := func(columns ...uint32) (list [][]float64) {
			for _, c := range columns {
				list = append(list, table.Touch(c))
			}
			return list
		}
		for i, row := range touch(3, 1, 2) {
			row[model.StatCount], row[model.StatInverse] = float64(50*i), 1
		}
		var x deltas.Interval
		x.Begin(deltas.Settings{Layout: y, Eta: 0.3, Start: 1}, peers, 2, 200, bias, 1)
		for range 2 {
			columns := []uint32{1, 3}
			list := touch(columns...)
			x.Note(table, columns, list, 1)
			for _, row := range list {
				row[model.StatCount]++
				y.Weights(row)[0] += 0.25
				y.Accumulators(row)[0]++
			}
			step := rows.Step{Event: rows.Event{Rows: append(list, bias), Intercepts: true}}
			if peers == 1 {
				continue
			}
			if x.Weigh(&step); len(step.Roots) != 3 || step.Roots[1] != 1 || !(step.Roots[0] > 1) || !(step.Roots[2] > step.Roots[0]) {
				t.Fatalf("roots %v", step.Roots)
			}
		}
		x.NoteOne(table, 2, table.Touch(2), 1)
		y.Weights(bias)[0] = 1
		d := x.Cut(table, 202, 32, 1)
		if d.Events != 2 || !slices.Equal(x.Columns(), []uint32{1, 3, 2}) {
			t.Errorf("%d events of columns %v", d.Events, x.Columns())
		}
		if peers == 1 {
			if d.Kind != deltas.Full || len(d.Columns) != 3 || d.Values[model.StatCount] != 52 {
				t.Errorf("%+v", d)
			}
			x.Wrote()
			touch(9)
			if d = x.Cut(table, 202, 32, 1); len(d.Columns) != 4 {
				t.Errorf("columns %v, want all", d.Columns)
			}
			continue
		}
		// Column 1 was in a quarter of the earlier events, so the 4 other learners are expected to see it in 2 of their
		// events. Column 3 was in no earlier event.
		for i, want := range []float64{0.25, 0, 0.5} {
			if got := d.Values[i*d.Width+deltas.Parts]; d.Columns[i] != uint32(i+1) || math.Abs(got-want) > 1e-7 || got != float64(float32(got)) {
				t.Errorf("column %d: u = %v, want %v", d.Columns[i], got, want)
			}
		}
		if u := x.CutBias(bias, 2, 1)[0]; math.Abs(u-0.2) > 1e-12 {
			t.Errorf("of the intercept %v", u)
		}
		again := &deltas.Delta{Kind: d.Kind, Precision: d.Precision, Width: d.Width}
		for i := range d.Columns {
			data := d.AppendRow(nil, i)
			if n := len(data); n < d.MinRowBytes()-1 || n > d.MaxRowBytes() {
				t.Errorf("%d bytes", n)
			}
			if left := again.ReadRow(data); left == nil || len(left) > 0 {
				t.Fatalf("row %d leaves %v", i, left)
			}
			if again.ReadRow(data[:len(data)-1]) != nil {
				t.Error("half a row is read")
			}
			again.Values = again.Values[:(i+1)*d.Width]
		}
		if !slices.Equal(again.Values, d.Values) {
			t.Errorf("read %v, written %v", again.Values, d.Values)
		}
	}
}
