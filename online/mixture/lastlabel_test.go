package mixture_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online/mixture"
)

// TestLastClass compares the mixed probabilities with those of the definition in the comment of LastLabel,
// computed from the whole history, and with weights computed without Weights.
func TestLastClass(t *testing.T) {
	const classes, share, events = 3, 0.1, 300
	r := rand.New(rand.NewPCG(1, 2))
	l := mixture.NewLastLabel()
	var history []int
	counts := make([]uint64, classes)
	weights, trust, rates := [2][2]float64{{1 - share, share}, {1 - share, share}}, [2]float64{0.5, 0.5}, [2]float64{1e-4, 1e-2}
	for n := range events {
		own := []float64{0.2, 0.3, 0.5}
		want := own
		if n > 0 {
			j := history[n-1]
			last := bySlowLast(history, classes)
			w := trust[0]*weights[0][1] + trust[1]*weights[1][1]
			if w /= w + trust[0]*weights[0][0] + trust[1]*weights[1][0]; w < 0.01 {
				w = 0
			} else if w > 0.99 {
				w = 1
			}
			want = must.List(classes, func(k int) float64 { return (1-w)*own[k] + w*last[k] })
			sum := last[0] + last[1] + last[2]
			must.Require(t, math.Abs(sum-1) <= 1e-12 && last[j] > 0, "probabilities %v", last)
		}
		got := append([]float64{}, own...)
		l.Mix(got, counts)
		must.Require(t, math.Abs(got[0]-want[0])+math.Abs(got[1]-want[1])+math.Abs(got[2]-want[2]) <= 1e-9, "event %d: %v, want %v", n, got, want)
		class := r.IntN(classes)
		if n > 0 && r.IntN(4) > 0 {
			class = history[n-1]
		}
		if n > 0 {
			lost := [2]float64{-math.Log(own[class]), -math.Log(bySlowLast(history, classes)[class])}
			for i := range rates {
				x := [2]float64{weights[i][0] * math.Exp(-lost[0]/2), weights[i][1] * math.Exp(-lost[1]/2)}
				sum := x[0] + x[1]
				trust[i] *= sum
				weights[i] = [2]float64{(1-rates[i])*x[0]/sum + rates[i]*(1-share), (1-rates[i])*x[1]/sum + rates[i]*share}
			}
			trust = [2]float64{trust[0] / (trust[0] + trust[1]), trust[1] / (trust[0] + trust[1])}
		}
		l.Class(class, -math.Log(own[class]), counts, classes, true)
		history = append(history, class)
		counts[class]++
	}
	must.True(t, l.Share() >= 0.5, "the weight of the last label is %v", l.Share())
}

// bySlowLast returns the probabilities of the classes after a history.
func bySlowLast(history []int, classes int) []float64 {
	last := history[len(history)-1]
	events, same, all, allSame := 0.0, 0.0, 1.0, 0.5
	count := must.List(classes, func(int) float64 { return 0.5 })
	for i, class := range history {
		if count[class]++; i == 0 {
			continue
		}
		repeat := must.Either(class == history[i-1], 1.0, 0)
		all, allSame = 0.999*all+1, 0.999*allSame+repeat
		if history[i-1] == last {
			events, same = 0.999*events+1, 0.999*same+repeat
		}
	}
	out := make([]float64, classes)
	out[last] = (same + allSame/all) / (events + 1)
	others := 0.0
	for k, n := range count {
		if k != last {
			others += n
		}
	}
	for k, n := range count {
		if k != last {
			out[k] = (1 - out[last]) * n / others
		}
	}
	return out
}

// TestLastNumber checks that the last number decides predictions of a random walk, has no part in predictions of
// independent numbers, whatever their unit and distribution, and that it recovers when the stream changes.
func TestLastNumber(t *testing.T) {
	for _, c := range []struct {
		name  string
		of    loss.Loss
		walks bool
		draw  func(r *rand.Rand, walk float64) float64
		own   float64
	}{
		{name: "walk", of: loss.Linear{}, walks: true, draw: func(_ *rand.Rand, walk float64) float64 { return walk }},
		{name: "walk in another unit", of: loss.Linear{}, walks: true, draw: func(_ *rand.Rand, walk float64) float64 { return 1e9 * walk }},
		{name: "noise", of: loss.Linear{}, draw: func(r *rand.Rand, _ float64) float64 { return r.NormFloat64() }},
		{name: "mostly zeros", of: loss.Linear{}, draw: func(r *rand.Rand, _ float64) float64 { return 10 * float64(r.IntN(10)/9) }, own: 1},
		{name: "counts", of: must.Get(loss.Parse("poisson"))(t), draw: func(r *rand.Rand, _ float64) float64 { return float64(r.IntN(4)) }, own: 1.5},
		{name: "quantile", of: loss.Quantile{T: 0.9}, draw: func(r *rand.Rand, _ float64) float64 { return r.Float64() }, own: 0.9},
	} {
		l, r, walk := mixture.NewLastLabel(), rand.New(rand.NewPCG(1, 2)), 0.0
		for range 2000 {
			walk += r.NormFloat64()
			l.Number(c.draw(r, walk), c.own, c.of, true)
		}
		w := l.Share()
		must.True(t, (w <= 0.05 || c.walks) && (w >= 0.95 || !c.walks), "%s: the last number has the weight %v", c.name, w)
		for range 500 { // the model predicts well now
			walk += r.NormFloat64()
			y := c.draw(r, walk)
			l.Number(y, y, c.of, true)
		}
		w = l.Share()
		must.True(t, w <= 0.05, "%s: the last number has the weight %v after a change", c.name, w)
	}
}
