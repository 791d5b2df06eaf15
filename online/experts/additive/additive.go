// Package additive corrects the scores of a base learner by a generalized additive model (Hastie & Tibshirani 1986): a
// linear model of numeric features and their spline columns. AdaGrad learns one such model for each of several learning
// rates. The package keeps no matrix over pairs of columns, so it supports splines of many numeric features.
//
// At learning rate r the score of output k is the base score b_k plus a correction,
//
//	f_rk = b_k + w_rk'z,  z = (1, x).
//
// Each learned event makes a proximal step of the optimizer "adagrad", for the loss under dropout of strength q/(1-q).
// A number and its spline columns are dropped independently.
package additive

import (
	"slices"

	"blankout/internal/loss"
	"blankout/online/experts"
	"blankout/online/optimizers"
	"blankout/online/rows"
)

// Rates are the learning rates: the base learner's rate, and a high rate for streams whose neighboring events are
// similar.
var Rates = []float64{0.3, 10}

const (
	// mostMove bounds how much a change of a column's scale may change the score of one value of that column.
	mostMove = 0.1
	// parts is the number of values that a row has for each weight: the weight, its accumulator, and a lag of the
	// average, which is always 0 here.
	parts = 3
)

// Expert holds the linear models of all learning rates, which are its components. An Expert is not safe for concurrent
// use.
type Expert struct {
	loss      loss.Loss
	strength  float64
	outputs   int
	layout    rows.Layout
	optimizer optimizers.Optimizer
	columns   []uint32    // ascending
	table     [][]float64 // one row per column, in Layout
	bias      []float64   // row of the intercepts

	// Scratch by rate and output: lag has zeros, q has sum x^2 w^2, and f has scores.
	lag, q, f []float64
	step      rows.Step
	event     rows.Event
}

// New returns an Expert without columns. Its scores are the base scores. strength is q/(1-q) for dropout with rate q,
// or 0 without dropout.
func New(l loss.Loss, strength float64, outputs int) *Expert {
	e := &Expert{loss: l, strength: strength}
	e.begin(outputs)
	return e
}

// begin resets everything that depends on the number of outputs, and removes all columns.
func (e *Expert) begin(outputs int) {
	n := len(Rates) * outputs
	e.outputs, e.layout = outputs, rows.Layout{Outputs: outputs, N: n}
	e.optimizer = optimizers.NewAdagrad(optimizers.Settings{Layout: e.layout, Loss: e.loss, Proximal: true})
	e.columns, e.table, e.bias = nil, nil, e.newRow()
	e.step = rows.NewStep(slices.Repeat([]float64{e.strength}, len(Rates)), outputs)
	e.lag, e.q, e.f = make([]float64, n), make([]float64, n), make([]float64, n)
}

func (e *Expert) newRow() []float64 { return make([]float64, rows.FirstPart+parts*e.layout.N) }

var names = []string{"splines", "fast splines"}

// Names implements experts.Expert.
func (e *Expert) Names() []string { return names }

// Idle implements experts.Expert.
func (e *Expert) Idle() bool { return len(e.columns) == 0 }

// Base implements experts.Expert.
func (e *Expert) Base(int) float64 { return 0 }

// Follow implements experts.Expert. New columns start with weight 0.
func (e *Expert) Follow(columns []uint32, _ int) {
	if !experts.ColumnsFit(len(columns), e.outputs) {
		columns = nil
	}
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

// Sum implements experts.Expert.
func (e *Expert) Sum(in *experts.Input, out []float64) { e.sum(&e.event, in, out) }

// sum is Sum, which writes the rows and values of the event to r, and the sums of x^2 w^2 to e.q.
func (e *Expert) sum(r *rows.Event, in *experts.Input, out []float64) {
	r.Reset(len(in.Index))
	xs, basis, ridge, features := r.X, r.Basis, r.Ridge, 0
	for n, at := range in.Index {
		if v := in.X[n]; at < len(e.table) && v != 0 {
			r.Rows = append(r.Rows, e.table[at])
			xs[features], basis[features], ridge[features] = v, v*v, 0
			features++
		}
	}
	r.X, r.Basis, r.Ridge = xs[:features], basis[:features], ridge[:features]
	r.AddIntercepts(e.bias, 0)
	r.X[features] = in.One
	clear(out)
	clear(e.q)
	rows.Sum(r.Rows, rows.FirstPart, e.layout.N, r.X, r.Basis, out, e.lag, e.q)
}

// Learn implements experts.Expert. An Expert whose scores are NaN restarts.
func (e *Expert) Learn(in *experts.Input, _, scores, targets []float64, active int, importance float64) {
	if e.Idle() {
		return
	}
	s := &e.step
	e.sum(&s.Event, in, e.f)
	copy(s.F, scores)
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
		if df-df != 0 || dv-dv != 0 { // the loss has no derivative here
			continue
		}
		s.MinusEta[j] = -Rates[j/e.outputs]
		s.DF[j], s.H[j] = importance*df, 2*importance*dv
		s.Shrink[j] = e.strength * s.H[j]
	}
	s.Importance, s.InverseDecay = importance, 1
	s.Ungroup()
	e.optimizer.Step(s)
}

// Restart resets everything except the columns.
func (e *Expert) Restart() {
	columns := e.columns
	e.begin(e.outputs)
	e.Follow(columns, len(columns))
}
