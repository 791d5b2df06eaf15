package inbox

// This file accepts the events of requests into a Log or a topic.

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"blankout/internal/event"
	"blankout/stream"
	"blankout/stream/record"
)

// Accepted reports where the events of a request are stored.
type Accepted struct {
	Events int `json:"events"`
	// First is the number of the first event in a Log.
	First *int64 `json:"first,omitempty"`
	// Topic, Partition and Offset are the position of the first event in a topic. Offset is -1 if the broker did not
	// report it.
	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	Offset    *int64 `json:"offset,omitempty"`
	// Again reports that the request was already accepted earlier.
	Again bool `json:"again,omitempty"`
}

// RefusedError reports which event of a request is invalid. No event of the request was accepted.
type RefusedError struct {
	Event int // index in the request, from 0
	event.Refusal
}

func (e *RefusedError) Error() string { return fmt.Sprintf("event %d: %s", e.Event, e.Refusal.Error()) }

// checker checks events before they are accepted.
type checker struct {
	mu      sync.Mutex
	config  record.Config
	decoder record.Decoder
	byID    bool // whether events have IDs
	example event.Example
}

func newChecker(c record.Config, s *event.Schema) (*checker, error) {
	if c.Format == "" {
		c.Format = "json"
	}
	decoder, err := record.NewDecoder(c, s)
	return &checker{config: c, decoder: decoder, byID: c.ID != ""}, err
}

// rows returns the events of a request without a header of CSV.
func (k *checker) rows(events [][]byte) ([][]byte, error) {
	if k.config.Format != "csv" {
		return events, nil
	}
	rows := k.config.Rows(events)
	if len(rows) == 0 {
		return nil, &RefusedError{0, event.Refusal{Reason: event.ReasonSyntax, Detail: "a header without events"}}
	}
	return rows, nil
}

// check returns a RefusedError for the first invalid event. For events with IDs it also returns a key derived from the
// IDs.
func (k *checker) check(ctx context.Context, events [][]byte) (key string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, byID := &k.example, k.byID
	for i, value := range events {
		if err := k.decoder.Decode(ctx, record.Record{Value: value}, e); err != nil {
			return "", err
		}
		if e.Refused != nil {
			return "", &RefusedError{i, event.Refusal{Reason: e.Refused.Reason, Detail: e.Refused.Detail}}
		}
		if byID = byID && len(e.Key) > 0; byID {
			key += fmt.Sprintf("%d:%s,", len(e.Key), e.Key)
		}
	}
	if !byID {
		return "", nil
	}
	return "ids " + key, nil
}

// LogAcceptor accepts events into a Log.
type LogAcceptor struct {
	log   *Log
	check *checker
}

// NewLogAcceptor returns a LogAcceptor for a Log, with events in the format of c. The LogAcceptor extends the Schema,
// which nothing else may use.
func NewLogAcceptor(l *Log, c record.Config, s *event.Schema) (*LogAcceptor, error) {
	k, err := newChecker(c, s)
	return &LogAcceptor{l, k}, err
}

// Accept accepts all events of a request or none, and returns once the events are on disk. A repeated request is
// accepted once. Two requests are the same if they have the same key, or no key but the same IDs. The error is a
// *RefusedError for an invalid event, and ErrBehind or ErrDiskFull if there is no space.
func (n *LogAcceptor) Accept(ctx context.Context, key string, events [][]byte, labels bool) (a Accepted, err error) {
	if labels {
		return a, errors.ErrUnsupported
	}
	if events, err = n.check.rows(events); err != nil {
		return a, err
	}
	ids, err := n.check.check(ctx, events)
	if err != nil {
		return a, err
	}
	if key == "" {
		key = ids
	}
	first, again, err := n.log.Append(ctx, key, events)
	return Accepted{Events: len(events), First: &first, Again: again}, err
}

// TopicAcceptor sends events to one topic, and labels to another.
type TopicAcceptor struct {
	check *checker

	mu     sync.Mutex
	open   func(ctx context.Context, topic string) (*stream.Producer, error)
	topics [2]string // topics of events and of labels
	to     [2]*topic
	seed   maphash.Seed
	taken  map[uint64]Accepted // accepted requests of this process, by key
	order  []uint64
}

// topic is a topic with its Producer.
type topic struct {
	*stream.Producer
	next int // partition of the next request
}

// NewTopicAcceptor returns the TopicAcceptor for two topics, with events in the format of c. It opens the Producer of a
// topic at the first event. labels may be "". The Schema is as for NewLogAcceptor.
func NewTopicAcceptor(c record.Config, s *event.Schema, events, labels string, open func(ctx context.Context, topic string) (*stream.Producer, error)) (*TopicAcceptor, error) {
	k, err := newChecker(c, s)
	return &TopicAcceptor{check: k, open: open, topics: [2]string{events, labels}, seed: maphash.MakeSeed(), taken: map[uint64]Accepted{}}, err
}

// Accept sends the events or labels of a request to one partition, and returns once all in-sync replicas have them. A
// request whose key this process has already accepted is not sent again.
func (n *TopicAcceptor) Accept(ctx context.Context, key string, events [][]byte, labels bool) (a Accepted, err error) {
	of, ids := 0, ""
	if labels {
		of = 1
	} else {
		if events, err = n.check.rows(events); err == nil {
			ids, err = n.check.check(ctx, events)
		}
		if err != nil {
			return a, err
		}
	}
	if n.topics[of] == "" {
		return a, errors.ErrUnsupported
	}
	if key == "" {
		key = ids
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	hash := maphash.String(n.seed, key)
	if was, known := n.taken[hash]; known && key != "" {
		was.Again = true
		return was, nil
	}
	if n.to[of] == nil {
		producer, err := n.open(ctx, n.topics[of])
		if err != nil {
			return a, err
		}
		n.to[of] = &topic{Producer: producer}
	}
	to := n.to[of]
	partitions := to.Partitions()
	partition := partitions[to.next%len(partitions)]
	to.next++
	messages := make([]stream.Message, len(events))
	for i, value := range events {
		messages[i].Value = value
	}
	offset, err := to.AppendAll(ctx, partition, messages)
	if err != nil {
		return a, err
	}
	a = Accepted{Events: len(events), Topic: n.topics[of], Partition: &partition, Offset: &offset}
	if key != "" {
		n.taken[hash] = a
		if n.order = append(n.order, hash); len(n.order) > maxKeys {
			delete(n.taken, n.order[0])
			n.order = n.order[1:]
		}
	}
	return a, nil
}

// Close closes the producers.
func (n *TopicAcceptor) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.to {
		if t != nil {
			t.Close()
		}
	}
	return nil
}
