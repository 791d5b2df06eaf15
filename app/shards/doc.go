// Package shards divides a stream among several complete learners, the shards, and says which member of a Kafka consumer
// group runs which of them.
//
// Partition p of every topic belongs to shard p mod S. A shard is a learner like any other, with its own checkpoints in
// DIRECTORY/shard-K, so nothing is merged. The consumer group assigns shards to members ([Member]). A member that gets a
// shard continues from the shard's newest checkpoint; the lock of the checkpoint directory ensures that nobody else
// learns it. The records of a shard have one order, which depends on the logs alone ([Ordered]).
//
// An answer uses all shards: the package app/served mixes them ([served.Set]), and [Judge] measures the mixture on
// events that a shard is about to learn.
//
// The package does not know how a learner is made or saved: its caller runs the learners. It must not import package
// serve, config or cmd.
package shards
