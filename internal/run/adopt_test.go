package run_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"blankout/batch"
	"blankout/batch/validate"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/internal/run"
	"blankout/online"
)

// adopting makes a service adopt the exact solution every events records. The solution is ready after a delay.
func (s *service) adopting(events uint64, delay func() time.Duration) *[]*batch.Validation {
	reports := s.validating(events)
	s.Validator.Learner.Noise = "dropout:0.3"
	c := &s.Validator.Config
	c.Policy, c.Window, c.AdoptMargin = "adopt", 0, math.Inf(-1)
	s.opening(func(ctx context.Context, schema *event.Schema, from event.Offsets, open opener) (event.Source, error) {
		select {
		case <-time.After(delay()):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return open(ctx, schema, from)
	})
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

// startOne starts a service with one noise level, which is solved faster than several.
func startOne(t *testing.T, dir string, n int, seed uint64) *service {
	t.Helper()
	c := learnerConfig()
	c.Noise = "dropout:0.3"
	return startAs(t, dir, n, seed, c)
}

func at0() time.Duration { return 0 }

// standing solves the exact problem for the state in a checkpoint.
func (s *service) standing(t *testing.T, data []byte) *batch.Validation {
	t.Helper()
	file := must.Get(checkpoint.Decode(data))(t)
	live := must.Get(model.ReadLinear(file.Blocks))(t)
	at := must.Get(run.ReadOffsets(file.Blocks))(t)
	r, _ := must.Get2(s.Validator.Validate(t.Context(), validate.Request{Live: live, At: at}))(t)
	return r
}

// TestAdopt checks that the objective of the learned state equals the exact minimum after an adoption, also in the
// middle of a batch. The result must not depend on the solver's time, on batches, or on stops and lost work at any
// point.
func TestAdopt(t *testing.T) {
	const n, every = 1500, 400
	reference := t.TempDir()
	s := startOne(t, reference, n, 0)
	reports := s.adopting(every, at0)
	must.Do(t, s.Run(t.Context()))
	want, p := newest(t, reference)
	status := s.Status()
	held := 0
	for offset := range int64(n) {
		if validate.HeldOut(3, offset, 7) {
			held++
		}
	}
	if v := status.Validation; p.Records != n || v.Adopted != 3 || v.NotAdopted+v.Failed > 0 || v.Adopting != 0 || len(*reports) != 3 {
		t.Fatalf("at %+v: %+v", p, v)
	}
	if int(status.HeldOut) != held || status.Learned+status.Unlabeled != uint64(n-held) || status.Learner.Events != uint64(n-held) {
		t.Errorf("held out %d of %d, learned %d, in the state %d: something was counted twice",
			status.HeldOut, held, status.Learned+status.Unlabeled, status.Learner.Events)
	}
	for i, r := range *reports {
		if !r.Adopted || !r.Verified || r.Records != uint64(every*(i+1)) {
			t.Errorf("report %d: %+v", i, r)
		}
	}

	// If the stream ends at record N, the state is the exact solution.
	dir := t.TempDir()
	s = startOne(t, dir, n, 5)
	reports = s.adopting(every, at0)
	s.Config.MaxEvents = every
	must.Do(t, s.Run(t.Context()))
	data, _ := newest(t, dir)
	r, first := s.standing(t, data), (*reports)[0]
	if math.Abs(r.Live.Objective/first.Exact.Objective-1) > 1e-12 || math.Abs(r.Gap) > 1e-6*r.Exact.Objective || !(first.Gap > 0) {
		t.Errorf("adopted at %.17g, live it is %.17g, exactly %.17g", first.Exact.Objective, r.Live.Objective, r.Exact.Objective)
	}

	for life := range uint64(2) {
		dir := t.TempDir()
		random := rand.New(rand.NewPCG(life, 7))
		versions := uint64(0)
		for round := 0; ; round++ {
			s := startOne(t, dir, n, life*10+uint64(round))
			slow := time.Duration(random.IntN(20)) * time.Millisecond
			s.adopting(every, func() time.Duration { return slow })
			s.FirstVersion = versions
			s.Config.PublishEvents = 50
			s.Observe = func(*run.Status) {
				if v := s.Published().Version; v < versions {
					t.Errorf("version %d after %d", v, versions)
				} else {
					versions = v
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			stop := n + 1
			if round < 3 {
				stop = random.IntN(n)
			}
			var killed atomic.Bool
			failSaves(s.Runner, "killed", killed.Load)
			s.source.passing = func(offset int) {
				if offset == stop {
					killed.Store(life%2 == 0)
					cancel()
				}
			}
			err := s.Run(ctx)
			cancel()
			s.store.Close()
			if err != nil && !killed.Load() {
				t.Fatal(err)
			}
			if round == 3 {
				break
			}
			versions++
		}
		if got, p := newest(t, dir); !bytes.Equal(got, want) {
			t.Errorf("life %d ends in another state, at %+v", life, p)
		}
	}
}

// TestLearningWaits checks that learning waits for the solver directly after the record that the solution includes. The
// state at that record must be saved and published.
func TestLearningWaits(t *testing.T) {
	const n, every = 1000, 300
	dir := t.TempDir()
	s := startOne(t, dir, n, 3)
	saved := make(chan struct{})
	var published atomic.Bool
	s.adopting(every, func() time.Duration {
		<-saved
		// Wait for the publication: copying a model may take at most a twentieth of the time.
		for i := 0; i < 6000 && !published.Load(); i++ {
			time.Sleep(10 * time.Millisecond)
			published.Store(s.Published().Offsets[0].Records == every)
		}
		return 0
	})
	s.Config.SaveEvents, s.Config.PublishEvents = 0, 1
	waited := false
	s.Observe = func(status *run.Status) {
		v := &status.Validation
		if v.Adopting == 0 || v.Adopting > every {
			return
		}
		if v.Adopting != every || status.NotReady != "" || v.WaitingSince.IsZero() || status.Partitions[0].Records != every {
			t.Errorf("waiting with status %+v", status)
		}
		if status.Save.Saved > 0 && !waited {
			waited = true
			if _, p := newest(t, dir); p.Records != every {
				t.Errorf("saved at %+v", p)
			}
			close(saved)
		}
	}
	must.Do(t, s.Run(t.Context()))
	if v := s.Status().Validation; v.Adopted != 3 || !waited || !published.Load() || v.Waited == 0 || v.Adopting != 0 || !v.WaitingSince.IsZero() {
		t.Errorf("%+v", v)
	}
	// Dead letters are stored and counted once, also in a batch that waits in the middle.
	letters := &letters{}
	s = startOne(t, t.TempDir(), n, 3)
	s.adopting(every, func() time.Duration { return 20 * time.Millisecond })
	s.source.refuse = func(offset int) bool { return offset%50 == 7 }
	s.opening(func(ctx context.Context, schema *event.Schema, from event.Offsets, open opener) (event.Source, error) {
		source, err := open(ctx, schema, from)
		if err == nil {
			source.(*testStream).refuse = s.source.refuse
		}
		return source, err
	})
	s.Config.Refused, s.DeadLetters = run.PolicyDeadLetter, letters
	must.Do(t, s.Run(t.Context()))
	status := s.Status()
	if status.Validation.Adopted != 3 || len(letters.offsets) != n/50 || status.Refused != n/50 || status.DeadLetters[event.ReasonSyntax] != n/50 {
		t.Errorf("%d dead letters of %d, counted %d and %+v, %+v", len(letters.offsets), n/50, status.Refused, status.DeadLetters, status.Validation)
	}
}

type letters struct{ offsets []int64 }

func (l *letters) Add(_ context.Context, _ string, _ int32, e *event.Example) error {
	l.offsets = append(l.offsets, e.Offset)
	return nil
}

func (*letters) Flush(context.Context) error { return nil }

// TestAdoptWait checks that learning continues if no solution is ready in time, but only after that decision is saved.
// After a restart, the decision must stay the same, even if the solver is fast then.
func TestAdoptWait(t *testing.T) {
	const n, every = 1500, 400
	never := func(s *service) {
		s.adopting(every, at0)
		s.Validator.Config.AdoptWait = time.Millisecond
		s.Validator.Open = func(ctx context.Context, _ *event.Schema, _ event.Offsets) (event.Source, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		s.Config.SaveEvents, s.Config.SaveInterval = 0, 0 // only adoptions save
	}
	finish := func(dir string) []byte {
		s := startOne(t, dir, n, 8)
		if !slices.Equal(s.Adoptions.TimedOut, []uint64{every}) {
			t.Errorf("the checkpoint has %+v", s.Adoptions)
		}
		s.adopting(every, at0)
		must.Do(t, s.Run(t.Context()))
		if v := s.Status().Validation; v.Adopted != 2 || v.TimedOut != 0 {
			t.Errorf("after the restart %+v", v)
		}
		s.store.Close()
		data, _ := newest(t, dir)
		return data
	}
	reference := t.TempDir()
	s := startOne(t, reference, n, 0)
	never(s)
	s.Config.MaxEvents = 450
	must.Do(t, s.Run(t.Context()))
	if v := s.Status().Validation; v.TimedOut != 1 || v.Adopted != 0 || v.Waited == 0 {
		t.Errorf("%+v", v)
	}
	s.store.Close()
	want := finish(reference)

	// Stop the run shortly after learning continues. At first the checkpoint with the decision cannot be written.
	dir := t.TempDir()
	s = startOne(t, dir, n, 5)
	never(s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var failed, safe atomic.Int64
	beforeSave(s.Runner, func(all []event.Block) error {
		if ctx.Err() != nil {
			return errors.New("killed")
		}
		if a := must.Get(run.ReadAdoptions(all))(t); a.Decided == every {
			if failed.Add(1) < 3 {
				return errors.New("the disk is full")
			}
			safe.Store(1)
		}
		return nil
	})
	s.source.passing = func(offset int) {
		// Allow for three batches that are read ahead.
		if offset > every+200 && safe.Load() == 0 {
			t.Error("learning went on before it was saved that there was no solution")
			cancel()
		}
		if offset == every+300 {
			cancel()
		}
	}
	if err := s.Run(ctx); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatal(err)
	}
	s.store.Close()
	if _, p := newest(t, dir); p.Records != every {
		t.Errorf("the newest checkpoint is at %+v", p)
	}
	if got := finish(dir); !bytes.Equal(got, want) {
		t.Error("killed after the wait was cut short it ends in another state")
	}
}

// TestAdoptRefused checks that a failed adoption keeps the learned state and reports the reason. Failed reads are
// retried.
func TestAdoptRefused(t *testing.T) {
	const n = 900
	plain := t.TempDir()
	s := startOne(t, plain, n, 0)
	s.validating(0)
	s.Validator.Learner.Noise = "dropout:0.3"
	must.Do(t, s.Run(t.Context()))
	learned := s.Learner.Snapshot().Model()

	s = startOne(t, t.TempDir(), n, 0)
	reports := s.adopting(400, at0)
	s.opening(func(ctx context.Context, schema *event.Schema, from event.Offsets, open opener) (event.Source, error) {
		from[0].Next = 10 // as if the log had lost its beginning
		return open(ctx, schema, from)
	})
	must.Do(t, s.Run(t.Context()))
	if v := s.Status().Validation; v.NotAdopted != 2 || v.Adopted > 0 || (*reports)[0].Adopted || !strings.Contains((*reports)[0].NotAdopted, "390 of the 400 learned records") {
		t.Errorf("%+v, %+v", v, (*reports)[0])
	}
	if got := s.Learner.Snapshot().Model(); got.Intercept[0] != learned.Intercept[0] || got.Norm() != learned.Norm() {
		t.Error("it learned something else")
	}

	s = startOne(t, t.TempDir(), n, 0)
	s.adopting(800, at0)
	tries := 0
	s.opening(func(ctx context.Context, schema *event.Schema, from event.Offsets, open opener) (event.Source, error) {
		if tries++; tries == 1 {
			return nil, errors.New("no broker")
		}
		return open(ctx, schema, from)
	})
	must.Do(t, s.Run(t.Context()))
	if v := s.Status().Validation; v.Failed != 1 || v.Adopted != 1 {
		t.Errorf("%+v", v)
	}

	s = startOne(t, t.TempDir(), 90, 0) // only one class so far
	s.adopting(50, at0)
	must.Do(t, s.Run(t.Context()))
	if v := s.Status().Validation; v.NotAdopted != 1 {
		t.Errorf("%+v", v)
	}
	for name, edit := range map[string]func(*online.Config){
		"arow": func(c *online.Config) { c.Optimizer = "arow" }, "L1": func(c *online.Config) { c.Optimizer, c.L1 = "ftrl", 0.1 },
		"half_life": func(c *online.Config) { c.HalfLife = 100 }, "convex": func(c *online.Config) { c.Loss = "t-logistic:1.5" },
	} {
		c := online.DefaultConfig()
		edit(&c)
		if err := validate.CheckAdopt(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
