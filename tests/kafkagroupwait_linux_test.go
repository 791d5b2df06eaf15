package tests

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"blankout/config"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/online/group"
	"blankout/stream"
)

// TestKafkaGroupWait measures, on a real broker, the fraction of time in which a member does not learn. A member does
// not learn while it waits for commits or synchronizes its model with the group's model.
//
//	BLANKOUT_LONG=1 go test ./tests -run KafkaGroupWait -v
func TestKafkaGroupWait(t *testing.T) {
	longtest.Only(t)
	const partitions, events = 4, 2_000_000
	k := startKafka(t)
	must.Get(streamtest.Admin(t, k.plain).CreateTopic(t.Context(), partitions, 1, nil, "events"))(t)
	p := stream.DefaultProducerConfig()
	p.Brokers, p.Topic = []string{k.plain}, "events"
	producer := must.Get(stream.NewProducer(t.Context(), p))(t)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range events {
		must.Do(t, producer.WriteTo(t.Context(), int32(i%partitions), stream.Message{Value: fraudEvent(r, 200)}))
	}
	must.Do(t, producer.Flush(t.Context()))
	producer.Close()
	program := buildProgram(t)
	for _, members := range []int{1, 4} {
		name := fmt.Sprint("waits", members)
		file := filepath.Join(t.TempDir(), "blankout.toml")
		must.Do(t, os.WriteFile(file, fmt.Appendf(nil, `
[kafka]
brokers = ["%s"]
topics = ["events"]
[record]
label = "fraud"
classes = ["false", "true"]
`, k.plain), 0o600))
		loaded := must.Get(config.Load(config.Source{File: file, Flags: []string{"group.name=" + name}}))(t)
		addresses := freePorts(t, members)
		var processes []*exec.Cmd
		for _, address := range addresses {
			c := exec.Command(program, "run", "--quiet", "-f", file, "--group", name, "--set", "http.address="+address)
			c.Dir = filepath.Dir(file)
			startProcess(t, c)
			processes = append(processes, c)
		}
		// began is the end of the first phase, in which only one member learns.
		var began time.Time
		var before []standing
		for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			at, err := group.Inspect(t.Context(), memberOf(loaded))
			if err == nil && at.Events > events/10 && began.IsZero() {
				began = time.Now()
				before = standingOf(t, addresses)
			}
			if err == nil && at.Events == events {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("not all is learned: %+v, %v", at, err)
			}
		}
		took := time.Since(began).Seconds()
		for i, s := range standingOf(t, addresses) {
			s.Commit, s.Sync, s.Committed = s.Commit-before[i].Commit, s.Sync-before[i].Sync, s.Committed-before[i].Committed
			if !(s.Commit > 0) || s.Committed == 0 || s.Commit+s.Sync > took+0.5 {
				t.Errorf("member %d of %d: %d commits took %.2f s, following %.2f s, of %.1f s", i+1, members, s.Committed, s.Commit, s.Sync, took)
			}
			t.Logf("member %d of %d: in %.1f s %d commits of %.1f ms, %.0f %% of the time, and %.0f %% for following", i+1, members, took, s.Committed,
				1000*s.Commit/float64(s.Committed), 100*s.Commit/took, 100*s.Sync/took)
		}
		for _, c := range processes {
			stopProcess(t, c)
		}
	}
}

// standing holds the time in which a member did not learn, and the number of its commits.
type standing struct {
	Committed uint64  `json:"committed"`
	Commit    float64 `json:"commit_seconds"`
	Sync      float64 `json:"sync_seconds"`
}

// standingOf requests the standing of each member from its address in addresses.
func standingOf(t *testing.T, addresses []string) (all []standing) {
	t.Helper()
	for _, address := range addresses {
		answer, err := http.Get("http://" + address + "/v1/group")
		must.Do(t, err)
		var s standing
		err = json.NewDecoder(answer.Body).Decode(&s)
		answer.Body.Close()
		must.Do(t, err)
		all = append(all, s)
	}
	return all
}
