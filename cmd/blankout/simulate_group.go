package main

// The command simulate group has many members learn one model in a simulated network.

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"blankout"
	"blankout/online"
	"blankout/simulate"
)

type simulateGroupFlags struct {
	data      dataFlags
	test      []string
	members   []int
	intervals []uint
	settings  simulate.Members
	learner   online.Config
	delay     time.Duration
	timeout   time.Duration
	session   time.Duration
	json      bool
}

func (p *program) simulateGroup() *cobra.Command {
	o := simulateGroupFlags{learner: online.DefaultConfig(), settings: simulate.Members{Warm: 10_000, Share: 0.02, Precision: 32, Rate: 20_000}}
	c := &cobra.Command{
		Use:   "group -d FILE --members N,…",
		Short: "Have many members learn one model in a simulated network",
		Long: `simulate group deals the events of a file to the partitions of a simulated topic, and has
members learn them together, as a group of processes would: each learns intervals of
its own partitions' events and appends what it has learned to a log, of which all
make the same model. The learning, the records of the log and the rule by which they
count are the real ones; the network and the time are simulated. The members read all
events as fast as they can, and wait for the answer to one commit before the next.

It says what the model is worth and what it takes: for each number of members and each
interval the errors in percent and the log-losses in nats, the bytes written, the
events learned again, and the simulated time. lost and twice count records, and are 0.`,
		Example: "  blankout simulate group -d train.svm --test test.svm --members 1,4 --interval 2 --warm 4 --json\n" +
			"  blankout simulate group -d train.svm --members 8 --interval 2 --warm 4 --crash 0.1 --pause 0.1 --loss 0.1 --delay 50ms",
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return usageError{fmt.Errorf("simulate group: %w", err)}
			}
			if err := p.runSimulateGroup(c.Context(), &o); err != nil {
				return fmt.Errorf("simulate group: %w", err)
			}
			return nil
		},
	}
	o.data.learns = true
	o.data.add(c)
	f, s := c.Flags(), &o.settings
	f.StringArrayVar(&o.test, "test", nil, "measure the model by the events of `FILE`")
	f.IntSliceVar(&o.members, "members", []int{1, 8, 32}, "`N,…` members")
	f.UintSliceVar(&o.intervals, "interval", []uint{1000}, "`N,…`: the least events that a member learns between two commits; 2 % of all so far, among all, if that is more")
	f.Uint64Var(&s.Warm, "warm", s.Warm, "the first `N` events are learned by one alone")
	f.IntVar(&s.Partitions, "partitions", 0, "of the topic, `N`; 0 is one for each member")
	f.Float64Var(&s.Rate, "rate", s.Rate, "`EVENTS` that a member learns in a second")
	f.IntVar(&s.Precision, "precision", s.Precision, "`BITS` of a weight's change: 32 or 64")
	f.StringVar(&o.learner.Noise, "noise", o.learner.Noise, "`NOISE`: "+valuesUsage(append(blankout.NoiseNames(), "auto")))
	f.DurationVar(&o.delay, "delay", 5*time.Millisecond, "mean `TIME` of an append, and of a read")
	f.Float64Var(&s.Loss, "loss", 0, "`SHARE` of the appends that do not arrive, and of the answers")
	f.DurationVar(&o.timeout, "timeout", time.Second, "`TIME` after which an append without an answer is made again")
	f.Float64Var(&s.Crash, "crash", 0, "`SHARE` of the intervals in which a member dies")
	f.Float64Var(&s.Pause, "pause", 0, "`SHARE` of the intervals in which a member stands still for up to three sessions, and then\ngoes on as if nothing had been")
	f.DurationVar(&o.session, "session", 10*time.Second, "`TIME` after which a member that is not heard of loses its partitions")
	f.Uint64Var(&s.Seed, "seed", 0, "of everything random")
	f.BoolVar(&o.json, "json", false, "the result as one JSON object on standard output")
	for name, value := range map[string]string{"members": "1,8,32", "interval": "1000"} {
		f.Lookup(name).DefValue = value
	}
	return c
}

func (o *simulateGroupFlags) check() error {
	o.settings.Delay, o.settings.Timeout, o.settings.Session = o.delay.Seconds(), o.timeout.Seconds(), o.session.Seconds()
	for _, n := range o.members {
		for _, interval := range o.intervals {
			m := o.settings
			if m.N, m.Interval = n, uint64(interval); m.N < 1 {
				return fmt.Errorf("--members %d: want at least 1", n)
			}
			if err := m.Check(); err != nil {
				return err
			}
		}
	}
	if slices.Contains(o.data.paths, "-") || len(o.data.paths) == 0 {
		return fmt.Errorf("name a file of events with -d; standard input cannot be read again")
	}
	if err := o.learner.Check(); err != nil {
		return err
	}
	return o.learner.CheckSharedAfter(o.settings.Warm)
}

func (p *program) runSimulateGroup(ctx context.Context, o *simulateGroupFlags) error {
	o.data.record.Counts = blankout.OfCounts(o.learner.Noise)
	if err := o.data.resolve(nil); err != nil {
		return err
	}
	if len(o.data.record.Classes) == 0 {
		found := trainFlags{data: o.data}
		classes, err := found.findClasses(ctx, math.MaxInt)
		if err != nil {
			return err
		}
		o.data.record.Classes = classes
	}
	schema := o.data.record.Schema()
	events, err := o.read(ctx, o.data.paths, schema)
	if err != nil {
		return err
	}
	var test []blankout.Example
	if len(o.test) > 0 {
		if test, err = o.read(ctx, o.test, schema); err != nil {
			return err
		}
	}
	var results []*simulate.MembersResult
	for _, interval := range o.intervals {
		for _, n := range o.members {
			m := o.settings
			m.N, m.Interval = n, uint64(interval)
			r, err := m.Run(ctx, o.learner, schema, events, test)
			if err != nil {
				return err
			}
			results = append(results, r)
			if !p.quiet {
				if len(results) == 1 {
					fmt.Fprint(p.stderr, "| members | interval | progressive error | log-loss | test error | log-loss | accepted | rejected | events again | MB written | seconds | lost | twice |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
				}
				fmt.Fprintln(p.stderr, membersRow(r))
			}
			if r.Lost > 0 || r.Twice > 0 || !r.Replicas {
				return fmt.Errorf("%d members: %d records lost, %d counted twice, replicas equal: %v: this is a mistake of the program", n, r.Lost, r.Twice, r.Replicas)
			}
		}
	}
	if o.json {
		return json.NewEncoder(p.stdout).Encode(map[string]any{"runs": results, "refused": o.data.tally.refused})
	}
	return nil
}

// membersRow is a line of the table.
func membersRow(r *simulate.MembersResult) string {
	rejected := uint64(0)
	for _, n := range r.Rejected {
		rejected += n
	}
	testError, testLoss := "", ""
	if r.TestError != nil {
		testError, testLoss = fmt.Sprintf("%.2f", *r.TestError), fmt.Sprintf("%.4f", *r.TestLogLoss)
	}
	return fmt.Sprintf("| %s | %s | %.2f | %.4f | %s | %s | %s | %s | %s | %.1f | %.1f | %d | %d |", humanize.Comma(int64(r.Members)), humanize.Comma(int64(r.Interval)),
		r.ProgressiveError, r.ProgressiveLogLoss, testError, testLoss, humanize.Comma(int64(r.Accepted)), humanize.Comma(int64(rejected)), humanize.Comma(int64(r.Again)), float64(r.Bytes)/1e6, r.Seconds, r.Lost, r.Twice)
}

// read returns copies of the events of files.
func (o *simulateGroupFlags) read(ctx context.Context, paths []string, s *blankout.Schema) (events []blankout.Example, err error) {
	err = o.data.each(ctx, paths, s, func(e *blankout.Example) error {
		c := blankout.Example{Label: e.Label, Weight: e.Weight, Time: e.Time}
		c.Features.Index, c.Features.Value = slices.Clone(e.Features.Index), slices.Clone(e.Features.Value)
		c.Field, c.Missing = slices.Clone(e.Field), slices.Clone(e.Missing)
		events = append(events, c)
		return nil
	})
	return events, err
}
