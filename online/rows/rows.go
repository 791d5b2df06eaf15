// Package rows has the arithmetic that learning and predicting share. It defines the layout of a feature's row
// (Layout), and the rows of an event with the values that an optimizer needs (Event, Step). It also has the loops over
// rows (Sum, AdagradStep, …) and the sums over features that are dropped together (Groups). Between events it stores
// only scratch memory.
//
// Values "by level and output" are n values, one per output of each noise level. The value of level v and output k has
// index v outputs + k.
package rows

import (
	"slices"

	"blankout/internal/model"
)

// Layout is the layout of a feature's row:
//
//	[Scaler's statistics] [weights] [preconditioner] [lags] [the optimizer's own] [refresh]
//
// Every part except the first has one value for each noise level and output. An event thus loads all data of a feature
// at once. The loops over levels and outputs are one loop over contiguous memory.
//
// An optimizer divides its steps by the preconditioner, such as AdaGrad's accumulators. The lag is the average of the
// iterates minus the iterate, divided by a coefficient c of the level: average = w + c lag.
type Layout struct {
	Outputs int
	N       int // number of noise levels times outputs
	Refresh int // index of the first part of the refresh, after the parts of the optimizer
}

// FirstPart is the index in a row of the first part that has a value for each noise level and output.
const FirstPart = model.ScalerWidth

// Part returns the values by noise level and output of part i of a row. Part 0 has the weights. The result aliases the
// row, as do the results of the following methods.
func (y Layout) Part(row []float64, i int) []float64 {
	at := FirstPart + i*y.N
	return row[at : at+y.N : at+y.N]
}

// Weights returns the weights of the iterates.
func (y Layout) Weights(row []float64) []float64 { return y.Part(row, 0) }

// Accumulators returns the values by which the optimizer divides steps.
func (y Layout) Accumulators(row []float64) []float64 { return y.Part(row, 1) }

// Lags returns the lags of the averages.
func (y Layout) Lags(row []float64) []float64 { return y.Part(row, 2) }

// Own returns the optimizer's own part, if it has one.
func (y Layout) Own(row []float64) []float64 { return y.Part(row, 3) }

// Curvature returns the sums D of package refresh: squared features times second derivatives of the loss.
func (y Layout) Curvature(row []float64) []float64 { return y.Part(row, y.Refresh) }

// Center returns the center c of the quadratic summary of package refresh, for a sliding window.
func (y Layout) Center(row []float64) []float64 { return y.Part(row, y.Refresh+1) }

// Gather adds the curvature s.H[j] times the features to the sums of D.
func (y Layout) Gather(s *Step) {
	for i, row := range s.Rows {
		d := y.Curvature(row)
		for v, strength := range s.Strength {
			c := s.InverseDecay * (s.X[i]*s.X[i] + strength*s.Basis[i])
			for j := v * y.Outputs; j < (v+1)*y.Outputs; j++ {
				d[j] += s.H[j] * c
			}
		}
	}
}

// Regroup fills to from the values in of, by noise level and output. Each list in from gives one output of to: the mean
// of the outputs of that are on the list, or 0 if it is empty. outputs is the number of outputs in of. ^k on a list is the
// negation of output k, or just output k for values that are not signed.
func Regroup[F float32 | float64](to, of []F, from [][]int, outputs int, signed bool) {
	for at := 0; at < len(of); at += outputs {
		for _, list := range from {
			sum := F(0)
			for _, k := range list {
				x := of[at+max(k, ^k)]
				if signed && k < 0 {
					x = -x
				}
				if sum += x; len(list) == 1 {
					sum = x // even -0
				}
			}
			to[0] = sum / F(max(1, len(list)))
			to = to[1:]
		}
	}
}

// Event holds the rows of an event's features, and their values. The rows alias the table of weights, and are valid
// until the next event.
type Event struct {
	// Rows has the row of each feature. If there is an intercept, the row of the intercepts is last. The following
	// slices have one value for each row.
	Rows       [][]float64
	Intercepts bool // the last row is the row of the intercepts

	X     []float64 // standardized values
	Ridge []float64 // factor of the weight w in the gradient of the ridge
	// The noise variance of a feature is proportional to Basis, which is x^2, x, or 1 for constant noise. Constant
	// noise also acts on absent features. To make up for this, 1 is replaced by the number of events divided by the
	// number of events with the feature.
	Basis []float64
}

// Step holds the values of an event that an optimizer needs.
type Step struct {
	Event

	// By noise level and output:
	Y        []float64 // target: -1 or 1, 0 for an output that is not in use
	F        []float64 // score of the iterate (current weights)
	Variance []float64 // variance of F under the noise, 0 for clean gradients
	DF, H    []float64 // importance weight times d/df and 2 d/dv
	Shrink   []float64 // H times the strength of the noise, 0 for clean gradients
	factors  []float64 // memory for DF and Shrink of segments that have their own
	MinusEta []float64 // negative learning rate; with 0 only the preconditioner changes
	Inverse  []float64 // factor of a weight's change in the change of its lag, see Layout
	Rates    []float64 // memory of MinusEta, followed by Inverse

	Strength     []float64 // by level: coefficient of the noise's variance that is not 0
	Segments     []Segment // cover all rows, in order
	Importance   float64
	Count        uint64  // number of steps, including this one
	InverseDecay float64 // factor of new terms of the preconditioner, so that older events decay
	// NoOvershoot is true for the first steps, before large values are known, and for steps that count more than once.
	// Such a step must not overshoot, with any number of outputs.
	NoOvershoot bool
}

// NewStep returns a step for noise levels with the given strengths, each with the given number of outputs.
func NewStep(strength []float64, outputs int) Step {
	// The assembly loops need slices whose capacity is a multiple of the vector length.
	n := len(strength) * outputs
	padded := (n + 3) &^ 3
	s := Step{Strength: strength, Rates: make([]float64, 2*n, n+padded)}
	for _, p := range []*[]float64{&s.Y, &s.F, &s.Variance, &s.DF, &s.H, &s.Shrink} {
		*p = make([]float64, n, padded)
	}
	s.MinusEta, s.Inverse = s.Rates[:n], s.Rates[n:]
	return s
}

// Segment is a range of an event's rows whose gradients have the same factors. If no features are dropped in groups,
// one segment contains all rows.
type Segment struct {
	From, To   int       // indices of rows
	DF, Shrink []float64 // factors by noise level and output
	Strength   []float64 // by noise level: variance of a single feature in the segment
}

// Y returns the target of output k for an event with this label. There is one output if there are two classes. For more
// classes there is one output per class.
func Y(label, k, outputs int) float64 {
	if outputs == 1 && label == 1 || outputs > 1 && label == k {
		return 1
	}
	return -1
}

// NoClass is the published intercept of an output that no class has yet.
const NoClass = -30

// Ungroup puts all rows into one segment.
func (s *Step) Ungroup() {
	s.Segments = append(s.Segments[:0], Segment{0, len(s.Rows), s.DF, s.Shrink, s.Strength})
}

// Factors returns memory for n factors of segments. Scale also multiplies these factors.
func (s *Step) Factors(n int) []float64 {
	s.factors = slices.Grow(s.factors[:0], n)[:n]
	return s.factors
}

// Scale multiplies DF and Shrink of every segment.
func (s *Step) Scale(by float64) {
	for _, p := range [3][]float64{s.DF, s.Shrink, s.factors} {
		for j := range p {
			p[j] *= by
		}
	}
}

// IsIntercept reports whether row i is the row of the intercepts.
func (s *Event) IsIntercept(i int) bool { return s.Intercepts && i == len(s.Rows)-1 }

// Features returns the number of rows of features.
func (s *Event) Features() int {
	if s.Intercepts {
		return len(s.Rows) - 1
	}
	return len(s.Rows)
}

// Reset prepares s for the values of the given number of features and one intercept.
func (s *Event) Reset(features int) {
	most := features + 1
	s.Intercepts = false
	s.Rows = slices.Grow(s.Rows[:0], most)
	s.X = slices.Grow(s.X[:0], most)[:features]
	s.Basis = slices.Grow(s.Basis[:0], most)[:features]
	s.Ridge = slices.Grow(s.Ridge[:0], most)[:features]
}

// AddIntercepts appends the row of the intercepts as a feature with value 1 and without noise.
func (s *Event) AddIntercepts(row []float64, ridge float64) {
	s.Intercepts = true
	s.Rows = append(s.Rows, row)
	s.X, s.Basis, s.Ridge = append(s.X, 1), append(s.Basis, 0), append(s.Ridge, ridge)
}
