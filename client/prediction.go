package client

// This file holds predictions and their errors.

import (
	"errors"

	"blankout/internal/event"
	"blankout/internal/served"
)

// Prediction is what a model predicts for one event. Its JSON is that of the HTTP server.
type Prediction struct {
	ID string `json:"id,omitempty"` // of the event, if it has one

	// Value is the number predicted, nil for a model of classes. Low and High bound the targets of
	// nine events in ten, or of the fraction learner.coverage; nil if the model has no residuals yet.
	// With two classes they bound Probability if fields were imputed.
	Value *float64 `json:"value,omitempty"`
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`

	// Class is the predicted class, "" for regression. Probability is its probability, and
	// Probabilities has those of all classes.
	Class         string             `json:"class,omitempty"`
	Probability   float64            `json:"probability,omitempty"`
	Probabilities map[string]float64 `json:"probabilities,omitempty"`
	// Set is the prediction set, the most probable class first; nil if the model has none yet.
	Set []string `json:"set,omitempty"`

	// Score belongs to Class or Value; with two classes it is the second class's. Scores has one
	// element for each output: one for two classes and for regression, else one a class.
	Score  float64   `json:"score"`
	Scores []float64 `json:"scores"`

	// Missing names the fields that are null, or absent although usual. MissingPolicy is the policy
	// with the largest weight in the scores because of them, "" if nothing is missing.
	// MixtureWeights has the weights of all policies, if an explanation was asked for.
	Missing        []string           `json:"missing,omitempty"`
	MissingPolicy  string             `json:"missing_policy,omitempty"`
	MixtureWeights map[string]float64 `json:"mixture_weights,omitempty"`
	// Stuck names the fields among Missing that are not null: the learner has found them stuck at the
	// value that they have.
	Stuck []string `json:"stuck,omitempty"`

	NoiseLevel string `json:"noise_level,omitempty"` // that the weights were learned with, as "dropout:0.3"
	Version    uint64 `json:"version,omitempty"`     // of the Model
	Learner    string `json:"learner,omitempty"`     // of several learners of a stream, the one that the Model is of

	// Unseen names up to twenty features that the model has not seen. They add nothing to the
	// scores. OnlyUnseen reports that the event has features and the model has seen none of them.
	Unseen     []string `json:"unseen,omitempty"`
	OnlyUnseen bool     `json:"-"`

	// Explanation lists what adds most to the score of Class, or with two classes to that of the
	// positive class, the largest first.
	Explanation []Contribution `json:"explanation,omitempty"`
}

// Contribution is what one feature adds to a score: its standardized value times its weight.
type Contribution struct {
	Feature string  `json:"feature"` // "(intercept)" and "(imputed)" stand for no feature
	Value   float64 `json:"value"`
	Weight  float64 `json:"weight"`
	Score   float64 `json:"score"`
}

// RefusedError reports why an event cannot be used.
type RefusedError struct {
	Reason string // one word, as in dead letters
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
		Score: p.Score, Scores: p.Scores, Missing: p.Missing, Stuck: p.Stuck, MissingPolicy: string(p.MissingPolicy), NoiseLevel: p.NoiseLevel, Version: p.Version,
		Unseen: p.Unseen, OnlyUnseen: p.OnlyUnseen,
	}
	if len(p.MixtureWeights) > 0 {
		out.MixtureWeights = map[string]float64{}
		for policy, weight := range p.MixtureWeights {
			out.MixtureWeights[string(policy)] = weight
		}
	}
	for _, c := range p.Explanation {
		out.Explanation = append(out.Explanation, Contribution(c))
	}
	return out, nil
}
