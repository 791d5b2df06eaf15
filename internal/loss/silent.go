package loss

import "math/rand/v2"

// Silent is the noise of features that fail unnoticed: a dead feature has a fixed neutral value, and the live features
// keep their values. D is the expected fraction of dead features, in [0, MaxSilent]. If Groups is set, whole groups
// die, otherwise single features.
//
// Silent noise is biased, E[x~] != x. The rate of dead features is unknown: each of Rates has the same probability. So
// the Coefficients of Silent do not suffice for learning. Code that sums variances by feature must check for a Silent,
// and use At or reject it.
type Silent struct {
	D      float64
	Groups bool
}

// MaxSilent is the largest allowed fraction of silently dead features.
const MaxSilent = 0.9

// Rates returns the possible fractions of dead features, which are equally likely.
func (n Silent) Rates() [silentRates]float64 {
	return [silentRates]float64{0, n.D / 2, n.D, min(0.95, 1.5*n.D)}
}

// Coefficients returns the variance of a feature with value x as a multiple of x^2: the mean of q (1-q) over the rates
// q.
func (n Silent) Coefficients() (c0, c1, c2 float64) {
	rates := n.Rates()
	for _, q := range rates {
		c2 += q * (1 - q) / float64(len(rates))
	}
	return 0, 0, c2
}

// Corrupt draws a rate, and whether x dies (becomes 0) at that rate.
func (n Silent) Corrupt(x float64, r *rand.Rand) float64 {
	if rates := n.Rates(); r.Float64() < rates[r.IntN(len(rates))] {
		return 0
	}
	return x
}

func (n Silent) String() string {
	if n.Groups {
		return "silent-group:" + format(n.D)
	}
	return "silent:" + format(n.D)
}

// Squares returns the noise under which the variance of a score is the argument squares of At.
func (n Silent) Squares() Noise {
	if n.Groups {
		return GroupDropout{Groups: 0.5}
	}
	return Dropout{Q: 0.5}
}

// At returns the mean of a loss over the rates, and its derivatives by score, intercept and squares.
//
// score is the contribution of live features: the sum of w (x-z), where z is the dead value of a feature. intercept is
// the score of an event whose features are all dead. squares is the sum of w^2 (x-z)^2 or, for groups, the sum of the
// squares of their scores. At rate q the score is taken as normal with mean intercept + (1-q) score and variance q
// (1-q) squares.
func (n Silent) At(l Loss, y, score, intercept, squares float64) (value, ds, di, dq float64) {
	value, p := n.ByRate(l, y, score, intercept, squares)
	ds, di, dq = n.Sum(&p)
	return value, ds, di, dq
}

// Sum returns the derivatives of the mean loss by score, intercept and squares.
func (n Silent) Sum(p *ByRate) (ds, di, dq float64) {
	for i, q := range n.Rates() {
		ds, di, dq = ds+(1-q)*p[i].DF, di+p[i].DF, dq+q*(1-q)*p[i].DV
	}
	return ds, di, dq
}

// silentRates is the number of rates.
const silentRates = 4

// ByRate holds, for each of the Rates, the derivatives of the loss by score and variance, times the probability of the
// rate.
type ByRate [silentRates]struct{ DF, DV float64 }

// ByRate returns the mean loss, as At does, and its derivatives at each rate.
func (n Silent) ByRate(l Loss, y, score, intercept, squares float64) (value float64, p ByRate) {
	const each = 1.0 / silentRates
	for i, q := range n.Rates() {
		at, df, dv := l.At(y, intercept+(1-q)*score, q*(1-q)*squares)
		value += each * at
		p[i].DF, p[i].DV = each*df, each*dv
	}
	return value, p
}

// Along returns the first and second derivative of the mean loss along a direction in which score and intercept change
// at the given speeds. Along uses 2 dL/dv as the second derivative by the score, which is exact with noise and nearly
// exact without.
func (n Silent) Along(p *ByRate, score, intercept float64) (slope, curvature float64) {
	for i, q := range n.Rates() {
		by := intercept + (1-q)*score
		slope, curvature = slope+p[i].DF*by, curvature+2*p[i].DV*by*by
	}
	return slope, curvature
}

// IsSilent reports whether a noise is of type Silent.
func IsSilent(n Noise) bool {
	_, ok := n.(Silent)
	return ok
}
