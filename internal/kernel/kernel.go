// Package kernel defines kernels, and the models of kernel machines, which package batch/svm trains.
package kernel

import (
	"fmt"
	"strconv"
	"strings"

	"blankout/internal/loss"
)

// Kernel is a positive semidefinite similarity of two feature vectors. Every kernel here is a function of three sums:
// s(x, y), s(x, x) and s(y, y). Here s is the scalar product or another sum over the columns, see Pair. So computing
// s(x, y) visits only columns that both vectors have.
type Kernel interface {
	// Pair returns the term of s(x, y) for a column with the values x and y. A column that only one vector has
	// contributes no term.
	Pair(x, y float64) float64
	// Scalar reports whether Pair is the product x y, so that Rows need not call it.
	Scalar() bool
	// Of returns k(x, y) from the sums s(x, y), s(x, x) and s(y, y).
	Of(xy, xx, yy float64) float64
	// String returns the kernel in the syntax of Parse.
	String() string
}

// Linear is the kernel x.y.
type Linear struct{}

func (Linear) Pair(x, y float64) float64   { return x * y }
func (Linear) Scalar() bool                { return true }
func (Linear) Of(xy, _, _ float64) float64 { return xy }
func (Linear) String() string              { return "linear" }

// Polynomial is the kernel (1 + x.y)^Degree.
type Polynomial struct{ Degree int }

func (k Polynomial) Pair(x, y float64) float64 { return x * y }
func (k Polynomial) Scalar() bool              { return true }
func (k Polynomial) Of(xy, _, _ float64) float64 {
	p, b := 1.0, 1+xy
	for n := k.Degree; n > 0; n >>= 1 {
		if n&1 == 1 {
			p *= b
		}
		b *= b
	}
	return p
}
func (k Polynomial) String() string { return "poly:" + strconv.Itoa(k.Degree) }

// RBF is the kernel exp(-|x-y|^2/(2 Sigma^2)). If Sigma is 0, training sets it to the mean distance of two different
// training examples.
type RBF struct{ Sigma float64 }

func (k RBF) Pair(x, y float64) float64     { return x * y }
func (k RBF) Scalar() bool                  { return true }
func (k RBF) Of(xy, xx, yy float64) float64 { return gaussianOf(xy, xx, yy, k.Sigma) }
func (k RBF) String() string                { return "rbf" + formatSigma(k.Sigma) }

// Chi2 is the kernel exp(-d/(2 Sigma^2)) for histograms (Tran 2016, section 4). d is the chi-squared distance sum (x_d
// - y_d)^2/(x_d + y_d) of nonnegative features. If s(x, y) = sum 2 x_d y_d/(x_d + y_d), the distance is s(x, x) + s(y,
// y) - 2 s(x, y), as in [RBF].
type Chi2 struct{ Sigma float64 }

func (k Chi2) Scalar() bool                  { return false }
func (k Chi2) Of(xy, xx, yy float64) float64 { return gaussianOf(xy, xx, yy, k.Sigma) }
func (k Chi2) String() string                { return "chi2" + formatSigma(k.Sigma) }

// Pair returns 2 x y/(x + y).
func (Chi2) Pair(x, y float64) float64 {
	if x+y <= 0 {
		return 0
	}
	return 2 * x * y / (x + y)
}

func gaussianOf(xy, xx, yy, sigma float64) float64 {
	return loss.Exp(-max(xx+yy-2*xy, 0) / (2 * sigma * sigma))
}

func formatSigma(sigma float64) string {
	if sigma == 0 {
		return ""
	}
	return ":" + strconv.FormatFloat(sigma, 'g', -1, 64)
}

// Parse parses linear, rbf[:SIGMA], poly:DEGREE or chi2[:SIGMA].
func Parse(s string) (Kernel, error) {
	name, arg, has := strings.Cut(s, ":")
	switch name {
	case "linear":
		if has {
			return nil, fmt.Errorf("kernel %q: linear takes no parameter", s)
		}
		return Linear{}, nil
	case "poly":
		d, err := strconv.Atoi(arg)
		if err != nil || d < 1 || d > 100 {
			return nil, fmt.Errorf("kernel %q: want poly:DEGREE with a degree from 1 to 100", s)
		}
		return Polynomial{d}, nil
	case "rbf", "chi2":
		sigma := 0.0
		if has {
			var err error
			if sigma, err = strconv.ParseFloat(arg, 64); err != nil || !(sigma >= 1e-100 && sigma <= 1e100) {
				return nil, fmt.Errorf("kernel %q: the width %q is not a positive number", s, arg)
			}
		}
		if name == "rbf" {
			return RBF{sigma}, nil
		}
		return Chi2{sigma}, nil
	}
	return nil, fmt.Errorf("kernel %q: want linear, rbf[:SIGMA], poly:DEGREE or chi2[:SIGMA]", s)
}
