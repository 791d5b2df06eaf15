package group

// This file has the Status of a member.

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
	"blankout/online/health"
	"blankout/stream"
)

// Status describes a Member, and the other members as far as their commits describe them. It is immutable.
type Status struct {
	Member     string                  `json:"member"`
	Generation int32                   `json:"generation"` // 0 before the member has joined
	Members    int                     `json:"members"`    // number of members of the group
	Standby    int                     `json:"standby"`    // number of members without a partition
	Partitions []stream.TopicPartition `json:"partitions"` // partitions of this member
	Ends       []End                   `json:"ends"`       // end offsets of these partitions
	Writer     bool                    `json:"writer"`     // this member has the lowest partition, so it writes snapshots and validates
	// The part of the commit log that this member has applied:
	Offset    int64             `json:"commit_log_offset"` // offset after the last applied commit
	Lag       int64             `json:"commit_log_lag"`    // number of commits that are not applied yet
	Chain     string            `json:"chain"`
	Accepted  uint64            `json:"accepted"` // commits of all members
	Rejected  map[Reason]uint64 `json:"rejected"`
	Positions event.Offsets     `json:"positions"`         // the group's position in each partition
	Skipped   []Gap             `json:"skipped,omitempty"` // records that the command "group skip" made the group skip
	// The member's own work:
	Pending     uint64  `json:"pending"`            // number of learned events that are not committed yet
	Committed   uint64  `json:"committed"`          // number of commits written
	Refused     uint64  `json:"refused"`            // number of rejected commits
	Reprocessed uint64  `json:"reprocessed_events"` // number of events that were learned in rejected commits
	DeltaBytes  uint64  `json:"delta_bytes"`
	DeltaRows   uint64  `json:"delta_rows"`
	Commit      float64 `json:"commit_seconds"` // total time of commits, until they are applied or rejected
	Sync        float64 `json:"sync_seconds"`   // total time to load the group's state after commits
	HeldOut     uint64  `json:"held_out"`       // number of records that were read but held out from learning
	// The latest snapshot: the offset of the commit log after it, the hash of its bytes, and the time at which this
	// member reached it. The hash is equal for all members.
	SnapshotOffset int64     `json:"snapshot_offset"`
	SnapshotHash   string    `json:"snapshot_hash"`
	SnapshotAt     time.Time `json:"snapshot_at"`
	// Mismatches is the number of group snapshots whose bytes differ from this member's.
	Mismatches uint64 `json:"replica_mismatches"`
	// Peers are the members whose commits this member has read, including itself, sorted by id. Members without a
	// commit for an hour are omitted.
	Peers []Peer `json:"peers"`

	// Model is the newest model for readers, and Version is the offset of the commit log after it. Both are the same
	// for all members of a group.
	Model   *online.Snapshot `json:"-"`
	Version int64            `json:"version"`
	Learner online.Report    `json:"-"` // report of the group's model
	// Counts are the counts of records that this member has read, in accepted and in rejected commits.
	Counts     run.Counts      `json:"-"`
	Validation validate.Status `json:"-"` // status of this member's validations
	// Warnings describe problems of the group's model, and settings that the user probably does not want.
	Warnings []health.Warning `json:"-"`
	At       time.Time        `json:"at"`
	NotReady string           `json:"not_ready,omitempty"` // why the member is not ready, or ""
}

// End has the end offset of a partition, and the number of its records that the group has not learned.
type End struct {
	stream.TopicPartition
	HighWater int64 `json:"high_water"` // offset of the end
	Lag       int64 `json:"lag"`        // number of records between the end and the group's position
}

// ends returns an End for each partition that the member reads.
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

// Peer describes a member by the contents of its commits.
type Peer struct {
	Member   string    `json:"member"`
	Accepted uint64    `json:"accepted"` // number of accepted commits
	Rejected uint64    `json:"rejected"`
	Events   uint64    `json:"events"` // number of events in accepted commits
	At       time.Time `json:"at"`     // when its latest commit was read
	// Behind is the number of commits between the base of the member's latest commit and that commit. It is the age of
	// the model from which the commit was learned.
	Behind int64 `json:"behind"`
}

// Status returns the latest Status. It returns nil until Run has applied the commit log for the first time.
func (m *Member) Status() *Status {
	m.asked.Add(1)
	return m.status.Load()
}

const reportEvery = 200 * time.Millisecond

// served is the model for readers.
type served struct {
	model  *online.Snapshot
	offset int64 // offset of the commit log after the model
	copied time.Time
	cost   time.Duration // time that the copy of the model took
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

// failing describes what cannot be read or written, or returns "".
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
