// Package kernel trains kernel machines exactly, the support vector machine and
// DropSVM, on the Data and with the solver of package batch, and holds their models.
package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"blankout"
	"blankout/batch"
)

// Polynomial is (1 + x.y)^Degree.
type Polynomial struct{ Degree int }

func (k Polynomial) Pair(x, y float64) float64 { return x * y }
func (k Polynomial) Scalar() bool              { return true }
func (k Polynomial) Of(xy, _, _ float64) float64 {
	p, b := 1.0, 1+xy
	for n := k.Degree; n > 0; n >>= 1 {
		if n&1 == 1 {
			p *= b
		}
		b *= b
	}
	return p
}
func (k Polynomial) String() string { return "poly:" + strconv.Itoa(k.Degree) }

// RBF is exp(-|x-y|^2/(2 Sigma^2)). Sigma 0 stands for the mean distance
// of two different training examples, see [Resolve].
type RBF struct{ Sigma float64 }

func (k RBF) Pair(x, y float64) float64     { return x * y }
func (k RBF) Scalar() bool                  { return true }
func (k RBF) Of(xy, xx, yy float64) float64 { return gaussianOf(xy, xx, yy, k.Sigma) }
func (k RBF) String() string                { return "rbf" + formatSigma(k.Sigma) }

// Chi2 is exp(-d/(2 Sigma^2)) with the chi-squared distance
// d = sum (x_d - y_d)^2/(x_d + y_d) of features that are not negative (Tran
// 2016, section 4, for histograms). With s(x, y) = sum 2 x_d y_d/(x_d + y_d) the
// distance is s(x, x) + s(y, y) - 2 s(x, y), as in [RBF].
type Chi2 struct{ Sigma float64 }

func (k Chi2) Scalar() bool                  { return false }
func (k Chi2) Of(xy, xx, yy float64) float64 { return gaussianOf(xy, xx, yy, k.Sigma) }
func (k Chi2) String() string                { return "chi2" + formatSigma(k.Sigma) }

// Pair is 2 x y/(x + y).
func (Chi2) Pair(x, y float64) float64 {
	if x+y <= 0 {
		return 0
	}
	return 2 * x * y / (x + y)
}

func gaussianOf(xy, xx, yy, sigma float64) float64 {
	return math.Exp(-max(xx+yy-2*xy, 0) / (2 * sigma * sigma))
}

func formatSigma(sigma float64) string {
	if sigma == 0 {
		return ""
	}
	return ":" + strconv.FormatFloat(sigma, 'g', -1, 64)
}

// Parse reads linear, rbf[:SIGMA], poly:DEGREE or chi2[:SIGMA].
func Parse(s string) (batch.Kernel, error) {
	name, arg, has := strings.Cut(s, ":")
	switch name {
	case "linear":
		if has {
			return nil, fmt.Errorf("kernel %q: linear takes no parameter", s)
		}
		return batch.LinearKernel{}, nil
	case "poly":
		d, err := strconv.Atoi(arg)
		if err != nil || d < 1 || d > 100 {
			return nil, fmt.Errorf("kernel %q: want poly:DEGREE with a degree from 1 to 100", s)
		}
		return Polynomial{d}, nil
	case "rbf", "chi2":
		sigma := 0.0
		if has {
			var err error
			if sigma, err = strconv.ParseFloat(arg, 64); err != nil || !(sigma >= 1e-100 && sigma <= 1e100) {
				return nil, fmt.Errorf("kernel %q: the width %q is not a positive number", s, arg)
			}
		}
		if name == "rbf" {
			return RBF{sigma}, nil
		}
		return Chi2{sigma}, nil
	}
	return nil, fmt.Errorf("kernel %q: want linear, rbf[:SIGMA], poly:DEGREE or chi2[:SIGMA]", s)
}

// Resolve checks that k can be computed on d and fills a width that is
// left open with the mean distance of two different examples (Tran 2016,
// section 4): of all pairs, or of 100,000 pairs drawn with a fixed seed where
// there are more. Where every distance is zero the width is 1.
func Resolve(k batch.Kernel, d *batch.Data) (batch.Kernel, error) {
	if _, ok := k.(Chi2); ok {
		for i := range d.Rows() {
			row := d.Row(i)
			for j := range row.Len() {
				if row.At(j) < 0 {
					return nil, fmt.Errorf("kernel chi2: example %d holds %v in column %d; it is for features that are not negative", i, row.At(j), d.Column(int(row.Index[j])))
				}
			}
		}
	}
	switch t := k.(type) {
	case RBF:
		if t.Sigma == 0 {
			t.Sigma = meanDistance(k, d)
		}
		return t, checkSigma(t.Sigma)
	case Chi2:
		if t.Sigma == 0 {
			t.Sigma = meanDistance(k, d)
		}
		return t, checkSigma(t.Sigma)
	}
	return k, nil
}

func checkSigma(sigma float64) error {
	if !(sigma*sigma > 0 && sigma*sigma < math.Inf(1)) {
		return fmt.Errorf("the kernel's width %v is out of range: rescale the features", sigma)
	}
	return nil
}

func meanDistance(k batch.Kernel, d *batch.Data) float64 {
	self := batch.SelfSums(k, d)
	distance := func(i, j int) float64 {
		return math.Sqrt(max(self[i]+self[j]-2*pairSum(k, d.Row(i), d.Row(j)), 0))
	}
	n, sum, count := d.Rows(), 0.0, 0
	const most = 100_000
	if n*(n-1)/2 <= most {
		for i := range n {
			for j := range i {
				sum += distance(i, j)
				count++
			}
		}
	} else {
		r := rand.New(rand.NewPCG(1, 0))
		for count < most {
			if i, j := r.IntN(n), r.IntN(n); i != j {
				sum += distance(i, j)
				count++
			}
		}
	}
	if sum == 0 {
		return 1
	}
	return sum / float64(count)
}

// pairSum returns s(x, y) by a merge of the two rows.
func pairSum(k batch.Kernel, x, y batch.Row) float64 {
	s, j := 0.0, 0
	for i, d := range x.Index {
		for j < len(y.Index) && y.Index[j] < d {
			j++
		}
		if j < len(y.Index) && y.Index[j] == d {
			s += k.Pair(x.At(i), y.At(j))
		}
	}
	return s
}

// Gram is a symmetric matrix in memory, usually k(x_i, x_j) of all pairs.
type Gram struct {
	n    int
	data []float64
}

// NewGram computes the Gram matrix of all examples: 8 n^2 bytes. It is the same
// to the bit for any number of threads. The kernel must be resolved. An error
// means that a value is not finite.
func NewGram(k batch.Kernel, d *batch.Data, threads int) (*Gram, error) {
	rows := batch.NewKernelRows(k, d)
	g := &Gram{n: d.Rows(), data: make([]float64, d.Rows()*d.Rows())}
	var failed atomic.Bool
	batch.Parallel(threads, g.n, func(i int) {
		out := g.Row(i)
		rows.Row(i, out, 1)
		for _, v := range out {
			if v-v != 0 {
				failed.Store(true)
			}
		}
	})
	if failed.Load() {
		return nil, fmt.Errorf("kernel %s: a value is not finite: rescale the features", k)
	}
	return g, nil
}

// Len returns the number of rows.
func (g *Gram) Len() int { return g.n }

// Row returns row i of the matrix, not a copy.
func (g *Gram) Row(i int) []float64 { return g.data[i*g.n : (i+1)*g.n : (i+1)*g.n] }

// At returns the element in row i and column j.
func (g *Gram) At(i, j int) float64 { return g.data[i*g.n+j] }

// Diagonal returns a copy of the diagonal.
func (g *Gram) Diagonal() []float64 {
	out := make([]float64, g.n)
	for i := range out {
		out[i] = g.At(i, i)
	}
	return out
}

// support is the sum f(x) = sum_j coef_j k(x, x_j) over support vectors,
// for several outputs at once.
type support struct {
	kernel  batch.Kernel
	rows    *batch.KernelRows
	vectors int
	columns []uint32  // of the Schema, ascending, by the support's own column
	coef    []float64 // support vector j, output k: coef[j*outputs+k]
	outputs int
}

func newSupport(k batch.Kernel, d *batch.Data, coef []float64, outputs int) *support {
	s := &support{kernel: k, rows: batch.NewKernelRows(k, d), vectors: d.Rows(), columns: make([]uint32, d.Columns()), coef: coef, outputs: outputs}
	for c := range s.columns {
		s.columns[c] = d.Column(c)
	}
	return s
}

// add adds f(scale x) to out.
func (s *support) add(x blankout.Vec, scale float64, out []float64) {
	columns, values := make([]uint32, 0, x.Len()), make([]float64, 0, x.Len())
	xx, from := 0.0, 0
	for i, d := range x.Index {
		v := scale * x.Value[i]
		xx += s.kernel.Pair(v, v)
		c, ok := slices.BinarySearch(s.columns[from:], d)
		from += c
		if ok {
			columns, values = append(columns, uint32(from)), append(values, v)
		}
	}
	k := make([]float64, s.vectors)
	s.rows.Into(columns, values, xx, k, 1)
	for j, kj := range k {
		for o := range s.outputs {
			out[o] += s.coef[j*s.outputs+o] * kj
		}
	}
}
