package synthetic

import (
	"fmt"
	"math/rand/v2"

	"blankout/internal/event"
)

// OneStrong returns events of two classes in which one reading nearly determines the class. Twelve other readings are
// copies of this reading with much noise, which are useful only if it is missing. Each reading is null with the given
// probability.
func OneStrong(n int, chance float64, seed uint64) []*event.Example {
	r := rand.New(rand.NewPCG(seed, 3))
	events := make([]*event.Example, n)
	for i := range events {
		e := &event.Example{Label: r.IntN(2), Weight: 1, Field: []uint16{}, Offset: int64(i)}
		y := float64(2*e.Label - 1)
		strong := y + 0.5*r.NormFloat64()
		for j := range uint16(13) {
			x := strong
			if j > 0 {
				x += 1.5 * r.NormFloat64()
			}
			if r.Float64() < chance {
				e.Missing = append(e.Missing, j+1)
				continue
			}
			e.Field = append(e.Field, j+1)
			e.Features.Index, e.Features.Value = append(e.Features.Index, uint32(j)), append(e.Features.Value, x)
		}
		events[i] = e
	}
	return events
}

func OneStrongSchema() *event.Schema {
	s := event.NewSchema(8, []string{"a", "b"}, 2)
	for j := range 13 {
		s.AddField(event.Field{Name: string(rune('a' + j)), Kind: event.Numeric})
	}
	return s
}

// NumberFields returns a Schema of n numeric fields, whose columns start at 0, and the ids of the fields.
func NumberFields(n int) (*event.Schema, []uint16) {
	schema := event.NewSchema(12, []string{"no", "yes"}, 2)
	var ids []uint16
	for i := range n {
		ids = append(ids, schema.AddField(event.Field{Name: fmt.Sprint(i), Kind: event.Numeric, Column: uint32(i)}))
	}
	return schema, ids
}

func NumbersEvent(fields []uint16, label int, x []float64) *event.Example {
	e := &event.Example{Label: label, Weight: 1, Field: fields}
	for i, x := range x {
		e.Features.Index, e.Features.Value = append(e.Features.Index, uint32(i)), append(e.Features.Value, x)
	}
	return e
}
