package labels

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/stream/record"
)

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

// TestCutIsSynced checks that entries removed by a restart are synced with the next checkpoint, even if no event has
// arrived since. Otherwise a crash could restore these entries.
func TestCutIsSynced(t *testing.T) {
	directory, state := pastJoin(t, 10, 3)
	j := must.Get(Open(testConfig(200), directory, state))(t)
	g := j.store.segments[len(j.store.segments)-1]
	must.Require(t, g.count == 10, "the log holds %d entries after going back to 10", g.count)
	g.heads.Close() // makes syncing it fail
	var broken *BrokenError
	_, err := j.Freeze().Block()
	must.True(t, errors.As(err, &broken), "a checkpoint after going back syncs nothing: %v", err)
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
