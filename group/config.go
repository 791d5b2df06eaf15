package group

// This file holds the section [group] of the configuration.

import (
	"log/slog"
	"time"

	"blankout"
	"blankout/online"
	"blankout/stream"
)

// Config says how the members of a group learn one model: the section [group] of the
// configuration.
type Config struct {
	Name       string `toml:"name"`
	MixTopic   string `toml:"mix_topic"`  // of the ledger; "": NAME-mix
	BaseTopic  string `toml:"base_topic"` // "": NAME-base
	Partitions int    `toml:"partitions"` // of a created mix topic, for chunks
	Instance   string `toml:"instance"`   // stream.MembershipConfig.Instance
	// An interval of a member ends after Share of the events that the group has learned,
	// divided among the members that learn, between IntervalMin and IntervalEvents; or
	// after IntervalMax.
	Share          float64       `toml:"share"`
	IntervalMin    uint64        `toml:"interval_min"`
	IntervalEvents uint64        `toml:"interval_events"`
	IntervalMax    time.Duration `toml:"interval_max"`
	// Warm is how many events one member learns alone before the others begin.
	Warm             uint64        `toml:"warm"`
	Precision        int           `toml:"precision"`  // bits of a change of a weight: 32 or 64
	BaseEvery        uint64        `toml:"base_every"` // accepted commits from base to base
	SessionTimeout   time.Duration `toml:"session_timeout"`
	RebalanceTimeout time.Duration `toml:"rebalance_timeout"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Partitions: 8, Share: 0.02, IntervalMin: 1000, IntervalEvents: 1_000_000, IntervalMax: 2 * time.Second, Warm: 10_000,
		Precision: 32, BaseEvery: 64, SessionTimeout: 10 * time.Second, RebalanceTimeout: 30 * time.Second,
	}
}

// Check reports the first value that cannot be used.
func (c *Config) Check() error {
	switch {
	case c.Partitions < 1 || c.Partitions > 1000:
		return blankout.KeyErrorf("partitions", "partitions %d, want 1 to 1000", c.Partitions)
	case !(c.Share > 0 && c.Share <= 1):
		return blankout.KeyErrorf("share", "share %v, want more than 0 and at most 1", c.Share)
	case c.IntervalMin < 1:
		return blankout.KeyErrorf("interval_min", "interval_min %d, want at least 1", c.IntervalMin)
	case c.IntervalEvents < c.IntervalMin || c.IntervalEvents > online.MaxInterval:
		return blankout.KeyErrorf("interval_events", "interval_events %d, want interval_min (%d) to %d", c.IntervalEvents, c.IntervalMin, uint64(online.MaxInterval))
	case c.IntervalMax < 10*time.Millisecond:
		return blankout.KeyErrorf("interval_max", "interval_max %v, want at least 10ms", c.IntervalMax)
	case c.Precision != 32 && c.Precision != 64:
		return blankout.KeyErrorf("precision", "precision %d, want 32 or 64", c.Precision)
	case c.BaseEvery < 1 || c.BaseEvery > maxHistory/2:
		return blankout.KeyErrorf("base_every", "base_every %d, want 1 to %d", c.BaseEvery, maxHistory/2)
	case c.SessionTimeout < 100*time.Millisecond:
		return blankout.KeyErrorf("session_timeout", "session_timeout %v, want at least 100ms", c.SessionTimeout)
	case c.RebalanceTimeout < c.SessionTimeout:
		return blankout.KeyErrorf("rebalance_timeout", "rebalance_timeout %v, want at least session_timeout, %v", c.RebalanceTimeout, c.SessionTimeout)
	}
	return nil
}

// Topics returns the names of the topics of the ledger and its bases.
func (c *Config) Topics() (mix, base string) {
	if mix = c.MixTopic; mix == "" {
		mix = c.Name + "-mix"
	}
	if base = c.BaseTopic; base == "" {
		base = c.Name + "-base"
	}
	return mix, base
}

// Ledger returns where the ledger is, of brokers reached by kafka.
func (c *Config) Ledger(kafka stream.ConnectConfig, log *slog.Logger) stream.LedgerConfig {
	l := stream.DefaultLedgerConfig()
	l.ConnectConfig, l.Partitions, l.Log = kafka, c.Partitions, log
	l.Topic, _ = c.Topics()
	return l
}

// Bases returns where the bases are.
func (c *Config) Bases(kafka stream.ConnectConfig, log *slog.Logger) stream.BaseConfig {
	b := stream.BaseConfig{ConnectConfig: kafka, Create: true, Log: log}
	_, b.Topic = c.Topics()
	return b
}
