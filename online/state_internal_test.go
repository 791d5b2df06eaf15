package online

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/online/synthetic"
)

// A learner goes on with the levels that it has begun with, to the bit, though another program begins with others.
func TestLevelsAsBegun(t *testing.T) {
	begun := DefaultConfig()
	begun.Levels = []float64{0, 0.1, 0.3, 0.5, 0.7}
	l, s := mustNew(t, begun, 2), synthetic.NewStream(6, 2)
	for range 600 {
		l.Learn(s.Next(), nil)
	}
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Restore(DefaultConfig(), blocks)
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		e := s.Next()
		if a, b := slices.Clone(l.Learn(e, nil).Scores), again.Learn(e, nil).Scores; !slices.Equal(a, b) {
			t.Fatalf("event %d: %v, by a program with other levels %v", l.events, a, b)
		}
	}
	if !bytes.Equal(stateOf(t, l), stateOf(t, again)) {
		t.Error("the state is another")
	}
	for name, change := range map[string]func(c *Config){
		"a level alone": func(c *Config) { c.Noise = "dropout:0.3" },
		"groups beside": func(c *Config) { c.ExpectedMissingGroups = 0.5 },
	} {
		c := DefaultConfig()
		change(&c)
		var mismatch *MismatchError
		if _, err := Restore(c, blocks); !errors.As(err, &mismatch) || len(mismatch.Differences) != 1 || !strings.HasPrefix(mismatch.Differences[0], "noise: was") {
			t.Errorf("%s: %v", name, err)
		}
	}
	expecting := DefaultConfig()
	expecting.ExpectedMissing = 0.5
	if again, err = Restore(expecting, blocks); err != nil || len(again.levels) != 5 {
		t.Fatalf("half of the features are expected to be missing from now on: %d levels, %v", len(again.levels), err)
	}
	if features, _ := expecting.bank(); !slices.Equal(features, []float64{0, 0.3, 0.5}) {
		t.Errorf("who expects half of the features to be missing learns at %v", features)
	}
	expecting.ExpectedMissing = 0.1
	if features, _ := expecting.bank(); !slices.Equal(features, []float64{0, 0.1, 0.7}) {
		t.Errorf("who expects a tenth of the features to be missing learns at %v", features)
	}
	grouped := DefaultConfig()
	grouped.ExpectedMissingGroups = 0.5
	if blocks, err = mustNew(t, grouped, 2).Snapshot().Blocks(); err != nil {
		t.Fatal(err)
	}
	many := DefaultConfig()
	many.Loss, many.Levels = "squared", make([]float64, 40_000)
	for v := range many.Levels {
		many.Levels[v] = float64(v) / 40_000
	}
	if _, err := New(many, &event.Schema{NumericIndices: true, Target: loss.Real}); err == nil || !strings.Contains(err.Error(), "40000 noise levels") {
		t.Errorf("40,000 levels: %v", err)
	}
	var mismatch *MismatchError
	if _, err := Restore(DefaultConfig(), blocks); !errors.As(err, &mismatch) {
		t.Errorf("levels of groups for who expects none to be missing: %v", err)
	}
}

func TestRestoreRefuses(t *testing.T) {
	c := DefaultConfig()
	c.IRLSBatch, c.IRLSWindow = 7, 14
	l, s := mustNew(t, c, 3), synthetic.NewStream(4, 3)
	for range 40 {
		l.Learn(s.Next(), nil)
	}
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(c, blocks); err != nil {
		t.Fatal(err)
	}
	state, _ := event.FindBlock(blocks, "learner")
	with := func(data []byte) []event.Block {
		other := slices.DeleteFunc(slices.Clone(blocks), func(b event.Block) bool { return b.Name == "learner" })
		if data != nil {
			other = append(other, event.Block{Name: "learner", Data: data})
		}
		return other
	}
	for n := 0; n < len(state); n += 1 + n/50 {
		if _, err := Restore(c, with(state[:n:n])); err == nil {
			t.Errorf("the first %d of %d bytes were restored", n, len(state))
		}
	}
	if _, err := Restore(c, with(append(slices.Clone(state), 0))); err == nil {
		t.Error("a byte too many was restored")
	}
	newer := slices.Clone(state)
	newer[0]++
	if _, err := Restore(c, with(newer)); err == nil || !strings.Contains(err.Error(), fmt.Sprint("version ", stateVersion+1)) {
		t.Errorf("a later version: %v", err)
	}
	if _, err := Restore(c, with(nil)); err == nil || !strings.Contains(err.Error(), "not a checkpoint") {
		t.Errorf("a model: %v", err)
	}
	other := c
	other.Loss, other.LearningRate = "hinge", 0.7
	var mismatch *MismatchError
	if _, err := Restore(other, blocks); !errors.As(err, &mismatch) || !slices.Equal(mismatch.Differences, []string{
		`learning_rate: was "0", is "0.7"`, `loss: was "logistic:gaussian", is "hinge:gaussian"`}) {
		t.Errorf("%v", err)
	}
	other = c
	other.IRLSWindow = 21
	if _, err := Restore(other, blocks); !errors.As(err, &mismatch) || !slices.Equal(mismatch.Differences, []string{`irls_window: was "14", is "21"`}) {
		t.Errorf("%v", err)
	}
	// What only says how the weights are used may change.
	other = c
	other.ExpectedMissing, other.Threshold = 0.5, 0.9
	if _, err := Restore(other, blocks); err != nil {
		t.Error(err)
	}
}

// Another version of the state is refused with a sentence that says what to do.
func TestOtherVersions(t *testing.T) {
	c := DefaultConfig()
	l, s := mustNew(t, c, 3), synthetic.NewStream(4, 3)
	for range 300 {
		l.Learn(s.Next(), nil)
	}
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(blocks, func(b event.Block) bool { return b.Name == "learner" })
	for version, want := range map[uint32]string{0: "has version 0", 3: "start again with --reset", stateVersion + 1: "this program reads version"} {
		binary.LittleEndian.PutUint32(blocks[at].Data, version)
		if _, err := Restore(c, blocks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("version %d: %v, want %q", version, err, want)
		}
	}
}
