package main

// The command demo learns real events from an embedded broker. It then shows the effect of deleting features.

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"blankout/app/run"
	"blankout/batch/validate"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online"
	"blankout/simulate"
	"blankout/stream"
	"blankout/stream/record"
)

// sensorReadings is the embedded data set of the demo, see demodata/README.md.

//go:embed demodata/sensors.jsonl.zst
var sensorReadings []byte

func (p *program) demo() *cobra.Command {
	d := demo{program: p}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Learn from real events in an embedded broker and test the model with missing features",
		Long: `demo starts a Kafka broker inside the process and produces 4,000 labeled events, each
with 32 readings of 16 gas sensors. It learns them one by one, with a stop and a restart
from the checkpoint half way. Then it sets readings of 1,000 other events to null and
measures the error. It needs no setup and leaves no files, unless you give --keep.`,
		Example: "  blankout demo\n  blankout demo --short\n  blankout demo --short --keep kept\n  blankout demo --short --json",
		RunE:    func(c *cobra.Command, _ []string) error { return d.run(c.Context()) },
	}
	c.Flags().BoolVar(&d.short, "short", false, "use a fifth of the events")
	d.addJSON(c)
	c.Flags().StringVar(&d.keep, "keep", "", "keep the checkpoints in `DIR`")
	return c
}

// demo is the state of one run of the command.
type demo struct {
	*program
	short bool
	keep  string

	screen *screen
	record record.Config
	events [][]byte // events to learn
	test   [][]byte // events that are never learned
}

const demoTopic = "sensors"

func (d *demo) run(ctx context.Context) error {
	if err := d.load(); err != nil {
		return err
	}
	dir := d.keep
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "blankout-demo-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	store, err := checkpoint.Open(dir, 3)
	if err != nil {
		return err
	}
	defer store.Close()
	if _, _, err := store.Load(); !errors.Is(err, checkpoint.ErrNone) {
		return usageError{fmt.Errorf("--keep %s already contains checkpoints: name an empty directory", dir)}
	}

	broker, err := stream.StartEmbedded(stream.EmbeddedConfig{Topics: map[string]int32{demoTopic: 1}})
	if err != nil {
		return err
	}
	defer broker.Close()
	d.say("A Kafka broker runs in this process, at %s.", strings.Join(broker.Brokers(), ", "))
	if err := d.produce(ctx, broker); err != nil {
		return err
	}
	d.say("Each has the readings of 16 gas sensors. Which of six gases is it?\n  %.100s…", d.events[3])

	c := online.DefaultConfig()
	d.say("\nLearning each event once, as if readings went missing at random. The learner chooses how many:")
	half := len(d.events) / 2
	if _, err := d.learn(ctx, broker, store, c, uint64(half)); err != nil {
		return err
	}
	d.say("Stopped after %s events and started again from the checkpoint:", humanize.Comma(int64(half)))
	r, err := d.learn(ctx, broker, store, c, 0)
	if err != nil {
		return err
	}
	return d.summary(ctx, r, store)
}

// load decompresses the events.
func (d *demo) load() error {
	d.screen = d.newScreen(time.Second)
	d.record = record.DefaultConfig()
	d.record.Format = "json"
	d.record.Label = "gas"
	zip, err := zstd.NewReader(bytes.NewReader(sensorReadings), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer zip.Close()
	lines := bufio.NewScanner(zip)
	for lines.Scan() {
		d.events = append(d.events, bytes.Clone(lines.Bytes()))
	}
	if d.short {
		d.events = d.events[:len(d.events)/5]
	}
	learn := len(d.events) * 4 / 5
	d.events, d.test = d.events[:learn], d.events[learn:]
	return lines.Err()
}

// say prints progress to standard error.
func (d *demo) say(format string, args ...any) {
	if !d.quiet {
		fmt.Fprintf(d.screen, format+"\n", args...)
	}
}

func (d *demo) produce(ctx context.Context, broker *stream.Embedded) error {
	c := stream.DefaultProducerConfig()
	c.Brokers, c.Topic = broker.Brokers(), demoTopic
	producer, err := stream.NewProducer(ctx, c)
	if err != nil {
		return err
	}
	for _, event := range d.events {
		if err := producer.Write(ctx, stream.Message{Value: event}); err != nil {
			return errors.Join(err, producer.Close())
		}
	}
	if err := producer.Flush(ctx); err != nil {
		return errors.Join(err, producer.Close())
	}
	d.say("Produced %s events into its topic %q.", humanize.Comma(int64(len(d.events))), demoTopic)
	return producer.Close()
}

// learn continues from the newest checkpoint, if there is one. It stops at the end of the topic or after the given
// number of events.
func (d *demo) learn(ctx context.Context, broker *stream.Embedded, store *checkpoint.Store, c online.Config, events uint64) (*run.Runner, error) {
	r, _, err := newRunner([]challenger{{config: c, record: d.record}}, validate.Config{}, nil, store, false, "", slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	r.Config.Refused = run.PolicyFail
	r.Config.MaxEvents = events
	r.Config.SaveEvents = uint64(len(d.events)/8) + 1
	consumer := stream.DefaultConsumerConfig()
	consumer.Brokers, consumer.Topics, consumer.UntilEnd = broker.Brokers(), []string{demoTopic}, true
	source, err := stream.Input{Record: d.record, Kafka: consumer}.Open(ctx, r.Schema, r.Offsets)
	if err != nil {
		return nil, err
	}
	var look learning
	r.Source = source
	r.Observe = func(s *run.Status) {
		if d.screen.due() {
			d.screen.progress("  " + progressText(look.look(s)))
		}
	}
	err = r.Run(ctx)
	if err == nil {
		d.screen.done("  " + progressText(progressOf(r.Status())))
		err = ctx.Err()
	}
	return r, errors.Join(err, source.Close())
}

// summary prints the result to standard output.
func (d *demo) summary(ctx context.Context, r *run.Runner, store *checkpoint.Store) error {
	m := r.Published().Linear
	metrics := r.Status().Learner
	result := demoResult{Events: metrics.Events, Error: 100 * metrics.Total.Error(), Level: metrics.Level}
	out := bufio.NewWriter(d.stdout)
	if d.json {
		out.Reset(d.stderr) // switch to text for people
	}
	fmt.Fprintf(out, "\nEach of the %s events was predicted before it was learned:\nerror %s %%\n",
		humanize.Comma(int64(metrics.Events)), percent(100*metrics.Total.Error()))

	none := online.DefaultConfig()
	none.Noise, none.MissingPolicy = "none", "none"
	plain, err := d.again(ctx, none)
	if err != nil {
		return err
	}
	levels := []float64{0, .3, .5, .7, .8, .9}
	fmt.Fprintf(out, "\nError in %% on %s new events with readings set to null:\n  %-35s", humanize.Comma(int64(len(d.test))), "fraction of the readings")
	for _, level := range levels {
		fmt.Fprintf(out, "%5.0f %%", 100*level)
	}
	for _, row := range []struct {
		name  string
		model *model.Linear
	}{{"blankout, every key at its default", m}, {"no noise, a null read as the mean", plain}} {
		fmt.Fprintf(out, "\n  %-35s", row.name)
		examples, err := d.decode(ctx, d.test, row.model.Schema)
		if err != nil {
			return err
		}
		for _, level := range levels {
			percent := 100 * simulate.Error(row.model, examples, simulate.Random{Fraction: level})
			fmt.Fprintf(out, "%7.1f", percent)
			result.Deleted = append(result.Deleted, demoDeleted{row.name, level, percent})
		}
	}

	fmt.Fprintf(out, "\n  %-35s", "forecast while learning")
	for _, level := range levels {
		fmt.Fprintf(out, "%7.1f", 100*metrics.Forecast.Declared[int(math.Round(level*online.ForecastPoints))].Error)
	}

	position, _ := r.Offsets.Lookup(demoTopic, 0)
	fmt.Fprintf(out, "\n\nThe last checkpoint holds the model and the next offset, %s.\n", humanize.Comma(position.Next))
	if d.keep != "" {
		fmt.Fprintf(out, "Inspect it: blankout inspect %s%c%s\n", store.Dir(), os.PathSeparator, r.Status().Save.Name)
	}
	fmt.Fprintf(out, "For your own topic: blankout config init --brokers HOST:PORT --topic TOPIC --label FIELD, then blankout run\n")
	if err := out.Flush(); err != nil {
		return err
	}
	return d.encode(result)
}

// demoResult is the JSON output of demo.
type demoResult struct {
	Events uint64  `json:"events"`
	Error  float64 `json:"error"`       // progressive error in percent: each event is predicted before it is learned
	Level  string  `json:"noise_level"` // noise level with the largest weight
	// Deleted holds the errors when a fraction of the readings is null, for each learner.
	Deleted []demoDeleted `json:"deleted"`
}

type demoDeleted struct {
	Learned  string  `json:"learned"`
	Fraction float64 `json:"fraction"`
	Error    float64 `json:"error"` // error in percent
}

// again learns the same events in the same order with another configuration.
func (d *demo) again(ctx context.Context, c online.Config) (*model.Linear, error) {
	schema := d.record.Schema()
	learner, err := online.New(c, schema)
	if err != nil {
		return nil, err
	}
	examples, err := d.decode(ctx, d.events, schema)
	if err != nil {
		return nil, err
	}
	for i := range examples {
		learner.Learn(&examples[i], nil)
	}
	return learner.Snapshot().Model(), ctx.Err()
}

// decode decodes events into examples. The examples share no memory.
func (d *demo) decode(ctx context.Context, events [][]byte, schema *event.Schema) ([]event.Example, error) {
	decoder, err := record.NewDecoder(d.record, schema)
	if err != nil {
		return nil, err
	}
	examples := make([]event.Example, len(events))
	for i, event := range events {
		if err := decoder.Decode(ctx, record.Record{Value: event, Offset: int64(i)}, &examples[i]); err != nil {
			return nil, err
		}
		if refused := examples[i].Refused; refused != nil {
			return nil, refused
		}
	}
	return examples, nil
}
