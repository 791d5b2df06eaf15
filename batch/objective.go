// Package batch computes exact solutions: the minimum of a regularized expected loss over a whole training set, with a
// bound on the remaining error.
//
// [Data] is the training set and an [Objective] is the function to minimize. [Solve] minimizes an Objective through the
// interfaces of this file, and uses more of [Expected], the objective of most problems. [Train] trains a [model.Linear] according to a [Config]. No goroutine outlives a call.
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
	// Diagonal writes the diagonal of the Hessian to out, at least approximately.
	Diagonal(out []float64)
}

// Certifier is a convex Objective that can bound the distance of a point from the minimum.
type Certifier interface {
	Objective
	// Gap returns an upper bound on J(w) - min J, or +Inf if no bound is available. It may first move the free
	// intercept, the last coordinate of w, to its optimum.
	Gap(w []float64) float64
}

// Minimizer is an Objective that has its own minimization method.
type Minimizer interface {
	Objective
	// Minimize minimizes the objective with its own method. It returns nil if the method does not apply to opt; Solve then
	// uses a general method.
	Minimize(ctx context.Context, opt Options) (*Result, error)
}
