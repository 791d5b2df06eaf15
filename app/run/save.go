package run

// This file saves checkpoints while learning continues.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/failpoint"
	"blankout/internal/seglog"
	"blankout/online"
	"blankout/online/health"
	"blankout/stream/labels"
)

// saver writes checkpoints.
type saver struct {
	job
	log       *slog.Logger
	runner    *Runner
	promoting []promotion // promotions that are not in a checkpoint yet

	status    SaveStatus
	moved     bool   // the state has changed since the latest save
	next      uint64 // number of records since Run started at which the next checkpoint is due
	last      time.Time
	err       error  // error of the latest save
	lastError string // consequence of the error for the run, "" after a success
	final     error  // a FinalError, after which nothing is saved
	// urgent requests a checkpoint now or, after a failure, at the time retry.
	urgent bool
	asked  bool // the current save was requested as urgent
	wait   time.Duration
	retry  time.Time
	// kept has the waiting events of each checkpoint of this run that may still exist, at most Config.LabelKeep of them.
	kept []*labels.Frozen
}

func (s *saver) due(records uint64, now time.Time) bool {
	switch {
	case s.runner.Save == nil || !s.moved || s.running():
		return false
	case s.urgent && !now.Before(s.retry):
		return true
	}
	return s.runner.Config.SaveEvents > 0 && records >= s.next || s.runner.Config.SaveInterval > 0 && now.Sub(s.last) >= s.runner.Config.SaveInterval
}

// frozen is the state at one moment, for a checkpoint.
type frozen struct {
	*online.Snapshot
	offsets     event.Offsets
	fingerprint online.Fingerprint // fingerprint of the leader, which a promotion changes
	challengers *frozenChallengers // nil for a single Learner
}

// saveResult is the result of the goroutine that writes a checkpoint.
type saveResult struct {
	name   string
	size   int64
	took   time.Duration
	err    error // error of the save
	commit error
}

// beginSave copies the state and starts a goroutine that encodes and writes the copy. Learning only waits for the copy.
func (l *loop) beginSave() {
	s, began := &l.saver, time.Now()
	if s.runner.Save == nil {
		return
	}
	state := &frozen{l.Learner.Snapshot(), l.Offsets.Clone(), l.Fingerprint, l.Challengers.freeze()} // copies only what has changed
	promoting := l.saver.promoting
	l.saver.promoting = nil
	var more []event.Block
	if sample := l.intake.kept.Encode(); sample != nil {
		more = append(more, event.Block{Name: validate.BlockReservoir, Data: sample})
	}
	var waiting *labels.Frozen
	if l.Labels != nil {
		waiting = l.Labels.Freeze()
	}
	pause := time.Since(began)
	s.moved, s.last, s.next = false, began, l.records+s.runner.Config.SaveEvents
	s.asked, s.urgent = s.urgent, false // later changes are not urgent
	s.status.Pause = pause
	begin(&s.job, func(context.Context) saveResult { return s.write(state, more, waiting) }, func(r saveResult) {
		l.unreported = true
		if r.err == nil {
			answerPromotions(promoting, nil)
		} else {
			l.saver.promoting = append(promoting, l.saver.promoting...)
		}
		if s.finish(r); s.final != nil {
			l.end()
		}
	})
}

// write writes a checkpoint of a frozen state, and then commits its offsets to the broker. It stores the waiting events
// safely first. Finally it frees waiting events that no checkpoint needs.
func (s *saver) write(state *frozen, more []event.Block, waiting *labels.Frozen) (r saveResult) {
	began := time.Now()
	var err error
	if waiting != nil {
		var block event.Block
		block, err = waiting.Block()
		more = append(more, block)
		if broken := (*seglog.BrokenError)(nil); errors.As(err, &broken) {
			err = FinalError{err}
		}
	}
	var blocks iter.Seq[event.Block]
	if err == nil {
		blocks, err = stateBlocks(state, more)
	}
	if err == nil {
		r.name, r.size, err = s.runner.Save(blocks)
	}
	if err == nil && waiting != nil {
		s.release(waiting)
	}
	r.err, r.took = err, time.Since(began)
	if err == nil && s.runner.Commit != nil {
		// The commit also runs while the program stops, so it may take at most half of the time for stopping.
		ctx, cancel := context.WithTimeout(context.Background(), min(5*time.Second, s.runner.Config.ShutdownTimeout/2))
		defer cancel()
		if r.commit = failpoint.Here("run.commit"); r.commit == nil {
			r.commit = s.runner.Commit(ctx, state.offsets)
		}
	}
	return r
}

// release frees the waiting events that no kept checkpoint needs, after a new checkpoint was written. If release fails,
// the next save retries it.
func (s *saver) release(saved *labels.Frozen) {
	s.kept = append(s.kept, saved)
	keep := max(s.runner.Config.LabelKeep, 1)
	s.kept = s.kept[max(len(s.kept)-keep, 0):]
	if len(s.kept) < keep {
		return
	}
	if err := s.kept[0].LetGo(); err != nil {
		s.log.Warn("events that no longer wait for labels still take up space", "err", err)
	}
}

// finish processes the result of a save.
func (s *saver) finish(r saveResult) {
	st := &s.status
	st.Took, s.err = r.took, r.err
	if r.err != nil {
		// Learning continues: the last checkpoint is valid, and the next due save tries again.
		st.Failed++
		s.moved, s.urgent = true, s.urgent || s.asked
		s.wait = max(100*time.Millisecond, min(2*s.wait, 10*time.Second))
		s.retry = time.Now().Add(s.wait)
		s.lastError = fmt.Sprintf("the last checkpoint could not be saved: %v", r.err)
		s.log.Error("a checkpoint could not be saved", "err", r.err)
		if final := (FinalError{}); errors.As(r.err, &final) {
			s.final = r.err
		}
		return
	}
	s.lastError, s.wait, s.urgent = "", 0, s.urgent && s.moved
	st.Saved++
	st.Name, st.Bytes, st.At = r.name, r.size, time.Now()
	s.log.Info("checkpoint saved", "name", r.name, "bytes", r.size, "took", r.took, "pause", st.Pause)
	if r.commit != nil {
		st.CommitFailures++
		s.log.Warn("offsets are saved but not committed to the broker; only its lag displays are affected", "err", r.commit)
	}
}

// saveAtEnd waits for the current save, and then saves later changes.
func (l *loop) saveAtEnd(deadline context.Context) error {
	var err error
	for tried := false; ; {
		switch {
		case l.saver.running():
			if err := l.endSaving(deadline); err != nil {
				return err
			}
			err = l.saver.err
		case l.saver.final != nil:
			return l.saver.final
		case l.Save == nil || !l.saver.moved || l.intake.unsafe:
			return nil
		case tried:
			return fmt.Errorf("the last checkpoint could not be saved, a restart continues from the one before: %w", err)
		default:
			tried = true
			l.beginSave()
		}
	}
}

// endSaving waits for the current save.
func (l *loop) endSaving(deadline context.Context) error {
	for l.saver.running() {
		select {
		case take := <-l.finished:
			take()
		case <-deadline.Done():
			return fmt.Errorf("the last checkpoint was not written within %v; a restart continues from the one before", l.Config.ShutdownTimeout)
		}
	}
	return nil
}

// The checkpoint blocks that Run adds to the Learner's blocks.
const (
	blockOffsets     = "offsets"     // JSON of event.Offsets
	blockFingerprint = "fingerprint" // JSON of Runner.Fingerprint
)

// stateBlocks yields the blocks of a checkpoint. Equal states have equal blocks.
func stateBlocks(s *frozen, more []event.Block) (iter.Seq[event.Block], error) {
	where, err := event.JSONBlock(blockOffsets, s.offsets)
	if err != nil {
		return nil, err
	}
	fingerprint, err := event.JSONBlock(blockFingerprint, s.fingerprint) // keys are sorted
	if err != nil {
		return nil, err
	}
	state, err := s.EachBlock()
	if err != nil {
		return nil, err
	}
	others, err := s.challengers.blocks()
	if err != nil {
		return nil, err
	}
	if warnings := s.Warnings(s.fingerprint); len(warnings) > 0 {
		b, err := event.JSONBlock(health.BlockWarnings, warnings)
		if err != nil {
			return nil, err
		}
		more = append(more, b)
	}
	return event.JoinBlocks(slices.Values(append([]event.Block{where, fingerprint}, more...)), state, others), nil
}

// Resume returns the State in the blocks of a checkpoint. It returns an *online.MismatchError if c or f would change
// the meaning of the weights. f is the Runner's Fingerprint.
func Resume(c online.Config, f online.Fingerprint, blocks []event.Block) (s State, err error) {
	if s.Learner, err = ResumeLearner(c, f, blocks); err != nil {
		return s, err
	}
	s.Reservoir = validate.ReadReservoir(blocks)
	return s, readJSON(blocks, blockOffsets, &s.Offsets)
}

// ResumeLearner returns the Learner in the blocks of a checkpoint, or in the blocks of a learner (event.BlocksUnder
// its ChallengerPrefix).
func ResumeLearner(c online.Config, f online.Fingerprint, blocks []event.Block) (*online.Learner, error) {
	was, err := ReadFingerprint(blocks)
	if err != nil {
		return nil, err
	}
	l, err := online.Restore(c, blocks)
	mismatch := (*online.MismatchError)(nil)
	if err != nil && !errors.As(err, &mismatch) {
		return nil, err
	}
	if diff := f.Diff(was); len(diff) > 0 {
		if mismatch != nil {
			diff = append(diff, mismatch.Differences...)
		}
		mismatch = &online.MismatchError{Differences: diff}
	}
	if mismatch != nil {
		if s, err := online.ReadSummary(blocks); err == nil {
			mismatch.Empty = s.Error == nil && s.NumbersSummary == nil
		}
		return nil, mismatch
	}
	return l, nil
}

// ReadFingerprint returns the Runner's Fingerprint in a checkpoint.
func ReadFingerprint(blocks []event.Block) (f online.Fingerprint, err error) {
	return f, readJSON(blocks, blockFingerprint, &f)
}

func readJSON(blocks []event.Block, name string, to any) error {
	data, err := event.FindBlock(blocks, name)
	if err != nil {
		return fmt.Errorf("%w: this is not a checkpoint", err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("block %s: %w", name, err)
	}
	return nil
}
