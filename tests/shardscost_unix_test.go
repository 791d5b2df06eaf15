//go:build unix

package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"blankout/internal/must"
	"blankout/stream"
)

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
