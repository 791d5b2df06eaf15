package batch

import (
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/must"
)

// benchmarkData returns a training set that resembles images: each event has 20 % of 784 pixels.
func benchmarkData(b *testing.B, binary bool) (*Data, []float64) {
	r := rand.New(rand.NewPCG(1, 1))
	var builder Builder
	var y []float64
	for i := range 5000 {
		e := event.Example{Weight: 1}
		for d := range 784 {
			if r.IntN(5) == 0 {
				v := 1.0
				if !binary {
					v = float64(1+r.IntN(255)) / 256
				}
				eventtest.Put(&e, uint32(d), v)
			}
		}
		must.Do(b, builder.Add(&e))
		y = append(y, float64(2*(i%2)-1))
	}
	return builder.Data(event.NewSchema(20, []string{"-1", "1"}, 2)), y
}

// BenchmarkPass measures the time per entry of a pass over the data.
func BenchmarkPass(b *testing.B) {
	for _, c := range []struct {
		name   string
		binary bool
		noise  loss.Noise
	}{
		{"float32/none", false, loss.NoNoise{}}, {"float32/dropout", false, loss.Dropout{Q: 0.5}},
		{"binary/none", true, loss.NoNoise{}}, {"binary/dropout", true, loss.Dropout{Q: 0.5}},
	} {
		d, y := benchmarkData(b, c.binary)
		o := newExpected(b, d, y, loss.LogisticChen{}, c.noise, 1, FreeIntercept)
		w, g := make([]float64, o.Dim()), make([]float64, o.Dim())
		for i := range w {
			w[i] = 0.01 * float64(i%7-3)
		}
		run := func(name string, f func()) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*d.entries), "ns/entry")
			})
		}
		run("gradient", func() { o.ValueGrad(w, g) })
		run("hessian", func() { o.HessVec(w, g) })
	}
}
