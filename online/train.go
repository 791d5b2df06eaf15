package online

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"blankout"
	"blankout/loss"
)

// Training makes passes over a finite set of events and says what came of it.
type Training struct {
	Learner *Learner
	Schema  *blankout.Schema // the one the Source's decoder adds to
	// Open opens the set at its beginning. It is called once if Memory holds all
	// of the events, else for every pass and once more to evaluate. Run closes
	// what it opened if that is an io.Closer.
	Open   func() (Source, error)
	Passes int
	// Unnamed is Runner's.
	Unnamed bool
	// Memory is for how many bytes of decoded events later passes and the
	// evaluation may be served without Open; 0 keeps none.
	Memory int64
	// Refused is PolicySkip or PolicyFail.
	Refused Policy
	// Threads is how many goroutines evaluate. The result does not depend on it.
	Threads int
	// Evaluate computes Trained.Objective and Error, which costs one more look at
	// every event.
	Evaluate bool
	// Observe sees how it goes, on the goroutine of Run. May be nil.
	Observe func(pass int, s *Status)
}

// Trained is what a Training came to.
type Trained struct {
	Progressive         Progress // of the first pass: every event scored before it was learned
	Learned, Unlabelled uint64
	Refused             map[blankout.Reason]uint64
	Passes              int
	// Objective is that of the batch solvers at the published weights,
	// |w|^2 + kappa sum loss (sum loss without a ridge), summed over the
	// outputs; Error is the share of training events that the published weights
	// get wrong. NaN if not evaluated.
	Objective, Error float64
	Level            float64 // of the noise published at the end: its Q, SD or B
}

// Run trains. It returns the context's error if that ends first.
func (t *Training) Run(ctx context.Context) (*Trained, error) {
	result := &Trained{Refused: map[blankout.Reason]uint64{}, Objective: math.NaN(), Error: math.NaN()}
	kept := &tape{limit: t.Memory}
	if t.Passes == 1 && !t.Evaluate {
		kept.limit = 0
	}
	for pass := range t.Passes {
		var status *Status
		err := t.pass(kept, pass == 0, func(s Source) (err error) {
			status, err = t.learn(ctx, s, pass)
			return err
		})
		if err != nil {
			return nil, err
		}
		if pass == 0 {
			result.Progressive = t.Learner.Metrics().Total
			result.Learned, result.Unlabelled, result.Refused = status.Learned, status.Unlabelled, status.RefusedBy
		}
		result.Passes++
		if result.Passes < t.Passes {
			t.Learner.EndPass()
		}
	}
	result.Level = t.Learner.level()
	if t.Evaluate {
		e := newEvaluation(t.Learner)
		err := t.pass(kept, false, func(s Source) error { return e.run(ctx, s, max(t.Threads, 1)) })
		if err != nil {
			return nil, err
		}
		result.Objective, result.Error = e.objective()+e.sum.loss, e.sum.wrong/e.sum.weight
	}
	return result, nil
}

// pass calls f with the events, from memory if they are all there.
func (t *Training) pass(kept *tape, record bool, f func(Source) error) error {
	if kept.complete {
		kept.at = 0
		return f(kept)
	}
	source, err := t.Open()
	if err != nil {
		return err
	}
	opened := source
	if record && kept.limit > 0 {
		kept.from, source = source, recorder{kept}
	}
	err = f(source)
	if c, ok := opened.(io.Closer); ok {
		err = errors.Join(err, c.Close())
	}
	return err
}

func (t *Training) learn(ctx context.Context, s Source, pass int) (*Status, error) {
	c := DefaultRunConfig()
	c.Refused, c.SaveEvents, c.SaveInterval, c.PublishEvents, c.PublishInterval = t.Refused, 0, 0, 0, 0
	r := &Runner{Config: c, Source: s, Learner: t.Learner, Schema: t.Schema, Unnamed: t.Unnamed}
	if t.Observe != nil {
		r.Observe = func(s *Status) { t.Observe(pass, s) }
	}
	if err := r.Run(ctx); err != nil {
		return nil, err
	}
	return r.Status(), ctx.Err()
}

// tape keeps decoded batches in memory and is a Source of them. What an Example
// is not learned from (key, time, bytes of refused records) is left out.
type tape struct {
	from     Source // recorded from
	limit    int64  // bytes that may be kept
	bytes    int64
	batches  []blankout.Batch
	complete bool
	at       int
}

// recorder is a Source that keeps what passes through it.
type recorder struct{ *tape }

func (r recorder) Next(ctx context.Context, b *blankout.Batch) error {
	err := r.from.Next(ctx, b)
	if err == io.EOF {
		r.complete = r.bytes <= r.limit
	}
	if err != nil || r.bytes > r.limit {
		return err
	}
	if r.keep(b); r.bytes > r.limit {
		r.batches = nil
	}
	return nil
}

func (t *tape) keep(b *blankout.Batch) {
	entries, fields, missing := 0, 0, 0
	for i := range b.Examples {
		e := &b.Examples[i]
		entries += e.Features.Len()
		fields += len(e.Field)
		missing += len(e.Missing)
	}
	index, value := make([]uint32, 0, entries), make([]float64, 0, entries)
	field, absent := make([]uint16, 0, fields), make([]uint16, 0, missing)
	c := *b
	c.Examples = make([]blankout.Example, len(b.Examples))
	for i := range b.Examples {
		e := &b.Examples[i]
		index, value = append(index, e.Features.Index...), append(value, e.Features.Value...)
		field, absent = append(field, e.Field...), append(absent, e.Missing...)
		c.Examples[i] = blankout.Example{Label: e.Label, Weight: e.Weight, Offset: e.Offset, Fingerprint: e.Fingerprint, Time: e.Time}
		k := &c.Examples[i]
		k.Features = blankout.Vec{Index: index[len(index)-e.Features.Len():], Value: value[len(value)-e.Features.Len():]}
		if e.Field != nil {
			k.Field = field[len(field)-len(e.Field):]
		}
		k.Missing = absent[len(absent)-len(e.Missing):]
		if e.Refused != nil {
			k.Refused = &blankout.Refusal{Reason: e.Refused.Reason, Detail: e.Refused.Detail}
		}
	}
	t.batches = append(t.batches, c)
	t.bytes += int64(12*entries + 2*fields + 2*missing + 200*len(b.Examples))
}

// Next hands out the kept batches. Nobody writes to them, so they need no copy.
func (t *tape) Next(ctx context.Context, b *blankout.Batch) error {
	if t.at == len(t.batches) {
		return io.EOF
	}
	*b = t.batches[t.at]
	t.at++
	return ctx.Err()
}

// evaluation sums over events the loss of the published weights, which is that of
// the features as they are, and the errors of what the published model answers.
type evaluation struct {
	l       *Learner
	weights *blankout.Table // rows of Scaler's statistics and published weights
	kappa   float64
	sum     evaluated
}

type evaluated struct{ loss, weight, wrong float64 }

func newEvaluation(l *Learner) *evaluation {
	e := &evaluation{l: l, weights: l.publishedRows(), kappa: loss.Cost(l.loss, l.config.C)}
	if math.IsInf(e.kappa, 1) {
		e.kappa = 1
	}
	return e
}

// publishedRows returns rows of the Scaler's statistics and published weights.
func (l *Learner) publishedRows() *blankout.Table {
	rows := blankout.NewTable(blankout.ScalerWidth + l.k)
	c, at := l.coefficient*l.levels[l.chosen].blend, l.chosen*l.k
	for slot := range l.table.Len() {
		column, row := l.table.Column(slot)
		to, w, lag := rows.Touch(column), l.weights(row)[at:], l.lags(row)[at:]
		copy(to, row[:blankout.ScalerWidth])
		for k := range l.active {
			to[blankout.ScalerWidth+k] = w[k] + c*lag[k]
		}
	}
	return rows
}

// Published returns the published model alone, without what only learning needs:
// a much smaller one than a Snapshot's.
func (l *Learner) Published() *blankout.Linear {
	m := &blankout.Linear{Head: l.head(l.schema.Clone(-1, -1)), Rows: l.publishedRows()}
	m.Layout = blankout.Layout{Width: m.Rows.Width(), Weight: blankout.ScalerWidth, Stats: 0}
	return m
}

// level returns the published level: a dropout's Q, Gaussian noise's SD, a
// Laplacian's B; 0 where there is none.
func (l *Learner) level() float64 {
	switch n := l.levels[l.chosen].noise.(type) {
	case blankout.Dropout:
		return n.Q
	case blankout.Gaussian:
		return n.SD
	case blankout.Laplace:
		return n.B
	}
	return 0
}

// objective returns the penalty.
func (e *evaluation) objective() float64 {
	if math.IsInf(e.l.config.C, 1) {
		return 0
	}
	sum := 0.0
	for slot := range e.weights.Len() {
		_, row := e.weights.Column(slot)
		for _, w := range row[blankout.ScalerWidth:] {
			sum += w * w
		}
	}
	if e.l.config.Intercept == "penalised" {
		for _, b := range e.l.head(e.l.schema).Intercept[:e.l.active] {
			sum += b * b
		}
	}
	return sum
}

// run evaluates the events of a Source on several goroutines. Batches are summed
// one by one and the sums added in order.
func (e *evaluation) run(ctx context.Context, s Source, threads int) error {
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
	}
	return nil
}

// evaluator is the scratch memory of one goroutine.
type evaluator struct {
	*evaluation
	c0, c1, c2 float64
	sumsq      []float64
	head       blankout.Head
	scaler     blankout.Scaler
	rows       [][]float64
	x, basis   []float64
	f, lag, q  []float64
}

func (e *evaluation) worker() *evaluator {
	l := e.l
	h := l.head(l.schema)
	w := &evaluator{evaluation: e, head: h, scaler: l.scaler, sumsq: make([]float64, l.k)}
	w.c0, w.c1, w.c2 = l.levels[l.chosen].noise.Coefficients()
	w.f, w.lag, w.q = make([]float64, l.k), make([]float64, l.k), make([]float64, l.k)
	if w.c0 > 0 {
		for slot := range e.weights.Len() {
			_, row := e.weights.Column(slot)
			for k, v := range row[blankout.ScalerWidth:] {
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
		if e.Label == blankout.Unlabelled || e.Weight == 0 || !usable(e) {
			continue
		}
		w.rows, w.x, w.basis = w.rows[:0], w.x[:0], w.basis[:0]
		for column, x := range w.scaler.Each(e.Features) {
			row := w.weights.Row(column)
			if row == nil {
				continue
			}
			if w.scaler.Mode != blankout.StandardiseNone {
				x = w.scaler.Apply(row[:blankout.ScalerWidth], x)
			}
			w.rows = append(w.rows, row)
			w.x = append(w.x, x)
			w.basis = append(w.basis, w.c1*x+w.c2*x*x)
		}
		copy(w.f, w.head.Intercept)
		clear(w.q)
		if l.k == 1 {
			for i, row := range w.rows {
				v := row[blankout.ScalerWidth]
				w.f[0] += w.x[i] * v
				w.q[0] += w.basis[i] * v * v
			}
		} else {
			// The third sum comes for nothing; here it is f's again.
			sumRows(w.rows, blankout.ScalerWidth, 0, w.x, w.basis, w.f[:l.active], w.lag[:l.active], w.q[:l.active])
		}
		for k := range l.active {
			value, _, _ := l.loss.At(target(e.Label, k, l.k), w.f[k], w.q[k]+w.c0*w.sumsq[k])
			sum.loss += w.kappa * e.Weight * l.classes[e.Label] * value
		}
		sum.weight += e.Weight
		if scale, _ := w.head.Answer(e); scale != 1 {
			for k, b := range w.head.Intercept[:l.active] {
				w.f[k] = b + scale*(w.f[k]-b)
			}
		}
		if l.predict(w.f) != e.Label {
			sum.wrong += e.Weight
		}
	}
	return sum
}
