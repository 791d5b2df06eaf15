package run

// This file promotes a learner to the leader.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/failpoint"
	"blankout/internal/measure"
	"blankout/online"
)

// UnknownChallengerError reports that a Runner has no learner with the requested name.
type UnknownChallengerError struct {
	Name  string
	Names []string // names of the existing learners
}

func (e *UnknownChallengerError) Error() string {
	return fmt.Sprintf("no learner %.40q: want one of %q", e.Name, e.Names)
}

// promotion is a request to promote a learner. done receives nil once a checkpoint has the change.
type promotion struct {
	name string
	done chan<- error
}

// promotions holds the requests that are not processed yet.
type promotions struct {
	mu    sync.Mutex
	asked []promotion
	ended error // reason why no more requests are accepted
}

func (p *promotions) add(x promotion) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		p.asked = append(p.asked, x)
	}
	return p.ended
}

func (p *promotions) take(ended error) []promotion {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked, p.ended = nil, ended
	return asked
}

// Promote promotes the learner with the given name, between two batches. It returns nil once a checkpoint has the
// change. Any goroutine may call it while Run learns. It returns an *UnknownChallengerError if the name is unknown.
func (r *Runner) Promote(ctx context.Context, name string) error {
	if r.Challengers == nil {
		return errors.New("there is only one learner: add others with [[challenger]]")
	}
	if names := r.Challengers.names(); !slices.Contains(names, name) {
		return &UnknownChallengerError{name, names}
	}
	done := make(chan error, 1)
	if err := r.promotions.add(promotion{name, done}); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// promoteAsked processes the requests of Promote.
func (l *loop) promoteAsked() {
	if l.Challengers == nil {
		return
	}
	asked := l.promotions.take(nil)
	for _, p := range asked {
		l.promote(slices.Index(l.Challengers.names(), p.name), "asked for")
	}
	if l.saver.promoting = append(l.saver.promoting, asked...); len(asked) > 0 {
		l.saver.moved, l.saver.urgent = true, true
		if l.Save == nil {
			answerPromotions(l.saver.promoting, nil)
			l.saver.promoting = nil
		}
	}
}

func answerPromotions(list []promotion, err error) {
	for _, p := range list {
		p.done <- err
	}
}

// untilWindow returns n. If a learner can be promoted automatically and a comparison window ends earlier, it returns
// the number of records until that end.
func (l *loop) untilWindow(n int) int {
	if l.Challengers == nil || !slices.ContainsFunc(l.Challengers.All, func(x *Challenger) bool { return x.auto() }) {
		return n
	}
	for _, x := range l.Challengers.All {
		n = int(min(uint64(n), x.Window-(l.before+l.records)%x.Window))
	}
	return n
}

// promoteBetter promotes the best learner with automatic promotion that has been better than the leader in two windows.
// The second window has just ended.
func (l *loop) promoteBetter() {
	best := -1
	for i, x := range l.Challengers.others() {
		if x.auto() && x.Paired.Better(x.Window) && (best < 0 || x.Paired.Window.Mean < l.Challengers.All[best].Paired.Window.Mean) {
			best = i
		}
	}
	if best >= 0 {
		l.promote(best, "better in two windows")
	}
}

// promote promotes a learner. It changes no weight, and restarts the comparisons.
func (l *loop) promote(i int, why string) {
	c, records := l.Challengers, l.before+l.records
	if i == c.Leader {
		return
	}
	was, leader := c.leader(), c.All[i]
	about := []any{"learner", leader.Name, "before", was.Name, "why", why, "records", records}
	if d := leader.Paired.Total; d.Blocks > 1 {
		about = append(about, "difference", d.Mean, "standard_error", d.StandardError())
	}
	l.log.Warn("another learner is now the leader", about...)
	c.Leader = i
	for _, x := range c.All {
		x.Paired = measure.NewPaired(records)
	}
	l.Learner, l.Fingerprint = leader.Learner, leader.Fingerprint
	l.first, l.warned = leader.Learner.Alarms(math.MaxUint64), map[string]warned{}
	l.logged = l.first
	l.recent.clear()
	l.takeValidator(leader)
	l.saver.moved, l.unreported = true, true
	l.publish()
	_ = failpoint.Here("run.promoted")
}

// takeValidator makes the leader's validator the current validator. It discards kept events, because the columns may
// differ.
func (l *loop) takeValidator(leader *Challenger) {
	if leader.Validator == nil || l.Validator == nil {
		return
	}
	if l.validator.running() {
		l.validator.cancel()
	}
	l.validator.waiting, l.validator.exact = nil, nil
	l.Validator = leader.Validator
	if l.intake.kept != nil {
		l.intake.kept, _ = validate.NewReservoir(l.Validator.Config.Reservoir, nil) // it can only fail while decoding
	}
	if l.intake.sample != nil {
		l.intake.sample = validate.NewSample(validate.SampleBytes)
	}
}

// learnPart learns the first n events of a part with all learners, or with the single Learner. views has the part as
// each learner decodes it.
func (l *loop) learnPart(ctx context.Context, b *event.Batch, n int, p *event.Position, views []event.Batch) error {
	if l.Challengers != nil {
		l.intake.round = l.Challengers.begin(views, l.intake.holdout, l.before+l.records)
		defer func() { l.intake.round = nil }()
	}
	return l.intake.learn(ctx, b, n, p)
}

// publish adds the models of the other learners to the leader's model.
func (c *Challengers) publish(p *Published) {
	p.Learner = c.LeaderName()
	for _, x := range c.others() {
		p.Others = append(p.Others, &Published{Linear: x.Learner.Snapshot().Model(), Version: p.Version, Offsets: p.Offsets, At: p.At, Learner: x.Name})
	}
}

// ChallengerStatus is the status of a learner, including its comparison with the leader. The comparison uses the
// log-loss or, for regression, the squared error or deviance.
type ChallengerStatus struct {
	Standing
	Leader  bool
	Learner online.Report
}

func (l *loop) challengerStatus(leader *online.Report) (out []ChallengerStatus) {
	if l.Challengers == nil {
		return nil
	}
	for i, x := range l.Challengers.All {
		s := ChallengerStatus{Standing: x.Standing, Leader: i == l.Challengers.Leader, Learner: *leader}
		if !s.Leader {
			s.Learner = x.Learner.Report()
		}
		out = append(out, s)
	}
	return out
}
