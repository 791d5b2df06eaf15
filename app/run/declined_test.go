package run_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"blankout/app/run"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
	"blankout/online/memory"
)

// crowding starts a service whose Learner has no memory for some events that the decoder accepts.
func crowding(t *testing.T, dir string, n int, refuse func(offset int) bool) *service {
	c := learnerConfig()
	c.MaxMemory = int(memory.Least)
	s := startAs(t, dir, n, 1, c)
	s.source.spoil = func(e *event.Example) {
		e.Value = fmt.Append(nil, e.Offset)
		if !refuse(int(e.Offset)) {
			return
		}
		e.Features, e.Field, e.Missing = event.Vec{}, nil, nil
		for column := range uint32(20_000) {
			eventtest.Put(e, column, 1)
		}
	}
	return s
}

// TestDeclinedIsDeadLetter checks an event that the Learner rejects. The event must become a dead letter, and no
// checkpoint may include it before it is stored. The event counts as rejected, not as learned, and changes nothing in
// the model.
func TestDeclinedIsDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := crowding(t, t.TempDir(), 400, everySeventh)
		letters := &sink{fail: 5}
		s.Config.Refused, s.DeadLetters = run.PolicyDeadLetter, letters
		s.Config.SaveEvents = 1
		letters.precede(t, s.Runner, everySeventh)
		must.Do(t, s.Run(t.Context()))
		status := s.Status()
		must.True(t, status.Refused == 57 && status.RefusedBy[event.ReasonMemory] == 57 && status.DeadLetters[event.ReasonMemory] == 57 && len(letters.stored) == 57 &&
			status.Learned+status.Unlabeled == 343 && status.Learner.Events == 343 && status.Learner.RefusedBy[event.ReasonMemory].Count == 57, "%+v, stored %v", status, letters.stored)
	})
}

// TestStopWithoutDeclined checks a stop while declined events cannot be stored: no checkpoint may include them.
func TestStopWithoutDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := crowding(t, dir, 400, func(offset int) bool { return offset == 300 })
		s.Config.Refused, s.DeadLetters = run.PolicyDeadLetter, &sink{fail: 1e9}
		s.Config.SaveEvents, s.Config.SaveInterval = 0, 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		must.Do(t, s.Run(ctx))
		names, err := checkpoint.List(dir)
		must.True(t, len(names) <= 0 && err == nil, "saved %v: %v", names, err)
	})
}

// TestDeclinedFails checks that under PolicyFail the run ends at a declined event. The state before it must be saved,
// and the next run continues with that event.
func TestDeclinedFails(t *testing.T) {
	dir := t.TempDir()
	at := func(offset int) bool { return offset == 333 }
	s := crowding(t, dir, 400, at)
	s.Config.Refused = run.PolicyFail
	err := s.Run(t.Context())
	refused := (*run.RefusedError)(nil)
	must.True(t, errors.As(err, &refused) && refused.Offset == 333 && refused.Refusal.Reason == event.ReasonMemory && string(refused.Refusal.Value) == "333", "%v", err)
	_, p := newest(t, dir)
	must.True(t, p.Next == 333, "saved at %+v", p)
	s.store.Close()
	s = crowding(t, dir, 400, at)
	must.Do(t, s.Run(t.Context()))
	_, p = newest(t, dir)
	must.True(t, p.Next == 400 && p.Records == 400 && s.Status().Refused == 1, "saved at %+v, %+v", p, s.Status())
}
