package stream

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"blankout/internal/must"

	"github.com/segmentio/kafka-go"
)

// TestStopIsNotLogged checks that a call that ends because the program stops is not logged as a failure, and that a
// failing call is logged.
func TestStopIsNotLogged(t *testing.T) {
	var log bytes.Buffer
	k := &cluster{log: slog.New(slog.NewTextHandler(&log, nil)), transport: &kafka.Transport{}}
	k.client = &kafka.Client{Addr: kafka.TCP("127.0.0.1:1"), Transport: k.transport}
	ctx, cancel := context.WithCancel(t.Context())
	err := k.retry(ctx, "asking", func() error {
		cancel()
		return ctx.Err()
	})
	must.True(t, errors.Is(err, context.Canceled) && log.Len() == 0, "%v; logged: %s", err, &log)
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	tries := 0
	err = k.retry(ctx, "asking", func() error {
		if tries++; tries == 2 {
			return nil
		}
		return kafka.LeaderNotAvailable
	})
	must.True(t, err == nil && tries == 2 && strings.Count(log.String(), "level=WARN msg=asking attempt=1") == 1, "%v after %d tries; logged: %s", err, tries, &log)
}
