package run_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"blankout"
	"blankout/checkpoint"
	"blankout/online"
	"blankout/run"
)

// few are learners with rounds so short that a test sees many of them.
func few(n int) run.Learners {
	return run.Learners{N: n, Warm: 200, Share: 0.1, MinInterval: 20, MaxInterval: 60}
}

// Several learners that are told to stop at any record, or lose what they had not saved,
// end in the same bytes as those that are not, whatever the batches are and whenever they
// save, publish and report.
func TestLearnersStateDependsOnEventsOnly(t *testing.T) {
	for _, n := range []int{2, 3} {
		reference := t.TempDir()
		s := start(t, reference, records, 0)
		s.Config.SaveEvents, s.Config.PublishInterval, s.Runner.Learners = 0, 0, few(n)
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		want, p := newest(t, reference)
		if p.Next != records || p.Records != records {
			t.Fatalf("ended at %+v", p)
		}
		m := s.Learner.Metrics()
		if m.Events != records || m.Unlabelled == 0 {
			t.Errorf("%d learners: %d events, %d unlabelled, of %d records", n, m.Events, m.Unlabelled, records)
		}
		for seed := range uint64(5) {
			r := rand.New(rand.NewPCG(seed, 3))
			dir := t.TempDir()
			lives := 0
			for done := false; !done; lives++ {
				s := start(t, dir, records, seed<<32+uint64(lives))
				s.Runner.Learners = few(n)
				ctx, cancel := context.WithCancel(t.Context())
				stop := s.source.next + 100 + r.IntN(600)
				s.Config.PublishEvents = uint64(1 + r.IntN(100))
				save := s.Save
				var dead atomic.Bool
				dies := r.IntN(2) == 0
				s.Save = func(blocks iter.Seq[blankout.Block]) (string, int64, error) {
					if dead.Load() {
						return "", 0, errors.New("dead")
					}
					return save(blocks)
				}
				if done = stop >= records; !done {
					s.source.passing = func(offset int) {
						if offset == stop {
							dead.Store(dies)
							cancel()
						}
					}
				}
				err := s.Run(ctx)
				cancel()
				if err != nil && !strings.HasSuffix(err.Error(), "dead") {
					t.Fatal(err)
				}
				if at, _ := s.Offsets.Lookup("t", 3); at.Records != s.Learner.Metrics().Events {
					t.Errorf("%d learners, seed %d: the learner has met %d events, its offsets say %d", n, seed, s.Learner.Metrics().Events, at.Records)
				}
				s.store.Close()
			}
			got, p := newest(t, dir)
			if !bytes.Equal(got, want) {
				t.Errorf("%d learners, seed %d: %d lives end in another state, at %+v", n, seed, lives, p)
			}
			if lives < 2 {
				t.Errorf("seed %d: only one life", seed)
			}
		}
	}
}

// One of several learners learns what they do: what a single one does with the same events
// is another state.
func TestLearnersDiffer(t *testing.T) {
	states := map[string]int{}
	for n := 1; n <= 3; n++ {
		dir := t.TempDir()
		s := start(t, dir, records, 0)
		s.Runner.Learners = few(n)
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		data, _ := newest(t, dir)
		if was, same := states[string(data)]; same {
			t.Errorf("%d learners end in the state of %d", n, was)
		}
		states[string(data)] = n
	}
}

func TestLearnersRefused(t *testing.T) {
	for name, change := range map[string]func(*online.Config){
		"rule":        func(c *online.Config) { c.Rule = "arow" },
		"refresh":     func(c *online.Config) { c.Refresh = 100 },
		"half_life":   func(c *online.Config) { c.HalfLifeTime = 1000 },
		"noise":       func(c *online.Config) { c.Noise = "gaussian:1" },
		"standardise": func(c *online.Config) { c.Standardise = "all" },
		"calibrate":   func(c *online.Config) { c.Calibrate = true },
		"suspect":     func(c *online.Config) { c.Suspect, c.Loss = 0.1, "t-logistic:1.5" },
	} {
		c := online.DefaultConfig()
		change(&c)
		s := startAs(t, t.TempDir(), records, 0, c)
		s.Runner.Learners = few(2)
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
		s.store.Close()
		s = startAs(t, t.TempDir(), 300, 0, c)
		s.Runner.Learners = few(1)
		if err := s.Run(t.Context()); err != nil {
			t.Errorf("%s: one learner: %v", name, err)
		}
	}
	for _, bad := range []run.Learners{{N: -1}, {N: 2, MinInterval: 0}, {N: 2, MinInterval: 5, MaxInterval: 4}, {N: 2, Share: 2, MinInterval: 1, MaxInterval: 1}} {
		if bad.Check() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// What goes wrong while a member learns ends the run, and nothing is saved after it.
func TestLearnersPanic(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, records, 0)
	s.Runner.Learners = few(2)
	s.source.spoil = func(e *blankout.Example) {
		if e.Offset == 700 {
			e.Field[0] = 9999 // no Schema has it
		}
	}
	err := s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "t/3 offset 700: learning this record panics") {
		t.Errorf("error %v", err)
	}
	if names, err := checkpoint.List(dir); err != nil || len(names) == 0 {
		return // no save had ended yet
	}
	if _, p := newest(t, dir); p.Next > 700 {
		t.Errorf("saved up to %d", p.Next)
	}
}
