package stream

// This file opens every kind of event source: a file, standard input, a range of a topic, or the topics of a
// configuration.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"blankout/internal/event"
	"blankout/stream/record"
)

// Input describes where events are and how to read them.
type Input struct {
	// Where is a file (see OpenFile), - for standard input, or
	// kafka://HOST:PORT/TOPIC?partitions=0,1&from=OFFSET&to=OFFSET, which is read to its current end. "" means the
	// topics of Kafka.
	Where  string
	Record record.Config
	// Format is the format of events if neither Record nor the file name specifies one. If Format is "" too, the
	// records of a topic are JSON.
	Format string
	// Defer, if not nil, builds the decoder. It receives a function that builds the usual decoder for a Schema. Defer
	// is for callers that decode the records later.
	Defer func(of func(*event.Schema) (record.Decoder, error)) (record.Decoder, error)
	// Kafka configures how topics are read. For an address in Where, it has all settings except the broker, the topic
	// and the range.
	Kafka ConsumerConfig
}

// Opened is an open Source: a File or a Consumer.
type Opened interface {
	event.Source
	Close() error
}

// AddressError reports that the address of a topic is invalid, with the reason.
type AddressError struct{ Address, Why string }

func (e *AddressError) Error() string {
	return fmt.Sprintf("%s: %s (want kafka://HOST:PORT/TOPIC?partitions=0,1&from=OFFSET&to=OFFSET)", event.Address(e.Address), e.Why)
}

// Open opens the events at the Positions of from, or at the beginning if from is nil. Standard input always continues
// with its next bytes. Open waits for the first bytes of standard input until ctx ends. Decoding extends s.
func (in Input) Open(ctx context.Context, s *event.Schema, from event.Offsets) (Opened, error) {
	if !in.isTopic() {
		if record.FormatOf(in.Where) == "" {
			in.Record.Format = cmp.Or(in.Record.Format, in.Format)
		}
		file, err := OpenFileContext(ctx, in.Where, in.Record, s)
		if err != nil {
			return nil, err
		}
		if in.Defer != nil {
			file.decoder, err = in.Defer(file.scanner.Decoder)
		}
		if err == nil && in.Where != "-" {
			err = file.Resume(from)
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return file, nil
	}
	kafka, err := in.consumer()
	if err != nil {
		return nil, err
	}
	in.Record.Format = cmp.Or(in.Record.Format, in.Format, "json")
	of := func(s *event.Schema) (record.Decoder, error) { return record.NewDecoder(in.Record, s) }
	decoder, err := of(s)
	if in.Defer != nil && err == nil {
		decoder, err = in.Defer(of)
	}
	if err != nil {
		return nil, err
	}
	consumer, err := NewConsumer(ctx, kafka, decoder, s, from)
	if err != nil {
		return nil, err
	}
	return consumer, nil
}

// Partition is an Input of one partition or of a file.
type Partition struct {
	Input
	Topic  string // name of the topic or file
	Number int32
}

// Partitions returns an Input for each current partition of the topics, sorted by topic and partition. For a file it
// returns one Input. It creates topics if Kafka allows it.
func (in Input) Partitions(ctx context.Context) ([]Partition, error) {
	if !in.isTopic() {
		return []Partition{{in, SourceName(in.Where), 0}}, nil
	}
	c, err := in.consumer()
	if err != nil {
		return nil, err
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	k, err := connect(ctx, c.ConnectConfig, c.allTopics(), c.Log)
	if err != nil {
		return nil, err
	}
	defer k.close()
	return in.partitions(ctx, c, k)
}

// Watch calls found with the result of Partitions every metadata_interval until ctx ends. It creates no topics. While
// brokers do not respond, Watch waits without an error, because the readers of the partitions get and report the same
// error.
func (in Input) Watch(ctx context.Context, found func([]Partition)) {
	c, err := in.consumer()
	if err != nil || !in.isTopic() {
		return
	}
	c.CreateTopics = false
	tick := time.Tick(c.MetadataInterval)
	var k *cluster
	defer func() {
		if k != nil {
			k.close()
		}
	}()
	for {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
		if k == nil {
			if k, err = connect(ctx, c.ConnectConfig, c.allTopics(), nil); err != nil {
				k = nil
				continue
			}
		}
		asking, cancel := context.WithTimeout(ctx, c.RequestTimeout)
		all, err := in.partitions(asking, c, k)
		cancel()
		if err == nil {
			found(all)
		}
	}
}

// partitions returns an Input for each partition of the topics of c.
func (in Input) partitions(ctx context.Context, c ConsumerConfig, k *cluster) ([]Partition, error) {
	var all []Partition
	for _, topic := range c.allTopics() {
		numbers, err := k.ensureTopic(ctx, topic, c.CreateTopics, c.CreatePartitions)
		if err != nil {
			return nil, err
		}
		for _, number := range numbers {
			if wanted, some := c.wanted(topic); some && !slices.Contains(wanted, number) {
				continue
			}
			one := in
			one.Where, one.Kafka = "", c
			one.Kafka.Topics, one.Kafka.UnlabeledTopics, one.Kafka.Partitions, one.Kafka.Only = []string{topic}, nil, []int32{number}, nil
			all = append(all, Partition{one, topic, number})
		}
	}
	return all, nil
}

func (in Input) isTopic() bool { return in.Where == "" || strings.HasPrefix(in.Where, "kafka://") }

// Holds reports whether Batches of the Input can have this topic or file name.
func (in Input) Holds(topic string) bool {
	if !in.isTopic() {
		return SourceName(topic) == SourceName(in.Where)
	}
	kafka, err := in.consumer()
	return err == nil && (slices.Contains(kafka.Topics, topic) || slices.Contains(kafka.UnlabeledTopics, topic))
}

// consumer returns the settings for the topic in the address, or the settings of Kafka.
func (in Input) consumer() (ConsumerConfig, error) {
	c := in.Kafka
	if in.Where == "" {
		return c, nil
	}
	bad := func(why string) (ConsumerConfig, error) { return c, &AddressError{in.Where, why} }
	u, err := url.Parse(in.Where)
	if err != nil {
		return bad("not an address")
	}
	topic := strings.Trim(u.Path, "/")
	if u.Host == "" || topic == "" {
		return bad("no broker or no topic")
	}
	c.Brokers, c.Topics, c.UntilEnd = []string{u.Host}, []string{topic}, true
	c.UnlabeledTopics, c.Partitions, c.Before = nil, nil, 0
	for key, values := range u.Query() {
		value := values[len(values)-1]
		switch key {
		case "partitions":
			for _, p := range strings.Split(value, ",") {
				n, err := strconv.ParseInt(p, 10, 32)
				if err != nil || n < 0 {
					return bad(fmt.Sprintf("partitions=%s: %.20q is not a partition number (0, 1, …)", value, p))
				}
				c.Partitions = append(c.Partitions, int32(n))
			}
		case "from", "to":
			n, err := strconv.ParseInt(value, 10, 64)
			switch {
			case value == "": // no limit, as in the pattern of the help
			case err != nil || n < 0:
				return bad(fmt.Sprintf("%s=%.40s is not an offset (0, 1, …)", key, value))
			case key == "from":
				c.Start = "offset:" + value
			case n == 0:
				return bad("to=0 leaves no record: the first offset is 0")
			default:
				c.Before = n
			}
		default:
			return bad("unknown key " + key)
		}
	}
	return c, nil
}
