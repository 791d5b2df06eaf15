//go:build unix

package tests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"blankout/config"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/online/group"
	"blankout/stream"
	"blankout/stream/record"
)

// written describes the records that were produced to a topic. For each partition it holds the sum of the fingerprints
// of all records before each offset.
type written struct {
	mu   sync.Mutex
	sums [][]uint64
}

// check compares the records before the positions of a group with the produced records. If they differ, it fails the
// test. It reports whether all records were learned.
func (w *written) check(t *testing.T, positions event.Offsets) (all bool) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	all = true
	for p, sums := range w.sums {
		at, ok := positions.Lookup("events", int32(p))
		if !ok {
			all = all && len(sums) == 1
			continue
		}
		if at.First != 0 || at.Next >= int64(len(sums)) || at.Records != uint64(at.Next) || at.Sum != sums[at.Next] {
			t.Fatalf("partition %d: %+v, and %d records were produced", p, at, len(sums)-1)
		}
		all = all && at.Next == int64(len(sums)-1)
	}
	return all
}

// produce writes events until ctx ends.
func (w *written) produce(ctx context.Context, t *testing.T, brokers []string) {
	c := stream.DefaultProducerConfig()
	c.Brokers, c.Topic, c.RequestTimeout = brokers, "events", 2*time.Second
	p, err := stream.NewProducer(ctx, c)
	if err != nil {
		t.Error(err)
		return
	}
	defer p.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for ctx.Err() == nil {
		partition := int32(r.IntN(len(w.sums)))
		w.mu.Lock() // locked until the records are acknowledged, because a member may count them immediately
		for range 20 {
			x, word := r.NormFloat64(), r.IntN(300)
			value := fmt.Appendf(nil, `{"label":"%v","x":%.4f,"word":"w%d"}`, x+float64(word%3)-1 > 0, x, word)
			if err := p.WriteTo(t.Context(), partition, stream.Message{Value: value}); err != nil {
				t.Error(err)
			}
			sums := w.sums[partition]
			w.sums[partition] = append(sums, sums[len(sums)-1]+record.Fingerprint(int64(len(sums)-1), nil, value))
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		w.mu.Unlock()
		time.Sleep(4 * time.Millisecond)
	}
}

// TestCrashGroup runs a few rounds with the group coordinator of the embedded broker. This coordinator has an error: it
// may never remove a member that dies between the response to its JoinGroup and its SyncGroup. Then no member reads the
// dead member's partition. TestKafkaGroup runs more rounds.
func TestCrashGroup(t *testing.T) {
	longtest.Only(t)
	const partitions = 4
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "events"), kfake.GroupMinSessionTimeout(100*time.Millisecond))
	must.Do(t, err)
	t.Cleanup(broker.Close)
	crashGroup(t, broker.ListenAddrs(), partitions, 4)
}

// brokerFault makes brokers fail. It returns a description of the fault and a function that repairs the brokers.
type brokerFault func(r *rand.Rand) (what string, mend func())

// crashGroup runs three members in separate processes while events are produced to the topic events. It kills members,
// pauses them for longer than their session timeout, and stops and restarts them at random times. The faults of brokers
// happen one after the other, each during a failure of a member. Every event must be learned once, and all members must
// have the same bytes at every snapshot.
func crashGroup(t *testing.T, brokers []string, partitions, kills int, faults ...brokerFault) {
	const members = 3
	program := buildProgram(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "blankout.toml")
	must.Do(t, os.WriteFile(file, fmt.Appendf(nil, `
[kafka]
brokers = ["%s"]
topics = ["events"]
request_timeout = "2s"
[record]
format = "json"
bits = 14
classes = ["false", "true"]
[http]
address = ""
[dead_letter]
policy = "skip"
[group]
name = "g"
interval_min = 50
interval_max = "100ms"
warm = 200
snapshot_every = 8
session_timeout = "1s"
`, strings.Join(brokers, `", "`)), 0o600))
	loaded := must.Get(config.Load(config.Source{File: file}))(t)
	logOf := func(i int) string { return filepath.Join(dir, fmt.Sprintf("log%d", i)) }
	said := func() string {
		text := ""
		for i := range members {
			data, _ := os.ReadFile(logOf(i))
			text += fmt.Sprintf("member %d:\n%s", i, data[max(0, len(data)-8000):])
		}
		return text
	}
	inspect := func() *group.Report {
		t.Helper()
		r := must.Get(group.Inspect(t.Context(), memberOf(loaded)))(t)
		for _, b := range r.Snapshots {
			if !b.Same {
				t.Fatalf("snapshot %d is not what the commit log comes to: %+v\n%s", b.Offset, r, said())
			}
		}
		return r
	}
	start := func(i int) *exec.Cmd {
		t.Helper()
		log := must.Get(os.OpenFile(logOf(i), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
		defer log.Close()
		c := exec.Command(program, "run", "-f", file)
		c.Dir, c.Stdout, c.Stderr = filepath.Dir(file), log, log
		must.Do(t, c.Start())
		return c
	}
	w := &written{}
	for range partitions {
		w.sums = append(w.sums, []uint64{0})
	}
	producing, enough := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.produce(producing, t, brokers) })
	var processes [members]*exec.Cmd
	for i := range processes {
		processes[i] = start(i)
	}
	defer func() {
		enough()
		running.Wait()
		for _, c := range processes {
			if c != nil {
				_ = c.Process.Kill()
				_ = c.Wait()
			}
		}
	}()
	await := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: it does not come\n%s", what, said())
			}
		}
	}
	await("the first commit", func() bool {
		r, err := group.Inspect(t.Context(), memberOf(loaded))
		return err == nil && r.Accepted > 0
	})

	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)) // different times in each run
	paused, killed, stopped, uncommitted, disturbed := 0, 0, 0, 0, map[string]int{}
	for round := range kills {
		time.Sleep(time.Duration(r.IntN(600)) * time.Millisecond)
		mend := func() {}
		if len(faults) > 0 {
			var what string
			what, mend = faults[round%len(faults)](r)
			disturbed[what]++
			time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		}
		i := r.IntN(members)
		c := processes[i]
		var exit *exec.ExitError
		switch r.IntN(4) {
		case 0:
			paused++
			if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatalf("%v\n%s", err, said())
			}
			time.Sleep(time.Duration(1000+r.IntN(1000)) * time.Millisecond) // longer than the session timeout
			must.Do(t, c.Process.Signal(syscall.SIGCONT))
		case 1:
			stopped++
			if err := c.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatalf("%v\n%s", err, said())
			}
			switch err := c.Wait(); {
			case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM:
				killed++ // it had just started and did not handle signals yet
				stopped--
			case err != nil:
				text, _ := os.ReadFile(logOf(i)) // nothing can be committed while the brokers are down
				if last := bytes.LastIndexByte(bytes.TrimSpace(text), '\n'); len(faults) == 0 || !errors.As(err, &exit) || exit.ExitCode() != 1 || !bytes.Contains(text[last+1:], []byte("the group learns them again")) {
					t.Fatalf("a stop: %v\n%s", err, said())
				}
				uncommitted++
			}
			processes[i] = start(i)
		default:
			killed++
			if err := c.Process.Kill(); err != nil {
				t.Fatalf("%v\n%s", err, said())
			}
			if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
				t.Fatalf("it had ended by itself: %v\n%s", err, said())
			}
			processes[i] = start(i)
		}
		mend()
		if round%4 == 3 {
			w.check(t, inspect().Positions)
		}
	}
	enough()
	running.Wait()
	await("the last event", func() bool { return w.check(t, inspect().Positions) })
	for i, c := range processes {
		must.Do(t, c.Process.Signal(syscall.SIGTERM))
		if err := c.Wait(); err != nil {
			t.Errorf("member %d: %v\n%s", i, err, said())
		}
		processes[i] = nil
	}
	last := inspect()
	must.True(t, w.check(t, last.Positions), "%+v", last.Positions)
	hashes, compared := map[int64]string{}, 0
	for i := range members {
		snapshotHashes(t, logOf(i), func(offset int64, hash string) {
			if other, ok := hashes[offset]; ok {
				compared++
				must.Equal(t, other, hash, "the hash of another member at snapshot", offset)
			}
			hashes[offset] = hash
		})
	}
	must.True(t, compared != 0, "no two members came to the same snapshot")
	t.Logf("%d killed, %d paused, %d stopped (%d without a last commit), brokers: %v; %d commits accepted, %v rejected, %d events; %d snapshots, %d times the same as another member's",
		killed, paused, stopped, uncommitted, disturbed, last.Accepted, last.Rejected, last.Events, len(hashes), compared)
}

// snapshotHashes calls found with the hash of each group snapshot in the log of a member.
func snapshotHashes(t *testing.T, name string, found func(offset int64, hash string)) {
	t.Helper()
	file := must.Get(os.Open(name))(t)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct {
			Msg    string
			Offset int64
			Hash   string
		}
		if text := lines.Text(); strings.Contains(text, `"msg":"snapshot"`) && json.Unmarshal([]byte(text), &line) == nil {
			found(line.Offset, line.Hash)
		}
	}
}

// memberOf returns the group member of a configuration, to inspect it.
func memberOf(c *config.Loaded) *group.Member {
	return &group.Member{
		Config: c.Group, Kafka: c.Kafka.ConsumerConfig, Learner: c.Learner, Schema: c.Record.Schema,
		Settings: config.Fingerprint(c.Learner, c.Record, c.Validate.Config), Log: slog.New(slog.DiscardHandler),
	}
}
