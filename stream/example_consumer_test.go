package stream_test

import (
	"context"
	"fmt"
	"io"
	"log"

	"blankout/internal/event"
	"blankout/stream"
	"blankout/stream/record"
)

// ExampleNewConsumer starts a broker inside the process, writes three events to it, and reads them as a learner does.
func ExampleNewConsumer() {
	ctx := context.Background()
	broker, err := stream.StartEmbedded(stream.EmbeddedConfig{Topics: map[string]int32{"events": 1}})
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()

	write := stream.DefaultProducerConfig()
	write.Brokers, write.Topic = broker.Brokers(), "events"
	producer, err := stream.NewProducer(ctx, write)
	if err != nil {
		log.Fatal(err)
	}
	defer producer.Close()
	for _, event := range []string{
		`{"label": "yes", "temperature": 21.5, "room": "kitchen"}`,
		`{"label": "no", "temperature": null, "room": "cellar"}`,
		`{"label": "no", "temperature": 1e99}`,
	} {
		if err := producer.Write(ctx, stream.Message{Value: []byte(event)}); err != nil {
			log.Fatal(err)
		}
	}
	if err := producer.Flush(ctx); err != nil {
		log.Fatal(err)
	}

	records := record.DefaultConfig()
	schema := records.Schema()
	decoder, err := record.NewDecoder(records, schema)
	if err != nil {
		log.Fatal(err)
	}
	read := stream.DefaultConsumerConfig()
	read.Brokers, read.Topics, read.UntilEnd = broker.Brokers(), []string{"events"}, true
	var learned event.Offsets // offsets of a checkpoint; empty means from the beginning
	consumer, err := stream.NewConsumer(ctx, read, decoder, schema, learned)
	if err != nil {
		log.Fatal(err)
	}
	defer consumer.Close()

	var batch event.Batch
	for {
		err := consumer.Next(ctx, &batch)
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		for _, e := range batch.Examples {
			if e.Refused != nil {
				fmt.Printf("%s/%d offset %d: refused: %s\n", batch.Topic, batch.Partition, e.Offset, e.Refused.Reason)
				continue
			}
			fmt.Printf("%s/%d offset %d: %s, %d features, %d missing\n", batch.Topic, batch.Partition, e.Offset,
				schema.Classes[e.Label], e.Features.Len(), len(e.Missing))
		}
		learned.At(batch.Topic, batch.Partition, batch.Next).Next = batch.Next
	}
	fmt.Println("go on at", learned[0].Next)

	// Output:
	// events/0 offset 0: yes, 2 features, 0 missing
	// events/0 offset 1: no, 1 features, 1 missing
	// events/0 offset 2: refused: out-of-range
	// go on at 3
}
