package main

// This file opens what run needs for labels that come later, and sums up what became of
// them.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"blankout"
	"blankout/config"
	"blankout/labels"
	"blankout/loss"
	"blankout/record"
	"blankout/run"
	"blankout/stream"
)

// joining is how labels that come later are joined with their events.
type joining struct {
	settings map[string]string // of the fingerprint
	open     func(labels.State) (*labels.Join, error)
}

// joins says whether labels come later than events.
func joins(c *config.Config, o runFlags) bool { return o.labels != "" || len(c.Labels.Topics) > 0 }

// checkJoin returns what does not go with labels that come later.
func checkJoin(c *config.Config, o runFlags) error {
	lossName, _, _ := strings.Cut(c.Learner.Loss, ":")
	switch {
	case o.data != "" && o.labels == "":
		return usageError{fmt.Errorf("-d %s: labels come later (labels.topics): name their file with --labels", o.data)}
	case o.data == "" && o.labels != "":
		return usageError{fmt.Errorf("--labels %s: name the file of the events with -d", o.labels)}
	case o.learners.N > 1:
		return usageError{fmt.Errorf("--learners %d: labels come later, which several learners of one model cannot join yet: leave --learners out", o.learners.N)}
	case loss.IsRegression(lossName):
		return usageError{fmt.Errorf("loss %s: a target that is a number cannot come later than its event yet", c.Learner.Loss)}
	case o.data == "-" || o.labels == "-":
		return usageError{errors.New("events and labels that are joined cannot come from standard input")}
	}
	if err := c.CheckJoin(); err != nil {
		return usageError{fmt.Errorf("[labels] %w", err)}
	}
	return nil
}

// openJoin opens what waits for labels, as a checkpoint has it.
func (s *service) openJoin(c *config.Config, o runFlags, from labels.State, log *slog.Logger) (*labels.Join, error) {
	directory := cmp.Or(c.Labels.Directory, filepath.Join(c.Checkpoint.Directory, "labels"))
	if o.reset {
		aside := directory + time.Now().UTC().Format("-20060102T150405.000")
		if err := os.Rename(directory, aside); err == nil {
			log.Info("the events that waited for labels are set aside", "directory", aside)
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	j, err := labels.Open(c.Labels, directory, from)
	if is[*labels.StateError](err) {
		return nil, refusedError{err}
	}
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, j.Close)
	return j, nil
}

// openJoined opens the events and their labels, from where the checkpoint left them.
func (s *service) openJoined(ctx context.Context, c *config.Config, o runFlags, consuming *atomic.Pointer[consumers], log *slog.Logger) error {
	if o.data != "" && c.Record.Time == "" {
		log.Warn("files do not say when a record came: all events come before all labels, and none waits too long. Name the field that holds the time with record.time")
	}
	events := inputOf(c, o.data)
	events.Record.Unlabelled = true
	later := events
	later.Where, later.Record, later.Kafka.Topics = o.labels, c.Labels.LabelRecord(c.Record), c.Labels.Topics
	if err := later.Record.Check(); err != nil {
		return usageError{fmt.Errorf("[labels] %w", err)}
	}
	var lanes []labels.Lane
	var all consumers
	for i, in := range []stream.Input{events, later} {
		in.Kafka.Log, in.Record.Growing = log, true // the next run goes on where this one ends
		partitions, err := in.Partitions(ctx)
		if err != nil {
			return err
		}
		for _, p := range partitions {
			lane, err := s.openLane(ctx, p, i == 1)
			if err != nil {
				return err
			}
			if consumer, ok := lane.opened.(*stream.Consumer); ok {
				all = append(all, consumer)
			}
			lanes = append(lanes, lane.Lane)
		}
	}
	r := s.runner
	r.Source = labels.NewMerge(r.Schema, lanes, r.Labels)
	if len(all) == 0 {
		return nil
	}
	consuming.Store(&all)
	if group := c.Kafka.Group; group != "" && o.data == "" {
		r.Commit = func(ctx context.Context, offsets blankout.Offsets) error { return all[0].Commit(ctx, group, offsets) }
	}
	return nil
}

// openedLane is a lane and what it reads.
type openedLane struct {
	labels.Lane
	opened stream.Opened
}

func (s *service) openLane(ctx context.Context, p stream.Partition, isLabels bool) (*openedLane, error) {
	r := s.runner
	lane := &openedLane{Lane: labels.Lane{Topic: p.Topic, Partition: p.Number, Labels: isLabels}}
	file := p.Where != ""
	p.Defer = func(of func(*blankout.Schema) (record.Decoder, error)) (_ record.Decoder, err error) {
		if isLabels {
			lane.Decoder, err = labels.NewLabelDecoder(of, r.Schema)
		} else {
			lane.Decoder, err = of(r.Schema)
		}
		if err != nil || !file {
			return &labels.Deferred{}, err
		}
		clock, err := of(blankout.NewSchema(1, nil, 2))
		return &labels.Deferred{Clock: clock}, err
	}
	var err error
	if lane.opened, err = p.Open(ctx, r.Schema, r.Offsets); err != nil {
		return nil, err
	}
	lane.Next = lane.opened.Next
	s.close = append(s.close, lane.opened.Close)
	return lane, nil
}

// consumers read a partition each, or all of them.
type consumers []*stream.Consumer

// stats adds up what they have done; nil of nil.
func (c *consumers) stats() *stream.ConsumerStats {
	if c == nil {
		return nil
	}
	sum := stream.ConsumerStats{Retries: map[string]uint64{}}
	for _, consumer := range *c {
		one := consumer.Stats()
		sum.Fetches += one.Fetches
		sum.Bytes += one.Bytes
		sum.Records += one.Records
		for cause, n := range one.Retries {
			sum.Retries[cause] += n
		}
		sum.Partitions = append(sum.Partitions, one.Partitions...)
	}
	return &sum
}

// labelSummary says what became of labels that came later. Errors are in percent.
type labelSummary struct {
	labels.Counts
	// LearningError and LearningLogLoss are those of the scores that events would have
	// been given as they were learned; progressive_error and progressive_log_loss those of
	// the scores that they were given as they came.
	LearningError   *float64 `json:"learning_error"`
	LearningLogLoss *float64 `json:"learning_log_loss"`
}

func summariseLabels(s *run.Status) *labelSummary {
	if s.Labels == nil {
		return nil
	}
	at := s.AtLearning
	return &labelSummary{*s.Labels, number(100 * at.Error()), number(at.MeanLogLoss())}
}
