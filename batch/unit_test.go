package batch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// trainedOn solves a regression on 200 events whose targets are transformed by f, and returns the predictions.
func trainedOn(t *testing.T, c Config, counts bool, f func(float64) float64) (predictions []float64, fit *Fit) {
	t.Helper()
	schema := event.NewSchema(8, nil, 0)
	schema.Target = loss.Real
	if counts {
		schema.Target = loss.Count
	}
	var b Builder
	rng := rand.New(rand.NewPCG(5, 6))
	var rows []event.Vec
	for range 200 {
		x := event.Vec{Index: []uint32{0, 1, 2}, Value: []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}}
		y := 2*x.Value[0] - x.Value[1] + 0.5*rng.NormFloat64()
		if counts {
			y = math.Exp(y / 2)
		}
		if err := b.Add(&event.Example{Features: x, Label: 0, Target: f(y), Weight: 1}); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, x)
	}
	fit, err := Train(t.Context(), b.Data(schema), c)
	if err != nil {
		t.Fatalf("%s: %v", c.Loss, err)
	}
	for _, x := range rows {
		score := fit.Model.Score(&event.Example{Features: x}, make([]float64, 1))
		predictions = append(predictions, fit.Model.Value(score[0]))
	}
	return predictions, fit
}

// The predictions for a y + b are a times those for y, plus b: of counts for a y.
func TestTrainIsEquivariant(t *testing.T) {
	for _, name := range []string{"linear", "absolute", "quantile:0.9", "huber:1", "poisson"} {
		for _, noise := range []string{"none", "dropout:0.3"} {
			if name == "poisson" && noise != "none" {
				continue
			}
			c := DefaultConfig()
			c.Loss, c.Noise, c.Cost, c.Tol = name, noise, 1, 1e-7
			counts := name == "poisson"
			want, fit := trainedOn(t, c, counts, func(y float64) float64 { return y })
			for _, a := range []float64{1e-12, 1e-3, 1e3, 1e12} {
				for _, b := range []float64{0, 7, 1e6} {
					if counts && b != 0 {
						continue
					}
					t.Run(fmt.Sprint(name, noise, a, b), func(t *testing.T) {
						got, other := trainedOn(t, c, counts, func(y float64) float64 { return a * (y + b) })
						for i := range got {
							if off := math.Abs(got[i]/a-b-want[i]) / max(1, math.Abs(want[i])); !(off < 2e-4) {
								t.Fatalf("event %d: %v, want %v (%v off)", i, got[i]/a-b, want[i], off)
							}
						}
						if !other.Converged || !fit.Converged {
							t.Errorf("converged %v, %v", fit.Converged, other.Converged)
						}
					})
				}
			}
		}
	}
}

// One target of 1e9 among two hundred moves the robust losses little.
func TestTrainOutlier(t *testing.T) {
	for _, name := range []string{"absolute", "huber:1"} {
		c := DefaultConfig()
		c.Loss, c.Noise, c.Cost, c.Tol = name, "none", 1, 1e-12 // of a value that the outlier makes large
		want, _ := trainedOn(t, c, false, func(y float64) float64 { return y })
		first := true
		got, _ := trainedOn(t, c, false, func(y float64) float64 {
			if first {
				first = false
				return 1e9
			}
			return y
		})
		off := 0.0
		for i := range got {
			off += math.Abs(got[i]-want[i]) / float64(len(got))
		}
		if off > 0.05 {
			t.Errorf("%s: predictions move by %.3f", name, off)
		}
	}
}
