// Package rules holds the update rules, a file each: how a step changes the weights of the
// rows of an event. A rule sees the step (rows.Step), its settings, and the parts of rows
// that are its own, nothing of who learns; what it keeps beside rows is room for one step.
package rules

import (
	"slices"

	"blankout/internal/loss"
	"blankout/online/rows"
)

// Rule is an update rule: how a step changes the weights. It is made from its Settings and
// keeps what it needs in parts of the rows (see rows.Layout). An index j counts levels and
// outputs.
//
// A rule that changes the weight at j by delta must subtract delta times Step.Inverse[j]
// from its lag. It is not safe for concurrent use.
type Rule interface {
	// Start fills a new row, which is all zero.
	Start(row []float64)
	// Step updates the rows of s. The gradient of row i at index j is
	//
	//	DF[j] X[i] + (Shrink[j] Basis[i] + Ridge[i]) w,
	//
	// DF and Shrink being those of the segment that the row is in. They and MinusEta are
	// made for one step: a rule may change them.
	Step(s *rows.Step)
	// Unlabeled adds the curvature s.H[j] times the features to the preconditioner.
	Unlabeled(s *rows.Step)
	// Rescale multiplies the weights at from <= j < to by ratio because the scale of
	// the feature has grown by it; gradients shrink by it.
	Rescale(row []float64, from, to int, ratio float64)
	// Set makes b the intercept at j.
	Set(intercepts []float64, j int, b float64)
	// Shifted says that the intercepts at from <= j < to have taken up shift times the
	// weights of row.
	Shifted(intercepts, row []float64, from, to int, shift float64)
	// Forget leaves a share of the preconditioner, as if less had been seen.
	Forget(row []float64, intercepts bool, keep float64)
}

// Settings is what a rule is made from.
type Settings struct {
	rows.Layout
	// Left is how many of the N weights of a row, the last ones, the rule leaves to others.
	Left          int
	Loss          loss.Loss
	Eta           float64 // the rate; AROW's r
	Ridge         float64 // h0 of one pass
	Penalized     bool    // the intercepts have a ridge
	StartSum      float64 // what sums of squared gradients start from
	L1            float64 // FTRL's penalty
	Proximal      bool    // steps are not to overshoot
	UnscaledNoise bool    // its variance is no multiple of x^2
}

// Entry is a line of the Table: a rule, and what may be done with it.
type Entry struct {
	Name   string
	Eta    float64 // the default
	Parts  int     // of a row that are the rule's: weights, preconditioner, lags, and at most one of its own
	Sums   bool    // its preconditioner is a sum over events that unlabeled ones add to and that may fade
	Starts bool    // Start does something
	// About targets that are numbers: Curvature says that the preconditioner sums curvatures,
	// not squared gradients; ClassesOnly that the rule cannot learn them.
	Curvature, ClassesOnly bool
	Ridges                 bool // Settings.StartSum may stand for the ridge
	Proximal               bool // its steps can be kept from overshooting, see rows.Step.Young
	Second                 bool // a second-order expert learns beside the rule, where it can
	Make                   func(Settings) Rule
}

// Table is the table of rules: a new one is a file and a line here.
var Table = []Entry{
	{Name: "auto", Eta: 0.3, Parts: 3, Sums: true, Ridges: true, Proximal: true, Second: true, Make: NewAdagrad},
	{Name: "adagrad", Eta: 0.3, Parts: 3, Sums: true, Ridges: true, Proximal: true, Make: NewAdagrad},
	{Name: "dropout-descent", Eta: 0.5, Parts: 3, Sums: true, Curvature: true, Make: newDescent},
	{Name: "sgd", Eta: 0.5, Parts: 3, Make: newSGD},
	{Name: "arow", Eta: 1, Parts: 3, Starts: true, ClassesOnly: true, Make: newArow},
	{Name: "ftrl", Eta: 0.3, Parts: 4, Make: newFTRL},
	{Name: "irls", Eta: 1, Parts: 3, Sums: true, ClassesOnly: true, Make: newIRLS},
}

// Find returns the entry of a name.
func Find(name string) (e Entry, known bool) {
	i := slices.IndexFunc(Table, func(r Entry) bool { return r.Name == name })
	if i < 0 {
		return e, false
	}
	return Table[i], true
}

// Names returns the names of the update rules, the default first.
func Names() []string {
	var names []string
	for _, r := range Table {
		names = append(names, r.Name)
	}
	return names
}

// plain is what rules have in common whose preconditioner is a sum of squared
// gradients, or has none.
type plain struct{ Settings }

func (*plain) Start([]float64)                             {}
func (*plain) Shifted(_, _ []float64, _, _ int, _ float64) {}
func (*plain) Unlabeled(*rows.Step)                        {}
func (r *plain) Set(row []float64, j int, b float64)       { r.Weights(row)[j] = b }
func (r *plain) Forget(row []float64, _ bool, keep float64) {
	m := r.Preconditioner(row)
	for j := range m {
		m[j] *= keep
	}
}
func (r *plain) Rescale(row []float64, from, to int, ratio float64) {
	w, m, u := r.Weights(row), r.Preconditioner(row), r.Lags(row)
	inverse := 1 / (ratio * ratio)
	for j := from; j < to; j++ {
		w[j] *= ratio
		m[j] *= inverse
		u[j] *= ratio
	}
}
