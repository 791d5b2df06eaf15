package checkpoint

// This file has the directory of checkpoints: how it is locked, saved to and loaded from.

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"blankout/internal/event"

	"github.com/gofrs/flock"
)

// Store is a directory of checkpoints, or a prefix of an object store (OpenObjects), with one owner at a time. Files
// are named by an increasing sequence number, so the newest has the largest name:
//
//	checkpoint-000000000042.blankout
//
// A Store is not safe for concurrent use. The function List is safe for concurrent use. It can also list a directory
// that another process owns.
type Store struct {
	// Ousted is the name of the learner that owned the prefix before this learner and did not release it. It is "" if
	// there was no such learner. The other learner was killed, or it still runs and its next save fails.
	Ousted string

	dir   string
	keep  int
	fs    fileSystem
	owner owner
	// sound reports, by file name, whether a checkpoint is valid. It contains each checkpoint that this Store has
	// written or read completely.
	sound map[string]bool
}

const (
	namePrefix = "checkpoint-"
	nameSuffix = ".blankout"
	lockName   = "lock"
	// asidePrefix begins the name of a directory made by SetAside. The number of the newest checkpoint in the directory
	// follows.
	asidePrefix = "set-aside-"
)

// ErrLost is the error of every call that would change a directory that this Store no longer owns. The Store loses a
// directory if the directory or its lock is moved or removed, because another learner may then use it.
var ErrLost = errors.New("the directory is no longer this learner's")

// InUseError reports that another process holds the lock of a directory.
type InUseError struct {
	Dir     string
	Process string    // ID of the process; "" if unknown
	Since   time.Time // zero if unknown
}

func (e *InUseError) Error() string {
	owner := ""
	if e.Process != "" {
		owner = fmt.Sprintf(" (process %s since %s)", e.Process, e.Since.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("checkpoint directory %s is in use by another learner%s: stop it, or choose another directory", e.Dir, owner)
}

// ErrNone is the error of Load for a directory without checkpoints.
var ErrNone = errors.New("no checkpoint (a learner saves its first one after checkpoint.interval, and when it stops)")

// Refusal is a file that was skipped, with the reason.
type Refusal struct {
	Name string
	Err  error
}

func (r Refusal) String() string { return r.Name + " refused: " + r.Err.Error() }

// Saved describes a checkpoint that has been written.
type Saved struct {
	Name  string
	Bytes int64
	// Prune is the error of removing older files; the next Save tries again. The saved checkpoint is not affected.
	Prune error
}

// Open takes exclusive ownership of the directory, and creates the directory if necessary. It fails if another process
// owns the directory. The Store keeps the newest keep checkpoints, at least one. If keep is at least two, an older
// checkpoint can replace a damaged one.
func Open(dir string, keep int) (*Store, error) {
	s, err := open(osFS{}, dir, keep)
	if err != nil {
		return nil, err
	}
	return s, s.own(s.takeLock)
}

// owner represents the ownership of a directory.
type owner interface {
	// lost returns nil if the directory is still owned, and an ErrLost if it is not. If the check itself fails, it
	// returns the error of the check.
	lost() error
	Close() error
}

// own takes ownership of the directory by calling take, and removes files that a crash has left.
func (s *Store) own(take func() (owner, error)) (err error) {
	if s.owner, err = take(); err != nil {
		return err
	}
	s.fs = owned{s.fs, s}
	_, err = s.nextSequence()
	if err = errors.Join(err, s.removeTemporary()); err != nil {
		s.Close()
	}
	return err
}

func open(fsys fileSystem, dir string, keep int) (*Store, error) {
	if keep < 1 {
		return nil, fmt.Errorf("checkpoint directory %s: cannot keep %d checkpoints: want at least 1", dir, keep)
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("checkpoint directory: %w", err)
	}
	return &Store{dir: dir, keep: keep, fs: fsys, sound: map[string]bool{}}, nil
}

func (s *Store) takeLock() (owner, error) {
	path := filepath.Join(s.dir, lockName)
	// Another user who may write into the directory must not be able to redirect writes to a file elsewhere.
	if there, err := os.Lstat(path); err == nil && !there.Mode().IsRegular() {
		return nil, fmt.Errorf("checkpoint directory %s: %s is not a regular file (%v): remove it, and find out who created it", s.dir, path, there.Mode().Type())
	}
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR|noFollow), flock.SetPermissions(checkpointMode))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("checkpoint directory %s: locking %s: %w", s.dir, path, err)
	}
	if !ok {
		in := &InUseError{Dir: s.dir, Process: readOwner(path)}
		if info, err := os.Stat(path); err == nil {
			in.Since = info.ModTime()
		}
		return nil, in
	}
	writeOwner(path) // only for the message above
	return fileLock{lock, s.dir}, nil
}

// fileLock is a locked file in a directory. The directory is lost if the path of the lock no longer leads to this file.
type fileLock struct {
	*flock.Flock
	dir string
}

func (l fileLock) lost() error {
	path := filepath.Join(l.dir, lockName)
	held, err := l.Stat()
	if err != nil {
		return fmt.Errorf("%s: looking at the lock: %w", l.dir, err)
	}
	there, err := os.Lstat(path)
	switch {
	case err == nil && os.SameFile(held, there):
		return nil
	case err != nil && !notFound(err):
		return fmt.Errorf("%s: looking at the lock: %w", l.dir, err)
	}
	what := "is gone"
	if err == nil {
		what = "is another file"
		if pid := readOwner(path); pid != "" {
			what += ", of process " + pid
		}
	}
	return fmt.Errorf("%s: %w: %s %s; the directory or its lock was moved, removed or replaced, so writing has stopped. Make sure that only one learner uses the directory and that it has the right checkpoints, then restart",
		l.dir, ErrLost, path, what)
}

// owned is the fileSystem of a Store with a lock. It checks the ownership before it lists or changes anything.
type owned struct {
	fileSystem
	store *Store
}

func (o owned) ReadDir(dir string) ([]string, error) {
	if err := o.store.owner.lost(); err != nil {
		return nil, err
	}
	return o.fileSystem.ReadDir(dir)
}

func (o owned) MkdirAll(dir string) error {
	return firstError(o.store.owner.lost(), func() error { return o.fileSystem.MkdirAll(dir) })
}

func (o owned) Create(name string, mode fs.FileMode) (file, error) {
	if err := o.store.owner.lost(); err != nil {
		return nil, err
	}
	return o.fileSystem.Create(name, mode)
}

func (o owned) Rename(from, to string) error {
	return firstError(o.store.owner.lost(), func() error { return o.fileSystem.Rename(from, to) })
}

func (o owned) Remove(name string) error {
	return firstError(o.store.owner.lost(), func() error { return o.fileSystem.Remove(name) })
}

// writeOwner writes the process ID to the lock file, after its first byte. Windows does not let other processes read
// the first byte, because it is locked.
func writeOwner(path string) {
	f, err := os.OpenFile(path, os.O_RDWR|noFollow, 0)
	if err != nil {
		return
	}
	defer f.Close()
	f.WriteAt(fmt.Appendf(nil, "%-20d\n", os.Getpid()), 1)
}

func readOwner(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.NewSectionReader(f, 1, 21))
	pid := strings.TrimSpace(string(text))
	if _, err := strconv.Atoi(pid); err != nil {
		return ""
	}
	return pid
}

func (s *Store) removeTemporary() error {
	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("checkpoint directory: %w", err)
	}
	for _, name := range names {
		if checkpoint, ok := strings.CutSuffix(name, temporarySuffix); ok {
			if _, ok := sequence(checkpoint); ok {
				if err := s.fs.Remove(join(s.dir, name)); err != nil && !notFound(err) {
					return fmt.Errorf("removing the files of an interrupted save: %w", err)
				}
			}
		}
	}
	return nil
}

// startsName is the name of the file that counts the calls of NextStart.
const startsName = "starts"

// NextStart returns the number of calls of NextStart for this directory, including this call. The number is independent
// of the checkpoints, fits 32 bits, and is durable before NextStart returns.
func (s *Store) NextStart() (uint64, error) {
	path := join(s.dir, startsName)
	n := uint64(0)
	switch data, err := s.fs.ReadFile(path); {
	case err == nil:
		if n, err = strconv.ParseUint(strings.TrimSpace(string(data)), 10, 32); err != nil || n == math.MaxUint32 {
			return 0, fmt.Errorf("%s: %.40q is not a number of starts below %d: write a number larger than any before, or remove the file, which restarts model versions",
				path, data, uint64(math.MaxUint32))
		}
	case !notFound(err):
		return 0, fmt.Errorf("counting starts: %w", err)
	}
	n++
	_, err := replaceFile(s.fs, path, checkpointMode, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, n)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("counting starts: %w", err)
	}
	return n, nil
}

// Close releases the ownership of the directory.
func (s *Store) Close() error {
	if s.owner == nil {
		return nil
	}
	return s.owner.Close()
}

// join returns the path of a file in a directory, or the name of an object with a prefix.
func join(dir, name string) string {
	if strings.Contains(dir, "://") {
		return dir + "/" + name
	}
	return filepath.Join(dir, name)
}

// Dir returns the directory.
func (s *Store) Dir() string { return s.dir }

// List returns the names of the checkpoints in a directory, the newest first.
func List(dir string) ([]string, error) { return list(osFS{}, dir) }

// Sort returns the names of checkpoints among names, the newest first.
func Sort(names []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool { _, ok := sequence(name); return !ok })
	slices.SortFunc(names, func(a, b string) int {
		na, _ := sequence(a)
		nb, _ := sequence(b)
		return cmp.Compare(nb, na)
	})
	return names
}

// Newest returns path. If path is a directory, it returns the path of the newest checkpoint in the directory, by name.
// The error is ErrNone if the directory has no checkpoint.
func Newest(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path, err
	}
	names, err := List(path)
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%s: %w", path, ErrNone)
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(path, names[0]), nil
}

func list(fsys fileSystem, dir string) ([]string, error) {
	all, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint directory: %w", err)
	}
	return Sort(all), nil
}

func sequence(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, namePrefix)
	digits, ok2 := strings.CutSuffix(digits, nameSuffix)
	n, err := strconv.ParseUint(digits, 10, 63)
	return n, ok && ok2 && err == nil && name == fileName(n)
}

func fileName(n uint64) string { return fmt.Sprintf("%s%012d%s", namePrefix, n, nameSuffix) }

// nextSequence returns a sequence number larger than the numbers of all checkpoints, including checkpoints that were
// set aside.
func (s *Store) nextSequence() (uint64, error) {
	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return 0, fmt.Errorf("checkpoint directory: %w", err)
	}
	next := uint64(0)
	for _, name := range names {
		n, ok := sequence(name)
		if digits, aside := strings.CutPrefix(name, asidePrefix); aside {
			var err error
			n, err = strconv.ParseUint(digits, 10, 63)
			ok = err == nil
		}
		if ok && n == math.MaxInt64 {
			return 0, fmt.Errorf("checkpoint directory %s: %s has the largest possible number: move it to another directory", s.dir, name)
		}
		if ok {
			next = max(next, n+1)
		}
	}
	return next, nil
}

// Save writes a checkpoint and removes old checkpoints, so that the newest valid ones remain. The checkpoint survives a
// power failure once Save has returned without error. If Save fails or the process dies, the earlier checkpoints are
// unchanged. If Save returns an ErrLost, every later call fails too, and changes no file at the path.
func (s *Store) Save(kind Kind, blocks iter.Seq[event.Block]) (Saved, error) {
	names, err := list(s.fs, s.dir)
	if err != nil {
		return Saved{}, err
	}
	next, err := s.nextSequence()
	if err != nil {
		return Saved{}, err
	}
	name := fileName(next)
	size, err := replaceFile(s.fs, join(s.dir, name), checkpointMode, func(w io.Writer) error {
		return Write(w, kind, blocks)
	})
	if err != nil {
		return Saved{}, err
	}
	s.sound[name] = true
	return Saved{Name: name, Bytes: size, Prune: s.prune(names)}, nil
}

// prune removes old checkpoints after a save. The slice names is sorted from the newest to the oldest. Only valid
// checkpoints count towards keep. So a damaged checkpoint stays until keep newer checkpoints are valid. A checkpoint is
// read once to determine whether it is valid.
func (s *Store) prune(names []string) (err error) {
	if len(names) < s.keep {
		return nil
	}
	sound := 1 // the checkpoint just saved
	for _, name := range names {
		path := join(s.dir, name)
		if sound == s.keep {
			err = errors.Join(err, s.fs.Remove(path))
			delete(s.sound, name)
			continue
		}
		if _, known := s.sound[name]; !known {
			_, err := readFile(s.fs, path, true)
			if err == nil || errors.Is(err, ErrDamaged) || errors.Is(err, ErrForeign) || errors.Is(err, ErrNewer) {
				s.sound[name] = err == nil
			}
		}
		if s.sound[name] {
			sound++
		}
	}
	return err
}

// Load returns the newest valid checkpoint, and the damaged checkpoints that are newer. The error is ErrNone if the
// directory has no checkpoint. Load fails if it cannot read a file or if a file has a newer format. It does not return
// an older checkpoint then, because the learner would learn the events since that checkpoint twice.
func (s *Store) Load() (*File, []Refusal, error) {
	names, err := list(s.fs, s.dir)
	if err != nil {
		return nil, nil, err
	}
	if len(names) == 0 {
		return nil, nil, fmt.Errorf("%s: %w", s.dir, ErrNone)
	}
	var refused []Refusal
	for _, name := range names {
		f, err := readFile(s.fs, join(s.dir, name), false)
		if err == nil {
			s.sound[name] = true
			return f, refused, nil
		}
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) {
			return nil, refused, fmt.Errorf("loading a checkpoint: %w", err)
		}
		s.sound[name] = false
		refused = append(refused, Refusal{name, err})
	}
	return nil, refused, fmt.Errorf("%s: none of %d checkpoints can be used, the newest: %w", s.dir, len(refused), refused[0].Err)
}

// LoadName returns the checkpoint with a given name. The names of later saves do not depend on LoadName: they follow
// the newest checkpoint.
func (s *Store) LoadName(name string) (*File, error) {
	if _, ok := sequence(name); !ok {
		return nil, fmt.Errorf("checkpoint directory %s: %q is not the name of a checkpoint (they look like %s)", s.dir, name, fileName(42))
	}
	f, err := readFile(s.fs, join(s.dir, name), false)
	if err != nil {
		return nil, fmt.Errorf("loading a checkpoint: %w", err)
	}
	return f, nil
}

// SetAside moves all checkpoints into a new directory next to them and returns the name of that directory. It returns
// "" if there were no checkpoints. The next Load returns ErrNone. Sequence numbers continue, so names stay unique.
func (s *Store) SetAside() (string, error) {
	names, err := list(s.fs, s.dir)
	if err != nil || len(names) == 0 {
		return "", err
	}
	newest, _ := sequence(names[0])
	aside := join(s.dir, fmt.Sprintf("%s%012d", asidePrefix, newest))
	if err := s.fs.MkdirAll(aside); err != nil {
		return "", fmt.Errorf("setting checkpoints aside: %w", err)
	}
	// The oldest checkpoint is moved first, so that after an interruption the newest checkpoint is still in use.
	for _, name := range slices.Backward(names) {
		if err := s.fs.Rename(join(s.dir, name), join(aside, name)); err != nil {
			return "", fmt.Errorf("setting checkpoints aside: %w", err)
		}
	}
	if err := errors.Join(s.fs.SyncDir(aside), s.fs.SyncDir(s.dir)); err != nil {
		return "", fmt.Errorf("setting checkpoints aside: %w", err)
	}
	return aside, nil
}
