package next_test

import (
	"math"
	"testing"

	"blankout/internal/event"
	"blankout/online"
	"blankout/online/blackbox"
	"blankout/online/next"
)

// Several learners come to what several of the other kind come to: score by score, with averages that are not compared with
// iterates.
func TestSharedOfTheOther(t *testing.T) {
	for _, noise := range []string{"none", "dropout:0.3", "group:0.3"} {
		for _, kind := range []string{"records", "texts", "several classes"} {
			c := plain().Shared()
			c.Noise, c.Adapt = noise, false
			draw := streams["records"]
			if kind == "texts" {
				draw = streams[kind]
			}
			s, other := draw(1), draw(1)
			for _, schema := range []*event.Schema{s.schema, other.schema} {
				if kind == "several classes" {
					schema.Classes, schema.MaxClasses = []string{"a", "b", "c", "d"}, 4
				}
			}
			l, err := next.NewShared(c, s.schema)
			if err != nil {
				t.Fatal(err)
			}
			was, err := online.NewShared(c, other.schema)
			if err != nil {
				t.Fatal(err)
			}
			var events []*event.Example
			for i := range 1500 {
				e := s.next()
				if e.Weight = 1; kind == "several classes" && e.Label == 1 && i > 500 {
					e.Label += i % 2
				}
				events = append(events, e)
			}
			rounds(t, l, events)
			rounds(t, was, events)
			for n, e := range events[1000:] {
				want, got := was.Predict(e).Scores, l.Predict(e).Scores
				for k := range want {
					if d := math.Abs(got[k] - want[k]); !(d <= 1e-6*max(1, math.Abs(want[k]))) {
						t.Fatalf("%s, %s: event %d: %v, not %v", noise, kind, n, got, want)
					}
				}
			}
		}
	}
}

// rounds has three learners learn all but the first 400 of the events, 40 each at a time.
func rounds[L blackbox.Sharer[L]](t *testing.T, fold L, events []*event.Example) {
	t.Helper()
	for _, e := range events[:400] {
		fold.Learn(e, nil)
	}
	const peers, own = 3, 40
	var members []L
	for range peers {
		m, err := fold.Clone()
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, m)
	}
	var columns []uint32
	for at := 400; at < len(events); at += peers * own {
		for _, m := range members {
			if err := m.Follow(fold, columns, peers, own); err != nil {
				t.Fatal(err)
			}
		}
		columns = columns[:0]
		for i, m := range members {
			for _, e := range events[min(at+i*own, len(events)):min(at+(i+1)*own, len(events))] {
				m.Learn(e, nil)
			}
			d := m.Cut(64)
			if err := fold.Add(d); err != nil {
				t.Fatal(err)
			}
			columns = append(columns, d.Columns...)
		}
	}
}
