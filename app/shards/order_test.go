package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/stream/labels"
	"blankout/stream/record"
)

// logged is a record of a test.
type logged struct {
	topic     string
	partition int32
	offset    int64
	time      int64
}

// logOf returns a Partition that reads the records of a partition from an offset. If ends is false, the log waits for more
// records after its end.
func logOf(t *testing.T, s *event.Schema, records []logged, from int64, ends bool, r *rand.Rand) Partition {
	t.Helper()
	config := record.DefaultConfig()
	config.Format = "json"
	at := from
	deferred := &labels.Deferred{}
	return Partition{
		Topic: records[0].topic, Number: records[0].partition, Decoder: must.Get(record.NewDecoder(config, s))(t),
		AtEnd: func() bool { return at == int64(len(records)) },
		Next: func(ctx context.Context, b *event.Batch) error {
			b.Topic, b.Partition, b.Examples = records[0].topic, records[0].partition, b.Examples[:0]
			if at == int64(len(records)) {
				if ends {
					return io.EOF
				}
				<-ctx.Done()
				return ctx.Err()
			}
			for range 1 + r.IntN(5) {
				if at == int64(len(records)) {
					break
				}
				x := records[at]
				var e event.Example
				must.Do(t, deferred.Decode(ctx, record.Record{Value: fmt.Appendf(nil, `{"label":"a","x":%d}`, x.time), Offset: x.offset, Time: x.time}, &e))
				b.Examples = append(b.Examples, e)
				at++
			}
			b.Next = at
			return nil
		},
	}
}

// take reads an Ordered until its end, or n records.
func take(t *testing.T, o *Ordered, n int) (out []logged) {
	t.Helper()
	var b event.Batch
	for len(out) < n {
		err := o.Next(t.Context(), &b)
		if errors.Is(err, io.EOF) {
			return out
		}
		must.Do(t, err)
		for i := range b.Examples {
			out = append(out, logged{b.Topic, b.Partition, b.Examples[i].Offset, b.Examples[i].Time})
		}
		if k := len(b.Examples); k > 0 {
			must.Equal(t, b.Next > b.Examples[k-1].Offset, true, "the position is after the batch")
		}
	}
	return out
}

// TestOrder checks the order of several partitions, and that reading from any position of it continues with the same
// records.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	logs := map[string][]logged{}
	var all []logged
	for _, topic := range []string{"b", "a"} {
		for partition := range int32(3) {
			name, at := fmt.Sprint(topic, partition), int64(0)
			for offset := range int64(100) {
				at += int64(r.IntN(4)) // some times are equal
				logs[name] = append(logs[name], logged{topic, partition, offset, at})
			}
			all = append(all, logs[name]...)
		}
	}
	slices.SortFunc(all, func(a, b logged) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition), cmp.Compare(a.offset, b.offset))
	})
	for start := 0; start < len(all); start += 77 {
		from := map[string]int64{}
		for _, x := range all[:start] {
			from[fmt.Sprint(x.topic, x.partition)] = x.offset + 1
		}
		s := event.NewSchema(10, []string{"a"}, 2)
		var partitions []Partition
		for name, records := range logs {
			partitions = append(partitions, logOf(t, s, records, from[name], true, r))
		}
		must.EqualSlices(t, take(t, NewOrdered(s, partitions), len(all)), all[start:], "records from", start)
	}
}

// TestOrderWaits checks that a partition whose log has ended holds up the others only for the time Idle, and that a
// record that is earlier than the next one of its partition is not lost.
func TestOrderWaits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	one := []logged{{"a", 0, 0, 5}, {"a", 0, 1, 3}, {"a", 0, 2, 50}}
	two := []logged{{"a", 1, 0, 4}, {"a", 1, 1, 6}}
	s := event.NewSchema(10, []string{"a"}, 2)
	o := NewOrdered(s, []Partition{logOf(t, s, one, 0, false, r), logOf(t, s, two, 0, false, r)})
	o.Idle = 50 * time.Millisecond
	must.EqualSlices(t, take(t, o, 5), []logged{two[0], one[0], one[1], two[1], one[2]}, "records")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	must.ErrorIs(t, o.Next(ctx, &event.Batch{}), context.DeadlineExceeded, "after the last record")
}

// TestOrderWaitsForBrokers checks that a partition holds up the others for longer than Idle while its log has records
// that have not arrived, and until Idle has passed again after that.
func TestOrderWaitsForBrokers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := event.NewSchema(10, []string{"a"}, 2)
	slow := logOf(t, s, []logged{{"a", 0, 0, 1}}, 0, false, r)
	next, polls := slow.Next, 0
	slow.Next = func(ctx context.Context, b *event.Batch) error {
		if polls++; polls < 12 {
			<-ctx.Done()
			return ctx.Err()
		}
		return next(ctx, b)
	}
	atEnd := slow.AtEnd
	slow.AtEnd = func() bool { return atEnd() || polls%2 == 0 } // before its record, never for the time Idle
	o := NewOrdered(s, []Partition{slow, logOf(t, s, []logged{{"a", 1, 0, 2}}, 0, false, r)})
	o.Idle = 150 * time.Millisecond
	must.EqualSlices(t, take(t, o, 2), []logged{{"a", 0, 0, 1}, {"a", 1, 0, 2}}, "records")
}

// TestOrderWaitsTogether checks that partitions that are at their ends at the same time hold up the others once, not one
// after the other, but that the time before a partition is at its end does not count.
func TestOrderWaitsTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := event.NewSchema(10, []string{"a"}, 2)
	const n, idle = 10, 3 // idle is the number of polls for which a partition at its end holds up the others
	var partitions []Partition
	polls := 0
	for k := range int32(n) {
		p := logOf(t, s, []logged{{"a", k, 0, int64(k)}}, 0, false, r)
		next, atEnd := p.Next, p.AtEnd
		p.Next = func(ctx context.Context, b *event.Batch) error {
			if ctx.Err() == nil { // else the partition is skipped, and not waited for
				polls++
			}
			return next(ctx, b)
		}
		if k == n-1 {
			p.AtEnd = func() bool { return atEnd() && polls >= 25 } // the records of its log are not known before
		}
		partitions = append(partitions, p)
	}
	last := logOf(t, s, []logged{{"b", 0, 0, 99}}, 0, false, r)
	o := NewOrdered(s, append(partitions, last))
	o.Idle = idle * 100 * time.Millisecond
	must.Equal(t, take(t, o, n+1)[n], logged{"b", 0, 0, 99}, "the last record")
	// The records take ten polls. Then the first partition holds up the others for three, and the others for one each,
	// except the last, which holds them up for three after its end.
	must.True(t, polls >= 25+idle-2 && polls <= 25+idle+1, "%d polls", polls)
}
