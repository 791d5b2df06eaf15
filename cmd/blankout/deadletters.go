package main

// The command dead-letters inspects rejected records and sends them again.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"blankout/config"
	"blankout/internal/event"
	"blankout/stream"
	"blankout/stream/record"
)

// deadLetterFlags select the dead letters to use.
type deadLetterFlags struct {
	settings configFlags
	data     string
	reasons  []string
}

func (o *deadLetterFlags) add(c *cobra.Command) {
	o.settings.addHere(c)
	f := c.Flags()
	f.StringVarP(&o.data, "data", "d", "", "`FILE` of dead letters, or kafka://HOST:PORT/TOPIC; - is standard input\n(default: those of [dead_letter])")
	f.StringSliceVar(&o.reasons, "reason", nil, "only records refused for `REASON,…`, such as syntax or label")
}

func (p *program) deadLetters() *cobra.Command {
	c := &cobra.Command{
		Use:     "dead-letters",
		Short:   "List refused records and send them again",
		Example: "  blankout dead-letters list\n  blankout dead-letters replay --reason label",
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(p.deadLettersList(), p.deadLettersReplay())
	return c
}

func (p *program) deadLettersList() *cobra.Command {
	var o deadLetterFlags
	var n int
	c := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, counted by reason",
		Long: `list counts the dead letters of [dead_letter] by reason and shows the newest ones with
their offset, time and bytes. It counts a letter once if a crash stored it twice.`,
		Example: "  blankout dead-letters list\n  blankout dead-letters list -d checkpoints/dead-letters.jsonl --reason syntax -n 5\n  blankout dead-letters list --json",
		RunE: func(c *cobra.Command, _ []string) error {
			if n < 0 {
				return usageError{fmt.Errorf("-n %d: want a number of letters, or 0", n)}
			}
			return p.listDeadLetters(c.Context(), &o, n)
		},
	}
	o.add(c)
	p.addJSON(c)
	c.Flags().IntVarP(&n, "number", "n", 10, "show at most `N` letters")
	return c
}

func (p *program) deadLettersReplay() *cobra.Command {
	var o deadLetterFlags
	var to, out string
	c := &cobra.Command{
		Use:   "replay",
		Short: "Send refused records again",
		Long: `replay writes the records of dead letters to their original partitions, or to another
topic with --to. Bytes, keys and times are kept; headers are not. With -o it writes one
line a record to a file, without keys and times.

The dead letters remain: a second replay sends them again. A letter that a crash stored
twice is sent once. replay skips and names records that a letter holds only in part and,
with -o, records that are not one line of text. The exit code is then 3.`,
		Example: "  blankout dead-letters replay --reason label\n  blankout dead-letters replay --to again --json\n" +
			"  blankout dead-letters replay -d checkpoints/dead-letters.jsonl -o again.jsonl",
		RunE: func(c *cobra.Command, _ []string) error {
			if to != "" && out != "" {
				return usageError{errors.New("--to and -o exclude each other")}
			}
			return p.replayDeadLetters(c.Context(), &o, to, out)
		},
	}
	o.add(c)
	p.addJSON(c)
	f := c.Flags()
	f.StringVar(&to, "to", "", "write to `TOPIC`, partitioned by key, instead of the original partitions")
	f.StringVarP(&out, "output", "o", "", "write the records to `FILE`, a line each (- is standard output)")
	return c
}

// letterCount counts the dead letters found.
type letterCount struct {
	Letters  int            `json:"letters"`
	ByReason map[string]int `json:"by_reason"`
	Repeated int            `json:"repeated"` // letters that were stored twice, counted once
	Damaged  int            `json:"damaged"`  // positions without a valid letter
}

// each calls do once for every letter whose reason is selected by the flags.
func (o *deadLetterFlags) each(ctx context.Context, p *program, c *config.Config, do func(*stream.Letter) error) (n letterCount, err error) {
	n.ByReason = map[string]int{}
	in := stream.Input{Where: cmp.Or(o.data, c.DeadLetters().File), Kafka: c.Kafka.ConsumerConfig}
	if o.data == "" && c.DeadLetter.Topic != "" {
		in.Where, in.Kafka.Topics, in.Kafka.UnlabeledTopics, in.Kafka.Partitions = "", []string{c.DeadLetter.Topic}, nil, nil
	}
	// Read all existing letters, even if the configuration specifies another start position for events.
	in.Kafka.Start, in.Kafka.DedupWindow, in.Kafka.CreateTopics = "earliest", 0, false
	in.Kafka.Log = p.logger(p.newScreen(0))
	letters, err := stream.OpenLetters(ctx, in)
	if err != nil {
		return n, err
	}
	defer func() { err = errors.Join(err, letters.Close()) }()
	type place struct {
		topic       string
		partition   int32
		fingerprint uint64
		time        int64
	}
	seen := map[place]bool{}
	for {
		l, err := letters.Next(ctx)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if is[*stream.LetterError](err) {
			n.Damaged++
			p.warn(event.Printable(err.Error()))
			continue
		}
		if err != nil {
			return n, err
		}
		reason := string(l.Reason)
		if len(o.reasons) > 0 && !slices.Contains(o.reasons, reason) {
			continue
		}
		at := place{l.Topic, l.Partition, record.Fingerprint(l.Offset, l.Key, l.Value), l.Time}
		if seen[at] {
			n.Repeated++
			continue
		}
		seen[at] = true
		n.Letters++
		n.ByReason[reason]++
		if err := do(l); err != nil {
			return n, err
		}
	}
}

func (p *program) listDeadLetters(ctx context.Context, o *deadLetterFlags, most int) error {
	o.settings.findHere()
	l, err := o.settings.load()
	if err != nil {
		return err
	}
	// Partitions are read in any order, so sort the letters themselves to find the latest.
	order := func(a, b *stream.Letter) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset), bytes.Compare(a.Value, b.Value))
	}
	latest := []*stream.Letter{}
	n, err := o.each(ctx, p, &l.Config, func(l *stream.Letter) error {
		at, _ := slices.BinarySearchFunc(latest, l, order)
		if latest = slices.Insert(latest, at, l); len(latest) > most {
			latest = slices.Delete(latest, 0, 1)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if p.json {
		return p.encode(struct {
			letterCount
			Latest []*stream.Letter `json:"latest"`
		}{n, latest})
	}
	fmt.Fprintf(p.stdout, "%s, %s stored more than once, %s\n", plural(n.Letters, "dead letter"), humanize.Comma(int64(n.Repeated)), plural(n.Damaged, "damaged place"))
	byCount := func(a, b string) int {
		return cmp.Or(cmp.Compare(n.ByReason[b], n.ByReason[a]), cmp.Compare(a, b))
	}
	for _, reason := range slices.SortedFunc(maps.Keys(n.ByReason), byCount) {
		fmt.Fprintf(p.stdout, "%-16s %s\n", event.Printable(reason), humanize.Comma(int64(n.ByReason[reason])))
	}
	for _, l := range latest {
		at := "no time"
		if l.Time > 0 {
			at = time.UnixMilli(l.Time).UTC().Format(time.RFC3339)
		}
		why := string(l.Reason) + ": " + l.Detail
		fmt.Fprintf(p.stdout, "\n%s/%d/%d  %s\n  %s\n", event.Printable(l.Topic), l.Partition, l.Offset, at, event.Printable(why))
		const shown = 200
		value, rest := l.Value, ""
		if len(value) > shown {
			value, rest = value[:shown], fmt.Sprintf("… (%s in all)", plural(len(l.Value), "byte"))
		}
		fmt.Fprintf(p.stdout, "  %s%s\n", event.Printable(string(value)), rest)
	}
	return nil
}

// replayed is the JSON output of replay.
type replayed struct {
	letterCount
	Replayed map[string]int `json:"replayed"` // number of records sent, by topic or file
	LeftOut  map[string]int `json:"left_out"` // number of records not sent, by reason
}

func (p *program) replayDeadLetters(ctx context.Context, o *deadLetterFlags, to, out string) (err error) {
	o.settings.findHere()
	l, err := o.settings.load()
	if err != nil {
		return err
	}
	if to != "" && to == l.DeadLetter.Topic {
		return usageError{fmt.Errorf("--to %s: this is the topic of the dead letters; choose another", to)}
	}
	n := replayed{Replayed: map[string]int{}, LeftOut: map[string]int{}}
	var file *resultFile
	if out != "" {
		if out != "-" && out == cmp.Or(o.data, l.DeadLetters().File) {
			return usageError{fmt.Errorf("-o %s: this is the file of the dead letters; choose another", out)}
		}
		if file, err = p.create(out); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
	}
	producers := map[string]*stream.Producer{}
	defer func() {
		for _, producer := range producers {
			err = errors.Join(err, producer.Close())
		}
	}()
	connection := l.Kafka.ConnectConfig
	produce := func(l *stream.Letter) (err error) {
		topic := cmp.Or(to, l.Topic)
		producer := producers[topic]
		if producer == nil {
			c := stream.DefaultProducerConfig()
			c.ConnectConfig, c.Topic, c.Log = connection, topic, p.logger(p.newScreen(0))
			if producer, err = stream.NewProducer(ctx, c); err != nil {
				return fmt.Errorf("%w (choose another target with --to TOPIC or -o FILE)", err)
			}
			producers[topic] = producer
		}
		m := stream.Message{Key: l.Key, Value: l.Value, Time: l.Time}
		if to != "" {
			err = producer.Write(ctx, m)
		} else {
			err = producer.WriteTo(ctx, l.Partition, m)
		}
		if err != nil {
			return fmt.Errorf("%s/%d offset %d: %w", l.Topic, l.Partition, l.Offset, err)
		}
		n.Replayed[topic]++
		return nil
	}
	n.letterCount, err = o.each(ctx, p, &l.Config, func(l *stream.Letter) error {
		why := l.Partial()
		line := l.Value
		if why == "" && file != nil {
			line, why = asLine(line)
		}
		switch {
		case why != "":
			n.LeftOut[why]++
			p.warn(fmt.Sprintf("%s/%d offset %d is skipped: %s", event.Printable(l.Topic), l.Partition, l.Offset, why))
			return nil
		case file == nil:
			return produce(l)
		}
		n.Replayed[out]++
		_, err := file.Write(append(line, '\n'))
		return err
	})
	for _, topic := range slices.Sorted(maps.Keys(producers)) {
		err = errors.Join(err, producers[topic].Flush(ctx))
	}
	if err != nil {
		return fmt.Errorf("%w (some records may have been written; all dead letters remain)", err)
	}
	for _, where := range slices.Sorted(maps.Keys(n.Replayed)) {
		p.note(fmt.Sprintf("wrote %s to %s", plural(n.Replayed[where], "record"), event.Printable(where)))
	}
	if len(n.Replayed) == 0 {
		p.note("wrote no record")
	}
	if err := p.encode(n); err != nil {
		return err
	}
	left := 0
	for _, k := range n.LeftOut {
		left += k
	}
	if left > 0 {
		return refusedError{fmt.Errorf("%s of %s left out", humanize.Comma(int64(left)), plural(n.Letters, "record"))}
	}
	return nil
}

// asLine returns a record as one line of a file. If this is impossible, why is the reason. Line breaks are removed from
// JSON.
func asLine(value []byte) (line []byte, why string) {
	if bytes.ContainsAny(value, "\r\n") && json.Valid(value) {
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err == nil {
			return compact.Bytes(), ""
		}
	}
	switch {
	case len(bytes.TrimSpace(value)) == 0:
		return nil, "it is empty, so it cannot be a line of a file"
	case bytes.ContainsAny(value, "\r\n") || strings.ContainsRune(string(value), 0) || !utf8.Valid(value):
		return nil, "it is not one line of text"
	}
	return value, ""
}
