package model

// This file defines the parts that all models share: the interface, and the head of a file.

import (
	"iter"
	"math"
	"slices"

	"blankout/internal/event"
)

// Model is the interface of trained models: a [Linear], or the kernel machine of package kernel. Everything that makes
// predictions uses it. Use a type assertion for methods of linear models only, such as weights and contributions of
// features. A Model is immutable and safe for concurrent use.
type Model interface {
	// About returns the Head, which all kinds of models have. The caller must not change it.
	About() *Head
	// Score writes the K scores of an event to out and returns them. The capacity of out must be at least K and at
	// least the number of classes. Head.Missing determines how missing fields are scored.
	Score(e *event.Example, out []float64) []float64
	// Standardized appends the standardized features of an event to out. Absent dense columns count as 0.
	Standardized(e *event.Example, out event.Vec) event.Vec
	// ScoreVec is Score for standardized features. It ignores missing fields.
	ScoreVec(x event.Vec, out []float64) []float64
	// ScoreMissing is ScoreVec for standardized features of an event, with missing fields. Field, Missing and
	// MissingColumns of e determine which fields are present and missing.
	ScoreMissing(x event.Vec, e *event.Example, out []float64) []float64
	// Center returns the raw value of a column that is standardized to 0. It returns 0 if nothing is standardized.
	Center(column uint32) float64
	// Kind returns the name of the model's kind in its file.
	Kind() string
	// EachBlock yields the blocks of the model's file. Callers must not change their data, which are valid until the
	// model changes.
	EachBlock() (iter.Seq[event.Block], error)
}

// Head has the properties that models of all kinds have. It is stored as the JSON block "model" of a model file.
type Head struct {
	Schema  *event.Schema `json:"schema"`
	Scaler  Scaler        `json:"scaler"`
	Loss    string        `json:"loss"`  // a name for loss.Parse, or the name of another objective
	Noise   string        `json:"noise"` // a name for loss.ParseNoise
	Outputs int           `json:"outputs"`
	// Pairs means one-against-one classification: each output separates two classes, in the order (1,0), (2,0), (2,1),
	// (3,0) …. See ClassScores.
	Pairs     bool      `json:"pairs,omitempty"`
	Intercept []float64 `json:"intercept"` // published intercepts, one per output
	// Experts lists the experts that are mixed, for reports; empty if there is only one expert.
	Experts []Expert `json:"experts,omitempty"`
	Layout  Layout   `json:"layout"`
	// Link maps a score to log-odds, see Decision.Probability; nil is the identity.
	Link *Link `json:"link,omitempty"`
	// Positive is the name of the positive class of two, for reports and measures; "" means the second class. Scores
	// are always scores of the second class.
	Positive string `json:"positive,omitempty"`
	// Threshold is the probability of the second class of two above which it is predicted; 0 means one half. See
	// Predict.
	Threshold float64 `json:"threshold,omitempty"`
	// Missing determines which fields are missing, and how an event is then scored.
	Missing *Missing `json:"missing,omitempty"`
	// Faults determines which readings count as missing; nil if none do.
	Faults *Faults `json:"faults,omitempty"`
	// Doubt finds numbers that contradict the rest of their event; nil for none.
	Doubt *Doubt `json:"doubt,omitempty"`
	// Dead has the values of silently dead numbers; nil if unknown.
	Dead *Dead `json:"dead,omitempty"`
	// Levels are additional weights, learned under other noise than Noise. Missing uses them to score events with
	// missing fields. The additional weights are stored in the model's rows.
	Levels []Level `json:"levels,omitempty"`
	// Covariance imputes missing numbers; nil if the model cannot impute. A model file stores it as a separate block.
	Covariance *Covariance `json:"-"`
	// Cosines is a part of the scores in addition to the weights of Layout; nil for none. A model file stores it as a
	// separate block.
	Cosines *CosineWeights `json:"-"`
	// Residual is the distribution of residuals for regression; nil if unknown.
	Residual *Residual `json:"residual,omitempty"`
	// Sets has the limits of prediction sets and intervals; nil if unknown.
	Sets *Sets `json:"sets,omitempty"`
	// Stale is a warning that lists the ages at which the stream's weights have predicted worse than the class
	// frequencies. Stale is "" if there is no such age.
	Stale string `json:"stale,omitempty"`
	// LastLabel is the weight that the learner gives the last label in its own predictions, which the model leaves out.
	LastLabel float64 `json:"last_label,omitempty"`
	Events    uint64  `json:"events"`            // number of events learned
	Trained   string  `json:"trained,omitempty"` // name of the solver, for reports
}

// Level has the weights of one noise level, in addition to the weights of the Head.
type Level struct {
	Noise     string    `json:"noise"`     // a name for loss.ParseNoise
	Intercept []float64 `json:"intercept"` // one intercept per output
	Layout    Layout    `json:"layout"`    // layout in the Head's rows
}

// NoiseOf returns the noise under which the weights of a MissingHandling were learned.
func (h *Head) NoiseOf(a MissingHandling) string {
	if a.Level == 0 || a.Level > len(h.Levels) {
		return h.Noise
	}
	return h.Levels[a.Level-1].Noise
}

// About returns the Head itself.
func (h *Head) About() *Head { return h }

// Expert is one of the mixed learners, with its mixture weight for complete events. The weights of the noise levels sum
// to 1. If an expert corrects the noise levels, its weight is its fraction of the corrected prediction; the noise
// levels have the remaining fraction. The weight of "cosines" is their factor, because they are added to that prediction. A
// report also has "last label", with its weight in mixtures with the prediction of the model.
type Expert struct {
	Name     string  `json:"name"`
	Weight   float64 `json:"weight"`
	Corrects bool    `json:"corrects,omitempty"` // whether the expert corrects the noise levels
}

// Layout has the positions of the weights in a row. A learner's rows also contain accumulators and other state. A batch
// model's rows contain only the weights (width K, all positions 0).
type Layout struct {
	Width  int `json:"width"`
	Weight int `json:"weight"`
	// Lag is the index in the row of the lag of the average of the iterates. The average is row[Weight+k] + Average
	// row[Lag+k]. Average 0 means that there is no average.
	Lag     int     `json:"lag,omitempty"`
	Average float64 `json:"average,omitempty"`
	// Stats is the position of the column's statistics (see Scaler), or -1 if rows have none.
	Stats int `json:"stats"`
	// Outputs has, for each score, the index of its weight after Weight and Lag, for models in which several classes
	// share a weight. The index is -1 for a class without a weight. If Outputs is nil, every score has its own weight.
	Outputs []int `json:"outputs,omitempty"`
	// Mix lists the parts of a mixed weight, and replaces Weight, Lag and Average. The weight is w = sum Factor
	// (row[Weight+k] + Average row[Lag+k]).
	Mix []Part `json:"mix,omitempty"`
	// Scale is the factor of weights that were learned in another unit of the targets, see Target; 0 means 1. Intercept
	// and scores are in the stream's unit.
	Scale float64 `json:"scale,omitempty"`
}

// Part is one term of the weights that a Layout mixes.
type Part struct {
	Factor  float64 `json:"factor"` // factor in the mixed weight
	Weight  int     `json:"weight"`
	Lag     int     `json:"lag"`
	Average float64 `json:"average"`
}

// weight returns the weight of output k of a row, in the unit of the row.
func (l *Layout) weight(row []float64, k int) (w float64) {
	if l.Mix != nil {
		return l.mixed(row, k)
	}
	if w = row[l.Weight+k]; l.Average != 0 {
		w += l.Average * row[l.Lag+k]
	}
	return w
}

// published returns the weight of a row for score k, see Outputs and Scale.
func (l *Layout) published(row []float64, k int) float64 {
	if l.Outputs != nil {
		if k = l.Outputs[k]; k < 0 {
			return 0
		}
	}
	w := l.weight(row, k)
	if l.Scale != 0 {
		w *= l.Scale
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

// rowOutputs returns the number of outputs in a row of a model with the given number of scores.
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
	last := l.Width - outputs // largest start index of a column's weights
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
