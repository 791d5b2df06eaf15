package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"blankout"
)

// DeadLetterConfig says where refused records go: to a topic or to a file.
type DeadLetterConfig struct {
	Topic string `toml:"topic"`
	File  string `toml:"file"`
}

// DeadLetters keeps refused records, with their bytes and the reason, for a
// person to look at and to send again. It delivers at least once: what was
// added before a Flush that returned nil is stored; what was added after it may
// be added again by a restarted program. It belongs to one goroutine.
//
// In a topic a dead letter is the record's value as it came, keyed
// topic/partition/offset, with the headers reason, detail, topic, partition,
// offset, time (ms) and, if the record had one, key. Its own timestamp is the
// present, so that a retention time counts from here. In a file it is a line
//
//	{"topic":"t","partition":0,"offset":7,"time":1700000000000,"reason":"syntax","detail":"…","key":"…","value":"…"}
//
// with key and value in base64.
type DeadLetters struct {
	producer *Producer

	file    *os.File
	pending []byte // lines, or what is left of one, that are not in the file yet
	dirty   bool   // the file holds lines that are not synced
}

// OpenDeadLetters connects to the topic, which must exist, or opens the file,
// to which it appends.
func OpenDeadLetters(ctx context.Context, c DeadLetterConfig, connection ConnectConfig, log *slog.Logger) (*DeadLetters, error) {
	if (c.Topic == "") == (c.File == "") {
		return nil, errors.New("dead letters: give either a topic or a file")
	}
	if c.File != "" {
		return openDeadLetterFile(c.File)
	}
	config := DefaultProducerConfig()
	config.ConnectConfig, config.Topic, config.Log = connection, c.Topic, log
	p, err := NewProducer(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	return &DeadLetters{producer: p}, nil
}

func openDeadLetterFile(name string) (*DeadLetters, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	d := &DeadLetters{file: f}
	// A crash may have left half a line; what follows must not be joined to it.
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], info.Size()-1); err == nil && last[0] != '\n' {
			d.pending = []byte{'\n'}
		}
	}
	return d, nil
}

type deadLetter struct {
	Topic     string          `json:"topic"`
	Partition int32           `json:"partition"`
	Offset    int64           `json:"offset"`
	Time      int64           `json:"time"`
	Reason    blankout.Reason `json:"reason"`
	Detail    string          `json:"detail"`
	Key       []byte          `json:"key,omitempty"`
	Value     []byte          `json:"value"`
}

// Add takes up a refused example of a partition (or of a file: its name and 0).
// An error says that the dead letters cannot be stored for now; e was then not
// taken, and Add may be tried again.
func (d *DeadLetters) Add(ctx context.Context, topic string, partition int32, e *blankout.Example) error {
	r := e.Refused
	if r == nil {
		panic("stream: a dead letter that was not refused")
	}
	if d.producer != nil {
		m := Message{Key: fmt.Appendf(nil, "%s/%d/%d", topic, partition, e.Offset), Value: r.Value, Headers: []Header{
			{"reason", []byte(r.Reason)},
			{"detail", []byte(r.Detail)},
			{"topic", []byte(topic)},
			{"partition", strconv.AppendInt(nil, int64(partition), 10)},
			{"offset", strconv.AppendInt(nil, e.Offset, 10)},
			{"time", strconv.AppendInt(nil, e.Time, 10)},
		}}
		if e.Key != nil {
			m.Headers = append(m.Headers, Header{"key", e.Key})
		}
		if err := d.producer.Write(ctx, m); err != nil {
			return fmt.Errorf("dead letters: %w", err)
		}
		return nil
	}
	if len(d.pending) > 1<<20 {
		if err := d.write(); err != nil {
			return err
		}
	}
	line, err := json.Marshal(deadLetter{topic, partition, e.Offset, e.Time, r.Reason, r.Detail, e.Key, r.Value})
	if err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	d.pending = append(append(d.pending, line...), '\n')
	return nil
}

// write writes the pending lines; what an error leaves is written by the next call.
func (d *DeadLetters) write() error {
	n, err := d.file.Write(d.pending)
	d.dirty = d.dirty || n > 0
	d.pending = append(d.pending[:0], d.pending[n:]...)
	if err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	return nil
}

// Flush returns nil when everything added is stored: acknowledged by the
// topic's brokers, or synced to disk.
func (d *DeadLetters) Flush(ctx context.Context) error {
	if d.producer != nil {
		if err := d.producer.Flush(ctx); err != nil {
			return fmt.Errorf("dead letters: %w", err)
		}
		return nil
	}
	if len(d.pending) > 0 {
		if err := d.write(); err != nil {
			return err
		}
	}
	if d.dirty {
		if err := d.file.Sync(); err != nil {
			return fmt.Errorf("dead letters: %w", err)
		}
		d.dirty = false
	}
	return nil
}

// Close frees the file or the connections. What was not flushed is lost; then
// it returns an error.
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
