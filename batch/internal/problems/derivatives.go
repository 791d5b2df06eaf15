package problems

import (
	"math"
	"testing"
)

// objective has the methods of a batch.Objective that CheckDerivatives needs.
type objective interface {
	Dim() int
	ValueGrad(w, grad []float64) float64
}

// CheckDerivatives compares gradient, Hessian-vector product and diagonal with
// central differences at w.
func CheckDerivatives(t *testing.T, what string, o objective, w []float64, tol float64) {
	t.Helper()
	n := o.Dim()
	grad, up, down := make([]float64, n), make([]float64, n), make([]float64, n)
	at := func(d int, h float64, grad []float64) float64 {
		u := append([]float64(nil), w...)
		u[d] += h
		return o.ValueGrad(u, grad)
	}
	if a, b := o.ValueGrad(w, nil), o.ValueGrad(w, grad); a != b {
		t.Errorf("%s: value %v, with the gradient %v", what, a, b)
	}
	const h = 1e-5
	hv, second := o.(interface{ HessVec(v, out []float64) })
	for d := range n {
		numeric := (at(d, h, up) - at(d, -h, down)) / (2 * h)
		if math.Abs(numeric-grad[d]) > tol*(1+norm(grad)) {
			t.Errorf("%s: derivative %d is %v, by differences %v", what, d, grad[d], numeric)
		}
		if !second {
			continue
		}
		o.ValueGrad(w, make([]float64, n))
		v, out := make([]float64, n), make([]float64, n)
		v[d] = 1
		hv.HessVec(v, out)
		if g, ok := o.(interface{ Diagonal(out []float64) }); ok {
			diag := make([]float64, n)
			g.Diagonal(diag)
			if math.Abs(diag[d]-out[d]) > 1e-9*(1+math.Abs(out[d])) {
				t.Errorf("%s: diagonal %d is %v, by a product %v", what, d, diag[d], out[d])
			}
		}
		for e := range n {
			if want := (up[e] - down[e]) / (2 * h); math.Abs(out[e]-want) > tol*(1+norm(out)) {
				t.Errorf("%s: second derivative %d, %d is %v, by differences %v", what, d, e, out[e], want)
			}
		}
	}
}

func norm(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

// Relative returns the largest absolute difference of a and b, relative to the largest absolute value of b.
func Relative(a, b []float64) float64 {
	diff, size := 0.0, 0.0
	for i := range b {
		diff = max(diff, math.Abs(a[i]-b[i]))
		size = max(size, math.Abs(b[i]))
	}
	return diff / size
}
