package online

// This file evaluates the published model: it computes the objective of the batch solvers at its weights.

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/regression"
	"blankout/online/rows"
)

// Evaluate returns the objective of the batch solvers at the weights of the published model, summed over outputs and the
// events of a Source. The objective is |w|^2 + kappa sum loss, or sum loss without a ridge, for the noise of the level
// with the largest mixture weight. Evaluate also returns the fraction of wrong predictions or, for regression, the error
// measures. A regression objective is in the unit in which targets are learned. The result does not depend on the number
// of threads.
func (l *Learner) Evaluate(ctx context.Context, s event.Source, threads int) (objective, wrong float64, numbers *measure.NumbersReport, err error) {
	n := l.encoder
	l.predictor.experts.Publish(n.Table)
	e := evaluation{
		Linear: l.model(n.Schema(), n.Table).Compact().WithSeparateOutputs(), noise: l.predictor.noise(0), loss: l.set.levels.Loss, c: l.config.C, penalized: l.config.Intercept == "penalized",
		classes: l.classes, active: l.outputs.active(l.levels.Active()), dead: n.ReadsWhenDead, chunk: 480_000,
	}
	if l.targets != nil {
		e.unit = &l.targets.unit
	}
	return e.objective(ctx, s, threads)
}

// evaluation sums the losses of complete events, and the errors of predictions.
type evaluation struct {
	*model.Linear                             // the published model with its own rows
	noise         loss.Noise                  // noise level that defines the objective
	loss          loss.Loss                   // loss in the unit of targets
	c             float64                     // weight of the losses relative to the ridge, see loss.Cost
	penalized     bool                        // whether the ridge includes the intercepts
	unit          *regression.Unit            // unit of targets; nil for classification
	classes       []float64                   // class weights
	active        int                         // number of outputs in use
	dead          func(column uint32) float64 // standardized value of a column when silently missing; nil if it is 0
	chunk         int                         // number of events and features in a chunk, which bounds the memory
}

// chunk has consecutive events and their sums.
type chunk struct {
	batches []event.Batch // memory for batches, of which the first n are in use
	n       int

	// These have the labeled events, by row of data.
	data     batch.Builder
	weights  []float64   // event weights times class weights
	measured []bool      // whether an event has been measured, because it has missing fields
	cosines  [][]float64 // the part of the cosines in the scores, by output; nil for none

	loss    float64 // kappa times the sum of the losses
	weight  float64
	wrong   float64         // weight of the wrong predictions
	numbers measure.Numbers // regression measures
}

// read reads the events of a chunk, until it has this many events and features. It returns io.EOF after the last event.
func (c *chunk) read(ctx context.Context, s event.Source, most int) error {
	c.n = 0
	for entries := 0; entries < most; {
		if c.n == len(c.batches) {
			c.batches = append(c.batches, event.Batch{})
		}
		if err := s.Next(ctx, &c.batches[c.n]); err != nil {
			return err
		}
		for i := range c.batches[c.n].Examples {
			entries += 1 + c.batches[c.n].Examples[i].Features.Len()
		}
		c.n++
	}
	return nil
}

// objective returns the results of Evaluate.
func (e *evaluation) objective(ctx context.Context, s event.Source, threads int) (objective, wrong float64, numbers *measure.NumbersReport, err error) {
	var all chunk
	chunks := make([]chunk, threads)
	for err == nil {
		n := 0
		for n < threads && err == nil {
			err = chunks[n].read(ctx, s, e.chunk)
			n++
		}
		failed := batch.Each(ctx, threads, n, func(_ context.Context, i int) error { return e.evaluate(&chunks[i]) })
		if failed != nil {
			err = failed
		}
		for i := range chunks[:n] {
			c := &chunks[i]
			all.loss, all.weight, all.wrong = all.loss+c.loss, all.weight+c.weight, all.wrong+c.wrong
			all.numbers.Merge(&c.numbers)
		}
	}
	if err != io.EOF {
		return math.NaN(), math.NaN(), nil, fmt.Errorf("evaluating: %w", err)
	}
	if wrong = all.wrong / all.weight; e.unit != nil {
		wrong = math.NaN()
		report := all.numbers.Report(e.unit.Loss(e.loss))
		numbers = &report
	}
	return e.penalty() + all.loss, wrong, numbers, nil
}

// intercepts returns the intercepts in the unit of targets.
func (e *evaluation) intercepts() []float64 {
	if e.unit != nil {
		return []float64{e.unit.Own(e.Intercept[0])}
	}
	return e.Intercept
}

// penalty returns the ridge penalty of the weights.
func (e *evaluation) penalty() float64 {
	if math.IsInf(e.c, 1) {
		return 0
	}
	norm := e.Norm() / cmp.Or(e.Layout.Scale, 1)
	sum := norm * norm
	if e.penalized {
		for _, b := range e.intercepts()[:e.active] {
			sum += b * b
		}
	}
	return sum
}

// evaluate computes the sums of a chunk.
func (e *evaluation) evaluate(c *chunk) error {
	*c = chunk{batches: c.batches, n: c.n, data: batch.Builder{Splines: e.Scaler.Splines}, cosines: make([][]float64, e.Outputs)}
	for _, b := range c.batches[:c.n] {
		if err := e.add(c, b.Examples); err != nil {
			return err
		}
	}
	if len(c.weights) == 0 {
		return nil
	}
	d, err := e.data(c)
	if err != nil {
		return err
	}
	w := e.parameters(d)
	scores := make([]float64, e.Outputs)
	for i, done := range c.measured {
		if done {
			continue
		}
		for k := range scores {
			if scores[k] = d.Row(i).Dot(w[k]) + w[k][d.Columns()]; c.cosines[k] != nil {
				scores[k] += c.cosines[k][i]
			}
		}
		if e.unit != nil {
			scores[0] = e.unit.Score(scores[0])
		}
		e.measure(c, d.Label(i), d.Target(i), d.Weight(i), scores, model.MissingVariance{})
	}
	if slices.Max(c.weights) == 0 {
		return nil
	}
	p := batch.Problem{Data: d, Y: make([]float64, d.Rows()), Weight: c.weights, Loss: e.loss, Noise: e.noise, Kappa: 1,
		Intercept: batch.FreeIntercept, Penalty: batch.Ridge(d.Columns(), 0, batch.FreeIntercept)}
	if !math.IsInf(e.c, 1) {
		p.Kappa = loss.Cost(e.loss, e.c)
	}
	for k := range e.active {
		for i := range p.Y {
			if p.Y[i] = rows.Y(d.Label(i), k, e.Outputs); e.unit != nil {
				p.Y[i] = e.unit.Standard(e.unit.Clip(d.Target(i)))
			}
		}
		o, err := batch.NewExpected(p)
		if err != nil {
			return err
		}
		c.loss += batch.Dot(o.Weights(), o.Losses(w[k], c.cosines[k]))
	}
	return nil
}

// add adds the labeled events to a chunk. It measures the predictions for events with missing fields.
func (e *evaluation) add(c *chunk, examples []event.Example) error {
	var room event.Example
	var x event.Vec
	scores := make([]float64, e.Outputs)
	silent, _ := e.noise.(loss.Silent)
	grouped := loss.IsGrouped(e.noise) || silent.Groups
	for i := range examples {
		ex := e.Declare(&examples[i], &room)
		if ex.Label == event.Unlabeled || ex.Weight == 0 || !ex.Usable() {
			continue
		}
		x = e.Standardized(ex, event.Vec{Index: x.Index[:0], Value: x.Value[:0]})
		missing := e.Handling(ex).Policy() != ""
		if missing {
			e.measure(c, ex.Label, ex.Target, ex.Weight, e.Score(ex, scores), model.ScoreVariance(e.Linear, ex))
		}
		if c.measured = append(c.measured, missing); grouped {
			c.data.Fields(ex)
		}
		c.weights = append(c.weights, ex.Weight*e.classes[ex.Label])
		if err := c.data.Add(&event.Example{Features: x, Label: ex.Label, Target: ex.Target, Weight: ex.Weight, Offset: ex.Offset}); err != nil {
			return err
		}
		if e.Cosines != nil {
			clear(scores)
			e.AddCosines(x, model.MissingHandling{}, scores)
			for k, f := range scores {
				c.cosines[k] = append(c.cosines[k], f)
			}
		}
	}
	return nil
}

// data returns the events of a chunk, for the noise.
func (e *evaluation) data(c *chunk) (*batch.Data, error) {
	if c0, _, _ := e.noise.Coefficients(); c0 > 0 || e.Scaler.Splines != nil {
		// An event of weight 0 has all columns, because constant noise also acts on absent features, and because a
		// spline column that no number has may be one of a silently missing number.
		var all event.Example
		for slot := range e.Rows.Len() {
			column, _ := e.Rows.Column(slot)
			all.Features.Index = append(all.Features.Index, column)
		}
		slices.Sort(all.Features.Index)
		all.Features.Value = make([]float64, e.Rows.Len())
		c.weights = append(c.weights, 0)
		if err := c.data.Add(&all); err != nil {
			return nil, err
		}
	}
	schema := e.Schema
	if model.NewGrouping(schema).Check() != nil {
		schema = schema.Clone()
		schema.ColumnGroups = &event.ColumnGroups{Every: math.MaxInt32} // without groups, all features are in one group
	}
	d := c.data.Data(schema)
	if loss.IsSilent(e.noise) && e.dead != nil {
		return d.WithDead(e.dead)
	}
	return d, nil
}

// parameters returns the weights of the columns of d, and then the intercept, by output and in the unit of targets.
func (e *evaluation) parameters(d *batch.Data) [][]float64 {
	w := make([][]float64, e.Outputs)
	for k, b := range e.intercepts() {
		w[k] = make([]float64, d.Columns()+1)
		w[k][d.Columns()] = b
	}
	for column := range d.Columns() {
		if row := e.Rows.Row(d.Column(column)); row != nil {
			for k, v := range row[e.Layout.Weight:][:e.Outputs] {
				w[k][column] = v
			}
		}
	}
	return w
}

// measure adds the prediction for an event to the sums of a chunk.
func (e *evaluation) measure(c *chunk, label int, target, weight float64, scores []float64, missing model.MissingVariance) {
	if c.weight += weight; e.unit != nil {
		value := e.Value(scores[0])
		low, high := e.Interval(value, missing)
		c.numbers.Add(e.unit.Loss(e.loss), target, weight, value, low, high, 1)
	} else if e.Predict(scores) != label {
		c.wrong += weight
	}
}
