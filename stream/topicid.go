package stream

// A topic that is deleted and made anew has the name of the old one and other
// records, at the same offsets. What tells them apart is the id that brokers give
// a topic (since Kafka 2.8). kafka-go asks for metadata in versions without ids,
// so the request is written here.

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

// The versions of Metadata requests that are written here; they differ in a byte.
const (
	metadataIDs  = 10 // the first with ids
	metadataLast = 12
)

// maxMetadata bounds the answer about the ids of a few topics and all brokers.
const maxMetadata = 16 << 20

// topicIDs asks for the ids of topics. It implements protocol.RawExchanger.
type topicIDs struct {
	names []string
	ids   map[string]string // those of names that the broker knows; none from an old broker
}

func (x *topicIDs) ApiKey() protocol.ApiKey { return protocol.Metadata }

func (x *topicIDs) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange asks for the versions first: what kafka-go knows of them ends where
// its own do.
func (x *topicIDs) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	body, err := exchange(rw, protocol.ApiVersions, 0, nil)
	if err != nil {
		return nil, err
	}
	c := cursor{b: body}
	c.int32() // correlation id
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

	request := []byte{0} // no tagged fields in the header
	request = binary.AppendUvarint(request, uint64(len(x.names)+1))
	for _, name := range x.names {
		request = append(request, make([]byte, 16)...) // asked for by name
		request = binary.AppendUvarint(request, uint64(len(name)+1))
		request = append(request, name...)
		request = append(request, 0)
	}
	request = append(request, 0, 0, 0) // create none, no list of permissions, no tagged fields
	if version == metadataIDs {
		request = append(request, 0) // nor the cluster's permissions
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
	b = binary.BigEndian.AppendUint32(b, 1) // correlation id: one request at a time
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

// parse reads a Metadata response as far as the topics' ids.
func (x *topicIDs) parse(body []byte) error {
	x.ids = map[string]string{}
	c := cursor{b: body}
	c.int32() // correlation id
	c.tags()
	c.int32()                                       // throttle time
	for n := c.uvarint(); n > 1 && !c.failed; n-- { // brokers
		c.int32()
		c.compact()
		c.int32()
		c.compact()
		c.tags()
	}
	c.compact() // cluster id
	c.int32()   // controller
	for n := c.uvarint(); n > 1 && !c.failed; n-- {
		code := kafka.Error(c.int16())
		name := string(c.compact())
		id := c.take(16)
		c.take(1)                                       // internal
		for n := c.uvarint(); n > 1 && !c.failed; n-- { // partitions
			c.take(2 + 4 + 4 + 4)
			for range 3 { // replicas, in sync, offline
				if n := c.uvarint(); n > 1 {
					c.take(4 * int(min(n-1, maxMetadata)))
				}
			}
			c.tags()
		}
		c.int32() // permissions
		c.tags()
		if code == 0 && id != nil && string(id) != string(make([]byte, 16)) {
			x.ids[name] = base64.RawURLEncoding.EncodeToString(id) // as Kafka's tools show it
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

// compact reads a string or bytes with their length plus one in front, 0 for null.
func (c *cursor) compact() []byte {
	n := c.uvarint()
	if n == 0 {
		return nil
	}
	return c.take(int(min(n-1, maxMetadata)))
}

// tags steps over tagged fields.
func (c *cursor) tags() {
	for n := c.uvarint(); n > 0 && !c.failed; n-- {
		c.uvarint()
		c.take(int(min(c.uvarint(), maxMetadata)))
	}
}

// topicIDs returns the ids of those of the topics that exist; brokers before
// Kafka 2.8 give none.
func (k *cluster) topicIDs(ctx context.Context, topics []string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	x := &topicIDs{names: topics}
	if _, err := k.transport.RoundTrip(ctx, k.addr, x); err != nil {
		return nil, err // x may still be written to
	}
	return x.ids, nil
}

// topicID returns the id of a topic that exists, and asks until there is an answer.
func (k *cluster) topicID(ctx context.Context, topic string) (id string, err error) {
	err = k.retry(ctx, "asking for the id of topic "+topic, func() error {
		ids, err := k.topicIDs(ctx, []string{topic})
		id = ids[topic]
		return err
	})
	return id, err
}

// TopicRecreatedError says that a topic was deleted and created anew since its offsets were
// stored.
type TopicRecreatedError struct {
	Topic     string
	Partition int32
	Offset    int64  // wanted, of the old topic
	Was, Is   string // the topics' ids
}

func (e *TopicRecreatedError) Error() string {
	return fmt.Sprintf("%s/%d: the topic has been deleted and created anew: offset %d belongs to the one with id %s, now its id is %s and its records are others; "+
		"set out_of_range to earliest or latest to go on there in the new topic, start afresh with --reset, or set check_topic_id = false if it is a copy with the same records at the same offsets",
		e.Topic, e.Partition, e.Offset, e.Was, e.Is)
}
