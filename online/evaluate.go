package online

// This file holds the batch objective at the published weights.

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"

	"blankout"
	"blankout/loss"
	"blankout/measure"
	"blankout/model"
	"blankout/online/rows"
)

// Evaluate returns the objective of the batch solvers at the published weights,
// |w|^2 + kappa sum loss (sum loss without a ridge), summed over the outputs, over the
// events of a Source, and the share of them that the published model gets wrong or, where
// labels are numbers, their measures. The objective is then in the unit in which the
// targets are learned (see unit). The result does not depend on the number of threads.
func (l *Learner) Evaluate(ctx context.Context, s blankout.Source, threads int) (objective, wrong float64, numbers *measure.NumbersReport, err error) {
	e := newEvaluation(l)
	if err := e.run(ctx, s, threads); err != nil {
		return math.NaN(), math.NaN(), nil, err
	}
	if wrong = e.sum.wrong / e.sum.weight; l.set.numbers {
		wrong = math.NaN()
		report := e.sum.numbers.Report(l.targetLoss())
		numbers = &report
	}
	return e.objective() + e.sum.loss, wrong, numbers, nil
}

// evaluation sums over events the loss of the published weights, which is that of
// the features as they are, and the errors of what the published model answers.
type evaluation struct {
	l       *Learner
	model   *model.Linear // the published one
	weights *model.Table  // its rows: the Scaler's statistics, then its weights
	kappa   float64
	sum     evaluated
}

type evaluated struct {
	loss, weight, wrong float64
	numbers             measure.Numbers // where labels are numbers
}

func newEvaluation(l *Learner) *evaluation {
	e := &evaluation{l: l, model: l.Published(), kappa: loss.Cost(l.set.loss, l.config.C)}
	e.weights = e.model.Rows
	if math.IsInf(e.kappa, 1) {
		e.kappa = 1
	}
	return e
}

// objective returns the penalty.
func (e *evaluation) objective() float64 {
	if math.IsInf(e.l.config.C, 1) {
		return 0
	}
	sum := 0.0
	for slot := range e.weights.Len() {
		_, row := e.weights.Column(slot)
		for _, w := range row[model.ScalerWidth:][:e.l.k] {
			sum += w * w
		}
	}
	if e.l.config.Intercept == "penalised" {
		for _, b := range e.l.head(e.l.schema).Intercept[:e.l.active] {
			if e.l.set.numbers {
				b = e.l.unit.Own(b)
			}
			sum += b * b
		}
	}
	return sum
}

// run evaluates the events of a Source on several goroutines. Batches are summed
// one by one and the sums added in order.
func (e *evaluation) run(ctx context.Context, s blankout.Source, threads int) error {
	type work struct {
		batch *blankout.Batch
		sum   *evaluated
	}
	todo, free := make(chan work, 2*threads), make(chan *blankout.Batch, 2*threads)
	for range cap(free) {
		free <- &blankout.Batch{}
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
	c0, c1, c2 float64
	sumsq      []float64
	head       model.Head
	own        loss.Loss // see targetLoss
	scaler     model.Scaler
	rows       rows.Event
	columns    []uint32
	groups     *rows.Groups // nil without curves and noise of groups
	f, lag, q  []float64
}

func (e *evaluation) worker() *evaluator {
	l := e.l
	h := l.head(l.schema)
	w := &evaluator{evaluation: e, head: h, own: l.targetLoss(), scaler: l.scaling.Scaler, sumsq: make([]float64, l.k)}
	w.c0, w.c1, w.c2 = l.levels[l.chosen].noise.Coefficients()
	w.groups = rows.NewGroups(l.schema, []loss.Noise{l.levels[l.chosen].noise}, l.k, l.groups != nil)
	w.f, w.lag, w.q = make([]float64, l.k), make([]float64, l.k), make([]float64, l.k)
	if w.c0 > 0 {
		for slot := range e.weights.Len() {
			_, row := e.weights.Column(slot)
			for k, v := range row[model.ScalerWidth:][:l.k] {
				w.sumsq[k] += v * v
			}
		}
	}
	return w
}

func (w *evaluator) batch(b *blankout.Batch) (sum evaluated) {
	l := w.l
	for i := range b.Examples {
		e := &b.Examples[i]
		if e.Label == blankout.Unlabelled || e.Weight == 0 || !Usable(e) {
			continue
		}
		s := &w.rows
		s.Reset(0)
		w.columns = w.columns[:0]
		for column, x := range w.scaler.Each(e.Features) {
			row := w.weights.Row(column)
			if row == nil {
				continue
			}
			if w.scaler.Mode != model.StandardiseNone {
				x = w.scaler.Apply(row[:model.ScalerWidth], x)
			}
			s.Rows, w.columns = append(s.Rows, row), append(w.columns, column)
			s.X, s.Ridge = append(s.X, x), append(s.Ridge, 0)
			if w.groups != nil {
				s.Basis = append(s.Basis, x*x)
			} else {
				s.Basis = append(s.Basis, w.c1*x+w.c2*x*x)
			}
		}
		copy(w.f, w.head.Intercept)
		if l.set.numbers {
			w.f[0] = l.unit.Own(w.f[0])
		}
		clear(w.q)
		switch {
		case w.groups != nil:
			w.groups.Arrange(s, e, w.columns, &w.scaler)
			w.groups.Sum(s, model.ScalerWidth, 0, w.f, w.lag)
			copy(w.q, w.groups.Variance)
		case l.k == 1:
			for i, row := range s.Rows {
				v := row[model.ScalerWidth]
				w.f[0] += s.X[i] * v
				w.q[0] += s.Basis[i] * v * v
			}
		default:
			// The third sum comes for nothing; here it is f's again.
			rows.Sum(s.Rows, model.ScalerWidth, 0, s.X, s.Basis, w.f[:l.active], w.lag[:l.active], w.q[:l.active])
		}
		for k := range l.active {
			y := rows.Y(e.Label, k, l.k)
			if l.set.numbers {
				y = l.unit.Standard(e.Target)
			}
			value, _, _ := l.set.loss.At(y, w.f[k], w.q[k]+w.c0*w.sumsq[k])
			sum.loss += w.kappa * e.Weight * l.classes[e.Label] * value
		}
		sum.weight += e.Weight
		if l.set.numbers {
			value, v := l.unit.Value(w.f[0]), model.Lacked{}
			if w.model.Answer(e).Rule() != "" {
				value, v = w.model.Value(w.model.Score(e, w.f)[0]), model.ScoreVariance(w.model, e)
			}
			low, high := w.head.Interval(value, v)
			sum.numbers.Add(w.own, e.Target, e.Weight, value, low, high, 1)
			continue
		}
		if w.model.Answer(e).Rule() != "" {
			w.model.Score(e, w.f)
		}
		if l.decision().Predict(w.f) != e.Label {
			sum.wrong += e.Weight
		}
	}
	return sum
}
