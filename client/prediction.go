package client

// This file holds predictions and their errors.

import (
	"errors"

	"blankout/internal/event"
	"blankout/internal/served"
)

// Prediction is a model's prediction for one event. Its JSON is the same as in the HTTP server's responses.
type Prediction struct {
	ID string `json:"id,omitempty"` // id of the event, if it has one

	// Value is the predicted number; nil for a classification model. Low and High bound the targets of 90 % of events,
	// or of the fraction learner.coverage. Low and High are nil if the model has no residuals yet. If there are two
	// classes and fields were imputed, Low and High bound Probability.
	Value *float64 `json:"value,omitempty"`
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`

	// Class is the predicted class, "" for regression. Probability is the probability of Class, and Probabilities has
	// the probability of each class.
	Class         string             `json:"class,omitempty"`
	Probability   float64            `json:"probability,omitempty"`
	Probabilities map[string]float64 `json:"probabilities,omitempty"`
	// Set is the prediction set, the most probable class first; nil if the model has no prediction sets yet.
	Set []string `json:"set,omitempty"`

	// Score is the score of Class or the predicted Value; with two classes it is the score of the second class. Scores
	// has one element for each output: one output for two classes and for regression, else one output per class.
	Score  float64   `json:"score"`
	Scores []float64 `json:"scores"`

	// Missing names the fields that are null, or that are absent although most events have them. MissingPolicy is the
	// policy for missing fields with the largest weight in the scores, "" if nothing is missing. MixtureWeights has the
	// weights of all policies, if an explanation was requested.
	Missing        []string           `json:"missing,omitempty"`
	MissingPolicy  string             `json:"missing_policy,omitempty"`
	MixtureWeights map[string]float64 `json:"mixture_weights,omitempty"`
	// Stuck names the fields among Missing that are not null: the learner has detected that they are stuck at their
	// current value.
	Stuck []string `json:"stuck,omitempty"`

	// Doubted lists the numbers that are probably no measurements: they contradict the other numbers of the event, or
	// repeat a value that dead sensors read.
	Doubted []DoubtedReading `json:"doubted,omitempty"`

	NoiseLevel string `json:"noise_level,omitempty"` // noise level of the learned weights, as "dropout:0.3"
	Version    uint64 `json:"version,omitempty"`     // version of the Model
	Learner    string `json:"learner,omitempty"`     // name of the learner, if a stream has several
	Shards     int    `json:"shards,omitempty"`      // number of shards that predicted, if the learner is divided

	// Unseen names up to twenty features that the model has not seen. Such features add nothing to the scores.
	// OnlyUnseen reports that the event has features, but the model has seen none of them.
	Unseen     []string `json:"unseen,omitempty"`
	OnlyUnseen bool     `json:"-"`

	// Explanation lists the features that add most to the score of Class, the largest first. If there are two classes,
	// it explains the score of the positive class.
	Explanation []Contribution `json:"explanation,omitempty"`
}

// DoubtedReading is a number that is probably no measurement.
type DoubtedReading struct {
	Field       string  `json:"field"`       // name of the field or column
	Value       float64 `json:"value"`       // the number
	Expected    float64 `json:"expected"`    // what the other numbers of the event predict
	Probability float64 `json:"probability"` // probability that the number is no measurement
	Reason      string  `json:"reason"`      // "repeated" or "contradicts"
}

// Contribution is the amount that one feature adds to a score: its standardized value times its weight.
type Contribution struct {
	Feature string  `json:"feature"` // a feature, or "(intercept)", "(imputed)" or "(cosines)"
	Value   float64 `json:"value"`
	Weight  float64 `json:"weight"`
	Score   float64 `json:"score"`
}

// RefusedError reports why an event cannot be used.
type RefusedError struct {
	Reason string // one word, the same as in dead letters
	Detail string
}

func (e *RefusedError) Error() string { return e.Reason + ": " + e.Detail }

// predicted returns the public form of a prediction and its error.
func predicted(p served.Prediction, err error) (Prediction, error) {
	if refusal, ok := errors.AsType[*event.Refusal](err); ok {
		return Prediction{}, &RefusedError{string(refusal.Reason), refusal.Detail}
	}
	if err != nil {
		return Prediction{}, err
	}
	out := Prediction{
		ID: p.ID, Value: p.Value, Low: p.Low, High: p.High, Class: p.Class, Probability: p.Probability, Probabilities: p.Probabilities, Set: p.Set,
		Score: p.Score, Scores: p.Scores, Missing: p.Missing, Stuck: p.Stuck, MissingPolicy: p.MissingPolicy, MixtureWeights: p.MixtureWeights, NoiseLevel: p.NoiseLevel, Version: p.Version, Shards: p.Shards,
		Unseen: p.Unseen, OnlyUnseen: p.OnlyUnseen,
	}
	for _, d := range p.Doubted {
		out.Doubted = append(out.Doubted, DoubtedReading(d))
	}
	for _, c := range p.Explanation {
		out.Explanation = append(out.Explanation, Contribution(c))
	}
	return out, nil
}
