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

	"github.com/cespare/xxhash/v2"

	"blankout/stream"
)

// baseJob writes bases, and knows what others wrote.
type baseJob struct {
	topic    *stream.BaseTopic
	busy     bool                // with one
	accepted uint64              // commits that the newest one known holds
	marks    map[int64][2]uint64 // by base: the hash that this member came to, and that of the group's; 0: not known
}

// beginBase has a goroutine encode the present fold. The first member also writes it as a base,
// within a time, and trims the ledger.
func (l *running) beginBase(within time.Duration) {
	if l.bases.busy {
		return // the next one will do
	}
	encode, err := l.replica.encode()
	if err != nil {
		l.log.Error("no base can be made", "err", err)
		return
	}
	offset, writes := l.replica.read, l.first()
	l.bases.accepted = l.replica.fold.Accepted()
	floors := maps.Clone(l.replica.floorsAt)
	l.bases.busy = true
	go func() {
		data, err := encode()
		hash := xxhash.Sum64(data)
		if err == nil && writes {
			ctx, cancel := context.WithTimeout(context.Background(), within)
			defer cancel()
			var before int64
			before, err = l.bases.topic.Write(ctx, &stream.Base{Offset: offset, Data: data})
			if chunks, ok := floors[before]; err == nil && ok {
				err = l.ledger.Trim(ctx, append([]int64{before}, chunks...))
			}
		}
		l.jobs <- func() {
			l.bases.busy = false
			l.replica.encoded = len(data)
			if err != nil {
				l.log.Error("a base could not be written, the next one is tried", "offset", offset, "err", err)
				return
			}
			text := fmt.Sprintf("%016x", hash)
			l.current.BaseOffset, l.current.BaseHash, l.current.BaseAt = offset, text, time.Now()
			l.log.Info("base", "offset", offset, "hash", text, "bytes", len(data), "written", writes)
			l.compare(offset, 0, hash)
			if writes {
				l.mark(&Mark{l.id, offset, hash})
			}
		}
	}()
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
func (l *running) compare(base int64, whose int, hash uint64) {
	both := l.bases.marks[base]
	both[whose] = hash
	l.bases.marks[base] = both
	for len(l.bases.marks) > 16 {
		delete(l.bases.marks, slices.Min(slices.Collect(maps.Keys(l.bases.marks))))
	}
	if both[0] != 0 && both[1] != 0 && both[0] != both[1] {
		l.current.Mismatches++
		l.log.Error("this member's model is not the group's: stop it and start it again, it then begins with the newest base; if that recurs, verify the group (blankout group verify) and look for another version of the program or damaged memory",
			"base", base, "hash", fmt.Sprintf("%016x", both[0]), "group", fmt.Sprintf("%016x", both[1]))
	}
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
