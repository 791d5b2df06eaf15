package run

// This file learns a stream with several learners (challengers), and compares them.

import (
	"context"
	"fmt"
	"iter"
	"math"
	"runtime/debug"
	"slices"
	"sync"

	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/online"
	"blankout/stream/record"
)

// Champion is the name of the learner that the section [learner] configures.
const Champion = "learner"

// Challengers is a set of learners of one stream. Records are read once. One learner is the leader. The
// leader learns like a single Learner, and makes the predictions, snapshots, validations and dead letters. The other
// learners learn the same events and are compared with the leader.
//
// The state depends only on the records. The other learners learn exactly the events that the leader has counted.
// Differences are averaged over blocks of records. Automatic promotion depends on the number of records.
type Challengers struct {
	All    []*Challenger // the first learner is the Champion
	Leader int           // index of the leader
}

// Challenger is one of the learners, which can be the leader.
type Challenger struct {
	Learner     *online.Learner
	Fingerprint online.Fingerprint
	Standing

	// Decoder decodes the learner's columns from a record's bytes, with Schema. It is nil if the columns equal the
	// columns of the Champion.
	Decoder record.Decoder
	Schema  *event.Schema
	// Validator validates the learner while it is the leader; it may be nil.
	Validator *validate.Validator

	losses []eventLoss // losses for the current part of a batch
	failed *panicError
}

// PromoteAuto is the value of Standing.Promote for automatic promotion.
const PromoteAuto = "auto"

// auto reports whether the learner is promoted automatically.
func (s *Standing) auto() bool { return s.Promote == PromoteAuto }

// Standing is the state of a learner in a checkpoint, besides its Learner. Promote and Window are the current
// settings, for readers of the checkpoint.
type Standing struct {
	Name    string         `json:"name"`
	Promote string         `json:"promote"` // PromoteAuto or another setting
	Window  uint64         `json:"window"`  // number of records per window of the comparison
	Begun   uint64         `json:"begun"`   // number of records before the first record that it has learned
	Paired  measure.Paired `json:"paired"`
}

// blockChallengers is the checkpoint block with the SavedChallengers. The leader's blocks have the same
// names as the blocks of a single Learner. The names of the other learners' blocks begin with ChallengerPrefix.
const blockChallengers = "challengers"

// ChallengerPrefix returns the prefix of the block names of a learner other than the leader.
func ChallengerPrefix(name string) string { return "challenger/" + name + "/" }

// SavedChallengers is the state of a Challengers in a checkpoint.
type SavedChallengers struct {
	Leader   string     `json:"leader"`
	Learners []Standing `json:"learners"` // in the order of the configuration
}

// ReadChallengers returns the SavedChallengers of a checkpoint. A single Learner is returned as the only
// learner, the leader.
func ReadChallengers(blocks []event.Block) (SavedChallengers, error) {
	s := SavedChallengers{Leader: Champion}
	if _, err := event.FindBlock(blocks, blockChallengers); err != nil {
		return s, nil
	}
	s.Leader = ""
	if err := readJSON(blocks, blockChallengers, &s); err != nil {
		return s, err
	}
	if _, ok := s.Standing(s.Leader); !ok {
		return s, fmt.Errorf("block %s: its leader %q is not one of its learners", blockChallengers, s.Leader)
	}
	return s, nil
}

// Standing returns the Standing of the learner with the given name, and whether it exists.
func (s *SavedChallengers) Standing(name string) (Standing, bool) {
	if i := slices.IndexFunc(s.Learners, func(x Standing) bool { return x.Name == name }); i >= 0 {
		return s.Learners[i], true
	}
	return Standing{}, false
}

func (c *Challengers) leader() *Challenger { return c.All[c.Leader] }

// LeaderName returns the name of the leader, or "" for a nil Challengers. A function for Runner.Answer may
// call it.
func (c *Challengers) LeaderName() string {
	if c == nil {
		return ""
	}
	return c.leader().Name
}

// others yields the learners other than the leader, with their indices; none for a nil Challengers.
func (c *Challengers) others() iter.Seq2[int, *Challenger] {
	return func(yield func(int, *Challenger) bool) {
		if c == nil {
			return
		}
		for i, x := range c.All {
			if i != c.Leader && !yield(i, x) {
				return
			}
		}
	}
}

// names returns the names of the learners.
func (c *Challengers) names() (names []string) {
	for _, x := range c.All {
		names = append(names, x.Name)
	}
	return names
}

// columns holds the events of a batch, decoded with a learner's Schema.
type columns struct {
	examples []event.Example
	schema   *event.Schema
}

// decode decodes a batch for each learner with a separate Decoder, and returns the columns by learner. to is
// scratch memory.
func (c *Challengers) decode(ctx context.Context, b *event.Batch, to []columns) ([]columns, error) {
	if to == nil {
		to = make([]columns, len(c.All))
	}
	for i, x := range c.All {
		if x.Decoder == nil {
			continue
		}
		if b.Schema != nil { // classes keep the Champion's indices
			x.Schema.Classes, x.Schema.Joined = b.Schema.Classes, b.Schema.Joined
		}
		list := slices.Grow(to[i].examples[:0], len(b.Examples))[:len(b.Examples)]
		for j := range b.Examples {
			e, of := &list[j], &b.Examples[j]
			if of.Refused != nil {
				own := *e
				*e = *of
				e.Features, e.Field, e.Missing = event.Vec{Index: own.Features.Index[:0], Value: own.Features.Value[:0]}, own.Field[:0], own.Missing[:0]
				continue
			}
			if of.Value == nil {
				return nil, fmt.Errorf("challenger %s: it has columns of its own, and the bytes of records are not kept", x.Name)
			}
			r := record.Record{Key: of.Key, Value: of.Value, Offset: of.Offset, Time: of.Time, Unlabeled: true}
			if err := x.Decoder.Decode(ctx, r, e); err != nil {
				return nil, err
			}
			if e.Fingerprint = of.Fingerprint; e.Refused == nil {
				e.Label, e.Target, e.Weight, e.Key, e.Time, e.Value = of.Label, of.Target, of.Weight, of.Key, of.Time, of.Value
			}
			e.Arrival, e.OddTime = of.Arrival, of.OddTime
		}
		to[i] = columns{list, x.Schema.View()}
	}
	return to, nil
}

// seen returns the batch as learner i decodes it. from is the index in own of the first event of the batch.
func (c *Challengers) seen(i int, b *event.Batch, own []columns, from int) event.Batch {
	v := *b
	if c.All[i].Decoder != nil {
		v.Examples, v.Schema = own[i].examples[from:from+len(b.Examples)], own[i].schema
	}
	return v
}

// round is a part of a batch that all learners learn concurrently.
type round struct {
	challengers *Challengers
	leader      *Challenger
	before      uint64     // number of records before the part
	taken       []chan int // for each other learner: the number of events that the leader has counted
	count       int
	working     sync.WaitGroup
}

// takenEvery is the number of events after which the leader signals its progress to the other learners.
const takenEvery = 64

// begin starts a goroutine for each learner other than the leader. The goroutine learns the events of a part, up to the
// position of the leader. views has, for each learner, the part with the learner's columns. before is the number of
// records before the part.
func (c *Challengers) begin(views []event.Batch, holdout, before uint64) *round {
	r := &round{challengers: c, leader: c.leader(), before: before}
	r.leader.losses = r.leader.losses[:0]
	for i, x := range c.others() {
		view := &views[i]
		if view.Schema != nil {
			x.Learner.SetSchema(view.Schema.AsOf(view.Examples, x.Learner.Schema()))
		}
		taken := make(chan int, len(view.Examples)/takenEvery+1)
		r.taken = append(r.taken, taken)
		r.working.Go(func() { x.learn(view, taken, holdout) })
	}
	return r
}

// add records that the leader has counted an event, with its prediction p, which may be nil. A held-out event is not
// compared, because the other learners do not predict it.
func (r *round) add(e *event.Example, p *online.Prediction) {
	r.leader.losses = append(r.leader.losses, comparedLoss(e, p))
	if r.count++; r.count%takenEvery == 0 {
		r.report()
	}
}

func (r *round) report() {
	for _, taken := range r.taken {
		taken <- r.count
	}
}

// end waits until the other learners have learned the last events that the leader has counted, and compares all
// learners.
func (r *round) end() error {
	if r.count%takenEvery > 0 {
		r.report()
	}
	for _, taken := range r.taken {
		close(taken)
	}
	r.working.Wait()
	for _, x := range r.challengers.others() {
		if x.failed != nil {
			return x.failed
		}
		for j, loss := range x.losses {
			x.Paired.Add(r.before+uint64(j)+1, loss.value-r.leader.losses[j].value, loss.weight, x.Window)
		}
	}
	return nil
}

// learn learns the events of a part. It receives the number of events to learn so far from taken.
func (x *Challenger) learn(b *event.Batch, taken <-chan int, holdout uint64) {
	x.losses = x.losses[:0]
	defer func() {
		if cause := recover(); cause != nil {
			at := b.Examples[min(len(x.losses), len(b.Examples)-1)].Offset
			x.failed = &panicError{b.Topic, b.Partition, at, fmt.Sprintf("challenger %s: %v", x.Name, cause), debug.Stack()}
		}
	}()
	for until := range taken {
		for i := len(x.losses); i < until; i++ {
			e := &b.Examples[i]
			if validate.HeldOut(b.Partition, e.Offset, holdout) && e.Refused == nil {
				x.losses = append(x.losses, noLoss)
				continue
			}
			if i+1 < until {
				x.Learner.Prefetch(&b.Examples[i+1])
			}
			p := x.Learner.Learn(e, nil)
			x.losses = append(x.losses, comparedLoss(e, &p))
		}
	}
}

// eventLoss is the loss of a compared prediction, and the importance of its event.
type eventLoss struct{ value, weight float64 }

var noLoss = eventLoss{value: math.NaN()}

// comparedLoss returns the loss of a prediction: the log-loss for classification, the squared error for regression, the
// deviance for counts. It returns NaN if nothing can be compared.
func comparedLoss(e *event.Example, p *online.Prediction) eventLoss {
	if p == nil || p.Refused || e.Refused != nil || e.Label == event.Unlabeled {
		return noLoss
	}
	alone := p.Alone() // the published model does not know the last label
	switch p = &alone; {
	case p.Loss == nil:
		return eventLoss{p.Decision.Judge(p.Scores, e.Label).LogLoss, e.Weight}
	case p.Loss.Facts().Target == loss.Count:
		return eventLoss{measure.Deviance(p.Loss, e.Target, p.Value), e.Weight}
	}
	return eventLoss{(e.Target - p.Value) * (e.Target - p.Value), e.Weight}
}

// frozenChallenger is the state of a learner other than the leader at one moment.
type frozenChallenger struct {
	name        string
	fingerprint online.Fingerprint
	*online.Snapshot
}

// frozenChallengers is the state of a Challengers without the leader's Learner.
type frozenChallengers struct {
	saved  SavedChallengers
	others []frozenChallenger
}

// freeze copies the state. It copies only the parts that have changed since the last copy.
func (c *Challengers) freeze() *frozenChallengers {
	if c == nil {
		return nil
	}
	f := &frozenChallengers{saved: SavedChallengers{Leader: c.leader().Name}}
	for i, x := range c.All {
		f.saved.Learners = append(f.saved.Learners, x.Standing)
		if i != c.Leader {
			f.others = append(f.others, frozenChallenger{x.Name, x.Fingerprint, x.Learner.Snapshot()})
		}
	}
	return f
}

// blocks yields the checkpoint blocks of the Challengers.
func (f *frozenChallengers) blocks() (iter.Seq[event.Block], error) {
	if f == nil {
		return func(func(event.Block) bool) {}, nil
	}
	saved, err := event.JSONBlock(blockChallengers, f.saved)
	if err != nil {
		return nil, err
	}
	all := []iter.Seq[event.Block]{slices.Values([]event.Block{saved})}
	for _, x := range f.others {
		blocks, err := x.EachBlock()
		if err != nil {
			return nil, err
		}
		fingerprint, err := event.JSONBlock(blockFingerprint, x.fingerprint)
		if err != nil {
			return nil, err
		}
		all = append(all, func(yield func(event.Block) bool) {
			for b := range event.JoinBlocks(slices.Values([]event.Block{fingerprint}), blocks) {
				if b.Name = ChallengerPrefix(x.name) + b.Name; !yield(b) {
					return
				}
			}
		})
	}
	return event.JoinBlocks(all...), nil
}

// NewStanding returns the Standing of a learner that starts after the given number of records.
func NewStanding(records uint64) Standing {
	return Standing{Begun: records, Paired: measure.NewPaired(records)}
}
