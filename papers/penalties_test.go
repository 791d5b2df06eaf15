package papers

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/must"
)

// TestPenalties checks that the closed form equals the sampled penalty within the sampling error if scores are sums of
// many terms. The quadratic penalty must be close to both values for weak noise, and far from both for strong noise.
func TestPenalties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	numberSchema := event.NewSchema(8, nil, 2)
	numberSchema.Target = loss.Real
	var b, n batch.Builder
	for i := range 200 {
		e := event.Example{Label: i % 2, Weight: 1}
		for d := range uint32(100) {
			if r.Float64() < 0.1+0.1*float64(int(d)%2*(i%2)) {
				eventtest.Put(&e, d, 1)
			}
		}
		must.Do(t, b.Add(&e))
		e.Label, e.Target = 0, float64(2*e.Label-1)
		must.Do(t, n.Add(&e))
	}
	classes, numbers := b.Data(event.NewSchema(8, []string{"-1", "1"}, 2)), n.Data(numberSchema)
	for _, c := range []struct {
		loss, noise string
		l2          float64
		off         bool
	}{
		{"logistic", "dropout:0.05", 1, false},
		{"logistic", "gaussian:0.1", 1, false},
		{"logistic", "dropout:0.9", 0.001, true},
		{"linear", "dropout:0.5", 1, false},
	} {
		d, config := classes, batch.DefaultConfig()
		if config.Loss, config.L2 = c.loss, c.l2; loss.IsRegression(c.loss) {
			d = numbers
		}
		fit := must.Get(batch.Train(t.Context(), d, config))(t)
		noise := must.Get(loss.ParseNoise(c.noise))(t)
		p := must.Get(penaltiesOf(d, fit.Problems[0].W, fit.Model.Loss, noise, 400, 1))(t)
		t.Logf("%s %s: %+v", c.loss, c.noise, p)
		must.True(t, math.Abs(p.Sampled-p.Exact) <= 4*p.SampledError+0.05*p.Exact, "%s %s: sampled %v +- %v, closed form %v", c.loss, c.noise, p.Sampled, p.SampledError, p.Exact)
		if off := math.Abs(p.Quadratic-p.Exact) > 0.2*p.Exact; off != c.off {
			t.Errorf("%s %s: quadratic %v, exact %v", c.loss, c.noise, p.Quadratic, p.Exact)
		}
	}
}

// TestPenaltiesOfPoissonRegression checks that E A(f~) - A(f) = exp(f) (exp(v/2) - 1) for normal noise. Under dropout
// with one feature the expectation is a sum of two terms, and the sampled penalty must equal that sum.
func TestPenaltiesOfPoissonRegression(t *testing.T) {
	schema := event.NewSchema(8, nil, 8)
	schema.Target = loss.Count
	var b batch.Builder
	for i := range 60 {
		must.Do(t, b.Add(&event.Example{Target: float64(i % 7), Weight: 1 + float64(i%2), Features: event.Vec{Index: []uint32{3}, Value: []float64{float64(i%7) / 2}}}))
	}
	d := b.Data(schema).SortClasses()
	config := batch.DefaultConfig()
	config.Loss, config.L2 = "poisson", 0.1
	fit := must.Get(batch.Train(t.Context(), d, config))(t)
	w, bias := fit.Problems[0].W[0], fit.Problems[0].W[1]
	must.Require(t, math.Abs(w) >= 0.01, "a weight of %v: nothing to see", w)
	expect := func(of func(x, f float64) float64) (sum float64) {
		for i := range d.Rows() {
			x := 0.0
			if row := d.Row(i); row.Len() > 0 {
				x = row.At(0)
			}
			sum += d.Weight(i) * of(x, w*x+bias)
		}
		return sum
	}
	const q, sd = 0.3, 0.8
	for _, c := range []struct {
		noise                     loss.Noise
		quadratic, exact, sampled func(x, f float64) float64
	}{
		{loss.Gaussian{SD: sd},
			func(_, f float64) float64 { return math.Exp(f) * w * w * sd * sd / 2 },
			func(_, f float64) float64 { return math.Exp(f) * math.Expm1(w*w*sd*sd/2) },
			func(_, f float64) float64 { return math.Exp(f) * math.Expm1(w*w*sd*sd/2) }},
		{loss.Dropout{Q: q},
			func(x, f float64) float64 { return math.Exp(f) * w * w * x * x * q / (1 - q) / 2 },
			func(x, f float64) float64 { return math.Exp(f) * math.Expm1(w*w*x*x*q/(1-q)/2) },
			func(x, f float64) float64 { return q*math.Exp(bias) + (1-q)*math.Exp(bias+w*x/(1-q)) - math.Exp(f) }},
	} {
		p := must.Get(penaltiesOf(d, fit.Problems[0].W, "poisson", c.noise, 4000, 1))(t)
		t.Logf("%v: %+v", c.noise, p)
		for _, x := range []struct {
			what           string
			got, want, tol float64
		}{
			{"quadratic", p.Quadratic, expect(c.quadratic), 1e-12},
			{"exact", p.Exact, expect(c.exact), 1e-12},
			{"sampled", p.Sampled, expect(c.sampled), 4 * p.SampledError / math.Abs(p.Sampled)},
		} {
			must.True(t, math.Abs(x.got-x.want) <= x.tol*math.Abs(x.want), "%v: %s %v, want %v", c.noise, x.what, x.got, x.want)
		}
		must.True(t, p.SampledError <= 0.05*math.Abs(p.Sampled), "%v: 4000 copies leave an error of %v of %v", c.noise, p.SampledError, p.Sampled)
	}
}
