package run

import (
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/online"
)

// TestRecent checks that the newest events are kept in order and as copies. In a long stream, one event in eight is
// kept. Unlabeled and unusable events are not kept.
func TestRecent(t *testing.T) {
	r := &Runner{}
	e := event.Example{Features: event.Vec{Index: []uint32{3}, Value: []float64{0}}, Field: []uint16{1}, Missing: []uint16{2}, Weight: 1}
	for i := range 10_000 {
		e.Features.Value[0], e.Offset, e.Label = float64(i), int64(i), 1
		r.recent.offer(&e)
		must.True(t, i != 99 || len(r.Recent()) == 100, "of 100 events %d are kept", len(r.Recent()))
		e.Label = event.Unlabeled
		r.recent.offer(&e)
	}
	got := r.Recent()
	must.Require(t, len(got) == recentEvents, "%d events are kept", len(got))
	for i, e := range got {
		want := 10_000 - recentEvery*(recentEvents-i) + recentEvery - 1
		must.Require(t, e.Offset == int64(want) && e.Features.Value[0] == float64(want) && e.Label == 1 && e.Missing[0] == 2, "event %d is %+v, want that of %d", i, e, want)
	}
	got[0].Features.Value[0] = -1
	must.True(t, r.Recent()[0].Features.Value[0] != -1, "what is handed out is no copy")
	e.Features = event.Vec{Index: make([]uint32, recentFeatures+1), Value: make([]float64, recentFeatures+1)}
	e.Label = 1
	for range recentEvery {
		r.recent.offer(&e)
	}
	got = r.Recent()
	must.True(t, got[len(got)-1].Features.Len() == 1, "a very large event is kept")
	e.Features = event.Vec{Index: []uint32{3}, Value: []float64{1}}
	must.Equal(t, testing.AllocsPerRun(1000, func() { r.recent.offer(&e) }), 0, "an event allocates")
}

// TestUnread checks that neither models nor events are copied if there are no readers.
func TestUnread(t *testing.T) {
	for _, unread := range []bool{false, true} {
		schema := event.NewSchema(4, []string{"a", "b"}, 2)
		learner := must.Get(online.New(online.DefaultConfig(), schema))(t)
		l := newLoop(&Runner{State: State{Learner: learner}, unread: unread})
		l.publish()
		l.intake.example(&event.Batch{Examples: []event.Example{{Label: 1, Weight: 1, Features: event.Vec{Index: []uint32{3}, Value: []float64{1}}}}}, 0)
		published, kept := l.Published() != nil, len(l.Recent())
		must.True(t, published != unread && kept == map[bool]int{false: 1}[unread], "unread %v: published %v, %d events kept", unread, published, kept)
	}
}
