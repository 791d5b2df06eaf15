package stream

// A deleted and recreated topic has the same name but other records at the same offsets. Only the topic ID differs,
// which brokers assign since Kafka 2.8. kafka-go requests metadata in versions without IDs, so kmsg encodes the request.

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The versions of Metadata requests that are used.
const (
	metadataIDs  = 10 // first version with topic IDs
	metadataLast = 12
)

// topicIDs requests the IDs of topics by name. It implements protocol.RawExchanger.
type topicIDs struct {
	names []string
	ids   map[string]string // IDs by topic; empty if the broker is old
}

func (x *topicIDs) ApiKey() protocol.ApiKey { return protocol.Metadata }

func (x *topicIDs) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange first requests the supported versions, because kafka-go keeps only the versions that it uses.
func (x *topicIDs) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	versions, err := ask[*kmsg.ApiVersionsResponse](rw, kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		return nil, err
	}
	if versions.ErrorCode != 0 {
		return nil, kafka.Error(versions.ErrorCode)
	}
	request := kmsg.NewPtrMetadataRequest()
	for _, k := range versions.ApiKeys {
		if k.ApiKey == request.Key() {
			request.Version = min(k.MaxVersion, metadataLast)
		}
	}
	if request.Version < metadataIDs {
		return x, nil
	}
	for _, name := range x.names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		request.Topics = append(request.Topics, topic)
	}
	response, err := ask[*kmsg.MetadataResponse](rw, request)
	if err != nil {
		return nil, err
	}
	x.ids = map[string]string{}
	for _, t := range response.Topics {
		if t.ErrorCode == 0 && t.Topic != nil && t.TopicID != [16]byte{} {
			x.ids[*t.Topic] = base64.RawURLEncoding.EncodeToString(t.TopicID[:]) // the same format as in Kafka's tools
		}
	}
	return x, nil
}

// topicIDs returns the IDs of the given topics that exist. Brokers before Kafka 2.8 have no IDs.
func (k *cluster) topicIDs(ctx context.Context, topics []string) (map[string]string, error) {
	x := &topicIDs{names: topics}
	if _, err := k.roundTrip(ctx, k.timeout, x); err != nil {
		return nil, err // x may still be written by another goroutine
	}
	return x.ids, nil
}

// topicID returns the ID of an existing topic. It retries until it gets a response.
func (k *cluster) topicID(ctx context.Context, topic string) (id string, err error) {
	err = k.retry(ctx, "asking for the id of topic "+topic, func() error {
		ids, err := k.topicIDs(ctx, []string{topic})
		id = ids[topic]
		return err
	})
	return id, err
}

// TopicRecreatedError reports that a topic was deleted and recreated since its offsets were stored.
type TopicRecreatedError struct {
	Topic     string
	Partition int32
	Offset    int64  // next offset in the old topic
	Was, Is   string // old and new topic ID
}

func (e *TopicRecreatedError) Error() string {
	return fmt.Sprintf("%s/%d: the topic was deleted and created again: offset %d belongs to topic id %s, but the id is now %s; "+
		"set kafka.out_of_range to earliest or latest to continue in the new topic, restart with --reset, or set check_topic_id = false if it is a copy with the same records at the same offsets",
		e.Topic, e.Partition, e.Offset, e.Was, e.Is)
}
