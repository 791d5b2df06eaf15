// Package client predicts with a learned model in your own process. A prediction needs neither a server nor the
// network.
//
// Open reads a model once. Follow also reads each newer model that a learner publishes. Both accept the same addresses:
//
//	model.blankout                a file: a model, a snapshot or a checkpoint
//	checkpoints/                  a directory: its newest checkpoint
//	http://HOST:PORT, https://…   a learner's server
//	kafka://HOST:PORT/TOPIC       a topic of snapshots
//	s3://BUCKET/KEY               an object, with the credentials of the environment
package client

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"blankout/app/served"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/stream/record"
)

// Options configures how a model is read. The zero value suits files and servers without a token.
type Options struct {
	Token    string        // bearer token, for a server that requires one
	HTTP     *http.Client  // HTTP client; nil is a client with a timeout of one minute
	Interval time.Duration // polling interval of Follow; 0 is one second
	MaxBytes int64         // largest size of a model; 0 is 4 GiB
	Kafka    Kafka         // settings for kafka:// addresses
	S3       S3            // settings for s3:// addresses
	// MissingPolicy replaces the model's policy for missing fields: "none", "rescale", "impute" or "fill". "" and "auto" keep
	// the model's policy.
	MissingPolicy string
	// Wait lets Follow start before the address has a model or responds at all.
	Wait bool
	// Updated receives each newer model after the first. The Follower's goroutine calls it, and reads no newer model
	// until it returns.
	Updated func(*Model)
	Log     *slog.Logger // receives the failures of Follow and their ends; nil discards them
}

// Model is a model and the format of its events. A Model never changes, and its methods are safe
// for concurrent use.
type Model struct{ of *served.Model }

// Open reads the model at an address.
func Open(ctx context.Context, address string, o Options) (*Model, error) {
	inner, err := o.served()
	if err != nil {
		return nil, err
	}
	return modelOf(served.Open(ctx, address, inner))
}

// modelOf returns the Model of a result, which may have none.
func modelOf(m *served.Model, err error) (*Model, error) {
	if m == nil {
		return nil, err
	}
	return &Model{m}, err
}

// Decode reads a model from the bytes of its file.
func Decode(data []byte) (*Model, error) { return modelOf(served.Decode(data)) }

// Version returns the model's version, which grows with each publication of a learner, also across its restarts. The
// version is 0 for a model that was not published.
func (m *Model) Version() uint64 { return m.of.Version }

// Published returns the time of publication, or the zero time if the model was not published.
func (m *Model) Published() time.Time { return m.of.At }

// Events returns the number of labeled events that the model was learned from.
func (m *Model) Events() uint64 { return m.of.Events }

// Regression reports whether the model predicts numbers. Otherwise it predicts one of Classes.
func (m *Model) Regression() bool { return loss.IsRegression(m.of.Loss) }

// Classes returns the class names. If there are more than two classes, Prediction.Scores has the same order.
func (m *Model) Classes() []string { return append([]string(nil), m.of.Schema.Classes...) }

// Predict predicts an event: the bytes of one record in the format of the learner's stream. Events of CSV, Avro or
// Protobuf streams may also be JSON objects with the same fields. A label in the event is ignored. The Prediction is
// explained by the explain features that add most to its score; 0 means no explanation.
//
// The error is a *RefusedError if the event cannot be used. An event in which the model has seen no feature is
// predicted too: see Prediction.OnlyUnseen.
func (m *Model) Predict(event []byte, explain int) (Prediction, error) {
	return predicted(m.of.Predict(event, explain))
}

// PredictKeyed is Predict for an event whose record has a key. If the learner is divided into shards (run --group), the
// shard of the key has more weight in the prediction. The Model must be read from the topic of the group.
func (m *Model) PredictKeyed(key, event []byte, explain int) (Prediction, error) {
	return predicted(m.of.PredictRecord(context.Background(), record.Record{Key: key, Value: event}, explain))
}

// PredictValue predicts an event that encoding/json can encode: a map or a struct. It supports models whose events are
// JSON or CSV, or use a schema registry.
func (m *Model) PredictValue(event any, explain int) (Prediction, error) {
	c := &m.of.Record
	if format := c.FormatName(); format != "json" && format != "csv" && !c.HasSchemas() {
		return Prediction{}, fmt.Errorf("a value cannot be predicted: events of this model are %s, not JSON; give Predict the bytes of a record", c.Format)
	}
	data, err := json.Marshal(event)
	if err != nil {
		return Prediction{}, fmt.Errorf("an event as JSON: %w", err)
	}
	return m.Predict(data, explain)
}

// Follower holds the newest model of an address. Its methods are safe for concurrent use.
type Follower struct{ of *served.Follower }

// Follow reads the model at an address, and then checks for a newer model every Options.Interval until Close. It
// returns an error if it cannot read the first model, unless Options.Wait is set.
func Follow(ctx context.Context, address string, o Options) (*Follower, error) {
	inner, err := o.served()
	if err != nil {
		return nil, err
	}
	if o.Updated != nil {
		inner.Updated = func(m *served.Model) { o.Updated(&Model{m}) }
	}
	f, err := served.Follow(ctx, address, inner)
	if err != nil {
		return nil, err
	}
	return &Follower{f}, nil
}

// Model returns the newest model and the error of the latest check for a newer model. The model stays usable after an
// error. It is nil until the first model is read, see Options.Wait.
func (f *Follower) Model() (*Model, error) { return modelOf(f.of.Model()) }

// Close stops following and waits for the Follower's goroutine. The last model stays usable.
func (f *Follower) Close() { f.of.Close() }

func (o Options) served() (served.Options, error) {
	policy := model.MissingAuto
	if o.MissingPolicy != "" {
		var err error
		if policy, err = model.ParseMissingPolicy(o.MissingPolicy); err != nil {
			return served.Options{}, fmt.Errorf("client: missing policy %w", err)
		}
	}
	return served.Options{
		Token: o.Token, Client: o.HTTP, Interval: o.Interval, MaxBytes: o.MaxBytes, Missing: policy, Wait: o.Wait, Log: o.Log,
		Schemes: map[string]served.Opener{"kafka": o.Kafka.opener(), "s3": o.S3.opener()},
	}, nil
}
