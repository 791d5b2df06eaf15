package monitor

// This file measures the loss of predictions by older weights (staleness).

import (
	"math"
	"slices"
	"strings"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/health"
	"blankout/online/rows"
	"blankout/online/staleness"
)

// olderWeights measures the loss of predictions with older weights.
type olderWeights struct {
	staleness.Stale
	schema   *event.Schema
	measures *health.Measures
	old      model.Linear // reusable memory for an older model
	scores   []float64
}

// Observe must be called before Measures observes the event. The baseline's loss uses the class frequencies, which must
// not include the event.
func (s *olderWeights) Observe(e *Event) *Request {
	if !e.Labeled || e.Again {
		return nil
	}
	some, fresh := false, staleness.Lost{}
	for i := range staleness.Ages {
		if !s.InReach(i, e.Number) {
			continue
		}
		due := s.Due(i, e.Number)
		if due == nil {
			continue
		}
		if !some {
			some, fresh = true, s.lost(e, e.Now, e.Decision, e.Fresh)
			s.Fresh(e.Weight, fresh)
		}
		s.Take(i, e.Weight, s.older(e, due), fresh, s.constant(e))
	}
	return nil
}

// older returns the loss of the older model due at an event.
func (s *olderWeights) older(e *Event, due *model.Linear) staleness.Lost {
	s.old = *due
	m := &s.old
	m.Schema = s.schema // the stream's Schema, which only grows
	s.scores = slices.Grow(s.scores[:0], max(m.Outputs, len(e.Now)))[:m.Outputs]
	scores, d := m.Score(e.Met.Came, s.scores), m.Decision()
	if m.Outputs == 1 && len(e.Now) > 1 {
		d = model.Decision{Threshold: d.Threshold} // its link is only for one output
	}
	value := math.NaN()
	if e.Regression {
		value = m.Value(scores[0])
	}
	return s.lost(e, Widened(scores, len(e.Now), &s.scores), d, value)
}

// Widened appends scores for the classes that were added after an event was scored. The result uses the memory of room.
func Widened(scores []float64, classes int, room *[]float64) []float64 {
	if len(scores) == classes {
		return scores
	}
	out := append((*room)[:0], scores...)
	if len(out) == 1 {
		out = append(out[:0], -scores[0], scores[0])
	}
	for len(out) < classes {
		out = append(out, rows.NoClass)
	}
	*room = out
	return out
}

// lost returns the losses at an event of predicted scores or, for regression, of a predicted value.
func (s *olderWeights) lost(e *Event, scores []float64, d model.Decision, value float64) (x staleness.Lost) {
	if e.Regression {
		return staleness.Lost{Error: math.Abs(e.Target - value), Loss: measure.Deviance(s.measures.Numbers.Loss, e.Target, value)}
	}
	j := d.Judge(scores, e.Label)
	if x.Loss = j.LogLoss; j.Class != e.Label {
		x.Error = 1
	}
	return x
}

// constant returns the losses at an event of predicting the class frequencies of the earlier events. It returns zero
// for regression.
func (s *olderWeights) constant(e *Event) (x staleness.Lost) {
	if e.Regression {
		return x
	}
	all, own, most := 0.0, 0.0, 0.0
	for class, n := range s.measures.Classes {
		all += float64(n)
		if most = max(most, float64(n)); class == e.Label {
			own = float64(n)
		}
	}
	if own < most {
		x.Error = 1
	}
	x.Loss = -math.Log((own + 1) / (all + float64(max(2, e.Active))))
	return x
}

// State does nothing, because the older models have their own checkpoint blocks.
func (s *olderWeights) State(*coder.Coder) {}

func (s *olderWeights) Report(r *Report) { r.ByAge = s.Stale.Report(s.measures.Numbers != nil) }

// warning describes the ages at which weights predict worse than the class frequencies. It returns "" if there are
// none.
func (s *olderWeights) warning(of loss.Loss) string {
	byAge := s.Stale.Report(s.measures.Numbers != nil)
	return measure.Stale(measure.StaleLossPercent(byAge), strings.HasPrefix(of.String(), "logistic"))
}
