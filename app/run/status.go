package run

// This file defines the status of a run.

import (
	"cmp"
	"slices"
	"time"

	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/health"
)

// Published is a published Model and its stream position. It is immutable.
type Published struct {
	*model.Linear
	Version uint64        // increases with each publication
	Offsets event.Offsets // position up to which the stream is learned
	At      time.Time
	// Learner is the name of the learner, or "" for a single Learner. Others are the models of the learners
	// other than the leader, at the same position.
	Learner string
	Others  []*Published
}

// Status is the status that Run publishes after a batch. It is immutable.
type Status struct {
	// NotReady is the reason why the run does not consume events, "" if it does. NotReady is Ended if all events are
	// consumed and Config.KeepServing is set.
	NotReady    string
	Started     time.Time
	Counts                        // counts since Run started
	DriftAlarms uint64            // number of alarms since Run started; Learner includes earlier ones
	FieldAlarms uint64            // number of alarms since Run started; Learner.Health includes earlier ones
	Partitions  []PartitionStatus // ordered by topic and partition
	Save        SaveStatus
	Learner     online.Report // report of the Learner
	Warnings    []health.Warning
	Validation  validate.Status
	// Labels has the counts of delayed labels; nil without delayed labels. AtLearning measures predictions made when
	// their events were learned.
	Labels     *LabelCounts
	AtLearning measure.Classes
	// Challengers compares the learners, in the order of the configuration. It is nil for a single Learner.
	Challengers []ChallengerStatus
}

// PartitionStatus is the position in one partition.
type PartitionStatus struct {
	event.Position
	HighWater int64 // -1 if unknown
}

// Lag returns the number of offsets that are not learned yet, or -1 if unknown.
func (p PartitionStatus) Lag() int64 {
	if p.HighWater < 0 {
		return -1
	}
	return max(p.HighWater-p.Next, 0)
}

// Lag returns the total lag of the partitions that know theirs, or -1 if none does.
func Lag(partitions []PartitionStatus) int64 {
	sum := int64(-1)
	for _, p := range partitions {
		if n := p.Lag(); n >= 0 {
			sum = max(sum, 0) + n
		}
	}
	return sum
}

// Passed returns the number of records that are not events, or are repeated.
func (c *Counts) Passed() (n uint64) {
	for reason, count := range c.RefusedBy {
		if !reason.Faulty() {
			n += count
		}
	}
	return n
}

// SaveStatus is the status of checkpoints.
type SaveStatus struct {
	Saved, Failed uint64
	Name          string // name of the latest checkpoint
	Bytes         int64
	At            time.Time     // time of the latest checkpoint
	Took          time.Duration // time to encode and write, during which learning continues
	// Pause is the time during which learning waited for the copy.
	Pause          time.Duration
	CommitFailures uint64
}

// Ended is the value of NotReady after the events of a run with Config.KeepServing have ended.
const Ended = "ended"

// Status returns the latest Status. Any goroutine may call it at any time.
func (r *Runner) Status() *Status {
	return cmp.Or(r.status.Load(), &Status{NotReady: "not started"})
}

// Published returns the latest published Model, or nil before the first. Any goroutine may call it at any time.
func (r *Runner) Published() *Published {
	r.asked.Add(1)
	return r.published.Load()
}

// Add adds the counts and partitions of another learner of the same stream, with other partitions. The report, the
// checkpoint, the warnings and the validation become those of the learner with more events.
func (s *Status) Add(x *Status) {
	if x.Learner.Events >= s.Learner.Events {
		s.Learner, s.Save, s.Warnings, s.Labels, s.AtLearning = x.Learner, x.Save, x.Warnings, x.Labels, x.AtLearning
		s.Newest, s.Confusion = x.Newest, x.Confusion
	}
	if x.Validation.Alarm || !s.Validation.Alarm && s.Validation.Done <= x.Validation.Done { // the worst is reported
		s.Validation = x.Validation
	}
	s.Counts.add(&x.Counts)
	s.DriftAlarms += x.DriftAlarms
	s.FieldAlarms += x.FieldAlarms
	s.Partitions = append(s.Partitions, x.Partitions...)
	slices.SortFunc(s.Partitions, func(a, b PartitionStatus) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// add adds the counts of another learner.
func (c *Counts) add(x *Counts) {
	c.Learned += x.Learned
	c.Unlabeled += x.Unlabeled
	c.Refused += x.Refused
	c.HeldOut += x.HeldOut
	c.NotFinite += x.NotFinite
	c.DeadLetterFailures += x.DeadLetterFailures
	c.WaitingFailures += x.WaitingFailures
	c.LearnTime += x.LearnTime
	c.Holdout.Weight += x.Holdout.Weight
	c.Holdout.Wrong += x.Holdout.Wrong
	c.Holdout.LogLoss += x.Holdout.LogLoss
	c.RefusedBy, c.DeadLetters = sum(c.RefusedBy, x.RefusedBy), sum(c.DeadLetters, x.DeadLetters)
	if c.NewestTime.Before(x.NewestTime) {
		c.NewestTime, c.NewestAge = x.NewestTime, x.NewestAge
	}
	c.RefusedSamples = append(slices.Clip(c.RefusedSamples), x.RefusedSamples...)
	c.MislabeledSamples = append(slices.Clip(c.MislabeledSamples), x.MislabeledSamples...)
}

// sum returns the sums of two maps' counts.
func sum(a, b map[event.Reason]uint64) map[event.Reason]uint64 {
	out := map[event.Reason]uint64{}
	for _, counts := range []map[event.Reason]uint64{a, b} {
		for reason, n := range counts {
			out[reason] += n
		}
	}
	return out
}
