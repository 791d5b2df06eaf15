package run

// This file promotes a contender to the lead.

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

// UnknownContenderError reports that a Runner has no learner with the requested name.
type UnknownContenderError struct {
	Name  string
	Names []string // names of the existing learners
}

func (e *UnknownContenderError) Error() string {
	return fmt.Sprintf("no learner %.40q: want one of %q", e.Name, e.Names)
}

// promotion is a request to promote a contender. done receives nil once a checkpoint has the change.
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

// Promote promotes the contender with the given name, between two batches. It returns nil once a checkpoint has the
// change. Any goroutine may call it while Run learns. It returns an *UnknownContenderError if the name is unknown.
func (r *Runner) Promote(ctx context.Context, name string) error {
	if r.Contest == nil {
		return errors.New("there is only one learner: add others with [[challenger]]")
	}
	if names := r.Contest.names(); !slices.Contains(names, name) {
		return &UnknownContenderError{name, names}
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
	if l.Contest == nil {
		return
	}
	asked := l.promotions.take(nil)
	for _, p := range asked {
		l.promote(slices.Index(l.Contest.names(), p.name), "asked for")
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

// endPromotions rejects the remaining requests at the end of a run.
func (l *loop) endPromotions(err error) {
	answerPromotions(append(l.saver.promoting, l.promotions.take(err)...), err)
}

// untilWindow returns n. If a contender can be promoted automatically and a comparison window ends earlier, it returns
// the number of records until that end.
func (l *loop) untilWindow(n int) int {
	if l.Contest == nil || !slices.ContainsFunc(l.Contest.Contenders, func(x *Contender) bool { return x.auto() }) {
		return n
	}
	for _, x := range l.Contest.Contenders {
		n = int(min(uint64(n), x.Window-(l.before+l.records)%x.Window))
	}
	return n
}

// promoteBetter promotes the best contender with automatic promotion that has been better than the lead in two windows.
// The second window has just ended.
func (l *loop) promoteBetter() {
	if l.Contest == nil {
		return
	}
	best := -1
	for i, x := range l.Contest.Contenders {
		if i == l.Contest.Lead || !x.auto() || !x.Paired.Better(x.Window) {
			continue
		}
		if best < 0 || x.Paired.Window.Mean < l.Contest.Contenders[best].Paired.Window.Mean {
			best = i
		}
	}
	if best >= 0 {
		l.promote(best, "better in two windows")
	}
}

// promote promotes a contender. It changes no weight, and restarts the comparisons.
func (l *loop) promote(i int, why string) {
	c, records := l.Contest, l.before+l.records
	if i == c.Lead {
		return
	}
	was, lead := c.lead(), c.Contenders[i]
	about := []any{"learner", lead.Name, "before", was.Name, "why", why, "records", records}
	if d := lead.Paired.Total; d.Blocks > 1 {
		about = append(about, "difference", d.Mean, "standard_error", d.StandardError())
	}
	l.log.Warn("another learner is now the leader", about...)
	c.Lead = i
	for _, x := range c.Contenders {
		x.Paired = measure.NewPaired(records)
	}
	l.learnWith(lead.Learner)
	l.saver.fingerprint = lead.Fingerprint
	l.first, l.warned = lead.Learner.Alarms(math.MaxUint64), map[string]warned{}
	l.logged = l.first
	l.intake.recent.clear()
	l.takeValidator(lead)
	l.saver.moved, l.unreported = true, true
	l.publish()
	_ = failpoint.Here("run.promoted")
}

// learnWith replaces the Learner of the loop and of the lead.
func (l *loop) learnWith(x *online.Learner) {
	l.Learner, l.intake.Learner = x, x
	if l.Contest != nil {
		l.Contest.lead().Learner = x
	}
}

// takeValidator makes the lead's validator the current validator. It discards kept events, because the columns may
// differ.
func (l *loop) takeValidator(lead *Contender) {
	if lead.Validator == nil || l.Validator == nil {
		return
	}
	if l.validator.running() {
		l.validator.cancel()
	}
	l.validator.waiting, l.validator.exact = nil, nil
	l.Validator = lead.Validator
	if l.intake.kept != nil {
		l.intake.kept, _ = validate.NewReservoir(l.Validator.Config.Reservoir, nil) // it can only fail while decoding
	}
	if l.intake.sample != nil {
		l.intake.sample = validate.NewSample(validate.SampleBytes)
	}
}

// beginContest gives the contenders Views of their Schemas, because the decoder reads ahead from now on.
func (l *loop) beginContest() {
	if l.Contest == nil {
		return
	}
	for i, x := range l.Contest.Contenders {
		if i != l.Contest.Lead {
			x.Learner.SetSchema(x.Learner.Schema().View())
		}
	}
}

// learnPart learns the first n events of a part with all contenders, or with the single Learner. views has the part as
// each contender decodes it.
func (l *loop) learnPart(ctx context.Context, b *event.Batch, n int, p *event.Position, views []event.Batch) error {
	if l.Contest == nil {
		return l.intake.Learn(ctx, b, n, p)
	}
	l.intake.round = l.Contest.begin(views, l.intake.Holdout, l.before+l.records)
	defer func() { l.intake.round = nil }()
	return l.intake.Learn(ctx, b, n, p)
}

// publish adds the models of the other contenders to the lead's model.
func (c *Contest) publish(p *Published) {
	if c == nil {
		return
	}
	p.Learner = c.lead().Name
	for i, x := range c.Contenders {
		if i != c.Lead {
			p.Others = append(p.Others, &Published{Linear: x.Learner.Snapshot().Model(), Version: p.Version, Offsets: p.Offsets, At: p.At, Learner: x.Name})
		}
	}
}

// ContenderStatus is the status of a contender, including its comparison with the lead. The comparison uses the
// log-loss or, for regression, the squared error or deviance.
type ContenderStatus struct {
	Standing
	Lead    bool
	Learner online.Report
}

func (l *loop) contestStatus(lead *online.Report) (out []ContenderStatus) {
	if l.Contest == nil {
		return nil
	}
	for i, x := range l.Contest.Contenders {
		s := ContenderStatus{Standing: x.Standing, Lead: i == l.Contest.Lead, Learner: *lead}
		if !s.Lead {
			s.Learner = x.Learner.Report()
		}
		out = append(out, s)
	}
	return out
}
