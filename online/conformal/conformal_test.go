package conformal_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/model"
	"blankout/online/conformal"
)

// met counts, against the definition of a set, the truths that a Cover misses from where its sets begin,
// and the sets that cannot be made smaller and held the truth.
func met(c *conformal.Cover, r int, next func(n int, limit float64) conformal.Score, events int) (missed, told, smallest float64) {
	for n := range events {
		limit := c.Limit(r)
		x := next(n, limit)
		if limit >= 0 {
			told++
			switch held := x.First || x.Value <= limit; {
			case !held:
				missed++
			case limit == 0:
				smallest++
			}
		}
		c.Take(r, x)
	}
	return missed, told, smallest
}

// In the long run the enemy is held to a: the bound above is loose at the beginning.
func TestEnemyInTheLongRun(t *testing.T) {
	c := conformal.New(0.9)
	const events = 400_000
	missed, told, _ := met(c, 0, func(_ int, limit float64) conformal.Score {
		return conformal.Score{Value: min(model.MostLimit, max(limit, 0)*1.001+1e-9)}
	}, events)
	if rate := missed / told; math.Abs(rate-0.1) > 1/(0.001*events) {
		t.Errorf("%v of the truths are missed", rate)
	}
}

// A limit is the quantile of the scores of late: of a stream that stays what it is and of one that
// changes, whatever the shape of the scores.
func TestLimitIsTheQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, draw := range map[string]func() float64{
		"exponential": func() float64 { return r.ExpFloat64() },
		"wide":        func() float64 { return math.Exp(r.NormFloat64()) },
		"narrow":      func() float64 { return 0.05 * r.Float64() },
	} {
		for _, was := range []float64{1, 4} { // what scores are multiplied by at first
			c := conformal.New(0.9)
			for n := range 30_000 {
				x := draw()
				if n < 10_000 {
					x *= was
				}
				c.Take(0, conformal.Score{Value: x})
			}
			held := 0.0
			const draws = 50_000
			for range draws {
				if draw() <= c.Limit(0) {
					held++
				}
			}
			if got := held / draws; math.Abs(got-0.9) > 0.025 {
				t.Errorf("%s from %v: the limit holds %v", name, was, got)
			}
		}
	}
}

func BenchmarkTake(b *testing.B) {
	c := conformal.New(0.9)
	for b.Loop() {
		c.Take(0, conformal.Score{Value: 1.5, Size: math.NaN()})
	}
}
