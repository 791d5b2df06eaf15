package group

// This file holds the section [group] of the configuration.

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"blankout/internal/event"
	"blankout/stream"
)

// Config says how the members of a group learn one model: the section [group] of the
// configuration.
type Config struct {
	Name          string `toml:"name"`
	MixTopic      string `toml:"-"`        // of the commit log; "": NAME-commits
	SnapshotTopic string `toml:"-"`        // "": NAME-snapshots
	Instance      string `toml:"instance"` // stream.MembershipConfig.Instance
	Partitions    int    `toml:"-"`        // of a created mix topic, for chunks
	// An interval of a member ends after a fiftieth of the events that the group has learned,
	// divided among the members that learn, between IntervalMin and a million; or after
	// IntervalMax.
	IntervalMin uint64        `toml:"interval_min"`
	IntervalMax time.Duration `toml:"interval_max"`
	// Warm is how many events one member learns alone before the others begin.
	Warm           uint64        `toml:"warm"`
	SnapshotEvery  uint64        `toml:"snapshot_every"` // accepted commits from snapshot to snapshot
	SessionTimeout time.Duration `toml:"session_timeout"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Partitions: 8, IntervalMin: 1000, IntervalMax: 2 * time.Second, Warm: 10_000,
		SnapshotEvery: 64, SessionTimeout: 10 * time.Second,
	}
}

const (
	intervalShare = 0.02      // of the events that the group has learned
	intervalMost  = 1_000_000 // events
	precision     = 32        // bits of a change of a weight in the commit log
)

// rebalanceTimeout is how long members have to come back when partitions are shared out
// anew.
func (c *Config) rebalanceTimeout() time.Duration { return 3 * c.SessionTimeout }

// Check reports the first value that cannot be used.
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

// Topics returns the names of the topics of the commit log and its snapshots.
func (c *Config) Topics() (mix, base string) {
	return cmp.Or(c.MixTopic, c.Name+"-commits"), cmp.Or(c.SnapshotTopic, c.Name+"-snapshots")
}

// CommitLog returns where the commit log is, of brokers reached by kafka.
func (c *Config) CommitLog(kafka stream.ConnectConfig, log *slog.Logger) stream.CommitLogConfig {
	l := stream.DefaultCommitLogConfig()
	l.ConnectConfig, l.Partitions, l.Log = kafka, c.Partitions, log
	l.Topic, _ = c.Topics()
	return l
}

// openBases opens the topic of snapshots, which must exist.
func (c *Config) openSnapshots(ctx context.Context, kafka stream.ConnectConfig, log *slog.Logger) (*stream.SnapshotTopic, error) {
	where := c.Snapshots(kafka, log)
	where.Create = false
	return stream.OpenSnapshots(ctx, where)
}

// openLedger opens the topic of the commit log, which must exist.
func (c *Config) openCommitLog(ctx context.Context, kafka stream.ConnectConfig, log *slog.Logger) (*stream.CommitLog, error) {
	where := c.CommitLog(kafka, log)
	where.Create = false
	return stream.OpenCommitLog(ctx, where)
}

// Snapshots returns where the snapshots are.
func (c *Config) Snapshots(kafka stream.ConnectConfig, log *slog.Logger) stream.SnapshotConfig {
	b := stream.SnapshotConfig{ConnectConfig: kafka, Create: true, Log: log}
	_, b.Topic = c.Topics()
	return b
}
