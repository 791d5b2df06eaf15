package online_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"blankout/internal/must"
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
		fold := must.Get(online.NewShared(c, s.schema))
		member := must.Get(fold.Clone())
		other := must.Get(fold.Clone())
		for round := range 40 {
			peers := 1
			if round > 5 {
				peers = 3
			}
			must.Do(t, member.Follow(fold, nil, peers, 50))
			for range 50 {
				member.Learn(vary(rand.New(rand.NewPCG(uint64(round), 1)), s.next()), nil)
			}
			d := member.Cut(32)
			for _, l := range []*online.Learner{fold, other} {
				must.Do(t, l.Add(d))
			}
			if round%3 == 2 {
				other = restart(t, c.Shared(), other)
				other.SetSchema(s.schema)
			}
			a := must.Get(fold.Snapshot().Blocks())
			b := must.Get(other.Snapshot().Blocks())
			for i := range a {
				if a[i].Name != b[i].Name || !bytes.Equal(a[i].Data, b[i].Data) {
					t.Fatalf("%s, round %d: block %s is another after restarts", kind, round, a[i].Name)
				}
			}
		}
	}
}
