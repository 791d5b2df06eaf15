package online_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
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

// TestDamagedStates cuts and changes the blocks of saved states. Restore must reject each cut block. It must reject a
// changed block too, or return a Learner that can be saved again and learns.
func TestDamagedStates(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	for _, classes := range []int{2, 30, 0} {
		c := correctedConfigs(classes)["silent"]
		c.Calibrate = "auto"
		schema, draw := drawn(7, classes)
		l, r := newLearner(t, c, schema), rand.New(rand.NewPCG(5, 3))
		l.Learn(&event.Example{Refused: &event.Refusal{Reason: event.ReasonLabel, Detail: "none"}}, nil)
		for range 1100 {
			l.Learn(draw(), nil)
		}
		whole, restored := blocksOf(t, l), restart(t, c, l)
		sameState(t, "restored", whole, blocksOf(t, restored))
		if by := restored.Report().RefusedBy; by[event.ReasonLabel].Count != 1 {
			t.Errorf("refused, restored: %v", by)
		}
		for i, b := range whole {
			if b.Name == "summary" || b.Name == health.BlockHealth {
				continue // a Learner does not read these reports
			}
			for n := range 2 * min(5, len(b.Data)) {
				blocks, at := slices.Clone(whole), r.IntN(len(b.Data))
				if blocks[i].Data = b.Data[:at]; n%2 > 0 {
					blocks[i].Data = slices.Clone(b.Data)
					blocks[i].Data[at] ^= byte(1 + r.IntN(255))
				}
				again, err := online.Restore(c, blocks)
				if err != nil {
					continue
				}
				if _, err := again.Snapshot().Blocks(); err != nil || n%2 == 0 {
					t.Errorf("%d classes, damage %d at byte %d of %d: block %s is restored, and saved with the error %v", classes, n, at, len(b.Data), b.Name, err)
				}
				again.SetSchema(schema)
				again.Learn(draw(), nil)
			}
		}
	}
}
