package regression

// This file has the distribution of residuals.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
)

const (
	residualMemory = 2000
	// A residual more than residualClip standard deviations from the mean is an outlier and is clipped. If there are
	// more than residualBudget outliers among residualWindow targets, no outlier is clipped, because the stream has
	// changed.
	residualClip, residualWarmup = 8, 32
	residualWindow               = 256
	residualBudget               = 12
)

// Residual estimates the distribution of recent residuals.
type Residual struct {
	model.Residual
	samples  float64 // number of residuals, at most twice residualMemory
	outliers float64 // decayed number of recent outliers
	spreads  spreads
}

// Residual returns an empty Residual for targets in the unit u.
func (u *Unit) Residual() Residual {
	if !u.known {
		return Residual{}
	}
	deviation := u.Scale
	if u.Target == loss.Count {
		deviation = math.Sqrt(u.Scale)
	}
	return Residual{Residual: model.Residual{Deviation: deviation}, samples: 2}
}

// Published returns the Residual in the form of the model, or nil if there are too few residuals.
func (r *Residual) Published() *model.Residual { return r.PublishedIn(&model.Residual{}) }

// PublishedIn is Published in the memory of out.
func (r *Residual) PublishedIn(out *model.Residual) *model.Residual {
	if r.samples < 2 {
		return nil
	}
	*out = r.Residual
	out.ByValue = r.spreads.inForce
	return out
}

// bounds returns the smallest and the largest target whose residual is no outlier. value is the predicted value, and v
// is the variance of its score.
func (r *Residual) bounds(t loss.Target, value, v float64) (low, high float64) {
	deviation := r.deviationAt(value)
	most := residualClip * math.Sqrt(deviation*deviation+r.Increase(t, value, v))
	if r.samples < residualWarmup || most == 0 || r.outliers > residualBudget {
		return math.Inf(-1), math.Inf(1)
	}
	return r.Mean - most, r.Mean + most
}

// deviationAt returns the standard deviation of residuals at a predicted value, for detecting outliers. It is limited to
// between one and two times the average deviation. The upper limit is needed because the large residuals at this value
// may be outliers.
func (r *Residual) deviationAt(value float64) float64 {
	return r.Deviation * min(max(1, r.spreads.inForce.Of(value)), 2)
}

// Clip returns the target y or, if y is an outlier, the nearest target that is no outlier. value is the predicted
// value, and v is the variance of its score, see model.ScoreVariance.
func (r *Residual) Clip(t loss.Target, y, value, v float64) float64 {
	low, high := r.bounds(t, value, v)
	x := r.Of(t, y, value)
	if x >= low && x <= high {
		return y
	}
	bounded := value + min(max(x, low), high)*r.Unit(t, value)
	if t == loss.Count {
		bounded = max(bounded, 0)
	}
	return bounded
}

// Take adds the residual of the target y at a predicted value. v is the variance of the value's score.
func (r *Residual) Take(t loss.Target, y, value, v float64) {
	low, high := r.bounds(t, value, v)
	x := r.Of(t, y, value)
	r.outliers *= 1 - 1.0/residualWindow
	outlier := r.samples >= residualWarmup && math.Abs(x-r.Mean) > residualClip*r.deviationAt(value) // however many there were
	if outlier {
		r.outliers++
	}
	x = min(max(x, low), high)
	r.samples = min(r.samples+1, 2*residualMemory)
	rate := 1 / r.samples
	if r.samples >= 16 { // the weight of the first residuals decays quickly
		rate = 1 / (8 + r.samples/2)
	}
	off := x - r.Mean
	if v == 0 && !outlier {
		r.spreads.observe(value, math.Abs(off))
	}
	r.Mean += rate * off
	r.Deviation = math.Sqrt(max(0, (1-rate)*(r.Deviation*r.Deviation+rate*off*off)-rate*r.Increase(t, value, v)))
}

// State encodes or decodes the state.
func (r *Residual) State(c *coder.Coder) {
	c.Each(&r.samples, &r.outliers, &r.Mean, &r.Deviation)
	r.spreads.state(c)
}
