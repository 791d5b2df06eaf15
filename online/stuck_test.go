package online_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
	"blankout/online/synthetic"
)

// fixedEvents is a Source of one batch.
type fixedEvents struct {
	examples []event.Example
	done     bool
}

func (f *fixedEvents) Next(_ context.Context, b *event.Batch) error {
	if f.done {
		return io.EOF
	}
	f.done = true
	b.Topic, b.Examples, b.Next = "t", f.examples, int64(len(f.examples))
	return nil
}

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
			objective, wrong, _, err := l.Evaluate(t.Context(), &fixedEvents{examples: events}, 1)
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
