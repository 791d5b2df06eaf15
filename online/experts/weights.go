package experts

// This file learns the mixture weights of the experts' lanes (mixed models).

import (
	"math"

	"blankout/internal/coder"
	"blankout/online/mixture"
)

// weights holds the mixture weights of the experts' lanes (linear models).
type weights struct {
	mixture mixture.Weights
	factors []Temperature // factors of each lane's (mixed model's) scores, if there are several outputs
	// The weights in effect. mix holds the mixture weight of each lane (mixed model), or 0 if the lane is asleep. parts
	// holds mix times the factor of the lane's scores.
	mix, parts []float64
	observed   bool // some learned weights are not in effect yet
	losses     []float64
}

// recoveryRates are the switching rates: they determine how fast the weight of a lane (mixed model) can recover, see
// mixture.Weights.
var recoveryRates = []float64{1e-5, 1e-4, 1e-3, 1e-2}

func newWeights(prior []float64) weights {
	return weights{mixture: mixture.NewWeights(prior, recoveryRates...), factors: make([]Temperature, len(prior)), losses: make([]float64, len(prior))}
}

// observe updates the weights with the losses of the lanes (mixed models) at an event.
func (w *weights) observe(lanes []float64, outputs int, asleep func(lane int) bool, lost func(scores []float64, factor float64) float64) {
	for i := range w.losses {
		if w.losses[i] = math.NaN(); asleep(i) {
			continue
		}
		scores := lanes[i*outputs:][:outputs]
		at := func(factor float64) float64 { return lost(scores, factor) }
		w.losses[i] = at(w.factors[i].Factor())
		if outputs > 1 {
			w.factors[i].Learn(at)
		}
	}
	w.mixture.Take(w.losses)
	w.observed = true
}

// force makes the learned mixture weights take effect now.
func (w *weights) force(asleep func(lane int) bool) {
	w.observed = false
	w.mix = w.mixture.Mix(w.mix[:0])
	awake, first := 0.0, -1
	for i := range w.mix {
		if asleep(i) {
			w.mix[i] = 0
		} else if first < 0 {
			first = i
		}
		awake += w.mix[i]
	}
	if awake == 0 && first >= 0 { // the weights of all awake lanes (mixed models) were 0
		w.mix[first], awake = 1, 1
	}
	w.parts = w.parts[:0]
	for i := range w.mix {
		if awake > 0 {
			w.mix[i] /= awake
		}
		w.parts = append(w.parts, w.mix[i]*w.factors[i].Factor())
	}
}

func (w *weights) state(c *coder.Coder) {
	w.mixture.State(c)
	for i := range w.factors {
		w.factors[i].State(c)
	}
}
