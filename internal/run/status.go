package run

// This file holds what others may know of a run.

import (
	"time"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/watch"
	"blankout/stream/labels"
)

// Published is a Model handed to readers and where it belongs. It is immutable.
type Published struct {
	*model.Linear
	Version uint64        // larger means published later
	Offsets event.Offsets // how far the stream had been learned
	At      time.Time
	// Learner is the name of the contender, "" of a Learner alone. Others are the models of the contenders without the
	// lead at the same place.
	Learner string
	Others  []*Published
}

// Status is what Run publishes about itself after a batch. It is immutable.
type Status struct {
	// NotReady says why the run is not consuming, "" if it is, and Ended where there is
	// nothing more to consume and Config.KeepServing is set.
	NotReady               string
	Started                time.Time
	Counts                 // since Run began
	Batches                uint64
	Suspected, DriftAlarms uint64            // counted and raised; Learner has those before Run began too
	FieldAlarms            uint64            // raised; Learner.Health has those before Run began too
	Partitions             []PartitionStatus // ordered by topic and partition
	Save                   SaveStatus
	Published              uint64        // Models handed to readers
	Learner                online.Report // the Learner's
	Warnings               []watch.Warning
	Validation             ValidationStatus
	// Labels says what became of labels that come later; nil without any.
	// AtLearning measures the answers that a reader would have got when their events were learned.
	Labels     *labels.Counts
	AtLearning measure.Classes
	// Contest compares the contenders, in the order of the configuration; nil of a Learner alone.
	Contest []ContenderStatus
}

// PartitionStatus is how far one partition has been learned.
type PartitionStatus struct {
	event.Position
	HighWater int64 // -1 if unknown
}

// Lag returns how many offsets the learner is behind, -1 if that is unknown.
func (p PartitionStatus) Lag() int64 {
	if p.HighWater < 0 {
		return -1
	}
	return max(p.HighWater-p.Next, 0)
}

// SaveStatus is about checkpoints.
type SaveStatus struct {
	Saved, Failed uint64
	Name          string // of the last one saved
	Bytes         int64
	At            time.Time     // when it was saved
	Took, TookSum time.Duration // encoding and writing, beside learning
	// Pause is for how long learning stood still for the copy.
	Pause, PauseSum, PauseMax time.Duration
	CommitFailures            uint64
}

// Ended is the NotReady of a run with Config.KeepServing whose events have ended.
const Ended = "ended"

// Status returns the latest Status. It may be called by anyone at any time.
func (r *Runner) Status() *Status {
	if s := r.status.Load(); s != nil {
		return s
	}
	return &Status{NotReady: "not started"}
}

// Published returns the latest published Model, or nil before the first. It may
// be called by anyone at any time.
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
