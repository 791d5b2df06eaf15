package batch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/must"
)

// TestConvergedAtItsGap checks that a solution whose certified gap is within the tolerance counts as converged, and
// only such a solution. The losses have kinks. Some targets are linear in the features, so that the smoothing of the
// kinks is most of the objective.
func TestConvergedAtItsGap(t *testing.T) {
	for _, name := range []string{"absolute", "quantile:0.05"} {
		for seed := range uint64(120) {
			rng := rand.New(rand.NewPCG(seed, 7))
			schema := event.NewSchema(8, nil, 0)
			schema.Target = loss.Real
			var b Builder
			n, columns := 5+rng.IntN(300), 1+rng.IntN(12)
			noise := float64(rng.IntN(3)) // 0: the targets are linear in the features
			for range n {
				var x event.Vec
				for j := range columns {
					x.Index, x.Value = append(x.Index, uint32(j)), append(x.Value, math.Round(2*rng.NormFloat64()))
				}
				must.Do(t, b.Add(&event.Example{Features: x, Target: math.Round(noise*rng.NormFloat64()) + 3*x.Value[0], Weight: 1}))
			}
			c := DefaultConfig()
			c.Loss, c.Noise, c.Cost = name, "none", math.Pow(10, float64(rng.IntN(9)-3))
			fit := must.Get(Train(t.Context(), b.Data(schema), c))(t)
			if within := fit.Gap <= (c.Tol+1e-14)*math.Abs(fit.Objective); fit.Converged != within {
				t.Errorf("%s: converged %v with a gap of %.2g of the objective", fmt.Sprint(name, " ", seed, ", ", n, " events, c = ", c.Cost), fit.Converged, fit.Gap/fit.Objective)
			}
		}
	}
}
