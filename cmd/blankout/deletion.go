package main

// This file deletes features at random for the command predict.

import (
	"fmt"
	"math"
	"slices"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// deletion scores examples with randomly deleted features. The masks depend only on the seed and the number of the
// example. They equal the masks of the first copies that the command corrupt writes.
type deletion struct {
	model     model.Model
	reader    *fillReader // scores examples with silent losses
	corrupter batch.Corrupter
	declare   bool // whether predictions treat deleted features as declared missing, not as silently absent
	rescale   bool // whether to predict by rescaling the survivors (--rescale)
	policies  map[model.MissingPolicy]int
	loss      loss.Loss // loss for regression; nil for classification

	n                int       // number of the next example
	x, room          event.Vec // room is a buffer for x with more columns
	field            []uint16
	dead             []bool
	declared, silent event.Example // the example after deletion, declared and silent
	scores           []float64
	probabilities    []float64
	classes          [2]measure.Classes // measures for declared and for silent loss
	numbers          [2]measure.Numbers
}

// newDeletion returns the deletion for the flags. It counts its predictions in policies, by missing policy.
func newDeletion(m model.Model, reader *fillReader, o *predictFlags, schema *event.Schema, policies map[model.MissingPolicy]int) (*deletion, error) {
	d := &deletion{
		model: m, reader: reader, declare: o.declared, rescale: o.rescale, policies: policies, scores: make([]float64, max(m.About().Outputs, 2)),
		corrupter: batch.Corrupter{Noise: loss.Dropout{Q: o.remove}, Seed: o.seed, Keep: !o.rescale, Grouping: model.NewGrouping(schema), Splines: m.About().Scaler.Splines},
	}
	if o.groups > 0 {
		d.corrupter.Noise = loss.GroupDropout{Q: o.remove, Groups: o.groups}
		if err := d.corrupter.Grouping.Check(); err != nil {
			return nil, usageError{fmt.Errorf("--delete-groups: %w", err)}
		}
	}
	if name := m.About().Loss; loss.IsRegression(name) {
		var err error
		if d.loss, err = loss.Parse(name); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// score deletes features from the next example and returns its scores. It measures the errors for declared and for
// silent loss.
func (d *deletion) score(e *event.Example, out []float64) []float64 {
	h := d.model.About()
	d.x = d.model.Standardized(e, event.Vec{Index: d.x.Index[:0], Value: d.x.Value[:0]})
	if x := d.model.About().AppendZeros(e, d.x, d.room); x.Len() > d.x.Len() {
		d.x, d.room = x, d.x
	}
	d.field = h.Scaler.FieldsOf(e, d.x.Index, d.field)
	d.dead = d.corrupter.Dead(d.x.Index, d.field, d.n, 0, d.dead)
	h.Delete(e, d.x, d.field, d.dead, true, &d.declared)
	model.DeleteSilently(d.model, e, d.x.Index, d.dead, &d.silent)
	for i, score := range []func([]float64) []float64{
		func(to []float64) []float64 { return d.model.ScoreMissing(d.declared.Features, &d.declared, to) },
		func(to []float64) []float64 { return d.reader.score(&d.silent, to) },
	} {
		scores := score(d.scores)
		d.measure(i, e, scores)
		if !d.rescale && d.declare == (i == 0) {
			out = append(out[:0], scores...)
		}
	}
	if d.declare || d.rescale {
		d.reader.doubted = nil // these are of the silent loss
	}
	if d.rescale {
		d.corrupter.Vec(d.x, d.field, d.n, 0)
		out = d.model.ScoreVec(d.x, out)
	} else if policy := h.Handling(d.left()).Policy(); policy != "" {
		d.policies[policy]++
	}
	d.n++
	return out
}

// measure adds the scores of an example to the errors, for declared loss (i = 0) or silent loss (i = 1).
func (d *deletion) measure(i int, e *event.Example, scores []float64) {
	h := d.model.About()
	switch {
	case e.Label < 0:
	case d.loss != nil:
		d.numbers[i].Add(d.loss, e.Target, e.Weight, h.Value(scores[0]), math.NaN(), math.NaN(), 1)
	default:
		d.probabilities = slices.Grow(d.probabilities[:0], len(scores)+2)[:max(2, len(scores))]
		p := h.Probabilities(scores, d.probabilities)
		d.classes[i].Add(h.Predict(scores) == e.Label, e.Weight, measure.LogLoss(p[e.Label]), 1)
	}
}

// left returns the last example after deletion, as the model received it.
func (d *deletion) left() *event.Example {
	if d.declare {
		return &d.declared
	}
	return &d.silent
}

// missingFields returns the missing fields of the last example, as the model received it.
func (d *deletion) missingFields() missingFields {
	if d.rescale {
		return missingFields{answer: d.model.About().Handling, by: func(e *event.Example) model.MissingVariance { return model.ScoreVariance(d.model, e) }}
	}
	return missingFields{
		answer: func(*event.Example) model.MissingHandling { return d.model.About().Handling(d.left()) },
		by: func(*event.Example) model.MissingVariance {
			if linear, ok := d.model.(*model.Linear); ok && d.declare {
				return linear.VarianceMissing(d.declared.Features, &d.declared)
			}
			return model.ScoreVariance(d.model, d.left())
		},
	}
}

// deletionReport holds the errors for declared and for silent loss; both are nil if nothing was deleted.
type deletionReport struct {
	Declared *lossReport `json:"declared,omitempty"`
	Silent   *lossReport `json:"silent,omitempty"`
}

// lossReport holds error and log-loss for classification, or RMSE and MAE for regression.
type lossReport struct {
	Error   *float64 `json:"error,omitempty"`    // error in percent
	LogLoss *float64 `json:"log_loss,omitempty"` // log-loss in nats
	RMSE    *float64 `json:"rmse,omitempty"`
	MAE     *float64 `json:"mae,omitempty"`
}

// report returns the errors. It returns an empty report for a nil deletion.
func (d *deletion) report() (r deletionReport) {
	if d == nil {
		return r
	}
	for i, to := range []**lossReport{&r.Declared, &r.Silent} {
		if d.loss != nil {
			*to = &lossReport{RMSE: measure.Defined(d.numbers[i].RMSE()), MAE: measure.Defined(d.numbers[i].MAE())}
		} else {
			*to = &lossReport{Error: measure.Defined(100 * d.classes[i].Error()), LogLoss: measure.Defined(d.classes[i].MeanLogLoss())}
		}
	}
	return r
}
