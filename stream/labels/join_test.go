package labels

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
	"blankout/stream/record"
)

// told is an event with its label, in the order of learning.
type told struct {
	ID        string
	X         float64 // feature of the event when it arrived
	Class     int
	Weight    float64
	Score     float64
	Unlabeled bool
}

// arrived is a record in one of the logs of a test.
type arrived struct {
	label     bool
	partition int32
	offset    int64
	time      int64 // time in the record
	id        string
	x         float64
	class     int
}

// counted has the Counts that slowJoin computes in addition to the results.
type counted struct {
	Pending, Matched, TimedOut, RepeatedEvents, Early, Corrected, Repeated, Late, Unmatched uint64
}

// slowJoin is a slow reference for Join. It sorts all records, keeps them in maps, and searches all of them for each
// record.
func slowJoin(records []arrived, wait int64, score func(n int) float64) (out []told, c counted) {
	records = slices.Clone(records)
	clocks := map[[2]int64]int64{}
	kind := func(r *arrived) int64 { return must.Either[int64](r.label, 1, 0) }
	slices.SortStableFunc(records, func(a, b arrived) int { return int(a.offset - b.offset) })
	for i := range records {
		r := &records[i]
		key := [2]int64{kind(r), int64(r.partition)}
		if clock, ok := clocks[key]; ok {
			r.time = max(r.time, clock)
		}
		clocks[key] = r.time
	}
	slices.SortStableFunc(records, func(a, b arrived) int {
		for _, d := range []int64{a.time - b.time, kind(&a) - kind(&b), int64(a.partition - b.partition), a.offset - b.offset} {
			if d != 0 {
				return int(d)
			}
		}
		return 0
	})
	type event struct {
		arrived
		score   float64
		labeled bool
		over    bool
		class   int
	}
	var events []*event
	type early struct {
		arrived
		used bool
	}
	var earlies []*early
	for n, r := range records {
		for _, e := range events {
			if !e.over && e.time+wait < r.time {
				e.over = true
				if !e.labeled {
					c.TimedOut++
					out = append(out, told{ID: e.id, X: e.x, Weight: 1, Score: e.score, Unlabeled: true})
				}
			}
		}
		for _, l := range earlies {
			if !l.used && l.time+wait < r.time {
				l.used = true
				c.Unmatched++
			}
		}
		var waiting, gone *event
		for _, e := range events {
			if e.id == r.id && !e.over {
				waiting = e
			} else if e.id == r.id && e.time+2*wait >= r.time {
				gone = e
			}
		}
		var before *early
		for _, l := range earlies {
			if l.id == r.id && !l.used {
				before = l
			}
		}
		switch {
		case !r.label && waiting != nil:
			c.RepeatedEvents++
		case !r.label:
			e := &event{arrived: r, score: score(n)}
			events = append(events, e)
			if before != nil {
				before.used, e.labeled, e.class = true, true, before.class
				c.Matched++
				out = append(out, told{ID: e.id, X: e.x, Class: e.class, Weight: 1, Score: e.score})
			}
		case waiting != nil && waiting.labeled && waiting.class == r.class:
			c.Repeated++
		case waiting != nil:
			if waiting.labeled {
				c.Corrected++
			} else {
				c.Matched++
			}
			waiting.labeled, waiting.class = true, r.class
			out = append(out, told{ID: r.id, X: waiting.x, Class: r.class, Weight: 1, Score: waiting.score})
		case before != nil && before.class == r.class:
			c.Repeated++
		case before != nil:
			c.Corrected++
			before.arrived = r
		case gone != nil:
			c.Late++
		default:
			c.Early++
			earlies = append(earlies, &early{arrived: r})
		}
	}
	for _, e := range events {
		if !e.labeled && !e.over {
			c.Pending++
		}
	}
	return out, c
}

// memory is a partition in memory. Its method is used as Lane.Next.
type memory struct {
	topic     string
	partition int32
	records   []arrived
	size      func() int
}

func (m *memory) next(_ context.Context, b *event.Batch) error {
	if len(m.records) == 0 {
		return io.EOF
	}
	n := min(m.size(), len(m.records)) // may be 0: a batch that only has the position of the partition
	*b = event.Batch{Topic: m.topic, Partition: m.partition, Examples: b.Examples[:0], Next: m.records[0].offset, HighWater: -1}
	for _, r := range m.records[:n] {
		value := fmt.Sprintf(`{"x":%v,"f%d":1}`, r.x, r.offset%7)
		if r.label {
			value = fmt.Sprintf(`{"label":"c%d","junk%d":1}`, r.class, r.offset)
		}
		b.Examples = append(b.Examples, event.Example{Key: []byte(r.id), Value: []byte(value), Offset: r.offset, Time: r.time, Fingerprint: uint64(r.offset)})
		b.Next = r.offset + 1
	}
	m.records = m.records[n:]
	return nil
}

func testLanes(t *testing.T, schema *event.Schema, records []arrived, offsets event.Offsets, size func() int) []Lane {
	t.Helper()
	c := record.DefaultConfig()
	c.Unlabeled = true
	decoder := must.Get(record.NewDecoder(c, schema))(t)
	config := DefaultConfig()
	labelDecoder := must.Get(NewLabelDecoder(func(own *event.Schema) (record.Decoder, error) {
		return record.NewDecoder(config.LabelRecord(c), own)
	}, schema))(t)
	var lanes []Lane
	for label := range 2 {
		for partition := range int32(3) {
			m := &memory{topic: []string{"events", "labels"}[label], partition: partition, size: size}
			at, _ := offsets.Lookup(m.topic, partition)
			for _, r := range records {
				if r.label == (label == 1) && r.partition == partition && r.offset >= at.Next {
					m.records = append(m.records, r)
				}
			}
			l := Lane{Topic: m.topic, Partition: partition, Labels: label == 1, Next: m.next, Decoder: decoder}
			if l.Labels {
				l.Decoder = labelDecoder
			}
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// joined runs a Join over records and collects its results in out.
type joined struct {
	schema  *event.Schema
	join    *Join
	offsets event.Offsets
	out     []told
}

// run processes records until stop returns true after a record.
func (j *joined) run(t *testing.T, records []arrived, size func() int, stop func() bool) {
	t.Helper()
	must.Do(t, j.try(t, records, size, stop))
}

// try does the same as run, but returns the error of the Join.
func (j *joined) try(t *testing.T, records []arrived, size func() int, stop func() bool) error {
	t.Helper()
	m := NewMerge(j.schema, testLanes(t, j.schema, records, j.offsets, size), j.join)
	take := func(w *Waited) {
		o := told{ID: string(w.Key), Class: w.Label, Weight: w.Weight, Score: w.Prediction[0], Unlabeled: w.Label == event.Unlabeled}
		if o.Unlabeled {
			o.Class = 0
		}
		for i, id := range w.Field {
			if j.schema.Fields[id].Name == "x" {
				o.X = w.Features.Value[i]
			}
		}
		if !o.Unlabeled {
			var class int
			fmt.Sscanf(j.schema.Classes[o.Class], "c%d", &class)
			o.Class = class
		}
		j.out = append(j.out, o)
	}
	for b := range eventtest.Batches(t, m.Next) {
		for i := range b.Examples {
			e := &b.Examples[i]
			must.Require(t, e.Refused == nil, "%s/%d %d: %v", b.Topic, b.Partition, e.Offset, e.Refused)
			must.Do(t, j.offsets.At(b.Topic, b.Partition, 0).Advance(e.Offset, e.Fingerprint))
			tick := j.join.State().Tick
			if err := j.join.Flush(); err != nil {
				return err
			}
			j.join.Advance(b.Topic, b.Partition, e)
			for {
				w, err := j.join.Expired()
				if err != nil {
					return err
				}
				if w == nil {
					break
				}
				take(w)
			}
			var w *Waited
			var err error
			if b.Labels {
				_, w, err = j.join.Label(e)
			} else {
				_, w, err = j.join.Event(e, b.Partition, []float64{testScore(int(tick))})
			}
			if err != nil {
				return err
			}
			if w != nil {
				take(w)
			}
			if stop != nil && stop() {
				return nil
			}
		}
	}
	return nil
}

func testScore(n int) float64 { return float64(n) / 3 }

// someRecords returns random events, and labels with random delays: some before their event, some too late, some
// repeated, some missing, some without an event.
func someRecords(r *rand.Rand, n int) (records []arrived) {
	var offsets [2][3]int64
	add := func(a arrived) {
		kind := must.Either(a.label, 1, 0)
		a.partition = int32(r.IntN(3))
		a.offset = offsets[kind][a.partition]
		offsets[kind][a.partition] += 1 + int64(r.IntN(2)) // offsets have gaps
		records = append(records, a)
	}
	type due struct {
		at int
		arrived
	}
	var later []due
	for i := range n {
		now := int64(10 * i)
		jitter := func() int64 { return now + int64(r.IntN(25)) - 12 }
		id := fmt.Sprintf("id%d", r.IntN(n))
		add(arrived{time: jitter(), id: id, x: float64(i) + 2})
		for range []int{0, 1, 1, 1, 2, 3}[r.IntN(6)] {
			later = append(later, due{i + r.IntN(60), arrived{label: true, id: id, class: r.IntN(2)}})
		}
		if r.IntN(8) == 0 {
			add(arrived{label: true, time: jitter(), id: fmt.Sprintf("id%d", r.IntN(n)), class: r.IntN(2)})
		}
		later = slices.DeleteFunc(later, func(d due) bool {
			if d.at > i {
				return false
			}
			d.time = jitter()
			add(d.arrived)
			return true
		})
	}
	return records
}

// opened opens a Join that the end of the test closes.
func opened(t *testing.T, c Config, directory string, state State) *Join {
	t.Helper()
	j := must.Get(Open(c, directory, state))(t)
	t.Cleanup(func() { j.Close() })
	return j
}

// arrive passes an event with the given ID to a Join.
func arrive(t *testing.T, j *Join, id string) {
	t.Helper()
	must.Get2(j.Event(&event.Example{Key: []byte(id), Weight: 1}, 0, nil))(t)
}

// expired returns the IDs of the events whose wait has ended.
func expired(t *testing.T, j *Join) (ids []string) {
	t.Helper()
	for {
		w := must.Get(j.Expired())(t)
		if w == nil {
			return ids
		}
		ids = append(ids, string(w.Key))
	}
}

func newJoined(t *testing.T, c Config, directory string) *joined {
	t.Helper()
	return &joined{schema: record.DefaultConfig().Schema(), join: opened(t, c, directory, State{})}
}

func testConfig(wait int64) Config {
	c := DefaultConfig()
	c.MaxDelay, c.PendingMemory = time.Duration(wait)*time.Millisecond, minMemory
	return c
}

// TestJoinEqualsSlowJoin checks that Join returns the same results as slowJoin, in the same order.
func TestJoinEqualsSlowJoin(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		records := someRecords(r, 150)
		wait := int64(100 + r.IntN(300))
		want, counts := slowJoin(records, wait, testScore)
		j := newJoined(t, testConfig(wait), t.TempDir())
		j.run(t, records, func() int { return r.IntN(4) }, nil)
		compare(t, fmt.Sprintf("seed %d", seed), j, want, counts)
		must.Do(t, j.join.Close())
		must.True(t, seed != 0 || counts.TimedOut != 0 && counts.Late != 0 && counts.Early != 0 && counts.Corrected != 0 && counts.Repeated != 0 && counts.RepeatedEvents != 0 && counts.Unmatched != 0,
			"the records of the test leave something out: %+v", counts)
	}
}

func compare(t *testing.T, what string, j *joined, want []told, counts counted) {
	t.Helper()
	got := j.join.Counts()
	c := (counted{got.Pending, got.Matched, got.TimedOut, got.RepeatedEvents, got.Early, got.Corrected, got.Repeated, got.Late, got.Unmatched})
	must.True(t, c == counts, "%s: counted\n%+v, want\n%+v", what, c, counts)
	for i := range max(len(j.out), len(want)) {
		must.Require(t, i < len(j.out) && i < len(want) && j.out[i] == want[i],
			"%s: number %d of %d, want %d, differs: %+v", what, i, len(j.out), len(want), append(slices.Clone(j.out[min(i, len(j.out)):min(i+1, len(j.out))]), want[min(i, len(want)):min(i+1, len(want))]...))
	}
}

// TestJoinAfterKills kills runs at any record. Each next run continues from an earlier checkpoint, with the files as
// they were at the kill. The final state and the results must equal an uninterrupted run.
func TestJoinAfterKills(t *testing.T) {
	const wait = 150
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 2))
		records := someRecords(r, 120)
		want, counts := slowJoin(records, wait, testScore)
		whole := newJoined(t, testConfig(wait), t.TempDir())
		whole.run(t, records, func() int { return 5 }, nil)
		defer whole.join.Close()

		directory := t.TempDir()
		j := newJoined(t, testConfig(wait), directory)
		j.join.store.most = 1 + r.IntN(9)
		type saved struct {
			state   []byte
			offsets event.Offsets
			schema  *event.Schema
			out     []told
		}
		kept := []saved{{[]byte("{}"), nil, record.DefaultConfig().Schema(), nil}}
		var frozen []*Frozen
		kills := 0
		for end := false; !end; {
			n, killAt := 0, 1+r.IntN(60)
			end = kills > 25
			j.run(t, records, func() int { return r.IntN(4) }, func() bool {
				if r.IntN(10) == 0 {
					f := j.join.Freeze()
					block := must.Get(f.Block())(t)
					kept = append(kept, saved{block.Data, j.offsets.Clone(), j.schema.Clone(), slices.Clone(j.out)})
					if frozen = append(frozen, f); len(frozen) >= 2 {
						must.Do(t, frozen[0].LetGo())
						frozen, kept = frozen[1:], kept[len(kept)-2:]
					}
				}
				n++
				return n == killAt && !end
			})
			if end {
				break
			}
			kills++
			// as after a kill, the files stay as they are
			must.Do(t, j.join.Close())
			from := kept[r.IntN(len(kept))]
			frozen = nil
			kept = kept[:slices.IndexFunc(kept, func(s saved) bool { return &s.state[0] == &from.state[0] })+1]
			var state State
			must.Do(t, json.Unmarshal(from.state, &state))
			join := must.Get(Open(testConfig(wait), directory, state))(t, "seed", seed, "kill", kills)
			join.store.most = 1 + r.IntN(9)
			j = &joined{schema: from.schema.Clone(), join: join, offsets: from.offsets.Clone(), out: slices.Clone(from.out)}
		}
		compare(t, fmt.Sprintf("seed %d", seed), j, want, counts)
		must.True(t, reflect.DeepEqual(j.join.State(), whole.join.State()), "seed %d: the state is\n%+v, want\n%+v", seed, j.join.State(), whole.join.State())
		must.True(t, slices.Equal(j.schema.Fields, whole.schema.Fields) && slices.Equal(j.schema.Classes, whole.schema.Classes),
			"seed %d: fields %v and classes %v, want %v and %v", seed, j.schema.Fields, j.schema.Classes, whole.schema.Fields, whole.schema.Classes)
		must.Do(t, j.join.Close())
	}
}

// BenchmarkJoin stores b.N events of 200 bytes with random ids, which all wait at the same time. Then a label arrives
// for each of a thousand of them. The cost depends on the number of waiting events:
//
//	go test ./stream/labels -run '^$' -bench Join -benchtime 10000000x
func BenchmarkJoin(b *testing.B) {
	c := DefaultConfig()
	c.MaxPending = 1 << 40
	directory := b.TempDir()
	j := must.Get(Open(c, directory, State{}))(b)
	defer j.Close()
	r := rand.New(rand.NewPCG(1, 2))
	e := &event.Example{Key: make([]byte, 16), Weight: 1, Label: event.Unlabeled,
		Features: event.Vec{Index: make([]uint32, 10), Value: make([]float64, 10)}, Field: make([]uint16, 10)}
	id := func(r *rand.Rand) {
		binary.BigEndian.PutUint64(e.Key, r.Uint64())
		binary.BigEndian.PutUint64(e.Key[8:], r.Uint64())
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		id(r)
		for k := range e.Features.Index {
			e.Features.Index[k], e.Features.Value[k] = r.Uint32(), r.NormFloat64()
		}
		must.Do(b, j.Flush())
		j.Advance("events", 0, &event.Example{Arrival: int64(i)})
		must.Get(j.Expired())(b)
		must.Get2(j.Event(e, 0, []float64{1}))(b)
	}
	must.Do(b, j.store.mark())
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	again := rand.New(rand.NewPCG(1, 2))
	labels := min(b.N, 1000)
	every := b.N / labels
	var ids [][]byte
	for i := range labels * every {
		if id(again); i%every == 0 {
			ids = append(ids, append([]byte(nil), e.Key...))
		}
		for range e.Features.Index { // values of the event
			again.Uint32()
			again.NormFloat64()
		}
	}
	before := b.Elapsed()
	b.StartTimer()
	for _, id := range ids {
		must.Get2(j.Label(&event.Example{Key: id, Label: 1, Weight: 1}))(b)
	}
	b.StopTimer()
	n := j.state.Matched
	must.Require(b, n == uint64(labels), "%d labels matched, want %d", n, labels)
	var disk int64
	entries := must.Get(os.ReadDir(directory))(b)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil { // otherwise the store has removed the file in the meantime
			disk += info.Size()
		}
	}
	b.ReportMetric(float64(disk)/float64(b.N), "disk-B/event")
	b.ReportMetric(float64((b.Elapsed()-before).Microseconds())/float64(labels), "µs/label")
}
