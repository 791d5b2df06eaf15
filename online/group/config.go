package group

// This file has the section [group] of the configuration.

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"blankout/internal/event"
	"blankout/stream"
)

// Config holds the settings of a group: the section [group] of the configuration.
type Config struct {
	Name          string `toml:"name"`
	MixTopic      string `toml:"-"`        // topic of the commit log; "" means NAME-commits
	SnapshotTopic string `toml:"-"`        // topic of the snapshots; "" means NAME-snapshots
	Instance      string `toml:"instance"` // see stream.MembershipConfig.Instance
	Partitions    int    `toml:"-"`        // number of chunk partitions in a new commit log topic
	// A member's interval ends after 2 % of the events that the group has learned, divided by the number of learning
	// members. This number of events is at least IntervalMin and at most a million. The interval also ends when
	// IntervalMax has passed.
	IntervalMin uint64        `toml:"interval_min"`
	IntervalMax time.Duration `toml:"interval_max"`
	// Warm is the number of events that one member learns alone before other members start.
	Warm           uint64        `toml:"warm"`
	SnapshotEvery  uint64        `toml:"snapshot_every"` // number of accepted commits between snapshots
	SessionTimeout time.Duration `toml:"session_timeout"`
}

// DefaultConfig returns the default settings.
func DefaultConfig() Config {
	return Config{
		Partitions: 8, IntervalMin: 1000, IntervalMax: 2 * time.Second, Warm: 10_000,
		SnapshotEvery: 64, SessionTimeout: 10 * time.Second,
	}
}

const (
	intervalFraction = 0.02      // fraction of the events that the group has learned
	intervalMost     = 1_000_000 // in events
	precision        = 32        // bits of each weight change in the commit log
)

// rebalanceTimeout returns how long members have to rejoin the consumer group when partitions are reassigned.
func (c *Config) rebalanceTimeout() time.Duration { return 3 * c.SessionTimeout }

// Check returns an error that describes the first invalid setting.
func (c *Config) Check() error {
	switch {
	case c.IntervalMin < 1 || c.IntervalMin > intervalMost:
		return event.KeyErrorf("interval_min", "interval_min %d, want 1 to %d", c.IntervalMin, intervalMost)
	case c.IntervalMax < 10*time.Millisecond:
		return event.KeyErrorf("interval_max", "interval_max %v, want at least 10ms", c.IntervalMax)
	case c.SnapshotEvery < 1 || c.SnapshotEvery > maxHistory/2:
		return event.KeyErrorf("snapshot_every", "snapshot_every %d, want 1 to %d", c.SnapshotEvery, maxHistory/2)
	case c.SessionTimeout < 100*time.Millisecond:
		return event.KeyErrorf("session_timeout", "session_timeout %v, want at least 100ms", c.SessionTimeout)
	}
	return nil
}

// Topics returns the names of the topics: of the commit log and of the snapshots.
func (c *Config) Topics() (mix, base string) {
	return cmp.Or(c.MixTopic, c.Name+"-commits"), cmp.Or(c.SnapshotTopic, c.Name+"-snapshots")
}

// CommitLog returns the configuration of the commit log. kafka holds the connection settings of the brokers.
func (c *Config) CommitLog(kafka stream.ConnectConfig, log *slog.Logger) stream.CommitLogConfig {
	l := stream.DefaultCommitLogConfig()
	l.ConnectConfig, l.Partitions, l.Log = kafka, c.Partitions, log
	l.Topic, _ = c.Topics()
	return l
}

// openSnapshots opens the topic of snapshots. It returns an error if the topic does not exist.
func (c *Config) openSnapshots(ctx context.Context, kafka stream.ConnectConfig, log *slog.Logger) (*stream.SnapshotTopic, error) {
	where := c.Snapshots(kafka, log)
	where.Create = false
	return stream.OpenSnapshots(ctx, where)
}

// openCommitLog opens the topic of the commit log. It returns an error if the topic does not exist.
func (c *Config) openCommitLog(ctx context.Context, kafka stream.ConnectConfig, log *slog.Logger) (*stream.CommitLog, error) {
	where := c.CommitLog(kafka, log)
	where.Create = false
	return stream.OpenCommitLog(ctx, where)
}

// Snapshots returns the configuration of the snapshot topic. kafka holds the connection settings of the brokers.
func (c *Config) Snapshots(kafka stream.ConnectConfig, log *slog.Logger) stream.SnapshotConfig {
	b := stream.SnapshotConfig{ConnectConfig: kafka, Create: true, Log: log}
	_, b.Topic = c.Topics()
	return b
}
