package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"blankout/internal/must"
	"blankout/internal/streamtest"
)

// TestKafkaShards runs crashShards with a real broker, which is restarted now and then.
func TestKafkaShards(t *testing.T) {
	const partitions = 6
	kills := countOf(t, "BLANKOUT_CRASH_SHARDS", 20)
	k := startKafka(t)
	must.Get(streamtest.Admin(t, k.plain).CreateTopic(t.Context(), partitions, 1, nil, "events"))(t)
	nothing := func(*rand.Rand) (string, func()) { return "left alone", func() {} }
	crashShards(t, []string{k.plain}, nil, partitions, kills, nothing, nothing, nothing, func(*rand.Rand) (string, func()) {
		k.kill(t)
		return "restarted", func() { k.start(t) }
	})
}

// TestKafkaShardsBrokers runs crashShards with three real brokers. Meanwhile partition leaders move, and brokers are
// killed, restarted and paused.
func TestKafkaShardsBrokers(t *testing.T) {
	const partitions = 6
	kills := max(4, countOf(t, "BLANKOUT_CRASH_SHARDS", 20)/10) // a round takes about ten times as long with three brokers
	cluster := startKafkaCluster(t, 3)
	var brokers []string
	for _, b := range cluster {
		brokers = append(brokers, b.plain)
	}
	client := streamtest.Client(t, brokers, kgo.RequestTimeoutOverhead(2*time.Second))
	admin := kadm.NewClient(client)
	enough := "2" // in-sync replicas of three, so that no acknowledged record is lost
	must.Do(t, must.Err(admin.CreateTopic(t.Context(), partitions, 3, map[string]*string{"min.insync.replicas": &enough}, "events")))
	crashShards(t, brokers, nil, partitions, kills,
		func(r *rand.Rand) (string, func()) { moveLeaders(t, admin); return "leaders moved", func() {} },
		func(r *rand.Rand) (string, func()) {
			b := cluster[r.IntN(len(cluster))]
			b.kill(t)
			return "killed", func() { b.start(t) }
		},
		func(r *rand.Rand) (string, func()) {
			b := cluster[r.IntN(len(cluster))]
			b.signal(t, syscall.SIGSTOP)
			return "held", func() { b.signal(t, syscall.SIGCONT) }
		})
}

// moveLeaders makes another broker the leader of every partition, including the partitions of the groups' offsets.
func moveLeaders(t *testing.T, admin *kadm.Client) {
	t.Helper()
	topics := must.Get(admin.ListTopicsWithInternal(t.Context()))(t)
	var plan kadm.AlterPartitionAssignmentsReq
	var which kadm.TopicsSet
	for _, topic := range topics {
		for _, p := range topic.Partitions {
			order := slices.DeleteFunc(slices.Clone(p.Replicas), func(node int32) bool { return node == p.Leader })
			must.Require(t, len(order) != len(p.Replicas) && len(order) != 0, "%s/%d: its leader is %d of %v", topic.Topic, p.Partition, p.Leader, p.Replicas)
			plan.Assign(topic.Topic, p.Partition, append(order, p.Leader))
			which.Add(topic.Topic, p.Partition)
		}
	}
	if r, err := admin.AlterPartitionAssignments(t.Context(), plan); err != nil || r.Error() != nil {
		t.Fatal(fmt.Errorf("moving leaders: %w, %w", err, r.Error()))
	}
	must.Get(admin.ElectLeaders(t.Context(), kadm.ElectPreferredReplica, which))(t)
}

// TestKafkaStaticShards restarts members with static names (group.instance) one after the other. The group must not
// reassign any shard: a member that returns within the session timeout continues with its own.
func TestKafkaStaticShards(t *testing.T) {
	k := startKafka(t)
	must.Get(streamtest.Admin(t, k.plain).CreateTopic(t.Context(), 6, 1, nil, "events"))(t)
	const members = 3
	m := newShardMembers(t, []string{k.plain}, "static", members)
	joined := func(i int) int {
		log, _ := os.ReadFile(m.log(i))
		return strings.Count(string(log), `"msg":"joined the group"`)
	}
	args := func(i int) []string {
		return []string{"--set", fmt.Sprint("group.instance=member-", i), "--set", "group.session_timeout=20s"}
	}
	for i := range members {
		m.start(i, args(i)...)
		streamtest.Eventually(t, time.Minute, func() bool { return joined(i) > 0 }, "member ", i, " joins\n")
	}
	time.Sleep(3 * time.Second) // until the last rebalance has ended
	var before [members]int
	for i := range members {
		before[i] = joined(i)
	}
	for i := range members {
		must.True(t, m.stop(i), "member %d did not handle the signal", i)
		m.start(i, args(i)...)
		streamtest.Eventually(t, time.Minute, func() bool { return joined(i) > before[i] }, "member ", i, " joins again\n")
	}
	for i := range members {
		must.Equal(t, joined(i), before[i]+1, "times that a member joined", i, m.said())
	}
}
