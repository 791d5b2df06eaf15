package model

import (
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
)

// TestDeleteSilently checks that a silently dead number gets the dead value of its column or, if the model has none,
// the center. Other dead features are absent. Nothing is declared missing. Live features keep their values, including
// columns that the model does not have.
func TestDeleteSilently(t *testing.T) {
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
		DeleteSilently(c.m, &c.e, x.Index, dead, &left)
		if !slices.Equal(left.Features.Index, c.index) || !slices.Equal(left.Field, c.fields) || (left.Field == nil) != (c.fields == nil) {
			t.Errorf("%s: left are columns %v of fields %v, want %v of %v", name, left.Features.Index, left.Field, c.index, c.fields)
			continue
		}
		for i, v := range left.Features.Value {
			if math.Abs(v-c.value[i]) > 1e-12*math.Abs(v) {
				t.Errorf("%s: column %d reads %v, want %v", name, c.index[i], v, c.value[i])
			}
		}
		if !slices.Equal(left.Missing, c.e.Missing) || left.Declared || left.Label != c.e.Label || !slices.Equal(c.e.Features.Value, before) {
			t.Errorf("%s: left is %+v", name, left)
		}
		if x := c.m.Standardized(&left, event.Vec{}); name == "transformed" && math.Abs(x.Value[0]) > 1e-12 {
			t.Errorf("a center is standardized to %v", x.Value)
		}
	}
}
