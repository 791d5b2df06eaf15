package group

// This file holds the life of a member: it reads the ledger and folds it, learns the
// partitions that its consumer group gives it, and commits what it has learned.

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"blankout"
	"blankout/batch"
	"blankout/checkpoint"
	"blankout/model"
	"blankout/online"
	records "blankout/record"
	"blankout/run"
	"blankout/stream"
	"blankout/validate"
)

// Config says how the members of a group learn one model: the section [group] of the
// configuration.
type Config struct {
	Name       string `toml:"name"`
	MixTopic   string `toml:"mix_topic"`  // of the ledger; "": NAME-mix
	BaseTopic  string `toml:"base_topic"` // "": NAME-base
	Partitions int    `toml:"partitions"` // of a created mix topic, for chunks
	Instance   string `toml:"instance"`   // stream.MembershipConfig.Instance
	// An interval of a member ends after Share of the events that the group has learned,
	// divided among the members that learn, between IntervalMin and IntervalEvents; or
	// after IntervalMax.
	Share          float64       `toml:"share"`
	IntervalMin    uint64        `toml:"interval_min"`
	IntervalEvents uint64        `toml:"interval_events"`
	IntervalMax    time.Duration `toml:"interval_max"`
	// Warm is how many events one member learns alone before the others begin.
	Warm             uint64        `toml:"warm"`
	Precision        int           `toml:"precision"`  // bits of a change of a weight: 32 or 64
	BaseEvery        uint64        `toml:"base_every"` // accepted commits from base to base
	SessionTimeout   time.Duration `toml:"session_timeout"`
	RebalanceTimeout time.Duration `toml:"rebalance_timeout"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Partitions: 8, Share: 0.02, IntervalMin: 1000, IntervalEvents: 1_000_000, IntervalMax: 2 * time.Second, Warm: 10_000,
		Precision: 32, BaseEvery: 64, SessionTimeout: 10 * time.Second, RebalanceTimeout: 30 * time.Second,
	}
}

// Check reports the first value that cannot be used.
func (c *Config) Check() error {
	switch {
	case c.Partitions < 1 || c.Partitions > 1000:
		return blankout.KeyErrorf("partitions", "partitions %d, want 1 to 1000", c.Partitions)
	case !(c.Share > 0 && c.Share <= 1):
		return blankout.KeyErrorf("share", "share %v, want more than 0 and at most 1", c.Share)
	case c.IntervalMin < 1:
		return blankout.KeyErrorf("interval_min", "interval_min %d, want at least 1", c.IntervalMin)
	case c.IntervalEvents < c.IntervalMin || c.IntervalEvents > online.MaxInterval:
		return blankout.KeyErrorf("interval_events", "interval_events %d, want interval_min (%d) to %d", c.IntervalEvents, c.IntervalMin, uint64(online.MaxInterval))
	case c.IntervalMax < 10*time.Millisecond:
		return blankout.KeyErrorf("interval_max", "interval_max %v, want at least 10ms", c.IntervalMax)
	case c.Precision != 32 && c.Precision != 64:
		return blankout.KeyErrorf("precision", "precision %d, want 32 or 64", c.Precision)
	case c.BaseEvery < 1 || c.BaseEvery > maxHistory/2:
		return blankout.KeyErrorf("base_every", "base_every %d, want 1 to %d", c.BaseEvery, maxHistory/2)
	case c.SessionTimeout < 100*time.Millisecond:
		return blankout.KeyErrorf("session_timeout", "session_timeout %v, want at least 100ms", c.SessionTimeout)
	case c.RebalanceTimeout < c.SessionTimeout:
		return blankout.KeyErrorf("rebalance_timeout", "rebalance_timeout %v, want at least session_timeout, %v", c.RebalanceTimeout, c.SessionTimeout)
	}
	return nil
}

// Topics returns the names of the topics of the ledger and its bases.
func (c *Config) Topics() (mix, base string) {
	if mix = c.MixTopic; mix == "" {
		mix = c.Name + "-mix"
	}
	if base = c.BaseTopic; base == "" {
		base = c.Name + "-base"
	}
	return mix, base
}

// Ledger returns where the ledger is, of brokers reached by kafka.
func (c *Config) Ledger(kafka stream.ConnectConfig, log *slog.Logger) stream.LedgerConfig {
	l := stream.DefaultLedgerConfig()
	l.ConnectConfig, l.Partitions, l.Log = kafka, c.Partitions, log
	l.Topic, _ = c.Topics()
	return l
}

// Bases returns where the bases are.
func (c *Config) Bases(kafka stream.ConnectConfig, log *slog.Logger) stream.BaseConfig {
	b := stream.BaseConfig{ConnectConfig: kafka, Create: true, Log: log}
	_, b.Topic = c.Topics()
	return b
}

// Member is one of several learners of one model. Its exported fields are set before Run.
type Member struct {
	Config Config
	Kafka  stream.ConsumerConfig // which topics are learned, and how they are read
	// Open opens the Source of events; decoding adds to s.
	Open func(ctx context.Context, c stream.ConsumerConfig, s *blankout.Schema, from blankout.Offsets) (stream.Opened, error)
	// Learner and Schema make the Learner that an empty ledger begins with: the same for
	// all members.
	Learner online.Config
	Schema  func() *blankout.Schema
	// Settings is what gives the weights their meaning beside Learner: how records become
	// events, and which are held out. All members must have the same.
	Settings online.Fingerprint
	// From is a stopped group whose newest base this one begins with, if it has not begun;
	// "" begins with an empty model.
	From string
	// Validator compares the model with the exact solution, and says which records are held
	// out. The member that writes the bases validates when it is due, and any of them when
	// Validate asks for it. May be nil.
	Validator *validate.Validator
	// Report takes a finished validation, on a goroutine of Run's. May be nil.
	Report func(*batch.Validation) error
	// DeadLetters takes the records that cannot be used, before they are counted in;
	// nil: they are only counted.
	DeadLetters run.DeadLetters
	// Suspects takes the events whose label is probably wrong, see online.Config.Suspect,
	// before a commit counts them; nil: they are only counted.
	Suspects run.Suspects
	// Observe is told of a new Status, on the goroutine of Run. May be nil.
	Observe func(*Status)
	// Until ends Run, as a stop does, when it says so of a Status. May be nil.
	Until func(*Status) bool
	Log   *slog.Logger // nil logs nothing

	keepEvery  time.Duration // of tests, instead of keepEvery
	crash      func() bool   // of tests: says that Run is to end as a process that is killed does
	status     atomic.Pointer[Status]
	validation atomic.Bool // one is asked for
}

// Status is what a Member has done, and what it knows of the others. It is immutable.
type Status struct {
	Member     string                  `json:"member"`
	Generation int32                   `json:"generation"` // 0 before the member has joined
	Members    int                     `json:"members"`    // of the group
	Standby    int                     `json:"standby"`    // of them without a partition
	Partitions []stream.TopicPartition `json:"partitions"` // that this member learns
	Writer     bool                    `json:"writer"`     // it has the lowest partition: it writes bases and snapshots, and validates
	// About the ledger, as far as this member has folded it.
	Offset    int64             `json:"ledger_offset"` // that follows the last commit
	Lag       int64             `json:"ledger_lag"`    // commits behind it
	Chain     string            `json:"chain"`
	Accepted  uint64            `json:"accepted"` // of all members
	Rejected  map[Reason]uint64 `json:"rejected"`
	Positions blankout.Offsets  `json:"positions"`         // how far the group has come
	Skipped   []Gap             `json:"skipped,omitempty"` // what it has passed over, as it was told to
	// About this member.
	Pending    uint64  `json:"pending"`      // events learned and not yet committed
	Committed  uint64  `json:"committed"`    // commits written
	Refused    uint64  `json:"refused"`      // of them not accepted
	Again      uint64  `json:"events_again"` // events learned for nothing
	DeltaBytes uint64  `json:"delta_bytes"`
	DeltaRows  uint64  `json:"delta_rows"`
	Commit     float64 `json:"commit_seconds"` // taken, in all, by commits: from the cut until the fold holds or rejects it
	Rebase     float64 `json:"rebase_seconds"` // and then by becoming equal to the fold
	HeldOut    uint64  `json:"held_out"`       // records that it has met and not learned
	// About the latest base: the ledger's offset that follows it, the hash of its bytes,
	// which are the same for all members, and when this member came to it.
	BaseOffset int64     `json:"base_offset"`
	BaseHash   string    `json:"base_hash"`
	BaseAt     time.Time `json:"base_at"`
	// Mismatches are the bases of the group whose bytes were others than those that this
	// member came to.
	Mismatches uint64 `json:"replica_mismatches"`
	// Peers are the members whose commits this one has read, itself included, in the order
	// of their ids, without those silent for an hour.
	Peers []Peer `json:"peers"`

	// Model is the newest model for readers, and Version the ledger's offset that follows
	// it: the same for all members.
	Model   *online.Snapshot `json:"-"`
	Version int64            `json:"version"`
	Metrics online.Metrics   `json:"-"` // of the fold
	// Counts are of the records that this member has met, whatever became of their commits.
	Counts     run.Counts      `json:"-"`
	Validation validate.Status `json:"-"` // by this member
	// Warnings say what is probably not as the stream's owner believes, of the fold.
	Warnings []online.Warning `json:"-"`
	At       time.Time        `json:"at"`
	NotReady string           `json:"not_ready,omitempty"` // why, "" if it is
}

// Peer is what a member's commits have told another one.
type Peer struct {
	Member   string    `json:"member"`
	Accepted uint64    `json:"accepted"` // commits
	Rejected uint64    `json:"rejected"`
	Events   uint64    `json:"events"` // of the accepted ones
	At       time.Time `json:"at"`     // when its latest commit was read
	// Behind is how many commits the ledger had got since what that one built on: how old
	// the model was that the member had learned with.
	Behind int64 `json:"behind"`
}

// Validate asks this member for a validation. It comes when none is under way. Anyone may
// call it at any time; without a Validator it returns an error.
func (m *Member) Validate() error {
	if m.Validator == nil {
		return errors.New("this member has nothing to validate with")
	}
	m.validation.Store(true)
	return nil
}

// Status returns the latest one; nil before Run has folded the ledger for the first time.
func (m *Member) Status() *Status { return m.status.Load() }

// life is the state of one Run, on its goroutine.
type life struct {
	*Member
	log     *slog.Logger
	id      MemberID
	ledger  *stream.Ledger
	bases   *stream.BaseTopic
	replica *replica
	work    *online.Learner
	intake  run.Intake // into work
	batch   blankout.Batch
	current Status

	entries *entries
	joins   *joins
	turn    *stream.Generation // nil while the member is in none
	source  stream.Opened
	schema  *blankout.Schema // that the source's decoder adds to
	loaded  int64            // the ledger's end when it was loaded
	known   int              // fields of schema that the fold knows

	changed []uint32                        // columns that differ between fold and work, besides those of the interval
	spans   []Span                          // of the interval
	at      map[stream.TopicPartition]int64 // that the source has come to
	began   time.Time
	size    uint64 // events that the interval is to have
	events  uint64 // that it has
	seq     uint64
	base    int64
	chain   uint64

	moved time.Time // when the ledger moved last
	told  time.Time // of a Status
	// committing is when the commit began that publish waits for, zero if it does not.
	committing time.Time
	// The model for readers, the ledger's offset that it is of, and what copying it took.
	model     *online.Snapshot
	modelOf   int64
	modelAt   time.Time
	modelCost time.Duration
	jobs      chan func() // what jobs come back with: a base, a validation, an answered call
	busy      bool        // with a base
	based     uint64      // commits that the newest base known holds
	kept      keeping
	validator validator
	exact     *model.Linear // the latest exact solution, nil if there is none yet
	solving   solving
	warned    map[string]bool // kinds of warnings logged

	peers map[MemberID]*Peer
	marks map[int64][2]uint64 // by base: the hash that this member came to, and that of the group's; 0: not known
}

// Check reports the first setting with which no group can learn.
func (m *Member) Check() error {
	if err := m.Config.Check(); err != nil {
		return err
	}
	if err := m.Learner.CheckSharedAfter(m.Config.Warm); err != nil {
		return err
	}
	if m.Config.Name == "" {
		return blankout.KeyErrorf("name", "name: none given")
	}
	if len(m.Schema().Classes) == 0 {
		return errors.New("record.classes: none given, and several learners of one model must know them from the start")
	}
	return nil
}

// Run joins the group, learns until ctx ends and leaves. A stop loses nothing: what is
// learned is committed first, within RebalanceTimeout. It returns an error that another
// try does not mend; what of the interval is not committed then is learned again by others.
func (m *Member) Run(ctx context.Context) (err error) {
	if err := m.Check(); err != nil {
		return err
	}
	l := &life{Member: m, log: m.Log, current: Status{Rejected: map[Reason]uint64{}}, jobs: make(chan func(), 4), warned: map[string]bool{}, peers: map[MemberID]*Peer{}, marks: map[int64][2]uint64{}}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.intake = run.Intake{DeadLetters: m.DeadLetters, Suspects: m.Suspects, Log: l.log}
	if m.DeadLetters != nil {
		l.intake.Refused = run.PolicyDeadLetter
	}
	if m.Validator != nil {
		l.intake.Holdout = m.Validator.Config.Holdout
	}
	if _, err := rand.Read(l.id[:]); err != nil {
		return err
	}
	l.current.Member = l.id.String()
	living := false
	defer func() {
		if !living && ctx.Err() != nil {
			err = nil // stopped before it began
		}
	}()
	connect := m.Kafka.ConnectConfig
	if l.ledger, err = stream.OpenLedger(ctx, m.Config.Ledger(connect, l.log)); err != nil {
		return err
	}
	defer l.ledger.Close()
	if l.bases, err = stream.OpenBases(ctx, m.Config.Bases(connect, l.log)); err != nil {
		return err
	}
	defer l.bases.Close()
	l.kept.at = time.Now()
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
	membership.SessionTimeout, membership.RebalanceTimeout, membership.Instance = m.Config.SessionTimeout, m.Config.RebalanceTimeout, m.Config.Instance
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
	if clean := err == nil || errors.As(err, &expires); clean && l.turn != nil && !crashed { // with what there is
		leaving, cancel := context.WithTimeout(context.Background(), m.Config.RebalanceTimeout/2)
		learned := l.events
		failed := l.publish(leaving)
		cancel()
		if failed != nil {
			failed = fmt.Errorf("the last %d events that this member learned were not committed before it stopped; nothing is lost, the group learns them again: %w", learned, failed)
		} else {
			l.leaveBase()
		}
		err = errors.Join(err, failed)
	}
	if l.source != nil {
		l.source.Close()
	}
	l.joins.stop()
	for _, cancel := range []context.CancelFunc{l.validator.cancel, l.solving.cancel} {
		if cancel != nil {
			cancel()
		}
	}
	l.solving.next = nil
	leaving, cancel := context.WithTimeout(context.Background(), connect.RequestTimeout)
	defer cancel()
	if crashed {
		cancel()
	}
	if err := place.Leave(leaving); err != nil {
		l.log.Warn("the group was left without telling it", "err", err)
	}
	if l.kept.cancel != nil {
		l.kept.cancel()
	}
	for l.busy || l.kept.cancel != nil || l.validator.cancel != nil || l.solving.cancel != nil {
		(<-l.jobs)()
	}
	l.report("stopped")
	return err
}

func (m *Member) topics() []string {
	return slices.Concat(m.Kafka.Topics, m.Kafka.UnlabelledTopics)
}

var errStop = errors.New("enough")

// loadTries is how often a base is read whose ledger has been trimmed before that was read,
// too: a group that is busier than the reader writes a newer one meanwhile.
const loadTries = 20

// load takes the newest base, or an empty fold, and reads the ledger to its end.
func (l *life) load(ctx context.Context) error {
	if l.entries != nil {
		l.entries.stop()
	}
	for attempt := 1; ; attempt++ {
		err := l.loadOnce(ctx)
		var trimmed *stream.TrimmedError
		if !errors.As(err, &trimmed) {
			return err
		}
		if attempt == loadTries {
			return fmt.Errorf("no base of the ledger can be gone on from: %w", err)
		}
		l.log.Info("a newer base is needed", "err", err) // it came while this one was read
	}
}

func (l *life) loadOnce(ctx context.Context) (err error) {
	base, replica, err := newestReplica(ctx, l.bases, l.Member)
	if err != nil {
		return err
	}
	if base == nil && l.From != "" {
		if base, replica, err = l.beginFrom(ctx); err != nil {
			return fmt.Errorf("beginning from group %s: %w", l.From, err)
		}
	}
	if l.replica = replica; base == nil {
		if l.replica, err = newReplica(l.Learner, l.Settings, l.Schema(), l.ledger.ID(), l.Config.BaseEvery); err != nil {
			return err
		}
	}
	l.based = l.replica.fold.Accepted()
	if l.work, err = l.replica.fold.Learner().Clone(); err != nil {
		return err
	}
	end, err := l.ledger.End(ctx)
	if err != nil {
		return err
	}
	l.loaded = end
	config := l.Config.Ledger(l.Kafka.ConnectConfig, l.log)
	if l.entries, err = readEntries(context.WithoutCancel(ctx), config, l.replica); err != nil {
		return err
	}
	began := time.Now()
	for l.replica.read < end {
		select {
		case e := <-l.entries.next:
			if err := l.apply(e); err != nil {
				l.entries.stop()
				return err
			}
		case <-ctx.Done():
			l.entries.stop()
			return ctx.Err()
		}
	}
	l.changed = nil // the work is made anew
	if l.work, err = l.replica.fold.Learner().Clone(); err != nil {
		return err
	}
	l.moved = time.Now()
	if l.Validator != nil {
		l.validator.schedule = validate.NewSchedule(l.Validator.Config, recordsOf(l.replica.fold.Offsets()))
	}
	l.log.Info("folded the ledger", "base", base != nil, "offset", l.replica.read, "accepted", l.replica.fold.Accepted(),
		"events", l.replica.fold.Learner().Metrics().Events, "took", time.Since(began))
	l.report("not in the group yet")
	return nil
}

// apply shows a record of the ledger to the fold.
func (l *life) apply(e mixed) error {
	if e.err != nil {
		return e.err
	}
	if e.mark != nil {
		l.compare(e.mark.Base, 1, e.mark.Hash)
	}
	if e.call != nil && e.offset >= l.loaded { // those of before have been answered by others
		l.answer(e.call)
	}
	changed, base, err := l.replica.apply(e)
	var rejected *Rejection
	own := e.commit != nil && e.commit.Member == l.id
	if e.commit != nil && (err == nil || errors.As(err, &rejected)) {
		l.watch(e.offset, e.commit, err == nil)
	}
	switch {
	case errors.As(err, &rejected) && e.commit != nil && rejected.Reason == ReasonSettings && l.replica.fold.Accepted() == 0:
		return fmt.Errorf("the ledger's commit at offset %d: %w", e.offset, &SettingsError{})
	case errors.As(err, &rejected) && e.commit != nil && rejected.Reason == ReasonBase && e.commit.Base < 0 && l.replica.fold.Accepted() == 0:
		return fmt.Errorf("the ledger's commit at offset %d builds on another beginning than this member's: the group began from another one (run --from-group), whose base is lost or was written anew meanwhile; begin another group", e.offset)
	case errors.As(err, &rejected):
		if own {
			l.current.Refused++
		}
		l.log.Info("a commit was not accepted", "offset", e.offset, "own", own, "reason", rejected.Reason, "detail", rejected.Detail)
	case err != nil:
		return err
	default:
		l.changed = append(l.changed, changed...)
		l.moved = time.Now()
		if e.skip != nil {
			l.log.Warn("the group passes over records: it was told to", "records", e.skip.Gap, "ledger", e.offset)
		}
	}
	if base {
		l.beginBase(2 * time.Minute)
	}
	return nil
}

// watch takes down what a commit says of its author.
func (l *life) watch(offset int64, c *Commit, accepted bool) {
	p := l.peers[c.Member]
	if p == nil {
		p = &Peer{Member: c.Member.String()}
		l.peers[c.Member] = p
	}
	if p.At, p.Behind = time.Now(), offset-c.Base-1; accepted {
		p.Accepted, p.Events = p.Accepted+1, p.Events+c.Events
	} else {
		p.Rejected++
	}
}

// compare takes down the hash of a base, this member's or the group's, and compares the two
// when it knows both.
func (l *life) compare(base int64, whose int, hash uint64) {
	both := l.marks[base]
	both[whose] = hash
	l.marks[base] = both
	for len(l.marks) > 16 {
		delete(l.marks, slices.Min(slices.Collect(maps.Keys(l.marks))))
	}
	if both[0] != 0 && both[1] != 0 && both[0] != both[1] {
		l.current.Mismatches++
		l.log.Error("this member's model is not the group's: stop it and start it again, it then begins with the newest base; if that recurs, verify the group (blankout group verify) and look for another version of the program or damaged memory",
			"base", base, "hash", fmt.Sprintf("%016x", both[0]), "group", fmt.Sprintf("%016x", both[1]))
	}
}

// live is the loop. It always returns an error: errStop and ctx's are no failures.
func (l *life) live(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := l.fold(ctx); err != nil {
			return err
		}
		now := time.Now()
		if now.Sub(l.told) > reportEvery {
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
		if l.turn == nil || l.source == nil {
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
		if l.events > 0 && (l.events >= l.size || time.Since(l.began) >= l.Config.IntervalMax) {
			if err := l.publish(ctx); err != nil {
				return err
			}
		}
	}
}

// fold takes what is there of the ledger, and what jobs come back with.
func (l *life) fold(ctx context.Context) error {
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

// applyOrReload is apply; where the ledger has been trimmed before it was read, the
// member goes on from the newest base, and the interval is lost.
func (l *life) applyOrReload(ctx context.Context, e mixed) error {
	err := l.apply(e)
	var trimmed *stream.TrimmedError
	if !errors.As(err, &trimmed) {
		return err
	}
	l.log.Warn("this member is behind what is left of the ledger; it goes on from the newest base", "err", err)
	l.drop()
	if err := l.load(ctx); err != nil {
		return err
	}
	return l.reopen(ctx)
}

// over looks whether the generation has ended, and if so gives it up: with a commit where
// there is time.
func (l *life) over(ctx context.Context) (bool, error) {
	select {
	case <-l.turn.Done():
	default:
		return false, nil
	}
	err := l.turn.Err()
	switch {
	case errors.Is(err, stream.ErrRebalance):
		finishing, cancel := context.WithTimeout(ctx, l.Config.RebalanceTimeout/2)
		err = l.publish(finishing)
		cancel()
		if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			l.log.Warn("what was learned last could not be committed in time; others learn it again", "events", l.events, "err", err)
			l.drop()
			err = nil
		}
	case errors.Is(err, stream.ErrSession):
		l.log.Warn("this member was given up by its group; what it learned last is dropped, and it joins again", "events", l.events)
		l.drop()
		err = nil
	}
	if err != nil {
		return false, err
	}
	if l.source != nil {
		l.source.Close()
		l.source = nil
	}
	l.turn = nil
	l.current.Partitions = nil
	l.joins.again <- struct{}{}
	return true, nil
}

// drop forgets the interval.
func (l *life) drop() {
	l.current.Again += l.events
	l.events, l.spans = 0, nil
}

// first tells whether this member has the lowest partition: it learns alone first, and
// writes the bases.
func (l *life) first() bool {
	if l.turn == nil || len(l.turn.Partitions) == 0 {
		return false
	}
	p := l.turn.Partitions[0]
	return p.Topic == slices.Min(l.topics()) && p.Partition == 0
}

// open begins to read the generation's partitions, from where the fold has come to. A
// member that stands by reads none, and others wait while the first one learns alone.
func (l *life) open(ctx context.Context) error {
	if len(l.turn.Partitions) == 0 || !l.first() && l.cold() {
		return nil
	}
	return l.reopen(ctx)
}

// cold tells whether the first member still learns alone. When nothing comes of that for
// a session, nobody waits longer: its partitions may be empty.
func (l *life) cold() bool {
	return l.replica.fold.Learner().Metrics().Events < l.Config.Warm && time.Since(l.moved) < l.Config.SessionTimeout
}

// reopen reads the generation's partitions from where the fold has come to.
func (l *life) reopen(ctx context.Context) (err error) {
	if l.source != nil {
		l.source.Close()
		l.source = nil
	}
	if l.turn == nil || len(l.turn.Partitions) == 0 {
		return nil
	}
	c := l.Kafka
	c.Only, c.Log = l.turn.Partitions, l.log
	c.UntilEnd = false
	var from blankout.Offsets
	for _, p := range l.replica.fold.Offsets() {
		if slices.Contains(c.Only, stream.TopicPartition{Topic: p.Topic, Partition: p.Partition}) {
			*from.At(p.Topic, p.Partition, p.Next) = p
		}
	}
	l.at, l.spans, l.events = map[stream.TopicPartition]int64{}, nil, 0
	l.schema = l.replica.fold.Learner().Schema().Clone()
	if l.source, err = l.Open(ctx, c, l.schema, from); err != nil {
		return l.trimmedError(err)
	}
	return l.begin()
}

// begin makes the work equal to the fold and begins an interval.
func (l *life) begin() error {
	began := time.Now()
	fold := l.replica.fold
	t := fold.Learner().Metrics().Events
	learning := max(1, l.turn.Members-l.turn.Standby)
	peers := learning
	if l.first() && l.cold() {
		peers = 1
	}
	l.size = min(max(uint64(l.Config.Share*float64(t))/uint64(learning), l.Config.IntervalMin), l.Config.IntervalEvents)
	if err := l.work.Follow(fold.Learner(), l.changed, peers, l.size); err != nil {
		return err
	}
	l.work.SetSchema(l.schema)
	l.changed, l.spans, l.events, l.began = l.changed[:0], nil, 0, time.Time{}
	l.base, l.chain = fold.Base()
	l.known = len(fold.Learner().Schema().Fields)
	l.current.Rebase += time.Since(began).Seconds()
	return nil
}

// learn counts in the next batch of events, if one comes soon.
func (l *life) learn(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	b := &l.batch
	switch err := l.source.Next(wait, b); {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case wait.Err() != nil && errors.Is(err, wait.Err()):
		return nil
	default:
		return fmt.Errorf("reading events: %w", l.trimmedError(err))
	}
	if b.Reset {
		return fmt.Errorf("%s/%d: the offset to go on at is out of range, and a group goes on at no other: restore the records, or begin another group", b.Topic, b.Partition)
	}
	s := l.span(b)
	if s == nil {
		return nil
	}
	if l.began.IsZero() {
		l.began = time.Now()
	}
	l.intake.Learner = l.work
	n, _, err := l.intake.Admit(ctx, b)
	if err != nil {
		return err
	}
	if err := l.intake.Learn(ctx, b, n, s); err != nil {
		return err
	}
	if err := l.intake.HandOn(ctx, b); err != nil {
		return err
	}
	s.To = b.Next
	l.at[stream.TopicPartition{Topic: b.Topic, Partition: b.Partition}] = b.Next
	l.events += uint64(len(b.Examples))
	return nil
}

// span returns the interval's span of a batch's partition, nil for a Batch that only says
// where the partition is gone on from.
func (l *life) span(b *blankout.Batch) *Span {
	for i := range l.spans {
		if s := &l.spans[i]; s.Topic == b.Topic && s.Partition == b.Partition {
			return s
		}
	}
	p := stream.TopicPartition{Topic: b.Topic, Partition: b.Partition}
	from, known := l.at[p]
	if !known || b.Next == from {
		l.at[p] = b.Next
		return nil
	}
	l.spans = append(l.spans, Span{Topic: b.Topic, TopicID: b.TopicID, Partition: b.Partition, From: from, To: from})
	return &l.spans[len(l.spans)-1]
}

// publish commits the interval, waits for what the fold says of it, and begins the next.
func (l *life) publish(ctx context.Context) error {
	if l.events == 0 || l.source == nil {
		return nil
	}
	if err := l.intake.Flush(ctx); err != nil {
		return err
	}
	began := time.Now()
	l.committing = began
	defer func() { l.committing = time.Time{} }()
	d := l.work.Cut(l.Config.Precision)
	c := &Commit{
		Fingerprint: l.replica.fold.Fingerprint(), Member: l.id, Seq: l.seq, Base: l.base, Chain: l.chain,
		Spans: slices.DeleteFunc(l.spans, func(s Span) bool { return s.From == s.To }), Kind: d.Kind, Events: d.Events,
	}
	if fields := l.work.Schema().Fields; len(fields) > l.known {
		c.Fields = slices.Clone(fields[l.known:])
	}
	l.seq++
	chunks, refs := EncodeChunks(l.id, c.Seq, d)
	c.Chunks = refs
	for i, data := range chunks {
		var at stream.Place
		err := l.await(func() (err error) {
			at, err = l.ledger.AppendChunk(ctx, data)
			return err
		})
		if err != nil {
			return err
		}
		refs[i].Partition, refs[i].Offset = at.Partition, at.Offset
		l.current.DeltaBytes += uint64(len(data))
	}
	l.current.DeltaRows += uint64(len(d.Columns))
	var offset int64
	err := l.await(func() (err error) {
		if offset, err = l.ledger.AppendCommit(ctx, c.Encode()); err == nil && offset < 0 {
			var end int64
			end, err = l.ledger.End(ctx)
			offset = end - 1
		}
		return err
	})
	if err != nil {
		return err
	}
	l.current.Committed++
	refused, events := l.current.Refused, l.events
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for l.replica.read <= offset {
		select {
		case <-tick.C:
			l.report("")
		case <-ctx.Done():
			return ctx.Err()
		case take := <-l.jobs:
			take()
		case e := <-l.entries.next:
			if err := l.applyOrReload(ctx, e); err != nil {
				return err
			}
		}
	}
	l.current.Commit += time.Since(began).Seconds()
	if l.current.Refused != refused {
		l.current.Again += events
		l.spans, l.events = nil, 0
		return l.reopen(ctx) // from where the fold has come to
	}
	if !l.follows() {
		return l.reopen(ctx)
	}
	return l.begin()
}

// await returns what call returns, which writes to the ledger. Meanwhile the status is
// published as ever.
func (l *life) await(call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			l.report("")
		}
	}
}

// follows tells whether the fields that the source's decoder numbers are still those of
// the fold: another member may have met others first.
func (l *life) follows() bool {
	fold := l.replica.fold.Learner().Schema().Fields
	mine := l.schema.Fields
	if len(fold) > len(mine) {
		return false
	}
	for i := range fold {
		if fold[i].Name != mine[i].Name {
			return false
		}
	}
	return true
}

// keeping is about whether the brokers keep the group's topics for ever.
type keeping struct {
	cancel context.CancelFunc // of the look under way, nil if there is none
	at     time.Time          // of the last one
	err    error              // a *stream.RetentionError, once one has been found
}

// keepEvery is how often it is looked.
const keepEvery = time.Hour

// keeps looks whether the brokers keep the ledger and the bases for ever.
func (l *life) keeps(ctx context.Context) error {
	mix, base := l.Config.Topics()
	return stream.CheckRetention(ctx, l.Kafka.ConnectConfig, mix, base, l.log)
}

// keepIfDue has a goroutine look again. What it cannot find out it is asked again later.
func (l *life) keepIfDue() {
	if l.kept.cancel != nil || time.Since(l.kept.at) < cmp.Or(l.keepEvery, keepEvery) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.Kafka.RequestTimeout)
	l.kept.cancel, l.kept.at = cancel, time.Now()
	go func() {
		err := l.keeps(ctx)
		l.jobs <- func() {
			cancel()
			var expires *stream.RetentionError
			if l.kept.cancel = nil; errors.As(err, &expires) {
				l.kept.err = err
			}
		}
	}()
}

// leaveBase has the first member write a base when it leaves, and so the last one that
// leaves a group: the next start needs nothing of the ledger before.
func (l *life) leaveBase() {
	if !l.first() {
		return
	}
	for l.busy {
		(<-l.jobs)()
	}
	if l.replica.fold.Accepted() > l.based {
		l.beginBase(l.Config.RebalanceTimeout / 2)
	}
}

// beginBase has a goroutine encode the fold as it is now; the first member's writes it as
// a base, within a time, and trims the ledger.
func (l *life) beginBase(within time.Duration) {
	if l.busy {
		return // the next one will do
	}
	encode, err := l.replica.encode()
	if err != nil {
		l.log.Error("no base can be made", "err", err)
		return
	}
	offset, writes := l.replica.read, l.first()
	l.based = l.replica.fold.Accepted()
	floors := maps.Clone(l.replica.floorsAt)
	l.busy = true
	go func() {
		data, err := encode()
		hash := xxhash.Sum64(data)
		if err == nil && writes {
			ctx, cancel := context.WithTimeout(context.Background(), within)
			defer cancel()
			var before int64
			before, err = l.bases.Write(ctx, &stream.Base{Offset: offset, Data: data})
			if chunks, ok := floors[before]; err == nil && ok {
				err = l.ledger.Trim(ctx, append([]int64{before}, chunks...))
			}
		}
		l.jobs <- func() {
			l.busy = false
			l.replica.encoded = len(data)
			if err != nil {
				l.log.Error("a base could not be written, the next one is tried", "offset", offset, "err", err)
				return
			}
			text := fmt.Sprintf("%016x", hash)
			l.current.BaseOffset, l.current.BaseHash, l.current.BaseAt = offset, text, time.Now()
			l.log.Info("base", "offset", offset, "hash", text, "bytes", len(data), "written", writes)
			l.compare(offset, 0, hash)
			if writes {
				l.mark(&Mark{l.id, offset, hash})
			}
		}
	}()
}

// mark tells the others which bytes a base has. Without it they compare nothing.
func (l *life) mark(m *Mark) {
	ctx, cancel := context.WithTimeout(context.Background(), l.Kafka.RequestTimeout)
	defer cancel()
	if _, err := l.ledger.AppendCommit(ctx, m.Encode()); err != nil {
		l.log.Warn("the group was not told the hash of a base", "offset", m.Base, "err", err)
	}
}

const reportEvery = 200 * time.Millisecond

// report publishes a Status.
func (l *life) report(notReady string) {
	s := l.current
	f := l.replica.fold
	_, chain := f.Base()
	s.Offset, s.Lag, s.Chain = l.replica.read, l.entries.lag(), fmt.Sprintf("%016x", chain)
	s.Accepted, s.Rejected, s.Positions, s.Skipped = f.Accepted(), f.Rejected(), f.Offsets(), f.Skipped()
	s.Counts = l.intake.Counts()
	s.HeldOut = s.Counts.HeldOut
	s.Partitions, s.Metrics, s.Writer = slices.Clone(s.Partitions), f.Learner().Metrics(), l.first()
	s.Warnings = f.Learner().Warnings(l.Settings, false)
	for _, w := range s.Warnings {
		if !l.warned[w.Kind] {
			l.warned[w.Kind] = true
			l.log.Warn(w.Text, "warning", w.Kind)
		}
	}
	s.At, s.NotReady, s.Pending = time.Now(), notReady, l.events
	if s.NotReady == "" {
		s.NotReady = l.failing()
	}
	s.Peers = make([]Peer, 0, len(l.peers))
	for id, p := range l.peers {
		if s.At.Sub(p.At) > time.Hour {
			delete(l.peers, id)
		} else {
			s.Peers = append(s.Peers, *p)
		}
	}
	slices.SortFunc(s.Peers, func(a, b Peer) int { return strings.Compare(a.Member, b.Member) })
	if l.model == nil || l.replica.read != l.modelOf && s.At.Sub(l.modelAt) >= max(time.Second, 20*l.modelCost) || notReady != "" {
		l.model, l.modelOf, l.modelAt = f.Learner().Snapshot(), l.replica.read, s.At
		l.modelCost = time.Since(s.At)
	}
	s.Model, s.Version = l.model, l.modelOf
	l.told = s.At
	l.status.Store(&s)
	if l.Observe != nil {
		l.Observe(&s)
	}
}

// failing says what cannot be read, or written, "" if there is nothing.
func (l *life) failing() string {
	if why := l.entries.reader.Failing(); why != "" {
		return why
	}
	if source, ok := l.source.(*stream.Consumer); ok {
		stats := source.Stats()
		if why := stats.Failing(); why != "" {
			return why
		}
	}
	if took := time.Since(l.committing); !l.committing.IsZero() && took > l.Kafka.RequestTimeout {
		return fmt.Sprintf("a commit has taken %s so far", took.Round(time.Second))
	}
	return ""
}

// joins is the goroutine that joins: it may wait for others.
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
			j.joined <- joined{generation, err} // has room: one is taken before the next is asked for
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

// mixed is a record of the ledger with its chunks.
type mixed struct {
	offset int64
	commit *Commit  // nil: it is none
	mark   *Mark    // nil: it is none
	call   *Call    // nil: it is none
	skip   *Skip    // nil: it is none
	chunks []*Chunk // nil for one that is not there, and never will be
	gone   []bool   // for one that was trimmed
	err    error    // final
}

// entries is the goroutine that reads the ledger.
type entries struct {
	next   chan mixed
	stop   func()
	reader *stream.LedgerReader
}

func (e *entries) lag() int64 { return e.reader.Lag() + int64(len(e.next)) }

// readEntries reads the ledger from where a replica has come to.
func readEntries(ctx context.Context, c stream.LedgerConfig, r *replica) (*entries, error) {
	reader, err := stream.ReadLedger(ctx, c, r.topicID, r.read, false)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	e := &entries{next: make(chan mixed, 16), reader: reader}
	var running sync.WaitGroup
	running.Go(func() {
		send := func(x mixed) bool {
			select {
			case e.next <- x:
				return x.err == nil
			case <-ctx.Done():
				return false
			}
		}
		for {
			records, err := reader.Next(ctx)
			if err != nil {
				send(mixed{err: err})
				return
			}
			for _, record := range records {
				if !send(readMixed(ctx, reader, record.Offset, record.Value)) {
					return
				}
			}
		}
	})
	var once sync.Once
	e.stop = func() {
		once.Do(func() { cancel(); running.Wait(); reader.Close() })
	}
	return e, nil
}

// readMixed reads the chunks of a commit.
func readMixed(ctx context.Context, reader *stream.LedgerReader, offset int64, value []byte) mixed {
	e := mixed{offset: offset}
	c, err := DecodeCommit(value)
	if err != nil {
		if m, err := DecodeMark(value); err == nil {
			e.mark = m
		}
		if c, err := DecodeCall(value); err == nil {
			e.call = c
		}
		if s, err := DecodeSkip(value); err == nil {
			e.skip = s
		}
		return e // for all readers the same
	}
	e.commit, e.chunks, e.gone = c, make([]*Chunk, len(c.Chunks)), make([]bool, len(c.Chunks))
	for i, ref := range c.Chunks {
		data, err := reader.Chunk(ctx, stream.Place{Partition: ref.Partition, Offset: ref.Offset})
		var trimmed *stream.TrimmedError
		if errors.As(err, &trimmed) {
			e.gone[i] = true // which matters only if the commit may refer to it
			continue
		}
		if err != nil {
			e.err = err
			return e
		}
		if e.chunks[i], err = DecodeChunk(data); err != nil {
			e.chunks[i] = nil
		}
	}
	return e
}

// replica is the fold of a ledger with what else depends on the ledger alone.
type replica struct {
	fold    *Fold
	topicID string
	every   uint64
	read    int64 // the offset that follows the last record seen
	// Offsets of chunks, indexed by partition less one: those behind all that accepted
	// commits refer to, up to now and up to the latest base. Floors are the same up to the
	// base before the latest: a commit that refers to something before them is not accepted,
	// so that a member that begins with the latest base needs nothing before its floors.
	refs, before, floors []int64
	floorsAt             map[int64][]int64 // by offset of the latest bases
	encoded              int               // bytes of the latest base
}

const blockMix = "mix"

// mixBlock is what a base holds of a replica beside the fold, as JSON.
type mixBlock struct {
	TopicID string  `json:"topic_id"`
	Read    int64   `json:"read"`
	Refs    []int64 `json:"refs"`
	Before  []int64 `json:"before"`
	Floors  []int64 `json:"floors"`
	// Settings are the Member's. A base of an earlier program has none.
	Settings online.Fingerprint `json:"settings,omitempty"`
}

// SettingsError says that a group learns under other settings than those that a member, or
// who looks at its ledger, was given. No base says of which group without one they are.
type SettingsError struct{ Differences []string }

func (e *SettingsError) Error() string {
	which := `it has no base yet that would say which`
	if len(e.Differences) > 0 {
		which = strings.Join(e.Differences, "; ") + `; "was" is the group's, "is" is given here`
	}
	return fmt.Sprintf("the group learns under other settings than are given here (%s): give its members, and the commands that look at it, the same configuration, or begin another group", which)
}

// newReplica makes a replica of a group that has learned nothing. Where the Schema has no
// seed the id of the ledger's topic is it, which the broker draws: all members have the same
// one, and nobody who writes events knows which names share a column.
func newReplica(c online.Config, settings online.Fingerprint, s *blankout.Schema, topicID string, every uint64) (*replica, error) {
	if s.Seed == 0 {
		s.Seed = xxhash.Sum64String(topicID)
	}
	learner, err := online.New(c.Shared(), s)
	if err != nil {
		return nil, err
	}
	return &replica{fold: NewFold(learner, settings, nil), topicID: topicID, every: every, floorsAt: map[int64][]int64{}}, nil
}

// newestReplica makes a replica of the newest base that is sound; there is none of either
// where there is no base. A base of other settings is an error, not one to pass over.
func newestReplica(ctx context.Context, bases *stream.BaseTopic, m *Member) (base *stream.Base, r *replica, err error) {
	var settings *SettingsError
	base, err = bases.Newest(ctx, func(b *stream.Base) (err error) {
		if r, err = readReplica(m.Learner, m.Settings, b, m.Config.BaseEvery); errors.As(err, &settings) {
			return nil
		}
		return err
	})
	if err == nil && settings != nil {
		err = fmt.Errorf("base %d: %w", base.Offset, settings)
	}
	return base, r, err
}

// beginFrom writes the base that this group begins with: the state of the newest base of
// another group, at the beginning of a ledger. Several members that do so at a time write
// the same one. What may not change is what a base of this group would be refused for.
func (l *life) beginFrom(ctx context.Context) (*stream.Base, *replica, error) {
	if end, err := l.ledger.End(ctx); err != nil {
		return nil, nil, err
	} else if end > 0 {
		return nil, nil, fmt.Errorf("group %s has begun already, and has no base: give the new group another name", l.Config.Name)
	}
	old := Config{Name: l.From}
	where := old.Bases(l.Kafka.ConnectConfig, l.log)
	where.Create = false
	topic, err := stream.OpenBases(ctx, where)
	if err != nil {
		return nil, nil, err
	}
	defer topic.Close()
	base, r, err := newestReplica(ctx, topic, l.Member)
	if err != nil {
		return nil, nil, err
	}
	if base == nil {
		return nil, nil, errors.New("it has written no base")
	}
	fold := NewFold(r.fold.learner, l.Settings, r.fold.offsets)
	fold.skipped, fold.chain = r.fold.skipped, xxhash.Sum64(base.Data) // so that no commit fits another beginning
	fold.history[0].chain = fold.chain
	encode, err := (&replica{fold: fold, topicID: l.ledger.ID()}).encode()
	if err != nil {
		return nil, nil, err
	}
	data, err := encode()
	if err != nil {
		return nil, nil, err
	}
	if _, err := l.bases.Write(ctx, &stream.Base{Data: data}); err != nil {
		return nil, nil, err
	}
	l.log.Info("the group begins with what another has learned", "from", l.From, "base", base.Offset, "events", fold.learner.Metrics().Events)
	return newestReplica(ctx, l.bases, l.Member)
}

// readReplica makes a replica of a base.
func readReplica(c online.Config, settings online.Fingerprint, base *stream.Base, every uint64) (*replica, error) {
	file, err := checkpoint.Decode(base.Data)
	if err != nil {
		return nil, err
	}
	r := &replica{every: every, floorsAt: map[int64][]int64{}}
	var mismatch *online.MismatchError
	if r.fold, err = ReadFold(c, settings, file.Blocks); errors.As(err, &mismatch) {
		return nil, &SettingsError{mismatch.Differences}
	} else if err != nil {
		return nil, err
	}
	text, err := blankout.FindBlock(file.Blocks, blockMix)
	if err != nil {
		return nil, fmt.Errorf("%w: this is no base of a group", err)
	}
	var b mixBlock
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, fmt.Errorf("block %s: %w", blockMix, err)
	}
	if differences := settings.Diff(b.Settings); len(b.Settings) > 0 && len(differences) > 0 {
		return nil, &SettingsError{differences}
	}
	if b.Read != base.Offset {
		return nil, fmt.Errorf("it is that of offset %d", b.Read)
	}
	r.topicID, r.read, r.refs, r.before, r.floors = b.TopicID, b.Read, b.Refs, b.Before, b.Floors
	r.floorsAt[r.read] = r.floors
	return r, nil
}

// apply shows a record of the ledger to the fold. base says that one is due.
func (r *replica) apply(e mixed) (changed []uint32, base bool, err error) {
	r.read = e.offset + 1
	if e.skip != nil {
		if err := r.fold.Skip(e.offset, e.skip); err != nil {
			return nil, false, err
		}
		return nil, r.due(), nil
	}
	if e.commit == nil {
		return nil, false, nil
	}
	for i, ref := range e.commit.Chunks {
		p := int(ref.Partition) - 1
		if p >= 0 && p < len(r.floors) && ref.Offset < r.floors[p] {
			e.chunks[i] = nil
		} else if e.gone[i] {
			return nil, false, &stream.TrimmedError{Place: stream.Place{Partition: ref.Partition, Offset: ref.Offset}}
		}
	}
	if changed, err = r.fold.Apply(e.offset, e.commit, e.chunks); err != nil {
		return nil, false, err
	}
	schema := r.fold.Learner().Schema()
	for _, f := range e.commit.Fields {
		if !slices.ContainsFunc(schema.Fields, func(g blankout.Field) bool { return g.Name == f.Name }) {
			f.Column = records.OwnColumn(schema, f.Name, f.Kind) // which commits do not say
			schema.AddField(f)
		}
	}
	for _, ref := range e.commit.Chunks {
		p := int(ref.Partition) - 1
		for len(r.refs) <= p {
			r.refs = append(r.refs, 0)
		}
		r.refs[p] = max(r.refs[p], ref.Offset+1)
	}
	return changed, r.due(), nil
}

// due says after an accepted commit whether a base is due, and if so prepares for it.
func (r *replica) due() bool {
	if r.fold.Accepted()%r.every != 0 {
		return false
	}
	r.floors, r.before = r.before, slices.Clone(r.refs)
	r.floorsAt[r.read] = r.floors
	for len(r.floorsAt) > 4 {
		delete(r.floorsAt, slices.Min(slices.Collect(maps.Keys(r.floorsAt))))
	}
	return true
}

// encode freezes the replica and returns what encodes it as a base, on any goroutine.
func (r *replica) encode() (func() ([]byte, error), error) {
	blocks, err := r.fold.EachBlock()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(mixBlock{r.topicID, r.read, r.refs, r.before, r.floors, r.fold.settings})
	if err != nil {
		return nil, err
	}
	room := r.encoded + r.encoded/16
	return func() ([]byte, error) {
		var out bytes.Buffer
		out.Grow(room)
		err := checkpoint.Write(&out, checkpoint.Linear, func(yield func(blankout.Block) bool) {
			if yield(blankout.Block{Name: blockMix, Data: text}) {
				blocks(yield)
			}
		})
		return out.Bytes(), err
	}, nil
}
