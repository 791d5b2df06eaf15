package online

// This file holds the interface of update rules, and their table.

import (
	"blankout/loss"
	"blankout/online/rows"
)

// rule is an update rule: how a step changes the weights. It is made from its
// ruleSettings, keeps what it needs in parts of the rows, and sees of an event
// the step alone.
//
// A rule that changes the weight at j by delta must subtract delta times
// step.Inverse[j] from its lag.
type rule interface {
	// start fills a new row, which is all zero.
	start(row []float64)
	// step updates the rows of s. The gradient of row i at index j is
	//
	//	df[j] x[i] + (shrink[j] basis[i] + ridge[i]) w,
	//
	// df and shrink being those of the segment that the row is in. They and minusEta are
	// made for one step: a rule may change them.
	step(s *rows.Step)
	// unlabelled adds the curvature s.H[j] times the features to the preconditioner.
	unlabelled(s *rows.Step)
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
	rows.Layout
	loss          loss.Loss
	eta           float64
	ridge         float64 // h0 of one pass
	penalised     bool    // the intercepts have a ridge
	startSum      float64 // Config.Start
	l1            float64
	proximal      bool // steps are not to overshoot
	unscaledNoise bool // its variance is no multiple of x^2
}

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
func (*plain) unlabelled(*rows.Step)                       {}
func (r *plain) set(row []float64, j int, b float64)       { r.Weights(row)[j] = b }
func (r *plain) forget(row []float64, _ bool, keep float64) {
	m := r.Preconditioner(row)
	for j := range m {
		m[j] *= keep
	}
}
func (r *plain) rescale(row []float64, from, to int, ratio float64) {
	w, m, u := r.Weights(row), r.Preconditioner(row), r.Lags(row)
	inverse := 1 / (ratio * ratio)
	for j := from; j < to; j++ {
		w[j] *= ratio
		m[j] *= inverse
		u[j] *= ratio
	}
}
