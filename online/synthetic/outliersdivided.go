package synthetic

import (
	"math"
	"math/rand/v2"

	"blankout/internal/event"
)

// FewColumns generates reproducible events of columns. Each column is in only half of the events, so its values are
// divided by a scale but never centered. The columns are from sparse text, or products of fields.
type FewColumns struct {
	R    *rand.Rand
	Kind event.Kind
}

const FewWidth = 8

// The first OutlierColumns columns are those that tests corrupt together.
const OutlierColumns = FewWidth / 2

func (f *FewColumns) Next() *event.Example {
	e := &event.Example{Weight: 1}
	odds := -0.5
	for d := range FewWidth {
		x := math.Ceil(1.2 * f.R.ExpFloat64())
		if f.R.Float64() < 0.5 {
			odds += 1.2 * math.Cos(2*float64(d)) * (x - 1)
			f.Add(e, d+1, x)
		}
	}
	if f.R.Float64() < 1/(1+math.Exp(-2*odds)) {
		e.Label = 1
	}
	return e
}

func (f *FewColumns) Add(e *event.Example, column int, x float64) {
	e.Features.Index = append(e.Features.Index, uint32(column))
	e.Features.Value = append(e.Features.Value, x)
	if f.Kind != event.Sparse {
		e.Field = append(e.Field, uint16(column))
	}
}

// Change applies to to the values of the first OutlierColumns columns of an event.
func Change(e *event.Example, to func(x float64) float64) {
	for i, c := range e.Features.Index {
		if c <= OutlierColumns {
			e.Features.Value[i] = to(e.Features.Value[i])
		}
	}
}
