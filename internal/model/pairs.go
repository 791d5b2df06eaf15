package model

// This file computes class probabilities from pairwise probabilities.

import "math"

// couple returns the probabilities of k classes from pairwise probabilities. r(i, j) is the probability of class i
// given that the class is i or j, so r(j, i) is 1 - r(i, j). It implements the second method of Wu, Lin and Weng,
// Probability Estimates for Multi-class Classification by Pairwise Coupling (2004, section 4), by their algorithm 2.
//
// The result is the p that sums to one and minimizes the sum over all pairs of (r(j,i) p_i - r(i,j) p_j)^2. This sum is
// p'Qp, where Q_ii is the sum of r(j,i)^2 and Q_ij = -r(j,i) r(i,j). At the minimum every (Qp)_i is p'Qp.
func couple(k int, r func(i, j int) float64) []float64 {
	const (
		least = 1e-7 // smallest r, so that Q is not singular
		tol   = 1e-9 // tolerance of (Qp)_i; all r are at most 1
		most  = 1000 // largest number of rounds
	)
	memory := make([]float64, k*k+2*k)
	p, qp, q := memory[:k], memory[k:2*k], memory[2*k:]
	for i := range k {
		p[i] = 1 / float64(k)
		for j := range i {
			a := min(max(r(i, j), least), 1-least)
			b := 1 - a
			q[i*k+j], q[j*k+i] = -a*b, -a*b
			q[i*k+i] += b * b
			q[j*k+j] += a * a
		}
	}
	for range most {
		pqp, gap := 0.0, 0.0
		for i := range k {
			qp[i] = 0
			for j, x := range p {
				qp[i] += q[i*k+j] * x
			}
			pqp += p[i] * qp[i]
		}
		for _, x := range qp {
			gap = max(gap, math.Abs(x-pqp))
		}
		if gap < tol {
			break
		}
		for i := range k {
			// step is the change of p_i, after which p is normalized again.
			row := q[i*k:][:k]
			step := (pqp - qp[i]) / row[i]
			pqp = (pqp + step*(step*row[i]+2*qp[i])) / ((1 + step) * (1 + step))
			p[i] += step
			for j := range k {
				qp[j] = (qp[j] + step*row[j]) / (1 + step)
				p[j] /= 1 + step
			}
		}
	}
	return p
}
