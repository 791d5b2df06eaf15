package batch

// This file computes the penalty that the noise adds at a given model, exactly and to second order.

import (
	"fmt"
	"math"
	"strings"

	"blankout/internal/loss"
)

// Penalties is the penalty that noise adds to the log-loss of a generalized linear model at its weights. The penalty is
// computed in three ways (Wager et al. 2013, section 2). It is summed over outputs and over labeled examples, weighted
// by importance. If Quadratic is far from Exact and Sampled, the second-order expansion is inaccurate.
type Penalties struct {
	Quadratic float64 `json:"quadratic"` // R_q = (1/2) sum A''(f) v
	// Exact is R = sum E A(f~) - A(f) for a normal f~, in closed form.
	Exact float64 `json:"exact"`
	// Sampled is R averaged over copies drawn from the noise, and SampledError is its standard error. Each copy
	// contributes A(f~) - A(f) - A'(f) (f~ - f). The last term has mean 0 and removes most of the variance.
	Sampled      float64 `json:"sampled"`
	SampledError float64 `json:"sampled_error"`
	Copies       int     `json:"copies"`
}

// Penalties computes the Penalties on d, which must be the training data of the model. The loss must be linear,
// logistic or poisson.
func (f *Fit) Penalties(d *Data, noise loss.Noise, copies int, seed uint64) (*Penalties, error) {
	var l loss.Loss                      // l.At(y, f, v) is A(f) + A''(f) v/2
	y := 0.0                             // target for which the term y f vanishes
	var exact func(f, v float64) float64 // returns E A(f~) - A(f)
	switch name, _, _ := strings.Cut(f.Model.Loss, ":"); name {
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
		return nil, fmt.Errorf("loss %s has no noising penalty: want linear, logistic or poisson", f.Model.Loss)
	}
	if loss.IsSilent(noise) {
		return nil, fmt.Errorf("noise %v is biased, and has no noising penalty: want one such as dropout", noise)
	}
	if copies < 2 {
		return nil, fmt.Errorf("%d copies: want at least 2", copies)
	}
	noisy, err := d.Corrupted(noise, copies, seed)
	if err != nil {
		return nil, err
	}
	c0, c1, c2 := noise.Coefficients()
	var groups *groupNoise
	var pair, z []float64
	var sums *groupSums
	if groups, err = jointNoise(d, noise); err != nil {
		return nil, err
	} else if groups != nil {
		pair, z, sums = make([]float64, 2*d.Columns()), make([]float64, d.Columns()), groups.sums()
	}
	p := &Penalties{Copies: copies}
	variance := 0.0
	for _, r := range f.Problems {
		w, b := r.W[:d.Columns()], 0.0
		if len(r.W) > d.Columns() {
			b = r.W[d.Columns()]
		}
		norm := Dot(w, w)
		if groups != nil {
			for c, v := range w {
				pair[2*c], pair[2*c+1] = v, v
			}
		}
		for i := range d.Rows() {
			m := d.Weight(i)
			if d.Label(i) < 0 || m == 0 {
				continue
			}
			row := d.Row(i)
			v := c0 * norm
			if groups != nil {
				_, _, v, _ = groups.gather(row, pair, z, nil, nil, sums)
			} else {
				for j, c := range row.Index {
					x := row.At(j)
					v += w[c] * w[c] * (c1*x + c2*x*x)
				}
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
	}
	p.SampledError = math.Sqrt(variance)
	return p, nil
}
