package cosine

// This file adapts an expert to changes of classes, and encodes its state.

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
	"blankout/online/conformal"
	"blankout/online/rows"
)

// Regroup replaces the old outputs by one new output for each list in from, see rows.Regroup.
func (e *Expert) Regroup(from [][]int) {
	was := *e
	basis := e.basis
	if model.Cosines*len(from) > mostWeights {
		basis = nil
	}
	e.begin(len(from), basis)
	e.learned, e.alone, e.together = was.learned, conformal.NewLink(), conformal.NewLink()
	if basis != nil {
		e.curvature = was.curvature
		for j := range model.Cosines {
			rows.Regroup(e.weights[j*e.outputs:][:e.outputs], was.weights[j*was.outputs:][:was.outputs], from, was.outputs, true)
		}
	}
}

// State encodes or decodes the state. The reader must have the same settings and number of outputs.
func (e *Expert) State(c *coder.Coder) {
	var columns []uint32
	if e.basis != nil {
		columns = e.basis.Columns
	}
	if c.Uint32s(&columns); c.Decode {
		basis := model.NewCosineBasis(columns)
		if !slices.IsSorted(columns) || len(columns) > 0 && (basis == nil || model.Cosines*e.outputs > mostWeights) {
			c.Failed = true
			return
		}
		e.begin(e.outputs, basis)
	}
	n := len(e.weights)
	if c.Floats(&e.weights); len(e.weights) != n {
		c.Failed = true
		e.begin(e.outputs, e.basis)
	}
	e.curvature.State(c)
	for r := range e.ranges {
		e.ranges[r].State(c)
		c.Float(&e.factors[r])
	}
	e.alone.State(c)
	e.together.State(c)
	c.Uint(&e.learned)
	c.Uint(&e.idle)
	c.Bool(&e.counts)
}
