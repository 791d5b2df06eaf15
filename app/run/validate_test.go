package run_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"blankout/app/run"
	"blankout/batch"
	"blankout/batch/validate"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/stream/labels"
)

// validating makes a service hold out about one record in seven, and validate.
func (s *service) validating(events uint64) *[]*batch.Validation {
	c := validate.DefaultConfig()
	c.Holdout, c.Events, c.CPU = 7, validate.Events(events), 1
	n := s.source.n
	s.Validator = &validate.Validator{Config: c, Learner: learnerConfig(),
		Open: func(_ context.Context, schema *event.Schema, from event.Offsets) (event.Source, error) {
			return newStream(schema, from, n, 99), nil
		}}
	reports := new([]*batch.Validation)
	s.Report = func(r *batch.Validation) error {
		*reports = append(*reports, r)
		return nil
	}
	return reports
}

// opening replaces the function with which the Validator opens the events. f may call open, the original function.
func (s *service) opening(f func(ctx context.Context, schema *event.Schema, from event.Offsets, open opener) (event.Source, error)) {
	open := s.Validator.Open
	s.Validator.Open = func(ctx context.Context, schema *event.Schema, from event.Offsets) (event.Source, error) {
		return f(ctx, schema, from, open)
	}
}

type opener = func(ctx context.Context, schema *event.Schema, from event.Offsets) (event.Source, error)

// TestValidateChangesNothing checks that validation does not change the learned state, in one process or several. The
// state must depend only on the events that are not held out.
func TestValidateChangesNothing(t *testing.T) {
	const n = 1500
	reference := t.TempDir()
	s := start(t, reference, n, 0)
	s.validating(0)
	must.Do(t, s.Run(t.Context()))
	want, p := newest(t, reference)
	held := must.Count(n, func(offset int) bool { return validate.HeldOut(3, int64(offset), 7) })
	status := s.Status()
	must.True(t, p.Records == n && int(status.HeldOut) == held && held >= n/10 && status.Learned+status.Unlabeled == uint64(n-held),
		"of %d records %d should be held out; %d are, learned are %d", p.Records, held, status.HeldOut, status.Learned+status.Unlabeled)
	w := status.Holdout.Weight
	must.True(t, w > float64(held)*0.8 && w <= float64(held) && status.Holdout.MeanLogLoss() > 0, "holdout %+v of %d events", status.Holdout, held)
	schema := event.NewSchema(18, nil, 2)
	schema.Names = event.NewNames(2000)
	alone := must.Get(online.New(learnerConfig(), schema))(t)
	stream := newStream(schema, nil, n, 0)
	for i := range n {
		if e := stream.record(i); !validate.HeldOut(3, int64(i), 7) {
			alone.Learn(&e, nil)
		}
	}
	if got, want := s.Learner.Snapshot().Model(), alone.Snapshot().Model(); got.Events != want.Events || got.Intercept[0] != want.Intercept[0] {
		t.Errorf("learned %d events to %v, alone %d to %v", got.Events, got.Intercept, want.Events, want.Intercept)
	}

	dir := t.TempDir()
	for life, stop := range []uint64{400, 555, 0} {
		s := start(t, dir, n, uint64(life))
		reports := s.validating(must.Either[uint64](longtest.Asked(), 200, 350))
		s.Config.MaxEvents = stop
		must.Do(t, s.Run(t.Context()))
		s.store.Close()
		v := s.Status().Validation
		must.True(t, int(v.Done) == len(*reports) && v.Done != 0 && v.Failed <= 0 && !v.Running && v.Last == (*reports)[len(*reports)-1], "life %d: %d reports, status %+v", life, len(*reports), v)
		for _, r := range *reports {
			must.True(t, r.Verified && r.Coverage == 1 && r.MeasuredOn == "holdout" && r.Gap > 0 && *r.Certificate <= 1e-6*r.Exact.Objective, "life %d: %+v", life, r)
		}
	}
	got, p := newest(t, dir)
	must.True(t, bytes.Equal(got, want), "with validations it ends in another state, at %+v", p)
}

// TestValidateCheckpoint checks the validation of the model in a checkpoint, both from a file and during learning.
func TestValidateCheckpoint(t *testing.T) {
	longtest.NotRaced(t)
	dir := t.TempDir()
	s := start(t, dir, 400, 1)
	reports := s.validating(400)
	must.Do(t, s.Run(t.Context()))
	must.Require(t, len(*reports) == 1, "%d reports", len(*reports))
	data, _ := newest(t, dir)
	file := must.Get(checkpoint.Decode(data))(t)
	live := must.Get(model.ReadLinear(file.Blocks))(t)
	at := offsetsOf(t, file.Blocks)
	learner := must.Get(online.Restore(s.Learner.Config(), file.Blocks))(t)
	levels, largest := learner.Snapshot().Levels()
	got, exact := must.Get2(s.Validator.Validate(t.Context(), validate.Request{Live: live, Level: levels[largest], At: at}))(t)
	want := (*reports)[0]
	must.True(t, got.Live.Objective == want.Live.Objective && got.Exact.Objective == want.Exact.Objective && *got.Live.Error == *want.Live.Error, "from the file %+v\nbeside learning %+v", got, want)
	// A log returns whole batches: the first batch begins before the requested position, and the last batch ends after
	// the end of the range. Only the records within the range count.
	exactly := s.Validator.Open
	for _, window := range []uint64{0, 100} {
		s.Validator.Config.Window = window
		s.Validator.Open = exactly
		want, _ := must.Get2(s.Validator.Validate(t.Context(), validate.Request{Live: live, At: at}))(t)
		s.Validator.Open = func(_ context.Context, schema *event.Schema, _ event.Offsets) (event.Source, error) {
			return newStream(schema, nil, 460, 5), nil
		}
		got, _, err := s.Validator.Validate(t.Context(), validate.Request{Live: live, At: at})
		must.True(t, err == nil && got.Read == want.Read && got.Events == want.Events && got.Holdout == want.Holdout && got.Verified == want.Verified && got.Exact.Objective == want.Exact.Objective,
			"window %d: of whole batches %+v, %v\nof the records %+v", window, got, err, want)
	}
	s.Validator.Open, s.Validator.Config.Window = exactly, 0
	// The solver starts from the earlier exact solution, so that it has nothing left to do.
	again, _, err := s.Validator.Validate(t.Context(), validate.Request{Live: live, At: at, Earlier: exact})
	must.True(t, err == nil && math.Abs(again.Exact.Objective-got.Exact.Objective) <= 1e-6*got.Exact.Objective, "again: %+v, %v", again, err)
	// Validate only a window. Then validate with a log that has lost its beginning.
	s.Validator.Config.Window = 100
	r, _, err := s.Validator.Validate(t.Context(), validate.Request{Live: live, At: at})
	must.True(t, err == nil && r.Read == 100 && r.Window && !r.Verified && r.Coverage == 0.25, "window: %+v, %v", r, err)
	s.Validator.Config.Window = 0
	// Validate must measure the events of the holdout topic and the held-out events.
	s.Validator.OpenHoldout = func(_ context.Context, schema *event.Schema) (event.Source, error) {
		return newStream(schema, nil, 150, 3), nil
	}
	r, _, err = s.Validator.Validate(t.Context(), validate.Request{Live: live, At: at})
	must.True(t, err == nil && r.Holdout == want.Holdout+150-9 && r.Events == want.Events, "holdout topic: %d and %d beside %d held out, %v", r.Events, r.Holdout, want.Holdout, err)
	s.Validator.OpenHoldout = nil
	s.opening(func(ctx context.Context, schema *event.Schema, from event.Offsets, open opener) (event.Source, error) {
		from[0].Next = 200
		return open(ctx, schema, from)
	})
	r, _, err = s.Validator.Validate(t.Context(), validate.Request{Live: live, At: at})
	must.True(t, err == nil && r.Read == 200 && !r.Window && !r.Verified && r.Coverage == 0.5, "lost: %+v, %v", r, err)
}

// TestReservoir checks validation without a log, from the reservoir. The reservoir must be a uniform sample of the
// events. It must not depend on restarts or on the order of the events.
func TestReservoir(t *testing.T) {
	const n, size = 1500, 400
	dir := t.TempDir()
	var s *service
	var reports *[]*batch.Validation
	for _, stop := range []uint64{450, 1, 350, 0} {
		s = start(t, dir, n, stop)
		reports = s.validating(n)
		s.Validator.Config.Reservoir, s.Config.MaxEvents = size, stop
		s.opening(func(ctx context.Context, schema *event.Schema, from event.Offsets, open opener) (event.Source, error) {
			from[0].Next = n - 10
			return open(ctx, schema, from)
		})
		must.Do(t, s.Run(t.Context()))
		s.store.Close()
	}
	data, _ := newest(t, dir)
	file := must.Get(checkpoint.Decode(data))(t)
	kept := validate.ReadReservoir(file.Blocks)
	must.Require(t, len(*reports) == 1, "%d reports", len(*reports))
	r := (*reports)[0]
	must.True(t, r.Source == "reservoir" && r.Read == size && !r.Verified && r.Events+r.Holdout == size && r.Holdout >= size/12 && r.Coverage == float64(size)/n, "%+v", r)
	// The scaled objective estimates the objective over all events. The losses have a mean of 10 and a deviation of
	// 15.5, so the estimate from 350 events is off by about 8 %.
	s.Validator.Open = func(_ context.Context, schema *event.Schema, from event.Offsets) (event.Source, error) {
		return newStream(schema, from, n, 99), nil
	}
	levels, largest := s.Learner.Snapshot().Levels()
	reference, _, err := s.Validator.Validate(t.Context(), validate.Request{Live: s.Published().Linear, Level: levels[largest], At: s.Offsets, Reservoir: kept})
	must.True(t, err == nil && reference.Source == "log" && math.Abs(r.Live.Objective/reference.Live.Objective-1) <= 0.25,
		"live objective %v, of all events %v, %v", r.Live.Objective, reference.Live.Objective, err)

	one := t.TempDir()
	s = start(t, one, n, 9)
	s.validating(n)
	s.Validator.Config.Reservoir, s.Validator.Open = size, nil
	must.Do(t, s.Run(t.Context()))
	data, _ = newest(t, one)
	file, err = checkpoint.Decode(data)
	must.True(t, err == nil && bytes.Equal(validate.ReadReservoir(file.Blocks), kept), "in one life it keeps others %v", err)
	last := s.Status().Validation.Last
	must.True(t, last != nil && last.Source == "reservoir", "without a log: %+v", last)
	s.Reservoir = []byte("not one")
	must.Fails(t, s.Run(t.Context()), "takes a broken reservoir")
}

// TestValidateDelaysNothing checks that a failing or slow validation does not affect the run.
func TestValidateDelaysNothing(t *testing.T) {
	s := start(t, t.TempDir(), 1000, 1)
	s.validating(300)
	s.Validator.Open = func(context.Context, *event.Schema, event.Offsets) (event.Source, error) {
		return nil, errors.New("no broker")
	}
	must.Do(t, s.Run(t.Context()))
	v := s.Status().Validation
	must.True(t, v.Failed != 0 && v.Done <= 0 && !v.Running, "%+v", v)

	s = start(t, t.TempDir(), 1000, 1)
	ctx, cancel := context.WithCancel(t.Context())
	s.validating(300)
	s.Validator.Open = func(ctx context.Context, _ *event.Schema, _ event.Offsets) (event.Source, error) {
		cancel() // stop the validation while it reads
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.source.end = nil
	s.source.n = math.MaxInt // endless stream
	must.Do(t, s.Run(ctx))
	v = s.Status().Validation
	must.True(t, v.Failed+v.Done <= 0 && !v.Running, "given up: %+v", v)

	s = start(t, t.TempDir(), 100, 1)
	must.Fails(t, s.Validate(), "a run without a Validator takes a request")
	s.validating(0)
	err := s.Validate()
	must.True(t, err == nil, "%v", err)
	if err := s.Run(t.Context()); err != nil || s.Status().Validation.Done != 1 || s.Status().Validation.Failed != 0 { // there are no classes yet
		t.Errorf("asked for: %+v, %v", s.Status().Validation, err)
	}

	s = start(t, t.TempDir(), 100, 1)
	s.validating(0)
	s.Config.KeepServing = true
	must.Do(t, s.Run(t.Context()))
	must.Fails(t, s.Validate(), "a run whose events have ended takes a request", err)
}

// lateRefusals sets the time of refused records to an hour after all other records.
type lateRefusals struct{ event.Source }

func (l lateRefusals) Next(ctx context.Context, b *event.Batch) error {
	err := l.Source.Next(ctx, b)
	for i := range b.Examples {
		if e := &b.Examples[i]; e.Refused != nil {
			e.Time += time.Hour.Milliseconds()
		}
	}
	return err
}

// TestNewestTimeIsOfLearnedEvents checks that a rejected record changes neither the newest event's time nor its age.
func TestNewestTimeIsOfLearnedEvents(t *testing.T) {
	s := start(t, t.TempDir(), 300, 1)
	s.source.refuse = func(offset int) bool { return offset == 7 || offset == 299 }
	s.Source = lateRefusals{s.source}
	must.Do(t, s.Run(t.Context()))
	s.store.Close()
	got, want := s.Status().NewestTime.UnixMilli(), int64(1_700_000_000_000+298)
	must.True(t, got == want, "newest event at %d, want %d", got, want)
}

// TestCountersBeginAtTheStart checks that the counts of a new run start at 0, without the counts in its checkpoint. The
// warnings in the checkpoint must be shown at once.
func TestCountersBeginAtTheStart(t *testing.T) {
	dir := t.TempDir()
	c := learnerConfig()
	c.Loss, c.MislabeledBelow = "t-logistic:1.5", 0.7
	var before *run.Status
	for life := range 2 {
		s := startAs(t, dir, 4000*(life+1), 1, c)
		s.source.refuse = func(offset int) bool { return offset%10 == 3 && offset < 4000 }
		s.Config.Refused = run.PolicySkip
		first := true
		s.Observe = func(now *run.Status) {
			must.True(t, life != 1 || !first || now.Refused == 0 && now.DriftAlarms == 0 && now.Learner.Mislabeled == before.Learner.Mislabeled && len(now.Warnings) == 1,
				"at the start: %d refused, %d alarms, warnings %v", now.Refused, now.DriftAlarms, now.Warnings)
			first = false
		}
		must.Do(t, s.Run(t.Context()))
		s.store.Close()
		now := s.Status()
		if life == 0 {
			before = now
			must.Require(t, now.Refused != 0 && now.Learner.Mislabeled != 0 && len(now.Warnings) == 1 && now.Warnings[0].Kind == "refused", "%d refused, warnings %v", now.Refused, now.Warnings)
		} else if now.Refused != 0 || now.Learner.Mislabeled <= before.Learner.Mislabeled {
			t.Errorf("%d refused, %d mislabeled events after %d", now.Refused, now.Learner.Mislabeled, before.Learner.Mislabeled)
		}
	}
}

// few gives an event of a testStream twelve columns, and a class that depends on them.
func few(e *event.Example) {
	for i := range e.Features.Index {
		e.Features.Index[i] = uint32(1000 * (i + 1))
	}
	e.Label = must.Either(e.Features.Value[0] > 0, 1, 0)
}

// TestValidateAuto checks that the schedule "auto" validates during learning, on a sample that needs no reading. A
// restart must continue from the reports, and the learned and saved state must be the same without "auto".
func TestValidateAuto(t *testing.T) {
	const n = 70_000
	starting := func(dir string, stop uint64) *service {
		s := start(t, dir, n, 7)
		s.source.spoil = few
		s.Config.MaxEvents, s.Config.SaveEvents = stop, 0
		return s
	}
	reference := t.TempDir()
	s := starting(reference, 0)
	s.validating(0)
	must.Do(t, s.Run(t.Context()))
	want, _ := newest(t, reference)

	dir := t.TempDir()
	var kept []*batch.Validation
	for life, stop := range []uint64{n - 100, 50, 0} {
		s := starting(dir, stop)
		reports := s.validating(0)
		s.Validator.Config.Events, s.Validator.Reports = validate.AutoEvents, kept
		s.Validator.Open = func(context.Context, *event.Schema, event.Offsets) (event.Source, error) {
			t.Error("reads the events again")
			return nil, context.Canceled
		}
		must.Do(t, s.Run(t.Context()))
		s.store.Close()
		if life > 0 {
			must.True(t, len(*reports) <= 0, "life %d: validated twice a day", life)
			continue
		}
		kept = *reports
		must.Require(t, len(kept) == 1, "%d reports of %d records", len(kept), n)
		r := kept[0]
		must.True(t, r.Source == "sample" && r.MeasuredOn == "sample" && r.Records >= 10_000 && r.Read >= 1500 && r.Read <= r.Records/3 && r.Events+r.Holdout == int(r.Read) && !r.Verified &&
			r.Events >= r.Holdout/2 && r.Live.Robustness == nil && r.GapError > 0 && math.Abs(*r.RelativeGap) <= 1 && strings.Contains(r.Summary, "the exact one"), "%+v", r)
		must.True(t, len(r.ByAge) >= 3 && r.ByAge[2].Age == 1000 && r.ByAge[2].Events > 100 && *r.ByAge[2].Error < 100, "by age %+v", r.ByAge)
	}
	got, p := newest(t, dir)
	must.True(t, bytes.Equal(got, want), "with validations it ends in another state, at %+v", p)
}

// TestValidateAutoWithLateLabels checks that "auto" does nothing with delayed labels, and logs this once.
func TestValidateAutoWithLateLabels(t *testing.T) {
	s := start(t, t.TempDir(), 300, 1)
	reports := s.validating(0)
	s.Validator.Config.Events, s.Validator.Open = validate.AutoEvents, nil
	join := must.Get(labels.Open(labels.DefaultConfig(), t.TempDir(), labels.State{}))(t)
	defer join.Close()
	s.Labels = join
	var log bytes.Buffer
	s.Log = slog.New(slog.NewTextHandler(&log, nil))
	s.Config.Fruitless = true
	must.Do(t, s.Run(t.Context()))
	text := log.String()
	must.True(t, strings.Count(text, "no validations: with delayed labels") == 1 && len(*reports) <= 0, "%d reports; it says\n%s", len(*reports), text)
}

// TestValidateEveryTime checks a schedule by number of records if validations are slow. A validation that becomes due
// while another validation runs must run later, on the state of the time when it became due.
func TestValidateEveryTime(t *testing.T) {
	const n, every = 1000, 200
	s := start(t, t.TempDir(), n, 5)
	reports := s.validating(every)
	open, ended := s.Validator.Open, make(chan struct{})
	s.source.passing = func(offset int) {
		if offset == n-1 {
			close(ended)
		}
	}
	s.Validator.Open = func(ctx context.Context, schema *event.Schema, from event.Offsets) (event.Source, error) {
		<-ended // the first validation ends after all records have been read
		return open(ctx, schema, from)
	}
	must.Do(t, s.Run(t.Context()))
	must.True(t, len(*reports) == n/every, "%d reports of %d records, want one for each %d", len(*reports), n, every)
	for i, r := range *reports {
		due := uint64(i+1) * every
		must.True(t, r.Records >= due && r.Records < due+50 && r.Verified, "report %d, due at %d records: of %d, verified %v", i, due, r.Records, r.Verified)
	}

	// The number of waiting validations is limited: further validations are skipped, which is reported.
	s = start(t, t.TempDir(), n, 5)
	reports = s.validating(20)
	open, ended = s.Validator.Open, make(chan struct{})
	var once sync.Once
	s.source.passing = func(offset int) {
		if offset == n-1 {
			once.Do(func() { close(ended) })
		}
	}
	s.Validator.Open = func(ctx context.Context, schema *event.Schema, from event.Offsets) (event.Source, error) {
		<-ended
		return open(ctx, schema, from)
	}
	var log bytes.Buffer
	s.Log = slog.New(slog.NewTextHandler(&log, nil))
	must.Do(t, s.Run(t.Context()))
	must.True(t, len(*reports) >= 10 && len(*reports) <= 20 && strings.Contains(log.String(), "a due validation is skipped"), "%d reports; it says\n%s", len(*reports), log.String())
}
