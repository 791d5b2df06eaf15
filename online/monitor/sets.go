package monitor

// This file forms prediction sets and intervals with the coverage learner.coverage.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/conformal"
	"blankout/online/health"
)

// sets holds the nonconformity scores of prediction sets and intervals.
type sets struct {
	*conformal.Predictor // nil if disabled
	schema               *event.Schema
	target               loss.Target
}

func newSets(s Settings) sets {
	out := sets{schema: s.Schema, target: s.Target}
	if s.Coverage > 0 {
		out.Predictor = conformal.New(s.Coverage)
	}
	return out
}

// The first scoresFew scores of a range, and of each class in a range, are all added. Later scores are sampled, see
// Due.
const scoresFew = 1000

// Observe adds the nonconformity score of an event's label.
func (s *sets) Observe(e *Event) *Request {
	if s.Predictor == nil || !e.Labeled || e.Again {
		return nil
	}
	class := 1 + e.Label
	if e.Regression {
		class = 0
	}
	if !e.Due.Scores && s.Taken(e.Missing.Range, class) >= scoresFew {
		return nil
	}
	s.observe(e, true)
	return nil
}

// observe adds the nonconformity score of an event. arrived is false for a masked copy.
func (s *sets) observe(e *Event, arrived bool) {
	if e.Regression {
		if e.Residual != nil && !math.IsNaN(e.Value) {
			s.TakeNumber(s.target, e.Residual, e.Target, e.Value, e.Missing)
		}
		return
	}
	s.TakeClasses(conformal.Answer{
		Range: e.Missing.Range, Scores: e.Scores, Label: e.Label, Decision: e.Decision, Judged: e.Judged, Active: e.Active,
		Sized: len(e.Scores) == 1 || !arrived || health.Sampled(e.Number, sizedBits), Came: arrived,
	})
}

// If there are more than two classes, the size of prediction sets is measured at one in 2^sizedBits events.
const sizedBits = 4

// Masked adds the nonconformity score of the prediction of a masked event.
func (m *Monitors) Masked(e *Event) {
	if m.sets.Predictor != nil && !e.Again {
		m.sets.observe(e, false)
	}
}

// Interval returns the prediction interval of a value, or NaN before the first residual. missing describes the missing
// fields of the event.
func (m *Monitors) Interval(residual *model.Residual, value float64, missing model.MissingVariance) (low, high float64) {
	return m.sets.Interval(m.sets.target, residual, value, missing)
}

// State encodes or decodes the nonconformity scores. Scores from other settings are skipped.
func (s *sets) State(c *coder.Coder) {
	data := s.Encode()
	if c.Bytes(&data); c.Decode && len(data) > 0 && !s.Decode(data) {
		c.Failed = true
	}
}

func (s *sets) Report(r *Report) {
	r.Sets, r.CoverageByClass = s.Predictor.Report(), s.ByClass(s.schema.Classes)
}
