package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"blankout/config"
	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/online/group"
	"blankout/stream"
)

// TestKafkaGroupRecovery tests how a group on a real broker recovers from failures. Records of its topics expire.
// Retention deletes events before they are learned. An unknown record is among the snapshots. A setting changes.
func TestKafkaGroupRecovery(t *testing.T) {
	k := startKafka(t)
	client := streamtest.Client(t, []string{k.plain}, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	admin := kadm.NewClient(client)
	create := func(topic string, partitions int32, settings map[string]*string) {
		t.Helper()
		must.Get(admin.CreateTopic(t.Context(), partitions, 1, settings, topic))(t)
	}
	alter := func(topic, key, value string) {
		t.Helper()
		if r, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic); err != nil || r[0].Err != nil {
			t.Fatal(err, r)
		}
	}
	forever, often := "-1", "100"
	create("events", 2, map[string]*string{"retention.ms": &forever, "segment.ms": &often})
	create("g-commits", 3, nil) // kept for a week, the default of brokers
	create("g-snapshots", 1, nil)
	random := rand.New(rand.NewPCG(3, 4))
	produced := [2]int64{}
	produce := func(each int) {
		t.Helper()
		var records []*kgo.Record
		for i := range 2 * each {
			x := random.NormFloat64()
			records = append(records, &kgo.Record{Topic: "events", Partition: int32(i % 2), Value: fmt.Appendf(nil, `{"label":"%v","x":%.4f}`, x > 0, x)})
			produced[i%2]++
		}
		must.Do(t, client.ProduceSync(t.Context(), records...).FirstErr())
	}

	program, dir := buildProgram(t), t.TempDir()
	file := filepath.Join(dir, "blankout.toml")
	must.Do(t, os.WriteFile(file, fmt.Appendf(nil, `
[kafka]
brokers = ["%s"]
topics = ["events"]
[record]
format = "json"
bits = 12
classes = ["false", "true"]
[http]
address = ""
[dead_letter]
policy = "skip"
[group]
name = "g"
interval_min = 50
interval_max = "100ms"
warm = 100
snapshot_every = 4
session_timeout = "1s"
`, k.plain), 0o600))
	// ends runs the program and checks its exit code and error message.
	ends := func(code int, want string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, program, append(args, "-f", file)...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) || c.ProcessState.ExitCode() != code || !strings.Contains(string(out), want) {
			t.Fatalf("blankout %s: exit code %d, want %d and %q: %v\n%s", strings.Join(args, " "), c.ProcessState.ExitCode(), code, want, err, out)
		}
	}
	inspect := func(name string) *group.Report {
		t.Helper()
		loaded := must.Get(config.Load(config.Source{File: file, Flags: []string{"group.name=" + name}}))(t)
		return must.Get(group.Inspect(t.Context(), memberOf(loaded)))(t)
	}
	// learn runs the given number of members until they have learned all events. Then it stops the members and returns
	// their log.
	learn := func(members int, name string, args ...string) string {
		t.Helper()
		var logs bytes.Buffer
		var running []*exec.Cmd
		outs := make([]bytes.Buffer, members)
		for i := range members {
			c := exec.Command(program, append([]string{"run", "-f", file, "--group", name}, args...)...)
			c.Dir, c.Stdout, c.Stderr = dir, &outs[i], &outs[i]
			must.Do(t, c.Start())
			running = append(running, c)
		}
		deadline := time.Now().Add(time.Minute)
		for done := false; !done && time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
			loaded := must.Get(config.Load(config.Source{File: file, Flags: []string{"group.name=" + name}}))(t)
			r, err := group.Inspect(t.Context(), memberOf(loaded))
			if done = err == nil; done {
				for p, n := range produced {
					at, _ := r.Positions.Lookup("events", int32(p))
					done = done && at.Next == n
				}
			}
		}
		for _, c := range running {
			_ = c.Process.Signal(os.Interrupt)
		}
		for i, c := range running {
			if err := c.Wait(); err != nil {
				t.Errorf("group %s, member %d: %v", name, i, err)
			}
			logs.Write(outs[i].Bytes())
		}
		if time.Now().After(deadline) {
			t.Fatalf("group %s does not learn all\n%s", name, logs.String())
		}
		return logs.String()
	}

	ends(1, "topic g-commits has retention.ms=604800000: its records, and so the group's model, expire; set retention.ms=-1 ", "run")
	alter("g-commits", "retention.ms", "-1")
	ends(1, "topic g-snapshots has cleanup.policy=delete: its records, and so the group's model, expire; set cleanup.policy=compact ", "run")
	alter("g-snapshots", "cleanup.policy", "compact")

	produce(300)
	learn(2, "g")
	if r := inspect("g"); r.Positions[0].Records+r.Positions[1].Records != 600 || r.Verified() != nil {
		t.Fatalf("%+v, %v", r, r.Verified())
	}

	// Retention deletes all new events except the last.
	produce(200)
	time.Sleep(200 * time.Millisecond)
	produce(1) // in another segment
	alter("events", "retention.ms", "300")
	var start [2]int64
	for deadline := time.Now().Add(time.Minute); start[0] < 301 || start[1] < 301; time.Sleep(50 * time.Millisecond) {
		for p := range start {
			c := stream.DefaultConnectConfig()
			c.Brokers = []string{k.plain}
			start[p], _ = must.Get2(stream.LogRange(t.Context(), c, "events", int32(p), nil))(t)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log begins at %v", start)
		}
	}
	alter("events", "retention.ms", "-1")
	time.Sleep(time.Second) // until the broker has deleted them
	produce(100)
	c := stream.DefaultConnectConfig()
	c.Brokers = []string{k.plain}
	for p := range start {
		start[p], _ = must.Get2(stream.LogRange(t.Context(), c, "events", int32(p), nil))(t)
	}
	ends(3, "skip them with: blankout group skip g events/", "run")
	for p, s := range start {
		ends(2, "name an offset from ", "group", "skip", "g", fmt.Sprintf("events/%d", p), fmt.Sprint(s-1))
		ends(0, fmt.Sprintf("skips events/%d offsets 300 to %d", p, s-1), "group", "skip", "g", fmt.Sprintf("events/%d", p), fmt.Sprint(s))
	}
	// Another program writes to the topic of the snapshots.
	foreign := &kgo.Record{Topic: "g-snapshots", Key: []byte("what"), Value: []byte("ever")}
	must.Do(t, client.ProduceSync(t.Context(), foreign).FirstErr())
	logs := learn(2, "g")
	if !strings.Contains(logs, "records that are not snapshots are skipped") || !strings.Contains(logs, "topic g-snapshots offset ") {
		t.Errorf("nothing is said of the record among the snapshots:\n%s", logs)
	}
	r := inspect("g")
	lost := start[0] + start[1] - 600
	if records := r.Positions[0].Records + r.Positions[1].Records; len(r.Skipped) != 2 || int64(records)+lost != produced[0]+produced[1] || r.Verified() != nil {
		t.Errorf("%+v, %d lost, %v", r, lost, r.Verified())
	}

	ends(2, `label: was "label", is "y"`, "run", "--group", "new", "--from-group", "g", "--set", "record.label=y")
	produce(100)
	must.Contains(t, learn(2, "new", "--from-group", "g"), "the group starts from the state of another group")
	began := inspect("new")
	if records := began.Positions[0].Records + began.Positions[1].Records; began.Events <= r.Events || int64(records)+lost != produced[0]+produced[1] || began.Verified() != nil || len(began.Skipped) != 2 {
		t.Errorf("%+v, %v", began, began.Verified())
	}
}
