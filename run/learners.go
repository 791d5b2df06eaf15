package run

// This file has several learners, each on a goroutine of its own, learn one model.

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"

	"blankout"
	"blankout/online"
)

// Learners says how several learners of one process learn one model (online.Learner.Share). The
// events come in rounds: each learner gets as many as an interval has, one after the other
// in the order of the stream, all learn at the same time, and what they have learned is
// then added to the Runner's Learner in the same order. The state after a number of
// events thus depends on those events and these settings alone, to the bit.
type Learners struct {
	N int // learners; at most 1 is the Runner's Learner alone
	// Warm is how many events the model has learned before it is shared.
	Warm uint64
	// An interval is Share of the events learned so far, divided by N, and between
	// MinInterval and MaxInterval.
	Share                    float64
	MinInterval, MaxInterval uint64
}

// DefaultLearners returns the settings for n learners.
func DefaultLearners(n int) Learners {
	return Learners{N: n, Warm: 10_000, Share: 0.02, MinInterval: 1000, MaxInterval: 20_000}
}

// Check says why the settings make no sense.
func (s Learners) Check() error {
	switch {
	case s.N < 0 || s.N > 1024:
		return fmt.Errorf("learners: %d, want 1 to 1024", s.N)
	case s.N > 1 && !(s.Share >= 0 && s.Share <= 1):
		return fmt.Errorf("learners: share %v, want 0 to 1", s.Share)
	case s.N > 1 && (s.MinInterval < 1 || s.MaxInterval < s.MinInterval || s.MaxInterval > online.MaxInterval):
		return fmt.Errorf("learners: intervals of %d to %d events, want 1 to %d", s.MinInterval, s.MaxInterval, online.MaxInterval)
	}
	return nil
}

// CheckLearner says, naming the key, why several learners with these settings cannot learn one
// model.
func (s Learners) CheckLearner(c online.Config) error {
	if c.Suspect > 0 {
		return blankout.KeyErrorf("suspect", "suspect = %v: the learners of one process report no suspects; set suspect = 0, or let several processes learn in a group", c.Suspect)
	}
	return c.CheckSharedAfter(s.Warm)
}

// Fingerprint is what gives the weights their meaning: nothing for one learner.
func (s Learners) Fingerprint() online.Fingerprint {
	if s.N <= 1 {
		return nil
	}
	return online.Fingerprint{
		"learners":          strconv.Itoa(s.N),
		"learners_interval": fmt.Sprintf("%d to %d events, %v of those before, after %d", s.MinInterval, s.MaxInterval, s.Share, s.Warm),
	}
}

// KeepLearners gives a Fingerprint what another one says of learners: for those who do not
// go on learning, to whom it makes no difference.
func KeepLearners(to, from online.Fingerprint) {
	for _, key := range []string{"learners", "learners_interval"} {
		if value, ok := from[key]; ok {
			to[key] = value
		}
	}
}

// interval is how many events a learner gets in a round that begins after so many.
func (s Learners) interval(events uint64) uint64 {
	return min(max(uint64(s.Share*float64(events))/uint64(s.N), s.MinInterval), s.MaxInterval)
}

// team is the learners of a Run, and the round at hand.
type team struct {
	Learners
	fold    *online.Learner
	members []*member
	done    sync.WaitGroup // of their goroutines

	interval uint64
	turn     int    // the member that gets events now
	given    uint64 // to it, in this round
	piece    piece  // of it, not yet handed over
	began    beginning
}

// beginning is where in the stream the shared model belongs: where the latest round began.
type beginning struct {
	offsets blankout.Offsets
	sample  []byte // of the Runner's reservoir
}

// member is one of the learners. Its goroutine alone touches learner, but between rounds.
type member struct {
	learner *online.Learner
	orders  chan order
	cut     chan cutResult
	ready   chan error // after a new round's begin
}

type cutResult struct {
	delta *online.Delta
	err   error
}

// order is one of three: to learn events, to cut, or to begin a round.
type order struct {
	piece
	cut   bool
	state []byte // of the fold
	begin *round
}

type round struct {
	columns  []uint32 // rows that have changed
	peers    int
	interval uint64
}

// piece is a run of a batch's events.
type piece struct {
	events []*blankout.Example
	schema *blankout.Schema
	batch  *sharedBatch
}

// sharedBatch is a batch of which pieces are being learned. Its last user
// gives it back.
type sharedBatch struct {
	*blankout.Batch
	users atomic.Int64
	free  chan<- *blankout.Batch
}

func (b *sharedBatch) release() {
	if b.users.Add(-1) == 0 {
		b.free <- b.Batch // never blocks: there are as many places as Batches
	}
}

// start makes the members copies of the fold and starts their goroutines; stop ends them.
func (t *team) start() error {
	for range t.N {
		l, err := t.fold.Clone()
		if err != nil {
			return err
		}
		m := &member{learner: l, orders: make(chan order, 64), cut: make(chan cutResult, 1), ready: make(chan error, 1)}
		t.members = append(t.members, m)
		t.done.Add(1)
		go func() {
			defer t.done.Done()
			m.work(t.fold)
		}()
	}
	return nil
}

// stop ends the goroutines. What the round at hand has come to is lost.
func (t *team) stop() {
	for _, m := range t.members {
		close(m.orders)
	}
	t.done.Wait()
}

// work does what is ordered. After an error the member learns nothing more and says the
// error whenever it is asked.
func (m *member) work(fold *online.Learner) {
	var err error
	for o := range m.orders {
		switch {
		case o.begin != nil:
			if err == nil {
				err = m.learner.FollowState(fold, o.state, o.begin.columns, o.begin.peers, o.begin.interval)
			}
			m.ready <- err
		case o.cut && err != nil:
			m.cut <- cutResult{nil, err}
		case o.cut:
			m.cut <- cutResult{m.learner.Cut(64), nil}
		default:
			if err == nil {
				err = m.learn(o.piece)
			}
			o.batch.release()
		}
	}
}

func (m *member) learn(p piece) (err error) {
	i := 0
	defer func() {
		if cause := recover(); cause != nil {
			err = &panicError{p.batch.Topic, p.batch.Partition, p.events[i].Offset, cause, debug.Stack()}
		}
	}()
	if p.schema != nil {
		m.learner.SetSchema(p.schema)
	}
	for ; i < len(p.events); i++ {
		if i+1 < len(p.events) {
			m.learner.Prefetch(p.events[i+1])
		}
		m.learner.Learn(p.events[i])
	}
	return nil
}

// running says whether a round is under way.
func (t *team) running() bool { return t != nil && t.interval > 0 }

// warm says whether the model has learned enough to be shared.
func (t *team) warm() bool { return t.fold.Events() >= t.Warm }

// begin begins a round: every member becomes equal to the fold, in which the rows of columns
// have changed since the last one began.
func (t *team) begin(columns []uint32, at beginning) error {
	if t.members == nil {
		if err := t.start(); err != nil {
			return err
		}
	}
	t.interval, t.turn, t.given, t.began = t.Learners.interval(t.fold.Events()), 0, 0, at
	state, r := t.fold.State(), &round{columns, t.N, t.interval}
	for _, m := range t.members {
		m.orders <- order{begin: r, state: state}
	}
	var errs []error
	for _, m := range t.members {
		errs = append(errs, <-m.ready)
	}
	return errors.Join(errs...)
}

// give gives an event to the member whose turn it is. complete says that all have had
// their share of the round: it must then be merged.
func (t *team) give(b *sharedBatch, e *blankout.Example) (complete bool) {
	if t.piece.batch != b {
		t.hand()
		t.piece = piece{schema: b.Schema, batch: b}
	}
	t.piece.events = append(t.piece.events, e)
	if t.given++; t.given < t.interval {
		return false
	}
	t.hand()
	t.members[t.turn].orders <- order{cut: true} // while the others learn
	t.turn, t.given = t.turn+1, 0
	return t.turn == t.N
}

// hand hands the piece at hand over.
func (t *team) hand() {
	if len(t.piece.events) > 0 {
		t.piece.batch.users.Add(1)
		t.members[t.turn].orders <- order{piece: t.piece}
	}
	t.piece = piece{}
}

// merge waits for what the members have learned in the round, adds it to the fold, and
// returns the columns whose rows have changed. The round may be incomplete.
func (t *team) merge() (columns []uint32, err error) {
	t.hand()
	members := t.members[:t.turn]
	if t.given > 0 {
		m := t.members[t.turn]
		m.orders <- order{cut: true}
		members = t.members[:t.turn+1]
	}
	t.interval, t.turn, t.given = 0, 0, 0
	var deltas []*online.Delta
	var errs []error
	for _, m := range members {
		r := <-m.cut
		deltas, errs = append(deltas, r.delta), append(errs, r.err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, d := range deltas {
		t.fold.Add(d)
		columns = append(columns, d.Columns...)
	}
	return columns, nil
}

// batchesAhead is how many more Batches go round for each learner but one.
const batchesAhead = 40

// startLearners starts the team, if there is to be one.
func (l *loop) startLearners() (err error) {
	if err := l.Runner.Learners.Check(); err != nil || l.Runner.Learners.N <= 1 {
		return err
	}
	if l.adopter.every > 0 {
		return errors.New("learners: exact solutions cannot be adopted by several learners; use one, or set validate.policy to observe or alarm")
	}
	if err := l.Runner.Learners.CheckLearner(l.Learner.Config()); err != nil {
		return fmt.Errorf("learners: %w", err)
	}
	if err := l.Learner.PrepareSharing(); err != nil {
		return fmt.Errorf("learners: %w", err)
	}
	l.team = &team{Learners: l.Runner.Learners, fold: l.Learner}
	if l.team.warm() {
		return l.team.begin(nil, l.beginning())
	}
	return nil
}

// endLearners ends the team. The round at hand, if there is one, is given up: the Learner
// belongs where that began.
func (l *loop) endLearners() {
	if l.team == nil {
		return
	}
	l.team.stop()
	if l.team.running() {
		l.Offsets = l.team.began.offsets.Clone()
	}
}

// share makes a batch one that several may learn of.
func (l *loop) share(b *blankout.Batch) *sharedBatch {
	l.shared = &sharedBatch{Batch: b, free: l.ahead.free}
	l.shared.users.Store(1)
	return l.shared
}

// learnOne learns an event of the batch at hand, or has a member of the team learn it.
func (l *loop) learnOne(e *blankout.Example) error {
	t := l.team
	if t == nil {
		l.confuse(e, l.Learner.Learn(e))
		return nil
	}
	if !t.running() {
		if l.Learner.Learn(e); !t.warm() {
			return nil
		}
		return t.begin(nil, l.beginning())
	}
	if !t.give(l.shared, e) {
		return nil
	}
	columns, err := t.merge()
	if err != nil {
		return err
	}
	l.saver.moved = true
	return t.begin(columns, l.beginning())
}

// beginning is where in the stream the Learner belongs that has learned all events so far.
func (l *loop) beginning() beginning {
	return beginning{l.Offsets.Clone(), l.validator.sample.Encode()}
}

// endRound ends the round at hand where the events end.
func (l *loop) endRound() error {
	if !l.team.running() {
		return nil
	}
	_, err := l.team.merge()
	l.saver.moved = true
	return err
}

// sampled is the reservoir that belongs to the Learner.
func (l *loop) sampled() []byte {
	if l.team.running() {
		return l.team.began.sample
	}
	return l.validator.sample.Encode()
}
