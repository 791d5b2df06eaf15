package run

// This file has the status of a run.

import (
	"time"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/watch"
)

// Published is a published Model and its position in the stream. It is immutable.
type Published struct {
	*model.Linear
	Version uint64        // increases with time
	Offsets event.Offsets // learned part of the stream
	At      time.Time
	// Learner is the name of the contender, "" for a single Learner. Others are the models of the contenders without
	// the lead at the same position.
	Learner string
	Others  []*Published
}

// Status is what Run publishes about itself after a batch. It is immutable.
type Status struct {
	// NotReady is the reason why the run is not consuming, "" if it is. It is Ended if all events are consumed and
	// Config.KeepServing is set.
	NotReady               string
	Started                time.Time
	Counts                 // since Run started
	Batches                uint64
	Suspected, DriftAlarms uint64            // numbers of mislabeled events and alarms; Learner includes those before Run
	FieldAlarms            uint64            // number of alarms; Learner.Health includes those before Run
	Partitions             []PartitionStatus // ordered by topic and partition
	Save                   SaveStatus
	Published              uint64        // number of published Models
	Learner                online.Report // of the Learner
	Warnings               []watch.Warning
	Validation             ValidationStatus
	// Labels has the counts of delayed labels; nil if there are none. AtLearning measures predictions at the time when
	// their events were learned.
	Labels     *LabelCounts
	AtLearning measure.Classes
	// Contest compares the contenders, in the order of the configuration; nil for a single Learner.
	Contest []ContenderStatus
}

// PartitionStatus is the position in one partition.
type PartitionStatus struct {
	event.Position
	HighWater int64 // -1 if not known
}

// Lag returns the number of offsets that are not learned, -1 if not known.
func (p PartitionStatus) Lag() int64 {
	if p.HighWater < 0 {
		return -1
	}
	return max(p.HighWater-p.Next, 0)
}

// SaveStatus is the status of checkpoints.
type SaveStatus struct {
	Saved, Failed uint64
	Name          string // of the last one
	Bytes         int64
	At            time.Time     // when it was saved
	Took, TookSum time.Duration // time to encode and write, while learning goes on
	// Pause is the time for which learning waited for the copy.
	Pause, PauseSum, PauseMax time.Duration
	CommitFailures            uint64
}

// Ended is the NotReady of a run with Config.KeepServing whose events have ended.
const Ended = "ended"

// Status returns the latest Status. Any goroutine may call it at any time.
func (r *Runner) Status() *Status {
	if s := r.status.Load(); s != nil {
		return s
	}
	return &Status{NotReady: "not started"}
}

// Published returns the latest published Model, or nil before the first. Any goroutine may call it at any time.
func (r *Runner) Published() *Published {
	r.asked.Add(1)
	return r.published.Load()
}

// Model returns the Model of Published.
func (r *Runner) Model() *model.Linear {
	if p := r.Published(); p != nil {
		return p.Linear
	}
	return nil
}
