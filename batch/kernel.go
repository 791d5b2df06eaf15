package batch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"blankout"
)

// Kernel is a positive semidefinite similarity of two feature vectors. Every
// kernel here is a function of three sums: s(x, y), s(x, x) and s(y, y), where
// s is the scalar product, or for [RBFChi2Kernel] its chi-squared counterpart.
// So only columns that two vectors share cost anything.
type Kernel interface {
	// Of returns k(x, y) from the sums s(x, y), s(x, x) and s(y, y).
	Of(xy, xx, yy float64) float64
	// String returns the form that ParseKernel reads.
	String() string
}

// LinearKernel is x.y.
type LinearKernel struct{}

func (LinearKernel) Of(xy, _, _ float64) float64 { return xy }
func (LinearKernel) String() string              { return "linear" }

// PolynomialKernel is (1 + x.y)^Degree.
type PolynomialKernel struct{ Degree int }

func (k PolynomialKernel) Of(xy, _, _ float64) float64 {
	p, b := 1.0, 1+xy
	for n := k.Degree; n > 0; n >>= 1 {
		if n&1 == 1 {
			p *= b
		}
		b *= b
	}
	return p
}
func (k PolynomialKernel) String() string { return "poly:" + strconv.Itoa(k.Degree) }

// RBFKernel is exp(-|x-y|^2/(2 Sigma^2)). Sigma 0 stands for the mean distance
// of two different training examples, see [ResolveKernel].
type RBFKernel struct{ Sigma float64 }

func (k RBFKernel) Of(xy, xx, yy float64) float64 { return gaussianOf(xy, xx, yy, k.Sigma) }
func (k RBFKernel) String() string                { return "rbf" + formatSigma(k.Sigma) }

// RBFChi2Kernel is exp(-d/(2 Sigma^2)) with the chi-squared distance
// d = sum (x_d - y_d)^2/(x_d + y_d) of features that are not negative (Tran
// 2016, section 4, for histograms). With s(x, y) = sum 2 x_d y_d/(x_d + y_d) the
// distance is s(x, x) + s(y, y) - 2 s(x, y), as in [RBFKernel].
type RBFChi2Kernel struct{ Sigma float64 }

func (k RBFChi2Kernel) Of(xy, xx, yy float64) float64 { return gaussianOf(xy, xx, yy, k.Sigma) }
func (k RBFChi2Kernel) String() string                { return "chi2" + formatSigma(k.Sigma) }

func gaussianOf(xy, xx, yy, sigma float64) float64 {
	return math.Exp(-max(xx+yy-2*xy, 0) / (2 * sigma * sigma))
}

func formatSigma(sigma float64) string {
	if sigma == 0 {
		return ""
	}
	return ":" + strconv.FormatFloat(sigma, 'g', -1, 64)
}

// ParseKernel reads linear, rbf[:SIGMA], poly:DEGREE or chi2[:SIGMA].
func ParseKernel(s string) (Kernel, error) {
	name, arg, has := strings.Cut(s, ":")
	switch name {
	case "linear":
		if has {
			return nil, fmt.Errorf("kernel %q: linear takes no parameter", s)
		}
		return LinearKernel{}, nil
	case "poly":
		d, err := strconv.Atoi(arg)
		if err != nil || d < 1 || d > 100 {
			return nil, fmt.Errorf("kernel %q: want poly:DEGREE with a degree from 1 to 100", s)
		}
		return PolynomialKernel{d}, nil
	case "rbf", "chi2":
		sigma := 0.0
		if has {
			var err error
			if sigma, err = strconv.ParseFloat(arg, 64); err != nil || !(sigma >= 1e-100 && sigma <= 1e100) {
				return nil, fmt.Errorf("kernel %q: the width %q is not a positive number", s, arg)
			}
		}
		if name == "rbf" {
			return RBFKernel{sigma}, nil
		}
		return RBFChi2Kernel{sigma}, nil
	}
	return nil, fmt.Errorf("kernel %q: want linear, rbf[:SIGMA], poly:DEGREE or chi2[:SIGMA]", s)
}

// ResolveKernel checks that k can be computed on d and fills a width that is
// left open with the mean distance of two different examples (Tran 2016,
// section 4): of all pairs, or of 100,000 pairs drawn with a fixed seed where
// there are more. Where every distance is zero the width is 1.
func ResolveKernel(k Kernel, d *Data) (Kernel, error) {
	if _, ok := k.(RBFChi2Kernel); ok {
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
	case RBFKernel:
		if t.Sigma == 0 {
			t.Sigma = meanDistance(k, d)
		}
		return t, checkSigma(t.Sigma)
	case RBFChi2Kernel:
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

func meanDistance(k Kernel, d *Data) float64 {
	pair := pairing(k)
	self := selfSums(pair, d)
	distance := func(i, j int) float64 {
		return math.Sqrt(max(self[i]+self[j]-2*pairSum(pair, d.Row(i), d.Row(j)), 0))
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

// pairing returns the term of s(x, y) for a column that both vectors have.
func pairing(k Kernel) func(x, y float64) float64 {
	if _, ok := k.(RBFChi2Kernel); ok {
		return chi2
	}
	return func(x, y float64) float64 { return x * y }
}

func chi2(x, y float64) float64 {
	if x+y <= 0 {
		return 0
	}
	return 2 * x * y / (x + y)
}

// pairSum returns s(x, y) by a merge of the two rows.
func pairSum(pair func(x, y float64) float64, x, y Row) float64 {
	s, j := 0.0, 0
	for i, d := range x.Index {
		for j < len(y.Index) && y.Index[j] < d {
			j++
		}
		if j < len(y.Index) && y.Index[j] == d {
			s += pair(x.At(i), y.At(j))
		}
	}
	return s
}

func selfSums(pair func(x, y float64) float64, d *Data) []float64 {
	self := make([]float64, d.Rows())
	for i := range self {
		row := d.Row(i)
		for j := range row.Len() {
			self[i] += pair(row.At(j), row.At(j))
		}
	}
	return self
}

// kernelRows computes k(x, x_j) for all rows x_j of a Data at once, by an index
// of the rows by column: only shared columns are touched, in ascending order, so
// that the value of a pair does not depend on which of the two is x, nor on the
// shard or thread it is computed in.
type kernelRows struct {
	kernel Kernel
	chi2   bool
	self   []float64 // s(x_j, x_j)
	shards []kernelShard
}

// kernelShard indexes the rows lo … hi-1.
type kernelShard struct {
	lo, hi int
	start  []uint32 // by column: its entries are start[c] … start[c+1]-1
	row    []uint32 // counted from lo
	value  []float64
}

const kernelShardRows = 4096

func newKernelRows(k Kernel, d *Data) *kernelRows {
	n := d.Rows()
	_, isChi2 := k.(RBFChi2Kernel)
	r := &kernelRows{kernel: k, chi2: isChi2, self: selfSums(pairing(k), d)}
	shards := min(max(n/kernelShardRows, 1), 16)
	for s := range shards {
		sh := kernelShard{lo: n * s / shards, hi: n * (s + 1) / shards, start: make([]uint32, d.Columns()+1)}
		for i := sh.lo; i < sh.hi; i++ {
			for _, c := range d.Row(i).Index {
				sh.start[c+1]++
			}
		}
		for c := range d.Columns() {
			sh.start[c+1] += sh.start[c]
		}
		entries := sh.start[d.Columns()]
		sh.row, sh.value = make([]uint32, entries), make([]float64, entries)
		next := slices.Clone(sh.start)
		for i := sh.lo; i < sh.hi; i++ {
			row := d.Row(i)
			for j, c := range row.Index {
				sh.row[next[c]], sh.value[next[c]] = uint32(i-sh.lo), row.At(j)
				next[c]++
			}
		}
		r.shards = append(r.shards, sh)
	}
	return r
}

// into writes k(x, x_j) for every j to out. x is given by columns of the Data,
// ascending, and xx = s(x, x).
func (r *kernelRows) into(columns []uint32, values []float64, xx float64, out []float64, threads int) {
	parallel(threads, len(r.shards), func(s int) {
		sh := &r.shards[s]
		acc := out[sh.lo:sh.hi]
		clear(acc)
		for i, c := range columns {
			x := values[i]
			lo, hi := sh.start[c], sh.start[c+1]
			rows, ys := sh.row[lo:hi], sh.value[lo:hi]
			if !r.chi2 {
				for j, y := range ys {
					acc[rows[j]] += x * y
				}
				continue
			}
			for j, y := range ys {
				acc[rows[j]] += chi2(x, y)
			}
		}
		for j, xy := range acc {
			acc[j] = r.kernel.Of(xy, xx, r.self[sh.lo+j])
		}
	})
}

// Gram is a symmetric matrix in memory, usually k(x_i, x_j) of all pairs.
type Gram struct {
	n    int
	data []float64
}

// NewGram computes the Gram matrix of all examples: 8 n^2 bytes. It is the same
// to the bit for any number of threads. The kernel must be resolved. An error
// means that a value is not finite.
func NewGram(k Kernel, d *Data, threads int) (*Gram, error) {
	rows := newKernelRows(k, d)
	g := &Gram{n: d.Rows(), data: make([]float64, d.Rows()*d.Rows())}
	var failed atomic.Bool
	parallel(threads, g.n, func(i int) {
		row := d.Row(i)
		out := g.Row(i)
		rows.into(row.Index, rowValues(row), rows.self[i], out, 1)
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

func rowValues(r Row) []float64 {
	out := make([]float64, r.Len())
	for i := range out {
		out[i] = r.At(i)
	}
	return out
}

// CachedGram is a [Gram] whose rows are computed when they are asked for; the
// ones used last are kept. It is not safe for concurrent use.
type CachedGram struct {
	rows     *kernelRows
	data     *Data
	threads  int
	slots    [][]float64
	slotOf   []int32 // by row, -1 if it is not held
	rowOf    []int32 // by slot
	newer    []int32 // by slot: a ring ordered by use,
	older    []int32
	latest   int32 // from the slot used last
	computed int
}

// NewCachedGram holds as many rows of the Gram matrix as fit in cacheBytes, at
// least two. Diagonal values that are not finite are an error.
func NewCachedGram(k Kernel, d *Data, cacheBytes, threads int) (*CachedGram, error) {
	n := d.Rows()
	slots := min(max(cacheBytes/(8*max(n, 1)), 2), max(n, 2))
	c := &CachedGram{rows: newKernelRows(k, d), data: d, threads: threads,
		slots: make([][]float64, slots), slotOf: make([]int32, n), rowOf: make([]int32, slots),
		newer: make([]int32, slots), older: make([]int32, slots)}
	for i := range c.slotOf {
		c.slotOf[i] = -1
	}
	for s := range c.slots {
		c.rowOf[s] = -1
		c.newer[s], c.older[s] = int32((s+slots-1)%slots), int32((s+1)%slots)
	}
	// |k(x, y)| <= max k(x, x) for a positive semidefinite kernel.
	for i, v := range c.Diagonal() {
		if v-v != 0 {
			return nil, fmt.Errorf("kernel %s: the value of example %d with itself is not finite: rescale the features", k, i)
		}
	}
	return c, nil
}

// Len returns the number of rows.
func (c *CachedGram) Len() int { return len(c.slotOf) }

// Diagonal returns the diagonal.
func (c *CachedGram) Diagonal() []float64 {
	out := make([]float64, len(c.slotOf))
	for i, s := range c.rows.self {
		out[i] = c.rows.kernel.Of(s, s, s)
	}
	return out
}

// Row returns row i. It stays valid until the second next call.
func (c *CachedGram) Row(i int) []float64 {
	s := c.slotOf[i]
	if s < 0 {
		s = c.newer[c.latest] // around the ring: the one not used for longest
		if old := c.rowOf[s]; old >= 0 {
			c.slotOf[old] = -1
		}
		if c.slots[s] == nil {
			c.slots[s] = make([]float64, len(c.slotOf))
		}
		c.slotOf[i], c.rowOf[s] = s, int32(i)
		row := c.data.Row(i)
		c.rows.into(row.Index, rowValues(row), c.rows.self[i], c.slots[s], c.threads)
		c.computed++
	}
	if s != c.latest {
		// Take s out of the ring and put it before the latest.
		n, o := c.newer[s], c.older[s]
		c.older[n], c.newer[o] = o, n
		last := c.newer[c.latest]
		c.older[last], c.newer[s] = s, last
		c.older[s], c.newer[c.latest] = c.latest, s
		c.latest = s
	}
	return c.slots[s]
}

// kernelSupport is the sum f(x) = sum_j coef_j k(x, x_j) over support vectors,
// for several outputs at once.
type kernelSupport struct {
	rows    *kernelRows
	columns []uint32 // of the Schema, ascending, by the support's own column
	pair    func(x, y float64) float64
	coef    []float64 // support vector j, output k: coef[j*outputs+k]
	outputs int
}

func newKernelSupport(k Kernel, d *Data, coef []float64, outputs int) *kernelSupport {
	return &kernelSupport{newKernelRows(k, d), d.columns, pairing(k), coef, outputs}
}

// add adds f(scale x) to out.
func (s *kernelSupport) add(x blankout.Vec, scale float64, out []float64) {
	columns, values := make([]uint32, 0, x.Len()), make([]float64, 0, x.Len())
	xx, from := 0.0, 0
	for i, d := range x.Index {
		v := scale * x.Value[i]
		xx += s.pair(v, v)
		c, ok := slices.BinarySearch(s.columns[from:], d)
		from += c
		if ok {
			columns, values = append(columns, uint32(from)), append(values, v)
		}
	}
	k := make([]float64, len(s.rows.self))
	s.rows.into(columns, values, xx, k, 1)
	for j, kj := range k {
		for o := range s.outputs {
			out[o] += s.coef[j*s.outputs+o] * kj
		}
	}
}
