package batch

// This file implements the solvers that minimize an Objective (Newton, IRLS and L-BFGS) and chooses among them.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/mat"
)

// Solver is the name of a method to minimize an Objective.
type Solver string

// The solvers. "" means Newton if the objective is convex and has second derivatives, otherwise LBFGS.
const (
	Newton Solver = "newton" // truncated Newton with conjugate gradients
	IRLS   Solver = "irls"   // iteratively reweighted least squares (Chen et al. 2014)
	LBFGS  Solver = "lbfgs"
	SMO    Solver = "smo" // SMO on the dual of the plain hinge
)

// Options are the settings of Solve.
type Options struct {
	Solver Solver
	// Tol is the tolerance. The solver stops when the certified gap is at most Tol times the objective. If there is no
	// certificate, it stops when the norm of the gradient is at most Tol times the norm of the first gradient.
	Tol           float64
	MaxIterations int // largest number of iterations; 0 means 1000
	// Dual solves the linear systems of Newton and IRLS in the dual, whose size is the number of rows. It applies if
	// there are fewer rows than parameters and all parameters are penalized. An example is a window of events with a
	// quadratic penalty.
	Dual  bool
	Start []float64 // start of the search; nil means 0; not modified
	// Progress is called after every iteration, on the goroutine of the solver.
	Progress func(Progress)
}

// Progress is the state of a solver after an iteration. Gap is +Inf if no bound is known.
type Progress struct {
	Problem, Problems int // index and number of binary problems
	Iteration         int
	Objective, Gap    float64
}

// Result is the best point that a solver found.
type Result struct {
	W []float64
	Solution
}

// Solve minimizes o. It returns an error if the value at the start is not finite, a linear system is singular or ctx
// ends. If the tolerance is not reached, Solve returns no error, but Converged is false.
func Solve(ctx context.Context, o Objective, opt Options) (*Result, error) {
	begin := time.Now()
	var r *Result
	var err error
	if m, ok := o.(Minimizer); ok {
		r, err = m.Minimize(ctx, opt)
	}
	if r == nil && err == nil {
		r, err = newSolver(o, opt).solve(ctx)
	}
	if r != nil {
		r.Seconds = time.Since(begin).Seconds()
	}
	return r, err
}

func newSolver(o Objective, opt Options) *solver {
	s := &solver{o: o, opt: opt, dim: o.Dim(), gap: math.Inf(1), bestGap: math.Inf(1), promised: math.Inf(1)}
	s.opt.MaxIterations = cmp.Or(s.opt.MaxIterations, 1000)
	s.w, s.grad = make([]float64, s.dim), make([]float64, s.dim)
	if opt.Start != nil {
		if len(opt.Start) != s.dim {
			panic(fmt.Sprintf("batch: a start of %d parameters for %d", len(opt.Start), s.dim))
		}
		copy(s.w, opt.Start)
	}
	s.certifier, _ = o.(Certifier)
	if s.expected, _ = o.(*Expected); s.expected != nil && s.expected.Kinked() {
		s.smoother, s.eps = s.expected, 1
	}
	return s
}

// solve minimizes with the solver of the options, or chooses one.
func (s *solver) solve(ctx context.Context) (*Result, error) {
	var err error
	switch hv, ok := s.o.(HessianVector); {
	case s.opt.Solver == LBFGS || s.opt.Solver == "" && !s.newtonFits():
		err = s.lbfgs(ctx)
	case s.opt.Solver == IRLS:
		if s.expected == nil {
			return nil, fmt.Errorf("solver irls: this objective has no quadratic majoriser; use newton or lbfgs")
		}
		s.expected.Majorise(true)
		err = s.newton(ctx, s.expected, true)
		s.expected.Majorise(false)
	case s.opt.Solver == Newton || s.opt.Solver == "":
		if !ok {
			return nil, fmt.Errorf("solver newton: this objective has no second derivatives; use lbfgs")
		}
		for err = s.newton(ctx, hv, false); err == nil && s.early(); err = s.newton(ctx, hv, false) {
			s.converged, s.eps = false, 0.1*s.eps
		}
	case s.opt.Solver == SMO:
		return nil, fmt.Errorf("solver smo: it is for the hinge loss without noise")
	default:
		return nil, fmt.Errorf("solver %q: want newton, irls, lbfgs or smo", s.opt.Solver)
	}
	if err != nil {
		return nil, err
	}
	return s.result(), nil
}

// early reports whether the solver has stopped because of a gap that is within the tolerance for the smoothed objective
// but not for the objective. The smoothing can be most of the value, if the data are fitted almost exactly.
func (s *solver) early() bool {
	if s.smoother == nil || !s.converged || math.IsInf(s.gap, 1) || s.iterations >= s.opt.MaxIterations {
		return false
	}
	s.smoother.Smooth(0)
	return s.gap > s.opt.Tol*math.Abs(s.o.ValueGrad(s.w, nil))
}

// result returns the best point found so far.
func (s *solver) result() *Result {
	if s.best != nil && !s.converged {
		copy(s.w, s.best)
		s.gap = s.bestGap
	}
	if s.smoother != nil {
		s.smoother.Smooth(0)
	}
	r := &Result{s.w, Solution{Gap: s.gap, Converged: s.converged, Iterations: s.iterations, Passes: s.evaluations}}
	r.Objective = s.o.ValueGrad(s.w, nil)
	if s.expected != nil && s.expected.facts.Lower == nil && r.Objective == 0 {
		r.Gap, r.Converged = 0, true // the value equals the lower bound
	}
	if s.smoother != nil && !math.IsInf(r.Gap, 1) {
		r.Converged = r.Gap <= s.opt.Tol*math.Abs(r.Objective)
	}
	r.Gap += 1e-15 * math.Abs(r.Objective) // rounding of the objective
	if p, ok := s.o.(interface{ Passes() int }); ok {
		r.Passes = p.Passes()
	}
	return r
}

type solver struct {
	o         Objective
	opt       Options
	certifier Certifier // nil if there is no certificate
	expected  *Expected // nil for other objectives
	smoother  *Expected // expected if it has kinks, else nil
	dim       int

	w, grad     []float64
	value       float64
	gap, eps    float64
	best        []float64 // the point with the smallest gap
	bestGap     float64
	first       float64 // norm of the first gradient
	promised    float64 // first-order decrease that the last (quasi-)Newton direction predicted
	converged   bool
	iterations  int
	evaluations int
}

// newtonFits reports whether Newton's method applies: the objective is convex and has second derivatives.
func (s *solver) newtonFits() bool {
	if c, ok := s.o.(interface{ IsConvex() bool }); ok && !c.IsConvex() {
		return false
	}
	_, ok := s.o.(HessianVector)
	return ok
}

// done finishes an iteration: it computes the certificate, reports the progress and returns whether to stop. It lowers
// the smoothing if smoothing is the larger part of the gap. The result changed is true if the smoothing or the
// intercept changed: earlier gradients then belong to another function. The argument step is the length of the last
// step along a Newton direction, or 0 if there was no such step.
func (s *solver) done(ctx context.Context, decrease, step float64) (stop, changed bool, err error) {
	s.gap = math.Inf(1)
	if s.expected != nil && step > 0 {
		s.gap = s.expected.stepGap(s.w, step)
	}
	// If rounding errors exceed the gap, the certificate is not a bound: it is a sum of small terms of the rows.
	if s.certifier != nil && (math.IsInf(s.gap, 1) || s.gap < 1e-12*math.Abs(s.value)) {
		last := s.w[s.dim-1]
		s.gap = s.certifier.Gap(s.w)
		changed = s.w[s.dim-1] != last
	}
	if stop, err := s.stop(ctx); stop || err != nil {
		return stop, changed, err
	}
	if !math.IsInf(s.gap, 1) {
		if s.smoother != nil && s.lowerSmoothing(decrease) {
			changed = true
		}
	}
	return false, changed, nil
}

// lowerSmoothing lowers the smoothing once smoothing matters more than the last step, but never below the value that
// the tolerance needs. Noise smooths the kink too, so the smoothing need not be far above the noise. If nearly every
// row has noise, no smoothing is needed, and the smoothing may drop at once to the value that the tolerance needs. The
// result reports whether the smoothing has changed.
func (s *solver) lowerSmoothing(decrease float64) bool {
	kink, fine := s.smoother.kink, 0.3*s.opt.Tol*math.Abs(s.value)
	if !(kink > fine) {
		return false
	}
	if kink < 2*fine && s.gap > 10*kink {
		return false // nearly converged, and smoothing is not the cause of the gap
	}
	eps := s.eps
	switch {
	case decrease < kink:
		eps *= 0.1
	case decrease < 10*kink:
		eps *= 0.4
	}
	if spread, unscaled := s.smoother.OwnRounding(); unscaled {
		eps = min(eps, s.eps*math.Sqrt(0.3*fine/kink)) // the part of the gap due to the kink grows with eps^2
	} else if spread > 0.5*s.eps { // the noise stays if the weights become smaller
		eps = min(eps, 0.3*spread)
	}
	if eps == s.eps {
		return false
	}
	s.eps = eps
	s.smoother.Smooth(eps)
	return true
}

// raiseSmoothing raises the smoothing if this adds less than the tolerance to the gap. If all scores are farther from a
// kink than the smoothing, the objective has no curvature, as for a quantile between outliers. The result reports
// whether the smoothing has changed.
func (s *solver) raiseSmoothing() bool {
	const most = 1e15 // largest smoothing, in units of the score
	if s.smoother == nil || s.eps >= most || s.smoother.kink > 0.003*s.opt.Tol*math.Abs(s.value) {
		return false
	}
	s.eps *= 10
	s.smoother.Smooth(s.eps)
	return true
}

// stop reports the progress. It returns true if s.gap is small enough or the iterations are used up.
func (s *solver) stop(ctx context.Context) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if s.opt.Progress != nil {
		s.opt.Progress(Progress{Problems: 1, Iteration: s.iterations, Objective: s.value, Gap: s.gap})
	}
	if s.gap <= s.bestGap && !math.IsInf(s.gap, 1) {
		s.bestGap, s.best = s.gap, append(s.best[:0], s.w...)
	}
	s.converged = s.gap <= s.opt.Tol*math.Abs(s.value)
	if s.iterations < s.opt.MaxIterations {
		return s.converged, nil
	}
	s.settle()
	return true, nil
}

func errNotFinite(value, norm float64) error {
	return fmt.Errorf("the objective is %v with a gradient of norm %v: scale the features down or penalize more", value, norm)
}

// newton is the truncated Newton method. It solves H p = -grad by conjugate gradients with a diagonal preconditioner,
// then searches along p. Smoothing gives the hinge curvature where the exact Hessian has none (at w = 0). The smoothing
// decreases as the iterates approach the minimum. If irls is set, the matrix is the majorizer and the systems are
// solved more accurately. Then the full step is taken whenever J decreases.
func (s *solver) newton(ctx context.Context, h HessianVector, irls bool) error {
	if s.smoother != nil {
		s.smoother.Smooth(s.eps)
	}
	p, diag := make([]float64, s.dim), make([]float64, s.dim)
	cg := newCG(s.dim)
	stalled := 0
	for {
		s.value = h.ValueGrad(s.w, s.grad)
		s.evaluations++
		norm := norm2(s.grad)
		if !finite(s.value) || !finite(norm) {
			return errNotFinite(s.value, norm)
		}
		s.first = cmp.Or(s.first, norm)
		if norm == 0 || math.IsInf(s.gap, 1) && s.iterations > 0 && norm <= s.opt.Tol*s.first {
			s.converged = s.converged || s.certifier == nil || math.IsInf(s.gap, 1)
			if norm == 0 && s.certifier != nil && s.smoother == nil {
				s.gap = s.certifier.Gap(s.w)
				s.converged = true
			}
			if norm > 0 || s.smoother == nil {
				return nil
			}
		}
		forcing := 0.1
		if cg.near = s.gap < 3*math.Abs(s.value); cg.near {
			forcing = 0.05
		}
		forcing = min(forcing, math.Sqrt(norm/s.first))
		if irls {
			forcing = 1e-3
		}
		// enough is the residual that the certificate needs. Solving more accurately is not worth the effort.
		enough := 0.0
		if s.certifier != nil && !irls {
			enough = 0.3 * s.opt.Tol * math.Abs(s.value)
		}
		if err := s.direction(ctx, h, cg, diag, p, forcing, enough); err != nil {
			var singular singularError
			if errors.As(err, &singular) && s.raiseSmoothing() {
				continue
			}
			return err
		}
		before := s.value
		s.promised = -Dot(s.grad, p)
		t, value := s.search(p, irls)
		for i, v := range p {
			s.w[i] += t * v
		}
		s.value = value
		s.iterations++
		stop, _, err := s.done(ctx, before-value, t)
		if stop || err != nil {
			return err
		}
		if before-value <= 1e-15*math.Abs(before) {
			// Rounding prevents progress. Try a few more iterations, because the smoothing or the intercept may change.
			if stalled++; stalled > 4 {
				s.settle()
				return nil
			}
			s.raiseSmoothing()
		} else {
			stalled = 0
		}
	}
}

// direction solves H p = -s.grad, by the objective's own method if it has such a method, otherwise by conjugate
// gradients. Conjugate gradients stop when the residual has decreased by the factor forcing. They also stop if the
// residual, as a gradient, would leave a gap below enough. The slice diag is scratch space.
func (s *solver) direction(ctx context.Context, h HessianVector, cg *cg, diag, p []float64, forcing, enough float64) error {
	if s.expected != nil {
		if ok, err := s.expected.direction(ctx, s.grad, p, forcing, s.opt.Dual); ok || err != nil {
			return err
		}
	}
	scales(h, diag)
	g := s.expected
	if g == nil || enough == 0 {
		return cg.solve(ctx, h, s.grad, diag, p, forcing, nil)
	}
	if !g.FreeIntercept() {
		return cg.solve(ctx, h, s.grad, diag, p, forcing, func(r []float64) bool { return g.GradientGap(r) <= enough })
	}
	// The certificate moves a free intercept to its optimum, which affects all weights, most of all the weights of
	// frequent features. So the tested residual and the step include this move: k times the intercept's column of H.
	last := s.dim - 1
	column, moved := make([]float64, s.dim), make([]float64, s.dim)
	clear(p)
	p[last] = 1
	h.HessVec(p, column)
	if !(column[last] > 0) {
		return cg.solve(ctx, h, s.grad, diag, p, forcing, nil)
	}
	err := cg.solve(ctx, h, s.grad, diag, p, forcing, func(r []float64) bool {
		k := r[last] / column[last]
		for i, c := range column {
			moved[i] = r[i] - k*c
		}
		return g.GradientGap(moved) <= enough
	})
	p[last] += cg.r[last] / column[last]
	return err
}

// search returns a step length t along p and the value at s.w + t p. The gradient s.grad and the value s.value must
// belong to s.w, the point of the last ValueGrad.
func (s *solver) search(p []float64, fullStep bool) (t, value float64) {
	slope := Dot(s.grad, p)
	if s.expected != nil {
		return searchLine(s.expected.Line(p), s.value, slope, fullStep)
	}
	u := make([]float64, s.dim)
	t = 1
	for range 60 {
		for i, v := range p {
			u[i] = s.w[i] + t*v
		}
		s.evaluations++
		if value = s.o.ValueGrad(u, nil); value <= s.value+1e-4*t*slope {
			return t, value
		}
		t /= 2
	}
	return 0, s.value
}

// searchLine finds a step with phi below phi(0) and a slope of at most a tenth of the slope at 0. An evaluation is
// cheap, so searchLine uses several evaluations to find a long step.
func searchLine(phi func(t float64) (value, slope, curvature float64), value0, slope0 float64, fullStep bool) (t, value float64) {
	lo, slopeLo := 0.0, slope0
	hi, slopeHi := math.Inf(1), 0.0
	best, bestValue := 0.0, value0
	t = 1
	for range 40 {
		value, slope, _ := phi(t)
		if value < bestValue {
			best, bestValue = t, value
		}
		if value <= value0 && (fullStep || math.Abs(slope) <= 0.1*math.Abs(slope0)) {
			return t, value
		}
		if slope < 0 && value <= value0+1e-12*math.Abs(value0) {
			lo, slopeLo = t, slope
		} else {
			hi, slopeHi = t, slope
		}
		switch {
		case math.IsInf(hi, 1):
			// The next step is the zero of the secant of the slopes, limited to four times the current step.
			next := 4 * t
			if slopeLo > slope0 {
				next = min(next, t*slope0/(slope0-slopeLo))
			}
			t = max(next, 1.5*t)
		case slopeHi > 0:
			u := lo - slopeLo*(hi-lo)/(slopeHi-slopeLo)
			t = min(max(u, lo+0.1*(hi-lo)), hi-0.1*(hi-lo))
		default:
			t = lo + 0.5*(hi-lo)
		}
		if hi-lo < 1e-14*hi {
			break
		}
	}
	return best, bestValue
}

// cg is the conjugate gradient method for a sequence of linear systems. It owns its buffers and keeps the last search
// directions of the previous system.
type cg struct {
	r, z, d, hd []float64
	near        bool // whether the matrix is similar to the previous one
	past, now   []conjugate
	keep        int // number of kept directions
	along       []float64
}

// conjugate is a search direction d of a system with the matrix H.
type conjugate struct {
	d, hd   []float64
	inverse float64 // 1/d'Hd
}

// newCG returns the method for n unknowns. It keeps at most 64 MB of directions of a previous system.
func newCG(n int) *cg {
	b := make([]float64, 4*n)
	return &cg{r: b[:n], z: b[n : 2*n], d: b[2*n : 3*n], hd: b[3*n:], keep: min(8, (1<<21)/max(n, 1))}
}

// precondition sets z to the inverse of diag times r, corrected with the kept directions P. The directions P were
// conjugate for the matrix H of the previous system. The correction makes z exact on P for that matrix (the block form
// of the BFGS update; Morales & Nocedal 2000):
//
//	z = (I - P S P'H) diag^-1 (I - H P S P') r + P S P' r,  S = (P'HP)^-1 diagonal.
func (c *cg) precondition(diag []float64) {
	copy(c.z, c.r)
	c.along = c.along[:0]
	for _, q := range c.past {
		a := q.inverse * Dot(q.d, c.r)
		axpy(-a, q.hd, c.z)
		c.along = append(c.along, a)
	}
	for i, d := range diag {
		c.z[i] /= d
	}
	for k, q := range c.past {
		c.along[k] -= q.inverse * Dot(q.hd, c.z)
	}
	for k, q := range c.past {
		axpy(c.along[k], q.d, c.z)
	}
}

// remember adds the direction c.d and the product c.hd to the kept directions.
func (c *cg) remember(inverse float64) {
	if c.keep == 0 {
		return
	}
	var q conjugate
	if len(c.now) < c.keep {
		b := make([]float64, 2*len(c.d))
		q.d, q.hd = b[:len(c.d)], b[len(c.d):]
	} else {
		q = c.now[0]
		c.now = append(c.now[:0], c.now[1:]...)
	}
	copy(q.d, c.d)
	copy(q.hd, c.hd)
	q.inverse = inverse
	c.now = append(c.now, q)
}

// solve finds p with H p = -grad. It stops when the residual, in the norm of the preconditioner, has decreased by the
// factor forcing. It also stops when done accepts the residual (done may be nil), or at a direction without curvature.
func (c *cg) solve(ctx context.Context, h HessianVector, grad, diag, p []float64, forcing float64, done func(r []float64) bool) error {
	c.past, c.now = c.now, nil
	if !c.near {
		c.past = nil
	}
	clear(p)
	for i, g := range grad {
		c.r[i] = -g
	}
	size := func(float64) (size float64) {
		for i, d := range c.d {
			size += d * d * diag[i]
		}
		return size
	}
	return c.iterate(ctx, h, p, forcing, 2*len(grad)+10, func() { c.precondition(diag) }, size, done)
}

// iterate improves p, whose residual is c.r, until solve stops or after the given number of directions. The function
// precondition sets c.z from c.r. A direction has no curvature if the curvature is below a rounding error of its size,
// which may depend on r.z.
func (c *cg) iterate(ctx context.Context, h HessianVector, p []float64, forcing float64, directions int, precondition func(), size func(rz float64) float64, done func(r []float64) bool) error {
	precondition()
	copy(c.d, c.z)
	rz := Dot(c.r, c.z)
	limit := forcing * forcing * rz
	for n := 0; n < directions && rz > limit; n++ {
		if n > 0 && done != nil && done(c.r) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		h.HessVec(c.d, c.hd)
		curvature := Dot(c.d, c.hd)
		if curvature <= 1e-14*size(rz) {
			if n == 0 {
				copy(p, c.d)
			}
			return nil
		}
		c.remember(1 / curvature)
		alpha := rz / curvature
		for i, d := range c.d {
			p[i] += alpha * d
			c.r[i] -= alpha * c.hd[i]
		}
		precondition()
		next := Dot(c.r, c.z)
		beta := next / rz
		rz = next
		for i, z := range c.z {
			c.d[i] = z + beta*c.d[i]
		}
	}
	return nil
}

// solveDense solves a p = -grad by Cholesky decomposition.
func solveDense(a *mat.SymDense, grad, p []float64) error {
	c, err := factorize(a)
	if err != nil {
		return err
	}
	return solveFactored(c, grad, p)
}

// singularError reports a linear system without a solution; its value is the number of unknowns.
type singularError int

func (n singularError) Error() string {
	return fmt.Sprintf("the linear system of %d unknowns is singular: a feature is constant or repeats others and nothing penalizes it, or values differ too much in size", int(n))
}

// factorize returns the Cholesky factor of a. It may change a with nudge.
func factorize(a *mat.SymDense) (*mat.Cholesky, error) {
	var c mat.Cholesky
	if !c.Factorize(a) && !(nudge(a) && c.Factorize(a)) {
		return nil, singularError(a.SymmetricDim())
	}
	return &c, nil
}

// solveFactored solves a p = -grad given the factor of a.
func solveFactored(c *mat.Cholesky, grad, p []float64) error {
	b := mat.NewVecDense(len(grad), nil)
	for i, g := range grad {
		b.SetVec(i, -g)
	}
	if err := c.SolveVecTo(mat.NewVecDense(len(p), p), b); err != nil {
		if _, nearly := err.(mat.Condition); !nearly {
			return fmt.Errorf("solving the linear system: %w", err)
		}
	}
	return nil
}

// nudge adds a rounding error to the diagonal of a matrix that is singular within rounding. Such matrices occur because
// a free intercept has hardly any curvature far from all margins. For a zero matrix, nudge returns false and changes
// nothing.
func nudge(a *mat.SymDense) bool {
	n := a.SymmetricDim()
	largest, smallest := 0.0, math.Inf(1)
	for i := range n {
		largest, smallest = max(largest, a.At(i, i)), min(smallest, a.At(i, i))
	}
	for i := range n {
		a.SetSym(i, i, a.At(i, i)+1e-13*largest)
	}
	return smallest > 0
}

// lbfgs is the limited-memory BFGS method (Nocedal & Wright 2006, algorithm 7.5) with a line search for the Wolfe
// conditions.
func (s *solver) lbfgs(ctx context.Context) error {
	if s.smoother != nil {
		s.smoother.Smooth(s.eps)
	}
	p := make([]float64, s.dim)
	next, nextGrad := make([]float64, s.dim), make([]float64, s.dim)
	eval := func() {
		s.value = s.o.ValueGrad(s.w, s.grad)
		s.evaluations++
	}
	eval()
	if !finite(s.value) || !finite(norm2(s.grad)) {
		return fmt.Errorf("the objective is %v at the start: scale the features down or penalize more", s.value)
	}
	s.first = norm2(s.grad)
	curvature := curvature{diag: slices.Repeat([]float64{1}, s.dim)}
	stalled := 0
	for {
		norm := norm2(s.grad)
		if s.certifier != nil && norm <= s.opt.Tol*s.first {
			s.gap = s.certifier.Gap(s.w)
			eval()
		}
		if math.IsInf(s.gap, 1) && norm <= s.opt.Tol*s.first {
			s.converged = true
			return nil
		}
		if d, ok := s.o.(HessianVector); ok && (s.iterations == 30 || s.iterations == 100 || s.iterations == 300) {
			// Features differ in frequency by orders of magnitude. If the different frequencies slow L-BFGS down, the
			// inverse Hessian is built from the inverse diagonal. Using the diagonal from the start led to worse minima
			// of objectives that are not convex.
			eval()
			scales(d, curvature.diag)
		}
		if curvature.direction(s.grad, norm, p); len(curvature.pairs) > 0 {
			s.promised = -Dot(s.grad, p)
		}
		before := s.value
		ok := s.wolfe(p, next, nextGrad)
		s.iterations++
		if ok {
			curvature.remember(next, s.w, nextGrad, s.grad)
			copy(s.w, next)
			copy(s.grad, nextGrad)
		}
		if !ok || before-s.value <= 1e-15*math.Abs(before) {
			stalled++
			if !ok {
				curvature.pairs = nil
			}
		} else {
			stalled = 0
		}
		if s.certifier == nil || s.iterations%10 == 0 || stalled > 0 {
			eps := s.eps
			stop, changed, err := s.done(ctx, before-s.value, 0)
			if stop || err != nil {
				return err
			}
			if changed {
				eval()
			}
			if s.eps != eps {
				curvature.pairs, stalled = nil, 0
			}
		} else if s.opt.Progress != nil {
			s.opt.Progress(Progress{Problems: 1, Iteration: s.iterations, Objective: s.value, Gap: s.gap})
		}
		if stalled > 4 {
			s.settle()
			return nil
		}
	}
}

// settle ends the search if rounding prevents progress or the iterations are used up. A search without a certificate
// has converged if the predicted decrease is below 1e-12 of the objective. A smaller gradient would be beyond the
// precision of the objective.
func (s *solver) settle() {
	if math.IsInf(s.gap, 1) && s.promised <= 1e-12*math.Abs(s.value) {
		s.converged = true
	}
}

// scales writes the diagonal of the Hessian to out, and 1 where it is not positive or infinite.
func scales(h HessianVector, out []float64) {
	h.Diagonal(out)
	for i, v := range out {
		if !(v > 0) || math.IsInf(v, 1) {
			out[i] = 1
		}
	}
}

// curvature is L-BFGS's memory of the Hessian. It has the last steps s, the changes y of the gradient, rho = 1/s.y, and
// the diagonal for all other directions.
type curvature struct {
	pairs []struct {
		s, y []float64
		rho  float64
	}
	diag []float64
}

// direction writes minus the inverse Hessian times grad to p. The argument norm is the norm of grad.
func (c *curvature) direction(grad []float64, norm float64, p []float64) {
	for i, g := range grad {
		p[i] = -g
	}
	alpha := make([]float64, len(c.pairs))
	for k := len(c.pairs) - 1; k >= 0; k-- {
		alpha[k] = c.pairs[k].rho * Dot(c.pairs[k].s, p)
		axpy(-alpha[k], c.pairs[k].y, p)
	}
	if n := len(c.pairs); n > 0 {
		last := c.pairs[n-1]
		length := 0.0
		for i, y := range last.y {
			length += y * y / c.diag[i]
		}
		scale := 1 / (last.rho * length)
		for i := range p {
			p[i] *= scale / c.diag[i]
		}
	} else if norm > 0 {
		for i := range p {
			p[i] /= norm
		}
	}
	for k, q := range c.pairs {
		axpy(alpha[k]-q.rho*Dot(q.y, p), q.s, p)
	}
}

// remember stores a step and the change of the gradient, unless rounding hides the curvature along the step.
func (c *curvature) remember(to, from, gradTo, gradFrom []float64) {
	const memory = 10
	s, y := make([]float64, len(to)), make([]float64, len(to))
	for i := range to {
		s[i], y[i] = to[i]-from[i], gradTo[i]-gradFrom[i]
	}
	sy := Dot(s, y)
	if !(sy > 1e-16*norm2(s)*norm2(y)) {
		return
	}
	if len(c.pairs) == memory {
		c.pairs = append(c.pairs[:0], c.pairs[1:]...)
	}
	c.pairs = append(c.pairs, struct {
		s, y []float64
		rho  float64
	}{s, y, 1 / sy})
}

// wolfe searches along p for a point that satisfies the strong Wolfe conditions (c1 = 1e-4, c2 = 0.9). It writes the
// point to next, its gradient to grad and its value to s.value.
func (s *solver) wolfe(p, next, grad []float64) bool {
	slope0 := Dot(s.grad, p)
	if !(slope0 < 0) {
		return false
	}
	lo, hi := 0.0, math.Inf(1)
	t := 1.0
	for range 50 {
		for i, v := range p {
			next[i] = s.w[i] + t*v
		}
		value := s.o.ValueGrad(next, grad)
		s.evaluations++
		slope := Dot(grad, p)
		switch {
		case !(value <= s.value+1e-4*t*slope0+1e-15*math.Abs(s.value)): // no decrease, up to rounding
			hi = t
		case slope < 0.9*slope0:
			lo = t
		case slope > -0.9*slope0:
			hi = t
		default:
			s.value = value
			return true
		}
		if math.IsInf(hi, 1) {
			t *= 2
		} else {
			t = 0.5 * (lo + hi)
		}
	}
	return false
}

func axpy(a float64, x, y []float64) {
	for i, v := range x {
		y[i] += a * v
	}
}

func norm2(x []float64) float64 { return math.Sqrt(Dot(x, x)) }

func finite(x float64) bool { return x-x == 0 }
