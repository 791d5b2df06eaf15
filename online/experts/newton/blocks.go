package newton

// This file has what a second-order expert of many columns shares with Expert: the derivatives, and a curvature matrix of
// blocks.

import (
	"blankout/internal/coder"
	"blankout/internal/loss"
)

// Slopes has the derivatives of a loss for steps that do not overshoot.
type Slopes struct {
	loss  loss.Loss
	kink  bool // the loss has a kink
	signs bool // targets are -1 or +1
	reals bool // targets are real numbers, and the score predicts the target
}

// NewSlopes returns the Slopes of a loss for which Wanted is true.
func NewSlopes(l loss.Loss) Slopes {
	f := l.Facts()
	return Slopes{loss: l, kink: f.Kink != nil, signs: f.Target == loss.Sign, reals: f.Target == loss.Real}
}

// Derive returns the derivatives df and dv of the loss, and its curvature r. r is the curvature at the score, or a
// larger value that keeps a step from overshooting. If the label is the less likely class, r is the curvature of a
// majorizer: the slope of the derivative from the score to its negative. If targets are real numbers, r moves the score
// at most to the target. If the event alone would move the score far, or the loss has a kink, r is the mean curvature
// along the step.
func (e *Slopes) Derive(y, f, v, h float64) (df, dv, r float64) {
	_, df, dv = e.loss.At(y, f, v)
	if r = min(2*dv, mostEventCurvature); r-r != 0 {
		r, dv = 0, 0 // the loss has no derivative here
	}
	if e.signs && y*f < 0 {
		r = max(r, e.slope(y, f, -f, v, df))
	}
	if e.reals && y != f {
		r = max(r, min(df/(f-y), mostEventCurvature))
	}
	if d := -df * h; e.kink || d > longStep || d < -longStep {
		r = max(r, e.slope(y, f, f+d, v, df))
	}
	return df, dv, r
}

// slope returns the mean curvature of the loss between the scores f and to. df is the derivative at f.
func (e *Slopes) slope(y, f, to, v, df float64) float64 {
	if to == f {
		return 0
	}
	_, then, _ := e.loss.At(y, to, v)
	return min((then-df)/(to-f), mostEventCurvature)
}

// Blocks is A^-1 of many variables, where A is zero between the variables of different blocks. An update takes time in
// proportion to the number of variables times the size of a block.
type Blocks struct {
	size int
	list []covariance
	gain []float64
}

// NewBlocks returns Blocks of the given size for a number of variables that is a multiple of it. A starts as the ridge.
func NewBlocks(variables, size int, ridge float64) Blocks {
	b := Blocks{size: size, gain: make([]float64, size)}
	for range variables / size {
		p := covariance{n: size}
		for j := range size {
			p.data = append(append(p.data, make([]float64, j)...), 1/ridge)
		}
		b.list = append(b.list, p)
	}
	return b
}

// Leverage returns h = z'A^-1 z. The next call of Update uses this z.
func (b *Blocks) Leverage(z []float64) (h float64) {
	for i := range b.list {
		h += b.list[i].leverage(z[i*b.size:][:b.size], 0)
	}
	return h
}

// Update adds a z z' to A within each block, and calls each with every variable and its entry of the old A^-1 z. The result
// is false if A is not positive definite any longer.
func (b *Blocks) Update(a float64, each func(variable int, gain float64)) (positive bool) {
	positive = true
	for i := range b.list {
		positive = b.list[i].update(a, b.gain) > 0 && positive
		for j, g := range b.gain {
			each(i*b.size+j, g)
		}
	}
	return positive
}

// State encodes or decodes the matrix.
func (b *Blocks) State(c *coder.Coder) {
	for i := range b.list {
		p := &b.list[i]
		n := len(p.data)
		if c.Floats(&p.data); len(p.data) != n {
			c.Failed = true
			p.data = make([]float64, n)
		}
		for j := range p.n {
			c.Failed = c.Failed || !(p.column(j)[j] > 0)
		}
	}
}
