package blankout

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Loss is the expected loss of one example under feature noise as a function
// of the label y, the score f = w.x and the variance v = w'Vw of the noisy
// score. From its two derivatives everything else follows:
//
//	gradient        df x + 2 dv V w
//	IRLS weight     gamma = 2 dv, working response gamma f - df
//	                (never divide by gamma: it underflows)
//	online metric   2 dv x^2
//
// y is -1 or +1 for the classification losses and a number for the others.
type Loss interface {
	// At returns the value at (y, f, v), v >= 0, and its derivatives by f and v.
	At(y, f, v float64) (value, df, dv float64)
	// String returns the form that ParseLoss reads.
	String() string
}

// A Smooth loss also knows its second derivatives, which Newton's method needs:
//
//	Hessian = ff x x' + 2 fv (x (Vw)' + (Vw) x') + 4 vv (Vw)(Vw)' + 2 dv V.
type Smooth interface {
	Loss
	At2(y, f, v float64) (ff, fv, vv float64)
}

// Cost returns the factor kappa that a loss carries in the batch objective
//
//	J(w) = |w|^2 + kappa sum_n loss(y_n, f_n, v_n)
//
// for the cost c of Chen et al.: 2c for the hinge, c for every other loss.
// Online, where J/kappa is minimised, the ridge of one event is 2/kappa.
func Cost(l Loss, c float64) float64 {
	switch l.(type) {
	case HingeGaussian, HingeChen:
		return 2 * c
	}
	return c
}

// HingeGaussian is E max(0, Ell - y f~) for f~ ~ N(f, v):
// z Phi(z/s) + s phi(z/s) with z = Ell - y f and s = sqrt(v). At v = 0 it is
// the hinge, whose derivative at the margin is taken as the mean of the two sides.
type HingeGaussian struct{ Ell float64 }

func (l HingeGaussian) At(y, f, v float64) (value, df, dv float64) {
	z := l.Ell - y*f
	p, phi, s := smoothStep(z, v)
	value = z*p + s*phi
	if s > 0 {
		dv = phi / (2 * s)
	}
	return max(value, 0), -y * p, dv
}

func (l HingeGaussian) At2(y, f, v float64) (ff, fv, vv float64) {
	ff, fv, vv = smoothStep2(l.Ell-y*f, v)
	return ff, -y * fv, vv
}

func (l HingeGaussian) String() string { return "hinge:gaussian" + formatEll(l.Ell) }

// LogisticGaussian is E log(1 + exp(-y f~)) for f~ ~ N(f, v) to an absolute
// error below 1e-8 for every f and v: the logistic function is the mixture
// sum_i p_i Phi(u/t_i) (Monahan & Stefanski 1992, eight terms), so the loss is a
// mixture of Gaussian hinges of variance t_i^2 + v.
type LogisticGaussian struct{}

// logisticP and logisticT are Monahan and Stefanski's weights and scales.
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
		t := logisticT[i]
		a, b, c := smoothStep2(u, t*t+v)
		ff, fv, vv = ff+p*a, fv+p*b, vv+p*c
	}
	return ff, -y * fv, vv
}

func (LogisticGaussian) String() string { return "logistic:gaussian" }

// smoothStep returns Phi(u/s), phi(u/s) and s = sqrt(v); at v = 0 the step
// function, with the value 1/2 at the step.
func smoothStep(u, v float64) (cdf, phi, s float64) {
	if v <= 0 {
		switch {
		case u > 0:
			return 1, 0, 0
		case u < 0:
			return 0, 0, 0
		}
		return 0.5, 0, 0
	}
	s = math.Sqrt(v)
	a := u / s
	return 0.5 * math.Erfc(-a/math.Sqrt2), math.Exp(-0.5*a*a) / math.Sqrt(2*math.Pi), s
}

// smoothStep2 returns the second derivatives by u and v of
// u Phi(u/s) + s phi(u/s), s = sqrt(v): those by (u, u), (u, v) and (v, v).
func smoothStep2(u, v float64) (uu, uv, vv float64) {
	_, phi, s := smoothStep(u, v)
	if phi == 0 { // also where the quotients below would be 0/0
		return 0, 0, 0
	}
	a := u / s
	return phi / s, -phi * a / (2 * v), phi * (a*a - 1) / (4 * v * s)
}

// HingeChen is the bound of Chen et al. 2014 (section 3.2) on the expected
// hinge loss, (z + sqrt(z^2 + v))/2 with z = Ell - y f. The factor 1/2 makes it
// the hinge itself at v = 0.
type HingeChen struct{ Ell float64 }

func (l HingeChen) At(y, f, v float64) (value, df, dv float64) {
	z := l.Ell - y*f
	s := math.Sqrt(z*z + v)
	if s == 0 {
		return 0, -y / 2, 0
	}
	if z < 0 { // z + s cancels: it is v/(s - z)
		value = 0.5 * v / (s - z)
	} else {
		value = 0.5 * (z + s)
	}
	return value, -0.5 * y * (1 + z/s), 0.25 / s
}

func (l HingeChen) At2(y, f, v float64) (ff, fv, vv float64) {
	z := l.Ell - y*f
	s := math.Sqrt(z*z + v)
	if s == 0 {
		return 0, 0, 0
	}
	// Quotients first: s^3 underflows long before they do.
	return 0.5 * (v / s / s) / s, 0.25 * y * (z / s) / s / s, -0.125 / s / s / s
}

func (l HingeChen) String() string { return "hinge:chen" + formatEll(l.Ell) }

// LogisticChen is the bound of Chen et al. 2014 (section 3.3) on the expected
// logistic loss, -y f/2 + log(2 cosh(s/2)) with s = sqrt(f^2 + v).
type LogisticChen struct{}

func (LogisticChen) At(y, f, v float64) (value, df, dv float64) {
	s := math.Sqrt(f*f + v)
	e := math.Exp(-s)
	t, _ := tanhRatio(s, e)
	return -0.5*y*f + 0.5*s + math.Log1p(e), 0.5 * (f*t - y), 0.25 * t
}

func (LogisticChen) At2(y, f, v float64) (ff, fv, vv float64) {
	s := math.Sqrt(f*f + v)
	t, tr := tanhRatio(s, math.Exp(-s))
	return 0.5*t + f*f*tr, 0.5 * f * tr, 0.25 * tr
}

func (LogisticChen) String() string { return "logistic:chen" }

// tanhRatio returns tanh(s/2)/s and its derivative by s^2 for e = exp(-s), by their
// series where the quotients cancel.
func tanhRatio(s, e float64) (t, tr float64) {
	if s < 0.05 {
		r := s * s
		return 0.5 - r/24 + r*r/240 - 17*r*r*r/40320, -1.0/24 + r/120 - 17*r*r/13440
	}
	th := (1 - e) / (1 + e)
	return th / s, (0.5*s*(1-th*th) - th) / (2 * s * s * s)
}

// LogisticQuadratic is the logistic loss with the quadratic noising penalty of
// Wager et al. 2013 (eq. 7): A(f) - y' f + A”(f) v/2 with A = log(1 + e^f) and
// y' = (y+1)/2. It is not convex in w.
type LogisticQuadratic struct{}

func (LogisticQuadratic) At(y, f, v float64) (value, df, dv float64) {
	p, a2 := logisticMean(f)
	return softplus(-y*f) + 0.5*a2*v, -y*sigmoid(-y*f) + 0.5*a2*(1-2*p)*v, 0.5 * a2
}

func (LogisticQuadratic) At2(_, f, v float64) (ff, fv, vv float64) {
	p, a2 := logisticMean(f)
	return a2 + 0.5*a2*(1-6*a2)*v, 0.5 * a2 * (1 - 2*p), 0
}

func (LogisticQuadratic) String() string { return "logistic:quadratic-noising" }

func sigmoid(u float64) float64 { return 1 / (1 + math.Exp(-u)) }

func softplus(u float64) float64 { return max(u, 0) + math.Log1p(math.Exp(-math.Abs(u))) }

// logisticMean returns p = A'(f) and A”(f) = p(1-p) without cancellation.
func logisticMean(f float64) (p, a2 float64) {
	p = sigmoid(f)
	return p, p * sigmoid(-f)
}

// Quadratic is E (f~ - y)^2 = (f - y)^2 + v, exact for every noise (van der
// Maaten et al. 2013, section 3.1).
type Quadratic struct{}

func (Quadratic) At(y, f, v float64) (value, df, dv float64) {
	return (f-y)*(f-y) + v, 2 * (f - y), 1
}
func (Quadratic) At2(_, _, _ float64) (ff, fv, vv float64) { return 2, 0, 0 }
func (Quadratic) String() string                           { return "quadratic" }

// Linear is linear regression's log-loss with its noising penalty, half of
// Quadratic: (f - y)^2/2 + v/2 (Wager et al. 2013, A(f) = f^2/2).
type Linear struct{}

func (Linear) At(y, f, v float64) (value, df, dv float64) {
	return 0.5*(f-y)*(f-y) + 0.5*v, f - y, 0.5
}
func (Linear) At2(_, _, _ float64) (ff, fv, vv float64) { return 1, 0, 0 }
func (Linear) String() string                           { return "linear" }

// PoissonQuadratic is Poisson regression with the quadratic noising penalty
// (Wager et al. 2013, A(f) = e^f): e^f - y f + e^f v/2 for counts y >= 0.
type PoissonQuadratic struct{}

func (PoissonQuadratic) At(y, f, v float64) (value, df, dv float64) {
	e := math.Exp(f)
	return e - y*f + 0.5*e*v, e - y + 0.5*e*v, 0.5 * e
}
func (PoissonQuadratic) At2(_, f, v float64) (ff, fv, vv float64) {
	e := math.Exp(f)
	return e + 0.5*e*v, 0.5 * e, 0
}
func (PoissonQuadratic) String() string { return "poisson:quadratic-noising" }

// IsRegression reports whether the labels of a loss, by the name it is parsed
// from, are numbers and no classes.
func IsRegression(loss string) bool {
	name, _, _ := strings.Cut(loss, ":")
	return name == "linear" || name == "poisson"
}

func formatEll(ell float64) string {
	if ell == 1 {
		return ""
	}
	return ":" + formatLevel(ell)
}

// losses is the table of losses by name and bound. The first bound of a name is
// its default. A new loss is a type and a line here.
var losses = []struct {
	name, bound string
	hasEll      bool
	make        func(ell float64) Loss
}{
	{"hinge", "gaussian", true, func(ell float64) Loss { return HingeGaussian{ell} }},
	{"hinge", "chen", true, func(ell float64) Loss { return HingeChen{ell} }},
	{"logistic", "gaussian", false, func(float64) Loss { return LogisticGaussian{} }},
	{"logistic", "chen", false, func(float64) Loss { return LogisticChen{} }},
	{"logistic", "quadratic-noising", false, func(float64) Loss { return LogisticQuadratic{} }},
	{"quadratic", "", false, func(float64) Loss { return Quadratic{} }},
	{"linear", "", false, func(float64) Loss { return Linear{} }},
	{"poisson", "quadratic-noising", false, func(float64) Loss { return PoissonQuadratic{} }},
	{"probit", "", false, func(float64) Loss { return Probit{} }},
}

// ParseLoss reads NAME, NAME:BOUND, for the hinge NAME:BOUND:ELL, or
// t-logistic:T. NAME is hinge, logistic, quadratic, linear, poisson or probit
// and BOUND is gaussian (the default), chen or quadratic-noising. It is the
// inverse of Loss.String.
func ParseLoss(s string) (Loss, error) {
	name, rest, _ := strings.Cut(s, ":")
	if name == "t-logistic" {
		return parseT(s, rest)
	}
	bound, ellText, hasEll := strings.Cut(rest, ":")
	var names, bounds []string
	for _, l := range losses {
		if l.name != name {
			if len(names) == 0 || names[len(names)-1] != l.name {
				names = append(names, l.name)
			}
			continue
		}
		if bound != "" && bound != l.bound {
			bounds = append(bounds, l.bound)
			continue
		}
		ell := 1.0
		if hasEll {
			if !l.hasEll {
				return nil, fmt.Errorf("loss %q: only the hinge takes a margin ell", s)
			}
			var err error
			if ell, err = strconv.ParseFloat(ellText, 64); err != nil || !(ell > 0 && ell < 1e15) {
				return nil, fmt.Errorf("loss %q: the margin %q is not a positive number", s, ellText)
			}
		}
		return l.make(ell), nil
	}
	if len(bounds) == 1 && bounds[0] == "" {
		return nil, fmt.Errorf("loss %q: the expectation of %s is exact, it has no bound %s", s, name, bound)
	}
	if len(bounds) > 0 {
		return nil, fmt.Errorf("loss %q: %s knows the bounds %s", s, name, strings.Join(bounds, ", "))
	}
	return nil, fmt.Errorf("loss %q: want one of %s", s, strings.Join(append(names, "t-logistic"), ", "))
}
