package stream

// This file stores refused records in a topic or a file.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"blankout/internal/event"
)

// DeadLetterConfig selects where dead letters are stored: in a topic or in a file.
type DeadLetterConfig struct {
	Topic string `toml:"topic"`
	File  string `toml:"file"`
}

// DeadLetters stores refused records, with their bytes and the reason, so that a person can inspect them and send them
// again. Records are stored at least once: every record added before a Flush that returned nil is stored. A restarted
// process may add later records again. DeadLetters belongs to one goroutine.
//
// In a topic a dead letter has the original value of the record and the key topic/partition/offset. The headers of the
// dead letter are reason, detail, topic, partition, offset, time (ms) and, if the record had a key, key. The timestamp
// of the dead letter is the time of storing, so the topic's retention counts from that time. Batches are compressed
// with gzip, which reduces all headers to about ten bytes. In a file a dead letter is a line
//
//	{"topic":"t","partition":0,"offset":7,"time":1700000000000,"reason":"syntax","detail":"…","key":"…","value":"…"}
//
// with key and value in base64.
//
// A letter that is too large for its topic, or larger than 32 MiB, is cut. The longer of value and key is shortened
// until the letter is accepted. Then the header (in a file, the number) truncated has the original size of the value,
// and truncated_key has the original size of the key.
type DeadLetters struct {
	producer *Producer

	file    *os.File
	name    string
	pending []byte // lines, or the rest of a line, that are not in the file yet
	dirty   bool   // the file has unsynced lines, or was moved or removed
	safe    int64  // size of the file at the latest Flush
	log     *slog.Logger
}

// OpenDeadLetters connects to the topic, which must exist, or opens the file for appending.
func OpenDeadLetters(ctx context.Context, c DeadLetterConfig, connection ConnectConfig, log *slog.Logger) (*DeadLetters, error) {
	if (c.Topic == "") == (c.File == "") {
		return nil, errors.New("dead letters: set either a topic or a file")
	}
	if c.File != "" {
		return openLetterFile(c.File, log)
	}
	config := DefaultProducerConfig()
	config.ConnectConfig, config.Topic, config.Log = connection, c.Topic, log
	config.DeliveryTimeout = connection.RequestTimeout // retries are short, because the caller of Flush reports the error and retries
	// The headers of consecutive letters are similar, so they compress well. Every broker supports gzip.
	config.Compression, config.Shrink = "gzip", shrinkLetter
	p, err := NewProducer(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	return &DeadLetters{producer: p}, nil
}

func openLetterFile(name string, log *slog.Logger) (*DeadLetters, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	d := &DeadLetters{file: f, name: name, log: cmp.Or(log, slog.New(slog.DiscardHandler))}
	// A crash may have left an incomplete line. The next line must not continue it.
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		d.safe = info.Size()
		var last [1]byte
		if _, err := f.ReadAt(last[:], info.Size()-1); err == nil && last[0] != '\n' {
			d.pending = []byte{'\n'}
		}
	}
	return d, nil
}

// Letter is a refused record, with the reason.
type Letter struct {
	Topic        string       `json:"topic"` // name of the topic or file
	Partition    int32        `json:"partition"`
	Offset       int64        `json:"offset"` // offset, or line number in a file, from 0
	Time         int64        `json:"time"`   // time of the record, in milliseconds since the Unix epoch; 0 if unknown
	Reason       event.Reason `json:"reason,omitempty"`
	Detail       string       `json:"detail,omitempty"`
	Truncated    int          `json:"truncated,omitempty"`     // size of Value before it was cut
	TruncatedKey int          `json:"truncated_key,omitempty"` // size of Key before it was cut
	Key          []byte       `json:"key,omitempty"`
	Value        []byte       `json:"value"`
}

// maxLetterBytes is the largest size of the value and of the key of a letter. maxLetterBytes is far below 100 MB, the
// largest request to a broker.
const maxLetterBytes = 32 << 20

// Add adds a refused example of a partition (for a file: its name and 0). If dead letters currently cannot be stored,
// Add returns an error without adding e, and may be called again.
func (d *DeadLetters) Add(ctx context.Context, topic string, partition int32, e *event.Example) error {
	r := e.Refused
	if r == nil {
		panic("stream: a dead letter that was not refused")
	}
	return d.add(ctx, &Letter{Topic: topic, Partition: partition, Offset: e.Offset, Time: e.Time, Reason: r.Reason, Detail: r.Detail, Key: e.Key, Value: r.Value})
}

func (d *DeadLetters) add(ctx context.Context, l *Letter) error {
	if n := len(l.Value); n > maxLetterBytes {
		l.Value, l.Truncated = l.Value[:maxLetterBytes], n
	}
	if n := len(l.Key); n > maxLetterBytes {
		l.Key, l.TruncatedKey = l.Key[:maxLetterBytes], n
	}
	if d.producer != nil {
		return letterError(d.producer.Write(ctx, l.message()))
	}
	if len(d.pending) > 1<<20 {
		if err := d.write(); err != nil {
			return err
		}
	}
	line, err := json.Marshal(l)
	if err == nil {
		d.pending = append(append(d.pending, line...), '\n')
	}
	return letterError(err)
}

// letterError adds the operation to an error.
func letterError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("dead letters: %w", err)
}

// message returns the letter as a message for a topic.
func (l *Letter) message() Message {
	m := Message{Key: fmt.Appendf(nil, "%s/%d/%d", l.Topic, l.Partition, l.Offset), Value: l.Value}
	header := func(key string, value []byte) { m.Headers = append(m.Headers, Header{Key: key, Value: value}) }
	header("reason", []byte(l.Reason))
	header("detail", []byte(l.Detail))
	header("topic", []byte(l.Topic))
	header("partition", strconv.AppendInt(nil, int64(l.Partition), 10))
	header("offset", strconv.AppendInt(nil, l.Offset, 10))
	header("time", strconv.AppendInt(nil, l.Time, 10))
	if l.Key != nil {
		header("key", l.Key)
	}
	if l.Truncated > 0 {
		header("truncated", strconv.AppendInt(nil, int64(l.Truncated), 10))
	}
	if l.TruncatedKey > 0 {
		header("truncated_key", strconv.AppendInt(nil, int64(l.TruncatedKey), 10))
	}
	return m
}

// shrinkLetter halves the value of a letter in a topic, or the header key if that is longer. It adds a header with the
// original size.
func shrinkLetter(m *Message) bool {
	cut, name := &m.Value, "truncated"
	for i := range m.Headers {
		if h := &m.Headers[i]; h.Key == "key" && len(h.Value) > len(m.Value) {
			cut, name = &h.Value, "truncated_key"
		}
	}
	if len(*cut) == 0 {
		return false
	}
	was := len(*cut)
	*cut = (*cut)[:was/2]
	if !slices.ContainsFunc(m.Headers, func(h Header) bool { return h.Key == name }) {
		m.Headers = append(m.Headers, Header{Key: name, Value: strconv.AppendInt(nil, int64(was), 10)})
	}
	return true
}

// write writes the pending lines. If write fails, the next call continues with the rest.
func (d *DeadLetters) write() error {
	n, err := d.file.Write(d.pending)
	d.dirty = d.dirty || n > 0
	d.pending = append(d.pending[:0], d.pending[n:]...)
	return letterError(err)
}

// Flush returns nil once all added records are stored: acknowledged by the brokers, or synced to disk.
func (d *DeadLetters) Flush(ctx context.Context) error {
	if d.producer != nil {
		return letterError(d.producer.Flush(ctx))
	}
	if len(d.pending) > 0 {
		if err := d.write(); err != nil {
			return err
		}
	}
	for d.dirty {
		if err := d.file.Sync(); err != nil {
			return letterError(err)
		}
		there, err := d.inPlace()
		if err == nil && !there {
			err = d.again()
		}
		if err != nil {
			return letterError(err)
		}
		d.dirty = !there
	}
	return nil
}

// inPlace reports whether the path still refers to the open file. The file or its directory may have been removed or
// renamed.
func (d *DeadLetters) inPlace() (bool, error) {
	info, err := d.file.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(d.name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, now) {
		return false, nil
	}
	if err == nil {
		d.safe = info.Size()
	}
	return err == nil, err
}

// again recreates the file and its directory, and writes the lines that no Flush has stored yet. If it fails, it may be
// called again.
func (d *DeadLetters) again() error {
	lost, err := io.ReadAll(io.NewSectionReader(d.file, d.safe, math.MaxInt64-d.safe))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(d.name), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(d.name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(lost); err != nil {
		return errors.Join(err, f.Close())
	}
	d.log.Warn("dead letters: the file was removed or renamed while in use; it is created again with the letters not stored yet", "file", d.name, "bytes", len(lost))
	old := d.file
	d.file, d.safe = f, 0
	return old.Close()
}

// Close closes the file or the connections. It returns an error if records were not flushed; they are lost.
func (d *DeadLetters) Close() error {
	if d.producer != nil {
		return d.producer.Close()
	}
	err := d.file.Close()
	if len(d.pending) > 0 {
		err = errors.Join(errors.New("dead letters: some were not written"), err)
	}
	return err
}
