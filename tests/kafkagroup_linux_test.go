package tests

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"blankout/internal/must"
	"blankout/internal/streamtest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKafkaGroup runs the rounds of crashGroup with a real Apache Kafka broker.
func TestKafkaGroup(t *testing.T) {
	const partitions = 4
	kills := countOf(t, "BLANKOUT_CRASH_GROUP", 40)
	k := startKafka(t)
	must.Get(streamtest.Admin(t, k.plain).CreateTopic(t.Context(), partitions, 1, nil, "events"))(t)
	crashGroup(t, []string{k.plain}, partitions, kills)
}

// TestKafkaGroupBrokers runs crashGroup with three real brokers. Meanwhile partition leaders move, and brokers are
// killed, restarted and paused.
func TestKafkaGroupBrokers(t *testing.T) {
	const partitions = 4
	kills := max(4, countOf(t, "BLANKOUT_CRASH_GROUP", 40)/10) // a round takes about ten times as long with three brokers
	cluster := startKafkaCluster(t, 3)
	var brokers []string
	for _, b := range cluster {
		brokers = append(brokers, b.plain)
	}
	client := streamtest.Client(t, brokers, kgo.RequestTimeoutOverhead(2*time.Second))
	admin := kadm.NewClient(client)
	enough := "2" // in-sync replicas of three, so that no acknowledged record is lost
	if _, err := admin.CreateTopic(t.Context(), partitions, 3, map[string]*string{"min.insync.replicas": &enough}, "events"); err != nil {
		t.Fatal(err)
	}
	crashGroup(t, brokers, partitions, kills,
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
	topics := must.Get(admin.ListTopics(t.Context(), "g-commits", "g-snapshots"))(t)
	for _, topic := range topics {
		for _, p := range topic.Partitions {
			must.Equal(t, len(p.Replicas), 3, "replicas of", topic.Topic, p.Partition)
		}
		configs := must.Get(admin.DescribeTopicConfigs(t.Context(), topic.Topic))(t)
		if i := slices.IndexFunc(configs[0].Configs, func(c kadm.Config) bool { return c.Key == "min.insync.replicas" && c.MaybeValue() == "2" }); i < 0 {
			t.Errorf("topic %s does not have min.insync.replicas = 2", topic.Topic)
		}
	}
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
			if len(order) == len(p.Replicas) || len(order) == 0 {
				t.Fatalf("%s/%d: its leader is %d of %v", topic.Topic, p.Partition, p.Leader, p.Replicas)
			}
			plan.Assign(topic.Topic, p.Partition, append(order, p.Leader))
			which.Add(topic.Topic, p.Partition)
		}
	}
	if r, err := admin.AlterPartitionAssignments(t.Context(), plan); err != nil || r.Error() != nil {
		t.Fatal(fmt.Errorf("moving leaders: %w, %w", err, r.Error()))
	}
	must.Get(admin.ElectLeaders(t.Context(), kadm.ElectPreferredReplica, which))(t)
}
