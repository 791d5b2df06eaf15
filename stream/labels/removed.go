package labels

// This file recreates files of the store that were removed while they were in use.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/gofrs/flock"
)

// keep recreates the directory, the lock and the files of segments if they were removed. The open files still have all
// bytes. The caller has locked mu.
func (s *store) keep() error {
	if err := s.keepLock(); err != nil {
		return err
	}
	for _, g := range s.segments {
		for _, f := range []struct {
			file **os.File
			name string
		}{{&g.bodies, s.bodiesName(g.first)}, {&g.heads, s.headsName(g.first)}} {
			if *f.file == nil {
				continue
			}
			again, err := keepFile(f.file, f.name)
			if err != nil {
				return err
			}
			if again {
				g.dirty = true
				s.warnAgain(f.name)
			}
		}
	}
	return nil
}

func (s *store) warnAgain(name string) {
	s.log.Warn("a file of waiting events was removed while in use; it is created again", "file", name)
}

// keepLock locks again if the lock file was removed. The directory may now belong to another process.
func (s *store) keepLock() error {
	path := s.lock.Path()
	info, err := os.Lstat(path)
	switch {
	case err == nil && os.SameFile(info, s.locked):
		return nil
	case err == nil:
		return fmt.Errorf("%s was replaced while it was locked: another learner may use the directory", path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := os.MkdirAll(s.directory, 0o700); err != nil {
		return err
	}
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return fmt.Errorf("locking %s: %w", path, err)
	case !locked:
		return fmt.Errorf("%s was removed, and another learner uses the directory now", path)
	}
	old := s.lock
	s.lock = lock
	if s.locked, err = os.Lstat(path); err != nil {
		return err
	}
	s.warnAgain(path)
	return old.Unlock()
}

// keepFile recreates a file that is no longer at its path, from the open file.
func keepFile(file **os.File, name string) (again bool, err error) {
	old := *file
	info, err := old.Stat()
	if err != nil {
		return false, nil // the next sync reports the error
	}
	now, err := os.Lstat(name)
	switch {
	case err == nil && os.SameFile(info, now):
		return false, nil
	case err == nil:
		return false, &DamageError{name, "another file is in its place"}
	case !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	f, err := os.OpenFile(name+".again", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(f, io.NewSectionReader(old, 0, math.MaxInt64))
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return false, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	*file = f
	return true, old.Close()
}
