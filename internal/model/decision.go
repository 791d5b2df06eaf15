package model

// This file interprets class scores, for models and learners.

import (
	"fmt"
	"math"
	"slices"
	"sort"

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

// Link maps a score to log-odds. It is a monotone function that is linear between knots, and constant beyond the first
// and the last knot. It can represent what a linear score cannot, such as a 10 % rate of wrong labels at any score. A
// nil Link is the identity.
type Link struct {
	Scores  []float64 `json:"scores"`   // scores at the knots, ascending
	LogOdds []float64 `json:"log_odds"` // log-odds at the knots, not decreasing
}

// logOdds returns the log-odds of a score.
func (l *Link) logOdds(f float64) float64 {
	if l == nil {
		return f
	}
	last := len(l.Scores) - 1
	switch {
	case !(f > l.Scores[0]):
		return l.LogOdds[0]
	case f >= l.Scores[last]:
		return l.LogOdds[last]
	}
	i, high := 0, last // i becomes the first knot at or above the score
	for i < high {
		if middle := (i + high) / 2; l.Scores[middle] < f {
			i = middle + 1
		} else {
			high = middle
		}
	}
	if l.Scores[i] == f {
		return l.LogOdds[i]
	}
	part := (f - l.Scores[i-1]) / (l.Scores[i] - l.Scores[i-1])
	return l.LogOdds[i-1] + part*(l.LogOdds[i]-l.LogOdds[i-1])
}

// mostCut is the result of cut if every score (-mostCut) or no score (mostCut) has larger log-odds.
const mostCut = 1e9

// cut returns the score above which the log-odds exceed u.
func (l *Link) cut(u float64) float64 {
	if l == nil {
		return u
	}
	i := sort.Search(len(l.Scores), func(i int) bool { return l.LogOdds[i] > u })
	switch i {
	case 0:
		return -mostCut
	case len(l.Scores):
		return mostCut
	}
	part := (u - l.LogOdds[i-1]) / (l.LogOdds[i] - l.LogOdds[i-1])
	return l.Scores[i-1] + part*(l.Scores[i]-l.Scores[i-1])
}

// Check returns an error if a decoded Link is invalid.
func (l *Link) Check() error {
	wrong := len(l.Scores) < 2 || len(l.Scores) != len(l.LogOdds)
	for i := 0; i < len(l.Scores) && !wrong; i++ {
		x, u := l.Scores[i], l.LogOdds[i]
		wrong = x-x != 0 || u-u != 0 || i > 0 && (x <= l.Scores[i-1] || u < l.LogOdds[i-1]) || math.Abs(x) > mostCut
	}
	if wrong {
		return fmt.Errorf("a link of the scores %v and log-odds %v", l.Scores, l.LogOdds)
	}
	return nil
}

// couple returns the probabilities of k classes from pairwise probabilities. r(i, j) is the probability of class i
// given that the class is i or j, so r(j, i) is 1 - r(i, j). It implements the second method of Wu, Lin and Weng,
// Probability Estimates for Multi-class Classification by Pairwise Coupling (2004, section 4), by their algorithm 2.
//
// The result is the p that sums to one and minimizes the sum over all pairs of (r(j,i) p_i - r(i,j) p_j)^2. This sum is
// p'Qp, where Q_ii is the sum of r(j,i)^2 and Q_ij = -r(j,i) r(i,j). At the minimum every (Qp)_i is p'Qp.
func couple(k int, r func(i, j int) float64) []float64 {
	const (
		least = 1e-7 // smallest r, so that Q is not singular
		tol   = 1e-9 // tolerance of (Qp)_i; all r are at most 1
		most  = 1000 // largest number of rounds
	)
	memory := make([]float64, k*k+2*k)
	p, qp, q := memory[:k], memory[k:2*k], memory[2*k:]
	for i := range k {
		p[i] = 1 / float64(k)
		for j := range i {
			a := min(max(r(i, j), least), 1-least)
			b := 1 - a
			q[i*k+j], q[j*k+i] = -a*b, -a*b
			q[i*k+i] += b * b
			q[j*k+j] += a * a
		}
	}
	for range most {
		pqp, gap := 0.0, 0.0
		for i := range k {
			qp[i] = 0
			for j, x := range p {
				qp[i] += q[i*k+j] * x
			}
			pqp += p[i] * qp[i]
		}
		for _, x := range qp {
			gap = max(gap, math.Abs(x-pqp))
		}
		if gap < tol {
			break
		}
		for i := range k {
			// step is the change of p_i, after which p is normalized again.
			row := q[i*k:][:k]
			step := (pqp - qp[i]) / row[i]
			pqp = (pqp + step*(step*row[i]+2*qp[i])) / ((1 + step) * (1 + step))
			p[i] += step
			for j := range k {
				qp[j] = (qp[j] + step*row[j]) / (1 + step)
				p[j] /= 1 + step
			}
		}
	}
	return p
}
