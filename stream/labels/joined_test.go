package labels

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
	"blankout/stream/record"
)

// slowJoined is a slow reference for Joined that searches all records. It returns the events in order, each with the
// last label of its ID that arrived while the event waited. If no such label arrived, the event gets the last label
// before the event that no other event has taken.
func slowJoined(records []arrived, wait int64) []told {
	learned, _ := slowJoin(records, wait, func(int) float64 { return 0 })
	last := map[[2]string]told{} // keeps the last label for each event
	for _, l := range learned {
		last[[2]string{l.ID, fmt.Sprint(l.X)}] = l
	}
	var events []arrived
	for _, r := range records {
		if !r.label {
			events = append(events, r)
		}
	}
	clock := map[int32]int64{}
	slices.SortStableFunc(events, func(a, b arrived) int { return int(a.offset - b.offset) })
	for i := range events {
		e := &events[i]
		if before, ok := clock[e.partition]; ok {
			e.time = max(e.time, before)
		}
		clock[e.partition] = e.time
	}
	slices.SortStableFunc(events, func(a, b arrived) int {
		for _, d := range []int64{a.time - b.time, int64(a.partition - b.partition), a.offset - b.offset} {
			if d != 0 {
				return int(d)
			}
		}
		return 0
	})
	var out []told
	for _, e := range events {
		if l, ok := last[[2]string{e.id, fmt.Sprint(e.x)}]; ok { // otherwise the event is repeated or pending
			l.Score = 0
			out = append(out, l)
		}
	}
	return out
}

func TestJoinedHasEveryEventOnceWithItsLastLabel(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 9))
		records := someRecords(r, 400)
		wait := []int64{100, 400, 1_000_000}[seed%3]
		c := DefaultConfig()
		c.MaxDelay, c.IdleTimeout, c.PendingMemory = time.Duration(wait)*time.Millisecond, 0, minMemory
		if seed >= 3 {
			c.TimeoutLabel = "c1"
		}
		join := must.Get(Open(c, t.TempDir(), State{}))(t)
		defer join.Close()
		schema := record.DefaultConfig().Schema()
		lanes := testLanes(t, schema, records, nil, func() int { return 1 + r.IntN(30) })
		s := NewJoined(NewMerge(schema, lanes, join), join, "events")
		var got []told
		for b := range eventtest.Batches(t, s.Next) {
			must.Require(t, len(b.Examples) != 0 && len(b.Examples) <= batchExamples && b.Topic == "events" && b.Schema != nil, "a batch of %d examples of %q", len(b.Examples), b.Topic)
			for i := range b.Examples {
				e := &b.Examples[i]
				o := told{ID: string(e.Key), Weight: e.Weight, Unlabeled: e.Label == event.Unlabeled}
				if !o.Unlabeled {
					fmt.Sscanf(schema.Classes[e.Label], "c%d", &o.Class)
				}
				for k, id := range e.Field {
					if schema.Fields[id].Name == "x" {
						o.X = e.Features.Value[k]
					}
				}
				got = append(got, o)
			}
		}
		want := slowJoined(records, wait)
		unlabeled := 0
		for i := range want {
			if want[i].Unlabeled {
				unlabeled++
				if c.TimeoutLabel != "" {
					want[i].Unlabeled, want[i].Class = false, 1
				}
			}
		}
		must.Require(t, (wait >= 1_000_000 || unlabeled != 0) && len(want) >= 50, "%d events of which %d have no label test little", len(want), unlabeled)
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: %d events, want %d", seed, len(got), len(want))
			for i := range min(len(got), len(want)) {
				must.Require(t, got[i] == want[i], "event %d: %+v, want %+v", i, got[i], want[i])
			}
		}
		n := join.Counts()
		must.True(t, n.TimedOut == uint64(unlabeled) && int(n.Matched+n.TimedOut) == len(want), "counts %+v of %d events, %d without a label", n, len(want), unlabeled)
	}
}

// pastJoin returns the state of a join at a checkpoint, after n events have waited and timed out. In addition to these
// events, the directory has events that arrived after the checkpoint; more is their number.
func pastJoin(t *testing.T, n, more int) (directory string, state State) {
	t.Helper()
	directory = t.TempDir()
	j := must.Get(Open(testConfig(200), directory, State{}))(t)
	for i := range n {
		meet(t, j, fmt.Sprint("id", i), int64(i))
	}
	got := timedOut(t, j, 10_000)
	must.Require(t, got == n, "%d of %d events have timed out", got, n)
	must.Do(t, json.Unmarshal(must.Get(j.Freeze().Block())(t).Data, &state))
	for i := range more {
		meet(t, j, fmt.Sprint("further", i), 10_000+int64(i))
	}
	must.Get(j.Freeze().Block())(t)
	must.Do(t, j.Close())
	return directory, state
}

func meet(t *testing.T, j *Join, id string, at int64) {
	t.Helper()
	j.Advance("events", 0, &event.Example{Arrival: at})
	must.Get2(j.Event(&event.Example{Key: []byte(id), Weight: 1, Arrival: at}, 0, nil))(t)
}

// timedOut returns the number of events that have timed out at the given time.
func timedOut(t *testing.T, j *Join, at int64) (n int) {
	t.Helper()
	j.Advance("events", 0, &event.Example{Arrival: at})
	return len(expired(t, j))
}

// TestTimesOutAfterRestart checks that new events time out as usual after a restart without waiting events.
func TestTimesOutAfterRestart(t *testing.T) {
	for _, n := range []int{0, 1, 40} {
		directory, state := pastJoin(t, n, 0)
		j := must.Get(Open(testConfig(200), directory, state))(t)
		for i := range 5 {
			meet(t, j, fmt.Sprint("later", i), 20_000)
		}
		must.Equal(t, timedOut(t, j, 30_000), 5, "timeouts after", n, "events that are over")
		must.Do(t, j.Close())
	}
}

// TestFirstRecordOutOfLine checks the only record of an added partition, with a time far ahead of all clocks. This
// record must count as arriving with the previous record of the merged log, and as out of order.
func TestFirstRecordOutOfLine(t *testing.T) {
	schema := record.DefaultConfig().Schema()
	config := testConfig(1000)
	config.IdleTimeout = 20 * time.Millisecond
	join := opened(t, config, t.TempDir(), State{})
	decoder := must.Get(record.NewDecoder(record.DefaultConfig(), schema))(t)
	m := NewMerge(schema, []Lane{slowLane(decoder, 0, eventAt(0, 10))}, join)
	var b event.Batch
	err := m.Next(t.Context(), &b)
	must.Require(t, err == nil && b.Examples[0].Arrival == 10, "%v, %+v", err, b)
	added := slowLane(decoder, 0, labelAt(0, time.Now().UnixMilli()+1e12))
	odd, late := 0, 0
	added.Odd, added.Late = func(_, _ int64) { odd++ }, func() { late++ }
	list := []Lane{added}
	m.Added = func(context.Context) (l []Lane, _ error) { l, list = list, nil; return l, nil }
	err = m.Next(t.Context(), &b)
	must.True(t, err == nil && b.Labels && b.Examples[0].Arrival == 10 && odd == 1 && late == 0, "%v, %+v; odd %d, late %d", err, b, odd, late)
}
