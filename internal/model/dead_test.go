package model

import (
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

// TestLoseDead checks that a silently dead number gets the dead value of its column or, if the model has none,
// the center. Other dead features are absent. Nothing is declared missing. Live features keep their values, including
// columns that the model does not have.
func TestLoseDead(t *testing.T) {
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	for id, kind := range []event.Kind{event.Numeric, event.Numeric, event.Categorical, event.Words} {
		schema.AddField(event.Field{Name: string(rune('a' + id)), Kind: kind})
	}
	m := NewLinear(schema, "logistic", "none", [][]float64{{0, 1, 1, 1, 1, 1, 1, 1}}, []float64{0})
	named := event.Example{Features: event.Vec{Index: []uint32{1, 2, 4, 5, 6, 9}, Value: []float64{7, 8, 1, 1, 1, 1}}, Field: []uint16{1, 2, 3, 4, 4, 4}, Missing: []uint16{4}, Label: 1}
	sparse := event.Example{Features: event.Vec{Index: []uint32{1, 4}, Value: []float64{7, 8}}}
	centered := &Linear{Head: m.Head, Rows: NewTable(1 + ScalerWidth)}
	centered.Scaler, centered.Layout = Scaler{Mode: StandardizeAuto, Dense: []uint32{1, 2}}, Layout{Width: 1 + ScalerWidth, Stats: 1}
	for column := range uint32(7) {
		row := centered.Rows.Touch(column)
		row[0], row[1+StatCenter], row[1+StatInverse] = 1, 3, 0.5
	}
	bent := &Linear{Head: centered.Head, Rows: NewTable(1 + ScalerWidth)}
	row := bent.Rows.Touch(1)
	row[1+StatCenter], row[1+StatInverse] = 2, packUnit(0.5, 4)
	knows := *m
	knows.Dead = &Dead{Columns: []uint32{1}, Reads: []float64{-2}}
	for name, c := range map[string]struct {
		m      *Linear
		e      event.Example
		dead   []uint32
		index  []uint32
		value  []float64
		fields []uint16
	}{
		"nothing":        {m, named, nil, named.Features.Index, named.Features.Value, named.Field},
		"knows a number": {&knows, named, []uint32{1, 2, 4, 6}, []uint32{1, 5, 9}, []float64{-2, 1, 1}, []uint16{1, 4, 4}},
		"as they came":   {m, named, []uint32{2, 4}, []uint32{1, 2, 5, 6, 9}, []float64{7, 0, 1, 1, 1}, []uint16{1, 2, 4, 4, 4}},
		"centers":        {centered, named, []uint32{2, 4}, []uint32{1, 2, 5, 6, 9}, []float64{7, 3, 1, 1, 1}, []uint16{1, 2, 4, 4, 4}},
		"left out":       {centered, sparse, []uint32{2, 4}, []uint32{1, 2, 4}, []float64{7, 3, 3}, nil},
		"transformed":    {bent, sparse, []uint32{1}, []uint32{1, 4}, []float64{4 * math.Sinh(2), 8}, nil},
	} {
		x := c.m.Standardized(&c.e, event.Vec{})
		dead := make([]bool, x.Len())
		for i, column := range x.Index {
			dead[i] = slices.Contains(c.dead, column)
		}
		left := event.Example{Features: event.Vec{Index: []uint32{77}, Value: []float64{77}}, Missing: []uint16{2, 3}, Declared: true}
		before := slices.Clone(c.e.Features.Value)
		LossesOf(c.m, 0).Lose(LossDead, &c.e, 0, x.Index, dead, &left)
		if !slices.Equal(left.Features.Index, c.index) || !slices.Equal(left.Field, c.fields) || (left.Field == nil) != (c.fields == nil) {
			t.Errorf("%s: left are columns %v of fields %v, want %v of %v", name, left.Features.Index, left.Field, c.index, c.fields)
			continue
		}
		for i, v := range left.Features.Value {
			must.True(t, math.Abs(v-c.value[i]) <= 1e-12*math.Abs(v), "%s: column %d reads %v, want %v", name, c.index[i], v, c.value[i])
		}
		must.True(t, slices.Equal(left.Missing, c.e.Missing) && !left.Declared && left.Label == c.e.Label && slices.Equal(c.e.Features.Value, before), "%s: left is %+v", name, left)
		x = c.m.Standardized(&left, event.Vec{})
		must.True(t, name != "transformed" || math.Abs(x.Value[0]) <= 1e-12, "a center is standardized to %v", x.Value)
	}
}

// TestLoseStaleAndDeclared checks that a stale number or category is that of an earlier event, that words are absent,
// and that a lost column reads the same whatever else is lost. Before the first earlier event nothing is stale. Declared
// fields are missing unless a part of them is left, and so are declared columns.
func TestLoseStaleAndDeclared(t *testing.T) {
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	for id, kind := range []event.Kind{event.Numeric, event.Categorical, event.Words} {
		schema.AddField(event.Field{Name: string(rune('a' + id)), Kind: kind})
	}
	l := &Losses{Fields: schema.Fields, Seed: 3}
	at := func(n int) *event.Example {
		return &event.Example{Features: event.Vec{Index: []uint32{1, uint32(2 + n%2), 5, 6}, Value: []float64{float64(n), 1, 1, 1}}, Field: []uint16{1, 2, 3, 3}}
	}
	lose := func(kind LossKind, n int, lost ...bool) *event.Example {
		out := &event.Example{Missing: []uint16{7}}
		l.Lose(kind, at(n), uint64(n), at(n).Features.Index, lost, out)
		return out
	}
	got := lose(LossStale, 0, true, true, true, true)
	must.True(t, slices.Equal(got.Features.Index, at(0).Features.Index), "without an earlier event: %+v", got)
	for n := range 3000 {
		l.Note(at(n))
	}
	late, changed := 0, 0
	for n := 3000; n < 4000; n++ {
		all, alone := lose(LossStale, n, true, true, true, false), lose(LossStale, n, true, false, false, false)
		x := all.Features
		must.Require(t, len(x.Index) == 3 && x.Index[0] == 1 && x.Value[0] < 3000 && (x.Index[1] == 2 || x.Index[1] == 3) && x.Index[2] == 6 && slices.Equal(all.Field, []uint16{1, 2, 3}) && len(all.Missing) == 0,
			"%+v", all)
		must.Require(t, alone.Features.Value[0] == x.Value[0] && slices.Equal(alone.Features.Index[1:], at(n).Features.Index[1:]), "%+v alone, %+v of several", alone, all)
		if x.Value[0] >= 1500 {
			late++
		}
		if x.Index[1] != at(n).Features.Index[1] {
			changed++
		}
	}
	must.True(t, late >= 400 && late <= 600 && changed >= 400 && changed <= 600, "of 1000 stale events %d are of the later half of the earlier events, %d have another category", late, changed)
	got = lose(LossDeclared, 0, true, false, true, false)
	must.True(t, slices.Equal(got.Missing, []uint16{1}) && slices.Equal(got.Features.Index, []uint32{2, 6}), "declared: %+v", got)
	sparse, left := event.Example{Features: event.Vec{Index: []uint32{1, 4}, Value: []float64{7, 8}}}, event.Example{}
	l.Lose(LossDeclared, &sparse, 0, []uint32{0, 1, 4, FirstBasisColumn}, []bool{true, true, false, true}, &left)
	must.True(t, slices.Equal(left.MissingColumns, []uint32{0, 1}) && left.Features.Len() == 1 && left.Field == nil, "declared columns: %+v", left)
}
