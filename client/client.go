// Package client predicts with a learned model in your own process: no server, no network on
// the way of a prediction.
//
// Open reads a model once; Follow also reads each newer one while a learner publishes them.
// Both take the same addresses:
//
//	model.blankout                a file: a model, a snapshot or a checkpoint
//	checkpoints/                  a directory: its newest checkpoint
//	http://HOST:PORT, https://…   a learner's server
//	kafka://HOST:PORT/TOPIC       a topic of snapshots
//	s3://BUCKET/KEY               an object, with the credentials of the environment
package client

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/served"
)

// Options say how a model is read. The zero value suits files and servers without a token.
type Options struct {
	Token    string        // of a server that asks for one
	HTTP     *http.Client  // nil is one with a time limit of a minute
	Interval time.Duration // between two looks of Follow for a newer model; 0 is a second
	MaxBytes int64         // of a model; 0 is 4 GiB
	Kafka    Kafka         // for kafka:// addresses
	S3       S3            // for s3:// addresses
	// MissingPolicy replaces the model's own policy for missing fields: "none", "rescale" or
	// "impute". "" and "auto" keep the model's own.
	MissingPolicy string
	// Wait lets Follow start before there is a model, or before anything answers at the address.
	Wait bool
	// Updated receives each newer model after the first. The Follower's goroutine calls it, and
	// reads nothing newer until it returns.
	Updated func(*Model)
	Log     *slog.Logger // receives failures of Follow, and when they end; nil discards them
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
	m, err := served.Open(ctx, address, inner)
	if err != nil {
		return nil, err
	}
	return &Model{m}, nil
}

// Decode reads a model from the bytes of its file.
func Decode(data []byte) (*Model, error) {
	m, err := served.Decode(data)
	if err != nil {
		return nil, err
	}
	return &Model{m}, nil
}

// Version grows with each publication of a learner, also across its restarts. It is 0 for a model
// that was not published.
func (m *Model) Version() uint64 { return m.of.Version }

// Published returns the time of publication, the zero time for a model that was not published.
func (m *Model) Published() time.Time { return m.of.At }

// Events returns the number of labeled events that the model was learned from.
func (m *Model) Events() uint64 { return m.of.Events }

// Regression reports whether the model predicts numbers. Otherwise it predicts one of Classes.
func (m *Model) Regression() bool { return loss.IsRegression(m.of.Loss) }

// Classes returns the classes' names, in the order of Prediction.Scores where there are more than
// two of them.
func (m *Model) Classes() []string { return append([]string(nil), m.of.Schema.Classes...) }

// Predict predicts an event: the bytes of one record in the format of the learner's stream.
// Events of CSV, Avro or Protobuf streams may also be JSON objects with the same fields. A label
// in the event is ignored. The Prediction explains itself by the explain features that add most
// to its score, 0 for no explanation.
//
// The error is a *RefusedError if the event cannot be used. An event without any feature that
// the model has seen is predicted all the same: see Prediction.OnlyUnseen.
func (m *Model) Predict(event []byte, explain int) (Prediction, error) {
	return predicted(m.of.Predict(event, explain))
}

// PredictValue predicts an event that encoding/json can write: a map or a struct.
func (m *Model) PredictValue(event any, explain int) (Prediction, error) {
	return predicted(m.of.PredictValue(event, explain))
}

// Follower holds the newest model of an address. Its methods are safe for concurrent use.
type Follower struct{ of *served.Follower }

// Follow reads the model at an address, and then looks for a newer one every Options.Interval
// until Close. It returns an error if it cannot read the first model, unless Options.Wait is set.
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

// Model returns the newest model and the error of the latest look for a newer one. The model stays
// usable after an error. It is nil before the first model, see Options.Wait.
func (f *Follower) Model() (*Model, error) {
	m, err := f.of.Model()
	if m == nil {
		return nil, err
	}
	return &Model{m}, err
}

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
