package synthetic

import (
	"fmt"
	"math"
	"math/rand/v2"

	"blankout/internal/event"
)

// FieldStream generates reproducible events of numeric fields, like decoded JSON.
type FieldStream struct {
	R *rand.Rand
	X []float64
	E event.Example
	// Draw fills x and returns the log-odds of class 1.
	Draw func(r *rand.Rand, x []float64) float64
}

func NewFields(seed uint64, n int, draw func(*rand.Rand, []float64) float64) *FieldStream {
	f := &FieldStream{R: rand.New(rand.NewPCG(seed, 14)), X: make([]float64, n), Draw: draw}
	for d := range n {
		f.E.Features.Index = append(f.E.Features.Index, uint32(d+1))
		f.E.Field = append(f.E.Field, uint16(d+1))
	}
	f.E.Weight = 1
	return f
}

// Next generates an event. The event uses the memory of x, whose values the caller may change until the next call.
func (f *FieldStream) Next() *event.Example {
	odds := f.Draw(f.R, f.X)
	f.E.Label = 0
	if f.R.Float64() < 1/(1+math.Exp(-odds)) {
		f.E.Label = 1
	}
	f.E.Features.Index, f.E.Field = f.E.Features.Index[:len(f.X)], f.E.Field[:len(f.X)]
	f.E.Features.Value = append(f.E.Features.Value[:0], f.X...)
	return &f.E
}

func FieldsSchema(n int) *event.Schema {
	s := event.NewSchema(10, []string{"0", "1"}, 2)
	for d := range n {
		s.Fields = append(s.Fields, event.Field{Name: fmt.Sprint("f", d), Kind: event.Numeric})
	}
	return s
}

// Steep draws five normal fields. The log-odds are a steep function of these fields.
func Steep(r *rand.Rand, x []float64) (odds float64) {
	for d := range x {
		x[d] = r.NormFloat64()
		odds += 3.5 * x[d] * (1 - 0.1*float64(d))
	}
	return odds
}
