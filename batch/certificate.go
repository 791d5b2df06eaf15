package batch

// This file computes the optimality certificate of Expected. The certificate is the duality gap: at any point, it
// bounds how far the objective is above its minimum.

import (
	"cmp"
	"math"
	"slices"

	"blankout/internal/loss"
)

// Gap returns the duality gap of w, a bound on J(w) - min J. The bound holds at any point of a convex objective,
// including kinks.
//
// Let phi(f, p) be the loss of one row. Its arguments are the score f and p = V^1/2 w; v is |p|^2. Any subgradient (a,
// u) of phi lies in the domain of the conjugate phi*. Weak duality then gives
//
//	min J >= -P*(-G) - sum m phi*(a, u),  G = sum m (a x + V^1/2 u),
//
// where P is the penalty; a free intercept adds the condition sum m a = 0. Gap uses a = df and V^1/2 u = 2 dv V w. Then
// G is the gradient of the losses and phi*(a, u) = a f + 2 dv v - phi. J minus the bound becomes a sum of nonnegative
// terms:
//
//	gap = (1/2) |R^-1/2 (R (w - c) + G)|^2 + sum m [phi(v) - theta phi(v + eps^2) + 2 theta dv eps^2].
//
// The smoothing is eps. The point (df, dv) at v + eps^2 is still dual feasible, because it is the subgradient for noise
// with one more coordinate. The factor theta <= 1 makes the dual point feasible for a free intercept. It multiplies the
// rows whose a has the heavier sign: theta = (sum of the lighter)/(sum of the heavier). The result stays in the domain.
// Because phi* is convex, phi*(theta (a, u)) <= theta phi*(a, u) + (1-theta) phi*(0, 0) keeps the bound. Here phi*(0,
// 0) = -inf phi is at most 0, except for counts, whose value Facts.Lower returns. Gap first moves the intercept to its
// optimum, which makes theta almost 1. For the hinge this is the dual point of the support vector machine.
func (o *Expected) Gap(w []float64) float64 {
	o.kink = 0
	if !o.convex {
		return math.Inf(1)
	}
	o.scores(w)
	return o.gapAtScores(w)
}

// gapAtScores returns the duality gap of w. The scores of w must be in o.f and o.v. gapAtScores moves a free intercept
// to its optimum. It uses the sums of the gradient at w, because ValueGrad computes these sums anyway.
func (o *Expected) gapAtScores(w []float64) float64 {
	if o.FreeIntercept() {
		w[o.columns] += o.center()
	}
	value := o.dualPoint()
	gap := o.dualGap(w, o.smoothedSlack)
	copy(o.w, w)
	o.cached, o.cachedEps = o.unscaled, o.eps
	o.value = value + o.p.Penalty.ValueGrad(w, nil)
	return gap
}

// dualPoint fills the buffers of the derivatives with the dual point that belongs to the scores of each view. It
// returns the sum of the smoothed losses.
func (o *Expected) dualPoint() float64 {
	o.hasSecond = false
	smoothing := o.eps * o.eps
	return o.sumViews(nil, func(i int, _ []float64) (value float64) {
		l, y := o.target(i / len(o.views))
		value, o.df[i], o.dv[i] = l.At(y, o.f[i], o.v[i]+smoothing)
		return o.m[i] * value
	})
}

// smoothedSlack returns view i's term of the sum over rows in the gap of dualPoint, for the view's theta.
func (o *Expected) smoothedSlack(i int, theta float64) float64 {
	smoothing := o.eps * o.eps
	if theta == 1 && smoothing == 0 {
		return 0
	}
	l, y := o.target(i / len(o.views))
	value, _, _ := l.At(y, o.f[i], o.v[i])
	smooth, _, _ := l.At(y, o.f[i], o.v[i]+smoothing)
	return value - theta*smooth + 2*theta*o.dv[i]*smoothing - (1-theta)*o.lower(y)
}

// stepGap returns a duality gap of w after a step of Newton's method. The step is t times the direction d of the last
// Line. The dual point is the gradient of the losses that a full step predicts, a = df + ff x.d. Then only the residual
// of the linear system and (t-1) R d remain of J's gradient, and nonlinearity adds a term per row,
//
//	gap = (1/2) |R^-1/2 (R (w - c) + sum m a x)|^2 + sum m [phi(f) + phi*(a) - a f],
//
// while in Gap nonlinearity adds to the gradient's norm, so Gap gives an equally small bound only one step later. The
// formula is for losses with an available conjugate phi*, without noise. For every other convex loss stepGap returns
// Gap at scores that were moved along the line instead of gathered from the rows. It returns +Inf if rounding affects
// these scores.
func (o *Expected) stepGap(w []float64, t float64) float64 {
	l, ok := o.loss.(loss.Conjugate)
	if !ok || o.noisy {
		if !o.convex || !o.move(t) {
			return math.Inf(1)
		}
		return o.gapAtScores(w)
	}
	if !o.hasSecond || o.majorise {
		return math.Inf(1)
	}
	along := o.along[:len(o.f)]
	o.eachView(func(_, i int) {
		o.df[i], _ = l.Conjugate(o.p.Y[i], o.df[i]+o.ff[i]*along[i])
		o.dv[i] = 0
		o.f[i] += t * along[i]
	})
	o.hasSecond = false
	return o.conjugateGap(w, l)
}

// conjugateGap returns the duality gap of w for a loss with a known conjugate, without noise. The dual point must be in
// o.df.
func (o *Expected) conjugateGap(w []float64, l loss.Conjugate) float64 {
	return o.dualGap(w, func(i int, theta float64) float64 {
		y, a := o.p.Y[i], theta*o.df[i]
		value, _, _ := l.At(y, o.f[i], 0)
		_, dual := l.Conjugate(y, a)
		return value + dual - a*o.f[i]
	})
}

// dualGap returns the duality gap of w for the dual point in o.df and o.dv. The function slack returns a view's term of
// the sum over rows, for the view's theta.
func (o *Expected) dualGap(w []float64, slack func(i int, theta float64) float64) float64 {
	thetaUp, thetaDown := 1.0, 1.0
	if up, down := o.dualSums(); o.FreeIntercept() {
		thetaUp, thetaDown = thetas(up, down)
	}
	r := o.residual
	kink := o.dualGradient(w, r, thetaUp, thetaDown, slack)
	o.p.Penalty.ValueGrad(w, r)
	o.kink = kink
	o.unscaled = min(thetaUp, thetaDown) > 1-1e-12
	return o.GradientGap(r) + kink
}

// dualSums returns the sum of m df over the rows with positive df, and minus the sum over the rows with negative df.
func (o *Expected) dualSums() (up, down float64) {
	var sum [1]float64
	up = o.sumViews(sum[:], func(i int, down []float64) float64 {
		a := o.m[i] * o.df[i]
		down[0] -= min(a, 0)
		return max(a, 0)
	})
	return up, sum[0]
}

// thetas returns the factors that make the dual point feasible for a free intercept. The result thetaUp is for rows
// with positive df, and the result thetaDown for rows with negative df.
func thetas(up, down float64) (thetaUp, thetaDown float64) {
	switch {
	case up > down:
		return down / up, 1
	case down > up:
		return 1, up / down
	}
	return 1, 1
}

// dualGradient writes the gradient of the losses at the dual point to r, and returns the sum of slack over the rows.
func (o *Expected) dualGradient(w, r []float64, thetaUp, thetaDown float64, slack func(i int, theta float64) float64) (kink float64) {
	o.passes++
	o.setPair(w, w)
	kink = o.sum.Sum(o.total, func(lo, hi int, acc []float64) float64 {
		sum := 0.0
		z := o.rowBuffer()
		for n := lo; n < hi; n++ {
			if !o.counts(n) {
				continue
			}
			if o.groups != nil {
				o.gather(n, z) // prepares V w
			}
			var p rowGradient
			for k, a := range o.views {
				i := n*len(o.views) + k
				m := o.m[i]
				if m == 0 {
					continue
				}
				theta := thetaDown
				if o.df[i] > 0 {
					theta = thetaUp
				}
				p.add(a, theta*m*o.df[i], 2*theta*m*o.dv[i])
				sum += m * max(slack(i, theta), 0)
			}
			o.scatter(acc, n, p, z.z)
		}
		return sum
	})
	o.unpack(o.total, w, r, o.shrink)
	return kink
}

// move moves the scores by t along the direction of the last Line. If a variance has become so small that rounding
// affects it, move returns false and the scores must not be used.
func (o *Expected) move(t float64) bool {
	n := len(o.f)
	o.cached, o.hasSecond = false, false
	a, p, q := o.along[:n], o.along[n:2*n], o.along[2*n:]
	canceled := make([]bool, len(o.sum.partial))
	o.eachView(func(g, i int) {
		v := o.v[i] + t*(2*p[i]+t*q[i])
		canceled[g] = canceled[g] || !(v >= 1e-3*o.v[i])
		o.f[i], o.v[i] = o.f[i]+t*a[i], v
	})
	return !slices.Contains(canceled, true)
}

// GradientGap returns how much a gradient adds to Gap.
func (o *Expected) GradientGap(r []float64) float64 {
	return o.p.Penalty.GradientGap(r, o.FreeIntercept())
}

// GradientGap returns (1/2)|R^-1/2 r|^2, the gradient's part of the duality gap. It returns +Inf if r is not 0 for a
// parameter without a penalty. A free intercept, which is the last parameter, needs no penalty.
func (p Penalty) GradientGap(r []float64, freeIntercept bool) float64 {
	gap := 0.0
	for d, r := range r {
		penalty := p.R[d]
		switch {
		case penalty > 0:
			gap += 0.5 * r * r / penalty
		case freeIntercept && d == len(p.R)-1:
		case r != 0:
			return math.Inf(1)
		}
	}
	return gap
}

func (o *Expected) FreeIntercept() bool {
	return o.dim > o.columns && o.p.Penalty.R[o.columns] == 0
}

// center returns the shift of all scores that minimizes the losses. It uses Newton's method within a bracket of the
// slope's zero.
func (o *Expected) center() float64 {
	return o.shift(zeroOf(o.slope, o.slopeSize()))
}

// slope returns the slope of the losses along a shift of all scores. It is called often, so it has a loop of its own
// instead of sumViews.
func (o *Expected) slope(shift float64) float64 {
	n := len(o.views)
	return o.sum.Sum(nil, func(lo, hi int, _ []float64) float64 {
		slope := 0.0
		for i := n * lo; i < n*hi; i++ {
			if o.m[i] != 0 {
				l, y := o.target(i / n)
				_, df, _ := l.At(y, o.f[i]+shift, o.v[i]+o.eps*o.eps)
				slope += o.m[i] * df
			}
		}
		return slope
	})
}

// slopeSize returns the sum of the rows' absolute slopes. The sum of the slopes counts as zero if it is small relative
// to slopeSize.
func (o *Expected) slopeSize() float64 {
	size := 0.0
	for i, m := range o.m {
		size += m * math.Abs(o.df[i])
	}
	return size
}

// zeroOf returns the zero of an increasing slope. The argument size is the scale below which rounding hides the sign of
// the slope.
func zeroOf(slope func(shift float64) float64, size float64) float64 {
	at := slope(0)
	small := 1e-13 * cmp.Or(size, 1)
	if math.Abs(at) <= small {
		return 0
	}
	// Bracket the zero, then use the secant of the bracket (the Illinois method).
	step := 1e-3
	if at > 0 {
		step = -step
	}
	a, fa := 0.0, at
	b, fb := step, slope(step)
	for range 60 {
		if fb == 0 || (fa > 0) != (fb > 0) {
			break
		}
		a, fa = b, fb
		step *= 4
		b = a + step
		fb = slope(b)
	}
	if fb != 0 && (fa > 0) == (fb > 0) {
		return a // all rows are of one class: no finite zero exists
	}
	best, fbest := a, fa
	if math.Abs(fb) < math.Abs(fa) {
		best, fbest = b, fb
	}
	for range 60 {
		if math.Abs(fbest) <= small || math.Abs(b-a) <= 1e-15*(1+math.Abs(a)) {
			break
		}
		c := b - fb*(b-a)/(fb-fa)
		fc := slope(c)
		if math.Abs(fc) < math.Abs(fbest) {
			best, fbest = c, fc
		}
		if (fc > 0) != (fb > 0) {
			a, fa = b, fb
		} else {
			fa /= 2
		}
		b, fb = c, fc
	}
	return best
}

// Smooth replaces every v by v + eps^2, which smooths the kink of the hinge at v = 0. Values and gradients then belong
// to the smoothed objective; Gap still bounds the distance of the true objective from its minimum.
func (o *Expected) Smooth(eps float64) { o.eps = eps }

// Kinked reports whether the losses have a kink that Smooth can smooth.
func (o *Expected) Kinked() bool { return o.facts.Kink != nil }

// OwnRounding returns the root mean square of the noise in the scores of the last Gap. The result unscaled reports
// whether this noise exceeds the smoothing in almost every row.
func (o *Expected) OwnRounding() (spread float64, unscaled bool) {
	// sharp is the total weight of the rows whose variance is smaller than the smoothing.
	sharp, variance, all := 0.0, 0.0, 0.0
	for i, m := range o.m {
		all += m
		variance += m * o.v[i]
		if o.v[i] < o.eps*o.eps {
			sharp += m
		}
	}
	return math.Sqrt(variance / all), sharp < 0.01*all
}

// Line returns a function that evaluates J at w + t d with its first two derivatives by t. The point w is the argument
// of the last call of ValueGrad with a gradient. The function reads no features, because f is linear in t and v
// quadratic.
func (o *Expected) Line(d []float64) func(t float64) (value, slope, curvature float64) {
	n := len(o.f)
	if o.along == nil {
		o.along = make([]float64, 3*n)
	}
	a, p, q := o.along[:n], o.along[n:2*n], o.along[2*n:]
	b, wd, dd := o.bias(d), o.constantVariance(o.w, d), o.constantVariance(d, d)
	o.setPair(d, o.w)
	o.passes++
	o.sum.Each(func(_, lo, hi int) {
		z := o.rowBuffer()
		for n := lo; n < hi; n++ {
			if !o.counts(n) {
				continue
			}
			s, h, t, u := o.gather(n, z)
			for k, view := range o.views {
				i := n*len(o.views) + k
				a[i], p[i], q[i] = view.keep*s+(h+b), view.spread*t+wd, view.spread*u+dd
			}
		}
	})
	smoothing := o.eps * o.eps
	pen := o.p.Penalty.Along(o.w, d)
	return func(t float64) (value, slope, curvature float64) {
		var sums [2]float64
		value = o.sumViews(sums[:], func(i int, acc []float64) float64 {
			m := o.m[i]
			l, y := o.target(i / len(o.views))
			f, v := o.f[i]+t*a[i], max(o.v[i]+t*(2*p[i]+t*q[i]), 0)+smoothing
			dvdt := 2 * (p[i] + t*q[i])
			value, df, dv := l.At(y, f, v)
			acc[0] += m * (df*a[i] + dv*dvdt)
			acc[1] += m * 2 * dv * (a[i]*a[i] + q[i])
			return m * value
		})
		return pen.Add(t, value, sums[0], sums[1])
	}
}

// Polynomial is a penalty along a line, as a quadratic polynomial in t.
type Polynomial [3]float64

// Along returns the penalty at w + t d as a polynomial in t.
func (p Penalty) Along(w, d []float64) (out Polynomial) {
	for i, r := range p.R {
		u := w[i]
		if p.Center != nil {
			u -= p.Center[i]
		}
		out[0] += 0.5 * r * u * u
		out[1] += r * u * d[i]
		out[2] += 0.5 * r * d[i] * d[i]
	}
	return out
}

// Add adds the penalty at t, and its first two derivatives, to the value, slope and curvature of the losses.
func (p Polynomial) Add(t, value, slope, curvature float64) (float64, float64, float64) {
	return value + p[0] + t*(p[1]+t*p[2]), slope + p[1] + 2*t*p[2], curvature + 2*p[2]
}
