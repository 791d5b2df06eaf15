package labels

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
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
			if len(b.Examples) == 0 || len(b.Examples) > batchExamples || b.Topic != "events" || b.Schema == nil {
				t.Fatalf("a batch of %d examples of %q", len(b.Examples), b.Topic)
			}
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
		if wait < 1_000_000 && unlabeled == 0 || len(want) < 50 {
			t.Fatalf("%d events of which %d have no label test little", len(want), unlabeled)
		}
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: %d events, want %d", seed, len(got), len(want))
			for i := range min(len(got), len(want)) {
				must.Require(t, got[i] == want[i], "event %d: %+v, want %+v", i, got[i], want[i])
			}
		}
		if n := join.Counts(); n.TimedOut != uint64(unlabeled) || int(n.Matched+n.TimedOut) != len(want) {
			t.Errorf("counts %+v of %d events, %d without a label", n, len(want), unlabeled)
		}
	}
}

// TestForget checks that a forgotten event is counted but not learned, and that no file contains its features any more.
// A start from an older checkpoint must not restore the event.
func TestForget(t *testing.T) {
	directory := t.TempDir()
	c := testConfig(1000)
	open := func(from State) *Join {
		t.Helper()
		return must.Get(Open(c, directory, from))(t)
	}
	j := open(State{})
	r := rand.New(rand.NewPCG(5, 5))
	var secret []float64
	ev := func(id string, at int64) {
		t.Helper()
		e := event.Example{Key: []byte(id), Weight: 1}
		for i := range uint32(40) {
			e.Features.Index, e.Features.Value = append(e.Features.Index, i), append(e.Features.Value, r.NormFloat64())
		}
		secret = e.Features.Value
		j.Advance("events", 0, &event.Example{Arrival: at})
		if o, _, err := j.Event(&e, 0, []float64{1}); o != Waits || err != nil {
			t.Fatal(o, err)
		}
	}
	label := func(id string, class int, at int64) (Outcome, *Waited) {
		t.Helper()
		j.Advance("labels", 0, &event.Example{Arrival: at})
		o, w := must.Get2(j.Label(&event.Example{Key: []byte(id), Label: class, Weight: 1}))(t)
		return o, w
	}
	ev("kept", 10)
	ev("learned", 20)
	ev("silent", 30)
	ev("gone", 40)
	if o, _ := label("learned", 1, 50); o != Matches {
		t.Fatal(o)
	}
	block := must.Get(j.Freeze().Block())(t)
	var state State
	must.Do(t, json.Unmarshal(block.Data, &state))
	ev("after", 60) // an event after the checkpoint
	must.Do(t, j.Close())
	holds := func() bool { // reports whether a file has the bytes of the event's last value
		pattern := binary.LittleEndian.AppendUint64(nil, math.Float64bits(secret[39]))
		names, _ := filepath.Glob(filepath.Join(directory, "*"))
		for _, name := range names {
			data := must.Get(os.ReadFile(name))(t)
			if bytes.Contains(data, pattern) {
				return true
			}
		}
		return false
	}
	r = rand.New(rand.NewPCG(5, 5))
	for range 4 * 40 {
		secret[39] = r.NormFloat64()
	}
	must.Require(t, holds(), "the test does not find what is to be forgotten")
	j = open(state)
	for id, want := range map[string]bool{"gone": true, "silent": true, "learned": true, "after": false, "nobody": false} {
		if found, err := j.Forget([]byte(id)); found != want || err != nil {
			t.Fatalf("%s: %t, %v", id, found, err)
		}
	}
	must.Do(t, j.Close())
	must.True(t, !holds(), "what was forgotten is still in a file")
	j = open(state) // open again as after a kill
	defer func() { j.Close() }()
	if o, w := label("gone", 0, 100); o != IsForgotten || w != nil {
		t.Errorf("the label of a forgotten event: %d, %v", o, w)
	}
	if o, w := label("learned", 0, 110); o != IsForgotten || w != nil {
		t.Errorf("the correction of a forgotten event: %d, %v", o, w)
	}
	if o, w := label("kept", 1, 120); o != Matches || w == nil || len(w.Features.Value) != 40 {
		t.Errorf("the label of another event: %d, %v", o, w)
	}
	j.Advance("labels", 0, &event.Example{Arrival: 10_000})
	if w, err := j.Expired(); w != nil || err != nil {
		t.Errorf("%v, %v: a forgotten event is passed on", w, err)
	}
	if c := j.Counts(); c.Forgotten != 2 || c.Pending != 0 || c.TimedOut != 0 || c.Matched != 2 || c.Corrected != 0 || j.State().WithinWait != 0 {
		t.Errorf("counted %+v", c)
	}
}
