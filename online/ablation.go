package online

// This file measures the ablation cost of each field: how much the error grows when the field is missing.

import (
	"slices"

	"blankout/online/encode"
	"blankout/online/health"
)

// ablation measures ablation costs. The fields after monitors are scratch memory.
type ablation struct {
	*predictor
	monitors *health.Monitors
	field    []uint16 // field of each feature
	list     []uint16 // fields of the event, as candidates for removal
	factors  [][2]int // see event.Schema.Factors
	base     []float64
	out      []float64
	byClass  []float64
	dead     []bool
	left     encode.Input
	scored   scored
}

func newAblation(x *predictor, monitors *health.Monitors) ablation {
	k := x.levels.Outputs
	return ablation{predictor: x, monitors: monitors, base: make([]float64, k), out: make([]float64, k), scored: x.newScored()}
}

// maxAblations is the largest number of fields of one event that measure tests. measure removes one field at a time.
const maxAblations = 8

// measure predicts a labeled event once without each of its fields, as if that field were null, and reports the errors
// to the monitors. It skips most events (see ablates) and events without named fields.
func (a *ablation) measure(e *labeled) {
	if !a.encoder.Fields.Named || !ablates(e.number) {
		return
	}
	schema := a.encoder.Schema()
	a.findFields(e.in, min(len(schema.Fields), health.MostFields))
	if len(a.field) != e.in.Features() {
		return
	}
	a.intercepts(a.out, a.scored.components)
	a.mixture.Score(a.scored.components, e.in.Range, a.levels.Active(), a.base)
	a.cosines.take(e.cosines)
	with, all := a.wrong(e, e.scored.components, e.in.Scale), a.encoder.Fields.All(e.in.Event, schema.Fields)
	for _, id := range a.list {
		a.dead = a.dead[:0]
		for _, field := range a.field {
			a.dead = append(a.dead, a.dies(field, id))
		}
		e.in.Mask(a.dead, &a.left)
		lack := all
		if lack.Null++; schema.Fields[id].Kind.Named() {
			lack.Named--
		} else {
			lack.AlwaysPresent--
		}
		scale := a.encoder.Fields.Missing.Scale(lack)
		if a.imputer.Covariance() != nil { // an imputed value counts like the column's mean
			scale = 1 + (scale-1)*(1-a.encoder.Fields.Missing.ImputeWeight(lack))
		}
		a.score(&a.left, false, &a.scored)
		a.readCosines(&a.left, false, &imputed{})
		a.monitors.Cost(id, with, a.wrong(e, a.scored.components, scale))
	}
}

// wrong returns 1 if the predicted class of e is not its label, else 0. components holds the scores of the mixed
// models. wrong multiplies the contribution of the features to the scores by scale, which makes up for missing
// features.
func (a *ablation) wrong(e *labeled, components []float64, scale float64) float64 {
	active := a.levels.Active()
	a.mixture.Score(components, e.in.Range, active, a.out)
	for k, b := range a.base[:active] {
		a.out[k] = b + scale*(a.out[k]-b)
	}
	a.cosines.addTo(a.out)
	if a.monitors.Decision().Predict(a.outputs.byClass(a.out, &a.byClass)) != e.Label {
		return 1
	}
	return 0
}

// findFields sets list to at most maxAblations fields of an event. If the event has more fields, the choice rotates
// with the event's number. The factors of a product of two fields are listed in place of the product.
func (a *ablation) findFields(in *encode.Input, fields int) {
	schema := a.encoder.Schema()
	if len(a.factors) != len(schema.Fields) {
		a.factors = schema.Factors()
	}
	a.field, a.list = a.encoder.Scaling.Scaler.FieldsOf(in.Event, in.Columns[:in.Features()], a.field[:0]), a.list[:0]
	for _, id := range a.field {
		for _, factor := range a.factors[id] {
			if factor > 0 && factor < fields && !slices.Contains(a.list, uint16(factor)) {
				a.list = append(a.list, uint16(factor))
			}
		}
	}
	if n := len(a.list); n > maxAblations {
		from := int(in.Number) % n
		a.list = append(a.list, a.list[:from]...)[from:][:maxAblations]
	}
}

// dies reports whether the features of field are missing if the field with index missing is missing. A product of two
// fields is missing if either factor is.
func (a *ablation) dies(field, missing uint16) bool {
	f := a.factors[field]
	return f[0] == int(missing) || f[1] == int(missing)
}
