package run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"blankout/app/run"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
)

func TestMain(m *testing.M) {
	longtest.CollectRarely()
	goleak.VerifyTestMain(m)
}

// testStream is a Source of n artificial records in batches of random sizes. Fields and classes appear over time, as
// with a decoder. Reusing a Batch overwrites its old content.
type testStream struct {
	schema  *event.Schema
	n       int
	refuse  func(offset int) bool
	sizes   *rand.Rand
	next    int
	passing func(offset int) // called for every record before it is returned
	end     error            // returned instead of io.EOF
	spoil   func(e *event.Example)
}

const fields = 12

func newStream(schema *event.Schema, from event.Offsets, n int, seed uint64) *testStream {
	s := &testStream{schema: schema, n: n, sizes: rand.New(rand.NewPCG(seed, 1)), end: io.EOF}
	if p, ok := from.Lookup("t", 3); ok {
		s.next = int(p.Next)
	}
	return s
}

func (s *testStream) Next(ctx context.Context, b *event.Batch) error {
	for i := range b.Examples {
		e := &b.Examples[i]
		for j := range e.Features.Value {
			e.Features.Index[j], e.Features.Value[j] = 1<<17, 1e9
		}
		e.Key, e.Offset = nil, -1
	}
	b.Topic, b.Partition, b.HighWater, b.Reset = "t", 3, int64(s.n), false
	b.Examples = b.Examples[:0]
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if s.next == s.n {
		return s.end
	}
	for range 1 + s.sizes.IntN(50) {
		if s.next == s.n {
			break
		}
		if s.passing != nil {
			s.passing(s.next)
		}
		b.Examples = append(b.Examples, s.record(s.next))
		s.next++
	}
	b.Next = int64(s.next)
	b.Schema = s.schema.View()
	return nil
}

// record returns record number n, always the same.
func (s *testStream) record(n int) event.Example {
	r := rand.New(rand.NewPCG(uint64(n), 2))
	e := event.Example{Offset: int64(n), Fingerprint: r.Uint64(), Time: 1_700_000_000_000 + int64(n), Weight: 1}
	if s.refuse != nil && s.refuse(n) {
		e.Refused = &event.Refusal{Reason: event.ReasonSyntax, Detail: "spoilt", Value: fmt.Append(nil, n)}
		return e
	}
	for f := 1; f <= min(fields, 1+n/40); f++ { // a new field every 40 records
		name := fmt.Sprintf("f%d", f)
		if len(s.schema.Fields) == f {
			s.schema.AddField(event.Field{Name: name, Kind: event.Numeric})
		}
		if hash := r.Uint64() | 1; s.schema.Names.Wants(hash) {
			s.schema.Names.Add(hash, []byte(name))
		}
		eventtest.Put(&e, uint32(f*1000+r.IntN(30)), r.NormFloat64(), uint16(f))
	}
	label := "1" // the first label is the larger of a usual pair, so it becomes class 1
	if n > 100 && r.IntN(2) == 0 {
		label = "-1"
	}
	e.Label, _ = s.schema.Class([]byte(label))
	if n%17 == 3 {
		e.Label = event.Unlabeled
	}
	if s.spoil != nil {
		s.spoil(&e)
	}
	return e
}

var settings = online.Fingerprint{"format": "test"}

// service simulates one process: it opens the directory, resumes, and can call Run until Close.
type service struct {
	*run.Runner
	store  *checkpoint.Store
	source *testStream
}

func start(t *testing.T, dir string, n int, seed uint64) *service {
	t.Helper()
	return startAs(t, dir, n, seed, learnerConfig())
}

// learnerConfig returns the default settings, but a covariance of few columns, because each event of a testStream has a
// different pattern of its 540 columns.
func learnerConfig() online.Config {
	c := online.DefaultConfig()
	c.CovarianceMaxFields = 8
	return c
}

func startAs(t *testing.T, dir string, n int, seed uint64, c online.Config) *service {
	t.Helper()
	store := must.Get(checkpoint.Open(dir, 2))(t)
	t.Cleanup(func() { store.Close() })
	s := &service{&run.Runner{Config: run.DefaultConfig(), Fingerprint: settings}, store, nil}
	file, refused, err := store.Load()
	must.Require(t, len(refused) <= 0, "%v", refused)
	if errors.Is(err, checkpoint.ErrNone) {
		schema := event.NewSchema(18, nil, 2)
		schema.Names = event.NewNames(2000)
		s.Learner, err = online.New(c, schema)
	} else if err == nil {
		s.State, err = run.Resume(c, settings, file.Blocks)
	}
	must.Do(t, err)
	s.Schema = s.Learner.Schema()
	s.source = newStream(s.Schema, s.Offsets, n, seed)
	s.Source = s.source
	s.Config.Refused = run.PolicySkip
	s.Config.SaveEvents = 70
	s.Config.ShutdownTimeout = time.Hour // a busy machine writes slowly; the test binary has its own deadline
	s.Save = func(blocks iter.Seq[event.Block]) (string, int64, error) {
		saved, err := store.Save(checkpoint.Linear, blocks)
		return saved.Name, saved.Bytes, errors.Join(err, saved.Prune)
	}
	return s
}

// beforeSave calls f with the blocks of each save. If f returns an error, the save fails.
func beforeSave(r *run.Runner, f func(blocks []event.Block) error) {
	save := r.Save
	r.Save = func(blocks iter.Seq[event.Block]) (string, int64, error) {
		var all []event.Block
		for b := range blocks { // copy, because the next block may reuse the memory
			all = append(all, event.Block{Name: b.Name, Data: slices.Clone(b.Data)})
		}
		if err := f(all); err != nil {
			return "", 0, err
		}
		return save(slices.Values(all))
	}
}

// failSaves makes saves fail with the given error text while the condition holds.
func failSaves(r *run.Runner, text string, condition func() bool) {
	save := r.Save
	r.Save = func(blocks iter.Seq[event.Block]) (string, int64, error) {
		if condition() {
			return "", 0, errors.New(text)
		}
		return save(blocks)
	}
}

// offsetsOf returns the stream position of a checkpoint.
func offsetsOf(t *testing.T, blocks []event.Block) (offsets event.Offsets) {
	t.Helper()
	must.Do(t, json.Unmarshal(must.Get(event.FindBlock(blocks, "offsets"))(t), &offsets))
	return offsets
}

// newest returns the bytes of the newest checkpoint and its position in the stream.
func newest(t *testing.T, dir string) ([]byte, event.Position) {
	t.Helper()
	names, err := checkpoint.List(dir)
	must.Require(t, err == nil && len(names) != 0, "%v %v", names, err)
	data := must.Get(os.ReadFile(filepath.Join(dir, names[0])))(t)
	file := must.Get(checkpoint.Decode(data))(t)
	offsets := offsetsOf(t, file.Blocks)
	position, ok := offsets.Lookup("t", 3)
	must.Require(t, ok, "no position in %v", offsets)
	return data, position
}

const records = 1500

// TestStateDependsOnEventsOnly checks that the final bytes do not depend on stops, lost work and batches. The final
// bytes must not depend on the times of saving, publishing and reporting either.
func TestStateDependsOnEventsOnly(t *testing.T) {
	reference := t.TempDir()
	s := start(t, reference, records, 0)
	s.Config.SaveEvents, s.Config.PublishInterval = 0, 0
	must.Do(t, s.Run(t.Context()))
	want, p := newest(t, reference)
	must.Require(t, p.Next == records && p.Records == records, "ended at %+v", p)
	seeds := must.Either(longtest.Asked(), 8, uint64(3))
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 3))
		dir := t.TempDir()
		lives := 0
		for done := false; !done; lives++ {
			s := start(t, dir, records, seed<<32+uint64(lives))
			ctx, cancel := context.WithCancel(t.Context())
			stop := s.source.next + 1 + r.IntN(600)
			s.Config.PublishEvents = uint64(1 + r.IntN(100))
			switch {
			case stop >= records:
				done = true
			case r.IntN(2) == 0: // a regular stop
				s.source.passing = func(offset int) {
					if offset == stop {
						cancel()
					}
				}
			case r.IntN(2) == 0: // a stop without a final save
				var dead atomic.Bool
				failSaves(s.Runner, "dead", dead.Load)
				s.source.passing = func(offset int) {
					if offset == stop {
						dead.Store(true)
						cancel()
					}
				}
			default:
				s.Config.MaxEvents = uint64(stop - s.source.next)
			}
			err := s.Run(ctx)
			cancel()
			must.Require(t, err == nil || strings.HasSuffix(err.Error(), "dead"), "%v", err)
			if s.Config.MaxEvents > 0 {
				_, p := newest(t, dir)
				must.True(t, p.Next == int64(stop), "seed %d: %d events from %d on end at %d", seed, s.Config.MaxEvents, stop-int(s.Config.MaxEvents), p.Next)
			}
			s.store.Close()
		}
		got, p := newest(t, dir)
		must.True(t, bytes.Equal(got, want), "seed %d: %d lives end in another state, at %+v", seed, lives, p)
		must.True(t, lives >= 2, "seed %d: only one life", seed)
	}
}

// sink is a destination of dead letters that fails a given number of times first.
type sink struct {
	fail          int
	added, stored []int64
	mu            sync.Mutex // protects stored, which a save reads
}

func (s *sink) Add(ctx context.Context, topic string, partition int32, e *event.Example) error {
	if topic != "t" || partition != 3 || string(e.Refused.Value) != fmt.Sprint(e.Offset) {
		return fmt.Errorf("%s/%d: %+v", topic, partition, e)
	}
	if s.fail%2 == 1 {
		s.fail--
		return errors.New("no broker")
	}
	s.added = append(s.added, e.Offset)
	return nil
}

func (s *sink) Flush(context.Context) error {
	if s.fail > 0 {
		s.fail--
		return errors.New("no acknowledgement")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored, s.added = append(s.stored, s.added...), nil
	return nil
}

// precede checks every save: the wanted events before the position of the save must have been stored before the save.
func (s *sink) precede(t *testing.T, r *run.Runner, wanted func(offset int) bool) {
	beforeSave(r, func(blocks []event.Block) error {
		offsets := offsetsOf(t, blocks)
		s.mu.Lock()
		defer s.mu.Unlock()
		for offset := range offsets[0].Next {
			must.True(t, !wanted(int(offset)) || slices.Contains(s.stored, offset), "saved up to %d, event %d is not stored", offsets[0].Next, offset)
		}
		return nil
	})
}

func everySeventh(offset int) bool { return offset%7 == 2 }

func TestDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, t.TempDir(), 400, 1)
		s.source.refuse = everySeventh
		letters := &sink{fail: 5}
		s.Config.Refused, s.DeadLetters = run.PolicyDeadLetter, letters
		s.Config.SaveEvents = 1
		letters.precede(t, s.Runner, everySeventh)
		var reasons []string
		s.Observe = func(status *run.Status) { reasons = append(reasons, status.NotReady) }
		must.Do(t, s.Run(t.Context()))
		status := s.Status()
		must.True(t, status.Refused == 57 && status.DeadLetters[event.ReasonSyntax] == 57 && status.DeadLetterFailures == 5 && len(letters.stored) == 57, "%+v, stored %v", status, letters.stored)
		must.True(t, slices.Contains(reasons, "dead letters cannot be stored: no acknowledgement") && slices.Contains(reasons, ""), "readiness: %q", reasons)
		must.Equal(t, status.Learned+status.Unlabeled+status.Refused, 400, "records counted")
	})
}

// TestStopWithoutDeadLetters checks that a stop while dead letters cannot be stored saves the state before them.
func TestStopWithoutDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := start(t, dir, 400, 1)
		s.source.refuse = func(offset int) bool { return offset == 300 }
		s.Config.Refused, s.DeadLetters = run.PolicyDeadLetter, &sink{fail: 1e9}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		must.Do(t, s.Run(ctx))
		_, p := newest(t, dir)
		must.True(t, p.Next <= 300 && p.Next >= 250, "saved at %+v", p)
	})
}

// TestDriftIsLogged checks that an alarm of the drift detector is logged with its numbers.
func TestDriftIsLogged(t *testing.T) {
	s := start(t, t.TempDir(), 5000, 1)
	s.source.spoil = func(e *event.Example) {
		if e.Label == event.Unlabeled {
			return
		}
		// The feature determines the class for 3000 events, and is uninformative after that.
		if e.Offset <= 3000 {
			e.Label = int(e.Offset % 2)
		}
		e.Features.Index, e.Features.Value, e.Field = []uint32{uint32(e.Offset % 2)}, []float64{1}, nil
	}
	var log bytes.Buffer
	s.Log = slog.New(slog.NewTextHandler(&log, nil))
	must.Do(t, s.Run(t.Context()))
	d := s.Status().Learner.Drift
	must.Require(t, d.Alarms != 0 && d.Event >= 3000 && d.Excess >= 0 && d.Excess < health.DriftAlarm, "%+v", d)
	want := fmt.Sprintf(`level=WARN msg="the stream drifts: the loss of events has risen" alarms=%d event=%d log_loss_before=%v log_loss_after=%v topic=t partition=3 `, d.Alarms, d.Event, d.Before, d.After)
	must.True(t, strings.Contains(log.String(), want), "log without %s", want)
}

// borrowing keeps the bytes of the last rejected record, which are only valid until the next read.
type borrowing struct {
	*testStream
	refused []byte
}

func (b *borrowing) Next(ctx context.Context, batch *event.Batch) error {
	err := b.testStream.Next(ctx, batch)
	for i := range batch.Examples {
		if r := batch.Examples[i].Refused; r != nil {
			b.refused = r.Value
		}
	}
	return err
}

func TestRefusedFails(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, 400, 1)
	s.source.refuse = func(offset int) bool { return offset == 333 }
	s.Config.Refused = run.PolicyFail
	source := &borrowing{testStream: s.source}
	s.Source = source
	err := s.Run(t.Context())
	clear(source.refused) // overwrite the bytes as the next read would
	refused := (*run.RefusedError)(nil)
	must.True(t, errors.As(err, &refused) && refused.Offset == 333 && err.Error() == "t/3 offset 333: record refused (syntax): spoilt" && string(refused.Refusal.Value) == "333", "%v, %+v", err, refused)
	_, p := newest(t, dir)
	must.True(t, p.Next == 333, "saved at %+v", p)
	s.store.Close()
	// The run continues from that record under another policy.
	s = start(t, dir, 400, 2)
	s.source.refuse = func(offset int) bool { return offset == 333 }
	must.Do(t, s.Run(t.Context()))
	_, p = newest(t, dir)
	must.True(t, p.Next == 400 && p.Records == 400 && s.Status().Refused == 1, "saved at %+v", p)
}

// TestFruitless checks runs that have read everything but learned nothing, or rejected more than half of the records.
// These runs must end with an error that counts the reasons, and keep the saved checkpoint.
func TestFruitless(t *testing.T) {
	unlabeled := func(e *event.Example) { e.Label = event.Unlabeled }
	repeated := func(e *event.Example) {
		*e = event.Example{Offset: e.Offset, Fingerprint: e.Fingerprint, Refused: &event.Refusal{Reason: event.ReasonRepeated}}
	}
	for name, test := range map[string]struct {
		change func(s *service)
		want   string // expected error text; "" for no error
	}{
		"half refused":       {func(s *service) { s.source.refuse = func(n int) bool { return n%2 == 0 } }, ""},
		"more refused":       {func(s *service) { s.source.refuse = func(n int) bool { return n%2 == 0 || n == 101 } }, "of 40 records 19 were learned, 21 were refused (syntax 21); no checkpoint was saved at the end\none that was refused: t/3 offset 101: syntax: spoilt"},
		"no labels":          {func(s *service) { s.source.spoil = unlabeled }, "of 40 records 0 were learned, 40 had no label; no checkpoint was saved at the end"},
		"no labels, as said": {func(s *service) { s.source.spoil, s.Config.Unlabeled = unlabeled, true }, ""},
		"all repeated":       {func(s *service) { s.source.spoil = repeated }, ""},
		"nothing new":        {func(s *service) { s.source.n = 100 }, ""},
		"a few refused":      {func(s *service) { s.source.n, s.source.refuse = 109, func(int) bool { return true } }, ""},
		"ten refused":        {func(s *service) { s.source.n, s.source.refuse = 110, func(int) bool { return true } }, "of 10 records 0 were learned, 10 were refused (syntax 10)"},
		"taken as it is": {func(s *service) {
			s.source.refuse, s.Config.Fruitless = func(int) bool { return true }, true
		}, ""},
	} {
		dir := t.TempDir()
		s := start(t, dir, 100, 1)
		must.Do(t, s.Run(t.Context()), name)
		s.store.Close()
		s = start(t, dir, 140, 1)
		s.Config.SaveEvents = 0
		s.source.spoil = func(e *event.Example) { e.Label = 1 } // all events have the same label
		test.change(s)
		err := s.Run(t.Context())
		_, p := newest(t, dir)
		switch {
		case test.want == "" && (err != nil || p.Next != int64(s.source.n)):
			t.Errorf("%s: saved at %d: %v", name, p.Next, err)
		case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want) || p.Next != 100):
			t.Errorf("%s: saved at %d: %v", name, p.Next, err)
		}
		var fruitless *run.FruitlessError
		if errors.As(err, &fruitless) && fruitless.NoLabels() != (name == "no labels") {
			t.Errorf("%s: no labels %t", name, fruitless.NoLabels())
		}
	}
	s := start(t, t.TempDir(), 0, 1)
	err := s.Run(t.Context())
	must.True(t, err != nil && err.Error() == "no event was read; no checkpoint was saved at the end", "no record at all: %v", err)
	s = start(t, t.TempDir(), 40, 1)
	s.source.spoil = repeated
	must.Do(t, s.Run(t.Context()), "records that are not at fault")
}

func TestSavesThatFail(t *testing.T) {
	for _, failures := range []int{1, 3, 1000} {
		dir := t.TempDir()
		s := start(t, dir, records, 1)
		calls, seen := 0, false
		failSaves(s.Runner, "disk full", func() bool {
			calls++
			return calls <= failures
		})
		s.Observe = func(status *run.Status) { seen = seen || strings.Contains(status.NotReady, "disk full") }
		s.source.passing = func(int) {
			if s.Status().Save.Failed == 0 { // lets saves finish
				time.Sleep(10 * time.Microsecond)
			}
		}
		err := s.Run(t.Context())
		if failures == 1000 {
			must.True(t, err != nil && strings.Contains(err.Error(), "disk full"), "the last save failed: %v", err)
			continue
		}
		must.True(t, err == nil || calls <= failures, "%d failures: %v", failures, err)
		if err == nil {
			_, p := newest(t, dir)
			must.True(t, p.Next == records && s.Status().Save.Failed == uint64(failures), "%d failures: %+v, %+v", failures, p, s.Status().Save)
		}
	}
}

// TestFinalError checks that a FinalError of a save ends the run early, and that no other save is attempted, also if the
// loop is busy meanwhile, so that several cases of its select are ready. Which of them it takes is random.
func TestFinalError(t *testing.T) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range 24 {
		at, s := 1+i%2, start(t, t.TempDir(), records, 1)
		all.Go(func() {
			lost, calls := errors.New("not ours any more"), 0
			save := s.Save
			began, reports, failed := make(chan struct{}), make(chan struct{}, 1), make(chan struct{})
			s.Observe = func(*run.Status) {
				select {
				case <-began:
					if len(reports) == 0 {
						reports <- struct{}{}
						time.Sleep(250 * time.Millisecond) // longer than the interval of reports
					}
				default:
				}
			}
			s.Save = func(blocks iter.Seq[event.Block]) (string, int64, error) {
				if calls++; calls < at {
					return save(blocks)
				}
				close(began) // a second call would panic
				for wait := 0; len(reports) == 0 && wait < 500; wait++ {
					time.Sleep(time.Millisecond)
				}
				close(failed)
				return "", 0, run.FinalError{Err: lost}
			}
			s.source.passing = func(n int) {
				if n == records-1 { // the run must end before the last record
					<-failed
					for !strings.HasPrefix(s.Status().NotReady, "stop") {
						time.Sleep(time.Millisecond)
					}
				}
			}
			err := s.Run(t.Context())
			must.True(t, errors.Is(err, lost) && calls == at, "%d saves, want %d: %v", calls, at, err)
			status := s.Status()
			must.True(t, status.Save.Saved == uint64(at-1) && status.Save.Failed == 1 && status.NotReady == "stopped", "%+v, %s", status.Save, status.NotReady)
		})
	}
}

func TestErrorsNameTheRecord(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*testStream)
		want  string
		saved int64 // expected smallest saved offset
	}{
		"learning panics": {func(s *testStream) {
			s.spoil = func(e *event.Example) {
				if e.Offset == 500 {
					e.Label = 1000 // an invalid class, as a decoder error would cause
				}
			}
		}, "t/3 offset 500: learning this record panics", 0},
		"reading panics": {func(s *testStream) {
			s.passing = func(offset int) {
				if offset == 500 {
					panic("decoder")
				}
			}
		}, "reading t/3 after offset", 400},
		"goes back": {func(s *testStream) {
			s.spoil = func(e *event.Example) {
				if e.Offset == 500 {
					e.Offset = 5
				}
			}
		}, "t/3: offset 5 after position 500", 400},
		"source fails": {func(s *testStream) { s.end = errors.New("broken pipe") }, "reading events: broken pipe", records},
	} {
		dir := t.TempDir()
		s := start(t, dir, records, 1)
		s.Config.SaveEvents = 0
		c.spoil(s.source)
		must.ErrorContains(t, s.Run(t.Context()), c.want, name)
		if c.saved == 0 {
			names, _ := checkpoint.List(dir)
			must.True(t, len(names) <= 0, "%s: saved %v", name, names)
		} else if _, p := newest(t, dir); p.Next < c.saved {
			t.Errorf("%s: saved at %+v", name, p)
		}
		s.store.Close()
	}
}

// TestPanicAwaitsSave checks that, if learning panics, Run waits for the running save of an earlier state.
func TestPanicAwaitsSave(t *testing.T) {
	s := start(t, t.TempDir(), records, 1)
	s.Config.SaveEvents = records / 2
	begun, ended := make(chan bool), false
	save := s.Save
	s.Save = func(blocks iter.Seq[event.Block]) (string, int64, error) {
		close(begun)
		time.Sleep(100 * time.Millisecond)
		defer func() { ended = true }()
		return save(blocks)
	}
	s.source.spoil = func(e *event.Example) {
		if e.Offset == records-1 {
			<-begun
			e.Label = 1000
		}
	}
	err := s.Run(t.Context())
	must.True(t, err != nil && strings.Contains(err.Error(), "learning this record panics") && ended, "the save had ended: %v; %v", ended, err)
}

// TestShutdownTimeout checks that the program ends although a save hangs.
func TestShutdownTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, t.TempDir(), 100, 1)
		s.Config.ShutdownTimeout = 10 * time.Second
		release := make(chan bool)
		s.Save = func(iter.Seq[event.Block]) (string, int64, error) { <-release; return "", 0, nil }
		begin := time.Now()
		err := s.Run(t.Context())
		must.Equal(t, time.Since(begin), s.Config.ShutdownTimeout, "ended after")
		must.True(t, err != nil && strings.Contains(err.Error(), "not written within 10s"), "%v", err)
		close(release)
	})
}

// TestSaveInterval checks that saves happen after a time and after a number of events, and that an idle run saves once.
func TestSaveInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := start(t, dir, 400, 1)
		s.Config.SaveEvents, s.Config.SaveInterval = 0, time.Minute
		committed := event.Offsets(nil)
		s.Commit = func(_ context.Context, o event.Offsets) error {
			committed = o
			return errors.New("no coordinator") // a failed commit must have no effect
		}
		ctx, cancel := context.WithCancel(t.Context())
		s.Source = idle{s.source}
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		status := s.Status()
		must.True(t, status.Save.Saved == 1 && status.Save.CommitFailures == 1 && status.NotReady == "", "%+v", status)
		p, _ := committed.Lookup("t", 3)
		must.True(t, p.Next == 400, "committed %+v", committed)
		m := s.Published()
		must.True(t, m != nil && m.Events != 0, "published %+v", m)
		cancel()
		must.Do(t, <-done)
		names, _ := checkpoint.List(dir)
		must.True(t, len(names) == 1, "%v: nothing had come since the first", names)
	})
}

// idle is a testStream that blocks forever at its end.
type idle struct{ *testStream }

func (s idle) Next(ctx context.Context, b *event.Batch) error {
	err := s.testStream.Next(ctx, b)
	if errors.Is(err, io.EOF) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

// TestBatchesWithoutExamples learns from batches that only move the position. A Consumer returns such batches at its
// start, and when an offset is out of range.
func TestBatchesWithoutExamples(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, 0, 1)
	s.Offsets = event.Offsets{{Topic: "t", Partition: 3, Next: 1000, Records: 10, Sum: 5}}
	s.Source = eventtest.Source([]event.Batch{
		{Topic: "t", Partition: 3, Next: 1000, HighWater: 2000},
		{Topic: "t", Partition: 4, Next: 77, HighWater: -1},
		{Topic: "t", Partition: 3, Next: 500, HighWater: 2000, Reset: true},
		{Topic: "t", Partition: 3, Next: 600, HighWater: 2000},
	}...)
	must.Do(t, s.Run(t.Context()))
	want := event.Offsets{{Topic: "t", Partition: 3, Next: 600, Records: 10, Sum: 5}, {Topic: "t", Partition: 4, Next: 77, First: 77}}
	must.True(t, slices.Equal(s.Offsets, want), "%+v", s.Offsets)
	p := s.Status().Partitions
	must.True(t, p[0].Lag() == 1400 && p[1].Lag() == -1, "%+v", p)
	newest(t, dir)
}

func TestResumeNamesTheDifference(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, 100, 1)
	must.Do(t, s.Run(t.Context()))
	file, _ := must.Get2(s.store.Load())(t)
	c := online.DefaultConfig()
	c.Noise = "none"
	_, err := run.Resume(c, online.Fingerprint{"format": "csv"}, file.Blocks)
	mismatch := (*online.MismatchError)(nil)
	must.True(t, errors.As(err, &mismatch) && slices.Equal(mismatch.Differences, []string{
		`format: was "test", is "csv"`, `noise: was "auto [0 0.3 0.7]", is "none"`}), "%v", err)
	blocks := slices.DeleteFunc(file.Blocks, func(b event.Block) bool { return b.Name == "offsets" })
	must.ErrorContains(t, must.Err(run.Resume(online.DefaultConfig(), settings, blocks)), "not a checkpoint", "a model")
}

// TestNoDeadLetters checks that a run under PolicyDeadLetter needs a destination.
func TestNoDeadLetters(t *testing.T) {
	s := start(t, t.TempDir(), 0, 1)
	s.Config.Refused = run.PolicyDeadLetter
	must.ErrorContains(t, s.Run(t.Context()), "no topic or file for them")
}

// TestWarningsAreLoggedOnce checks that a warning is logged once, however long it lasts.
func TestWarningsAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	s := start(t, t.TempDir(), 6000, 0)
	s.Config.Fruitless = true
	s.source.spoil = func(e *event.Example) { e.Label = event.Unlabeled }
	s.Log = slog.New(slog.NewTextHandler(&log, nil))
	must.Do(t, s.Run(t.Context()))
	n := strings.Count(log.String(), "warning=no-labels")
	must.True(t, n == 1 && len(s.Status().Warnings) == 1, "logged %d times, at the end %v:\n%s", n, s.Status().Warnings, &log)
}

// TestNoWarningsAtTheStart checks that a new run shows no warnings about the few events that have been learned so far.
// The run must show them at its end, when no more events follow.
func TestNoWarningsAtTheStart(t *testing.T) {
	dir := t.TempDir()
	for life, n := range []int{20, 40} {
		s := start(t, dir, n, 0)
		s.Config.Fruitless = true
		s.source.spoil = func(e *event.Example) { e.Label = event.Unlabeled }
		s.source.passing = func(int) {
			w := s.Status().Warnings
			must.True(t, len(w) <= 0, "life %d: warnings while it begins: %v", life, w)
		}
		must.Do(t, s.Run(t.Context()))
		w := s.Status().Warnings
		must.True(t, len(w) == 1, "life %d: warnings at the end: %v", life, w)
		s.store.Close()
	}
}

// TestTraining checks that a Training ends in the same state as separate calls for each pass. The evaluation must be
// the same from memory and from the source, with one thread and with three.
func TestTraining(t *testing.T) {
	const n = 650
	c := learnerConfig()
	c.Noise = "dropout:0.3"
	learner := func() *online.Learner {
		return must.Get(online.New(c, event.NewSchema(18, nil, 2)))(t)
	}
	state := func(l *online.Learner) []byte {
		blocks := must.Get(l.Snapshot().Blocks())(t)
		return bytes.Join([][]byte{blocks[0].Data, blocks[1].Data}, nil)
	}
	slow := learner()
	for range 2 {
		s := newStream(slow.Schema(), nil, n, 1)
		for i := range n {
			e := s.record(i)
			slow.Learn(&e, nil)
		}
		slow.EndPass()
	}
	wantJ, wantError, _, err := slow.Evaluate(t.Context(), newStream(slow.Schema(), nil, n, 1), 1)
	must.Do(t, err)
	for _, memory := range []int64{0, 50_000, 1 << 30} {
		for _, threads := range []int{1, 3} {
			l, opened := learner(), 0
			training := run.Training{Learner: l, Schema: l.Schema(), Passes: 2, Memory: memory, Refused: run.PolicyFail, Threads: threads, Evaluate: true,
				Open: func() (event.Source, error) {
					opened++
					return newStream(l.Schema(), nil, n, 1), nil
				}}
			got := must.Get(training.Run(t.Context()))(t)
			must.Equal(t, opened, map[bool]int{true: 1, false: 3}[memory == 1<<30], "memory", memory, "opened")
			must.True(t, got.Learned+got.Unlabeled == n && got.Learner.Total.Weight < slow.Report().Total.Weight,
				"%d learned, progressive %+v", got.Learned, got.Learner.Total)
			noise := l.Report().Noise
			must.True(t, loss.LevelOf(noise) != 0, "noise %v", noise)
			l.EndPass()
			must.True(t, (got.Objective == wantJ || math.Abs(got.Objective-wantJ) <= 1e-9*wantJ) && got.Error == wantError && bytes.Equal(state(l), state(slow)),
				"memory %d, %d threads: J = %v, error %v; by hand %v, %v", memory, threads, got.Objective, got.Error, wantJ, wantError)
		}
	}
}
