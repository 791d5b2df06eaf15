package online_test

import (
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/blackbox"
	"blankout/online/watch"
)

// boxed is a Learner as package blackbox wants it.
type boxed struct {
	*online.Learner
	schema *event.Schema
}

func (b boxed) Learn(e *event.Example, prior any) []float64 {
	earlier, _ := prior.(*online.Prediction)
	p := b.Learner.Learn(e, earlier)
	if p.Refused {
		return nil
	}
	return slices.Clone(p.Scores)
}

func (b boxed) Predict(e *event.Example) []float64 { return slices.Clone(b.Learner.Predict(e).Scores) }

func (b boxed) Arrive(e *event.Example) any {
	p := b.Learner.Predict(e)
	p.Scores = slices.Clone(p.Scores)
	return &p
}

func (b boxed) Decision() model.Decision {
	return b.Learner.Predict(&event.Example{Label: event.Unlabeled, Weight: 1}).Decision
}

func (b boxed) Inner() blackbox.Inner { return b.Learner }

func (b boxed) SavedWarnings(settings online.Fingerprint) []watch.Warning {
	return b.Learner.Snapshot().Warnings(settings)
}

func (b boxed) Snapshot() *model.Linear { return b.Learner.Snapshot().Model() }

func (b boxed) Blocks() ([]event.Block, error) {
	each, err := b.Learner.Snapshot().EachBlock()
	if err != nil {
		return nil, err
	}
	return slices.Collect(each), nil
}

func (b boxed) SetSchema(s *event.Schema) { b.Learner.SetSchema(s) }

func (b boxed) Schema() *event.Schema { return b.schema }

func TestBlackBox(t *testing.T) {
	longtest.NotRaced(t)
	blackbox.Run(t, blackbox.Maker{
		New: func(c online.Config, s *event.Schema) (blackbox.Learner, error) {
			l, err := online.New(c, s)
			return boxed{l, s}, err
		},
		Restore: func(c online.Config, blocks []event.Block) (blackbox.Learner, error) {
			l, err := online.Restore(c, blocks)
			if err != nil {
				return nil, err
			}
			s := l.Snapshot().Model().Schema
			l.SetSchema(s)
			return boxed{l, s}, nil
		},
		All: longtest.Asked(),
	})
}

func TestShared(t *testing.T) {
	blackbox.RunShared(t, blackbox.Sharers[*online.Learner]{
		New:    online.New,
		Model:  func(l *online.Learner) *model.Linear { return l.Snapshot().Model() },
		Blocks: func(l *online.Learner) ([]event.Block, error) { return l.Snapshot().Blocks() },
	})
}
