package stream

import (
	"encoding/binary"
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"blankout/internal/must"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// liar starts a fake broker. It answers requests of the given kind with few bytes that claim very many elements. For
// other requests it acts as a broker with one topic "t" without partitions.
func liar(t *testing.T, key protocol.ApiKey) (address string) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	serve := func(conn net.Conn) {
		defer conn.Close()
		for {
			var head [12]byte
			if _, err := io.ReadFull(conn, head[:]); err != nil || head[0] > 0 { // more than 16 MB: not Kafka
				return
			}
			if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[:]))-8); err != nil {
				return
			}
			asked := protocol.ApiKey(binary.BigEndian.Uint16(head[4:]))
			body := append([]byte(nil), head[8:12]...) // correlation ID
			switch {
			case asked == key && key == protocol.ApiVersions:
				body = append(body, 0, 0)
				fallthrough
			case asked == key:
				body = binary.BigEndian.AppendUint32(body, math.MaxInt32)
			case asked == protocol.ApiVersions:
				r := kmsg.ApiVersionsResponse{ApiKeys: []kmsg.ApiVersionsResponseApiKey{{ApiKey: 18}, {ApiKey: 3, MaxVersion: 1}, {ApiKey: 1, MaxVersion: 11}}}
				body = r.AppendTo(body)
			default:
				return
			}
			if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return l.Addr().String()
}

// allocates returns the number of bytes that f allocates.
func allocates(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestResponsesWithWrongLengths checks that a response of 14 bytes that claims many elements allocates little memory.
// 12 GB or more would be allocated without the check.
func TestResponsesWithWrongLengths(t *testing.T) {
	for _, key := range []protocol.ApiKey{protocol.ApiVersions, protocol.Metadata} {
		c := DefaultConnectConfig()
		c.Brokers, c.RequestTimeout = []string{liar(t, key)}, 100*time.Millisecond
		var err error
		took := allocates(func() { _, err = connect(t.Context(), c, []string{"t"}, nil) })
		must.ErrorContains(t, err, "damaged", key)
		must.True(t, took <= 64<<20, "%v: %d MB", key, took>>20)
	}
	x := new(fetchExchange)
	x.set("t", 0, 0, 1<<20, time.Second)
	x.version = 11
	answer := binary.BigEndian.AppendUint32(nil, maxResponse)
	took := allocates(func() {
		must.Fails(t, must.Err(x.RawExchange(struct {
			io.Reader
			io.Writer
		}{strings.NewReader(string(answer) + "and no more"), io.Discard})), "an answer that ends early is taken")
	})
	must.True(t, took <= 8<<20, "fetch: %d MB", took>>20)
	took = allocates(func() {
		_, err := ask[kmsg.Response](struct {
			io.Reader
			io.Writer
		}{strings.NewReader("\x00\xff\xff\xff and no more"), io.Discard}, kmsg.NewPtrMetadataRequest())
		must.True(t, err != nil, "an answer that ends early is taken")
	})
	must.True(t, took <= 1<<20, "topic ids: %d MB", took>>20)
}

// TestResponsesPassThrough checks that valid responses pass unchanged, however they are split. The memory for a large
// fetch must grow with the received bytes.
func TestResponsesPassThrough(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	c := &checkedConn{Conn: client}
	metadata := kmsg.NewPtrMetadataResponse()
	metadata.Version = 12
	metadata.Topics = []kmsg.MetadataResponseTopic{kmsg.NewMetadataResponseTopic()}
	answers := []struct {
		key  kmsg.Key
		v    int16
		body []byte
	}{
		{kmsg.ApiVersions, 3, (&kmsg.ApiVersionsResponse{Version: 3}).AppendTo([]byte{0, 0, 0, 1})},
		{kmsg.Fetch, 11, []byte(strings.Repeat("anything ", 100))},
		{kmsg.Metadata, 12, metadata.AppendTo([]byte{0, 0, 0, 2, 0})},
		{kmsg.SASLHandshake, 0, []byte{0, 0, 0, 3, 0, 0, 0, 0, 0, 0}},
	}
	go func() { // send the request, and then the responses byte by byte
		requests := 0
		for range answers {
			var head [4]byte
			io.ReadFull(server, head[:])
			io.CopyN(io.Discard, server, int64(binary.BigEndian.Uint32(head[:])))
			requests++
		}
		for _, a := range answers {
			for _, b := range append(binary.BigEndian.AppendUint32(nil, uint32(len(a.body))), a.body...) {
				server.Write([]byte{b})
			}
		}
		server.Write([]byte("token"))
	}()
	for _, a := range answers {
		request := binary.BigEndian.AppendUint32(nil, 30)
		request = binary.BigEndian.AppendUint16(request, uint16(a.key))
		request = binary.BigEndian.AppendUint16(request, uint16(a.v))
		request = append(request, make([]byte, 26)...)
		for i := 0; i < len(request); i += 5 {
			must.Get(c.Write(request[i:min(i+5, len(request))]))(t)
		}
	}
	for _, a := range answers {
		got := make([]byte, 4+len(a.body))
		_, err := io.ReadFull(c, got)
		must.Require(t, err == nil && string(got[4:]) == string(a.body), "%v: %v, %q, want %q", a.key, err, got, a.body)
	}
	token := make([]byte, 5)
	_, err := io.ReadFull(c, token)
	must.True(t, err == nil && string(token) == "token", "%v, %q behind a handshake without headers", err, token)

	x := new(fetchExchange)
	x.set("t", 0, 0, 1000, time.Second)
	x.version = 11
	body := strings.Repeat("0123456789", 100_000)
	_, err = x.RawExchange(struct {
		io.Reader
		io.Writer
	}{strings.NewReader("\x00\x0f\x42\x40" + body), io.Discard})
	must.True(t, err == nil && string(x.body) == body, "a fetch larger than asked for: %v, %d bytes", err, len(x.body))
}
