package group

// This file holds the exact problem of a group, solved by its members together: each
// reads the records of its own partitions again, keeps what they become, and answers for
// them; the member that asks sees sums only. What is exchanged is in a topic of its own, NAME-solve.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"blankout"
	"blankout/batch"
	"blankout/batch/joint"
	"blankout/model"
	"blankout/stream"
	"blankout/validate"
)

// Solved says how far the model of a group's newest base is from the exact solution.
type Solved struct {
	Name       string `json:"name"`
	Base       int64  `json:"base"` // stream.Base.Offset
	Members    int    `json:"members"`
	Partitions int    `json:"partitions"`
	Records    uint64 `json:"records"`  // counted in by the base
	Read       uint64 `json:"read"`     // of them, again
	Verified   bool   `json:"verified"` // they are those that were counted in
	Events     uint64 `json:"events"`   // learned, of those read
	Loss       string `json:"loss"`
	Noise      string `json:"noise"`
	Features   int    `json:"features"` // columns of all parts
	// The objective of the model and of the exact solution, how far that is at most from the
	// minimum, and how far the model is from it: in nats and as a share.
	LiveObjective float64 `json:"live_objective"`
	Objective     float64 `json:"objective"`
	Certificate   float64 `json:"certificate"`
	Gap           float64 `json:"gap"`
	RelativeGap   float64 `json:"relative_gap"`
	Converged     bool    `json:"converged"`
	Iterations    int     `json:"iterations"`
	Rounds        int     `json:"rounds"` // questions that every member was asked
	Bytes         uint64  `json:"bytes"`  // written by who asked and by all members
	Seconds       float64 `json:"seconds"`
}

// solveTopic names the topic of what is exchanged. Its records are of no use after an hour.
func (c *Config) solveTopic(kafka stream.ConnectConfig, log *slog.Logger) stream.LedgerConfig {
	l := c.Ledger(kafka, log)
	l.Topic, l.Retention = c.Name+"-solve", time.Hour
	return l
}

const (
	pulse = time.Second // between signs of life
	// patience is how many sessions a member, or the one that asks, may be silent.
	patience = 3
)

// Solve has the members of m's group solve the exact problem of the newest base together.
// m is configured as they are, and is not Run. Solve calls ready while parts are being
// read, and progress as the solver goes on; both may be nil.
func Solve(ctx context.Context, m *Member, progress func(batch.Progress), ready func(parts, of int)) (*Solved, *model.Linear, error) {
	if m.Validator == nil {
		return nil, nil, errors.New("nothing says what the exact problem is: the member has no Validator")
	}
	for attempt := 1; ; attempt++ {
		solved, exact, err := solve(ctx, m, progress, ready)
		if attempt < loadTries && errors.Is(err, errNoBase) {
			continue // newer ones were written while a member came to read it
		}
		return solved, exact, err
	}
}

// errNoBase says that a member found the base of a call deleted.
var errNoBase = errors.New("the base is gone: newer ones have been written since")

// solve is one try of Solve.
func solve(ctx context.Context, m *Member, progress func(batch.Progress), ready func(parts, of int)) (*Solved, *model.Linear, error) {
	begin := time.Now()
	bases, err := m.Config.openBases(ctx, m.Kafka.ConnectConfig, m.Log)
	var missing *stream.TopicMissingError
	var base *stream.Base
	var replica *replica
	if err == nil {
		base, replica, err = newestReplica(ctx, bases, m)
		err = errors.Join(err, bases.Close())
	}
	if err != nil && !errors.As(err, &missing) {
		return nil, nil, err
	}
	if base == nil {
		return nil, nil, fmt.Errorf("group %s has written no base yet: that comes after each group.base_every (%d) commits", m.Config.Name, m.Config.BaseEvery)
	}
	request := requestOf(replica)
	problem := m.Validator.Problem(request)
	if err := joint.Check(problem); err != nil {
		return nil, nil, err
	}
	a := &asker{Member: m, heardAt: map[MemberID]time.Time{}}
	if _, err := rand.Read(a.job[:]); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := a.call(ctx, base.Offset); err != nil {
		return nil, nil, err
	}
	defer a.topic.Close()
	out := &Solved{Name: m.Config.Name, Base: base.Offset, Verified: true, Loss: request.Live.Loss, Noise: request.Live.Noise}
	own, err := a.gather(ctx, request.At, out, ready)
	if err == nil {
		err = a.say(ctx, &message{About: aboutColumns, Parts: a.parts, vector: packColumns(joint.Union(own)), Has: true})
	}
	var exact *joint.Solution
	if err == nil {
		problem.Progress = progress
		exact, err = joint.Solve(ctx, request.Live, a, own, problem)
	}
	end, done := context.WithTimeout(context.WithoutCancel(ctx), m.Kafka.RequestTimeout)
	defer done()
	if no := a.say(end, &message{About: aboutEnd}); no != nil && err == nil {
		err = no
	}
	if err != nil {
		return nil, nil, err
	}
	exact.Events = out.Events
	out.Features, out.LiveObjective, out.Objective, out.Certificate = exact.Columns, exact.Live, exact.Objective, exact.Gap
	out.Gap, out.RelativeGap = exact.Live-exact.Objective, (exact.Live-exact.Objective)/exact.Objective
	out.Converged, out.Iterations, out.Rounds = exact.Converged, exact.Iterations, exact.Rounds
	out.Bytes, out.Seconds = a.bytes, time.Since(begin).Seconds()
	return out, exact.Linear, nil
}

// requestOf returns what a base's exact problem is made of.
func requestOf(r *replica) validate.Request {
	return validate.RequestOf(r.fold.Learner().Snapshot(), r.fold.Offsets())
}

// recordsOf is how many a place in the stream has counted in.
func recordsOf(offsets blankout.Offsets) (n uint64) {
	for _, p := range offsets {
		n += p.Records
	}
	return n
}

// asker is the side that asks: it puts the questions of a joint.Objective to the members.
type asker struct {
	*Member
	job     MemberID
	topic   *stream.Ledger
	heard   <-chan heard
	heardAt map[MemberID]time.Time
	parts   []part // in the order of the base's partitions
	round   uint64
	bytes   uint64
}

// call opens the topic and calls the members.
func (a *asker) call(ctx context.Context, base int64) (err error) {
	config := a.Config.solveTopic(a.Kafka.ConnectConfig, a.Log)
	if a.topic, err = stream.OpenLedger(ctx, config); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.topic.Close())
		}
	}()
	from, err := a.topic.End(ctx)
	if err != nil {
		return err
	}
	reader, err := stream.ReadLedger(ctx, config, a.topic.ID(), from, false)
	if err != nil {
		return err
	}
	a.heard = hear(ctx, reader, func(m *message) bool { return m.Job == a.job && m.Author != MemberID{} })
	ledger, err := a.Config.openLedger(ctx, a.Kafka.ConnectConfig, a.Log)
	if err != nil {
		return err
	}
	call := &Call{Job: a.job, Base: base, From: from, Window: a.Validator.Config.Window}
	_, err = ledger.AppendCommit(ctx, call.Encode())
	return errors.Join(err, ledger.Close())
}

func (a *asker) say(ctx context.Context, m *message) error {
	m.Job = a.job
	n, err := say(ctx, a.topic, m)
	a.bytes += uint64(n)
	return err
}

// listen returns the next message of a member, and keeps telling them meanwhile that
// somebody is waiting. It is an error if a member that has a part is silent for too long.
func (a *asker) listen(ctx context.Context) (*message, error) {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case h, ok := <-a.heard:
			switch {
			case !ok:
				return nil, errors.New("the messages of the members cannot be read any longer")
			case h.err != nil:
				return nil, h.err
			}
			a.heardAt[h.Author] = time.Now()
			a.bytes += uint64(len(h.vector))
			if h.About == aboutFailure && slices.ContainsFunc(a.parts, func(p part) bool { return p.Member == h.Author }) {
				if len(h.Counts) > 0 {
					return nil, fmt.Errorf("member %s: %w", h.Author, errNoBase)
				}
				return nil, fmt.Errorf("member %s: %s", h.Author, h.Text)
			}
			return h.message, nil
		case now := <-tick.C:
			for _, p := range a.parts {
				if at, ok := a.heardAt[p.Member]; ok && now.Sub(at) > patience*a.Config.SessionTimeout {
					return nil, fmt.Errorf("member %s, which has %s/%d, has been silent for %v: ask again when its group has given its partitions to others", p.Member, p.Topic, p.Partition, now.Sub(at).Round(time.Second))
				}
			}
			if err := a.say(ctx, &message{About: aboutWaiting}); err != nil {
				return nil, err
			}
		}
	}
}

// gather waits until every partition that the base has counted records of is read by a
// member, and returns their columns.
func (a *asker) gather(ctx context.Context, offsets blankout.Offsets, out *Solved, ready func(parts, of int)) ([][]uint32, error) {
	for _, p := range offsets {
		out.Records += p.Records
		if p.Records > 0 {
			a.parts = append(a.parts, part{Topic: p.Topic, Partition: p.Partition})
		}
	}
	if len(a.parts) == 0 {
		return nil, errors.New("the base has counted no records in")
	}
	own := make([][]uint32, len(a.parts))
	counts := make([][]uint64, len(a.parts))
	began, left := time.Now(), len(a.parts)
	for left > 0 {
		waiting, cancel := context.WithTimeout(ctx, patience*a.Config.SessionTimeout-time.Since(began))
		listening := waiting
		if !slices.ContainsFunc(a.parts, func(p part) bool { return p.Member == MemberID{} }) {
			listening = ctx // all are claimed: now it takes what it takes
		}
		m, err := a.listen(listening)
		cancel()
		if err != nil {
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				i := slices.IndexFunc(a.parts, func(p part) bool { return p.Member == MemberID{} })
				return nil, fmt.Errorf("no member of group %s answers for %s/%d after %v: start its members, with a program that knows of solving together", a.Config.Name, a.parts[i].Topic, a.parts[i].Partition, time.Since(began).Round(time.Second))
			}
			return nil, err
		}
		find := func(p part) int {
			return slices.IndexFunc(a.parts, func(q part) bool { return q.Topic == p.Topic && q.Partition == p.Partition })
		}
		switch m.About {
		case aboutClaim: // who comes first has it
			for _, p := range m.Parts {
				if i := find(p); i >= 0 && a.parts[i].Member == (MemberID{}) {
					a.parts[i].Member = m.Author
				}
			}
		case aboutReady:
			i := find(m.Part)
			if i < 0 || a.parts[i].Member != m.Author || counts[i] != nil || len(m.Counts) != 3 {
				continue
			}
			own[i], counts[i] = unpackColumns(m.vector), m.Counts
			out.Events, out.Read, out.Verified = out.Events+m.Counts[0], out.Read+m.Counts[1], out.Verified && m.Counts[2] == 1
			left--
			if ready != nil {
				ready(len(a.parts)-left, len(a.parts))
			}
		}
	}
	members := map[MemberID]bool{}
	for _, p := range a.parts {
		members[p.Member] = true
	}
	out.Members, out.Partitions = len(members), len(a.parts)
	return own, nil
}

// Ask implements joint.Parts.
func (a *asker) Ask(ctx context.Context, q *joint.Question) ([]*joint.Answer, error) {
	a.round++
	m := &message{About: aboutQuestion, Round: a.round, Ask: uint64(q.Ask), Output: int64(q.Output), Numbers: q.Scalars, Has: q.W != nil, vector: packFloats(q.W)}
	if err := a.say(ctx, m); err != nil {
		return nil, err
	}
	answers := make([]*joint.Answer, len(a.parts))
	for left := len(answers); left > 0; {
		m, err := a.listen(ctx)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(a.parts, func(p part) bool {
			return p.Member == m.Author && p.Topic == m.Part.Topic && p.Partition == m.Part.Partition
		})
		if m.About != aboutAnswer || m.Round != a.round || i < 0 || answers[i] != nil {
			continue
		}
		answers[i] = &joint.Answer{Sums: m.Numbers}
		if m.Has {
			answers[i].Vector = unpackFloats(m.vector)
		}
		left--
	}
	return answers, nil
}

// solving is the part of a running member that answers calls.
type solving struct {
	cancel context.CancelFunc // of the call being answered, nil if none is
	next   *Call              // that came meanwhile
}

// answer begins to answer a call; one that is being answered is given up.
func (l *running) answer(c *Call) {
	if l.Validator == nil || l.turn == nil || len(l.turn.Partitions) == 0 {
		return
	}
	if l.solving.cancel != nil {
		l.solving.next = c
		l.solving.cancel()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.solving.cancel = cancel
	w := &worker{Member: l.Member, id: l.id, call: c, partitions: slices.Clone(l.turn.Partitions), log: l.log}
	go func() {
		err := w.run(ctx)
		l.jobs <- func() {
			cancel()
			l.solving.cancel = nil
			switch {
			case err == nil:
				l.log.Info("the exact problem was solved together", "job", c.Job.String(), "questions", w.questions)
			case !errors.Is(err, context.Canceled):
				l.log.Error("solving the exact problem together was given up", "job", c.Job.String(), "err", err)
			}
			if next := l.solving.next; next != nil {
				l.solving.next = nil
				l.answer(next)
			}
		}
	}()
}

// worker answers one call for the partitions of a member, on a goroutine of its own.
type worker struct {
	*Member
	id         MemberID
	call       *Call
	partitions []stream.TopicPartition
	log        *slog.Logger

	topic     *stream.Ledger
	parts     []*workerPart // those that are the member's to answer for
	questions int
}

// workerPart is the events of a partition.
type workerPart struct {
	part
	*joint.Part
	read     uint64 // records
	verified bool
}

func (w *worker) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config := w.Config.solveTopic(w.Kafka.ConnectConfig, w.log)
	config.Create = false
	if w.topic, err = stream.OpenLedger(ctx, config); err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() == nil { // the one that asks need not wait
			failure := &message{About: aboutFailure, Text: err.Error()}
			if errors.Is(err, errNoBase) {
				failure.Counts = []uint64{1}
			}
			_ = w.say(ctx, failure)
		}
		err = errors.Join(err, w.topic.Close())
	}()
	reader, err := stream.ReadLedger(ctx, config, w.topic.ID(), w.call.From, false)
	if err != nil {
		return err
	}
	messages := hear(ctx, reader, func(m *message) bool { return m.Job == w.call.Job && m.Author == MemberID{} })
	claim := &message{About: aboutClaim}
	for _, p := range w.partitions {
		claim.Parts = append(claim.Parts, part{Topic: p.Topic, Partition: p.Partition})
	}
	if err := w.say(ctx, claim); err != nil {
		return err
	}
	if err := w.beside(ctx, func() error { return w.read(ctx) }); err != nil {
		return err
	}
	for _, p := range w.parts {
		counts := []uint64{uint64(p.Rows()), p.read, 0}
		if p.verified {
			counts[2] = 1
		}
		if err := w.say(ctx, &message{About: aboutReady, Part: p.part, Counts: counts, Has: true, vector: packColumns(p.Columns())}); err != nil {
			return err
		}
	}
	silent := time.NewTimer(patience * w.Config.SessionTimeout)
	defer silent.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silent.C:
			return errors.New("who asked is silent")
		case h, ok := <-messages:
			silent.Reset(patience * w.Config.SessionTimeout)
			switch {
			case !ok:
				return ctx.Err()
			case h.err != nil:
				return h.err
			}
			switch h.About {
			case aboutEnd:
				return nil
			case aboutColumns:
				if err := w.join(h.message); err != nil {
					return err
				}
			case aboutQuestion:
				if err := w.answer(ctx, h.message); err != nil {
					return err
				}
			}
		}
	}
}

func (w *worker) say(ctx context.Context, m *message) error {
	m.Job, m.Author = w.call.Job, w.id
	_, err := say(ctx, w.topic, m)
	return err
}

// beside lets f work, and tells who asked meanwhile that it does.
func (w *worker) beside(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	var failed error
	for {
		select {
		case err := <-done:
			return errors.Join(err, failed)
		case <-tick.C:
			if failed == nil {
				failed = w.say(ctx, &message{About: aboutWorking})
			}
		}
	}
}

// read reads the records of the partitions again, up to where the base has come to, and
// makes them what the base's model would learn from.
func (w *worker) read(ctx context.Context) error {
	topic, err := w.Config.openBases(ctx, w.Kafka.ConnectConfig, w.log)
	if err != nil {
		return err
	}
	bases, err := topic.All(ctx)
	if err = errors.Join(err, topic.Close()); err != nil {
		return err
	}
	i := slices.IndexFunc(bases, func(b stream.Base) bool { return b.Offset == w.call.Base })
	if i < 0 {
		return fmt.Errorf("base %d: %w", w.call.Base, errNoBase)
	}
	replica, err := readReplica(w.Learner, w.Settings, &bases[i], w.Config.BaseEvery)
	if err != nil {
		return fmt.Errorf("base %d: %w", w.call.Base, err)
	}
	request := requestOf(replica)
	all := recordsOf(request.At)
	for _, p := range w.partitions {
		position, found := request.At.Lookup(p.Topic, p.Partition)
		if !found || position.Records == 0 {
			continue
		}
		own := *w.Validator
		own.Config.Window = w.call.Window
		own.Open = func(ctx context.Context, s *blankout.Schema, from blankout.Offsets) (blankout.Source, error) {
			c := w.Kafka
			c.Only, c.Log = []stream.TopicPartition{p}, w.log
			c.UntilEnd, c.CreateTopics, c.Start, c.OutOfRange = true, false, "earliest", "earliest"
			return w.Open(ctx, c, s, from)
		}
		one := request
		one.At = blankout.Offsets{position}
		got := &workerPart{part: part{Topic: p.Topic, Partition: p.Partition}}
		if got.Part, got.read, got.verified, err = own.Part(ctx, one, all); err != nil {
			return fmt.Errorf("%s/%d: %w", p.Topic, p.Partition, err)
		}
		w.parts = append(w.parts, got)
	}
	return nil
}

// join keeps the parts that are this member's to answer for, and tells them the columns of
// all.
func (w *worker) join(m *message) error {
	w.parts = slices.DeleteFunc(w.parts, func(p *workerPart) bool {
		return !slices.Contains(m.Parts, part{p.Topic, p.Partition, w.id})
	})
	columns := unpackColumns(m.vector)
	for _, p := range w.parts {
		if err := p.Join(columns); err != nil {
			return err
		}
	}
	return nil
}

// answer answers a question for each part, one after the other.
func (w *worker) answer(ctx context.Context, m *message) error {
	q := &joint.Question{Ask: joint.Ask(m.Ask), Output: int(m.Output), Scalars: m.Numbers}
	if m.Has {
		q.W = unpackFloats(m.vector)
	}
	w.questions++
	for _, p := range w.parts {
		var a *joint.Answer
		err := w.beside(ctx, func() (err error) {
			a, err = p.Answer(ctx, q)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s/%d: %w", p.Topic, p.Partition, err)
		}
		if err := w.say(ctx, &message{About: aboutAnswer, Round: m.Round, Part: p.part, Numbers: a.Sums, Has: a.Vector != nil, vector: packFloats(a.Vector)}); err != nil {
			return err
		}
	}
	return nil
}
