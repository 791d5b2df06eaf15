package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"blankout/config"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/online/group"
	"blankout/stream"
)

// progress records, for each partition, the time of the last commit and the member that made it. It also records the
// longest time without a commit since the last reset.
type progress struct {
	mu      sync.Mutex
	at      map[int32]time.Time
	by      map[int32]group.MemberID
	longest map[int32]time.Duration
}

func (p *progress) commit(c *group.Commit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, s := range c.Spans {
		if before, ok := p.at[s.Partition]; ok {
			p.longest[s.Partition] = max(p.longest[s.Partition], now.Sub(before))
		}
		p.at[s.Partition], p.by[s.Partition] = now, c.Member
	}
}

func (p *progress) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.longest)
}

func (p *progress) owners() map[int32]group.MemberID {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[int32]group.MemberID{}
	for partition, by := range p.by {
		out[partition] = by
	}
	return out
}

// TestKafkaRestart restarts the members of a group on a real broker one after the other, with and without static names
// (group.instance). If members have static names, the partitions of all other members must never move. The members must
// then solve the exact problem together. The test logs how long partitions are not read.
//
//	BLANKOUT_LONG=1 go test ./tests -run KafkaRestart -v
func TestKafkaRestart(t *testing.T) {
	longtest.Only(t)
	k := startKafka(t)
	client := streamtest.Client(t, []string{k.plain})
	const partitions, members = 6, 3
	must.Get(kadm.NewClient(client).CreateTopic(t.Context(), partitions, 1, nil, "events"))(t)
	program := buildProgram(t)
	for _, named := range []bool{false, true} {
		dir := t.TempDir()
		file := filepath.Join(dir, "blankout.toml")
		name := fmt.Sprint("named-", named)
		must.Do(t, os.WriteFile(file, fmt.Appendf(nil, `
[kafka]
brokers = [%q]
topics = ["events"]
[record]
format = "json"
bits = 14
classes = ["false", "true"]
[http]
address = ""
[dead_letter]
policy = "skip"
[group]
name = %q
interval_min = 20
interval_max = "100ms"
warm = 200
session_timeout = "6s"
`, k.plain, name), 0o600))
		loaded := must.Get(config.Load(config.Source{File: file}))(t)
		ctx, stop := context.WithCancel(t.Context())
		var beside sync.WaitGroup
		w := &written{sums: make([][]uint64, partitions)}
		for i := range w.sums {
			w.sums[i] = []uint64{0}
		}
		beside.Go(func() { w.produce(ctx, t, []string{k.plain}) })
		start := func(i int) *exec.Cmd {
			args := []string{"run", "--quiet", "-f", file}
			if named {
				args = append(args, "--set", fmt.Sprint("group.instance=member-", i))
			}
			c := exec.Command(program, args...)
			c.Stderr = os.Stderr
			startProcess(t, c)
			return c
		}
		var running []*exec.Cmd
		for i := range members {
			running = append(running, start(i))
		}
		seen := &progress{at: map[int32]time.Time{}, by: map[int32]group.MemberID{}, longest: map[int32]time.Duration{}}
		commitLog, err := stream.OpenCommitLog(t.Context(), loaded.Group.CommitLog(loaded.Kafka.ConnectConfig, nil))
		must.Do(t, err)
		commitLog.Close()
		reader, err := stream.ReadCommitLog(ctx, loaded.Group.CommitLog(loaded.Kafka.ConnectConfig, nil), "", 0, false)
		must.Do(t, err)
		beside.Go(func() {
			defer reader.Close()
			for {
				records, err := reader.Next(ctx)
				if err != nil {
					must.True(t, errors.Is(err, context.Canceled), "%v", err)
					return
				}
				for _, r := range records {
					if c, err := group.DecodeCommit(r.Value); err == nil {
						seen.commit(c)
					}
				}
			}
		})
		// settled waits until each member commits two partitions.
		settled := func() map[int32]group.MemberID {
			t.Helper()
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
				owners := seen.owners()
				counts := map[group.MemberID]int{}
				for _, by := range owners {
					counts[by]++
				}
				if len(owners) == partitions && len(counts) == members && !slices.ContainsFunc([]int{counts[owners[0]], counts[owners[1]]}, func(n int) bool { return n != 2 }) {
					return owners
				}
				if time.Now().After(deadline) {
					t.Fatalf("the members do not share the partitions out: %v", owners)
				}
			}
		}
		settled()
		time.Sleep(2 * time.Second)
		var longest, own []time.Duration // by restart: of the other members' partitions, and of the restarted member's
		moved := 0
		for i := range running {
			before := settled()
			seen.reset()
			must.Do(t, running[i].Process.Signal(syscall.SIGTERM))
			must.Do(t, running[i].Wait())
			running[i] = start(i)
			time.Sleep(time.Second)
			after := settled()
			time.Sleep(time.Second)
			gone := map[group.MemberID]bool{}
			for _, by := range before {
				gone[by] = true
			}
			for _, by := range after {
				delete(gone, by)
			}
			seen.mu.Lock()
			worst, mine := time.Duration(0), time.Duration(0)
			for partition, by := range before {
				if gone[by] {
					mine = max(mine, seen.longest[partition])
				} else {
					worst = max(worst, seen.longest[partition])
					if after[partition] != by {
						moved++
					}
				}
			}
			seen.mu.Unlock()
			longest, own = append(longest, worst.Round(time.Millisecond)), append(own, mine.Round(time.Millisecond))
		}
		t.Logf("named %v: partitions of members that were not restarted stood still for at most %v, those of the one that was for %v; %d of the others' changed hands", named, longest, own, moved)
		if named && moved > 0 {
			t.Errorf("%d partitions of members that were not restarted changed hands", moved)
		}
		for _, c := range running {
			stopProcess(t, c)
		}
		stop()
		beside.Wait()
	}
}
