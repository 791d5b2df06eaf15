// Package fdrop holds FDROP, the objective under the worst deletion of a number of
// features (Globerson & Roweis 2006).
package fdrop

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"blankout/batch"
	"blankout/internal/loss"
)

// Objective is the objective of a classifier for the worst deletion of at most K features per example (Globerson &
// Roweis 2006, section 3),
//
//	J(w) = (1/2) w'Rw + kappa sum m_n max over |S| <= K of [1 - y_n f_n(x_n without S)]_+,
//
// where the worst S holds the K largest positive y w_d x_d. J is convex and piecewise quadratic. Minimize maximizes the
// dual, in which every deletion S of an example acts as an example, and the deletions of one example share its cost,
//
//	D(alpha) = sum alpha_nS - (1/2) g'R^-1 g,  g = sum alpha_nS y_n (x_n without S),
//	alpha >= 0, sum over S of alpha_nS <= kappa m_n, sum alpha_nS y_n = 0 for a free intercept.
//
// It visits the examples in turn and moves dual weight from the deletion with the least loss to the deletion with the
// greatest loss. This is a pairwise step with exact length; few deletions of an example ever have weight. A free
// intercept has a proximal term whose center follows it: the method of multipliers for its constraint. J - D, with
// alpha balanced between the classes, is the certificate.
type Objective struct {
	p       batch.Problem
	k       int
	columns int
	dim     int
	m       []float64
	passes  int
	worst   worstDeletion
}

// New returns the objective of a problem for K >= 0 deletions; its Loss is not used. Every weight must be penalized,
// and the noise must be none.
func New(p batch.Problem, k int) (*Objective, error) {
	o := &Objective{p: p, k: k, columns: p.Data.Columns(), dim: p.Dim("fdrop")}
	if p.Data.HasSplines() {
		return nil, fmt.Errorf("fdrop: %w; use a --scaler without them", batch.ErrSplines)
	}
	if k < 0 {
		return nil, fmt.Errorf("fdrop: %d deletions", k)
	}
	if p.Noise != nil && p.Noise != (loss.NoNoise{}) {
		return nil, fmt.Errorf("fdrop: excludes noise %v, because it deletes features itself", p.Noise)
	}
	for c, r := range p.Penalty.R {
		if !(r > 0) && (c < o.columns || p.Intercept != batch.FreeIntercept) || p.Penalty.Center != nil {
			return nil, fmt.Errorf("fdrop: every weight needs a penalty around zero, column %d has %v", c, r)
		}
	}
	var err error
	if o.m, err = p.BinaryWeights(); err != nil {
		return nil, err
	}
	return o, nil
}

// Estimator returns the loss for a batch.Config. The number after the loss's name is K. Its objective is |w|^2 + 2c sum
// loss, as for every hinge. This is twice the objective of Globerson & Roweis.
func Estimator() batch.Estimator {
	return batch.Estimator{Name: "fdrop", Level: true, Bounds: []string{""}, New: func(p batch.Problem, level string, c batch.Config) (batch.Objective, error) {
		k, err := strconv.Atoi(level)
		if err != nil {
			return nil, fmt.Errorf("loss fdrop:%s: want the number of deletions, as in fdrop:5", level)
		}
		if c.L2 < 0 {
			p.Kappa *= 2
		}
		return New(p, k)
	}}
}

// Dim implements batch.Objective.
func (o *Objective) Dim() int { return o.dim }

// Passes returns the number of passes over the data.
func (o *Objective) Passes() int { return o.passes }

// IsConvex returns true.
func (o *Objective) IsConvex() bool { return true }

// ValueGrad implements batch.Objective. At a kink of J the gradient is a subgradient.
func (o *Objective) ValueGrad(w, grad []float64) float64 {
	clear(grad)
	b := 0.0
	if o.dim > o.columns {
		b = w[o.columns]
	}
	value := 0.0
	o.passes++
	for i, m := range o.m {
		if m == 0 {
			continue
		}
		y, row := o.p.Y[i], o.p.Data.Row(i)
		loss, deleted := o.worst.find(row, w, y, o.k)
		if loss -= y * b; loss <= 0 {
			continue
		}
		value += m * loss
		if grad == nil {
			continue
		}
		row.AddTo(grad, -m*y)
		for _, j := range deleted {
			grad[row.Index[j]] += m * y * row.At(int(j))
		}
		if o.dim > o.columns {
			grad[o.columns] -= m * y
		}
	}
	return value + o.p.Penalty.ValueGrad(w, grad)
}

// worstDeletion finds the entries of a row whose deletion increases the loss most.
type worstDeletion struct {
	gain     []float64 // y w_d x_d by entry
	deleted  []int32
	positive []int32
}

// find returns the loss 1 - y w.x after the worst deletion, and the deleted entries in ascending order. The slice
// deleted is valid until the next call. If gains are equal, the first entries are deleted.
func (d *worstDeletion) find(row batch.Row, w []float64, y float64, k int) (loss float64, deleted []int32) {
	loss = 1
	d.gain, d.positive = d.gain[:0], d.positive[:0]
	for j, c := range row.Index {
		a := y * w[c] * row.At(j)
		d.gain = append(d.gain, a)
		loss -= a
		if a > 0 {
			d.positive = append(d.positive, int32(j))
		}
	}
	if k == 0 {
		return loss, nil
	}
	if len(d.positive) <= k {
		d.deleted = append(d.deleted[:0], d.positive...)
	} else if k <= 16 {
		// top holds the k largest gains so far, largest first.
		top := d.deleted[:0]
		for _, j := range d.positive {
			at := len(top)
			for at > 0 && d.gain[j] > d.gain[top[at-1]] {
				at--
			}
			if at < k {
				if len(top) == k {
					top = top[:k-1]
				}
				top = slices.Insert(top, at, j)
			}
		}
		d.deleted = top
		slices.Sort(d.deleted)
	} else {
		slices.SortFunc(d.positive, func(a, b int32) int {
			return cmp.Or(cmp.Compare(d.gain[b], d.gain[a]), cmp.Compare(a, b))
		})
		d.deleted = append(d.deleted[:0], d.positive[:k]...)
		slices.Sort(d.deleted)
	}
	for _, j := range d.deleted {
		loss += d.gain[j]
	}
	return loss, d.deleted
}

// variant is an example from which some entries are deleted, with the dual weight of that deletion.
type variant struct {
	deleted []int32
	alpha   float64
}

// dual is the state of the dual ascent.
type dual struct {
	*Objective
	w        []float64
	rho      float64 // strength of the intercept's proximal penalty; 0 for no intercept
	center   float64
	free     bool
	variants [][]variant // variants with positive dual weight, by example
	used     []float64   // sum of the variants' dual weights, by example
	coef     []float64   // coefficients of the current row, by entry
}

// Minimize implements batch.Minimizer. An iteration visits every example once.
func (o *Objective) Minimize(ctx context.Context, opt batch.Options) (*batch.Result, error) {
	if opt.Solver != "" {
		return nil, nil
	}
	n := len(o.m)
	s := &dual{Objective: o, w: make([]float64, o.dim), variants: make([][]variant, n), used: make([]float64, n)}
	order, total := make([]int, 0, n), 0.0
	for i, m := range o.m {
		if total += m; m != 0 {
			order = append(order, i)
		}
	}
	if o.dim > o.columns {
		s.rho = o.p.Penalty.R[o.columns]
		if s.free = s.rho == 0; s.free {
			// The proximal term of the free intercept is as stiff as the penalty of all other weights together.
			size := 0.0
			for _, i := range order {
				row := o.p.Data.Row(i)
				for j, c := range row.Index {
					size += row.At(j) * row.At(j) / o.p.Penalty.R[c]
				}
			}
			s.rho = 1
			if size > 0 {
				s.rho = float64(len(order)) / size
			}
		}
	}
	r := &batch.Result{Solution: batch.Solution{Gap: math.Inf(1), Objective: math.Inf(1)}}
	lower := math.Inf(-1)
	random := rand.New(rand.NewPCG(1, 0))
	limit := cmp.Or(opt.MaxIterations, 20_000)
	for r.Iterations < limit {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		random.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
		gain := 0.0
		for _, i := range order {
			gain += s.visit(i)
		}
		if gain-gain != 0 {
			return nil, fmt.Errorf("fdrop: the scores are not finite: scale the features down or penalize more")
		}
		o.passes++
		r.Iterations++
		if s.free {
			b := s.w[o.columns]
			s.w[o.columns] += b - s.center
			s.center = b
		}
		// The certificate costs three passes, so most epochs skip it.
		if r.Iterations > 8 && r.Iterations%4 != 0 && r.Iterations < limit && gain > 0 {
			continue
		}
		s.refresh()
		primal, b := s.primal()
		if primal < r.Objective {
			r.Objective = primal
			r.W = slices.Clone(s.w)
			if s.free {
				r.W[o.columns] = b
			}
		}
		lower = max(lower, s.dual())
		r.Gap = max(r.Objective-lower, 0)
		if opt.Progress != nil {
			opt.Progress(batch.Progress{Problems: 1, Iteration: r.Iterations, Objective: r.Objective, Gap: r.Gap})
		}
		if r.Gap <= opt.Tol*math.Abs(r.Objective) || r.Gap <= 1e-15*total {
			r.Converged = true
			break
		}
		if gain == 0 && (!s.free || s.w[o.columns] == s.center) {
			break // rounding prevents an increase of the dual
		}
	}
	r.Objective = o.ValueGrad(r.W, nil)
	r.Passes = o.passes
	return r, nil
}

// none is the index of the unused part of an example's cost, in place of the index of a variant.
const none = -1

// visit moves dual weight between the deletions of example i and returns the increase of the dual.
func (s *dual) visit(i int) (gain float64) {
	for range 3 {
		from, to, rise := s.choose(i)
		if from == to {
			break
		}
		gain += s.move(i, from, to, rise)
	}
	return gain
}

// choose returns two variants of example i: from is the variant with dual weight that has the least loss, and to is the
// variant with the greatest loss. Dual weight moves between them. The result rise is the difference of their losses. If
// no move increases the dual, from equals to.
func (s *dual) choose(i int) (from, to int, rise float64) {
	y, row := s.p.Y[i], s.p.Data.Row(i)
	loss, deleted := s.worst.find(row, s.w, y, s.k)
	if s.rho > 0 {
		loss -= y * s.w[s.columns]
	}
	from, least := none, math.Inf(1)
	if s.m[i]-s.used[i] > 0 {
		least = 0
	}
	plain := loss // loss of the whole example
	for _, j := range deleted {
		plain -= s.worst.gain[j]
	}
	to = none
	for v, u := range s.variants[i] {
		c := plain
		for _, j := range u.deleted {
			c += s.worst.gain[j]
		}
		if c < least {
			from, least = v, c
		}
		if slices.Equal(u.deleted, deleted) {
			to = v
		}
	}
	best := max(loss, 0)
	if !(best-least > 1e-15) {
		return none, none, 0
	}
	if loss > 0 && to == none {
		s.variants[i] = append(s.variants[i], variant{deleted: slices.Clone(deleted)})
		to = len(s.variants[i]) - 1
	} else if loss <= 0 {
		to = none
	}
	return from, to, best - least
}

// move moves dual weight of example i from one variant to another variant whose loss is higher by rise. It moves as
// much weight as maximizes the dual, and returns the increase of the dual.
func (s *dual) move(i, from, to int, rise float64) (gain float64) {
	y, row := s.p.Y[i], s.p.Data.Row(i)
	// coef is the direction of the move, entry by entry.
	s.coef = slices.Grow(s.coef[:0], row.Len())[:row.Len()]
	clear(s.coef)
	across := 0.0
	add := func(v int, sign float64) {
		if v == none {
			return
		}
		across += sign
		for j := range s.coef {
			s.coef[j] += sign
		}
		for _, j := range s.variants[i][v].deleted {
			s.coef[j] -= sign
		}
	}
	add(to, 1)
	add(from, -1)
	square := 0.0
	for j, c := range s.coef {
		if c != 0 {
			x := row.At(j)
			square += c * c * x * x / s.p.Penalty.R[row.Index[j]]
		}
	}
	if s.rho > 0 {
		square += across * across / s.rho
	}
	have := s.m[i] - s.used[i]
	if from != none {
		have = s.variants[i][from].alpha
	}
	step := have
	if square > 0 {
		step = min(rise/square, have)
	}
	for j, c := range s.coef {
		if c != 0 {
			d := row.Index[j]
			s.w[d] += step * c * y * row.At(j) / s.p.Penalty.R[d]
		}
	}
	if s.rho > 0 {
		s.w[s.columns] += step * across * y / s.rho
	}
	if to != none {
		s.variants[i][to].alpha += step
	}
	if from != none {
		s.variants[i][from].alpha -= step
		if step == have {
			s.variants[i] = slices.Delete(s.variants[i], from, from+1)
		}
	}
	s.used[i] = 0
	for _, u := range s.variants[i] {
		s.used[i] += u.alpha
	}
	if s.used[i] > s.m[i] || from == none && step == have {
		s.used[i] = s.m[i] // removes the rounding error
	}
	return step * (rise - 0.5*step*square)
}

// refresh recomputes the weights from alpha.
func (s *dual) refresh() {
	up, down := s.sums()
	for d := range s.columns {
		s.w[d] = (up[d] - down[d]) / s.p.Penalty.R[d]
	}
	if s.rho > 0 && !s.free { // a free intercept keeps the step of the multiplier that was just made
		s.w[s.columns] = s.center + (up[s.columns]-down[s.columns])/s.rho
	}
}

// sums returns the sum of alpha (x without S) over each class; the last element is the sum of alpha.
func (s *dual) sums() (up, down []float64) {
	up, down = make([]float64, s.columns+1), make([]float64, s.columns+1)
	s.passes++
	for i, variants := range s.variants {
		sum := up
		if s.p.Y[i] < 0 {
			sum = down
		}
		row := s.p.Data.Row(i)
		for _, v := range variants {
			row.AddTo(sum, v.alpha)
			for _, j := range v.deleted {
				sum[row.Index[j]] -= v.alpha * row.At(int(j))
			}
			sum[s.columns] += v.alpha
		}
	}
	return up, down
}

// dual returns D at alpha, a lower bound of min J. For a free intercept it first scales alpha of the heavier class down
// to the weight of the lighter class.
func (s *dual) dual() float64 {
	up, down := s.sums()
	a, b := 1.0, 1.0
	if p, q := up[s.columns], down[s.columns]; s.free && p > q {
		a = q / p
	} else if s.free && q > p {
		b = p / q
	}
	value := a*up[s.columns] + b*down[s.columns]
	for d := range s.dim {
		if d < s.columns || !s.free {
			g := a*up[d] - b*down[d]
			value -= 0.5 * g * g / s.p.Penalty.R[d]
		}
	}
	return value
}

// primal returns J at the weights, with the optimal intercept if it is free.
func (s *dual) primal() (value, b float64) {
	if !s.free {
		return s.ValueGrad(s.w, nil), 0
	}
	// J as a function of b is sum m [1 + s_n - y b]_+. Its slope changes by m_n at b = y (1 + s_n).
	kinks, losses, slope := make([]batch.Kink, 0, len(s.m)), make([]float64, len(s.m)), 0.0
	s.passes++
	for i, m := range s.m {
		if m == 0 {
			continue
		}
		y := s.p.Y[i]
		losses[i], _ = s.worst.find(s.p.Data.Row(i), s.w, y, s.k)
		if kinks = append(kinks, batch.Kink{At: y * losses[i], By: m}); y > 0 {
			slope += m
		}
	}
	b = batch.LowestPoint(kinks, slope)
	for i, m := range s.m {
		value += m * max(losses[i]-s.p.Y[i]*b, 0)
	}
	for d, wd := range s.w[:s.columns] {
		value += 0.5 * s.p.Penalty.R[d] * wd * wd
	}
	return value, b
}
