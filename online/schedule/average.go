package schedule

// This file holds the published average of the iterates.

import "blankout/internal/coder"

// average keeps the average of a level's iterates lazily, so that an event costs only
// its own features.
//
// The average after step t is a_t = (1 - beta_t) a_{t-1} + beta_t w_t. With
// e = a - w and a step w_t = w_{t-1} + delta_t this is
//
//	e_t = (1 - beta_t) (e_{t-1} - delta_t),
//
// so with g_t = prod_{i<=t} (1 - beta_i) and e_t = g_t u_t
//
//	u_t = u_{t-1} - delta_t / g_{t-1},
//
// which changes only where delta is not zero. Rows keep u, the lag, and
// a = w + g u.
//
// beta_t = (1+p)/(t+1+p) makes it the average over the stream with weights that
// grow as t^p (Shamir & Zhang 2013): no length of the stream is needed, and it
// reaches back over a share 1/(1+p) of it, or of what came since a restart. In a
// stream that stands still (see adaptation) that is steadyReach times as much.
type average struct {
	power, steadyPower float64 // p; negative: publish the iterate
	// Coefficient is g_t, Inverse 1/g_t.
	Coefficient, Inverse float64
	Taken                uint64 // steps averaged over, since the latest restart
}

func newAverage(share float64) average {
	if share == 0 {
		return average{power: -1}
	}
	return average{power: 1/share - 1, steadyPower: 1/min(steadyReach*share, 1) - 1, Coefficient: 1, Inverse: 1}
}

const steadyReach = 2.5

// advance makes g_t of g_{t-1}, after the rows have been updated. It says whether g_t
// has become so small that the lags must take it up, see Pace.Rebase.
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

// restart forgets, within a few steps, the iterates so far.
func (a *average) restart() { a.Taken = 0 }

func (a *average) state(c *coder.Coder) {
	c.Float(&a.Coefficient)
	c.Uint(&a.Taken)
	if a.Coefficient != 0 {
		a.Inverse = 1 / a.Coefficient
	}
}
