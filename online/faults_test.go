package online_test

import (
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/synthetic"
	"blankout/online/watch"
)

func stuckConfig(how string) online.Config {
	c := plain()
	c.Stuck = how
	return c
}

// A stuck field is detected and is then missing: in predictions, in the model of a Snapshot, and in the counts of the
// usual fields.
func TestStuck(t *testing.T) {
	s := synthetic.NewStuckStream(3, [2]string{"a", "word"})
	l := newLearner(t, stuckConfig("missing"), s.Schema)
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
		p := l.Predict(e).Scores[0]
		m := l.Snapshot().Model()
		if got := m.Score(e, make([]float64, 1))[0]; math.Abs(got-p) > 1e-9*max(1, math.Abs(p)) {
			t.Fatalf("event %d: the snapshot says %v, Predict %v", n, got, p)
		}
		if m.Faults != nil {
			null := m.Declare(e, &event.Example{})
			if got := l.Predict(null).Scores[0]; got != p {
				t.Fatalf("event %d: %v, of an event with nulls %v", n, p, got)
			}
			if found++; len(null.Missing) != len(m.StuckFields(e)) || m.Missing.UsuallyNull != nil {
				t.Fatalf("event %d: %d fields are missing, usually %v", n, len(null.Missing), m.Missing.UsuallyNull)
			}
		}
		l.Learn(e, nil)
	}
	if on := stuckAlarms(l); found < 300 || len(on) != 1 || *on[0].Value != 0 || on[0].SinceEvent != 1701 {
		t.Errorf("after %d events with stuck fields %+v", found, on)
	}
	if a := l.Alarms(0); a.Changes != 3 || len(a.Latest) != 3 || a.Latest[0].SinceEvent != 1501 || a.Latest[1].SinceEvent != 1701 {
		t.Errorf("alarms %+v", a.Latest)
	}
}

// stuckAlarms returns the alarms about stuck fields.
func stuckAlarms(l *online.Learner) (on []watch.FieldAlarm) {
	for _, f := range l.Report().Health.Fields {
		for _, a := range f.Alarms {
			if a.Kind == watch.AlarmStuck {
				on = append(on, a)
			}
		}
	}
	return on
}

// While a field is stuck, its scale does not change, its readings are not learned, and it still counts as a usual
// field.
func TestStuckIsNotLearned(t *testing.T) {
	s := synthetic.NewStuckStream(6)
	l := newLearner(t, stuckConfig("missing"), s.Schema)
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
	if after := stats(); !slices.Equal(before, after) || before[model.StatCount] > 2100 {
		t.Errorf("a stuck field's statistics were %v and are %v", before, after)
	}
	if m := l.Snapshot().Model().Missing; !slices.Contains(m.Usual, 1) || m.UsuallyNull != nil {
		t.Errorf("fields %v are usual, %v usually null", m.Usual, m.UsuallyNull)
	}
}
