package model

// This file has what all models have in common: the interface, and the head of a file.

import (
	"iter"
	"math"
	"slices"

	"blankout/internal/event"
)

// Model is a trained model, as everything uses it that makes predictions: a [Linear], or the kernel machine of package
// kernel. Use a type assertion for methods of linear models alone, such as weights and contributions of features. A
// Model is immutable and safe for concurrent use.
type Model interface {
	// About returns what models of all kinds have. The caller must not change it.
	About() *Head
	// Score writes the K scores of an event to out, which must have room for them and for one score per class, and
	// returns those. Head.Missing determines how missing fields are scored.
	Score(e *event.Example, out []float64) []float64
	// Standardized appends the standardized features of an event to out, with absent dense columns as the number 0.
	Standardized(e *event.Example, out event.Vec) event.Vec
	// ScoreVec is Score for standardized features, without regard to missing fields.
	ScoreVec(x event.Vec, out []float64) []float64
	// ScoreMissing is ScoreVec for the features of an event; Field, Missing and MissingColumns of e determine which
	// fields are present and missing.
	ScoreMissing(x event.Vec, e *event.Example, out []float64) []float64
	// Center returns the raw value that is standardized to 0 in a column: 0 if nothing is standardized.
	Center(column uint32) float64
	// Kind returns the kind in the model's file.
	Kind() string
	// EachBlock yields the blocks of the model's file. Nobody may change their data, which are valid until the model is
	// changed.
	EachBlock() (iter.Seq[event.Block], error)
}

// Head has what models of all kinds have. It is the JSON block "model" of a model file.
type Head struct {
	Schema  *event.Schema `json:"schema"`
	Scaler  Scaler        `json:"scaler"`
	Loss    string        `json:"loss"`  // parsed by loss.Parse, or the name of another objective
	Noise   string        `json:"noise"` // parsed by loss.ParseNoise
	Outputs int           `json:"outputs"`
	// Pairs means one-against-one: each output separates two classes, in the order (1,0), (2,0), (2,1), (3,0) …. See
	// ClassScores.
	Pairs     bool      `json:"pairs,omitempty"`
	Intercept []float64 `json:"intercept"` // published, one per output
	// Experts lists the experts that are mixed, for people; empty if there is only one.
	Experts []Expert `json:"experts,omitempty"`
	Layout  Layout   `json:"layout"`
	// Link maps a score to log-odds, see Probabilities; nil for the identity.
	Link *Link `json:"link,omitempty"`
	// Positive is the name of the positive class of two, for people and measures; "" for the second class. Scores are
	// always those of the second class.
	Positive string `json:"positive,omitempty"`
	// Threshold is the probability of the second class of two above which it is predicted; 0 means one half. See
	// Predict.
	Threshold float64 `json:"threshold,omitempty"`
	// Missing determines which fields are missing, and how an event is then scored.
	Missing *Missing `json:"missing,omitempty"`
	// Faults determines which readings count as missing; nil for none.
	Faults *Faults `json:"faults,omitempty"`
	// Dead has the values of numbers that have died silently; nil if not known.
	Dead *Dead `json:"dead,omitempty"`
	// Levels are more weights, learned under other noise than Noise, with which Missing scores events with missing
	// fields. They are in the model's rows.
	Levels []Level `json:"levels,omitempty"`
	// Covariance imputes missing numbers; nil if the model cannot. It is a block of its own in a model file.
	Covariance *Covariance `json:"-"`
	// Residual is the distribution of residuals for regression; nil if not known.
	Residual *Residual `json:"residual,omitempty"`
	// Sets has the limits of prediction sets and intervals; nil if not known.
	Sets *Sets `json:"sets,omitempty"`
	// Stale is a sentence about the ages at which weights of the stream have predicted worse than the class
	// frequencies, for people; "" for none.
	Stale   string `json:"stale,omitempty"`
	Events  uint64 `json:"events"`            // number of events learned from
	Trained string `json:"trained,omitempty"` // the solver, for people
}

// Level has the weights of one noise level, in addition to those of the Head.
type Level struct {
	Noise     string    `json:"noise"`     // parsed by loss.ParseNoise
	Intercept []float64 `json:"intercept"` // one per output
	Layout    Layout    `json:"layout"`    // in the same rows
}

// NoiseOf returns the noise under which the weights of an Answer were learned.
func (h *Head) NoiseOf(a Answer) string {
	if a.Level == 0 || a.Level > len(h.Levels) {
		return h.Noise
	}
	return h.Levels[a.Level-1].Noise
}

// About returns the Head itself.
func (h *Head) About() *Head { return h }

// Expert is an expert and its mixture weight for complete events. The weights of the noise levels sum to 1. Experts
// that correct the levels have weights of the corrected prediction, whose rest is the levels'.
type Expert struct {
	Name     string  `json:"name"`
	Weight   float64 `json:"weight"`
	Corrects bool    `json:"corrects,omitempty"` // it corrects the levels
}

// Layout has the positions of the weights in a row. A learner's rows also contain accumulators and more; a batch
// model's contain the weights alone (width K, all zero here).
type Layout struct {
	Width  int `json:"width"`
	Weight int `json:"weight"`
	// The average of the iterates is stored as its lag, divided by a common factor: average = weight + Average lag.
	// Average 0 means none.
	Lag     int     `json:"lag,omitempty"`
	Average float64 `json:"average,omitempty"`
	// Stats is the position of the column's statistics (see Scaler), -1 if rows have none.
	Stats int `json:"stats"`
	// Outputs has, for each score, the index of its weight after Weight and Lag, if several classes share one: -1 for a
	// class without. nil means each score's own index.
	Outputs []int `json:"outputs,omitempty"`
	// Mix lists the weights that are mixed, in place of Weight, Lag and Average: w = sum Share (row[Weight+k] + Average
	// row[Lag+k]).
	Mix []Part `json:"mix,omitempty"`
	// Scale is the factor of weights that were learned in a unit of the targets, see Target; 0 means 1. Intercept and
	// scores are in the stream's unit.
	Scale float64 `json:"scale,omitempty"`
}

// Part is one of the weights that a Layout mixes.
type Part struct {
	Factor  float64 `json:"factor"` // factor of the weights
	Weight  int     `json:"weight"`
	Lag     int     `json:"lag"`
	Average float64 `json:"average"`
}

// weight returns the weight of a row for output k of the row, in the unit of the row.
func (l *Layout) weight(row []float64, k int) (w float64) {
	if l.Mix != nil {
		return l.mixed(row, k)
	}
	if w = row[l.Weight+k]; l.Average != 0 {
		w += l.Average * row[l.Lag+k]
	}
	return w
}

// mixed returns the mixed weight of a row for output k.
func (l *Layout) mixed(row []float64, k int) (w float64) {
	for i := range l.Mix {
		p := &l.Mix[i]
		w += p.Factor * (row[p.Weight+k] + p.Average*row[p.Lag+k])
	}
	return w
}

// rowOutputs returns the number of outputs in a row of a model with so many scores.
func (l *Layout) rowOutputs(scores int) int {
	if l.Outputs == nil {
		return scores
	}
	return max(1, slices.Max(l.Outputs)+1)
}

// fits reports whether the positions of a Layout are within the rows.
func (l Layout) fits(outputs int) bool {
	if l.Outputs != nil && (len(l.Outputs) != outputs || slices.Min(l.Outputs) < -1) {
		return false
	}
	outputs = l.rowOutputs(outputs)
	last := l.Width - outputs // largest start of a column's weights
	fits := func(weight, lag int, average float64) bool {
		return weight >= 0 && weight <= last && lag >= 0 && lag <= last && !math.IsNaN(average)
	}
	for _, p := range l.Mix {
		if !fits(p.Weight, p.Lag, p.Average) || p.Factor-p.Factor != 0 {
			return false
		}
	}
	return fits(l.Weight, l.Lag, l.Average) && (l.Stats < 0 || l.Stats <= l.Width-ScalerWidth) && l.Scale >= 0 && !math.IsInf(l.Scale, 1)
}

// Fits reports whether a decoded Head is consistent: the outputs fit the intercepts and the pairs of classes.
func (h *Head) Fits() bool {
	if h.Schema == nil || h.Outputs < 1 || len(h.Intercept) != h.Outputs || !(h.Threshold >= 0 && h.Threshold < 1) || h.Link != nil && h.Link.Check() != nil || !h.Dead.fits() {
		return false
	}
	k := len(h.Schema.Classes)
	return !h.Pairs || k > 2 && h.Outputs == k*(k-1)/2
}
