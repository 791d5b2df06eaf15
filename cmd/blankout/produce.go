package main

// The command produce writes the records of a file to a topic.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"blankout/config"
	"blankout/stream"
	"blankout/stream/record"
	"blankout/stream/registry"
)

type produceFlags struct {
	data        string
	rate        float64
	compression string
	schema      string
}

func (p *program) produce() *cobra.Command {
	var o produceFlags
	var settings configFlags
	c := &cobra.Command{
		Use:   "produce",
		Short: "Write the records of a data file to a topic",
		Long: `produce writes each record of a file unchanged to the topic of the configuration: JSON,
svmlight, VW or CSV lines, also from .gz and .zst files. A row of a Parquet file becomes a
JSON object. All in-sync replicas have acknowledged every record when produce ends.

--schema FILE encodes JSON lines with a schema: Avro (.avsc), Protobuf (.proto) or JSON
Schema (.json). produce registers it as TOPIC-value in the registry of [registry].`,
		Example: "  blankout produce -f blankout.toml -d events.jsonl\n" +
			"  blankout produce -d events.jsonl --topic events --rate 1000\n" +
			"  blankout produce -f blankout.toml -d events.jsonl --schema event.avsc\n" +
			"  blankout produce -d events.jsonl --topic payments --json",
		RunE: func(c *cobra.Command, _ []string) error {
			if o.data == "" {
				return usageError{errors.New("name a data file with -d (- is standard input)")}
			}
			l, err := settings.load(changed(c, map[string]string{"brokers": "kafka.brokers", "topic": "kafka.topics", "create": "kafka.create_topics"})...)
			if err != nil {
				return located{err}
			}
			if len(l.Kafka.Topics) != 1 {
				return usageError{fmt.Errorf("the configuration names %d topics: choose one with --topic", len(l.Kafka.Topics))}
			}
			config := stream.DefaultProducerConfig()
			config.ConnectConfig = l.Kafka.ConnectConfig
			config.CreateTopics, config.CreatePartitions = l.Kafka.CreateTopics, l.Kafka.CreatePartitions
			config.Topic, config.Rate, config.Compression = l.Kafka.Topics[0], o.rate, o.compression
			if err := config.Check(); err != nil {
				return usageError{err}
			}
			encode, err := schemaEncoder(c.Context(), o.schema, config.Topic, l)
			if err != nil {
				return err
			}
			return p.produceFile(c.Context(), o.data, l.Record, config, encode)
		},
	}
	settings.add(c)
	f := c.Flags()
	f.StringVarP(&o.data, "data", "d", "", "`FILE` of records; - is standard input")
	f.String("brokers", "", "`HOST:PORT,…` [kafka.brokers]")
	f.String("topic", "", "`TOPIC` [kafka.topics]")
	f.StringVar(&o.schema, "schema", "", "encode with the schema in `FILE`: .avsc, .proto or .json")
	f.Float64Var(&o.rate, "rate", 0, "at most `N` records a second; 0 is no limit")
	f.StringVar(&o.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	f.Bool("create", false, "create the topic if it is missing")
	p.addJSON(c)
	return c
}

// schemaEncoder registers the schema in a file for a topic. It returns a function that encodes JSON objects with this
// schema. If file is "", the function returns the objects unchanged.
func schemaEncoder(ctx context.Context, file, topic string, l *config.Loaded) (func([]byte) ([]byte, error), error) {
	if file == "" {
		return func(object []byte) ([]byte, error) { return object, nil }, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	encoder, err := record.NewEncoder(file, string(text))
	if err != nil {
		return nil, usageError{fmt.Errorf("--schema %s: %w", file, err)}
	}
	client, err := registry.New(l.Registry, nil)
	if err != nil {
		return nil, usageError{fmt.Errorf("--schema: [registry] %w", err)}
	}
	id, err := client.Register(ctx, topic+"-value", encoder.Kind, string(text))
	if err != nil {
		return nil, err
	}
	l.Record.Format = "" // the format follows from the file name
	return func(object []byte) ([]byte, error) { return encoder.Encode(id, object) }, nil
}

// produceResult is the JSON output of produce, once all records are acknowledged.
type produceResult struct {
	Topic   string  `json:"topic"`
	Records uint64  `json:"records"`
	Seconds float64 `json:"seconds"`
}

// produceFile writes the records of a file to a topic.
func (p *program) produceFile(ctx context.Context, name string, recordConfig record.Config, c stream.ProducerConfig, encode func([]byte) ([]byte, error)) (err error) {
	records, err := stream.OpenRecords(name, recordConfig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	screen := p.newScreen(10 * time.Second)
	c.Log = p.logger(screen)
	var produced uint64
	c.Progress = func(n, _ uint64) {
		if produced = n; !screen.due() {
			return
		}
		line := humanize.Comma(int64(n)) + " records"
		if read, size := records.Progress(); size > 0 {
			line += fmt.Sprintf(", %d %% of the file", 100*read/size)
		}
		screen.progress(line)
	}
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
		value, err := encode(r.Value)
		if err != nil {
			return refusedError{fmt.Errorf("%s: %w (%d records were acknowledged)", records.Place(r.Offset), err, produced)}
		}
		if err := producer.Write(ctx, stream.Message{Key: r.Key, Value: value, Time: r.Time}); err != nil {
			return fmt.Errorf("%w (%d records of %s were acknowledged)", err, produced, name)
		}
	}
	if err := producer.Flush(ctx); err != nil {
		return fmt.Errorf("%w (%d records of %s were acknowledged)", err, produced, name)
	}
	if p.json {
		return p.encode(produceResult{c.Topic, produced, time.Since(began).Seconds()})
	}
	p.note(fmt.Sprintf("produced %s records into topic %q, %s a second", humanize.Comma(int64(produced)), c.Topic,
		humanize.Comma(int64(float64(produced)/max(time.Since(began).Seconds(), 1e-3)))))
	return nil
}
