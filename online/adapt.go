package online

import "math"

// adaptation tunes two numbers while learning, by how the next event would have
// liked them: the learning rate, and how much of the average is published.
//
// The published score is f + blend (a - f), f being the iterate's score and a
// the average's. Along that line the event's expected loss is, to second order,
//
//	df t + dv t^2,  t = blend (a - f),
//
// and blend follows its minimum in [0, 1] by Newton's method with a memory of
// blendMemory events: 1 where the iterates only jitter about an optimum, near 0
// where the world moves and the average is stale.
//
// The average lags behind the latest steps, so df (a - f) also says whether
// larger steps would have been better: where it stays positive, going back
// towards the average hurts, and the rate rises. This is a hypergradient
// (Almeida et al. 1998) taken from numbers at hand. The rate never falls below
// the configured one, which AdaGrad's sums reduce by themselves.
type adaptation struct {
	on        bool
	blend     float64
	curvature float64 // decayed sum of the blend's second derivative
	raise     float64 // logarithm of the learning rate's factor, in [0, maxRaise]
	square    float64 // decayed mean of the square of df (a - f)
}

// rate returns the learning rate in force.
func (a *adaptation) rate(eta float64) float64 {
	if a.raise == 0 {
		return eta
	}
	return eta * math.Exp(a.raise)
}

const (
	blendMemory = 1000
	raiseSpeed  = 0.003
	maxRaise    = 4
)

func newAdaptation(on bool) adaptation { return adaptation{on: on, blend: 1} }

// adapt learns from the derivatives of one event: corr = sum df (a - f) and
// curv = sum 2 dv (a - f)^2 over the outputs.
func (a *adaptation) adapt(corr, curv float64) {
	if !a.on {
		return
	}
	const keep = 1 - 1.0/blendMemory
	a.curvature = keep*a.curvature + curv
	a.blend -= (corr + a.blend*curv) / (1 + a.curvature)
	a.blend = max(0, min(a.blend, 1))

	a.square = keep*a.square + (1-keep)*corr*corr
	if a.square > 0 {
		a.raise += raiseSpeed * max(-3, min(corr/math.Sqrt(a.square), 3))
		a.raise = max(0, min(a.raise, maxRaise))
	}
}
