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
	turns := Turns{Asked: &asked}
	for i, questions := range []uint64{0, 1, 0, 5} {
		asked.Add(questions)
		want := turnsAfter
		if questions == 0 {
			want = 0
		}
		n := 0
		for event := 1; event <= 3*turnsAfter*yieldEvery; event++ {
			if turns.due(event) {
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
	var asked atomic.Uint64
	in := Intake{Learner: learner, Turns: Turns{Asked: &asked}}
	for i := range 2 {
		asked.Add(1)
		before := turns.Load()
		err := in.Learn(t.Context(), b, len(b.Examples), &event.Position{})
		// There may be more or fewer turns: Go preempts after 10 ms, and may give a turn to its own goroutines.
		n := turns.Load() - before
		must.True(t, err == nil && n >= turnsAfter*3/4, "round %d: %d turns while %d events were learned, want %d: %v", i, n, len(b.Examples), turnsAfter, err)
	}
	stop.Store(1)
	<-done
	r := &Runner{State: State{Learner: learner}}
	l := newLoop(r)
	r.Model()
	r.unread = true
	must.True(t, l.intake.Turns.Asked.Load() == 1 && newLoop(r).intake.Turns.Asked == nil, "a reader's question counted %d times, or where there are no readers", l.intake.Turns.Asked.Load())
}
