package main

// This file makes the command run predict the events of a topic, while learning or, with --predict-only, without
// learning.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"blankout/app/served"
	"blankout/app/served/kafka"
	"blankout/app/served/s3"
	"blankout/checkpoint"
	"blankout/config"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/serve"
	"blankout/serve/predict"
)

// openSnapshots prepares the destinations of published models, or returns nil if the configuration has none. The
// versions of this run become larger than the versions in the destinations, even if those are of another checkpoint
// directory.
func (s *service) openSnapshots(ctx context.Context, c *config.Config, model func() *served.Model, log *slog.Logger) (*serve.Snapshots, error) {
	if c.Snapshot.Topic == "" && c.Snapshot.File == "" && c.Snapshot.Object == "" {
		return nil, nil
	}
	snapshots, err := serve.OpenSnapshots(ctx, c.Snapshot, c.Kafka.ConnectConfig, c.Kafka.CreateTopics, c.S3, model, log)
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, snapshots.Close)
	if there := snapshots.Version(); there >= s.runner.FirstVersion {
		if there>>32 == math.MaxUint32 {
			return nil, fmt.Errorf("snapshots: version %d is the largest possible: give this learner another topic, file or object", there)
		}
		s.runner.FirstVersion = (there>>32 + 1) << 32
		log.Warn("the published snapshots are newer than this checkpoint directory's; versions continue above theirs", "theirs", there, "first", s.runner.FirstVersion)
	}
	return snapshots, nil
}

// newPredictor returns the Predictor of the configuration, or nil if no topic is configured.
func newPredictor(c *config.Config, model func() *served.Model, log *slog.Logger) *predict.Predictor {
	if c.Predict.Topic == "" {
		return nil
	}
	kafka := c.Kafka.ConsumerConfig
	// These settings apply only to the topics that are learned.
	kafka.UnlabeledTopics, kafka.Partitions, kafka.Before, kafka.DedupWindow = nil, nil, 0, 0
	return &predict.Predictor{Config: c.Predict, Kafka: kafka, Model: model, Log: log}
}

// accompany starts all jobs that run concurrently with learning; Close stops them. Under until_end the predictions
// continue to the end of their topic, unless ctx ends earlier.
func (s *service) accompany(ctx context.Context, c *config.Config, snapshots *serve.Snapshots, predictor *predict.Predictor) {
	background, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	if snapshots != nil {
		working.Go(func() { snapshots.Run(background) })
	}
	ended := make(chan struct{})
	working.Go(func() {
		defer close(ended)
		if predictor != nil {
			predictor.Keep(background)
		}
	})
	s.close = append(s.close, func() error {
		if c.Kafka.UntilEnd {
			select {
			case <-ended:
			case <-ctx.Done():
			}
		}
		stop()
		working.Wait()
		return nil
	})
}

// predictOnly implements run --predict-only: it follows a model that another process publishes, and scores a topic.
func (p *program) predictOnly(ctx context.Context, o runFlags, c *config.Config) (err error) {
	switch {
	case c.Predict.Topic == "" && c.HTTP.Address == "":
		return usageError{errors.New("--predict-only needs predict.topic and predict.output, or http.address")}
	case c.Predict.Model == "":
		return usageError{errors.New("--predict-only needs predict.model: http://HOST:PORT of a learner, kafka://HOST:PORT/TOPIC or s3://BUCKET/KEY of its snapshots, or a file")}
	case o.data != "" || o.reset || o.from != "":
		return usageError{errors.New("--predict-only excludes -d, --reset and --from, because it does not learn")}
	}
	log := p.logger(p.newScreen(10 * time.Second))
	if err := c.OpenRegistry(log); err != nil {
		return located{usageError{err}}
	}
	follower, err := c.Predict.Follow(served.Options{
		Schemes: schemes(c),
		Record:  &c.Record, Missing: model.MissingPolicy(c.Learner.MissingPolicy), Log: log,
	})
	if err != nil {
		return fmt.Errorf("predict: %w", err)
	}
	defer follower.Close()
	model := func() *served.Model {
		m, _ := follower.Model() // no error handling: the follower logs its errors
		return m
	}
	predictor := newPredictor(c, model, log) // nil if no topic is configured
	shown := serve.Service{Model: model, Registry: c.Record.Registry}
	if predictor != nil {
		predictor.MaxEvents = o.maxEvents
		shown.Predictions = predictor.Stats
	}
	if c.HTTP.Address != "" {
		var s service
		if err := s.startServer(c.HTTP.Config, shown, log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
	}
	if predictor == nil {
		<-ctx.Done()
		log.Info("stopped")
		return nil
	}
	if err := predictor.Run(ctx); err != nil {
		return err
	}
	s := predictor.Stats()
	log.Info("stopped", "scored", s.Scored, "refused", s.Refused, "version", s.Version)
	return p.encode(map[string]uint64{"scored": s.Scored, "refused": s.Refused, "version": s.Version})
}

// learned returns a function that returns the model if the model has learned at least one event, otherwise nil. The
// predictions of a model without learned events are meaningless.
func learned(model func() *served.Model) func() *served.Model {
	return func() *served.Model {
		if m := model(); m != nil && m.Events > 0 {
			return m
		}
		return nil
	}
}

// schemes returns, by URL scheme, the functions that open models in topics and stores. They use the connections of the
// configuration.
func schemes(c *config.Config) map[string]served.Opener {
	return map[string]served.Opener{"kafka": kafka.Opener(c.Kafka.ConnectConfig), "s3": s3.Opener(c.S3)}
}

// openModel reads the model at an address, with the default configuration and the environment variables.
func openModel(where string) (*served.Model, error) {
	l, err := config.Load(config.Source{Env: os.Environ()})
	if err != nil {
		return nil, usageError{err}
	}
	token, err := l.Predict.Token()
	if err != nil {
		return nil, usageError{err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := served.Open(ctx, where, served.Options{Token: token, Schemes: schemes(&l.Config)})
	if err != nil {
		return nil, fmt.Errorf("reading the model: %w", err)
	}
	return m, nil
}

// saved is a file of a checkpoint or another model.
type saved struct {
	path  string // path or address of the file that was read
	bytes int
	file  *checkpoint.File
	model *served.Model
}

// readCheckpoint reads a checkpoint or any other file of a model. For a directory or s3://BUCKET/PREFIX it reads the
// newest checkpoint.
func readCheckpoint(path string) (*saved, error) {
	var data []byte
	var at string
	if strings.HasPrefix(path, "s3://") {
		l, err := config.Load(config.Source{Env: os.Environ()})
		if err != nil {
			return nil, usageError{err}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if data, at, err = s3.Read(ctx, l.S3, path); err != nil {
			return nil, err
		}
	} else {
		var err error
		if at, err = checkpoint.Newest(path); err != nil {
			return nil, event.HideAddresses(err)
		}
		if data, err = os.ReadFile(at); err != nil {
			return nil, err
		}
	}
	file, err := checkpoint.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	file.Name = filepath.Base(at)
	m, err := served.Options{}.FromFile(file)
	if err != nil {
		return nil, refusedError{fmt.Errorf("%s: %w", at, err)}
	}
	return &saved{at, len(data), file, m}, nil
}
