package online

// This file finds out what the death of each field would cost.

import (
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/rows"
	"blankout/online/watch"
)

// One of 2^costBits events tells what its fields' death would cost.
const costBits = 5

// deleting is the scratch memory of Learner.costs.
type deleting struct {
	at    []int32   // by field, 1 + its place in list
	list  []uint16  // of the fields of the event
	part  []float64 // by place and output, their parts of the scores
	field []uint16  // see event.Example.FieldsOf
	out   []float64
	rest  []float64 // the scores with everything
	// factors are those of fields, see event.Schema.Factors.
	factors [][2]int
	found   []fieldCost
}

// fieldCost is how an event was answered, and would have been without a field: 1 is wrong.
type fieldCost struct {
	field         uint16
	with, without float64
}

// costs finds out, for each field of the event at hand, what the event would be answered
// without it: what the model answers to an event in which the field is null.
func (l *answering) costs(e *event.Example, label int) []fieldCost {
	if !l.fields.Named || !watch.Sampled(l.events, costBits) {
		return nil
	}
	now, s := &l.now, &l.deleting
	s.found = s.found[:0]
	fields := min(len(l.scaling.Kinds), watch.MostFields)
	if len(s.out) == 0 {
		s.out, s.rest = make([]float64, l.k), make([]float64, l.k)
	}
	for len(s.at) < fields {
		s.at = append(s.at, 0)
	}
	list, field := l.features(), e.Field
	if len(list) != len(field) { // columns were filled in
		if s.field = l.scaling.Scaler.FieldsOf(e, l.scaling.Filled.Index, s.field); len(s.field) != len(list) {
			return nil
		}
		field = s.field
	}
	mix := l.mixed(l.fields.Range)
	l.sumTerms()
	s.list, s.part = s.list[:0], s.part[:0]
	for i, id := range field {
		if int(id) >= fields {
			continue
		}
		if kind := l.scaling.Kinds[id]; kind != event.Cross {
			if id != 0 {
				l.deleteFeature(id, i, mix)
			}
			continue
		}
		if int(id) >= len(s.factors) {
			s.factors = l.schema.Factors()
		}
		f := s.factors[id] // a product dies with either
		for side, factor := range f {
			if factor > 0 && factor < fields && (side == 0 || factor != f[0]) {
				l.deleteFeature(uint16(factor), i, mix)
			}
		}
	}
	base, lack, scale := l.base, l.fields.All(l.schema.Fields), l.fields.Scale
	l.interceptsOf(mix, base)
	l.mixOf(mix, now.published, s.rest)
	answer := func(part []float64, scale float64) float64 {
		for k := range s.out {
			if s.out[k] = rows.NoClass; k < l.active {
				g := s.rest[k] - base[k]
				if part != nil {
					g -= part[k]
				}
				s.out[k] = base[k] + scale*g
			}
		}
		if l.decision().Predict(l.byClass(s.out)) != label {
			return 1
		}
		return 0
	}
	with := answer(nil, scale)
	for i, id := range s.list {
		s.at[id] = 0
		less := lack
		if less.Null++; l.scaling.Kinds[id].Named() {
			less.Named--
		} else {
			less.Silent--
		}
		without := answer(s.part[i*l.k:(i+1)*l.k], l.scaleOf(less))
		s.found = append(s.found, fieldCost{id, with, without})
	}
	return s.found
}

// scaleOf returns what the features of an event that lacks k are multiplied by, where what is
// filled in counts as the mean.
func (l *answering) scaleOf(k model.Lack) float64 {
	scale := l.fields.Missing.Scale(k)
	if l.filling.Covariance != nil {
		scale = 1 + (scale-1)*(1-l.fields.Missing.Fills(k))
	}
	return scale
}

// deleteFeature adds feature i of the event at hand to the part of a field.
func (l *answering) deleteFeature(id uint16, i int, mix []float64) {
	if l.groups != nil {
		i = l.groups.Row(i)
	}
	s, row, x := &l.deleting, l.now.step.Rows[i], l.now.step.X[i]
	if s.at[id] == 0 {
		s.list = append(s.list, id)
		s.at[id] = int32(len(s.list))
		for range l.k {
			s.part = append(s.part, 0)
		}
	}
	part := s.part[(int(s.at[id])-1)*l.k:]
	l.addMix(part, row, mix, x)
	for _, share := range mix[len(l.levels):] {
		for k, x := range l.second.terms(i)[:l.active] {
			part[k] += share * x
		}
	}
}
