package group

// This file writes snapshots, compares them with the snapshots of other members, and checks that the brokers keep them.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"blankout/internal/event"
	"blankout/stream"
)

// snapshotJob writes snapshots, and records the hashes of other members' snapshots.
type snapshotJob struct {
	topic    *stream.SnapshotTopic
	busy     bool             // a snapshot is being written
	accepted uint64           // number of commits in the newest known snapshot
	marks    map[int64]claims // by offset of the snapshot
	differs  string           // how the last compared snapshot differs from the group's, "" if it does not
}

// claims holds two hashes of one snapshot: computed by this member, and written by the group. 0 means unknown.
type claims struct {
	own, group uint64
	cpu        string // CPU that computed the group's snapshot
}

// begun resets all comparisons when the member starts from a snapshot of the group or from an empty model.
func (b *snapshotJob) begun(accepted uint64) {
	b.accepted, b.marks, b.differs = accepted, map[int64]claims{}, ""
}

// beginSnapshot computes the hash of the current state. If this is the first member, beginSnapshot also starts a
// goroutine that writes the snapshot within the given time, and trims the commit log.
func (l *running) beginSnapshot(within time.Duration) {
	if l.snapshots.busy {
		return // the next snapshot suffices
	}
	offset, writes := l.replica.read, l.first()
	l.snapshots.accepted = l.replica.fold.Accepted()
	if !writes {
		s, err := l.replica.sum()
		l.endSnapshot(offset, s, false, err)
		return
	}
	data, s, err := l.replica.encode()
	if err != nil {
		l.endSnapshot(offset, s, true, err)
		return
	}
	floors := maps.Clone(l.replica.floorsAt)
	l.snapshots.busy = true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		before, err := l.snapshots.topic.Write(ctx, &stream.GroupSnapshot{Offset: offset, Data: data})
		if chunks, ok := floors[before]; err == nil && ok {
			err = l.commitLog.Trim(ctx, append([]int64{before}, chunks...))
		}
		l.jobs <- func() {
			l.snapshots.busy = false
			l.endSnapshot(offset, s, true, err)
		}
	}()
}

// endSnapshot records that the hash of a snapshot has been computed. written reports whether this member has also
// written the snapshot.
func (l *running) endSnapshot(offset int64, s *sum, written bool, err error) {
	if err != nil {
		l.log.Error("a snapshot could not be written; trying the next one", "offset", offset, "err", err)
		return
	}
	hash := s.Sum64()
	text := fmt.Sprintf("%016x", hash)
	l.current.SnapshotOffset, l.current.SnapshotHash, l.current.SnapshotAt = offset, text, time.Now()
	l.log.Info("snapshot", "offset", offset, "hash", text, "bytes", s.bytes, "written", written)
	l.compare(offset, claims{own: hash})
	if written {
		l.mark(&Mark{l.id, offset, hash, l.machine.cpu})
	}
}

// leaveSnapshot makes the first member write a snapshot when it leaves. The last member that leaves also writes one, so
// that the next start does not need the commit log before it.
func (l *running) leaveSnapshot() {
	if !l.first() {
		return
	}
	for l.snapshots.busy {
		(<-l.jobs)()
	}
	if l.replica.fold.Accepted() > l.snapshots.accepted {
		l.beginSnapshot(l.Config.rebalanceTimeout() / 2)
	}
}

// mark publishes the hash of a snapshot, so that other members can compare theirs.
func (l *running) mark(m *Mark) {
	ctx, cancel := context.WithTimeout(context.Background(), l.Kafka.RequestTimeout)
	defer cancel()
	if _, err := l.commitLog.AppendCommit(ctx, m.Encode()); err != nil {
		l.log.Warn("the hash of a snapshot could not be written to the commit log", "offset", m.Base, "err", err)
	}
}

// compare records this member's hash of a snapshot, or the group's hash. When both hashes are known, it compares them.
func (l *running) compare(base int64, said claims) {
	known := l.snapshots.marks[base]
	both := claims{cmp.Or(said.own, known.own), cmp.Or(said.group, known.group), cmp.Or(said.cpu, known.cpu)}
	l.snapshots.marks[base] = both
	for len(l.snapshots.marks) > 16 {
		delete(l.snapshots.marks, slices.Min(slices.Collect(maps.Keys(l.snapshots.marks))))
	}
	switch {
	case both.own == 0 || both.group == 0:
	case both.own == both.group:
		l.snapshots.differs = ""
	default:
		l.current.Mismatches++
		before := l.snapshots.differs
		l.snapshots.differs = fmt.Sprintf("at snapshot %d of the commit log this member's model differs from the group's: %s", base, twoCPUs(l.machine.cpu, both.cpu))
		if before != "" {
			break // already reported
		}
		l.log.Error(l.snapshots.differs+"; restart it, so that it starts from the newest snapshot; if this happens again, run all members from one build on CPUs of one model, and run blankout group verify",
			"snapshot", base, "hash", fmt.Sprintf("%016x", both.own), "group", fmt.Sprintf("%016x", both.group))
	}
}

// twoCPUs describes the CPUs that computed two snapshots that should be equal.
func twoCPUs(own, group string) string {
	if group = cmp.Or(group, "an unknown CPU"); own != group {
		return fmt.Sprintf("it computes on %s, and the group's was computed on %s", event.Printable(own), event.Printable(group))
	}
	return fmt.Sprintf("both were computed on %s, so the builds of the program probably differ", event.Printable(own))
}

// keeping is the state of the check that the brokers never delete records of the group's topics.
type keeping struct {
	cancel  context.CancelFunc // cancels the current check; nil if none runs
	checked time.Time          // time of the last check
	err     error              // a *stream.RetentionError; permanent
}

// keepEvery is the time between two such checks.
const keepEvery = time.Hour

// keeps checks that the brokers never delete records of the commit log and of the snapshot topic by time or size.
func (l *running) keeps(ctx context.Context) error {
	mix, base := l.Config.Topics()
	return stream.CheckRetention(ctx, l.Kafka.ConnectConfig, mix, base, l.log)
}

// keepIfDue starts a goroutine that repeats the check of keeps when it is due. After a check that fails, the next check
// is at the next due time.
func (l *running) keepIfDue() {
	if l.kept.cancel != nil || time.Since(l.kept.checked) < cmp.Or(l.keepEvery, keepEvery) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.Kafka.RequestTimeout)
	l.kept.cancel, l.kept.checked = cancel, time.Now()
	go func() {
		err := l.keeps(ctx)
		l.jobs <- func() {
			cancel()
			var expires *stream.RetentionError
			if l.kept.cancel = nil; errors.As(err, &expires) {
				l.kept.err = err
			}
		}
	}()
}
