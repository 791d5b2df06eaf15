package online

// This file holds the update rule adagrad.

import (
	"math"
	"slices"
)

// adagrad divides each coordinate's step by the root of the sum of its squared
// gradients, this one included (Duchi, Hazan & Singer 2011):
//
//	G += g^2,  w -= eta g / (sqrt(start + G) + eps).
//
// An event's step is proximal (implicit updates, Kulis & Bartlett 2010): it goes
// to where the loss and the distance in the preconditioner are least together. Along
// the step every unit of -df moves the score by
//
//	kappa = eta sum x^2/(sqrt(start + G) + eps),
//
// so the rates are multiplied by the share a of df for which a df is the
// derivative at f - a df kappa. That is far from 1 where an event has many
// features that are new, as texts have: there the plain step overshoots. With
// several outputs, which all share a row, it is left out: the sums would cost as
// much as the step.
//
// A row that counts c_i times, see sharing, adds c_i g^2 to its G, and its rate is multiplied
// by a' + (c_i - 1) a: a is the share where kappa is that of an event whose rows count so,
// a' where every row counts once. With a alone the columns that count often would shorten
// the steps of those that do not, and rare columns would learn too little.
type adagrad struct {
	plain
	kappa []float64
	// For rows that count more than once, by level and output: kappa of an event in which every
	// row counts once, and a part of kappa; then a and a', which are 1 where steps are not
	// proximal.
	once, part, share, shareOnce []float64
	// The ridges of a preconditioner that fades, and by row of an event the gradient
	// and the inverse root, for one output.
	faded, gradients, roots []float64
	// The x, bases and ridges of a step whose rows count more than once, and rates.
	x, basis, ridge, rates []float64
}

func newAdagrad(c ruleSettings) rule {
	return &adagrad{plain: plain{c}, kappa: make([]float64, c.n), once: make([]float64, c.n), part: make([]float64, c.n),
		share: slices.Repeat([]float64{1}, c.n), shareOnce: slices.Repeat([]float64{1}, c.n)}
}

const adagradEps = 1e-8

func (r *adagrad) step(s *step) {
	c := adagradConstants{r.startSum, adagradEps}
	ridge, root := s.ridge, math.Sqrt(s.growth)
	if root != 1 {
		// With gradients times the root of growth the step is the same, and what is
		// added to the preconditioner grows by growth.
		c.start, c.eps = c.start*s.growth, c.eps*root
		s.scale(root)
		r.faded = append(r.faded[:0], s.ridge...)
		for i := range r.faded {
			r.faded[i] *= root
		}
		ridge = r.faded
	}
	x, basis := s.x, s.basis
	if s.roots != nil {
		x, basis, ridge = r.weigh(s, ridge)
	}
	if r.n > 1 {
		if s.roots != nil {
			r.stepWeighed(s, x, basis, ridge, root, &c)
			return
		}
		if r.proximal {
			clear(r.kappa)
			for _, g := range s.segments {
				kappaRows(s.rows[g.from:g.to], firstPart, r.n, x[g.from:g.to], basis[g.from:g.to], ridge[g.from:g.to], g.df, g.shrink, r.kappa, &c)
			}
			r.shares(s, r.kappa, root, r.share)
			for j, a := range r.share {
				s.minusEta[j] *= a
			}
		}
		for _, g := range s.segments {
			adagradRows(s.rows[g.from:g.to], firstPart, r.n, s.x[g.from:g.to], s.basis[g.from:g.to], ridge[g.from:g.to], g.df, g.shrink, s.rates, &c)
		}
		return
	}
	n := len(s.rows)
	r.gradients, r.roots = slices.Grow(r.gradients[:0], n)[:n], slices.Grow(r.roots[:0], n)[:n]
	for _, g := range s.segments {
		gradients1(s.rows[g.from:g.to], firstPart, x[g.from:g.to], basis[g.from:g.to], ridge[g.from:g.to], g.df[0], g.shrink[0], c.start, r.gradients[g.from:g.to], r.roots[g.from:g.to])
	}
	kappa := inverseRoots(r.roots, x, c.eps)
	if r.proximal {
		r.kappa[0] = kappa
		r.shares(s, r.kappa, root, r.share)
	}
	if s.roots == nil {
		s.minusEta[0] *= r.share[0]
	} else {
		if r.proximal {
			r.once[0] = 0
			for i, v := range r.roots {
				r.once[0] += s.x[i] * s.x[i] * v
			}
			r.shares(s, r.once, root, r.shareOnce)
		}
		for i, w := range s.roots {
			r.roots[i] *= r.times(0, w)
		}
	}
	adagradRows1(s.rows, firstPart, r.gradients, r.roots, s.minusEta[0], s.inverse[0])
}

// weigh multiplies what the gradients of the rows are made of by the roots of how often
// they count. So the sums of squares and kappa gain what the events that a row stands for would add.
func (r *adagrad) weigh(s *step, ridges []float64) (x, basis, ridge []float64) {
	r.x, r.basis, r.ridge = append(r.x[:0], s.x...), append(r.basis[:0], s.basis...), append(r.ridge[:0], ridges...)
	for i, w := range s.roots {
		r.x[i] *= w
		r.basis[i] *= w
		r.ridge[i] *= w
	}
	return r.x, r.basis, r.ridge
}

// times is what the rate of a row is multiplied by whose gradient has been multiplied by w, the
// root of how often it counts.
func (r *adagrad) times(j int, w float64) float64 {
	return (r.shareOnce[j] + (w*w-1)*r.share[j]) / w
}

// stepWeighed makes the step of rows that count more than once, for several outputs or levels.
func (r *adagrad) stepWeighed(s *step, x, basis, ridge []float64, root float64, c *adagradConstants) {
	if r.proximal {
		clear(r.kappa)
		clear(r.once)
		for _, g := range s.segments {
			for from, to := g.from, 0; from < g.to; from = to {
				to = s.alike(from, g.to)
				clear(r.part)
				kappaRows(s.rows[from:to], firstPart, r.n, x[from:to], basis[from:to], ridge[from:to], g.df, g.shrink, r.part, c)
				for j, k := range r.part {
					r.kappa[j] += k
					r.once[j] += k / (s.roots[from] * s.roots[from])
				}
			}
		}
		r.shares(s, r.kappa, root, r.share)
		r.shares(s, r.once, root, r.shareOnce)
	}
	r.rates = append(r.rates[:0], s.rates...)
	for _, g := range s.segments {
		for from, to := g.from, 0; from < g.to; from = to {
			to = s.alike(from, g.to)
			for j, rate := range s.minusEta {
				r.rates[j] = rate * r.times(j, s.roots[from])
			}
			adagradRows(s.rows[from:to], firstPart, r.n, x[from:to], basis[from:to], ridge[from:to], g.df, g.shrink, r.rates, c)
		}
	}
}

// alike returns the end of the rows from the given one that count as often as it does.
func (s *step) alike(from, to int) int {
	end := from + 1
	for end < to && s.roots[end] == s.roots[from] {
		end++
	}
	return end
}

// shares finds the shares of a step that do not overshoot; kappa comes divided by root, and
// df multiplied by it.
func (r *adagrad) shares(s *step, kappa []float64, root float64, shares []float64) {
	for j, k := range kappa {
		shares[j] = r.shareOf(s, j, s.df[j]/root, -s.minusEta[j]*k*root)
	}
}

const (
	// A step that moves the score by less is short enough for the curvature at its
	// beginning to tell where it ends.
	shortStep = 0.1
	// The share is found to this part of it.
	shareTolerance = 0.01
)

// shareOf solves a = df(f - a df kappa)/df, of which there is one solution in
// [0, 1] where the loss is convex, by Newton's method between bounds.
func (r *adagrad) shareOf(s *step, j int, df, kappa float64) float64 {
	a := 1 / (1 + max(s.h[j], 0)*kappa)
	if math.Abs(df)*kappa < shortStep {
		return a
	}
	low, high := 0.0, 1.0
	for range 20 {
		_, d, dv := r.loss.At(s.y[j], s.f[j]-a*df*kappa, s.variance[j])
		over := a - s.importance*d/df
		if math.Abs(over) <= shareTolerance*a {
			break
		}
		if over > 0 {
			high = a
		} else {
			low = a
		}
		if a -= over / (1 + 2*s.importance*dv*kappa); !(a > low && a < high) {
			a = (low + high) / 2
		}
	}
	return a
}

// unlabelled adds h x^2, the expected square of a gradient.
func (r *adagrad) unlabelled(s *step) {
	for i, row := range s.rows {
		m := r.preconditioner(row)
		for j, h := range s.h {
			m[j] += s.growth * h * s.x[i] * s.x[i]
		}
	}
}
