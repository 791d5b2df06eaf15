package main

// This file implements run --group: a member that learns some shards of the stream and answers with all of them.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/app/served/kafka"
	"blankout/app/shards"
	"blankout/checkpoint"
	"blankout/config"
	"blankout/internal/event"
	"blankout/serve"
	"blankout/stream"
	"blankout/stream/labels"
	"blankout/stream/record"
)

// groupMember is a member of a group with its resources.
type groupMember struct {
	*shards.Member
	config     *config.Config
	partitions int // partitions of the topic whose keys select a shard
	follower   *served.Follower
	log        *slog.Logger
	// looked has the result of models, at most a second old, for the Judges: each call of models makes the learners yield.
	looked atomic.Pointer[[]*served.Model]
	// damaged counts the published models of each shard that could not be read.
	damaged [served.MaxShards]atomic.Uint64

	mu     sync.Mutex
	latest *served.Model // the answer of model
	made   []*served.Model
}

// ownShard is a shard that this member learns.
type ownShard struct {
	*service
	judge *shards.Judge
	last  atomic.Pointer[served.Model] // newest model with its ShardInfo
}

// learnShards implements run --group.
func (p *program) learnShards(ctx context.Context, o runFlags, c *config.Config) error {
	for flag, given := range map[string]bool{"--data": o.data != "", "--labels": o.labels != "", "--reset": o.reset, "--from": o.from != "", "--max-events": o.maxEvents > 0} {
		if given {
			return usageError{fmt.Errorf("--group: %s belongs to a single learner, but a group learns the partitions of topics: leave it out", flag)}
		}
	}
	screen := p.newScreen(10 * time.Second)
	log := p.logger(screen)
	if err := c.OpenRegistry(log); err != nil {
		return located{usageError{err}}
	}
	m, err := newGroupMember(ctx, c, log)
	if err != nil && ctx.Err() != nil {
		log.Info("stopped before the first event was learned", "while", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer m.follower.Close()
	var s service
	started := time.Now()
	if err := m.serve(&s, started); err != nil {
		return errors.Join(err, s.Close())
	}
	running, end := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporting.Go(func() { m.report(running, screen, started) })
	err = m.Run(ctx)
	end()
	reporting.Wait()
	status := m.groupStatus()
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	log.Info("stopped", "group", c.Group.Name)
	return p.encode(status)
}

// newGroupMember reads what the group has published, and decides the number of shards.
func newGroupMember(ctx context.Context, c *config.Config, log *slog.Logger) (*groupMember, error) {
	counts, most, err := partitionsOf(ctx, c, log)
	if err != nil {
		return nil, err
	}
	m := &groupMember{config: c, partitions: counts[c.Kafka.Topics[0]], log: log}
	for _, topic := range c.Labels.Topics {
		if n := counts[topic]; n != m.partitions {
			return nil, usageError{fmt.Errorf("labels.topics: topic %s has %d partitions, and %s has %d: a group needs as many, and the same keys in both", topic, n, c.Kafka.Topics[0], m.partitions)}
		}
	}
	// A Publisher of no shard creates the topic, and checks that the topic has no other records.
	publisher, err := kafka.NewPublisher(ctx, kafka.PublisherConfig{ConnectConfig: c.Kafka.ConnectConfig, Topic: c.Group.SnapshotTopic(), Create: true, Shard: event.ShardPrefix, Log: log})
	if err != nil {
		return nil, err
	}
	if err := publisher.Close(); err != nil {
		return nil, err
	}
	where := "kafka:///" + c.Group.SnapshotTopic()
	there := 0
	options := served.Options{Schemes: schemes(c), Record: &c.Record, Log: log, Wait: true}
	for known := (*served.Model)(nil); known == nil; {
		if known, err = served.Open(ctx, where, options); err == nil {
			there = len(known.Shards())
			continue
		}
		if errors.Is(err, kafka.ErrEmpty) {
			break
		}
		log.Warn("the group's snapshots cannot be read; trying again", "err", err)
		if stream.Sleep(ctx, time.Second) != nil {
			return nil, err
		}
	}
	count, err := c.Group.Count(most, there)
	if err != nil {
		return nil, usageError{fmt.Errorf("[group] %w", err)}
	}
	options.Damaged = func(shard int, _ error) {
		if 0 <= shard && shard < len(m.damaged) {
			m.damaged[shard].Add(1)
		}
	}
	if m.follower, err = served.Follow(ctx, where, options); err != nil {
		return nil, err
	}
	m.Member = &shards.Member{Config: c.Group, Shards: count, Kafka: c.Kafka.ConnectConfig, Topics: groupTopics(c), Learn: m.learn, Log: log}
	log.Info("joining a group", "group", c.Group.Name, "shards", count, "partitions", most)
	return m, nil
}

// groupTopics returns the topics of events and of delayed labels.
func groupTopics(c *config.Config) []string {
	return slices.Concat(c.Kafka.Topics, c.Kafka.UnlabeledTopics, c.Labels.Topics)
}

// partitionsOf returns the number of partitions of each topic, and the largest of these numbers.
func partitionsOf(ctx context.Context, c *config.Config, log *slog.Logger) (counts map[string]int, most int, err error) {
	in := inputOf(c, "")
	in.Kafka.Log, in.Kafka.Topics, in.Kafka.UnlabeledTopics, in.Kafka.Only = log, groupTopics(c), nil, nil
	all, err := in.Partitions(ctx)
	if err != nil {
		return nil, 0, err
	}
	counts = map[string]int{}
	for _, p := range all {
		counts[p.Topic]++
		most = max(most, counts[p.Topic])
	}
	return counts, most, nil
}

// serve starts the HTTP server of a member, and accepts events over HTTP if the configuration says so.
func (m *groupMember) serve(s *service, started time.Time) error {
	c := m.config
	if c.HTTP.Address == "" {
		return nil
	}
	shown := serve.Service{
		Status: func() *run.Status { return m.Total(started) }, Model: m.model, Registry: c.Record.Registry,
		Group: m.groupStatus, Source: m.source,
		Validate: func() error { m.validate(); return nil },
	}
	var acceptor atomic.Pointer[serve.Acceptor]
	if c.HTTP.Learn {
		if err := s.openTopicAcceptor(c, &acceptor, m.log); err != nil {
			return err
		}
		shown.Learn = func() serve.Acceptor { return *acceptor.Load() }
	}
	return s.startServer(c.HTTP.Config, shown, m.log)
}

// report logs the progress until ctx ends, and looks for newer models.
func (m *groupMember) report(ctx context.Context, screen *screen, started time.Time) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.looked.Store(new(m.models()))
			if screen.due() {
				own, g := m.Own()
				members := 0
				if g != nil {
					members = g.Members
				}
				m.log.Info("learning", append([]any{"group", m.Config.Name, "members", members, "shards", len(own)}, progressOf(m.Total(started))...)...)
			}
		}
	}
}

// shardConfig returns the configuration of the learner of a shard: that of the member, with a directory and partitions of
// its own, and without a server.
func (m *groupMember) shardConfig(s *shards.Shard) config.Config {
	c, name := *m.config, event.ShardName(s.Number)
	within := func(directory string) string {
		if directory == "" {
			return ""
		}
		return filepath.Join(directory, name)
	}
	if c.Checkpoint.Objects() {
		c.Checkpoint.Directory += event.Address("/" + name)
	} else {
		c.Checkpoint.Directory = event.Address(within(string(c.Checkpoint.Directory)))
	}
	if c.DeadLetter.Topic == "" && (c.DeadLetter.File != "" || c.Checkpoint.Objects()) {
		where := m.config.DeadLetters().File
		c.DeadLetter.File = filepath.Join(filepath.Dir(where), name+"-"+filepath.Base(where))
	}
	c.Validate.Directory, c.Labels.Directory = within(c.Validate.Directory), within(c.Labels.Directory)
	c.Kafka.Only, c.Kafka.Partitions = s.Partitions, nil
	c.HTTP.Address, c.HTTP.Learn = "", false
	return c
}

// learn learns a shard from its newest checkpoint until ctx ends. See shards.Member.Learn.
func (m *groupMember) learn(ctx context.Context, s *shards.Shard) (err error) {
	c, log := m.shardConfig(s), m.log.With("shard", s.Number)
	counts, _, err := partitionsOf(ctx, m.config, log) // there may be new ones since the member's start
	if err != nil {
		return err
	}
	info := served.ShardInfo{Number: s.Number, Shards: m.Shards, Partitions: counts[c.Kafka.Topics[0]], HalfLife: c.Learner.HalfLife, Coverage: c.Learner.Coverage}
	var x ownShard
	if x.service, err = openService(ctx, &c, runFlags{refused: "skip", shard: &info}, log); err != nil {
		return elsewhere(err)
	}
	defer func() { err = elsewhere(errors.Join(err, x.Close())) }()
	before, damaged, err := m.published(ctx, s.Number)
	if err != nil {
		return err
	}
	if damaged && len(x.runner.Offsets) == 0 {
		return fmt.Errorf("%w: the topic %s has a damaged one, and there is no checkpoint in %s. To begin anew, delete this topic and all checkpoints", shards.ErrUnread, m.config.Group.SnapshotTopic(), c.Checkpoint.Directory)
	}
	if before != nil && before.Events > 0 && len(x.runner.Offsets) == 0 {
		return usageError{fmt.Errorf("%s has learned %d events, says the topic %s, but there is no checkpoint in %s: all members need the same checkpoint.directory, on a shared disk or s3://BUCKET/PREFIX. "+
			"To begin anew, choose another group.name, or delete this topic and all checkpoints", event.ShardName(s.Number), before.Events, m.config.Group.SnapshotTopic(), c.Checkpoint.Directory)}
	}
	var earlier *served.ShardInfo
	if before != nil {
		earlier = before.Shard
	}
	if len(c.Labels.Topics) > 0 && (info.Partitions != m.partitions || earlier != nil && earlier.Partitions != m.partitions) {
		return usageError{errors.New("the topics have more partitions than before: keys are now in other partitions, and delayed labels may not find their events; start a group of another name")}
	}
	x.judge = shards.NewJudge(info, earlier)
	x.judge.Others, x.judge.Schema = m.others, func() *event.Schema { return x.runner.Learner.Schema() }
	x.judge.Drift = func() uint64 { return x.runner.Learner.Alarms(math.MaxUint64).Drift.Event }
	x.judge.Log = func(err error) { log.Warn("another shard cannot answer", "err", err) }
	x.runner.Answer = x.judge.Observe
	if x.runner.Labels != nil {
		x.runner.Waits = x.judge.Wait
	}
	publisher, err := kafka.NewPublisher(ctx, kafka.PublisherConfig{
		ConnectConfig: c.Kafka.ConnectConfig, Topic: m.config.Group.SnapshotTopic(), Create: true, Shard: event.ShardName(s.Number), Start: x.runner.FirstVersion >> 32, Log: log,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", shards.ErrUnread, err)
	}
	publishing, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	saved := len(x.runner.Offsets) > 0 // read before Run changes it
	snapshots := serve.ShardSnapshots(publisher, c.Snapshot.Interval, func() *served.Model {
		if saved = saved || x.runner.Status().Save.Saved > 0; !saved {
			return nil // a snapshot shows that there is a checkpoint
		}
		return x.model()
	}, log)
	working.Go(func() { snapshots.Run(publishing) })
	s.Runs(&shards.Learning{Runner: x.runner, Model: x.model, Consumers: x.consumers})
	err = x.runner.Run(ctx)
	stop()
	working.Wait()
	return errors.Join(err, snapshots.Close())
}

// elsewhere returns the error of a shard that another process has as a shards.ErrElsewhere, and other errors unchanged.
func elsewhere(err error) error {
	if is[*checkpoint.InUseError](err) || errors.Is(err, checkpoint.ErrLost) || errors.Is(err, checkpoint.ErrTaken) {
		return fmt.Errorf("%w: %w", shards.ErrElsewhere, err)
	}
	return err
}

// published returns the newest published model of a shard, or nil. damaged reports that the shard's newest model cannot be
// read. published reads the topic, because the follower may be behind.
func (m *groupMember) published(ctx context.Context, shard int) (newest *served.Model, damaged bool, err error) {
	set, err := served.Open(ctx, "kafka:///"+m.config.Group.SnapshotTopic(), served.Options{
		Schemes: schemes(m.config), Record: &m.config.Record, Damaged: func(k int, _ error) { damaged = damaged || k == shard },
	})
	if errors.Is(err, kafka.ErrEmpty) || damaged && err != nil {
		return nil, damaged, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", shards.ErrUnread, err)
	}
	if n := len(set.Shards()); n != m.Shards {
		return nil, damaged, usageError{fmt.Errorf("topic %s has a group of %d shards, not %d", m.config.Group.SnapshotTopic(), n, m.Shards)}
	}
	return set.Shards()[shard], damaged, nil
}

// model returns the newest model of the shard, or nil.
func (x *ownShard) model() *served.Model {
	p := x.runner.Published()
	if p == nil {
		return nil
	}
	last := x.last.Load()
	if last != nil && last.Version == p.Version {
		return last
	}
	m := served.New(p.Linear, x.read)
	m.Version, m.Offsets, m.At, m.Shard = p.Version, p.Offsets, p.At, x.judge.Info()
	x.last.Store(m)
	return m
}

// models returns the newest models of all shards by number, with nil for a shard without one: of the own shards, and of
// the others as far as they were published.
func (m *groupMember) models() []*served.Model {
	out := make([]*served.Model, m.Shards)
	if set, _ := m.follower.Model(); set != nil { // the follower logs its errors
		copy(out, set.Shards())
	}
	own, _ := m.Own()
	for _, s := range own {
		if x := s.Learning(); x != nil {
			out[s.Number] = cmp.Or(x.Model(), out[s.Number])
		}
	}
	return out
}

// others returns the models that report has seen last, or nil.
func (m *groupMember) others() []*served.Model {
	if models := m.looked.Load(); models != nil {
		return *models
	}
	return nil
}

// groupStatus returns the Status of the member and of all shards.
func (m *groupMember) groupStatus() *shards.Status {
	s := m.Status(m.models())
	for k := range s.Shards {
		s.Shards[k].Damaged = m.damaged[k].Load()
	}
	return s
}

// model returns the Model that answers with all shards, or nil before the first.
func (m *groupMember) model() *served.Model {
	models := m.models()
	if !slices.ContainsFunc(models, func(x *served.Model) bool { return x != nil }) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(models, m.made) {
		m.made, m.latest = models, served.NewSet(models)
	}
	return m.latest
}

// validate requests a validation of each shard that this member learns.
func (m *groupMember) validate() {
	own, _ := m.Own()
	for _, s := range own {
		if x := s.Learning(); x != nil {
			if err := x.Validate(); err != nil {
				m.log.Warn("no validation", "shard", s.Number, "err", err)
			}
		}
	}
}

// source returns the counters of all consumers.
func (m *groupMember) source() *stream.ConsumerStats {
	var all consumers
	own, _ := m.Own()
	for _, s := range own {
		if x := s.Learning(); x != nil {
			all = append(all, x.Consumers...)
		}
	}
	return all.stats()
}

// openOrdered opens several partitions of a shard, whose records have one order.
func (s *service) openOrdered(ctx context.Context, c *config.Config, consuming *atomic.Pointer[consumers], log *slog.Logger) error {
	r, in := s.runner, inputOf(c, "")
	in.Kafka.Log = log
	found, err := in.Partitions(ctx)
	if err != nil {
		return err
	}
	var all consumers
	var partitions []shards.Partition
	var decoder record.Decoder // one for all partitions, because each remembers the fields that it has met
	for _, p := range found {
		partition := shards.Partition{Topic: p.Topic, Number: p.Number, Unlabeled: slices.Contains(c.Kafka.UnlabeledTopics, p.Topic)}
		p.Defer = func(of func(*event.Schema) (record.Decoder, error)) (_ record.Decoder, err error) {
			if decoder == nil {
				decoder, err = of(r.Schema)
			}
			partition.Decoder = decoder
			return &labels.Deferred{}, err
		}
		var from event.Offsets
		if at, ok := r.Offsets.Lookup(p.Topic, p.Number); ok {
			from = event.Offsets{at}
		} else if slices.ContainsFunc(r.Offsets, func(at event.Position) bool { return at.Topic == p.Topic }) {
			p.Kafka.Start = "earliest" // a new partition of a topic that was read before
		}
		opened, err := p.Open(ctx, r.Schema, from)
		if err != nil {
			return err
		}
		s.close = append(s.close, opened.Close)
		consumer := opened.(*stream.Consumer)
		all = append(all, consumer)
		partition.Next, partition.AtEnd = opened.Next, func() bool {
			stats := consumer.Stats()
			return stats.Failing() == "" && !slices.ContainsFunc(stats.Partitions, func(p stream.PartitionStats) bool { return p.Lag > 0 })
		}
		partitions = append(partitions, partition)
	}
	consuming.Store(&all)
	s.consumers = all
	r.Source = shards.NewOrdered(r.Schema, partitions)
	if group := c.Kafka.Group; group != "" {
		r.Commit = func(ctx context.Context, offsets event.Offsets) error { return all[0].Commit(ctx, group, offsets) }
	}
	return nil
}

// keysChecked is the number of records of each partition whose keys are compared with their ids.
const keysChecked = 1000

// keyedDecoder decodes events or delayed labels of a shard. It returns an error if one of the first records does not have
// its id as the key: the shard of an event may then not be that of its label.
type keyedDecoder struct {
	record.Decoder
	topic string
	left  int // records to check
}

func (d *keyedDecoder) Decode(ctx context.Context, r record.Record, e *event.Example) error {
	if err := d.Decoder.Decode(ctx, r, e); err != nil || e.Refused != nil || d.left == 0 {
		return err
	}
	d.left--
	if !bytes.Equal(r.Key, e.Key) {
		return usageError{fmt.Errorf("topic %s offset %d: the key is %.40q and the id %.40q: in a group, events and delayed labels must have their id (record.id, labels.id) as the key, so that they are in one shard", d.topic, r.Offset, r.Key, e.Key)}
	}
	return nil
}
