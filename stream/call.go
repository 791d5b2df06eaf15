package stream

// This file sends requests that kafka-go lacks, or that it encodes in a way that brokers reject. kmsg encodes these
// requests. They are sent over kafka-go's connections, because kafka-go finds the right broker: a group's coordinator
// or a partition's leader.

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// call is a request of a fixed version and its response. The types that embed call select the recipient. It implements
// protocol.RawExchanger.
type call struct {
	request  kmsg.Request
	response kmsg.Response
}

func (x *call) ApiKey() protocol.ApiKey { return protocol.ApiKey(x.request.Key()) }

func (x *call) Required(map[protocol.ApiKey]int16) bool { return true }

func (x *call) RawExchange(rw io.ReadWriter) (_ protocol.Message, err error) {
	x.response, err = ask[kmsg.Response](rw, x.request)
	return x, err
}

// formatter adds the headers of requests.
var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("blankout"))

// ask writes a request and reads its response. There is only one request at a time, so all requests have the correlation
// ID 1.
func ask[R kmsg.Response](rw io.ReadWriter, request kmsg.Request) (none R, err error) {
	if _, err := rw.Write(formatter.AppendRequest(nil, request, 1)); err != nil {
		return none, err
	}
	var size [4]byte
	if _, err := io.ReadFull(rw, size[:]); err != nil {
		return none, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxAnswer {
		return none, fmt.Errorf("a response of %d bytes to request %d", n, request.Key())
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, rw, int64(n)); err != nil {
		return none, err
	}
	response := request.ResponseKind()
	if err := decodeAnswer(response, body.Bytes()); err != nil {
		return none, fmt.Errorf("a response of %d bytes to request %d: %w", n, request.Key(), err)
	}
	return response.(R), nil
}

// decodeAnswer decodes a response, which begins with the correlation ID.
func decodeAnswer(response kmsg.Response, body []byte) error {
	c := kbin.Reader{Src: body}
	c.Int32()
	if response.IsFlexible() && protocol.ApiKey(response.Key()) != protocol.ApiVersions {
		for n := c.Uvarint(); n > 0 && c.Ok(); n-- { // tagged fields
			c.Uvarint()
			c.Span(int(c.Uvarint()))
		}
	}
	if !c.Ok() {
		return errResponse
	}
	return response.ReadFrom(c.Src)
}

// groupCall is a call to the coordinator of a consumer group.
type groupCall struct {
	call
	group string
}

func (x *groupCall) Group() string { return x.group }

// askGroup sends a request of a fixed version to the coordinator of a group, and waits for the response for a time. code
// returns the error of a response.
func askGroup[R kmsg.Response](ctx context.Context, wait time.Duration, k *cluster, group string, request kmsg.Request, code func(R) int16) (r R, err error) {
	x := &groupCall{call{request: request}, group}
	if _, err := k.roundTrip(ctx, wait, x); err != nil {
		return r, err // x may still be written by another goroutine
	}
	r = x.response.(R)
	if n := code(r); n != 0 {
		err = kafka.Error(n)
	}
	return r, err
}
