package rows

// This file holds the rows of an event, and what a step knows of them.

import "slices"

// Event is the rows of an event's features, and their values. The rows alias the table of
// weights, and are those at hand until the next event.
type Event struct {
	// Those of the intercepts come last, if there are any. The slices of the second group
	// are parallel to them.
	Rows       [][]float64
	Intercepts bool // the last row is theirs

	X     []float64 // standardized values
	Ridge []float64 // factor of w in the ridge's gradient
	// What the variance of their noise is proportional to: x^2, x, or 1 for constant
	// noise. That acts on absent features too, which is made up for where they are
	// present: 1 becomes the number of events for each that holds the feature.
	Basis []float64
}

// Step is what an update rule sees of an event.
type Step struct {
	Event

	// By level and output.
	Y        []float64 // target: -1 or 1, 0 for a class not in use
	F        []float64 // the iterate's score
	Variance []float64 // of f under the noise, 0 for clean gradients
	DF, H    []float64 // importance times d/df and 2 d/dv
	Shrink   []float64 // h times the noise's strength, 0 for clean gradients
	factors  []float64 // df and shrink of the segments that have their own, in one piece
	MinusEta []float64 // minus the learning rate; at 0 only the preconditioner gathers
	Inverse  []float64 // what a change of the weight is multiplied by in the lag, see Layout
	Rates    []float64 // MinusEta and behind it Inverse, in one piece

	Strength   []float64 // by level: the coefficient of its noise's variance that is not 0
	Segments   []Segment // all of the rows, in order
	Importance float64
	Count      uint64  // of the steps, this one included
	Growth     float64 // of what is added to the preconditioner, that older events fade
	// Young says that it is one of the first, when nobody knows yet what is a large value, or counts more than
	// once: of any number of outputs it must not overshoot.
	Young bool
	// By row the root of how often the step counts; nil is once.
	Roots []float64
}

// NewStep returns a step of levels of noise of these strengths, with so many outputs each.
func NewStep(strength []float64, outputs int) Step {
	// Room for whole vectors lets kernels take lists as they are.
	n := len(strength) * outputs
	padded := (n + 3) &^ 3
	s := Step{Strength: strength, Rates: make([]float64, 2*n, n+padded)}
	for _, p := range []*[]float64{&s.Y, &s.F, &s.Variance, &s.DF, &s.H, &s.Shrink} {
		*p = make([]float64, n, padded)
	}
	s.MinusEta, s.Inverse = s.Rates[:n], s.Rates[n:]
	return s
}

// Segment is a run of an event's rows whose gradients have the same factors: all of the
// rows, unless features die in groups.
type Segment struct {
	From, To   int       // rows
	DF, Shrink []float64 // by level and output
	Strength   []float64 // by level: of the variance of one such feature alone
}

// Y returns the target of output k for an event of the given class: there is one output for two
// classes, else one for each.
func Y(label, k, outputs int) float64 {
	if outputs == 1 && label == 1 || outputs > 1 && label == k {
		return 1
	}
	return -1
}

// Unseen is the published intercept of a class that has not come.
const NoClass = -30

// Ungroup makes all of the rows one segment.
func (s *Step) Ungroup() {
	s.Segments = append(s.Segments[:0], Segment{0, len(s.Rows), s.DF, s.Shrink, s.Strength})
}

// Factors returns room for so many factors of segments that have their own, which Scale multiplies, too.
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

// IsIntercept says whether row i is that of the intercepts.
func (s *Event) IsIntercept(i int) bool { return s.Intercepts && i == len(s.Rows)-1 }

// Features returns how many of the rows are those of features.
func (s *Event) Features() int {
	if s.Intercepts {
		return len(s.Rows) - 1
	}
	return len(s.Rows)
}

// Reset makes room for the values of so many features and one intercept.
func (s *Event) Reset(features int) {
	most := features + 1
	s.Intercepts = false
	s.Rows = slices.Grow(s.Rows[:0], most)
	s.X = slices.Grow(s.X[:0], most)[:features]
	s.Basis = slices.Grow(s.Basis[:0], most)[:features]
	s.Ridge = slices.Grow(s.Ridge[:0], most)[:features]
}

// AddIntercepts makes the last row that of the intercepts: a feature of value 1 without
// noise.
func (s *Event) AddIntercepts(row []float64, ridge float64) {
	s.Intercepts = true
	s.Rows = append(s.Rows, row)
	s.X, s.Basis, s.Ridge = append(s.X, 1), append(s.Basis, 0), append(s.Ridge, ridge)
}

// Alike returns the end of the rows from the given one that count as often as it does.
func (s *Step) Alike(from, to int) int {
	end := from + 1
	for end < to && s.Roots[end] == s.Roots[from] {
		end++
	}
	return end
}
