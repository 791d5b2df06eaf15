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
	for first := 0; first < n; first += blockRows { // the rows of a block stay in the cache
		above, end := 0, min(first+blockRows, n)
		for ; above < first && end == first+blockRows; above += blockRows {
			factors := blockAt(matrix[above*n+first:], n)
			subtractRows(matrix[first*n+first:], matrix[above*n+first:], n, n-first, &factors)
		}
		for i := first; i < end; i++ {
			row := u.row(i, i)
			u.subtractAbove(i, above, i)
			if !(row[0] > 0) {
				return u, false
			}
			root := math.Sqrt(row[0])
			multiply(row, 1/root)
			row[0] = root
		}
	}
	return u, true
}

// blockAt returns the first blockRows values of blockRows rows that begin stride values apart, column by column.
func blockAt(rows []float64, stride int) (out [blockRows * blockRows]float64) {
	for s := range blockRows {
		row := (*[blockRows]float64)(rows[s*stride:])
		for t, x := range row {
			out[t*blockRows+s] = x
		}
	}
	return out
}

// subtractAbove subtracts multiples of the rows from k to end-1 from row i.
func (u triangle) subtractAbove(i, k, end int) {
	for ; k < end; k++ {
		above := u.row(k, i)
		Subtract(u.row(i, i), above[0], above)
	}
}

// multiply multiplies values by a factor.
func multiply(x []float64, factor float64) {
	for i := range x {
		x[i] *= factor
	}
}

// Subtract subtracts a row, multiplied by a factor, from another row.
func Subtract(from []float64, factor float64, row []float64) {
	done := 0
	if hasFMA && len(from) >= subtractLeast {
		done = len(from) &^ 3
		subtractFMA(&from[0], &row[0], done, factor)
	}
	subtractGo(from[done:], factor, row[done:])
}

// subtractLeast is the smallest number of values for which a call is worthwhile.
const subtractLeast = 8

// subtractGo is the slow reference for Subtract. It rounds once for each value.
func subtractGo(from []float64, factor float64, row []float64) {
	for i, x := range row[:len(from)] {
		from[i] = math.FMA(-factor, x, from[i])
	}
}

// blockRows is the number of rows that subtractRows takes at once, so that a value that is read serves four others.
const blockRows = 4

// subtractRows subtracts multiples of four rows from four other rows: from row t, row s times factors[4 t + s]. Rows have
// n values, and begin stride values apart.
func subtractRows(to, from []float64, stride, n int, factors *[blockRows * blockRows]float64) {
	last := 3*stride + n
	to, from = to[:last], from[:last]
	switch {
	case hasAVX512:
		subtractRowsAVX512(&to[0], &from[0], stride, n, factors)
	case hasFMA && n >= subtractLeast:
		subtractPairFMA(&to[0], &from[0], stride, n, &factors[0])
		subtractPairFMA(&to[2*stride], &from[0], stride, n, &factors[2*blockRows])
	default:
		subtractRowsGo(to, from, stride, n, factors)
	}
}

// subtractRowsGo is the slow reference for subtractRows. It rounds once for each factor.
func subtractRowsGo(to, from []float64, stride, n int, factors *[blockRows * blockRows]float64) {
	for t := range blockRows {
		row := to[t*stride:][:n]
		for s, factor := range factors[t*blockRows:][:blockRows] {
			subtractGo(row, factor, from[s*stride:])
		}
	}
}

// solve replaces the right side x by the solution of U'U y = x.
func (u triangle) solve(x []float64) {
	for i := range x {
		row := u.row(i, i)
		x[i] /= row[0]
		Subtract(x[i+1:], x[i], row[1:])
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

// inverseOf returns the inverse of a positive definite matrix, and overwrites the matrix. It returns nil if rounding makes
// that impossible.
func inverseOf(n int, matrix []float64) []float64 {
	u, positive := factorize(n, matrix)
	if !positive {
		return nil
	}
	return u.inverse()
}

// inverse returns the inverse W'W of U'U, where W is the inverse of U'.
func (u triangle) inverse() []float64 {
	n := u.n
	w, out := make([]float64, n*n), make([]float64, n*n)
	u.invert(w)
	i := 0
	for ; i+blockRows <= n; i += blockRows {
		a := i
		for ; a+blockRows <= n; a += blockRows {
			factors := blockAt(w[a*n+i:], n)
			multiply(factors[:], -1)
			subtractRows(out[i*n:], w[a*n:], n, i+blockRows, &factors)
		}
		for ; a < n; a++ {
			for t := i; t < i+blockRows; t++ {
				Subtract(out[t*n:][:t+1], -w[a*n+t], w[a*n:])
			}
		}
	}
	for ; i < n; i++ {
		for a := i; a < n; a++ {
			Subtract(out[i*n:][:i+1], -w[a*n+i], w[a*n:])
		}
	}
	for i := range n {
		for j := range i {
			out[j*n+i] = out[i*n+j]
		}
	}
	return out
}

// invert writes the inverse of U', a lower triangular matrix, to w. Values above the diagonal are undefined, but 0 in the
// blocks on the diagonal.
func (u triangle) invert(w []float64) {
	for i := range u.n {
		clear(w[i*u.n:][:min(u.n, i|(blockRows-1)+1)])
		w[i*u.n+i] = 1
	}
	u.solveRows(w, u.n, true)
}

// inverseDiagonal writes the diagonal of the inverse of U'U to diagonal, with w as scratch memory.
func (u triangle) inverseDiagonal(w, diagonal []float64) {
	u.invert(w)
	clear(diagonal)
	for i := range u.n {
		for j, x := range w[i*u.n:][:i+1] {
			diagonal[j] += float64(x * x)
		}
	}
}

// solveRows replaces a matrix x of u.n rows by the solution of U'y = x. lower reports that x is lower triangular.
func (u triangle) solveRows(x []float64, columns int, lower bool) {
	for first := 0; first < u.n; first += blockRows {
		above, end := 0, min(first+blockRows, u.n)
		for ; above < first && end == first+blockRows; above += blockRows {
			factors := blockAt(u.data[above*u.n+first:], u.n)
			width := columns
			if lower {
				width = above + blockRows
			}
			subtractRows(x[first*columns:], x[above*columns:], columns, width, &factors)
		}
		for i := first; i < end; i++ {
			row := x[i*columns:][:columns]
			for k := above; k < i; k++ {
				width := columns
				if lower {
					width = k + 1
				}
				Subtract(row[:width], u.row(k, i)[0], x[k*columns:])
			}
			if lower {
				row = row[:i+1]
			}
			multiply(row, 1/u.row(i, i)[0])
		}
	}
}
