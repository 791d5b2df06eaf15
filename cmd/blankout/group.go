package main

// This file implements groups of learners: the member that run --group starts, and the commands that inspect a group's
// commit log.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"blankout/config"
	"blankout/internal/event"
	"blankout/internal/run"
	"blankout/online/group"
	"blankout/serve"
	"blankout/stream"
	"blankout/stream/record"
)

// newMember returns the member of a configuration.
func newMember(c *config.Config, log *slog.Logger) *group.Member {
	if len(c.Record.Classes) == 0 && c.Record.MaxClasses == record.DefaultMaxClasses {
		c.Record.MaxClasses = 2 // without a limit, all members would have to add a class at the same event
	}
	return &group.Member{
		Config: c.Group, Kafka: c.Kafka.ConsumerConfig, Learner: c.Learner, Schema: c.Record.Schema, Log: log,
		Settings: config.Fingerprint(c.Learner, c.Record, c.Validate.Config), Validator: newValidator(c, "", log),
		Open: func(ctx context.Context, kafka stream.ConsumerConfig, s *event.Schema, from event.Offsets) (stream.Opened, error) {
			return stream.Input{Record: c.Record, Kafka: kafka}.Open(ctx, s, from)
		},
	}
}

// learnInGroup implements run --group: it runs a member with its HTTP server and its dead letters.
func (p *program) learnInGroup(ctx context.Context, o runFlags, c *config.Config) error {
	for flag, given := range map[string]bool{"--data": o.data != "", "--labels": o.labels != "", "--reset": o.reset, "--from": o.from != "", "--max-events": o.maxEvents > 0} {
		if given {
			return usageError{fmt.Errorf("run --group: %s belongs to a single learner, but a group keeps its state in topics: name another directory", flag)}
		}
	}
	screen := p.newScreen(10 * time.Second)
	log := p.logger(screen)
	if err := c.OpenRegistry(log); err != nil {
		return usageError{err}
	}
	c.Record.KeepValue = true // the web page shows values
	c.Record.Infer = false    // members decode different events, but must read them alike
	m := newMember(c, log)
	m.From = o.fromGroup
	reports, foreign, err := serve.OpenReports(c.Validate.Directory, keptReports)
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if len(foreign) > 0 {
		log.Warn("some files in the reports directory are not reports; they are ignored", "files", foreign)
	}
	m.Report = reports.Add
	s := &service{}
	started := time.Now()
	model := serve.Latest(memberModel(m), c.Record)
	snapshots := &writerSnapshots{member: m, log: log, open: func(ctx context.Context) (*serve.Snapshots, error) {
		return serve.OpenSnapshots(ctx, c.Snapshot, c.Kafka.ConnectConfig, c.Kafka.CreateTopics, c.S3, model, log)
	}}
	if c.HTTP.Address != "" {
		shown := serve.Service{
			Status: memberStatus(m, started), Model: model, Registry: c.Record.Registry, Group: m.Status,
			Reports: reports, Validate: m.Validate, Snapshots: snapshots.places.Load,
		}
		if err := s.startServer(c.HTTP.Config, shown, log); err != nil {
			return fmt.Errorf("run: %w", err)
		}
	}
	if c.Snapshot.Topic != "" || c.Snapshot.File != "" || c.Snapshot.Object != "" {
		if err := snapshots.check(ctx); err != nil {
			return fmt.Errorf("run: %w", errors.Join(err, s.Close()))
		}
		s.close = append(s.close, snapshots.start())
	}
	if c.DeadLetter.Policy == run.PolicyDeadLetter && !c.Checkpoint.Objects() && c.DeadLetter.DeadLetterConfig == (stream.DeadLetterConfig{}) {
		if err := os.MkdirAll(string(c.Checkpoint.Directory), 0o700); err != nil {
			return fmt.Errorf("run: %w", errors.Join(err, s.Close()))
		}
	}
	if m.DeadLetters, err = s.openLetters(ctx, c, log); err != nil {
		return fmt.Errorf("run: %w", errors.Join(err, s.Close()))
	}
	m.Observe = func(s *group.Status) {
		if screen.due() {
			log.Info("learning", "group", c.Group.Name, "members", s.Members, "partitions", len(s.Partitions), "events", s.Learner.Events,
				"error", fmt.Sprintf("%.2f%%", 100*s.Learner.Window.Error()), "commit log", s.Offset, "accepted", s.Accepted, "rejected", s.Rejected)
		}
	}
	if err := errors.Join(m.Run(ctx), s.Close()); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	status := m.Status()
	if status == nil { // the member stopped before anything was applied
		return nil
	}
	by := map[event.Reason]uint64{}
	for reason, r := range status.Learner.RefusedBy {
		by[reason] = r.Count
	}
	log.Info("stopped", "events", status.Learner.Events, "committed", status.Committed, "refused", status.Refused-passedOver(by), "reprocessed_events", status.Reprocessed)
	if !o.json {
		return nil
	}
	return json.NewEncoder(p.stdout).Encode(status)
}

// memberStatus returns a function that converts a member's Status to a run.Status. The counts are for the whole group.
func memberStatus(m *group.Member, started time.Time) func() *run.Status {
	return func() *run.Status {
		out := &run.Status{NotReady: "not started", Started: started}
		s := m.Status()
		if s == nil {
			return out
		}
		out.NotReady, out.Learner, out.Warnings = s.NotReady, s.Learner, s.Warnings
		out.Counts = s.Counts
		out.Validation = s.Validation
		for _, p := range s.Positions {
			out.Partitions = append(out.Partitions, run.PartitionStatus{Position: p, HighWater: -1})
		}
		for _, end := range s.Ends {
			at := slices.IndexFunc(out.Partitions, func(p run.PartitionStatus) bool { return p.Topic == end.Topic && p.Partition == end.Partition })
			if at < 0 { // nothing of the partition has been learned yet
				at = len(out.Partitions)
				out.Partitions = append(out.Partitions, run.PartitionStatus{Position: event.Position{Topic: end.Topic, Partition: end.Partition, Next: end.HighWater - end.Lag}})
			}
			out.Partitions[at].HighWater = end.HighWater
		}
		return out
	}
}

// memberModel returns a function that returns a member's newest model as a published model.
func memberModel(m *group.Member) func() *run.Published {
	var mu sync.Mutex
	var last *run.Published
	return func() *run.Published {
		mu.Lock()
		defer mu.Unlock()
		s := m.Status()
		if s == nil {
			return nil
		}
		if model := s.Model.Model(); last == nil || last.Linear != model {
			last = &run.Published{Linear: model, Version: uint64(s.Version), Offsets: s.Positions, At: s.At}
		}
		return last
	}
}

// writerSnapshots sends the group's model to its destinations while this member is the writer. The version of a model
// is an offset of the commit log, so every writer uses the same versions.
type writerSnapshots struct {
	member *group.Member
	open   func(context.Context) (*serve.Snapshots, error)
	log    *slog.Logger
	places atomic.Pointer[serve.Snapshots] // destinations; nil while another member is the writer
}

// check opens the destinations once, so that errors are reported before learning starts.
func (w *writerSnapshots) check(ctx context.Context) error {
	there, err := w.open(ctx)
	if err != nil {
		return err
	}
	version := there.Version()
	if err := there.Close(); err != nil {
		return err
	}
	// Versions of a single learner contain the number of its starts in their upper 32 bits.
	if version>>32 > 0 {
		return usageError{fmt.Errorf("snapshots: version %d was published by a single learner, and the group cannot exceed it: give the group another [snapshot] topic, file or object", version)}
	}
	return nil
}

// start waits in the background until this member becomes the writer. The returned function stops waiting and sending.
func (w *writerSnapshots) start() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if s := w.member.Status(); s != nil && s.Writer {
				if err := w.turn(ctx); err != nil {
					w.log.Error("snapshots cannot be published; trying again", "err", err)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return func() error { cancel(); running.Wait(); return nil }
}

// turn sends models until this member is no longer the writer or ctx ends.
func (w *writerSnapshots) turn(ctx context.Context) error {
	places, err := w.open(ctx)
	if err != nil {
		return err
	}
	w.places.Store(places)
	defer w.places.Store(nil)
	writing, end := context.WithCancel(ctx)
	defer end()
	var running sync.WaitGroup
	running.Go(func() { places.Run(writing) })
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for mine := true; mine && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-look.C:
			s := w.member.Status()
			mine = s != nil && s.Writer
		}
	}
	end()
	running.Wait()
	return places.Close()
}

// groupCommand returns the command group.
func (p *program) groupCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "group",
		Short:   "Inspect and repair a group of learners",
		Long:    `group inspects and repairs a group of learners that run --group started.`,
		Example: "  blankout group verify fraud -f blankout.toml\n  blankout group skip fraud events/0 150 -f blankout.toml",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(p.groupVerify(), p.groupSkip())
	return c
}

func (p *program) groupSkip() *cobra.Command {
	var settings configFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "skip NAME TOPIC/PARTITION OFFSET",
		Short: "Make a group skip records that were deleted before it learned them",
		Long: `skip makes the group NAME continue at OFFSET of a partition of its events. Use it if retention
deleted the records that the group would learn next; its members then stop with an error that
names this command. Earlier records are not learned. The skip is in the commit log, so all
members make it at the same point, and inspect --group, /v1/group and a metric report it.
Start the stopped members again.`,
		Example: "  blankout group skip fraud events/0 150 -f blankout.toml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 3 {
				return usageError{fmt.Errorf("%s: want NAME TOPIC/PARTITION OFFSET, not %d arguments", c.CommandPath(), len(args))}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			topic, number := path.Split(args[1])
			topic = strings.TrimSuffix(topic, "/")
			partition, err := strconv.ParseInt(number, 10, 32)
			to, err2 := strconv.ParseInt(args[2], 10, 64)
			if topic == "" || err != nil || err2 != nil || partition < 0 || to < 0 {
				return usageError{fmt.Errorf("group skip: %q %q: want TOPIC/PARTITION and an OFFSET, as in events/0 51200", args[1], args[2])}
			}
			l, err := settings.loadGroup(args[:1])
			if err != nil {
				return err
			}
			log := p.logger(p.newScreen(10 * time.Second))
			if err := l.OpenRegistry(log); err != nil {
				return usageError{err}
			}
			gap, err := group.SkipTo(c.Context(), newMember(&l.Config, log), topic, int32(partition), to)
			if err != nil {
				return fmt.Errorf("group skip: %w", err)
			}
			if asJSON {
				return json.NewEncoder(p.stdout).Encode(gap)
			}
			_, err = fmt.Fprintf(p.stdout, "group %s skips %s: at most %s records are not learned\n", event.Printable(args[0]), event.Printable(gap.String()), humanize.Comma(gap.To-gap.From))
			return err
		},
	}
	settings.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object on standard output")
	return c
}

func (p *program) groupVerify() *cobra.Command {
	var settings configFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify [NAME]",
		Short: "Apply a group's commit log again and compare its snapshots",
		Long: `verify applies the commit log of the group again, from its beginning or its oldest snapshot,
and compares every later snapshot with the result, byte for byte. The exit code is 3 if one
differs. Use the configuration of the members, which may continue to run. NAME defaults to
group.name.`,
		Example: "  blankout group verify fraud -f blankout.toml",
		Args:    oneGroup,
		RunE: func(c *cobra.Command, args []string) error {
			r, err := p.inspectGroup(c.Context(), args, &settings)
			if err != nil {
				return fmt.Errorf("group verify: %w", err)
			}
			if err := p.printGroup(r, asJSON); err != nil {
				return err
			}
			if err := r.Verified(); err != nil {
				return fmt.Errorf("group verify: %w", refusedError{err})
			}
			return nil
		},
	}
	settings.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object on standard output")
	return c
}

// oneGroup accepts one argument, the name of a group, or none. If there is no argument, the name is group.name of the
// configuration.
func oneGroup(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("%s: want one group, not %d", c.CommandPath(), len(args))}
	}
	return nil
}

// loadGroup is load for the named group, or for the group of the configuration if there is no name.
func (f *configFlags) loadGroup(name []string) (*config.Loaded, error) {
	var flags []string
	if len(name) > 0 {
		flags = []string{"group.name=" + name[0]}
	}
	l, err := f.load(flags...)
	if err == nil && l.Config.Group.Name == "" {
		err = usageError{errors.New("name the group, or set group.name")}
	}
	return l, err
}

// inspectGroup applies the commit log of a group and returns a report about the group.
func (p *program) inspectGroup(ctx context.Context, name []string, settings *configFlags) (*group.Report, error) {
	l, err := settings.loadGroup(name)
	if err != nil {
		return nil, err
	}
	log := p.logger(p.newScreen(10 * time.Second))
	if err := l.OpenRegistry(log); err != nil {
		return nil, usageError{err}
	}
	return group.Inspect(ctx, newMember(&l.Config, log))
}

// printGroup prints a report as text or JSON.
func (p *program) printGroup(r *group.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(p.stdout).Encode(r)
	}
	return printText(p.stdout, r, math.MaxInt)
}
