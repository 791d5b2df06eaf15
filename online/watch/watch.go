package watch

import (
	"blankout/internal/event"
	"blankout/internal/model"
)

// Counts are what the warnings about a stream as a whole follow from.
type Counts struct {
	Measures  Measures
	Baselines Baselines // predictors that know the labels alone
	Prior     Prior
	Refused   Refused
}

// Met is an event as it came, before anything has been learned from it.
type Met struct {
	Event *event.Example
	// Came is the event as it came: Event itself, unless fields that are stuck have been declared missing.
	// These have come, and their values tell nothing.
	Came   *event.Example
	Number uint64 // of the event
	// Named says that it has fields whose names tell what is missing; Present are those that
	// it came with.
	Named   bool
	Present model.FieldSet
	Fields  []event.Field  // of the stream so far, by id
	Rows    *model.Table   // counts by column, without this event
	Of      [][]float64    // or rows of the Event's features, which count it; nil if they are not at hand
	Usual   *model.Missing // which fields are usual, nil until that is known
	Error   float64        // the error that is forecast for whole events, a share; -1 before there is one
}

// Told is a labeled event and what was answered to it, before it is learned.
type Told struct {
	Number uint64 // of the event
	After  uint64 // how many events had been met when it was answered
	Time   int64  // its time, milliseconds since the Unix epoch; 0 if unknown
	Weight float64
	// Loss is what the drift detector takes up: the log-loss, or the absolute error in
	// deviations of the targets.
	Loss float64
	// Part says that the event is one of an interval that will be merged: what looks at the
	// stream as a whole does not take it up.
	Part bool

	// Of classes: the label, the class predicted, the importance with which it is learned, the
	// score of the label, of two classes that of the second one, and its probability. Likelihood says that
	// the log-loss can be compared with that of the class shares.
	Label, Predicted   int
	Learned            float64
	Score, Probability float64
	Likelihood         bool

	// Of numbers (Regression): the label, and the value predicted with its interval (NaN where
	// there is none).
	Regression               bool
	Target, Value, Low, High float64
}
