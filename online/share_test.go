package online_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"blankout/online"
)

// A fold that was saved and restored adds up to the same bits, for Deltas of a single member and of one of several.
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
		fold, err := online.NewShared(c, s.schema)
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
			for _, l := range []*online.Learner{fold, other} {
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
