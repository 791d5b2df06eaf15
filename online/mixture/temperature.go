package mixture

// This file learns a factor (temperature) for an expert's scores.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
)

// Temperature learns the factor that minimizes the log-loss of scores multiplied by it. Online gradient steps change
// the logarithm of the factor. Each step is the gradient divided by a decaying sum of squared gradients.
type Temperature struct {
	logarithm, squares float64
}

const (
	temperatureMemory = 5000
	temperaturePrior  = 10
	temperatureStep   = 0.02
	mostTemperature   = 2
)

// NewTemperature returns a Temperature that starts at the given factor.
func NewTemperature(factor float64) Temperature { return Temperature{logarithm: math.Log(factor)} }

// Factor returns the current factor.
func (t *Temperature) Factor() float64 {
	if t.logarithm == 0 { // always 0 for one output
		return 1
	}
	return loss.Exp(t.logarithm)
}

// Learn learns from an event. lost returns the log-loss of the event's scores multiplied by a factor.
func (t *Temperature) Learn(lost func(factor float64) float64) {
	f := t.Factor()
	slope := (lost(f*(1+temperatureStep)) - lost(f*(1-temperatureStep))) / (2 * temperatureStep)
	if slope-slope != 0 {
		return
	}
	t.squares = (1-1.0/temperatureMemory)*t.squares + slope*slope
	t.logarithm = max(-mostTemperature, min(t.logarithm-slope/(t.squares+temperaturePrior), mostTemperature))
}

// State encodes or decodes the state.
func (t *Temperature) State(c *coder.Coder) { c.Each(&t.logarithm, &t.squares) }
