package group

// This file reads and applies the commit log.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"blankout/batch/validate"
	"blankout/stream"
)

// load starts from the newest snapshot, or from an empty model if there is no snapshot. It then applies the commit log
// to its end.
func (l *running) load(ctx context.Context) error {
	if l.entries != nil {
		l.entries.stop()
	}
	for attempt := 1; ; attempt++ {
		err := l.loadOnce(ctx)
		var trimmed *stream.TrimmedError
		if !errors.As(err, &trimmed) {
			return err
		}
		if attempt == loadTries {
			return fmt.Errorf("no snapshot of the group can be used: %w", err)
		}
		l.log.Info("a newer base is needed", "err", err) // the snapshot became too old while it was read
	}
}

// load tries another snapshot if the commit log is trimmed before load can read it, because a busy group writes newer
// snapshots in the meantime. loadTries is the largest number of tries.
const loadTries = 20

func (l *running) loadOnce(ctx context.Context) (err error) {
	base, replica, err := newestReplica(ctx, l.snapshots.topic, l.Member)
	if err != nil {
		return err
	}
	if base == nil && l.From != "" {
		if base, replica, err = l.beginFrom(ctx); err != nil {
			return fmt.Errorf("beginning from group %s: %w", l.From, err)
		}
	}
	if l.replica = replica; base == nil {
		if l.replica, err = newReplica(l.Learner, l.Settings, l.Schema(), l.commitLog.ID(), l.Config.SnapshotEvery); err != nil {
			return err
		}
	}
	if err := l.fits(); err != nil {
		return err
	}
	l.snapshots.begun(l.replica.fold.Accepted())
	if l.work.intake.Learner, err = l.replica.fold.Learner().Clone(); err != nil {
		return err
	}
	end, err := l.commitLog.End(ctx)
	if err != nil {
		return err
	}
	config := l.Config.CommitLog(l.Kafka.ConnectConfig, l.log)
	if l.entries, err = readEntries(context.WithoutCancel(ctx), config, l.replica); err != nil {
		return err
	}
	began := time.Now()
	for l.replica.read < end {
		select {
		case e := <-l.entries.next:
			if err := l.apply(e); err != nil {
				l.entries.stop()
				return err
			}
		case <-ctx.Done():
			l.entries.stop()
			return ctx.Err()
		}
	}
	l.work.changed = nil // work restarts from the group's state
	if l.work.intake.Learner, err = l.replica.fold.Learner().Clone(); err != nil {
		return err
	}
	l.entries.moved = time.Now()
	if l.Validator != nil {
		l.validator.schedule = validate.NewSchedule(l.Validator.Config, l.replica.records())
	}
	l.log.Info("applied the commit log", "snapshot", base != nil, "offset", l.replica.read, "accepted", l.replica.fold.Accepted(),
		"events", l.replica.fold.Learner().Report().Events, "took", time.Since(began))
	l.report("not in the group yet")
	return nil
}

// beginFrom writes the first snapshot of this group, for the start of its commit log: a copy of the state in another
// group's newest snapshot. If several members call it at the same time, their snapshots are equal. A snapshot that
// members of this group would reject is an error.
func (l *running) beginFrom(ctx context.Context) (*stream.GroupSnapshot, *replica, error) {
	if end, err := l.commitLog.End(ctx); err != nil {
		return nil, nil, err
	} else if end > 0 {
		return nil, nil, fmt.Errorf("group %s already exists without a snapshot: give the new group another name", l.Config.Name)
	}
	old := Config{Name: l.From}
	topic, err := old.openSnapshots(ctx, l.Kafka.ConnectConfig, l.log)
	if err != nil {
		return nil, nil, err
	}
	defer topic.Close()
	base, r, err := newestReplica(ctx, topic, l.Member)
	if err != nil {
		return nil, nil, err
	}
	if base == nil {
		return nil, nil, errors.New("it has written no snapshot")
	}
	fold := NewFold(r.fold.learner, l.Settings, r.fold.offsets)
	fold.skipped, fold.chain = r.fold.skipped, xxhash.Sum64(base.Data) // no commit from another start can match
	fold.history[0].chain = fold.chain
	data, _, err := (&replica{fold: fold, topicID: l.commitLog.ID()}).encode()
	if err != nil {
		return nil, nil, err
	}
	if _, err := l.snapshots.topic.Write(ctx, &stream.GroupSnapshot{Data: data}); err != nil {
		return nil, nil, err
	}
	l.log.Info("the group starts from the state of another group", "from", l.From, "snapshot", base.Offset, "events", fold.learner.Report().Events)
	return newestReplica(ctx, l.snapshots.topic, l.Member)
}

// apply applies a record of the commit log.
func (l *running) apply(e mixed) error {
	if e.err != nil {
		return e.err
	}
	if e.mark != nil {
		l.compare(e.mark.Base, claims{group: e.mark.Hash, cpu: e.mark.CPU})
	}
	changed, base, err := l.replica.apply(e)
	var rejected *Rejection
	own := e.commit != nil && e.commit.Member == l.id
	if e.commit != nil && (err == nil || errors.As(err, &rejected)) {
		l.watch(e.offset, e.commit, err == nil)
	}
	switch {
	case errors.As(err, &rejected) && e.commit != nil && rejected.Reason == ReasonSettings && l.replica.fold.Accepted() == 0:
		return fmt.Errorf("the commit log's commit at offset %d: %w", e.offset, &SettingsError{})
	case errors.As(err, &rejected) && e.commit != nil && rejected.Reason == ReasonSnapshot && e.commit.Base < 0 && l.replica.fold.Accepted() == 0:
		return fmt.Errorf("the commit at offset %d of the commit log has another start than this member: the group started from another group (run --from-group) whose snapshot is lost or replaced; start a new group", e.offset)
	case errors.As(err, &rejected):
		if own {
			l.current.Refused++
		}
		l.log.Info("a commit was not accepted", "offset", e.offset, "own", own, "reason", rejected.Reason, "detail", rejected.Detail)
	case err != nil:
		return err
	default:
		l.work.changed = append(l.work.changed, changed...)
		l.entries.moved = time.Now()
		if e.skip != nil {
			l.log.Warn("the group skips records (blankout group skip)", "records", e.skip.Gap, "commit log", e.offset)
		}
		if err := l.fits(); err != nil {
			return err
		}
	}
	if base {
		l.beginSnapshot(2 * time.Minute)
	}
	return nil
}

// applyOrReload is apply for a commit log that may be trimmed. If records were deleted before this member read them, it
// continues from the newest snapshot and discards its interval.
func (l *running) applyOrReload(ctx context.Context, e mixed) error {
	err := l.apply(e)
	var trimmed *stream.TrimmedError
	if !errors.As(err, &trimmed) {
		return err
	}
	l.log.Warn("this member is behind the start of the commit log; it continues from the newest snapshot", "err", err)
	l.drop()
	if err := l.load(ctx); err != nil {
		return err
	}
	return l.reopen(ctx)
}

// watch records what a commit reports about the state of its author.
func (l *running) watch(offset int64, c *Commit, accepted bool) {
	p := l.peers[c.Member]
	if p == nil {
		p = &Peer{Member: c.Member.String()}
		l.peers[c.Member] = p
	}
	if p.At, p.Behind = time.Now(), offset-c.Base-1; accepted {
		p.Accepted, p.Events = p.Accepted+1, p.Events+c.Events
	} else {
		p.Rejected++
	}
}

// mixed is a record of the commit log with its chunks.
type mixed struct {
	offset  int64
	commit  *Commit  // nil for other records
	mark    *Mark    // nil for other records
	skip    *Skip    // nil for other records
	chunks  []*Chunk // nil for a missing chunk
	trimmed []bool   // by chunk: whether the broker has trimmed it
	err     error    // error that a retry would not fix
}

// entries runs the goroutine that reads the commit log.
type entries struct {
	next   chan mixed
	stop   func()
	reader *stream.CommitLogReader
	moved  time.Time // time of the model's last change by the receiver
}

func (e *entries) lag() int64 { return e.reader.Lag() + int64(len(e.next)) }

// readEntries reads the commit log from the position of a replica.
func readEntries(ctx context.Context, c stream.CommitLogConfig, r *replica) (*entries, error) {
	reader, err := stream.ReadCommitLog(ctx, c, r.topicID, r.read, false)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	e := &entries{next: make(chan mixed, 16), reader: reader}
	var running sync.WaitGroup
	running.Go(func() {
		send := func(x mixed) bool {
			select {
			case e.next <- x:
				return x.err == nil
			case <-ctx.Done():
				return false
			}
		}
		for {
			records, err := reader.Next(ctx)
			if err != nil {
				send(mixed{err: err})
				return
			}
			for _, record := range records {
				if !send(readMixed(ctx, reader, record.Offset, record.Value)) {
					return
				}
			}
		}
	})
	var once sync.Once
	e.stop = func() {
		once.Do(func() { cancel(); running.Wait(); reader.Close() })
	}
	return e, nil
}

// readMixed reads the chunks of a commit.
func readMixed(ctx context.Context, reader *stream.CommitLogReader, offset int64, value []byte) mixed {
	e := mixed{offset: offset}
	c, err := DecodeCommit(value)
	if err != nil {
		if m, err := DecodeMark(value); err == nil {
			e.mark = m
		}
		if s, err := DecodeSkip(value); err == nil {
			e.skip = s
		}
		return e // all readers get the same result
	}
	e.commit, e.chunks, e.trimmed = c, make([]*Chunk, len(c.Chunks)), make([]bool, len(c.Chunks))
	for i, ref := range c.Chunks {
		data, err := reader.Chunk(ctx, stream.Place{Partition: ref.Partition, Offset: ref.Offset})
		var trimmed *stream.TrimmedError
		if errors.As(err, &trimmed) {
			e.trimmed[i] = true // an error only if the commit may refer to the chunk
			continue
		}
		if err != nil {
			e.err = err
			return e
		}
		if e.chunks[i], err = DecodeChunk(data); err != nil {
			e.chunks[i] = nil
		}
	}
	return e
}
