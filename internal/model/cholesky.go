package model

// This file factorizes positive definite matrices. It uses no library, so that programs that only read a model have no
// dependency. Sums are computed in a fixed order.

import "math"

// triangle is the upper triangular factor U of a positive definite matrix U'U with n columns, row by row. Values below
// its diagonal are undefined.
type triangle struct {
	n    int
	data []float64
}

// row returns row i from column j on.
func (u triangle) row(i, j int) []float64 { return u.data[i*u.n+j : (i+1)*u.n] }

// factorize returns the factor of a matrix, and overwrites the matrix. positive is false if rounding has made the
// matrix indefinite. The condition number is not estimated; the shrinkage of a Covariance bounds it.
func factorize(n int, matrix []float64) (u triangle, positive bool) {
	u = triangle{n, matrix}
	for k := 0; k < n; k += 4 {
		end := min(k+4, n)
		for i := k; i < end; i++ {
			row := u.row(i, i)
			for l := k; l < i; l++ {
				above := u.row(l, i)
				subtract(row, above[0], above)
			}
			if !(row[0] > 0) {
				return u, false
			}
			root := math.Sqrt(row[0])
			for j := range row {
				row[j] /= root
			}
		}
		for i := end; i < n; i++ { // for i < n, rows k to end-1 are four rows
			a, b, c, d := u.row(k, i), u.row(k+1, i), u.row(k+2, i), u.row(k+3, i)
			subtract4(u.row(i, i), [4]float64{a[0], b[0], c[0], d[0]}, a, b, c, d)
		}
	}
	return u, true
}

// subtract subtracts factor times a row from another row.
func subtract(from []float64, factor float64, row []float64) {
	row = row[:len(from)]
	for i := range from {
		from[i] -= factor * row[i]
	}
}

// subtract4 subtracts four rows, each multiplied by its factor, from another row.
func subtract4(from []float64, factors [4]float64, a, b, c, d []float64) {
	a, b, c, d = a[:len(from)], b[:len(from)], c[:len(from)], d[:len(from)]
	done := 0
	if hasAVX2 && len(from) >= subtractLeast {
		done = len(from) &^ 3
		subtract4AVX2(&from[0], done, &factors, &a[0], &b[0], &c[0], &d[0])
	}
	subtract4Go(from[done:], factors, a[done:], b[done:], c[done:], d[done:])
}

// subtractLeast is the smallest number of values for which a call is worthwhile.
const subtractLeast = 8

// subtract4Go is the slow reference for subtract4. It rounds every product and every sum.
func subtract4Go(from []float64, factors [4]float64, a, b, c, d []float64) {
	a, b, c, d = a[:len(from)], b[:len(from)], c[:len(from)], d[:len(from)]
	p, q, r, s := factors[0], factors[1], factors[2], factors[3]
	for i := range from {
		from[i] -= (float64(p*a[i]) + float64(q*b[i])) + (float64(r*c[i]) + float64(s*d[i]))
	}
}

// solve replaces the right side x by the solution of U'U y = x.
func (u triangle) solve(x []float64) {
	for i := range x {
		row := u.row(i, i)
		x[i] /= row[0]
		subtract(x[i+1:], x[i], row[1:])
	}
	for i := len(x) - 1; i >= 0; i-- {
		row := u.row(i, i)
		x[i] = (x[i] - Product(row[1:], x[i+1:])) / row[0]
	}
}

// Product returns the scalar product of a and the start of b, summed in a fixed order.
func Product(a, b []float64) (sum float64) {
	b = b[:len(a)]
	if done := len(a) &^ (productLanes - 1); done > 0 {
		if hasAVX2 {
			sum = productAVX2(&a[0], &b[0], done)
		} else {
			sum = productGo(a[:done], b)
		}
		a, b = a[done:], b[done:]
	}
	for i, x := range a {
		sum += float64(x * b[i])
	}
	return sum
}

// productLanes is the number of sums of which a scalar product consists, as far as they are full.
const productLanes = 16

// productGo is the slow reference for productAVX2. It rounds every product and every sum.
func productGo(a, b []float64) float64 {
	var s [productLanes]float64
	for ; len(a) > 0; a, b = a[productLanes:], b[productLanes:] {
		for l := range s {
			s[l] += float64(a[l] * b[l])
		}
	}
	var four [4]float64
	for l := range four {
		four[l] = (s[l] + s[4+l]) + (s[8+l] + s[12+l])
	}
	return (four[0] + four[1]) + (four[2] + four[3])
}

// Sweep computes: for i := range c { c[i], gain[i] = c[i]+l*gain[i], gain[i]+v*c[i] }. gain must be at least as long as
// c.
func Sweep(c, gain []float64, v, l float64) {
	gain, done := gain[:len(c)], 0
	if hasAVX2 && len(c) >= subtractLeast {
		done = len(c) &^ 3
		sweepAVX2(&c[0], &gain[0], done, v, l)
	}
	sweepGo(c[done:], gain[done:], v, l)
}

// sweepGo is the slow reference for Sweep. It rounds every product and every sum.
func sweepGo(c, gain []float64, v, l float64) {
	for i, u := range c {
		g := gain[i]
		c[i] = u + float64(l*g)
		gain[i] = g + float64(v*u)
	}
}

// solveAll solves for many right sides, the columns of a matrix.
func (u triangle) solveAll(x []float64, columns int) {
	one := make([]float64, u.n)
	for c := range columns {
		for i := range one {
			one[i] = x[i*columns+c]
		}
		u.solve(one)
		for i, y := range one {
			x[i*columns+c] = y
		}
	}
}

// inverseOf returns the inverse of a positive definite matrix, and overwrites the matrix. It returns nil if rounding makes
// that impossible.
func inverseOf(n int, matrix []float64) []float64 {
	u, positive := factorize(n, matrix)
	if !positive {
		return nil
	}
	inverse := u.inverse()
	for i := range n {
		for j := range i {
			inverse[i*n+j] = inverse[j*n+i]
		}
	}
	return inverse
}

// inverse returns the inverse of U'U, stored on and above the diagonal.
func (u triangle) inverse() []float64 {
	n := u.n
	v := triangle{n, make([]float64, n*n)}
	u.invert(v)
	out := make([]float64, n*n)
	for i := range n {
		for j := i; j < n; j++ {
			out[i*n+j] = Product(v.row(i, j), v.row(j, j))
		}
	}
	return out
}

// invert writes the inverse of U to v, which must be 0. It proceeds from the last row upwards.
func (u triangle) invert(v triangle) {
	n := u.n
	for i := n - 1; i >= 0; i-- {
		of, to := u.row(i, i), v.row(i, i)
		k := i + 1
		for ; k+4 <= n; k += 4 {
			f := of[k-i:]
			// All four rows are read from column k on: values left of the diagonal are 0.
			subtract4(v.row(i, k), [4]float64(f), v.row(k, k), v.row(k+1, k), v.row(k+2, k), v.row(k+3, k))
		}
		for ; k < n; k++ {
			subtract(v.row(i, k), of[k-i], v.row(k, k))
		}
		to[0] = 1
		for j := range to {
			to[j] /= of[0]
		}
	}
}
