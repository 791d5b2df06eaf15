// Package predict scores the events of one topic and writes the predictions to another topic. It runs with a learner,
// using the model that the learner publishes, or in a separate process, using a model that it follows.
//
// Every event gets its prediction at least once. A [Predictor] stores its progress in the brokers, as the committed
// offsets of a consumer group. It commits an offset only once the predictions of all earlier events are acknowledged.
package predict

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/stream"
)

// Config is the section [predict] of the configuration.
type Config struct {
	Topic  string `toml:"topic"`  // topic of the events to score; "" disables predictions
	Output string `toml:"output"` // topic of the predictions
	// Group is the consumer group of the committed offsets.
	Group string `toml:"group"`
	// Start is where to start reading a partition that has no committed offset, as in stream.ConsumerConfig.
	Start string `toml:"start"`
	// CommitInterval is the time between commits.
	CommitInterval time.Duration `toml:"-"`
	// Model is the address of the model for a Predictor in a separate process, as for served.Open. ModelInterval is the
	// time between checks for a newer model.
	Model         event.Address `toml:"model"`
	ModelInterval time.Duration `toml:"-"`
	// TokenEnv is the environment variable and TokenFile the file that contains the token for a server, as in
	// serve.Config.
	TokenEnv  string `toml:"-"`
	TokenFile string `toml:"token_file"`
	// CAFile is a PEM file of certificate authorities for the server; "" means the authorities of the system. CertFile
	// and KeyFile contain the client certificate and its key.
	CAFile   string `toml:"ca_file"`
	CertFile string `toml:"cert_file"`
	KeyFile  string `toml:"key_file"`
}

// DefaultConfig returns the settings of an empty section.
func DefaultConfig() Config {
	return Config{
		Group: "blankout-predict", Start: "earliest", CommitInterval: time.Second,
		ModelInterval: time.Second, TokenEnv: "BLANKOUT_HTTP_TOKEN",
	}
}

// Check returns the first error in the configuration, with its key.
func (c Config) Check() error {
	if err := checkModel(string(c.Model)); err != nil {
		return err
	}
	switch {
	case (c.CertFile == "") != (c.KeyFile == ""):
		return event.KeyErrorf("cert_file", "cert_file: a certificate needs both cert_file and key_file")
	case c.Topic == "" && c.Output != "":
		return event.KeyErrorf("topic", "topic: empty, but output is set")
	case c.Topic == "":
		return nil
	case c.Output == "":
		return event.KeyErrorf("output", "output: empty, but topic is set")
	case c.Output == c.Topic:
		return event.KeyErrorf("output", "output: %q is the topic of events: name another topic", c.Output)
	case c.Group == "":
		return event.KeyErrorf("group", "group: empty: name the consumer group that stores the offsets")
	}
	probe := stream.DefaultConsumerConfig()
	probe.Topics, probe.Start = []string{c.Topic}, c.Start
	return probe.Check()
}

// Output is the JSON value of a record in the topic of predictions. The record's key is the key of the event. If the
// event has no key, the record's key is the ID of the event. Topic, Partition and Offset identify the event. A crash
// may repeat a prediction with the same Topic, Partition and Offset.
//
// If a prediction is too large for the topic, key and ID are truncated to 256 bytes. The header truncated_key then has
// the original size of the key. If the prediction is still too large, it has an Error instead of scores.
type Output struct {
	*served.Prediction        // prediction; nil if the event cannot be used
	Error              string `json:"error,omitempty"` // reason why there is no prediction
	Version            uint64 `json:"version"`         // version of the model
	Topic              string `json:"topic"`
	Partition          int32  `json:"partition"`
	Offset             int64  `json:"offset"`
	Time               int64  `json:"time,omitempty"` // time of the event's record, in milliseconds since 1970
}

// Predictor scores a topic. Set its fields before Run.
type Predictor struct {
	Config Config
	// Kafka configures the connection and the fetches. Topics and start are taken from Config.
	Kafka stream.ConsumerConfig
	// Model returns the newest model, or nil if there is no model yet. It is called before every batch of records.
	Model func() *served.Model
	// MaxEvents is the number of events after which Run ends. 0 means no limit.
	MaxEvents uint64
	Log       *slog.Logger

	stats atomic.Pointer[Stats]
}

// Stats is the state of a Predictor. It is immutable.
type Stats struct {
	Scored, Refused uint64 // numbers of acknowledged predictions and of refused events since the Predictor was created
	Failures        uint64 // number of failures to read events or write predictions; all were retried
	CommitFailures  uint64
	LastError       string // reason why it currently does not predict, "" if it does
	Waiting         bool   // true if it waits for its first model; LastError reports this
	Partitions      []stream.PartitionStats
	Version         uint64        // version of the last used model
	At              time.Time     // time when that model was published; zero if unknown
	Age             time.Duration // age of that model when it was last used
	NewestAge       time.Duration // age of the newest event of the last batch when its predictions were acknowledged
}

// Stats returns the latest Stats. Any goroutine may call it at any time.
func (p *Predictor) Stats() *Stats {
	return cmp.Or(p.stats.Load(), &Stats{LastError: "not started"})
}

// Run predicts until ctx ends, the topic ends (under Kafka.UntilEnd), or MaxEvents events have been scored. Then it
// returns nil. If something fails that a retry cannot fix, it returns an error. It commits acknowledged offsets before
// it returns.
func (p *Predictor) Run(ctx context.Context) error {
	stats := *p.Stats()
	stats.LastError, stats.Waiting = "", false
	err := p.run(ctx, &stats)
	stats.LastError, stats.Waiting = "stopped", false
	if err != nil {
		stats.LastError = err.Error()
	}
	p.stats.Store(&stats)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// Keep calls Run repeatedly. It is for a Predictor that runs with a learner, because failures of the Predictor must not
// stop the learner. Keep logs every failure, reports it in Stats and retries until ctx ends.
func (p *Predictor) Keep(ctx context.Context) {
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		began := time.Now()
		err := p.Run(ctx)
		if err == nil {
			return
		}
		if time.Since(began) > time.Minute {
			wait = time.Second
		}
		p.log().Error("predictions have stopped; trying again", "after", wait, "err", err)
		stats := *p.Stats()
		stats.Failures++
		p.stats.Store(&stats)
		if stream.Sleep(ctx, wait) != nil {
			return
		}
	}
}

func (p *Predictor) log() *slog.Logger { return cmp.Or(p.Log, slog.New(slog.DiscardHandler)) }

// errEnough ends a run after MaxEvents.
var errEnough = errors.New("enough events")

func (p *Predictor) run(ctx context.Context, stats *Stats) (err error) {
	config := p.Kafka
	config.Topics, config.Start, config.Log = []string{p.Config.Topic}, p.Config.Start, p.Log
	config.BatchRecords = max(config.BatchRecords, 2048) // larger batches, because the predictions of a batch are acknowledged together
	offsets, err := stream.Committed(ctx, config.ConnectConfig, p.Config.Group, config.Topics, p.Log)
	if missing := (*stream.TopicMissingError)(nil); errors.As(err, &missing) && config.CreateTopics {
		err = nil // the reader creates the topic
	}
	if err != nil {
		return fmt.Errorf("predictions: %w", err)
	}
	reader, err := stream.NewReader(ctx, config, offsets)
	if err != nil {
		return fmt.Errorf("predictions: %w", err)
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	out := stream.DefaultProducerConfig()
	out.ConnectConfig, out.Topic, out.Log = config.ConnectConfig, p.Config.Output, p.Log
	out.DeliveryTimeout = config.RequestTimeout // the producer then gives up, and Stats reports the failure
	out.CreateTopics, out.CreatePartitions = config.CreateTopics, config.CreatePartitions
	out.Shrink = shrink
	producer, err := stream.NewProducer(ctx, out)
	if err != nil {
		return fmt.Errorf("predictions: %w", err)
	}
	r := &run{Predictor: p, stats: stats, reader: reader, producer: producer, offsets: offsets.Clone()}
	err = r.loop(ctx)
	// Unacknowledged predictions are repeated later, so the error of Close is ignored.
	_ = producer.Close()
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if anew := (*stream.TopicRecreatedError)(nil); errors.As(err, &anew) {
		// The offsets belong to a deleted topic. Start reading the new topic from its beginning.
		for i := range r.offsets {
			r.offsets[i].Next, r.moved = 0, true
		}
	}
	r.commit(last)
	if errors.Is(err, errEnough) || errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("predictions: %w", err)
	}
	return nil
}

// run is the state of one call of Run. Only the goroutine of Run uses it.
type run struct {
	*Predictor
	stats    *Stats
	reader   *stream.Reader
	producer *stream.Producer

	offsets   event.Offsets // acknowledged offsets
	moved     bool          // whether offsets have changed since the last commit
	committed time.Time
	events    uint64
}

func (r *run) loop(ctx context.Context) error {
	r.committed = time.Now()
	r.report()
	for {
		model := r.Model()
		if model == nil {
			if !r.stats.Waiting {
				r.log().Info("predictions wait for a model with at least one learned event")
				r.stats.LastError, r.stats.Waiting = "no model has been published yet", true
				r.report()
			}
			if err := stream.Sleep(ctx, 50*time.Millisecond); err != nil {
				return err
			}
			continue
		}
		r.stats.LastError, r.stats.Waiting = "", false
		wait, cancel := context.WithTimeout(ctx, r.Config.CommitInterval)
		b, err := r.reader.Next(wait)
		cancel()
		if err == nil {
			err = r.predict(ctx, model, b)
		} else if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = nil // no new records
		}
		if r.moved && ctx.Err() == nil && time.Since(r.committed) >= r.Config.CommitInterval {
			r.commit(ctx)
		}
		r.report()
		if err != nil {
			return err
		}
	}
}

// predict writes the predictions of a batch and returns once they are acknowledged.
func (r *run) predict(ctx context.Context, model *served.Model, b stream.RawBatch) error {
	n := len(b.Records)
	next := b.Next
	if r.MaxEvents > 0 && uint64(n) > r.MaxEvents-r.events {
		n = int(r.MaxEvents - r.events)
		next = b.Records[n].Offset
		b.Refused = nil
	}
	scored, refused := uint64(0), uint64(0)
	write := func(key []byte, p Output) error {
		p.Version, p.Topic, p.Partition = model.Version, b.Topic, b.Partition
		if p.Prediction != nil {
			scored++
		} else {
			refused++
		}
		value, err := json.Marshal(p)
		if err != nil { // JSON cannot represent a score that is not finite
			p.Prediction, p.Error = nil, err.Error()
			if value, err = json.Marshal(p); err != nil {
				return fmt.Errorf("%s/%d offset %d: %w", b.Topic, b.Partition, p.Offset, err)
			}
		}
		return r.again(ctx, func() error { return r.producer.Write(ctx, stream.Message{Key: key, Value: value}) })
	}
	for _, record := range b.Records[:n] {
		p, err := model.PredictRecord(ctx, record, 0)
		out := Output{Offset: record.Offset, Time: record.Time}
		key := record.Key
		if err == nil {
			out.Prediction = &p
			if key == nil && p.ID != "" {
				key = []byte(p.ID)
			}
		} else if served.IsRefused(err) {
			out.Error = err.Error()
		} else {
			return err
		}
		if err := write(key, out); err != nil {
			return err
		}
	}
	for _, e := range b.Refused {
		if err := write(nil, Output{Offset: e.Offset, Time: e.Time, Error: e.Refused.Error()}); err != nil {
			return err
		}
	}
	if err := r.again(ctx, func() error { return r.producer.Flush(ctx) }); err != nil {
		return err
	}
	// Commit the start of a partition even if no record was read. Otherwise a restart under "latest" would begin later.
	was, known := r.offsets.Lookup(b.Topic, b.Partition)
	if !known || was.Next != next {
		r.offsets.At(b.Topic, b.Partition, next).Next, r.moved = next, true
	}
	s := r.stats
	s.Scored += scored
	s.Refused += refused
	s.Version, s.At = model.Version, model.At
	if !model.At.IsZero() {
		s.Age = time.Since(model.At)
	}
	if n > 0 && b.Records[n-1].Time > 0 {
		s.NewestAge = time.Since(time.UnixMilli(b.Records[n-1].Time))
	}
	if r.events += uint64(n); r.MaxEvents > 0 && r.events >= r.MaxEvents {
		return errEnough
	}
	return nil
}

// maxKey is the size in bytes to which the key and the ID are truncated if a prediction is too large.
const maxKey = 256

// shrink truncates a prediction that is too large for the topic. It reports whether the prediction has become smaller.
func shrink(m *stream.Message) bool {
	var p Output
	if err := json.Unmarshal(m.Value, &p); err != nil {
		return false
	}
	was := len(m.Value)
	switch {
	case len(m.Key) > maxKey:
		m.Headers = append(m.Headers, stream.Header{Key: "truncated_key", Value: strconv.AppendInt(nil, int64(len(m.Key)), 10)})
		m.Key = m.Key[:maxKey]
		if p.Prediction != nil && len(p.ID) > maxKey {
			p.ID = strings.ToValidUTF8(p.ID[:maxKey], "")
		}
	case p.Prediction != nil:
		p.Prediction, p.Error = nil, fmt.Sprintf("the prediction has %d bytes, more than the topic accepts: raise its max.message.bytes", was)
	default:
		return false
	}
	var err error
	m.Value, err = json.Marshal(p)
	return err == nil
}

// again retries f until the topic accepts the predictions or ctx ends. It never gives up a prediction.
func (r *run) again(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil {
			r.stats.LastError = ""
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.log().Warn("predictions cannot be written, trying again", "topic", r.Config.Output, "err", err)
		r.stats.Failures++
		r.stats.LastError = err.Error()
		r.report()
		if err := stream.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// commit stores the acknowledged offsets in the brokers. If this fails, the next commit stores them. A crash before the
// next commit would repeat more predictions.
func (r *run) commit(ctx context.Context) {
	if !r.moved {
		return
	}
	r.committed = time.Now()
	if err := r.reader.Commit(ctx, r.Config.Group, r.offsets); err != nil {
		r.stats.CommitFailures++
		r.log().Warn("offsets of predictions could not be committed; trying again", "err", err)
		return
	}
	r.moved = false
}

func (r *run) report() {
	s := *r.stats
	source := r.reader.Stats()
	s.Partitions = source.Partitions
	s.LastError = cmp.Or(s.LastError, source.Failing())
	r.Predictor.stats.Store(&s)
}
