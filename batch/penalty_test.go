package batch_test

import (
	"math"
	"testing"

	"blankout"
	"blankout/batch"
)

// The closed form is the sampled penalty within its error where scores are sums
// of many terms; the quadratic one is near both for little noise and off for much.
func TestPenalties(t *testing.T) {
	schema, all := events(t, "testdata/adult.svm.gz")
	var b batch.Builder
	for i := range all[:200] {
		if err := b.Add(&all[i]); err != nil {
			t.Fatal(err)
		}
	}
	d := b.Data(schema).SortClasses()
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
		config := batch.DefaultConfig()
		config.Loss, config.L2 = c.loss, c.l2
		fit, err := batch.Train(t.Context(), d, config)
		if err != nil {
			t.Fatal(err)
		}
		noise, err := blankout.ParseNoise(c.noise)
		if err != nil {
			t.Fatal(err)
		}
		p, err := fit.Penalties(d, noise, 400, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s %s: %+v", c.loss, c.noise, *p)
		if math.Abs(p.Sampled-p.Exact) > 4*p.SampledError+0.05*p.Exact {
			t.Errorf("%s %s: sampled %v +- %v, closed form %v", c.loss, c.noise, p.Sampled, p.SampledError, p.Exact)
		}
		if off := math.Abs(p.Quadratic-p.Exact) > 0.2*p.Exact; off != c.off {
			t.Errorf("%s %s: quadratic %v, exact %v", c.loss, c.noise, p.Quadratic, p.Exact)
		}
	}
}
