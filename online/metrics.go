package online

import (
	"math"

	"blankout"
)

// Metrics are the progressive measures: every event is scored before it is
// learned, by the weights that are published. Sums are weighted by importance.
type Metrics struct {
	Events     uint64 // met with a weight above 0, unlabelled ones included
	Unlabelled uint64
	Refused    uint64
	Features   int      // columns seen
	Classes    []uint64 // labelled events by class

	Level     string     // the noise level that is published
	Forecasts []Forecast // by level

	Total  Progress // since the beginning
	Window Progress // recently: an event's weight halves every 700 events or so
}

// Progress is a sum of progressive losses.
type Progress struct {
	Weight  float64 // of the labelled events
	Wrong   float64 // of those whose class was predicted wrongly
	LogLoss float64 // nats
}

// Error returns the share of events predicted wrongly, NaN if there are none.
func (p Progress) Error() float64 { return p.Wrong / p.Weight }

// MeanLogLoss returns the mean log-loss in nats, NaN without events.
func (p Progress) MeanLogLoss() float64 { return p.LogLoss / p.Weight }

func newMetrics() Metrics { return Metrics{} }

func (p *Progress) add(weight, wrong, logLoss, keep float64) {
	p.Weight = p.Weight*keep + weight
	p.Wrong = p.Wrong*keep + wrong
	p.LogLoss = p.LogLoss*keep + logLoss
}

// measure counts in the scores at hand.
func (l *Learner) measure(label int, weight float64) {
	m, scores := &l.metrics, l.now.scores
	for label >= len(m.Classes) {
		m.Classes = append(m.Classes, 0)
	}
	m.Classes[label]++
	wrong := 0.0
	if l.predict(scores) != label {
		wrong = weight
	}
	loss := weight * logLoss(scores, label)
	m.Total.add(weight, wrong, loss, 1)
	m.Window.add(weight, wrong, loss, 0.999)
}

func (l *Learner) predict(scores []float64) int {
	if len(scores) == 1 {
		if scores[0] > l.logit {
			return 1
		}
		return 0
	}
	return blankout.Predict(scores)
}

// logLoss is minus the logarithm of the probability of a class, as
// blankout.Model.Probabilities has it.
func logLoss(scores []float64, label int) float64 {
	if len(scores) == 1 {
		f := scores[0]
		if label == 1 {
			f = -f
		}
		return softplus(f)
	}
	sum := 0.0
	for _, f := range scores {
		sum += 1 / (1 + math.Exp(-f))
	}
	// log sigmoid(f) = -softplus(-f)
	return math.Log(max(sum, 1e-300)) + softplus(-scores[label])
}

func softplus(u float64) float64 { return max(u, 0) + math.Log1p(math.Exp(-math.Abs(u))) }
