package validate

import (
	"log/slog"
	"testing"

	"blankout/batch"
)

// TestAlarm checks that a gap above the limit raises an alarm under the policy alarm. A gap that could not be computed
// must raise an alarm too.
func TestAlarm(t *testing.T) {
	c := DefaultConfig()
	gap := func(x float64) *float64 { return &x }
	for _, x := range []struct {
		policy string
		gap    *float64
		want   bool
	}{{"alarm", nil, true}, {"alarm", gap(c.MaxGap), false}, {"alarm", gap(1.01 * c.MaxGap), true}, {"alarm", gap(0), false}, {"observe", nil, false}, {"observe", gap(1), false}} {
		c.Policy = x.policy
		s := Status{Alarm: !x.want, Running: true}
		s.Take(c, Result{Report: &batch.Validation{RelativeGap: x.gap}}, slog.New(slog.DiscardHandler))
		if s.Alarm != x.want || s.Running || s.Done != 1 || s.Last == nil {
			t.Errorf("%s, gap %v: %+v, want alarm %v", x.policy, x.gap, s, x.want)
		}
	}
	for _, policy := range []string{"observe", "alarm"} { // for every policy
		var s Status
		c.Policy = policy
		if s.Take(c, Result{Report: &batch.Validation{RelativeGap: gap(0), Alarm: "far off"}}, slog.New(slog.DiscardHandler)); !s.Alarm {
			t.Errorf("%s: a report that is an alarm raises none", policy)
		}
	}
}

// TestSchedule checks that a validation is due at the multiples of Config.Events, for any number of records at the
// start.
func TestSchedule(t *testing.T) {
	c := DefaultConfig()
	c.Events = 10
	for _, x := range []struct{ at, due uint64 }{{0, 10}, {1, 10}, {9, 10}, {10, 20}, {25, 30}} {
		s := NewSchedule(c, x.at)
		if s.Due(x.due-1) || !s.Due(x.due) || !s.Due(x.due+5) {
			t.Errorf("from record %d on: due at %d %v, at %d %v", x.at, x.due-1, s.Due(x.due-1), x.due, s.Due(x.due))
		}
	}
	s := NewSchedule(c, 0)
	s.Begun(30)
	if s.Due(39) || !s.Due(40) {
		t.Error("after one at 30 the next is not due at 40")
	}
}
