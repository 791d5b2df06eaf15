package model

// This file holds what the scores of classes mean, for models and for whoever is learning one.

import (
	"math"
	"slices"

	"blankout/loss"
)

// Decision says what the scores of an event mean where labels are classes: which class they
// predict, and with what probabilities. Head.Decision is that of a model.
type Decision struct {
	Calibration
	Threshold float64 // that of Head
	Pairs     bool    // that of Head
}

// Calibration is Platt's map of a score: P(positive) = 1/(1 + exp(-(A f + B))).
type Calibration struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

// Decision returns what the model's scores mean.
func (h *Head) Decision() Decision {
	d := Decision{Calibration: Calibration{A: 1}, Threshold: h.Threshold, Pairs: h.Pairs}
	if h.Calibration != nil {
		d.Calibration = *h.Calibration
	}
	return d
}

// Predict is Decision.Predict.
func (h *Head) Predict(scores []float64) (class int) { return h.Decision().Predict(scores) }

// Probabilities is Decision.Probabilities.
func (h *Head) Probabilities(scores, out []float64) []float64 {
	return h.Decision().Probabilities(scores, out)
}

// Predict returns the class of an event given its scores, as the function Predict
// does, but of two classes with one output the second one only if its
// probability exceeds Threshold.
func (d Decision) Predict(scores []float64) (class int) {
	if len(scores) != 1 {
		return Predict(scores)
	}
	if a, b := d.Line(); a*scores[0]+b > 0 {
		return 1
	}
	return 0
}

// Line returns a and b: Predict takes the second of two classes where
// a f + b is above 0 for the score f of one output.
func (d Decision) Line() (a, b float64) {
	a, b = d.A, d.B
	if d.Threshold > 0 {
		b -= math.Log(d.Threshold / (1 - d.Threshold))
	}
	return a, b
}

// Probability returns that of the second of two classes given the score of one output: the
// calibrated logistic function.
func (d Decision) Probability(score float64) float64 { return sigmoid(d.A*score + d.B) }

// Probabilities writes the probability of every class to out, which must have
// room for max(2, K) values. One output: Probability, and what is left for the first
// class. More: the one-against-all probabilities divided by their sum.
func (d Decision) Probabilities(scores, out []float64) []float64 {
	if d.Pairs {
		return append(out[:0], scores...)
	}
	if len(scores) == 1 {
		p := d.Probability(scores[0])
		return append(out[:0], 1-p, p)
	}
	out = out[:len(scores)]
	sum := d.against(scores, out)
	for k := range out {
		if sum > 0 {
			out[k] /= sum
		} else {
			out[k] = 1 / float64(len(out))
		}
	}
	return out
}

// against writes the one-against-all probabilities to out, and returns their sum.
func (d Decision) against(scores, out []float64) (sum float64) {
	for k, f := range scores {
		out[k] = -(d.A*f + d.B)
	}
	loss.Exps(out)
	for k, z := range out {
		out[k] = 1 / (1 + z)
		sum += out[k]
	}
	return sum
}

// LogLoss returns minus the logarithm of the probability of a class, with all its digits
// however small that is. The scores are not those of Pairs.
func (d Decision) LogLoss(scores []float64, label int) float64 {
	if len(scores) == 1 {
		u := d.A*scores[0] + d.B
		if label == 1 {
			u = -u
		}
		return loss.Softplus(u)
	}
	sum := 0.0
	var room [32]float64
	for some := range slices.Chunk(scores, len(room)) {
		sum += d.against(some, room[:len(some)])
	}
	// log sigmoid(u) = -Softplus(-u)
	return math.Log(max(sum, 1e-300)) + loss.Softplus(-(d.A*scores[label] + d.B))
}

// Judged is what scores come to at an event of a label.
type Judged struct {
	Class       int     // as Predict has it
	LogLoss     float64 // of the label
	Probability float64 // of the second of two classes, where there is one output
}

// Judge returns Predict, LogLoss and Probability, to the bit, with fewer exponentials.
func (d Decision) Judge(scores []float64, label int) (j Judged) {
	j.Class = d.Predict(scores)
	if len(scores) != 1 {
		j.LogLoss = d.LogLoss(scores, label)
		return j
	}
	u := d.A*scores[0] + d.B
	z := math.Exp(-math.Abs(u))
	if j.Probability = 1 / (1 + z); u < 0 {
		j.Probability = sigmoid(u)
	}
	if label == 1 {
		u = -u
	}
	j.LogLoss = max(u, 0) + loss.Log1p(z)
	return j
}

// Predict returns the class of an event given its scores: for one output class
// 1 if the score is positive, else 0; for more the first of the largest.
func Predict(scores []float64) (class int) {
	if len(scores) == 1 {
		if scores[0] > 0 {
			return 1
		}
		return 0
	}
	for k, f := range scores {
		if f > scores[class] {
			class = k
		}
	}
	return class
}

// ClassScores turns outputs into the scores that Predict and Probabilities
// take, in place. They are the same but for Pairs: there the scores are the
// probabilities of the classes, coupled from those of the pairs.
func (h *Head) ClassScores(outputs []float64) []float64 {
	if !h.Pairs {
		return outputs
	}
	k := len(h.Schema.Classes)
	copy(outputs, couple(k, func(a, b int) float64 { return sigmoid(outputs[a*(a-1)/2+b]) }))
	return outputs[:k]
}

func sigmoid(u float64) float64 { return 1 / (1 + math.Exp(-u)) }
