package seglog

import (
	"errors"
	"os"
	"testing"

	"blankout/internal/must"
)

// counted counts the syncs of a file.
type counted struct {
	File
	syncs *int
}

func (c counted) Sync() error {
	*c.syncs++
	return c.File.Sync()
}

// TestLog checks what a reopened segment has, that a cut and new names are synced, and that the head of another log or
// number is refused.
func TestLog(t *testing.T) {
	path, syncs, names := t.TempDir(), 0, 0
	s := System{Open: func(name string, flag int) (File, error) {
		f, err := os.OpenFile(name, flag, 0o600)
		return counted{f, &syncs}, err
	}, Sync: func(string) error { names++; return nil }}
	var d *Directory
	open := func(magic string) *Log {
		d = must.Get(Lock(path, s))(t)
		return must.Get(d.Open(".log", magic))(t)
	}
	g := open("magic 1").Begin(7, []byte("head"))
	g.Append([]byte("bytes"))
	must.Do(t, d.Flush())
	must.True(t, g.OnDisk == 0 && names == 0, "%d bytes on disk before a sync", g.OnDisk)
	must.Do(t, errors.Join(d.Sync(), d.Sync()))
	must.True(t, g.OnDisk == g.Size() && names == 1 && syncs == 1, "%d of %d bytes on disk; %d names, %d files synced", g.OnDisk, g.Size(), names, syncs)
	must.Do(t, d.Close())
	g = open("magic 1").Last()
	must.True(t, g.Number == 7 && string(g.Head) == "head" && string(must.Get(g.Read(g.Start))(t)) == "bytes", "%+v", g)
	g.Cut(g.Start + 2)
	must.Do(t, d.Sync())
	must.True(t, syncs == 2 && must.Get(os.Stat(g.Name))(t).Size() == g.Start+2, "a cut: %d syncs", syncs)
	must.Do(t, d.Close())
	must.True(t, open("magic 2").Last().Head == nil, "the head of another log")
	must.Do(t, errors.Join(os.Rename(g.Name, d.Name(8, ".log")), d.Close()))
	must.True(t, open("magic 1").Last().Head == nil, "the head of another number")
	d.System.Sync = func(string) error { return errors.New("input/output error") }
	d.logs[0].Begin(9, nil)
	_, broken := errors.AsType[*BrokenError](d.Sync())
	must.True(t, broken, "a directory that cannot be synced")
	must.Do(t, d.Close())
}
