package labels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/stream/record"
)

// slow is a partition whose records arrive when the test sends them.
type slow struct {
	memory
	sent chan []arrived
}

func (s *slow) next(ctx context.Context, b *event.Batch) error {
	if len(s.records) == 0 {
		select {
		case records, ok := <-s.sent:
			if !ok {
				return io.EOF
			}
			s.records = records
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.memory.next(ctx, b)
}

// slowLane returns a lane of events or labels that has the given records and stays open.
func slowLane(decoder record.Decoder, partition int32, records ...arrived) Lane {
	topic := map[bool]string{false: "events", true: "labels"}[records[0].label]
	s := &slow{memory{topic: topic, partition: partition, size: func() int { return 1 }}, make(chan []arrived, 1)}
	s.sent <- records
	return Lane{Topic: topic, Partition: partition, Labels: records[0].label, Next: s.next, Decoder: decoder}
}

func eventAt(offset, time int64) arrived { return arrived{offset: offset, time: time, id: "a", x: 1} }

func labelAt(offset, time int64) arrived {
	return arrived{offset: offset, time: time, id: "a", label: true, class: 1}
}

// TestMergeSkipsSilentPartition checks that a silent partition delays the other partitions for Config.IdleTimeout, and
// that reading then continues without it. Later records of the silent partition must get at least the time of the
// records returned in the meantime.
func TestMergeSkipsSilentPartition(t *testing.T) {
	schema := record.DefaultConfig().Schema()
	c := record.DefaultConfig()
	events := must.Get(record.NewDecoder(c, schema))(t)
	decoder := must.Get(NewLabelDecoder(func(own *event.Schema) (record.Decoder, error) { return record.NewDecoder(c, own) }, schema))(t)
	open := func(idle time.Duration) (*Merge, *Join, [2]*slow) {
		config := testConfig(1000)
		config.IdleTimeout = idle
		join := opened(t, config, t.TempDir(), State{})
		var lanes [2]*slow
		for i, topic := range []string{"events", "labels"} {
			lanes[i] = &slow{memory{topic: topic, size: func() int { return 10 }}, make(chan []arrived, 10)}
		}
		m := NewMerge(schema, []Lane{{Topic: "events", Next: lanes[0].next, Decoder: events}, {Topic: "labels", Labels: true, Next: lanes[1].next, Decoder: decoder}}, join)
		return m, join, lanes
	}
	var b event.Batch

	m, join, lanes := open(0) // the Merge waits forever
	lanes[0].sent <- []arrived{eventAt(0, 10)}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := m.Next(ctx, &b)
	must.Require(t, errors.Is(err, context.DeadlineExceeded) && join.Counts().Idle == 0, "with no idle: %v, %+v", err, b)
	lanes[1].sent <- []arrived{labelAt(0, 20)}
	err = m.Next(t.Context(), &b)
	must.Require(t, err == nil && !b.Labels && b.Examples[0].Arrival == 10, "%v, %+v", err, b)

	m, join, lanes = open(20 * time.Millisecond)
	lanes[0].sent <- []arrived{eventAt(0, 10), eventAt(1, 30)}
	err = m.Next(t.Context(), &b)
	must.Require(t, err == nil && !b.Labels && len(b.Examples) == 2, "%v, %+v", err, b)
	must.Equal(t, join.Counts().Idle, 1, "counted silences")
	lanes[1].sent <- []arrived{labelAt(0, 20)}
	err = m.Next(t.Context(), &b)
	must.Require(t, err == nil && b.Labels && b.Examples[0].Arrival == 30 && b.Next == 1, "%v, %+v", err, b)
	close(lanes[0].sent)
	close(lanes[1].sent)
	err = m.Next(t.Context(), &b)
	must.Require(t, err == io.EOF, "%v, %+v", err, b)
	must.True(t, slices.Contains(schema.Classes, "c1"), "classes %q", schema.Classes)
}

// TestMergeCountsLatePartitions checks that an added partition is late if its first record precedes a record that was
// already returned. At equal times the order of the partitions decides.
func TestMergeCountsLatePartitions(t *testing.T) {
	for _, c := range []struct {
		partition int32
		labels    bool
		time      int64
		late      bool
	}{
		{1, false, 9, true}, {1, false, 10, true}, {1, false, 11, false}, // events precede labels with the same time
		{1, true, 9, true}, {1, true, 10, false}, {0, true, 10, true},
	} {
		schema := record.DefaultConfig().Schema()
		config := testConfig(1000)
		config.IdleTimeout = 0
		join := opened(t, config, t.TempDir(), State{})
		decoder := must.Get(record.NewDecoder(record.DefaultConfig(), schema))(t)
		m := NewMerge(schema, []Lane{slowLane(decoder, 0, eventAt(0, 10), eventAt(1, 50)),
			slowLane(decoder, 1-c.partition, labelAt(0, 10), labelAt(1, 50))}, join)
		var b event.Batch
		for passed := 0; passed < 2; passed += len(b.Examples) {
			must.Do(t, m.Next(t.Context(), &b))
		}
		at := must.Either(c.labels, labelAt, eventAt)
		added, said := []Lane{slowLane(decoder, c.partition, at(0, c.time), at(1, c.time))}, 0
		added[0].Late = func() { said++ }
		m.Added = func(context.Context) (l []Lane, _ error) { l, added = added, nil; return l, nil }
		for range 2 {
			err := m.Next(t.Context(), &b)
			must.Require(t, err == nil && len(b.Examples) == 1 && b.Examples[0].Time == c.time, "%+v: %v, %+v", c, err, b)
		}
		n := join.Counts().LatePartitions
		must.True(t, (n == 1) == c.late && uint64(said) == n, "%+v: %d late partitions, said %d times", c, n, said)
	}
}

// TestMergeRefuses checks that records that cannot be joined are refused with the reason.
func TestMergeRefuses(t *testing.T) {
	schema := record.DefaultConfig().Schema()
	join := opened(t, testConfig(1000), t.TempDir(), State{})
	lanes := testLanes(t, schema, []arrived{
		{offset: 0, time: 1, id: ""}, {offset: 1, time: 2, id: string(make([]byte, maxID+1))}, {offset: 2, time: 3, id: string(make([]byte, maxID))},
		{label: true, offset: 0, time: 4, id: ""},
	}, nil, func() int { return 9 })
	m := NewMerge(schema, lanes, join)
	var got []event.Reason
	for e := range eventtest.Examples(t, m.Next) {
		reason := event.Reason("")
		if e.Refused != nil {
			reason = e.Refused.Reason
			must.True(t, len(e.Refused.Value) != 0, "offset %d: no bytes of what was refused", e.Offset)
		}
		got = append(got, reason)
	}
	must.EqualSlices(t, got, []event.Reason{event.ReasonID, event.ReasonID, "", event.ReasonID}, "refused for")
}

// TestOpenForeignStore checks that a store that does not belong to the checkpoint is detected.
func TestOpenForeignStore(t *testing.T) {
	c := testConfig(1000)
	directory := t.TempDir()
	j := must.Get(Open(c, directory, State{}))(t)
	e := &event.Example{Key: []byte("z"), Weight: 1, Label: event.Unlabeled}
	for _, id := range []string{"z", "a"} {
		e.Key = []byte(id)
		must.Get2(j.Event(e, 0, []float64{1}))(t)
	}
	f := j.Freeze()
	must.Get(f.Block())(t)
	state := f.state
	must.Do(t, j.Close())
	var foreign *StateError
	otherSum, otherTick := state, state
	otherSum.Sum++
	otherTick.Tick--
	for what, of := range map[string]struct {
		directory string
		state     State
	}{"another sum": {directory, otherSum}, "another tick": {directory, otherTick}, "an empty directory": {t.TempDir(), state}} {
		_, err := Open(c, of.directory, of.state)
		must.True(t, errors.As(err, &foreign), "%s: %v", what, err)
	}
	j = must.Get(Open(c, directory, state))(t)
	_, err := Open(c, directory, state)
	must.True(t, err != nil && !errors.As(err, &foreign), "the store of another: %v", err)
	outcome, w, err := j.Label(&event.Example{Key: []byte("a"), Label: 1, Weight: 2})
	must.Require(t, err == nil && outcome == Matches && w.Label == 1 && w.Weight == 2 && w.Prediction[0] == 1, "%v %+v %v", outcome, w, err)
	j.store.most = 1 // the next event starts a segment
	must.Do(t, j.Flush())
	j.Advance("events", 0, &event.Example{Arrival: 3000})
	e.Key = []byte("b")
	must.Get2(j.Event(e, 0, []float64{1}))(t)
	f = j.Freeze()
	must.Get(f.Block())(t)
	f.state.FirstTick = 3
	must.Do(t, f.LetGo())
	must.Do(t, j.Close())
	_, err = Open(c, directory, state)
	must.True(t, errors.As(err, &foreign), "a checkpoint whose events were let go: %v", err)
}

// TestMaxPending checks that, if more than max_pending events wait, the oldest event is removed as if its wait were
// over.
func TestMaxPending(t *testing.T) {
	c := testConfig(1000)
	c.MaxPending = 2
	j := opened(t, c, t.TempDir(), State{})
	var went []string
	for _, id := range []string{"a", "b", "c", "d"} {
		j.Advance("events", 0, &event.Example{Arrival: 1})
		went = append(went, expired(t, j)...)
		arrive(t, j, id)
	}
	n := j.Counts()
	must.True(t, slices.Equal(went, []string{"a"}) && n.Overflowed == 1 && n.TimedOut == 1 && n.Pending == 3, "%q went: %+v", went, n)
	outcome, _, err := j.Label(&event.Example{Key: []byte("a"), Label: 1, Weight: 1})
	must.True(t, err == nil && outcome == IsLate, "a label of what went: %v, %v", outcome, err)
}

// TestLaneEnds checks that a lane (the records of one partition) ends before the given offset, whether or not a batch
// ends there. If the lane also begins at this offset, it must have no records.
func TestLaneEnds(t *testing.T) {
	for _, from := range []int64{0, 3, 7, 9} {
		for at := range int64(12) {
			next := from
			l := Lane{Next: func(_ context.Context, b *event.Batch) error {
				if next >= 10 {
					return io.EOF
				}
				*b = event.Batch{Examples: b.Examples[:0]}
				for i := 0; i < 4 && next < 10; i++ {
					b.Examples = append(b.Examples, event.Example{Offset: next})
					next++
				}
				b.Next = next
				return nil
			}}
			l.End(from, at)
			count, last := int64(0), from
			for b := range eventtest.Batches(t, l.Next) {
				count, last = count+int64(len(b.Examples)), b.Next
			}
			want := max(min(at, 10)-from, 0)
			must.True(t, count == want && last == from+want, "from %d to %d: %d records, then at %d", from, at, count, last)
		}
	}
}

// TestNumberLabels checks that a numeric label waits for its event and survives a restart. The same number again must
// have no effect, and another number must be a correction.
func TestNumberLabels(t *testing.T) {
	c, directory := testConfig(1000), t.TempDir()
	c.TimeoutLabel = "2.5"
	j := must.Get(Open(c, directory, State{}))(t)
	j.Advance("events", 0, &event.Example{Arrival: 1})
	must.Get2(j.Event(&event.Example{Key: []byte("a"), Label: event.Unlabeled, Weight: 1}, 0, []float64{7}))(t)
	say := func(target float64) (Outcome, float64) {
		o, w := must.Get2(j.Label(&event.Example{Key: []byte("a"), Target: target, Weight: 1}))(t)
		if w == nil {
			return o, math.NaN()
		}
		return o, w.Target
	}
	o, y := say(3.5)
	must.Require(t, o == Matches && y == 3.5, "%v with %v", o, y)
	f := j.Freeze()
	must.Get(f.Block())(t)
	must.Do(t, j.Close())
	j = opened(t, c, directory, f.state)
	o, _ = say(3.5)
	must.True(t, o == Repeats, "the same number again: %v", o)
	o, y = say(0)
	must.True(t, o == Corrects && y == 0, "another number: %v with %v", o, y)
	s := event.NewSchema(1, nil, 2)
	s.Target = loss.Real
	e := event.Example{Label: event.Unlabeled}
	j.SetDefault(&e, s)
	must.True(t, e.Label == 0 && e.Target == 2.5, "the default is %v", e.Target)
}

// steady returns n events, one per second, in three partitions in turn. The labels arrive after random delays between 0
// and most.
func steady(r *rand.Rand, n int, most time.Duration) (events, labels []arrived) {
	for i := range n {
		at := 1_700_000_000_000 + int64(i)*1000
		id := fmt.Sprintf("id%d", i)
		events = append(events, arrived{time: at, id: id, x: 1})
		labels = append(labels, arrived{label: true, time: at + 1 + r.Int64N(most.Milliseconds()), id: id, class: i % 2})
	}
	slices.SortFunc(labels, func(a, b arrived) int { return int(a.time - b.time) })
	return events, labels
}

// spread distributes records over three partitions, in order.
func spread(r *rand.Rand, logs ...[]arrived) (records []arrived) {
	for _, log := range logs {
		var next [3]int64
		for _, a := range log {
			a.partition = int32(r.IntN(3))
			a.offset = next[a.partition]
			next[a.partition]++
			records = append(records, a)
		}
	}
	return records
}

func matchedOf(t *testing.T, records []arrived, wait time.Duration, size func() int) Counts {
	t.Helper()
	j := newJoined(t, testConfig(wait.Milliseconds()), t.TempDir())
	defer j.join.Close()
	j.run(t, records, size, nil)
	return j.join.Counts()
}

// TestOneTimeOutOfOrder checks one record with a time far ahead, at any position. At most one match of an event and its
// label may be lost, and the record must be counted as out of order.
func TestOneTimeOutOfOrder(t *testing.T) {
	longtest.NotRaced(t)
	const n, wait = 20_000, 30 * time.Minute
	r := rand.New(rand.NewPCG(1, 1))
	events, labels := steady(r, n, wait-time.Minute)
	size := func() int { return 500 }
	c := matchedOf(t, spread(r, events, labels), wait, size)
	must.Require(t, c.Matched == n && c.OutOfOrder == 0, "undisturbed: %+v", c)
	for i, ahead := range []time.Duration{time.Hour, 72 * time.Hour, 365 * 24 * time.Hour} {
		for which, at := range []int{0, 7000, n - 1} {
			if !longtest.Some(i+which, 3) {
				continue
			}
			events, labels := slices.Clone(events), slices.Clone(labels)
			if (i+which)%2 == 0 {
				events[at].time += ahead.Milliseconds()
			} else {
				labels[at].time += ahead.Milliseconds()
			}
			c := matchedOf(t, spread(r, events, labels), wait, size)
			must.True(t, c.Matched >= n-1 && c.OutOfOrder == 1, "record %d ahead by %v: %d of %d matched, %d odd times, %+v", at, ahead, c.Matched, n, c.OutOfOrder, c)
		}
	}
}

// TestTimesOutOfOrder checks records with random wrong times, ahead and behind, for any batches of the logs. For each
// wrong time, at most one match of an event and its label may be lost.
func TestTimesOutOfOrder(t *testing.T) {
	for seed := range uint64(12) {
		const n, wait = 3000, time.Hour
		r := rand.New(rand.NewPCG(seed, 2))
		events, labels := steady(r, n, wait*9/10)
		odd := 1 + r.IntN(60)
		for range odd {
			of := [][]arrived{events, labels}[r.IntN(2)]
			by := time.Duration(r.ExpFloat64() * float64(48*time.Hour))
			if r.IntN(4) == 0 {
				by = -by
			}
			of[r.IntN(n)].time += by.Milliseconds()
		}
		c := matchedOf(t, spread(r, events, labels), wait, func() int { return r.IntN(40) })
		must.True(t, int(c.Matched) >= n-odd && int(c.OutOfOrder) <= odd && (odd <= 10 || c.OutOfOrder != 0),
			"seed %d: %d of %d matched with %d odd records, %d counted: %+v", seed, c.Matched, n, odd, c.OutOfOrder, c)
	}
}

// TestClockPutForward checks a clock that is set forward permanently, and a log with a gap. Arrival times must follow
// the new time immediately.
func TestClockPutForward(t *testing.T) {
	const n, wait = 2000, 30 * time.Minute
	r := rand.New(rand.NewPCG(3, 3))
	events, labels := steady(r, n, 10*time.Minute)
	gap := events[n/2].time
	for _, log := range [][]arrived{events, labels} {
		for i := range log {
			if log[i].time >= gap {
				log[i].time += (48 * time.Hour).Milliseconds()
			}
		}
	}
	j := newJoined(t, testConfig(wait.Milliseconds()), t.TempDir())
	defer j.join.Close()
	j.run(t, spread(r, events, labels), func() int { return 20 }, nil)
	c := j.join.Counts()
	spanning := 0 // number of events whose label arrives after the gap
	for _, l := range labels {
		var at int
		fmt.Sscanf(l.id, "id%d", &at)
		if l.time >= gap && at < n/2 {
			spanning++
		}
	}
	must.True(t, c.OutOfOrder == 0 && int(c.Matched) == n-spanning && spanning != 0, "%d matched of %d, %d over the gap, %d odd times", c.Matched, n, spanning, c.OutOfOrder)
	now := j.join.State().Now
	must.True(t, now >= labels[n-1].time, "the time at the end is %d, want %d", now, labels[n-1].time)
}

// TestTimeOutOfOrderOfTheLastRecord checks a partition whose last record is far ahead of the previous record. After
// Config.IdleTimeout, its time must be accepted if it is before the wall clock, and count as out of order otherwise.
func TestTimeOutOfOrderOfTheLastRecord(t *testing.T) {
	now := time.Now().UnixMilli()
	for _, c := range []struct {
		ahead int64
		odd   uint64
	}{{-(5 * time.Hour).Milliseconds(), 0}, {(5 * time.Hour).Milliseconds(), 1}} {
		config := testConfig((30 * time.Minute).Milliseconds())
		config.IdleTimeout = 20 * time.Millisecond
		join := must.Get(Open(config, t.TempDir(), State{}))(t)
		defer join.Close()
		day := (24 * time.Hour).Milliseconds()
		schema := record.DefaultConfig().Schema()
		lanes := testLanes(t, schema, nil, nil, nil)
		s := &slow{memory{topic: "events", size: func() int { return 1 }}, make(chan []arrived, 3)}
		lanes[0].Next = s.next
		var said []int64
		lanes[0].Odd = func(offset, time int64) { said = append(said, offset, time) }
		s.sent <- []arrived{{time: now - day, id: "a", x: 1}}
		s.sent <- []arrived{{time: now - day + 1, offset: 1, id: "b", x: 1}}
		s.sent <- []arrived{{time: now + c.ahead, offset: 2, id: "c", x: 1}}
		m := NewMerge(schema, lanes[:1], join)
		var b event.Batch
		for b.Next < 3 {
			must.Do(t, m.Next(t.Context(), &b))
		}
		e := b.Examples[len(b.Examples)-1]
		want := must.Either(c.odd == 1, now-day+1, now+c.ahead)
		must.True(t, e.Arrival == want && e.OddTime == (c.odd == 1) && uint64(len(said)) == 2*c.odd, "ahead by %d: it came at %d, want %d; %v", c.ahead, e.Arrival, want, said)
	}
}

// TestNeighborsThatDecide checks how many following records decide whether a time is out of order: nine records that
// contradict the time, or eight records that agree with it. Merge must not wait for more records.
func TestNeighborsThatDecide(t *testing.T) {
	for _, c := range []struct {
		behind int
		ahead  int64
		odd    bool
	}{{9, 0, true}, {8, 1 << 40, false}} {
		config := testConfig((30 * time.Minute).Milliseconds())
		config.IdleTimeout = 0
		join := must.Get(Open(config, t.TempDir(), State{}))(t)
		defer join.Close()
		schema := record.DefaultConfig().Schema()
		lanes := testLanes(t, schema, nil, nil, nil)
		s := &slow{memory{topic: "events", size: func() int { return 1 }}, make(chan []arrived, 20)}
		lanes[0].Next = s.next
		s.sent <- []arrived{{time: 1000, id: "a", x: 1}}
		for i := range int64(9) { // needed to decide the first record
			s.sent <- []arrived{{time: 1001 + i, offset: 1 + i, id: fmt.Sprint("b", i), x: 1}}
		}
		s.sent <- []arrived{{time: 1 << 40, offset: 10, id: "c", x: 1}}
		for i := range c.behind {
			s.sent <- []arrived{{time: 1011 + c.ahead, offset: 11 + int64(i), id: fmt.Sprint("d", i), x: 1}}
		}
		m := NewMerge(schema, lanes[:1], join)
		var b event.Batch
		for b.Next < 11 {
			must.Do(t, m.Next(t.Context(), &b))
		}
		must.Equal(t, b.Examples[len(b.Examples)-1].OddTime, c.odd, "out of order", c.behind, "behind")
	}
}
