package online_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

// FuzzRestore restores checkpoints with valid checksums in which one block is arbitrary. Restore must reject the
// checkpoint or return a Learner that can be saved again.
func FuzzRestore(f *testing.F) {
	c := online.DefaultConfig()
	c.IRLSBatch, c.IRLSWindow, c.Noise = 7, 14, "dropout:0.3"
	l, s := streamLearner(f, c, 2), synthetic.NewStream(4, 2)
	for range 40 {
		l.Learn(s.Next(), nil)
	}
	blocks := blocksOf(f, l)
	for _, b := range blocks {
		if len(b.Data) < 20_000 {
			f.Add(b.Name, b.Data)
		}
	}
	e := s.Next()
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		blocks := slices.Clone(blocks)
		for i := range blocks {
			if blocks[i].Name == name {
				blocks[i].Data = data
			}
		}
		l, err := online.Restore(c, blocks)
		if err != nil {
			return
		}
		if _, err := l.Snapshot().Blocks(); err != nil {
			t.Error(err)
		}
		scoresOf(l, e)
	})
}

// TestSnapshotIsImmutable learns while a Snapshot is encoded. Learning must change neither the Snapshot nor the scores
// of its model.
func TestSnapshotIsImmutable(t *testing.T) {
	l, s := streamLearner(t, online.DefaultConfig(), 3), synthetic.NewStream(4, 3)
	for range 50 {
		l.Learn(s.Next(), nil)
	}
	snapshot, want := l.Snapshot(), blocksOf(t, l)
	e := clone(s.Next())
	held := snapshot.Model()
	scores := score(held, e)
	done := make(chan error)
	var got []event.Block
	go func() {
		var err error
		got, err = snapshot.Blocks()
		done <- err
	}()
	for range 500 {
		l.Learn(s.Next(), nil)
		l.Snapshot()
	}
	must.Do(t, <-done)
	sameState(t, "the snapshot", want, got)
	if after := score(held, e); !sameScores(after, scores) || sameScores(scoresOf(l, e), scores) {
		t.Errorf("the snapshot scored %v, then %v, and the learner %v", scores, after, scoresOf(l, e))
	}
}

// TestRefusedIsKept checks that the counts of rejected events are the same after a restart.
func TestRefusedIsKept(t *testing.T) {
	l, s := streamLearner(t, online.DefaultConfig(), 2), synthetic.NewStream(4, 2)
	for i := range 60 {
		if l.Learn(s.Next(), nil); i%20 == 0 {
			l.Learn(&event.Example{Refused: &event.Refusal{Reason: event.ReasonLabel, Detail: "none"}}, nil)
		}
	}
	blocks, restored := blocksOf(t, l), restart(t, l.Config(), l)
	want := l.Report()
	if want.Refused != 3 || want.RefusedBy[event.ReasonLabel].Count != 3 {
		t.Fatalf("%d refused: %v", want.Refused, want.RefusedBy)
	}
	if got := restored.Report(); got.Refused != want.Refused || !reflect.DeepEqual(got.RefusedBy, want.RefusedBy) {
		t.Errorf("%d refused: %v", got.Refused, got.RefusedBy)
	}
	for i := range blocks {
		if blocks[i].Name == "refused" {
			blocks[i].Data = append(slices.Clone(blocks[i].Data), 1)
		}
	}
	if _, err := online.Restore(l.Config(), blocks); err == nil || !strings.Contains(err.Error(), "block refused") {
		t.Errorf("a longer block of refused records: %v", err)
	}
}
