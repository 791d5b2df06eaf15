package blackbox

// This file has learners say all that they say of events and of the stream.

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/synthetic"
	"blankout/online/watch"
)

// Inner is a learner as its callers use it.
type Inner interface {
	Learn(e *event.Example, prior *online.Prediction) online.Prediction
	Predict(e *event.Example) online.Prediction
	EndPass()
	Report() online.Report
	Alarms(n uint64) online.Alarms
	Warnings(settings online.Fingerprint, final bool) []watch.Warning
	Evaluate(ctx context.Context, s event.Source, threads int) (objective, wrong float64, numbers *measure.NumbersReport, err error)
}

// learner is an Inner, its settings and its state.
type learner struct {
	Inner
	t   testing.TB
	m   Maker
	c   online.Config
	box Learner
}

// start returns a learner of settings and a Schema.
func (m Maker) start(t testing.TB, c online.Config, s *event.Schema) *learner {
	t.Helper()
	l, err := m.New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return &learner{l.Inner(), t, m, c, l}
}

// stream returns a learner for the events of a synthetic.Stream.
func (m Maker) stream(t testing.TB, c online.Config, classes int) *learner {
	t.Helper()
	return m.start(t, c, synthetic.StreamSchema(classes))
}

// model returns the model that is served.
func (l *learner) model() *model.Linear { return l.box.Snapshot() }

// blocks returns the state, which nobody else changes.
func (l *learner) blocks() []event.Block {
	l.t.Helper()
	blocks, err := l.box.Blocks()
	if err != nil {
		l.t.Fatal(err)
	}
	blocks = slices.Clone(blocks)
	for i := range blocks {
		blocks[i].Data = bytes.Clone(blocks[i].Data)
	}
	return blocks
}

// restored returns a learner of the same settings that the state restores.
func (l *learner) restored() *learner { return l.restoredWith(l.c) }

// restoredWith returns one of other settings.
func (l *learner) restoredWith(c online.Config) *learner {
	l.t.Helper()
	box, err := l.m.Restore(c, l.blocks())
	if err != nil {
		l.t.Fatal(err)
	}
	return &learner{box.Inner(), l.t, l.m, c, box}
}
