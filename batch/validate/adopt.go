package validate

// This file computes exact solutions for the policy adopt and puts them into the learner.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online"
)

// CheckAdopt returns nil if a Learner of this configuration can adopt exact solutions, otherwise the reason why it
// cannot.
func CheckAdopt(c online.Config) error {
	l, err := loss.Parse(c.Loss)
	if err != nil {
		return nil // the learner's own check reports this
	}
	switch {
	case c.Optimizer == "arow":
		return event.KeyErrorf("policy", "policy adopt: optimizer arow has no exact solution")
	case c.L1 > 0:
		return event.KeyErrorf("policy", "policy adopt: the exact solution has no L1 penalty; set learner.l1 = 0")
	case c.HalfLife > 0 || c.HalfLifeTime > 0:
		return event.KeyErrorf("policy", "policy adopt: the exact solution does not forget; set learner.half_life and half_life_time to 0")
	case !l.Facts().Convex:
		return event.KeyErrorf("policy", "policy adopt: loss %q is not convex, so no solution of it is certified", c.Loss)
	}
	return nil
}

// Adoption is the result of Validator.Adopt.
type Adoption struct {
	// Learner is a Learner at the requested position with the exact solution as both its iterate and its average.
	// Learner is nil if nothing is adopted; Report.NotAdopted is the reason.
	Learner *online.Learner
	Report  *batch.Validation // nil if no comparison was possible
	Exact   *model.Linear     // exact solution of the published noise level
	Reason  string            // same as Report.NotAdopted
	Kept    bool              // true if nothing is wrong but the live weights are equally good
}

// Adopt solves the exact problem of each noise level of the Learner s, which is frozen at the position at of its
// stream. It builds a Learner from the solutions. It returns an error if reading the events again fails or ctx ends.
func (v *Validator) Adopt(ctx context.Context, s *online.Snapshot, at event.Offsets) (*Adoption, error) {
	pace := &throttle{ctx: ctx, fraction: v.Config.AdoptCPU, since: time.Now()}
	r, exact, evidence, err := v.validate(ctx, RequestOf(s, at), pace)
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
		return refuse("only %d of the %d learned records could be read again", r.Read, r.Records)
	}
	// If the stream drifts, the best model over all events may predict future events worse.
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
	l, err := online.Restore(v.Learner, blocks)
	if err != nil {
		return nil, err
	}
	models, published := s.Levels()
	solutions := make([]*model.Linear, len(models))
	for i, live := range models {
		solution := exact
		if i != published {
			c := v.problem(&live.Head)
			c.Unit = s.Unit()
			c.Progress, c.Pause = v.Progress, pace.rest
			if solution, err = evidence.Exact(ctx, live, c); ctx.Err() != nil {
				return nil, ctx.Err()
			} else if err != nil {
				return refuse("noise %s: %v", live.Noise, err)
			}
		}
		if !solution.Converged || !(solution.Gap < math.Inf(1)) {
			return refuse("the solution for noise %s is not certified to the tolerance %g", live.Noise, v.Config.Tol)
		}
		solutions[i] = solution.Linear
	}
	l.Adopt(solutions, evidence.EachLearned, pace.rest)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a.Learner, r.Adopted = l, true
	r.Pause = pace.waited.Seconds()
	return a, nil
}
