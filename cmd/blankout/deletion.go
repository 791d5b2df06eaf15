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
	corrupter batch.Corrupter
	losses    *model.Losses
	kinds     [3]deleted // declared, dead, stale
	shown     *deleted   // the kind of the predictions and of all other measures
	answers   *fillReader
	rescale   bool      // whether to predict by rescaling the survivors (--rescale)
	loss      loss.Loss // loss for regression; nil for classification

	n       int       // number of the next example
	x, room event.Vec // room is a buffer for x with more columns
	field   []uint16
	dead    []bool
}

// deleted has the last example after one kind of loss, and the measures of all examples.
type deleted struct {
	kind          model.LossKind
	reader        *fillReader // nil if the loss is declared
	left          event.Example
	scores        []float64
	probabilities []float64
	classes       measure.Classes
	numbers       measure.Numbers
}

// newDeletion returns the deletion for the flags. Answers list the readings that reader doubts.
func newDeletion(m model.Model, reader *fillReader, o *predictFlags, schema *event.Schema) (*deletion, error) {
	d := &deletion{
		model: m, answers: reader, rescale: o.rescale, losses: model.LossesOf(m, o.seed),
		kinds:     [3]deleted{{kind: model.LossDeclared}, {kind: model.LossDead, reader: reader}, {kind: model.LossStale, reader: newFillReader(m)}},
		corrupter: batch.Corrupter{Noise: loss.Dropout{Q: o.remove}, Seed: o.seed, Keep: !o.rescale, Grouping: model.NewGrouping(schema), Splines: m.About().Scaler.Splines},
	}
	for i := range d.kinds {
		d.kinds[i].scores = make([]float64, max(m.About().Outputs, 2))
	}
	if d.shown = &d.kinds[1]; o.declared {
		d.shown = &d.kinds[0]
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

// score deletes features from the next example and returns its scores. It measures the errors of each kind of loss.
func (d *deletion) score(e *event.Example, out []float64) []float64 {
	h := d.model.About()
	d.x = d.model.Standardized(e, event.Vec{Index: d.x.Index[:0], Value: d.x.Value[:0]})
	if x := h.AppendZeros(e, d.x, d.room); x.Len() > d.x.Len() {
		d.x, d.room = x, d.x
	}
	d.field = h.Scaler.FieldsOf(e, d.x.Index, d.field)
	d.dead = d.corrupter.Dead(d.x.Index, d.field, d.n, 0, d.dead)
	for i := range d.kinds {
		k := &d.kinds[i]
		d.losses.Lose(k.kind, e, uint64(d.n), d.x.Index, d.dead, &k.left)
		if k.reader == nil {
			k.scores = d.model.ScoreMissing(d.model.Standardized(&k.left, event.Vec{}), &k.left, k.scores)
		} else {
			k.scores = k.reader.score(&k.left, k.scores)
		}
		d.measure(k, e)
	}
	d.losses.Note(e)
	if d.rescale || d.shown.reader == nil {
		d.answers.doubted = nil // these are of dead features
	}
	if d.rescale {
		d.corrupter.Vec(d.x, d.field, d.n, 0)
		out = d.model.ScoreVec(d.x, out)
	} else {
		out = append(out[:0], d.shown.scores...)
	}
	d.n++
	return out
}

// measure adds the scores of an example to the errors of a kind of loss.
func (d *deletion) measure(k *deleted, e *event.Example) {
	h := d.model.About()
	switch {
	case e.Label < 0:
	case d.loss != nil:
		k.numbers.Add(d.loss, e.Target, e.Weight, h.Value(k.scores[0]), math.NaN(), math.NaN(), 1)
	default:
		k.probabilities = slices.Grow(k.probabilities[:0], len(k.scores)+2)[:max(2, len(k.scores))]
		p := h.Probabilities(k.scores, k.probabilities)
		k.classes.Add(h.Predict(k.scores) == e.Label, e.Weight, measure.LogLoss(p[e.Label]), 1)
	}
}

// received returns the last example e as the model received it: without deleted features, unless it rescales the others.
// The receiver may be nil.
func (d *deletion) received(e *event.Example) *event.Example {
	if d == nil || d.rescale {
		return e
	}
	return &d.shown.left
}

// deletionReport holds the errors of each kind of loss; all are nil if nothing was deleted.
type deletionReport struct {
	Declared *lossReport `json:"declared,omitempty"`
	Dead     *lossReport `json:"dead,omitempty"`
	Stale    *lossReport `json:"stale,omitempty"`
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
	for i, to := range []**lossReport{&r.Declared, &r.Dead, &r.Stale} {
		if k := &d.kinds[i]; d.loss != nil {
			*to = &lossReport{RMSE: measure.Defined(k.numbers.RMSE()), MAE: measure.Defined(k.numbers.MAE())}
		} else {
			*to = &lossReport{Error: measure.Defined(100 * k.classes.Error()), LogLoss: measure.Defined(k.classes.MeanLogLoss())}
		}
	}
	return r
}
