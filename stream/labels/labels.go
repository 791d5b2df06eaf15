// Package labels joins events with delayed labels.
//
// The package has three parts. [Merge] is a Source that puts the records of the partitions of events and labels into
// one order, which depends only on the logs. [Join] processes each record in that order: an event waits until the label
// of its ID arrives or the wait is over. The event keeps its features and its scores at the time of arrival. A store on
// disk has the waiting events and is part of the checkpoints: see [Join.Freeze].
package labels

import (
	"fmt"
	"slices"
	"time"

	"blankout/internal/event"
)

// Config selects the sources of labels, and how long events wait for labels: the section [labels] of the configuration.
// config/blankout.toml explains each key.
type Config struct {
	Topics []string `toml:"topics"`
	// ID, Label and Weight name the fields of a label record. If ID is empty, the key of the record is the ID. If Label
	// is empty, it is the label field of events.
	ID     string `toml:"id"`
	Label  string `toml:"label"`
	Weight string `toml:"weight"`
	// MaxDelay is the time that an event waits for its label, in the time of the logs.
	MaxDelay   time.Duration `toml:"max_delay"`
	LatePolicy LatePolicy    `toml:"late_policy"`
	// TimeoutLabel is the class or number for an event without a label at the end of its wait. "" learns the event as
	// unlabeled.
	TimeoutLabel string `toml:"timeout_label"`
	// MaxPending is the largest number of events within MaxDelay and of labels that wait for their event.
	MaxPending uint64 `toml:"max_pending"`
	// PendingMemory is the memory in bytes for IDs whose wait is over. Each waiting ID needs bytesPerID in addition.
	PendingMemory int64 `toml:"pending_memory"`
	// Directory is the directory for waiting events. "" is a directory next to the checkpoints.
	Directory string `toml:"directory"`
	// IdleTimeout is the time after which a silent partition no longer delays the other partitions. 0 means never.
	IdleTimeout time.Duration `toml:"idle_timeout"`
}

// LatePolicy determines what happens to a late label.
type LatePolicy string

// The policies for a late label. Both count late labels.
const (
	LateDrop       LatePolicy = "drop"
	LateDeadLetter LatePolicy = "dead-letter"
)

// DefaultConfig returns the default settings. Labels are delayed only if topics are named.
func DefaultConfig() Config {
	return Config{MaxDelay: 48 * time.Hour, LatePolicy: LateDrop, MaxPending: 10_000_000, PendingMemory: 256 << 20, IdleTimeout: 30 * time.Second}
}

const (
	minMemory  = 16 << 20
	bytesPerID = 16 // largest size per ID in the index
)

// Check returns an error for the first invalid setting, with its key.
func (c *Config) Check() error {
	switch {
	case c.PendingMemory < minMemory:
		return event.KeyErrorf("pending_memory", "pending_memory %d: want at least %d bytes", c.PendingMemory, minMemory)
	case slices.Contains(c.Topics, ""):
		return event.KeyErrorf("topics", "topics: an empty name")
	case c.MaxDelay < time.Millisecond:
		return event.KeyErrorf("max_delay", "max_delay %v: want at least 1ms", c.MaxDelay)
	case c.LatePolicy != LateDrop && c.LatePolicy != LateDeadLetter:
		return event.KeyErrorf("late_policy", "late_policy %q: want %s or %s", c.LatePolicy, LateDrop, LateDeadLetter)
	case c.MaxPending < 1:
		return event.KeyErrorf("max_pending", "max_pending %d: want at least 1", c.MaxPending)
	case c.IdleTimeout < 0:
		return event.KeyErrorf("idle_timeout", "idle_timeout %v is negative", c.IdleTimeout)
	}
	return nil
}

// Settings returns the settings that determine with which label an event is learned. A checkpoint stores them.
func (c *Config) Settings() map[string]string {
	return map[string]string{
		"labels.id": c.ID, "labels.label": c.Label, "labels.weight": c.Weight,
		"labels.max_delay": c.MaxDelay.String(), "labels.timeout_label": c.TimeoutLabel,
	}
}

// As returns c with the settings from a checkpoint, if there are any.
func (c Config) As(settings map[string]string) (Config, error) {
	wait, ok := settings["labels.max_delay"]
	if !ok {
		return c, nil
	}
	var err error
	if c.MaxDelay, err = time.ParseDuration(wait); err != nil {
		return c, fmt.Errorf("labels.max_delay: %w", err)
	}
	c.ID, c.Label, c.Weight, c.TimeoutLabel = settings["labels.id"], settings["labels.label"], settings["labels.weight"], settings["labels.timeout_label"]
	return c, nil
}
