package stream

// A snapshot is the state of a commit log, stored in a compacted topic. A reader can start from the newest snapshot,
// and earlier commits can be deleted. The topic has one partition with these records:
//
//	key                  value
//	snapshot/OFFSET/NUMBER   a piece of the snapshot
//	snapshot/OFFSET          JSON of snapshotHead, after all its pieces
//
// OFFSET is the offset after the last commit in the snapshot, as 20 digits. Every writer writes the same bytes under
// the same keys, because a snapshot depends only on the commit log. So two concurrent writers do no harm. A late writer
// writes an old snapshot, which readers skip, and deletes only older snapshots.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"blankout/stream/record"
)

// maxSnapshotPiece is the largest size of a snapshot record. Brokers reject more than 1 MB by default.
const maxSnapshotPiece = 900_000

// GroupSnapshot is the state of a group at an offset of its commit log.
type GroupSnapshot struct {
	Offset int64 // offset after the last commit in the snapshot
	Data   []byte
}

type snapshotHead struct {
	Format int    `json:"format"` // format version, 1
	Bytes  int    `json:"bytes"`
	Pieces int    `json:"pieces"`
	Hash   string `json:"sha256"` // hash of all bytes, in hexadecimal digits
}

func snapshotKey(offset int64) string { return fmt.Sprintf("snapshot/%020d", offset) }

func pieceKey(offset int64, number int) string {
	return fmt.Sprintf("%s/%d", snapshotKey(offset), number)
}

// SnapshotConfig has the settings of a snapshot topic.
type SnapshotConfig struct {
	ConnectConfig
	Topic  string
	Create bool         // create the topic if it is missing: compacted, and replicated like the commit log
	Log    *slog.Logger // nil disables the log
}

// SnapshotTopic writes and reads snapshots. It belongs to one goroutine, and runs no goroutine between calls.
type SnapshotTopic struct {
	config   SnapshotConfig
	producer *Producer
}

// OpenSnapshots connects to the brokers, and creates the topic if allowed.
func OpenSnapshots(ctx context.Context, c SnapshotConfig) (*SnapshotTopic, error) {
	config := DefaultProducerConfig()
	config.ConnectConfig, config.Topic, config.Log, config.CreateTopics = c.ConnectConfig, c.Topic, c.Log, c.Create
	config.TopicSettings, config.TwoCopies = []string{"cleanup.policy=compact", "unclean.leader.election.enable=false"}, true
	p, err := NewProducer(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("opening the snapshots: %w", err)
	}
	return &SnapshotTopic{c, p}, nil
}

// snapshotRecords has the records of one snapshot in the topic.
type snapshotRecords struct {
	offset int64 // offset of the last record
	head   *snapshotHead
	pieces map[int][]byte
}

var errBaseFormat = errors.New("it has format")

// sound returns an error if the records are not a complete snapshot.
func (b *snapshotRecords) sound() error {
	switch {
	case b.head == nil:
		return errors.New("its head is missing")
	case b.head.Format != 1:
		return fmt.Errorf("%w %d, this program reads 1", errBaseFormat, b.head.Format)
	}
	n, sum := 0, sha256.New()
	for i := range b.head.Pieces {
		piece, ok := b.pieces[i]
		if !ok {
			return fmt.Errorf("piece %d of %d is missing", i, b.head.Pieces)
		}
		sum.Write(piece)
		n += len(piece)
	}
	if n != b.head.Bytes || hex.EncodeToString(sum.Sum(nil)) != b.head.Hash {
		return errors.New("its bytes do not have the hash that its head says")
	}
	return nil
}

// data returns the bytes of a complete snapshot.
func (b *snapshotRecords) data() ([]byte, error) {
	if err := b.sound(); err != nil {
		return nil, err
	}
	data := make([]byte, 0, b.head.Bytes)
	for i := range b.head.Pieces {
		data = append(data, b.pieces[i]...)
	}
	return data, nil
}

// read returns the snapshots in the topic, by offset. foreign describes the first record that does not belong to a
// snapshot; it is nil if no such record exists. Such records are logged and skipped.
func (t *SnapshotTopic) read(ctx context.Context) (found map[int64]*snapshotRecords, foreign error, err error) {
	config := DefaultConsumerConfig()
	config.ConnectConfig, config.Topics, config.Partitions, config.Log = t.config.ConnectConfig, []string{t.config.Topic}, []int32{0}, t.config.Log
	config.UntilEnd, config.OutOfRange = true, "earliest" // compaction may move the start of the log beyond our position
	r, err := NewReader(ctx, config, nil)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	found = map[int64]*snapshotRecords{}
	records := 0
	none := func(offset int64, err error) {
		if records++; foreign == nil {
			foreign = fmt.Errorf("topic %s offset %d: %w", t.config.Topic, offset, err)
		}
	}
	for {
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		for i := range b.Records {
			if err := addSnapshot(found, &b.Records[i]); err != nil {
				none(b.Records[i].Offset, err)
			}
		}
		for _, e := range b.Refused {
			none(e.Offset, errors.New(e.Refused.Detail))
		}
	}
	if foreign != nil {
		t.producer.cluster.log.Warn("records that are not snapshots are skipped", "records", records, "first", foreign)
	}
	return found, foreign, nil
}

// addSnapshot adds a record to its snapshot. If the header of a snapshot is invalid, the snapshot is stored without a
// header.
func addSnapshot(found map[int64]*snapshotRecords, r *record.Record) error {
	parts := strings.Split(string(r.Key), "/")
	isBase, offset, number := len(parts) == 2 || len(parts) == 3, int64(0), -1
	if isBase = isBase && parts[0] == "snapshot"; isBase {
		var err, err2 error
		offset, err = strconv.ParseInt(parts[1], 10, 64)
		if len(parts) == 3 {
			number, err2 = strconv.Atoi(parts[2])
		}
		isBase = err == nil && err2 == nil && (len(parts) == 2 || number >= 0)
	}
	if !isBase {
		return fmt.Errorf("a record with key %.40q is not a snapshot: give the group's snapshots their own topic", r.Key)
	}
	b := found[offset]
	if b == nil {
		b = &snapshotRecords{pieces: map[int][]byte{}}
		found[offset] = b
	}
	b.offset = r.Offset
	var err error
	switch {
	case number >= 0:
		if delete(b.pieces, number); r.Value != nil {
			b.pieces[number] = slices.Clone(r.Value)
		}
	case r.Value == nil:
		b.head = nil
	default:
		b.head = &snapshotHead{}
		if err = json.Unmarshal(r.Value, b.head); err != nil {
			b.head, err = nil, fmt.Errorf("the head of snapshot %d: %w", offset, err)
		}
	}
	if b.head == nil && len(b.pieces) == 0 {
		delete(found, offset)
	}
	return err
}

// Newest returns the newest complete snapshot that sound accepts, or nil if the topic is empty. If sound is nil, every
// complete snapshot is accepted. Skipped snapshots are logged.
func (t *SnapshotTopic) Newest(ctx context.Context, sound func(*GroupSnapshot) error) (*GroupSnapshot, error) {
	found, foreign, err := t.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the snapshots: %w", err)
	}
	for _, offset := range slices.Backward(slices.Sorted(maps.Keys(found))) {
		base := &GroupSnapshot{Offset: offset}
		if base.Data, err = found[offset].data(); err == nil && sound != nil {
			if err = sound(base); err != nil {
				foreign = fmt.Errorf("topic %s offset %d: snapshot %d: %w", t.config.Topic, found[offset].offset, offset, err)
			}
		}
		if err == nil {
			return base, nil
		}
		if errors.Is(err, errBaseFormat) {
			return nil, fmt.Errorf("reading the snapshots: topic %s: snapshot %d: %w", t.config.Topic, offset, err)
		}
		t.producer.cluster.log.Warn("a snapshot is skipped", "topic", t.config.Topic, "snapshot", offset, "offset", found[offset].offset, "err", err)
	}
	if foreign != nil {
		return nil, fmt.Errorf("reading the snapshots: %w", foreign)
	}
	return nil, nil
}

// All returns all complete snapshots, sorted by offset.
func (t *SnapshotTopic) All(ctx context.Context) ([]GroupSnapshot, error) {
	found, _, err := t.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the snapshots: %w", err)
	}
	var all []GroupSnapshot
	for _, offset := range slices.Sorted(maps.Keys(found)) {
		if data, err := found[offset].data(); err == nil {
			all = append(all, GroupSnapshot{offset, data})
		}
	}
	return all, nil
}

// Write writes a snapshot, reads it back, and deletes all earlier snapshots except the newest of them. It returns the
// offset of that earlier snapshot, or 0 if no earlier snapshot exists. Commits before that offset may be trimmed. If
// Write returns an error, the newest snapshot in the topic is either the previous snapshot or the snapshot b.
func (t *SnapshotTopic) Write(ctx context.Context, b *GroupSnapshot) (before int64, err error) {
	fail := func(err error) (int64, error) { return 0, fmt.Errorf("writing snapshot %d: %w", b.Offset, err) }
	sum := sha256.Sum256(b.Data)
	head := snapshotHead{Format: 1, Bytes: len(b.Data), Hash: hex.EncodeToString(sum[:])}
	for piece := range slices.Chunk(b.Data, maxSnapshotPiece) {
		if err := t.producer.WriteTo(ctx, 0, Message{Key: []byte(pieceKey(b.Offset, head.Pieces)), Value: piece}); err != nil {
			return fail(err)
		}
		head.Pieces++
	}
	value, err := json.Marshal(head)
	if err != nil {
		return fail(err)
	}
	if err := t.producer.Flush(ctx); err != nil {
		return fail(err)
	}
	if _, err := t.producer.Append(ctx, 0, Message{Key: []byte(snapshotKey(b.Offset)), Value: value}); err != nil {
		return fail(err)
	}
	found, _, err := t.read(ctx)
	if err != nil {
		return fail(err)
	}
	written := found[b.Offset]
	if written == nil {
		return fail(errors.New("read again, it is not there"))
	}
	if err := written.sound(); err != nil {
		return fail(fmt.Errorf("read again, %w", err))
	} else if written.head.Hash != head.Hash || written.head.Bytes != head.Bytes {
		return fail(errors.New("read again, it is another one"))
	}
	offsets := slices.Sorted(maps.Keys(found))
	for _, offset := range slices.Backward(offsets) {
		if offset >= b.Offset {
			continue
		}
		if before == 0 && found[offset].sound() == nil {
			before = offset
			continue
		}
		if err := t.remove(ctx, offset, found[offset]); err != nil {
			return fail(err)
		}
	}
	if err := t.producer.Flush(ctx); err != nil {
		return fail(err)
	}
	return before, nil
}

// remove deletes a snapshot. It deletes the header first, so that no reader accepts the remaining records as a
// snapshot.
func (t *SnapshotTopic) remove(ctx context.Context, offset int64, b *snapshotRecords) error {
	if b.head != nil {
		if err := t.producer.WriteTo(ctx, 0, Message{Key: []byte(snapshotKey(offset))}); err != nil {
			return err
		}
	}
	for _, number := range slices.Sorted(maps.Keys(b.pieces)) {
		if err := t.producer.WriteTo(ctx, 0, Message{Key: []byte(pieceKey(offset, number))}); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the connections. Write has already reported all failed writes.
func (t *SnapshotTopic) Close() error {
	_ = t.producer.Close()
	return nil
}
