package serve

import (
	"testing"
	"time"

	"blankout/app/run"
	"blankout/internal/must"
)

// TestHistoryMarksEachThingOnce checks that the end of a run is marked once, however often the page requests the
// history afterwards.
func TestHistoryMarksEachThingOnce(t *testing.T) {
	var h history
	status := &run.Status{}
	kinds := func() (s string) {
		for _, m := range h.Marks {
			s += m.Kind + " "
		}
		return s
	}
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, ""},
		{func() { status.Started = time.Unix(1, 0) }, "start "},
		{func() { status.DriftAlarms = 2 }, "start drift "},
		{func() { status.Challengers = []run.ChallengerStatus{{Standing: run.Standing{Name: "a"}, Leader: true}} }, "start drift "},
		{func() { status.Challengers = []run.ChallengerStatus{{Standing: run.Standing{Name: "b"}, Leader: true}} }, "start drift promoted "},
		{func() { status.NotReady = "stopped" }, "start drift promoted stop "},
	} {
		step.change()
		for range 3 {
			h.note(status)
			must.Require(t, kinds() == step.want, "marks %q, want %q", kinds(), step.want)
		}
	}
	for range 2 * historyMarks {
		status.DriftAlarms++
		h.note(status)
	}
	must.True(t, len(h.Marks) == historyMarks && h.Marks[0].Kind == "drift", "%d marks, the oldest %q: the oldest is forgotten where there are too many", len(h.Marks), h.Marks[0].Kind)
}

// TestHistoryHalves checks that a full history drops every other point and doubles the interval. Its points must always
// be evenly spaced over the whole run.
func TestHistoryHalves(t *testing.T) {
	records := uint64(0)
	c := newCollector(Service{Status: func() *run.Status { return &run.Status{Counts: run.Counts{Learned: records}} }}, &models{}, newConnections(1))
	var h history
	for records < 5*historyPoints {
		records++
		h.tick(c)
		every := uint64(max(h.Every, 1))
		n := uint64(len(h.Points))
		must.Require(t, n == records/every, "after %d ticks there are %d points at an interval of %d", records, n, every)
		for i, p := range h.Points {
			want := every * uint64(i+1)
			must.Require(t, p.Records == want, "after %d ticks, at an interval of %d, point %d is of record %d, want %d", records, every, i, p.Records, want)
		}
	}
	must.Equal(t, h.Every, 8, "the interval of 5 times as many ticks as points")
}
