package batch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// TestRowLoops checks that the loops over four entries at a time give the same bits as the reference. The reference
// must agree with the formula.
func TestRowLoops(t *testing.T) {
	was := hasAVX2
	defer func() { hasAVX2 = was }()
	random := rand.New(rand.NewPCG(3, 4))
	const columns = 300
	normal := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = random.NormFloat64()
		}
		return x
	}
	for n := range 23 {
		for kind := range 3 {
			for _, c := range [][2]float64{{0, 1}, {0.7, 0}, {0.3, 2.5}} {
				var r Row
				for d := range n {
					r.Index = append(r.Index, uint32(d*13+random.IntN(13)))
				}
				switch kind {
				case kindFloat32:
					r.f32 = make([]float32, n, n+1)
					for i := range r.f32 {
						r.f32[i] = float32(random.ExpFloat64())
					}
				case kindFloat64:
					r.f64 = make([]float64, n, n+1)
					for i := range r.f64 {
						r.f64[i] = random.ExpFloat64()
					}
				}
				type result struct {
					s, t, u           float64
					z, mixed, pairSum []float64
				}
				p, mixed, pair := normal(2*columns), normal(columns), normal(2*columns)
				a, b := random.NormFloat64(), random.NormFloat64()
				run := func() (o result) {
					o = result{z: make([]float64, n), mixed: append([]float64(nil), mixed...), pairSum: append([]float64(nil), pair...)}
					o.s, o.t, o.u = r.gather(p, o.z, c[0], c[1])
					r.addMixed(o.mixed, o.z, a, b)
					r.addPair(o.pairSum, a, b, c[0], c[1])
					return o
				}
				fast := run()
				hasAVX2 = false
				reference := run()
				hasAVX2 = was
				if got, want := fmt.Sprint(fast), fmt.Sprint(reference); got != want {
					t.Fatalf("%d entries of kind %d: %s, reference %s", n, kind, got, want)
				}
				slow := result{z: make([]float64, n), mixed: mixed, pairSum: pair}
				for i, d := range r.Index {
					x := r.At(i)
					v := c[0]*x + c[1]*x*x
					slow.s += x * p[2*d]
					slow.z[i] = v * p[2*d+1]
					slow.t += slow.z[i] * p[2*d]
					slow.u += v * p[2*d] * p[2*d]
					slow.mixed[d] += a*x + b*slow.z[i]
					slow.pairSum[2*d] += a * x
					slow.pairSum[2*d+1] += b * v
				}
				flat := func(o result) []float64 {
					x := append([]float64{o.s, o.t, o.u}, o.z...)
					return append(append(x, o.mixed...), o.pairSum...)
				}
				got := flat(fast)
				for i, want := range flat(slow) {
					if math.Abs(got[i]-want) > 1e-13*(1+math.Abs(want))*float64(n+1) {
						t.Fatalf("%d entries of kind %d: sum %d is %v, want %v", n, kind, i, got[i], want)
					}
				}
			}
		}
	}
}
