package online

// This file holds the interface of update rules, their table, and the layout of a row.

import (
	"slices"

	"blankout/loss"
	"blankout/model"
)

// rule is an update rule: how a step changes the weights. It is made from its
// ruleSettings, keeps what it needs in parts of the rows, and sees of an event
// the step alone.
//
// A rule that changes the weight at j by delta must subtract delta times
// step.inverse[j] from its lag.
type rule interface {
	// start fills a new row, which is all zero.
	start(row []float64)
	// step updates the rows of s. The gradient of row i at index j is
	//
	//	df[j] x[i] + (shrink[j] basis[i] + ridge[i]) w,
	//
	// df and shrink being those of the segment that the row is in. They and minusEta are
	// made for one step: a rule may change them.
	step(s *step)
	// unlabelled adds the curvature s.h[j] times the features to the preconditioner.
	unlabelled(s *step)
	// rescale multiplies the weights at from <= j < to by ratio because the scale of
	// the feature has grown by it; gradients shrink by it.
	rescale(row []float64, from, to int, ratio float64)
	// set makes b the intercept at j.
	set(intercepts []float64, j int, b float64)
	// shifted says that the intercepts at from <= j < to have taken up shift times the
	// weights of row.
	shifted(intercepts, row []float64, from, to int, shift float64)
	// forget leaves a share of the preconditioner, as if less had been seen.
	forget(row []float64, intercepts bool, keep float64)
}

// ruleSettings is what a rule is made from.
type ruleSettings struct {
	layout
	loss          loss.Loss
	eta           float64
	ridge         float64 // h0 of one pass
	penalised     bool    // the intercepts have a ridge
	startSum      float64 // Config.Start
	l1            float64
	proximal      bool // steps are not to overshoot
	unscaledNoise bool // its variance is no multiple of x^2
}

// rowsOf is the rows of an event's features, and what a rule knows of each.
type rowsOf struct {
	// Those of the intercepts come last, if there are any. The slices of the second group
	// are parallel to them.
	rows       [][]float64
	intercepts bool // the last row is theirs

	x     []float64 // standardised values
	ridge []float64 // factor of w in the ridge's gradient
	// What the variance of their noise is proportional to: x^2, x, or 1 for constant
	// noise. That acts on absent features too, which is made up for where they are
	// present: 1 becomes the number of events for each that holds the feature.
	basis []float64
}

// step is what an update rule sees of an event.
type step struct {
	rowsOf

	// By level and output.
	y        []float64 // target: -1 or 1, 0 for a class not in use
	f        []float64 // the iterate's score
	variance []float64 // of f under the noise, 0 for clean gradients
	df, h    []float64 // importance times d/df and 2 d/dv
	shrink   []float64 // h times the noise's strength, 0 for clean gradients
	factors  []float64 // df and shrink of the segments that have their own, in one piece
	minusEta []float64 // minus the learning rate; at 0 only the preconditioner gathers
	inverse  []float64 // see average
	rates    []float64 // minusEta and behind it inverse, in one piece

	strength   []float64 // by level: the coefficient of its noise's variance that is not 0
	segments   []segment // all of the rows, in order
	importance float64
	count      uint64  // of the steps, this one included
	growth     float64 // see fade
	// By row the root of how often the step counts, see sharing; nil is once.
	roots []float64
}

// newStep returns a step of levels of noise of these strengths, with so many outputs each.
func newStep(strength []float64, outputs int) step {
	n := len(strength) * outputs
	s := step{strength: strength, rates: make([]float64, 2*n)}
	for _, p := range []*[]float64{&s.y, &s.f, &s.variance, &s.df, &s.h, &s.shrink} {
		*p = make([]float64, n)
	}
	s.minusEta, s.inverse = s.rates[:n], s.rates[n:]
	return s
}

// segment is a run of an event's rows whose gradients have the same factors: all of the
// rows, unless features die in groups.
type segment struct {
	from, to   int       // rows
	df, shrink []float64 // by level and output
	strength   []float64 // by level: of the variance of one such feature alone
}

// ungroup makes all of the rows one segment.
func (s *step) ungroup() {
	s.segments = append(s.segments[:0], segment{0, len(s.rows), s.df, s.shrink, s.strength})
}

// scale multiplies df and shrink of every segment.
func (s *step) scale(by float64) {
	for _, p := range [3][]float64{s.df, s.shrink, s.factors} {
		for j := range p {
			p[j] *= by
		}
	}
}

// isIntercept says whether row i is that of the intercepts.
func (s *rowsOf) isIntercept(i int) bool { return s.intercepts && i == len(s.rows)-1 }

// features returns how many of the rows are those of features.
func (s *rowsOf) features() int {
	if s.intercepts {
		return len(s.rows) - 1
	}
	return len(s.rows)
}

// reset makes room for the values of so many features and one intercept.
func (s *rowsOf) reset(features int) {
	most := features + 1
	s.intercepts = false
	s.rows = slices.Grow(s.rows[:0], most)
	s.x = slices.Grow(s.x[:0], most)[:features]
	s.basis = slices.Grow(s.basis[:0], most)[:features]
	s.ridge = slices.Grow(s.ridge[:0], most)[:features]
}

func (s *rowsOf) addIntercepts(row []float64, ridge float64) {
	s.intercepts = true
	s.rows = append(s.rows, row)
	s.x, s.basis, s.ridge = append(s.x, 1), append(s.basis, 0), append(s.ridge, ridge)
}

// layout says where the parts of a feature's row are:
//
//	[Scaler's statistics] [weights] [preconditioner] [lags] [the rule's own] [refresh]
//
// Every part but the first has one value for each level and output, at index
// level outputs + output. An event thus fetches everything about a feature at
// once, and the loops over levels and outputs are one loop over contiguous memory.
//
// The preconditioner is what a rule divides its steps by, such as AdaGrad's sums of
// squared gradients. The lag is the average less the iterate, up to a
// factor of the level, see average.
type layout struct {
	outputs int
	n       int // levels times outputs
	refresh int // the place of the refresh's parts, after the rule's
}

// firstPart is where the parts begin that have a value for each level and output.
const firstPart = model.ScalerWidth

func (y layout) part(row []float64, i int) []float64 {
	at := firstPart + i*y.n
	return row[at : at+y.n : at+y.n]
}

func (y layout) weights(row []float64) []float64        { return y.part(row, 0) }
func (y layout) preconditioner(row []float64) []float64 { return y.part(row, 1) }
func (y layout) lags(row []float64) []float64           { return y.part(row, 2) }

// own returns the rule's own part, of a rule that has one.
func (y layout) own(row []float64) []float64 { return y.part(row, 3) }

// curvature returns the sums of D that belong to a row, and centre its c, of a
// window that slides; see refresh.
func (y layout) curvature(row []float64) []float64 { return y.part(row, y.refresh) }
func (y layout) centre(row []float64) []float64    { return y.part(row, y.refresh+1) }

type ruleEntry struct {
	name   string
	eta    float64 // the default
	parts  int     // of a row that are the rule's: weights, preconditioner, lags, and at most one of its own
	sums   bool    // its preconditioner is a sum over events that unlabelled ones add to and that may fade
	starts bool    // start does something
	// About targets that are numbers: curvature says that the preconditioner sums curvatures,
	// not squared gradients; classesOnly that the rule cannot learn them.
	curvature, classesOnly bool
	ridges                 bool // Config.Start may stand for the ridge, see there
	make                   func(ruleSettings) rule
}

// rules is the table of rules: a new one is a file and a line here.
var rules = []ruleEntry{
	{name: "adagrad", eta: 0.3, parts: 3, sums: true, ridges: true, make: newAdagrad},
	{name: "dropout-descent", eta: 0.5, parts: 3, sums: true, curvature: true, make: newDescent},
	{name: "sgd", eta: 0.5, parts: 3, make: newSGD},
	{name: "arow", eta: 1, parts: 3, starts: true, classesOnly: true, make: newArow},
	{name: "ftrl", eta: 0.3, parts: 4, make: newFTRL},
	{name: "irls", eta: 1, parts: 3, sums: true, classesOnly: true, make: newIRLS},
}

// Rules returns the names of the update rules, the default first.
func Rules() []string {
	var names []string
	for _, r := range rules {
		names = append(names, r.name)
	}
	return names
}

// plain is what rules have in common whose preconditioner is a sum of squared
// gradients, or has none.
type plain struct{ ruleSettings }

func (*plain) start([]float64)                             {}
func (*plain) shifted(_, _ []float64, _, _ int, _ float64) {}
func (*plain) unlabelled(*step)                            {}
func (r *plain) set(row []float64, j int, b float64)       { r.weights(row)[j] = b }
func (r *plain) forget(row []float64, _ bool, keep float64) {
	m := r.preconditioner(row)
	for j := range m {
		m[j] *= keep
	}
}
func (r *plain) rescale(row []float64, from, to int, ratio float64) {
	w, m, u := r.weights(row), r.preconditioner(row), r.lags(row)
	inverse := 1 / (ratio * ratio)
	for j := from; j < to; j++ {
		w[j] *= ratio
		m[j] *= inverse
		u[j] *= ratio
	}
}
