package event

// This file names the shards of a stream that is divided among learners.

import (
	"strconv"
	"strings"
)

// ShardOf returns the shard of a partition.
func ShardOf(partition int32, shards int) int { return int(partition) % shards }

// ShardPrefix begins the name of every shard.
const ShardPrefix = "shard-"

// ShardName returns the name of a shard: its directory, and its key in the topic of snapshots.
func ShardName(shard int) string { return ShardPrefix + strconv.Itoa(shard) }

// ShardNumber returns the shard with a name, or -1 if it is not the name of a shard.
func ShardNumber(name string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(name, ShardPrefix))
	if err != nil || n < 0 || ShardName(n) != name {
		return -1
	}
	return n
}
