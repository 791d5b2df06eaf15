package stream

// This file runs a broker inside the process, for the demo and for tests.

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kfake"
)

// EmbeddedConfig holds the settings of an embedded broker.
type EmbeddedConfig struct {
	Topics  map[string]int32 // numbers of partitions by topic; missing topics are created
	DataDir string           // directory for topics and committed offsets; "" keeps them in memory
	Port    int              // port on the loopback interface; 0 means any free port
}

// Embedded is a Kafka broker inside the process, on the loopback interface, for the demo and for tests. The broker uses
// the real protocol, but it is not Kafka: there is only one node. If DataDir is set, acknowledged records are written
// but not synced to disk.
type Embedded struct {
	cluster *kfake.Cluster
}

// StartEmbedded starts a broker. Close ends its goroutines.
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
			continue // the topic exists in the data directory
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

// Brokers returns the address to connect to, for ConnectConfig.Brokers.
func (e *Embedded) Brokers() []string { return slices.Clone(e.cluster.ListenAddrs()) }

// Close stops the broker and syncs the DataDir to disk, if there is one.
func (e *Embedded) Close() { e.cluster.Close() }
