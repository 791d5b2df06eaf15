package online_test

// This file tests stuck fields.

import (
	"blankout/online"
	"blankout/online/synthetic"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func newStuck(t testing.TB, s *synthetic.StuckStream, change func(*online.Config)) *learner {
	t.Helper()
	c := online.DefaultConfig()
	if change != nil {
		change(&c)
	}
	return start(t, c, s.Schema)
}

// A learner restored while a field is stuck, or about to be detected, continues with the same bits.
func TestStuckRestored(t *testing.T) {
	s := synthetic.NewStuckStream(3)
	l := newStuck(t, s, nil)
	other := l
	for n, step := range []struct {
		events int
		stuck  bool
	}{{1500, false}, {30, true}, {10, true}, {15, true}, {1500, true}, {1, false}, {700, false}} {
		if delete(s.Stuck, 2); step.stuck {
			s.Stuck[2] = 0
		}
		for range step.events {
			e := s.Next()
			if a, b := slices.Clone(l.Learn(e, nil).Scores), slices.Clone(other.Learn(e, nil).Scores); l != other && !slices.Equal(a, b) {
				t.Fatalf("step %d: %v and %v", n, a, b)
			}
		}
		if other != l {
			sameState(t, fmt.Sprint("step ", n), l.blocks(), other.blocks())
		}
		other = l.restored()
		if a, b := l.model().Faults, other.model().Faults; (a == nil) != (b == nil) || a != nil && !slices.Equal(a.Stuck, b.Stuck) {
			t.Fatalf("step %d: %+v and %+v", n, a, b)
		}
	}
	if got := alarmTexts(l); len(got) != 2 || !strings.HasPrefix(got[0], "raised: b reads 0 since ") || !strings.HasPrefix(got[1], "ended: back to normal: b varies again since ") {
		t.Errorf("%q", got)
	}
}

// The setting may change between runs: log only raises the alarm. off forgets what was detected and learns the same
// bits as a learner that has never looked.
func TestStuckSetting(t *testing.T) {
	with := func(how string) online.Config {
		c := online.DefaultConfig()
		c.Stuck = how
		return c
	}
	s := synthetic.NewStuckStream(4)
	l, logs, off := newStuck(t, s, nil), newStuck(t, s, func(c *online.Config) { c.Stuck = "log" }), newStuck(t, s, func(c *online.Config) { c.Stuck = "off" })
	feed := func(n int) {
		for range n {
			e := s.Next()
			l.Learn(e, nil)
			if a, b := slices.Clone(logs.Learn(e, nil).Scores), off.Learn(e, nil).Scores; !slices.Equal(a, b) {
				t.Fatal("an alarm alone changes what is learned")
			}
		}
	}
	feed(2000)
	s.Stuck[3] = 0.125
	feed(200)
	if h := logs.Report().Health; h.Alarms != 1 || h.Fields[0].Field != "c" || h.Fields[0].Alarms[0].Kind != "stuck" || strings.Contains(h.Fields[0].Alarms[0].Text, "missing") || logs.model().Faults != nil {
		t.Errorf("log: %+v", h.Fields[0])
	}
	if h := off.Report().Health; h.Raised != 0 || off.model().Faults != nil {
		t.Errorf("off: %+v", h)
	}
	if h := l.Report().Health; h.Alarms != 1 || !strings.Contains(h.Fields[0].Alarms[0].Text, "this value counts as missing") || *h.Fields[0].Alarms[0].Value != 0.125 || l.model().Faults == nil {
		t.Errorf("missing: %+v", h.Fields[0])
	}
	for how, faults := range map[string]bool{"missing": true, "log": false, "off": false} {
		again := l.restoredWith(with(how))
		if alarms := again.Report().Health.Alarms; (again.model().Faults != nil) != faults || alarms != map[string]int{"missing": 1, "log": 1, "off": 0}[how] {
			t.Errorf("%s: faults %+v, %d alarms", how, again.model().Faults, alarms)
		} else if alarms > 0 && strings.Contains(again.Report().Health.Fields[0].Alarms[0].Text, "counts as missing") != faults {
			t.Errorf("%s: %q", how, again.Report().Health.Fields[0].Alarms[0].Text)
		}
	}
	if _, err := online.New(with("perhaps"), s.Schema); err == nil || !strings.Contains(err.Error(), `stuck "perhaps"`) {
		t.Error(err)
	}
}

// For any stuck value and any number of stuck fields, learning loses no more than with nulls, and less than without
// detection.
func TestStuckCosts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for range 4 {
		s := synthetic.NewStuckStream(r.Uint64())
		l, off := newStuck(t, s, nil), newStuck(t, s, func(c *online.Config) { c.Stuck = "off" })
		wrong := [2]int{}
		for n := range 8000 {
			if n == 4000 {
				s.Stuck[1] = 20 + 15*r.NormFloat64()
			}
			e := s.Next()
			for i, x := range []*learner{l, off} {
				scores := x.Learn(e, nil).Scores
				if yes := scores[0] > 0; n >= 4100 && n < 6000 && yes != (e.Label == 1) {
					wrong[i]++
				}
			}
		}
		if wrong[0] > wrong[1]+20 {
			t.Errorf("stuck at %v: %d errors, not found %d", s.Stuck[1], wrong[0], wrong[1])
		}
	}
}
