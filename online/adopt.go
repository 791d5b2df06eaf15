package online

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"blankout"
	"blankout/batch"
	"blankout/internal/failpoint"
	"blankout/loss"
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

// CheckAdopt reports why a Learner of this configuration cannot adopt exact
// solutions, nil if it can.
func CheckAdopt(c Config) error {
	l, err := loss.Parse(c.Loss)
	if err != nil {
		return nil // the learner's own check says so
	}
	switch {
	case c.Rule == "arow":
		return blankout.KeyErrorf("policy", "policy adopt: rule arow has a loss of its own, of which there is no exact solution")
	case c.L1 > 0:
		return blankout.KeyErrorf("policy", "policy adopt: the exact solution has no L1 penalty; set learner.l1 = 0")
	case c.HalfLife > 0 || c.HalfLifeTime > 0:
		return blankout.KeyErrorf("policy", "policy adopt: the exact solution forgets nothing; set learner.half_life and half_life_time to 0")
	case !l.Facts().Convex:
		return blankout.KeyErrorf("policy", "policy adopt: loss %q is not convex, so no solution of it is certified", c.Loss)
	}
	return nil
}

// Adoption is the outcome of Validator.Adopt.
type Adoption struct {
	// Learner is at the place that was asked for, with the exact solution as its
	// iterate and its average. Nil if it cannot be: Report.NotAdopted says why.
	Learner *Learner
	Report  *batch.Validation // nil if there is nothing to compare with
	Exact   *blankout.Linear  // of the level that is published
	Reason  string            // as Report.NotAdopted
	Kept    bool              // the live weights are as good: nothing went wrong
}

// readError is one of reading the events again.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

// Adopt solves the exact problem of a Learner frozen at the given place of its
// stream, that of each noise level, and makes a Learner of the solutions. An
// error is of reading the events again, or of ctx.
func (v *Validator) Adopt(ctx context.Context, s *Snapshot, at blankout.Offsets) (*Adoption, error) {
	pace := &throttle{ctx: ctx, share: v.Config.CPU, since: time.Now()}
	r, exact, evidence, err := v.validate(ctx, Subject{Live: s.Model(), At: at}, pace)
	switch {
	case err != nil && (ctx.Err() != nil || errors.As(err, new(readError))):
		return nil, err
	case err != nil:
		return &Adoption{Reason: err.Error()}, nil
	}
	a := &Adoption{Report: r, Exact: exact.Linear}
	refuse := func(format string, args ...any) (*Adoption, error) {
		a.Reason = fmt.Sprintf(format, args...)
		r.NotAdopted = a.Reason
		return a, nil
	}
	if !r.Verified {
		return refuse("%d of the %d records learned could be read again", r.Read, r.Records)
	}
	// What is best over the whole stream may be worse for what comes, if it drifts.
	switch n := r.Newest; {
	case math.IsInf(v.Config.AdoptMargin, -1):
	case n == nil:
		return refuse("there are no events to compare it on")
	case !(n.Gain > v.Config.AdoptMargin*n.StandardError):
		a.Kept = true
		return refuse("it is not better by more than %g standard errors: %s", v.Config.AdoptMargin, n)
	}
	blocks, err := s.Blocks()
	if err != nil {
		return nil, err
	}
	l, err := Restore(v.Learner, blocks)
	if err != nil {
		return nil, err
	}
	solutions := make([]*blankout.Linear, len(l.levels))
	for i := range l.levels {
		solution := exact
		if i != l.chosen {
			live := l.modelOf(i)
			c := v.problem(&live.Head)
			c.Progress, c.Pause = v.Progress, pace.rest
			if solution, err = evidence.Exact(ctx, live, c); ctx.Err() != nil {
				return nil, ctx.Err()
			} else if err != nil {
				return refuse("noise %s: %v", l.levels[i].noise, err)
			}
		}
		if !solution.Converged || math.IsNaN(solution.Gap) {
			return refuse("the solution for noise %s is not certified to the tolerance %g", l.levels[i].noise, v.Config.Tol)
		}
		solutions[i] = solution.Linear
	}
	l.adopt(solutions, evidence, pace.rest)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a.Learner, r.Adopted = l, true
	r.Pause = pace.waited.Seconds()
	return a, nil
}

// adopt makes exact solutions, one for each level, the iterate and the average,
// and builds the metrics anew: what each rule would have gathered from the same
// events had it stood at the solution all along. That is the rule's own step with
// a rate of zero. Nothing is left of what was adapted to other weights: the
// learning rate's factor, the choice of what is published, the window of a refresh.
//
// In the average the solution counts as an iterate for each step so far: of these
// the average over the stream reaches back over a share 1/(1+p) (average.go), and
// so it goes on as if it had seen 1+p times as many.
func (l *Learner) adopt(exact []*blankout.Linear, events *batch.Evidence, rest func()) {
	place := func(row []float64, weight func(v, k int) float64) {
		clear(row[firstPart:])
		w := l.weights(row)
		for j := range w {
			w[j] = weight(j/l.k, j%l.k)
		}
		l.rule.start(row)
		if l.refresh.sliding() {
			copy(l.layout.centre(row), w)
		}
	}
	for slot := range l.table.Len() {
		column, _ := l.table.Column(slot)
		place(l.table.Touch(column), func(v, k int) float64 { return exact[v].Weight(column, k) })
	}
	if l.intercept {
		was := append([]float64(nil), l.weights(l.bias)...)
		place(l.bias, func(v, k int) float64 {
			if k >= l.active {
				return was[v*l.k+k]
			}
			return exact[v].Intercept[k]
		})
	}
	l.growth = 1
	l.refresh.window.drop(len(l.refresh.window.ends))
	l.taken = uint64((1 + max(l.power, 0)) * float64(l.steps))
	for v := range l.levels {
		lv := &l.levels[v]
		lv.blend, lv.raise = 1, 0
		lv.rejudge()
		clear(lv.sumsq)
	}
	if l.noiseKind == constant {
		for slot := range l.table.Len() {
			_, row := l.table.Column(slot)
			for j, w := range l.weights(row) {
				l.levels[j/l.k].sumsq[j%l.k] += w * w
			}
		}
	}
	count := 0
	events.EachLearned(func(label int, importance float64, x blankout.Vec) {
		if count++; count%256 == 0 {
			rest()
		}
		l.remeasure(label, importance, x)
	})
	// A rule that keeps its weights in another form makes that fit.
	l.forget(1)
}

// remeasure adds an event, standardised, to the metrics and moves no weight.
func (l *Learner) remeasure(label int, weight float64, x blankout.Vec) {
	now := &l.now
	s := &now.step
	clear(s.f)
	clear(now.lag)
	clear(now.q)
	l.touch(x.Index)
	for i, row := range s.rows {
		l.put(i, row, x.Value[i])
	}
	if l.intercept {
		ridge := 0.0
		if l.config.Intercept == "penalised" {
			ridge = l.ridgeOf(float64(l.steps))
		}
		now.step.addIntercepts(l.bias, ridge)
	}
	l.sum(0)
	if label == blankout.Unlabelled {
		l.unlabelled(weight)
		return
	}
	repeats := min(math.Ceil(weight), maxRepeats) // as Learn
	for v := range l.levels {
		lv := &l.levels[v]
		for k := range l.active {
			j := v*l.k + k
			s.y[j], s.variance[j] = target(label, k, l.k), l.variance(lv, j, k)
			_, _, dv := l.loss.At(s.y[j], s.f[j], max(s.variance[j], refreshVariance))
			s.h[j] = 2 * weight * dv
		}
	}
	if l.refresh.size > 0 {
		s.growth = l.growth
		l.layout.gather(s)
	}
	for range int(repeats) {
		part := weight / repeats
		for v := range l.levels {
			lv := &l.levels[v]
			for k := range l.active {
				j := v*l.k + k
				_, df, dv := l.loss.At(s.y[j], s.f[j], s.variance[j])
				s.df[j], s.h[j], s.minusEta[j] = part*df, 2*part*dv, 0
				if l.config.Marginalised {
					s.shrink[j] = s.h[j] * lv.strength
				}
			}
		}
		l.update(part)
	}
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
	state   *Snapshot
	offsets blankout.Offsets
	decoded blankout.Batch // how much of the Schema there was
	status  Status         // with maps of its own
	saved   bool           // or being saved
	wait    time.Duration  // after a failure
	retry   time.Time
}

type adoptionResult struct {
	*Adoption
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
	if err := CheckAdopt(v.Learner); err != nil {
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
		decoded: l.decoded, status: l.current, wait: time.Second,
	}
	if l.current.Batches == 0 && l.records == 0 { // the decoder has not begun
		l.base.decoded = blankout.Batch{Fields: len(l.Schema.Fields), Classes: l.Schema.NamedClasses(), Names: l.Schema.Names.Len()}
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
		if r.err = failpoint.Here("run.solve"); r.err != nil {
			r.err = readError{r.err}
		} else {
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
func (l *loop) backTo(ctx context.Context, b *base, learner *Learner) error {
	l.stopReading()
	for _, p := range l.Offsets {
		at := partition{p.Topic, p.Partition}
		l.again[at] = max(l.again[at], p.Next)
	}
	l.Learner, l.Offsets, l.records, l.current.Holdout = learner, b.offsets.Clone(), b.records, b.status.Holdout
	// The decoder's Schema stays as it is: it meets the same fields, classes and
	// names again, in the same order.
	l.decoded = b.decoded
	l.Learner.SetSchema(l.Schema.At(&l.decoded))
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
	learner, err := Restore(l.Validator.Learner, blocks)
	if err != nil {
		return err
	}
	l.Learner, l.Offsets, l.records, l.decoded = learner, b.offsets, b.records, b.decoded
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
