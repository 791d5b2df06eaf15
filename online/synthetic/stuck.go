package synthetic

import (
	"math"
	"math/rand/v2"
	"slices"

	"blankout/internal/event"
)

// StuckStream is a stream of numbers that are informative about the class, including a coarse number and a category.
type StuckStream struct {
	R      *rand.Rand
	Schema *event.Schema
	N      int64
	// Stuck has the value of each stuck field, by the id of the field. Null has the ids of the fields that are null.
	Stuck map[uint16]float64
	Null  []uint16
}

func NewStuckStream(seed uint64, crosses ...[2]string) *StuckStream {
	s := &StuckStream{R: rand.New(rand.NewPCG(seed, 1)), Schema: event.NewSchema(10, []string{"no", "yes"}, 2), Stuck: map[uint16]float64{}}
	s.Schema.Crosses = crosses
	for _, f := range []event.Field{{Name: "a", Kind: event.Numeric}, {Name: "b", Kind: event.Numeric}, {Name: "c", Kind: event.Numeric}, {Name: "coarse", Kind: event.Numeric}, {Name: "word", Kind: event.Categorical}} {
		s.Schema.AddField(f)
	}
	if len(crosses) > 0 {
		s.Schema.AddField(event.Field{Name: "a^word", Kind: event.Cross})
	}
	return s
}

func (s *StuckStream) Next() *event.Example {
	s.N++
	e := &event.Example{Weight: 1, Time: 1_700_000_000_000 + 1000*s.N}
	z := s.R.NormFloat64()
	values := []float64{20 + 3*(z+0.3*s.R.NormFloat64()), 5 + z + s.R.NormFloat64(), s.R.NormFloat64(), math.Round(2 * s.R.NormFloat64())}
	for i, x := range values {
		id := uint16(i + 1)
		if slices.Contains(s.Null, id) {
			e.Missing = append(e.Missing, id)
			continue
		}
		if at, ok := s.Stuck[id]; ok {
			x = at
		}
		e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, uint32(id)), append(e.Features.Value, x), append(e.Field, id)
	}
	e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, uint32(100+s.R.IntN(3))), append(e.Features.Value, 1), append(e.Field, 5)
	if len(s.Schema.Crosses) > 0 && !slices.Contains(e.Missing, 1) {
		e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, uint32(200+s.R.IntN(3))), append(e.Features.Value, 1), append(e.Field, 6)
	}
	if z+0.5*values[2] > 0 {
		e.Label = 1
	}
	return e
}
