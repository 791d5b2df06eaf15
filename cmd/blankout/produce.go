package main

// The command produce writes the records of a file to a topic.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"blankout/record"
	"blankout/stream"
)

type produceFlags struct {
	data        string
	brokers     string
	topic       string
	rate        float64
	compression string
	create      bool
}

func (p *program) produce() *cobra.Command {
	var o produceFlags
	var settings configFlags
	c := &cobra.Command{
		Use:   "produce",
		Short: "Write the records of a data file to a topic",
		Long: `produce writes each record of a file to the topic of the configuration as it
stands: JSON, svmlight, VW or CSV lines, .gz and .zst files unpacked. Every
record is acknowledged by all in-sync replicas before produce ends.`,
		Example: "  blankout produce -f blankout.toml -d events.jsonl\n" +
			"  blankout produce -d events.jsonl --topic events --rate 1000",
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.data == "" {
				return usageError{errors.New("produce: name a data file with -d (- is standard input)")}
			}
			l, err := settings.load(changed(c, map[string]string{"brokers": "kafka.brokers", "topic": "kafka.topics", "create": "kafka.create_topics"})...)
			if err != nil {
				return err
			}
			if len(l.Kafka.Topics) != 1 {
				return usageError{fmt.Errorf("produce: the configuration names %d topics: choose one with --topic", len(l.Kafka.Topics))}
			}
			config := stream.DefaultProducerConfig()
			config.ConnectConfig = l.Kafka.ConnectConfig
			config.CreateTopics, config.CreatePartitions = l.Kafka.CreateTopics, l.Kafka.CreatePartitions
			config.Topic, config.Rate, config.Compression = l.Kafka.Topics[0], o.rate, o.compression
			if err := config.Check(); err != nil {
				return usageError{fmt.Errorf("produce: %w", err)}
			}
			if err := p.produceFile(c.Context(), o.data, l.Record, config); err != nil {
				return fmt.Errorf("produce: %w", err)
			}
			return nil
		},
	}
	settings.add(c)
	f := c.Flags()
	f.StringVarP(&o.data, "data", "d", "", "`FILE` of records (- is standard input)")
	f.StringVar(&o.brokers, "brokers", "", "`HOST:PORT,…` instead of kafka.brokers")
	f.StringVar(&o.topic, "topic", "", "`TOPIC` instead of kafka.topics")
	f.Float64Var(&o.rate, "rate", 0, "at most `N` records a second (0: as fast as it goes)")
	f.StringVar(&o.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	f.BoolVar(&o.create, "create", false, "create the topic if there is none")
	return c
}

// produceFile writes the records of a file to a topic.
func (p *program) produceFile(ctx context.Context, name string, recordConfig record.Config, c stream.ProducerConfig) (err error) {
	records, err := stream.OpenRecords(name, recordConfig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	screen := p.newScreen(10 * time.Second)
	c.Log = p.logger(screen)
	show, finish := produceProgress(screen, records)
	var produced uint64
	c.Progress = func(n, _ uint64) { produced = n; show(n) }
	producer, err := stream.NewProducer(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, producer.Close()) }()
	began := time.Now()
	var r record.Record
	for {
		if err := records.Next(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if err := producer.Write(ctx, stream.Message{Key: r.Key, Value: r.Value, Time: r.Time}); err != nil {
			return fmt.Errorf("%w (%d records of %s are acknowledged)", err, produced, name)
		}
	}
	if err := producer.Flush(ctx); err != nil {
		return fmt.Errorf("%w (%d records of %s are acknowledged)", err, produced, name)
	}
	finish()
	if !p.quiet {
		fmt.Fprintf(p.stderr, "produced %s records into topic %q, %s a second\n", humanize.Comma(int64(produced)), c.Topic,
			humanize.Comma(int64(float64(produced)/max(time.Since(began).Seconds(), 1e-3))))
	}
	return nil
}

// produceProgress returns how progress is shown: a bar on a terminal, by the
// bytes of the file read, else a line now and then.
func produceProgress(s *screen, records *stream.Records) (show func(n uint64), finish func()) {
	_, size := records.Progress()
	if s.every == 0 || !s.terminal {
		return func(n uint64) {
			if !s.due() {
				return
			}
			line := humanize.Comma(int64(n)) + " records"
			if read, size := records.Progress(); size > 0 {
				line += fmt.Sprintf(", %d %% of the file", 100*read/size)
			}
			s.progress(line)
		}, func() {}
	}
	bar := progressbar.NewOptions64(size, progressbar.OptionSetWriter(s), progressbar.OptionShowBytes(true),
		progressbar.OptionSetDescription("producing"), progressbar.OptionThrottle(s.every), progressbar.OptionClearOnFinish())
	return func(uint64) {
		read, _ := records.Progress()
		_ = bar.Set64(read) // nothing to be done about a bar
	}, func() { _ = bar.Finish() }
}
