package labels

// This file puts the records of several partitions into one order.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"time"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/stream/record"
)

// Merge is a Source of the records of partitions of events and labels, in the order of their log time. Each partition
// has a next record, and Merge returns the earliest of these next records. So Merge waits until every partition has a
// next record or has ended. At equal times events precede labels; events (or labels) with equal times are ordered by
// topic, partition and offset. Within a partition time never decreases: an older record gets the time of the previous
// record. A single record with a wrong time does not advance the time either, see lane.decide.
//
// Events and labels are decoded in this order too, so that the numbers of fields and classes depend only on the logs.
// Batch.Labels reports whether a batch has labels, and Example.Arrival is the time when a record arrived.
//
// A partition that has been silent for Config.IdleTimeout is skipped until it has a record again. Its later records
// then get at least the time of the records returned in the meantime.
//
// A partition that is added during reading is included once Added returns it. If its first record is later than all
// records returned so far, the order depends only on the logs. Otherwise its earlier records are returned next, and the
// partition counts as late. The same applies to a partition that was added while no Merge was running.
type Merge struct {
	// Added, if not nil, returns the partitions that were added since its last call. Next calls Added often.
	Added  func(context.Context) ([]Lane, error)
	schema *event.Schema
	join   *Join
	lanes  []*lane
	idle   time.Duration
	now    int64 // arrival of the latest record
}

// Lane is a partition, or a file, that a Merge reads.
type Lane struct {
	Topic     string // name of the topic or file
	Partition int32
	Labels    bool // whether its records are labels; otherwise they are events
	// Next fills a Batch with further records of the partition, decoded by a Deferred. See event.Source.
	Next func(context.Context, *event.Batch) error
	// Decoder decodes a record into an event, or into the Key, Label and Weight of a label.
	Decoder record.Decoder
	// Late, if not nil, is called when the partition counts as late.
	Late func()
	// Odd, if not nil, is called for a record whose time does not fit the records around it.
	Odd func(offset, time int64)
}

// End makes the lane end before an offset. The lane must not have been read yet; from is its start.
func (l *Lane) End(from, before int64) {
	next, ended := l.Next, from >= before
	l.Next = func(ctx context.Context, b *event.Batch) error {
		if ended {
			return io.EOF
		}
		if err := next(ctx, b); err != nil {
			return err
		}
		b.Examples = slices.DeleteFunc(b.Examples, func(e event.Example) bool { return e.Offset >= before })
		if ended = b.Next >= before; ended {
			b.Next = before
		}
		return nil
	}
}

type lane struct {
	Lane
	batch *event.Batch
	index int            // current record in batch
	more  []*event.Batch // batches read ahead, after batch
	ended bool           // there are no records after more
	clock int64          // time of the previous record
	when  int64          // time of the current record, once decided
	odd   bool           // when differs from the time in the record

	decided bool
	begun   bool // the lane has had a record
	silent  bool // the lane is skipped
}

func newLane(l Lane, clock int64, begun bool) *lane {
	return &lane{Lane: l, batch: &event.Batch{}, clock: clock, begun: begun}
}

// wait is the time for which waitForAny waits for each skipped lane when no other lane has a record.
const wait = 10 * time.Millisecond

// has reports whether the lane has a current record.
func (l *lane) has() bool { return l.index < len(l.batch.Examples) }

// done reports whether the partition has ended and all its records were returned.
func (l *lane) done() bool { return l.ended && !l.has() && len(l.more) == 0 }

// pass advances to the next record.
func (l *lane) pass() {
	l.clock, l.decided = l.when, false
	l.index++
}

// neighbors is the number of following records that decide whether a record's time fits.
const neighbors = 16

// decide determines the time of the current record. now is the latest time in the other lanes. A time is accepted if it
// exceeds the larger of now and the partition's clock by at most near. Otherwise the next neighbors records decide. If
// at least half of them have about the same time or a later time, the clock of the partition has advanced, and the time
// is accepted. If not, the time is out of order, and the record gets the time of the previous record. So one wrong
// clock among many producers, or one wrong record, has no effect.
//
// decide returns false if it needs more records than have been read. It uses fewer records at the end of a partition.
// If no record follows, the limit is most instead of near.
func (l *lane) decide(now, near, most int64) bool {
	says := l.batch.Examples[l.index].Time
	latest := max(l.clock, now)
	l.when, l.odd, l.decided = max(l.clock, says), false, true
	if latest != math.MinInt64 && says-latest <= near {
		return true
	}
	later, times := 0, make([]int64, 0, neighbors)
	for e := range l.behind() {
		if e.Time <= 0 { // the time is unknown
			continue
		}
		if times = append(times, e.Time); e.Time >= says-near {
			later++
		}
		switch earlier := len(times) - later; {
		case 2*later >= neighbors:
			return true
		case 2*earlier > neighbors:
			l.replaceWrongTime(times)
			return true
		}
	}
	switch {
	case !l.ended:
		l.decided = false
	case len(times) == 0 && latest != math.MinInt64 && says-latest > most, 2*later < len(times):
		l.replaceWrongTime(times)
	}
	return l.decided
}

// replaceWrongTime gives the current record the time of the previous record or, without one, the median of the following
// times.
func (l *lane) replaceWrongTime(behind []int64) {
	if l.odd, l.when = true, l.clock; l.when == math.MinInt64 && len(behind) > 0 {
		slices.Sort(behind)
		l.when = behind[(len(behind)-1)/2]
	}
}

// behind yields the records after the current record that have been read.
func (l *lane) behind() iter.Seq[*event.Example] {
	return func(yield func(*event.Example) bool) {
		rest := l.batch.Examples[l.index+1:]
		for n := 0; ; n++ {
			for i := range rest {
				if !yield(&rest[i]) {
					return
				}
			}
			if n == len(l.more) {
				return
			}
			rest = l.more[n].Examples
		}
	}
}

// settle decides the time of the current record, and reads ahead as far as necessary. If a partition has no further
// records for Config.IdleTimeout, the time is accepted unless it is ahead of the wall clock.
func (m *Merge) settle(ctx context.Context, l *lane) error {
	for !m.decide(l) {
		waiting, cancel := ctx, context.CancelFunc(func() {})
		if m.idle > 0 {
			waiting, cancel = context.WithTimeout(ctx, m.idle)
		}
		b := &event.Batch{}
		err := l.Next(waiting, b)
		cancel()
		switch {
		case err == nil:
			l.more = append(l.more, b)
			continue
		case errors.Is(err, io.EOF):
			l.ended = true
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			if l.decided = true; l.when > max(m.now, time.Now().UnixMilli())+m.near() {
				l.replaceWrongTime(nil)
			}
			l.when = max(l.when, m.now) // the partition may have been silent
			l.logOutOfOrder()
			return nil
		default:
			return err
		}
	}
	return nil
}

// near is the time that a record may be ahead without being checked, a small fraction of the wait of an event.
func (m *Merge) near() int64 { return m.join.wait / 16 }

// decide determines the time of the current record of a lane, see lane.decide. It also accepts a time that is no later
// than the time of another partition's current record.
func (m *Merge) decide(l *lane) bool {
	known := m.now
	for _, other := range m.lanes {
		if other != l && other.has() {
			known = max(known, other.batch.Examples[other.index].Time)
		}
	}
	if !l.decide(known, m.near(), m.join.wait) {
		return false
	}
	l.logOutOfOrder()
	return true
}

func (l *lane) logOutOfOrder() {
	if e := &l.batch.Examples[l.index]; l.odd && l.Odd != nil {
		l.Odd(e.Offset, e.Time)
	}
}

// batchExamples is the largest number of examples in a Batch.
const batchExamples = 512

// NewMerge returns the Source of the lanes for a Join. NewMerge first adds the class of Config.TimeoutLabel to the
// Schema. The lanes' decoders extend the Schema.
func NewMerge(schema *event.Schema, lanes []Lane, join *Join) *Merge {
	m := &Merge{schema: schema, join: join, idle: join.config.IdleTimeout, now: math.MinInt64}
	if join.config.TimeoutLabel != "" && schema.Target == loss.Sign { // because labels may never have this class, for example in a stream of clicks
		schema.Class([]byte(join.config.TimeoutLabel))
	}
	clocks := join.state.Clocks
	for _, l := range lanes {
		clock := int64(math.MinInt64)
		i, ok := slices.BinarySearchFunc(clocks, Clock{Topic: l.Topic, Partition: l.Partition}, compareClock)
		if ok {
			clock = clocks[i].Time
		}
		m.now = max(m.now, clock)
		m.lanes = append(m.lanes, newLane(l, clock, ok))
	}
	m.sort()
	return m
}

// sort sorts the lanes by the order of records with equal times.
func (m *Merge) sort() {
	slices.SortStableFunc(m.lanes, func(a, b *lane) int {
		of := map[bool]int{true: 1}
		return cmp.Or(cmp.Compare(of[a.Labels], of[b.Labels]), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// add starts reading partitions that were added.
func (m *Merge) add(ctx context.Context) error {
	if m.Added == nil {
		return nil
	}
	added, err := m.Added(ctx)
	if err != nil || len(added) == 0 {
		return err
	}
	for _, l := range added {
		m.lanes = append(m.lanes, newLane(l, math.MinInt64, false))
	}
	m.sort()
	return nil
}

// Next fills b with the next records, all of one partition.
func (m *Merge) Next(ctx context.Context, b *event.Batch) error {
	for {
		if err := m.add(ctx); err != nil {
			return err
		}
		for _, l := range m.lanes {
			if l.has() || l.done() {
				continue
			}
			passed, err := m.refill(ctx, l)
			if err != nil {
				return err
			}
			if passed { // the batch only has the position of the partition
				m.begin(l, b)
				return nil
			}
		}
		var first *lane
		open := false
		for _, l := range m.lanes {
			open = open || !l.done()
			if !l.has() {
				continue
			}
			if !l.decided {
				if err := m.settle(ctx, l); err != nil {
					return err
				}
			}
			if !l.begun {
				l.begun = true
				m.countLate(l)
			}
			if first == nil || l.when < first.when { // at equal times the first lane is first
				first = l
			}
		}
		switch {
		case first != nil:
			return m.fill(ctx, first, b)
		case !open:
			return io.EOF
		}
		switch l, err := m.waitForAny(ctx); {
		case err != nil:
			return err
		case l != nil:
			m.begin(l, b)
			return nil
		}
	}
}

// refill reads a lane's next records. It waits for them unless the lane is skipped or becomes skipped. passed reports
// that the lane has a batch without records.
func (m *Merge) refill(ctx context.Context, l *lane) (passed bool, err error) {
	if m.idle == 0 {
		return m.read(ctx, l)
	}
	most := m.idle
	if l.silent {
		most = 0 // take only records that are already available
	}
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	passed, err = m.read(waiting, l)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		if err = nil; !l.silent {
			l.silent = true
			m.join.idle.Add(1)
		}
	}
	return passed, err
}

// waitForAny waits until a skipped lane has a batch, or a lane is added. It returns the lane if its batch has no
// records.
func (m *Merge) waitForAny(ctx context.Context) (*lane, error) {
	for n := len(m.lanes); ; {
		if err := m.add(ctx); err != nil || len(m.lanes) > n {
			return nil, err
		}
		for _, l := range m.lanes {
			if l.done() {
				continue
			}
			waiting, cancel := context.WithTimeout(ctx, wait)
			passed, err := m.read(waiting, l)
			cancel()
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case errors.Is(err, context.DeadlineExceeded):
			case err == nil && passed:
				return l, nil
			default:
				return nil, err
			}
		}
	}
}

func (m *Merge) read(ctx context.Context, l *lane) (passed bool, err error) {
	l.index, l.batch.Examples = 0, l.batch.Examples[:0]
	switch {
	case len(l.more) > 0:
		l.batch, l.more = l.more[0], l.more[1:]
	case l.ended:
		return false, nil
	default:
		if err = l.Next(ctx, l.batch); err != nil {
			l.batch.Examples = l.batch.Examples[:0]
			if l.ended = errors.Is(err, io.EOF); l.ended {
				err = nil
			}
			return false, err
		}
	}
	if len(l.batch.Examples) == 0 {
		return true, nil
	}
	if l.silent { // already counted as idle
		l.silent, l.begun, l.clock = false, true, max(l.clock, m.now)
	}
	return false, nil
}

// countLate counts a lane as late if its first, current record is older than a record that was returned.
func (m *Merge) countLate(l *lane) {
	late := l.when < m.now
	behind := false // at equal times lanes after l are later
	for _, other := range m.lanes {
		late = late || behind && other.clock == l.when
		behind = behind || other == l
	}
	if !late {
		return
	}
	m.join.late.Add(1)
	if l.Late != nil {
		l.Late()
	}
}

// begin makes b an empty Batch of a lane.
func (m *Merge) begin(l *lane, b *event.Batch) {
	examples := b.Examples[:0]
	*b = *l.batch
	b.Examples, b.Labels, b.Schema = examples, l.Labels, m.schema.View()
}

// fill adds records of a lane as long as they precede the records of the other lanes.
func (m *Merge) fill(ctx context.Context, l *lane, b *event.Batch) error {
	m.begin(l, b)
	b.Next = 0
	for len(b.Examples) < batchExamples && l.has() {
		if len(b.Examples) > 0 && (!l.decided || !m.isFirst(l)) {
			break
		}
		from := &l.batch.Examples[l.index]
		e := b.Extend()
		if err := Undefer(ctx, l.Decoder, from, e, false); err != nil {
			if b.Examples = b.Examples[:len(b.Examples)-1]; len(b.Examples) == 0 {
				return err
			}
			break
		}
		if e.Refused == nil {
			m.check(l, from, e)
		}
		e.Arrival, e.OddTime = l.when, l.odd
		m.now = max(m.now, l.when)
		b.Next = e.Offset + 1
		if l.pass(); l.has() {
			m.decide(l)
		}
	}
	if !l.has() {
		b.Next = max(b.Next, l.batch.Next)
	}
	b.Schema = m.schema.View()
	return nil
}

func (m *Merge) isFirst(l *lane) bool {
	behind := false // lanes after l precede it only if they are earlier
	for _, other := range m.lanes {
		switch {
		case other == l:
			behind = true
		case !other.has(): // the lane has ended or is skipped
		case other.when < l.when, !behind && other.when == l.when:
			return false
		}
	}
	return true
}

// maxID is the largest length of an ID.
const maxID = 1024

// check refuses an event or a label that cannot be joined.
func (m *Merge) check(l *lane, from, e *event.Example) {
	refuse := func(reason event.Reason, detail string) {
		*e = event.Example{Label: event.Unlabeled, Key: e.Key, Offset: e.Offset, Time: e.Time, Fingerprint: e.Fingerprint,
			Refused: &event.Refusal{Reason: reason, Detail: detail, Value: slices.Clone(from.Value)}}
	}
	switch {
	case len(e.Key) == 0:
		refuse(event.ReasonID, "no id joins events and labels: name its field with record.id and labels.id (--id)")
	case len(e.Key) > maxID:
		refuse(event.ReasonID, fmt.Sprintf("an id of %d bytes: the most is %d", len(e.Key), maxID))
	case l.Labels && e.Label == event.Unlabeled:
		refuse(event.ReasonLabel, "a label record without a label")
	}
}

// Deferred is a record.Decoder that postpones decoding, for use in a Lane.
type Deferred struct {
	// Clock decodes the time of a record if its log has no times, as in a file. Nil uses the time of the log.
	Clock record.Decoder
	probe event.Example
}

// Decode copies the undecoded record to e.
func (d *Deferred) Decode(ctx context.Context, r record.Record, e *event.Example) error {
	*e = event.Example{Features: e.Features, Label: event.Unlabeled, Offset: r.Offset, Time: r.Time, Key: r.Key, Value: r.Value}
	e.Features.Index, e.Features.Value = e.Features.Index[:0], e.Features.Value[:0]
	if r.Cut {
		e.Value, e.Refused = nil, &event.Refusal{Reason: event.ReasonOversize, Detail: "a line of more than max_bytes; " + record.RestSkipped, Value: r.Value}
		return nil
	}
	if d.Clock == nil {
		return nil
	}
	if err := d.Clock.Decode(ctx, r, &d.probe); err != nil {
		return err
	}
	if d.probe.Refused == nil { // otherwise the record is refused when it is decoded
		e.Time = d.probe.Time
	}
	return nil
}

// Undefer decodes the record that a Deferred has copied to from. Its label is ignored if unlabeled is true.
func Undefer(ctx context.Context, d record.Decoder, from, e *event.Example, unlabeled bool) error {
	if from.Refused != nil {
		*e = event.Example{Features: e.Features, Label: event.Unlabeled, Key: append(e.Key[:0], from.Key...), Offset: from.Offset, Time: from.Time, Refused: from.Refused, Fingerprint: from.Fingerprint}
		e.Features.Index, e.Features.Value = e.Features.Index[:0], e.Features.Value[:0]
		return nil
	}
	r := record.Record{Key: from.Key, Value: from.Value, Offset: from.Offset, Time: from.Time, Unlabeled: unlabeled}
	err := record.DecodeOwned(ctx, d, &r, e)
	e.Fingerprint = from.Fingerprint
	return err
}

// LabelDecoder decodes label records: the Key, Label and Weight of an Example. Its classes are the classes in the
// events' Schema.
type LabelDecoder struct {
	record.Decoder
	own, events *event.Schema
}

// NewLabelDecoder returns a LabelDecoder. It calls of to build a decoder for a separate Schema.
func NewLabelDecoder(of func(*event.Schema) (record.Decoder, error), events *event.Schema) (*LabelDecoder, error) {
	own := event.NewSchema(1, nil, events.MaxClasses)
	own.Target, own.MoreClasses = events.Target, events.MoreClasses
	decoder, err := of(own)
	if err != nil {
		return nil, err
	}
	return &LabelDecoder{decoder, own, events}, nil
}

// Decode decodes a label.
func (d *LabelDecoder) Decode(ctx context.Context, r record.Record, e *event.Example) error {
	d.own.Classes, d.own.Joined = d.events.Classes, d.events.Joined
	if err := d.Decoder.Decode(ctx, r, e); err != nil {
		return err
	}
	d.events.Classes, d.events.Joined = d.own.Classes, d.own.Joined
	e.Features.Index, e.Features.Value = e.Features.Index[:0], e.Features.Value[:0]
	e.Field, e.Missing = nil, nil
	return nil
}

// LabelRecord returns the settings of label records: the settings of events, without fields other than ID, label,
// weight and time.
func (c *Config) LabelRecord(events record.Config) record.Config {
	r := events
	r.Label, r.ID, r.Weight = cmp.Or(c.Label, events.Label), cmp.Or(c.ID, events.ID), c.Weight
	r.Drop, r.Categorical, r.Text, r.Ngrams, r.Groups, r.GroupEvery, r.Crosses = nil, nil, nil, 1, nil, 0, nil
	r.Unlabeled, r.Absent, r.MaxNames, r.MaxFields = false, event.AbsentAuto, 0, 1
	return r
}
