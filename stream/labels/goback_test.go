package labels

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"blankout/internal/event"
	"blankout/stream/record"
)

// pastJoin returns a join at a checkpoint after n events that waited and timed out, and which has then continued with
// more events.
func pastJoin(t *testing.T, n, more int) (directory string, state State) {
	t.Helper()
	directory = t.TempDir()
	j, err := Open(testConfig(200), directory, State{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		meet(t, j, fmt.Sprint("id", i), int64(i))
	}
	if got := timedOut(t, j, 10_000); got != n {
		t.Fatalf("%d of %d events have timed out", got, n)
	}
	block, err := j.Freeze().Block()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(block.Data, &state); err != nil {
		t.Fatal(err)
	}
	for i := range more {
		meet(t, j, fmt.Sprint("further", i), 10_000+int64(i))
	}
	if _, err := j.Freeze().Block(); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return directory, state
}

func meet(t *testing.T, j *Join, id string, at int64) {
	t.Helper()
	j.Advance("events", 0, &event.Example{Arrival: at})
	if _, _, err := j.Event(&event.Example{Key: []byte(id), Weight: 1, Arrival: at}, 0, nil); err != nil {
		t.Fatal(err)
	}
}

// timedOut returns the number of events that time out by then.
func timedOut(t *testing.T, j *Join, at int64) (n int) {
	t.Helper()
	for j.Advance("events", 0, &event.Example{Arrival: at}); ; n++ {
		w, err := j.Expired()
		if err != nil {
			t.Fatal(err)
		}
		if w == nil {
			return n
		}
	}
}

// After a restart without waiting events, new events time out as usual.
func TestTimesOutAfterRestart(t *testing.T) {
	for _, n := range []int{0, 1, 40} {
		directory, state := pastJoin(t, n, 0)
		j, err := Open(testConfig(200), directory, state)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			meet(t, j, fmt.Sprint("later", i), 20_000)
		}
		if got := timedOut(t, j, 30_000); got != 5 {
			t.Errorf("after %d events that are over %d of 5 time out", n, got)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What a restart removes from the log is synced with the next checkpoint, even if nothing has arrived since. Otherwise
// a crash could bring it back.
func TestCutIsSynced(t *testing.T) {
	directory, state := pastJoin(t, 10, 3)
	j, err := Open(testConfig(200), directory, state)
	if err != nil {
		t.Fatal(err)
	}
	g := j.store.segments[len(j.store.segments)-1]
	if g.count != 10 {
		t.Fatalf("the log holds %d entries after going back to 10", g.count)
	}
	g.heads.Close() // so that syncing it fails
	var broken *BrokenError
	if _, err := j.Freeze().Block(); !errors.As(err, &broken) {
		t.Errorf("a checkpoint after going back syncs nothing: %v", err)
	}
}

// The only record of an added partition, far ahead of all clocks, counts as having arrived with what was passed on
// before: no event has a time before all times.
func TestFirstRecordOutOfLine(t *testing.T) {
	schema := record.DefaultConfig().Schema()
	config := testConfig(1000)
	config.IdleTimeout = 20 * time.Millisecond
	join, err := Open(config, t.TempDir(), State{})
	if err != nil {
		t.Fatal(err)
	}
	defer join.Close()
	decoder, err := record.NewDecoder(record.DefaultConfig(), schema)
	if err != nil {
		t.Fatal(err)
	}
	lane := func(topic string, records ...arrived) (Lane, *slow) {
		s := &slow{memory{topic: topic, size: func() int { return 1 }}, make(chan []arrived, 1)}
		s.sent <- records
		return Lane{Topic: topic, Labels: topic == "labels", Next: s.next, Decoder: decoder}, s
	}
	events, _ := lane("events", arrived{time: 10, id: "a", x: 1})
	m := NewMerge(schema, []Lane{events}, join)
	var b event.Batch
	if err := m.Next(t.Context(), &b); err != nil || b.Examples[0].Arrival != 10 {
		t.Fatalf("%v, %+v", err, b)
	}
	added, _ := lane("labels", arrived{time: time.Now().UnixMilli() + 1e12, id: "a", label: true, class: 1})
	odd, late := 0, 0
	added.Odd, added.Late = func(_, _ int64) { odd++ }, func() { late++ }
	list := []Lane{added}
	m.Added = func(context.Context) (l []Lane, _ error) { l, list = list, nil; return l, nil }
	if err := m.Next(t.Context(), &b); err != nil || !b.Labels || b.Examples[0].Arrival != 10 || odd != 1 || late != 0 {
		t.Errorf("%v, %+v; odd %d, late %d", err, b, odd, late)
	}
}
