package run

// This file replaces the learner's state by exact solutions.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/failpoint"
)

// If validate.on_solution is "adopt", the exact solution over the first N records replaces the learned state after N
// records. This happens for every multiple N of validate.Config.Events. Learning waits for the solution. So the state
// after a number of records depends only on those records, not on the speed of the solver:
//
//  1. The state is frozen and saved after exactly N records, wherever a batch ends, and
//     the solver runs on a goroutine. In the meantime models are served and checkpoints
//     are written.
//  2. A Learner with the solution replaces the current Learner when the solution is ready.
//     The learned state stays if the solution is not certified, is not over exactly the
//     counted records, or is not better on the newest records. The learned state also stays if there is
//     no solution after validate.Config.AdoptWait.
//  3. The decision is saved, and learning continues after that.
//
// A program that dies before step 3 restarts with the state of step 1 and repeats everything. A program that dies later
// continues after the decision. So a restart reproduces every decision, even a timeout after AdoptWait.

// Adoptions records the decisions about exact solutions.
type Adoptions struct {
	// Decided is the number of records at the latest decision.
	Decided uint64 `json:"decided"`
	// TimedOut lists the decisions, by number of records, for which no solution was ready in time.
	TimedOut []uint64 `json:"timed_out,omitempty"`
}

// blockAdoption is the checkpoint block with the Adoptions, if exact solutions are adopted.
const blockAdoption = "adoption" // encoded as JSON

// ReadAdoptions returns the Adoptions of a checkpoint.
func ReadAdoptions(blocks []event.Block) (a Adoptions, err error) {
	if _, err := event.FindBlock(blocks, blockAdoption); err != nil {
		return a, nil
	}
	return a, readJSON(blocks, blockAdoption, &a)
}

func (a *Adoptions) block() event.Block {
	data, err := json.Marshal(a)
	if err != nil {
		panic(err) // numbers always encode
	}
	return event.Block{Name: blockAdoption, Data: data}
}

// adopter is the part of a loop that replaces the learned state by exact solutions.
type adopter struct {
	job
	every     uint64        // number of records between adoptions; 0 if solutions are not adopted
	most      time.Duration // longest time that learning waits; 0 for no limit
	lastError string        // why the latest attempt to solve failed, also during the next attempt; "" before a failure and after the decision
}

func (l *loop) startAdopting() error {
	v := l.Validator
	if v == nil || v.Config.Policy != "adopt" {
		return nil
	}
	if v.Open == nil {
		return errors.New("policy adopt: these events cannot be read again")
	}
	l.adopter.every, l.adopter.most = uint64(v.Config.Events), v.Config.AdoptWait
	return validate.CheckAdopt(v.Learner)
}

// untilAdoption returns n, or a smaller number of records if an adoption is due earlier.
func (l *loop) untilAdoption(n int) int {
	if every := l.adopter.every; every > 0 {
		return int(min(uint64(n), every-(l.before+l.records)%every))
	}
	return n
}

// adoptIfDue does nothing unless an adoption is due. Otherwise it waits until the adoption is decided and the decision
// is saved. It returns an error if ctx ends before that.
func (l *loop) adoptIfDue(ctx context.Context) error {
	at := l.before + l.records
	if l.adopter.every == 0 || at == 0 || at%l.adopter.every > 0 || l.Adoptions.Decided >= at {
		return nil
	}
	if l.validator.running() { // cancel the validation; it is repeated later
		l.validator.cancel()
		l.validation.Store(true)
	}
	s := &l.current.Validation
	s.Adopting, s.WaitingSince = at, time.Now()
	l.saver.urgent, l.unreported = true, true
	defer func() {
		s.Waited += time.Since(s.WaitingSince)
		s.Adopting, s.WaitingSince, l.adopter.lastError, l.unreported = 0, time.Time{}, "", true
	}()
	solution, err := l.solve(ctx)
	if err != nil {
		return err
	}
	if err := l.decide(at, solution); err != nil {
		return err
	}
	return l.runJobsUntil(ctx, l.saver.safe)
}

type solved struct {
	*validate.Adoption
	err error
}

// solve waits for the exact solution of the current state. It retries after errors, such as errors while reading the
// events again. It returns nil if there is no solution in time, and an error if ctx ends.
func (l *loop) solve(ctx context.Context) (*validate.Adoption, error) {
	limited, cancel := context.WithCancel(ctx)
	if l.adopter.most > 0 {
		limited, cancel = context.WithTimeout(ctx, l.adopter.most)
	}
	defer cancel()
	state := l.freeze()
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		var result *solved
		l.beginSolving(state, func(r solved) { result = &r })
		err := l.runJobsUntil(limited, func() bool { return result != nil })
		switch {
		case err != nil:
		case result.err == nil:
			return result.Adoption, nil
		default:
			l.current.Validation.Failed++
			l.adopter.lastError = fmt.Sprintf("the exact solution over %d records, which learning waits for, could not be computed: %v", state.records, result.err)
			l.log.Error("an exact solution to adopt could not be computed; trying again", "records", state.records, "retry_in", wait, "err", result.err)
			retry := time.Now().Add(wait)
			err = l.runJobsUntil(limited, func() bool { return !time.Now().Before(retry) })
		}
		if err == nil {
			continue
		}
		if l.adopter.running() {
			l.adopter.cancel()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err() // endSolving waits for the solver's end
		}
		err = l.runJobsUntil(ctx, func() bool { return !l.adopter.running() })
		if err == nil && result != nil && result.err == nil {
			return result.Adoption, nil // the solution was ready in time, and its report says that it is adopted
		}
		return nil, err
	}
}

// beginSolving starts a goroutine that computes the exact solution.
func (l *loop) beginSolving(state *frozen, take func(solved)) {
	validator, keep, log := l.Validator, l.Runner.Report, l.log
	begin(&l.adopter.job, func(ctx context.Context) (r solved) {
		if r.err = failpoint.Here("run.solve"); r.err == nil {
			r.Adoption, r.err = validator.Adopt(ctx, state.Snapshot, state.offsets)
		}
		if r.err == nil && r.Report != nil {
			validate.Keep(r.Report, keep, log)
		}
		return r
	}, take)
}

// endSolving waits for a solver that was canceled.
func (l *loop) endSolving(deadline context.Context) {
	for l.adopter.running() {
		select {
		case take := <-l.finished:
			take()
		case <-deadline.Done():
			l.log.Warn("the solver does not stop; continuing without it", "after", l.Config.ShutdownTimeout)
			return
		}
	}
}

// decide adopts a solution, or keeps the learned state if a is nil because there was no solution in time.
func (l *loop) decide(at uint64, a *validate.Adoption) error {
	s := &l.current.Validation
	if a != nil && a.Learner != nil {
		if err := failpoint.Here("run.adopt"); err != nil {
			return err
		}
		a.Learner.SetSchema(l.Learner.Schema())
		l.learnWith(a.Learner)
	}
	switch {
	case a == nil:
		s.TimedOut++
		l.Adoptions.TimedOut = append(l.Adoptions.TimedOut, at)
		l.log.Error("no exact solution within adopt_wait; the learned state remains", "records", at, "adopt_wait", l.adopter.most)
	case a.Learner != nil:
		s.Adopted++
		l.log.Info("adopted the exact solution", "id", a.Report.ID, "records", at, "relative_gap", a.Report.RelativeGap,
			"waited", time.Since(s.WaitingSince).Round(time.Millisecond))
	default:
		s.NotAdopted++
		log := l.log.Error
		if a.Kept {
			log = l.log.Info
		}
		log("an exact solution was not adopted; the learned state remains", "records", at, "reason", a.Reason)
	}
	if a != nil && a.Report != nil {
		l.validator.exact = a.Exact
		s.Last = a.Report
		s.Done++
	}
	l.Adoptions.Decided, l.adopter.lastError = at, ""
	l.saver.moved, l.saver.urgent = true, true
	l.publish()
	return failpoint.Here("run.adopted")
}
