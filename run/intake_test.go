package run

import (
	"runtime"
	"sync/atomic"
	"testing"

	"blankout"
	"blankout/online"
)

// On one processor others have their turns while a batch is learned, but where nobody asks.
func TestLearnYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	schema := blankout.NewSchema(4, []string{"a", "b"}, 2)
	learner, err := online.New(online.DefaultConfig(), schema)
	if err != nil {
		t.Fatal(err)
	}
	b := &blankout.Batch{Examples: make([]blankout.Example, 10*yieldEvery)}
	for i := range b.Examples {
		b.Examples[i] = blankout.Example{Offset: int64(i), Label: i % 2, Weight: 1, Features: blankout.Vec{Index: []uint32{3}, Value: []float64{1}}}
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
	for _, unread := range []bool{false, true} {
		in, before := Intake{Learner: learner, unread: unread}, turns.Load()
		err = in.Learn(t.Context(), b, len(b.Examples), &blankout.Position{})
		if n := turns.Load() - before; err != nil || (n < 9) != unread {
			t.Errorf("unread %v: %d turns while %d events were learned, want one for each %d: %v", unread, n, len(b.Examples), yieldEvery, err)
		}
	}
	stop.Store(1)
	<-done
}
