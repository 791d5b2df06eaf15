package checkpoint

// This file stores checkpoints as objects in an S3-compatible store. A learner that starts takes the prefix from its
// last owner, because a machine that has failed cannot release the prefix. If the last owner still runs, it notices the
// loss before its next write and writes nothing more.

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

// Objects accesses the objects of a store whose names begin with a prefix. The methods take and return names without
// the prefix.
type Objects interface {
	Where() string                                             // returns s3://BUCKET/PREFIX
	List() (names []string, err error)                         // names up to the next slash, sorted
	Read(name string) (data []byte, tag string, err error)     // the error is fs.ErrNotExist if the object does not exist
	Write(name string, data []byte, before string) (err error) // the error is ErrTaken if the object's tag is not before ("": the object must not exist)
	Remove(name string) error
}

// ErrTaken reports that another writer has replaced an object since this writer read it.
var ErrTaken = errors.New("another has written it")

// OpenObjects is Open for the objects of a store. If another learner owns the prefix and still runs, that learner loses
// the prefix, see Store.Ousted.
func OpenObjects(o Objects, keep int) (*Store, error) {
	s, err := open(&objectFS{objects: o, created: map[string]*objectFile{}}, o.Where(), keep)
	if err != nil {
		return nil, err
	}
	return s, s.own(func() (owner, error) { return s.takeObjects(o) })
}

// takeObjects replaces the lock object. The new lock object identifies this process.
func (s *Store) takeObjects(o Objects) (owner, error) {
	there, tag, err := o.Read(lockName)
	if err != nil && !notFound(err) {
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	if text := strings.TrimSpace(string(there)); text != freed {
		s.Ousted = text
	}
	host, _ := os.Hostname() // only shown to users
	l := objectLock{o, fmt.Appendf(nil, "process %d of %s since %s (%s)\n", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339), rand.Text())}
	if err := o.Write(lockName, l.text, tag); err != nil {
		if errors.Is(err, ErrTaken) {
			return nil, fmt.Errorf("checkpoints %s: another learner started there at the same time: give each learner its own prefix (%w)", s.dir, err)
		}
		return nil, fmt.Errorf("checkpoints: %w", err)
	}
	return l, nil
}

// freed is the content of the lock object after its owner has stopped normally.
const freed = "free"

// objectLock is the lock object that this process wrote, with its content.
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

// objectFS is the fileSystem of Objects. It keeps the content of a new file in memory until Rename, which writes the
// object in one request. Every call that changes something is a failpoint.
type objectFS struct {
	objects Objects
	created map[string]*objectFile // files that are not renamed yet, by name
}

func (o *objectFS) name(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, o.objects.Where()), "/")
}

func (o *objectFS) MkdirAll(string) error            { return nil }
func (o *objectFS) ReadDir(string) ([]string, error) { return o.objects.List() }
func (o *objectFS) SyncDir(string) error             { return nil }
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

// objectFile is a new file whose object has not been written yet.
type objectFile struct{ bytes.Buffer }

func (f *objectFile) Write(p []byte) (int, error) {
	if err := failpoint.Here("checkpoint.write"); err != nil {
		return 0, err
	}
	return f.Buffer.Write(p)
}

func (f *objectFile) Sync() error  { return nil }
func (f *objectFile) Close() error { return nil }
