package online

// This file evaluates the published model: it computes the objective of the batch solvers at its weights.

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

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
		bound: l.levels.Grouped() || n.Scaling.Scaler.Splines != nil, classes: l.classes, active: l.outputs.active(l.levels.Active()), decision: l.monitors.Decision(), dead: n.ReadsWhenDead,
	}
	if l.targets != nil {
		e.unit = &l.targets.unit
	}
	return e.objective(ctx, s, threads)
}

// evaluation sums the losses of complete events, and the errors of predictions.
type evaluation struct {
	*model.Linear                  // the published model with its own rows
	noise         loss.Noise       // noise level that defines the objective
	loss          loss.Loss        // loss in the unit of targets
	c             float64          // weight of the losses relative to the ridge, see loss.Cost
	penalized     bool             // whether the ridge includes the intercepts
	bound         bool             // whether features that are dropped together, and splines, count as one
	unit          *regression.Unit // unit of targets; nil for classification
	classes       []float64        // class weights
	active        int              // number of outputs in use
	// dead returns the standardized value of a column when silently missing, for silent noise. If dead is nil, the value
	// is 0.
	dead     func(column uint32) float64
	decision model.Decision

	kappa float64
	sum   evaluated
}

type evaluated struct {
	loss, weight, wrong float64
	numbers             measure.Numbers // regression measures
}

// objective returns the results of Evaluate.
func (e evaluation) objective(ctx context.Context, s event.Source, threads int) (objective, wrong float64, numbers *measure.NumbersReport, err error) {
	if e.kappa = loss.Cost(e.loss, e.c); math.IsInf(e.kappa, 1) {
		e.kappa = 1
	}
	if err := e.run(ctx, s, threads); err != nil {
		return math.NaN(), math.NaN(), nil, err
	}
	if wrong = e.sum.wrong / e.sum.weight; e.unit != nil {
		wrong = math.NaN()
		report := e.sum.numbers.Report(e.unit.Loss(e.loss))
		numbers = &report
	}
	return e.penalty() + e.sum.loss, wrong, numbers, nil
}

// penalty returns the ridge penalty of the weights.
func (e *evaluation) penalty() float64 {
	if math.IsInf(e.c, 1) {
		return 0
	}
	sum := 0.0
	for slot := range e.Rows.Len() {
		_, row := e.Rows.Column(slot)
		for _, w := range row[model.ScalerWidth:][:e.Outputs] {
			sum += w * w
		}
	}
	if e.penalized {
		for _, b := range e.Intercept[:e.active] {
			if e.unit != nil {
				b = e.unit.Own(b)
			}
			sum += b * b
		}
	}
	return sum
}

// run evaluates the events of a Source with several goroutines. It sums each batch separately, and adds the sums in the
// order of the batches.
func (e *evaluation) run(ctx context.Context, s event.Source, threads int) error {
	type work struct {
		batch *event.Batch
		sum   *evaluated
	}
	todo, free := make(chan work, 2*threads), make(chan *event.Batch, 2*threads)
	for range cap(free) {
		free <- &event.Batch{}
	}
	var workers sync.WaitGroup
	for range threads {
		workers.Go(func() {
			w := e.worker()
			for x := range todo {
				*x.sum = w.batch(x.batch)
				free <- x.batch
			}
		})
	}
	var sums []*evaluated
	var err error
	for {
		b := <-free
		if err = s.Next(ctx, b); err != nil {
			break
		}
		sums = append(sums, &evaluated{})
		todo <- work{b, sums[len(sums)-1]}
	}
	close(todo)
	workers.Wait()
	if err != io.EOF {
		return fmt.Errorf("evaluating: %w", err)
	}
	for _, s := range sums {
		e.sum.loss += s.loss
		e.sum.weight += s.weight
		e.sum.wrong += s.wrong
		e.sum.numbers.Merge(&s.numbers)
	}
	return nil
}

// evaluator is the scratch memory of one goroutine.
type evaluator struct {
	*evaluation
	silent     *loss.Silent // nil for other noise
	gone       []float64    // value of each feature when silently missing; nil if all are 0
	below      []float64    // by output: score of an event whose features are all silently missing
	basis      *deadBasis
	c0, c1, c2 float64
	sumsq      []float64
	own        loss.Loss // loss in the stream's unit
	scaler     model.Scaler
	rows       rows.Event
	withDense  event.Vec
	left       event.Example // scratch for Declare
	columns    []uint32
	places     []uint32
	groups     *rows.Groups // nil if no features are dropped together
	f, lag, q  []float64
}

func (e *evaluation) worker() *evaluator {
	w := &evaluator{evaluation: e, own: e.loss, scaler: e.Scaler, sumsq: make([]float64, e.Outputs)}
	if e.unit != nil {
		w.own = e.unit.Loss(e.loss)
	}
	noise := e.noise
	if silent, ok := noise.(loss.Silent); ok {
		w.silent, noise, w.below = &silent, silent.Squares(), make([]float64, e.Outputs)
		if e.dead != nil && e.Scaler.Splines != nil {
			w.basis = newDeadBasis(e.Scaler.Splines, e.dead)
		}
	}
	w.c0, w.c1, w.c2 = noise.Coefficients()
	if w.c2 != 0 {
		w.groups = rows.NewGroups(model.NewGrouping(e.Schema), []loss.Noise{noise}, e.Outputs, e.bound)
	}
	w.f, w.lag, w.q = make([]float64, e.Outputs), make([]float64, e.Outputs), make([]float64, e.Outputs)
	if w.c0 > 0 {
		for slot := range e.Rows.Len() {
			_, row := e.Rows.Column(slot)
			for k, v := range row[model.ScalerWidth:][:e.Outputs] {
				w.sumsq[k] += v * v
			}
		}
	}
	return w
}

// gather collects the standardized features of an event. It omits features without a row.
func (w *evaluator) gather(e *event.Example) {
	s, x := &w.rows, w.scaler.Columns(e.Features, &w.withDense)
	if w.basis != nil {
		x = w.basis.with(x)
	}
	s.Reset(x.Len())
	w.gone = w.gone[:0]
	s.Rows = w.Rows.Find(x.Index, &w.places, s.Rows)
	w.columns = w.columns[:0]
	n := 0
	for i, row := range s.Rows {
		if row == nil {
			continue
		}
		value := x.Value[i]
		if w.scaler.Mode != model.StandardizeNone {
			value = w.scaler.Apply(row[:model.ScalerWidth], value)
		}
		if w.silent != nil && w.dead != nil {
			z := w.dead(x.Index[i])
			value -= z
			w.gone = append(w.gone, z)
		}
		s.Rows[n], s.X[n], s.Ridge[n] = row, value, 0
		if s.Basis[n] = value * value; w.groups == nil {
			s.Basis[n] = w.c1*value + w.c2*value*value
		}
		w.columns = append(w.columns, x.Index[i])
		n++
	}
	s.Rows, s.X, s.Basis, s.Ridge = s.Rows[:n], s.X[:n], s.Basis[:n], s.Ridge[:n]
}

// addDead adds the scores of silently missing features to the intercepts in f. The scores of the remaining features
// must then use the difference between each value and its value when missing.
func (w *evaluator) addDead() {
	for i, z := range w.gone {
		for k, v := range w.rows.Rows[i][model.ScalerWidth:][:w.Outputs] {
			w.f[k] += z * v
		}
	}
	copy(w.below, w.f)
}

// deadBasis lists the spline columns of each number that are not 0 when the number is silently missing. An event with
// the number must also list these columns, with value 0.
type deadBasis struct {
	splines *model.Splines
	columns [][]uint32
	room    event.Vec
}

func newDeadBasis(splines *model.Splines, dead func(column uint32) float64) *deadBasis {
	h := &deadBasis{splines: splines, columns: make([][]uint32, len(splines.Columns))}
	for i := range h.columns {
		for knot := range splines.Knots[i] {
			if hat := splines.BasisColumn(i, knot); dead(hat) != 0 {
				h.columns[i] = append(h.columns[i], hat)
			}
		}
	}
	return h
}

// with returns x and, with value 0, the spline columns that the numbers in x would have when silently missing.
func (h *deadBasis) with(x event.Vec) event.Vec {
	numbers, _ := slices.BinarySearch(x.Index, model.FirstBasisColumn)
	h.room.Index, h.room.Value = append(h.room.Index[:0], x.Index...), append(h.room.Value[:0], x.Value...)
	for i, column := range h.splines.Columns {
		if _, ok := slices.BinarySearch(x.Index[:numbers], column); !ok {
			continue
		}
		for _, hat := range h.columns[i] {
			if at, ok := slices.BinarySearch(h.room.Index, hat); !ok {
				h.room.Index, h.room.Value = slices.Insert(h.room.Index, at, hat), slices.Insert(h.room.Value, at, 0)
			}
		}
	}
	return h.room
}

func (w *evaluator) batch(b *event.Batch) (sum evaluated) {
	for i := range b.Examples {
		e := w.Declare(&b.Examples[i], &w.left)
		if e.Label == event.Unlabeled || e.Weight == 0 || !e.Usable() {
			continue
		}
		s := &w.rows
		w.gather(e)
		copy(w.f, w.Intercept)
		if w.unit != nil {
			w.f[0] = w.unit.Own(w.f[0])
		}
		if w.Cosines != nil {
			w.AddCosines(w.Standardized(e, event.Vec{}), model.MissingHandling{}, w.f)
		}
		w.addDead()
		clear(w.q)
		switch {
		case w.groups != nil:
			w.groups.Arrange(s, e, w.columns, &w.scaler)
			w.groups.Sum(s, model.ScalerWidth, 0, w.f, w.lag)
			copy(w.q, w.groups.Variance)
		case w.Outputs == 1:
			for i, row := range s.Rows {
				v := row[model.ScalerWidth]
				w.f[0] += s.X[i] * v
				w.q[0] += s.Basis[i] * v * v
			}
		default:
			// The third sum is not needed; rows.Sum writes it to f again.
			rows.Sum(s.Rows, model.ScalerWidth, 0, s.X, s.Basis, w.f[:w.active], w.lag[:w.active], w.q[:w.active])
		}
		for k := range w.active {
			y := rows.Y(e.Label, k, w.Outputs)
			if w.unit != nil {
				y = w.unit.Standard(w.unit.Clip(e.Target))
			}
			value := 0.0
			if w.silent != nil {
				value, _, _, _ = w.silent.At(w.loss, y, w.f[k]-w.below[k], w.below[k], w.q[k])
			} else {
				value, _, _ = w.loss.At(y, w.f[k], w.q[k]+w.c0*w.sumsq[k])
			}
			sum.loss += w.kappa * e.Weight * w.classes[e.Label] * value
		}
		sum.weight += e.Weight
		if w.unit != nil {
			value, v := w.unit.Value(w.f[0]), model.MissingVariance{}
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
		if w.decision.Predict(w.f) != e.Label {
			sum.wrong += e.Weight
		}
	}
	return sum
}
