package staleness

import (
	"fmt"
	"iter"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// This file saves, restores and reports staleness.

// Report returns the losses for each age that has predictions, in ascending order from age 0. numbers is true for
// regression.
func (a *Stale) Report(numbers bool) (out []measure.StaleLoss) {
	means := func(s sums) (err, logLoss, deviance *float64) {
		if err = measure.Defined(s.wrong / s.weight); numbers {
			return err, nil, measure.Defined(s.loss / s.weight)
		}
		return err, measure.Defined(s.loss / s.weight), nil
	}
	if a.now.events > 0 {
		r := measure.StaleLoss{Events: a.now.events}
		r.Error, r.LogLoss, r.Deviance = means(a.now)
		out = append(out, r)
	}
	for i := range a.ages {
		x := &a.ages[i]
		if x.old.events == 0 {
			continue
		}
		r := measure.StaleLoss{Age: Ages[i], Events: x.old.events}
		r.Error, r.LogLoss, r.Deviance = means(x.old)
		r.FreshError, r.FreshLogLoss, r.FreshDeviance = means(x.fresh)
		if !numbers {
			r.ConstantError, r.ConstantLogLoss, _ = means(x.constant)
		}
		out = append(out, r)
	}
	return out
}

// Block is the name of the checkpoint block with the sums. The block also lists which frozen model is used for which
// age. The names of the blocks with the models start with Block.
const Block = "aged"

// prefix returns the prefix of a frozen model's block names.
func prefix(i int) string { return fmt.Sprintf("%s/%d/", Block, i) }

// state encodes or decodes the state except the models. models lists each model once.
func (a *Stale) state(c *coder.Coder, models []*model.Linear) {
	c.Uint(&a.seen)
	c.Float(&a.credit)
	a.now.state(c)
	for i := range a.ages {
		x := &a.ages[i]
		x.old.state(c)
		x.fresh.state(c)
		x.constant.state(c)
		at := 1 + slices.Index(models, x.model) // 0 for none
		c.Int(&at)
		c.Uint(&x.born)
		if !c.Decode {
			continue
		}
		if x.model = nil; at < 0 || at > len(models) || x.born > a.seen {
			c.Failed = true
		} else if at > 0 {
			x.model = models[at-1]
		}
	}
}

func (s *sums) state(c *coder.Coder) {
	for _, p := range []*float64{&s.events, &s.weight, &s.wrong, &s.loss} {
		c.Float(p)
		c.Failed = c.Failed || !(*p >= 0)
	}
}

// EachBlock yields the encoded blocks. There are no blocks before the first event.
func (a *Stale) EachBlock() (iter.Seq[event.Block], error) {
	var models []*model.Linear
	var each []iter.Seq[event.Block]
	for i := range a.ages {
		m := a.ages[i].model
		if m == nil || slices.Contains(models, m) {
			continue
		}
		blocks, err := m.EachBlock()
		if err != nil {
			return nil, err
		}
		models, each = append(models, m), append(each, blocks)
	}
	own := *a
	data := coder.Encode(func(c *coder.Coder) { own.state(c, models) })
	return func(yield func(event.Block) bool) {
		if own.seen == 0 || !yield(event.Block{Name: Block, Data: data}) {
			return
		}
		for i, blocks := range each {
			for b := range blocks {
				if b.Name = prefix(i) + b.Name; !yield(b) {
					return
				}
			}
		}
	}, nil
}

// Restore decodes the blocks. blocks may also contain blocks of other packages. A model may have at most the given
// number of outputs.
func (a *Stale) Restore(blocks []event.Block, outputs int) error {
	data, err := event.FindBlock(blocks, Block)
	if err != nil {
		return nil // the block is optional
	}
	var models []*model.Linear
	for i := range Ages {
		own := event.BlocksUnder(blocks, prefix(i))
		if own == nil {
			break
		}
		m, err := model.ReadLinear(own)
		if err == nil && m.Outputs > outputs {
			err = fmt.Errorf("%d outputs, of %d", m.Outputs, outputs)
		}
		if err != nil {
			return fmt.Errorf("restoring the learner: a model in the blocks %s: %w", prefix(i), err)
		}
		models = append(models, m)
	}
	c := coder.Read(data)
	if a.state(c, models); !c.Done() {
		return fmt.Errorf("restoring the learner: block %s: %d bytes do not fit its format", Block, len(data))
	}
	return nil
}
