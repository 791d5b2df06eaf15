// Package group lets many learners learn one model: the model is a fold over a log of
// commits, each of which holds what one member has learned of some records. Every reader
// of the log comes to the same model, to the bit, and every record counts once.
//
// In the order in which a member meets them:
//
//  1. It learns with a Learner of its own (online.Learner.Follow), and cuts what it has
//     learned since it last was equal to the group's state: an share.Delta.
//  2. [EncodeChunks] makes records of at most [MaxChunk] bytes of the Delta. They are
//     appended to the log first, in any partitions.
//  3. A [Commit] names these chunks, the records that were learned ([Span]) and the state
//     of the log that the member knew. [Commit.Encode] makes the record of it that is
//     appended to the commit log, the one partition whose order counts.
//  4. Whoever reads the commit log decodes every commit ([DecodeCommit]) and its chunks
//     ([DecodeChunk]) and shows them to [Fold.Apply], the author too. That adds the
//     Delta to the model or says why not; a commit that is not accepted adds nothing,
//     and its author begins again from the fold.
//
// Exactly once rests on one rule: a commit is accepted only if each of its spans begins
// where the accepted ones of its partition have ended. What comes twice, late, or from a
// member that should have stopped therefore fails, and no clock, lock or group offset
// plays a part.
package group
