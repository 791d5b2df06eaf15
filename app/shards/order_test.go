package shards

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/online"
	"blankout/stream"
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
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// TestOrderWaitsForBrokers checks that a partition holds up the others for longer than Idle while its log has records
// that have not arrived, and until Idle has passed again after that.
func TestOrderWaitsForBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// TestOrderWaitsTogether checks that partitions that are at their ends at the same time hold up the others once, not one
// after the other, but that the time before a partition is at its end does not count.
func TestOrderWaitsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// TestCount checks the number of shards, and the reasons to refuse one.
func TestCount(t *testing.T) {
	for _, x := range []struct {
		shards, partitions, there, want int
		refused                         string
	}{
		{0, 3, 0, 3, ""}, {0, 30, 0, 8, ""}, {12, 30, 0, 12, ""}, {0, 30, 4, 4, ""}, {4, 3, 4, 4, ""},
		{3, 30, 4, 0, "cannot change"}, {4, 3, 0, 0, "a shard needs at least one"}, {0, 0, 0, 0, "no partitions"},
	} {
		c := Config{Name: "g", Shards: x.shards}
		n, err := c.Count(x.partitions, x.there)
		must.True(t, n == x.want && (err != nil) == (x.refused != "") && (err == nil || strings.Contains(err.Error(), x.refused)), "%+v: %d shards, %v", x, n, err)
	}
}

// owners records which member learns which shard.
type owners struct {
	mu  sync.Mutex
	own map[int]string
	bad error
}

func (o *owners) learn(name string) func(context.Context, *Shard) error {
	return func(ctx context.Context, s *Shard) error {
		o.mu.Lock()
		if other := o.own[s.Number]; other != "" { // as the lock of a directory does
			o.mu.Unlock()
			return fmt.Errorf("%w: %s has it", ErrElsewhere, other)
		}
		o.own[s.Number] = name
		for _, p := range s.Partitions {
			if int(p.Partition)%3 != s.Number { // as in stream and served
				o.bad = fmt.Errorf("partition %d is given to shard %d", p.Partition, s.Number)
			}
		}
		o.mu.Unlock()
		<-ctx.Done()
		time.Sleep(20 * time.Millisecond) // saves
		o.mu.Lock()
		delete(o.own, s.Number)
		o.mu.Unlock()
		return nil
	}
}

func (o *owners) count(name string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, owner := range o.own {
		if owner == name {
			n++
		}
	}
	return n
}

// TestMembers checks that members share the shards, that another member takes over those of one that leaves, that the
// failure of a shard ends its member, and that a member with another number of shards is refused.
func TestMembers(t *testing.T) {
	broker := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(7, "t"), kfake.GroupMinSessionTimeout(100*time.Millisecond)))(t)
	defer broker.Close()
	var o owners
	o.own = map[int]string{}
	member := func(name string, shards int) *Member {
		c := stream.DefaultConnectConfig()
		c.Brokers = broker.ListenAddrs()
		return &Member{Config: Config{Name: "g", SessionTimeout: 2 * time.Second}, Shards: shards, Kafka: c, Topics: []string{"t"}, Learn: o.learn(name), Log: streamtest.Log(t)}
	}
	var running sync.WaitGroup
	start := func(name string) (m *Member, stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		m = member(name, 3)
		done := make(chan struct{})
		running.Go(func() {
			defer close(done)
			err := m.Run(ctx)
			must.True(t, err == nil, "member %s: %v", name, err)
		})
		return m, func() { cancel(); <-done }
	}
	has := func(want map[string]int) {
		t.Helper()
		streamtest.Eventually(t, 20*time.Second, func() bool {
			for name, n := range want {
				if o.count(name) != n {
					return false
				}
			}
			return true
		}, want)
	}
	a, stopA := start("a")
	has(map[string]int{"a": 3})
	_, stopB := start("b")
	has(map[string]int{"a": 2, "b": 1})
	// no Runner
	own, g := a.Own()
	must.True(t, len(own) == 2 && g != nil && g.Members == 2 && own[0].NotReady() != "", "member a has %d shards in %+v", len(own), g)
	var other *stream.ShardsError
	err := member("c", 2).Run(t.Context())
	must.True(t, errors.As(err, &other) && other.Theirs == 3 && other.Own == 2, "another number of shards: %v", err)
	stopA()
	has(map[string]int{"a": 0, "b": 3})
	stopB()
	has(map[string]int{"b": 0})
	must.Do(t, o.bad)
	broken := member("d", 3)
	broken.Learn = func(context.Context, *Shard) error { return errors.New("the disk is full") }
	err = broken.Run(t.Context())
	must.True(t, err != nil && strings.Contains(err.Error(), "shard-") && strings.Contains(err.Error(), "the disk is full"), "a shard that fails: %v", err)
	running.Wait()
}

// judged learns events of a shard, whose weight of x is own, while another shard has learned events with the weight
// theirs. Labels arrive so many events later. It returns the Judge at the end.
func judged(t *testing.T, own, theirs float64, regression bool, delay int64) *Judge {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	config := record.DefaultConfig()
	config.Format, config.KeepValue = "json", true
	c := online.DefaultConfig()
	if regression {
		c.Loss = "squared"
		config.Target = 1
	}
	draw := func(weight float64) []byte {
		x := r.NormFloat64()
		y := weight*x + .5*r.NormFloat64()
		if regression {
			return fmt.Appendf(nil, `{"x":%.4f,"label":%.4f}`, x, 100*y)
		}
		return fmt.Appendf(nil, `{"x":%.4f,"label":"%v"}`, x, y > 0)
	}
	learn := func(weight float64, j *Judge) *online.Learner {
		s := config.Schema()
		d := must.Get(record.NewDecoder(config, s))(t)
		l := must.Get(online.New(c, s))(t)
		var e event.Example
		var joined []event.Example
		for offset := range int64(6000) {
			value := draw(weight)
			must.Do(t, d.Decode(t.Context(), record.Record{Value: value, Offset: offset}, &e))
			e.Fingerprint = record.Fingerprint(offset, nil, value)
			if j != nil {
				j.Schema = l.Schema
			}
			p := l.Predict(&e)
			switch {
			case j != nil && delay == 0:
				must.Do(t, j.Observe(&e, &p))
			case j != nil:
				e.Key = fmt.Append(nil, offset)
				must.Do(t, j.Wait(&e, &p))
				joined = append(joined, event.Example{Key: e.Key, Label: e.Label, Target: e.Target, Weight: e.Weight})
				if offset%50 == 0 {
					joined[offset].Label = event.Unlabeled // no label arrives
				}
			}
			l.Learn(&e, nil)
			if j != nil && delay > 0 && offset >= delay {
				must.Do(t, j.Observe(&joined[offset-delay], &p))
			}
		}
		return l
	}
	other := served.New(learn(theirs, nil).Snapshot().Model(), config)
	j := NewJudge(served.ShardInfo{Number: 1, Shards: 2, Coverage: .9}, nil)
	j.Others = func() []*served.Model { return []*served.Model{other, nil} }
	learn(own, j)
	return j
}

// TestJudge checks that the own score has nearly all weight if the other shard's events are different, that the mean is
// used if they are alike, and that answers have the coverage.
func TestJudge(t *testing.T) {
	for i := range 4 {
		regression, delay := i%2 == 1, int64(i/2*300)
		apart, alike := judged(t, 1, -1, regression, delay).Info(), judged(t, 1, 1, regression, delay).Info()
		must.True(t, apart.OwnWeight >= .9 && alike.OwnWeight <= .8, "regression %v: own weight %v if shards differ, %v if they are alike", regression, apart.OwnWeight, alike.OwnWeight)
		for _, info := range []*served.ShardInfo{apart, alike} {
			a := info.Answered
			must.True(t, a.Number >= 500 && a.Number <= 720 && a.Weight >= 4500 && a.Weight <= 7500 && math.Abs(a.Covered/a.Weight-.9) <= .05,
				"regression %v: %v of %v events covered", regression, a.Covered, a.Weight)
			must.True(t, info.Own.Limit(.9) <= info.Mean.Limit(.9)*1.2, "regression %v: the limit of the answers is %v, that of the mean %v", regression, info.Own.Limit(.9), info.Mean.Limit(.9))
		}
	}
}

// TestJudgeContinues checks that a Judge continues from the ShardInfo in a snapshot, and begins anew with one that has no
// measures.
func TestJudgeContinues(t *testing.T) {
	was := judged(t, 1, -1, false, 0).Info()
	var read served.ShardInfo
	must.Do(t, json.Unmarshal(must.Get(json.Marshal(was))(t), &read))
	shard := served.ShardInfo{Number: 1, Shards: 2, Coverage: .9}
	again := NewJudge(shard, &read).Info()
	must.True(t, again.OwnWeight == was.OwnWeight && reflect.DeepEqual(again.Losses, was.Losses) && reflect.DeepEqual(again.Answered, was.Answered) && math.Abs(again.Own.Limit(.9)-was.Own.Limit(.9)) <= 1e-9,
		"%+v, was %+v", again, was)
	first := NewJudge(shard, &served.ShardInfo{}).Info()
	must.True(t, first.OwnWeight == .5 && first.Answered.Weight == 0, "%+v", first)
}

// TestJudgeMeasuresFewer checks that fewer events are measured after the first ones, and more again after a drift alarm.
func TestJudgeMeasuresFewer(t *testing.T) {
	j := NewJudge(served.ShardInfo{Shards: 2}, nil)
	drift := uint64(0)
	j.Drift = func() uint64 { return drift }
	for _, x := range []struct{ drift, events, want uint64 }{
		{0, 0, 8}, {0, 4095, 8}, {0, 4096, 16}, {0, 8192, 32}, {0, 131_071, 256}, {0, 131_072, 512}, {0, 1 << 30, 512},
		{40_000, 40_000, 8}, {40_000, 48_192, 32}, {40_000, 200_000, 512}, {5, 0, 8},
	} {
		drift = x.drift
		must.Equal(t, j.every(x.events), x.want, "one event of", x)
	}
}

// TestJudgeForgets checks that an answer does not wait for ever: its event's wait ends, with a label or without.
func TestJudgeForgets(t *testing.T) {
	j := judged(t, 1, 1, false, 300)
	// of the last 300 events
	n := len(j.waiting)
	must.True(t, n >= 3 && n <= 300/8*2, "%d answers wait", n)
}
