package next_test

import (
	"bytes"
	"math"
	"math/rand/v2"
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

// A fold that was saved and restored adds to the same state, to the bit: Deltas of a member that learns alone, and of one of
// several.
func TestFoldRestored(t *testing.T) {
	for _, kind := range []string{"records", "nulls", "several classes", "texts"} {
		draw := streams["records"]
		if kind != "several classes" {
			draw = streams[kind]
		}
		s := draw(21)
		if kind == "several classes" {
			s.schema.Classes, s.schema.MaxClasses = []string{"a", "b", "c", "d"}, 4
		}
		c := online.DefaultConfig()
		fold, err := next.NewShared(c, s.schema)
		if err != nil {
			t.Fatal(err)
		}
		member, err := fold.Clone()
		if err != nil {
			t.Fatal(err)
		}
		other, err := fold.Clone()
		if err != nil {
			t.Fatal(err)
		}
		for round := range 40 {
			peers := 1
			if round > 5 {
				peers = 3
			}
			if err := member.Follow(fold, nil, peers, 50); err != nil {
				t.Fatal(err)
			}
			for range 50 {
				member.Learn(vary(rand.New(rand.NewPCG(uint64(round), 1)), s.next()), nil)
			}
			d := member.Cut(32)
			for _, l := range []*next.Learner{fold, other} {
				if err := l.Add(d); err != nil {
					t.Fatal(err)
				}
			}
			if round%3 == 2 {
				other = restart(t, c.Shared(), other)
				other.SetSchema(s.schema)
			}
			a, err := fold.Snapshot().Blocks()
			if err != nil {
				t.Fatal(err)
			}
			b, err := other.Snapshot().Blocks()
			if err != nil {
				t.Fatal(err)
			}
			for i := range a {
				if a[i].Name != b[i].Name || !bytes.Equal(a[i].Data, b[i].Data) {
					t.Fatalf("%s, round %d: block %s is another after restarts", kind, round, a[i].Name)
				}
			}
		}
	}
}
