package answer

// This file holds probabilities fitted to the progressive scores.

import (
	"math"

	"blankout/internal/coder"
	"blankout/model"
)

// Calibration is Platt's map of a score to a probability, 1/(1+exp(-(A f+B))),
// fitted to the progressive scores: logistic regression on one variable by
// Newton's method, one step an event, whose memory fades over calibrationMemory
// events. It starts from the identity, held by a prior of calibrationPrior
// events.
type Calibration struct {
	a, b       float64
	aa, ab, bb float64 // decayed Hessian
}

const (
	calibrationMemory = 5000
	calibrationPrior  = 10
)

// NewCalibration returns the identity.
func NewCalibration() Calibration {
	return Calibration{a: 1, aa: calibrationPrior, bb: calibrationPrior}
}

// Learn takes up the score f that an event of a label, 0 or 1, was given, and the probability p that the Map makes
// of it.
func (c *Calibration) Learn(f, p float64, label int, weight float64) {
	// Scores beyond 30 add nothing and would dominate the fit.
	if within := max(-30, min(f, 30)); within != f {
		f, p = within, 1/(1+math.Exp(-(c.a*within+c.b)))
	}
	const keep = 1 - 1.0/calibrationMemory
	h := weight * p * (1 - p)
	c.aa = keep*c.aa + h*f*f
	c.ab = keep*c.ab + h*f
	c.bb = keep*c.bb + h
	g := weight * (p - float64(label))
	// A little of the prior always stays, so that the system stays regular.
	aa, bb := c.aa+0.1, c.bb+0.1
	det := aa*bb - c.ab*c.ab
	da, db := (bb*f-c.ab)*g/det, (aa-c.ab*f)*g/det
	// No single event may turn the map over or move it far.
	c.a = max(0.01, min(c.a-max(-0.5, min(da, 0.5)), 100))
	c.b = max(-30, min(c.b-max(-0.5, min(db, 0.5)), 30))
}

// Published returns the map for the model, nil for the identity.
func (c *Calibration) Published() *model.Calibration {
	if c.a == 1 && c.b == 0 {
		return nil
	}
	m := c.Map()
	return &m
}

// Map returns the map.
func (c *Calibration) Map() model.Calibration { return model.Calibration{A: c.a, B: c.b} }

// State codes the state.
func (c *Calibration) State(to *coder.Coder) {
	to.Each(&c.a, &c.b, &c.aa, &c.ab, &c.bb)
}
