package kafka_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"blankout/app/served"
	"blankout/app/served/kafka"
	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/stream"
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
	must.ErrorIs(t, must.Err(served.Open(t.Context(), where, options(connect))), kafka.ErrEmpty, "an empty topic")
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
	info := set.Shards()[1].Shard
	must.True(t, info.Number == 1 && info.Shards == 2 && info.OwnWeight == .5 && info.Coverage == .9 && info.Mean != nil, "%+v", info)
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
	must.Fails(t, must.Err(kafka.NewPublisher(t.Context(), kafka.PublisherConfig{ConnectConfig: connect, Topic: "snapshots"})), "a learner publishes to the topic of a group")
}

// TestDamagedShard checks that a damaged or incomplete model of a shard is reported once, with its shard, that the shard's
// older model and the other shards still answer, and that the shard is used again once it is whole.
func TestDamagedShard(t *testing.T) {
	_, connect, where := snapshotBroker(t)
	open := func(k int) *kafka.Publisher {
		p := must.Get(kafka.NewPublisher(t.Context(), kafka.PublisherConfig{ConnectConfig: connect, Topic: "snapshots", Create: true, Shard: event.ShardName(k), Start: 1}))(t)
		t.Cleanup(func() { p.Close() })
		return p
	}
	zero, one := open(0), open(1)
	must.Do(t, zero.Publish(t.Context(), ofShard(0, 1<<32, 1)))
	must.Do(t, one.Publish(t.Context(), ofShard(1, 1<<32, 2)))

	var log bytes.Buffer
	damaged := map[int]int{}
	o := options(connect)
	o.Log, o.Damaged = slog.New(slog.NewTextHandler(&log, nil)), func(shard int, _ error) { damaged[shard]++ }
	source := must.Get(served.NewSource(where, o))(t)
	defer source.Close()
	// look returns the versions of the shards in the newest set, or nil if there is no newer one after some tries: a busy
	// broker may answer later than a look waits.
	look := func(tries int) (versions []uint64) {
		t.Helper()
		for ; tries > 0 && versions == nil; tries-- {
			if set := must.Get(source.Look(t.Context()))(t); set != nil {
				versions = must.Map(set.Shards(), func(m *served.Model) uint64 { return m.Version })
			}
		}
		return versions
	}
	must.Equal(t, fmt.Sprint(look(20)), fmt.Sprint([]uint64{1 << 32, 1 << 32}), "versions")
	c := stream.DefaultProducerConfig()
	c.ConnectConfig, c.Topic = connect, "snapshots"
	p := must.Get(stream.NewProducer(t.Context(), c))(t)
	defer p.Close()
	write := func(m stream.Message) {
		t.Helper()
		must.Do(t, p.WriteTo(t.Context(), 0, m))
		must.Do(t, p.Flush(t.Context()))
	}
	write(stream.Message{Key: []byte("shard-1"), Value: []byte("half a manif")})
	must.Do(t, zero.Publish(t.Context(), ofShard(0, 1<<32+1, 1))) // after the damaged record
	must.Equal(t, fmt.Sprint(look(20)), fmt.Sprint([]uint64{1<<32 + 1, 1 << 32}), "versions with a damaged manifest")
	must.Equal(t, len(look(1)), 0, "newer models")
	must.Equal(t, fmt.Sprint(damaged), "map[1:1]", "damaged models")
	must.Equal(t, strings.Count(log.String(), "cannot be read"), 1, "messages", log.String())
	must.True(t, strings.Contains(log.String(), "shard=shard-1"), "%v", &log)

	write(stream.Message{Key: []byte("shard-1"), Value: manifestOf(`{"format":1,"version":4294967298,"prefix":"1/","blocks":[{"name":"head","bytes":1,"pieces":["00"]}]}`)})
	must.Equal(t, len(look(1)), 0, "newer models")
	must.Equal(t, fmt.Sprint(damaged), "map[1:2]", "damaged models")
	must.Equal(t, strings.Count(log.String(), "cannot be read"), 1, "messages", log.String())

	// One that begins to read now finds no older model of the shard.
	found := map[int]int{}
	o.Damaged = func(shard int, _ error) { found[shard]++ }
	set := must.Get(served.Open(t.Context(), where, o))(t)
	must.True(t, set.Shards()[0] != nil && set.Shards()[1] == nil, "%v", set.Shards())
	must.Equal(t, fmt.Sprint(found), "map[1:1]", "damaged models")

	must.Do(t, one.Publish(t.Context(), ofShard(1, 1<<32+3, 2)))
	must.Equal(t, fmt.Sprint(look(20)), fmt.Sprint([]uint64{1<<32 + 1, 1<<32 + 3}), "versions of whole shards")
	must.Equal(t, len(look(1)), 0, "newer models")
	must.True(t, strings.Contains(log.String(), "can be read again"), "%v", &log)
}

// manifestOf returns the value of a manifest with this text.
func manifestOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return []byte(hex.EncodeToString(sum[:]) + "\n" + text)
}
