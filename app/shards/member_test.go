package shards

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/stream"
)

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
