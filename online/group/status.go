package group

// This file has the Status that a member publishes.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/run"
	"blankout/online"
	"blankout/online/watch"
	"blankout/stream"
)

// Status is the state of a Member, and what it knows of the others. It is immutable.
type Status struct {
	Member     string                  `json:"member"`
	Generation int32                   `json:"generation"` // 0 before the member has joined
	Members    int                     `json:"members"`    // number of members of the group
	Standby    int                     `json:"standby"`    // number of members without a partition
	Partitions []stream.TopicPartition `json:"partitions"` // partitions of this member
	Ends       []End                   `json:"ends"`       // ends of these partitions
	Writer     bool                    `json:"writer"`     // it has the lowest partition, so it writes snapshots and validates
	// Of the commit log, as far as this member has applied it:
	Offset    int64             `json:"commit_log_offset"` // offset after the last commit
	Lag       int64             `json:"commit_log_lag"`    // number of later commits
	Chain     string            `json:"chain"`
	Accepted  uint64            `json:"accepted"` // by all members
	Rejected  map[Reason]uint64 `json:"rejected"`
	Positions event.Offsets     `json:"positions"`         // position of the group in each partition
	Skipped   []Gap             `json:"skipped,omitempty"` // records that "group skip" made the group skip
	// Of this member:
	Pending     uint64  `json:"pending"`            // number of events learned and not committed yet
	Committed   uint64  `json:"committed"`          // number of commits written
	Refused     uint64  `json:"refused"`            // number of rejected commits
	Reprocessed uint64  `json:"reprocessed_events"` // number of events that were learned and rejected
	DeltaBytes  uint64  `json:"delta_bytes"`
	DeltaRows   uint64  `json:"delta_rows"`
	Commit      float64 `json:"commit_seconds"` // total time of commits, from the cut until they are applied or rejected
	Sync        float64 `json:"sync_seconds"`   // total time to become equal to the group's state after that
	HeldOut     uint64  `json:"held_out"`       // number of records read and not learned
	// Of the latest snapshot: the offset of the commit log after it, the hash of its bytes, which all members share,
	// and the time when this member reached it.
	SnapshotOffset int64     `json:"snapshot_offset"`
	SnapshotHash   string    `json:"snapshot_hash"`
	SnapshotAt     time.Time `json:"snapshot_at"`
	// Mismatches is the number of group snapshots whose bytes differ from this member's.
	Mismatches uint64 `json:"replica_mismatches"`
	// Peers are the members whose commits this member has read, including itself, in the order of their ids. Members
	// without a commit for an hour are left out.
	Peers []Peer `json:"peers"`

	// Model is the newest model for readers, and Version the offset of the commit log after it. Both are the same for
	// all members.
	Model   *online.Snapshot `json:"-"`
	Version int64            `json:"version"`
	Learner online.Report    `json:"-"` // of the group's model
	// Counts are those of the records that this member has read, whether or not its commits were accepted.
	Counts     run.Counts      `json:"-"`
	Validation validate.Status `json:"-"` // by this member
	// Warnings are about the group's model, and about what its owner probably does not expect.
	Warnings []watch.Warning `json:"-"`
	At       time.Time       `json:"at"`
	NotReady string          `json:"not_ready,omitempty"` // the reason, "" if the member is ready
}

// End is the end of a partition, and the number of its records that the group has not learned.
type End struct {
	stream.TopicPartition
	HighWater int64 `json:"high_water"` // offset of the end
	Lag       int64 `json:"lag"`        // number of offsets between the end and the group's position
}

// ends returns the ends of the partitions that the member reads.
func (l *running) ends(positions event.Offsets) []End {
	out := []End{}
	source, ok := l.work.source.(interface{ Stats() stream.ConsumerStats })
	if !ok {
		return out
	}
	for _, p := range source.Stats().Partitions {
		end := End{stream.TopicPartition{Topic: p.Topic, Partition: p.Partition}, p.HighWater, p.Lag}
		if learned, ok := positions.Lookup(p.Topic, p.Partition); ok {
			end.Lag = max(p.HighWater-learned.Next, 0)
		}
		if p.HighWater >= 0 {
			out = append(out, end)
		}
	}
	return out
}

// Peer is what this member knows of another one from its commits.
type Peer struct {
	Member   string    `json:"member"`
	Accepted uint64    `json:"accepted"` // number of commits
	Rejected uint64    `json:"rejected"`
	Events   uint64    `json:"events"` // of accepted commits
	At       time.Time `json:"at"`     // time at which its latest commit was read
	// Behind is the number of commits between the base of its latest commit and that commit: the age of the model with
	// which the member had learned.
	Behind int64 `json:"behind"`
}

// Status returns the latest Status, or nil until Run has applied the commit log for the first time.
func (m *Member) Status() *Status {
	m.asked.Add(1)
	return m.status.Load()
}

const reportEvery = 200 * time.Millisecond

// served is the model for readers.
type served struct {
	model  *online.Snapshot
	offset int64 // of the commit log
	copied time.Time
	cost   time.Duration // time to copy the model
}

// report publishes a Status.
func (l *running) report(notReady string) {
	s := l.current
	f := l.replica.fold
	_, chain := f.Base()
	s.Offset, s.Lag, s.Chain = l.replica.read, l.entries.lag(), fmt.Sprintf("%016x", chain)
	s.Accepted, s.Rejected, s.Positions, s.Skipped = f.Accepted(), f.Rejected(), f.Offsets(), f.Skipped()
	s.Counts = l.work.intake.Counts()
	s.HeldOut = s.Counts.HeldOut
	s.Ends = l.ends(s.Positions)
	s.Partitions, s.Learner, s.Writer = slices.Clone(s.Partitions), f.Learner().Report(), l.first()
	s.Warnings = f.Learner().Warnings(l.Settings, false)
	for _, w := range s.Warnings {
		if !l.warned[w.Kind] {
			l.warned[w.Kind] = true
			l.log.Warn(w.Text, "warning", w.Kind)
		}
	}
	s.At, s.NotReady, s.Pending = time.Now(), notReady, l.work.events
	if s.NotReady == "" {
		s.NotReady = cmp.Or(l.failing(), l.snapshots.differs)
	}
	s.Peers = make([]Peer, 0, len(l.peers))
	for id, p := range l.peers {
		if s.At.Sub(p.At) > time.Hour {
			delete(l.peers, id)
		} else {
			s.Peers = append(s.Peers, *p)
		}
	}
	slices.SortFunc(s.Peers, func(a, b Peer) int { return strings.Compare(a.Member, b.Member) })
	if l.served.model == nil || l.replica.read != l.served.offset && s.At.Sub(l.served.copied) >= max(time.Second, 50*l.served.cost) || notReady != "" {
		l.served.model, l.served.offset, l.served.copied = f.Learner().Snapshot(), l.replica.read, s.At
		l.served.cost = time.Since(s.At)
	}
	s.Model, s.Version = l.served.model, l.served.offset
	l.reported = s.At
	l.status.Store(&s)
	if l.Observe != nil {
		l.Observe(&s)
	}
}

// failing returns what cannot be read or written, or "".
func (l *running) failing() string {
	if why := l.entries.reader.Failing(); why != "" {
		return why
	}
	if source, ok := l.work.source.(*stream.Consumer); ok {
		stats := source.Stats()
		if why := stats.Failing(); why != "" {
			return why
		}
	}
	if took := time.Since(l.committing); !l.committing.IsZero() && took > l.Kafka.RequestTimeout {
		return fmt.Sprintf("a commit has taken %s so far", took.Round(time.Second))
	}
	return ""
}
