package online_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
)

// likeReadings draws events of eight numbers that a common cause moves; the label is its sign. lost changes readings.
type likeReadings struct {
	*rand.Rand
	lost func(t *likeReadings, x []float64)
}

func likeReadingsSchema() *event.Schema {
	s := event.NewSchema(0, []string{"no", "yes"}, 2)
	for i := range 8 {
		s.Fields = append(s.Fields, event.Field{Name: string(rune('a' + i)), Kind: event.Numeric})
	}
	return s
}

func (t *likeReadings) next() *event.Example {
	e := &event.Example{Weight: 1, Field: []uint16{1, 2, 3, 4, 5, 6, 7, 8}, Features: event.Vec{Index: []uint32{1, 2, 3, 4, 5, 6, 7, 8}}}
	common := t.NormFloat64()
	if common+0.3*t.NormFloat64() > 0 {
		e.Label = 1
	}
	for i := range 8 {
		e.Features.Value = append(e.Features.Value, float64(10*i)+5*(common+0.4*t.NormFloat64()))
	}
	if t.lost != nil {
		t.lost(t, e.Features.Value)
	}
	return e
}

// wrong returns the errors of a model in n events, and those of the model without its Doubt.
func wrong(m *model.Linear, s *likeReadings, n int) (with, without int) {
	plain := *m
	plain.Doubt = nil
	out := make([]float64, 1)
	for range n {
		e := s.next()
		if m.Predict(m.Score(e, out)) != e.Label {
			with++
		}
		if plain.Predict(plain.Score(e, out)) != e.Label {
			without++
		}
	}
	return with, without
}

// TestSilentDeath checks that numbers which die at a value of their own, in a stream whose learner is told nothing, cost
// fewer errors once the stream has shown that value. More numbers die than the learner has seen: it learns by itself what
// a frequent value says, so corrections have nothing to gain there.
func TestSilentDeath(t *testing.T) {
	t.Parallel()
	s := &likeReadings{Rand: rand.New(rand.NewPCG(1, 1))}
	l := newLearner(t, online.DefaultConfig(), likeReadingsSchema())
	learn := func(n int) {
		for range n {
			l.Learn(s.next(), nil)
		}
	}
	learn(3000)
	d := l.Snapshot().Model().Doubt
	must.Require(t, d != nil && len(d.Columns) == 8 && slices.Equal(d.Columns[0].Fills, []float64{0}), "%+v", d)
	dead := 0.2
	s.lost = func(s *likeReadings, x []float64) {
		for i := range x {
			if s.Float64() < dead {
				x[i] = 10*float64(i) + 7 // within the range of the column
			}
		}
	}
	learn(600)
	dead = 0.5
	with, without := wrong(l.Snapshot().Model(), s, 2000)
	must.True(t, float64(with) <= 0.75*float64(without), "%d errors, %d if numbers are taken as they are", with, without)
	logs := newLearner(t, asIs(online.DefaultConfig()), likeReadingsSchema())
	for range 1000 {
		logs.Learn(s.next(), nil)
	}
	with, without = wrong(logs.Snapshot().Model(), s, 500)
	must.True(t, with == without, "with doubt = log %d errors, %d if numbers are taken as they are", with, without)
}

// TestContradictionIsSignal checks that readings which contradict each other are not corrected where that is what the
// class is: in fraud, say.
func TestContradictionIsSignal(t *testing.T) {
	t.Parallel()
	s := &likeReadings{Rand: rand.New(rand.NewPCG(2, 2))}
	fraud := func() *event.Example {
		e := s.next()
		if e.Label = 0; s.Float64() < 0.05 {
			e.Label, e.Features.Value[2] = 1, e.Features.Value[2]+25
		}
		return e
	}
	c := online.DefaultConfig()
	l := newLearner(t, c, likeReadingsSchema())
	for range 6000 {
		l.Learn(fraud(), nil)
	}
	m := l.Snapshot().Model()
	plain := *m
	plain.Doubt = nil
	gain, events := 0.0, 0
	for range 4000 {
		e := fraud()
		if m.Doubted(e) == nil {
			continue
		}
		events++
		gain += plain.Decision().LogLoss(plain.Score(e, make([]float64, 1)), e.Label) - m.Decision().LogLoss(m.Score(e, make([]float64, 1)), e.Label)
	}
	must.True(t, events >= 50 && gain >= -0.02*float64(events), "%d events with doubted numbers, log-loss lower by %v with their correction", events, gain/float64(events))
}

// TestDoubtEnds checks that numbers which change for good, as by another unit, are no longer doubted once the stream has
// shown them often, and that errors return to what they were.
func TestDoubtEnds(t *testing.T) {
	t.Parallel()
	s := &likeReadings{Rand: rand.New(rand.NewPCG(3, 3))}
	l := newLearner(t, online.DefaultConfig(), likeReadingsSchema())
	for range 3000 {
		l.Learn(s.next(), nil)
	}
	before, _ := wrong(l.Snapshot().Model(), s, 2000)
	s.lost = func(_ *likeReadings, x []float64) { x[3] += 2.5 * 5.4 }
	for range 2000 {
		l.Learn(s.next(), nil)
	}
	m, doubted := l.Snapshot().Model(), 0.0
	for range 500 {
		if x := m.Doubted(s.next()); x != nil {
			for _, r := range x.Readings {
				if r.Column == 4 {
					doubted += r.Probability / 500
				}
			}
		}
	}
	after, _ := wrong(m, s, 2000)
	must.True(t, doubted <= 0.1 && float64(after) <= 1.15*float64(before)+3*math.Sqrt(float64(before)), "doubt %.3f; %d errors, %d before", doubted, after, before)
}

// TestDoubtedField checks that a number which begins to contradict the others raises an alarm, and ends it once its new
// relation to the others has been learned. The alarm has the reading and what the others say. No other field raises one.
func TestDoubtedField(t *testing.T) {
	t.Parallel()
	s := &likeReadings{Rand: rand.New(rand.NewPCG(5, 1))}
	l := newLearner(t, online.DefaultConfig(), likeReadingsSchema())
	learn := func(n int) *health.Health {
		for range n {
			l.Learn(s.next(), nil)
		}
		return l.Report().Health
	}
	h := learn(6000)
	must.Require(t, h.Raised == 0 && h.Fields[0].Doubted != nil && h.Fields[0].Doubted.Usual <= 0.03, "%d alarms: %+v", h.Raised, h.Fields[0])
	s.lost = func(s *likeReadings, x []float64) { x[2] = 40 - x[2] } // as plausible alone as before
	h = learn(2500)
	must.Require(t, h.Alarms == 1 && h.Raised == 1 && h.Fields[0].Field == "c", "%d alarms, %d raised: %+v", h.Alarms, h.Raised, h.Fields[0])
	if a := h.Changes[0]; a.Kind != "doubted" || a.SinceEvent < 5700 || a.Now < 0.1 || a.Usual > 0.03 || math.Abs(*a.Value-20) > 30 || math.Abs(*a.Expected-20) > 30 || (*a.Value-20)*(*a.Expected-20) > 0 {
		t.Errorf("%+v reads %v, expected %v", a, *a.Value, *a.Expected)
	}
	h = learn(12000)
	must.True(t, h.Alarms == 0 && h.Raised == 1 && h.Changes[len(h.Changes)-1].State == "ended", "%d alarms, %d raised: %+v", h.Alarms, h.Raised, h.Changes)
}
