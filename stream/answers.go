package stream

// This file checks the answers of brokers before kafka-go decodes them.

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

// maxAnswer bounds all answers of brokers except those to fetches, which are checked
// where they are read.
const maxAnswer = 16 << 20

// checkedConn is a connection to a broker whose answers are sound before kafka-go
// reads them: it makes room for as many elements as an answer says it has, so that
// 14 bytes may ask for 100 GB. An answer is read whole, in memory that grows with
// what comes, and decoded once by kmsg, which accepts no length beyond the answer's end.
type checkedConn struct {
	net.Conn

	// These are about what is written: the request's header, and what is left of it.
	header []byte
	left   int

	mu      sync.Mutex
	asked   []asked // requests without an answer yet
	trusted bool    // nothing is checked any more

	// These are about what is read.
	answer  bytes.Buffer // checked, and not yet given out
	through int          // bytes of the answer that are given out as they come
}

// asked is a request by its kind.
type asked struct{ key, version int16 }

// Write notes what is asked for.
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

// Read gives out the next bytes of answers that are sound.
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

// next reads the start of an answer, and all of it if it is to be checked.
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
		return fmt.Errorf("an answer of %d bytes that nobody has asked for", n)
	case key == protocol.Fetch:
		c.through = max(n, 0)
		return nil
	case key == protocol.SaslHandshake && a.version == 0:
		c.trusted = true // what follows has no headers (brokers before Kafka 1.0)
		return nil
	case looksLikeTLS(size):
		return nil // of a broker that wants TLS: kafka-go says so
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
			return fmt.Errorf("an answer of %d bytes to a request of %v that is damaged: %w", n, key, err)
		}
		return nil
	}
}

// looksLikeTLS tells an alert of TLS from the length of an answer.
func looksLikeTLS(size [4]byte) bool { return size[0] == 0x15 && size[1] == 3 && size[2] <= 4 }

// check decodes an answer, which begins with the correlation id.
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
