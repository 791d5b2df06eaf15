// Package problems makes examples for the tests of exact solvers and of kernel machines.
package problems

import (
	"math"
	"math/rand/v2"

	"blankout/internal/event"
)

// Gaussian draws n examples from two overlapping classes.
func Gaussian(seed uint64, n, columns int, positive bool) (x [][]float64, y []float64) {
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range n {
		y = append(y, float64(2*(i%2)-1))
		row := make([]float64, columns)
		for d := range row {
			if r.IntN(3) > 0 {
				row[d] = r.NormFloat64() + y[i]*0.4/float64(1+d%3)
			}
			if positive {
				row[d] = math.Abs(row[d])
			}
		}
		x = append(x, row)
	}
	return x, y
}

// Dense returns the rows of a matrix as examples, and their Schema. The first example has every column. The label is
// class 1 for y > 0, else 0; rows beyond len(y) are unlabeled.
func Dense(x [][]float64, y []float64) ([]event.Example, *event.Schema) {
	var out []event.Example
	for i, row := range x {
		e := event.Example{Weight: 1, Label: event.Unlabeled, Offset: int64(i)}
		if i < len(y) {
			e.Label = 0
			if y[i] > 0 {
				e.Label = 1
			}
		}
		for d, v := range row {
			if v != 0 || i == 0 { // the first row has every column
				e.Features.Index = append(e.Features.Index, uint32(d))
				e.Features.Value = append(e.Features.Value, v)
				e.Field = append(e.Field, uint16(1+d%len(denseFields)))
			}
		}
		out = append(out, e)
	}
	schema := event.NewSchema(20, []string{"-1", "1"}, 2)
	schema.Crosses = [][2]string{{"a", "b"}}
	for _, f := range denseFields {
		schema.AddField(f)
	}
	return out, schema
}

// denseFields are the fields of Dense, assigned to the columns cyclically. Their groups are g, h, c, both g and h, and
// g.
var denseFields = []event.Field{
	{Name: "a", Kind: event.Numeric, Group: "g"},
	{Name: "b", Kind: event.Numeric, Group: "h"},
	{Name: "c", Kind: event.Numeric},
	{Name: "a^b", Kind: event.Cross},
	{Name: "d", Kind: event.Numeric, Group: "g"},
}
