package stream

// This file checks responses of brokers before kafka-go decodes them.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxAnswer is the largest size of any response except fetch responses, which are checked where they are read.
const maxAnswer = 16 << 20

// checkedConn is a connection to a broker that checks responses before kafka-go reads them. kafka-go allocates as many
// elements as a response claims to have, so 14 bytes may request 100 GB. checkedConn reads the whole response, into
// memory that grows with the received bytes, and decodes it once with kmsg, which accepts no length beyond the end of
// the response.
type checkedConn struct {
	net.Conn

	// State of writing: the bytes of the request's header so far, and the remaining length.
	header []byte
	left   int

	mu      sync.Mutex
	asked   []asked // requests without a response yet
	trusted bool    // no more checks

	// State of reading: checked bytes that are not yet returned.
	answer  bytes.Buffer // checked, not yet returned
	through int          // remaining bytes of a response that is passed through
}

// asked is the kind of a request.
type asked struct{ key, version int16 }

// Write records the kind of each request.
func (c *checkedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	for b := b[:n]; len(b) > 0; {
		if c.left > 0 {
			pass := min(c.left, len(b))
			c.left, b = c.left-pass, b[pass:]
			continue
		}
		// The length, the key and the version.
		take := min(8-len(c.header), len(b))
		c.header, b = append(c.header, b[:take]...), b[take:]
		if len(c.header) < 8 {
			break
		}
		a := asked{int16(binary.BigEndian.Uint16(c.header[4:])), int16(binary.BigEndian.Uint16(c.header[6:]))}
		c.left = int(binary.BigEndian.Uint32(c.header)) - 4
		c.header = c.header[:0]
		c.mu.Lock()
		c.asked = append(c.asked, a)
		c.mu.Unlock()
	}
	return n, err
}

// Read returns the next bytes of valid responses.
func (c *checkedConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return c.Conn.Read(b)
	}
	if c.answer.Len() == 0 && c.through == 0 && !c.trusted {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if c.answer.Len() > 0 {
		return c.answer.Read(b)
	}
	if c.trusted {
		return c.Conn.Read(b)
	}
	n, err := c.Conn.Read(b[:min(len(b), c.through)])
	c.through -= n
	return n, err
}

// next reads the start of a response, and all of it if it is to be checked.
func (c *checkedConn) next() error {
	var size [4]byte
	if _, err := io.ReadFull(c.Conn, size[:]); err != nil {
		return err
	}
	c.mu.Lock()
	var a asked
	known := len(c.asked) > 0
	if known {
		a = c.asked[0]
		c.asked = c.asked[1:]
	}
	c.mu.Unlock()
	n := int(int32(binary.BigEndian.Uint32(size[:])))
	c.answer.Reset()
	c.answer.Write(size[:])
	switch key := protocol.ApiKey(a.key); {
	case !known:
		return fmt.Errorf("an unrequested answer of %d bytes", n)
	case key == protocol.Fetch:
		c.through = max(n, 0)
		return nil
	case key == protocol.SaslHandshake && a.version == 0:
		c.trusted = true // no headers follow (brokers before Kafka 1.0)
		return nil
	case looksLikeTLS(size):
		return nil // from a broker that expects TLS: kafka-go reports it
	case n < 4 || n > maxAnswer:
		return fmt.Errorf("an answer of %d bytes to a request of %v", n, key)
	default:
		if m, err := io.CopyN(&c.answer, c.Conn, int64(n)); err != nil {
			if err == io.EOF && m > 0 {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if err := a.check(c.answer.Bytes()[4:]); err != nil {
			return fmt.Errorf("an answer of %d bytes to a request of %v is damaged: %w", n, key, err)
		}
		return nil
	}
}

// looksLikeTLS reports whether the length of a response is in fact a TLS alert.
func looksLikeTLS(size [4]byte) bool { return size[0] == 0x15 && size[1] == 3 && size[2] <= 4 }

// check decodes a response, which begins with the correlation ID.
func (a asked) check(body []byte) error {
	response := kmsg.ResponseForKey(a.key)
	if response == nil {
		return fmt.Errorf("key %d is unknown", a.key)
	}
	response.SetVersion(a.version)
	c := cursor{b: body}
	c.int32()
	if response.IsFlexible() && protocol.ApiKey(a.key) != protocol.ApiVersions {
		c.tags()
	}
	if err := c.err(); err != nil {
		return err
	}
	return response.ReadFrom(c.b)
}
