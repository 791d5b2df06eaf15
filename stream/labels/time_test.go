package labels

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/stream/record"
)

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
		want := now + c.ahead
		if c.odd == 1 {
			want = now - day + 1
		}
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
