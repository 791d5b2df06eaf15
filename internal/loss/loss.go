// Package loss implements the expected losses of a linear score under feature noise, one file each.
//
// A loss has a value, derivatives and Facts. Solvers and the learner use nothing else. To add a loss, write a file and
// add a line to the table below. One test checks the derivatives and the Facts of every line.
package loss

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Loss is the expected loss of one example under feature noise. It is a function of the target y, the score f = w.x and
// the variance v = w'Vw of the noisy score. Its derivatives determine all quantities that solvers need:
//
//	gradient        df x + 2 dv V w
//	Hessian         ff x x' + 2 fv (x (Vw)' + (Vw) x') + 4 vv (Vw)(Vw)' + 2 dv V
//	IRLS weight     gamma = 2 dv, working response gamma f - df
//	                (never divide by gamma: it underflows)
//	online metric   2 dv x^2
type Loss interface {
	// At returns the value at (y, f, v), v >= 0, and its derivatives by f and v.
	At(y, f, v float64) (value, df, dv float64)
	// At2 returns the second derivatives by (f, f), (f, v) and (v, v).
	At2(y, f, v float64) (ff, fv, vv float64)
	// Facts returns properties of the loss for all y, f and v.
	Facts() Facts
	// String returns the name that Parse parses.
	String() string
}

// Facts holds the properties of a loss that solvers and the learner need, besides its values.
type Facts struct {
	// Target is the set of valid y.
	Target Target
	// Regression is true if labels are the numbers y themselves. Otherwise labels are classes, and y is -1 or +1.
	Regression bool
	// Convex is true if the loss is a convex function of f and sqrt(v) and does not decrease with v. Because sqrt(v) is
	// a norm of w, the loss is then convex in w under any noise.
	Convex bool
	// CleanConvex is true if the loss is a convex function of f without noise (v = 0).
	CleanConvex bool
	// Falls is true if the loss decreases with v for some arguments. Then 2 dv is not a curvature: it can be negative,
	// so it gives no accumulator and no majorizer.
	Falls bool
	// Kink returns the score at which the loss has no derivative at v = 0. It is nil for a loss without kinks.
	Kink func(y float64) float64
	// Lower returns a lower bound of the loss at y, for all f and v. Nil means that the bound is 0.
	Lower func(y float64) float64
	// LabelFree is true if the noising penalty (the loss at v minus the loss at 0) does not depend on y. Then unlabeled
	// examples have a penalty too (Wager et al. 2013, section 6).
	LabelFree bool
	// Probability is true if exp(-loss) at v = 0 is the probability of y given f.
	Probability bool
	// Margin is ell if the loss at v = 0 is the hinge max(0, ell - y f). Otherwise it is 0.
	Margin float64
	// Cost is the factor kappa/c of the loss in the batch objective
	//
	//	J(w) = |w|^2 + kappa sum_n loss(y_n, f_n, v_n)
	//
	// for the cost c of Chen et al. 2014. Cost is 2 for the hinge and 1 for other losses.
	Cost float64
	// Clean is another form of the loss at v = 0, which solvers use without noise. It is nil if the loss itself is that
	// form.
	Clean Loss
}

// Target is the set of numbers y that a loss accepts.
type Target int

// The kinds of targets. Files store a Target by its name.
const (
	Sign  Target = iota // -1 or +1
	Real                // any finite number
	Count               // a finite number, at least 0
)

var targetNames = []string{"sign", "real", "count"}

func (t Target) String() string { return targetNames[t] }

// MarshalText and UnmarshalText convert a Target to and from its name.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
func (t *Target) UnmarshalText(b []byte) error {
	i := slices.Index(targetNames, string(b))
	if i < 0 {
		return fmt.Errorf("unknown kind of target %q", b)
	}
	*t = Target(i)
	return nil
}

// Check returns an error if y is not a valid target of that kind.
func (t Target) Check(y float64) error {
	switch {
	case t == Sign && y != 1 && y != -1:
		return fmt.Errorf("target %v is not -1 or +1", y)
	case math.IsInf(y, 0) || math.IsNaN(y):
		return fmt.Errorf("target %v", y)
	case t == Count && y < 0:
		return fmt.Errorf("target %v: a count is not negative", y)
	}
	return nil
}

// Cost returns the factor kappa of a loss for the cost c, see Facts. Online learning minimizes J/kappa, where the ridge
// of one event is 2/kappa.
func Cost(l Loss, c float64) float64 { return l.Facts().Cost * c }

// Conjugate is a loss with a known convex conjugate at v = 0: phi*(a) = sup_f a f - loss(f).
type Conjugate interface {
	Loss
	// Conjugate returns the dual variable nearest to a for which phi* is finite, and the value of phi* there.
	Conjugate(y, a float64) (nearest, value float64)
}

// IsRegression reports whether a loss predicts numbers instead of classes. name is a name for Parse. A name that is not
// in the table is a classification objective.
func IsRegression(name string) bool { return LabelsOf(name) != Sign }

// LabelsOf returns the kind of targets of a loss, or Sign for classes. name is as for IsRegression.
func LabelsOf(name string) Target {
	name, _, _ = strings.Cut(name, ":")
	for _, l := range table {
		if l.name == name {
			// The standard parameter may be NaN here, because the kind of labels does not depend on the parameter. For
			// t-logistic, a valid parameter would compute the partition function, which takes milliseconds.
			x, _ := l.make(l.standard)
			if f := x.Facts(); f.Regression {
				return f.Target
			}
			break
		}
	}
	return Sign
}

// Bounds returns the forms of the expectation of a loss, starting with the default form. It returns nothing if the name
// is not in the table.
func Bounds(name string) []string {
	var bounds []string
	for _, l := range table {
		if l.name == name {
			bounds = append(bounds, l.bound)
		}
	}
	return bounds
}

// Parameter returns the name of the parameter of a loss and bound, such as ell, the margin of a hinge. It returns ""
// for a loss without a parameter.
func Parameter(name string) string {
	for _, l := range table {
		if l.name == name {
			return l.parameter
		}
	}
	return ""
}

// Names returns the names of the losses in the order of the table.
func Names() []string {
	var names []string
	for _, l := range table {
		if len(names) == 0 || names[len(names)-1] != l.name {
			names = append(names, l.name)
		}
	}
	return names
}

// entry is one line of the table.
type entry struct {
	name, bound string
	// parameter is the name of the parameter, "" if the loss has none. standard is its default, or NaN if the caller
	// must give it.
	parameter string
	standard  float64
	make      func(parameter float64) (Loss, error)
}

// table lists the losses by name and bound, the form of the expectation. The first bound of a name is its default.
var table = []entry{
	{"hinge", "gaussian", "ell", 1, func(ell float64) (Loss, error) { return HingeGaussian{ell}, checkMargin(ell) }},
	{"hinge", "chen", "ell", 1, func(ell float64) (Loss, error) { return HingeChen{ell}, checkMargin(ell) }},
	{"squared-hinge", "gaussian", "ell", 1, func(ell float64) (Loss, error) { return SquaredHinge{ell}, checkMargin(ell) }},
	{"logistic", "gaussian", "", 0, func(float64) (Loss, error) { return LogisticGaussian{}, nil }},
	{"logistic", "chen", "", 0, func(float64) (Loss, error) { return LogisticChen{}, nil }},
	{"logistic", "quadratic-noising", "", 0, func(float64) (Loss, error) { return LogisticQuadratic{}, nil }},
	{"quadratic", "", "", 0, func(float64) (Loss, error) { return Quadratic{}, nil }},
	{"linear", "", "", 0, func(float64) (Loss, error) { return Linear{}, nil }},
	{"squared", "", "", 0, func(float64) (Loss, error) { return Linear{}, nil }}, // alias, the usual name
	{"absolute", "", "", 0, func(float64) (Loss, error) { return Absolute{}, nil }},
	{"quantile", "", "t", math.NaN(), func(t float64) (Loss, error) { return Quantile{t}, Quantile{t}.check() }},
	{"huber", "", "d", math.NaN(), func(d float64) (Loss, error) { return Huber{d}, Huber{d}.check() }},
	{"poisson", "gaussian", "", 0, func(float64) (Loss, error) { return PoissonGaussian{}, nil }},
	{"poisson", "quadratic-noising", "", 0, func(float64) (Loss, error) { return PoissonQuadratic{}, nil }},
	{"probit", "", "", 0, func(float64) (Loss, error) { return Probit{}, nil }},
	{"erf", "", "", 0, func(float64) (Loss, error) { return Erf{}, nil }},
	{"t-logistic", "", "t", math.NaN(), func(t float64) (Loss, error) { return NewTLogistic(t) }},
}

// Parse parses NAME, NAME:BOUND or NAME:BOUND:PARAMETER, for example hinge:chen:0.5. For a loss without bounds it
// parses NAME:PARAMETER, for example t-logistic:1.6. It is the inverse of Loss.String.
func Parse(s string) (Loss, error) {
	name, rest, _ := strings.Cut(s, ":")
	var bounds []string
	for _, l := range table {
		if l.name != name {
			continue
		}
		bound, text, given := strings.Cut(rest, ":")
		if l.bound == "" && l.parameter != "" {
			bound, text, given = "", rest, rest != ""
		}
		if bound != "" && bound != l.bound {
			bounds = append(bounds, l.bound)
			continue
		}
		x := l.standard
		switch {
		case given && l.parameter == "":
			return nil, fmt.Errorf("loss %q: %s has no parameter", s, name)
		case given:
			var err error
			if x, err = strconv.ParseFloat(text, 64); err != nil {
				return nil, fmt.Errorf("loss %q: %s = %q is not a number", s, l.parameter, text)
			}
		case l.parameter != "" && math.IsNaN(x):
			return nil, fmt.Errorf("loss %q: want %s:%s with a number %s", s, name, strings.ToUpper(l.parameter), l.parameter)
		}
		loss, err := l.make(x)
		if err != nil {
			return nil, fmt.Errorf("loss %q: %w", s, err)
		}
		return loss, nil
	}
	switch {
	case len(bounds) == 1 && bounds[0] == "":
		return nil, fmt.Errorf("loss %q: the expectation of %s is exact, it has no bound %s", s, name, rest)
	case len(bounds) > 0:
		return nil, fmt.Errorf("loss %q: %s knows the bounds %s", s, name, strings.Join(bounds, ", "))
	}
	return nil, fmt.Errorf("loss %q: want one of %s", s, strings.Join(Names(), ", "))
}

// unless returns the error with this message unless a parameter is valid.
func unless(valid bool, message string, args ...any) error {
	if valid {
		return nil
	}
	return fmt.Errorf(message, args...)
}

func format(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
