package online_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
	"blankout/online/synthetic"
)

// TestStuckIsNullToMeasures compares measures of a model on raw events with measures on events with null in place of
// stuck values. They must be equal. The measures are the objective, the evidence of a validation, the error without a
// field, and Predict.
func TestStuckIsNullToMeasures(t *testing.T) {
	s := synthetic.NewStuckStream(8)
	l := newStuck(t, s, nil)
	for n := range 2100 {
		if n == 2000 {
			s.Stuck[1] = 25
		}
		l.Learn(s.Next(), nil)
	}
	var came, nulls []event.Example
	for range 400 {
		e := s.Next()
		came = append(came, *e)
		asNull := *e
		asNull.Missing, asNull.Features, asNull.Field = []uint16{1}, event.Vec{Index: e.Features.Index[1:], Value: e.Features.Value[1:]}, e.Field[1:]
		nulls = append(nulls, asNull)
	}
	m := l.Snapshot().Model()
	for name, say := range map[string]func(events []event.Example) any{
		"evaluate": func(events []event.Example) any {
			objective, wrong, _, err := l.Evaluate(t.Context(), eventtest.Source(event.Batch{Topic: "t", Examples: events}), 1)
			return []any{objective, wrong, err}
		},
		"without": func(events []event.Example) any {
			g := must.Get(batch.WithoutPart(m, events, "field", "b", []float64{0, 0.5}))(t)
			data, err := json.Marshal(g)
			return []any{string(data), err}
		},
		"predict": func(events []event.Example) any {
			var sums measure.Classes
			var out []float64
			for i := range events {
				p := l.Predict(&events[i])
				p.Measure(&events[i], &sums)
				out = p.Append(out)
			}
			return fmt.Sprint(sums, out)
		},
		"delete": func(events []event.Example) any {
			var out []float64
			for i := range events {
				e, left := &events[i], event.Example{}
				x := m.Standardized(e, event.Vec{})
				dead := make([]bool, len(x.Index))
				dead[0] = true
				model.LossesOf(m, 0).Lose(model.LossDeclared, e, 0, x.Index, dead, &left)
				out = append(out, m.Score(&left, make([]float64, 2))...)
			}
			return fmt.Sprint(out)
		},
	} {
		a, b := fmt.Sprint(say(came)), fmt.Sprint(say(nulls))
		must.True(t, a == b, "%s: %.300s\nas null %.300s", name, a, b)
	}
}

// TestStuck checks that a stuck field is detected and then counts as missing in three places: predictions, the model of
// a Snapshot, and the counts of usual fields.
func TestStuck(t *testing.T) {
	s := synthetic.NewStuckStream(3, [2]string{"a", "word"})
	c := plain()
	c.Doubt = "auto"
	l := newLearner(t, c, s.Schema)
	found := 0
	for n := range 3000 {
		switch n {
		case 1500:
			s.Stuck[1] = 25
		case 1700:
			s.Stuck[2] = 0
		case 2500:
			delete(s.Stuck, 1)
		}
		e := s.Next()
		if n < 1500 || n > 1800 && n < 2450 || n > 2550 {
			l.Learn(e, nil)
			continue
		}
		p := alone(l.Predict(e)).Scores[0]
		agree(t, l, e)
		m := l.Snapshot().Model()
		if m.Faults != nil {
			null := m.Declare(e, &event.Example{})
			got := alone(l.Predict(null)).Scores[0]
			must.Require(t, got == p, "event %d: %v, of an event with nulls %v", n, p, got)
			found++
			must.Require(t, len(null.Missing) == len(m.StuckFields(e)) && m.Missing.NullIsValue == nil, "event %d: %d fields are missing, usually %v", n, len(null.Missing), m.Missing.NullIsValue)
		}
		l.Learn(e, nil)
	}
	on := stuckAlarms(l)
	must.True(t, found >= 300 && len(on) == 1 && *on[0].Value == 0 && on[0].SinceEvent == 1701, "after %d events with stuck fields %+v", found, on)
	a := l.Alarms(0)
	must.True(t, a.Changes == 3 && len(a.Latest) == 3 && a.Latest[0].SinceEvent == 1501 && a.Latest[1].SinceEvent == 1701, "alarms %+v", a.Latest)
}

// stuckAlarms returns the alarms about stuck fields.
func stuckAlarms(l *online.Learner) (on []health.FieldAlarm) {
	for _, f := range l.Report().Health.Fields {
		for _, a := range f.Alarms {
			if a.Kind == health.AlarmStuck {
				on = append(on, a)
			}
		}
	}
	return on
}

// TestStuckIsNotLearned checks that the scale of a stuck field does not change and that its readings are not learned.
// The field must still count as usual.
func TestStuckIsNotLearned(t *testing.T) {
	s := synthetic.NewStuckStream(6)
	c := plain()
	c.Doubt = "auto"
	l := newLearner(t, c, s.Schema)
	stats := func() []float64 {
		m := l.Snapshot().Model()
		return slices.Clone(m.Stats(m.Rows.Row(1)))
	}
	var before []float64
	for n := range 14_000 {
		if n == 2000 {
			s.Stuck[1] = 40
		}
		l.Learn(s.Next(), nil)
		if n == 2100 {
			before = stats()
		}
	}
	after := stats()
	must.True(t, slices.Equal(before, after) && before[model.StatCount] <= 2100, "a stuck field's statistics were %v and are %v", before, after)
	m := l.Snapshot().Model().Missing
	must.True(t, slices.Contains(m.Usual, 1) && m.NullIsValue == nil, "fields %v are usual, %v usually null", m.Usual, m.NullIsValue)
}

func newStuck(t testing.TB, s *synthetic.StuckStream, change func(*online.Config)) *learner {
	t.Helper()
	return start(t, with(change), s.Schema)
}

// TestStuckSetting checks that the setting may change between runs. "log" only raises the alarm. "off" discards the
// detected fields, and learns the same bits as a learner that never had the detector.
func TestStuckSetting(t *testing.T) {
	stuck := func(how string) online.Config { return with(func(c *online.Config) { c.Doubt = how }) }
	s := synthetic.NewStuckStream(4)
	l, logs, off := newStuck(t, s, nil), newStuck(t, s, func(c *online.Config) { c.Doubt = "log" }), newStuck(t, s, func(c *online.Config) { c.Doubt = "off" })
	feed := func(n int) {
		for range n {
			e := s.Next()
			l.Learn(e, nil)
			a, b := slices.Clone(alone(logs.Learn(e, nil)).Scores), alone(off.Learn(e, nil)).Scores
			must.Require(t, slices.Equal(a, b), "an alarm alone changes what is learned")
		}
	}
	feed(2000)
	s.Stuck[3] = 0.125
	feed(200)
	if h := logs.Report().Health; h.Alarms != 1 || h.Fields[0].Field != "c" || h.Fields[0].Alarms[0].Kind != "stuck" || strings.Contains(h.Fields[0].Alarms[0].Text, "missing") || logs.model().Faults != nil {
		t.Errorf("log: %+v", h.Fields[0])
	}
	h := off.Report().Health
	must.True(t, h.Raised == 0 && off.model().Faults == nil, "off: %+v", h)
	if h := l.Report().Health; h.Alarms != 1 || !strings.Contains(h.Fields[0].Alarms[0].Text, "this value counts as missing") || *h.Fields[0].Alarms[0].Value != 0.125 || l.model().Faults == nil {
		t.Errorf("missing: %+v", h.Fields[0])
	}
	for how, faults := range map[string]bool{"auto": true, "log": false, "off": false} {
		again := l.restoredWith(stuck(how))
		if alarms := again.Report().Health.Alarms; (again.model().Faults != nil) != faults || alarms != map[string]int{"auto": 1, "log": 1, "off": 0}[how] {
			t.Errorf("%s: faults %+v, %d alarms", how, again.model().Faults, alarms)
		} else if alarms > 0 && strings.Contains(again.Report().Health.Fields[0].Alarms[0].Text, "counts as missing") != faults {
			t.Errorf("%s: %q", how, again.Report().Health.Fields[0].Alarms[0].Text)
		}
	}
}

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
		learnNext(l, n, s.next)
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
	learnNext(logs, 1000, s.next)
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
	learnNext(l, 6000, fraud)
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
	learnNext(l, 3000, s.next)
	before, _ := wrong(l.Snapshot().Model(), s, 2000)
	s.lost = func(_ *likeReadings, x []float64) { x[3] += 2.5 * 5.4 }
	learnNext(l, 2000, s.next)
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
		learnNext(l, n, s.next)
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
