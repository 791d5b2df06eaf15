package stream

// This file checks brokers' responses before kafka-go decodes them.

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

// maxAnswer is the largest size of a response. Fetch responses are excepted; they are checked while they are read.
const maxAnswer = 16 << 20

// checkedConn is a connection to a broker that checks responses before kafka-go reads them. kafka-go allocates as many
// elements as a response claims to have, so that 14 bytes may make it allocate 100 GB. checkedConn reads the whole
// response into memory that grows with the received bytes. Then it decodes the response once with kmsg, which accepts
// no length beyond the end of the response.
type checkedConn struct {
	net.Conn

	// header and left are the state of writing: the bytes of the request's header so far, and the remaining length.
	header []byte
	left   int

	mu      sync.Mutex
	asked   []asked // requests that wait for a response
	trusted bool    // set if no further responses are checked

	// answer and through are the state of reading.
	answer  bytes.Buffer // checked bytes that are not returned yet
	through int          // remaining bytes of a response that is returned unchecked
}

// asked is the kind of a request: its key and version.
type asked struct{ key, version int16 }

// Write writes bytes of requests, and records the kind of each request.
func (c *checkedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	for b := b[:n]; len(b) > 0; {
		if c.left > 0 {
			pass := min(c.left, len(b))
			c.left, b = c.left-pass, b[pass:]
			continue
		}
		// The first 8 bytes are the length, the key and the version.
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

// next reads the start of a response, or the whole response if it must be checked.
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
		c.trusted = true // brokers before Kafka 1.0 send no headers from here on
		return nil
	case looksLikeTLS(size):
		return nil // a TLS alert from a broker that expects TLS; kafka-go reports it
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

// looksLikeTLS reports whether the length of a response is really the start of a TLS alert.
func looksLikeTLS(size [4]byte) bool { return size[0] == 0x15 && size[1] == 3 && size[2] <= 4 }

// check decodes a response, which begins with the correlation ID.
func (a asked) check(body []byte) error {
	response := kmsg.ResponseForKey(a.key)
	if response == nil {
		return fmt.Errorf("key %d is unknown", a.key)
	}
	response.SetVersion(a.version)
	return decodeAnswer(response, body)
}
