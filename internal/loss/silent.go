package loss

import "math/rand/v2"

// Silent is the noise of features that die and do not say so: a dead feature reads some neutral
// value, and the features that are left arrive as they are. D is the share of the features that is
// expected to die, in [0, MaxSilent]. With Groups whole groups die, else single features.
//
// Silent noise is biased, E[x~] != x, and its rate is not known: it is one of Rates, each as likely
// as the others. Its Coefficients are therefore not enough to learn under it. Code that adds up
// variances by feature must ask for a Silent, and use At or refuse it.
type Silent struct {
	D      float64
	Groups bool
}

// MaxSilent is the largest share of features that can be expected to die silently.
const MaxSilent = 0.9

// Rates returns the rates of death that a model must be good at, equally likely.
func (n Silent) Rates() [silentRates]float64 {
	return [silentRates]float64{0, n.D / 2, n.D, min(0.95, 1.5*n.D)}
}

// Coefficients returns the variance of what is left of a feature of value x, as a multiple of x^2: the
// mean of q (1-q) over the rates.
func (n Silent) Coefficients() (c0, c1, c2 float64) {
	rates := n.Rates()
	for _, q := range rates {
		c2 += q * (1 - q) / float64(len(rates))
	}
	return 0, 0, c2
}

// Corrupt draws a rate, and whether x dies at that rate to 0.
func (n Silent) Corrupt(x float64, r *rand.Rand) float64 {
	if rates := n.Rates(); r.Float64() < rates[r.IntN(len(rates))] {
		return 0
	}
	return x
}

func (n Silent) String() string {
	if n.Groups {
		return "silent-group:" + formatLevel(n.D)
	}
	return "silent:" + formatLevel(n.D)
}

// Squares returns the noise under which the variance of a score is what At calls squares.
func (n Silent) Squares() Noise {
	if n.Groups {
		return GroupDropout{Groups: 0.5}
	}
	return Dropout{Q: 0.5}
}

// At returns the mean of a loss over the rates, and its derivatives by score, intercept and squares.
//
// The score is what the features that are alive add: the sum of w (x-z), where a dead feature of value x
// reads z. The intercept is the score of an event whose features are all dead. Squares is the sum of w^2 (x-z)^2; where
// groups die, it is the sum of the squares of their scores. At rate q the score is then taken as normal
// with mean intercept + (1-q) score and variance q (1-q) squares.
func (n Silent) At(l Loss, y, score, intercept, squares float64) (value, ds, di, dq float64) {
	value, p := n.ByRate(l, y, score, intercept, squares)
	for i, q := range n.Rates() {
		ds, di, dq = ds+(1-q)*p[i].DF, di+p[i].DF, dq+q*(1-q)*p[i].DV
	}
	return value, ds, di, dq
}

// silentRates is the number of rates.
const silentRates = 4

// ByRate is what the loss is at each of the Rates: its derivatives by score and variance, times the rate's probability.
type ByRate [silentRates]struct{ DF, DV float64 }

// ByRate returns the mean loss, as At does, and its parts.
func (n Silent) ByRate(l Loss, y, score, intercept, squares float64) (value float64, p ByRate) {
	const each = 1.0 / silentRates
	for i, q := range n.Rates() {
		at, df, dv := l.At(y, intercept+(1-q)*score, q*(1-q)*squares)
		value += each * at
		p[i].DF, p[i].DV = each*df, each*dv
	}
	return value, p
}

// Along returns the derivative of the mean loss as score and intercept move at these speeds, and its curvature: under noise
// 2 dL/dv is the second derivative by the score, without it nearly so.
func (n Silent) Along(p *ByRate, score, intercept float64) (slope, curvature float64) {
	for i, q := range n.Rates() {
		by := intercept + (1-q)*score
		slope, curvature = slope+p[i].DF*by, curvature+2*p[i].DV*by*by
	}
	return slope, curvature
}

// IsSilent says whether a noise is silent.
func IsSilent(n Noise) bool {
	_, ok := n.(Silent)
	return ok
}
