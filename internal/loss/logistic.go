package loss

// This file implements the logistic loss: its Gaussian expectation, its bound and its quadratic penalty.

import "math"

// LogisticGaussian is E log(1 + exp(-y f~)) for f~ ~ N(f, v), with an absolute error below 1e-8 for every f and v. The
// logistic function is the mixture sum_i p_i Phi(u/t_i) (Monahan & Stefanski 1992, eight terms). So the loss is a
// mixture of Gaussian hinges with variances t_i^2 + v.
type LogisticGaussian struct{}

// logisticP and logisticT are the weights and scales of Monahan and Stefanski.
var (
	logisticP = [8]float64{0.003246343272134, 0.051517477033972, 0.195077912673858, 0.315569823632818,
		0.274149576158423, 0.131076880695470, 0.027912418727972, 0.001449567805354}
	logisticT = [8]float64{1 / 1.365340806296348, 1 / 1.059523971016916, 1 / 0.830791313765644, 1 / 0.650732166639391,
		1 / 0.508135425366489, 1 / 0.396313345166341, 1 / 0.308904252267995, 1 / 0.238212616409306}
)

func (LogisticGaussian) At(y, f, v float64) (value, df, dv float64) {
	value, du, dv := logisticTerms(-y*f, v)
	return max(value, 0), -y * du, dv
}

func (LogisticGaussian) At2(y, f, v float64) (ff, fv, vv float64) {
	u := -y * f
	for i, p := range logisticP {
		a, b, c := smoothStep2(u, logisticT2[i]+v)
		ff, fv, vv = ff+p*a, fv+p*b, vv+p*c
	}
	return ff, -y * fv, vv
}

func (LogisticGaussian) Facts() Facts {
	facts := LogisticChen{}.Facts()
	facts.Clean = LogisticChen{}
	return facts
}

func (LogisticGaussian) String() string { return "logistic:gaussian" }

// LogisticChen is the bound of Chen et al. 2014 (section 3.3) on the expected logistic loss: -y f/2 + log(2 cosh(s/2))
// with s = sqrt(f^2 + v).
type LogisticChen struct{}

func (LogisticChen) At(y, f, v float64) (value, df, dv float64) {
	s := math.Sqrt(f*f + v)
	e := Exp(-s)
	t, _ := tanhRatio(s, e)
	return -0.5*y*f + 0.5*s + Log1p(e), 0.5 * (f*t - y), 0.25 * t
}

func (LogisticChen) At2(y, f, v float64) (ff, fv, vv float64) {
	s := math.Sqrt(f*f + v)
	t, tr := tanhRatio(s, Exp(-s))
	return 0.5*t + f*f*tr, 0.5 * f * tr, 0.25 * tr
}

func (LogisticChen) Facts() Facts {
	return Facts{Convex: true, CleanConvex: true, LabelFree: true, Probability: true, Cost: 1}
}

// Conjugate implements the interface Conjugate. At a = -y q the conjugate is the negative entropy q log q + (1-q)
// log(1-q), with q in [0, 1].
func (LogisticChen) Conjugate(y, a float64) (nearest, value float64) {
	q := min(max(-y*a, 0), 1)
	if q > 0 {
		value += q * math.Log(q)
	}
	if q < 1 {
		value += (1 - q) * math.Log1p(-q)
	}
	return -y * q, value
}

func (LogisticChen) String() string { return "logistic:chen" }

// tanhRatio returns tanh(s/2)/s and its derivative by s^2, given e = exp(-s). If the direct formulas would cancel, it
// uses the series of both functions.
func tanhRatio(s, e float64) (t, tr float64) {
	if s < 0.05 {
		r := s * s
		return 0.5 - r/24 + r*r/240 - 17*r*r*r/40320, -1.0/24 + r/120 - 17*r*r/13440
	}
	th := (1 - e) / (1 + e)
	return th / s, (0.5*s*(1-th*th) - th) / (2 * s * s * s)
}

// LogisticQuadratic is the logistic loss with the quadratic noising penalty of Wager et al. 2013 (eq. 7): A(f) - y' f +
// A2(f) v/2. Here A = log(1 + e^f), A2 is its second derivative, and y' = (y+1)/2. The loss is not convex in w.
type LogisticQuadratic struct{}

func (LogisticQuadratic) At(y, f, v float64) (value, df, dv float64) {
	p, a2 := logisticMean(f)
	return Softplus(-y*f) + 0.5*a2*v, -y*sigmoid(-y*f) + 0.5*a2*(1-2*p)*v, 0.5 * a2
}

func (LogisticQuadratic) At2(_, f, v float64) (ff, fv, vv float64) {
	p, a2 := logisticMean(f)
	return a2 + 0.5*a2*(1-6*a2)*v, 0.5 * a2 * (1 - 2*p), 0
}

func (LogisticQuadratic) Facts() Facts {
	return Facts{CleanConvex: true, LabelFree: true, Probability: true, Cost: 1, Clean: LogisticChen{}}
}

func (LogisticQuadratic) String() string { return "logistic:quadratic-noising" }

func sigmoid(u float64) float64 { return 1 / (1 + Exp(-u)) }

// Softplus returns log(1 + e^u), accurate to a few units in the last place.
func Softplus(u float64) float64 { return max(u, 0) + Log1p(Exp(-math.Abs(u))) }

// Log1p returns log(1+z) for z in [0, 1] in two thirds of the time of math.Log1p, as
//
//	2 atanh(s) = 2 s + s^3 P(s^2),  s = z/(2+z).
//
// The polynomial P interpolates at the Chebyshev nodes of [0, 1/9]. The relative error of the result is 5e-18.
func Log1p(z float64) float64 {
	s := z / (2 + z)
	w := s * s
	w2 := w * w
	w4 := w2 * w2
	p := (0.6666666666666666 + 0.40000000000014585*w) + w2*(0.2857142856710876+0.22222222717427864*w) +
		w4*((0.18181789436132859+0.15385570064958623*w)+w2*(0.13314144209654935+0.12001072809590713*w)+w4*(0.08800738486144674+0.1616404561194353*w))
	return 2*s + s*w*p
}

// logisticMean returns the first and second derivative of A = log(1 + e^f), p and a2 = p(1-p), without cancellation.
func logisticMean(f float64) (p, a2 float64) {
	p = sigmoid(f)
	return p, p * sigmoid(-f)
}
