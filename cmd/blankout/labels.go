package main

// This file opens the resources that the command run needs for delayed labels. It also summarizes how labels were
// joined.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"blankout/app/run"
	"blankout/config"
	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/stream"
	"blankout/stream/labels"
	"blankout/stream/record"
)

// joins reports whether labels are delayed: they arrive separately from their events.
func joins(c *config.Config, o runFlags) bool { return o.labels != "" || len(c.Labels.Topics) > 0 }

// checkJoin returns an error for settings that do not work with delayed labels.
func checkJoin(c *config.Config, o runFlags) error {
	if err := checkJoined(c, o.data, o.labels); err != nil {
		return err
	}
	if o.data == "-" || o.labels == "-" {
		return usageError{errors.New("delayed labels need files or topics, not standard input")}
	}
	if err := c.CheckJoin(); err != nil {
		return usageError{fmt.Errorf("[labels] %w", err)}
	}
	return nil
}

// checkJoined returns an error if only the events or only their labels are in a file.
func checkJoined(c *config.Config, data, later string) error {
	switch {
	case data != "" && later == "" && len(c.Labels.Topics) > 0:
		return usageError{fmt.Errorf("-d %s: labels are delayed (labels.topics): name the labels' file with --labels", data)}
	case data == "" && later != "":
		return usageError{fmt.Errorf("--labels %s: name the file of the events with -d", later)}
	}
	return nil
}

// openJoin returns the Join with the events of a checkpoint that are waiting for labels.
func (s *service) openJoin(c *config.Config, o runFlags, from labels.State, log *slog.Logger) (*labels.Join, error) {
	directory := c.LabelsDirectory()
	if o.reset {
		aside := directory + time.Now().UTC().Format("-20060102T150405.000")
		if err := os.Rename(directory, aside); err == nil {
			log.Info("events that waited for labels moved", "directory", aside)
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	j, err := labels.Open(c.Labels, directory, from)
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, j.Close)
	return j, nil
}

// openJoined opens the events and their labels at the positions of the checkpoint.
func (s *service) openJoined(ctx context.Context, c *config.Config, o runFlags, consuming *atomic.Pointer[consumers], asked *atomic.Pointer[record.Config], log *slog.Logger) error {
	if o.data != "" && c.Record.Time == "" {
		log.Warn("files have no arrival times: all events precede all labels, and no wait expires. Name the field of the time with record.time")
	}
	events := inputOf(c, o.data)
	events.Record.Unlabeled, events.Record.Growing = true, true // a later run may continue where this one ends
	later := events
	later.Where, later.Record, later.Kafka.Topics = o.labels, c.Labels.LabelRecord(c.Record), c.Labels.Topics
	if err := later.Record.Check(); err != nil {
		return usageError{fmt.Errorf("[labels] %w", err)}
	}
	r := s.runner
	lanes, opened, err := openLanes(ctx, r.Schema, r.Offsets, events, later, log)
	if err != nil {
		return err
	}
	var all consumers
	for _, o := range opened {
		s.close = append(s.close, o.Close)
		if file, ok := o.(*stream.File); ok && file.Holds(events.Where) {
			askAs(asked, c.Record, file)
		}
		if consumer, ok := o.(*stream.Consumer); ok {
			all = append(all, consumer)
		}
	}
	if o.shard != nil {
		for i := range lanes {
			lanes[i].Decoder = &keyedDecoder{lanes[i].Decoder, lanes[i].Topic, keysChecked}
		}
	}
	merge := labels.NewMerge(r.Schema, lanes, r.Labels)
	r.Source = merge
	if len(all) == 0 {
		return nil
	}
	consuming.Store(&all)
	if !c.Kafka.UntilEnd {
		a := &addedPartitions{schema: r.Schema, known: map[stream.TopicPartition]bool{}, consuming: consuming, log: log}
		for i := range lanes {
			a.known[stream.TopicPartition{Topic: lanes[i].Topic, Partition: lanes[i].Partition}] = true
		}
		merge.Added = a.open
		s.close = append(s.close, a.watch(events, later))
	}
	if group := c.Kafka.Group; group != "" && o.data == "" {
		r.Commit = func(ctx context.Context, offsets event.Offsets) error { return all[0].Commit(ctx, group, offsets) }
	}
	return nil
}

// openLanes opens all partitions of events and of labels at their positions in from. It also returns the resources that
// the caller must close, one element for each lane (a partition of events or labels).
func openLanes(ctx context.Context, s *event.Schema, from event.Offsets, events, later stream.Input, log *slog.Logger) (lanes []labels.Lane, all []stream.Opened, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(all))
		}
	}()
	for i, in := range []stream.Input{events, later} {
		in.Kafka.Log, in.Record.Growing = log, events.Record.Growing
		partitions, err := in.Partitions(ctx)
		if err != nil {
			return nil, all, err
		}
		for _, p := range partitions {
			lane, opened, err := openLane(ctx, s, from, p, i == 1, log)
			if err != nil {
				return nil, all, err
			}
			lanes, all = append(lanes, *lane), append(all, opened)
		}
	}
	return lanes, all, nil
}

// openLane opens a partition and decodes its records for Merge. log may be nil.
func openLane(ctx context.Context, s *event.Schema, from event.Offsets, p stream.Partition, isLabels bool, log *slog.Logger) (*labels.Lane, stream.Opened, error) {
	lane := &labels.Lane{Topic: p.Topic, Partition: p.Number, Labels: isLabels}
	if log != nil {
		lane.Late = func() {
			log.Warn("a new partition has records older than the learned ones: they are learned next, so a repeated run will differ", "topic", p.Topic, "partition", p.Number)
		}
		n := 0 // records out of order: the first is logged, the second, the fourth and so on
		lane.Odd = func(offset, at int64) {
			if n++; n&(n-1) == 0 {
				log.Warn("a record's time is out of order: it gets the time of the record before; check the clock of its writer",
					"topic", p.Topic, "partition", p.Number, "offset", offset, "time", time.UnixMilli(at).UTC(), "out_of_order", n)
			}
		}
	}
	file := p.Where != "" && !strings.HasPrefix(p.Where, "kafka://")
	p.Defer = func(of func(*event.Schema) (record.Decoder, error)) (_ record.Decoder, err error) {
		if isLabels {
			lane.Decoder, err = labels.NewLabelDecoder(of, s)
		} else {
			lane.Decoder, err = of(s)
		}
		if err != nil || !file {
			return &labels.Deferred{}, err
		}
		read := event.NewSchema(1, nil, max(2, s.MaxClasses)) // a separate Schema; a record that it rejects has no time
		read.Target = s.Target
		clock, err := of(read)
		return &labels.Deferred{Clock: clock}, err
	}
	opened, err := p.Open(ctx, s, from)
	if err != nil {
		return nil, nil, err
	}
	lane.Next = opened.Next
	return lane, opened, nil
}

// addedPartitions opens partitions that are added to the topics while events and labels are being joined.
type addedPartitions struct {
	schema    *event.Schema
	found     [2]atomic.Pointer[[]stream.Partition] // partitions of events and of labels
	known     map[stream.TopicPartition]bool        // partitions opened so far
	consuming *atomic.Pointer[consumers]
	opened    []stream.Opened
	log       *slog.Logger
}

// watch looks for new partitions until the returned function stop is called. stop also closes the partitions. The
// method open must not run concurrently with stop.
func (a *addedPartitions) watch(events, later stream.Input) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	for i, in := range []stream.Input{events, later} {
		watching.Go(func() { in.Watch(ctx, func(all []stream.Partition) { a.found[i].Store(&all) }) })
	}
	return func() error {
		cancel()
		watching.Wait()
		return closeAll(a.opened)
	}
}

// open opens the partitions that watch has found, at their beginning. If a partition cannot be opened, open tries again
// after watch has found the partition again.
func (a *addedPartitions) open(ctx context.Context) (lanes []labels.Lane, err error) {
	for i := range a.found {
		all := a.found[i].Swap(nil)
		if all == nil {
			continue
		}
		for _, p := range *all {
			name := stream.TopicPartition{Topic: p.Topic, Partition: p.Number}
			if a.known[name] {
				continue
			}
			p.Kafka.Start, p.Kafka.Log = "earliest", a.log
			lane, opened, err := openLane(ctx, a.schema, nil, p, i == 1, a.log)
			if err != nil {
				if ctx.Err() == nil {
					a.log.Warn("a new partition cannot be read yet", "topic", p.Topic, "partition", p.Number, "err", err)
				}
				continue
			}
			a.known[name] = true
			a.opened = append(a.opened, opened)
			if consumer, ok := opened.(*stream.Consumer); ok {
				a.consuming.Store(new(append(slices.Clone(*a.consuming.Load()), consumer)))
			}
			a.log.Info("new partition", "topic", p.Topic, "partition", p.Number)
			lanes = append(lanes, *lane)
		}
	}
	return lanes, nil
}

// joinFlags are the flags of a command that reads events and their labels to the end.
type joinFlags struct {
	labels string
	// counts holds the counts of delayed labels for the most recently read data.
	counts *labels.Counts
}

func (j *joinFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&j.labels, "labels", "", "`FILE` or kafka://… of delayed labels, joined by --id\nan event gets the last label within labels.max_delay")
}

// openJoined opens events joined with their labels.
func (d *dataFlags) openJoined(ctx context.Context, events stream.Input, s *event.Schema) (_ stream.Opened, err error) {
	c := d.joined
	switch {
	case len(d.paths) > 1:
		return nil, usageError{errors.New("--labels needs exactly one -d")}
	case events.Where == "-" || d.join.labels == "-":
		return nil, usageError{errors.New("delayed labels need files or topics, not standard input")}
	}
	if err := c.Check(); err != nil {
		return nil, usageError{fmt.Errorf("[labels] %w", err)}
	}
	if d.record.Time == "" {
		d.say("files have no arrival times: all events precede all labels, and no wait expires. Name the field of the time with --set record.time=FIELD")
	}
	events.Record.Unlabeled = true
	later := events
	later.Where, later.Record = d.join.labels, c.LabelRecord(d.record)
	if err := later.Record.Check(); err != nil {
		return nil, usageError{fmt.Errorf("[labels] %w", err)}
	}
	j, err := joinFiles(ctx, c, s, nil, events, later, nil)
	if err != nil {
		return nil, err
	}
	j.counts = &d.join.counts
	if f, ok := j.opened[0].(*stream.File); ok {
		d.reading = f.Record()
		d.reading.Unlabeled = d.record.Unlabeled
	}
	return j, nil
}

// joinFiles joins events with their labels in a temporary directory, from the given positions to their end. The function
// end, which may be nil, is called for each lane before it is read.
func joinFiles(ctx context.Context, c labels.Config, s *event.Schema, from event.Offsets, events, later stream.Input, end func(*labels.Lane)) (_ *joinedFiles, err error) {
	directory, err := os.MkdirTemp("", "blankout-labels-")
	if err != nil {
		return nil, err
	}
	j := &joinedFiles{directory: directory, counts: new(*labels.Counts)}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.Close())
		}
	}()
	if j.join, err = labels.Open(c, directory, labels.State{}); err != nil {
		return nil, err
	}
	var lanes []labels.Lane
	if lanes, j.opened, err = openLanes(ctx, s, from, events, later, nil); err != nil {
		return nil, err
	}
	if end != nil {
		for i := range lanes {
			end(&lanes[i])
		}
	}
	j.Joined = labels.NewJoined(labels.NewMerge(s, lanes, j.join), j.join, lanes[0].Topic)
	return j, nil
}

// joinedFiles is a stream.Opened that joins events with their labels.
type joinedFiles struct {
	*labels.Joined
	join      *labels.Join
	opened    []stream.Opened
	directory string // directory of waiting events, removed at the end
	counts    **labels.Counts
}

// Close stores the counts, and then closes the events and the labels.
func (j *joinedFiles) Close() error {
	err := closeAll(j.opened)
	if j.join != nil {
		*j.counts = new(j.join.Counts())
		err = errors.Join(err, j.join.Close())
	}
	return errors.Join(err, os.RemoveAll(j.directory))
}

// consumers are either one consumer for each partition or one consumer for all partitions.
type consumers []*stream.Consumer

// stats returns the statistics of the consumers, summed. It returns nil if c is nil.
func (c *consumers) stats() *stream.ConsumerStats {
	if c == nil {
		return nil
	}
	sum := stream.ConsumerStats{Retries: map[string]uint64{}}
	for _, consumer := range *c {
		one := consumer.Stats()
		for cause, n := range one.Retries {
			sum.Retries[cause] += n
		}
		sum.Partitions = append(sum.Partitions, one.Partitions...)
	}
	return &sum
}

// labelSummary summarizes delayed labels. Errors are in percent.
type labelSummary struct {
	labels.Counts
	// LearningError and LearningLogLoss are for predictions at the time of learning. In contrast, progressive_error and
	// progressive_log_loss are for predictions at the event's arrival.
	LearningError   *float64 `json:"learning_error"`
	LearningLogLoss *float64 `json:"learning_log_loss"`
	LearningMAE     *float64 `json:"learning_mae,omitempty"` // mean absolute error, instead of these for regression
}

func summarizeLabels(s *run.Status) *labelSummary {
	if s.Labels == nil {
		return nil
	}
	at := s.AtLearning
	if s.Learner.Numbers != nil {
		return &labelSummary{Counts: *s.Labels, LearningMAE: measure.Defined(at.Error())}
	}
	return &labelSummary{Counts: *s.Labels, LearningError: measure.Defined(100 * at.Error()), LearningLogLoss: measure.Defined(at.MeanLogLoss())}
}
