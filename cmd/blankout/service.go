package main

// This file implements the service that run starts: checkpoint store, learner, server, validations and destinations of
// records.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/app/served/s3"
	"blankout/batch/validate"
	"blankout/checkpoint"
	"blankout/config"
	"blankout/internal/event"
	"blankout/online"
	"blankout/serve"
	"blankout/serve/predict"
	"blankout/stream"
	"blankout/stream/labels"
	"blankout/stream/record"
)

// newRunner returns a Runner with its checkpoints in store. The first learner has the settings of [learner]. All
// learners continue from the checkpoint named from, or from the newest checkpoint if from is "". If there is no
// checkpoint, the learners start empty. The caller adds the Source. The argument settings is added to the fingerprints of
// the learners. The result waiting has the events that wait for delayed labels.
func newRunner(learners []challenger, v validate.Config, settings map[string]string, store *checkpoint.Store, reset bool, from string, log *slog.Logger) (r *run.Runner, waiting labels.State, err error) {
	r = &run.Runner{
		Config: run.DefaultConfig(),
		Save: func(blocks iter.Seq[event.Block]) (string, int64, error) {
			saved, err := store.Save(checkpoint.Linear, blocks)
			if errors.Is(err, checkpoint.ErrLost) {
				err = run.FinalError{Err: err}
			}
			if saved.Prune != nil {
				log.Warn("an old checkpoint could not be removed", "err", saved.Prune)
			}
			return saved.Name, saved.Bytes, err
		},
		Log: log,
	}
	for i := range learners {
		x := &learners[i]
		x.config.Positive = x.record.PositiveName()
		x.fingerprint = config.Fingerprint(x.config, x.record, v)
		maps.Copy(x.fingerprint, settings)
	}
	var file *checkpoint.File
	switch {
	case reset:
		err = checkpoint.ErrNone
	case from != "":
		file, err = store.LoadName(filepath.Base(from))
	default:
		var refused []checkpoint.Refusal
		file, refused, err = store.Load()
		for _, refusal := range refused {
			log.Warn("a checkpoint cannot be used; trying the one before", "name", refusal.Name, "err", refusal.Err)
		}
	}
	switch {
	case errors.Is(err, checkpoint.ErrNone):
		if err = openLearners(r, learners, nil, log); err != nil {
			return nil, waiting, usageError{err}
		}
		log.Info("starting without a checkpoint", "directory", store.Dir())
	case err != nil:
		return nil, waiting, err
	default:
		if err = openLearners(r, learners, file.Blocks, log); err != nil {
			if is[*online.MismatchError](err) {
				return nil, waiting, usageError{fmt.Errorf("%s: %w", file.Name, err)}
			}
			return nil, waiting, refusedError{fmt.Errorf("%s: %w", file.Name, err)}
		}
		if waiting, _, err = labels.ReadState(file.Blocks); err != nil {
			return nil, waiting, refusedError{fmt.Errorf("%s: %w", file.Name, err)}
		}
		if info, err := os.Stat(filepath.Join(store.Dir(), file.Name)); err == nil { // checkpoints in an object store have no such file
			r.Saved = run.SaveStatus{Name: file.Name, Bytes: info.Size(), At: info.ModTime()}
		}
		log.Info("resuming from a checkpoint", "name", file.Name, "events", r.Learner.Report().Events)
	}
	if len(learners[0].record.Classes) == 0 {
		online.TakeMoreClasses(r.Schema)
		for _, s := range ownSchemas(r) {
			online.TakeMoreClasses(s)
		}
	}
	return r, waiting, nil
}

// keptReports is the number of stored validation reports.
const keptReports = 100

// service is a run with its server and all other resources. The resources are closed in the reverse order of opening.
type service struct {
	runner   *run.Runner
	learners []challenger
	learner  func(name string) *served.Model // returns the newest model of a learner
	read     record.Config                   // record settings of the source; valid once the source is open
	// consumers read the topics; nil for other sources, and with delayed labels.
	consumers consumers
	close     []func() error
}

func (s *service) Close() error {
	var errs []error
	for i := len(s.close) - 1; i >= 0; i-- {
		errs = append(errs, s.close[i]())
	}
	s.close = nil
	return errors.Join(errs...)
}

// openService opens all resources in the configuration. A resource with a longer life is opened first. The order is:
// checkpoints, runner, server (before any request to Kafka), destinations of snapshots and dead letters, source. The
// source is the file data if given, otherwise Kafka.
func openService(ctx context.Context, c *config.Config, o runFlags, log *slog.Logger) (_ *service, err error) {
	s := &service{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := c.OpenRegistry(log); err != nil {
		return nil, usageError{err}
	}
	store, err := s.openStore(c, log)
	if err != nil {
		return nil, err
	}
	if err := s.openRunner(c, o, store, log); err != nil {
		return nil, err
	}
	reports, foreign, err := serve.OpenReports(c.Validate.Directory, keptReports)
	if err != nil {
		return nil, err
	}
	if len(foreign) > 0 {
		log.Warn("some files in the reports directory are not reports; they are ignored", "files", foreign)
	}
	s.runner.Report = reports.Add
	for _, v := range s.validators() {
		v.Reports = reports.List()
	}
	var asked atomic.Pointer[record.Config]
	asked.Store(new(askedAs(c.Record, o.data)))
	s.learner = serve.Newest(s.runner.Published, asked.Load, s.ownColumns)
	model := func() *served.Model { return s.learner("") }
	predictor := newPredictor(c, learned(model), log)
	var consuming atomic.Pointer[consumers]
	var places atomic.Pointer[serve.Snapshots]
	var acceptor atomic.Pointer[serve.Acceptor]
	if c.HTTP.Address != "" && o.serves() {
		if err := s.serve(c, model, &consuming, reports, &places, &acceptor, predictor, log); err != nil {
			return nil, err
		}
	}
	snapshots, err := s.openSnapshots(ctx, c, model, log)
	if err != nil {
		return nil, err
	}
	places.Store(snapshots)
	if s.runner.DeadLetters, err = s.openLetters(ctx, c, log); err != nil {
		return nil, err
	}
	c.Record.KeepValue = true // the page shows the newest record
	open := func() error { return s.openSource(ctx, c, o.data, &consuming, &asked, log) }
	switch {
	case s.runner.Labels != nil:
		open = func() error { return s.openJoined(ctx, c, o, &consuming, &asked, log) }
	case learnsInbox(c, o.data):
		open = func() error { return s.openInbox(c, o.reset, &acceptor, log) }
	case o.shard != nil && len(c.Kafka.Only) > 1:
		open = func() error { return s.openOrdered(ctx, c, &consuming, log) }
	}
	s.read = c.Record
	s.decodeChallengers()
	if err := open(); err != nil {
		return nil, err
	}
	if c.HTTP.Learn && o.data == "" && len(c.Kafka.Topics) > 0 {
		if err := s.openTopicAcceptor(c, &acceptor, log); err != nil {
			return nil, err
		}
	}
	if o.reset { // only after all other resources are open
		aside, err := store.SetAside()
		if err != nil {
			return nil, err
		}
		if aside != "" {
			log.Info("existing checkpoints moved", "directory", aside)
		}
	}
	s.accompany(ctx, c, snapshots, predictor)
	return s, nil
}

// askedAs returns the record settings of prediction requests. They are the settings of learned events. For a file the
// settings follow from its name. If only a header line names the columns, requests are JSON until the header has been
// read.
func askedAs(c record.Config, data string) record.Config {
	f := record.FormatOf(data)
	if data == "" || strings.Contains(data, "://") || !slices.Contains(record.FileFormats(), f) {
		return c
	}
	if c.Format = f; f == "csv" && len(c.Columns) == 0 {
		c.Format = "json"
	}
	return c
}

// askAs makes prediction requests use the lines of a CSV file, whose header has now been read.
func askAs(asked *atomic.Pointer[record.Config], c record.Config, file *stream.File) {
	if read := file.Record(); read.Format == "csv" {
		c.Format, c.Columns, c.Separator, c.KeepValue = read.Format, read.Columns, read.Separator, false
		asked.Store(&c)
	}
}

// openStore opens the store of checkpoints.
func (s *service) openStore(c *config.Config, log *slog.Logger) (*checkpoint.Store, error) {
	store, err := openCheckpoints(c)
	if err != nil {
		return nil, err
	}
	if store.Ousted != "" {
		log.Warn("another learner owned the checkpoints and did not release them: if it still runs, it stops at its next save", "checkpoints", store.Dir(), "learner", store.Ousted)
	}
	s.close = append(s.close, store.Close)
	return store, nil
}

// openCheckpoints opens the directory or the object store of checkpoints.
func openCheckpoints(c *config.Config) (*checkpoint.Store, error) {
	if !c.Checkpoint.Objects() {
		return checkpoint.Open(string(c.Checkpoint.Directory), c.Checkpoint.Keep)
	}
	objects, err := s3.OpenCheckpoints(c.S3, string(c.Checkpoint.Directory))
	if err != nil {
		return nil, err
	}
	return checkpoint.OpenObjects(objects, c.Checkpoint.Keep)
}

// history returns the file of the web page's history. It is in the directory of the checkpoints. If the checkpoints are
// objects, it is in the cache of [s3]. "" means that there is no file.
func history(c *config.Config) string {
	switch {
	case !c.Checkpoint.Objects():
		return filepath.Join(string(c.Checkpoint.Directory), "history.json")
	case c.S3.Cache != "":
		return filepath.Join(c.S3.Cache, "history.json")
	}
	return ""
}

// openRunner creates the runner and restores it from the newest checkpoint.
func (s *service) openRunner(c *config.Config, o runFlags, store *checkpoint.Store, log *slog.Logger) error {
	settings := map[string]string{}
	if joins(c, o) && len(c.Challengers) > 0 {
		return usageError{errors.New("[[challenger]]: not supported with delayed labels: remove the challengers, or join the labels before learning")}
	}
	if joins(c, o) {
		if err := checkJoin(c, o); err != nil {
			return err
		}
		maps.Copy(settings, c.Labels.Settings())
	}
	if o.shard != nil {
		maps.Copy(settings, o.shard.Settings())
	}
	records := c.Record // a checkpoint replaces this seed with its own
	if o.data == "" && records.Seed == 0 {
		records.Seed = rand.Uint64() // math/rand/v2 takes its seed from the system
	}
	learners := competing(c, records, o.data)
	r, waiting, err := newRunner(learners, c.Validate.Config, settings, store, o.reset, o.from, log)
	if err == nil && joins(c, o) {
		r.Labels, err = s.openJoin(c, o, waiting, log)
	}
	if err != nil {
		return err
	}
	s.runner, s.learners = r, learners
	start, err := store.NextStart()
	if err != nil {
		return err
	}
	r.FirstVersion = start << 32 // no run publishes 1<<32 versions
	r.Config = run.Config{
		SaveEvents: c.Checkpoint.Events, SaveInterval: c.Checkpoint.Interval, ShutdownTimeout: c.Checkpoint.ShutdownTimeout, LabelKeep: c.Checkpoint.Keep,
		Refused: c.DeadLetter.Policy, Fruitless: o.refused == "skip", MaxEvents: o.maxEvents, PublishInterval: c.HTTP.PublishInterval,
		Unlabeled: c.Record.Unlabeled || c.Learner.UnlabeledWeight > 0 || len(c.Kafka.UnlabeledTopics) > 0, Unnamed: len(c.Record.Classes) == 0,
	}
	r.Validator = newValidator(c, o.data, log)
	r.Validator.Learner = r.Learner.Config() // the configuration after reading the records and the checkpoint
	if r.Labels != nil {
		joinedValidator(r.Validator, c, o.data, o.labels)
	}
	validateChallengers(r, learners, c, o.data, log)
	if o.data == "-" || learnsInbox(c, o.data) {
		for _, v := range s.validators() {
			v.Open = nil // the source cannot be read again
		}
	}
	return nil
}

// serve starts the HTTP server.
func (s *service) serve(c *config.Config, model func() *served.Model, consuming *atomic.Pointer[consumers], reports *serve.Reports, places *atomic.Pointer[serve.Snapshots], acceptor *atomic.Pointer[serve.Acceptor], predictor *predict.Predictor, log *slog.Logger) error {
	shown := serve.Service{
		Status:   s.runner.Status,
		Model:    model,
		Source:   func() *stream.ConsumerStats { return consuming.Load().stats() },
		Registry: c.Record.Registry,
		Recent:   s.runner.Recent,
		Reports:  reports, Validate: s.runner.Validate, Snapshots: places.Load,
		History: history(c),
	}
	if s.runner.Challengers != nil {
		shown.Learner, shown.Promote = s.learner, s.runner.Promote
	}
	if predictor != nil {
		shown.Predictions = predictor.Stats
	}
	if c.HTTP.Learn {
		shown.Learn = func() serve.Acceptor {
			if p := acceptor.Load(); p != nil {
				return *p
			}
			return nil
		}
	}
	return s.startServer(c.HTTP.Config, shown, log)
}

// startServer starts an HTTP server that is stopped when s is closed.
func (s *service) startServer(c serve.Config, shown serve.Service, log *slog.Logger) error {
	version, revision := buildVersion()
	shown.Version = strings.TrimSpace(version + " " + revision)
	server, err := serve.Start(c, shown, log)
	if err != nil {
		return err
	}
	s.close = append(s.close, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return server.Close(ctx)
	})
	log.Info("serving", "url", server.URL())
	return nil
}

// openLetters opens the destination of refused records, which is nil if it is not configured.
func (s *service) openLetters(ctx context.Context, c *config.Config, log *slog.Logger) (run.DeadLetters, error) {
	if c.DeadLetter.Policy != run.PolicyDeadLetter {
		return nil, nil
	}
	d, err := stream.OpenDeadLetters(ctx, c.DeadLetters(), c.Kafka.ConnectConfig, log)
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, func() error {
		// If a dead letter is not stored safely, no later checkpoint or commit is made. Then no record is lost, so the
		// run has not failed.
		if err := d.Close(); err != nil {
			log.Warn("dead letters cannot be stored; the next start reads their records again", "err", err)
		}
		return nil
	})
	return d, nil
}

// openSource opens the events at the positions of the checkpoint. Standard input is always read from its beginning.
func (s *service) openSource(ctx context.Context, c *config.Config, data string, consuming *atomic.Pointer[consumers], asked *atomic.Pointer[record.Config], log *slog.Logger) error {
	r, in := s.runner, inputOf(c, data)
	in.Kafka.Log = log
	in.Record.Growing = data != "-" // a later run may continue where this one ends
	open := func(ctx context.Context) (stream.Opened, error) {
		events, err := in.Open(ctx, r.Schema, r.Offsets)
		if file, ok := events.(*stream.File); ok {
			s.read = file.Record()
			if unnamed := file.Unnamed(); len(unnamed) > 0 {
				log.Warn(unnamedColumns(unnamed), "file", data)
			}
			askAs(asked, c.Record, file)
		}
		return events, err
	}
	if data == "-" {
		// The first bytes determine the format and may take long to arrive. A run that waits for them serves the model of
		// its checkpoint and can be stopped.
		later := &paths{left: []string{data}, open: func(ctx context.Context, _ string) (stream.Opened, error) { return open(ctx) }}
		s.close = append(s.close, later.Close)
		r.Source = later
		r.Offsets.At("stdin", 0, 0).Next = 0
		return nil
	}
	events, err := open(ctx)
	if err != nil {
		return err
	}
	r.Source = events
	s.close = append(s.close, func() error {
		err := events.Close()
		if file, ok := events.(*stream.File); ok && file.Held() > 0 {
			log.Warn("the file ends within a record (no newline or closing brace): the next run reads it; if the record is complete, add a newline", "record", file.Place(file.Held()-1))
		}
		return err
	})
	if consumer, ok := events.(*stream.Consumer); ok {
		s.consumers = consumers{consumer}
		consuming.Store(&s.consumers)
		if group := c.Kafka.Group; group != "" && data == "" {
			r.Commit = func(ctx context.Context, offsets event.Offsets) error { return consumer.Commit(ctx, group, offsets) }
		}
	}
	return nil
}
