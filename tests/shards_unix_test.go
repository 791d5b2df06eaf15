//go:build unix

package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"blankout/app/served"
	"blankout/app/served/kafka"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/internal/s3test"
	"blankout/stream"
)

// TestCrashShards runs a few rounds with the group coordinator of the embedded broker. TestKafkaShards runs more.
func TestCrashShards(t *testing.T) {
	t.Parallel()
	kills := must.Either(longtest.Asked(), 12, 2)
	broker := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(6, "events"), kfake.GroupMinSessionTimeout(100*time.Millisecond)))(t)
	t.Cleanup(broker.Close)
	crashShards(t, broker.ListenAddrs(), nil, 6, kills)
}

// TestCrashShardsInStore keeps the checkpoints in a store of objects, where a successor does not wait for a paused member.
func TestCrashShardsInStore(t *testing.T) {
	longtest.Only(t)
	broker := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(6, "events"), kfake.GroupMinSessionTimeout(100*time.Millisecond)))(t)
	t.Cleanup(broker.Close)
	store := s3test.Start()
	t.Cleanup(store.Close)
	crashShards(t, broker.ListenAddrs(), store, 6, 12)
}

// TestShardsKilledEarly kills a member that has learned and published for a while, but has no checkpoint yet. The next
// member begins anew.
func TestShardsKilledEarly(t *testing.T) {
	longtest.Only(t)
	broker := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(6, "events"), kfake.GroupMinSessionTimeout(100*time.Millisecond)))(t)
	t.Cleanup(broker.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	n := shardedStream(ctx, t, broker.ListenAddrs(), 6)
	m := newShardMembers(t, broker.ListenAddrs(), "early", 1)
	m.start(0, "--set", "checkpoint.interval=1h")
	time.Sleep(3 * time.Second) // several intervals of snapshots
	m.kill(0)
	m.start(0)
	time.Sleep(8 * time.Second) // a partition at its end holds up the others for five seconds
	m.stop(0)
	learned := 0
	for k := range 3 {
		text := must.Get(exec.Command(m.program, "inspect", "--json", filepath.Join(m.dir, "checkpoints", fmt.Sprint("shard-", k))).Output())(t)
		var is struct{ Events int }
		must.Do(t, json.Unmarshal(text, &is))
		learned += is.Events
	}
	must.True(t, learned == n, "%d events learned of %d\n%s", learned, n, m.said())
}

// brokerFault makes brokers fail. It returns a description of the fault and a function that repairs the brokers.
type brokerFault func(r *rand.Rand) (what string, mend func())

// shardedStream writes events with the same key to the same partition until ctx ends, and returns their number. The times
// of the records rise over all partitions.
func shardedStream(ctx context.Context, t *testing.T, brokers []string, partitions int) (n int) {
	c := stream.DefaultProducerConfig()
	c.Brokers, c.Topic, c.RequestTimeout = brokers, "events", 2*time.Second
	p, err := stream.NewProducer(ctx, c)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer p.Close()
	r := rand.New(rand.NewPCG(1, 2))
	at := time.Now()
	for ctx.Err() == nil {
		for range 20 {
			x, user := r.NormFloat64(), r.IntN(50)
			value := fmt.Appendf(nil, `{"label":"%v","x":%.4f,"user":"u%d"}`, x+float64(user%3)-1 > 0, x, user)
			at = at.Add(time.Millisecond)
			err := p.WriteTo(t.Context(), int32(user%partitions), stream.Message{Value: value, Time: at.UnixMilli()})
			must.True(t, err == nil, "%v", err)
			n++
		}
		err := p.Flush(t.Context())
		must.True(t, err == nil, "%v", err)
		time.Sleep(4 * time.Millisecond)
	}
	return n
}

// shardMembers runs the members of a group in separate processes, which share a directory.
type shardMembers struct {
	t             testing.TB
	program, file string // the program and its configuration
	dir           string
	processes     []*exec.Cmd // nil for a member that does not run
	poll          time.Duration
	store         *s3test.Store // has the checkpoints; nil if they are in the directory
}

func newShardMembers(t testing.TB, brokers []string, name string, members int, settings ...string) *shardMembers {
	dir := t.TempDir()
	m := &shardMembers{t: t, program: buildProgram(t), file: filepath.Join(dir, "blankout.toml"), dir: dir, processes: make([]*exec.Cmd, members), poll: 100 * time.Millisecond}
	must.Do(t, os.WriteFile(m.file, fmt.Appendf(nil, `
[kafka]
brokers = ["%s"]
topics = ["events"]
request_timeout = "2s"
[record]
format = "json"
bits = 14
seed = 7
[http]
address = ""
[dead_letter]
policy = "skip"
[checkpoint]
interval = "200ms"
[snapshot]
interval = "200ms"
[group]
name = "%s"
shards = 3
session_timeout = "1s"
%s
`, strings.Join(brokers, `", "`), name, strings.Join(settings, "\n")), 0o600))
	t.Cleanup(func() {
		for _, c := range m.processes {
			if c != nil {
				_ = c.Process.Kill()
				_ = c.Wait()
			}
		}
	})
	return m
}

func (m *shardMembers) log(i int) string { return filepath.Join(m.dir, fmt.Sprintf("log%d", i)) }

// said returns the end of each member's log.
func (m *shardMembers) said() string {
	text := ""
	for i := range m.processes {
		data, _ := os.ReadFile(m.log(i))
		text += fmt.Sprintf("member %d:\n%s", i, data[max(0, len(data)-8000):])
	}
	return text
}

func (m *shardMembers) start(i int, args ...string) {
	m.t.Helper()
	log := must.Get(os.OpenFile(m.log(i), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(m.t)
	defer log.Close()
	c := exec.Command(m.program, append([]string{"run", "-f", m.file}, args...)...)
	c.Dir, c.Stdout, c.Stderr = m.dir, log, log
	if m.store != nil {
		c.Args = append(c.Args, "--set", "checkpoint.directory=s3://models/shards", "--set", "s3.region="+s3test.Region, "--set", "s3.endpoint="+m.store.URL)
		c.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+s3test.AccessKey, "AWS_SECRET_ACCESS_KEY="+s3test.SecretKey)
	}
	must.Do(m.t, c.Start())
	m.processes[i] = c
}

// stop stops a member, which saves its shards. It reports whether the member had handled the signal.
func (m *shardMembers) stop(i int) bool {
	m.t.Helper()
	c := m.processes[i]
	m.processes[i] = nil
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		m.t.Fatalf("%v\n%s", err, m.said())
	}
	var exit *exec.ExitError
	err := c.Wait()
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM {
		return false // it had just started and did not handle signals yet
	}
	if err != nil {
		m.t.Fatalf("a stop: %v\n%s", err, m.said())
	}
	return true
}

func (m *shardMembers) kill(i int) {
	m.t.Helper()
	c := m.processes[i]
	m.processes[i] = nil
	must.Do(m.t, c.Process.Kill())
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		m.t.Fatalf("it had ended by itself: %v\n%s", err, m.said())
	}
}

// copyStore copies the newest checkpoints from the store to the directory checkpoints, which no member uses.
func (m *shardMembers) copyStore() {
	m.t.Helper()
	for k := range 3 {
		shard := fmt.Sprint("shard-", k)
		for _, name := range slices.Backward(m.store.Names("/models/shards/" + shard + "/")) {
			data := m.store.Get("/models/shards/" + shard + "/" + name)
			if !strings.HasPrefix(name, "checkpoint-") || data == nil { // it may just have been removed
				continue
			}
			directory := filepath.Join(m.dir, "checkpoints", shard)
			must.Do(m.t, os.RemoveAll(directory))
			must.Do(m.t, os.MkdirAll(directory, 0o700))
			must.Do(m.t, os.WriteFile(filepath.Join(directory, name), data, 0o600))
			break
		}
	}
}

// shards returns the newest checkpoints of the shards, by shard, and the number of their records.
func (m *shardMembers) shards() (files map[string]string, records int) {
	m.t.Helper()
	if m.store != nil {
		m.copyStore()
	}
	out, err := exec.Command(m.program, "inspect", filepath.Join(m.dir, "checkpoints"), "--json").Output()
	if err != nil {
		return nil, 0 // a checkpoint was replaced meanwhile, or there is none yet
	}
	var read struct {
		Shards []struct {
			Shard, File string
			Records     int
		}
	}
	must.Do(m.t, json.Unmarshal(out, &read))
	files = map[string]string{}
	for _, s := range read.Shards {
		files[s.Shard] = s.File
		records += s.Records
	}
	return files, records
}

// await waits until the checkpoints of all shards together have n records.
func (m *shardMembers) await(n int) {
	m.t.Helper()
	records := 0
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(m.poll) {
		if _, records = m.shards(); records == n {
			return
		}
		if time.Now().After(deadline) || records > n {
			m.t.Fatalf("%d of %d records learned\n%s", records, n, m.said())
		}
	}
}

// crashShards runs three members in separate processes while events are produced to the topic events. It kills members,
// pauses them for longer than their session timeout, and stops and restarts them at random times. The faults of brokers
// happen one after the other, each during a failure of a member. The final checkpoints of the shards must be those of a
// group of one member that was never disturbed, byte for byte. If store is not nil, it has the checkpoints of the
// disturbed group.
func crashShards(t *testing.T, brokers []string, store *s3test.Store, partitions, kills int, faults ...brokerFault) {
	const members = 3
	m := newShardMembers(t, brokers, "disturbed", members)
	m.store = store
	producing, enough := context.WithCancel(t.Context())
	defer enough()
	events := 0
	var running sync.WaitGroup
	running.Go(func() { events = shardedStream(producing, t, brokers, partitions) })
	for i := range members {
		m.start(i)
	}
	single := newShardMembers(t, brokers, "undisturbed", 1)
	if len(faults) == 0 { // else the brokers' faults would disturb it
		single.start(0)
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)) // different times in each run
	paused, killed, stopped, disturbed := 0, 0, 0, map[string]int{}
	for round := range kills {
		time.Sleep(time.Duration(300+r.IntN(900)) * time.Millisecond)
		mend := func() {}
		if len(faults) > 0 {
			var what string
			what, mend = faults[round%len(faults)](r)
			disturbed[what]++
			time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		}
		i := r.IntN(members)
		switch r.IntN(4) {
		case 0:
			paused++
			must.Do(t, m.processes[i].Process.Signal(syscall.SIGSTOP))
			time.Sleep(time.Duration(1000+r.IntN(1000)) * time.Millisecond) // longer than the session timeout
			must.Do(t, m.processes[i].Process.Signal(syscall.SIGCONT))
		case 1:
			stopped++
			m.stop(i)
			m.start(i)
		default:
			killed++
			m.kill(i)
			m.start(i)
		}
		mend()
	}
	enough()
	running.Wait()
	if len(faults) == 0 { // kfake starts no session timeout for a member that dies while it joins: only a rebalance removes it
		m.stop(0)
		m.start(0)
	}
	m.await(events)
	for i := range members {
		m.stop(i)
	}
	if len(faults) > 0 {
		single.start(0)
	}
	single.await(events)
	single.stop(0)
	files, n := m.shards()
	must.Equal(t, n, events, "records of the disturbed group")
	want, n := single.shards()
	must.Equal(t, n, events, "records of the undisturbed group")
	must.Equal(t, len(files), len(want), "shards")
	for shard, file := range want {
		a, b := must.Get(os.ReadFile(file))(t), must.Get(os.ReadFile(files[shard]))(t)
		must.True(t, bytes.Equal(a, b), "%s: the checkpoints differ: %s and %s\n%s", shard, file, files[shard], m.said())
	}
	t.Logf("%d killed, %d paused, %d stopped, brokers: %v; %d events in %d shards", killed, paused, stopped, disturbed, events, len(want))
}

// TestShardsWithLabels kills members that learn events with delayed labels. The final checkpoints must be those of one
// member that was never disturbed.
func TestShardsWithLabels(t *testing.T) {
	longtest.Only(t)
	const partitions, events = 3, 6000
	broker := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "events", "labels"), kfake.GroupMinSessionTimeout(100*time.Millisecond)))(t)
	t.Cleanup(broker.Close)
	r, at := rand.New(rand.NewPCG(1, 2)), time.Now().Add(-time.Hour)
	write := map[string]func(id int, value []byte){}
	for _, topic := range []string{"events", "labels"} {
		c := stream.DefaultProducerConfig()
		c.Brokers, c.Topic = broker.ListenAddrs(), topic
		p := must.Get(stream.NewProducer(t.Context(), c))(t)
		defer p.Close()
		write[topic] = func(id int, value []byte) {
			at = at.Add(10 * time.Millisecond)
			must.Do(t, p.WriteTo(t.Context(), int32(id%partitions), stream.Message{Key: fmt.Append(nil, id), Value: value, Time: at.UnixMilli()}))
			must.Do(t, p.Flush(t.Context()))
		}
	}
	// The writer pauses for over a second around each kill. After a timeout within a pause, a repeated run may differ.
	args := []string{"--set", "record.id=id", "--set", "labels.topics=[\"labels\"]", "--set", "labels.max_delay=1m", "--set", "labels.idle_timeout=5s"}
	m := newShardMembers(t, broker.ListenAddrs(), "disturbed", 2)
	for i := range 2 {
		m.start(i, args...)
	}
	for id := range events {
		x := r.NormFloat64()
		write["events"](id, fmt.Appendf(nil, `{"id":"%d","x":%.4f,"user":"u%d"}`, id, x, id%50))
		if id >= 100 {
			write["labels"](id-100, fmt.Appendf(nil, `{"id":"%d","label":"%v"}`, id-100, r.IntN(2) == 0))
		}
		if i := id / 1000 % 2; id%1000 == 999 {
			time.Sleep(time.Second)
			m.kill(i)
			m.start(i, args...)
		}
	}
	m.await(2*events - 100)
	single := newShardMembers(t, broker.ListenAddrs(), "undisturbed", 1)
	single.start(0, args...)
	single.await(2*events - 100)
	for _, x := range []*shardMembers{m, single} {
		for i := range x.processes {
			x.stop(i)
		}
	}
	connect := stream.DefaultConnectConfig()
	connect.Brokers = broker.ListenAddrs()
	set := must.Get(served.Open(t.Context(), "kafka:///undisturbed-snapshots", served.Options{Schemes: map[string]served.Opener{"kafka": kafka.Opener(connect)}}))(t)
	for k, shard := range set.Shards() { // the answers are measured
		must.True(t, shard != nil && shard.Shard.Answered.Number > 50, "shard %d: %+v", k, shard)
	}
	files, _ := m.shards()
	want, _ := single.shards()
	for shard, file := range want {
		a, b := must.Get(os.ReadFile(file))(t), must.Get(os.ReadFile(files[shard]))(t)
		must.True(t, bytes.Equal(a, b), "%s: the checkpoints differ: %s and %s\n%s", shard, file, files[shard], m.said())
	}
}

// BenchmarkShards measures the processor time per event of one learner and of groups, which learn the same topic of 8
// partitions. The events have nine features. BLANKOUT_SHARD_EVENTS sets their number.
func BenchmarkShards(b *testing.B) {
	const partitions = 8
	events := 1_000_000
	if text := os.Getenv("BLANKOUT_SHARD_EVENTS"); text != "" {
		must.Get(fmt.Sscan(text, &events))(b)
	}
	broker := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "events")))(b)
	defer broker.Close()
	c := stream.DefaultProducerConfig()
	c.Brokers, c.Topic = broker.ListenAddrs(), "events"
	p := must.Get(stream.NewProducer(b.Context(), c))(b)
	r := rand.New(rand.NewPCG(1, 2))
	begin := time.Now().UnixMilli() - int64(events/100)
	for i := range events {
		x, user := r.NormFloat64(), r.IntN(270)
		value := fmt.Appendf(nil, `{"label":"%v","x":%.4f,"y":%.3f,"z":%.3f,"a":%d,"b":%d,"c":%d,"d":%d,"e":"e%d","user":"u%d"}`, x+float64(user%3)-1 > 0, x, r.NormFloat64(), r.Float64(), r.IntN(9), r.IntN(9), r.IntN(9), r.IntN(9), r.IntN(9), user)
		must.Do(b, p.WriteTo(b.Context(), int32(user%partitions), stream.Message{Value: value, Time: begin + int64(i/100)}))
	}
	must.Do(b, p.Flush(b.Context()))
	must.Do(b, p.Close())
	report := func(b *testing.B, processes ...*exec.Cmd) {
		total := time.Duration(0)
		for _, c := range processes {
			total += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		}
		b.ReportMetric(float64(total.Nanoseconds())/1000/float64(events), "cpu-µs/event")
		b.ReportMetric(0, "ns/op")
	}
	program := buildProgram(b)
	b.Run("alone", func(b *testing.B) {
		for range b.N {
			dir := b.TempDir()
			file := filepath.Join(dir, "blankout.toml")
			must.Do(b, os.WriteFile(file, fmt.Appendf(nil, "[kafka]\nbrokers = [%q]\ntopics = [\"events\"]\n[record]\nformat = \"json\"\n[http]\naddress = \"\"\n[checkpoint]\ninterval = \"10s\"\n[validate]\nevents = 0\n", broker.ListenAddrs()[0]), 0o600))
			c := exec.Command(program, "run", "-f", file, "--until-end", "-q")
			c.Dir = dir
			began := time.Now()
			out, err := c.CombinedOutput()
			must.Require(b, err == nil, "%v\n%s", err, out)
			report(b, c)
			b.ReportMetric(float64(events)/time.Since(began).Seconds(), "events/s")
		}
	})
	for _, x := range []struct{ shards, members int }{{8, 1}, {4, 1}, {8, 2}} {
		b.Run(fmt.Sprintf("%d shards, %d members", x.shards, x.members), func(b *testing.B) {
			for i := range b.N {
				m := newShardMembers(b, broker.ListenAddrs(), fmt.Sprintf("g%d-%d-%d", x.shards, x.members, i), x.members)
				m.poll = time.Second // each look takes processor time from the members
				began := time.Now()
				args := []string{"--set", fmt.Sprint("group.shards=", x.shards), "--set", "checkpoint.interval=10s", "--set", "snapshot.interval=10s", "--set", "record.bits=20", "--set", "validate.events=0", "--set", "group.session_timeout=6s"}
				for k := range x.members {
					m.start(k, args...)
				}
				m.await(events)
				took := time.Since(began)
				processes := append([]*exec.Cmd{}, m.processes...)
				for k := range x.members {
					m.stop(k)
				}
				report(b, processes...)
				b.ReportMetric(float64(events)/took.Seconds(), "events/s")
			}
		})
	}
}
