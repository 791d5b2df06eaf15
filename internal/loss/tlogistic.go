package loss

// This file implements the loss of t-logistic regression.

import (
	"fmt"
	"math"
)

// TLogistic is the loss of t-logistic regression (Ding & Vishwanathan 2010). It is not convex: its slope vanishes for
// very negative margins, so mislabeled events have little influence. With
//
//	exp_t(x) = max(1 + (1-t) x, 0)^(1/(1-t)),  1 < t < 2,
//	exp_t(u/2 - g(u)) + exp_t(-u/2 - g(u)) = 1,
//
// the loss is log(l)/(t-1) with l = 1 + (t-1)(g(f) - y f/2). It becomes the logistic loss as t -> 1.
//
// Noise is treated as in [LogisticChen]. The function g is convex, even and concave as a function of f^2, so E g(f~) <=
// g(sqrt(f^2 + v)). The logarithm is concave, so
//
//	E log(l)/(t-1) <= log(1 + (t-1)(g(s) - y f/2))/(t-1),  s = sqrt(f^2 + v).
//
// The bound is exact at v = 0 and keeps the quadratic majorizer: dv >= 0 everywhere. Create a TLogistic with
// [NewTLogistic].
type TLogistic struct {
	t float64
	g *tPartition
}

// NewTLogistic returns the loss for t in (1, 2).
func NewTLogistic(t float64) (TLogistic, error) {
	if !(t >= 1.0001 && t <= 1.9999) {
		return TLogistic{}, fmt.Errorf("t = %v must lie between 1 and 2 (1.0001 to 1.9999)", t)
	}
	return TLogistic{t, newTPartition(t)}, nil
}

// T returns the parameter t.
func (l TLogistic) T() float64 { return l.t }

// Influence returns xi = 1/l in (0, 1], the weight of an example in the theta-step of Ding and Vishwanathan. A small
// weight marks a suspected wrong label.
func (l TLogistic) Influence(y, f, v float64) float64 {
	m, _, _ := l.Theta().At(y, f, v)
	return 1 / (1 + (l.t-1)*m)
}

// Theta returns the convex part of the loss, (l - 1)/(t-1) = g(s) - y f/2. The theta-step minimizes it with every
// example weighted by its Influence.
func (l TLogistic) Theta() Loss { return tTheta(l) }

func (l TLogistic) At(y, f, v float64) (value, df, dv float64) {
	m, mf, mv := l.Theta().At(y, f, v)
	s := 1 / (1 + (l.t-1)*m)
	return math.Log1p((l.t-1)*m) / (l.t - 1), mf * s, mv * s
}

func (l TLogistic) At2(y, f, v float64) (ff, fv, vv float64) {
	m, mf, mv := l.Theta().At(y, f, v)
	ff, fv, vv = l.Theta().At2(y, f, v)
	s := 1 / (1 + (l.t-1)*m)
	c := (l.t - 1) * s * s
	return ff*s - c*mf*mf, fv*s - c*mf*mv, vv*s - c*mv*mv
}

func (l TLogistic) Facts() Facts { return Facts{Probability: true, Cost: 1} }

func (l TLogistic) String() string { return "t-logistic:" + format(l.t) }

// tTheta is the loss g(s) - y f/2.
type tTheta TLogistic

func (l tTheta) At(y, f, v float64) (value, df, dv float64) {
	s := math.Hypot(f, math.Sqrt(v))
	e := l.g.at(s)
	a := math.Abs(f)
	if s == 0 {
		return e.h, -0.5 * y, 0.5 * e.ratio
	}
	// Use g(s) = h + s/2. For a correct prediction the differences s/2 - |f|/2 and g' |f|/s - 1/2 are computed without
	// cancellation.
	if y*f > 0 {
		gone := v / (s + a)
		return e.h + 0.5*gone, -y * (0.5*gone + e.small*a) / s, 0.5 * e.ratio
	}
	return e.h + 0.5*(s+a), -y * ((0.5-e.small)*a/s + 0.5), 0.5 * e.ratio
}

func (l tTheta) At2(_, f, v float64) (ff, fv, vv float64) {
	s := math.Hypot(f, math.Sqrt(v))
	e := l.g.at(s)
	bend := e.bend // (g'' - g'/s)/s^2
	return e.ratio + f*f*bend, 0.5 * f * bend, 0.25 * bend
}

func (l tTheta) Facts() Facts {
	return Facts{Convex: true, CleanConvex: true, LabelFree: true, Cost: 1}
}

func (l tTheta) String() string { return "t-logistic-theta:" + format(l.t) }

// tPartition computes g(u) = u/2 + h(u) for u >= 0. The function h falls from (2^(t-1) - 1)/(t-1) to 0 and solves
// phi(h) = exp_t(-h) + exp_t(-u-h) - 1 = 0.
//
// A cubic in x = log(1+u) between 1024 nodes gives h with an error of at most bound. One step of Newton's method then
// makes h accurate to the last digit. The error of h after the step is at most t 2^t bound^2, because phi is convex,
// the second derivative of phi is at most 2t, and its slope is at most -2^-t.
type tPartition struct {
	t     float64
	bound float64
	nodes [tNodes + 1]struct{ h, slope float64 } // h and its derivative dh/dx
	// ratio has the series near 0, where differences cancel: g'/u = ratio[0] + ratio[1] u^2 + ratio[2] u^4.
	ratio [3]float64
}

const (
	tNodes  = 1024
	tLimit  = 1e6 // end of the table; beyond it h(u) <= exp_t(-u) is negligible
	tSeries = 0.05
)

// tPoint describes g at u: h, the smaller escort probability, ratio = g'/u, and bend = (g2 - ratio)/u^2 with the second
// derivative g2.
type tPoint struct{ h, small, ratio, bend float64 }

func newTPartition(t float64) *tPartition {
	g := &tPartition{t: t}
	step := math.Log1p(tLimit) / tNodes
	for i := range g.nodes {
		u := math.Expm1(float64(i) * step)
		h := g.solve(u, 100)
		g.nodes[i].h = h
		g.nodes[i].slope = -g.escort(u, h) * (1 + u) * step
	}
	for i := range tNodes {
		u := math.Expm1((float64(i) + 0.5) * step)
		// The error of a cubic Hermite interpolant is largest in the middle, to leading order. The bound is twice that
		// error.
		g.bound = max(g.bound, 2*math.Abs(g.lookUp(u)-g.solve(u, 100)))
	}
	// The second derivative at 0 has a closed form. The next two terms are fitted through two points where g' is still
	// accurate to 14 digits.
	exact := func(u float64) float64 { return g.slope(u, g.solve(u, 100)) / u }
	a := t * math.Exp2(-t-1)
	s2 := tSeries * tSeries
	r1, r2 := (exact(tSeries)-a)/s2, (exact(tSeries/math.Sqrt2)-a)/(s2/2)
	g.ratio = [3]float64{a, 2*r2 - r1, 2 * (r1 - r2) / s2}
	return g
}

// expT returns exp_t(-x) for x >= 0.
func (g *tPartition) expT(x float64) float64 {
	return Exp(-math.Log1p((g.t-1)*x) / (g.t - 1))
}

// solve runs at most n steps of Newton's method from 0. The steps increase to the root without passing it.
func (g *tPartition) solve(u float64, n int) (h float64) {
	for range n {
		big, small := g.expT(h), g.expT(u+h)
		phi := math.Expm1(-math.Log1p((g.t-1)*h)/(g.t-1)) + small
		step := phi / (Pow(big, g.t) + Pow(small, g.t))
		h += step
		if math.Abs(step) <= 1e-15*h {
			break
		}
	}
	return max(h, 0)
}

// lookUp interpolates h at u.
func (g *tPartition) lookUp(u float64) float64 {
	x := math.Log1p(u) * (tNodes / math.Log1p(tLimit))
	i := min(int(x), tNodes-1)
	a, b := &g.nodes[i], &g.nodes[i+1]
	s := x - float64(i)
	r := 1 - s
	return r*r*((1+2*s)*a.h+s*a.slope) + s*s*((1+2*r)*b.h-r*b.slope)
}

// escort returns the smaller escort probability, q^t/(p^t + q^t) with p = exp_t(-h) and q = exp_t(-u-h).
func (g *tPartition) escort(u, h float64) float64 {
	p, q := Pow(g.expT(h), g.t), Pow(g.expT(u+h), g.t)
	return q / (p + q)
}

// slope returns the derivative of g at u.
func (g *tPartition) slope(u, h float64) float64 {
	p, q := Pow(g.expT(h), g.t), Pow(g.expT(u+h), g.t)
	return 0.5 * (p - q) / (p + q)
}

// at does the last step of Newton's method and returns all values at u. One pair of logarithms suffices. p = exp_t(-h)
// and q = exp_t(-u-h) are updated to first order, which is exact because the step is at most bound.
func (g *tPartition) at(u float64) tPoint {
	var h float64
	if u < tLimit {
		h = g.lookUp(u)
	} else {
		h = g.solve(u, 3) // if h is tiny, the first step is nearly exact
	}
	lp, lq := math.Log1p((g.t-1)*h)/(g.t-1), math.Log1p((g.t-1)*(u+h))/(g.t-1)
	less := math.Expm1(-lp)
	p, q := 1+less, Exp(-lq)
	pt, qt := Exp(-g.t*lp), Exp(-g.t*lq)
	step := (less + q) / (pt + qt)
	h = max(h+step, 0)
	p, q, pt = p-pt*step, q-qt*step, pt*(1-g.t*step*pt/p)
	if q > 0 {
		qt *= 1 - g.t*step*qt/q
	}
	sum := pt + qt
	e := tPoint{h: h, small: qt / sum}
	if u < tSeries {
		w := u * u
		e.ratio = g.ratio[0] + w*(g.ratio[1]+w*g.ratio[2])
		e.bend = 2*g.ratio[1] + 4*w*g.ratio[2]
		return e
	}
	e.ratio = 0.5 * (pt - qt) / (sum * u)
	// Use the second derivative g'' = t (p q)^(2t-1)/(p^t + q^t)^3.
	second := 0.0
	if q > 0 {
		second = g.t * (pt / p) * pt * (qt / q) * qt / (sum * sum * sum)
	}
	e.bend = (second - e.ratio) / u / u
	return e
}
