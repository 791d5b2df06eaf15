package discriminant

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"blankout/internal/must"
	"blankout/online/encode"
	"blankout/online/experts"
)

// TestDiscriminant compares the weights and intercepts of the discriminant with the result computed from class means
// and the covariance within classes. It repeats the comparison after columns and classes are added, moved or replaced.
func TestDiscriminant(t *testing.T) {
	const classes, numbers, events = 20, 3, solveEvery
	d := New(classes, 0)
	d.Follow([]uint32{2, 5, 9}, numbers)
	r := rand.New(rand.NewPCG(1, 2))
	var all [classes][][]float64
	target, weights := make([]float64, classes), 0.0
	for n := range events {
		class := r.IntN(classes)
		x := []float64{r.NormFloat64() + float64(class%3), 0, 0.5*r.NormFloat64() - float64(class)/10}
		x[1] = 0.7*x[0] + r.NormFloat64()
		for k := range target {
			target[k] = -1
		}
		target[class] = 1
		must.Require(t, d.Idle() == (n < solveFirst), "after %d events: idle is %v", n, d.Idle())
		in, scores := &experts.Input{Index: []int{0, 1, 2}, X: x, One: 1}, make([]float64, classes)
		d.Sum(in, scores)
		d.Learn(in, nil, scores, target, classes, 1)
		all[class] = append(all[class], x)
	}
	s := mat.NewSymDense(numbers, nil)
	means := make([][]float64, classes)
	for k, of := range all {
		means[k] = make([]float64, numbers)
		for _, x := range of {
			for i := range x {
				means[k][i] += x[i] / float64(len(of))
			}
		}
		for _, x := range of {
			for i := range x {
				for j := range i + 1 {
					s.SetSym(i, j, s.At(i, j)+(x[i]-means[k][i])*(x[j]-means[k][j]))
				}
			}
		}
		weights += float64(len(of)) - harmonic(len(of))
	}
	for i := range numbers {
		s.SetSym(i, i, s.At(i, i)+firstEvents+leastScatter*weights)
	}
	var chol mat.Cholesky
	must.Require(t, chol.Factorize(s), "no covariance")
	check := func(what string, x []float64, out []float64, want func(k int) float64) {
		for k := range out {
			w := want(k) - d.norm
			must.Require(t, math.Abs(out[k]-w) <= 1e-9*max(1, math.Abs(w)), "%s: class %d of %v: %v, want %v", what, k, x, out[k], w)
		}
	}
	x, out := []float64{0.3, -1, 2}, make([]float64, classes)
	slow := func(k int) float64 {
		n := float64(len(all[k]))
		m, w := mat.NewVecDense(numbers, nil), mat.NewVecDense(numbers, nil)
		m.ScaleVec(n/(n+1), mat.NewVecDense(numbers, means[k]))
		must.Do(t, chol.SolveVecTo(w, m))
		w.ScaleVec(weights+firstEvents, w)
		return math.Log(n/events) - mat.Dot(w, m)/2 + mat.Dot(w, mat.NewVecDense(numbers, x))
	}
	d.Sum(&experts.Input{Index: []int{0, 1, 2}, X: x, One: 1}, out)
	check("as solved", x, out, slow)
	was := slices.Clone(d.scatter)
	d.Move(&encode.Move{Column: 5, Ratio: 1.5, Shift: 0.2})
	for at, ratio := range []float64{1, 1.5, 1, 1.5, 2.25, 1.5, 1, 1.5, 1} {
		got, want := d.scatter[at], was[at]/ratio
		must.True(t, math.Abs(got-want) <= 1e-9, "scatter %d moved: %v, want %v", at, got, want)
	}
	moved := []float64{x[0], (x[1] - 0.2) / 1.5, x[2]}
	d.Sum(&experts.Input{Index: []int{0, 1, 2}, X: moved, One: 1}, out)
	check("moved", x, out, slow)
	d.Move(&encode.Move{Column: 5, Ratio: 1 / 1.5, Shift: -0.2 / 1.5})
	d.Follow([]uint32{2, 4, 5, 9}, 4)
	d.Sum(&experts.Input{Index: []int{0, 2, 3}, X: x, One: 1}, out)
	check("with another column", x, out, slow)
	d.Regroup(append(must.List(classes, func(k int) []int { return []int{k} }), nil))
	out = make([]float64, classes+1)
	d.Sum(&experts.Input{Index: []int{0, 2, 3}, X: x, One: 1}, out)
	must.True(t, out[classes] <= -unseen/2, "a class of no event has the score %v", out[classes])
	for k := 1; k < classes; k++ {
		a, b := out[k]-out[0], slow(k)-slow(0)
		must.True(t, math.Abs(a-b) <= 0.1*max(1, math.Abs(b)), "class %d has the score %v more than the first, was %v", k, a, b)
	}
	d.Move(&encode.Move{Column: 5, Renews: true})
	must.True(t, d.weights[2] == 0 && d.means[2] == 0, "a column with another meaning keeps its weight")
}

// harmonic returns 1 + 1/2 + 1/3 + … + 1/n. The i-th event of a class counts 1 - 1/i in the scatter, because the event
// also changes the class mean. So n events count n - harmonic(n).
func harmonic(n int) (sum float64) {
	for i := range n {
		sum += 1 / float64(i+1)
	}
	return sum
}
