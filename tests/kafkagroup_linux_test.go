package tests

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKafkaGroup is crashGroup against a real Apache Kafka broker.
func TestKafkaGroup(t *testing.T) {
	const partitions = 4
	kills := groupKills(t, 40)
	k := startKafka(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(k.plain))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), partitions, 1, nil, "events"); err != nil {
		t.Fatal(err)
	}
	crashGroup(t, []string{k.plain}, partitions, kills)
}
