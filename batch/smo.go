package batch

// This file implements SMO, which solves the duals of support vector machines.

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"blankout/internal/kernel"
)

// GramRows is a symmetric positive semidefinite matrix that is read row by row: a matrix in memory or a [CachedGram].
type GramRows interface {
	Len() int
	// Row returns row i. The slice is valid until the second call after this one.
	Row(i int) []float64
	Diagonal() []float64
}

// DualProblem is the quadratic program behind every support vector machine of this package, in the signed variables
// beta_i = y_i alpha_i:
//
//	maximize P.beta - beta'K beta/2  subject to  Lo <= beta <= Hi, sum beta = 0.
//
// The hinge loss has P = y. Its bounds (Lo, Hi) are (0, C_i) for y_i = 1 and (-C_i, 0) for y_i = -1. The primal is then
// |w|^2/2 + sum C_i max(0, 1 - y_i f_i), where w = sum beta_i phi(x_i) and f_i = w.phi(x_i) + b. If Intercept is false,
// the sum is not constrained and b = 0.
type DualProblem struct {
	K         GramRows
	P, Lo, Hi []float64 // Lo <= 0 <= Hi
	Intercept bool
	// GapTol is the largest accepted relative duality gap. The accepted violation of the optimality conditions is 1e-6, in
	// units of the score, and less until the gap is reached.
	GapTol float64
}

const smoTol = 1e-6

// HingeDual returns the DualProblem of the hinge loss. It has one label y in {-1, +1} and one cost C_i >= 0 for each
// example.
func HingeDual(k GramRows, y, c []float64) *DualProblem {
	p := &DualProblem{K: k, P: y, Lo: make([]float64, len(y)), Hi: make([]float64, len(y)), Intercept: true}
	for i, yi := range y {
		if yi > 0 {
			p.Hi[i] = c[i]
		} else {
			p.Lo[i] = -c[i]
		}
	}
	return p
}

// DualResult is the solution of a DualProblem.
type DualResult struct {
	Beta      []float64
	Intercept float64
	// Scores are (K beta)_i + b, recomputed from beta.
	Scores []float64
	// Primal and Dual are upper and lower bounds of the optimum, at these scores. Gap = Primal - Dual bounds the error
	// of the objective. Gap is at least 0 up to rounding.
	Primal, Dual, Gap float64
	// Violation is the largest remaining violation of the optimality conditions.
	Violation  float64
	Iterations int
	Converged  bool
}

// Solve runs sequential minimal optimization. Each step moves two variables, chosen by second-order information (Fan,
// Chen & Lin 2005, WSS 2). Variables that stay at a bound leave the working problem (shrinking, Chang & Lin 2011,
// section 4.2). The result is checked on the whole problem with recomputed scores.
func (p *DualProblem) Solve(ctx context.Context) (*DualResult, error) {
	s, err := newSMO(p)
	if err != nil {
		return nil, err
	}
	r := &DualResult{}
	gapTol := cmp.Or(p.GapTol, 1e-6)
	for round := 0; ; round++ {
		if err := s.run(ctx); err != nil {
			return nil, err
		}
		s.refresh()
		up, low := s.extremes()
		r.Violation = max(up-low, 0)
		if !p.Intercept {
			r.Violation = max(up, -low, 0)
		}
		s.finish(r)
		r.Converged = r.Violation <= smoTol && r.Gap <= gapTol*math.Abs(r.Primal)
		// Incrementally updated scores accumulate rounding errors. If the solution is not good enough with recomputed
		// scores, the search continues from them. The tolerance is never below the rounding error of the scores.
		if r.Converged || s.iterations >= s.limit || round == 20 {
			return r, nil
		}
		if r.Violation <= s.tol*1.5 {
			if s.tol *= 0.1; s.tol < 1e-14*s.scale {
				return r, nil
			}
		}
	}
}

// smo is the state of the search. The elements e[i] = P_i - (K beta)_i are updated for active variables only. The
// element bound[i] is the sum of beta_j K_ij over all j whose beta_j is at a nonzero bound. It serves to recompute e of
// the inactive variables.
type smo struct {
	*DualProblem
	diagonal   []float64
	beta       []float64
	e, bound   []float64
	active     []int
	tol, scale float64
	iterations int
	limit      int
	unshrunk   bool
}

func newSMO(p *DualProblem) (*smo, error) {
	n := p.K.Len()
	if len(p.P) != n || len(p.Lo) != n || len(p.Hi) != n {
		panic(fmt.Sprintf("batch: a dual problem of %d rows with %d, %d and %d terms", n, len(p.P), len(p.Lo), len(p.Hi)))
	}
	s := &smo{DualProblem: p, diagonal: p.K.Diagonal(), beta: make([]float64, n), e: make([]float64, n), bound: make([]float64, n),
		active: make([]int, n), tol: smoTol, limit: 100*n + 10_000_000}
	for i := range n {
		if !(p.Lo[i] <= 0 && p.Hi[i] >= 0) || math.IsInf(p.Hi[i]-p.Lo[i], 0) || p.P[i]-p.P[i] != 0 {
			return nil, fmt.Errorf("dual problem: bounds %v to %v and linear term %v of variable %d", p.Lo[i], p.Hi[i], p.P[i], i)
		}
		s.active[i] = i
		s.scale = max(s.scale, math.Abs(p.P[i]))
	}
	s.refresh()
	return s, nil
}

// refresh recomputes e and bound of all variables from beta.
func (s *smo) refresh() {
	copy(s.e, s.P)
	clear(s.bound)
	for j, b := range s.beta {
		if b == 0 {
			continue
		}
		row := s.K.Row(j)
		for i, k := range row {
			s.e[i] -= b * k
		}
		if b == s.atBound(j) {
			for i, k := range row {
				s.bound[i] += b * k
			}
		}
	}
}

// atBound returns beta_j if it is at a bound, otherwise 0.
func (s *smo) atBound(j int) float64 {
	if b := s.beta[j]; b == s.Lo[j] || b == s.Hi[j] {
		return b
	}
	return 0
}

// extremes returns the largest e of the active variables that may increase and the smallest e of the active variables
// that may decrease. At the optimum up <= low (Keerthi et al. 2001).
func (s *smo) extremes() (up, low float64) {
	up, low = math.Inf(-1), math.Inf(1)
	for _, i := range s.active {
		if s.beta[i] < s.Hi[i] {
			up = max(up, s.e[i])
		}
		if s.beta[i] > s.Lo[i] {
			low = min(low, s.e[i])
		}
	}
	return up, low
}

// run searches until the optimality conditions hold within tol.
func (s *smo) run(ctx context.Context) error {
	interval := min(len(s.beta), 1000)
	next := interval
	step := s.stepPair
	if !s.Intercept {
		step = s.stepFree
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("solving the dual problem: %w", err)
	}
	for ; s.iterations < s.limit; s.iterations++ {
		if next--; next <= 0 {
			next = interval
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("solving the dual problem: %w", err)
			}
			s.shrink()
		}
		if step() {
			continue
		}
		if len(s.active) == len(s.beta) {
			return nil
		}
		s.unshrink()
		if !step() {
			return nil
		}
		next = 1
	}
	s.unshrink()
	return nil
}

// stepPair increases beta_i and decreases beta_j by the same amount. It returns false if the active variables are
// optimal. Variable i has the largest e of the variables that may increase. Variable j has the largest gain d^2/(2a),
// with d = e_i - e_j and a = K_ii + K_jj - 2 K_ij.
func (s *smo) stepPair() bool {
	i, ei, low := -1, math.Inf(-1), math.Inf(1)
	for _, k := range s.active {
		e := s.e[k]
		if e > ei && s.beta[k] < s.Hi[k] {
			i, ei = k, e
		}
		if e < low && s.beta[k] > s.Lo[k] {
			low = e
		}
	}
	if !(ei-low > s.tol) {
		return false
	}
	row := s.K.Row(i)
	j, best, diagonal := -1, 0.0, s.diagonal[i]
	for _, k := range s.active {
		d := ei - s.e[k]
		if d > 0 && s.beta[k] > s.Lo[k] {
			if gain := d * d / max(diagonal+s.diagonal[k]-2*row[k], 1e-12); gain > best {
				j, best = k, gain
			}
		}
	}
	t := (ei - s.e[j]) / max(diagonal+s.diagonal[j]-2*row[j], 1e-12)
	oldI, oldJ := s.atBound(i), s.atBound(j)
	up, down := s.Hi[i]-s.beta[i], s.beta[j]-s.Lo[j]
	t = min(t, up, down)
	s.beta[i] += t
	s.beta[j] -= t
	if t == up {
		s.beta[i] = s.Hi[i]
	}
	if t == down {
		s.beta[j] = s.Lo[j]
	}
	rowJ := s.K.Row(j)
	for _, k := range s.active {
		s.e[k] -= t * (row[k] - rowJ[k])
	}
	s.moved(row, s.atBound(i)-oldI)
	s.moved(rowJ, s.atBound(j)-oldJ)
	return true
}

// stepFree moves two variables to the best point within their bounds: the variable with the largest gain, and the
// variable with the largest additional gain. It is for problems without an intercept, which have no constraint between
// variables (Steinwart, Hush & Scovel 2011). Moving one variable at a time is too slow on badly conditioned matrices.
func (s *smo) stepFree() bool {
	i, best, violation := -1, 0.0, 0.0
	for _, k := range s.active {
		e := s.e[k]
		if e > 0 && s.beta[k] < s.Hi[k] || e < 0 && s.beta[k] > s.Lo[k] {
			violation = max(violation, math.Abs(e))
			if gain := e * e / max(s.diagonal[k], 1e-12); gain > best {
				i, best = k, gain
			}
		}
	}
	if !(violation > s.tol) {
		return false
	}
	row, ei, di := s.K.Row(i), s.e[i], max(s.diagonal[i], 1e-12)
	j := -1
	for _, k := range s.active {
		rest := max(s.diagonal[k]-row[k]*row[k]/di, 1e-12) // curvature of k after i has moved
		e := s.e[k] - row[k]*ei/di
		if gain := e * e / rest; k != i && gain > best*1e-6 && (j < 0 || gain > best) &&
			(e > 0 && s.beta[k] < s.Hi[k] || e < 0 && s.beta[k] > s.Lo[k]) {
			j, best = k, gain
		}
	}
	oldI, fromI := s.atBound(i), s.beta[i]
	if j < 0 {
		s.beta[i] = clip(fromI+ei/di, s.Lo[i], s.Hi[i])
		t := s.beta[i] - fromI
		for _, k := range s.active {
			s.e[k] -= t * row[k]
		}
		s.moved(row, s.atBound(i)-oldI)
		return true
	}
	oldJ, fromJ := s.atBound(j), s.beta[j]
	s.moveTwo(i, j, row[j])
	ti, tj := s.beta[i]-fromI, s.beta[j]-fromJ
	rowJ := s.K.Row(j)
	for _, k := range s.active {
		s.e[k] -= ti*row[k] + tj*rowJ[k]
	}
	s.moved(row, s.atBound(i)-oldI)
	s.moved(rowJ, s.atBound(j)-oldJ)
	return true
}

// moveTwo moves beta_i and beta_j to the maximum of the dual with all other variables fixed. The maximum is where both
// derivatives are 0, or on the best edge of the bounds.
func (s *smo) moveTwo(i, j int, kij float64) {
	di, dj := max(s.diagonal[i], 1e-12), max(s.diagonal[j], 1e-12)
	// The dual is gi x + gj y - (di x^2 + 2 kij x y + dj y^2)/2 plus a constant.
	gi := s.e[i] + di*s.beta[i] + kij*s.beta[j]
	gj := s.e[j] + dj*s.beta[j] + kij*s.beta[i]
	if det := di*dj - kij*kij; det > 1e-12*di*dj {
		x, y := (dj*gi-kij*gj)/det, (di*gj-kij*gi)/det
		if s.Lo[i] <= x && x <= s.Hi[i] && s.Lo[j] <= y && y <= s.Hi[j] {
			s.beta[i], s.beta[j] = x, y
			return
		}
	}
	best := math.Inf(-1)
	try := func(x, y float64) {
		if v := gi*x + gj*y - 0.5*(di*x*x+2*kij*x*y+dj*y*y); v > best {
			best, s.beta[i], s.beta[j] = v, x, y
		}
	}
	for _, x := range []float64{s.Lo[i], s.Hi[i]} {
		try(x, clip((gj-kij*x)/dj, s.Lo[j], s.Hi[j]))
	}
	for _, y := range []float64{s.Lo[j], s.Hi[j]} {
		try(clip((gi-kij*y)/di, s.Lo[i], s.Hi[i]), y)
	}
}

func clip(x, lo, hi float64) float64 { return min(max(x, lo), hi) }

// moved updates bound after a variable has reached or left a bound. The slice row is the variable's row of K, and by is
// the change of the variable's term.
func (s *smo) moved(row []float64, by float64) {
	if by == 0 {
		return
	}
	for k, v := range row {
		s.bound[k] += by * v
	}
}

// shrink removes variables from the active set if they are at a bound and cannot improve the dual given the current
// extremes. Near the optimum it once makes all variables active again, to correct wrong removals.
func (s *smo) shrink() {
	up, low := s.extremes()
	if !s.Intercept {
		up, low = 0, 0
	}
	if !s.unshrunk && s.Intercept && up-low <= 10*s.tol {
		s.unshrunk = true
		s.unshrink()
	}
	kept := s.active[:0]
	for _, i := range s.active {
		atHi, atLo := s.beta[i] == s.Hi[i], s.beta[i] == s.Lo[i]
		if atHi && atLo || atHi && s.e[i] > up || atLo && s.e[i] < low {
			continue
		}
		kept = append(kept, i)
	}
	s.active = kept
}

// unshrink makes all variables active again.
func (s *smo) unshrink() {
	n := len(s.beta)
	if len(s.active) == n {
		return
	}
	in := make([]bool, n)
	for _, i := range s.active {
		in[i] = true
	}
	var out []int
	for i := range n {
		if !in[i] {
			out = append(out, i)
			s.e[i] = s.P[i] - s.bound[i]
		}
	}
	for _, j := range s.active { // a variable between its bounds is always active
		if b := s.beta[j]; b != s.atBound(j) {
			row := s.K.Row(j)
			for _, i := range out {
				s.e[i] -= b * row[i]
			}
		}
	}
	s.active = s.active[:0]
	for i := range n {
		s.active = append(s.active, i)
	}
}

// finish computes the result from beta and e of all variables. The intercept is the mean e of the variables between
// their bounds. If no variable is between its bounds, the intercept is the middle of the range that the optimality
// conditions allow.
func (s *smo) finish(r *DualResult) {
	b := 0.0
	if s.Intercept {
		free, sum := 0, 0.0
		for i, e := range s.e {
			if s.beta[i] > s.Lo[i] && s.beta[i] < s.Hi[i] {
				free++
				sum += e
			}
		}
		up, low := s.extremes()
		switch {
		case free > 0:
			b = sum / float64(free)
		case math.IsInf(up, -1) && math.IsInf(low, 1):
		case math.IsInf(up, -1):
			b = low
		case math.IsInf(low, 1):
			b = up
		default:
			b = (up + low) / 2
		}
	}
	quadratic, linear, loss := 0.0, 0.0, 0.0
	r.Scores = make([]float64, len(s.e))
	for i, e := range s.e {
		f := s.P[i] - e
		r.Scores[i] = f + b
		quadratic += s.beta[i] * f
		linear += s.P[i] * s.beta[i]
		loss += s.Hi[i]*max(e-b, 0) + s.Lo[i]*min(e-b, 0)
	}
	r.Beta, r.Intercept, r.Iterations = s.beta, b, s.iterations
	r.Primal, r.Dual = 0.5*quadratic+loss, linear-0.5*quadratic
	r.Gap = r.Primal - r.Dual
}

// SolveHinge minimizes |w|^2/2 + sum C_i max(0, ell - y_i f_i) over the feature space of k. A penalized intercept is
// one more feature of value 1.
func SolveHinge(ctx context.Context, k GramRows, y, cost []float64, ell float64, intercept Intercept, tol float64) (*DualResult, error) {
	p := HingeDual(k, y, cost)
	p.GapTol = tol
	if ell != 1 {
		p.P = make([]float64, len(y))
		for i, v := range y {
			p.P[i] = ell * v
		}
	}
	p.Intercept = intercept == FreeIntercept
	if intercept == PenalizedIntercept {
		p.K = &plusOne{GramRows: k}
	}
	r, err := p.Solve(ctx)
	if err == nil && intercept == PenalizedIntercept {
		for _, b := range r.Beta {
			r.Intercept += b
		}
	}
	return r, err
}

// plusOne is a matrix with 1 added to every element.
type plusOne struct {
	GramRows
	buffer [2][]float64
	next   int
}

func (k *plusOne) Row(i int) []float64 {
	k.next ^= 1
	out := append(k.buffer[k.next][:0], k.GramRows.Row(i)...)
	for j := range out {
		out[j]++
	}
	k.buffer[k.next] = out
	return out
}

func (k *plusOne) Diagonal() []float64 {
	out := k.GramRows.Diagonal()
	for i := range out {
		out[i]++
	}
	return out
}

// smo solves the plain hinge loss with SMO and the linear kernel: J = r (|w|^2/2 + sum (m/r) hinge) for the penalty r
// |w|^2/2.
func (s *solver) smo(ctx context.Context, o *Expected) error {
	ell, r := o.plainHinge(), 0.0
	if o.columns > 0 {
		r = o.p.Penalty.R[0]
	}
	for d, v := range o.p.Penalty.R {
		if d < o.columns || o.p.Intercept == PenalizedIntercept {
			if v != r {
				r = 0
			}
		}
	}
	if !(ell > 0) || !(r > 0) || o.p.Penalty.Center != nil || o.free != nil {
		return fmt.Errorf("solver smo: it is for the hinge loss without noise and the penalty |w|^2")
	}
	var rows []int
	var y, cost []float64
	for i, m := range o.m {
		if m != 0 {
			rows, y, cost = append(rows, i), append(y, o.p.Y[i]), append(cost, m/r)
		}
	}
	d := o.p.Data.Subset(rows)
	k, err := NewCachedGram(kernel.Linear{}, d, 1<<30, o.p.Threads)
	if err != nil {
		return err
	}
	dual, err := SolveHinge(ctx, k, y, cost, ell, o.p.Intercept, s.opt.Tol)
	if err != nil {
		return err
	}
	clear(s.w)
	for i, b := range dual.Beta {
		if b != 0 {
			d.Row(i).AddTo(s.w, b)
		}
	}
	if o.dim > o.columns {
		s.w[o.columns] = dual.Intercept
	}
	s.value, s.gap = r*dual.Primal, r*max(dual.Gap, 0)
	s.converged, s.iterations = dual.Converged, dual.Iterations
	return nil
}
