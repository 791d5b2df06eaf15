package group

// This file has the state of a reader of the commit log, which is also the content of a snapshot.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/online"
	"blankout/stream"
	records "blankout/stream/record"
)

// replica is the model that results from a commit log, and the rest of the state that the commit log determines.
type replica struct {
	fold    *Fold
	topicID string
	every   uint64
	read    int64 // offset after the last record read
	// Offsets of chunks, indexed by partition minus one. refs has the offsets after the chunks of all accepted commits.
	// before has the values of refs at the latest snapshot, and floors has the values at the snapshot before. A commit
	// that refers to chunks before floors is rejected. A member that starts from the latest snapshot therefore needs no
	// chunks before its floors.
	refs, before, floors []int64
	floorsAt             map[int64][]int64 // floors by offset of the latest snapshots
}

const blockMix = "mix"

// mixBlock is the part of a replica's state that is stored in a snapshot as JSON.
type mixBlock struct {
	TopicID string  `json:"topic_id"`
	Read    int64   `json:"read"`
	Refs    []int64 `json:"refs"`
	Before  []int64 `json:"before"`
	Floors  []int64 `json:"floors"`
	// Settings equals Member.Settings.
	Settings online.Fingerprint `json:"settings,omitempty"`
}

// SettingsError reports that a group learns under other settings than a member or a reader of its commit log.
type SettingsError struct{ Differences []string }

func (e *SettingsError) Error() string {
	which := `it has no snapshot yet that would say which`
	if len(e.Differences) > 0 {
		which = strings.Join(e.Differences, "; ") + `; "was" is the group's, "is" is given here`
	}
	return fmt.Sprintf("the group has other settings (%s): use the same configuration for all members and commands, or start a new group", which)
}

// newReplica returns the initial replica of a group. If the Schema has no seed, its seed becomes the id of the commit
// log's topic. The broker draws the id at random. All members then have the same seed, and an author of events cannot
// predict which names share a column.
func newReplica(c online.Config, settings online.Fingerprint, s *event.Schema, topicID string, every uint64) (*replica, error) {
	if s.Seed == 0 {
		s.Seed = xxhash.Sum64String(topicID)
	}
	learner, err := online.NewForGroup(c, s)
	if err != nil {
		return nil, err
	}
	return &replica{fold: NewFold(learner, settings, nil), topicID: topicID, every: every, floorsAt: map[int64][]int64{}}, nil
}

// newestReplica returns the newest valid snapshot and its replica, or nil for both if there is no valid snapshot. A
// snapshot with other settings is not skipped but causes an error.
func newestReplica(ctx context.Context, snapshots *stream.SnapshotTopic, m *Member) (base *stream.GroupSnapshot, r *replica, err error) {
	var settings *SettingsError
	base, err = snapshots.Newest(ctx, func(b *stream.GroupSnapshot) (err error) {
		if r, err = readReplica(m.Learner, m.Settings, b, m.Config.SnapshotEvery); errors.As(err, &settings) {
			return nil
		}
		return err
	})
	if err == nil && settings != nil {
		err = fmt.Errorf("snapshot %d: %w", base.Offset, settings)
	}
	return base, r, err
}

// readReplica decodes the replica of a snapshot.
func readReplica(c online.Config, settings online.Fingerprint, base *stream.GroupSnapshot, every uint64) (*replica, error) {
	file, err := checkpoint.Decode(base.Data)
	if err != nil {
		return nil, err
	}
	r := &replica{every: every, floorsAt: map[int64][]int64{}}
	var mismatch *online.MismatchError
	if r.fold, err = ReadFold(c, settings, file.Blocks); errors.As(err, &mismatch) {
		return nil, &SettingsError{mismatch.Differences}
	} else if err != nil {
		return nil, err
	}
	text, err := event.FindBlock(file.Blocks, blockMix)
	if err != nil {
		return nil, fmt.Errorf("%w: this is no base of a group", err)
	}
	var b mixBlock
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, fmt.Errorf("block %s: %w", blockMix, err)
	}
	if differences := settings.Diff(b.Settings); len(b.Settings) > 0 && len(differences) > 0 {
		return nil, &SettingsError{differences}
	}
	if b.Read != base.Offset {
		return nil, fmt.Errorf("it is that of offset %d", b.Read)
	}
	r.topicID, r.read, r.refs, r.before, r.floors = b.TopicID, b.Read, b.Refs, b.Before, b.Floors
	r.floorsAt[r.read] = r.floors
	return r, nil
}

// apply applies a record of the commit log. base reports whether a snapshot is due.
func (r *replica) apply(e mixed) (changed []uint32, base bool, err error) {
	r.read = e.offset + 1
	if e.skip != nil {
		if err := r.fold.Skip(e.offset, e.skip); err != nil {
			return nil, false, err
		}
		return nil, r.due(), nil
	}
	if e.commit == nil {
		return nil, false, nil
	}
	for i, ref := range e.commit.Chunks {
		p := int(ref.Partition) - 1
		if p >= 0 && p < len(r.floors) && ref.Offset < r.floors[p] {
			e.chunks[i] = nil
		} else if e.trimmed[i] {
			return nil, false, &stream.TrimmedError{Place: stream.Place{Partition: ref.Partition, Offset: ref.Offset}}
		}
	}
	if changed, err = r.fold.Apply(e.offset, e.commit, e.chunks); err != nil {
		return nil, false, err
	}
	schema := r.fold.Learner().Schema()
	for _, f := range e.commit.Fields {
		if !slices.ContainsFunc(schema.Fields, func(g event.Field) bool { return g.Name == f.Name }) {
			f.Column = records.OwnColumn(schema, f.Name, f.Kind) // commits do not contain columns of fields
			schema.AddField(f)
		}
	}
	for _, ref := range e.commit.Chunks {
		p := int(ref.Partition) - 1
		for len(r.refs) <= p {
			r.refs = append(r.refs, 0)
		}
		r.refs[p] = max(r.refs[p], ref.Offset+1)
	}
	return changed, r.due(), nil
}

// records returns the number of counted records.
func (r *replica) records() (n uint64) {
	for _, p := range r.fold.Offsets() {
		n += p.Records
	}
	return n
}

// due reports whether a snapshot is due after an accepted commit. If a snapshot is due, it also updates the floors.
func (r *replica) due() bool {
	if r.fold.Accepted()%r.every != 0 {
		return false
	}
	r.floors, r.before = r.before, slices.Clone(r.refs)
	r.floorsAt[r.read] = r.floors
	for len(r.floorsAt) > 4 {
		delete(r.floorsAt, slices.Min(slices.Collect(maps.Keys(r.floorsAt))))
	}
	return true
}

// write writes the replica as a snapshot.
func (r *replica) write(w io.Writer) error {
	blocks, err := r.fold.EachBlock()
	if err != nil {
		return err
	}
	text, err := json.Marshal(mixBlock{r.topicID, r.read, r.refs, r.before, r.floors, r.fold.settings})
	if err != nil {
		return err
	}
	return checkpoint.Write(w, checkpoint.Linear, func(yield func(event.Block) bool) {
		if yield(event.Block{Name: blockMix, Data: text}) {
			blocks(yield)
		}
	})
}

// sum is the hash and the size of a snapshot.
type sum struct {
	xxhash.Digest
	bytes int
}

func (s *sum) Write(p []byte) (int, error) {
	s.bytes += len(p)
	return s.Digest.Write(p)
}

// sum returns the sum of the replica's snapshot.
func (r *replica) sum() (*sum, error) {
	s := &sum{}
	s.Reset()
	return s, r.write(s)
}

// encode returns the replica's snapshot, and its sum.
func (r *replica) encode() ([]byte, *sum, error) {
	s, err := r.sum()
	if err != nil {
		return nil, nil, err
	}
	out := bytes.NewBuffer(make([]byte, 0, s.bytes))
	err = r.write(out)
	return out.Bytes(), s, err
}
