package batch

// This file has the objective that most models minimize: the regularized expected loss of a linear score.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"blankout/internal/loss"

	"gonum.org/v1/gonum/mat"
)

// Expected is the regularized expected loss of a linear score under feature noise,
//
//	J(w) = (1/2) (w-c)'R(w-c) + kappa sum_n m_n loss(y_n, f_n, v_n),
//	f_n = w.x_n + b,  v_n = w'V_n w,  V_n = diag(Var[x~_nd]),
//
// where m_n is the importance of event n, and the intercept b is the last parameter. If noise removes whole groups, V_n
// is not diagonal, see groups.go. Under silent noise each row has one term per noise rate, see silent.go. Noise with a
// constant variance c0 also acts on absent features: it adds c0 |w|^2 to every v_n, so rows stay sparse. The gradient,
// the exact Hessian, the majorizer of IRLS and the certificate are computed from the loss's methods At and At2. They
// exist for every convex loss in the table of package loss.
type Expected struct {
	p          Problem
	loss, free loss.Loss // losses of labeled and of unlabeled rows; free is nil if unlabeled rows are left out
	facts      loss.Facts
	convex     bool // whether the objective is convex under the noise
	columns    int
	dim        int
	m          []float64 // kappa times importance by view; 0 for rows that are left out
	eps        float64   // smoothing, see Smooth
	kink       float64   // contribution of smoothing to the last Gap
	passes     int
	noising
	byRow
	gradient
	workspace
}

// noising is the variance of noisy features.
type noising struct {
	c0, c1, c2 float64 // coefficients of the variance, see loss.Noise
	noisy      bool
	groups     *groupNoise // nil without noise, or if the noise of all features is independent
	views      []view      // views of every row: one, or one per rate under silent noise
	dead       []float64   // value of a dead feature by column; nil if all are 0
}

// stride returns the number of sums gathered and scattered per column: one for the score and, under noise, one for its
// variance.
func (n *noising) stride() int {
	if n.noisy {
		return 2
	}
	return 1
}

// byRow holds the values of each view of each row at one point. The point is the argument of the last ValueGrad with a
// gradient, or of the last call of scores. View k of row n has index n*len(views) + k.
type byRow struct {
	f, v, df, dv []float64
	ff, fv, vv   []float64 // second derivatives, valid when curved is set
	along        []float64 // scores, and both parts of the variances, along the last Line
	hasSecond    bool
	majorise     bool
}

func newByRow(n int) byRow {
	rows := make([]float64, 7*n)
	return byRow{f: rows[:n], v: rows[n : 2*n], df: rows[2*n : 3*n], dv: rows[3*n : 4*n],
		ff: rows[4*n : 5*n], fv: rows[5*n : 6*n], vv: rows[6*n:]}
}

// shift adds by to all scores.
func (r *byRow) shift(by float64) float64 {
	for i := range r.f {
		r.f[i] += by
	}
	return by
}

// gradient is the last gradient and the point where it was computed.
type gradient struct {
	w         []float64
	shrink    []float64 // sum_n 2 dv_n V_nd by column, the diagonal part of the Hessian
	residual  []float64
	cached    bool // whether residual and value are the gradient and the value at the point, with smoothing cachedEps
	unscaled  bool // whether the last dual point needed no scaling, except for rounding
	value     float64
	cachedEps float64
}

// workspace is the memory that passes over the rows use: gather reads from it and scatter adds to it.
type workspace struct {
	pair       []float64 // gathered values by column, for example (w_d, w_d^2)
	total      []float64 // sums over rows
	sum        *Summer
	denseTotal []float64
	denseSum   *Summer
	longest    int // number of entries of the longest row
	outer      int // sum of the squared lengths of the rows
}

// Problem defines an Expected objective.
type Problem struct {
	Data *Data
	// Y is the target of every row: -1 or +1, or a number for regression losses. NaN marks a row without a label.
	Y []float64
	// Weight replaces the rows' importance unless it is nil. Rows with weight 0 need no computation.
	Weight []float64
	Loss   loss.Loss
	Noise  loss.Noise
	// Kappa is the factor of the losses, loss.Cost(Loss, c) in the notation of Chen et al.
	Kappa     float64
	Intercept Intercept
	Penalty   Penalty
	// Alpha in [0, 1] is the weight of the noising penalty of unlabeled rows (Wager et al. 2013, section 6). The
	// penalty is n/(n + alpha m) (R + alpha R_unlabeled) for n labeled and m unlabeled examples.
	Alpha   float64
	Threads int
	// Pause is called between passes over the data. It may be nil.
	Pause func()
}

// Dim returns the number of parameters. It panics, in the name of an objective, unless there is a target for each row
// and a penalty for each parameter.
func (p Problem) Dim(objective string) int {
	dim := p.Data.Columns()
	if p.Intercept != NoIntercept {
		dim++
	}
	if len(p.Y) != p.Data.Rows() || len(p.Penalty.R) != dim {
		panic(fmt.Sprintf("%s: %d targets for %d rows, %d penalties for %d parameters", objective, len(p.Y), p.Data.Rows(), len(p.Penalty.R), dim))
	}
	return dim
}

// pass counts a pass over the data. It calls Pause before every pass except the first.
func (o *Expected) pass() {
	o.passes++
	if o.p.Pause != nil {
		o.p.Pause()
	}
}

// ErrUnlabeled reports that a loss does not support unlabeled events.
var ErrUnlabeled = errors.New("this loss cannot use unlabeled examples: remove them (--unlabeled-weight 0), or use --loss logistic with --bound gaussian, chen or quadratic-noising")

// BinaryWeights returns Kappa times the importance of every row, or 0 for a row without a label. Objectives with
// targets -1 and +1 that ignore unlabeled rows use it. It returns ErrUnlabeled if there are unlabeled rows and Alpha is
// not 0.
func (p *Problem) BinaryWeights() ([]float64, error) {
	out := make([]float64, p.Data.Rows())
	total := 0.0
	for i, y := range p.Y {
		m := p.Data.importance(p.Weight, i)
		switch {
		case m == 0 || math.IsNaN(y) && p.Alpha == 0:
			continue
		case math.IsNaN(y):
			return nil, fmt.Errorf("example %d: %w", i, ErrUnlabeled)
		}
		if y != 1 && y != -1 {
			return nil, fmt.Errorf("example %d: target %v is not -1 or +1", i, y)
		}
		out[i] = p.Kappa * m
		total += out[i]
	}
	if !(total > 0) || math.IsInf(total, 0) {
		return nil, fmt.Errorf("no labeled example of positive weight")
	}
	return out, nil
}

// Intercept is the kind of the last parameter.
type Intercept string

// The kinds of intercept.
const (
	FreeIntercept      Intercept = "free"      // a parameter without a penalty
	PenalizedIntercept Intercept = "penalized" // a parameter with a penalty, like a weight
	NoIntercept        Intercept = "none"      // no intercept
)

// Penalty is (1/2)(w-c)'R(w-c), where R is diagonal with one element per parameter and c is the Center. A nil Center is
// 0.
type Penalty struct{ R, Center []float64 }

// Ridge returns the penalty l2 |w|^2, so R = 2 l2, on the weights of all columns and on a penalized intercept. The
// objectives of Chen et al. have l2 = 1.
func Ridge(columns int, l2 float64, intercept Intercept) Penalty {
	n := columns
	if intercept != NoIntercept {
		n++
	}
	r := make([]float64, n)
	for i := range r {
		r[i] = 2 * l2
	}
	if intercept == FreeIntercept {
		r[columns] = 0
	}
	return Penalty{R: r}
}

// ValueGrad returns the penalty at w and adds its gradient to grad.
func (p Penalty) ValueGrad(w, grad []float64) float64 {
	sum := 0.0
	for i, r := range p.R {
		u := w[i]
		if p.Center != nil {
			u -= p.Center[i]
		}
		sum += 0.5 * r * u * u
		if grad != nil {
			grad[i] += r * u
		}
	}
	return sum
}

// NewExpected returns the objective of a problem. It returns an error if Alpha is not 0 for a loss whose noising
// penalty depends on the label. It also returns an error for negative features under Poisson noise, or for targets that
// do not fit the loss.
func NewExpected(p Problem) (*Expected, error) {
	d := p.Data
	o := &Expected{p: p, loss: p.Loss, columns: d.Columns(), dim: p.Dim("batch")}
	if p.Noise == nil {
		p.Noise = loss.NoNoise{}
	}
	var err error
	unbiased := o.setViews(d, p.Noise)
	if o.groups, err = jointNoise(d, p.Noise); err != nil {
		return nil, err
	}
	o.c0, o.c1, o.c2 = unbiased.Coefficients()
	if o.noisy = o.c0 != 0 || o.c1 != 0 || o.c2 != 0; !o.noisy {
		o.groups = nil // dropout:0, one of the noise levels of auto, removes nothing
	}
	if o.c1 != 0 {
		if i := d.FirstNegative(); i >= 0 {
			return nil, fmt.Errorf("noise %v: example %d has a negative feature", p.Noise, i)
		}
	}
	o.facts = o.loss.Facts()
	o.convex = o.facts.Convex
	if !o.noisy {
		o.convex = o.facts.CleanConvex
		if o.facts.Clean != nil {
			o.loss = o.facts.Clean
		}
	}
	n := len(o.views)
	o.m = make([]float64, n*d.Rows())
	labeled, unlabeled := 0.0, 0.0
	for i, y := range p.Y {
		m := d.importance(p.Weight, i)
		switch {
		case m == 0:
		case math.IsNaN(y) && p.Alpha == 0:
			m = 0
		case math.IsNaN(y):
			unlabeled += m
		default:
			labeled += m
			if err := o.facts.Target.Check(y); err != nil {
				return nil, fmt.Errorf("example %d: %w", i, err)
			}
		}
		for k := range n {
			o.m[i*n+k] = p.Kappa * m / float64(n)
		}
	}
	if labeled == 0 {
		return nil, fmt.Errorf("no labeled example of positive weight")
	}
	if unlabeled > 0 {
		if !o.facts.LabelFree {
			return nil, fmt.Errorf("loss %v cannot use unlabeled examples, because its noise penalty depends on the label: use logistic", o.loss)
		}
		s := labeled / (labeled + p.Alpha*unlabeled)
		o.free = penaltyOnly{o.loss, s * p.Alpha}
		o.loss = penaltyScaled{o.loss, s}
		o.convex = false
	}
	o.byRow = newByRow(n * d.Rows())
	o.w = make([]float64, o.dim)
	o.residual = make([]float64, o.dim)
	o.pair = make([]float64, 2*o.columns)
	o.shrink = make([]float64, o.columns)
	// The last two elements of a partial sum do not belong to a column: they are sums over the rows.
	o.total = make([]float64, o.stride()*o.columns+2)
	o.sum = NewSummer(d, len(o.total), p.Threads)
	for _, r := range d.rows {
		o.longest = max(o.longest, int(r.n))
	}
	return o, nil
}

// plainHinge returns the margin of the loss if it is the hinge without noise, and 0 for every other loss.
func (o *Expected) plainHinge() float64 {
	if o.noisy {
		return 0
	}
	return o.facts.Margin
}

// plainLogistic reports whether the loss is the logistic loss without noise.
func (o *Expected) plainLogistic() bool {
	_, logistic := o.loss.(loss.LogisticChen)
	return logistic && !o.noisy
}

// lower returns a lower bound of the loss of any row with target y.
func (o *Expected) lower(y float64) float64 {
	if o.facts.Lower == nil {
		return 0
	}
	return o.facts.Lower(y)
}

// penaltyScaled is a loss with its noising penalty loss(v) - loss(0) multiplied by s.
type penaltyScaled struct {
	loss.Loss
	s float64
}

func (l penaltyScaled) At(y, f, v float64) (value, df, dv float64) {
	a, adf, _ := l.Loss.At(y, f, 0)
	b, bdf, bdv := l.Loss.At(y, f, v)
	return a + l.s*(b-a), adf + l.s*(bdf-adf), l.s * bdv
}

func (l penaltyScaled) At2(y, f, v float64) (ff, fv, vv float64) {
	a, _, _ := l.Loss.At2(y, f, 0)
	b, bfv, bvv := l.Loss.At2(y, f, v)
	return a + l.s*(b-a), l.s * bfv, l.s * bvv
}

// penaltyOnly is s (loss(v) - loss(0)). The difference loss(v) - loss(0) must not depend on the label.
type penaltyOnly struct {
	loss.Loss
	s float64
}

func (l penaltyOnly) At(_, f, v float64) (value, df, dv float64) {
	a, adf, _ := l.Loss.At(1, f, 0)
	b, bdf, bdv := l.Loss.At(1, f, v)
	return l.s * (b - a), l.s * (bdf - adf), l.s * bdv
}

func (l penaltyOnly) At2(_, f, v float64) (ff, fv, vv float64) {
	a, _, _ := l.Loss.At2(1, f, 0)
	b, bfv, bvv := l.Loss.At2(1, f, v)
	return l.s * (b - a), l.s * bfv, l.s * bvv
}

// Dim returns the number of parameters.
func (o *Expected) Dim() int { return o.dim }

// Passes returns the number of passes over the data.
func (o *Expected) Passes() int { return o.passes }

// target returns the loss and the target of row n.
func (o *Expected) target(n int) (loss.Loss, float64) {
	y := o.p.Y[n]
	if o.free != nil && y != y {
		return o.free, y
	}
	return o.loss, y
}

// setPair prepares gather to compute sum x_d a_d, sum V_d a_d b_d and sum V_d a_d^2.
func (o *Expected) setPair(a, b []float64) {
	if !o.noisy {
		copy(o.pair, a[:o.columns])
		return
	}
	b = b[:o.columns]
	for d, a := range a[:o.columns] {
		q := o.pair[2*d:][:2]
		q[0], q[1] = a, b[d]
	}
}

func (o *Expected) bias(w []float64) float64 {
	if o.dim > o.columns {
		return w[o.columns]
	}
	return 0
}

// constantVariance returns the part c0 a.b of a'V b, which is the same for every row.
func (o *Expected) constantVariance(a, b []float64) float64 {
	if o.c0 == 0 {
		return 0
	}
	return o.c0 * Dot(a[:o.columns], b[:o.columns])
}

// scores fills o.f and o.v for every row whose weight is positive.
func (o *Expected) scores(w []float64) {
	o.cached = false
	o.setPair(w, w)
	b, base := o.bias(w), o.constantVariance(w, w)
	o.pass()
	o.sum.Each(func(_, lo, hi int) {
		z := o.rowBuffer()
		for n := lo; n < hi; n++ {
			if !o.counts(n) {
				continue
			}
			s, h, v, _ := o.gather(n, z)
			for k, a := range o.views {
				i := n*len(o.views) + k
				o.f[i], o.v[i] = a.keep*s+(h+b), a.spread*v+base
			}
		}
	})
}

// Weights returns Kappa times the importance of every row, or 0 for a row that is left out. Under silent noise it has
// one element per view. A view is a row at one noise rate.
func (o *Expected) Weights() []float64 { return slices.Clone(o.m) }

// Weigh replaces the weights that Weights returns.
func (o *Expected) Weigh(m []float64) {
	copy(o.m, m)
	o.cached = false
}

// Losses returns the loss of every row at w, in the order of Weights. The loss of a row with weight 0 is 0. The offsets
// are added to the scores of the rows; nil adds nothing.
func (o *Expected) Losses(w, offsets []float64) []float64 {
	o.scores(w)
	out := make([]float64, len(o.m))
	for i, m := range o.m {
		if m == 0 {
			continue
		}
		row, f := i/len(o.views), o.f[i]
		if offsets != nil {
			f += offsets[row]
		}
		l, y := o.target(row)
		out[i], _, _ = l.At(y, f, o.v[i])
	}
	return out
}

// rowBuffer is the scratch memory of one goroutine that reads rows.
type rowBuffer struct {
	z    []float64 // V b of the last gather, by entry of the row; nil without noise
	za   []float64 // V a of the last gather; nil unless the noise has groups
	sums *groupSums
}

func (o *Expected) rowBuffer() (b rowBuffer) {
	if o.noisy {
		b.z = make([]float64, o.longest)
	}
	if o.groups != nil {
		b.za, b.sums = make([]float64, o.longest), o.groups.sums()
	}
	return b
}

// gather returns four sums over row n, which setPair prepared: s is x.a without dead features, h is the score of dead
// features, t = a'V b and u = a'V a.
func (o *Expected) gather(n int, b rowBuffer) (s, h, t, u float64) {
	r := o.p.Data.Row(n)
	switch {
	case !o.noisy:
		return r.Dot(o.pair), 0, 0, 0
	case o.groups != nil:
		return o.groups.gather(r, o.pair, b.z, b.za, o.dead, b.sums)
	case o.dead != nil:
		return r.gatherDead(o.pair, b.z, o.dead)
	}
	s, t, u = r.gather(o.pair, b.z, o.c1, o.c2)
	return s, 0, t, u
}

// rowGradient has the coefficients of one row's contribution to a gradient. The contribution is x times the row's
// features, one times a constant feature such as the intercept, and v times V. If the noise has groups, v multiplies z
// of the row's last gather instead of V.
type rowGradient struct{ x, one, v float64 }

// scatter adds the contribution p of row n to the partial sum acc.
func (o *Expected) scatter(acc []float64, n int, p rowGradient, z []float64) {
	if p == (rowGradient{}) {
		return
	}
	last := len(acc)
	acc[last-2] += p.one
	acc[last-1] += p.v
	r := o.p.Data.Row(n)
	switch {
	case !o.noisy:
		r.AddTo(acc, p.x)
	case o.groups != nil:
		for j, c := range r.Index {
			x, dead := o.apart(r.At(j), c)
			acc[2*c] += p.x*x + p.one*dead + p.v*z[j]
		}
	case o.dead != nil:
		for j, c := range r.Index {
			x, dead := o.apart(r.At(j), c)
			acc[2*c] += p.x*x + p.one*dead
			acc[2*c+1] += p.v * x * x
		}
	default:
		r.addPair(acc, p.x, p.v, o.c1, o.c2)
	}
}

// unpack computes out from total, the sum of the contributions of all rows. Let a_n, e_n and b_n be the coefficients x,
// one and v of row n's rowGradient. For the columns,
//
//	out = sum a_n x_n + w (sum b_n V_n).
//
// For the intercept, out is sum e_n. Dead values of features add their part where the rows are summed. unpack writes
// sum b_n V_n to diag unless diag is nil. If the noise has groups, the second term is sum b_n z_n, where z_n is z of the
// row's last gather, and diag is not used.
func (o *Expected) unpack(total, w, out, diag []float64) {
	n := len(total)
	for d := range o.columns {
		if !o.noisy {
			out[d] = total[d]
			continue
		}
		v := total[2*d+1] + o.c0*total[n-1]
		out[d] = total[2*d] + w[d]*v
		if diag != nil {
			diag[d] = v
		}
	}
	if o.dim > o.columns {
		out[o.columns] = total[n-2]
	}
}

// ValueGrad implements Objective.
func (o *Expected) ValueGrad(w, grad []float64) float64 {
	if grad != nil && o.cached && o.cachedEps == o.eps && slices.Equal(w, o.w) {
		copy(grad, o.residual)
		return o.value
	}
	o.setPair(w, w)
	b, base, smoothing := o.bias(w), o.constantVariance(w, w), o.eps*o.eps
	var total []float64
	if grad != nil {
		total = o.total
		copy(o.w, w)
		o.hasSecond, o.cached = false, false
	}
	o.pass()
	value := o.sum.Sum(total, func(lo, hi int, acc []float64) float64 {
		sum := 0.0
		z := o.rowBuffer()
		for n := lo; n < hi; n++ {
			if !o.counts(n) {
				continue
			}
			s, h, u, _ := o.gather(n, z)
			l, y := o.target(n)
			var p rowGradient
			for k, a := range o.views {
				i := n*len(o.views) + k
				m := o.m[i]
				if m == 0 {
					continue
				}
				f, v := a.keep*s+(h+b), a.spread*u+base
				value, df, dv := l.At(y, f, v+smoothing)
				sum += m * value
				if acc != nil {
					o.f[i], o.v[i], o.df[i], o.dv[i] = f, v, df, dv
					p.add(a, m*df, 2*m*dv)
				}
			}
			if acc != nil {
				o.scatter(acc, n, p, z.z)
			}
		}
		return sum
	})
	if grad != nil {
		o.unpack(total, w, grad, o.shrink)
	}
	return value + o.p.Penalty.ValueGrad(w, grad)
}

// secondDerivatives computes the second derivatives at the point of the last gradient.
func (o *Expected) secondDerivatives() {
	if o.hasSecond {
		return
	}
	o.hasSecond = true
	o.eachView(func(_, i int) {
		l, y := o.target(i / len(o.views))
		if o.majorise {
			o.ff[i], o.fv[i], o.vv[i] = 2*o.dv[i], 0, 0
		} else {
			o.ff[i], o.fv[i], o.vv[i] = l.At2(y, o.f[i], o.v[i]+o.eps*o.eps)
		}
	})
}

// Majorise makes HessVec and Diagonal use the matrix of IRLS instead of the Hessian. The matrix is R + kappa sum m
// gamma (x x' + V) with gamma = 2 dv. For the bounds of Chen et al. the quadratic with this matrix lies above J and
// touches it.
func (o *Expected) Majorise(on bool) {
	o.hasSecond = o.hasSecond && o.majorise == on
	o.majorise = on
}

// HessVec implements HessianVector.
func (o *Expected) HessVec(v, out []float64) {
	o.secondDerivatives()
	b := o.bias(v)
	if o.groups == nil && (!o.noisy || o.majorise) {
		o.pass()
		// Summing one value per column instead of two takes a third less time.
		o.sum.Sum(o.total[:o.columns+1], func(lo, hi int, acc []float64) float64 {
			for n := lo; n < hi; n++ {
				if o.hessianSums(n) == (hessianSums{}) {
					continue
				}
				row := o.p.Data.Row(n)
				s, h := o.dot(row, v)
				var p rowGradient
				for k, view := range o.views {
					i := n*len(o.views) + k
					p.add(view, o.m[i]*o.ff[i]*(view.keep*s+(h+b)), 0)
				}
				o.addTo(row, acc, p)
				acc[o.columns] += p.one
			}
			return 0
		})
		for d, v := range v {
			out[d] = o.total[d] + o.p.Penalty.R[d]*v
			if d < o.columns && o.noisy {
				out[d] += o.shrink[d] * v
			}
		}
		return
	}
	// w_d and v_d are adjacent in memory, so z = V w needs no separate gather or scatter.
	base := o.constantVariance(o.w, v)
	o.setPair(v, o.w)
	total := o.total[:o.columns+2] // the last two elements are sums for the intercept and for c0 w
	o.pass()
	o.sum.Sum(total, func(lo, hi int, acc []float64) float64 {
		z := o.rowBuffer()
		for n := lo; n < hi; n++ {
			e := o.hessianSums(n)
			if e == (hessianSums{}) {
				continue
			}
			s, h, t, _ := o.gather(n, z)
			p := o.hessianPull(n, s, h+b, t, base)
			r := o.p.Data.Row(n)
			if r.addMixed(acc, z.z, p.x, p.v); o.dead != nil {
				for _, c := range r.Index {
					acc[c] += (p.one - p.x) * o.dead[c]
				}
			}
			for j, za := range z.za[:min(len(z.za), r.Len())] {
				acc[r.Index[j]] += e.v * za
			}
			acc[o.columns] += p.one
			acc[o.columns+1] += p.v
		}
		return 0
	})
	for d, v := range v {
		out[d] = total[d] + o.p.Penalty.R[d]*v
		if d < o.columns && o.groups == nil {
			out[d] += o.shrink[d]*v + o.c0*total[o.columns+1]*o.w[d]
		}
	}
}

// Diagonal writes the diagonal of the matrix of HessVec to out, as a preconditioner. It leaves out the mixed terms of
// the exact Hessian.
func (o *Expected) Diagonal(out []float64) {
	o.secondDerivatives()
	if o.hessianFollowsShrink() {
		for d, v := range o.shrink {
			out[d] = v + v/o.c2 + o.p.Penalty.R[d]
		}
		if o.dim > o.columns {
			sum := o.p.Penalty.R[o.columns]
			for i, m := range o.m {
				sum += m * o.ff[i]
			}
			out[o.columns] = sum
		}
		return
	}
	shrink := o.variances()
	clear(out)
	o.pass()
	d := o.p.Data
	o.sum.Sum(out, func(lo, hi int, acc []float64) float64 {
		for n := lo; n < hi; n++ {
			bend := o.hessianSums(n)
			if bend == (hessianSums{}) {
				continue
			}
			r := d.Row(n)
			for j, c := range r.Index {
				x, dead := o.apart(r.At(j), c)
				acc[c] += bend.xx*x*x + 2*bend.x1*x*dead + bend.one*dead*dead
			}
			if o.dim > o.columns {
				acc[o.columns] += bend.one
			}
		}
		return 0
	})
	for i := range out {
		if i < o.columns && o.noisy {
			out[i] += shrink[i]
		}
		out[i] += o.p.Penalty.R[i]
	}
}

// hessianFollowsShrink reports whether the sum of ff x_d^2 is a multiple of shrink and needs no pass over the data.
// This requires ff = 2 dv for every row, as for the expectation under Gaussian noise. It also requires that V_d is a
// multiple of x_d^2.
func (o *Expected) hessianFollowsShrink() bool {
	if o.c0 != 0 || o.c1 != 0 || o.c2 == 0 || o.groups != nil || len(o.views) > 1 {
		return false
	}
	for i, m := range o.m {
		if m != 0 && !(math.Abs(o.ff[i]-2*o.dv[i]) <= 1e-9*o.ff[i]) {
			return false
		}
	}
	return true
}

// Dot returns a.b, summed in the order of the elements.
func Dot(a, b []float64) float64 {
	s := 0.0
	for i, v := range a {
		s += v * b[i]
	}
	return s
}

// FirstNegative returns the first row with a negative value, or -1 if no value is negative.
func (d *Data) FirstNegative() int {
	for i := range d.rows {
		r := d.Row(i)
		for j := range r.Index {
			if r.At(j) < 0 {
				return i
			}
		}
	}
	return -1
}

// IsConvex reports whether the objective is convex.
func (o *Expected) IsConvex() bool { return o.convex }

// direction writes the solution p of H p = -grad. It solves in the dual if dual is set and the dual is faster. Otherwise
// it uses Cholesky's method if forming the matrix is worth its cost. The result ok is false if conjugate gradients are
// faster.
func (o *Expected) direction(ctx context.Context, grad, p []float64, forcing float64, dual bool) (ok bool, err error) {
	if dual {
		if d := o.dual(); d != nil {
			return true, d.direction(ctx, grad, p, forcing)
		}
	}
	if a := o.dense(); a != nil {
		return true, solveDense(a, grad, p)
	}
	return false, nil
}

// formable reports whether forming the matrix with dense is faster than conjugate gradients.
func (o *Expected) formable() bool {
	if o.outer == 0 {
		for _, r := range o.p.Data.rows {
			o.outer += int(r.n) * int(r.n)
		}
	}
	return o.dim <= 1024 && o.outer <= 50*o.p.Data.entries
}

// dense returns the matrix of HessVec, or nil if conjugate gradients are faster. Conjugate gradients are faster for
// many columns. They are also faster if the outer products of long rows cost more than dozens of matrix-vector
// products.
func (o *Expected) dense() *mat.SymDense {
	if !o.formable() {
		return nil
	}
	n := o.dim
	o.secondDerivatives()
	if o.denseSum == nil {
		o.denseSum = newSummerOf(o.p.Data, o.outer/2, n*n+2*n, o.p.Threads)
		o.denseTotal = make([]float64, n*n+2*n)
	}
	mixed := false
	for i, m := range o.m {
		mixed = mixed || m != 0 && (o.fv[i] != 0 || o.vv[i] != 0)
	}
	o.pass()
	o.setPair(o.w, o.w)
	// A view adds ff x x' + 2 fv (x z' + z x') + 4 vv z z' with z = V w. The slice a holds the matrix for the part of z
	// in the row's columns. The slice side holds two vectors with the sums of the rest of z, which is c0 w.
	o.denseSum.Sum(o.denseTotal, func(lo, hi int, acc []float64) float64 {
		a, side := acc[:n*n], acc[n*n:]
		var x, z, dead []float64
		buffer := o.rowBuffer()
		for i := lo; i < hi; i++ {
			if !o.counts(i) {
				continue
			}
			e := o.hessianSums(i)
			if e == (hessianSums{}) {
				continue
			}
			r := o.p.Data.Row(i)
			x, z, dead = x[:0], z[:0], dead[:0]
			for j, c := range r.Index {
				v, constant := o.apart(r.At(j), c)
				x, dead = append(x, v), append(dead, constant)
				z = append(z, v*(o.c1+o.c2*v)*o.w[c])
			}
			if o.groups != nil {
				o.gather(i, buffer)
				copy(z, buffer.z)
				o.groups.addTo(a, n, r, e.v, o.dead, buffer.sums)
			}
			for j, c := range r.Index {
				row := a[int(c)*n : int(c)*n+n]
				bx, bz := e.xx*x[j]+e.x1*dead[j]+e.xz*z[j], e.xz*x[j]+e.z1*dead[j]+e.zz*z[j]
				one := e.x1*x[j] + e.one*dead[j] + e.z1*z[j]
				switch {
				case o.dead != nil:
					for k, d := range r.Index[j:] {
						row[d] += bx*x[j+k] + one*dead[j+k] + bz*z[j+k]
					}
				case mixed:
					for k, d := range r.Index[j:] {
						row[d] += bx*x[j+k] + bz*z[j+k]
					}
				default:
					for k, d := range r.Index[j:] {
						row[d] += bx * x[j+k]
					}
				}
				if n > o.columns {
					row[o.columns] += one
				}
				if o.c0 != 0 {
					side[c] += bz
				}
			}
			if n > o.columns {
				a[n*n-1] += e.one
				side[o.columns] += e.z1
			}
			side[n] += e.zz
		}
		return 0
	})
	a, side := o.denseTotal[:n*n], o.denseTotal[n*n:]
	if o.c0 != 0 {
		weight := func(i int) float64 {
			if i < o.columns {
				return o.c0 * o.w[i]
			}
			return 0
		}
		for i := range n {
			for j := i; j < n; j++ {
				a[i*n+j] += side[i]*weight(j) + weight(i)*side[j] + side[n]*weight(i)*weight(j)
			}
		}
	}
	for i := range n {
		if i < o.columns && o.noisy && o.groups == nil {
			a[i*n+i] += o.shrink[i]
		}
		a[i*n+i] += o.p.Penalty.R[i]
	}
	return mat.NewSymDense(n, append([]float64(nil), a...))
}
