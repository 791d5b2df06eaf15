package shards

// This file implements the member of a consumer group that learns the shards it is assigned.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/internal/event"
	"blankout/stream"
)

// The reasons for which a shard cannot be learned yet.
var (
	// ErrElsewhere reports that another process has the checkpoints of a shard: it holds their lock, or has taken it.
	ErrElsewhere = errors.New("another process has the shard")
	// ErrUnread reports that what the group has published cannot be read.
	ErrUnread = errors.New("the shard's snapshot cannot be read")
)

// Shard is a shard that this member learns, or waits to learn.
type Shard struct {
	Number     int
	Partitions []stream.TopicPartition // its partitions, sorted

	stop     context.CancelFunc
	done     chan struct{}
	waits    atomic.Pointer[string]
	learning atomic.Pointer[Learning]
}

// Learning is what learns a shard.
type Learning struct {
	*run.Runner
	Model     func() *served.Model // returns the shard's newest model, or nil
	Consumers []*stream.Consumer   // read the shard's partitions
}

// Runs tells readers of the status what learns the shard.
func (s *Shard) Runs(x *Learning) {
	s.learning.Store(x)
	s.waits.Store(nil)
}

// Learning returns what learns the shard, or nil while nothing does.
func (s *Shard) Learning() *Learning { return s.learning.Load() }

// NotReady returns why the shard is not learned, or "".
func (s *Shard) NotReady() string {
	if why := s.waits.Load(); why != nil {
		return *why
	}
	if x := s.Learning(); x != nil {
		return x.Status().NotReady
	}
	return "not started"
}

// Member is a member of a group. Its exported fields do not change after Run was called.
type Member struct {
	Config Config
	Shards int // number of shards, see Config.Count
	Kafka  stream.ConnectConfig
	Topics []string // topics of events and of delayed labels
	// Learn learns a shard from its newest checkpoint until ctx ends, saves and returns nil. It calls Shard.Runs. If it
	// returns an ErrElsewhere or ErrUnread, Run calls it again while the shard is assigned to this member. Any other error ends Run.
	Learn func(ctx context.Context, s *Shard) error
	Log   *slog.Logger

	failed  chan error
	mu      sync.Mutex
	shards  map[int]*Shard
	current *stream.Generation // nil before the member has joined
}

// againAfter is the time after which a member tries again to learn a shard.
const againAfter = 200 * time.Millisecond

// Run learns the assigned shards until ctx ends, or one of them fails. In both cases all shards are saved, and the
// member leaves the group. While the group reassigns its partitions, learning continues: a shard that moves is saved and
// released before its next owner can continue it.
func (m *Member) Run(ctx context.Context) (err error) {
	c := stream.DefaultMembershipConfig()
	c.ConnectConfig, c.Group, c.Topics, c.Shards, c.Log = m.Kafka, m.Config.Name, m.Topics, m.Shards, m.Log
	c.Instance, c.SessionTimeout, c.RebalanceTimeout = m.Config.Instance, m.Config.SessionTimeout, 3*m.Config.SessionTimeout
	membership, err := stream.NewMembership(ctx, c)
	if err != nil {
		return err
	}
	m.failed = make(chan error, 1)
	defer func() {
		m.release(nil)
		leaving, cancel := context.WithTimeout(context.Background(), m.Config.SessionTimeout/2)
		defer cancel()
		if left := membership.Leave(leaving); left != nil {
			m.Log.Warn("the group was not told that this member stops", "err", left)
		}
	}()
	for {
		g, err := membership.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		m.take(ctx, g)
		select {
		case <-ctx.Done():
			return nil
		case err := <-m.failed:
			return err
		case <-g.Done():
		}
		switch {
		case errors.Is(g.Err(), stream.ErrSession):
			m.Log.Warn("the group has removed this member: its shards are saved and released", "err", g.Err())
			m.release(nil)
		case !errors.Is(g.Err(), stream.ErrRebalance):
			return g.Err()
		}
	}
}

// take makes the shards of a Generation the shards of this member.
func (m *Member) take(ctx context.Context, g *stream.Generation) {
	assigned := map[int][]stream.TopicPartition{}
	for _, p := range g.Partitions {
		k := event.ShardOf(p.Partition, m.Shards)
		assigned[k] = append(assigned[k], p)
	}
	m.release(assigned)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current = g
	if m.shards == nil {
		m.shards = map[int]*Shard{}
	}
	for k, partitions := range assigned {
		if m.shards[k] != nil {
			continue
		}
		learning, stop := context.WithCancel(ctx)
		s := &Shard{Number: k, Partitions: partitions, stop: stop, done: make(chan struct{})}
		m.shards[k] = s
		go func() {
			defer close(s.done)
			defer stop()
			if err := m.learn(learning, s); err != nil {
				select {
				case m.failed <- fmt.Errorf("%s: %w", event.ShardName(s.Number), err):
				default: // Run ends with an earlier error
				}
			}
		}()
	}
}

// learn learns a shard until ctx ends. While the shard cannot be learned yet, it waits.
func (m *Member) learn(ctx context.Context, s *Shard) error {
	for told := ""; ; {
		err := m.Learn(ctx, s)
		s.learning.Store(nil)
		again := errors.Is(err, ErrElsewhere) || errors.Is(err, ErrUnread)
		if ctx.Err() != nil && (err == nil || again || errors.Is(err, context.Canceled)) {
			return nil
		}
		if !again {
			return err
		}
		why := err.Error()
		s.waits.Store(&why)
		if why != told {
			m.Log.Warn("a shard waits", "shard", s.Number, "err", err)
			told = why
		}
		if stream.Sleep(ctx, againAfter) != nil {
			return nil
		}
	}
}

// release stops all shards except those that are assigned with the same partitions, and waits until they are saved.
func (m *Member) release(assigned map[int][]stream.TopicPartition) {
	var stopped []*Shard
	m.mu.Lock()
	for k, s := range m.shards {
		if !slices.Equal(assigned[k], s.Partitions) {
			s.stop()
			stopped = append(stopped, s)
			delete(m.shards, k)
		}
	}
	m.mu.Unlock()
	for _, s := range stopped {
		<-s.done
	}
}

// Own returns the shards of this member, sorted by number, and the current Generation, which is nil before the member
// has joined. Any goroutine may call it.
func (m *Member) Own() ([]*Shard, *stream.Generation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.shards), func(a, b *Shard) int { return cmp.Compare(a.Number, b.Number) }), m.current
}
