package run_test

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"

	"blankout/batch"
	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
	"blankout/stream/labels"
)

// few gives an event of a testStream twelve columns, and a class that depends on them.
func few(e *event.Example) {
	for i := range e.Features.Index {
		e.Features.Index[i] = uint32(1000 * (i + 1))
	}
	e.Label = eventtest.Class(e.Features.Value[0] > 0)
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
