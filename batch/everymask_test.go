package batch

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/must"
)

// maskedData returns examples of a few columns with weights and targets. Some of the examples are unlabeled.
func maskedData(t *testing.T, n, columns int, unlabeled bool) (*Data, []float64) {
	t.Helper()
	r := rand.New(rand.NewPCG(12, 12))
	var b Builder
	for i := range n {
		e := event.Example{Label: r.IntN(2), Weight: 1 + float64(r.IntN(2))}
		if unlabeled && i%7 == 3 {
			e.Label = event.Unlabeled
		}
		for c := range columns {
			if r.IntN(3) > 0 {
				eventtest.Put(&e, uint32(c), r.NormFloat64())
			}
		}
		must.Do(t, b.Add(&e))
	}
	d := b.Data(event.NewSchema(8, []string{"a", "b"}, 2))
	return d, d.signs(1)
}

// TestExactIsTheSumOverMasks checks that the objective with the bound "exact" equals the penalty plus the sum of the
// losses over all masks, each times its probability.
func TestExactIsTheSumOverMasks(t *testing.T) {
	d, y := maskedData(t, 12, 6, false)
	r := rand.New(rand.NewPCG(13, 13))
	for _, name := range []string{"logistic", "hinge", "squared-hinge", "quadratic", "probit", "erf"} {
		for _, q := range []float64{0, 0.3, 0.9} {
			c := DefaultConfig()
			c.Loss, c.Bound, c.Cost = name, ExactBound, 0.8
			noise := loss.Noise(loss.Dropout{Q: q})
			if q == 0 {
				noise = loss.NoNoise{}
			}
			build, told, err := c.objective(noise)
			if err != nil || !strings.HasPrefix(told, name+":exact") && name != "quadratic" {
				t.Fatalf("%s: %q, %v", name, told, err)
			}
			o := must.Get(build(d, Subproblem{Y: y}, c))(t)
			l := must.Get(loss.Parse(name))(t)
			if clean := l.Facts().Clean; clean != nil {
				l = clean
			}
			for range 5 {
				w := make([]float64, d.Columns()+1)
				want := 0.0
				for i := range w {
					w[i] = r.NormFloat64()
					if i < d.Columns() {
						want += w[i] * w[i]
					}
				}
				for i := range d.Rows() {
					row := d.Row(i)
					for mask := range 1 << row.Len() {
						f, p := w[d.Columns()], 1.0
						for j, c := range row.Index {
							if mask>>j&1 == 1 {
								f, p = f+w[c]*row.At(j)/(1-q), p*(1-q)
							} else {
								p *= q
							}
						}
						at, _, _ := l.At(y[i], f, 0)
						want += loss.Cost(l, c.Cost) * d.Weight(i) * p * at
					}
				}
				if got := o.ValueGrad(w, nil); !(math.Abs(got-want) <= 1e-10*want) {
					t.Errorf("%s, q = %v: J = %v, the sum over masks is %v", name, q, got, want)
				}
			}
		}
	}
}

// TestExactIsSolved checks that the solution with the bound "exact" minimizes the exact expectation: other weights must
// not have a smaller value. For the quadratic loss the default bound must give the same solution.
func TestExactIsSolved(t *testing.T) {
	d, _ := maskedData(t, 80, 5, false)
	for _, name := range []string{"logistic", "hinge", "quadratic"} {
		c := DefaultConfig()
		c.Loss, c.Noise, c.Bound = name, "dropout:0.6", ExactBound
		exact, err := Train(t.Context(), d, c)
		if err != nil || !exact.Converged || math.IsInf(exact.Gap, 0) {
			t.Fatalf("%s: %v, gap %v", name, err, exact.Gap)
		}
		c.Bound = ""
		normal := must.Get(Train(t.Context(), d, c))(t)
		c.Bound = ExactBound
		build, _ := must.Get2(c.objective(loss.Dropout{Q: 0.6}))(t)
		o := must.Get(build(d, Subproblem{Y: d.signs(1)}, c))(t)
		least, other := o.ValueGrad(exact.Problems[0].W, nil), o.ValueGrad(normal.Problems[0].W, nil)
		if math.Abs(least-exact.Objective) > 1e-9*least {
			t.Errorf("%s: it tells %v, at its weights are %v", name, exact.Objective, least)
		}
		if worse := (other - least) / least; name == "quadratic" && worse > 1e-5 || name != "quadratic" && !(worse > 1e-8 && worse < 0.05) {
			t.Errorf("%s: the exact objective is %v at the approximation's weights, least %v", name, other, least)
		}
	}
}

// TestExactRefuses checks that problems whose masks cannot be enumerated are rejected with an error that names the
// reason. Settings without effect must be rejected too.
func TestExactRefuses(t *testing.T) {
	small, _ := maskedData(t, 20, 4, true)
	large, _ := maskedData(t, 5, 60, false)
	many, _ := maskedData(t, 12_000, 16, false)
	for _, x := range []struct {
		change func(*Config)
		d      *Data
		want   string
	}{
		{func(c *Config) { c.Noise = "gaussian:0.5" }, small, "needs dropout, not noise gaussian"},
		{func(c *Config) { c.Noise = "group:0.5" }, small, "needs dropout, not noise group"},
		{func(c *Config) { c.Copies = 3 }, small, "excludes copies"},
		{func(c *Config) { c.Loss = "t-logistic:1.5" }, small, "no bound exact"},
		{func(*Config) {}, small, "this loss cannot use unlabeled examples"},
		{func(*Config) {}, large, "at most 16"},
		{func(*Config) {}, many, "fewer or smaller events"},
	} {
		c := DefaultConfig()
		c.Noise, c.Bound, c.Alpha = "dropout:0.5", ExactBound, 0.4
		x.change(&c)
		err := c.Check()
		if err == nil {
			_, err = Train(t.Context(), x.d, c)
		}
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
		if x.want == "this loss cannot use unlabeled examples" && !errors.Is(err, ErrUnlabeled) {
			t.Errorf("%v is no ErrUnlabeled", err)
		}
	}
	c := DefaultConfig()
	c.Noise, c.Bound, c.Alpha = "dropout:0.5", ExactBound, 0
	if _, err := Train(t.Context(), small, c); err != nil {
		t.Error(err)
	}
}

// TestExactWithSplines checks that dropout removes a number together with its spline columns. For the quadratic loss the
// approximation is exact and must give the same result.
func TestExactWithSplines(t *testing.T) {
	d, _ := curvedData(t, 60, curvedWeight)
	var told [2]float64
	for i, bound := range []string{"", ExactBound} {
		c := DefaultConfig()
		c.Loss, c.Noise, c.Bound = "quadratic", "dropout:0.4", bound
		f := must.Get(Train(t.Context(), d, c))(t)
		told[i] = f.Objective
	}
	if math.Abs(told[0]-told[1]) > 1e-6*told[0] {
		t.Errorf("objectives %v", told)
	}
}
