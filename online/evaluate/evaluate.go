// Package evaluate computes the batch objective of a learner's published weights.
package evaluate

import (
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

// Model is the model to evaluate.
type Model struct {
	*model.Linear                  // the published model with its own rows
	Noise         loss.Noise       // noise level that defines the objective
	Loss          loss.Loss        // loss in the unit of Unit
	C             float64          // weight of the losses relative to the ridge, see loss.Cost
	Penalized     bool             // whether the ridge includes the intercepts
	Unit          *regression.Unit // unit of targets; nil for classification
	Classes       []float64        // class weights
	Active        int              // number of outputs in use
	// Dead returns the standardized value of a column when silently missing, for silent Noise. If Dead is nil, the
	// value is 0.
	Dead     func(column uint32) float64
	Decision model.Decision
}

// Objective returns the objective of the batch solvers at the weights of a Model, summed over outputs and the events of
// a Source. The objective is |w|^2 + kappa sum loss, or sum loss without a ridge. Objective also returns the fraction
// of wrong predictions or, for regression, the error measures. A regression objective is in the unit in which targets
// are learned. The result does not depend on the number of threads.
func Objective(ctx context.Context, m Model, s event.Source, threads int) (objective, wrong float64, numbers *measure.NumbersReport, err error) {
	e := &evaluation{Model: m, kappa: loss.Cost(m.Loss, m.C)}
	if math.IsInf(e.kappa, 1) {
		e.kappa = 1
	}
	if err := e.run(ctx, s, threads); err != nil {
		return math.NaN(), math.NaN(), nil, err
	}
	if wrong = e.sum.wrong / e.sum.weight; m.Unit != nil {
		wrong = math.NaN()
		report := e.sum.numbers.Report(m.Unit.Loss(m.Loss))
		numbers = &report
	}
	return e.penalty() + e.sum.loss, wrong, numbers, nil
}

// evaluation sums the losses of complete events, and the errors of predictions.
type evaluation struct {
	Model
	kappa float64
	sum   evaluated
}

type evaluated struct {
	loss, weight, wrong float64
	numbers             measure.Numbers // regression measures
}

// penalty returns the ridge penalty of the weights.
func (e *evaluation) penalty() float64 {
	if math.IsInf(e.C, 1) {
		return 0
	}
	sum := 0.0
	for slot := range e.Rows.Len() {
		_, row := e.Rows.Column(slot)
		for _, w := range row[model.ScalerWidth:][:e.Outputs] {
			sum += w * w
		}
	}
	if e.Penalized {
		for _, b := range e.Intercept[:e.Active] {
			if e.Unit != nil {
				b = e.Unit.Own(b)
			}
			sum += b * b
		}
	}
	return sum
}

// run evaluates the events of a Source with several goroutines. It sums each batch separately, and adds the sums in the
// order of the batches.
// run sums over the events of s. Each thread takes one of the next batches.
func (e *evaluation) run(ctx context.Context, s event.Source, threads int) error {
	workers, batches, sums := make([]*evaluator, threads), make([]event.Batch, threads), make([]evaluated, threads)
	for i := range workers {
		workers[i] = e.worker()
	}
	for {
		n, err := 0, error(nil)
		for ; n < threads && err == nil; n++ {
			err = s.Next(ctx, &batches[n])
		}
		if err != nil {
			n--
		}
		batch.Parallel(threads, n, func(i int) { sums[i] = workers[i].batch(&batches[i]) })
		for i := range sums[:n] {
			e.sum.loss += sums[i].loss
			e.sum.weight += sums[i].weight
			e.sum.wrong += sums[i].wrong
			e.sum.numbers.Merge(&sums[i].numbers)
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("evaluating: %w", err)
		}
	}
}

// evaluator is the scratch memory of one goroutine.
type evaluator struct {
	*evaluation
	silent *loss.Silent // nil for other noise
	noise  loss.Noise   // unbiased noise whose variance of the score is that of the objective
	groups *model.Grouping
	sumsq  []float64  // by output: sum of the squared weights, for noise on absent features
	own    loss.Loss  // loss in the stream's unit
	hats   [][]uint32 // by spline: basis columns that are not 0 when the number is silently missing
	x      event.Vec
	left   event.Example // scratch for Declare
	fields []uint16
	units  []int32
	parts  []float64 // by output and feature: the feature's part of the score, less its part when silently missing
	f      []float64 // scores of the complete event
	below  []float64 // scores of an event whose features are all silently missing
	q      []float64 // variances of the scores, except for noise on absent features
}

func (e *evaluation) worker() *evaluator {
	k := e.Outputs
	w := &evaluator{evaluation: e, own: e.Loss, noise: e.Noise, groups: model.NewGrouping(e.Schema), sumsq: make([]float64, k),
		f: make([]float64, k), below: make([]float64, k), q: make([]float64, k)}
	if e.Unit != nil {
		w.own = e.Unit.Loss(e.Loss)
	}
	if silent, ok := e.Noise.(loss.Silent); ok {
		w.silent, w.noise = &silent, silent.Squares()
	}
	if splines := e.Scaler.Splines; splines != nil {
		w.hats = make([][]uint32, len(splines.Columns))
		for i := range w.hats {
			for knot := range splines.Knots[i] {
				if hat := splines.BasisColumn(i, knot); w.dead(hat) != 0 {
					w.hats[i] = append(w.hats[i], hat)
				}
			}
		}
	}
	for slot := range e.Rows.Len() {
		_, row := e.Rows.Column(slot)
		for k, v := range row[model.ScalerWidth:][:k] {
			w.sumsq[k] += v * v
		}
	}
	return w
}

// dead returns the standardized value of a column when silently missing, and 0 if nothing is.
func (w *evaluator) dead(column uint32) float64 {
	if w.silent == nil || w.Dead == nil {
		return 0
	}
	return w.Dead(column)
}

// gather computes f, below and q of an event. A number and its basis columns are one feature.
func (w *evaluator) gather(e *event.Example) {
	w.x = w.Standardized(e, event.Vec{Index: w.x.Index[:0], Value: w.x.Value[:0]})
	copy(w.f, w.Intercept)
	if w.Unit != nil {
		w.f[0] = w.Unit.Own(w.f[0])
	}
	if w.Cosines != nil {
		w.AddCosines(w.x, model.MissingHandling{}, w.f)
	}
	copy(w.below, w.f)
	clear(w.q)
	_, c1, _ := w.noise.Coefficients()
	features, _ := slices.BinarySearch(w.x.Index, model.FirstBasisColumn)
	w.parts = slices.Grow(w.parts[:0], w.Outputs*features)[:w.Outputs*features]
	clear(w.parts)
	add := func(column uint32, x float64, feature int) {
		row, z := w.Rows.Row(column), w.dead(column)
		if row == nil {
			return
		}
		for k, v := range row[model.ScalerWidth:][:w.Outputs] {
			w.f[k] += v * x
			w.below[k] += v * z
			w.parts[k*features+feature] += v * (x - z)
			w.q[k] += c1 * x * v * v
		}
	}
	splines := w.Scaler.Splines
	for i, column := range w.x.Index {
		at := i
		if i >= features {
			at, _ = slices.BinarySearch(w.x.Index[:features], splines.Source(column))
		} else if spline := splines.Of(column); spline >= 0 {
			for _, hat := range w.hats[spline] {
				if _, has := slices.BinarySearch(w.x.Index, hat); !has {
					add(hat, 0, i)
				}
			}
		}
		add(column, w.x.Value[i], at)
	}
	w.fields, w.units = w.Scaler.FieldsOf(e, w.x.Index[:features], w.fields), w.units[:0]
	for i, column := range w.x.Index[:features] {
		id := uint16(0)
		if i < len(w.fields) {
			id = w.fields[i]
		}
		w.units = append(w.units, w.groups.Of(id, column))
	}
	for k := range w.q {
		for _, part := range w.groups.Covariances(loss.AsGroups(w.noise), w.units, w.parts[k*features:][:features]) {
			w.q[k] += part
		}
	}
}

func (w *evaluator) batch(b *event.Batch) (sum evaluated) {
	c0, _, _ := w.noise.Coefficients()
	for i := range b.Examples {
		e := w.Declare(&b.Examples[i], &w.left)
		if e.Label == event.Unlabeled || e.Weight == 0 || !e.Usable() {
			continue
		}
		w.gather(e)
		for k := range w.Active {
			y := rows.Y(e.Label, k, w.Outputs)
			if w.Unit != nil {
				y = w.Unit.Standard(w.Unit.Clip(e.Target))
			}
			value := 0.0
			if w.silent != nil {
				value, _, _, _ = w.silent.At(w.Loss, y, w.f[k]-w.below[k], w.below[k], w.q[k])
			} else {
				value, _, _ = w.Loss.At(y, w.f[k], w.q[k]+c0*w.sumsq[k])
			}
			sum.loss += w.kappa * e.Weight * w.Classes[e.Label] * value
		}
		sum.weight += e.Weight
		if w.Unit != nil {
			value, v := w.Unit.Value(w.f[0]), model.MissingVariance{}
			if w.Handling(e).Policy() != "" {
				value, v = w.Value(w.Score(e, w.f)[0]), model.ScoreVariance(w.Linear, e)
			}
			low, high := w.Interval(value, v)
			sum.numbers.Add(w.own, e.Target, e.Weight, value, low, high, 1)
			continue
		}
		if w.Handling(e).Policy() != "" {
			w.Score(e, w.f)
		}
		if w.Decision.Predict(w.f) != e.Label {
			sum.wrong += e.Weight
		}
	}
	return sum
}
