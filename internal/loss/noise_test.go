package loss

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"blankout/internal/must"
)

// TestNoises checks every noise. Samples must have the mean x and the variance that Coefficients states, and ParseNoise
// must invert String.
func TestNoises(t *testing.T) {
	for _, s := range []string{"none", "dropout:0", "dropout:0.3", "dropout:0.9", "group:0.3", "dropout:0.1+group:0.3", "dropout:0.5+group:0", "gaussian:0.5", "laplace:0.4", "poisson"} {
		n := must.Get(ParseNoise(s))(t)
		must.True(t, n.String() == s, "ParseNoise(%q).String() = %q", s, n)
		r := rand.New(rand.NewPCG(7, 8))
		for _, x := range []float64{0, 0.3, 1, 7, 1200, 1e9} {
			const samples = 100_000
			c0, c1, c2 := n.Coefficients()
			want := c0 + c1*x + c2*x*x
			must.Require(t, want >= 0, "%s: the variance of %g is %g", n, x, want)
			var sum, squares float64
			for range samples {
				d := n.Corrupt(x, r) - x
				sum += d
				squares += d * d
			}
			mean, variance := sum/samples, squares/samples
			// The tolerance is six standard errors. The fourth moment is at most 12 variances squared, for dropout at
			// .9 and Laplace.
			tol := 6 * math.Sqrt(want/samples)
			must.True(t, math.Abs(mean) <= tol, "%s at %g: mean off by %g (tolerance %g)", n, x, mean, tol)
			tol = 6 * want * math.Sqrt(12.0/samples)
			must.True(t, math.Abs(variance-want) <= tol, "%s at %g: variance %g, want %g", n, x, variance, want)
		}
	}
	for _, s := range []string{"", "dropout", "dropout:1", "dropout:-0.1", "dropout:x", "dropout:NaN", "none:1", "gaussian:-1", "laplace:Inf", "salt", "group", "group:1", "group:0.3+dropout:0.1", "gaussian:1+group:0.3", "dropout:0.1+group", "dropout:0.1+group:0.2+group:0.3", "group:0.1+group:0.2",
		"group:a=1", "group:a=", "group:a", "group:a=0.1,", "group:a=0.1,a=0.2", "group:a=0.1,0.2", "group:a=0.1+group:b=0.2", "dropout:a=0.1"} {
		n, err := ParseNoise(s)
		must.True(t, err != nil, "ParseNoise(%q) = %v, want an error", s, n)
	}
}

// TestNoiseOfGroupsWithRates checks that the rates of groups round-trip in the order of the group names, whatever
// characters the names contain.
func TestNoiseOfGroupsWithRates(t *testing.T) {
	for _, want := range []GroupDropout{
		{Rates: map[string]float64{"engine": 0.1, "wheels": 0.3}},
		{Q: 0.2, Rates: map[string]float64{"front left": 0.5}},
		{Rates: map[string]float64{`=",`: 0.2, "a,b": 0.1, "ä+group:b": 0, "": 0.5, "\xff": 0.1}},
	} {
		got, err := ParseNoise(want.String())
		must.True(t, err == nil && reflect.DeepEqual(got, want), "%q is read as %v, %v", want, got, err)
	}
	n := GroupDropout{Q: 0.2, Groups: 0.7, Rates: map[string]float64{"engine": 0.1}}
	must.True(t, n.String() == "dropout:0.2+group:engine=0.1" && n.Rate("engine") == 0.1 && n.Rate("wheels") == 0, "%v: rates %v and %v", n, n.Rate("engine"), n.Rate("wheels"))
	n.Rates = map[string]float64{}
	must.True(t, n.String() == "dropout:0.2" && (GroupDropout{Rates: n.Rates}).String() == "none", "without a rate it is %v", n)
}

// FuzzParseNoise checks that a parsed noise, formatted and parsed again, is the same noise.
func FuzzParseNoise(f *testing.F) {
	for _, s := range []string{"none", "dropout:0.5", "group:0.25", "dropout:0.1+group:0.3", "gaussian:1e+3", "laplace:2", "poisson", "dropout:1e-1+group:0", "group:a=0.1,b=0", `dropout:0.1+group:"a,b"=0.3`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseNoise(s)
		if err != nil {
			return
		}
		again, err := ParseNoise(n.String())
		must.True(t, err == nil && reflect.DeepEqual(again, n), "ParseNoise(%q) is %v, and that is read as %v, %v", s, n, again, err)
		c0, c1, c2 := n.Coefficients()
		must.True(t, c0 >= 0 && c1 >= 0 && c2 >= 0, "ParseNoise(%q) has the coefficients %v, %v, %v", s, c0, c1, c2)
	})
}

// TestSilentDerivatives compares the derivatives of every loss under silent noise with finite differences.
func TestSilentDerivatives(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 19))
	for _, l := range everyLoss() {
		t.Run(l.String(), func(t *testing.T) {
			for range 200 {
				n, y := Silent{D: MaxSilent * r.Float64()}, target(l, r)
				p := [3]float64{2 * r.NormFloat64(), r.NormFloat64(), 0.1 + 2*r.Float64()}
				_, ds, di, dq := n.At(l, y, p[0], p[1], p[2])
				for i, got := range []float64{ds, di, dq} {
					const h = 1e-5
					above, below := p, p
					above[i], below[i] = above[i]+h, below[i]-h
					high, _, _, _ := n.At(l, y, above[0], above[1], above[2])
					low, _, _, _ := n.At(l, y, below[0], below[1], below[2])
					want := (high - low) / (2 * h)
					// Skip losses with a kink: their noise-free part (rate 0) is not differentiable there.
					must.Require(t, math.Abs(got-want) <= 2e-4*(1+math.Abs(want)) || l.Facts().Kink != nil, "D = %v, y = %v, at %v, derivative %d: %v, by differences %v", n.D, y, p, i, got, want)
				}
			}
		})
	}
}

// TestSilentIsExpectation lets many small features die at random, and compares the mean loss with At.
func TestSilentIsExpectation(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 19))
	const features, draws = 400, 40_000
	w, z := make([]float64, features), make([]float64, features)
	n, y, intercept := Silent{D: 0.5}, 1.0, 0.3
	score, squares := 0.0, 0.0
	for i := range w {
		w[i], z[i] = (r.NormFloat64()+0.1)*2/math.Sqrt(features), r.NormFloat64()
		score += w[i] * (1 - z[i])
		squares += w[i] * w[i] * (1 - z[i]) * (1 - z[i])
		intercept += w[i] * z[i]
	}
	l := must.Get(Parse("logistic:gaussian"))(t)
	want, _, _, _ := n.At(l, y, score, intercept, squares)
	sum, sum2 := 0.0, 0.0
	for range draws {
		rates := n.Rates()
		q, f := rates[r.IntN(len(rates))], intercept
		for i := range w {
			if r.Float64() >= q {
				f += w[i] * (1 - z[i])
			}
		}
		at := math.Log1p(math.Exp(-y * f))
		sum, sum2 = sum+at, sum2+at*at
	}
	mean := sum / draws
	sd := math.Sqrt((sum2/draws - mean*mean) / draws)
	must.True(t, math.Abs(mean-want) <= 4*sd+0.003, "the mean loss is %v, and %v of %d draws", want, mean, draws)
}
