package batch

import (
	"context"
	"math"
	"math/rand/v2"
)

// coordinate minimises the hinge loss without noise by dual coordinate descent
// (Hsieh et al. 2008, algorithm 3): with p_n = alpha_n/m_n in [0, 1] it keeps
//
//	w = c + R^-1 sum alpha_n y_n x_n
//
// and visits the rows in random order, minimising the dual in one alpha_n at a
// time. Rows whose alpha_n stays at a bound are set aside until the others are
// done. Nothing is quicker to a few digits. (Not even with equal rows as one: an
// epoch is shorter then, but three times as many are needed on a9a and w8a.) A free
// intercept is held by a proximal term rho/2 (b - b_k)^2 whose centre b_k follows
// b, the method of multipliers for sum alpha y = 0.
//
// It returns false, and w as far as it came, where a weight is not penalised,
// after the given number of epochs, or as soon as they will not do.
func (s *solver) coordinate(ctx context.Context, o *Expected, ell float64, epochs int) (done bool, err error) {
	columns := o.columns
	pen := o.p.Penalty
	r := pen.R[0]
	for _, v := range pen.R[:columns] {
		if !(v > 0) {
			return false, nil
		}
		if v != r {
			r = 0 // not the same for every column
		}
	}
	hasBias, free := o.dim > columns, o.freeIntercept()
	// The squared length of every row in the metric R^-1.
	n := len(o.f)
	q, alpha := make([]float64, n), make([]float64, n)
	var active []int32
	total := 0.0
	for i := range n {
		if o.m[i] == 0 {
			continue
		}
		row := o.p.Data.Row(i)
		for j, d := range row.Index {
			x := row.At(j)
			q[i] += x * x / pen.R[d]
		}
		total += q[i]
		active = append(active, int32(i))
	}
	rho := 0.0
	switch {
	case free:
		// A stiff term and a step of its centre after every epoch: with rho a
		// tenth or a hundredth of this, b swings (measured on text).
		rho = 100 * float64(len(active)) / max(total, 1e-300)
	case hasBias:
		rho = pen.R[columns]
	}
	for i := range q {
		if hasBias {
			q[i] += 1 / rho
		}
	}
	w := make([]float64, columns+1) // without an intercept the last stays 0
	bias := columns
	if pen.Centre != nil {
		copy(w, pen.Centre)
	}
	var random rand.PCG
	random.Seed(1, uint64(n))
	size := len(active)
	upper, lower := math.Inf(1), math.Inf(-1)
	check, precision := 4, 0.1
	first, since := 0.0, 0 // the first gap, and its epoch
	for epoch := 1; epoch <= epochs; epoch++ {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		for i := range size {
			j := i + int(random.Uint64()>>32*uint64(size-i)>>32)
			active[i], active[j] = active[j], active[i]
		}
		nextUpper, nextLower := math.Inf(-1), math.Inf(1)
		for k := 0; k < size; k++ {
			i := int(active[k])
			y, c := o.p.Y[i], o.m[i]
			row := o.p.Data.Row(i)
			g := y*(row.Dot(w)+w[bias]) - ell
			projected := g
			switch {
			case alpha[i] == 0:
				if g > upper {
					size--
					active[k], active[size] = active[size], active[k]
					k--
					continue
				}
				projected = min(g, 0)
			case alpha[i] == c:
				if g < lower {
					size--
					active[k], active[size] = active[size], active[k]
					k--
					continue
				}
				projected = max(g, 0)
			}
			nextUpper, nextLower = max(nextUpper, projected), min(nextLower, projected)
			if math.Abs(projected) > 1e-14*ell && q[i] > 0 {
				old := alpha[i]
				alpha[i] = min(max(old-g/q[i], 0), c)
				a := (alpha[i] - old) * y
				if r > 0 {
					row.AddTo(w, a/r)
				} else {
					for j, d := range row.Index {
						w[d] += a * row.At(j) / pen.R[d]
					}
				}
				if hasBias {
					w[bias] += a / rho
				}
			}
		}
		if free {
			// The centre moves to b, and b on with it.
			balance := 0.0
			for i, a := range alpha {
				if a != 0 {
					balance += a * o.p.Y[i]
				}
			}
			w[bias] += balance / rho
		}
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
		// Certify: alpha is a dual point wherever the iteration stands.
		copy(s.w, w)
		o.scores(s.w)
		if free {
			s.w[columns] += o.centreHinge(ell)
		}
		for i, m := range o.m {
			if m != 0 {
				o.df[i], o.dv[i] = -o.p.Y[i]*alpha[i]/m, 0
			}
		}
		s.gap, s.value = o.interiorGap(s.w, ell)
		if stop, err := s.stop(ctx); err != nil || stop {
			return true, err
		}
		if first == 0 {
			first, since = s.gap, epoch
		} else if epoch >= 16 {
			// At the rate so far, which will not get better.
			rate := math.Log(first/s.bestGap) / float64(epoch-since)
			if more := math.Log(s.bestGap / (s.opt.Tol * math.Abs(s.value))); more > rate*float64(epochs-epoch) {
				return false, nil
			}
		}
	}
	return false, nil
}

// centreHinge is centre for the hinge without noise, whose sum over the rows is
// piecewise linear in the shift b of the scores: row i has its kink at
// b_i = ell y_i - f_i and the slope grows by m_i there, from minus the weight of the
// positive rows. The zero is a weighted quantile of the kinks.
func (o *Expected) centreHinge(ell float64) float64 {
	type kink struct{ at, m float64 }
	kinks := make([]kink, 0, len(o.m))
	below := 0.0 // weight that must lie below the zero
	for i, m := range o.m {
		if m != 0 {
			kinks = append(kinks, kink{o.p.Y[i]*ell - o.f[i], m})
			if o.p.Y[i] > 0 {
				below += m
			}
		}
	}
	// Quickselect: what lies left of kinks is known to lie below.
	for len(kinks) > 1 {
		pivot := kinks[len(kinks)/2].at
		left, i, right := 0.0, 0, len(kinks)
		for j := 0; j < right; {
			switch k := kinks[j]; {
			case k.at < pivot:
				left += k.m
				kinks[i], kinks[j] = k, kinks[i]
				i++
				j++
			case k.at > pivot:
				right--
				kinks[j], kinks[right] = kinks[right], k
			default:
				j++
			}
		}
		if left > below {
			kinks = kinks[:i]
			continue
		}
		middle := 0.0
		for _, k := range kinks[i:right] {
			middle += k.m
		}
		if left+middle >= below || right == len(kinks) {
			kinks = kinks[i : i+1]
			break
		}
		below -= left + middle
		kinks = kinks[right:]
	}
	return o.shift(kinks[0].at)
}
