package batch

// This file has dual coordinate descent, for the hinge loss without noise and for well-conditioned logistic regression.

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"blankout/internal/loss"
)

// coordinate minimizes the hinge loss without noise by dual coordinate descent (Hsieh et al. 2008, algorithm 3). The
// dual variables are p_n = alpha_n/m_n in [0, 1]. The method keeps
//
//	w = c + R^-1 sum alpha_n y_n x_n
//
// and visits the rows in random order, minimizing the dual in one alpha_n at a time. Rows whose alpha_n stays at a
// bound are set aside until the other rows have converged. To a precision of a few digits, it is the fastest method of
// this package. (Merging equal rows does not help: an epoch is shorter, but a9a and w8a need three times as many
// epochs.) A free intercept b has a proximal term rho/2 (b - b_k)^2 whose center b_k follows b. This is the method of
// multipliers for the constraint sum alpha y = 0.
//
// It returns false if a weight has no penalty or if the given number of epochs was not enough. It returns early if it
// is clear that the epochs will not be enough. Then s.w holds the best point so far.
func (s *solver) coordinate(ctx context.Context, o *Expected, ell float64, epochs int) (done bool, err error) {
	// A factor of 10 or 1 instead of 100 makes the intercept oscillate (measured on text).
	d := o.newDescent(100)
	if d == nil {
		return false, nil
	}
	free, bias := d.free, o.columns
	// A row's values are adjacent in memory, because rows are visited in random order.
	type row struct{ y, m, q, alpha float64 }
	rows := make([]row, len(o.f))
	for i := range rows {
		rows[i] = row{y: o.p.Y[i], m: o.m[i], q: d.q[i]}
	}
	active, w := d.active, d.w
	var random rand.PCG
	random.Seed(1, uint64(len(rows)))
	size := len(active)
	upper, lower := math.Inf(1), math.Inf(-1)
	check, precision := 4, 0.1
	first, since := 0.0, 0 // first gap, and the epoch of that gap
	for epoch := 1; epoch <= epochs; epoch++ {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		shuffle(active[:size], &random)
		nextUpper, nextLower := math.Inf(-1), math.Inf(1)
		for k := 0; k < size; k++ {
			i := int(active[k])
			n := &rows[i]
			g := n.y*(o.p.Data.Row(i).Dot(w)+w[bias]) - ell
			projected, aside := g, false
			switch n.alpha {
			case 0:
				projected, aside = min(g, 0), g > upper
			case n.m:
				projected, aside = max(g, 0), g < lower
			}
			if aside {
				size--
				active[k], active[size] = active[size], active[k]
				k--
				continue
			}
			nextUpper, nextLower = max(nextUpper, projected), min(nextLower, projected)
			if math.Abs(projected) > 1e-14*ell && n.q > 0 {
				old := n.alpha
				n.alpha = min(max(old-g/n.q, 0), n.m)
				d.step(o, i, (n.alpha-old)*n.y)
			}
		}
		d.balance(o, func(i int) float64 { return rows[i].alpha })
		s.iterations++
		o.passes++
		settled := nextUpper-nextLower <= precision*ell
		upper, lower = nextUpper, nextLower
		if !(upper > 0) {
			upper = math.Inf(1)
		}
		if !(lower < 0) {
			lower = math.Inf(-1)
		}
		if settled {
			size, upper, lower = len(active), math.Inf(1), math.Inf(-1)
			precision *= 0.3
		}
		if epoch < check && !settled {
			continue
		}
		check = epoch + max(epoch/3, 4)
		// Compute the certificate: alpha is a dual point at any step of the iteration.
		copy(s.w, w)
		o.scores(s.w)
		if free {
			s.w[bias] += o.centerHinge(ell)
		}
		for i, n := range rows {
			if n.m != 0 {
				o.df[i], o.dv[i] = -n.y*n.alpha/n.m, 0
			}
		}
		s.gap, s.value = o.interiorGap(s.w, ell)
		if stop, err := s.stop(ctx); err != nil || stop {
			return true, err
		}
		if first == 0 {
			first, since = s.gap, epoch
		} else if epoch >= 16 {
			// Give up if the tolerance would not be reached even at the fastest progress so far.
			rate := math.Log(first/s.bestGap) / float64(epoch-since)
			if more := math.Log(s.bestGap / (s.opt.Tol * math.Abs(s.value))); more > rate*float64(epochs-epoch) {
				return false, nil
			}
		}
	}
	return false, nil
}

// descent is the state of coordinate descent in the dual variables alpha_n. It holds the weights w for these variables,
//
//	w = c + R^-1 sum alpha_n y_n x_n.
//
// A free intercept b has a proximal term rho/2 (b - b_k)^2.
type descent struct {
	q      []float64 // squared length of every row in the metric R^-1
	active []int32   // rows with positive weight
	w      []float64 // weights, the intercept last; 0 for no intercept
	r      float64   // penalty of every column if all are equal, else 0
	rho    float64   // proximal weight of the intercept; 0 for no intercept
	free   bool
}

// newDescent returns the start of the descent, or nil if a weight has no penalty. A free intercept is penalized stiff
// times as strongly as a column whose values have the mean square of the rows.
func (o *Expected) newDescent(stiff float64) *descent {
	columns, pen := o.columns, o.p.Penalty
	d := &descent{q: make([]float64, len(o.f)), w: make([]float64, columns+1), free: o.FreeIntercept()}
	if columns > 0 {
		d.r = pen.R[0]
	}
	for _, v := range pen.R[:columns] {
		if !(v > 0) {
			return nil
		}
		if v != d.r {
			d.r = 0
		}
	}
	total := 0.0
	for i := range d.q {
		if o.m[i] == 0 {
			continue
		}
		row := o.p.Data.Row(i)
		for j, c := range row.Index {
			x := row.At(j)
			d.q[i] += x * x / pen.R[c]
		}
		total += d.q[i]
		d.active = append(d.active, int32(i))
	}
	switch {
	case d.free:
		// The center of the proximal term moves after every epoch.
		d.rho = stiff * float64(len(d.active)) / max(total, 1e-300)
	case o.dim > columns:
		d.rho = pen.R[columns]
	}
	if d.rho > 0 {
		for i := range d.q {
			d.q[i] += 1 / d.rho
		}
	}
	if pen.Center != nil {
		copy(d.w, pen.Center)
	}
	return d
}

func shuffle(rows []int32, random *rand.PCG) {
	for i := range rows {
		j := i + int(random.Uint64()>>32*uint64(len(rows)-i)>>32)
		rows[i], rows[j] = rows[j], rows[i]
	}
}

// step adds a R^-1 x_i to w.
func (d *descent) step(o *Expected, i int, a float64) {
	row := o.p.Data.Row(i)
	if d.r > 0 {
		row.AddTo(d.w, a/d.r)
	} else {
		for j, c := range row.Index {
			d.w[c] += a * row.At(j) / o.p.Penalty.R[c]
		}
	}
	if d.rho > 0 {
		d.w[o.columns] += a / d.rho
	}
}

// balance moves the center of a free intercept's proximal term to the intercept, and extrapolates the intercept.
func (d *descent) balance(o *Expected, alpha func(i int) float64) {
	if !d.free {
		return
	}
	sum := 0.0
	for _, i := range d.active {
		sum += alpha(int(i)) * o.p.Y[i]
	}
	d.w[o.columns] += sum / d.rho
}

// logistic runs a few epochs of dual coordinate descent for the logistic loss without noise (Yu, Huang & Lin 2011),
// starting at 0. The dual variables are alpha_n = m_n sigma(t_n). The dual has its minimum in one variable t_n where
//
//	t_n + y_n f_n + q_n (m_n sigma(t_n) - alpha_n) = 0.
//
// The left side increases with t_n. If rows are nearly independent and q_n m_n is at most a few, no other method
// reaches two or three digits faster. The result done reports whether the tolerance was reached. If more epochs would
// take long, logistic stops with done = false, and Newton's method starts at s.w.
func (s *solver) logistic(ctx context.Context, o *Expected) (done bool, err error) {
	d := o.newDescent(5)
	if d == nil {
		return false, nil
	}
	pull, total := 0.0, 0.0
	for i, m := range o.m {
		pull += d.q[i] * m
		total += m
	}
	if !(pull <= 5*float64(len(d.active))) {
		return false, nil
	}
	// A row's values are adjacent in memory, because rows are visited in random order.
	type row struct{ y, m, q, alpha, logit float64 }
	rows := make([]row, len(o.f))
	for i := range rows {
		rows[i] = row{y: o.p.Y[i], m: o.m[i], q: d.q[i]}
	}
	var random rand.PCG
	random.Seed(1, uint64(len(rows)))
	active := d.active
	last, since := math.Ln2*total, 0 // last gap, and the epoch of that gap
	for epoch := 1; ; epoch++ {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		shuffle(active, &random)
		for _, i := range active {
			n := &rows[i]
			f := o.p.Data.Row(int(i)).Dot(d.w) + d.w[o.columns]
			t, p := solveLogit(n.logit, n.y*f-n.q*n.alpha, n.q*n.m)
			n.logit = t
			if a := n.m * p; a != n.alpha {
				d.step(o, int(i), (a-n.alpha)*n.y)
				n.alpha = a
			}
		}
		d.balance(o, func(i int) float64 { return rows[i].alpha })
		s.iterations++
		o.passes++
		if epoch < min(3, s.opt.MaxIterations) {
			continue
		}
		copy(s.w, d.w)
		o.scores(s.w)
		if d.free {
			s.w[o.columns] += o.center()
		}
		for i, n := range rows {
			if n.m != 0 {
				o.df[i], o.dv[i] = -n.y*n.alpha/n.m, 0
			}
		}
		s.gap, s.value = o.conjugateGap(s.w, loss.LogisticChen{}), o.lossAtScores()+o.p.Penalty.ValueGrad(s.w, nil)
		if stop, err := s.stop(ctx); err != nil || stop {
			return true, err
		}
		rate := math.Log(last/s.gap) / float64(epoch-since)
		if more := math.Log(s.gap / (s.opt.Tol * s.value)); !(more <= 4*rate) {
			return false, nil
		}
		last, since = s.gap, epoch
	}
}

// solveLogit returns the approximate zero t of t + c + k sigma(t), and sigma(t). It uses Newton's method from t, within
// bounds of the zero.
func solveLogit(t, c, k float64) (float64, float64) {
	lo, hi := -c-k, -c
	t = min(max(t, lo), hi)
	last := math.Inf(1)
	for range 100 {
		p := 1 / (1 + loss.Exp(-t))
		h := t + c + k*p
		if math.Abs(h) <= 1e-3 {
			return t, p
		}
		if h > 0 {
			hi = t
		} else {
			lo = t
		}
		t -= h / (1 + k*p*(1-p))
		if !(t > lo && t < hi) || math.Abs(h) > 0.5*last { // Newton's method alternates between the two sides of the steep middle
			t = 0.5 * (lo + hi)
		}
		last = math.Abs(h)
	}
	return t, 1 / (1 + loss.Exp(-t))
}

// lossAtScores returns the sum of the losses without noise at the scores o.f.
func (o *Expected) lossAtScores() float64 {
	return o.sumViews(nil, func(i int, _ []float64) float64 {
		loss, _, _ := o.loss.At(o.p.Y[i], o.f[i], 0)
		return o.m[i] * loss
	})
}

// centerHinge is the method center for the hinge without noise. The sum over the rows is piecewise linear in the shift
// b of the scores. Row i has its kink at b_i = ell y_i - f_i, where the slope grows by m_i. The slope starts at minus
// the weight of the positive rows, so its zero is a weighted quantile of the kinks.
func (o *Expected) centerHinge(ell float64) float64 {
	kinks, below := make([]Kink, 0, len(o.m)), 0.0
	for i, m := range o.m {
		if m != 0 {
			kinks = append(kinks, Kink{o.p.Y[i]*ell - o.f[i], m})
			if o.p.Y[i] > 0 {
				below += m
			}
		}
	}
	return o.shift(LowestPoint(kinks, below))
}

// Kink is a place where the slope of a piecewise linear function grows.
type Kink struct{ At, By float64 }

// LowestPoint returns the lowest point of a convex piecewise linear function whose slope starts at -slope. It is the last
// kink if the slope stays negative. LowestPoint sorts the kinks, of which there must be one at least.
func LowestPoint(kinks []Kink, slope float64) float64 {
	slices.SortFunc(kinks, func(a, b Kink) int { return cmp.Compare(a.At, b.At) })
	for _, k := range kinks {
		if slope -= k.By; slope <= 0 {
			return k.At
		}
	}
	return kinks[len(kinks)-1].At
}
