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
	"blankout/online/optimizers"
	"blankout/online/rows"
)

// Rates are the learning rates: the base learner's rate, and a high rate for streams whose neighboring events are
// similar.
var Rates = []float64{0.3, 10}

const (
	// mostWeights is the largest number of weights, columns times outputs, at one learning rate.
	mostWeights = 20_000
	// mostMove bounds how much a change of a column's scale may change the score of one value of that column.
	mostMove = 0.1
	// parts is the number of values that a row has for each weight: the weight, its accumulator, and a lag of the
	// average, which is always 0 here.
	parts = 3
)

// Fits reports whether the package supports the given numbers of columns and outputs.
func Fits(columns, outputs int) bool { return columns*outputs <= mostWeights }

// Expert holds the linear models of all learning rates. Learn learns the last event that was given to Score. An Expert
// is not safe for concurrent use.
type Expert struct {
	loss      loss.Loss
	strength  float64
	outputs   int
	layout    rows.Layout
	optimizer optimizers.Optimizer
	columns   []uint32    // ascending
	table     [][]float64 // one row per column, in Layout
	bias      []float64   // row of the intercepts
	linear    linear

	*Event // the last scored event
}

// linear is scratch memory for AddWeights.
type linear struct {
	rows  [][]float64
	sums  []float64 // by rate and output: of weights, then lags and squares, which are not used
	zeros []float64
}

// Event holds the intermediate results of a scored event that Learn needs.
type Event struct {
	step          rows.Step
	lag, q        []float64   // by rate and output: lag has zeros, and q has sum x^2 w^2
	added, scores [][]float64 // by rate, then by output
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
	e.Event = e.NewEvent()
}

// NewEvent returns memory for one scored event.
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

// On selects the Event that Score and Learn use from now on.
func (e *Expert) On(ev *Event) { e.Event = ev }

func (e *Expert) newRow() []float64 { return make([]float64, rows.FirstPart+parts*e.layout.N) }

// Columns returns the columns, ascending. The result is valid until the next call of Follow.
func (e *Expert) Columns() []uint32 { return e.columns }

// Intercept returns the intercept of a rate and output.
func (e *Expert) Intercept(rate, k int) float64 {
	return e.layout.Weights(e.bias)[rate*e.outputs+k]
}

// Weights returns the weights of Columns()[i] at a learning rate, by output. The result is valid until the next call of
// Learn.
func (e *Expert) Weights(rate, i int) []float64 {
	return e.layout.Weights(e.table[i])[rate*e.outputs:][:e.outputs]
}

// AddWeights adds the mixed weights of columns, times the values x, to to, by output. columns has indices in Columns.
// The mixed weight is the sum over the rates of the weight times the mixture weight, parts[rate].
func (e *Expert) AddWeights(columns []int, x, parts, to []float64) {
	s, n := &e.linear, e.layout.N
	s.rows = s.rows[:0]
	for _, at := range columns {
		s.rows = append(s.rows, e.table[at])
	}
	if len(s.sums) != 3*n {
		s.sums = make([]float64, 3*n)
	}
	if len(s.zeros) < len(x) {
		s.zeros = make([]float64, 2*len(x))
	}
	f := s.sums[:n]
	clear(f)
	rows.Sum(s.rows, rows.FirstPart, n, x, s.zeros[:len(x)], f, s.sums[n:2*n], s.sums[2*n:])
	for r, part := range parts {
		for k, w := range f[r*e.outputs:][:e.outputs] {
			to[k] += part * w
		}
	}
}

// Follow makes columns, which must be ascending, the columns of the expert. New columns start with weight 0; columns
// that are not in the list are removed.
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

// Score scores an event. base holds the scores of the base learner, by output. places and x describe the event's
// columns: their indices in Columns (or -1), and their values.
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

// Scores returns the scores of the last scored event at a rate, by output. The result is valid until the next call of
// Score.
func (e *Expert) Scores(rate int) []float64 { return e.scores[rate] }

// Added returns Scores minus the base scores.
func (e *Expert) Added(rate int) []float64 { return e.added[rate] }

// Learn learns the last scored event from its targets, by output, and its importance weight. Only the first active
// outputs are in use. An Expert whose scores are NaN restarts.
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
	e.Follow(columns)
}
