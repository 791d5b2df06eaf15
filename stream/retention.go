package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/segmentio/kafka-go"
)

// RetentionError reports that the brokers will delete records that a topic must keep.
type RetentionError struct {
	Topic, Key, Value string // topic, and the setting to change
	Want              string
}

func (e *RetentionError) Error() string {
	return fmt.Sprintf("topic %s has %s=%s: its records, and so the group's model, expire; set %s=%s "+
		"(kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name %s --add-config %s=%s)", e.Topic, e.Key, e.Value, e.Key, e.Want, e.Topic, e.Key, e.Want)
}

// CheckRetention checks that the brokers keep the records of a commit log and of its snapshots forever. ledger is the
// topic of the commit log, and bases is the topic of the snapshots. It returns a *RetentionError if the brokers delete
// such records. If this user may not read the settings, CheckRetention logs that and returns nil.
func CheckRetention(ctx context.Context, c ConnectConfig, ledger, bases string, log *slog.Logger) error {
	k, err := connect(ctx, c, []string{ledger, bases}, log)
	if err != nil {
		return err
	}
	defer k.close()
	for _, topic := range []string{ledger, bases} {
		settings, err := k.settings(ctx, topic, "cleanup.policy", "retention.ms", "retention.bytes")
		if errors.Is(err, kafka.TopicAuthorizationFailed) || errors.Is(err, kafka.ClusterAuthorizationFailed) {
			k.log.Warn("cannot check that the brokers keep a topic's records forever: allow this user DescribeConfigs", "topic", topic, "err", err)
			continue
		}
		if err != nil {
			return err
		}
		policy := settings["cleanup.policy"]
		if topic == bases && policy == "compact" {
			continue // no record expires by age or size
		}
		if topic == ledger && strings.Contains(policy, "compact") {
			return &RetentionError{topic, "cleanup.policy", policy, "delete"}
		}
		for _, key := range []string{"retention.ms", "retention.bytes"} {
			if value := settings[key]; value != "-1" && topic == bases {
				return &RetentionError{topic, "cleanup.policy", policy, "compact"}
			} else if value != "-1" {
				return &RetentionError{topic, key, value, "-1"}
			}
		}
	}
	return nil
}

// settings returns the effective settings of a topic.
func (k *cluster) settings(ctx context.Context, topic string, names ...string) (map[string]string, error) {
	found := map[string]string{}
	err := k.retry(ctx, "asking for the settings of topic "+topic, func() error {
		r, err := k.client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: names}}})
		if err != nil {
			return err
		}
		for _, resource := range r.Resources {
			if resource.Error != nil {
				return resource.Error
			}
			for _, entry := range resource.ConfigEntries {
				found[entry.ConfigName] = entry.ConfigValue
			}
		}
		return nil
	})
	return found, err
}
