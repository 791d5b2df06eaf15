package mixture

// This file estimates the error at each fraction of missing features.

import (
	"math"

	"blankout/internal/coder"
)

// Points is the number of deletion rates of a Curve.
const Points = 10

// Missing returns the deletion rate of a point.
func Missing(point int) float64 { return float64(point) / Points }

// Curve estimates the error of predictions if a fraction d of the features were missing, for d = 0, 0.1, … 0.9. For
// regression it estimates the squared error. It is measured on a sample of the events, before they are learned. Old
// samples decay.
type Curve struct {
	samples, weight, wrong [Points]float64
}

const (
	curveMemory = 10_000 // samples
	// A curve remembers a fraction 1/curveShare of its samples; older ones decay.
	curveShare = 2
)

// Add adds a sample at a point, unless it is NaN.
func (f *Curve) Add(point int, wrong float64) {
	if math.IsNaN(wrong) {
		return
	}
	f.samples[point]++
	keep := f.keep(point)
	f.weight[point] = f.weight[point]*keep + 1
	f.wrong[point] = f.wrong[point]*keep + wrong
}

// keep returns the decay of older samples at a new one.
func (f *Curve) keep(point int) float64 {
	return 1 - 1/min(curveMemory, 8+f.samples[point]/curveShare)
}

// At returns the estimate at a point, NaN before the first sample.
func (f *Curve) At(point int) float64 { return f.wrong[point] / f.weight[point] }

// Merge adds the samples of an interval, from base to now.
func (f *Curve) Merge(base, now *Curve) {
	keeps := func(samples, n float64) float64 {
		keep, g := 1.0, Curve{}
		for i := 1.0; i <= n; i++ {
			g.samples[0] = samples + i
			keep *= g.keep(0)
		}
		return keep
	}
	for i := range f.samples {
		n := now.samples[i] - base.samples[i]
		if n <= 0 {
			continue
		}
		there, here := keeps(base.samples[i], n), keeps(f.samples[i], n)
		f.samples[i] += n
		f.weight[i] = math.FMA(f.weight[i], here, math.FMA(-base.weight[i], there, now.weight[i]))
		f.wrong[i] = math.FMA(f.wrong[i], here, math.FMA(-base.wrong[i], there, now.wrong[i]))
	}
}

// State codes the curve.
func (f *Curve) State(c *coder.Coder) {
	for _, p := range []*[Points]float64{&f.samples, &f.weight, &f.wrong} {
		for i := range p {
			c.Float(&p[i])
		}
	}
}

// Curves estimates the error and, for classification, the log-loss.
type Curves struct{ Error, LogLoss Curve }

// Merge merges both.
func (f *Curves) Merge(base, now *Curves) {
	f.Error.Merge(&base.Error, &now.Error)
	f.LogLoss.Merge(&base.LogLoss, &now.LogLoss)
}

// State codes both.
func (f *Curves) State(c *coder.Coder) {
	f.Error.State(c)
	f.LogLoss.State(c)
}

// within reports whether no point has more than events samples after base.
func (f *Curves) within(base *Curves, events float64) bool {
	for i := range Points {
		if f.Error.samples[i]-base.Error.samples[i] > events || f.LogLoss.samples[i]-base.LogLoss.samples[i] > events {
			return false
		}
	}
	return true
}

// PointOf returns the last point at which a feature is alive, given a fraction of 1<<64.
func PointOf(u uint64) int8 { return int8(u >> 32 * Points >> 32) }
