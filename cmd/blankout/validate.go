package main

// The command validate compares a checkpoint with the exact solution on the same
// events.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/batch"
	"blankout/batch/validate"
	"blankout/checkpoint"
	"blankout/config"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online"
	"blankout/stream"
	"blankout/stream/labels"
)

type validateFlags struct {
	model   string
	data    string
	labels  string
	missing string
	bound   string
	output  string
}

func (p *program) validate() *cobra.Command {
	var o validateFlags
	var settings configFlags
	c := &cobra.Command{
		Use:   "validate -m CHECKPOINT [-f CONFIG]",
		Short: "Compare the current weights with the exact solution on the same events",
		Long: `validate reads the events of a checkpoint again, up to its offsets, and solves the same
problem exactly: loss, noise, penalty and standardization of the checkpoint. It reports the
distance of the current weights, the accuracy of both on held-out events ([validate] holdout)
and under random deletion, and the features, fields or groups whose loss would cost most.

For a directory of checkpoints it takes the newest. Without -f the checkpoint's settings
apply; --set overrides them. If the checkpoint was learned from a file, name the same file
with -d, and a file of delayed labels with --labels.`,
		Example: "  blankout validate -m checkpoints -f blankout.toml\n" +
			"  blankout validate -m checkpoints -f blankout.toml --json\n" +
			"  blankout validate -m checkpoints -f blankout.toml -d events.jsonl --set validate.holdout=0 -o exact.blankout\n" +
			"  blankout validate -m checkpoints -d events.jsonl --missing-policy none\n" +
			"  blankout validate -m checkpoints -d events.jsonl --labels labels.jsonl",
		RunE: func(c *cobra.Command, _ []string) error {
			policy, err := model.ParseMissingPolicy(o.missing)
			if err != nil {
				return usageError{fmt.Errorf("--missing-policy %w", err)}
			}
			if o.bound != "" && o.bound != batch.ExactBound {
				return usageError{fmt.Errorf("--bound %s: want exact, or no --bound for the learner's", o.bound)}
			}
			s, err := readSaved(o.model)
			if err == nil {
				err = forceMissing(s.model, policy)
			}
			if err != nil {
				return err
			}
			given := changed(c, map[string]string{"brokers": "kafka.brokers", "topic": "kafka.topics", "id": "record.id labels.id"})
			l, err := settings.loadFor(s.model, s.file.Blocks, given...)
			if err != nil {
				return located{err}
			}
			if err := checkJoined(&l.Config, o.data, o.labels); err != nil {
				return err
			}
			p.printFormat(&settings, s.model, learnedAs(&l.Config, s.model.Schema)...)
			if err := l.OpenRegistry(nil); err != nil {
				return located{usageError{err}}
			}
			return p.runValidate(c.Context(), &l.Config, &o, s)
		},
	}
	settings.add(c)
	f := c.Flags()
	f.StringVarP(&o.model, "model", "m", "", "`CHECKPOINT`, or a directory, whose newest is taken")
	f.StringVarP(&o.data, "data", "d", "", "`FILE` of events, or kafka://…, that the checkpoint was learned from")
	f.StringVar(&o.labels, "labels", "", "`FILE` of labels that the checkpoint was learned with")
	f.String("id", "", "`FIELD` that joins events and labels [record.id, labels.id]")
	addMissingFlag(c, &o.missing)
	f.StringVar(&o.bound, "bound", "", "`exact`: expectation over all dropout masks, instead of the learner's bound")
	f.StringVarP(&o.output, "output", "o", "", "write the exact solution as a model to `FILE`")
	f.String("brokers", "", "`HOST:PORT,…` [kafka.brokers]")
	f.String("topic", "", "`TOPIC,…` [kafka.topics]")
	p.addJSON(c)
	return c
}

// learnedAs lists the settings of a learner and its holdout that differ from the defaults.
func learnedAs(c *config.Config, s *event.Schema) (own []string) {
	defaults := online.FingerprintOf(online.DefaultConfig(), s)
	for section, f := range map[string]online.Fingerprint{"learner": online.FingerprintOf(c.Learner, s), "validate": c.Validate.Fingerprint()} {
		for key, value := range f {
			if value != defaults[key] {
				own = append(own, fmt.Sprintf("%s.%s %q", section, key, value))
			}
		}
	}
	return own
}

// newValidator returns the validator of a learner with this configuration. Its events are read from the file data or,
// if data is "", from Kafka.
func newValidator(c *config.Config, data string, log *slog.Logger) *validate.Validator {
	v := &validate.Validator{Config: c.Validate.Config, Learner: c.Learner}
	events := inputOf(c, data)
	// The log is read in its current state. Records that are no longer in the log are left out, and the report mentions
	// them.
	events.Kafka.Log = log
	events.Kafka.UntilEnd, events.Kafka.CreateTopics, events.Kafka.Start, events.Kafka.OutOfRange = true, false, "earliest", "earliest"
	v.Open = func(ctx context.Context, s *event.Schema, from event.Offsets) (event.Source, error) {
		return events.Open(ctx, s, from)
	}
	if topic := c.Validate.HoldoutTopic; topic != "" {
		heldOut := events
		heldOut.Where = ""
		heldOut.Kafka.Topics, heldOut.Kafka.UnlabeledTopics, heldOut.Kafka.Partitions, heldOut.Kafka.Only = []string{topic}, nil, nil, nil
		v.OpenHoldout = func(ctx context.Context, s *event.Schema) (event.Source, error) {
			return heldOut.Open(ctx, s, nil)
		}
	}
	return v
}

// joinedValidator makes a Validator read events with delayed labels. The events are read from the file data and the
// labels from the file later. If a file is "", the configured topics are read instead.
func joinedValidator(v *validate.Validator, c *config.Config, data, later string) {
	v.Open, v.OpenHoldout = nil, nil
	v.OpenJoined = func(ctx context.Context, s *event.Schema, from, to event.Offsets) (validate.Joined, error) {
		settings := c.Labels
		settings.IdleTimeout = 0 // all partitions have a given end
		events := inputOf(c, data)
		events.Record.Unlabeled, events.Record.Growing = true, true
		events.Kafka.UntilEnd, events.Kafka.CreateTopics, events.Kafka.Start, events.Kafka.OutOfRange = true, false, "earliest", "earliest"
		of := events
		of.Where, of.Record, of.Kafka.Topics = later, c.Labels.LabelRecord(c.Record), c.Labels.Topics
		j, err := joinFiles(ctx, settings, s, from, events, of, func(l *labels.Lane) {
			first, end := int64(0), int64(0) // read no record of a partition that was added later
			for k, p := range to {
				if p.Topic == l.Topic && p.Partition == l.Partition {
					first, end = from[k].Next, p.Next
				}
			}
			l.End(first, end)
		})
		if err != nil {
			return nil, err
		}
		return j, nil
	}
}

// inputOf returns the source of a learner's events: the file, standard input or address in data. If data is "", the
// source is the configured topics.
func inputOf(c *config.Config, data string) stream.Input {
	in := stream.Input{Where: data, Record: c.Record, Kafka: c.Kafka.ConsumerConfig}
	if data == "-" {
		in.Format = "json"
	}
	return in
}

// readSaved reads a learner's checkpoint.
func readSaved(path string) (*saved, error) {
	if path == "" {
		return nil, usageError{errors.New("name a checkpoint with -m")}
	}
	s, err := readCheckpoint(path)
	if err == nil && s.file.Kind != checkpoint.Linear {
		err = refusedError{fmt.Errorf("%s: a %s model is not learned from a stream", s.path, s.file.Kind)}
	}
	return s, err
}

func (p *program) runValidate(ctx context.Context, c *config.Config, o *validateFlags, s *saved) error {
	if err := modelTarget(o.output); err != nil {
		return err
	}
	path, file, live := s.path, s.file, s.model.Model.(*model.Linear) // readSaved has checked this type
	challengers, err := run.ReadChallengers(file.Blocks)
	if err != nil {
		return refusedError{fmt.Errorf("%s: %w", path, err)}
	}
	c.TakeLearner(challengers.Leader)
	settings := config.Fingerprint(c.Learner, c.Record, c.Validate.Config)
	joined := o.labels != "" || len(c.Labels.Topics) > 0
	if joined {
		maps.Copy(settings, c.Labels.Settings())
	}
	waiting, wasJoined, err := labels.ReadState(file.Blocks)
	switch {
	case err != nil:
		return refusedError{fmt.Errorf("%s: %w", path, err)}
	case wasJoined && !joined:
		return usageError{fmt.Errorf("%s: it was learned with delayed labels: set labels.topics, or name their file with --labels", path)}
	case joined && !wasJoined:
		return usageError{fmt.Errorf("%s: it was learned without delayed labels: remove --labels and labels.topics", path)}
	}
	state, err := run.Resume(c.Learner, settings, file.Blocks)
	if err != nil {
		if is[*online.MismatchError](err) {
			return usageError{fmt.Errorf("%s: %w", path, err)}
		}
		return refusedError{fmt.Errorf("%s: %w", path, err)}
	}
	offsets := state.Offsets
	events := offsets
	if joined {
		events = slices.DeleteFunc(slices.Clone(offsets), func(p event.Position) bool {
			return slices.Contains(c.Labels.Topics, p.Topic) || o.labels != "" && (stream.Input{Where: o.labels}).Holds(p.Topic)
		})
	}
	if err := checkTopics(events, c, o); err != nil {
		return usageError{fmt.Errorf("%s: %w", path, err)}
	}
	screen := p.newScreen(10 * time.Second)
	v := newValidator(c, o.data, slog.New(slog.DiscardHandler))
	v.Exact = o.bound == batch.ExactBound
	v.Config.CPU = 1 // no learner competes for the processor
	open, read := v.Open, 0
	saw := func(n int) {
		if read += n; screen.due() {
			screen.progress(humanize.Comma(int64(read)) + " records read again")
		}
	}
	v.Open = func(ctx context.Context, s *event.Schema, from event.Offsets) (event.Source, error) {
		events, err := open(ctx, s, from)
		if err != nil {
			return nil, err
		}
		return watched{events.(stream.Opened), saw}, nil
	}
	if joined {
		joinedValidator(v, c, o.data, o.labels)
	}
	v.Progress = func(g batch.Progress) {
		if screen.due() {
			screen.progress(fmt.Sprintf("iteration %d: objective %.6g, certified gap %.1e", g.Iteration, g.Objective, g.Gap))
		}
	}
	request := validate.RequestOf(state.Learner.Snapshot(), offsets)
	request.Live, request.Labeled, request.Reservoir = live, c.Labels.Labeled(&waiting.Counts), state.Reservoir
	r, exact, err := v.Validate(ctx, request)
	if errors.Is(err, batch.ErrOneClass) {
		return refusedError{fmt.Errorf("%s: %w", path, err)}
	}
	if err != nil {
		return err
	}
	if o.output != "" {
		if err := served.New(exact, c.Record).WriteFile(o.output); err != nil {
			return err
		}
	}
	if !p.quiet {
		screen.done("validated " + path)
		if err := printText(p.stderr, r, textRows, "reliability"); err != nil {
			return err
		}
	}
	p.warn(r.Alarm)
	if !r.Converged {
		p.warn(fmt.Sprintf("the tolerance %g was not reached, see the certificate", c.Validate.Tol))
	}
	return p.encode(r)
}

// watched is a source that calls a function with the number of examples of each batch.
type watched struct {
	stream.Opened
	saw func(n int)
}

func (w watched) Next(ctx context.Context, b *event.Batch) error {
	err := w.Opened.Next(ctx, b)
	if err == nil {
		w.saw(len(b.Examples))
	}
	return err
}

// checkTopics returns an error if the checkpoint's events are not in the configured topics or the given file.
func checkTopics(offsets event.Offsets, c *config.Config, o *validateFlags) error {
	if len(offsets) == 0 {
		return errors.New("it was learned from no event")
	}
	for _, p := range offsets {
		switch {
		case inputOf(c, o.data).Holds(p.Topic):
		case o.data != "":
			return fmt.Errorf("it was learned from %q, not from %q: name the same input", p.Topic, o.data)
		default:
			return fmt.Errorf("it was learned from %q, which is not in kafka.topics (%s): name a file with -d", p.Topic, strings.Join(c.Kafka.Topics, ", "))
		}
	}
	return nil
}
