package stream

// This file sends requests that kafka-go lacks, or that it encodes in a way that brokers reject. kmsg encodes these
// requests. They are sent over kafka-go's connections, because kafka-go finds the right broker: a group's coordinator
// or a partition's leader.

import (
	"context"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go/protocol"
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

func (x *call) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	var head []byte
	if x.request.IsFlexible() {
		head = []byte{0} // the header has no tagged fields
	}
	body, err := exchange(rw, x.ApiKey(), x.request.GetVersion(), x.request.AppendTo(head))
	if err != nil {
		return nil, err
	}
	response := x.request.ResponseKind()
	c := cursor{b: body}
	c.int32() // correlation ID
	if response.IsFlexible() {
		c.tags()
	}
	if err := c.err(); err != nil {
		return nil, fmt.Errorf("a response of %d bytes to request %d", len(body), x.request.Key())
	}
	if err := response.ReadFrom(c.b); err != nil {
		return nil, err
	}
	x.response = response
	return x, nil
}

// groupCall is a call to the coordinator of a consumer group.
type groupCall struct {
	call
	group string
}

func (x *groupCall) Group() string { return x.group }

// askGroup sends a request of a fixed version to the coordinator of a group.
func askGroup[R kmsg.Response](ctx context.Context, k *cluster, group string, request kmsg.Request) (r R, err error) {
	x := &groupCall{call{request: request}, group}
	if _, err := k.transport.RoundTrip(ctx, k.addr, x); err != nil {
		return r, err // x may still be written by another goroutine
	}
	return x.response.(R), nil
}
