// Package additive learns curves of numbers beside a base learner: a generalized additive model
// (Hastie & Tibshirani 1986) over numbers and the hats of their curves, by AdaGrad at several
// learning rates side by side. It keeps no matrix of its columns, so it has room for hats where
// the numbers are many.
//
// At learning rate r the score of output k is the base score b_k and a correction,
//
//	f_rk = b_k + w_rk'z,  z = (1, x).
//
// A step is that of rules "adagrad" with proximal steps, against the loss that dropout of the
// strength q/(1-q) leaves. A number and its hats count as features that die one by one.
package additive

import (
	"slices"

	"blankout/internal/loss"
	"blankout/online/rows"
	"blankout/online/rules"
)

// Rates are the learning rates: that of the base learner, and one that follows a stream whose
// neighboring events resemble each other.
var Rates = []float64{0.3, 10}

const (
	// mostWeights bounds the columns times outputs.
	mostWeights = 20_000
	// mostMove bounds by how much a score may change at the values that a column had when its scale moves.
	mostMove = 0.1
	// parts are the parts of a row: weights, sums of squares, and lags, which stay 0.
	parts = 3
)

// Fits says whether so many columns are few enough for so many outputs.
func Fits(columns, outputs int) bool { return columns*outputs <= mostWeights }

// Expert is the learner. Learn is about the event that Score had last. It is not safe for
// concurrent use.
type Expert struct {
	loss     loss.Loss
	strength float64
	outputs  int
	layout   rows.Layout
	rule     rules.Rule
	columns  []uint32    // ascending
	table    [][]float64 // a row for each, laid out by layout
	bias     []float64   // the row of the intercepts

	*Event // that was scored last
}

// Event is what an Expert keeps of an event that it scores, to learn it.
type Event struct {
	step          rows.Step
	lag, q        []float64   // by rate and output: 0, and sum x^2 w^2
	added, scores [][]float64 // by rate, of each output
}

// New returns an Expert without columns, whose scores are the base scores. The strength is
// q/(1-q) of the dropout that is integrated out, 0 for none.
func New(l loss.Loss, strength float64, outputs int) *Expert {
	e := &Expert{loss: l, strength: strength}
	e.begin(outputs)
	return e
}

// begin makes all that depends on the outputs, without columns.
func (e *Expert) begin(outputs int) {
	n := len(Rates) * outputs
	e.outputs, e.layout = outputs, rows.Layout{Outputs: outputs, N: n}
	e.rule = rules.NewAdagrad(rules.Settings{Layout: e.layout, Loss: e.loss, Proximal: true})
	e.columns, e.table, e.bias = nil, nil, e.newRow()
	e.Event = e.NewEvent()
}

// NewEvent returns room for what the Expert keeps of an event.
func (e *Expert) NewEvent() *Event {
	n := e.layout.N
	ev := &Event{
		step: rows.NewStep(slices.Repeat([]float64{e.strength}, len(Rates)), e.outputs),
		lag:  make([]float64, n), q: make([]float64, n), added: make([][]float64, len(Rates)), scores: make([][]float64, len(Rates)),
	}
	for r := range Rates {
		ev.added[r], ev.scores[r] = make([]float64, e.outputs), make([]float64, e.outputs)
	}
	return ev
}

// On makes an Event the one that was scored last: Score is about it from here on, and so is Learn.
func (e *Expert) On(ev *Event) { e.Event = ev }

func (e *Expert) newRow() []float64 { return make([]float64, rows.FirstPart+parts*e.layout.N) }

// Columns returns the columns, ascending, borrowed until Follow.
func (e *Expert) Columns() []uint32 { return e.columns }

// Intercept returns that of a rate and output.
func (e *Expert) Intercept(rate, k int) float64 {
	return e.layout.Weights(e.bias)[rate*e.outputs+k]
}

// Weights returns the weights of column i of Columns at a rate, by output, borrowed until Learn.
func (e *Expert) Weights(rate, i int) []float64 {
	return e.layout.Weights(e.table[i])[rate*e.outputs:][:e.outputs]
}

// Add returns w and the weight of column i of Columns for output k, the rates mixed by parts.
func (e *Expert) Add(w float64, parts []float64, k, i int) float64 {
	weights := e.layout.Weights(e.table[i])
	for r, part := range parts {
		w += part * weights[r*e.outputs+k]
	}
	return w
}

// Follow makes the columns, which ascend, those of the expert: new ones begin at 0, those that are
// not among them any more are left out.
func (e *Expert) Follow(columns []uint32) {
	table := make([][]float64, len(columns))
	for i, column := range columns {
		if at, known := slices.BinarySearch(e.columns, column); known {
			table[i] = e.table[at]
		} else {
			table[i] = e.newRow()
		}
	}
	e.columns, e.table = slices.Clone(columns), table
}

// Score scores an event, given the scores of the base learner by output. places are those of the
// event's columns in Columns, -1 for one that the Expert does not follow.
func (e *Expert) Score(places []int, x, base []float64) {
	s := &e.step
	s.Reset(len(places))
	xs, basis, ridge, features := s.X, s.Basis, s.Ridge, 0
	for n, at := range places {
		if v := x[n]; at >= 0 && v != 0 {
			s.Rows = append(s.Rows, e.table[at])
			xs[features], basis[features], ridge[features] = v, v*v, 0
			features++
		}
	}
	s.X, s.Basis, s.Ridge = xs[:features], basis[:features], ridge[:features]
	s.AddIntercepts(e.bias, 0)
	clear(s.F)
	clear(e.q)
	rows.Sum(s.Rows, rows.FirstPart, e.layout.N, s.X, s.Basis, s.F, e.lag, e.q)
	for r := range Rates {
		f := s.F[r*e.outputs:][:e.outputs]
		copy(e.added[r], f)
		for k := range f {
			f[k] += base[k]
		}
		copy(e.scores[r], f)
	}
}

// Scores returns the scores at a rate of the event that Score had last, and Added those without the
// base's part, by output, borrowed until the next one.
func (e *Expert) Scores(rate int) []float64 { return e.scores[rate] }

// Added is described at Scores.
func (e *Expert) Added(rate int) []float64 { return e.added[rate] }

// Learn takes up the event that Score had last: its targets by output, of which only the first
// active count, and its importance. An Expert whose scores are no numbers begins anew.
func (e *Expert) Learn(targets []float64, active int, importance float64) {
	s := &e.step
	for j := range s.DF {
		k := j % e.outputs
		s.MinusEta[j], s.DF[j], s.H[j], s.Shrink[j] = 0, 0, 0, 0
		if k >= active {
			continue
		}
		s.Y[j], s.Variance[j] = targets[k], e.strength*e.q[j]
		_, df, dv := e.loss.At(s.Y[j], s.F[j], s.Variance[j])
		if s.F[j]-s.F[j] != 0 {
			e.Restart()
			return
		}
		if df-df != 0 || dv-dv != 0 { // a kink itself
			continue
		}
		s.MinusEta[j] = -Rates[j/e.outputs]
		s.DF[j], s.H[j] = importance*df, 2*importance*dv
		s.Shrink[j] = e.strength * s.H[j]
	}
	s.Importance, s.Growth = importance, 1
	s.Ungroup()
	e.rule.Step(s)
}

// Restart forgets everything but which columns there are.
func (e *Expert) Restart() {
	columns := e.columns
	e.begin(e.outputs)
	e.Follow(columns)
}
