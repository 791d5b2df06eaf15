// Package members simulates a group of many learners of one model. The rule for accepting commits, the application of
// commits, and the bytes of commits are the real code of package group. The members, their log, the network and the
// time are simulated.
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
	"blankout/online/deltas"
	"blankout/online/group"
)

// Members configures a simulated group and the failures of its members. Times are in seconds.
type Members struct {
	N          int
	Partitions int    // number of partitions, to which events are dealt in turn; 0 means one per member
	Interval   uint64 // least number of events of a member between two commits
	Fraction   float64
	Warm       uint64 // number of events that one member learns before the others start
	Rate       float64
	Precision  int // bits of a number in a commit: 32 or 64
	Seed       uint64

	Delay   float64 // mean delay of an append and of a read, exponentially distributed
	Loss    float64 // fraction of appends that are lost, and of responses to the other appends
	Timeout float64 // time after which an append without a response is repeated
	Crash   float64 // fraction of intervals in which a member crashes; another process replaces it
	Pause   float64 // fraction of intervals in which a member pauses, for up to three sessions
	Session float64 // time after which a silent member loses its partitions
}

// MembersResult is the result of a simulated group.
type MembersResult struct {
	Members  int    `json:"members"`
	Interval uint64 `json:"interval"`
	Events   uint64 `json:"events"`
	// Lost counts records that were lost, and Twice counts records that were learned twice. A value other than 0 is an
	// error in applying commits.
	Lost  uint64 `json:"lost"`
	Twice uint64 `json:"twice"`
	// Replicas reports whether a second replica has the same bytes. It applies the same commit log and is restored from
	// a snapshot once.
	Replicas    bool                    `json:"replicas_equal"`
	Accepted    uint64                  `json:"accepted"`
	Rejected    map[group.Reason]uint64 `json:"rejected"`
	Reprocessed uint64                  `json:"reprocessed_events"` // events learned in commits that were not accepted
	Crashes     uint64                  `json:"crashes"`
	Pauses      uint64                  `json:"pauses"`
	Bytes       uint64                  `json:"bytes"` // bytes of commits and chunks
	Rows        uint64                  `json:"rows"`  // rows of accepted deltas
	Seconds     float64                 `json:"simulated_seconds"`
	// Errors are in percent, log-losses in nats. For progressive values, a member scores each event before it learns
	// the event. Test values are null if there are no test events.
	ProgressiveError   float64  `json:"progressive_error"`
	ProgressiveLogLoss float64  `json:"progressive_log_loss"`
	TestError          *float64 `json:"test_error"`
	TestLogLoss        *float64 `json:"test_log_loss"`
}

// Check returns an error if the settings are invalid.
func (m *Members) Check() error {
	isShare := func(x float64) bool { return x >= 0 && x <= 0.9 }
	switch {
	case m.N < 1 || m.N > 100_000:
		return fmt.Errorf("members %d: want 1 to 100000", m.N)
	case m.Interval < 1 || m.Interval > deltas.MaxInterval:
		return fmt.Errorf("interval %d: want 1 to %d events", m.Interval, deltas.MaxInterval)
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
	waits      uint64 // number of the commit whose response it waits for
	waiting    bool
	dead       bool
}

// happening is an action that is scheduled for a simulated time.
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

// world is the state of a simulation.
type world struct {
	*Members
	events  []event.Example
	random  *rand.Rand
	now     float64
	queue   happenings
	happens int

	fold, replica *group.Fold
	config        online.Config
	// work is the Learner of the member that is currently learning an interval. It learns the whole interval at once.
	// The commit is appended at the simulated end of the interval. The columns in dirty may differ from the group's
	// state.
	work     *online.Learner
	dirty    []uint32
	members  []*member
	offset   int64   // offset in the commit log
	readable float64 // time when the latest record of the commit log becomes readable
	learned  uint64
	result   *MembersResult
	err      error
}

// Run simulates a group that learns the events. It keeps the slice events. The slice test has events for measuring the
// model. The same settings and events give the same result.
func (m *Members) Run(ctx context.Context, c online.Config, s *event.Schema, events, test []event.Example) (*MembersResult, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if err := c.CheckForGroup(); err != nil && m.N > 1 {
		return nil, err
	}
	w := &world{Members: m, events: events, random: rand.New(rand.NewPCG(m.Seed, 0x67726f7570)), config: c, result: &MembersResult{Members: m.N, Interval: m.Interval, Events: uint64(len(events))}}
	if m.Partitions == 0 {
		own := *m
		own.Partitions = m.N
		w.Members = &own
	}
	for _, f := range []**group.Fold{&w.fold, &w.replica} {
		l, err := online.NewForGroup(c, s)
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

// rename gives a member the ID of a new process, as after a crash.
func (w *world) rename(x *member) {
	for i := range x.id {
		x.id[i] = byte(w.random.Uint32())
	}
	x.seq, x.waiting, x.dead = 0, false, false
}

// records returns the number of records of a partition. The method event returns one of these records.
func (w *world) records(p int) int64 {
	return int64((len(w.events) - p + w.Partitions - 1) / w.Partitions)
}

func (w *world) event(p int, offset int64) *event.Example {
	return &w.events[int(offset)*w.Partitions+p]
}

// next returns the next offset to learn in a partition.
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

// warmUp lets the first member learn alone, and then starts all members.
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

// begin sets the member's own learner, work, to the state of the group.
func (w *world) begin(peers int) {
	if err := w.work.Follow(w.fold.Learner(), w.dirty, peers, w.events64()); err != nil {
		w.err = err
	}
	w.dirty = w.dirty[:0]
}

// events64 returns the current number of events of an interval.
func (w *world) events64() uint64 {
	n := uint64(w.Fraction * float64(w.fold.Learner().Report().Events) / float64(w.N))
	return min(max(n, w.Interval), deltas.MaxInterval)
}

// fingerprint returns a number that serves as the fingerprint of a record in the simulation.
func fingerprint(p int, offset int64) uint64 {
	return (uint64(p)<<40 | uint64(offset)) * 0x9e3779b97f4a7c15
}

// commit extracts the delta that work has learned from spans, and encodes it.
func (w *world) commit(x *member, spans []group.Span) (commit []byte, chunks [][]byte) {
	d := w.work.Cut(w.Precision)
	base, chain := w.fold.Base()
	c := &group.Commit{Fingerprint: w.fold.Fingerprint(), Member: x.id, Seq: x.seq, Base: base, Chain: chain, Spans: spans, Kind: d.Kind, Events: d.Events}
	chunks, c.Chunks = group.EncodeChunks(x.id, x.seq, d)
	x.seq++
	return c.Encode(), chunks
}

// interval lets a member learn an interval of its own partitions.
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
		w.at(w.now+w.Session/10, func() { w.interval(x) }) // checks for partitions again later
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
		end += pause // the member then continues as before
	}
	x.waiting, x.waits = true, x.seq-1
	w.append(x, commit, chunks, end)
}

// takeAway gives the partitions of a member that has failed to other members.
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

// giveSome gives partitions to a member that has returned. It takes them from the members with the most partitions.
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

// append sends a commit to the commit log, repeatedly until a response arrives.
func (w *world) append(x *member, commit []byte, chunks [][]byte, t float64) {
	arrives, answered := w.random.Float64() >= w.Loss, w.random.Float64() >= w.Loss
	if arrives {
		w.at(t+w.random.ExpFloat64()*w.Delay, func() {
			w.readable = max(w.readable, w.now+w.random.ExpFloat64()*w.Delay) // records become readable in order
			w.at(w.readable, func() { w.read(x, commit, chunks) })
		})
	}
	if !arrives || !answered {
		w.at(t+w.Timeout, func() { w.append(x, commit, chunks, w.now) })
	}
}

// read makes every member read the next record of the commit log.
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
	if w.offset == 64 { // the replica continues from a snapshot
		w.replica, w.err = again(w.config, w.replica)
	}
}

// again returns a new Fold that starts from the snapshot of f.
func again(c online.Config, f *group.Fold) (*group.Fold, error) {
	blocks, err := f.EachBlock()
	if err != nil {
		return nil, err
	}
	return group.ReadFold(c, nil, slices.Collect(blocks))
}

// measure adds the numbers of lost and repeated records and the quality of the model to the result.
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
