package batch

// This file fits a Scaler to a training set.

import (
	"fmt"
	"math"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/encode"
)

// Standardizer fits a model.Scaler to a training set. It passes the examples through the Encoder of a Learner and then
// freezes the Scaler. So an exact solution treats each column as a Learner does. The zero value with a Mode is ready
// for use.
type Standardizer struct {
	Mode model.Standardize
	// Presence adds a presence column (model.Present) to each numeric field that more than 10 % of the examples omit.
	// The presence column is 1 if the number is present. A null number does not count as omitted.
	Presence bool

	encoder *encode.Encoder
	in      encode.Input
	number  uint64            // number of examples
	fields  map[uint32]uint16 // fields of the columns that are not Sparse
}

// maxRepeated is the largest weight of an example that counts as so many examples, as in online.Learner.Learn.
const maxRepeated = 16

// Observe adds an example to the statistics of its columns. Call it for each example, in order. An example whose weight
// is a whole number up to maxRepeated counts as so many examples, any other as one.
func (s *Standardizer) Observe(e *event.Example, schema *event.Schema) {
	s.begin(schema)
	for i, field := range e.Field {
		if schema.Fields[field].Kind == event.Sparse {
			continue
		}
		if s.fields == nil {
			s.fields = map[uint32]uint16{}
		}
		s.fields[e.Features.Index[i]] = field
	}
	times := 1
	if w := e.Weight; w == math.Trunc(w) && w <= maxRepeated {
		times = int(w)
	}
	for range times {
		s.number++
		s.encoder.Observe(e, s.number, &s.in)
		if s.in.Rescales {
			s.encoder.Rescale(&s.in)
		}
		s.encoder.Review()
	}
}

// begin prepares the Encoder for an example of a Schema.
func (s *Standardizer) begin(schema *event.Schema) {
	if s.encoder != nil {
		s.encoder.Follow(schema)
		return
	}
	s.encoder = encode.New(encode.Settings{
		Standardize: s.Mode, Presence: s.Presence, Named: true, Width: model.ScalerWidth,
		Together: encode.Together{Grouping: model.NewGrouping(schema)},
	}, schema)
}

// maxWithDense is the largest number of entries that Fit may store when it writes zeros explicitly.
const maxWithDense = 1 << 28

// Fit returns the examples d, which were observed, as the Scaler transforms them. It also returns the Scaler with its
// statistics, as a model without outputs. It returns an error if dense columns have too many zeros to store. Observe
// must not be called after Fit.
func (s *Standardizer) Fit(d *Data) (*Data, *model.Linear, error) {
	s.begin(d.Schema)
	scaler, rows := s.encoder.Freeze(func(column uint32) event.Kind { return d.Schema.Fields[s.fields[column]].Kind })
	if dense := len(scaler.Dense); dense*d.Rows() > maxWithDense {
		return nil, nil, fmt.Errorf("standardizing %d columns of %d examples would fill in every zero, %d numbers: take auto or scale", dense, d.Rows(), dense*d.Rows())
	}
	m := &model.Linear{Head: model.Head{Schema: d.Schema, Scaler: scaler, Layout: model.Layout{Width: model.ScalerWidth}}, Rows: rows}
	var x event.Vec
	d, err := d.changed(scaler.Splines, func(raw event.Vec) event.Vec {
		x = m.Standardized(&event.Example{Features: raw}, event.Vec{Index: x.Index[:0], Value: x.Value[:0]})
		return x
	})
	return d, m, err
}
