package labels

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"blankout/internal/event"
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
		var b event.Batch
		for {
			err := s.Next(t.Context(), &b)
			if err == io.EOF {
				break
			}
			must.Do(t, err)
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
