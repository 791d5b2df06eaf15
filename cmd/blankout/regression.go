package main

// This file formats the error measures of regression.

import (
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// numberMeasures measures regression predictions.
type numberMeasures struct {
	loss loss.Loss
	sums measure.Numbers
}

func newNumberMeasures(lossName string) (*numberMeasures, error) {
	l, err := loss.Parse(lossName)
	return &numberMeasures{loss: l}, err
}

// add measures the score of an example. The argument by is the result of model.ScoreVariance for the example.
func (m *numberMeasures) add(e *event.Example, h *model.Head, score float64, by model.MissingVariance) {
	if e.Label >= 0 {
		value := h.Value(score)
		low, high := h.Interval(value, by)
		m.sums.Add(m.loss, e.Target, e.Weight, value, low, high, 1)
	}
}
