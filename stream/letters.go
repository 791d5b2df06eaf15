package stream

// This file reads the letters that DeadLetters has stored.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"blankout/internal/event"
	"blankout/stream/record"
)

// Letters reads the letters of a topic, up to its current end, or of a file. It belongs to one goroutine.
type Letters struct {
	reader *Reader
	batch  RawBatch
	next   int // index of the next record in batch

	name  string
	file  io.Closer
	lines *bufio.Scanner
	line  int64
}

// LetterError reports that a record is not a letter. Later letters can still be read.
type LetterError struct {
	Place string // file:line or topic/partition/offset
	Why   string
}

func (e *LetterError) Error() string { return e.Place + ": " + e.Why }

// maxLetterLine is the largest length of a line in a file of letters: value and key in base64, and the rest.
const maxLetterLine = 3 * maxLetterBytes

// OpenLetters opens the letters in a file, standard input or topics. It uses only Where and Kafka of the Input.
func OpenLetters(ctx context.Context, in Input) (*Letters, error) {
	if in.isTopic() {
		c, err := in.consumer()
		if err != nil {
			return nil, err
		}
		c.UntilEnd = true
		reader, err := NewReader(ctx, c, nil)
		if err != nil {
			return nil, err
		}
		return &Letters{reader: reader}, nil
	}
	file := os.Stdin
	l := &Letters{name: SourceName(in.Where)}
	if in.Where != "-" {
		var err error
		if file, err = os.Open(in.Where); err != nil {
			return nil, err
		}
		l.file = file
	}
	l.lines = bufio.NewScanner(file)
	l.lines.Buffer(nil, maxLetterLine)
	return l, nil
}

// Next returns the next letter, or io.EOF after the last letter. A *LetterError concerns one record. Any other error is
// final. The letters of one partition are in order.
func (l *Letters) Next(ctx context.Context) (*Letter, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.reader != nil {
		return l.nextRecord(ctx)
	}
	for l.lines.Scan() {
		l.line++
		if len(l.lines.Bytes()) == 0 {
			continue // the rest of a line that a crash has truncated
		}
		letter := &Letter{}
		if err := json.Unmarshal(l.lines.Bytes(), letter); err != nil {
			return nil, &LetterError{fmt.Sprintf("%s:%d", l.name, l.line), "no letter: " + err.Error()}
		}
		if letter.Topic == "" || letter.Reason == "" {
			return nil, &LetterError{fmt.Sprintf("%s:%d", l.name, l.line), "not a dead letter: it has no topic or no reason"}
		}
		return letter, nil
	}
	if err := l.lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: reading letters: %w", l.name, l.line+1, err)
	}
	return nil, io.EOF
}

func (l *Letters) nextRecord(ctx context.Context) (*Letter, error) {
	for l.next == len(l.batch.Records) {
		if len(l.batch.Refused) > 0 {
			e := &l.batch.Refused[0]
			l.batch.Refused = l.batch.Refused[1:]
			return nil, &LetterError{fmt.Sprintf("%s/%d/%d", l.batch.Topic, l.batch.Partition, e.Offset), e.Refused.Error()}
		}
		var err error
		if l.batch, err = l.reader.Next(ctx); err != nil {
			return nil, err
		}
		l.next = 0
	}
	r := l.batch.Records[l.next]
	l.next++
	letter, err := letterOf(r)
	if err != nil {
		return nil, &LetterError{fmt.Sprintf("%s/%d/%d", l.batch.Topic, l.batch.Partition, r.Offset), "no letter: " + err.Error()}
	}
	return letter, nil
}

// letterOf is the inverse of Letter.message. The letter borrows no memory.
func letterOf(r record.Record) (*Letter, error) {
	headers, err := parseHeaders(r.Headers)
	if err != nil {
		return nil, err
	}
	l := &Letter{Value: bytes.Clone(r.Value)}
	given := map[string]bool{}
	for _, h := range headers {
		given[h.Key] = true
		value := string(h.Value)
		var err error
		switch h.Key {
		case "reason":
			l.Reason = event.Reason(value)
		case "detail":
			l.Detail = value
		case "topic":
			l.Topic = value
		case "partition":
			var n int64
			n, err = strconv.ParseInt(value, 10, 32)
			l.Partition = int32(n)
		case "offset":
			l.Offset, err = strconv.ParseInt(value, 10, 64)
		case "time":
			l.Time, err = strconv.ParseInt(value, 10, 64)
		case "key":
			l.Key = bytes.Clone(h.Value)
		case "truncated":
			l.Truncated, err = strconv.Atoi(value)
		case "truncated_key":
			l.TruncatedKey, err = strconv.Atoi(value)
		}
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", h.Key, err)
		}
	}
	for _, want := range []string{"topic", "partition", "offset", "time", "reason"} {
		if !given[want] {
			return nil, errors.New("no header " + want)
		}
	}
	return l, nil
}

// Partial returns the reason why a letter does not have the whole original record, or "" if it does.
func (l *Letter) Partial() string {
	switch {
	case l.Truncated > 0 || l.TruncatedKey > 0:
		return "it was cut to fit the size limit"
	case strings.HasPrefix(l.Detail, packedBatch):
		return "it is a batch that could not be unpacked"
	case strings.HasSuffix(l.Detail, record.RestSkipped):
		return "it is the start of a line that was too long"
	}
	return ""
}

// Close stops reading.
func (l *Letters) Close() error {
	if l.reader != nil {
		return l.reader.Close()
	}
	if l.file != nil {
		return l.file.Close()
	}
	return nil
}
