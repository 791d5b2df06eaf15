package group

// This file runs a member. The member applies the commit log, learns the partitions that the consumer group assigns to
// it, and commits what it has learned.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"blankout/batch"
	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/run"
	"blankout/online"
	"blankout/stream"
)

// Member is one of several learners of one model. Set its exported fields before Run.
type Member struct {
	Config Config
	Kafka  stream.ConsumerConfig // topics to learn, and how to read them
	// Open opens the Source of events; its decoder adds fields to s.
	Open func(ctx context.Context, c stream.ConsumerConfig, s *event.Schema, from event.Offsets) (stream.Opened, error)
	// Learner and Schema create the Learner with which an empty commit log starts. They must be the same for all
	// members.
	Learner online.Config
	Schema  func() *event.Schema
	// Settings holds the other settings that determine the meaning of the weights: how records become events, and which
	// are held out. They must be the same for all members.
	Settings online.Fingerprint
	// From is the name of a stopped group. A new group starts with the newest snapshot of that group, or with an empty
	// model if From is "".
	From string
	// Validator compares the model with the exact solution, and selects the held-out records. If a validation is due,
	// the member that writes snapshots starts it. If Validate is called, the called member starts it. Validator may be
	// nil.
	Validator *validate.Validator
	// Report receives a finished validation, on a goroutine of Run. It may be nil.
	Report func(*batch.Validation) error
	// DeadLetters receives the records that cannot be used, before a commit counts them. If it is nil, such records are
	// only counted.
	DeadLetters run.DeadLetters
	// Observe receives every new Status, on the goroutine of Run. It may be nil.
	Observe func(*Status)
	// Until makes Run stop normally when it returns true. It may be nil.
	Until func(*Status) bool
	Log   *slog.Logger // nil disables logging

	keepEvery  time.Duration // for tests: replaces the constant keepEvery
	machine    *machine      // for tests: replaces thisMachine
	crash      func() bool   // for tests: makes Run end like a killed process
	status     atomic.Pointer[Status]
	asked      atomic.Uint64 // number of calls of Status
	validation atomic.Bool   // a validation has been requested
}

// Validate requests a validation by this member. The validation starts when no other validation is running. Validate
// may be called at any time from any goroutine. If there is no Validator, it returns an error.
func (m *Member) Validate() error {
	if m.Validator == nil {
		return errors.New("this member has nothing to validate with")
	}
	m.validation.Store(true)
	return nil
}

// running is the state of one call of Run, on its goroutine.
type running struct {
	*Member
	log     *slog.Logger
	id      MemberID
	machine machine

	commitLog *stream.CommitLog
	entries   *entries
	replica   *replica
	snapshots snapshotJob
	kept      keeping

	joins *joins
	turn  *stream.Generation // nil while the member has no generation
	work  work
	// committing is the time at which publish started to wait for its commit. It is zero if publish is not waiting.
	committing time.Time

	jobs      chan func() // results of jobs: snapshots and validations
	validator validator

	current  Status
	reported time.Time
	served   served
	peers    map[MemberID]*Peer
	warned   map[string]bool // kinds of warnings that were already logged
}

// Check returns an error that names the first setting with which a group cannot learn.
func (m *Member) Check() error {
	if err := m.Config.Check(); err != nil {
		return err
	}
	if err := m.Learner.CheckForGroup(); err != nil {
		return err
	}
	if m.Config.Name == "" {
		return event.KeyErrorf("name", "name: empty")
	}
	if len(m.Schema().Classes) == 0 {
		return errors.New("record.classes: empty, but a group needs its classes from the start")
	}
	return nil
}

// newRunning prepares a Run, before it connects.
func newRunning(m *Member) *running {
	l := &running{Member: m, log: m.Log, current: Status{Rejected: map[Reason]uint64{}}, jobs: make(chan func(), 4), warned: map[string]bool{}, peers: map[MemberID]*Peer{}, snapshots: snapshotJob{marks: map[int64]claims{}}, machine: thisMachine()}
	if m.machine != nil {
		l.machine = *m.machine
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.work.intake = run.Intake{DeadLetters: m.DeadLetters, Log: l.log, Turns: run.Turns{Asked: &m.asked}}
	if m.DeadLetters != nil {
		l.work.intake.Refused = run.PolicyDeadLetter
	}
	if m.Validator != nil {
		l.work.intake.Holdout = m.Validator.Config.Holdout
		if m.Validator.Config.Events == validate.AutoEvents {
			l.log.Info(`no validations: in a group set validate.events to a number of records`)
		}
	}
	return l
}

// Run joins the group, learns until ctx ends, and leaves the group. Before it leaves, Run commits what it has learned,
// within rebalanceTimeout, so a stop loses nothing. Run returns an error only if a retry would not help. In that case
// other members learn again what was not committed.
func (m *Member) Run(ctx context.Context) (err error) {
	if err := m.Check(); err != nil {
		return err
	}
	l := newRunning(m)
	if _, err := rand.Read(l.id[:]); err != nil {
		return err
	}
	l.current.Member = l.id.String()
	living := false
	defer func() {
		if !living && ctx.Err() != nil {
			err = nil // stopped before it started
		}
	}()
	connect := m.Kafka.ConnectConfig
	if l.commitLog, err = stream.OpenCommitLog(ctx, m.Config.CommitLog(connect, l.log)); err != nil {
		return err
	}
	defer l.commitLog.Close()
	if l.snapshots.topic, err = stream.OpenSnapshots(ctx, m.Config.Snapshots(connect, l.log)); err != nil {
		return err
	}
	defer l.snapshots.topic.Close()
	l.kept.checked = time.Now()
	if err := l.keeps(ctx); err != nil {
		return err
	}
	if err := l.load(ctx); err != nil {
		return err
	}
	defer func() { l.entries.stop() }()
	membership := stream.DefaultMembershipConfig()
	membership.ConnectConfig, membership.Group, membership.Topics, membership.Log = connect, m.Config.Name, m.topics(), l.log
	membership.CreateTopics, membership.CreatePartitions = m.Kafka.CreateTopics, m.Kafka.CreatePartitions
	membership.SessionTimeout, membership.RebalanceTimeout, membership.Instance = m.Config.SessionTimeout, m.Config.rebalanceTimeout(), m.Config.Instance
	place, err := stream.NewMembership(ctx, membership)
	if err != nil {
		return err
	}
	living = true
	l.joins = joining(context.WithoutCancel(ctx), place)
	err = l.live(ctx)
	if errors.Is(err, errStop) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	crashed := m.crash != nil && m.crash()
	var expires *stream.RetentionError
	if clean := err == nil || errors.As(err, &expires); clean && l.turn != nil && !crashed { // commit the rest of the interval
		leaving, cancel := context.WithTimeout(context.Background(), m.Config.rebalanceTimeout()/2)
		learned := l.work.events
		failed := l.publish(leaving)
		cancel()
		if failed != nil {
			failed = fmt.Errorf("this member stopped before it committed its last %d events; the group learns them again: %w", learned, failed)
		} else {
			l.leaveSnapshot()
		}
		err = errors.Join(err, failed)
	}
	l.work.close()
	l.joins.stop()
	if l.validator.cancel != nil {
		l.validator.cancel()
	}
	leaving, cancel := context.WithTimeout(context.Background(), connect.RequestTimeout)
	defer cancel()
	if crashed {
		cancel()
	}
	if err := place.Leave(leaving); err != nil {
		l.log.Warn("this member left the group without notice", "err", err)
	}
	if l.kept.cancel != nil {
		l.kept.cancel()
	}
	for l.snapshots.busy || l.kept.cancel != nil || l.validator.cancel != nil {
		(<-l.jobs)()
	}
	l.report("stopped")
	return err
}

func (m *Member) topics() []string {
	return slices.Concat(m.Kafka.Topics, m.Kafka.UnlabeledTopics)
}

var errStop = errors.New("enough")

// live is the main loop. It always returns an error. errStop and the error of ctx mean that the loop ended without a
// failure.
func (l *running) live(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := l.fold(ctx); err != nil {
			return err
		}
		now := time.Now()
		if now.Sub(l.reported) > reportEvery {
			if l.kept.err != nil {
				return l.kept.err
			}
			l.keepIfDue()
			l.validateIfDue()
			l.report("")
			if l.Until != nil && l.Until(l.Status()) {
				return errStop
			}
		}
		if l.turn == nil || l.work.source == nil {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case take := <-l.jobs:
				take()
			case e := <-l.entries.next:
				if err := l.applyOrReload(ctx, e); err != nil {
					return err
				}
			case j := <-l.joins.joined:
				if j.err != nil {
					return j.err
				}
				l.turn = j.generation
				l.current.Partitions, l.current.Generation, l.current.Members, l.current.Standby = l.turn.Partitions, l.turn.ID, l.turn.Members, l.turn.Standby
			case <-tick.C:
			}
			if l.turn != nil {
				if over, err := l.over(ctx); over || err != nil {
					if err != nil {
						return err
					}
					continue
				}
				if err := l.open(ctx); err != nil {
					return err
				}
			}
			continue
		}
		if over, err := l.over(ctx); err != nil {
			return err
		} else if over {
			continue
		}
		if err := l.learn(ctx); err != nil {
			return err
		}
		if l.work.events > 0 && (l.work.events >= l.work.size || time.Since(l.work.began) >= l.Config.IntervalMax) {
			if err := l.publish(ctx); err != nil {
				return err
			}
		}
	}
}

// fold applies the commit log records that have been read, and the results of jobs.
func (l *running) fold(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case take := <-l.jobs:
			take()
		case e := <-l.entries.next:
			if err := l.applyOrReload(ctx, e); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// over reports whether the consumer group's generation has ended. If so, over commits the interval, if there is time,
// and leaves the generation.
func (l *running) over(ctx context.Context) (bool, error) {
	select {
	case <-l.turn.Done():
	default:
		return false, nil
	}
	err := l.turn.Err()
	switch {
	case errors.Is(err, stream.ErrRebalance):
		finishing, cancel := context.WithTimeout(ctx, l.Config.rebalanceTimeout()/2)
		err = l.publish(finishing)
		cancel()
		if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			l.log.Warn("the last events could not be committed in time; other members learn them again", "events", l.work.events, "err", err)
			l.drop()
			err = nil
		}
	case errors.Is(err, stream.ErrSession):
		l.log.Warn("the group removed this member; it drops its last events and joins again", "events", l.work.events)
		l.drop()
		err = nil
	}
	if err != nil {
		return false, err
	}
	l.work.close()
	l.turn = nil
	l.current.Partitions = nil
	l.joins.again <- struct{}{}
	return true, nil
}

// first reports whether this member reads the lowest partition. The first member learns alone at the start, and writes
// the snapshots.
func (l *running) first() bool {
	if l.turn == nil || len(l.turn.Partitions) == 0 {
		return false
	}
	p := l.turn.Partitions[0]
	return p.Topic == slices.Min(l.topics()) && p.Partition == 0
}

// open starts to read the partitions of the generation, from the group's state. A standby member reads no partitions.
// While the first member learns alone, the other members wait.
func (l *running) open(ctx context.Context) error {
	if len(l.turn.Partitions) == 0 || !l.first() && l.cold() {
		return nil
	}
	return l.reopen(ctx)
}

// cold reports whether the first member still learns alone. If the first member commits nothing for SessionTimeout, the
// other members stop waiting, because its partitions may be empty.
func (l *running) cold() bool {
	return l.replica.fold.Learner().Report().Events < l.Config.Warm && time.Since(l.entries.moved) < l.Config.SessionTimeout
}

// reopen reads the partitions of the generation again, from the group's state.
func (l *running) reopen(ctx context.Context) (err error) {
	l.work.close()
	if l.turn == nil || len(l.turn.Partitions) == 0 {
		return nil
	}
	c := l.Kafka
	c.Only, c.Log = l.turn.Partitions, l.log
	c.UntilEnd = false
	var from event.Offsets
	for _, p := range l.replica.fold.Offsets() {
		if slices.Contains(c.Only, stream.TopicPartition{Topic: p.Topic, Partition: p.Partition}) {
			*from.At(p.Topic, p.Partition, p.Next) = p
		}
	}
	l.work.next, l.work.interval = map[stream.TopicPartition]int64{}, interval{}
	l.work.schema = l.replica.fold.Learner().Schema().Clone()
	if l.work.source, err = l.Open(ctx, c, l.work.schema, from); err != nil {
		return l.trimmedError(err)
	}
	return l.begin()
}

// joins runs the goroutine that joins the consumer group. Joining may have to wait for other members.
type joins struct {
	joined chan joined
	again  chan struct{}
	stop   func()
}

type joined struct {
	generation *stream.Generation
	err        error
}

func joining(ctx context.Context, place *stream.Membership) *joins {
	ctx, cancel := context.WithCancel(ctx)
	j := &joins{joined: make(chan joined, 1), again: make(chan struct{}, 1)}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			generation, err := place.Next(ctx)
			j.joined <- joined{generation, err} // does not block, because the next is requested only after one is received
			if err != nil {
				return
			}
			select {
			case <-j.again:
			case <-ctx.Done():
				return
			}
		}
	})
	j.stop = func() { cancel(); running.Wait() }
	return j
}
