package schedule

// This file has the average of the iterates.

import "blankout/internal/coder"

// average keeps the average of a level's iterates lazily, so that an event only costs its own features.
//
// The average after step t is a_t = (1 - beta_t) a_{t-1} + beta_t w_t. With e = a - w and a step w_t = w_{t-1} +
// delta_t this is
//
//	e_t = (1 - beta_t) (e_{t-1} - delta_t),
//
// so with g_t = prod_{i<=t} (1 - beta_i) and e_t = g_t u_t
//
//	u_t = u_{t-1} - delta_t / g_{t-1},
//
// which changes only if delta is not zero. Rows keep u, the lag, and a = w + g u.
//
// With beta_t = (1+p)/(t+1+p) it is the average over the stream with weights that grow as t^p (Shamir & Zhang 2013).
// The length of the stream need not be known. The average is over the last fraction 1/(1+p) of the stream, or of the
// steps since a restart. In a stationary stream (see adaptation) it is over steadyReach times as much.
type average struct {
	power, steadyPower float64 // p; if negative, the iterate is published
	// Coefficient is g_t, Inverse 1/g_t.
	Coefficient, Inverse float64
	Taken                uint64 // number of steps averaged since the latest restart
}

func newAverage(share float64) average {
	if share == 0 {
		return average{power: -1}
	}
	return average{power: 1/share - 1, steadyPower: 1/min(steadyReach*share, 1) - 1, Coefficient: 1, Inverse: 1}
}

const steadyReach = 2.5

// advance updates g_{t-1} to g_t after the rows have been updated. It reports whether g_t has become so small that it
// must be multiplied into the lags, see Pace.Rebase.
func (a *average) advance(steady bool) (small bool) {
	power := a.power
	if power < 0 {
		return false
	}
	if steady {
		power = a.steadyPower
	}
	a.Taken++
	a.Coefficient *= 1 - (1+power)/(float64(a.Taken)+1+power)
	a.Inverse = 1 / a.Coefficient
	return a.Coefficient < 1e-150
}

// restart makes the average forget the iterates so far within a few steps.
func (a *average) restart() { a.Taken = 0 }

func (a *average) state(c *coder.Coder) {
	c.Float(&a.Coefficient)
	c.Uint(&a.Taken)
	if a.Coefficient != 0 {
		a.Inverse = 1 / a.Coefficient
	}
}
