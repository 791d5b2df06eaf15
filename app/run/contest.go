package run

// This file learns a stream with several learners (challengers), and compares them.

import (
	"context"
	"encoding/json"
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

// Champion is the contender name of the learner that the section [learner] configures.
const Champion = "learner"

// Contest is a set of learners of one stream, the contenders. Records are read once. One contender has the lead. The
// lead learns like a single Learner, and makes the predictions, snapshots, validations and dead letters. The other
// contenders learn the same events and are compared with the lead.
//
// The state depends only on the records. The other contenders learn exactly the events that the lead has counted.
// Differences are averaged over blocks of records. Automatic promotion depends on the number of records.
type Contest struct {
	Contenders []*Contender // the first contender is the Champion
	Lead       int          // index of the contender with the lead
}

// Contender is one of the learners of a Contest.
type Contender struct {
	Learner     *online.Learner
	Fingerprint online.Fingerprint
	Standing

	// Decoder decodes the contender's columns from a record's bytes, with Schema. It is nil if the columns equal the
	// columns of the Champion.
	Decoder record.Decoder
	Schema  *event.Schema
	// Validator validates the contender while it has the lead; it may be nil.
	Validator *validate.Validator

	losses []eventLoss // losses for the current part of a batch
	failed *panicError
}

// PromoteAuto is the value of Standing.Promote for automatic promotion.
const PromoteAuto = "auto"

// auto reports whether the contender is promoted automatically.
func (s *Standing) auto() bool { return s.Promote == PromoteAuto }

// Standing is the state of a contender in a checkpoint, besides its Learner. Promote and Window are the current
// settings, for readers of the checkpoint.
type Standing struct {
	Name    string         `json:"name"`
	Promote string         `json:"promote"` // PromoteAuto or another setting
	Window  uint64         `json:"window"`  // number of records per window of the comparison
	Begun   uint64         `json:"begun"`   // number of records before the first record that it has learned
	Paired  measure.Paired `json:"paired"`
}

// blockContest is the checkpoint block with the SavedContest. The lead's blocks have the same names as the blocks of a
// single Learner. The names of the other contenders' blocks begin with ContenderPrefix.
const blockContest = "challengers"

// ContenderPrefix returns the prefix of the block names of a contender without the lead.
func ContenderPrefix(name string) string { return "challenger/" + name + "/" }

// SavedContest is the state of a Contest in a checkpoint.
type SavedContest struct {
	Lead     string     `json:"lead"`
	Learners []Standing `json:"learners"` // in the order of the configuration
}

// ReadContest returns the SavedContest of a checkpoint. A single Learner is returned as the only contender, with the
// lead.
func ReadContest(blocks []event.Block) (SavedContest, error) {
	s := SavedContest{Lead: Champion}
	if _, err := event.FindBlock(blocks, blockContest); err != nil {
		return s, nil
	}
	return s, readJSON(blocks, blockContest, &s)
}

// Standing returns the Standing of the contender with the given name, and whether it exists.
func (s *SavedContest) Standing(name string) (Standing, bool) {
	for _, x := range s.Learners {
		if x.Name == name {
			return x, true
		}
	}
	return Standing{}, false
}

// lead returns the contender with the lead.
func (c *Contest) lead() *Contender { return c.Contenders[c.Lead] }

// LeadName returns the name of the contender with the lead, or "" for a nil Contest. A function for Runner.Answer may
// call it.
func (c *Contest) LeadName() string {
	if c == nil {
		return ""
	}
	return c.lead().Name
}

// names returns the names of the contenders.
func (c *Contest) names() (names []string) {
	for _, x := range c.Contenders {
		names = append(names, x.Name)
	}
	return names
}

// columns holds the events of a batch, decoded with a contender's Schema.
type columns struct {
	examples []event.Example
	schema   *event.Schema
}

// decode decodes a batch for each contender with a separate Decoder, and returns the columns by contender. to is
// scratch memory.
func (c *Contest) decode(ctx context.Context, b *event.Batch, to []columns) ([]columns, error) {
	if to == nil {
		to = make([]columns, len(c.Contenders))
	}
	for i, x := range c.Contenders {
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

// seen returns the batch as contender i decodes it. from is the index in own of the first event of the batch.
func (c *Contest) seen(i int, b *event.Batch, own []columns, from int) event.Batch {
	v := *b
	if c.Contenders[i].Decoder != nil {
		v.Examples, v.Schema = own[i].examples[from:from+len(b.Examples)], own[i].schema
	}
	return v
}

// round is a part of a batch that all contenders learn concurrently.
type round struct {
	contest *Contest
	lead    *Contender
	before  uint64     // number of records before the part
	taken   []chan int // for each other contender: the number of events that the lead has counted
	count   int
	working sync.WaitGroup
}

// takenEvery is the number of events after which the lead signals its progress to the other contenders.
const takenEvery = 64

// begin starts a goroutine for each contender without the lead. The goroutine learns the events of a part, up to the
// position of the lead. views has, for each contender, the part with the contender's columns. before is the number of
// records before the part.
func (c *Contest) begin(views []event.Batch, holdout, before uint64) *round {
	r := &round{contest: c, lead: c.lead(), before: before}
	r.lead.losses = r.lead.losses[:0]
	for i, x := range c.Contenders {
		if i == c.Lead {
			continue
		}
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

// add records that the lead has counted an event, with its prediction p, which may be nil. A held-out event is not
// compared, because the other contenders do not predict it.
func (r *round) add(e *event.Example, p *online.Prediction) {
	r.lead.losses = append(r.lead.losses, comparedLoss(e, p))
	if r.count++; r.count%takenEvery == 0 {
		r.report()
	}
}

func (r *round) report() {
	for _, taken := range r.taken {
		taken <- r.count
	}
}

// end waits until the other contenders have learned the last events that the lead has counted, and compares all
// contenders.
func (r *round) end() error {
	if r.count%takenEvery > 0 {
		r.report()
	}
	for _, taken := range r.taken {
		close(taken)
	}
	r.working.Wait()
	c := r.contest
	for i, x := range c.Contenders {
		if i == c.Lead {
			continue
		}
		if x.failed != nil {
			return x.failed
		}
		for j, loss := range x.losses {
			x.Paired.Add(r.before+uint64(j)+1, loss.value-r.lead.losses[j].value, loss.weight, x.Window)
		}
	}
	return nil
}

// learn learns the events of a part. It receives the number of events to learn so far from taken.
func (x *Contender) learn(b *event.Batch, taken <-chan int, holdout uint64) {
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
	switch {
	case p == nil || p.Refused || e.Refused != nil || e.Label == event.Unlabeled:
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

// frozenContender is the state of a contender without the lead at one moment.
type frozenContender struct {
	name        string
	fingerprint online.Fingerprint
	*online.Snapshot
}

// frozenContest is the state of a Contest without the lead's Learner.
type frozenContest struct {
	saved  SavedContest
	others []frozenContender
}

// freeze copies the state. It copies only the parts that have changed since the last copy.
func (c *Contest) freeze() *frozenContest {
	if c == nil {
		return nil
	}
	f := &frozenContest{saved: SavedContest{Lead: c.lead().Name}}
	for i, x := range c.Contenders {
		f.saved.Learners = append(f.saved.Learners, x.Standing)
		if i != c.Lead {
			f.others = append(f.others, frozenContender{x.Name, x.Fingerprint, x.Learner.Snapshot()})
		}
	}
	return f
}

// blocks yields the checkpoint blocks of the Contest.
func (f *frozenContest) blocks() (iter.Seq[event.Block], error) {
	if f == nil {
		return func(func(event.Block) bool) {}, nil
	}
	data, err := json.Marshal(f.saved)
	if err != nil {
		return nil, fmt.Errorf("encoding the challengers: %w", err)
	}
	all := []iter.Seq[event.Block]{slices.Values([]event.Block{{Name: blockContest, Data: data}})}
	for _, x := range f.others {
		blocks, err := x.EachBlock()
		if err != nil {
			return nil, err
		}
		data, err := json.Marshal(x.fingerprint)
		if err != nil {
			return nil, fmt.Errorf("encoding the fingerprint of challenger %s: %w", x.name, err)
		}
		all = append(all, func(yield func(event.Block) bool) {
			prefix := ContenderPrefix(x.name)
			if !yield(event.Block{Name: prefix + blockFingerprint, Data: data}) {
				return
			}
			stopped := false
			blocks(func(b event.Block) bool {
				b.Name = prefix + b.Name
				stopped = stopped || !yield(b)
				return !stopped
			})
		})
	}
	return func(yield func(event.Block) bool) {
		for _, blocks := range all {
			for b := range blocks {
				if !yield(b) {
					return
				}
			}
		}
	}, nil
}

// NewStanding returns the Standing of a contender that starts after the given number of records.
func NewStanding(records uint64) Standing {
	return Standing{Begun: records, Paired: measure.NewPaired(records)}
}
