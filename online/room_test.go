package online_test

import (
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/memory"
)

// crowd returns a Learner for events with 100 columns each. The columns of event n start at 100 n.
func crowd(t *testing.T, change func(*online.Config), classes ...string) *online.Learner {
	t.Helper()
	c := with(func(c *online.Config) { c.MaxMemory = int(memory.Least) })
	if change != nil {
		change(&c)
	}
	s := event.NewSchema(20, nil, 40)
	s.Classes = classes
	s.NumericIndices = true
	s.AddField(event.Field{Name: "words", Kind: event.Words})
	return newLearner(t, c, s)
}

func crowded(n, label int) *event.Example {
	e := &event.Example{Label: label, Weight: 1, Offset: int64(n)}
	for i := range 100 {
		eventtest.Put(e, uint32(100*n+i), 1, 1)
	}
	return e
}

// fill learns events of the first two classes until an event is rejected, and returns the number of that event.
func fill(t *testing.T, l *online.Learner) int {
	t.Helper()
	for n := range 1000 {
		if r := l.Refusal(crowded(n, n%2)); r != nil {
			return n
		}
		must.Require(t, l.Learn(crowded(n, n%2), nil).Scores != nil, "event %d is refused", n)
	}
	t.Fatal("none is refused")
	return 0
}

// TestColumnRefused checks that an event is rejected if its columns would exceed the memory limit, at the number of
// rows that the formula gives. Such columns must be reported by name and counted, for events with and without a label.
// Events with known columns must still be learned, and rejected events must have no effect.
func TestColumnRefused(t *testing.T) {
	l := crowd(t, nil, "no", "yes")
	last := fill(t, l)
	rows := int(memory.Least) / 8 / l.Snapshot().Model().Layout.Width
	must.Require(t, last == rows/100 && l.Report().Rows == 100*last, "event %d with %d rows is refused, of %d", last, l.Report().Rows, rows)
	other := crowd(t, nil, "no", "yes")
	fill(t, other)
	e := crowded(last, 1)
	for i, label := range []int{1, event.Unlabeled} {
		e.Label = label
		must.True(t, l.Learn(e, nil).Scores == nil && e.Refused == nil, "event %d is learned", i)
	}
	m := l.Report()
	by := m.RefusedBy[event.ReasonMemory]
	must.True(t, m.Refused == 2 && by.Count == 2 && strings.HasPrefix(by.First, `field "words", feature "`) && strings.Contains(by.First, "raise learner.max_memory = 1048576"),
		"refused %d: %+v", m.Refused, m.RefusedBy)
	e.Weight = 0
	must.True(t, l.Refusal(e) == nil && l.Learn(e, nil).Scores != nil, "an event of no weight, which is not learned, is refused")
	known := crowded(0, 0)
	got, want := l.Learn(known, nil).Scores, other.Learn(known, nil).Scores
	must.True(t, got != nil && slices.Equal(got, want) && l.Report().Events == other.Report().Events, "known columns are told %v, want %v", got, want)
	fits := crowded(last, 0)
	n := rows - 100*last
	fits.Features.Index, fits.Features.Value, fits.Field = fits.Features.Index[:n], fits.Features.Value[:n], fits.Field[:n]
	must.True(t, l.Learn(fits, nil).Scores != nil && l.Report().Rows == rows, "%d rows, where there is room for %d", l.Report().Rows, rows)
}

// TestClassRefused checks that a class is rejected by name if its output would exceed the memory limit, with two
// classes and with several. Events of known classes must still be learned. A restart must give the same bits, and with
// a larger limit the class must be accepted.
func TestClassRefused(t *testing.T) {
	for _, classes := range [][]string{{"no", "yes"}, {"no", "yes", "perhaps"}} {
		l := crowd(t, nil, classes...)
		outputs := func(l *online.Learner) int { return len(l.Predict(crowded(0, 0)).Scores) }
		last := fill(t, l)
		k := outputs(l)
		l.Schema().Classes = append(l.Schema().Classes, "again", "fire")
		e := crowded(0, len(l.Schema().Classes)-1)
		r := l.Refusal(e)
		must.Require(t, r != nil && r.Reason == event.ReasonMemory && strings.HasPrefix(r.Detail, `class "fire": `), "of %d classes: %v", len(classes), r)
		again := restart(t, l.Config(), l)
		for i, e := range []*event.Example{e, crowded(1, 1), crowded(last, 0), crowded(2, 0), e} {
			a, b := l.Learn(e, nil).Scores, again.Learn(e, nil).Scores
			must.True(t, slices.Equal(a, b) && (a == nil) == (i%4 == 0 || i == 2), "of %d classes, event %d: %v, after a restart %v", len(classes), i, a, b)
		}
		must.True(t, outputs(l) == k && l.Report().RefusedBy[event.ReasonMemory].Count == 3, "of %d classes: %d outputs, refused %+v", len(classes), outputs(l), l.Report().RefusedBy)
		sameState(t, "after a restart", blocksOf(t, l), blocksOf(t, again))
		c := l.Config()
		c.MaxMemory *= 20
		again = restart(t, c, l)
		must.True(t, again.Learn(e, nil).Scores != nil && outputs(again) == len(l.Schema().Classes), "of %d classes: refused under a larger bound", len(classes))
	}
}

// TestFarFromBound checks that a limit that is never reached has no effect.
func TestFarFromBound(t *testing.T) {
	near, far, none := crowd(t, nil, "no", "yes"), crowd(t, func(c *online.Config) { c.MaxMemory = 4 << 30 }, "no", "yes"), crowd(t, func(c *online.Config) { c.MaxMemory = 0 }, "no", "yes")
	last := fill(t, near)
	for n := range last {
		far.Learn(crowded(n, n%2), nil)
		none.Learn(crowded(n, n%2), nil)
	}
	rest := func(l *online.Learner) []event.Block { // the block "learner" contains the limit
		return slices.DeleteFunc(blocksOf(t, l), func(b event.Block) bool { return b.Name == "learner" })
	}
	sameState(t, "with a limit that nothing reaches", rest(near), rest(far))
	sameState(t, "without a limit", rest(near), rest(none))
	must.True(t, none.Learn(crowded(last, 0), nil).Scores != nil && far.Learn(crowded(last, 0), nil).Scores != nil, "refused without need")
	e := crowded(0, 0)
	n := testing.AllocsPerRun(100, func() { far.Refusal(e) })
	must.True(t, n <= 0, "the question allocates %v times", n)
}

// TestBoundIsKept checks that the memory limit is in the checkpoint, for readers without a configuration. Changing it
// between runs must be allowed, and an invalid limit must be rejected.
func TestBoundIsKept(t *testing.T) {
	for _, bound := range []int{0, int(memory.Least), int(memory.Default), 1 << 33} {
		l := crowd(t, func(c *online.Config) { c.MaxMemory = bound }, "no", "yes")
		l.Learn(crowded(0, 0), nil)
		blocks := blocksOf(t, l)
		c, err := online.ReadConfig(blocks)
		must.True(t, err == nil && c.MaxMemory == bound, "kept %d of %d: %v", c.MaxMemory, bound, err)
		must.Do(t, must.Err(online.Restore(online.DefaultConfig(), blocks)))
	}
}
