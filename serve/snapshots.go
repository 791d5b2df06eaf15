package serve

// This file sends models to a topic, a file and an object in a store.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"blankout/app/served"
	"blankout/app/served/kafka"
	"blankout/app/served/s3"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/stream"
)

// SnapshotConfig is the section [snapshot] of the configuration.
type SnapshotConfig struct {
	Topic    string        `toml:"topic"`    // compacted topic; "" means none
	File     string        `toml:"file"`     // file that every snapshot replaces; "" means none
	Object   event.Address `toml:"object"`   // object s3://BUCKET/KEY that every snapshot replaces; "" means none
	Interval time.Duration `toml:"interval"` // time between two snapshots, if there is a newer model
}

// DefaultSnapshotConfig returns the settings of an empty section.
func DefaultSnapshotConfig() SnapshotConfig { return SnapshotConfig{Interval: 10 * time.Second} }

// Check returns the first error in the configuration, with its key.
func (c SnapshotConfig) Check() error {
	if c.Interval <= 0 {
		return event.KeyErrorf("interval", "interval: %v, want a positive time", c.Interval)
	}
	if c.Object != "" {
		if err := s3.CheckAddress(string(c.Object)); err != nil {
			return event.KeyErrorf("object", "object: %w", err)
		}
	}
	return nil
}

// Snapshots sends the newest model to a topic, a file and an object in a store, on the goroutine of Run. A slow or
// unreachable destination does not delay the publication of models; it gets a newer model later.
type Snapshots struct {
	interval     time.Duration
	model        func() *served.Model
	topic        *kafka.Publisher // nil if no topic is configured
	log          *slog.Logger
	destinations []*snapshotDestination
}

// snapshotDestination is a destination of snapshots and its status.
type snapshotDestination struct {
	write func(context.Context, *served.Model) error
	stats atomic.Pointer[destinationStats]
}

type destinationStats struct {
	name              string // kind of destination: topic, file or object
	published, failed uint64
	version           uint64 // version of the model in the destination
	when              time.Time
	lastError         string
}

// OpenSnapshots prepares the destinations. It connects to the topic and to the store, and reads the models that the
// destinations contain.
func OpenSnapshots(ctx context.Context, c SnapshotConfig, connect stream.ConnectConfig, create bool, store s3.Config, model func() *served.Model, log *slog.Logger) (*Snapshots, error) {
	s := &Snapshots{interval: c.Interval, model: model, log: log}
	if c.Topic != "" {
		p, err := kafka.NewPublisher(ctx, kafka.PublisherConfig{ConnectConfig: connect, Topic: c.Topic, Create: create, Log: log})
		if err != nil {
			return nil, err
		}
		s.topic = p
		s.add("topic", p.Version(), p.Publish)
	}
	if c.File != "" {
		version := uint64(0)
		if _, err := checkpoint.Target(c.File); err != nil {
			return nil, errors.Join(fmt.Errorf("snapshots: %w", err), s.Close())
		}
		if _, err := os.Stat(c.File); err == nil {
			there, err := served.Open(ctx, c.File, served.Options{})
			if err != nil { // the error includes a file of unknown content, which must not be replaced
				return nil, errors.Join(fmt.Errorf("snapshots: %w", err), s.Close())
			}
			version = there.Version
		}
		s.add("file", version, func(_ context.Context, m *served.Model) error { return m.WriteFile(c.File) })
	}
	if c.Object != "" {
		p, err := s3.NewPublisher(ctx, store, string(c.Object))
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.add("object", p.Version(), p.Publish)
	}
	return s, nil
}

// ShardSnapshots sends the newest model of a shard to the topic of its group, also if the topic has one.
func ShardSnapshots(topic *kafka.Publisher, interval time.Duration, model func() *served.Model, log *slog.Logger) *Snapshots {
	s := &Snapshots{interval: interval, model: model, topic: topic, log: log}
	s.add("topic", 0, topic.Publish)
	return s
}

func (s *Snapshots) add(name string, version uint64, write func(context.Context, *served.Model) error) {
	p := &snapshotDestination{write: write}
	p.stats.Store(&destinationStats{name: name, version: version})
	s.destinations = append(s.destinations, p)
}

// Version returns the largest version that a destination contained when it was opened, or 0 if no destination contained
// a model. Versions that are published later must be larger.
func (s *Snapshots) Version() uint64 {
	v := uint64(0)
	for _, p := range s.destinations {
		v = max(v, p.stats.Load().version)
	}
	return v
}

// Run sends models until ctx ends. Then it sends the last model, within five seconds.
func (s *Snapshots) Run(ctx context.Context) {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			s.deliver(ctx)
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s.deliver(last)
}

func (s *Snapshots) deliver(ctx context.Context) {
	m := s.model()
	if m == nil {
		return
	}
	for _, p := range s.destinations {
		stats := *p.stats.Load()
		if m.Version <= stats.version {
			continue
		}
		if err := p.write(ctx, m); err != nil {
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				continue // the final write after ctx sends it again
			}
			stats.failed++
			stats.lastError = err.Error()
			s.log.Error("a snapshot could not be published; trying again", "to", stats.name, "version", m.Version, "err", err)
		} else {
			stats.published++
			stats.version, stats.when, stats.lastError = m.Version, m.At, ""
		}
		p.stats.Store(&stats)
	}
}

// view returns the status of the destinations. Any goroutine may call it. The receiver may be nil.
func (s *Snapshots) view() (out []destinationStats) {
	if s == nil {
		return nil
	}
	for _, p := range s.destinations {
		out = append(out, *p.stats.Load())
	}
	return out
}

// Close closes the connections. Run must have returned. If the topic has not accepted the last model, Close returns no
// error, because the checkpoint and the next run's snapshot contain the model too.
func (s *Snapshots) Close() error {
	if s.topic != nil {
		if err := s.topic.Close(); err != nil {
			s.log.Warn("the last snapshot is not in the topic", "err", err)
		}
	}
	return nil
}
