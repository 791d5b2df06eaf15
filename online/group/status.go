package group

// This file holds the Status that a member publishes.

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

// Status is what a Member has done, and what it knows of the others. It is immutable.
type Status struct {
	Member     string                  `json:"member"`
	Generation int32                   `json:"generation"` // 0 before the member has joined
	Members    int                     `json:"members"`    // of the group
	Standby    int                     `json:"standby"`    // of them without a partition
	Partitions []stream.TopicPartition `json:"partitions"` // that this member learns
	Ends       []End                   `json:"ends"`       // where these end
	Writer     bool                    `json:"writer"`     // it has the lowest partition: it writes snapshots and snapshots, and validates
	// About the commit log, as far as this member has applied it.
	Offset    int64             `json:"commit_log_offset"` // that follows the last commit
	Lag       int64             `json:"commit_log_lag"`    // commits behind it
	Chain     string            `json:"chain"`
	Accepted  uint64            `json:"accepted"` // of all members
	Rejected  map[Reason]uint64 `json:"rejected"`
	Positions event.Offsets     `json:"positions"`         // how far the group has come
	Skipped   []Gap             `json:"skipped,omitempty"` // records that group skip had it pass over
	// About this member.
	Pending     uint64  `json:"pending"`            // events learned and not yet committed
	Committed   uint64  `json:"committed"`          // commits written
	Refused     uint64  `json:"refused"`            // of them not accepted
	Reprocessed uint64  `json:"reprocessed_events"` // events learned for nothing
	DeltaBytes  uint64  `json:"delta_bytes"`
	DeltaRows   uint64  `json:"delta_rows"`
	Commit      float64 `json:"commit_seconds"` // taken, in all, by commits: from the cut until the fold holds or rejects it
	Sync        float64 `json:"sync_seconds"`   // and then by becoming equal to the group's state
	HeldOut     uint64  `json:"held_out"`       // records that it has read and not learned
	// About the latest snapshot: the commit log's offset that follows it, the hash of its bytes,
	// which are the same for all members, and when this member came to it.
	SnapshotOffset int64     `json:"snapshot_offset"`
	SnapshotHash   string    `json:"snapshot_hash"`
	SnapshotAt     time.Time `json:"snapshot_at"`
	// Mismatches are the snapshots of the group whose bytes were others than those that this
	// member came to.
	Mismatches uint64 `json:"replica_mismatches"`
	// Peers are the members whose commits this one has read, itself included, in the order
	// of their ids, without those silent for an hour.
	Peers []Peer `json:"peers"`

	// Model is the newest model for readers, and Version the commit log's offset that follows
	// it: the same for all members.
	Model   *online.Snapshot `json:"-"`
	Version int64            `json:"version"`
	Learner online.Report    `json:"-"` // of the fold
	// Counts count the records that this member has read, whether or not their commits were accepted.
	Counts     run.Counts      `json:"-"`
	Validation validate.Status `json:"-"` // by this member
	// Warnings say what is probably not as the stream's owner believes, of the fold.
	Warnings []watch.Warning `json:"-"`
	At       time.Time       `json:"at"`
	NotReady string          `json:"not_ready,omitempty"` // why, "" if it is
}

// End is where a partition ends, and so how many of its records the group has not learned yet.
type End struct {
	stream.TopicPartition
	HighWater int64 `json:"high_water"` // offset of the partition's end
	Lag       int64 `json:"lag"`        // offsets between that and what the group has learned
}

// ends returns where the partitions end that the member reads now.
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

// Peer says what this member knows of another one by its commits.
type Peer struct {
	Member   string    `json:"member"`
	Accepted uint64    `json:"accepted"` // commits
	Rejected uint64    `json:"rejected"`
	Events   uint64    `json:"events"` // of the accepted ones
	At       time.Time `json:"at"`     // when its latest commit was read
	// Behind is how many commits were in the commit log behind the one that this commit built on:
	// the age of the model that the member had learned with.
	Behind int64 `json:"behind"`
}

// Status returns the latest one; nil before Run has applied the commit log for the first time.
func (m *Member) Status() *Status {
	m.asked.Add(1)
	return m.status.Load()
}

const reportEvery = 200 * time.Millisecond

// served is the model for readers.
type served struct {
	model  *online.Snapshot
	offset int64 // of the commit log, that it is of
	copied time.Time
	cost   time.Duration // of copying it
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

// failing says what cannot be read, or written, "" if there is nothing.
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
