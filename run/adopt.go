package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"blankout"
	"blankout/batch"
	"blankout/internal/failpoint"
	"blankout/online"
	"blankout/validate"
)

// Under the policy adopt the exact solution over the first N records becomes
// the live state after N records, for N every multiple of ValidateConfig.Events,
// and the records since are learned again. The state after a number of records
// then still depends on those records alone, not on how long the solver took:
//
//   - The state after exactly N records, wherever a batch ends, is kept: the base.
//     It is saved, and solved for beside learning.
//   - What is learned meanwhile is provisional. Readers see it; it is never saved.
//     At 2N at the latest learning waits for the solver: none is skipped.
//   - Then the adopted state takes the place of the base, the Source goes back to
//     the base's offsets, and learning goes on from there.
//
// The program may die at any instant: the newest checkpoint holds the base, which
// says that its adoption is still to come, or the adopted state.
//
// Only a certified solution over exactly the records that were counted in is
// adopted, and only if it is better on the newest of them. If the log no longer holds them, or nothing can be solved, the
// provisional state stays, and the report and the log say why. If they cannot be
// read for another reason, it is tried again until they can.

// Seeker is a Source that can go back, which the policy adopt needs.
type Seeker interface {
	// Seek makes Next go on at the given places, and with what is not among them
	// at where it first began. No Next is under way.
	Seek(to blankout.Offsets) error
}

// adopting is the part of a loop that adopts exact solutions.
type adopting struct {
	every   uint64 // 0: the policy is another one
	due     uint64 // records, those before Run included, at which the next is
	base    *base  // of the one under way, nil if there is none
	solving context.CancelFunc
	adopted chan adoptionResult
	// again holds by partition the offset up to which records have been counted
	// into the Status, stored that up to which dead letters are: they are not a
	// second time after a return to a base.
	again, stored map[partition]int64
	// soon asks for a checkpoint at once.
	soon bool
}

// base is the state that a solution is computed for.
type base struct {
	at      uint64 // records, those before Run included
	records uint64 // since Run began
	state   *online.Snapshot
	offsets blankout.Offsets
	schema  *blankout.Schema
	status  Status        // with maps of its own
	saved   bool          // or being saved
	wait    time.Duration // after a failure
	retry   time.Time
}

type adoptionResult struct {
	*validate.Adoption
	err error
}

// errBack says that learning has gone back to a base: the batch at hand is void.
var errBack = errors.New("the state has gone back")

func (l *loop) startAdopting() error {
	v := l.Validator
	if v == nil || v.Config.Policy != "adopt" {
		return nil
	}
	if _, ok := l.Source.(Seeker); !ok || v.Open == nil {
		return errors.New("policy adopt: these events cannot be read again")
	}
	if err := validate.CheckAdopt(v.Learner); err != nil {
		return err
	}
	l.every, l.adopted, l.again, l.stored = v.Config.Events, make(chan adoptionResult, 1), map[partition]int64{}, map[partition]int64{}
	l.due = (l.before/l.every + 1) * l.every
	if l.before > 0 && l.before%l.every == 0 && l.Decided < l.before {
		l.due = l.before
		l.beginAdoption()
	}
	return nil
}

// untilAdoption returns to, or a number of examples before it after which an
// adoption is due.
func (l *loop) untilAdoption(from, to int) int {
	if l.every == 0 {
		return to
	}
	if left := l.due - (l.before + l.records); left < uint64(to-from) {
		to = from + int(left)
	}
	return to
}

// adoptIfDue begins an adoption if one is due. It first waits for one under way,
// and returns errBack if the state has gone back with that.
func (l *loop) adoptIfDue(ctx context.Context) error {
	if l.every == 0 || l.before+l.records != l.due {
		return nil
	}
	if err := l.awaitAdoption(ctx); err != nil {
		return err
	}
	l.beginAdoption()
	return nil
}

// beginAdoption makes the present state the base.
func (l *loop) beginAdoption() {
	if l.cancel != nil { // a validation that was asked for gives way, and comes afterwards
		l.cancel()
		l.validation.Store(true)
	}
	l.base = &base{
		at: l.due, records: l.records, state: l.freeze(), offsets: l.Offsets.Clone(),
		schema: l.Learner.Schema().View(), status: l.current, wait: time.Second,
	}
	l.base.status.RefusedBy = maps.Clone(l.current.RefusedBy)
	l.current.Validation.Adopting = l.due
	l.due += l.every
	l.moved, l.soon, l.unreported = true, true, true
	l.solve()
}

// solve has a goroutine find the exact solution for the base.
func (l *loop) solve() {
	ctx, cancel := context.WithCancel(context.Background())
	l.solving = cancel
	b, v := l.base, l.Validator
	go func() {
		var r adoptionResult
		if r.err = failpoint.Here("run.solve"); r.err == nil {
			r.Adoption, r.err = v.Adopt(ctx, b.state, b.offsets)
		}
		if r.err == nil && r.Report != nil {
			r.err = l.keep(r.Report)
		}
		l.adopted <- r // one place, one at a time: never blocks
	}()
}

// keep names a report and hands it on. That it cannot be kept is logged only: it
// decides nothing.
func (l *loop) keep(r *batch.Validation) error {
	// Named so that the order of names is that of time.
	r.ID = fmt.Sprintf("%s-%012d", r.Time.Format("20060102T150405.000Z"), r.Records)
	if l.Report == nil {
		return nil
	}
	if err := l.Report(r); err != nil {
		l.log.Error("a validation's report could not be kept", "id", r.ID, "err", err)
	}
	return nil
}

// finishAdoption takes a result over. It returns errBack if the state has gone
// back to the base and been replaced.
func (l *loop) finishAdoption(ctx context.Context, r adoptionResult) error {
	b, s := l.base, &l.current.Validation
	l.solving()
	l.solving, l.unreported = nil, true
	if r.err != nil {
		s.Failed++
		b.retry = time.Now().Add(b.wait)
		l.log.Error("an exact solution to adopt could not be computed; it is tried again", "records", b.at, "retry_in", b.wait, "err", r.err)
		b.wait = min(2*b.wait, time.Minute)
		return nil
	}
	if r.Learner != nil {
		if err := failpoint.Here("run.adopt"); err != nil {
			return err
		}
	}
	if r.Report != nil {
		l.exact.Store(r.Exact)
		s.Last = r.Report
		s.Done++
	}
	s.Adopting, l.Decided, l.base = 0, b.at, nil
	l.moved, l.soon = true, true
	if r.Learner == nil {
		s.NotAdopted++
		log := l.log.Error
		if r.Kept {
			log = l.log.Info
		}
		log("an exact solution was not adopted, the learned state stays", "records", b.at, "reason", r.Reason)
		return nil
	}
	provisional := l.records - b.records
	if err := l.backTo(ctx, b, r.Learner); err != nil {
		return err
	}
	s.Adopted++
	l.log.Info("adopted the exact solution", "id", r.Report.ID, "records", b.at, "relative_gap", r.Report.RelativeGap,
		"learned_again", provisional, "took", time.Duration((r.Report.Reading+r.Report.Seconds)*float64(time.Second)))
	if err := failpoint.Here("run.adopted"); err != nil {
		return err
	}
	return errBack
}

// backTo puts a Learner in the place of the base, and has the Source go back.
func (l *loop) backTo(ctx context.Context, b *base, learner *online.Learner) error {
	l.stopReading()
	for _, p := range l.Offsets {
		at := partition{p.Topic, p.Partition}
		l.again[at] = max(l.again[at], p.Next)
	}
	l.Learner, l.Offsets, l.records, l.current.Holdout = learner, b.offsets.Clone(), b.records, b.status.Holdout
	// The decoder's Schema stays as it is: it meets the same fields, classes and
	// names again, in the same order.
	l.Learner.SetSchema(b.schema)
	if err := l.Source.(Seeker).Seek(l.Offsets.Clone()); err != nil {
		return fmt.Errorf("going back to the records after those of an adopted solution: %w", err)
	}
	l.publish()
	l.report("")
	l.startReading(ctx)
	return nil
}

// awaitAdoption waits for an adoption under way, if there is one; then it
// returns errBack if the state has gone back with it. It returns the context's
// error when that ends first.
func (l *loop) awaitAdoption(ctx context.Context) error {
	if l.base == nil {
		return nil
	}
	tick := time.NewTicker(reportInterval)
	defer tick.Stop()
	for l.base != nil {
		if err := l.takeStock(ctx); err != nil { // the base may be still to be saved
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r := <-l.saved:
			l.finishSave(r)
		case r := <-l.validated:
			l.finishValidation(r)
		case r := <-l.adopted:
			if err := l.finishAdoption(ctx, r); err != nil {
				return err
			}
		case <-tick.C:
			l.report("waiting for the exact solution that is to be adopted")
		}
	}
	return nil
}

// solveIfDue tries again what failed.
func (l *loop) solveIfDue(now time.Time) {
	if b := l.base; b != nil && l.solving == nil && !now.Before(b.retry) {
		l.solve()
	}
}

// endAdoption gives an adoption under way up, as the run ends: the state goes
// back to the base, where the next run finds the adoption still to be made.
func (l *loop) endAdoption(deadline context.Context) error {
	b := l.base
	if b == nil {
		return nil
	}
	if l.solving != nil {
		l.solving()
		select {
		case <-l.adopted:
		case <-deadline.Done():
			l.log.Warn("the solver does not stop; it is left behind", "after", l.Config.ShutdownTimeout)
			l.moved = !b.saved // of the base alone
			return nil
		}
	}
	blocks, err := b.state.Blocks()
	if err != nil {
		return err
	}
	learner, err := online.Restore(l.Validator.Learner, blocks)
	if err != nil {
		return err
	}
	l.Learner, l.Offsets, l.records = learner, b.offsets, b.records
	l.Learner.SetSchema(b.schema)
	s := &l.current
	s.Learned, s.Unlabelled, s.Refused, s.RefusedBy = b.status.Learned, b.status.Unlabelled, b.status.Refused, b.status.RefusedBy
	s.HeldOut, s.Holdout, s.Validation.Adopting = b.status.HeldOut, b.status.Holdout, 0
	l.base, l.moved = nil, !b.saved
	l.log.Info("stopped before an exact solution could be adopted; it will be after the next start", "records", b.at)
	return nil
}

// blockAdoption is the block of a checkpoint that says how far adoptions have
// been decided.
const blockAdoption = "adoption" // JSON of adoptionState

type adoptionState struct {
	Decided uint64 `json:"decided"` // records at the latest one
}

// ReadDecided returns Runner.Decided of a checkpoint, 0 if it has none.
func ReadDecided(blocks []blankout.Block) (uint64, error) {
	data, err := blankout.FindBlock(blocks, blockAdoption)
	if err != nil {
		return 0, nil
	}
	var s adoptionState
	if err := json.Unmarshal(data, &s); err != nil {
		return 0, fmt.Errorf("block %s: %w", blockAdoption, err)
	}
	return s.Decided, nil
}
