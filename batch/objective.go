// Package batch computes exact solutions: the minimum of a regularized expected loss over a whole training set, with a
// bound on the remaining error.
//
// [Data] is the training set and an [Objective] is the function to minimize. [Solve] minimizes an Objective through the
// interfaces of this file. [Train] trains a [model.Linear] according to a [Config]. No goroutine outlives a call.
// Results have the same bits for any number of threads.
package batch

import "context"

// Objective is a function of the parameters that a solver minimizes. Its methods share buffers and are not safe for
// concurrent use.
type Objective interface {
	// Dim returns the number of parameters. An intercept is the last parameter.
	Dim() int
	// ValueGrad returns the value at w. It writes the gradient to grad unless grad is nil.
	ValueGrad(w, grad []float64) float64
}

// HessianVector is an Objective with second derivatives.
type HessianVector interface {
	Objective
	// HessVec writes H v to out. H is the Hessian at the point of the last ValueGrad that wrote a gradient.
	HessVec(v, out []float64)
}

// Certifier is a convex Objective that can bound the distance of a point from the minimum.
type Certifier interface {
	Objective
	// Gap returns an upper bound on J(w) - min J, or +Inf if no bound is available. It may first move the free
	// intercept, the last coordinate of w, to its optimum.
	Gap(w []float64) float64
}

// These interfaces of an Objective are optional. Each makes solving faster or the bound tighter.
type (
	// Diagonaler computes the diagonal of the Hessian, at least approximately.
	Diagonaler interface {
		Diagonal(out []float64)
	}
	// Liner evaluates the objective along a line without a pass over the features.
	Liner interface {
		// Line returns J(w + t d) and its first two derivatives by t. w is the point of the last ValueGrad that wrote a
		// gradient.
		Line(d []float64) func(t float64) (value, slope, curvature float64)
	}
	// Smoother is an Objective with kinks that can be smoothed.
	Smoother interface {
		// Kinked reports whether the objective has kinks.
		Kinked() bool
		// Smooth makes all methods evaluate the objective smoothed by eps. Smooth(0) turns smoothing off.
		Smooth(eps float64)
		// SmoothingGap returns the part of the last Gap that is due to smoothing.
		SmoothingGap() float64
		// OwnRounding returns the root mean square of the noise in the scores of the last Gap. The result unscaled
		// reports whether that noise exceeds the smoothing in nearly every row.
		OwnRounding() (spread float64, unscaled bool)
	}
	// GradientGapper computes how much a gradient adds to Gap.
	GradientGapper interface {
		GradientGap(grad []float64) float64
		FreeIntercept() bool
	}
	// Restarter is an Objective that may have several local minima.
	Restarter interface {
		// StartSize returns the size of weights that change a score by about 1, or 0 if there is only one minimum.
		StartSize() float64
	}
	// Minimizer is an Objective that has its own minimization method.
	Minimizer interface {
		// Minimize minimizes the objective with its own method. It returns nil if the method does not apply to opt;
		// Solve then uses a general method.
		Minimize(ctx context.Context, opt Options) (*Result, error)
	}
)

// Further optional interfaces, implemented by objectives of this package.
type (
	majoriser interface {
		HessianVector
		Majorise(on bool)
	}
	// director is an Objective that may solve Newton's linear system itself.
	director interface {
		// direction writes the solution p of H p = -grad. It returns false if conjugate gradients are faster.
		direction(ctx context.Context, grad, p []float64, forcing float64, dual bool) (ok bool, err error)
	}
	// stepGapper can bound the gap of the point w. The point w is at parameter t on the last Line.
	stepGapper interface {
		stepGap(w []float64, t float64) float64
	}
	// floored is an Objective with a known lower bound.
	floored interface {
		floor() float64
	}
)
