package online_test

import (
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/online"
	"blankout/online/synthetic"
)

// FuzzRestore reads checkpoints whose checksums are right and one of whose blocks
// says anything: refused, or a Learner that can be saved again.
func FuzzRestore(f *testing.F) {
	c := online.DefaultConfig()
	c.IRLSBatch, c.IRLSWindow, c.Noise = 7, 14, "dropout:0.3"
	l, s := mustNew(f, c, 2), synthetic.NewStream(4, 2)
	for range 40 {
		l.Learn(s.Next(), nil)
	}
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		f.Fatal(err)
	}
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

// Learning goes on while a Snapshot is encoded, and the Snapshot stays what it was.
func TestSnapshotIsImmutable(t *testing.T) {
	l, s := mustNew(t, online.DefaultConfig(), 3), synthetic.NewStream(4, 3)
	for range 50 {
		l.Learn(s.Next(), nil)
	}
	snapshot := l.Snapshot()
	want, err := snapshot.Blocks()
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		want[i].Data = slices.Clone(want[i].Data)
	}
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
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(got, want, func(a, b event.Block) bool { return a.Name == b.Name && string(a.Data) == string(b.Data) }) {
		t.Error("the snapshot changed")
	}
}
