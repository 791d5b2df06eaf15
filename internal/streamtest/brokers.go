// Package streamtest provides helpers for tests of streams, servers and whole runs: Kafka clients, logs, files, waits
// and certificates.
package streamtest

import (
	"blankout/internal/must"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"blankout/internal/event"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Client returns a client of the brokers with these addresses. The end of the test closes it.
func Client(t testing.TB, brokers []string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client := must.Get(kgo.NewClient(append(options, kgo.SeedBrokers(brokers...))...))(t)
	t.Cleanup(client.Close)
	return client
}

// Admin returns a client that administers the brokers with these addresses.
func Admin(t testing.TB, brokers ...string) *kadm.Client {
	t.Helper()
	return kadm.NewClient(Client(t, brokers))
}

// From returns offsets that make reading one partition continue at next.
func From(topic string, partition int32, next int64) (from event.Offsets) {
	from.At(topic, partition, next)
	return from
}

// Log returns a logger that writes to the output of the test.
func Log(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Eventually waits until done returns true, and ends the test if this takes longer than limit. The
// words of what describe the awaited state.
func Eventually(t testing.TB, limit time.Duration, done func() bool, what ...any) {
	t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, fmt.Sprint(what...))
		}
	}
}
