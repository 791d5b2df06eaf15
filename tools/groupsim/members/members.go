// Package members simulates a group of many learners of one model: the rule, the fold and the
// commits' bytes are the real ones (package group), the members, their log and the network
// are simulated in a time of their own.
package members

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/online"
	"blankout/online/group"
	"blankout/online/share"
)

// Members says what group learns, and what happens to it meanwhile. Times are in seconds.
type Members struct {
	N          int
	Partitions int    // that the events are dealt to in turn; 0 is one for each member
	Interval   uint64 // the least events of a member between two commits
	Share      float64
	Warm       uint64 // events learned by one before the others begin
	Rate       float64
	Precision  int // 32 or 64
	Seed       uint64

	Delay   float64 // mean of an append's and of a read's, exponential
	Loss    float64 // share of appends that do not arrive, and of answers to those that do
	Timeout float64 // after which an append without an answer is made again
	Crash   float64 // share of intervals in which a member dies; another process takes its place
	Pause   float64 // share of intervals in which a member stands still, up to three sessions
	Session float64 // after which a member not heard of loses its partitions
}

// MembersResult is what a simulated group came to.
type MembersResult struct {
	Members  int    `json:"members"`
	Interval uint64 `json:"interval"`
	Events   uint64 `json:"events"`
	// Lost and Twice count records: any but 0 is a mistake of the fold.
	Lost  uint64 `json:"lost"`
	Twice uint64 `json:"twice"`
	// Replicas says that a second fold of the same commit log, half of it from a snapshot, holds
	// the same bytes.
	Replicas    bool                    `json:"replicas_equal"`
	Accepted    uint64                  `json:"accepted"`
	Rejected    map[group.Reason]uint64 `json:"rejected"`
	Reprocessed uint64                  `json:"reprocessed_events"` // learned, and not accepted
	Crashes     uint64                  `json:"crashes"`
	Pauses      uint64                  `json:"pauses"`
	Bytes       uint64                  `json:"bytes"` // of commits and chunks
	Rows        uint64                  `json:"rows"`  // of accepted deltas
	Seconds     float64                 `json:"simulated_seconds"`
	// Errors are in percent, log-losses in nats: each event scored before it was learned, by
	// its member; and of the events held apart, null without any.
	ProgressiveError   float64  `json:"progressive_error"`
	ProgressiveLogLoss float64  `json:"progressive_log_loss"`
	TestError          *float64 `json:"test_error"`
	TestLogLoss        *float64 `json:"test_log_loss"`
}

// Check says what of the settings makes no sense.
func (m *Members) Check() error {
	isShare := func(x float64) bool { return x >= 0 && x <= 0.9 }
	switch {
	case m.N < 1 || m.N > 100_000:
		return fmt.Errorf("members %d: want 1 to 100000", m.N)
	case m.Interval < 1 || m.Interval > share.MaxInterval:
		return fmt.Errorf("interval %d: want 1 to %d events", m.Interval, share.MaxInterval)
	case m.Partitions < 0:
		return fmt.Errorf("partitions %d: want at least 1, or 0 for one a member", m.Partitions)
	case !(m.Rate > 0) || !(m.Delay >= 0) || !(m.Timeout > 0) || !(m.Session > 0):
		return errors.New("rate, timeout and session must be positive, delay at least 0")
	case !isShare(m.Loss) || !isShare(m.Crash) || !isShare(m.Pause) || m.Crash+m.Pause > 0.9:
		return errors.New("loss, crash and pause are shares of 0 to 0.9, the last two together as well")
	case m.Precision != 32 && m.Precision != 64:
		return fmt.Errorf("precision %d: want 32 or 64", m.Precision)
	}
	return nil
}

// member is a simulated process.
type member struct {
	id         group.MemberID
	seq        uint64
	partitions []int
	waits      uint64 // for its commit of this number
	waiting    bool
	dead       bool
}

// happening is something that happens at a time.
type happening struct {
	at    float64
	order int
	what  func()
}

type happenings []happening

func (h happenings) Len() int      { return len(h) }
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h happenings) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].at, h[j].at), cmp.Compare(h[i].order, h[j].order)) < 0
}
func (h *happenings) Push(x any) { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// world is a run of the simulation.
type world struct {
	*Members
	events  []event.Example
	random  *rand.Rand
	now     float64
	queue   happenings
	happens int

	fold, replica *group.Fold
	config        online.Config
	// work is the Learner of whoever begins an interval: it learns all of it at once, and
	// what it has learned is appended when the time has come. Columns in dirty may differ
	// from the group's.
	work     *online.Learner
	dirty    []uint32
	members  []*member
	offset   int64   // of the commit log
	readable float64 // when the latest record of the commit log becomes readable
	learned  uint64
	result   *MembersResult
	err      error
}

// Run simulates a group that learns the events, whose slices it keeps to itself; test are
// events to measure the model by. The same settings and events give the same result.
func (m *Members) Run(ctx context.Context, c online.Config, s *event.Schema, events, test []event.Example) (*MembersResult, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if err := c.CheckShared(); err != nil && m.N > 1 {
		return nil, err
	}
	w := &world{Members: m, events: events, random: rand.New(rand.NewPCG(m.Seed, 0x67726f7570)), config: c, result: &MembersResult{Members: m.N, Interval: m.Interval, Events: uint64(len(events))}}
	if m.Partitions == 0 {
		own := *m
		own.Partitions = m.N
		w.Members = &own
	}
	for _, f := range []**group.Fold{&w.fold, &w.replica} {
		l, err := online.NewShared(c, s)
		if err != nil {
			return nil, err
		}
		*f = group.NewFold(l, nil, nil)
	}
	var err error
	if w.work, err = w.fold.Learner().Clone(); err != nil {
		return nil, err
	}
	for i := range m.N {
		x := &member{}
		w.rename(x)
		for p := i; p < w.Partitions; p += m.N {
			x.partitions = append(x.partitions, p)
		}
		w.members = append(w.members, x)
	}
	w.warmUp()
	for w.err == nil && len(w.queue) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h := heap.Pop(&w.queue).(happening)
		w.now = h.at
		if h.what(); w.now > 1e9 {
			w.err = errors.New("the group does not come to an end: fewer crashes and pauses, please")
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	return w.result, w.measure(test)
}

func (w *world) at(t float64, what func()) {
	w.happens++
	heap.Push(&w.queue, happening{t, w.happens, what})
}

// rename makes a member another process.
func (w *world) rename(x *member) {
	for i := range x.id {
		x.id[i] = byte(w.random.Uint32())
	}
	x.seq, x.waiting, x.dead = 0, false, false
}

// records returns how many records a partition has; event finds one.
func (w *world) records(p int) int64 {
	return int64((len(w.events) - p + w.Partitions - 1) / w.Partitions)
}

func (w *world) event(p int, offset int64) *event.Example {
	return &w.events[int(offset)*w.Partitions+p]
}

// next is where a partition has come to.
func (w *world) next(p int) int64 {
	next, _ := w.fold.Next("events", int32(p))
	return next
}

func (w *world) done() bool {
	for p := range w.Partitions {
		if w.next(p) < w.records(p) {
			return false
		}
	}
	return true
}

// warmUp has the first member learn alone, then all begin.
func (w *world) warmUp() {
	n := min(w.Warm, uint64(len(w.events)))
	spans := make([]group.Span, w.Partitions)
	w.begin(1)
	for i := range int(n) {
		p := i % w.Partitions
		e := &w.events[i]
		w.work.Learn(e, nil)
		s := &spans[p]
		s.Topic, s.Partition, s.To, s.Records, s.Sum = "events", int32(p), s.To+1, s.Records+1, s.Sum+fingerprint(p, s.To)
	}
	w.learned += n
	spans = slices.DeleteFunc(spans, func(s group.Span) bool { return s.Records == 0 })
	x := w.members[0]
	then := func() {
		for _, x := range w.members {
			w.at(w.now, func() { w.interval(x) })
		}
	}
	if n == 0 {
		then()
		return
	}
	commit, chunks := w.commit(x, spans)
	w.now = float64(n) / w.Rate
	w.read(x, commit, chunks)
	then()
}

// begin makes work equal to the group's state.
func (w *world) begin(peers int) {
	if err := w.work.Follow(w.fold.Learner(), w.dirty, peers, w.events64()); err != nil {
		w.err = err
	}
	w.dirty = w.dirty[:0]
}

// events64 is how many events an interval has now.
func (w *world) events64() uint64 {
	n := uint64(w.Share * float64(w.fold.Learner().Report().Events) / float64(w.N))
	return min(max(n, w.Interval), share.MaxInterval)
}

// fingerprint stands for that of a record.
func fingerprint(p int, offset int64) uint64 {
	return (uint64(p)<<40 | uint64(offset)) * 0x9e3779b97f4a7c15
}

// commit cuts what work has learned of spans, and encodes it.
func (w *world) commit(x *member, spans []group.Span) (commit []byte, chunks [][]byte) {
	d := w.work.Cut(w.Precision)
	base, chain := w.fold.Base()
	c := &group.Commit{Fingerprint: w.fold.Fingerprint(), Member: x.id, Seq: x.seq, Base: base, Chain: chain, Spans: spans, Kind: d.Kind, Events: d.Events}
	chunks, c.Chunks = group.EncodeChunks(x.id, x.seq, d)
	x.seq++
	return c.Encode(), chunks
}

// interval has a member learn an interval of what it owns.
func (w *world) interval(x *member) {
	if x.dead || x.waiting || w.done() {
		return
	}
	var spans []group.Span
	left := int64(w.events64())
	w.begin(w.N)
	for i, p := range x.partitions {
		from := w.next(p)
		n := min((left+int64(len(x.partitions)-i)-1)/int64(len(x.partitions)-i), w.records(p)-from)
		if n <= 0 {
			continue
		}
		s := group.Span{Topic: "events", Partition: int32(p), From: from, To: from + n, Records: uint64(n)}
		for offset := from; offset < s.To; offset++ {
			w.work.Learn(w.event(p, offset), nil)
			s.Sum += fingerprint(p, offset)
		}
		left -= n
		spans = append(spans, s)
	}
	if len(spans) == 0 {
		w.at(w.now+w.Session/10, func() { w.interval(x) }) // stands by
		return
	}
	commit, chunks := w.commit(x, spans)
	events := uint64(0)
	for _, s := range spans {
		events += s.Records
	}
	w.learned += events
	end := w.now + float64(events)/w.Rate
	switch fate := w.random.Float64(); {
	case fate < w.Crash:
		w.result.Crashes++
		x.dead = true
		w.at(w.now+w.Session, func() { w.takeAway(x) })
		w.at(end+2*w.Session*w.random.Float64(), func() {
			w.rename(x)
			w.giveSome(x)
			w.interval(x)
		})
		return
	case fate < w.Crash+w.Pause:
		w.result.Pauses++
		pause := 3 * w.Session * w.random.Float64()
		if pause > w.Session {
			w.at(end+w.Session, func() { w.takeAway(x) })
			w.at(end+pause, func() { w.giveSome(x) })
		}
		end += pause // it then goes on as if nothing had been
	}
	x.waiting, x.waits = true, x.seq-1
	w.append(x, commit, chunks, end)
}

// takeAway gives the partitions of a member that is not heard of to others.
func (w *world) takeAway(x *member) {
	alive := slices.DeleteFunc(slices.Clone(w.members), func(y *member) bool { return y.dead || y == x })
	if len(alive) == 0 {
		return
	}
	for _, p := range x.partitions {
		y := slices.MinFunc(alive, func(a, b *member) int { return len(a.partitions) - len(b.partitions) })
		y.partitions = append(y.partitions, p)
	}
	x.partitions = nil
}

// giveSome gives a member that is back partitions of those who have most.
func (w *world) giveSome(x *member) {
	for {
		y := slices.MaxFunc(w.members, func(a, b *member) int { return len(a.partitions) - len(b.partitions) })
		if len(y.partitions) <= len(x.partitions)+1 {
			return
		}
		last := len(y.partitions) - 1
		x.partitions, y.partitions = append(x.partitions, y.partitions[last]), y.partitions[:last]
	}
}

// append sends a commit to the commit log until it has an answer.
func (w *world) append(x *member, commit []byte, chunks [][]byte, t float64) {
	arrives, answered := w.random.Float64() >= w.Loss, w.random.Float64() >= w.Loss
	if arrives {
		w.at(t+w.random.ExpFloat64()*w.Delay, func() {
			w.readable = max(w.readable, w.now+w.random.ExpFloat64()*w.Delay) // in order
			w.at(w.readable, func() { w.read(x, commit, chunks) })
		})
	}
	if !arrives || !answered {
		w.at(t+w.Timeout, func() { w.append(x, commit, chunks, w.now) })
	}
}

// read has everyone read the next record of the commit log.
func (w *world) read(x *member, commit []byte, chunks [][]byte) {
	w.result.Bytes += uint64(len(commit))
	var verdicts [2]error
	for i, f := range []*group.Fold{w.fold, w.replica} {
		c, err := group.DecodeCommit(commit)
		if err != nil {
			w.err = err
			return
		}
		var list []*group.Chunk
		for _, data := range chunks {
			k, err := group.DecodeChunk(data)
			if err != nil {
				w.err = err
				return
			}
			list = append(list, k)
		}
		changed, err := f.Apply(w.offset, c, list)
		if verdicts[i] = err; i == 0 {
			w.dirty = append(w.dirty, changed...)
			w.result.Rows += uint64(len(changed))
			if x.id == c.Member && x.waiting && x.waits == c.Seq {
				x.waiting = false
				w.at(w.now, func() { w.interval(x) })
			}
		}
	}
	for _, data := range chunks {
		w.result.Bytes += uint64(len(data))
	}
	if (verdicts[0] == nil) != (verdicts[1] == nil) {
		w.err = fmt.Errorf("offset %d of the commit log: one fold says %v, another %v", w.offset, verdicts[0], verdicts[1])
	}
	w.result.Seconds = w.now
	w.offset++
	if w.offset == 64 { // the replica goes on from a snapshot
		w.replica, w.err = again(w.config, w.replica)
	}
}

// again is a fold read from the base of one.
func again(c online.Config, f *group.Fold) (*group.Fold, error) {
	blocks, err := f.EachBlock()
	if err != nil {
		return nil, err
	}
	return group.ReadFold(c, nil, slices.Collect(blocks))
}

// measure fills in what the model and the accepted records have come to.
func (w *world) measure(test []event.Example) error {
	r := w.result
	r.Accepted, r.Rejected = w.fold.Accepted(), w.fold.Rejected()
	for p := range w.Partitions {
		at, _ := w.fold.Offsets().Lookup("events", int32(p))
		sum := uint64(0)
		for offset := range w.records(p) {
			sum += fingerprint(p, offset)
		}
		records := uint64(w.records(p))
		switch {
		case at.Records < records:
			r.Lost += records - at.Records
		case at.Records > records:
			r.Twice += at.Records - records
		case at.Sum != sum:
			r.Lost, r.Twice = r.Lost+1, r.Twice+1
		}
	}
	l := w.fold.Learner()
	m := l.Report()
	if m.Events > r.Events {
		r.Twice += m.Events - r.Events
	}
	r.Reprocessed = w.learned - m.Events
	a, err := w.bytes(w.fold)
	if err != nil {
		return err
	}
	b, err := w.bytes(w.replica)
	if err != nil {
		return err
	}
	r.Replicas = bytes.Equal(a, b)
	r.ProgressiveError, r.ProgressiveLogLoss = 100*m.Total.Error(), m.Total.MeanLogLoss()
	var held measure.Classes
	for i := range test {
		if e := &test[i]; e.Label != event.Unlabeled && e.Usable() {
			p := l.Predict(e)
			p.Measure(e, &held)
		}
	}
	if e, loss := 100*held.Error(), held.MeanLogLoss(); !math.IsNaN(e) {
		r.TestError, r.TestLogLoss = &e, &loss
	}
	return nil
}

func (w *world) bytes(f *group.Fold) ([]byte, error) {
	blocks, err := f.EachBlock()
	if err != nil {
		return nil, err
	}
	var out []byte
	for b := range blocks {
		out = append(append(out, b.Name...), b.Data...)
	}
	return out, nil
}
