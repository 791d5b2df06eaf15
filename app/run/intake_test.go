package run

import (
	"runtime"
	"sync/atomic"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/online"
)

// TestTurnsDue checks that a yield is due after every yieldEvery events. After each request turnsAfter yields are due,
// and without a request no yield is due.
func TestTurnsDue(t *testing.T) {
	var asked atomic.Uint64
	var turns turns
	for i, questions := range []uint64{0, 1, 0, 5} {
		asked.Add(questions)
		want := must.Either(questions == 0, 0, turnsAfter)
		n := 0
		for event := 1; event <= 3*turnsAfter*yieldEvery; event++ {
			if turns.due(event, &asked) {
				n++
				must.Require(t, event == n*yieldEvery, "round %d: turn %d is due after %d events", i, n, event)
			}
		}
		must.True(t, n == want, "round %d: %d turns, want %d", i, n, want)
	}
}

// TestLearnYields checks, with one processor, that other goroutines run while a batch is learned if there was a
// request.
func TestLearnYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	schema := event.NewSchema(4, []string{"a", "b"}, 2)
	learner := must.Get(online.New(online.DefaultConfig(), schema))(t)
	b := &event.Batch{Examples: make([]event.Example, 3*turnsAfter*yieldEvery)}
	for i := range b.Examples {
		b.Examples[i] = event.Example{Offset: int64(i), Label: i % 2, Weight: 1, Features: event.Vec{Index: []uint32{3}, Value: []float64{1}}}
	}
	var turns, stop atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for stop.Load() == 0 {
			turns.Add(1)
			runtime.Gosched()
		}
	}()
	l := newLoop(&Runner{State: State{Learner: learner}})
	for i := range 2 {
		l.Published()
		before := turns.Load()
		err := l.intake.learn(t.Context(), b, len(b.Examples), &event.Position{})
		// There may be more or fewer turns: Go preempts after 10 ms, and may give a turn to its own goroutines.
		n := turns.Load() - before
		must.True(t, err == nil && n >= turnsAfter*3/4, "round %d: %d turns while %d events were learned, want %d: %v", i, n, len(b.Examples), turnsAfter, err)
	}
	stop.Store(1)
	<-done
}

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

// TestUnread checks that models are not copied if there are no readers.
func TestUnread(t *testing.T) {
	for _, unread := range []bool{false, true} {
		schema := event.NewSchema(4, []string{"a", "b"}, 2)
		learner := must.Get(online.New(online.DefaultConfig(), schema))(t)
		l := newLoop(&Runner{State: State{Learner: learner}, unread: unread})
		l.publish()
		must.Equal(t, l.Published() != nil, !unread)
	}
}
