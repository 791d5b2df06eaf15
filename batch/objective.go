// Package batch computes exact solutions: the minimum of a regularized
// expected loss over a whole training set, with a certificate of how exact it is.
//
// [Data] is the training set, an [Objective] what is minimized over it, and
// [Solve] minimizes it without knowing which it is: it sees the interfaces of this file
// alone. [Train] does all of it from a [Config] to a [model.Linear]. No goroutine outlives a call, and every
// result is the same to the bit for any number of threads.
package batch

import "context"

// Objective is a function of the parameters that a solver minimizes. Its
// methods use buffers of their own and are not safe for concurrent use.
type Objective interface {
	// Dim returns the number of parameters. An intercept is the last of them.
	Dim() int
	// ValueGrad returns the value at w and writes the gradient to grad unless
	// that is nil.
	ValueGrad(w, grad []float64) float64
}

// HessianVector is an Objective with second derivatives.
type HessianVector interface {
	Objective
	// HessVec writes H v to out, H the Hessian at the point of the last
	// ValueGrad that wrote a gradient.
	HessVec(v, out []float64)
}

// Certifier is an Objective that is convex and can say how far from its
// minimum a point is.
type Certifier interface {
	Objective
	// Gap returns an upper bound on J(w) - min J, +Inf where it knows none. It
	// may move the free intercept, w's last coordinate, to its optimum first.
	Gap(w []float64) float64
}

// An Objective may implement these interfaces to be solved faster or to be certified sooner.
type (
	// Diagonaler knows the diagonal of the matrix of HessVec, or nearly.
	Diagonaler interface {
		Diagonal(out []float64)
	}
	// Liner evaluates itself along a line cheaply.
	Liner interface {
		// Line returns J(w + t d) and its first two derivatives by t, w being the point of
		// the last ValueGrad that wrote a gradient.
		Line(d []float64) func(t float64) (value, slope, curvature float64)
	}
	// Smoother is an Objective with kinks that it can round off.
	Smoother interface {
		// Kinked reports whether there are any.
		Kinked() bool
		// Smooth has ValueGrad, HessVec and the other methods be those of the objective
		// rounded off by eps, 0 being the objective itself.
		Smooth(eps float64)
		// SmoothingGap returns what smoothing contributed to the last Gap.
		SmoothingGap() float64
		// OwnRounding returns the root mean square of the noise in the scores of the last
		// Gap, and whether it exceeds the smoothing in nearly every row.
		OwnRounding() (spread float64, unscaled bool)
	}
	// GradientGapper knows what a gradient contributes to Gap.
	GradientGapper interface {
		GradientGap(grad []float64) float64
		FreeIntercept() bool
	}
	// Restarter is an Objective that may have several minima.
	Restarter interface {
		// StartSize returns the size of weights that move a score by about 1, 0 where there
		// is one minimum.
		StartSize() float64
	}
	// Minimizer is an Objective with a method of its own.
	Minimizer interface {
		// Minimize returns what that method found, or nil where it has none for opt: then
		// Solve takes one of its own.
		Minimize(ctx context.Context, opt Options) (*Result, error)
	}
)

// What an Objective of this package may know beside.
type (
	majoriser interface {
		HessianVector
		Majorise(on bool)
	}
	// director may solve Newton's linear system by itself.
	director interface {
		// direction writes the p with H p = -grad, or returns false where conjugate
		// gradients are the quicker way.
		direction(ctx context.Context, grad, p []float64, forcing float64, dual bool) (ok bool, err error)
	}
	// stepGapper can certify w, the point t of the last Line.
	stepGapper interface {
		stepGap(w []float64, t float64) float64
	}
	// floored knows a value that no point is below.
	floored interface {
		floor() float64
	}
)
