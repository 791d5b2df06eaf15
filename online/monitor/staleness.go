package monitor

// This file measures what older weights lose.

import (
	"iter"
	"math"
	"slices"
	"strings"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/rows"
	"blankout/online/staleness"
	"blankout/online/watch"
)

// olderWeights measures the loss of predictions with older weights.
type olderWeights struct {
	staleness.Aged
	schema   *event.Schema
	measures *watch.Measures
	old      model.Linear // room
	scores   []float64
}

// Observe comes before the event is measured: what a constant loses is of the classes before.
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

// older returns what an older model loses at an event.
func (s *olderWeights) older(e *Event, due *model.Linear) staleness.Lost {
	s.old = *due
	m := &s.old
	m.Schema = s.schema // the stream's own, which only grows
	s.scores = slices.Grow(s.scores[:0], max(m.Outputs, len(e.Now)))[:m.Outputs]
	scores, d := m.Score(e.Met.Came, s.scores), m.Decision()
	if m.Outputs == 1 && len(e.Now) > 1 {
		d = model.Decision{Threshold: d.Threshold} // its own link is of the score of one output
	}
	value := math.NaN()
	if e.Regression {
		value = m.Value(scores[0])
	}
	return s.lost(e, Widened(scores, len(e.Now), &s.scores), d, value)
}

// Widened returns the scores of an event from before there were as many classes as now, in the memory of room.
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

// lost returns what scores of a class, or a value, lose at an event.
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

// constant returns what the class frequencies up to an event lose at it; of numbers nothing.
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

// Learned takes up that the event of the given number, of so many features, has been learned. It says whether the model is to be
// kept now, of so many rows of at most that many bytes; Keep then takes it.
func (m *Monitors) Learned(number uint64, features, rows, bytes int) bool {
	return m.stale.Learned(number, features, rows, bytes)
}

// Keep takes up a model that has learned so many events, to predict later ones. It needs no Schema.
func (m *Monitors) Keep(number uint64, of *model.Linear) { m.stale.Freeze(number, of) }

// Stop lets older models go: nothing more is measured.
func (m *Monitors) Stop() { m.stale.Stop() }

// Share has m measure the older models that others have.
func (m *Monitors) Share(others *Monitors) { m.stale.Aged = others.stale.Aged }

// State codes nothing: models have blocks of their own.
func (s *olderWeights) State(*coder.Coder) {}

// Blocks returns the blocks of the older models, as they are now.
func (m *Monitors) Blocks() (iter.Seq[event.Block], error) { return m.stale.EachBlock() }

// Restore takes up what Blocks has yielded, which may be among others. Models have at most so many outputs.
func (m *Monitors) Restore(blocks []event.Block, outputs int) error {
	return m.stale.Aged.Restore(blocks, outputs)
}

func (s *olderWeights) Report(r *Report) { r.ByAge = s.Aged.Report(s.measures.Numbers != nil) }

// warning tells at which ages weights have predicted worse than the class frequencies, "" for none.
func (s *olderWeights) warning(of loss.Loss) string {
	byAge := s.Aged.Report(s.measures.Numbers != nil)
	return measure.Stale(measure.AgedPercent(byAge), strings.HasPrefix(of.String(), "logistic"))
}
