package encode

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestWithZeros checks that WithZeros inserts, in order, the columns that are 0 if absent. It must not insert columns
// that are declared missing.
func TestWithZeros(t *testing.T) {
	s := event.NewSchema(8, []string{"no", "yes"}, 2)
	s.Absent = event.AbsentMissing
	n := New(Settings{Intercept: true, Standardize: model.StandardizeNone, Width: model.ScalerWidth, Policies: model.EveryRange(model.MissingNone)}, s)
	var in, to Input
	n.Observe(&event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1, 2, 3, 5, 8}, Value: []float64{1, 2, 3, 5, 8}}}, 1, &in)
	got := n.WithZeros(&in, &to)
	must.True(t, got == &in, "no column is known to be 0: %v", got.Columns)
	n.Fields.Missing = n.Fields.Missing.WithZeros([]uint32{1, 3, 5, 7, 8})
	e := &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{2, 5}, Value: []float64{20, 50}}, MissingColumns: []uint32{3}}
	n.Read(e, 2, &in)
	got = n.WithZeros(&in, &to)
	must.True(t, slices.Equal(got.Columns, []uint32{1, 2, 5, 8}) && slices.Equal(got.X, []float64{0, 20, 50, 0, 1}) && len(got.Rows) == 5 && &got.Rows[3][0] == &n.Table.Row(8)[0] && got.Missing == in.Missing,
		"columns %v, values %v", got.Columns, got.X)
	must.True(t, len(in.Columns) == 2, "the event itself has columns %v", in.Columns)
}

// TestDeviating compares the statistics of dense columns with those of a Scaler. The columns are in a sparse text
// format, with and without a transform, and divided columns lie between them.
func TestDeviating(t *testing.T) {
	s, r := event.NewSchema(8, []string{"no", "yes"}, 2), rand.New(rand.NewPCG(5, 6))
	n := New(Settings{
		Intercept: true, Standardize: model.StandardizeAuto, Width: model.ScalerWidth, Policies: model.EveryRange(model.MissingNone),
	}, s)
	var in Input
	rests, transformed := 0, 0
	for number := uint64(1); number <= 4000; number++ {
		x := event.Vec{Index: []uint32{1}, Value: []float64{3 + r.NormFloat64()}}
		for _, column := range []uint32{2, 4, 7} { // columns of categories
			if r.IntN(3) == 0 {
				x.Index, x.Value = append(x.Index, column), append(x.Value, float64(r.IntN(4)))
			}
			x.Index, x.Value = append(x.Index, column+1), append(x.Value, math.Exp(3*r.NormFloat64()))
		}
		e, scaler := &event.Example{Weight: 1, Features: x}, &n.Scaling.Scaler
		var want [][model.ScalerWidth]float64
		var z []float64
		for i, column := range x.Index {
			var stats [model.ScalerWidth]float64
			copy(stats[:], n.Table.Row(column))
			z = append(z, scaler.Deviations(stats[:], x.Value[i]))
			if _, dense := slices.BinarySearch(scaler.Dense, column); dense {
				scaler.Observe(stats[:], x.Value[i], z[i])
			} else if _, spread := slices.BinarySearch(n.Scaling.SpreadColumns(), column); spread {
				scaler.ObserveSpread(stats[:], x.Value[i], float64(number))
			} else {
				scaler.ObserveScale(stats[:], x.Value[i])
			}
			want = append(want, stats)
		}
		n.Observe(e, number, &in)
		n.Rescale(&in)
		for i, column := range x.Index {
			_, dense := slices.BinarySearch(scaler.Dense, column)
			if len(in.Moves) > 0 || dense && !keepsScale(want[i][model.StatCount]) || number < 1100 {
				continue
			}
			got := in.Rows[i][:model.ScalerWidth]
			must.Require(t, slices.Equal(got, want[i][:]) && in.X[i] == scaler.Clip(got, z[i]), "event %d, column %d: %v and %v, want %v and %v", number, column, got, in.X[i], want[i], z[i])
			if rests++; dense && want[i][model.StatInverse] < 0 {
				transformed++
			}
		}
		n.Review()
	}
	must.True(t, rests >= 8000 && transformed >= 4000, "%d readings change no scale, %d of them transformed", rests, transformed)
}

// TestNamespaceWithoutDenseColumns checks that the columns of a named field in a sparse text format, such as a VW
// namespace, are scaled like columns without a field. No column in the test is in nine of ten events, so none is dense.
func TestNamespaceWithoutDenseColumns(t *testing.T) {
	encoded := func(named bool) *model.Table {
		s, r := event.NewSchema(8, []string{"no", "yes"}, 2), rand.New(rand.NewPCG(7, 8))
		s.AddField(event.Field{Name: "reading", Kind: event.Sparse})
		n := New(Settings{Standardize: model.StandardizeAuto, Width: model.ScalerWidth, Policies: model.EveryRange(model.MissingNone)}, s)
		var in Input
		for number := uint64(1); number <= 1500; number++ {
			e := &event.Example{Weight: 1}
			for column := range uint32(5) {
				if r.IntN(10) < 7 {
					eventtest.Put(e, column, 5*r.NormFloat64())
				}
			}
			if named {
				e.Field = slices.Repeat([]uint16{1}, e.Features.Len())
			}
			if n.Observe(e, number, &in); in.Rescales {
				n.Rescale(&in)
			}
			n.Review()
		}
		must.True(t, len(n.Scaling.SpreadColumns()) == 5, "columns %v are divided by their deviation, want all 5", n.Scaling.SpreadColumns())
		return n.Table
	}
	plain, named := encoded(false), encoded(true)
	for column := range uint32(5) {
		got, want := named.Row(column), plain.Row(column)
		must.True(t, slices.Equal(got, want), "column %d: statistics %v, without a name %v", column, got, want)
	}
}

// TestNamedPresence checks that, in a sparse text format, a column has no presence column if only named fields may have
// one. The column becomes dense after many events, and is often absent before.
func TestNamedPresence(t *testing.T) {
	s, r := event.NewSchema(8, []string{"no", "yes"}, 2), rand.New(rand.NewPCG(7, 8))
	n := New(Settings{Presence: true, Named: true, Standardize: model.StandardizeAuto, Width: model.ScalerWidth, Policies: model.EveryRange(model.MissingNone)}, s)
	var in Input
	for number := uint64(1); number <= 1000; number++ {
		e := &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1}, Value: []float64{r.NormFloat64()}}}
		if number > 30 { // dense from event 320 on
			e.Features.Index, e.Features.Value = append(e.Features.Index, 2), append(e.Features.Value, 5+r.NormFloat64())
		}
		if number > 320 && number%12 == 0 {
			e.Features.Index, e.Features.Value = e.Features.Index[:1], e.Features.Value[:1]
		}
		if n.Observe(e, number, &in); in.Rescales {
			n.Rescale(&in)
		}
		n.Review()
	}
	n.Scaling.findKnots(n.Table.Len(), n.presences)
	_, dense := slices.BinarySearch(n.Scaling.Scaler.Dense, 2)
	must.True(t, dense && n.Scaling.Scaler.Splines == nil, "dense columns %v, splines %+v", n.Scaling.Scaler.Dense, n.Scaling.Scaler.Splines)
}

// TestRenews checks that a Move renews a column when its numbers turn out to need a transform, or another one. Other changes
// of its scale do not.
func TestRenews(t *testing.T) {
	for skew, want := range map[float64]bool{0.1: false, 2: true} {
		s, r := event.NewSchema(8, []string{"no", "yes"}, 2), rand.New(rand.NewPCG(7, 8))
		s.AddField(event.Field{Name: "amount", Kind: event.Numeric})
		n := New(Settings{Standardize: model.StandardizeAuto, Width: model.ScalerWidth, Policies: model.EveryRange(model.MissingNone)}, s)
		var in Input
		renewed, others := 0, 0
		for number := range uint64(2000) {
			x := math.Exp(skew * r.NormFloat64())
			n.Observe(&event.Example{Weight: 1, Field: []uint16{1}, Features: event.Vec{Index: []uint32{3}, Value: []float64{x}}}, number+1, &in)
			for _, m := range in.Moves {
				if others++; m.Renews && m.Was.Scale > 0 {
					renewed, others = renewed+1, others-1
				}
			}
			if in.Rescales {
				n.Rescale(&in)
			}
			n.Review()
		}
		must.True(t, renewed > 0 == want && renewed < 10 && others > 50, "skew %v: renewed %d times, moved %d times", skew, renewed, others)
	}
}
