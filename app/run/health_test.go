package run_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"blankout/app/run"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
	"blankout/online"
)

// TestHealthIsLogged checks that a dead field is logged once, however often the run is restarted, and once again when
// it recovers. The state must equal the state of an uninterrupted run.
func TestHealthIsLogged(t *testing.T) {
	var log bytes.Buffer
	live := func(dir string, until int) *service {
		s := start(t, dir, until, 1)
		s.Config.SaveEvents = 0
		s.source.spoil = func(e *event.Example) {
			i := slices.Index(e.Field, 3)
			if e.Label = 0; i >= 0 && e.Features.Value[i] > 0 { // the field that dies determines the label
				e.Label = 1
			}
			if i >= 0 && e.Offset >= 3000 && e.Offset < 5000 {
				e.Features.Index, e.Features.Value, e.Field = slices.Delete(e.Features.Index, i, i+1), slices.Delete(e.Features.Value, i, i+1), slices.Delete(e.Field, i, i+1)
				e.Missing = []uint16{3}
			}
		}
		s.Log = slog.New(slog.NewTextHandler(&log, nil))
		must.Do(t, s.Run(t.Context()))
		must.Do(t, s.store.Close())
		return s
	}
	reference, parts := t.TempDir(), t.TempDir()
	live(reference, 8000)
	log.Reset()
	for _, until := range []int{2000, 4100, 4200, 4900} {
		s := live(parts, until)
		h := s.Status().Learner.Health
		must.True(t, h != nil && h.Alarms == min(until/4000, 1), "until %d: %+v", until, h)
	}
	s := live(parts, 8000)
	got := s.Status()
	must.True(t, got.FieldAlarms == 0 && got.Learner.Health.Raised == 1 && got.Learner.Health.Alarms == 0 && len(got.Learner.Health.Changes) == 2, "%d, %+v", got.FieldAlarms, got.Learner.Health)
	dead := `level=WARN msg="f3 missing in 100 % since 2023-11-14T22:13:23Z (usually 0 %); error forecast `
	back := `level=INFO msg="back to normal: f3 missing in 0 % since 2023-11-14T22:13:25Z (usually 0 %); the alarm began at 2023-11-14T22:13:23Z" alarm=missing field=f3 state=ended event=`
	for _, want := range []string{dead, back} {
		n := strings.Count(log.String(), want)
		must.True(t, n == 1, "%d times in the log: %s", n, want)
	}
	must.True(t, strings.Count(log.String(), "alarm=") == 2, "%s", log.String())
	a, _ := newest(t, reference)
	b, _ := newest(t, parts)
	must.True(t, bytes.Equal(a, b), "the state differs from that of a run that was not stopped")
}

// TestManyAlarmsAreLogged checks that only a limited number of alarms is logged if very many fields die at once.
func TestManyAlarmsAreLogged(t *testing.T) {
	s := start(t, t.TempDir(), 3000, 1)
	s.Config.SaveEvents = 0
	s.source.spoil = func(e *event.Example) {
		if e.Offset >= 1600 {
			e.Features.Index, e.Features.Value, e.Field = nil, nil, nil
		}
	}
	var log bytes.Buffer
	s.Log = slog.New(slog.NewTextHandler(&log, nil))
	must.Do(t, s.Run(t.Context()))
	h := s.Status().Learner.Health
	must.Require(t, h.Alarms == fields, "%+v", h)
	n := strings.Count(log.String(), "alarm=missing")
	must.True(t, n == 10 && strings.Contains(log.String(), fmt.Sprint("more=", fields-10)), "%s", log.String())
}

// crowding starts a service whose Learner has no memory for some events that the decoder accepts.
func crowding(t *testing.T, dir string, n int, refuse func(offset int) bool) *service {
	c := learnerConfig()
	c.MaxMemory = online.LeastMemory
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
