package model

// This file interprets class scores, for models and learners.

import (
	"math"
	"slices"

	"blankout/internal/loss"
)

// Decision interprets the scores of an event for classification: it returns the predicted class and the probabilities.
// Head.Decision returns a model's Decision.
type Decision struct {
	Link      *Link   // maps a score to log-odds, see Head
	Threshold float64 // see Head.Threshold
	Pairs     bool    // see Head.Pairs
}

// Decision returns the model's Decision, which interprets its scores.
func (h *Head) Decision() Decision { return Decision{h.Link, h.Threshold, h.Pairs} }

// Predict calls Decision.Predict with the model's Decision.
func (h *Head) Predict(scores []float64) (class int) { return h.Decision().Predict(scores) }

// Probabilities calls Decision.Probabilities with the model's Decision.
func (h *Head) Probabilities(scores, out []float64) []float64 {
	return h.Decision().Probabilities(scores, out)
}

// Predict returns the predicted class for the scores of an event, as the package function Predict does. For two classes
// with one output it returns the second class only if the probability of that class exceeds Threshold.
func (d Decision) Predict(scores []float64) (class int) {
	if len(scores) != 1 {
		return Predict(scores)
	}
	if d.Link.logOdds(scores[0]) > d.Least() {
		return 1
	}
	return 0
}

// Least returns the log-odds above which Predict returns the second class of two.
func (d Decision) Least() float64 {
	if d.Threshold > 0 {
		return math.Log(d.Threshold / (1 - d.Threshold))
	}
	return 0
}

// Cut returns the score of one output above which Predict returns the second class of two.
func (d Decision) Cut() float64 { return d.Link.cut(d.Least()) }

// Probability returns the probability of the second class of two for the score of one output. It applies the Link, and
// then the logistic function.
func (d Decision) Probability(score float64) float64 { return sigmoid(d.Link.logOdds(score)) }

// Probabilities writes the probability of every class to out, whose capacity must be at least max(2, K) for K classes.
// If there is one output, the probabilities are 1 - p and p, with p from Probability. If there are several outputs, the
// probabilities are the one-against-all probabilities divided by their sum.
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
		out[k] = -d.Link.logOdds(f)
	}
	loss.Exps(out)
	for k, z := range out {
		out[k] = 1 / (1 + z)
		sum += out[k]
	}
	return sum
}

// LogLoss returns the negative logarithm of the probability of a class, accurately for small probabilities. Scores of
// Pairs are not supported.
func (d Decision) LogLoss(scores []float64, label int) float64 {
	if len(scores) == 1 {
		u := d.Link.logOdds(scores[0])
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
	if own := room[label%len(room)]; len(scores) <= len(room) && own > 1e-300 {
		return math.Log(sum / own)
	}
	// Use log sigmoid(u) = -Softplus(-u).
	return math.Log(max(sum, 1e-300)) + loss.Softplus(-d.Link.logOdds(scores[label]))
}

// Judged is the result of comparing scores with a label.
type Judged struct {
	Class       int     // predicted class
	LogLoss     float64 // log-loss of the label
	Probability float64 // probability of the second class of two, if there is one output
}

// Judge returns the results of Predict, LogLoss and Probability with the same bits, but computes fewer exponentials.
func (d Decision) Judge(scores []float64, label int) (j Judged) {
	if len(scores) != 1 {
		return Judged{Class: d.Predict(scores), LogLoss: d.LogLoss(scores, label)}
	}
	u := d.Link.logOdds(scores[0])
	if u > d.Least() {
		j.Class = 1
	}
	z := loss.Exp(-math.Abs(u))
	if j.Probability = 1 / (1 + z); u < 0 {
		j.Probability = sigmoid(u)
	}
	if label == 1 {
		u = -u
	}
	j.LogLoss = max(u, 0) + loss.Log1p(z)
	return j
}

// Predict returns the predicted class for the scores of an event. If there is one output, it returns 1 if the score is
// positive, else 0. If there are several outputs, it returns the class of the largest score, and the first of several
// equal scores.
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

// ClassScores converts outputs to the scores that Predict and Probabilities use, in place. Only Pairs need a
// conversion: their scores are class probabilities, coupled from the pairwise probabilities.
func (h *Head) ClassScores(outputs []float64) []float64 {
	if !h.Pairs {
		return outputs
	}
	k := len(h.Schema.Classes)
	copy(outputs, couple(k, func(a, b int) float64 { return sigmoid(outputs[a*(a-1)/2+b]) }))
	return outputs[:k]
}

func sigmoid(u float64) float64 { return 1 / (1 + loss.Exp(-u)) }
