package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
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
	brokers := must.Map(cluster, func(b *kafkaBroker) string { return b.plain })
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

// TestKafkaLeaders runs a learner of a topic on three real brokers. Meanwhile the topic's leader moves, is killed and
// is paused. The learner's state must have the same bytes as the state of a learner that reads the same topic
// afterwards.
func TestKafkaLeaders(t *testing.T) {
	cluster := startKafkaCluster(t, 3)
	brokers := must.Map(cluster, func(b *kafkaBroker) string { return b.plain })
	client := streamtest.Client(t, brokers, kgo.MetadataMinAge(50*time.Millisecond), kgo.RequestTimeoutOverhead(time.Second))
	admin := kadm.NewClient(client)
	const topic = "one"
	enough := "2" // in-sync replicas of three, so that no acknowledged record is lost
	must.Do(t, must.Err(admin.CreateTopic(t.Context(), crashTopics[topic].partitions, 3, map[string]*string{"min.insync.replicas": &enough}, topic)))

	program := buildProgram(t)
	bootstrap := fmt.Sprintf("--set=kafka.brokers=%s", strings.Join(brokers, ","))
	l := newLearner(t, program, cluster[0].plain, topic)
	l.flags = []string{bootstrap, "--set=http.address=127.0.0.1:0", "--set=kafka.request_timeout=2s"}
	command := l.start(t)
	defer command.Process.Kill()
	url := l.url(t)
	filled := make(chan error, 1)
	var allowed atomic.Int64 // number of records to write: some during each fault, and enough in total
	pace := func(written int) {
		time.Sleep(30 * time.Millisecond)
		for int64(written) >= allowed.Load() && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	go func() { filled <- fillCrashTopic(t, brokers, topic, pace) }()

	learned := func() float64 { return counted(must.Get(metrics(t.Context(), url))(t)) }
	more := func(n float64) { // more waits until n more records have been learned
		t.Helper()
		allowed.Add(5000)
		least := learned() + n
		l.await(t, "more is learned", func() bool { return learned() >= least })
	}
	leader := func() *kafkaBroker {
		t.Helper()
		for range 500 {
			topics, err := admin.ListTopics(t.Context(), topic)
			if err == nil && len(topics[topic].Partitions) == 1 && topics[topic].Partitions[0].Leader > 0 {
				return cluster[topics[topic].Partitions[0].Leader-1]
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Fatal("no leader")
		return nil
	}
	for _, fault := range []struct {
		name    string
		disturb func(*kafkaBroker) (mend func())
	}{
		{"elected", func(b *kafkaBroker) func() {
			order := []int32{int32(b.node%3 + 1), int32((b.node+1)%3 + 1), int32(b.node)}
			var plan kadm.AlterPartitionAssignmentsReq
			plan.Assign(topic, 0, order)
			_, err := admin.AlterPartitionAssignments(t.Context(), plan)
			must.True(t, err == nil, "%v", err)
			var which kadm.TopicsSet
			which.Add(topic, 0)
			_, err = admin.ElectLeaders(t.Context(), kadm.ElectPreferredReplica, which)
			must.True(t, err == nil, "%v", err)
			return func() {}
		}},
		{"killed", func(b *kafkaBroker) func() { b.kill(t); return func() { b.start(t) } }},
		{"held", func(b *kafkaBroker) func() {
			// The pause has no fixed length. If the paused broker also led the controllers, the controllers must first
			// elect a leader.
			b.signal(t, syscall.SIGSTOP)
			return func() { b.signal(t, syscall.SIGCONT) }
		}},
	} {
		more(500)
		was := leader()
		began := time.Now()
		mend := fault.disturb(was)
		is := leader()
		for is == was && time.Since(began) < 40*time.Second {
			time.Sleep(20 * time.Millisecond)
			is = leader()
		}
		moved := time.Since(began)
		more(500)
		t.Logf("leader %s: from %d to %d within %v, learning goes on within %v", fault.name, was.node, is.node, moved.Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond))
		must.True(t, is != was, "leader %s: it did not move", fault.name)
		mend()
	}
	allowed.Store(1 << 40)
	must.Do(t, <-filled)
	l.await(t, "all is counted", func() bool { return learned() >= float64(crashTopics[topic].records) })
	l.stop(t, command)
	must.True(t, strings.Contains(l.log(), "fetching failed, trying again"), "no word in the log of what the learner went through\n%s", l.log())
	reference := newLearner(t, program, cluster[0].plain, topic)
	reference.finish(t)
	reference.expect(t, topic)
	l.check(t, topic, reference)
}
