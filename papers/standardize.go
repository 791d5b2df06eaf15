package papers

// This file standardizes data as the papers do.

import (
	"slices"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/model"
)

// zScores returns d with each column centered and divided by its standard deviation. Absent values count as 0, so they
// become -mean/deviation. It also returns the Scaler, as a model without outputs.
func zScores(d *batch.Data) (*batch.Data, *model.Linear) {
	m := &model.Linear{Head: model.Head{Schema: d.Schema, Scaler: model.Scaler{Mode: model.StandardizeAll, Unfilled: d.Schema.ColumnsGoMissing()},
		Layout: model.Layout{Width: model.ScalerWidth}}, Rows: model.NewTable(model.ScalerWidth)}
	n, sum, squares := make([]float64, d.Columns()), make([]float64, d.Columns()), make([]float64, d.Columns())
	var x event.Vec
	each := func(f func(c int, x float64)) {
		for i := range d.Rows() {
			row := d.Row(i)
			for j, c := range row.Index {
				f(int(c), row.At(j))
			}
		}
	}
	each(func(c int, x float64) { n[c]++; sum[c] += x })
	total := func(c int) float64 {
		if m.Scaler.Unfilled {
			return n[c]
		}
		return float64(d.Rows())
	}
	each(func(c int, x float64) { x -= sum[c] / total(c); squares[c] += x * x })
	for c := range n {
		column, mean := d.Column(c), sum[c]/total(c)
		m.Scaler.Set(m.Rows.Touch(column), total(c), mean, squares[c]+(total(c)-n[c])*mean*mean, 0)
		if !m.Scaler.Unfilled {
			m.Scaler.Dense = append(m.Scaler.Dense, column)
		}
	}
	slices.Sort(m.Scaler.Dense)
	var b batch.Builder
	for i := range d.Rows() {
		e := &event.Example{Features: d.Vec(i, event.Vec{}), Label: d.Label(i), Target: d.Target(i), Weight: d.Weight(i)}
		e.Features = m.Standardized(e, event.Vec{Index: x.Index[:0], Value: x.Value[:0]})
		add(&b, e)
		x = e.Features
	}
	return b.Data(d.Schema), m
}
