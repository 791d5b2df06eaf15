package inbox

// This file accepts the events of requests into a Log or a topic.

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
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
	// Repeated is the number of events that were already accepted earlier, and Again reports that all were.
	Repeated int  `json:"repeated,omitempty"`
	Again    bool `json:"again,omitempty"`
}

// RefusedError reports which event of a request is invalid. No event of the request was accepted.
type RefusedError struct {
	Event int // index in the request, from 0
	event.Refusal
}

func (e *RefusedError) Error() string { return fmt.Sprintf("event %d: %s", e.Event, e.Refusal.Error()) }

// checker checks events, or labels of events, before they are accepted.
type checker struct {
	labels bool

	mu      sync.Mutex
	config  record.Config
	schema  *event.Schema
	decoder record.Decoder
	example event.Example
}

func newChecker(c record.Config, s *event.Schema, labels bool) (*checker, error) {
	c.Format = cmp.Or(c.Format, "json")
	decoder, err := record.NewDecoder(c, s)
	return &checker{labels: labels, config: c, schema: s, decoder: decoder}, err
}

// rows returns the events of a request without a header of CSV.
func (k *checker) rows(events [][]byte) ([][]byte, error) {
	if k.labels || k.config.Format != "csv" {
		return events, nil
	}
	rows, err := k.config.Rows(events)
	if err == nil && len(rows) == 0 {
		err = errors.New("a header without events")
	}
	if err != nil {
		return nil, &RefusedError{0, event.Refusal{Reason: event.ReasonSyntax, Detail: err.Error()}}
	}
	return rows, nil
}

// check returns the events of a request without a header of CSV, or a RefusedError for the first invalid event. It
// returns requestKey as the only key, or the IDs of the events if requestKey is empty. undo removes the classes and
// fields of the events from the Schema, because the events are not stored.
func (k *checker) check(ctx context.Context, requestKey string, events [][]byte) (rows [][]byte, keys []string, undo func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if rows, err = k.rows(events); err != nil {
		return nil, nil, nil, err
	}
	before, e := k.schema.View(), &k.example
	for i, value := range rows {
		if err = k.decoder.Decode(ctx, record.Record{Value: value}, e); err != nil {
			break
		}
		if refused := k.refusal(e); refused != nil {
			err = &RefusedError{i, event.Refusal{Reason: refused.Reason, Detail: refused.Detail}}
			break
		}
		id := ""
		if len(e.Key) > 0 {
			id = "id " + string(e.Key)
		}
		keys = append(keys, id)
	}
	after := k.schema.View()
	undo = func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.schema.View() == after { // else a later request has added to the Schema
			k.restore(before)
		}
	}
	switch {
	case err != nil:
		k.restore(before)
	case requestKey != "":
		keys = []string{"key " + requestKey}
	case k.labels || k.config.ID == "":
		keys = nil
	}
	return rows, keys, undo, err
}

// accept checks the events of a request and stores them. A ReusedError names the key of the request, if it has one.
func (k *checker) accept(ctx context.Context, key string, events [][]byte, store func(context.Context, []string, [][]byte) (Stored, error)) (a Accepted, stored Stored, err error) {
	events, keys, undo, err := k.check(ctx, key, events)
	if err != nil {
		return a, stored, err
	}
	if stored, err = store(ctx, keys, events); err == nil {
		return Accepted{Events: len(events), Repeated: stored.Repeated, Again: stored.Repeated == len(events)}, stored, nil
	}
	undo()
	if e, ok := errors.AsType[*ReusedError](err); ok && key != "" {
		e.Event = -1
	}
	return a, stored, err
}

// refusal returns the reason why an event or label cannot be accepted.
func (k *checker) refusal(e *event.Example) *event.Refusal {
	switch {
	case e.Refused != nil || !k.labels:
		return e.Refused
	case len(e.Key) == 0:
		return &event.Refusal{Reason: event.ReasonLabel, Detail: "it has no ID: set labels.id or record.id to the field that names the event"}
	case e.Label == event.Unlabeled:
		return &event.Refusal{Reason: event.ReasonLabel, Detail: fmt.Sprintf("it has no label in the field %q", k.config.Label)}
	}
	return nil
}

// restore resets the Schema to a View.
func (k *checker) restore(before *event.Schema) {
	if k.schema.View() == before {
		return
	}
	schema := before.Clone()
	if decoder, err := record.NewDecoder(k.config, schema); err == nil { // the Decoder remembers classes and fields
		k.schema, k.decoder = schema, decoder
	}
}

// LogAcceptor accepts events into a Log.
type LogAcceptor struct {
	log   *Log
	check *checker
}

// NewLogAcceptor returns a LogAcceptor for a Log, with events in the format of c. The LogAcceptor extends the Schema,
// which nothing else may use.
func NewLogAcceptor(l *Log, c record.Config, s *event.Schema) (*LogAcceptor, error) {
	k, err := newChecker(c, s, false)
	return &LogAcceptor{l, k}, err
}

// Accept accepts all events of a request or none, and returns once the events are on disk. Events of a repeated request
// are accepted once. Two requests are the same if they have the same key. Without a key, two events are the same if they
// have the same ID. The error is a *RefusedError for an invalid event, a *ReusedError for a key of other events, and
// ErrBehind or ErrDiskFull if there is no space.
func (n *LogAcceptor) Accept(ctx context.Context, key string, events [][]byte, labels bool) (a Accepted, err error) {
	if labels {
		return a, errors.ErrUnsupported
	}
	a, stored, err := n.check.accept(ctx, key, events, n.log.Append)
	if err == nil {
		a.First = &stored.First
	}
	return a, err
}

// TopicAcceptor sends events to one topic, and labels to another.
type TopicAcceptor struct {
	mu   sync.Mutex
	open func(ctx context.Context, topic string) (*stream.Producer, error)
	to   [2]topic // events and labels
}

// topic is a topic with its Producer.
type topic struct {
	name     string
	check    *checker
	producer *stream.Producer // nil before the first event
	keys     keys             // keys of the latest records
	next     int              // partition of the next request
}

// NewTopicAcceptor returns the TopicAcceptor for two topics, with events in the format of c and labels in the format of
// later. It opens the Producer of a topic at the first event. labels may be "". The Schemas are as for NewLogAcceptor.
func NewTopicAcceptor(c, later record.Config, schema func() *event.Schema, events, labels string, open func(ctx context.Context, topic string) (*stream.Producer, error)) (*TopicAcceptor, error) {
	k, err := newChecker(c, schema(), false)
	if err != nil {
		return nil, err
	}
	n := &TopicAcceptor{open: open, to: [2]topic{{name: events, check: k}, {name: labels}}}
	if labels != "" {
		n.to[1].check, err = newChecker(later, schema(), true)
	}
	return n, err
}

// Accept sends the events or labels of a request to one partition, and returns once all in-sync replicas have them.
// Repeated events are recognized as by LogAcceptor, if their key is among the latest records of the topic.
func (n *TopicAcceptor) Accept(ctx context.Context, key string, events [][]byte, labels bool) (a Accepted, err error) {
	to := &n.to[0]
	if labels {
		to = &n.to[1]
	}
	if to.name == "" {
		return a, errors.ErrUnsupported
	}
	a, stored, err := to.check.accept(ctx, key, events, func(ctx context.Context, keys []string, events [][]byte) (Stored, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.send(ctx, to, keys, events)
	})
	if err == nil {
		a.Topic, a.Partition, a.Offset = to.name, &stored.partition, &stored.First
	}
	return a, err
}

// send sends the events that are not stored yet.
func (n *TopicAcceptor) send(ctx context.Context, to *topic, keys []string, events [][]byte) (stored Stored, err error) {
	if to.producer == nil {
		producer, err := n.open(ctx, to.name)
		if err != nil {
			return stored, err
		}
		if err := to.recall(ctx, producer); err != nil {
			return stored, errors.Join(err, producer.Close())
		}
		to.producer = producer
	}
	f := decodeFrame(encodeFrame(hashes(keys), events, 0))
	fresh, stored, err := to.keys.fresh(&f, nil)
	if err != nil || len(fresh) == 0 {
		return stored, err
	}
	if len(fresh) < f.events {
		f = decodeFrame(f.only(fresh))
	}
	messages := make([]stream.Message, f.events)
	f.each(func(i int, data []byte) { messages[i].Value = data[4:] })
	for _, e := range f.entries() {
		for i := range e.events {
			if e.key != (key{}) && (i == 0 || i == e.events-1) { // the last record shows that all are stored
				messages[e.index+i].Headers = []stream.Header{{Key: keyHeader, Value: e.header(i)}}
			}
		}
	}
	partitions := to.producer.Partitions()
	stored.partition = partitions[to.next%len(partitions)]
	to.next++
	if f.first, err = to.producer.AppendAll(ctx, stored.partition, messages); err != nil {
		return stored, err
	}
	to.keys.remember(&f, stored.partition)
	stored.First = f.first
	return stored, nil
}

// keyHeader is the name of the record header with the key of a request or event.
const keyHeader = "blankout-key"

// header returns the value of the header of event i of the events of a key.
func (e *entry) header(i int) []byte {
	be := binary.BigEndian
	return be.AppendUint32(be.AppendUint32(be.AppendUint64(e.key[:], e.body), uint32(e.events)), uint32(i))
}

// recall reads the keys of the latest records of the topic.
func (t *topic) recall(ctx context.Context, p *stream.Producer) error {
	type found struct {
		key  key
		time int64
		placed
	}
	var all []found
	first := map[key]int64{} // offsets of the first events of keys
	err := p.Tail(ctx, maxKeys, keyHeader, func(partition int32, offset, time int64, value []byte) {
		be := binary.BigEndian
		if len(value) != keyBytes+16 {
			return
		}
		k, body, events, i := key(value), be.Uint64(value[16:]), int(be.Uint32(value[24:])), int(be.Uint32(value[28:]))
		if i == 0 {
			first[k] = offset
		}
		if at, ok := first[k]; i == events-1 {
			if !ok {
				at = offset - int64(i)
			}
			all = append(all, found{k, time, placed{at, partition, events, body}})
		}
	})
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(a.time, b.time) })
	for _, x := range all {
		t.keys.add(x.key, x.placed)
	}
	return err
}

// Close closes the producers.
func (n *TopicAcceptor) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var err error
	for _, t := range n.to {
		if t.producer != nil {
			err = errors.Join(err, t.producer.Close())
		}
	}
	return err
}
