// Package batch computes exact solutions: the minimum of a regularised
// expected loss over a whole training set, with a certificate of how exact it is.
//
// [Data] is the training set, an [Objective] what is minimised over it, and
// [Solve] minimises it without knowing which it is. [Train] does all of it
// from a [Config] to a [model.Linear]. No goroutine outlives a call, and every
// result is the same to the bit for any number of threads.
package batch

// Objective is a function of the parameters that a solver minimises. Its
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
