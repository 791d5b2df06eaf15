package online

// This file finds out what the loss of each field would cost.

import (
	"slices"

	"blankout/internal/event"
	"blankout/online/watch"
)

// costing is room for the costs of the fields of an event.
type costing struct {
	field   []uint16 // of each feature
	list    []uint16 // fields that the event has
	factors [][2]int // see event.Schema.Factors
	base    []float64
	out     []float64
	byClass []float64
}

// sampleCosts answers an event of a class without each of its fields, once for each: what the model says to an event in which the field
// is null.
func (l *Learner) sampleCosts(e *event.Example) {
	if !l.encoder.Fields.Named || !costs(l.events) {
		return
	}
	c, m, in, schema := &l.room.costing, &l.masked, &l.room.in, l.encoder.Schema()
	c.fieldsOf(l, min(len(schema.Fields), watch.MostFields))
	if len(c.field) != in.Features() {
		return
	}
	active := l.levels.Active()
	c.base, c.out = slices.Grow(c.base[:0], l.levels.Outputs)[:l.levels.Outputs], slices.Grow(c.out[:0], l.levels.Outputs)[:l.levels.Outputs]
	l.intercepts(l.encoder.Intercepts, c.out, m.scored.lanes)
	l.mixture.Score(m.scored.lanes, in.Range, active, c.base)
	wrong := func(lanes []float64, scale float64) float64 {
		l.mixture.Score(lanes, in.Range, active, c.out)
		for k, b := range c.base[:active] {
			c.out[k] = b + scale*(c.out[k]-b)
		}
		if l.monitors.Decision().Predict(l.outputs.byClass(c.out, &c.byClass)) != e.Label {
			return 1
		}
		return 0
	}
	with, lack := wrong(l.room.scored.lanes, in.Scale), l.encoder.Fields.All(schema.Fields)
	for _, id := range c.list {
		m.dead = m.dead[:0]
		for _, field := range c.field {
			m.dead = append(m.dead, c.dies(field, id))
		}
		in.Without(m.dead, &m.left)
		less := lack
		if less.Null++; schema.Fields[id].Kind.Named() {
			less.Named--
		} else {
			less.Silent--
		}
		scale := l.encoder.Fields.Missing.Scale(less)
		if l.imputer.Covariance() != nil { // what is imputed counts as the mean
			scale = 1 + (scale-1)*(1-l.encoder.Fields.Missing.Fills(less))
		}
		l.score(&m.left, false, &m.scored)
		l.monitors.Cost(id, with, wrong(m.scored.lanes, scale))
	}
}

// fieldsOf finds the fields of the event at hand, those of products as their factors.
func (c *costing) fieldsOf(l *Learner, fields int) {
	in, schema := &l.room.in, l.encoder.Schema()
	if len(c.factors) != len(schema.Fields) {
		c.factors = schema.Factors()
	}
	c.field, c.list = l.encoder.Scaling.Scaler.FieldsOf(in.Event, in.Columns[:in.Features()], c.field[:0]), c.list[:0]
	for _, id := range c.field {
		for _, factor := range c.factors[id] {
			if factor > 0 && factor < fields && !slices.Contains(c.list, uint16(factor)) {
				c.list = append(c.list, uint16(factor))
			}
		}
	}
	if n := len(c.list); n > mostCosts {
		from := int(in.Number) % n
		c.list = append(c.list, c.list[:from]...)[from:][:mostCosts]
	}
}

// mostCosts bounds the fields that one event is answered without.
const mostCosts = 8

// dies says whether what is of a field dies with another one: a product does with either factor.
func (c *costing) dies(field, with uint16) bool {
	f := c.factors[field]
	return f[0] == int(with) || f[1] == int(with)
}
