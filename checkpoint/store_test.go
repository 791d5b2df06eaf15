package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

// content returns the blocks of the n-th checkpoint of these tests.
func content(n int) []event.Block {
	return []event.Block{{Name: "n", Data: fmt.Append(nil, n)}, {Name: "rows", Data: make([]byte, 100+n)}}
}

func save(s *Store, n int) error {
	_, err := s.Save(Linear, slices.Values(content(n)))
	return err
}

// saveFirst saves checkpoints 0 to n-1.
func saveFirst(t *testing.T, s *Store, n int) {
	t.Helper()
	for i := range n {
		must.Do(t, save(s, i))
	}
}

// loaded loads a checkpoint made by content and returns its number n, or -1 if the Store has no checkpoint.
func loaded(t *testing.T, s *Store) (n int, refused []Refusal) {
	t.Helper()
	f, refused, err := s.Load()
	if errors.Is(err, ErrNone) {
		return -1, nil
	}
	must.Do(t, err)
	must.Get(fmt.Sscan(string(f.Blocks[0].Data), &n))(t)
	return n, refused
}

func openStore(t *testing.T, dir string, keep int) *Store {
	t.Helper()
	s := must.Get(Open(dir, keep))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStoreKeepsTheNewest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := openStore(t, dir, 3)
	n, _ := loaded(t, s)
	must.Require(t, n == -1, "an empty directory gives %d", n)
	for n := range 12 {
		must.Do(t, save(s, n))
		got, _ := loaded(t, s)
		must.Require(t, got == n, "loaded %d after saving %d", got, n)
	}
	want := []string{fileName(11), fileName(10), fileName(9)}
	names, err := List(dir)
	must.True(t, err == nil && slices.Equal(names, want), "%v, %v", names, err)
	f, err := s.LoadName(fileName(10))
	must.True(t, err == nil && string(f.Blocks[0].Data) == "10", "by name: %v, %v", f, err)
	for _, name := range []string{fileName(3), "lock", "../" + fileName(10)} {
		must.Fails(t, must.Err(s.LoadName(name)), name, "loaded")
	}
}

// TestLockFollowsNoLink checks that Open refuses a lock file that is a symbolic link. The target of the link must be
// neither created nor written.
func TestLockFollowsNoLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links take a privilege")
	}
	elsewhere := filepath.Join(t.TempDir(), "other")
	for _, text := range []string{"", "what somebody else has written"} {
		if text != "" {
			must.Do(t, os.WriteFile(elsewhere, []byte(text), 0o600))
		}
		dir := t.TempDir()
		must.Do(t, os.Symlink(elsewhere, filepath.Join(dir, "lock")))
		if s, err := Open(dir, 1); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "lock")+" is not a regular file") {
			t.Errorf("%v", err)
			if s != nil {
				s.Close()
			}
		}
		got, err := os.ReadFile(elsewhere)
		must.True(t, string(got) == text && (text != "" || errors.Is(err, fs.ErrNotExist)), "%q, %v: want %q", got, err, text)
		if f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|noFollow, 0); err == nil {
			f.Close()
			t.Error("a link that is made behind the check would be followed")
		}
	}
	// Replace the lock of a running learner by a symbolic link. The directory must count as lost.
	dir := t.TempDir()
	s := openStore(t, dir, 1)
	must.Do(t, os.Rename(filepath.Join(dir, "lock"), elsewhere))
	must.Do(t, os.Symlink(elsewhere, filepath.Join(dir, "lock")))
	must.ErrorIs(t, save(s, 1), ErrLost, "a link in place of the lock")
}

func TestStoreGoesBackBehindDamage(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 5)
	saveFirst(t, s, 4)
	damage(t, filepath.Join(dir, fileName(3)), func(b []byte) []byte { return b[:len(b)-1] })
	damage(t, filepath.Join(dir, fileName(2)), func(b []byte) []byte { b[70] ^= 1; return b })
	n, refused := loaded(t, s)
	must.True(t, n == 1 && len(refused) == 2 && refused[0].Name == fileName(3) && strings.Contains(refused[1].String(), fileName(2)+" refused: "), "loaded %d, refused %v", n, refused)
	// The next save must get a sequence number above the damaged checkpoints, so that it does not replace them.
	must.Do(t, save(s, 4))
	n, refused = loaded(t, s)
	must.True(t, n == 4 && refused == nil, "loaded %d, refused %v", n, refused)

	// A newer format is not damage: Load must fail, because an older checkpoint would lose events.
	newer := append([]byte(nil), encode(t, Linear)...)
	newer[len(Magic)] = Version + 1
	binary.LittleEndian.PutUint32(newer[len(Magic)+4:], crc32.Checksum(newer[:len(Magic)+4], castagnoli))
	damage(t, filepath.Join(dir, fileName(4)), func([]byte) []byte { return newer })
	_, _, err := s.Load()
	must.True(t, errors.Is(err, ErrNewer) && strings.Contains(err.Error(), fileName(4)), "newer format: %v", err)
}

func TestStoreWithNothingValid(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 2)
	for n := range 2 {
		must.Do(t, save(s, n))
		damage(t, filepath.Join(dir, fileName(uint64(n))), func(b []byte) []byte { return nil })
	}
	_, refused, err := s.Load()
	must.True(t, err != nil && !errors.Is(err, ErrNone) && len(refused) == 2 && strings.Contains(err.Error(), "none of 2 checkpoints"), "%v, %v", refused, err)
}

func TestSetAside(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 2)
	aside, err := s.SetAside()
	must.Require(t, aside == "" && err == nil, "nothing set aside: %q, %v", aside, err)
	for round := range 3 {
		saveFirst(t, s, 3)
		aside := must.Get(s.SetAside())(t)
		n, _ := loaded(t, s)
		must.True(t, n == -1, "round %d: loaded %d from a directory that was set aside", round, n)
		// The sequence continues, so no round overwrites the files of another round.
		newest := uint64(3*round + 2)
		names, err := List(aside)
		must.True(t, err == nil && slices.Equal(names, []string{fileName(newest), fileName(newest - 1)}), "round %d: set aside %v, %v", round, names, err)
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 1)
	_, err := Open(dir, 1)
	must.True(t, err != nil && strings.Contains(err.Error(), dir) && strings.Contains(err.Error(), fmt.Sprintf("(process %d since ", os.Getpid())), "a second owner: %v", err)
	s.Close()
	openStore(t, dir, 1)
}

func TestOpenRemovesLeftovers(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "notes.tmp")
	for _, name := range []string{filepath.Join(dir, fileName(7)+temporarySuffix), other} {
		must.Do(t, os.WriteFile(name, nil, 0o644))
	}
	openStore(t, dir, 1)
	names, err := osFS{}.ReadDir(dir)
	want := []string{"lock", "notes.tmp"}
	must.True(t, err == nil && slices.Equal(names, want), "%v, %v", names, err)
	must.Fails(t, must.Err(Open(dir, 0)), "a store that keeps nothing")
}

func damage(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	must.Do(t, os.WriteFile(path, change(must.Get(os.ReadFile(path))(t)), 0o644))
}

// TestEachCallFails makes each call of the file system fail once. Load must return the checkpoint of the last
// successful save. A failed save must not lose older checkpoints, and the next save must work.
func TestEachCallFails(t *testing.T) {
	const saves = 5
	for at := 1; ; at++ {
		disk := &testDisk{failAt: at}
		s, err := open(disk, "d", 2)
		if err != nil {
			continue // MkdirAll failed, so the directory was not opened
		}
		acknowledged, failures := -1, 0
		for n := range saves {
			switch err := save(s, n); {
			case err == nil:
				acknowledged = n
			case errors.Is(err, errInjected):
				failures++
			default:
				t.Fatalf("call %d: %v", at, err)
			}
			before := disk.failAt
			disk.failAt = 0 // the following calls of the test must not fail
			got, refused := loaded(t, s)
			disk.failAt = before
			must.Require(t, (got == acknowledged || got == n) && refused == nil, "call %d fails: loaded %d, refused %v; %d was acknowledged", at, got, refused, acknowledged)
		}
		must.True(t, failures <= 1, "call %d fails: %d saves failed for it", at, failures)
		if disk.calls < at {
			break // every call has failed once
		}
	}
}

// TestDiskFull fills the disk at each size of a save. The failed save must leave no file, and the previous save must
// stay the newest. The next save must work once the disk has space again.
func TestDiskFull(t *testing.T) {
	refused := 0
	for size := int64(20); ; size++ {
		disk := &testDisk{}
		s := must.Get(open(disk, "d", 2))(t)
		disk.full = size
		newest := -1
		for n := range 5 {
			err := save(s, n)
			if err == nil {
				newest = n
			} else if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("%d bytes: %v", size, err)
			} else {
				refused++
			}
			got, damaged := loaded(t, s)
			must.Require(t, got == newest && damaged == nil, "%d bytes: loaded %d, want %d; damaged %v", size, got, newest, damaged)
			for name := range disk.names {
				must.Require(t, !strings.HasSuffix(name, ".tmp"), "%d bytes: %s is left", size, name)
			}
		}
		disk.full = 0
		must.Do(t, save(s, 99), size, "bytes, then room")
		got, _ := loaded(t, s)
		must.Require(t, got == 99, "%d bytes, then room: loaded %d", size, got)
		if newest == 4 { // all five saves had enough space
			break
		}
	}
	must.True(t, refused >= 100, "only %d saves met the full disk", refused)
}

// TestEachCallCrashes simulates a power failure at each call. Data that was not synced is lost completely or in part.
// Checkpoints that Save has acknowledged must survive.
func TestEachCallCrashes(t *testing.T) {
	must.Equal(t, crashes(t, func(*testDisk) {}), "")
}

// TestCrashTestNotices checks that the method of TestEachCallCrashes detects a save without a sync.
func TestCrashTestNotices(t *testing.T) {
	for name, lie := range map[string]func(*testDisk){
		"file":      func(d *testDisk) { d.ignoreSync = true },
		"directory": func(d *testDisk) { d.ignoreSyncDir = true },
	} {
		must.True(t, crashes(t, lie) != "", "%s not synced, and no loss was seen", name)
	}
}

// crashes returns a description of how a checkpoint was lost, or "" if none was lost.
func crashes(t *testing.T, prepare func(*testDisk)) string {
	const saves, seeds = 5, 20
	for at := 1; ; at++ {
		for seed := range uint64(seeds) {
			disk := &testDisk{crashAt: at}
			prepare(disk)
			acknowledged, attempted := -1, -1
			if s, err := open(disk, "d", 2); err == nil {
				for n := range saves {
					attempted = n
					if err := save(s, n); err != nil {
						break
					}
					acknowledged = n
				}
			}
			if disk.calls < at {
				return ""
			}
			disk.restart(rand.New(rand.NewPCG(seed, uint64(at))))
			s := must.Get(open(disk, "d", 2))(t)
			must.Do(t, s.removeTemporary())
			got := -1
			f, refused, err := s.Load()
			if err == nil {
				fmt.Sscan(string(f.Blocks[0].Data), &got)
			}
			if err != nil && !errors.Is(err, ErrNone) || len(refused) > 0 || got < acknowledged || got > attempted {
				return fmt.Sprintf("power lost at call %d, seed %d: loaded %d, refused %v, %v; %d was acknowledged", at, seed, got, refused, err, acknowledged)
			}
			if err := save(s, 99); err != nil {
				return fmt.Sprintf("power lost at call %d, seed %d: the next save: %v", at, seed, err)
			}
			if n, _ := loaded(t, s); n != 99 {
				return fmt.Sprintf("power lost at call %d, seed %d: the next save is not the newest", at, seed)
			}
		}
	}
}

var errInjected = errors.New("injected")

// testDisk is a disk in memory. It fails once, at the call with number failAt. Alternatively it loses power at the call
// with number crashAt and does nothing from then on. The content of a file survives a power failure after Sync, and its
// name after SyncDir.
type testDisk struct {
	calls, failAt, crashAt    int
	ignoreSync, ignoreSyncDir bool
	full                      int64  // bytes that fit: a write beyond them is cut short with ENOSPC
	unreadable                string // name of a file that cannot be read now

	names   map[string]*inode // files as the program sees them
	durable map[string]*inode // files that survive a power failure
	pending []change          // changes of names that are not synced, in order
}

type inode struct{ data, synced []byte }

type change struct {
	dirs []string
	do   func(map[string]*inode)
}

func (d *testDisk) step() error {
	if d.names == nil {
		d.names, d.durable = map[string]*inode{}, map[string]*inode{}
	}
	d.calls++
	if d.calls == d.failAt || d.crashAt > 0 && d.calls >= d.crashAt {
		return errInjected
	}
	return nil
}

func (d *testDisk) change(do func(map[string]*inode), paths ...string) {
	c := change{do: do}
	for _, p := range paths {
		c.dirs = append(c.dirs, filepath.Dir(p))
	}
	do(d.names)
	d.pending = append(d.pending, c)
}

// restart simulates a power failure. A random part of the unsynced name changes survives, and a random part of the
// unsynced contents.
func (d *testDisk) restart(r *rand.Rand) {
	for _, c := range d.pending {
		if r.IntN(2) == 0 {
			c.do(d.durable)
		}
	}
	d.names, d.pending, d.crashAt = map[string]*inode{}, nil, 0
	for name, f := range d.durable {
		if len(f.data) > len(f.synced) {
			f.synced = f.data[:len(f.synced)+r.IntN(len(f.data)-len(f.synced)+1)]
		}
		f.data = f.synced
		d.names[name] = f
	}
}

func (d *testDisk) MkdirAll(string) error { return d.step() }

func (d *testDisk) ReadDir(dir string) ([]string, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	var names []string
	for name := range d.names {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (d *testDisk) ReadFile(name string) ([]byte, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	if name == d.unreadable {
		return nil, errInjected
	}
	if f, ok := d.names[name]; ok {
		return slices.Clone(f.data), nil
	}
	return nil, os.ErrNotExist
}

func (d *testDisk) Open(name string) (io.ReadCloser, int64, error) {
	data, err := d.ReadFile(name)
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), err
}

func (d *testDisk) Create(name string, _ fs.FileMode) (file, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	f := &inode{}
	d.change(func(m map[string]*inode) { m[name] = f }, name)
	return testFile{d, f}, nil
}

func (d *testDisk) Rename(from, to string) error {
	if err := d.step(); err != nil {
		return err
	}
	f := d.names[from]
	d.change(func(m map[string]*inode) { delete(m, from); m[to] = f }, from, to)
	return nil
}

func (d *testDisk) Remove(name string) error {
	if err := d.step(); err != nil {
		return err
	}
	d.change(func(m map[string]*inode) { delete(m, name) }, name)
	return nil
}

func (d *testDisk) SyncDir(dir string) error {
	if err := d.step(); err != nil || d.ignoreSyncDir {
		return err
	}
	d.pending = slices.DeleteFunc(d.pending, func(c change) bool {
		if !slices.Contains(c.dirs, dir) {
			return false
		}
		c.do(d.durable)
		return true
	})
	return nil
}

type testFile struct {
	disk *testDisk
	*inode
}

func (f testFile) Write(p []byte) (int, error) {
	if err := f.disk.step(); err != nil {
		return 0, err
	}
	n := len(p)
	if f.disk.full > 0 {
		room := f.disk.full
		for _, other := range f.disk.names {
			room -= int64(len(other.data))
		}
		n = min(n, int(max(room, 0)))
	}
	f.data = append(f.data, p[:n]...)
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (f testFile) Sync() error {
	if err := f.disk.step(); err != nil || f.disk.ignoreSync {
		return err
	}
	f.synced = f.data
	return nil
}

func (f testFile) Close() error { return f.disk.step() }

// TestNextStart checks that NextStart counts its calls across restarts, even if the checkpoints are changed or removed.
func TestNextStart(t *testing.T) {
	dir := t.TempDir()
	for want := uint64(1); want <= 3; want++ {
		s := must.Get(Open(dir, 1))(t)
		must.Get(s.SetAside())(t)
		got, err := s.NextStart()
		must.True(t, err == nil && got == want, "start %d, %v, want %d", got, err, want)
		must.Do(t, s.Close())
	}
	names, err := List(dir)
	must.True(t, err == nil && len(names) == 0, "%v %v", names, err)
	must.Do(t, os.WriteFile(filepath.Join(dir, startsName), []byte("x"), 0o644))
	s := must.Get(Open(dir, 1))(t)
	defer s.Close()
	n, err := s.NextStart()
	must.True(t, err != nil, "%v", n)
}

// TestUnreadableIsReadAgain checks a checkpoint that temporarily cannot be read. It must not count as damaged. The next
// save must read it again and count it towards keep once it can be read.
func TestUnreadableIsReadAgain(t *testing.T) {
	disk := &testDisk{}
	s := must.Get(open(disk, "d", 3))(t)
	saveFirst(t, s, 3)
	s = must.Get(open(disk, "d", 3))(t) // a Store that has read none of the checkpoints
	disk.unreadable = "d/" + fileName(2)
	for i, want := range [][]string{
		{fileName(3), fileName(2), fileName(1), fileName(0)},
		{fileName(4), fileName(3), fileName(2)},
	} {
		n := 3 + i
		must.Do(t, save(s, n))
		names, err := list(disk, "d")
		must.True(t, err == nil && slices.Equal(names, want), "after save %d: %v, %v, want %v", n, names, err, want)
		disk.unreadable = ""
	}
}

// contents returns the names and bytes of the files in a directory, or nil if the directory does not exist.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must.Do(t, err)
	files := map[string]string{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		data := must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		files[e.Name()] = string(data)
	}
	return files
}

// TestLostDirectory replaces the directory of a Store before or during a save. The Store must write nothing more to the
// new directory.
func TestLostDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows neither moves nor removes files that are open")
	}
	remove := func(t *testing.T, dir string) {
		must.Do(t, os.Remove(filepath.Join(dir, lockName)))
	}
	move := func(t *testing.T, dir string) {
		must.Do(t, os.Rename(dir, dir+".bak"))
	}
	second := func(t *testing.T, dir string) {
		must.Do(t, save(openStore(t, dir, 3), 7))
	}
	for name, lose := range map[string][]func(*testing.T, string){
		"the lock removed":               {remove},
		"the lock removed, then another": {remove, second},
		"moved":                          {move},
		"moved, then another":            {move, second},
		"removed":                        {func(t *testing.T, dir string) { os.RemoveAll(dir) }},
	} {
		for _, midway := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/midway=%v", name, midway), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "cp")
				s := openStore(t, dir, 3)
				saveFirst(t, s, 2)
				var before map[string]string
				act := func() {
					for _, f := range lose {
						f(t, dir)
					}
					before = contents(t, dir)
				}
				var err error
				if midway {
					_, err = s.Save(Linear, func(yield func(event.Block) bool) {
						yield(event.Block{Name: "a", Data: make([]byte, 1<<17)})
						act()
						yield(event.Block{Name: "b", Data: make([]byte, 1<<17)})
					})
				} else {
					act()
					err = save(s, 2)
				}
				must.True(t, errors.Is(err, ErrLost) && strings.Contains(err.Error(), dir), "the save: %v", err)
				for what, f := range map[string]func() error{
					"another save":  func() error { return save(s, 3) },
					"a start":       func() error { _, err := s.NextStart(); return err },
					"setting aside": func() error { _, err := s.SetAside(); return err },
				} {
					must.ErrorIs(t, f(), ErrLost, what)
				}
				after := contents(t, dir)
				for _, files := range []map[string]string{before, after} { // files whose writing began before the loss
					delete(files, fileName(2)+temporarySuffix)
				}
				must.True(t, maps.Equal(after, before), "the directory held %d files and now %d: %q", len(before), len(after), slices.Collect(maps.Keys(after)))
			})
		}
	}
}

// TestDamagedDoNotCount checks that only valid checkpoints count towards keep. Damaged checkpoints must not displace
// the last valid checkpoint.
func TestDamagedDoNotCount(t *testing.T) {
	for _, loads := range []bool{true, false} {
		dir := t.TempDir()
		s := openStore(t, dir, 5)
		saveFirst(t, s, 5)
		s.Close()
		for _, n := range []uint64{1, 3, 4} { // checkpoints 0 and 2 are valid
			damage(t, filepath.Join(dir, fileName(n)), func(b []byte) []byte { b[70] ^= 1; return b })
		}
		s = openStore(t, dir, 3)
		if loads {
			n, refused := loaded(t, s)
			must.Require(t, n == 2 && len(refused) == 2, "loaded %d, refused %v", n, refused)
		}
		for n, want := range [][]uint64{{5, 4, 3, 2, 1, 0}, {6, 5, 4, 3, 2}, {7, 6, 5}, {8, 7, 6}} {
			must.Do(t, save(s, n+5))
			names := must.Get(List(dir))(t)
			wanted := must.Map(want, fileName)
			must.True(t, slices.Equal(names, wanted), "loaded before: %v; after save %d: %v, want %v", loads, n, names, wanted)
		}
	}
}

// TestModes checks that files with events can be read only by their owner. Models must be readable by every user that
// the umask allows.
func TestModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes")
	}
	above := t.TempDir()
	dir := filepath.Join(above, "a", "b")
	s := openStore(t, dir, 3)
	must.Do(t, save(s, 1))
	must.Get(s.NextStart())(t)
	aside := must.Get(s.SetAside())(t)
	must.Do(t, save(s, 2))
	files := 0
	for _, dir := range []string{filepath.Dir(dir), dir, aside} {
		info, err := os.Stat(dir)
		must.True(t, err == nil && info.Mode().Perm() == 0o700, "%s: %v, %v", dir, info.Mode(), err)
		for name := range contents(t, dir) {
			info, err := os.Stat(filepath.Join(dir, name))
			must.True(t, err == nil && info.Mode().Perm() == 0o600, "%s: %v, %v", name, info.Mode(), err)
			files++
		}
	}
	must.True(t, files == 4, "%d files", files)
	model, other := filepath.Join(above, "model.blankout"), filepath.Join(above, "other")
	must.Do(t, errors.Join(WriteFile(model, Linear, slices.Values(content(1))), os.WriteFile(other, nil, 0o644)))
	info := must.Get(os.Stat(model))(t)
	want, err := os.Stat(other)
	must.True(t, err == nil && info.Mode() == want.Mode(), "a model: %v, want %v", info.Mode(), want.Mode())
}

// TestNumbersEnd checks that Save fails once the largest sequence number or version is used.
func TestNumbersEnd(t *testing.T) {
	for _, c := range []struct {
		last string // last name in the directory
		fit  int    // number of saves before the numbers are used up
	}{
		{fileName(math.MaxInt64 - 2), 2},
		{fileName(math.MaxInt64 - 1), 1},
		{asidePrefix + fmt.Sprint(math.MaxInt64-1), 1},
		{fileName(math.MaxInt64), 0},
		{asidePrefix + fmt.Sprint(math.MaxInt64), 0},
	} {
		dir := t.TempDir()
		s := openStore(t, dir, 3)
		must.Do(t, os.WriteFile(filepath.Join(dir, c.last), []byte("x"), 0o600))
		for n := range c.fit {
			must.Do(t, save(s, n), "save", n, "after", c.last)
			got, _ := loaded(t, s)
			must.True(t, got == n, "save %d after %s: loaded %d", n, c.last, got)
		}
		before := contents(t, dir)
		err := save(s, 9)
		must.True(t, err != nil && strings.Contains(err.Error(), fmt.Sprint(int64(math.MaxInt64))) && strings.Contains(err.Error(), "move it"), "one too many after %s: %v", c.last, err)
		after := contents(t, dir)
		must.True(t, maps.Equal(after, before), "one too many after %s: %q", c.last, slices.Collect(maps.Keys(after)))
		s.Close()
		must.ErrorContains(t, must.Err(Open(dir, 3)), "move it", "a start after the last")
	}

	s := openStore(t, t.TempDir(), 3)
	starts := filepath.Join(s.Dir(), startsName)
	for text, want := range map[string]uint64{"4294967293": 4294967294, "4294967294": 4294967295, "4294967295": 0, "9223372036854775807": 0, "18446744073709551616": 0, "-1": 0} {
		must.Do(t, os.WriteFile(starts, []byte(text), 0o600))
		n, err := s.NextStart()
		must.True(t, n == want && (err == nil) == (want > 0), "a start after %s: %d, %v", text, n, err)
		now, _ := os.ReadFile(starts)
		must.True(t, want != 0 || string(now) == text, "a start after %s left %s", text, now)
	}
}

// syncedDirs records which directories are synced.
type syncedDirs struct {
	*testDisk
	dirs []string
}

func (d *syncedDirs) SyncDir(dir string) error {
	d.dirs = append(d.dirs, dir)
	return d.testDisk.SyncDir(dir)
}

// TestInterruptedSetAside interrupts SetAside at each call. Until it succeeds, the newest checkpoint must be in use, and
// a restart after that must find none, also after a power failure.
func TestInterruptedSetAside(t *testing.T) {
	for crash := 1; ; crash++ {
		disk := &testDisk{}
		s := must.Get(open(disk, "d", 4))(t)
		saveFirst(t, s, 4)
		disk.calls, disk.crashAt = 0, crash
		synced := &syncedDirs{testDisk: disk}
		s.fs = synced
		aside, err := s.SetAside()
		disk.crashAt = 0
		want := -1
		if err != nil && !slices.ContainsFunc(slices.Collect(maps.Keys(disk.names)), func(name string) bool {
			return filepath.Base(name) == fileName(3) && strings.Contains(name, asidePrefix)
		}) {
			want = 3
		}
		n, _ := loaded(t, must.Get(open(disk, "d", 4))(t))
		must.True(t, n == want, "interrupted at call %d: checkpoint %d is in use, want %d", crash, n, want)
		if err == nil {
			must.EqualSlices(t, synced.dirs, []string{aside, "d"}) // else a power failure could undo the moves
			break
		}
	}
}
