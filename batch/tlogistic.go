package batch

// This file implements t-logistic regression: its objective and its priors.

import (
	"fmt"
	"math"

	"blankout/internal/loss"
)

// TLogistic is t-logistic regression (Ding & Vishwanathan 2010, section 4),
//
//	J(w) = kappa sum m_n log(l_n)/(t-1) + prior(w),
//
// with l_n as in [loss.TLogistic], also under feature noise. J is not convex, and the result depends on the start. From 0,
// L-BFGS finds the minimum of the paper's majorize-minimize scheme (convex problems with the influences xi_n = 1/l_n as
// weights) in a third of the passes over the data.
type TLogistic struct {
	loss  loss.TLogistic
	data  *Expected // sum of the losses without prior
	prior tPrior
}

// Prior is the name of a prior of t-logistic regression.
type Prior string

// The priors. Both exclude a free intercept.
const (
	// StudentPrior is sum log(r_j)/(t-1) with r_j = 1 + (t-1)(lt w_j^2/2 + gt). This is the Student-t density with
	// (3-t)/(t-1) degrees of freedom and scale 2/lam (Ding & Vishwanathan 2010, section 4).
	StudentPrior Prior = "student"
	// L2Prior is lam/2 |w|^2.
	L2Prior Prior = "l2"
)

// NewTLogistic returns the objective of a problem whose Loss is a loss.TLogistic. It ignores the Problem's Penalty. The
// argument lam is the strength of the prior and must be positive; L2Prior also allows 0.
func NewTLogistic(p Problem, prior Prior, lam float64) (*TLogistic, error) {
	loss, ok := p.Loss.(loss.TLogistic)
	if !ok {
		return nil, fmt.Errorf("t-logistic regression with the loss %v", p.Loss)
	}
	if !(lam > 0 || lam == 0 && prior == L2Prior) || math.IsInf(lam, 0) {
		return nil, fmt.Errorf("t-logistic regression: the prior's strength %v must be positive", lam)
	}
	o := &TLogistic{loss: loss, prior: newTPrior(prior, loss.T(), lam)}
	p.Penalty = Ridge(p.Data.Columns(), 0, p.Intercept)
	var err error
	if o.data, err = NewExpected(p); err != nil {
		return nil, err
	}
	switch prior {
	case StudentPrior, L2Prior:
		return o, nil
	}
	return nil, fmt.Errorf("prior %q: want student or l2", prior)
}

// tPrior holds the constants of a prior.
type tPrior struct {
	kind       Prior
	t, lam     float64
	psi, slope float64 // r(w) = psi + (t-1) slope w^2/2
}

func newTPrior(kind Prior, t, lam float64) tPrior {
	p := tPrior{kind: kind, t: t, lam: lam}
	if kind == StudentPrior {
		v, sigma := (3-t)/(t-1), 2/lam
		a, _ := math.Lgamma((v + 1) / 2)
		b, _ := math.Lgamma(v / 2)
		p.psi = loss.Exp(-2 / (v + 1) * (a - b - 0.5*math.Log(v*math.Pi) - 0.5*math.Log(sigma)))
		p.slope = 2 * p.psi / ((t - 1) * v * sigma)
	}
	return p
}

// at returns the prior of one weight and its derivative.
func (p *tPrior) at(w float64) (value, slope float64) {
	if p.kind == L2Prior {
		return 0.5 * p.lam * w * w, p.lam * w
	}
	r := p.psi + 0.5*(p.t-1)*p.slope*w*w
	return math.Log(r) / (p.t - 1), p.slope * w / r
}

// priorParameters returns the number of parameters that have a prior.
func (o *TLogistic) priorParameters() int {
	if o.data.p.Intercept == PenalizedIntercept {
		return o.data.dim
	}
	return o.data.columns
}

// Dim implements Objective.
func (o *TLogistic) Dim() int { return o.data.dim }

// Passes returns the number of passes over the data so far.
func (o *TLogistic) Passes() int { return o.data.passes }

// ValueGrad implements Objective.
func (o *TLogistic) ValueGrad(w, grad []float64) float64 {
	value := o.data.ValueGrad(w, grad)
	for d, wd := range w[:o.priorParameters()] {
		p, slope := o.prior.at(wd)
		value += p
		if grad != nil {
			grad[d] += slope
		}
	}
	return value
}

// Influences returns xi_n = 1/l_n in (0, 1] for every example at w. It returns NaN for an example without a label or
// weight. An example with a small influence has had little effect: its label may be wrong.
func (o *TLogistic) Influences(w []float64) []float64 {
	o.data.scores(w)
	n := len(o.data.views)
	xi := make([]float64, len(o.data.m)/n)
	for i, m := range o.data.m {
		of := math.NaN()
		if m != 0 {
			of = o.loss.Influence(o.data.p.Y[i/n], o.data.f[i], o.data.v[i])
		}
		xi[i/n] += of / float64(n)
	}
	return xi
}

// Influences returns the influences of the rows of d by output, see [TLogistic.Influences]. The arguments must equal
// the arguments of the training, except that c has no Copies.
func (f *Fit) Influences(d *Data, c Config) ([][]float64, error) {
	noise, err := loss.ParseNoise(c.Noise)
	if err != nil {
		return nil, err
	}
	build, _, err := c.objective(noise)
	if err != nil {
		return nil, err
	}
	problems, err := c.Subproblems(d)
	if err != nil {
		return nil, err
	}
	var out [][]float64
	for i, p := range problems {
		o, err := build(d, p, c)
		if err != nil {
			return nil, err
		}
		t, ok := o.(*TLogistic)
		if !ok || c.Copies > 0 {
			return nil, fmt.Errorf("only t-logistic regression without corrupted copies gives every example an influence")
		}
		out = append(out, t.Influences(f.Problems[i].W))
	}
	return out, nil
}
