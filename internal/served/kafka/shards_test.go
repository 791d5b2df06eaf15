package kafka_test

import (
	"errors"
	"testing"

	"blankout/internal/must"
	"blankout/internal/served"
	"blankout/internal/served/kafka"
)

// ofShard returns a model of a shard.
func ofShard(number int, version uint64, first float64) *served.Model {
	m := wide(version, 2, first)
	m.Shard = &served.ShardInfo{Number: number, Shards: 2, Partitions: 4, OwnWeight: .5, Coverage: .9, Own: &served.Histogram{}, Mean: &served.Histogram{}, Answered: &served.Answered{}}
	return m
}

// TestShardTopic checks that the models of shards are read as one, that each comes back with its ShardInfo, and that a
// publisher that has lost its shard changes nothing for longer than until its successor publishes again.
func TestShardTopic(t *testing.T) {
	c, connect, where := snapshotBroker(t)
	open := func(shard string, start uint64) *kafka.Publisher {
		t.Helper()
		p := must.Get(kafka.NewPublisher(t.Context(), kafka.PublisherConfig{ConnectConfig: connect, Topic: "snapshots", Create: true, Shard: shard, Start: start}))(t)
		t.Cleanup(func() { p.Close() })
		return p
	}
	lost, other := open("shard-0", 1), open("shard-1", 1)
	if _, err := served.Open(t.Context(), where, options(connect)); !errors.Is(err, kafka.ErrEmpty) {
		t.Errorf("an empty topic: %v", err)
	}
	versions := func(zero, one uint64) *served.Model {
		t.Helper()
		set := must.Get(served.Open(t.Context(), where, options(connect)))(t)
		for k, want := range []uint64{zero, one} {
			got := uint64(0)
			if m := set.Shards()[k]; m != nil {
				got = m.Version
			}
			must.Equal(t, got, want, "version of shard", k)
		}
		return set
	}
	must.Do(t, lost.Publish(t.Context(), ofShard(0, 1<<32, 1)))
	versions(1<<32, 0)
	must.Do(t, other.Publish(t.Context(), ofShard(1, 1<<32, 2)))
	set := versions(1<<32, 1<<32)
	if info := set.Shards()[1].Shard; info.Number != 1 || info.Shards != 2 || info.OwnWeight != .5 || info.Coverage != .9 || info.Mean == nil {
		t.Errorf("%+v", info)
	}
	must.Equal(t, len(set.Offsets), 0, "positions")
	successor := open("shard-0", 2)
	must.Do(t, successor.Publish(t.Context(), ofShard(0, 2<<32, 3)))
	must.Do(t, lost.Publish(t.Context(), ofShard(0, 1<<32+1, 4)))
	versions(2<<32, 1<<32) // an older version is ignored
	c.Compact()
	must.Do(t, successor.Publish(t.Context(), ofShard(0, 2<<32+1, 3)))
	versions(2<<32+1, 1<<32) // no piece of the successor was deleted
	wrong := ofShard(0, 3<<32, 1)
	wrong.Shard.Number = 2 // of 2 shards
	must.Do(t, successor.Publish(t.Context(), wrong))
	versions(0, 1<<32) // the other shard answers alone
	if _, err := kafka.NewPublisher(t.Context(), kafka.PublisherConfig{ConnectConfig: connect, Topic: "snapshots"}); err == nil {
		t.Error("a learner publishes to the topic of a group")
	}
}
