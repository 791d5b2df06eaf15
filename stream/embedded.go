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
	Topics map[string]int32 // numbers of partitions by topic
	Port   int              // port on the loopback interface; 0 means any free port
}

// Embedded is a Kafka broker inside the process, on the loopback interface, for the demo and for tests. The broker uses
// the real protocol, but it is not Kafka: there is only one node, which keeps records in memory.
type Embedded struct {
	cluster *kfake.Cluster
}

// StartEmbedded starts a broker. Close ends its goroutines.
func StartEmbedded(c EmbeddedConfig) (*Embedded, error) {
	cluster, err := kfake.NewCluster(kfake.Ports(c.Port), kfake.ClusterID("blankout"))
	if err != nil {
		return nil, fmt.Errorf("embedded broker: %w", err)
	}
	for _, topic := range slices.Sorted(maps.Keys(c.Topics)) {
		partitions := c.Topics[topic]
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

// Close stops the broker.
func (e *Embedded) Close() { e.cluster.Close() }
