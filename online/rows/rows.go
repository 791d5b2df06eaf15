// Package rows has the arithmetic that learning and predicting share: the layout of a feature's row (Layout), the rows
// of an event and what an optimizer needs of it (Event, Step), the loops over them (Sum, AdagradStep, …), and the sums
// over features that die together (Groups). It keeps nothing but scratch memory between events.
//
// Values "by level and output" are n values, outputs for each noise level. That of level v and output k has index v
// outputs + k.
package rows

import (
	"slices"

	"blankout/internal/model"
)

// Layout is the layout of a feature's row:
//
//	[Scaler's statistics] [weights] [preconditioner] [lags] [the optimizer's own] [refresh]
//
// Every part but the first has one value for each level and output. So an event loads everything about a feature at
// once, and the loops over levels and outputs are one loop over contiguous memory.
//
// The preconditioner is what an optimizer divides its steps by, such as AdaGrad's accumulators. The lag is the average
// of the iterates minus the iterate, divided by a coefficient c of the level: average = w + c lag.
type Layout struct {
	Outputs int
	N       int // levels times outputs
	Refresh int // index of the refresh's parts, after those of the optimizer
}

// FirstPart is the start of the parts that have a value for each level and output.
const FirstPart = model.ScalerWidth

// Part returns part i of a row, counted from the weights: its values by level and output. The result aliases the row,
// as those of the methods below do.
func (y Layout) Part(row []float64, i int) []float64 {
	at := FirstPart + i*y.N
	return row[at : at+y.N : at+y.N]
}

// Weights returns the weights of the iterates.
func (y Layout) Weights(row []float64) []float64 { return y.Part(row, 0) }

// Preconditioner returns what steps are divided by.
func (y Layout) Preconditioner(row []float64) []float64 { return y.Part(row, 1) }

// Lags returns the lags of the averages.
func (y Layout) Lags(row []float64) []float64 { return y.Part(row, 2) }

// Own returns the optimizer's own part, if it has one.
func (y Layout) Own(row []float64) []float64 { return y.Part(row, 3) }

// Curvature returns the refresh's sums D: of squared features times the loss's second derivatives.
func (y Layout) Curvature(row []float64) []float64 { return y.Part(row, y.Refresh) }

// Center returns the refresh's c, for a sliding window.
func (y Layout) Center(row []float64) []float64 { return y.Part(row, y.Refresh+1) }

// Gather adds the curvature s.H[j] times the features to the sums of D.
func (y Layout) Gather(s *Step) {
	for i, row := range s.Rows {
		d := y.Curvature(row)
		for v, strength := range s.Strength {
			c := s.Growth * (s.X[i]*s.X[i] + strength*s.Basis[i])
			for j := v * y.Outputs; j < (v+1)*y.Outputs; j++ {
				d[j] += s.H[j] * c
			}
		}
	}
}

// Regroup fills to, by level and output, with as many outputs as there are lists: each is the mean of those of its list
// in of, which has so many outputs.
func Regroup(to, of []float64, from [][]int, outputs int) {
	for at := 0; at < len(of); at += outputs {
		for _, list := range from {
			to[0] = of[at+list[0]]
			if len(list) > 1 {
				sum := 0.0
				for _, k := range list {
					sum += of[at+k]
				}
				to[0] = sum / float64(len(list))
			}
			to = to[1:]
		}
	}
}

// Event holds the rows of an event's features, and their values. The rows alias the table of weights, and are valid
// until the next event.
type Event struct {
	// The intercepts' row is last, if there is one. The following slices are parallel to Rows.
	Rows       [][]float64
	Intercepts bool // the last row is that of the intercepts

	X     []float64 // standardized values
	Ridge []float64 // factor of w in the gradient of the ridge
	// What the variance of a feature's noise is proportional to: x^2, x, or 1 for constant noise. Constant noise also
	// acts on absent features. To compensate, 1 is replaced by the number of events per event with the feature.
	Basis []float64
}

// Step is what an optimizer needs of an event.
type Step struct {
	Event

	// By level and output:
	Y        []float64 // target: -1 or 1, 0 for an output that is not in use
	F        []float64 // score of the iterate
	Variance []float64 // of f under the noise, 0 for clean gradients
	DF, H    []float64 // importance times d/df and 2 d/dv
	Shrink   []float64 // h times the strength of the noise, 0 for clean gradients
	factors  []float64 // df and shrink of segments with factors of their own, in one slice
	MinusEta []float64 // negative learning rate; at 0 only the preconditioner changes
	Inverse  []float64 // factor of a weight's change in the lag, see Layout
	Rates    []float64 // MinusEta followed by Inverse, in one slice

	Strength   []float64 // by level: the coefficient of the noise's variance that is not 0
	Segments   []Segment // all rows, in order
	Importance float64
	Count      uint64  // number of steps, including this one
	Growth     float64 // factor of what is added to the preconditioner, so that older events decay
	// Young means that the step is one of the first, when large values are not known yet, or counts more than once. It
	// must not overshoot, with any number of outputs.
	Young bool
	// By row: root of the number of times that the step counts; nil means once.
	Roots []float64
}

// NewStep returns a step for levels of noise of these strengths, with so many outputs each.
func NewStep(strength []float64, outputs int) Step {
	// Kernels need slices with capacity for whole vectors.
	n := len(strength) * outputs
	padded := (n + 3) &^ 3
	s := Step{Strength: strength, Rates: make([]float64, 2*n, n+padded)}
	for _, p := range []*[]float64{&s.Y, &s.F, &s.Variance, &s.DF, &s.H, &s.Shrink} {
		*p = make([]float64, n, padded)
	}
	s.MinusEta, s.Inverse = s.Rates[:n], s.Rates[n:]
	return s
}

// Segment is a run of an event's rows whose gradients have the same factors: all rows, unless features die in groups.
type Segment struct {
	From, To   int       // indices of rows
	DF, Shrink []float64 // by level and output
	Strength   []float64 // by level: variance of a single feature in the segment
}

// Y returns the target of output k for an event of a class. There is one output for two classes, else one per class.
func Y(label, k, outputs int) float64 {
	if outputs == 1 && label == 1 || outputs > 1 && label == k {
		return 1
	}
	return -1
}

// NoClass is the published intercept of a class that has not arrived.
const NoClass = -30

// Ungroup makes all rows one segment.
func (s *Step) Ungroup() {
	s.Segments = append(s.Segments[:0], Segment{0, len(s.Rows), s.DF, s.Shrink, s.Strength})
}

// Factors returns memory for so many factors of segments, which Scale multiplies as well.
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

// IsIntercept reports whether row i is that of the intercepts.
func (s *Event) IsIntercept(i int) bool { return s.Intercepts && i == len(s.Rows)-1 }

// Features returns the number of rows of features.
func (s *Event) Features() int {
	if s.Intercepts {
		return len(s.Rows) - 1
	}
	return len(s.Rows)
}

// Reset makes memory for the values of so many features and one intercept.
func (s *Event) Reset(features int) {
	most := features + 1
	s.Intercepts = false
	s.Rows = slices.Grow(s.Rows[:0], most)
	s.X = slices.Grow(s.X[:0], most)[:features]
	s.Basis = slices.Grow(s.Basis[:0], most)[:features]
	s.Ridge = slices.Grow(s.Ridge[:0], most)[:features]
}

// AddIntercepts appends the row of the intercepts: a feature of value 1 without noise.
func (s *Event) AddIntercepts(row []float64, ridge float64) {
	s.Intercepts = true
	s.Rows = append(s.Rows, row)
	s.X, s.Basis, s.Ridge = append(s.X, 1), append(s.Basis, 0), append(s.Ridge, ridge)
}

// Alike returns the end of the rows from row from on that count equally often.
func (s *Step) Alike(from, to int) int {
	end := from + 1
	for end < to && s.Roots[end] == s.Roots[from] {
		end++
	}
	return end
}
