// Package optimizers has the optimizers, one per file. An optimizer determines how a step changes the weights in an
// event's rows. It uses the step (rows.Step), its settings, and its own parts of the rows. Any other memory of an
// optimizer is valid only during a step.
package optimizers

import (
	"slices"

	"blankout/internal/loss"
	"blankout/online/rows"
)

// Optimizer changes the weights in a step. It is created from its Settings, and stores its state in parts of the rows
// (see rows.Layout). An index j is over noise levels and outputs. An Optimizer is not safe for concurrent use.
//
// An Optimizer that changes the weight at j by delta must subtract delta times Step.Inverse[j] from the lag at j.
type Optimizer interface {
	// Step updates the rows of s. The gradient of row i at index j is
	//
	//	DF[j] X[i] + (Shrink[j] Basis[i] + Ridge[i]) w,
	//
	// where DF and Shrink are of the segment that contains the row. These slices and MinusEta are valid for one step
	// only, so an Optimizer may change them.
	Step(s *rows.Step)
	// Unlabeled adds the curvature s.H[j] times the features to the preconditioner.
	Unlabeled(s *rows.Step)
	// Rescale multiplies the weights at from <= j < to by ratio. It is called when the feature's values are divided by
	// ratio.
	Rescale(row []float64, from, to int, ratio float64)
	// Set sets the intercept at j.
	Set(intercepts []float64, j int, b float64)
	// Shifted must be called after shift times the weights of row have been added to the intercepts at from <= j < to.
	Shifted(intercepts, row []float64, from, to int, shift float64)
	// Forget multiplies the preconditioner by keep.
	Forget(row []float64, intercepts bool, keep float64)
}

// Settings are the settings of an optimizer.
type Settings struct {
	rows.Layout
	// Left is how many of the N weights of a row the optimizer must not change. They are the last weights.
	Left          int
	Loss          loss.Loss
	Eta           float64 // learning rate
	Ridge         float64 // ridge h0 of one pass
	Penalized     bool    // whether the ridge applies to the intercepts
	StartSum      float64 // initial value of the accumulators
	L1            float64 // L1 penalty of ftrl
	Proximal      bool    // makes proximal steps, which do not overshoot
	UnscaledNoise bool    // the noise variance is not a multiple of x^2
}

// Entry is an entry of the Table: an optimizer and its properties.
type Entry struct {
	Name  string
	Eta   float64 // default learning rate
	Parts int     // number of values that a row has per weight: weight, preconditioner, lag, and at most one more
	Sums  bool    // the preconditioner is a sum over events, to which unlabeled events add and which can decay
	// These are for regression. Curvature reports that the preconditioner sums curvatures instead of squared gradients.
	// ClassesOnly reports that the optimizer does not support regression.
	Curvature, ClassesOnly bool
	Ridges                 bool // Settings.StartSum can replace the ridge
	Proximal               bool // supports proximal steps, see rows.Step.NoOvershoot
	Second                 bool // the second-order expert can correct it
	Make                   func(Settings) Optimizer
}

// Table lists the optimizers. To add an optimizer, add a file and an entry here.
var Table = []Entry{
	{Name: "auto", Eta: 0.3, Parts: 3, Sums: true, Ridges: true, Proximal: true, Second: true, Make: NewAdagrad},
	{Name: "adagrad", Eta: 0.3, Parts: 3, Sums: true, Ridges: true, Proximal: true, Make: NewAdagrad},
	{Name: "dropout-descent", Eta: 0.5, Parts: 3, Sums: true, Curvature: true, Make: newDescent},
	{Name: "ftrl", Eta: 0.3, Parts: 4, Make: newFTRL},
	{Name: "irls", Eta: 1, Parts: 3, Sums: true, ClassesOnly: true, Make: newIRLS},
}

// Find returns the entry with this name. known is false if there is none.
func Find(name string) (e Entry, known bool) {
	i := slices.IndexFunc(Table, func(r Entry) bool { return r.Name == name })
	if i < 0 {
		return e, false
	}
	return Table[i], true
}

// Names returns the names of the optimizers, the default first.
func Names() []string {
	var names []string
	for _, r := range Table {
		names = append(names, r.Name)
	}
	return names
}

// Plain has common methods for two kinds of optimizers: those whose preconditioner is a sum of squared gradients, and
// those without a preconditioner.
type Plain struct{ Settings }

// Shifted does nothing.
func (*Plain) Shifted(_, _ []float64, _, _ int, _ float64) {}

// Unlabeled does nothing.
func (*Plain) Unlabeled(*rows.Step) {}

// Set implements Optimizer.
func (r *Plain) Set(row []float64, j int, b float64) { r.Weights(row)[j] = b }

// Forget implements Optimizer.
func (r *Plain) Forget(row []float64, _ bool, keep float64) {
	m := r.Accumulators(row)
	for j := range m {
		m[j] *= keep
	}
}

// Rescale implements Optimizer.
func (r *Plain) Rescale(row []float64, from, to int, ratio float64) {
	w, m, u := r.Weights(row), r.Accumulators(row), r.Lags(row)
	inverse := 1 / (ratio * ratio)
	for j := from; j < to; j++ {
		w[j] *= ratio
		m[j] *= inverse
		u[j] *= ratio
	}
}
