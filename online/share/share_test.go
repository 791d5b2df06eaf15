package share

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/model"
	"blankout/online/rows"
)

// Changes that were made under another center and scale change every score as they did there; one
// without a scale, or with a transform, has no slope to add to.
func TestMergeConverts(t *testing.T) {
	s := model.Scaler{Mode: model.StandardizeAuto}
	stats := []float64{40, 21, 300, 20, 0.5}[:model.ScalerWidth]
	const there, scale, u = 18.0, 5.0, 0.3
	v := make([]float64, Parts+2)
	v[flags], v[center], v[inverse], v[Parts], v[mean] = hasForce|hasMoments, there, 1/scale, u, 20
	m := Merge(stats, v, &s)
	for _, x := range []float64{15, 20, 23} {
		if want, got := u*(x-there)/scale, m.Factor*u*s.Apply(stats, x)+m.Shift*u; math.Abs(got-want) > 1e-12 {
			t.Errorf("the score at %v changes by %v, want %v", x, got, want)
		}
	}
	if v[inverse] = 0; Merge(stats, v, &s).Factor != 0 {
		t.Error("a slope is made of nothing")
	}
}

// Statistics of two come to those of all readings, and what is in force follows with a Move; of a
// larger value that another has met, too.
func TestMergeMoments(t *testing.T) {
	s, r := model.Scaler{Mode: model.StandardizeAuto}, rand.New(rand.NewPCG(1, 2))
	var all []float64
	stats, w, b, moved := make([]float64, model.ScalerWidth), 0.4, 0.0, false
	for part := range 30 {
		v := make([]float64, Parts+2)
		n := 20 + r.IntN(30)
		var own []float64
		for range n {
			own = append(own, 5+3*r.NormFloat64()+float64(part)/10)
		}
		all = append(all, own...)
		mu, m2 := model.Moments(own)
		v[Count], v[flags], v[mean], v[squares] = float64(n), hasMoments, mu, m2
		if part == 0 {
			v[flags], v[center], v[inverse] = hasMoments|hasForce, mu, 1/math.Sqrt(m2/float64(n))
		}
		before := w*s.Apply(stats, 6) + b
		m := Merge(stats, v, &s)
		w, b = w*m.Move.Ratio, b+w*m.Move.Shift
		if after := w*s.Apply(stats, 6) + b; part > 0 && math.Abs(after-before) > 1e-9 {
			t.Errorf("part %d: a score of %v has become %v", part, before, after)
		}
		moved = moved || part > 0 && m.Move.Moves()
	}
	mu, m2 := model.Moments(all)
	if stats[model.StatCount] != float64(len(all)) || math.Abs(stats[model.StatMean]-mu) > 1e-9 || math.Abs(stats[model.StatSquares]-m2) > 1e-9*m2 || !moved {
		t.Errorf("%v, want %v and %v of %d", stats, mu, m2, len(all))
	}
	divided, v := []float64{9, 0, 0, 0, 0.5}, make([]float64, Parts+2)
	v[flags], v[inverse], v[Count] = hasForce, 0.125, 1
	if m := Merge(divided, v, &s); m.Move.Ratio != 4 || divided[model.StatInverse] != 0.125 || m.Factor != 1 {
		t.Errorf("%+v, %v", m, divided)
	}
}

// What is cut of an interval is the share of the changes that is its own, read as it was written; alone it
// is the rows.
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
		var x Interval
		x.Begin(Settings{Layout: y, Eta: 0.3, Start: 1}, peers, 2, 200, bias, 1)
		for range 2 {
			columns := []uint32{1, 3}
			list := touch(columns...)
			x.Note(table, columns, list, 1)
			for _, row := range list {
				row[model.StatCount]++
				y.Weights(row)[0] += 0.25
				y.Preconditioner(row)[0]++
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
			if d.Kind != Full || len(d.Columns) != 3 || d.Values[model.StatCount] != 52 {
				t.Errorf("%+v", d)
			}
			x.Wrote()
			touch(9)
			if d = x.Cut(table, 202, 32, 1); len(d.Columns) != 4 {
				t.Errorf("columns %v, want all", d.Columns)
			}
			continue
		}
		// Column 1 was in a quarter of the events, of which others meet 4 x 2 x 1/4 meanwhile; 3 in none.
		for i, want := range []float64{0.25, 0, 0.5} {
			if got := d.Values[i*d.Width+Parts]; d.Columns[i] != uint32(i+1) || math.Abs(got-want) > 1e-7 || got != float64(float32(got)) {
				t.Errorf("column %d: u = %v, want %v", d.Columns[i], got, want)
			}
		}
		if u := x.CutBias(bias, 2, 1)[0]; math.Abs(u-0.2) > 1e-12 {
			t.Errorf("of the intercept %v", u)
		}
		again := &Delta{Kind: d.Kind, Precision: d.Precision, Width: d.Width}
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
