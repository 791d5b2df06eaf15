package shards

// This file has the section [group] of the configuration.

import (
	"fmt"
	"time"

	"blankout/app/served"
	"blankout/internal/event"
)

// Config is the section [group] of the configuration.
type Config struct {
	Name     string `toml:"name"`     // consumer group; "" means a learner of its own
	Instance string `toml:"instance"` // see stream.MembershipConfig.Instance
	// Shards is the number of shards; 0 is the number of a group that exists, or the smaller of 8 and the number of
	// partitions.
	Shards         int           `toml:"shards"`
	SessionTimeout time.Duration `toml:"session_timeout"`
}

// DefaultConfig returns the settings of an empty section.
func DefaultConfig() Config { return Config{SessionTimeout: 10 * time.Second} }

const defaultShards = 8

// Check returns the first error in the settings, with its key.
func (c *Config) Check() error {
	switch {
	case c.Shards < 0 || c.Shards > served.MaxShards:
		return event.KeyErrorf("shards", "shards %d, want 0 to %d", c.Shards, served.MaxShards)
	case c.SessionTimeout < 100*time.Millisecond:
		return event.KeyErrorf("session_timeout", "session_timeout %v, want at least 100ms", c.SessionTimeout)
	}
	return nil
}

// SnapshotTopic returns the name of the topic with the newest model of each shard.
func (c *Config) SnapshotTopic() string { return c.Name + "-snapshots" }

// Count returns the number of shards for topics of which the largest has the given number of partitions. there is the
// number of shards of the group so far, 0 if it is new.
func (c *Config) Count(partitions, there int) (int, error) {
	switch {
	case there > 0 && c.Shards > 0 && c.Shards != there:
		return 0, event.KeyErrorf("shards", "group.shards %d: group %s has %d shards, and their number cannot change: set it to %d or 0, or start a group of another name", c.Shards, c.Name, there, there)
	case there > 0:
		return there, nil
	case c.Shards > partitions:
		return 0, event.KeyErrorf("shards", "group.shards %d: the topics have %d partitions, and a shard needs at least one", c.Shards, partitions)
	case c.Shards > 0:
		return c.Shards, nil
	case partitions < 1:
		return 0, fmt.Errorf("group %s: the topics have no partitions", c.Name)
	}
	return min(defaultShards, partitions), nil
}
