// Package group lets many learners learn one model. The model is the result of applying a log of commits. Each commit
// contains what one member has learned from some records. Every reader of the log computes the same model, bit by bit,
// and every record counts once.
//
// What a member does, in order:
//
//  1. It learns with its own Learner (online.Learner.Follow), and cuts the result of an
//     interval: a deltas.Delta.
//  2. [EncodeChunks] encodes the Delta in records of at most [MaxChunk] bytes. The member
//     appends them to the log first, in any partitions.
//  3. A [Commit] refers to these chunks, the learned records ([Span]) and the state of the
//     log from which the member started. [Commit.Encode] encodes the record that is appended
//     to the commit log, the only partition whose order counts.
//  4. All readers of the commit log, including the author, decode every commit
//     ([DecodeCommit]) and its chunks ([DecodeChunk]), and pass them to [Fold.Apply]. Apply
//     adds the Delta to the model, or returns the reason for a rejection. A rejected commit
//     adds nothing, and its author starts again from the group's model.
//
// Exactly-once learning rests on one rule: a commit is accepted only if each of its spans starts where the accepted
// spans of its partition end. So a commit that is repeated, late, or from a member that should have stopped is
// rejected, without clocks, locks or consumer group offsets.
package group
