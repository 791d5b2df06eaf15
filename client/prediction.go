package client

// This file holds predictions and their errors.

import (
	"errors"

	"blankout/app/served"
	"blankout/internal/event"
)

// Prediction is a model's prediction for one event. Its JSON is the same as in the HTTP server's responses, and
// docs/reference.md describes each field.
type Prediction = served.Prediction

// DoubtedReading is a number that is probably no measurement.
type DoubtedReading = served.DoubtedReading

// Contribution is the amount that one feature adds to a score: its standardized value times its weight.
type Contribution = served.Contribution

// RefusedError reports why an event cannot be used.
type RefusedError struct {
	Reason string // one word, the same as in dead letters
	Detail string
}

func (e *RefusedError) Error() string { return e.Reason + ": " + e.Detail }

// predicted returns a prediction, or its error as a RefusedError.
func predicted(p Prediction, err error) (Prediction, error) {
	if refusal, ok := errors.AsType[*event.Refusal](err); ok {
		return Prediction{}, &RefusedError{string(refusal.Reason), refusal.Detail}
	}
	return p, err
}
