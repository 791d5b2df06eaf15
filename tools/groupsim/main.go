// Command groupsim simulates a network in which many members learn one model.
//
//	go run ./tools/groupsim -d FILE [-test FILE] [-members 1,8,32] [-interval 1000] …
//
// It distributes the events of a file to the partitions of a simulated topic. The members learn these events as a group
// of processes would. Each member learns intervals of the events of its own partitions. It appends commits to a log,
// from which all members build the same model. Learning, log records and the rule for accepting commits are the real
// code; network and time are simulated. The members read events as fast as they can. A member waits for the response to
// a commit before it sends the next commit.
//
// It prints a line for each number of members and each interval. A line has the errors in percent, the log-losses in
// nats, the bytes written, the number of events learned again, and the simulated time. The columns lost and twice count
// records that were lost or learned twice; both counts must be 0.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/online"
	"blankout/stream"
	"blankout/stream/record"
	"blankout/tools/groupsim/members"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "groupsim:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	learner, m := online.DefaultConfig(), members.Members{Fraction: 0.02}
	f := flag.NewFlagSet("groupsim", flag.ContinueOnError)
	data := f.String("d", "", "the `FILE` of events")
	test := f.String("test", "", "measure the model by the events of `FILE`")
	counts := f.String("members", "1,8,32", "`N,…` members")
	intervals := f.String("interval", "1000", "`N,…`: the least events that a member learns between two commits; 2 % of all so far, among all, if that is more")
	f.Uint64Var(&m.Warm, "warm", 10_000, "the first `N` events are learned by one alone")
	f.IntVar(&m.Partitions, "partitions", 0, "of the topic, `N`; 0 is one for each member")
	f.Float64Var(&m.Rate, "rate", 20_000, "`EVENTS` that a member learns in a second")
	f.IntVar(&m.Precision, "precision", 32, "`BITS` of a weight's change: 32 or 64")
	f.StringVar(&learner.Noise, "noise", learner.Noise, "`NOISE` of the learner")
	delay := f.Duration("delay", 5*time.Millisecond, "mean `TIME` of an append, and of a read")
	f.Float64Var(&m.Loss, "loss", 0, "`SHARE` of the appends that do not arrive, and of the answers")
	timeout := f.Duration("timeout", time.Second, "`TIME` after which an append without an answer is made again")
	f.Float64Var(&m.Crash, "crash", 0, "`SHARE` of the intervals in which a member dies")
	f.Float64Var(&m.Pause, "pause", 0, "`SHARE` of the intervals in which a member stands still for up to three sessions, and then goes on as if nothing had been")
	session := f.Duration("session", 10*time.Second, "`TIME` after which a member that is not heard of loses its partitions")
	f.Uint64Var(&m.Seed, "seed", 0, "of everything random")
	if err := f.Parse(args); err != nil {
		return err
	}
	m.Delay, m.Timeout, m.Session = delay.Seconds(), timeout.Seconds(), session.Seconds()
	if *data == "" {
		return errors.New("name a file of events with -d")
	}
	records := record.DefaultConfig()
	records.Counts = loss.OfCounts(learner.Noise)
	schema := records.Schema()
	events, err := read(ctx, *data, records, schema)
	if err != nil {
		return err
	}
	var tested []event.Example
	if *test != "" {
		if tested, err = read(ctx, *test, records, schema); err != nil {
			return err
		}
	}
	fmt.Fprint(out, "| members | interval | progressive error | log-loss | test error | log-loss | accepted | rejected | events again | MB written | seconds | lost | twice |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for interval := range strings.SplitSeq(*intervals, ",") {
		for n := range strings.SplitSeq(*counts, ",") {
			if m.Interval, err = strconv.ParseUint(interval, 10, 64); err != nil {
				return err
			}
			if m.N, err = strconv.Atoi(n); err != nil {
				return err
			}
			r, err := m.Run(ctx, learner, schema, events, tested)
			if err != nil {
				return err
			}
			fmt.Fprintln(out, row(r))
			if r.Lost > 0 || r.Twice > 0 || !r.Replicas {
				return fmt.Errorf("%s members: %d records lost, %d counted twice, replicas equal: %v: this is a mistake of the program", n, r.Lost, r.Twice, r.Replicas)
			}
		}
	}
	return nil
}

// row returns the line of a result in the table.
func row(r *members.MembersResult) string {
	rejected := uint64(0)
	for _, n := range r.Rejected {
		rejected += n
	}
	testError, testLoss := "", ""
	if r.TestError != nil {
		testError, testLoss = fmt.Sprintf("%.2f", *r.TestError), fmt.Sprintf("%.4f", *r.TestLogLoss)
	}
	return fmt.Sprintf("| %s | %s | %.2f | %.4f | %s | %s | %s | %s | %s | %.1f | %.1f | %d | %d |", humanize.Comma(int64(r.Members)), humanize.Comma(int64(r.Interval)),
		r.ProgressiveError, r.ProgressiveLogLoss, testError, testLoss, humanize.Comma(int64(r.Accepted)), humanize.Comma(int64(rejected)), humanize.Comma(int64(r.Reprocessed)), float64(r.Bytes)/1e6, r.Seconds, r.Lost, r.Twice)
}

// read returns copies of the events of a file.
func read(ctx context.Context, path string, c record.Config, s *event.Schema) (events []event.Example, err error) {
	in, err := stream.Input{Where: path, Record: c, Kafka: stream.DefaultConsumerConfig()}.Open(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	for {
		var b event.Batch
		if err := in.Next(ctx, &b); errors.Is(err, io.EOF) {
			return events, nil
		} else if err != nil {
			return nil, err
		}
		for i := range b.Examples {
			e := &b.Examples[i]
			if e.Refused != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, e.Offset+1, e.Refused)
			}
			c := event.Example{Label: e.Label, Weight: e.Weight, Time: e.Time}
			c.Features.Index, c.Features.Value = slices.Clone(e.Features.Index), slices.Clone(e.Features.Value)
			c.Field, c.Missing = slices.Clone(e.Field), slices.Clone(e.Missing)
			events = append(events, c)
		}
	}
}
