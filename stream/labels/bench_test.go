package labels

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

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
