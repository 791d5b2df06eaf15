package correct

// This file finds by how much an expert's scores should be multiplied.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
)

// Temperature finds by how much scores should be multiplied for their log-loss to be least: an
// online step along the logarithm of the factor, whose square sum of slopes fades.
type Temperature struct {
	logarithm, squares float64
}

const (
	temperatureMemory = 5000
	temperaturePrior  = 10
	temperatureStep   = 0.02
	mostTemperature   = 2
)

// NewTemperature returns one that begins with a factor.
func NewTemperature(factor float64) Temperature { return Temperature{logarithm: math.Log(factor)} }

// Factor returns the factor.
func (t *Temperature) Factor() float64 {
	if t.logarithm == 0 { // with one output it stays so
		return 1
	}
	return loss.Exp(t.logarithm)
}

// Learn takes up an event, whose log-loss with the scores multiplied is lost(factor).
func (t *Temperature) Learn(lost func(factor float64) float64) {
	f := t.Factor()
	slope := (lost(f*(1+temperatureStep)) - lost(f*(1-temperatureStep))) / (2 * temperatureStep)
	if slope-slope != 0 {
		return
	}
	t.squares = (1-1.0/temperatureMemory)*t.squares + slope*slope
	t.logarithm = max(-mostTemperature, min(t.logarithm-slope/(t.squares+temperaturePrior), mostTemperature))
}

// State walks the state.
func (t *Temperature) State(c *coder.Coder) { c.Each(&t.logarithm, &t.squares) }
