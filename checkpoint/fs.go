package checkpoint

// This file has the interface to the operating system. Tests replace the interface by an implementation that fails and
// loses data.

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"

	"blankout/internal/failpoint"
	"blankout/internal/seglog"
)

// fileSystem contains the functions of the operating system that a Store uses. Tests implement it with a disk that
// fails at a given call and loses data that was not synced.
type fileSystem interface {
	MkdirAll(dir string) error                      // accessible to the owner only
	ReadDir(dir string) (names []string, err error) // files and directories, sorted
	ReadFile(name string) ([]byte, error)
	Open(name string) (in io.ReadCloser, size int64, err error)
	Create(name string, mode fs.FileMode) (file, error) // truncates an existing file
	Rename(from, to string) error                       // replaces an existing file
	Remove(name string) error
	SyncDir(dir string) error // makes creations, renames and removals in dir durable
}

type file interface {
	io.Writer
	Sync() error // makes the content durable
	Close() error
}

// osFS is the operating system's file system. Every call that changes something is a failpoint.
type osFS struct{}

func (osFS) MkdirAll(dir string) error {
	return firstError(failpoint.Here("checkpoint.mkdir"), func() error { return os.MkdirAll(dir, 0o700) })
}

func (osFS) ReadDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

func (osFS) ReadFile(name string) ([]byte, error) { return os.ReadFile(name) }

func (osFS) Open(name string) (io.ReadCloser, int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		return f, info.Size(), nil
	}
	data, err := io.ReadAll(f) // the size of a pipe's content is not known
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), errors.Join(err, f.Close())
}

func (osFS) Create(name string, mode fs.FileMode) (file, error) {
	if err := failpoint.Here("checkpoint.create"); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, mode)
	return osFile{f}, err
}

func (osFS) Rename(from, to string) error {
	return firstError(failpoint.Here("checkpoint.rename"), func() error { return os.Rename(from, to) })
}

func (osFS) Remove(name string) error {
	return firstError(failpoint.Here("checkpoint.remove"), func() error { return os.Remove(name) })
}

func (osFS) SyncDir(dir string) error {
	return firstError(failpoint.Here("checkpoint.syncdir"), func() error { return seglog.Sync(dir) })
}

type osFile struct{ *os.File }

func (f osFile) Write(p []byte) (int, error) {
	if err := failpoint.Here("checkpoint.write"); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f osFile) Sync() error {
	return firstError(failpoint.Here("checkpoint.sync"), f.File.Sync)
}

func firstError(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

// notFound reports whether an error means that a file does not exist.
func notFound(err error) bool { return errors.Is(err, fs.ErrNotExist) }
