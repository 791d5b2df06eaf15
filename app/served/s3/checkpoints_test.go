package s3_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"blankout/app/served"
	"blankout/app/served/s3"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/internal/s3test"
)

const prefix = "s3://models/fraud/checkpoints"

func openCheckpoints(t *testing.T, s *s3test.Store, keep int) *checkpoint.Store {
	t.Helper()
	objects := must.Get(s3.OpenCheckpoints(config(s), prefix))(t)
	store := must.Get(checkpoint.OpenObjects(objects, keep))(t)
	return store
}

func save(store *checkpoint.Store, text string) error {
	saved, err := store.Save(checkpoint.Linear, slices.Values([]event.Block{{Name: "n", Data: []byte(text)}}))
	return errors.Join(err, saved.Prune)
}

func loaded(t *testing.T, store *checkpoint.Store) (text string, refused []checkpoint.Refusal) {
	t.Helper()
	f, refused, err := store.Load()
	if errors.Is(err, checkpoint.ErrNone) {
		return "", refused
	}
	must.Do(t, err)
	return string(f.Blocks[0].Data), refused
}

// TestCheckpoints checks that the newest checkpoint is loaded and that older checkpoints are removed. If the newest
// checkpoint is damaged, the previous checkpoint must be loaded.
func TestCheckpoints(t *testing.T) {
	s := newStore(t)
	store := openCheckpoints(t, s, 2)
	text, _ := loaded(t, store)
	must.Require(t, text == "" && store.Ousted == "", "%q is there, of %q", text, store.Ousted)
	for i := range 4 {
		must.Do(t, save(store, fmt.Sprint("state ", i)))
	}
	want := []string{"checkpoint-000000000002.blankout", "checkpoint-000000000003.blankout", "lock"}
	must.EqualSlices(t, s.Names("/models/fraud/checkpoints/"), want, "there")
	start, err := store.NextStart()
	must.True(t, err == nil && start == 1, "start %d, %v", start, err)
	must.Do(t, store.Close())
	store = openCheckpoints(t, s, 2)
	text, _ = loaded(t, store)
	must.True(t, text == "state 3" && store.Ousted == "", "loaded %q; ousted %q after an orderly stop", text, store.Ousted)
	start, err = store.NextStart()
	must.True(t, err == nil && start == 2, "start %d, %v", start, err)
	newest := "/models/fraud/checkpoints/" + want[1]
	damaged := slices.Clone(s.Get(newest))
	damaged[len(damaged)/2] ^= 1
	s.Put(newest, damaged)
	text, refused := loaded(t, store)
	must.True(t, text == "state 2" && len(refused) == 1, "loaded %q, refused %v", text, refused)
	aside, err := store.SetAside()
	must.True(t, err == nil && aside == prefix+"/set-aside-000000000003", "set aside as %q, %v", aside, err)
	text, _ = loaded(t, store)
	must.True(t, text == "", "%q is left", text)
	must.EqualSlices(t, s.Names("/models/fraud/checkpoints/set-aside-000000000003/"), want[:2], "set aside")
	err = save(store, "anew")
	must.True(t, err == nil && s.Get("/models/fraud/checkpoints/checkpoint-000000000004.blankout") != nil, "after setting aside: %v, %q", err, s.Names("/models/fraud/checkpoints/"))
}

// TestCheckpointsOfTwo checks two programs with one prefix. The program that starts last owns the prefix. The other
// program gets an error at its next save, and must not change the store.
func TestCheckpointsOfTwo(t *testing.T) {
	s := newStore(t)
	first := openCheckpoints(t, s, 2)
	must.Do(t, save(first, "first"))
	second := openCheckpoints(t, s, 2)
	must.True(t, strings.HasPrefix(second.Ousted, "process "), "ousted %q", second.Ousted)
	must.Do(t, save(second, "second"))
	before := s.Names("/models/fraud/checkpoints/")
	for range 2 {
		err := save(first, "late")
		must.True(t, errors.Is(err, checkpoint.ErrLost) && strings.Contains(err.Error(), prefix), "the first one saves: %v", err)
	}
	must.Do(t, first.Close())
	must.EqualSlices(t, s.Names("/models/fraud/checkpoints/"), before, "there")
	text, _ := loaded(t, second)
	must.True(t, text == "second", "loaded %q", text)
	// A checkpoint is never replaced, even if its writer is very late.
	objects := must.Get(s3.OpenCheckpoints(config(s), prefix))(t)
	must.ErrorIs(t, objects.Write("checkpoint-000000000001.blankout", []byte("late"), ""), checkpoint.ErrTaken, "replaced")
}

// TestCheckpointsOfFailingStore checks a store that fails. If the store is unreachable, only the save fails. If a
// response is lost, the save must succeed.
func TestCheckpointsOfFailingStore(t *testing.T) {
	s := newStore(t)
	store := openCheckpoints(t, s, 2)
	s.Break(true)
	err := save(store, "lost")
	must.True(t, err != nil && !errors.Is(err, checkpoint.ErrLost), "a store out of reach: %v", err)
	s.Break(false)
	s.Lose(1)
	must.Do(t, save(store, "written"), "an answer lost")
	text, _ := loaded(t, store)
	must.True(t, text == "written", "loaded %q", text)
	objects := must.Get(s3.OpenCheckpoints(config(s), "s3://elsewhere/x"))(t)
	_, err = checkpoint.OpenObjects(objects, 2)
	must.True(t, err != nil && !errors.Is(err, fs.ErrNotExist), "no bucket: %v", err)
}

// TestNewestCheckpoint checks that a reader of a prefix gets the newest checkpoint under the prefix, and a newer one when
// it appears.
func TestNewestCheckpoint(t *testing.T) {
	s := newStore(t)
	store := openCheckpoints(t, s, 2)
	for version := range uint64(2) {
		kind, blocks := must.Get2(trained(version+1, float64(version)).Blocks())(t)
		must.Do(t, must.Err(store.Save(kind, blocks)))
		m, err := served.Open(t.Context(), prefix, options(config(s)))
		must.Require(t, err == nil && m.Version == version+1, "version %d, %v", m.Version, err)
	}
	_, at, err := s3.Read(t.Context(), config(s), prefix)
	must.True(t, err == nil && at == prefix+"/checkpoint-000000000001.blankout", "read %s, %v", at, err)
}
