package synthetic

import (
	"math"
	"math/rand/v2"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// Tides draws events with three correlated numbers, which have a nonlinear effect, and a word.
type Tides struct {
	R       *rand.Rand
	Classes int // number of classes; 0 for regression
	Null    float64
	E       event.Example
}

func (s *Tides) Schema() *event.Schema {
	names := []string{"ebb", "flow", "slack"}[:max(s.Classes, 2)]
	schema := event.NewSchema(8, names, s.Classes)
	if s.Classes == 0 {
		schema = event.NewSchema(8, nil, 0)
		schema.Target = loss.Real
	}
	for _, name := range []string{"a", "b", "c"} {
		schema.AddField(event.Field{Name: name, Kind: event.Numeric})
	}
	schema.AddField(event.Field{Name: "word", Kind: event.Categorical})
	return schema
}

func (s *Tides) Next() *event.Example {
	e := &s.E
	*e = event.Example{Weight: 1, Features: event.Vec{Index: e.Features.Index[:0], Value: e.Features.Value[:0]}, Field: e.Field[:0], Missing: e.Missing[:0]}
	a := s.R.NormFloat64()
	x := []float64{a, 0.9*a + 0.5*s.R.NormFloat64(), 10 + 3*s.R.NormFloat64()}
	for i, x := range x {
		if s.R.Float64() < s.Null {
			e.Missing = append(e.Missing, uint16(i+1))
			continue
		}
		e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, uint32(i)), append(e.Features.Value, x), append(e.Field, uint16(i+1))
	}
	e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, 40+uint32(s.R.IntN(5))), append(e.Features.Value, 1), append(e.Field, 4)
	f := 2*x[0] - 2*x[1] + math.Abs(x[2]-10) - 2 + 0.3*s.R.NormFloat64()
	switch {
	case s.Classes == 0:
		e.Target = 100 + 5*f
	case f > 0:
		e.Label = 1
	case s.Classes > 2 && x[0] > 0.5:
		e.Label = 2
	}
	return e
}

func NewTides(seed uint64, classes int, null float64) *Tides {
	return &Tides{R: rand.New(rand.NewPCG(seed, 9)), Classes: classes, Null: null}
}
