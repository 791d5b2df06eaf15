package group

// This file writes bases, compares them with those of others, and sees that the brokers keep them.

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

// baseJob writes bases, and knows what others wrote.
type baseJob struct {
	topic    *stream.BaseTopic
	busy     bool             // with one
	accepted uint64           // commits that the newest one known holds
	marks    map[int64]claims // by base
	differs  string           // how the newest base that could be compared differs from the group's, "" if it does not
}

// claims are the hashes of a base: what this member came to, and the group's; 0: not known.
type claims struct {
	own, group uint64
	cpu        string // that the group's was computed on
}

// begun forgets what was compared: the member begins with a base of the group, or with nothing.
func (b *baseJob) begun(accepted uint64) {
	b.accepted, b.marks, b.differs = accepted, map[int64]claims{}, ""
}

// beginBase finds the hash of the base that the present fold is. The first member also has a
// goroutine write it, within a time, and trim the ledger.
func (l *running) beginBase(within time.Duration) {
	if l.bases.busy {
		return // the next one will do
	}
	offset, writes := l.replica.read, l.first()
	l.bases.accepted = l.replica.fold.Accepted()
	if !writes {
		s, err := l.replica.sum()
		l.endBase(offset, s, false, err)
		return
	}
	data, s, err := l.replica.encode()
	if err != nil {
		l.endBase(offset, s, true, err)
		return
	}
	floors := maps.Clone(l.replica.floorsAt)
	l.bases.busy = true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		before, err := l.bases.topic.Write(ctx, &stream.Base{Offset: offset, Data: data})
		if chunks, ok := floors[before]; err == nil && ok {
			err = l.ledger.Trim(ctx, append([]int64{before}, chunks...))
		}
		l.jobs <- func() {
			l.bases.busy = false
			l.endBase(offset, s, true, err)
		}
	}()
}

// endBase takes down that a base was made, and written if it was this member's to write.
func (l *running) endBase(offset int64, s *sum, written bool, err error) {
	if err != nil {
		l.log.Error("a base could not be made or written, the next one is tried", "offset", offset, "err", err)
		return
	}
	hash := s.Sum64()
	text := fmt.Sprintf("%016x", hash)
	l.current.BaseOffset, l.current.BaseHash, l.current.BaseAt = offset, text, time.Now()
	l.log.Info("base", "offset", offset, "hash", text, "bytes", s.bytes, "written", written)
	l.compare(offset, claims{own: hash})
	if written {
		l.mark(&Mark{l.id, offset, hash, l.machine.cpu})
	}
}

// leaveBase has the first member write a base when it leaves, and so the last one that
// leaves a group: the next start needs nothing of the ledger before.
func (l *running) leaveBase() {
	if !l.first() {
		return
	}
	for l.bases.busy {
		(<-l.jobs)()
	}
	if l.replica.fold.Accepted() > l.bases.accepted {
		l.beginBase(l.Config.rebalanceTimeout() / 2)
	}
}

// mark tells the others which bytes a base has. Without it they compare nothing.
func (l *running) mark(m *Mark) {
	ctx, cancel := context.WithTimeout(context.Background(), l.Kafka.RequestTimeout)
	defer cancel()
	if _, err := l.ledger.AppendCommit(ctx, m.Encode()); err != nil {
		l.log.Warn("the group was not told the hash of a base", "offset", m.Base, "err", err)
	}
}

// compare takes down the hash of a base, this member's or the group's, and compares the two
// when it knows both.
func (l *running) compare(base int64, said claims) {
	known := l.bases.marks[base]
	both := claims{cmp.Or(said.own, known.own), cmp.Or(said.group, known.group), cmp.Or(said.cpu, known.cpu)}
	l.bases.marks[base] = both
	for len(l.bases.marks) > 16 {
		delete(l.bases.marks, slices.Min(slices.Collect(maps.Keys(l.bases.marks))))
	}
	switch {
	case both.own == 0 || both.group == 0:
	case both.own == both.group:
		l.bases.differs = ""
	default:
		l.current.Mismatches++
		before := l.bases.differs
		l.bases.differs = fmt.Sprintf("at base %d of the ledger this member's model is not the group's: %s", base, twoCPUs(l.machine.cpu, both.cpu))
		if before != "" {
			break // it was told, and lasts
		}
		l.log.Error(l.bases.differs+"; stop it and start it again, it then begins with the newest base; if that recurs, run all members from one build of the program on CPUs of one model, and verify the group (blankout group verify)",
			"base", base, "hash", fmt.Sprintf("%016x", both.own), "group", fmt.Sprintf("%016x", both.group))
	}
}

// twoCPUs says on what two bases were computed that should be one.
func twoCPUs(own, group string) string {
	if group = cmp.Or(group, "a CPU that is not known"); own != group {
		return fmt.Sprintf("it computes on %s, and the group's was computed on %s", event.Printable(own), event.Printable(group))
	}
	return fmt.Sprintf("both were computed on %s, so that one is probably of another build of the program", event.Printable(own))
}

// keeping checks whether the brokers keep the group's topics for ever.
type keeping struct {
	cancel  context.CancelFunc // of the check under way, or nil
	checked time.Time          // of the last one
	err     error              // a *stream.RetentionError, once one has been found
}

// keepEvery is the time between two checks.
const keepEvery = time.Hour

// keeps checks whether the brokers keep the ledger and the bases for ever.
func (l *running) keeps(ctx context.Context) error {
	mix, base := l.Config.Topics()
	return stream.CheckRetention(ctx, l.Kafka.ConnectConfig, mix, base, l.log)
}

// keepIfDue has a goroutine check again. Where the check fails, the next one repeats it.
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
