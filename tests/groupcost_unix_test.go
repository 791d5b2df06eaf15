//go:build unix

package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"blankout/config"
	"blankout/internal/must"
	"blankout/online/group"
	"blankout/stream"
)

// BenchmarkGroup measures the CPU time per event of a single learner and of a group. The time of a group is summed over
// its members in separate processes. The members exchange rows of weights. So a large number of columns is expensive,
// but less so in long streams.
//
//	go test ./tests -run '^$' -bench Group -benchtime 1x -count 3
func BenchmarkGroup(b *testing.B) {
	sizes := []int{200_000, 1_000_000}
	if testing.Short() {
		sizes = []int{20_000}
	}
	for _, events := range sizes {
		for _, words := range []int{200, 20_000, 740_000} {
			b.Run(fmt.Sprintf("events=%d/columns=%d", events, words*27/20), func(b *testing.B) { benchmarkGroup(b, events, words) })
		}
	}
}

// fraudEvent draws a JSON event with 9 features. The number of columns is about 1.35 times the number of words.
func fraudEvent(r *rand.Rand, words int) []byte {
	x, word := r.NormFloat64(), r.IntN(words)
	return fmt.Appendf(nil, `{"fraud":"%v","amount":%.3f,"age":%.2f,"shop":"s%d","country":"c%d","words":["w%d","w%d","w%d"],"device":"d%d"}`,
		x+float64(word%3)-1 > 0, x, r.ExpFloat64(), r.IntN(words*3/20), r.IntN(50), word, r.IntN(words), r.IntN(words/10), r.IntN(words/40))
}

func benchmarkGroup(b *testing.B, events, words int) {
	const partitions = 4
	broker := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "events")))(b)
	defer broker.Close()
	p := stream.DefaultProducerConfig()
	p.Brokers, p.Topic = broker.ListenAddrs(), "events"
	producer := must.Get(stream.NewProducer(b.Context(), p))(b)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range events {
		value := fraudEvent(r, words)
		must.Do(b, producer.WriteTo(b.Context(), int32(i%partitions), stream.Message{Value: value}))
	}
	must.Do(b, producer.Flush(b.Context()))
	producer.Close()
	program := buildProgram(b)
	dir := b.TempDir()
	settings := func(b *testing.B, name string) (file string) {
		file = filepath.Join(dir, name+".toml")
		must.Do(b, os.WriteFile(file, fmt.Appendf(nil, `
[kafka]
brokers = ["%s"]
topics = ["events"]
[record]
label = "fraud"
classes = ["false", "true"]
[http]
address = ""
[checkpoint]
directory = %q
[validate]
directory = %q
`, strings.Join(broker.ListenAddrs(), `", "`), filepath.Join(dir, name), filepath.Join(dir, "reports")), 0o600))
		return file
	}
	start := func(b *testing.B, args ...string) *exec.Cmd {
		c := exec.Command(program, args...)
		must.Do(b, c.Start())
		b.Cleanup(func() { c.Process.Kill(); c.Wait() })
		return c
	}
	report := func(b *testing.B, used time.Duration, commits uint64) {
		b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*events), "cpu-ns/event")
		b.ReportMetric(float64(commits)/float64(b.N), "commits")
	}
	b.Run("alone", func(b *testing.B) {
		used := time.Duration(0)
		for i := range b.N {
			c := start(b, "run", "--quiet", "--until-end", "-f", settings(b, fmt.Sprint("alone", time.Now().UnixNano(), i)))
			must.Do(b, c.Wait())
			used += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		}
		report(b, used, 0)
	})
	for _, c := range []struct{ members, interval int }{{1, 1000}, {4, 1000}, {4, 10_000}} {
		members := c.members
		b.Run(fmt.Sprintf("members=%d/interval_min=%d", members, c.interval), func(b *testing.B) {
			used, commits := time.Duration(0), uint64(0)
			for i := range b.N {
				name := fmt.Sprint("g", members, "-", time.Now().UnixNano(), i)
				file, interval := settings(b, name), fmt.Sprint("group.interval_min=", c.interval)
				loaded, err := config.Load(config.Source{File: file, Flags: []string{"group.name=" + name, interval}})
				must.Do(b, err)
				var processes []*exec.Cmd
				for range members {
					processes = append(processes, start(b, "run", "--quiet", "-f", file, "--group", name, "--set", interval))
				}
				for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(300 * time.Millisecond) {
					r, err := group.Inspect(b.Context(), memberOf(loaded))
					if err == nil && r.Events == uint64(events) {
						commits += r.Accepted
						break
					}
					if time.Now().After(deadline) {
						b.Fatalf("not all is learned: %+v, %v", r, err)
					}
				}
				for _, c := range processes {
					must.Do(b, c.Process.Signal(syscall.SIGTERM))
					must.Do(b, c.Wait())
					used += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
				}
			}
			report(b, used, commits)
		})
	}
}
