package papers

import (
	"fmt"
	"math"
	"strings"

	"blankout/batch"
	"blankout/internal/loss"
)

// penalties is the penalty that noise adds to the log-loss of a generalized linear model at its weights. The penalty is
// computed in three ways (Wager et al. 2013, section 2). It is summed over labeled examples, weighted
// by importance. If Quadratic is far from Exact and Sampled, the second-order expansion is inaccurate.
type penalties struct {
	Quadratic float64 `json:"quadratic"` // R_q = (1/2) sum A''(f) v
	// Exact is R = sum E A(f~) - A(f) for a normal f~, in closed form.
	Exact float64 `json:"exact"`
	// Sampled is R averaged over copies drawn from the noise, and SampledError is its standard error. Each copy
	// contributes A(f~) - A(f) - A'(f) (f~ - f). The last term has mean 0 and removes most of the variance.
	Sampled      float64 `json:"sampled"`
	SampledError float64 `json:"sampled_error"`
	Copies       int     `json:"copies"`
}

// penaltiesOf computes the penalties of a model with one output and the weights w, which end with the intercept, on its
// training data d. The loss must be linear, logistic or poisson, and the noise independent by feature and unbiased.
func penaltiesOf(d *batch.Data, w []float64, name string, noise loss.Noise, copies int, seed uint64) (p penalties, err error) {
	var l loss.Loss                      // l.At(y, f, v) is A(f) + A''(f) v/2
	y := 0.0                             // target for which the term y f vanishes
	var exact func(f, v float64) float64 // returns E A(f~) - A(f)
	switch name, _, _ := strings.Cut(name, ":"); name {
	case "linear":
		l, exact = loss.Linear{}, func(_, v float64) float64 { return v / 2 }
	case "logistic":
		l, y = loss.LogisticQuadratic{}, -1
		exact = func(f, v float64) float64 {
			noisy, _, _ := loss.LogisticGaussian{}.At(y, f, v)
			clean, _, _ := loss.LogisticGaussian{}.At(y, f, 0)
			return noisy - clean
		}
	case "poisson":
		l, exact = loss.PoissonQuadratic{}, func(f, v float64) float64 { return loss.Exp(f) * math.Expm1(v/2) }
	default:
		return p, fmt.Errorf("loss %s has no noising penalty: want linear, logistic or poisson", name)
	}
	noisy, err := d.Corrupted(noise, copies, seed)
	if err != nil {
		return p, err
	}
	c0, _, _ := noise.Coefficients()
	p.Copies = copies
	w, b := w[:d.Columns()], w[d.Columns()]
	norm, variance := batch.Dot(w, w), 0.0
	for i := range d.Rows() {
		m := d.Weight(i)
		if d.Label(i) < 0 || m == 0 {
			continue
		}
		row, v := d.Row(i), c0*norm
		for j, c := range row.Index {
			v += w[c] * w[c] * (varianceOf(noise, row.At(j)) - c0)
		}
		s := row.Dot(w) + b
		a, slope, half := l.At(y, s, 0) // half is A''(s)/2
		p.Quadratic += m * half * v
		p.Exact += m * exact(s, v)
		mean, square := 0.0, 0.0
		for j := range copies {
			f := noisy.Row(i*copies+j).Dot(w) + b
			at, _, _ := l.At(y, f, 0)
			x := at - a - slope*(f-s)
			delta := x - mean
			mean += delta / float64(j+1)
			square += delta * (x - mean)
		}
		p.Sampled += m * mean
		variance += m * m * square / float64((copies-1)*copies)
	}
	p.SampledError = math.Sqrt(variance)
	return p, nil
}

// varianceOf returns Var[x~ | x] under n.
func varianceOf(n loss.Noise, x float64) float64 {
	c0, c1, c2 := n.Coefficients()
	return c0 + c1*x + c2*x*x
}
