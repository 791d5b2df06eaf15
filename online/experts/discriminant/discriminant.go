// Package discriminant has an expert that is a linear discriminant (Fisher 1936). It uses class means and one covariance
// within classes. Of all experts it learns fastest if there are many classes with few events each.
package discriminant

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/online/encode"
	"blankout/online/experts"
)

// Expert scores classes by
//
//	f_k = w_k'x + b_k - norm,  w_k = S^-1 m_k,  b_k = log(n_k/n) - w_k'm_k/2,
//
// where m_k is the mean of the numbers x over the n_k events of class k, and n is the number of all events. S is the
// covariance within classes, and norm is the mean of log sum_k exp(f_k). The base score is not used. S decays with the
// half-life of the second-order expert.
type Expert struct {
	outputs int
	keep    float64 // decay factor of the scatter per event
	columns []uint32
	counts  []float64 // n_k by output
	means   []float64 // m_k by output and column
	scatter []float64 // total times S, a full matrix
	total   float64
	learned uint64
	norm    float64
	weights []float64 // weights by output and column, from the last call of solve
	bias    []float64
}

const (
	// The discriminant is used if there are more than fewClasses classes. With ten classes it reduced the loss by up to
	// 0.03 nats on some streams, and increased the loss by as much on others.
	fewClasses = 16
	// A class mean is over the last mostClassEvents events of the class, and norm is over the last normEvents events.
	mostClassEvents, normEvents = 1000, 500
	// Weights are solved every solveEvery events. At the start of a stream they are solved every solveFirst events.
	solveEvery, solveFirst = 256, 32
	// If there are more than wideColumns columns, only a sample of the events is added to the scatter: one in
	// columns/wideColumns.
	wideColumns = 32
	// S is regularized by leastScatter times the identity matrix, and by firstEvents events with the identity as
	// covariance.
	leastScatter, firstEvents = 0.1, 2.0
	// unseen is the amount by which the score of a class without events is lower.
	unseen = 30
)

// New returns an Expert without columns. halfLife is the half-life of the scatter in events, or 0 for no decay.
func New(outputs int, halfLife float64) *Expert {
	d := &Expert{outputs: outputs, keep: 1}
	if halfLife > 0 {
		d.keep = math.Exp2(-1 / halfLife)
	}
	d.begin(nil)
	return d
}

// begin resets the expert, and sets its columns.
func (d *Expert) begin(columns []uint32) {
	n, k := len(columns), d.outputs
	*d = Expert{
		outputs: k, keep: d.keep, columns: columns, counts: make([]float64, k), means: make([]float64, k*n), scatter: make([]float64, n*n),
		weights: make([]float64, k*n), bias: make([]float64, k),
	}
}

var names = []string{"discriminant"}

// Names implements experts.Expert.
func (d *Expert) Names() []string { return names }

// Follow implements experts.Expert. A new column starts with variance 1, as if its value had been the mean in all events.
func (d *Expert) Follow(columns []uint32, numbers int) {
	if columns = columns[:numbers]; d.outputs <= fewClasses || !experts.PairsFit(numbers, d.outputs) {
		columns = nil
	}
	if slices.Equal(columns, d.columns) {
		return
	}
	was := *d
	if d.begin(slices.Clone(columns)); len(was.columns) == 0 || len(columns) == 0 {
		return
	}
	d.counts, d.total, d.learned, d.norm, d.bias = was.counts, was.total, was.learned, was.norm, was.bias
	n, m := len(columns), len(was.columns)
	for i, column := range columns {
		at, known := slices.BinarySearch(was.columns, column)
		if !known {
			d.scatter[i*n+i] = d.total
			continue
		}
		for k := range d.outputs {
			d.means[k*n+i], d.weights[k*n+i] = was.means[k*m+at], was.weights[k*m+at]
		}
		for j, other := range columns {
			if to, known := slices.BinarySearch(was.columns, other); known {
				d.scatter[i*n+j] = was.scatter[at*m+to]
			}
		}
	}
}

// Idle implements experts.Expert.
func (d *Expert) Idle() bool { return len(d.columns) == 0 || d.learned < solveFirst }

// Sums implements experts.Expert, as do Sum and Scores. The sums are the scores.
func (d *Expert) Sums() int { return d.outputs }

func (d *Expert) Scores(sums, _ []float64) []float64 { return sums }

func (d *Expert) Sum(in *experts.Input, out []float64) {
	n := len(d.columns)
	for k := range out {
		f, w := in.One*(d.bias[k]-d.norm), d.weights[k*n:][:n]
		for i, at := range in.Index {
			if at >= n {
				break
			}
			f += in.X[i] * w[at]
		}
		out[k] = f
	}
}

// Learn implements experts.Expert.
func (d *Expert) Learn(in *experts.Input, _, scores, target []float64, active int, weight float64) {
	class := slices.Index(target[:active], 1)
	if class < 0 || len(d.columns) == 0 {
		return
	}
	d.center(scores, active, weight)
	n := len(d.columns)
	off, mean := make([]float64, n), d.means[class*n:][:n]
	for i, at := range in.Index {
		if at < n {
			off[at] = in.X[i]
		}
	}
	d.counts[class] += weight
	rate := weight / min(d.counts[class], max(mostClassEvents, weight))
	for i := range off {
		off[i] -= mean[i]
		mean[i] += rate * off[i]
	}
	if every := uint64(max(1, n/wideColumns)); d.learned%every == 0 {
		d.add(off, weight*(1-rate))
	}
	if d.learned++; d.learned%solveEvery == 0 || d.learned < solveEvery && d.learned%solveFirst == 0 {
		d.solve()
	}
}

// center updates norm. Subtracting norm turns the scores into log-odds.
func (d *Expert) center(f []float64, active int, weight float64) {
	most, sum := slices.Max(f[:active]), 0.0
	for _, x := range f[:active] {
		sum += loss.Exp(x - most)
	}
	if by := most + math.Log(sum); by-by == 0 {
		d.norm += by * min(1, weight/min(float64(d.learned+1), normEvents))
	}
}

// add adds an event to the scatter. off holds the deviations of the event's values from its class mean.
func (d *Expert) add(off []float64, weight float64) {
	n := len(off)
	d.total = d.keep*d.total + weight
	for i, x := range off {
		row, x := d.scatter[i*n:][:n], weight*x
		for j, y := range off {
			row[j] = d.keep*row[j] + x*y
		}
	}
}

// solve computes the weights by a Cholesky factorization of the scatter. It shrinks the means of classes with few
// events towards the overall mean.
func (d *Expert) solve() {
	n, all := len(d.columns), 0.0
	l := d.factor()
	for _, count := range d.counts {
		all += count
	}
	mean := make([]float64, n)
	for k, count := range d.counts {
		w := d.weights[k*n:][:n]
		if d.bias[k] = d.norm - unseen; count == 0 {
			continue
		}
		for i := range mean {
			mean[i] = d.means[k*n+i] * count / (count + 1)
		}
		for i := range n {
			w[i] = (d.total + firstEvents) * mean[i]
			for h, x := range w[:i] {
				w[i] -= l[i*n+h] * x
			}
			w[i] /= l[i*n+i]
		}
		for i := n - 1; i >= 0; i-- {
			for h := i + 1; h < n; h++ {
				w[i] -= l[h*n+i] * w[h]
			}
			w[i] /= l[i*n+i]
		}
		d.bias[k] = math.Log(count / all)
		for i, x := range mean {
			d.bias[k] -= w[i] * x / 2
		}
	}
}

// factor returns L with L L' equal to the regularized scatter.
func (d *Expert) factor() []float64 {
	n, l := len(d.columns), slices.Clone(d.scatter)
	for j := range n {
		l[j*n+j] += firstEvents + leastScatter*d.total
		for i := j; i < n; i++ {
			s := l[i*n+j]
			for h := range j {
				s -= l[i*n+h] * l[j*n+h]
			}
			if l[i*n+j] = s / l[j*n+j]; i == j {
				l[i*n+j] = math.Sqrt(max(s, 1e-9))
			}
		}
	}
	return l
}

// Base implements experts.Expert.
func (d *Expert) Base(int) float64 { return -1 }

// Move implements experts.Expert.
func (d *Expert) Move(m *encode.Move) {
	i, known := slices.BinarySearch(d.columns, m.Column)
	if !known {
		return
	}
	if m.Renews {
		d.renew(i)
		return
	}
	n, ratio, shift := len(d.columns), m.Ratio, m.Shift
	for k := range d.outputs {
		d.means[k*n+i] = (d.means[k*n+i] - shift) / ratio
		d.bias[k] += shift * d.weights[k*n+i]
		d.weights[k*n+i] *= ratio
	}
	for j := range n {
		d.scatter[i*n+j] /= ratio
		d.scatter[j*n+i] /= ratio
	}
}

// renew forgets the weights of a column.
func (d *Expert) renew(i int) {
	n := len(d.columns)
	for k := range d.outputs {
		d.means[k*n+i], d.weights[k*n+i] = 0, 0
	}
	for j := range n {
		d.scatter[i*n+j], d.scatter[j*n+i] = 0, 0
	}
	d.scatter[i*n+i] = d.total
}

// Rescale does nothing, because regression has no discriminant.
func (d *Expert) Rescale(_, _, _ float64) {}

// Regroup implements experts.Expert.
func (d *Expert) Regroup(from [][]int) (factor float64) {
	was, n := *d, len(d.columns)
	d.outputs = len(from)
	d.begin(was.columns)
	d.scatter, d.total, d.learned, d.norm = was.scatter, was.total, was.learned, was.norm
	for k, list := range from {
		for _, of := range list {
			of = max(of, ^of) // a discriminant for two classes has no columns
			d.counts[k] += was.counts[of]
			for i := range n {
				d.means[k*n+i] += was.counts[of] * was.means[of*n+i]
			}
		}
		for i := range n {
			d.means[k*n+i] /= max(d.counts[k], 1e-9)
		}
	}
	d.solve()
	return 1
}

// Forget multiplies the scatter's weight by keep.
func (d *Expert) Forget(keep float64) {
	d.total *= keep
	for i := range d.scatter {
		d.scatter[i] *= keep
	}
}

// State encodes or decodes the expert. The reader must follow the same columns.
func (d *Expert) State(c *coder.Coder) {
	c.Uint(&d.learned)
	c.Each(&d.total, &d.norm)
	for _, list := range []*[]float64{&d.counts, &d.means, &d.scatter, &d.weights, &d.bias} {
		n := len(*list)
		if c.Floats(list); len(*list) != n {
			c.Failed = true
			d.begin(d.columns)
			return
		}
	}
}

// LearnsAll reports that the expert learns confident events too: it describes the events of each class.
func (d *Expert) LearnsAll() {}
