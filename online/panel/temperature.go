package panel

// This file finds by how much an expert's scores should be multiplied.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
)

// temperature finds by how much scores should be multiplied for their log-loss to be least: an
// online step along the logarithm of the factor, whose square sum of slopes fades.
type temperature struct {
	logarithm, squares float64
}

const (
	temperatureMemory = 5000
	temperaturePrior  = 10
	temperatureStep   = 0.02
	mostTemperature   = 2
)

// newTemperature returns one that begins with a factor.
func newTemperature(factor float64) temperature { return temperature{logarithm: math.Log(factor)} }

// factor returns the factor.
func (t *temperature) factor() float64 {
	if t.logarithm == 0 { // with one output it stays so
		return 1
	}
	return loss.Exp(t.logarithm)
}

// learn takes up an event, whose log-loss with the scores multiplied is lost(factor).
func (t *temperature) learn(lost func(factor float64) float64) {
	f := t.factor()
	slope := (lost(f*(1+temperatureStep)) - lost(f*(1-temperatureStep))) / (2 * temperatureStep)
	if slope-slope != 0 {
		return
	}
	t.squares = (1-1.0/temperatureMemory)*t.squares + slope*slope
	t.logarithm = max(-mostTemperature, min(t.logarithm-slope/(t.squares+temperaturePrior), mostTemperature))
}

// state walks the state.
func (t *temperature) state(c *coder.Coder) { c.Each(&t.logarithm, &t.squares) }
