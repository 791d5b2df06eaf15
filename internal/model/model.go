package model

// This file holds what all models share: the interface and the head of a file.

import (
	"iter"
	"math"
	"slices"

	"blankout/internal/event"
)

// Model is what has been learned, as everything needs it that answers events: a
// [Linear], or the kernel machine of package kernel. What only a linear model can
// tell, such as weights and what a feature adds to a score, its own methods tell: a
// caller that wants them asserts the type. A Model is immutable and safe for
// concurrent use.
type Model interface {
	// About returns what models of every kind have. It must not be changed.
	About() *Head
	// Score writes the K scores of an event to out, which must have room for them and
	// for a score of each class, and returns those. Where fields are known to be
	// missing, Head.Missing decides.
	Score(e *event.Example, out []float64) []float64
	// Standardized appends to out the features of an event as they are scored: through
	// the Scaler, with the dense columns that the event leaves out as the number 0.
	Standardized(e *event.Example, out event.Vec) event.Vec
	// ScoreVec is Score for features as Standardized returns them. It takes them as they
	// are, whatever is missing.
	ScoreVec(x event.Vec, out []float64) []float64
	// ScoreLacking is ScoreVec for the features of an event of which the Field, Missing
	// and MissingColumns of e say what is left, and what is known to be missing.
	ScoreLacking(x event.Vec, e *event.Example, out []float64) []float64
	// Center returns the number, as it comes, of which the Scaler makes 0 in a column: 0 where
	// nothing is standardized.
	Center(column uint32) float64
	// Kind is that of the model's file.
	Kind() string
	// EachBlock yields the blocks of the model's file. Nobody may change their data, which
	// hold until the model is changed.
	EachBlock() (iter.Seq[event.Block], error)
}

// Head is what models of every kind have; it is in the JSON block "model" of a model
// file.
type Head struct {
	Schema  *event.Schema `json:"schema"`
	Scaler  Scaler        `json:"scaler"`
	Loss    string        `json:"loss"`  // as loss.Parse reads it, or the name of another objective
	Noise   string        `json:"noise"` // as ParseNoise reads it
	Outputs int           `json:"outputs"`
	// Pairs says that the outputs tell two classes apart each, in the order
	// (1,0), (2,0), (2,1), (3,0) …: one-against-one. See ClassScores.
	Pairs     bool      `json:"pairs,omitempty"`
	Intercept []float64 `json:"intercept"` // published, one for each output
	// Experts lists, for people, what the weights are mixed of; none where one learned them.
	Experts []Expert `json:"experts,omitempty"`
	Layout  Layout   `json:"layout"`
	// Link maps a score to log-odds, see Probabilities; nil where it is that.
	Link *Link `json:"link,omitempty"`
	// Positive names the positive one of two classes, for people and measures: scores are
	// those of the second class whichever it is. "" is the second.
	Positive string `json:"positive,omitempty"`
	// Threshold is the probability of the second of two classes above which an event
	// counts as of it; 0 is one half. See Predict.
	Threshold float64 `json:"threshold,omitempty"`
	// Missing says what is known to be missing from an event, and what the score
	// then is.
	Missing *Missing `json:"missing,omitempty"`
	// Faults says which readings count as missing, nil for none.
	Faults *Faults `json:"faults,omitempty"`
	// Dead says what dead numbers read that do not say so; nil where that is not known.
	Dead *Dead `json:"dead,omitempty"`
	// Levels are further weights, learned under other noise than Noise, that Missing has
	// events answered by that lack some of their fields. Their rows are the model's own.
	Levels []Level `json:"levels,omitempty"`
	// Covariance tells numbers that are missing from the others; nil if the model
	// cannot. A model file holds it in a block of its own.
	Covariance *Covariance `json:"-"`
	// Residual says how far off predictions are where labels are numbers; nil if that is
	// not known.
	Residual *Residual `json:"residual,omitempty"`
	// Sets says what answers leave open, nil if that is not known.
	Sets *Sets `json:"sets,omitempty"`
	// Stale says for people at which ages weights of the stream have predicted worse than the class shares; "" for none.
	Stale   string `json:"stale,omitempty"`
	Events  uint64 `json:"events"`            // learned from
	Trained string `json:"trained,omitempty"` // by which solver, for people
}

// Level is what the weights of one noise level are, beside those that a Head tells of
// itself.
type Level struct {
	Noise     string    `json:"noise"`     // as ParseNoise reads it
	Intercept []float64 `json:"intercept"` // one for each output
	Layout    Layout    `json:"layout"`    // of the same rows
}

// NoiseOf returns the noise that the weights were learned under which answer a.
func (h *Head) NoiseOf(a Answer) string {
	if a.Level == 0 || a.Level > len(h.Levels) {
		return h.Noise
	}
	return h.Levels[a.Level-1].Noise
}

// About returns the Head itself.
func (h *Head) About() *Head { return h }

// Expert is a copy of the weights that learns in a way of its own, and its share of what answers
// events that lack nothing. The shares of the levels sum to 1. Corrections add to what the levels
// say, mixed so: theirs are shares of the answer, of which the rest is not corrected.
type Expert struct {
	Name     string  `json:"name"`
	Share    float64 `json:"weight"`
	Corrects bool    `json:"corrects,omitempty"` // it is a correction, and no level
}

// Layout says where in a row the weights are. A learner's rows also hold its
// metric and more; a batch model's hold the weights alone (width K, all zero here).
type Layout struct {
	Width  int `json:"width"`
	Weight int `json:"weight"`
	// The average of the iterates is kept as its lag behind the iterate, up to
	// a common factor: average = weight + Average lag. Average 0 means none.
	Lag     int     `json:"lag,omitempty"`
	Average float64 `json:"average,omitempty"`
	// Stats is where the column's running statistics start (see Scaler), -1 if
	// rows hold none.
	Stats int `json:"stats"`
	// Outputs lists for each score where its weight is from Weight and Lag on, where several classes share one: -1 for a
	// class without. nil is each score's own number.
	Outputs []int `json:"outputs,omitempty"`
	// Mix lists the weights that the published ones are mixed of, instead of Weight, Lag and
	// Average: w = sum Share (row[Weight+k] + Average row[Lag+k]).
	Mix []Part `json:"mix,omitempty"`
	// Scale multiplies the weights where they were learned in a unit of the targets, see
	// Target; 0 is 1. Intercept and scores are in the targets' own unit.
	Scale float64 `json:"scale,omitempty"`
}

// Part is one of the weights that a Layout mixes.
type Part struct {
	Share   float64 `json:"factor"` // by what the weights are multiplied
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
		w += p.Share * (row[p.Weight+k] + p.Average*row[p.Lag+k])
	}
	return w
}

// rowOutputs returns how many outputs a row has of a model with so many scores.
func (l *Layout) rowOutputs(scores int) int {
	if l.Outputs == nil {
		return scores
	}
	return max(1, slices.Max(l.Outputs)+1)
}

// fits says whether the rows of a Layout have room for what it says is in them.
func (l Layout) fits(outputs int) bool {
	if l.Outputs != nil && (len(l.Outputs) != outputs || slices.Min(l.Outputs) < -1) {
		return false
	}
	outputs = l.rowOutputs(outputs)
	last := l.Width - outputs // where a column's weights may begin
	fits := func(weight, lag int, average float64) bool {
		return weight >= 0 && weight <= last && lag >= 0 && lag <= last && !math.IsNaN(average)
	}
	for _, p := range l.Mix {
		if !fits(p.Weight, p.Lag, p.Average) || p.Share-p.Share != 0 {
			return false
		}
	}
	return fits(l.Weight, l.Lag, l.Average) && (l.Stats < 0 || l.Stats <= l.Width-ScalerWidth) && l.Scale >= 0 && !math.IsInf(l.Scale, 1)
}

// Fits reports whether a Head that was read is one of a model of either kind: the
// outputs fit the intercepts and the pairs of classes.
func (h *Head) Fits() bool {
	if h.Schema == nil || h.Outputs < 1 || len(h.Intercept) != h.Outputs || !(h.Threshold >= 0 && h.Threshold < 1) || h.Link != nil && h.Link.Check() != nil || !h.Dead.fits() {
		return false
	}
	k := len(h.Schema.Classes)
	return !h.Pairs || k > 2 && h.Outputs == k*(k-1)/2
}
