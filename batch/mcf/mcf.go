// Package mcf holds the exponential and the logistic loss of marginalized corrupted
// features (van der Maaten et al. 2013).
package mcf

import (
	"fmt"
	"math"

	"blankout/batch"
	"blankout/internal/loss"
)

// Objective is one of two objectives of van der Maaten et al. 2013. The first is the expected exponential loss (section
// 3.2). The second is the upper bound on the expected logistic loss by Jensen's inequality (section 3.3). Both have the
// form
//
//	J(w) = (1/2) w'Rw + kappa sum m_n outer(h_n),
//	h_n = log E exp(-y_n f~_n) = -y_n b + sum_d psi(w_d, x_nd),
//
// where outer(h) is exp(h) or log(1 + exp(h)). The function psi is the logarithm of the noise's moment generating
// function, so no product overflows:
//
//	dropout   log(q + (1-q) exp(-y w x/(1-q)))
//	Poisson   x (exp(-y w) - 1)
//	Gaussian  -y w x + s^2 w^2/2, for absent features too
//	Laplace   -y w x - log(1 - b^2 w^2), for absent features too
//
// h_n is convex in w, so J is convex. Laplace noise has a moment generating function for |w| < 1/b only. Beyond that J
// is +Inf, so no weight reaches 1/b.
type Objective struct {
	p       batch.Problem
	kind    Loss
	psi     psi
	absent  *absent // noise on absent features; nil for none
	columns int
	dim     int
	m       []float64
	sum     *batch.Summer
	w       []float64 // point of the last gradient
	outer   [2][]float64
	grad    []float64
	passes  int
}

// Loss names the loss.
type Loss string

// The losses.
const (
	Exponential Loss = "mcf-exponential"
	Logistic    Loss = "mcf-logistic"
)

// New returns the objective of a problem; its Loss is not used.
func New(p batch.Problem, kind Loss) (*Objective, error) {
	if kind != Exponential && kind != Logistic {
		return nil, fmt.Errorf("loss %q: want %s or %s", kind, Exponential, Logistic)
	}
	d := p.Data
	if d.HasSplines() && p.Noise != nil && p.Noise != (loss.NoNoise{}) {
		return nil, fmt.Errorf("loss %q under noise: %w; use a --scaler without them, or another loss", kind, batch.ErrSplines)
	}
	o := &Objective{p: p, kind: kind, columns: d.Columns(), dim: p.Dim("mcf")}
	switch n := p.Noise.(type) {
	case nil, loss.NoNoise:
		o.psi = psiPlain
	case loss.Dropout:
		o.psi = psiDropout(n.Q)
	case loss.Poisson:
		if i := d.FirstNegative(); i >= 0 {
			return nil, fmt.Errorf("noise %v: example %d has a negative feature", n, i)
		}
		o.psi = psiPoisson
	case loss.Gaussian:
		o.psi, o.absent = psiPlain, absentGaussian(n.SD*n.SD)
	case loss.Laplace:
		o.psi, o.absent = psiPlain, absentLaplace(n.B*n.B)
	default:
		return nil, fmt.Errorf("%s does not support noise %v (none, dropout, gaussian, laplace and poisson)", kind, n)
	}
	var err error
	if o.m, err = p.BinaryWeights(); err != nil {
		return nil, err
	}
	o.w, o.grad = make([]float64, o.dim), make([]float64, o.dim)
	o.outer = [2][]float64{make([]float64, d.Rows()), make([]float64, d.Rows())}
	o.sum = batch.NewSummer(d, o.columns+2, p.Threads) // the last two elements are sums for the intercept and for c0
	return o, nil
}

// Estimators returns the losses for a batch.Config: the exponential loss, and mcf, the bound of the logistic loss.
func Estimators() []batch.Estimator {
	of := func(loss Loss) func(batch.Problem, string, batch.Config) (batch.Objective, error) {
		return func(p batch.Problem, _ string, _ batch.Config) (batch.Objective, error) { return New(p, loss) }
	}
	return []batch.Estimator{
		{Name: "exponential", Bounds: []string{"", "mcf"}, New: of(Exponential)},
		{Name: "logistic", Bounds: []string{"mcf"}, New: of(Logistic)},
	}
}

// psi computes the logarithm of the noise's moment generating function. The separate function computes only its first
// two derivatives by w, because products with the Hessian need no more.
type psi struct {
	value func(y, w, x float64) float64
	slope func(y, w, x float64) (slope, curvature float64)
}

var psiPlain = psi{
	func(y, w, x float64) float64 { return -y * w * x },
	func(y, _, x float64) (slope, curvature float64) { return -y * x, 0 },
}

var psiPoisson = psi{
	func(y, w, x float64) float64 { return x * math.Expm1(-y*w) },
	func(y, w, x float64) (slope, curvature float64) {
		e := loss.Exp(-y * w)
		return -y * x * e, x * e
	},
}

// absent is the contribution of noise on absent features to every h. It is a function of the weight alone, with its
// first two derivatives.
type absent struct {
	value func(w float64) float64
	slope func(w float64) (slope, curvature float64)
}

func absentGaussian(variance float64) *absent {
	return &absent{
		func(w float64) float64 { return variance / 2 * w * w },
		func(w float64) (slope, curvature float64) { return variance * w, variance },
	}
}

// absentLaplace returns the contribution of Laplace noise with squared scale b^2.
func absentLaplace(square float64) *absent {
	return &absent{
		func(w float64) float64 {
			if !(square*w*w < 1) {
				return math.Inf(1)
			}
			return -math.Log1p(-square * w * w)
		},
		func(w float64) (slope, curvature float64) {
			left := 1 - square*w*w
			return 2 * square * w / left, 2 * square * (2 - left) / (left * left)
		},
	}
}

// psiDropout returns psi for dropout. Let a = y w x/(1-q) and r = 1/(1 + q/(1-q) exp(a)). The first derivative by a is
// -r and the second r (1-r).
func psiDropout(q float64) psi {
	if q == 0 {
		return psiPlain
	}
	odds, k := q/(1-q), 1/(1-q)
	return psi{
		func(y, w, x float64) float64 {
			a := y * x * k * w
			switch {
			case a > 1:
				return math.Log(q + (1-q)*loss.Exp(-a))
			case a > -1:
				return math.Log1p((1 - q) * math.Expm1(-a))
			}
			return -a + math.Log(1-q+q*loss.Exp(a))
		},
		func(y, w, x float64) (slope, curvature float64) {
			u := y * x * k
			r := 1 / (1 + odds*loss.Exp(u*w))
			return -u * r, u * u * r * (1 - r)
		},
	}
}

// at returns outer(h) and its first two derivatives.
func (k Loss) at(h float64) (value, d1, d2 float64) {
	if k == Exponential {
		e := loss.Exp(h)
		return e, e, e
	}
	p := 1 / (1 + loss.Exp(-h))
	return loss.Softplus(h), p, p / (1 + loss.Exp(h))
}

// Dim implements batch.Objective.
func (o *Objective) Dim() int { return o.dim }

// Passes returns the number of passes over the data.
func (o *Objective) Passes() int { return o.passes }

// IsConvex returns true.
func (o *Objective) IsConvex() bool { return true }

func (o *Objective) bias(w []float64) float64 {
	if o.dim > o.columns {
		return w[o.columns]
	}
	return 0
}

// base returns the contribution of the noise on absent features to every h.
func (o *Objective) base(w []float64) (sum float64) {
	if o.absent != nil {
		for _, x := range w[:o.columns] {
			sum += o.absent.value(x)
		}
	}
	return sum
}

// absentSlopes returns the first two derivatives of base by the weights at the point of the last gradient, or nil if
// base is 0.
func (o *Objective) absentSlopes() (slopes, curvatures []float64) {
	if o.absent == nil {
		return nil, nil
	}
	slopes, curvatures = make([]float64, o.columns), make([]float64, o.columns)
	for d := range slopes {
		slopes[d], curvatures[d] = o.absent.slope(o.w[d])
	}
	return slopes, curvatures
}

// h returns h_n without the terms that are equal for all rows of a label.
func (o *Objective) h(i int, w []float64) float64 {
	y, h := o.p.Y[i], 0.0
	row := o.p.Data.Row(i)
	for j, d := range row.Index {
		h += o.psi.value(y, w[d], row.At(j))
	}
	return h
}

// ValueGrad implements batch.Objective. The value may be +Inf far from the minimum of the exponential loss, or at
// weights for which Laplace noise has no expectation.
func (o *Objective) ValueGrad(w, grad []float64) float64 {
	b, base := o.bias(w), o.base(w)
	var out []float64
	if grad != nil {
		out = make([]float64, o.columns+2)
		copy(o.w, w)
	}
	o.passes++
	value := o.sum.Sum(out, func(lo, hi int, acc []float64) float64 {
		total := 0.0
		for i := lo; i < hi; i++ {
			if o.m[i] == 0 {
				continue
			}
			y := o.p.Y[i]
			v, d1, d2 := o.kind.at(o.h(i, w) - y*b + base)
			total += o.m[i] * v
			if acc == nil {
				continue
			}
			d1 *= o.m[i]
			o.outer[0][i], o.outer[1][i] = d1, o.m[i]*d2
			row := o.p.Data.Row(i)
			for j, d := range row.Index {
				slope, _ := o.psi.slope(y, w[d], row.At(j))
				acc[d] += d1 * slope
			}
			acc[o.columns] -= d1 * y
			acc[o.columns+1] += d1
		}
		return total
	})
	if grad != nil {
		copy(grad, out[:o.dim])
		slopes, _ := o.absentSlopes()
		axpy(out[o.columns+1], slopes, grad)
	}
	return value + o.p.Penalty.ValueGrad(w, grad)
}

// HessVec implements batch.HessianVector. The Hessian is the sum of d2 g g' + d1 diag(c), where g is the gradient of
// h_n. The factors d1 and d2 are the first two derivatives of outer; c is the second derivative of psi.
func (o *Objective) HessVec(v, out []float64) {
	total := make([]float64, o.columns+2)
	absentSlopes, absentCurvatures := o.absentSlopes()
	vb, wv := o.bias(v), 0.0
	for d, slope := range absentSlopes {
		wv += slope * v[d]
	}
	shared := 0.0 // sum of outer', for the curvature of base
	for i, m := range o.m {
		if m != 0 {
			shared += o.outer[0][i]
		}
	}
	o.passes++
	o.sum.Sum(total, func(lo, hi int, acc []float64) float64 {
		var slopes []float64 // psi' by entry of the row, kept because each costs an exponential
		for i := lo; i < hi; i++ {
			d1, d2 := o.outer[0][i], o.outer[1][i]
			if o.m[i] == 0 || d1 == 0 && d2 == 0 {
				continue
			}
			y := o.p.Y[i]
			row := o.p.Data.Row(i)
			along := wv - y*vb
			slopes = slopes[:0]
			for j, d := range row.Index {
				slope, curvature := o.psi.slope(y, o.w[d], row.At(j))
				along += slope * v[d]
				acc[d] += d1 * curvature * v[d]
				slopes = append(slopes, slope)
			}
			along *= d2
			for j, d := range row.Index {
				acc[d] += along * slopes[j]
			}
			acc[o.columns] -= along * y
			acc[o.columns+1] += along
		}
		return 0
	})
	copy(out, total[:o.dim])
	axpy(total[o.columns+1], absentSlopes, out)
	for d, curvature := range absentCurvatures {
		out[d] += shared * curvature * v[d]
	}
	for d, r := range o.p.Penalty.R {
		out[d] += r * v[d]
	}
}

// Diagonal writes the diagonal of the Hessian to out.
func (o *Objective) Diagonal(out []float64) {
	total := make([]float64, o.columns+2)
	absentSlopes, absentCurvatures := o.absentSlopes()
	o.passes++
	o.sum.Sum(total, func(lo, hi int, acc []float64) float64 {
		for i := lo; i < hi; i++ {
			d1, d2 := o.outer[0][i], o.outer[1][i]
			if o.m[i] == 0 {
				continue
			}
			row := o.p.Data.Row(i)
			for j, d := range row.Index {
				slope, curvature := o.psi.slope(o.p.Y[i], o.w[d], row.At(j))
				acc[d] += d1*curvature + d2*slope*slope
				if absentSlopes != nil {
					acc[d] += 2 * d2 * slope * absentSlopes[d]
				}
			}
			acc[o.columns] += d2
			acc[o.columns+1] += d1
		}
		return 0
	})
	for d := range out {
		out[d] = total[d] + o.p.Penalty.R[d]
	}
	for d, slope := range absentSlopes {
		out[d] += absentCurvatures[d]*total[o.columns+1] + slope*slope*total[o.columns]
	}
}

// Gap bounds J(w) - min J. J is strongly convex with modulus R_d in every penalized parameter. So J - J* <= sum
// g_d^2/(2 R_d) if the free intercept is at its optimum. Gap is +Inf if a weight is not penalized, or if all labels are
// equal, because no optimal intercept exists then.
func (o *Objective) Gap(w []float64) float64 {
	free := o.dim > o.columns && o.p.Penalty.R[o.columns] == 0
	if free && !o.center(w) {
		return math.Inf(1)
	}
	o.ValueGrad(w, o.grad)
	return o.p.Penalty.GradientGap(o.grad, free)
}

// center moves the intercept to its optimum and reports whether an optimum exists.
func (o *Objective) center(w []float64) bool {
	n := len(o.m)
	h := make([]float64, n)
	base, b := o.base(w), w[o.columns]
	up, down := math.Inf(-1), math.Inf(-1) // largest h of each label
	o.passes++
	o.sum.Each(func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			if o.m[i] != 0 {
				h[i] = o.h(i, w) + base
			}
		}
	})
	for i, m := range o.m {
		if m != 0 && o.p.Y[i] > 0 {
			up = max(up, h[i])
		} else if m != 0 {
			down = max(down, h[i])
		}
	}
	if math.IsInf(up, 0) || math.IsInf(down, 0) {
		return false
	}
	if o.kind == Exponential {
		// exp(-b) S+ + exp(b) S- has its minimum at b = log(S+/S-)/2.
		var plus, minus float64
		for i, m := range o.m {
			if m != 0 && o.p.Y[i] > 0 {
				plus += m * loss.Exp(h[i]-up)
			} else if m != 0 {
				minus += m * loss.Exp(h[i]-down)
			}
		}
		w[o.columns] = 0.5 * (math.Log(plus/minus) + up - down)
		return true
	}
	// Newton's method, within the bracket that the sign of the slope gives.
	lo, hi := math.Inf(-1), math.Inf(1)
	for range 100 {
		slope, curvature := 0.0, 0.0
		for i, m := range o.m {
			if m != 0 {
				_, d1, d2 := o.kind.at(h[i] - o.p.Y[i]*b)
				slope -= m * d1 * o.p.Y[i]
				curvature += m * d2
			}
		}
		if slope > 0 {
			hi = b
		} else {
			lo = b
		}
		next := b - slope/curvature
		if !(next > lo && next < hi) { // true also if the curvature has vanished
			switch {
			case math.IsInf(lo, 0):
				next = b - 1 - math.Abs(b)
			case math.IsInf(hi, 0):
				next = b + 1 + math.Abs(b)
			default:
				next = lo + (hi-lo)/2
			}
		}
		if slope == 0 || math.Abs(next-b) <= 1e-15*(1+math.Abs(b)) {
			break
		}
		b = next
	}
	w[o.columns] = b
	return true
}

func axpy(a float64, x, y []float64) {
	for i, v := range x {
		y[i] += a * v
	}
}
