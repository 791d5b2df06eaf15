package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"blankout/app/served"
	"blankout/app/served/kafka"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/stream"
	"blankout/stream/record"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// wide returns a model with the given number of columns and 64 classes. The model has half a megabyte for every 1024
// columns. first is the value of its first weight.
func wide(version uint64, columns int, first float64) *served.Model {
	recordConfig := record.DefaultConfig()
	recordConfig.Format = "svmlight"
	classes := make([]string, 64)
	weights := make([][]float64, len(classes))
	for k := range classes {
		classes[k], weights[k] = fmt.Sprint(k), make([]float64, columns)
		for d := range weights[k] {
			weights[k][d] = float64(d*k%7) + 0.25
		}
	}
	weights[0][0] = first
	schema := event.NewSchema(20, classes, 0)
	schema.NumericIndices = true
	m := served.New(model.NewLinear(schema, "logistic", "none", weights, make([]float64, len(classes))), recordConfig)
	m.Version, m.At = version, time.Unix(1_700_000_000+int64(version), 0).UTC()
	return m
}

func snapshotBroker(t *testing.T) (*kfake.Cluster, stream.ConnectConfig, string) {
	t.Helper()
	c := must.Get(kfake.NewCluster(kfake.Ports(0)))(t)
	t.Cleanup(c.Close)
	connect := stream.DefaultConnectConfig()
	connect.Brokers = c.ListenAddrs()
	return c, connect, "kafka://" + strings.Join(c.ListenAddrs(), ",") + "/snapshots"
}

// options returns options that read snapshot topics from the given brokers, every millisecond.
func options(c stream.ConnectConfig) served.Options {
	return served.Options{Interval: time.Millisecond, Schemes: map[string]served.Opener{"kafka": kafka.Opener(c)}}
}

func publisher(t *testing.T, connect stream.ConnectConfig) *kafka.Publisher {
	t.Helper()
	p := must.Get(kafka.NewPublisher(t.Context(), kafka.PublisherConfig{ConnectConfig: connect, Topic: "snapshots", Create: true}))(t)
	return p
}

func encoded(t *testing.T, m *served.Model) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, m.Encode(&b))
	return b.Bytes()
}

// TestRecreatedSnapshotTopic checks that the whole model is written to a recreated snapshot topic, and that a follower
// finds it.
func TestRecreatedSnapshotTopic(t *testing.T) {
	c, connect, where := snapshotBroker(t)
	p := publisher(t, connect)
	defer p.Close()
	must.Do(t, p.Publish(t.Context(), wide(1, 100, 1)))
	f, err := served.Follow(t.Context(), where, options(connect))
	must.Do(t, err)
	defer f.Close()
	must.Do(t, errors.Join(c.DeleteTopic("snapshots"), c.CreateTopic("snapshots", 1, nil)))
	for range 100 { // wait until the producer sees the new topic
		if err = p.Publish(t.Context(), wide(2, 100, 1)); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	must.Do(t, err)
	if m, err := served.Open(t.Context(), where, options(connect)); err != nil || m.Version != 2 {
		t.Errorf("%v", err)
	}
	for range 1000 {
		if m, err := f.Model(); err == nil && m.Version == 2 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	m, err := f.Model()
	t.Errorf("the follower is at version %d: %v", m.Version, err)
}

// TestSnapshotTopic checks that a model read from the topic has the same bytes as the published model. Only changes
// must be written, and a restart must keep the version.
func TestSnapshotTopic(t *testing.T) {
	c, connect, where := snapshotBroker(t)
	p := publisher(t, connect)
	must.True(t, p.Version() == 0, "version %d of an empty topic", p.Version())
	got := c.TopicInfo("snapshots")
	must.True(t, got != nil && got.Configs["cleanup.policy"] != nil && *got.Configs["cleanup.policy"] == "compact", "the topic is not compacted: %+v", got)
	must.ErrorContains(t, must.Err(served.Open(t.Context(), where, options(connect))), "no complete snapshot", "an empty topic")
	const columns = 5000 // 5000 columns are 2.5 MB of rows
	must.Do(t, p.Publish(t.Context(), wide(1, columns, 1)))
	first := p.Written()
	must.Do(t, p.Publish(t.Context(), wide(2, columns, 2)))
	second := p.Written() - first
	must.True(t, first >= 2_500_000 && second <= 600_000, "%d bytes for the first snapshot, %d for the second, which differs in one weight", first, second)
	check := func(want *served.Model) {
		t.Helper()
		m := must.Get(served.Open(t.Context(), where, options(connect)))(t)
		must.True(t, m.Version == want.Version && bytes.Equal(encoded(t, m), encoded(t, want)), "read version %d, want %d", m.Version, want.Version)
	}
	check(wide(2, columns, 2))
	c.Compact()
	check(wide(2, columns, 2))

	must.Do(t, p.Close())
	p = publisher(t, connect)
	defer p.Close()
	must.True(t, p.Version() == 2, "version %d after a restart", p.Version())
	must.Do(t, p.Publish(t.Context(), wide(3, columns, 3)))
	must.True(t, p.Written() <= 600_000, "%d bytes written after a restart for one weight", p.Written())
	c.Compact()
	check(wide(3, columns, 3))
	small := options(connect)
	small.MaxBytes = 1000
	must.ErrorContains(t, must.Err(served.Open(t.Context(), where, small)), "more than 1000 bytes", "a bound of 1000 bytes")
}

// TestBrokenPublication interrupts a publication after any number of messages. The topic must then contain either the
// complete previous model or the complete new model. This must also hold after compaction and after the next
// publication.
func TestBrokenPublication(t *testing.T) {
	c, connect, where := snapshotBroker(t)
	var allowed atomic.Int64        // number of requests that still succeed
	var stop atomic.Pointer[func()] // called for the first request that fails
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if allowed.Add(-1) < 0 {
			(*stop.Load())()
			return nil, errors.New("gone"), true
		}
		return nil, nil, false
	})
	change := func(version uint64) *served.Model {
		m := wide(version, 3000, float64(version))
		m.Model.(*model.Linear).Rows.Touch(2500)[0] = float64(version) // change another block
		return m
	}
	for n := range 10 {
		version := uint64(2 * n)
		p := must.Get(kafka.NewPublisher(t.Context(), kafka.PublisherConfig{ConnectConfig: connect, Topic: "snapshots", Create: true, MaxPiece: 200_000}))(t)
		allowed.Store(1 << 30)
		must.Do(t, p.Publish(t.Context(), change(version)))
		ctx, cancel := context.WithCancel(t.Context())
		crash := func() { cancel() }
		stop.Store(&crash)
		allowed.Store(int64(n))
		broke := p.Publish(ctx, change(version+1)) != nil
		cancel()
		p.Close() // simulates a crash
		allowed.Store(1 << 30)
		for range 2 {
			m, err := served.Open(t.Context(), where, options(connect))
			must.Require(t, err == nil, "after %d messages: %v", n, err)
			must.True(t, (m.Version == version || m.Version == version+1) && (broke || m.Version == version+1) && bytes.Equal(encoded(t, m), encoded(t, change(m.Version))),
				"after %d messages: version %d, wanted %d", n, m.Version, version)
			c.Compact()
		}
		must.True(t, (n != 0 || broke) && (n != 9 || !broke), "after %d messages: broke off: %v", n, broke)
	}
}

// TestFollowPlaces checks that followers of a topic, of a file and of a directory receive newer models.
func TestFollowPlaces(t *testing.T) {
	_, connect, topic := snapshotBroker(t)
	dir := t.TempDir()
	file, checkpoints := filepath.Join(dir, "model"), filepath.Join(dir, "checkpoints")
	must.Do(t, os.Mkdir(checkpoints, 0o755))
	p := publisher(t, connect)
	defer p.Close()
	publish := func(version uint64) {
		t.Helper()
		m := wide(version, 10, float64(version))
		err := errors.Join(p.Publish(t.Context(), m), m.WriteFile(file),
			m.WriteFile(filepath.Join(checkpoints, fmt.Sprintf("checkpoint-%012d.blankout", version))))
		must.Do(t, err)
	}
	publish(1)
	for _, where := range []string{topic, file, checkpoints} {
		f := must.Get(served.Follow(t.Context(), where, options(connect)))(t)
		defer f.Close()
		m, err := f.Model()
		must.Require(t, err == nil && m.Version == 1, "%s: %d, %v", where, m.Version, err)
		defer func() {
			for range 500 {
				if m, _ := f.Model(); m.Version == 3 {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			m, err := f.Model()
			t.Errorf("%s: version %d, %v", where, m.Version, err)
		}()
	}
	publish(2)
	publish(3)
}

// TestPublishWithoutBrokers checks that Publish without brokers returns after the time limit of a request. The program
// that calls Publish also publishes to other destinations, which must not wait.
func TestPublishWithoutBrokers(t *testing.T) {
	broker, connect, _ := snapshotBroker(t)
	connect.RequestTimeout = 300 * time.Millisecond
	p := publisher(t, connect)
	defer p.Close()
	broker.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := p.Publish(ctx, wide(1, 10, 1))
	must.True(t, err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "the id of topic snapshots"), "%v, %v", err, ctx.Err())
}

// TestForeignTopic checks that a topic that contains records of another kind is not overwritten.
func TestForeignTopic(t *testing.T) {
	_, connect, where := snapshotBroker(t)
	config := stream.DefaultProducerConfig()
	config.ConnectConfig, config.Topic, config.CreateTopics = connect, "snapshots", true
	p := must.Get(stream.NewProducer(t.Context(), config))(t)
	must.Do(t, errors.Join(p.Write(t.Context(), stream.Message{Value: []byte(`{"label": 1}`)}), p.Flush(t.Context()), p.Close()))
	must.ErrorContains(t, must.Err(kafka.NewPublisher(t.Context(), kafka.PublisherConfig{ConnectConfig: connect, Topic: "snapshots"})), "their own topic", "publishing among events")
	must.ErrorContains(t, must.Err(served.Open(t.Context(), where, options(connect))), "no complete snapshot", "reading events")
	for _, place := range []string{"kafka://127.0.0.1:1", "kafka://127.0.0.1:1/a/b"} {
		must.ErrorContains(t, must.Err(served.Open(t.Context(), place, options(connect))), "want kafka://HOST:PORT/TOPIC", place)
	}
}
