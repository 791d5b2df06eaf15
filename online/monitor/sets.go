package monitor

// This file finds how much predictions must leave open to hold the truth as often as learner.coverage says.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/conformal"
	"blankout/online/watch"
)

// sets has the scores of prediction sets and intervals.
type sets struct {
	*conformal.Cover // nil for none
	schema           *event.Schema
	target           loss.Target
}

func newSets(s Settings) sets {
	out := sets{schema: s.Schema, target: s.Target}
	if s.Coverage > 0 {
		out.Cover = conformal.New(s.Coverage)
	}
	return out
}

// scoresFew scores of a range, or of a class in it, are taken at every event, later ones at those that are due.
const scoresFew = 1000

// Observe takes up how far off the label of an event is that came as it was predicted.
func (s *sets) Observe(e *Event) *Request {
	if s.Cover == nil || !e.Labeled || e.Again {
		return nil
	}
	class := 1 + e.Label
	if e.Regression {
		class = 0
	}
	if !e.Due.Scores && s.Taken(e.Lacks.Range, class) >= scoresFew {
		return nil
	}
	s.take(e, true)
	return nil
}

// take takes up an event. That it came so says that no mask has deleted anything of it.
func (s *sets) take(e *Event, came bool) {
	if e.Regression {
		if e.Residual != nil && !math.IsNaN(e.Value) {
			s.TakeNumber(s.target, e.Residual, e.Target, e.Value, e.Lacks)
		}
		return
	}
	s.TakeClasses(conformal.Answer{
		Range: e.Lacks.Range, Scores: e.Scores, Label: e.Label, Decision: e.Decision, Judged: e.Judged, Active: e.Active,
		Sized: len(e.Scores) == 1 || !came || watch.Sampled(e.Number, sizedBits), Came: came, Shared: e.Part,
	})
}

// The set of one of 2^sizedBits events has its size found where there are more than two classes.
const sizedBits = 4

// Masked takes up what is predicted of an event of which a mask has deleted some.
func (m *Monitors) Masked(e *Event) {
	if m.sets.Cover != nil && !e.Again {
		m.sets.take(e, false)
	}
}

// Interval returns the interval of a predicted value of an event that lacks something, NaN where none is known.
func (m *Monitors) Interval(residual *model.Residual, value float64, lacks model.Lacked) (low, high float64) {
	return m.sets.Interval(m.sets.target, residual, value, lacks)
}

// State codes the scores. Those of other settings, without sets or with, are passed over.
func (s *sets) State(c *coder.Coder) {
	data := s.Encode()
	if c.Bytes(&data); c.Decode && len(data) > 0 && !s.Decode(data) {
		c.Failed = true
	}
}

func (s *sets) Report(r *Report) {
	r.Sets, r.CoverageByClass = s.Cover.Report(), s.ByClass(s.schema.Classes)
}
