package additive

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestKernels checks that the loops of this processor have the bits of the loops in Go, for all numbers of features and
// groups of lanes, also where nothing has been learned.
func TestKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	random := func() float32 { return float32(r.NormFloat64() * math.Exp(3*r.NormFloat64())) }
	for range 400 {
		rows, groups := 1+r.IntN(20), 1+r.IntN(3)
		b := newBlock(rows, groups*lanesAtOnce-r.IntN(lanesAtOnce))
		for i := range b.weights {
			if r.IntN(4) > 0 {
				b.weights[i], b.squares[i] = random(), random()*random()
				b.squares[i] = max(b.squares[i], -b.squares[i])
			}
		}
		slow := block{b.lanes, append([]float32(nil), b.weights...), append([]float32(nil), b.squares...)}
		var f features
		for i := range rows {
			if r.IntN(3) > 0 {
				f.index, f.x, f.basis = append(f.index, i), append(f.x, random()), append(f.basis, random())
			}
		}
		from := lanesAtOnce * r.IntN(groups)
		var sums [lanesAtOnce]float64
		var variances, kappa, kappaGo, rate [lanesAtOnce]float32
		x := make([]float64, len(f.x))
		for i := range x {
			x[i] = r.NormFloat64()
		}
		sumGo(slow.weights[from:], f.index, x, slow.lanes, &sums)
		varianceGo(slow.weights[from:], &f, slow.lanes, &variances)
		out, q := make([]float64, b.lanes), make([]float64, b.lanes)
		b.sum(f.index, x, out)
		b.variance(&f, q)
		for l := range sums {
			if sums[l] != out[from+l] || float64(variances[l]) != q[from+l] {
				t.Fatalf("lane %d: sums %v and %v, want %v and %v", l, out[from+l], q[from+l], sums[l], variances[l])
			}
		}
		var by factors
		for l := range rate {
			by.df[l], by.shrink[l], rate[l] = random(), random(), random()
		}
		steps, stepsGo := make([]float32, len(f.index)*lanesAtOnce), make([]float32, len(f.index)*lanesAtOnce)
		b.gradients(&f, from, &by, steps, &kappa)
		gradientsGo(slow.weights[from:], slow.squares[from:], &f, slow.lanes, &by, stepsGo, &kappaGo)
		b.descend(&f, from, &rate, steps)
		descendGo(slow.weights[from:], &f, slow.lanes, &rate, stepsGo)
		if kappa != kappaGo || !reflect.DeepEqual(steps, stepsGo) || !reflect.DeepEqual(b, slow) {
			t.Fatalf("%d features, lanes from %d: kappa %v, want %v", len(f.index), from, kappa, kappaGo)
		}
	}
}
