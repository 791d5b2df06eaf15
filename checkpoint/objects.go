package checkpoint

// This file keeps checkpoints as objects in an S3-compatible store. A start takes the prefix from its last owner,
// because a machine that is gone cannot release it. If the last owner still runs, it notices before its next write, and
// writes nothing more.

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"blankout/internal/failpoint"
)

// Objects are the objects of a store whose names begin with a prefix, by the rest of their names.
type Objects interface {
	Where() string                                             // s3://BUCKET/PREFIX
	List() (names []string, err error)                         // up to the next slash, sorted
	Read(name string) (data []byte, tag string, err error)     // fs.ErrNotExist if there is none
	Write(name string, data []byte, before string) (err error) // ErrTaken unless its tag is before, "" for no object
	Remove(name string) error
}

// ErrTaken reports that an object is not the one that its writer expects.
var ErrTaken = errors.New("another has written it")

// OpenObjects is Open for the objects of a store. A learner that owns the prefix and still runs loses it, see
// Store.Ousted.
func OpenObjects(o Objects, keep int) (*Store, error) {
	s, err := open(&objectFS{objects: o, created: map[string]*objectFile{}}, o.Where(), keep)
	if err != nil {
		return nil, err
	}
	return s, s.own(func() (owner, error) { return s.takeObjects(o) })
}

// takeObjects replaces the lock object by one that identifies this process.
func (s *Store) takeObjects(o Objects) (owner, error) {
	there, tag, err := o.Read(lockName)
	if err != nil && !notFound(err) {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	if text := strings.TrimSpace(string(there)); text != freed {
		s.Ousted = text
	}
	host, _ := os.Hostname() // for people
	l := objectLock{o, fmt.Appendf(nil, "process %d of %s since %s (%s)\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339), rand.Text())}
	if err := o.Write(lockName, l.text, tag); err != nil {
		if errors.Is(err, ErrTaken) {
			return nil, fmt.Errorf("checkpoints %s: another learner started there at the same time: give each learner its own prefix", s.dir)
		}
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	return l, nil
}

// freed is the content of the lock after an orderly stop.
const freed = "free"

// objectLock is the lock object with this text.
type objectLock struct {
	objects Objects
	text    []byte
}

func (l objectLock) lost() error {
	there, _, err := l.objects.Read(lockName)
	if err != nil && !notFound(err) {
		return fmt.Errorf("looking at the lock: %w", err)
	}
	if bytes.Equal(there, l.text) {
		return nil
	}
	return fmt.Errorf("%s: %w: its lock is now %q; writing has stopped. Make sure that only one learner uses the prefix, then restart",
		l.objects.Where(), ErrLost, bytes.TrimSpace(there))
}

func (l objectLock) Close() error {
	there, tag, err := l.objects.Read(lockName)
	if err == nil && bytes.Equal(there, l.text) {
		err = l.objects.Write(lockName, []byte(freed+"\n"), tag)
	}
	if err != nil && !errors.Is(err, ErrTaken) && !notFound(err) {
		return fmt.Errorf("releasing the checkpoints: %w", err)
	}
	return nil
}

// objectFS is the fileSystem of Objects. A created file is kept in memory until its Rename, which writes the object at
// once. Every call that changes something is a failpoint.
type objectFS struct {
	objects Objects
	created map[string]*objectFile // by name
}

func (o *objectFS) name(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, o.objects.Where()), "/")
}

func (o *objectFS) MkdirAll(string) error            { return nil }
func (o *objectFS) ReadDir(string) ([]string, error) { return o.objects.List() }
func (o *objectFS) SyncDir(string) error             { return nil }
func (o *objectFS) Free(string) (int64, error)       { return 0, errors.ErrUnsupported }
func (o *objectFS) ReadFile(path string) ([]byte, error) {
	data, _, err := o.objects.Read(o.name(path))
	return data, err
}

func (o *objectFS) Open(path string) (io.ReadCloser, int64, error) {
	data, err := o.ReadFile(path)
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), err
}

func (o *objectFS) Create(path string, _ fs.FileMode) (file, error) {
	f := &objectFile{}
	o.created[o.name(path)] = f
	return f, failpoint.Here("checkpoint.create")
}

func (o *objectFS) Rename(from, to string) error {
	if err := failpoint.Here("checkpoint.rename"); err != nil {
		return err
	}
	name, before := o.name(to), ""
	f, created := o.created[o.name(from)]
	if !created {
		f = &objectFile{}
		data, _, err := o.objects.Read(o.name(from))
		if err != nil {
			return err
		}
		f.Write(data)
	}
	if _, is := sequence(name); !is { // a checkpoint is never replaced
		_, tag, err := o.objects.Read(name)
		if err != nil && !notFound(err) {
			return err
		}
		before = tag
	}
	if err := o.objects.Write(name, f.Bytes(), before); err != nil {
		return err
	}
	if !created {
		return o.Remove(from)
	}
	delete(o.created, o.name(from))
	return failpoint.Here("checkpoint.written")
}

func (o *objectFS) Remove(path string) error {
	if err := failpoint.Here("checkpoint.remove"); err != nil {
		return err
	}
	if _, created := o.created[o.name(path)]; created {
		delete(o.created, o.name(path))
		return nil
	}
	return o.objects.Remove(o.name(path))
}

// objectFile is the future content of an object.
type objectFile struct{ bytes.Buffer }

func (f *objectFile) Write(p []byte) (int, error) {
	if err := failpoint.Here("checkpoint.write"); err != nil {
		return 0, err
	}
	return f.Buffer.Write(p)
}

func (f *objectFile) Sync() error  { return nil }
func (f *objectFile) Close() error { return nil }
