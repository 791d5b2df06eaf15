package stream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/internal/streamtest"

	"github.com/twmb/franz-go/pkg/kadm"
)

// keyed returns n messages. Some keys repeat, sometimes at exactly the distance of the window or one offset more. It
// also returns the offsets of the messages that are repeated within the window, found by a simple search.
func keyed(n int, window int64) (messages []Message, repeats []int64) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		key := fmt.Appendf(nil, "k%d", r.IntN(3*n/2))
		switch {
		case i%10 == 9:
			key = nil // an event without a key is never repeated
		case i >= int(window) && (i%100 == 0 || i%100 == 34):
			key = messages[i-int(window)].Key
		case i > int(window) && i%100 == 53:
			key = messages[i-int(window)-1].Key
		}
		for j := max(0, i-int(window)); j < i && key != nil; j++ {
			if string(messages[j].Key) == string(key) {
				repeats = append(repeats, int64(i))
				break
			}
		}
		messages = append(messages, Message{Key: key, Value: fmt.Appendf(nil, "%d", i)})
	}
	return messages, repeats
}

// TestRepeated checks which events are detected as repeated. The result must not depend on where a Consumer starts, or
// whether it went back.
func TestRepeated(t *testing.T) {
	b := startBroker(t, map[string]int32{"t": 1})
	const n, window = 2000, 300
	messages, want := keyed(n, window)
	must.Require(t, len(want) >= 100, "only %d repeats", len(want))
	produce(t, b, "t", func(c *ProducerConfig) { c.BatchBytes = 700 }, messages...)
	read := func(c *testConsumer, from int64) (repeats []int64, first, next int64, err error) {
		first, next = -1, from
		for {
			var batch event.Batch
			if err := c.Next(t.Context(), &batch); err != nil {
				return repeats, first, next, err
			}
			must.Require(t, batch.Next >= from, "next %d before the start %d", batch.Next, from)
			for _, e := range batch.Examples {
				must.Require(t, e.Offset == next, "offset %d, want %d", e.Offset, next)
				next++
				if first < 0 {
					first = e.Offset
				}
				if e.Refused != nil {
					must.Require(t, e.Refused.Reason == event.ReasonRepeated && len(e.Key) != 0 && e.Features.Len() <= 0 && e.Label == event.Unlabeled && e.Weight == 0 && e.Fingerprint != 0, "%+v", e)
					repeats = append(repeats, e.Offset)
				}
			}
		}
	}
	for _, start := range []int64{0, 1, 299, 300, 301, 1234, n - 1, n} {
		var from event.Offsets
		if start > 0 {
			from.At("t", 0, 0).Next = start
		}
		c := consume(t, b, "t", from, func(c *ConsumerConfig) { c.DedupWindow, c.BatchRecords = window, 37 })
		got, _, next, _ := read(c, start)
		i, _ := slices.BinarySearch(want, start)
		must.True(t, slices.Equal(got, want[i:]) && next == n, "from %d: %d repeats up to %d, want %d", start, len(got), next, len(want[i:]))
		c.Close()
	}
	// Every record is returned without dedup_window.
	must.Equal(t, n, len(consume(t, b, "t", nil, nil).all()), "records")
	// The part of the window that is no longer in the log is not needed.
	client := streamtest.Client(t, b.Brokers())
	to := kadm.Offsets{}
	to.AddOffset("t", 0, 1200, -1)
	must.Get(kadm.NewClient(client).DeleteRecords(t.Context(), to))(t)
	var from event.Offsets
	from.At("t", 0, 0).Next = 1234
	got, first, _, _ := read(consume(t, b, "t", from, func(c *ConsumerConfig) { c.DedupWindow = window }), 1234)
	must.True(t, first == 1234 && len(got) != 0 && slices.Equal(got[len(got)-1:], want[len(want)-1:]), "with a log that starts at 1200: from %d: %v", first, got)
}

// TestRepeatedAtTheEdge checks that an event is repeated if its key appeared exactly one window earlier, but not if it
// appeared one offset before that.
func TestRepeatedAtTheEdge(t *testing.T) {
	for _, window := range []int64{3, 1000, 5000} {
		r := repeated{window: window}
		r.of([]byte("edge"), 0)
		r.of([]byte("beyond"), 1)
		for i := int64(2); i < window; i++ {
			r.of(fmt.Appendf(nil, "%d", i), i)
		}
		must.Equal(t, r.of([]byte("edge"), window), 0, "the place in window", window)
		must.Equal(t, r.of([]byte("beyond"), 2+window), -1, "the place of one beyond window", window)
		must.Equal(t, r.of([]byte("edge"), 2*window), window, "the latest place")
	}
}

// TestRepeatedMemory checks that the window limits the memory.
func TestRepeatedMemory(t *testing.T) {
	r := repeated{window: 1000}
	for i := range int64(100_000) {
		r.of(fmt.Appendf(nil, "%d", i), i)
	}
	must.True(t, len(r.last) <= 1001 && len(r.queue) <= 4100 && cap(r.queue) <= 10_000, "%d keys, %d of %d in the queue", len(r.last), len(r.queue), cap(r.queue))
}
