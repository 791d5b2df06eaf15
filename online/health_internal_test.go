package online

import (
	"testing"

	"blankout/internal/event"
	"blankout/online/synthetic"
)

func sensorLearner(t testing.TB, c Config) *Learner {
	t.Helper()
	s := event.NewSchema(12, []string{"no", "yes"}, 2)
	for _, f := range []event.Field{{Name: "a", Kind: event.Numeric}, {Name: "b", Kind: event.Numeric}, {Name: "c", Kind: event.Numeric}, {Name: "word", Kind: event.Categorical}, {Name: "flag", Kind: event.Boolean}} {
		s.AddField(f)
	}
	l, err := New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func feed(l *Learner, s *synthetic.Sensors, n int) {
	for range n {
		l.Learn(s.Next(), nil)
	}
}

// texts returns what has been said of alarms.
func texts(l *Learner) (out []string) {
	changes := l.Alarms(0).Latest
	for _, c := range changes {
		out = append(out, c.State+": "+c.Text)
	}
	return out
}
