package svm

// This file implements DropSVM: its penalty, the equivalent kernel, and its square-loss form.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"blankout/batch"
)

// DropSVM is the regularizer of Tran 2016. It makes a support vector machine with the kernel expansion f = sum gamma_i
// k(x_i, .) robust to the loss of samples. In each round j of Epochs rounds, every entry of K is lost with probability
// 1 - Keep. The matrix Khat_j of the lost entries is penalized by
//
//	2 Q gamma'M gamma,  M = 1/Epochs sum_j Khat_j Khat_j'.
type DropSVM struct {
	Q    float64 // strength of the penalty, >= 0
	Keep float64 // probability in [0, 1] that an entry stays
	// Epochs is the number of sampled rounds. 0 means infinitely many, for which M has a closed form: (1-Keep)^2 K K +
	// Keep (1-Keep) diag((K K)_ii).
	Epochs int
	Seed   uint64 // seed of the samples
}

// DropKernel is the kernel Kbar = K (K + 2q M)^-1 K of the training examples. It replaces K in the dual of the support
// vector machine (Tran 2016, section 3). It is computed once and works for any labels of the same examples.
type DropKernel struct {
	Kbar *Gram
	k    *Gram
	// a is the lower Cholesky factor of K + 2q M; nil if M is zero.
	a []float64
	// Jitter is the value that was added to the diagonal of K + 2q M to make the matrix positive definite, relative to
	// the mean of the diagonal. It is 0 if the matrix is not singular.
	Jitter float64
}

// Kernel computes the DropKernel of a Gram matrix. It needs about 3 n^3 operations, another n^3 operations for each
// round of sampling, and 24 n^2 bytes.
func (s DropSVM) Kernel(k *Gram) (*DropKernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	d := &DropKernel{Kbar: k, k: k}
	if s.Q == 0 || s.Keep == 1 {
		return d, nil
	}
	n := k.n
	a := s.penalty(k)
	for i := range a {
		a[i] = k.data[i] + 2*s.Q*a[i]
	}
	var err error
	if d.a, d.Jitter, err = cholesky(a, n); err != nil {
		return nil, fmt.Errorf("dropsvm: factorizing K + 2q M: %w", err)
	}
	// Kbar = (L^-1 K)'(L^-1 K) is exactly symmetric and positive semidefinite.
	half := slices.Clone(k.data)
	blas64.Trsm(blas.Left, blas.NoTrans, 1, lower(d.a, n), general(half, n))
	d.Kbar = &Gram{n: n, data: make([]float64, n*n)}
	syrk(half, d.Kbar.data, n)
	return d, nil
}

// Check returns an error if the settings are invalid.
func (s DropSVM) Check() error {
	switch {
	case !(s.Q >= 0 && s.Q <= 1e15):
		return fmt.Errorf("the strength q = %v of DropSVM must lie in [0, 1e15]", s.Q)
	case !(s.Keep >= 0 && s.Keep <= 1):
		return fmt.Errorf("the probability keep = %v of DropSVM must lie in [0, 1]", s.Keep)
	case s.Epochs < 0:
		return fmt.Errorf("%d epochs of DropSVM", s.Epochs)
	}
	return nil
}

// penalty returns M in row-major order.
func (s DropSVM) penalty(k *Gram) []float64 {
	n := k.n
	m := make([]float64, n*n)
	lost := 1 - s.Keep
	if s.Epochs == 0 {
		if k.squared != nil {
			copy(m, k.squared)
		} else {
			syrk(k.data, m, n)
		}
		for i := range n {
			for j := range n {
				if i != j {
					m[i*n+j] *= lost * lost
				} else {
					m[i*n+i] *= lost
				}
			}
		}
		return m
	}
	// Each epoch has its own generator, so that epoch j does not depend on the number of epochs.
	khat, product := make([]float64, n*n), make([]float64, n*n)
	for j := range s.Epochs {
		r := rand.New(rand.NewPCG(s.Seed, uint64(j)))
		for i, v := range k.data { // row i is column i, because K is symmetric
			khat[i] = 0
			if r.Float64() >= s.Keep {
				khat[i] = v
			}
		}
		syrk(khat, product, n)
		for i, v := range product {
			m[i] += v / float64(s.Epochs)
		}
	}
	return m
}

// Expansion returns the coefficients gamma = (K + 2q M)^-1 K beta of f(x) = sum gamma_i k(x_i, x) + b. The argument
// beta is the solution of the dual with Kbar. If there is no penalty, gamma equals beta, which is nonzero only for
// support vectors. Otherwise gamma is nonzero for every example.
func (d *DropKernel) Expansion(beta []float64) []float64 {
	if d.a == nil {
		return slices.Clone(beta)
	}
	gamma := d.k.times(beta)
	solveCholesky(d.a, d.k.n, gamma)
	return gamma
}

// Square solves the square-loss form: it minimizes
//
//	sum s_n (y_n - f_n)^2 + ridge gamma'K gamma + 2q gamma'M gamma,
//
// whose solution is gamma = (K S K + ridge K + 2q M)^-1 K S (y - b). If ridge is 0, this is Tran's equation 58. If q is
// 0, it is kernel ridge regression, his equation 38, gamma = (K + ridge S^-1)^-1 (y - b). The importance weights s may
// be nil for ones. The intercept is b = s.(y - K gamma)/sum s, or 0 if intercept is false.
func (d DropSVM) Square(k *Gram, y, s []float64, ridge float64, intercept bool) (gamma []float64, b float64, err error) {
	if err := d.Check(); err != nil {
		return nil, 0, err
	}
	n := k.n
	ones := slices.Repeat([]float64{1}, n)
	if s == nil {
		s = ones
	}
	plain := ridge > 0 && !(d.Q > 0 && d.Keep < 1) && !slices.Contains(s, 0)
	l, _, err := cholesky(d.square(k, s, ridge, plain), n)
	if err != nil {
		return nil, 0, fmt.Errorf("dropsvm: factorizing the matrix of the square loss: %w", err)
	}
	solve := func(v []float64) []float64 { // solves for y - b = v
		out := slices.Clone(v)
		if !plain {
			for i := range v {
				out[i] *= s[i]
			}
			out = k.times(out)
		}
		solveCholesky(l, n, out)
		return out
	}
	gamma = solve(y)
	if !intercept {
		return gamma, 0, nil
	}
	delta := solve(ones)
	var rest, total float64 // residuals of y and of the constant 1 after fitting each
	for i := range n {
		rest += s[i] * (y[i] - batch.Dot(k.Row(i), gamma))
		total += s[i] * (1 - batch.Dot(k.Row(i), delta))
	}
	weight := 0.0
	for _, v := range s {
		weight += v
	}
	if total > 1e-12*weight { // otherwise the expansion itself can express a constant
		b = rest / total
	}
	for i := range gamma {
		gamma[i] -= b * delta[i]
	}
	return gamma, b, nil
}

// square returns the matrix of Square. If plain is set it returns the matrix of equation 38.
func (d DropSVM) square(k *Gram, s []float64, ridge float64, plain bool) []float64 {
	n := k.n
	if plain {
		a := slices.Clone(k.data)
		for i := range n {
			a[i*n+i] += ridge / s[i]
		}
		return a
	}
	scaled := make([]float64, n*n) // sqrt(S) K
	for i := range n {
		root := math.Sqrt(s[i])
		for j, v := range k.Row(i) {
			scaled[i*n+j] = root * v
		}
	}
	a := make([]float64, n*n)
	syrk(scaled, a, n)
	for i, v := range k.data {
		a[i] += ridge * v
	}
	if d.Q > 0 && d.Keep < 1 {
		for i, v := range d.penalty(k) {
			a[i] += 2 * d.Q * v
		}
	}
	return a
}

// cholesky factors the symmetric matrix a in place and returns its lower factor. If a is only semidefinite, it adds a
// jitter to the diagonal, starting at 1e-14 of the diagonal's mean.
func cholesky(a []float64, n int) (l []float64, jitter float64, err error) {
	mean := 0.0
	for i := range n {
		mean += a[i*n+i] / float64(n)
	}
	if !(mean-mean == 0) {
		return nil, 0, fmt.Errorf("the matrix is not finite: rescale the features")
	}
	for {
		l = append(l[:0], a...)
		for i := range n {
			l[i*n+i] += jitter * mean
		}
		if _, ok := lapack64.Potrf(blas64.Symmetric{Uplo: blas.Lower, N: n, Data: l, Stride: max(n, 1)}); ok {
			return l, jitter, nil
		}
		if jitter = max(jitter*10, 1e-14); jitter > 1e-4 || mean <= 0 {
			return nil, 0, fmt.Errorf("the matrix is not positive definite")
		}
	}
}

// solveCholesky overwrites v with (L L')^-1 v.
func solveCholesky(l []float64, n int, v []float64) {
	x := blas64.Vector{N: n, Inc: 1, Data: v}
	blas64.Trsv(blas.NoTrans, lower(l, n), x)
	blas64.Trsv(blas.Trans, lower(l, n), x)
}

// syrk writes x'x to out; both are n by n. It computes the blocks on and above the diagonal and copies them below it.
func syrk(x, out []float64, n int) {
	const block = 256
	columns := func(data []float64, rows, from int) blas64.General {
		return blas64.General{Rows: rows, Cols: min(block, n-from), Data: data[from:], Stride: n}
	}
	for i := 0; i < n; i += block {
		for j := i; j < n; j += block {
			blas64.Gemm(blas.Trans, blas.NoTrans, 1, columns(x, n, i), columns(x, n, j), 0, columns(out[i*n:], min(block, n-i), j))
		}
	}
	for i := range n {
		for j := range i {
			out[i*n+j] = out[j*n+i]
		}
	}
}

func general(data []float64, n int) blas64.General {
	return blas64.General{Rows: n, Cols: n, Data: data, Stride: max(n, 1)}
}

func lower(data []float64, n int) blas64.Triangular {
	return blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: n, Data: data, Stride: max(n, 1)}
}
