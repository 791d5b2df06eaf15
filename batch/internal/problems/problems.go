// Package problems makes examples for the tests of exact solvers and of kernel machines.
package problems

import (
	"math"
	"math/rand/v2"
)

// Gaussian draws two overlapping classes of n examples in all.
func Gaussian(seed uint64, n, columns int, positive bool) (x [][]float64, y []float64) {
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range n {
		y = append(y, float64(2*(i%2)-1))
		row := make([]float64, columns)
		for d := range row {
			if r.IntN(3) > 0 {
				row[d] = r.NormFloat64() + y[i]*0.4/float64(1+d%3)
			}
			if positive {
				row[d] = math.Abs(row[d])
			}
		}
		x = append(x, row)
	}
	return x, y
}
