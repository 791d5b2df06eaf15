package model

// This file computes which readings of an event contradict the event's other readings. Statistics calls such readings
// cellwise outliers.

import (
	"math"
	"slices"
	"sync"

	"blankout/internal/loss"
)

// cells has what the readings of a Covariance's columns are in ordinary events. It is immutable and safe for concurrent
// use.
//
// Let y be the standardized readings of an event, with the correlation S. A reading is alive with a value of its column,
// dead at an atom (a value that dead readings have), or dead with any value of its column. A reading that is dead with
// probability r has observation noise N = 2 r/(1-r). With A = (S + N)^-1 and a = A y, the other readings predict
// reading i with the mean y_i - a_i/A_ii and the variance 1/A_ii - N_i (docs/mathematics.md).
type cells struct {
	*correlation
	columns []CellColumn // by index in the Covariance
	usual   []float64    // Phi^-1 of the fraction of zeros, where 0 is natural
}

// correlation has what cells need of a Covariance.
type correlation struct {
	n        int
	mean, sd []float64
	s        []float64 // correlation, with a ridge on the diagonal
	first    []float64 // (S + N)^-1 for the probability cellStart of every reading; nil if it cannot be computed
	inverse  []float64 // S^-1; nil if it cannot be computed
	related  bool      // the others predict some reading
	idle     sync.Pool // of *cellEvent
}

// relatedVariance is the largest fraction of its variance that a reading which others predict keeps given the others.
const relatedVariance = 0.75

// Related reports whether the other columns predict some column, so that readings can contradict each other.
func (c *Covariance) Related() bool { return c.correlation().related }

// CellColumn has what the readings of one column are in ordinary events.
type CellColumn struct {
	Column uint32 `json:"column"`
	// Zeros is the fraction of readings that are 0. Usual is the most frequent of the first readings, and Often the largest
	// fraction that it has had. Most is the largest fraction of any other value, except 0 where that is natural.
	Zeros float64 `json:"zeros,omitempty"`
	Usual float64 `json:"usual,omitempty"`
	Often float64 `json:"often,omitempty"`
	Most  float64 `json:"most,omitempty"`
	// Least reports that 0 is the smallest reading. Flag reports that the column has at most two values: such a column is
	// never doubted.
	Least bool `json:"least,omitempty"`
	Flag  bool `json:"flag,omitempty"`
	// Fills lists the values of dead readings that have been found: values that began to repeat.
	Fills []float64 `json:"fills,omitempty"`
}

const (
	cellStart   = 0.25 // initial probability that a reading is dead
	cellRidge   = 0.05
	cellSettled = 0.02 // no further round follows if all probabilities change by less
	cellCertain = 0.99 // readings with a larger probability take no further part
	cellMost    = 0.95 // largest fraction of dead readings
	cellWide    = 1.2  // standard deviation of dead readings that have any value
	cellRare    = 1e-4 // probability that an alive reading has the value of a rare atom
	cellNatural = 0.02 // an atom with a larger fraction in ordinary events is natural
)

// cellDamps has, for each round after the first, the fraction of the former probabilities that stays. Fractions below 0
// extrapolate: later rounds move the probabilities in the same direction, by less and less.
var cellDamps = [...]float64{0.3, 0, -0.2, -0.2, -0.2}

// tail is a distribution: Student's t with the given degrees of freedom, or normal for 0.
type tail struct{ freedom, constant float64 }

func newTail(freedom float64) tail {
	t := tail{freedom: freedom, constant: -0.5 * math.Log(2*math.Pi)}
	if freedom > 0 {
		a, _ := math.Lgamma((freedom + 1) / 2)
		b, _ := math.Lgamma(freedom / 2)
		t.constant = a - b - 0.5*math.Log(freedom*math.Pi)
	}
	return t
}

// log returns the logarithm of the density at y.
func (t tail) log(y, mean, variance float64) float64 {
	square := (y - mean) * (y - mean) / variance
	if t.freedom > 0 {
		square = (t.freedom + 1) * math.Log(1+square/t.freedom)
	}
	return t.constant - 0.5*(square+math.Log(variance))
}

var (
	normal   = newTail(0)
	wideDead = normal.constant - math.Log(cellWide) // the logarithm of the largest density of dead readings with any value
)

// tails are the distributions of an alive reading around its prediction. The second one is for events with many zeros: a
// normal distribution would doubt their true readings, which are far from normal in counts and pixels, in place of dead
// zeros. Elsewhere the normal distribution finds more.
var tails = [2]tail{normal, newTail(4)}

// newCorrelation computes the correlation of a Covariance.
func newCorrelation(c *Covariance) *correlation {
	n := len(c.Columns)
	x := &correlation{n: n, mean: c.Mean, sd: make([]float64, n), s: make([]float64, n*n)}
	for i := range n {
		x.sd[i] = math.Sqrt(max(c.Matrix[i*n+i], 1e-6))
	}
	for i := range n {
		for j := range n {
			x.s[i*n+j] = c.Matrix[i*n+j] / (x.sd[i] * x.sd[j])
		}
		x.s[i*n+i] = 1 + cellRidge
	}
	noisy := slices.Clone(x.s)
	for i := range n {
		noisy[i*n+i] += cellNoise(cellStart)
	}
	x.inverse, x.first = inverseOf(n, slices.Clone(x.s)), inverseOf(n, noisy)
	for i := 0; i < n && x.inverse != nil; i++ {
		x.related = x.related || 1/x.inverse[i*n+i] < relatedVariance*(1+cellRidge)
	}
	return x
}

// newCells returns the cells for the columns of a Covariance, or nil if its correlation has no inverse. known ascends by
// Column. A column without an entry in known is never doubted.
func newCells(c *Covariance, known []CellColumn) *cells {
	of := c.correlation()
	if of.first == nil || of.inverse == nil {
		return nil
	}
	x := &cells{correlation: of, columns: make([]CellColumn, of.n), usual: make([]float64, of.n)}
	for i, column := range c.Columns {
		at, ok := slices.BinarySearchFunc(known, column, func(k CellColumn, column uint32) int { return int(k.Column) - int(column) })
		if x.columns[i] = (CellColumn{Column: column, Flag: true}); ok {
			x.columns[i] = known[at]
		}
		p := min(max(x.columns[i].Zeros, cellRare), 1-cellRare)
		if x.columns[i].Zeros = p; p > cellNatural { // else not used
			x.usual[i] = math.Sqrt2 * math.Erfinv(2*p-1)
		}
	}
	return x
}

// cellNoise returns the observation noise of a reading that is dead with probability r.
func cellNoise(r float64) float64 { return 2*r/max(1-r, 1e-3) + 1e-6 }

// The atoms of a reading: none, the value 0, or a fill value.
const (
	noAtom byte = iota
	zeroAtom
	fillAtom
)

// cellEvent has the readings of one event, by index in the Covariance, and what the cells find in them.
type cellEvent struct {
	raw  []float64
	y    []float64 // standardized to mean 0 and deviation 1
	out  []bool    // the event has no such reading
	atom []byte

	zeros int // 1 if the event has many zeros, see countZeros

	r              []float64 // probability that a reading is dead
	x              []float64 // expected reading, given the others, in the unit of y
	first, g       float64   // evidence for dead readings after the first round and at the end, as a log-likelihood ratio
	atoms, others  float64   // expected fractions of dead readings at an atom and of others
	noise, a, d    []float64
	dead           []float64 // likelihood if dead over likelihood if alive, without the factor of the fraction alive
	matrix, solved []float64
	active, noisy  []int // readings that are not certainly dead; readings with noise
	quiet          []int // readings without noise
}

func newCellEvent(n int) *cellEvent {
	f := func() []float64 { return make([]float64, n) }
	return &cellEvent{
		raw: f(), y: f(), out: make([]bool, n), atom: make([]byte, n), r: f(), x: f(), noise: f(), a: f(), d: f(), dead: f(),
		matrix: make([]float64, 2*n*n), solved: f(), active: make([]int, 0, n), noisy: make([]int, 0, n), quiet: make([]int, 0, n),
	}
}

// judged reports whether reading i can be doubted.
func (x *cells) judged(t *cellEvent, i int) bool { return !t.out[i] && !x.columns[i].Flag }

// countZeros sets zeros to 1 if the columns that are often 0 are 0 more often than is expected of them, by more than the
// standard deviation of independent columns.
func (x *cells) countZeros(t *cellEvent) {
	excess, variance := 0.0, 0.0
	for i := range x.n {
		if p := x.columns[i].Zeros; p > cellNatural && x.judged(t, i) {
			if excess, variance = excess-p, variance+p*(1-p); t.atom[i] == zeroAtom {
				excess++
			}
		}
	}
	if t.zeros = 0; excess > math.Sqrt(variance) {
		t.zeros = 1
	}
}

// infer computes r, x and the evidence. If the evidence of the first round is below screen, or no reading predicts another
// and none is a fill value, nothing is doubted and the evidence is negative infinity.
func (x *cells) infer(t *cellEvent, screen float64) {
	t.atoms, t.others = cellStart/2, cellStart/2
	screens, dead := true, false
	for i := range x.n {
		t.r[i] = cellStart
		switch c := &x.columns[i]; {
		case t.out[i]:
			t.r[i] = 1
		case c.Flag:
			t.r[i] = 0
		case t.atom[i] == fillAtom, t.atom[i] == zeroAtom && c.Zeros < cellNatural:
			t.r[i], t.dead[i], dead = 1, cellStart/2/cellRare, true
		}
		screens = screens && !dead && !t.out[i]
	}
	if !dead && !x.related {
		t.first, t.g = 0, math.Inf(-1)
		return
	}
	if t.first = math.Inf(1); screens {
		t.active = t.active[:0]
		for i := range x.n {
			row := x.first[i*x.n:][:x.n]
			t.a[i], t.d[i], t.noise[i] = Product(row, t.y), row[i], cellNoise(cellStart)
			t.active = append(t.active, i)
		}
		x.judge(t, 0)
		t.first = t.g
	}
	if t.first < screen {
		t.g = math.Inf(-1)
		return
	}
	for round, damp := range cellDamps {
		if !screens && round == 0 {
			damp = 0
		}
		if !x.solve(t) || x.judge(t, damp) < cellSettled {
			break
		}
	}
	for i := range x.n {
		t.x[i] = Product(x.s[i*x.n:][:x.n], t.a)
	}
}

// solve computes a and the diagonal d of A. The noise of readings that are hardly doubted counts as 0. It returns false if
// rounding makes that impossible.
func (x *cells) solve(t *cellEvent) bool {
	t.active, t.noisy = t.active[:0], t.noisy[:0]
	for i := range x.n {
		certain := t.out[i] || t.r[i] >= cellCertain
		if t.noise[i] = 0; certain {
			t.noise[i] = math.Inf(1)
		} else if t.r[i] > cellQuiet {
			t.noise[i] = cellNoise(t.r[i])
		}
		if t.noise[i] > 0 {
			t.noisy = append(t.noisy, i)
		}
		if !certain {
			t.active = append(t.active, i)
		}
	}
	if n, k, m := float64(x.n), float64(len(t.noisy)), float64(len(t.active)); k*k*(2*k+3*(n-k)) < 2*m*m*m {
		return x.solveNoisy(t)
	}
	return x.solveActive(t)
}

// cellQuiet is the probability up to which the noise of a reading counts as 0.
const cellQuiet = 0.05

// solveActive implements solve by the inverse of S + N, for the readings that are not certainly dead.
func (x *cells) solveActive(t *cellEvent) bool {
	k := len(t.active)
	matrix, inverse := t.matrix[:k*k], t.matrix[x.n*x.n:][:k*k]
	for a, i := range t.active {
		from, to := x.s[i*x.n:][:x.n], matrix[a*k:][:k]
		for b := a; b < k; b++ {
			to[b] = from[t.active[b]]
		}
		to[a] += t.noise[i]
		t.solved[a] = t.y[i]
	}
	u, ok := factorize(k, matrix)
	if !ok {
		return false
	}
	u.solve(t.solved[:k])
	clear(t.a)
	for a, i := range t.active {
		t.a[i] = t.solved[a]
	}
	u.inverseDiagonal(inverse, t.solved[:k])
	for a, i := range t.active {
		t.d[i] = t.solved[a]
	}
	return true
}

// solveNoisy implements solve by the inverse L of S: A = L - L_K' M^-1 L_K with M = N_K^-1 + L_KK for the readings K with
// noise (Woodbury). For i in K, A_ii is also 1/N_i - (M^-1)_ii / N_i^2, which takes fewer steps.
func (x *cells) solveNoisy(t *cellEvent) bool {
	n, k := x.n, len(t.noisy)
	quiet := t.quiet[:0]
	for i := range n {
		t.a[i] = Product(x.inverse[i*n:][:n], t.y)
		if t.noise[i] == 0 {
			quiet = append(quiet, i)
		}
	}
	matrix := t.matrix[:k*k]
	for a, i := range t.noisy {
		from, to := x.inverse[i*n:][:n], matrix[a*k:][:k]
		for b := a; b < k; b++ {
			to[b] = from[t.noisy[b]]
		}
		to[a] += 1 / t.noise[i]
		t.solved[a] = t.a[i]
	}
	u, ok := factorize(k, matrix)
	if !ok {
		return false
	}
	u.solve(t.solved[:k])
	for a, i := range t.noisy {
		Subtract(t.a, t.solved[a], x.inverse[i*n:][:n])
	}
	x.quietDiagonal(t, u, quiet)
	u.inverseDiagonal(t.matrix[n*n:][:k*k], t.solved[:k])
	for a, i := range t.noisy {
		w := 1 / t.noise[i]
		t.d[i] = w - w*w*t.solved[a]
	}
	return true
}

// quietDiagonal computes the diagonal of A for the readings without noise from the factor u of M: the squares of
// U'^-1 L_K are subtracted from the diagonal of L.
func (x *cells) quietDiagonal(t *cellEvent, u triangle, quiet []int) {
	n, k := x.n, len(quiet)
	if k == 0 {
		return
	}
	for _, j := range quiet {
		t.d[j] = x.inverse[j*n+j]
	}
	rows := t.matrix[n*n:][:u.n*k]
	for a, i := range t.noisy {
		from, row := x.inverse[i*n:][:n], rows[a*k:][:k]
		for c, j := range quiet {
			row[c] = from[j]
		}
	}
	u.solveRows(rows, k, false)
	for a := range t.noisy {
		for c, v := range rows[a*k:][:k] {
			t.d[quiet[c]] -= float64(v * v)
		}
	}
}

// judge updates three estimates: the probability r that an active reading is dead, the fractions of dead readings, and
// the evidence that there are any. A former r keeps the fraction damp. change is the largest change of an r.
func (x *cells) judge(t *cellEvent, damp float64) (change float64) {
	alive, atom, other := 1-t.atoms-t.others, math.Log(t.atoms), math.Log(t.others)
	ratios := t.solved[:0]
	for _, i := range t.active {
		if !x.judged(t, i) {
			continue
		}
		dead := atom
		if t.atom[i] == noAtom {
			dead = other + wideDead - 0.5*t.y[i]*t.y[i]/(cellWide*cellWide)
		}
		ratios = append(ratios, min(max(dead-x.alive(t, i), -30), 30))
	}
	loss.Exps(ratios)
	for _, i := range t.active {
		if !x.judged(t, i) {
			continue
		}
		t.dead[i], ratios = ratios[0], ratios[1:]
		now := t.dead[i] / (t.dead[i] + alive)
		change = max(change, math.Abs(now-t.r[i]))
		t.r[i] = min(max(damp*t.r[i]+(1-damp)*now, 0), 1)
	}
	count, atoms, others := 1.0, 0.25, 0.25
	for i := range x.n {
		if !x.judged(t, i) {
			continue
		}
		if count++; t.atom[i] != noAtom {
			atoms += t.r[i]
		} else {
			others += t.r[i]
		}
	}
	t.atoms, t.others = min(max(atoms/count, 0.001), cellMost), min(max(others/count, 0.001), cellMost)
	if both := t.atoms + t.others; both > cellMost {
		t.atoms, t.others = t.atoms*cellMost/both, t.others*cellMost/both
	}
	t.g = 0
	product := 1.0
	for i := range x.n {
		if !x.judged(t, i) {
			continue
		}
		if product *= 1 - t.atoms - t.others + t.dead[i]; product > 1e200 || product < 1e-200 {
			t.g += math.Log(product)
			product = 1
		}
	}
	t.g += math.Log(product)
	return change
}

// alive returns the logarithm of the likelihood of reading i if it is alive: a density, or the probability of an atom.
func (x *cells) alive(t *cellEvent, i int) float64 {
	mean := t.y[i] - t.a[i]/max(t.d[i], 1e-9)
	variance := max(1/max(t.d[i], 1e-9)-t.noise[i], 0.05)
	c, log := &x.columns[i], 0.0
	switch {
	case t.atom[i] == noAtom:
		log = tails[t.zeros].log(t.y[i], mean, variance)
	case t.atom[i] == zeroAtom && c.Least && c.Zeros > cellNatural: // a censored reading
		log = math.Log(max(0.5*loss.Erfc((mean-x.usual[i])/math.Sqrt(2*variance)), 1e-300))
	case t.atom[i] == zeroAtom:
		log = math.Log(c.Zeros) + normal.log(t.y[i], mean, variance) - normal.log(t.y[i], 0, 1)
	default:
		log = math.Log(cellRare) + normal.log(t.y[i], mean, variance) - normal.log(t.y[i], 0, 1)
	}
	return max(log, -25)
}
