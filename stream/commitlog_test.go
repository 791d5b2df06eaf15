package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"blankout/internal/must"
	"blankout/internal/streamtest"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func commitLogConfig(t testing.TB, b *Embedded) CommitLogConfig {
	c := DefaultCommitLogConfig()
	c.Brokers, c.Topic, c.Log, c.Partitions = b.Brokers(), "mix", streamtest.Log(t), 3
	return c
}

func openCommitLog(t testing.TB, c CommitLogConfig) *CommitLog {
	t.Helper()
	l := must.Get(OpenCommitLog(t.Context(), c))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

func readCommitLog(t testing.TB, c CommitLogConfig, id string, from int64) *CommitLogReader {
	t.Helper()
	r := must.Get(ReadCommitLog(t.Context(), c, id, from, true))(t)
	t.Cleanup(func() { r.Close() })
	return r
}

// testCommit is a commit in these tests: the content of its chunks, and their places.
type testCommit struct {
	Writer, Seq int
	Chunks      []Place
}

func (c testCommit) chunk(i int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%d/%d/%d ", c.Writer, c.Seq, i), 1+100*i)
}

func (c testCommit) append(ctx context.Context, l *CommitLog, chunks int) error {
	for i := range chunks {
		at, err := l.AppendChunk(ctx, c.chunk(i))
		if err != nil {
			return err
		}
		c.Chunks = append(c.Chunks, at)
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = l.AppendCommit(ctx, data)
	return err
}

// readCommits reads a commit log to its end, with chunks, and returns the order of the commits.
func readCommits(t testing.TB, r *CommitLogReader) (order []string, offsets []int64, commits []testCommit) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		records, err := r.Next(ctx)
		if err == io.EOF {
			return order, offsets, commits
		}
		must.Do(t, err)
		for _, record := range records {
			var c testCommit
			must.Do(t, json.Unmarshal(record.Value, &c))
			for i, at := range c.Chunks {
				if data, err := r.Chunk(ctx, at); err != nil || !bytes.Equal(data, c.chunk(i)) {
					t.Fatalf("chunk %d of commit %+v is %.40q, %v", i, c, data, err)
				}
			}
			order, offsets, commits = append(order, fmt.Sprintf("%d/%d", c.Writer, c.Seq)), append(offsets, record.Offset), append(commits, c)
		}
	}
}

// TestCommitLogOfSeveralWriters runs several writers with broken connections and moving leaders. Every acknowledged
// commit must be stored once. The commits of one writer must be stored in the order of writing, and all readers must
// see the same order of all commits.
func TestCommitLogOfSeveralWriters(t *testing.T) {
	noLeaks(t)
	var n network
	b := startCluster(t, 3, 1, kfake.ListenFn(n.listen))
	c := commitLogConfig(t, b)
	const writers, each = 3, 100
	var writing sync.WaitGroup
	for w := range writers {
		l := openCommitLog(t, c)
		writing.Go(func() {
			for i := range each {
				if err := (testCommit{Writer: w, Seq: i}).append(t.Context(), l, i%4); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	stop, cuts := make(chan struct{}), 0
	var cutting sync.WaitGroup
	cutting.Go(func() {
		random := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(random.IntN(20)) * time.Millisecond):
			}
			n.cut()
			if cuts++; cuts%3 == 0 {
				if err := b.cluster.MoveTopicPartition("mix", int32(random.IntN(4)), int32(random.IntN(3))); err != nil {
					t.Error(err)
				}
			}
		}
	})
	writing.Wait()
	order, _, _ := readCommits(t, readCommitLog(t, c, "", 0))
	close(stop)
	cutting.Wait()
	must.True(t, cuts >= 5, "the connections broke %d times only", cuts)
	again, _, _ := readCommits(t, readCommitLog(t, c, "", 0))
	must.Equal(t, fmt.Sprint(order), fmt.Sprint(again), "the order of a second reader")
	next := map[string]int{}
	for _, commit := range order {
		writer, seq, _ := strings.Cut(commit, "/")
		if seq != fmt.Sprint(next[writer]) {
			t.Fatalf("%v: commit %s comes where %d should", order, commit, next[writer])
		}
		next[writer]++
	}
	must.Equal(t, len(order), writers*each, "commits")
}

// TestCommitLogTopic checks the settings of a created topic, and which topics are rejected.
func TestCommitLogTopic(t *testing.T) {
	noLeaks(t)
	b := startCluster(t, 3, 1)
	c := commitLogConfig(t, b)
	c.Create = false
	var missing *TopicMissingError
	if _, err := OpenCommitLog(t.Context(), c); !errors.As(err, &missing) {
		t.Errorf("without the topic: %v", err)
	}
	c.Create = true
	l := openCommitLog(t, c)
	if l.Partitions() != 4 || l.ID() == "" {
		t.Errorf("%d partitions, id %q", l.Partitions(), l.ID())
	}
	described := must.Get(streamtest.Admin(t, b.Brokers()...).DescribeTopicConfigs(t.Context(), "mix"))(t)
	got := map[string]string{}
	for _, setting := range described[0].Configs {
		got[setting.Key] = setting.MaybeValue()
	}
	for name, want := range map[string]string{"retention.ms": "-1", "retention.bytes": "-1", "unclean.leader.election.enable": "false", "min.insync.replicas": "2"} {
		must.Equal(t, got[name], want, name)
	}
	c.Topic = "t" // a topic with one partition
	if _, err := OpenCommitLog(t.Context(), c); err == nil || !strings.Contains(err.Error(), "a commit log needs at least two") {
		t.Errorf("a topic of one partition: %v", err)
	}
}

// TestCheckRetention checks that a topic whose records expire is rejected, and that the error names the setting to
// change. A topic whose settings cannot be read is accepted.
func TestCheckRetention(t *testing.T) {
	noLeaks(t)
	b := startCluster(t, 1, 1)
	admin := streamtest.Admin(t, b.Brokers()...)
	check := func() error {
		return CheckRetention(t.Context(), commitLogConfig(t, b).ConnectConfig, "mix", "snapshot", nil)
	}
	l := openCommitLog(t, commitLogConfig(t, b))
	l.Close()
	c := SnapshotConfig{ConnectConfig: commitLogConfig(t, b).ConnectConfig, Topic: "snapshot", Create: true}
	snapshots := must.Get(OpenSnapshots(t.Context(), c))(t)
	snapshots.Close()
	must.Do(t, check(), "as they were made")
	for _, test := range []struct{ topic, key, value, want string }{
		{"mix", "retention.ms", "604800000", "topic mix has retention.ms=604800000: its records, and so the group's model, expire; set retention.ms=-1 "},
		{"mix", "retention.bytes", "1000000", "set retention.bytes=-1 "},
		{"mix", "cleanup.policy", "compact", "set cleanup.policy=delete "},
		{"snapshot", "cleanup.policy", "delete", "topic snapshot has cleanup.policy=delete"},
		{"snapshot", "cleanup.policy", "compact,delete", "set cleanup.policy=compact "},
	} {
		was := must.Get(admin.DescribeTopicConfigs(t.Context(), test.topic))(t)
		alter := func(value *string) {
			t.Helper()
			if _, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: test.key, Value: value}}, test.topic); err != nil {
				t.Fatal(err)
			}
		}
		alter(&test.value)
		var expires *RetentionError
		if err := check(); !errors.As(err, &expires) || !strings.Contains(err.Error(), test.want) || expires.Topic != test.topic {
			t.Errorf("%s %s=%s: %v", test.topic, test.key, test.value, err)
		}
		for _, setting := range was[0].Configs {
			if setting.Key == test.key {
				alter(setting.Value)
			}
		}
		must.Do(t, check(), test.topic, test.key, "as it was")
	}
	var asked atomic.Int32
	b.cluster.ControlKey(int16(kmsg.DescribeConfigs), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		asked.Add(1)
		response := r.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, one := range r.(*kmsg.DescribeConfigsRequest).Resources {
			response.Resources = append(response.Resources, kmsg.DescribeConfigsResponseResource{ErrorCode: int16(kafka.TopicAuthorizationFailed), ResourceType: one.ResourceType, ResourceName: one.ResourceName})
		}
		return response, nil, true
	})
	if err := check(); err != nil || asked.Load() != 2 {
		t.Errorf("where nobody may ask: %v, %d requests", err, asked.Load())
	}
}

// TestChunkOfStaleLeader checks that a new chunk is found although a paused broker, which is no longer the leader,
// briefly returns old data. A chunk that does not exist must be reported as missing.
func TestChunkOfStaleLeader(t *testing.T) {
	noLeaks(t)
	b := startBroker(t, nil)
	c := commitLogConfig(t, b)
	l := openCommitLog(t, c)
	old := testCommit{Seq: 1}
	must.Do(t, old.append(t.Context(), l, 3))
	at := must.Get(l.AppendChunk(t.Context(), []byte("new")))(t)
	var mu sync.Mutex
	stale, asked, written := false, 0, 0
	hold := func(s bool) {
		mu.Lock()
		defer mu.Unlock()
		stale, asked, written = s, 0, 0
	}
	b.cluster.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		asks := r.(*kmsg.FetchRequest)
		if !stale || asks.Topics[0].Partitions[0].Partition != at.Partition {
			return nil, nil, false
		}
		asked++
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = at.Partition, int16(kafka.OffsetOutOfRange), -1, -1, -1
		resp := asks.ResponseKind().(*kmsg.FetchResponse)
		resp.Topics = []kmsg.FetchResponseTopic{{Topic: "mix", Partitions: []kmsg.FetchResponseTopicPartition{p}}}
		return resp, nil, true
	})
	b.cluster.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		asks := r.(*kmsg.ListOffsetsRequest)
		if !stale || asks.Topics[0].Partitions[0].Partition != at.Partition {
			return nil, nil, false
		}
		p := kmsg.NewListOffsetsResponseTopicPartition()
		p.Partition, p.Offset = at.Partition, 0
		resp := asks.ResponseKind().(*kmsg.ListOffsetsResponse)
		resp.Topics = []kmsg.ListOffsetsResponseTopic{{Topic: "mix", Partitions: []kmsg.ListOffsetsResponseTopicPartition{p}}}
		return resp, nil, true
	})
	b.cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		written++
		stale = stale && asked < 3 // the leader is current from the third request on
		return nil, nil, false
	})
	for _, looks := range []bool{false, true} {
		r := must.Get(ReadCommitLog(t.Context(), c, l.ID(), 0, looks))(t)
		defer r.Close()
		hold(true)
		time.AfterFunc(100*time.Millisecond, func() { // after the first request
			mu.Lock()
			defer mu.Unlock()
			stale = false
		})
		if data, err := r.Chunk(t.Context(), at); string(data) != "new" || err != nil {
			t.Errorf("looks %v: %q, %v", looks, data, err)
		}
		mu.Lock()
		if asked == 0 || (written > 0) == looks || written > 1 {
			t.Errorf("looks %v: asked %d times, %d records written", looks, asked, written)
		}
		mu.Unlock()
	}
	r := must.Get(ReadCommitLog(t.Context(), c, l.ID(), 0, false))(t)
	defer r.Close()
	hold(false)
	if data, err := r.Chunk(t.Context(), Place{at.Partition, at.Offset + 10}); data != nil || err != nil {
		t.Errorf("a chunk where there is none: %q, %v", data, err)
	}
	must.Equal(t, written, 1, "records written")
}

// TestCommitLogTrim checks that trimmed commits and chunks are deleted, and that reading them returns a *TrimmedError.
func TestCommitLogTrim(t *testing.T) {
	noLeaks(t)
	b := startBroker(t, nil)
	c := commitLogConfig(t, b)
	l := openCommitLog(t, c)
	for i := range 10 {
		must.Do(t, (testCommit{Seq: i}).append(t.Context(), l, 2))
	}
	if end, err := l.End(t.Context()); end != 10 || err != nil {
		t.Errorf("end %d, %v", end, err)
	}
	c.RequestTimeout = 300 * time.Millisecond // a reader with toEnd repeats the request for this time
	r := readCommitLog(t, c, l.ID(), 0)
	_, offsets, commits := readCommits(t, r)
	first := commits[0].Chunks[0]
	for _, at := range []Place{{first.Partition, 1 << 40}, {first.Partition, -1}, {99, 0}, {0, 0}, {-1, 0}} {
		if data, err := r.Chunk(t.Context(), at); data != nil || err != nil {
			t.Errorf("a chunk where there is none, %v: %q, %v", at, data, err)
		}
	}
	before := make([]int64, l.Partitions())
	before[0] = offsets[4]
	for _, commit := range commits[:4] {
		for _, at := range commit.Chunks {
			before[at.Partition] = max(before[at.Partition], at.Offset+1)
		}
	}
	for range 2 { // deleted records must stay deleted
		must.Do(t, l.Trim(t.Context(), before))
	}
	var trimmed *TrimmedError
	if _, err := r.Chunk(t.Context(), first); !errors.As(err, &trimmed) || trimmed.Place != first {
		t.Errorf("a trimmed chunk: %v", err)
	}
	if _, err := ReadCommitLog(t.Context(), c, l.ID(), offsets[3], false); !errors.As(err, &trimmed) || trimmed.Start != offsets[4] {
		t.Errorf("a trimmed commit: %v", err)
	}
	order, _, _ := readCommits(t, readCommitLog(t, c, l.ID(), offsets[4]))
	must.True(t, len(order) == 6 && order[0] == "0/4", "commits after the trimmed ones: %v", order)
	if r.Lag() != 0 || r.Failing() != "" {
		t.Errorf("lag %d, failing %q", r.Lag(), r.Failing())
	}
	var recreated *TopicRecreatedError
	if _, err := ReadCommitLog(t.Context(), c, "another", offsets[4], false); !errors.As(err, &recreated) {
		t.Errorf("a recreated topic: %v", err)
	}
}

func openSnapshots(t testing.TB, b *Embedded) *SnapshotTopic {
	t.Helper()
	snapshots, err := OpenSnapshots(t.Context(), SnapshotConfig{ConnectConfig: commitLogConfig(t, b).ConnectConfig, Topic: "snapshot", Create: true, Log: streamtest.Log(t)})
	must.Do(t, err)
	t.Cleanup(func() { snapshots.Close() })
	return snapshots
}

// TestSnapshotTopic checks which snapshots a topic keeps. Incomplete, foreign and invalid snapshots must be skipped.
func TestSnapshotTopic(t *testing.T) {
	noLeaks(t)
	b := startBroker(t, nil)
	snapshots := openSnapshots(t, b)
	newest := func() *GroupSnapshot {
		t.Helper()
		return must.Get(snapshots.Newest(t.Context(), nil))(t)
	}
	if base := newest(); base != nil {
		t.Errorf("an empty topic has %+v", base)
	}
	base := func(offset int64) *GroupSnapshot {
		return &GroupSnapshot{offset, bytes.Repeat(fmt.Appendf(nil, "%d,", offset), int(offset)*20_000)} // needs 1 to 5 pieces
	}
	write := func(snapshots *SnapshotTopic, offset, before int64) {
		t.Helper()
		if got, err := snapshots.Write(t.Context(), base(offset)); err != nil || got != before {
			t.Errorf("writing snapshot %d: before it %d, want %d, %v", offset, got, before, err)
		}
	}
	expect := func(offset int64, there ...int64) {
		t.Helper()
		if got := newest(); got == nil || got.Offset != offset || !bytes.Equal(got.Data, base(offset).Data) {
			t.Errorf("the newest snapshot is not %d", offset)
		}
		found, _, err := snapshots.read(t.Context())
		if err != nil || len(found) != len(there) {
			t.Errorf("%d snapshots are there, want %v, %v", len(found), there, err)
		}
		for _, offset := range there {
			if err := found[offset].sound(); err != nil {
				t.Errorf("snapshot %d: %v", offset, err)
			}
		}
	}
	write(snapshots, 5, 0)
	expect(5, 5)
	write(snapshots, 9, 5)
	expect(9, 5, 9)
	write(snapshots, 30, 9)
	expect(30, 9, 30)
	other := openSnapshots(t, b) // writes the same snapshot
	write(other, 30, 9)
	expect(30, 9, 30)
	write(other, 7, 0) // a late snapshot
	expect(30, 7, 9, 30)
	write(snapshots, 40, 30)
	expect(40, 30, 40)

	// Simulate a writer that stopped in the middle of a snapshot.
	producer := other.producer
	put := func(key string, value []byte) {
		t.Helper()
		must.Get(producer.Append(t.Context(), 0, Message{Key: []byte(key), Value: value}))(t)
	}
	put(pieceKey(50, 0), []byte("half"))
	must.Equal(t, newest().Offset, 40, "half a snapshot is not valid")
	put(snapshotKey(50), []byte(`{"format":1,"bytes":8,"pieces":2,"sha256":""}`))
	must.Equal(t, newest().Offset, 40, "a snapshot without a piece is not valid")
	put(pieceKey(50, 1), []byte("lost"))
	must.Equal(t, newest().Offset, 40, "a snapshot with another hash is not valid")
	write(snapshots, 60, 40)
	expect(60, 40, 60)
	put(snapshotKey(70), []byte(`{"format":2}`))
	must.ErrorContains(t, must.Err(snapshots.Newest(t.Context(), nil)), "format 2", "a newer format")
	put(snapshotKey(70), nil)
	expect(60, 40, 60)

	// Unknown records, and a snapshot that the reader rejects, are skipped and logged with their position.
	var log bytes.Buffer
	snapshots.producer.cluster.log = slog.New(slog.NewTextHandler(&log, nil))
	put("something", []byte("else"))
	put("snapshot/x", nil)
	put("snapshot/1/x", nil)
	put(snapshotKey(60)+"/-1", []byte("{}"))
	put(snapshotKey(60), []byte("{"))
	must.Equal(t, newest().Offset, 40, "a snapshot without a head is not valid")
	write(snapshots, 60, 40)
	expect(60, 40, 60)
	if text := log.String(); !strings.Contains(text, "records=5") || !strings.Contains(text, "topic snapshot offset ") || !strings.Contains(text, "their own topic") || !strings.Contains(text, "its head is missing") {
		t.Errorf("%s", text)
	}
	log.Reset()
	got, err := snapshots.Newest(t.Context(), func(b *GroupSnapshot) error {
		if b.Offset == 60 {
			return errors.New("not mine")
		}
		return nil
	})
	if err != nil || got.Offset != 40 || !strings.Contains(log.String(), "snapshot=60 offset=") || !strings.Contains(log.String(), "not mine") {
		t.Errorf("%v, %v: %s", got, err, log.String())
	}
	if got, err := snapshots.Newest(t.Context(), func(*GroupSnapshot) error { return errors.New("not mine") }); got != nil || err == nil || !strings.Contains(err.Error(), "snapshot 40: not mine") {
		t.Errorf("no valid snapshot: %v, %v", got, err)
	}
	write(snapshots, 90, 60)
	expect(90, 60, 90)

	// A topic with records but without any snapshot is used for something else, and is rejected.
	c := SnapshotConfig{ConnectConfig: commitLogConfig(t, b).ConnectConfig, Topic: "events", Create: true, Log: streamtest.Log(t)}
	snapshots = must.Get(OpenSnapshots(t.Context(), c))(t)
	defer snapshots.Close()
	producer = snapshots.producer
	put("something", []byte("else"))
	if _, err := snapshots.Newest(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "topic events offset 0: ") || !strings.Contains(err.Error(), "their own topic") {
		t.Errorf("another's records: %v", err)
	}
}
