package online_test

import (
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/online"
)

// After the first pass over a finite set an alarm changes nothing.
func TestDriftAfterThePass(t *testing.T) {
	var scores [2]float64
	for i, onDrift := range []string{"forget", "log"} {
		c := online.DefaultConfig()
		c.OnDrift = onDrift
		s := event.NewSchema(8, []string{"a", "b"}, 2)
		for _, name := range []string{"x", "z"} {
			s.AddField(event.Field{Name: name, Kind: event.Numeric})
		}
		l, err := online.New(c, s)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for n := range 4000 {
			if n == 2000 {
				l.EndPass()
			}
			e := labeled(r, 2)
			if n >= 3000 {
				e.Label = 1 - e.Label
			}
			l.Learn(e, nil)
		}
		if l.Report().Drift.Alarms == 0 {
			t.Error("no alarm")
		}
		scores[i] = l.Predict(labeled(r, 2)).Scores[0]
	}
	if scores[0] != scores[1] {
		t.Errorf("scores %v, without what alarms do %v", scores[0], scores[1])
	}
}
