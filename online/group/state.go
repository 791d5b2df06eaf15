package group

// This file has the group's model, and the rules by which commits are accepted.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"

	"github.com/cespare/xxhash/v2"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/online"
	"blankout/online/deltas"
)

// Fold is the model that results from applying a commit log up to an offset. It depends only on its initial state and
// the applied commits and chunks: every machine of one CPU architecture computes the same bits. It is not safe for
// concurrent use.
type Fold struct {
	learner     *online.Learner
	settings    online.Fingerprint // settings besides those of the Learner
	fingerprint uint64             // hash of the settings of the Learner and of these settings
	// architecture is the architecture of the accepted commits, or "" before the first accepted commit.
	architecture string

	offset   int64  // offset of the last commit, -1 before the first
	chain    uint64 // hash of the accepted commits, see link
	history  []link // the latest links, oldest first
	offsets  event.Offsets
	accepted uint64
	rejected map[Reason]uint64
	skipped  []Gap
}

// link is the chain hash after an accepted commit.
type link struct {
	offset int64
	chain  uint64
}

// maxHistory bounds the number of accepted commits after a delta's base and before the delta.
const maxHistory = 4096

// Reason is the reason for the rejection of a commit. Metrics use it as a label.
type Reason string

const (
	ReasonSettings     Reason = "settings"     // the author has other settings
	ReasonArchitecture Reason = "architecture" // the author rounds differently from earlier authors
	ReasonSnapshot     Reason = "snapshot"     // the author had another commit log, or started from a state that is too old
	ReasonChunks       Reason = "chunks"       // chunks are missing or differ
	ReasonSpan         Reason = "span"         // a span does not start where its partition has ended
	ReasonMoved        Reason = "moved"        // the commit replaces a state that is no longer the latest
	ReasonDelta        Reason = "delta"        // the values are invalid for these settings
)

// Rejection reports why a commit was rejected. A rejected commit adds nothing to the model, and its author starts again
// from the group's model.
type Rejection struct {
	Reason Reason
	Detail string // explanation for users
}

func (r *Rejection) Error() string { return string(r.Reason) + ": " + r.Detail }

// NewFold returns the Fold of an empty commit log. Its model is the state of the Learner l, which the Fold owns from
// then on. settings holds the other settings that determine the meaning of the weights: how records become events, and
// which records are held out. It may be nil. offsets are the positions of the Learner's state. Partitions without a
// position may start anywhere.
func NewFold(l *online.Learner, settings online.Fingerprint, offsets event.Offsets) *Fold {
	all := online.FingerprintOf(l.Config(), l.Schema())
	maps.Copy(all, settings)
	f := &Fold{learner: l, settings: settings, fingerprint: FingerprintHash(all), offset: -1, offsets: offsets.Clone(), rejected: map[Reason]uint64{}}
	f.history = []link{{-1, f.chain}}
	return f
}

// Apply applies a commit, which is at the given offset of the commit log. chunks are its chunks in order; a chunk that
// could not be read is nil. changed lists the columns whose rows have changed, which members must copy
// (online.Learner.Follow). An error is a *Rejection. Offsets must ascend from call to call.
func (f *Fold) Apply(offset int64, c *Commit, chunks []*Chunk) (changed []uint32, err error) {
	f.advance(offset)
	d, offsets, err := f.check(c, chunks)
	if err == nil {
		if err = f.learner.Add(d); err != nil {
			err = &Rejection{ReasonDelta, err.Error()}
		}
	}
	if err != nil {
		var r *Rejection
		errors.As(err, &r)
		f.rejected[r.Reason]++
		return nil, err
	}
	f.offsets, f.architecture = offsets, c.Architecture
	f.accept(c.Encode())
	return d.Columns, nil
}

func (f *Fold) advance(offset int64) {
	if offset <= f.offset {
		panic(fmt.Sprintf("group: the commit log's offset %d after %d", offset, f.offset))
	}
	f.offset = offset
}

// accept adds an accepted record of the commit log to the chain hash.
func (f *Fold) accept(record []byte) {
	f.accepted++
	f.chain = xxhash.Sum64(binary.LittleEndian.AppendUint64(record, f.chain))
	if len(f.history) == maxHistory {
		f.history = slices.Delete(f.history, 0, maxHistory/2)
	}
	f.history = append(f.history, link{f.offset, f.chain})
}

// check returns the Delta that a commit would add, and the offsets after the commit. If the commit must be rejected,
// the error is the reason.
func (f *Fold) check(c *Commit, chunks []*Chunk) (*deltas.Delta, event.Offsets, error) {
	if c.Fingerprint != f.fingerprint {
		return nil, nil, &Rejection{ReasonSettings, "it was learned with other settings: use the same configuration for all members"}
	}
	if f.architecture != "" && c.Architecture != f.architecture {
		return nil, nil, &Rejection{ReasonArchitecture, fmt.Sprintf("it was learned on %s, and the group learns on %s", c.Architecture, f.architecture)}
	}
	i := sort.Search(len(f.history), func(i int) bool { return f.history[i].offset > c.Base }) // index after the link of the commit's base
	switch {
	case i == 0:
		return nil, nil, &Rejection{ReasonSnapshot, fmt.Sprintf("it builds on offset %d of the commit log, which lies more than %d accepted commits back", c.Base, maxHistory/2)}
	case c.Base >= f.offset || f.history[i-1].chain != c.Chain:
		return nil, nil, &Rejection{ReasonSnapshot, fmt.Sprintf("it builds on another commit log up to offset %d than this one", c.Base)}
	}
	offsets := f.offsets.Clone()
	records := uint64(0)
	for _, s := range c.Spans {
		before, known := offsets.Lookup(s.Topic, s.Partition)
		if known && s.From != before.Next {
			return nil, nil, &Rejection{ReasonSpan, fmt.Sprintf("%s: the accepted records end before offset %d", s, before.Next)}
		}
		if s.To < s.From || s.Records > uint64(s.To-s.From) {
			return nil, nil, &Rejection{ReasonSpan, fmt.Sprintf("%s: it cannot hold %d records", s, s.Records)}
		}
		if before.TopicID != "" && s.TopicID != "" && before.TopicID != s.TopicID {
			return nil, nil, &Rejection{ReasonSpan, fmt.Sprintf("%s: has topic id %s, but accepted commits have %s: the topic was created again", s, s.TopicID, before.TopicID)}
		}
		p := offsets.At(s.Topic, s.Partition, s.From)
		p.Next, p.Records, p.Sum = s.To, p.Records+s.Records, p.Sum+s.Sum
		if s.TopicID != "" {
			p.TopicID = s.TopicID
		}
		records += s.Records
	}
	if c.Events > records {
		return nil, nil, &Rejection{ReasonSpan, fmt.Sprintf("%d events of %d records", c.Events, records)}
	}
	if c.Kind == deltas.Full && c.Chain != f.chain {
		return nil, nil, &Rejection{ReasonMoved, "it replaces a state that others have added to since"}
	}
	d, err := join(c, chunks)
	if err != nil {
		return nil, nil, &Rejection{ReasonChunks, err.Error()}
	}
	return d, offsets, nil
}

// Learner returns the Learner with the group's model. The caller must not change it.
func (f *Fold) Learner() *online.Learner { return f.learner }

// Fingerprint returns the hash of the settings that a Commit to this group must have.
func (f *Fold) Fingerprint() uint64 { return f.fingerprint }

// Architecture returns the architecture of the accepted commits, or "" before the first accepted commit.
func (f *Fold) Architecture() string { return f.architecture }

// Base returns the offset of the last applied commit, or -1 if there is none, and the chain hash after it. A member
// that starts a delta records both in its next commit.
func (f *Fold) Base() (offset int64, chain uint64) { return f.offset, f.chain }

// Next returns the offset at which the next span of a partition must start. ok is false if the partition has no
// accepted span.
func (f *Fold) Next(topic string, partition int32) (next int64, ok bool) {
	p, ok := f.offsets.Lookup(topic, partition)
	return p.Next, ok
}

// Offsets returns a copy of the positions after the accepted commits.
func (f *Fold) Offsets() event.Offsets { return f.offsets.Clone() }

// Skipped returns a copy of the gaps that the group has skipped.
func (f *Fold) Skipped() []Gap { return slices.Clone(f.skipped) }

// Accepted returns the number of accepted commits, including skips.
func (f *Fold) Accepted() uint64 { return f.accepted }

// Rejected returns a copy of the numbers of rejected commits by reason.
func (f *Fold) Rejected() map[Reason]uint64 { return maps.Clone(f.rejected) }

// blockFold is the name of the block that a snapshot has in addition to the Learner's blocks.
const blockFold = "fold"

// EachBlock yields the encoded state: the blocks of the Learner, which form a model file, and the block "fold" with the
// applied commits. Equal Folds yield equal bytes.
func (f *Fold) EachBlock() (iter.Seq[event.Block], error) {
	learner, err := f.learner.Snapshot().EachBlock()
	if err != nil {
		return nil, err
	}
	to := &coder.Coder{}
	f.state(to)
	return func(yield func(event.Block) bool) {
		if yield(event.Block{Name: blockFold, Data: to.Out}) {
			learner(yield)
		}
	}, nil
}

// ReadFold decodes the blocks that EachBlock has yielded. The commits after the Base of the Fold can then be applied.
// settings is the argument of NewFold.
func ReadFold(c online.Config, settings online.Fingerprint, blocks []event.Block) (*Fold, error) {
	data, err := event.FindBlock(blocks, blockFold)
	if err != nil {
		return nil, fmt.Errorf("%w: this is no base of a group", err)
	}
	l, err := online.Restore(c.ForGroup(), blocks)
	if err != nil {
		return nil, err
	}
	f, from := NewFold(l, settings, nil), coder.Read(data)
	if f.state(from); !from.Done() || len(f.history) == 0 {
		return nil, fmt.Errorf("block %s: %d bytes do not fit its format", blockFold, len(data))
	}
	return f, nil
}

func (f *Fold) state(c *coder.Coder) {
	c.Int64(&f.offset)
	c.Uint(&f.chain)
	c.Uint(&f.accepted)
	text(c, &f.architecture)
	list(c, &f.history, 16, func(l *link) {
		c.Int64(&l.offset)
		c.Uint(&l.chain)
	})
	list(c, (*[]event.Position)(&f.offsets), 48, func(p *event.Position) {
		text(c, &p.Topic)
		text(c, &p.TopicID)
		number(c, &p.Partition)
		c.Int64(&p.First)
		c.Int64(&p.Next)
		c.Uint(&p.Records)
		c.Uint(&p.Sum)
	})
	reasons := slices.Sorted(maps.Keys(f.rejected))
	list(c, &reasons, 12, func(r *Reason) {
		text(c, (*string)(r))
		n := f.rejected[*r]
		c.Uint(&n)
		f.rejected[*r] = n
	})
	if c.Decode && len(c.In) > 0 || !c.Decode && len(f.skipped) > 0 { // without gaps the block ends here
		list(c, &f.skipped, 28, func(g *Gap) { gapState(c, g) })
	}
}
