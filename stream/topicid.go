package stream

// A deleted and recreated topic has the same name but other records at the same offsets. Only the topic ID differs,
// which brokers assign since Kafka 2.8. kafka-go requests metadata in versions without IDs, so this file encodes the
// request.

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// The versions of Metadata requests that this file encodes. Their encodings differ in one byte.
const (
	metadataIDs  = 10 // first version with topic IDs
	metadataLast = 12
)

// maxMetadata is the largest size of a response with the IDs of a few topics and all brokers.
const maxMetadata = 16 << 20

// topicIDs requests the IDs of topics by name. It implements protocol.RawExchanger.
type topicIDs struct {
	names []string
	ids   map[string]string // IDs by topic; empty if the broker is old
}

func (x *topicIDs) ApiKey() protocol.ApiKey { return protocol.Metadata }

func (x *topicIDs) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange first requests the supported versions, because kafka-go keeps only the versions that it uses.
func (x *topicIDs) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	body, err := exchange(rw, protocol.ApiVersions, 0, nil)
	if err != nil {
		return nil, err
	}
	c := cursor{b: body}
	c.int32() // correlation ID
	version := int16(0)
	code := kafka.Error(c.int16())
	for n := c.int32(); n > 0 && !c.failed; n-- {
		if key, _, last := c.int16(), c.int16(), c.int16(); protocol.ApiKey(key) == protocol.Metadata {
			version = min(last, metadataLast)
		}
	}
	if code != 0 {
		return nil, code
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	if version < metadataIDs {
		return x, nil
	}

	request := []byte{0} // the header has no tagged fields
	request = binary.AppendUvarint(request, uint64(len(x.names)+1))
	for _, name := range x.names {
		request = append(request, make([]byte, 16)...) // zero ID, because the topic is requested by name
		request = binary.AppendUvarint(request, uint64(len(name)+1))
		request = append(request, name...)
		request = append(request, 0)
	}
	request = append(request, 0, 0, 0) // no topic creation, no permissions, no tagged fields
	if version == metadataIDs {
		request = append(request, 0) // no cluster permissions
	}
	if body, err = exchange(rw, protocol.Metadata, version, request); err != nil {
		return nil, err
	}
	return x, x.parse(body)
}

// exchange writes a request and reads the response, without its length.
func exchange(rw io.ReadWriter, key protocol.ApiKey, version int16, body []byte) ([]byte, error) {
	const client = "blankout"
	b := binary.BigEndian.AppendUint32(nil, uint32(2+2+4+2+len(client)+len(body)))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 1) // correlation ID; there is only one request at a time
	b = binary.BigEndian.AppendUint16(b, uint16(len(client)))
	b = append(append(b, client...), body...)
	if _, err := rw.Write(b); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(rw, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxMetadata {
		return nil, fmt.Errorf("a response of %d bytes to request %d", n, key)
	}
	var answer bytes.Buffer
	_, err := io.CopyN(&answer, rw, int64(n))
	return answer.Bytes(), err
}

// parse parses a Metadata response up to the topic IDs.
func (x *topicIDs) parse(body []byte) error {
	x.ids = map[string]string{}
	c := cursor{b: body}
	c.int32() // correlation ID
	c.tags()
	c.int32()                                       // throttle time
	for n := c.uvarint(); n > 1 && !c.failed; n-- { // skip the brokers
		c.int32()
		c.compact()
		c.int32()
		c.compact()
		c.tags()
	}
	c.compact() // cluster ID
	c.int32()   // controller
	for n := c.uvarint(); n > 1 && !c.failed; n-- {
		code := kafka.Error(c.int16())
		name := string(c.compact())
		id := c.take(16)
		c.take(1)                                       // internal
		for n := c.uvarint(); n > 1 && !c.failed; n-- { // skip the partitions
			c.take(2 + 4 + 4 + 4)
			for range 3 { // replicas, in-sync replicas, offline replicas
				if n := c.uvarint(); n > 1 {
					c.take(4 * int(min(n-1, maxMetadata)))
				}
			}
			c.tags()
		}
		c.int32() // permissions
		c.tags()
		if code == 0 && id != nil && string(id) != string(make([]byte, 16)) {
			x.ids[name] = base64.RawURLEncoding.EncodeToString(id) // the same format as in Kafka's tools
		}
	}
	return c.err()
}

// uvarint reads an unsigned varint.
func (c *cursor) uvarint() uint64 {
	x, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.failed, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return x
}

// compact reads a string or bytes, which begin with their length plus one; 0 means null.
func (c *cursor) compact() []byte {
	n := c.uvarint()
	if n == 0 {
		return nil
	}
	return c.take(int(min(n-1, maxMetadata)))
}

// tags skips tagged fields.
func (c *cursor) tags() {
	for n := c.uvarint(); n > 0 && !c.failed; n-- {
		c.uvarint()
		c.take(int(min(c.uvarint(), maxMetadata)))
	}
}

// topicIDs returns the IDs of the given topics that exist. Brokers before Kafka 2.8 have no IDs.
func (k *cluster) topicIDs(ctx context.Context, topics []string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	x := &topicIDs{names: topics}
	if _, err := k.transport.RoundTrip(ctx, k.addr, x); err != nil {
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
