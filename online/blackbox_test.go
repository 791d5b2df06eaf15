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
type boxed struct{ *online.Learner }

func (b boxed) Learn(e *event.Example, prior any) []float64 {
	var earlier *online.Prediction
	if prior != nil {
		p, err := online.ReadPrediction(prior.([]float64))
		if err != nil {
			panic(err)
		}
		earlier = &p
	}
	p := b.Learner.Learn(e, earlier)
	if p.Refused {
		return nil
	}
	return slices.Clone(p.Scores)
}

func (b boxed) Predict(e *event.Example) []float64 { return slices.Clone(b.Learner.Predict(e).Scores) }

func (b boxed) Arrive(e *event.Example) any {
	p := b.Learner.Predict(e)
	return p.Append(nil)
}

func (b boxed) Decision() model.Decision {
	return b.Learner.Predict(&event.Example{Label: event.Unlabeled, Weight: 1}).Decision
}

func (b boxed) Inner() blackbox.Inner { return b.Learner }

func (b boxed) SavedWarnings(settings online.Fingerprint) []watch.Warning {
	return b.Learner.Snapshot().Warnings(settings)
}

func (b boxed) Snapshot() *model.Linear { return b.Learner.Snapshot().Model() }

func (b boxed) Blocks() ([]event.Block, error) { return b.Learner.Snapshot().Blocks() }

func TestBlackBox(t *testing.T) {
	longtest.NotRaced(t)
	blackbox.Run(t, blackbox.Maker{
		All: longtest.Asked(),
		New: func(c online.Config, s *event.Schema) (blackbox.Learner, error) {
			l, err := online.New(c, s)
			return boxed{l}, err
		},
		Restore: func(c online.Config, blocks []event.Block) (blackbox.Learner, error) {
			l, err := online.Restore(c, blocks)
			return boxed{l}, err
		},
	})
}

func TestShared(t *testing.T) {
	blackbox.RunShared(t, blackbox.Sharers[*online.Learner]{
		New:      online.New,
		Model:    func(l *online.Learner) *model.Linear { return l.Snapshot().Model() },
		Blocks:   func(l *online.Learner) ([]event.Block, error) { return l.Snapshot().Blocks() },
		LeaveOut: []string{"Unlabeled"}, // it refuses a Delta of unlabeled events
	})
}
