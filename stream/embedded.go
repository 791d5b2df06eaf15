package stream

// This file holds a broker inside the process, for the demo and tests.

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kfake"
)

// EmbeddedConfig says what an embedded broker holds.
type EmbeddedConfig struct {
	Topics  map[string]int32 // topics to make where they are missing, each with its number of partitions
	DataDir string           // keeps topics and committed offsets here; "": in memory
	Port    int              // on the loopback interface; 0: any free one
}

// Embedded is a Kafka broker inside the process, on the loopback interface: for
// the demo, for tests and for trying things out. It speaks the real protocol,
// but it is not Kafka: one node, and with a DataDir what is acknowledged is
// written to disk but not synced.
type Embedded struct {
	cluster *kfake.Cluster
}

// StartEmbedded starts a broker. Its goroutines end with Close.
func StartEmbedded(c EmbeddedConfig) (*Embedded, error) {
	options := []kfake.Opt{kfake.Ports(c.Port), kfake.ClusterID("blankout")}
	if c.DataDir != "" {
		options = append(options, kfake.DataDir(c.DataDir))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return nil, fmt.Errorf("embedded broker: %w", err)
	}
	for _, topic := range slices.Sorted(maps.Keys(c.Topics)) {
		partitions := c.Topics[topic]
		if cluster.TopicInfo(topic) != nil {
			continue // kept in the data directory
		}
		if partitions < 1 {
			err = errors.New("want at least 1 partition")
		} else {
			err = cluster.CreateTopic(topic, partitions, nil)
		}
		if err != nil {
			cluster.Close()
			return nil, fmt.Errorf("embedded broker: topic %q with %d partitions: %w", topic, partitions, err)
		}
	}
	return &Embedded{cluster}, nil
}

// Brokers returns the address to connect to, as ConnectConfig.Brokers takes it.
func (e *Embedded) Brokers() []string { return slices.Clone(e.cluster.ListenAddrs()) }

// Close stops the broker and, with a DataDir, syncs it to disk.
func (e *Embedded) Close() { e.cluster.Close() }
