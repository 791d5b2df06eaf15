// Package seglog has what the logs on disk of the packages inbox and labels share. A log is a directory with one owner.
// Its segments are files whose names begin with a number in 16 hexadecimal digits. Checkpoints use Sync, too.
package seglog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// ErrInUse means that another process has locked the directory.
var ErrInUse = errors.New("in use by another learner")

// Lock creates the directory if necessary, and locks it. Only the owner may read its files, which contain events.
func Lock(directory string) (*flock.Flock, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(directory, "lock")
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: remove it", path)
	}
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("locking %s: %w", path, err)
	case !locked:
		return nil, fmt.Errorf("%s is %w", directory, ErrInUse)
	}
	return lock, nil
}

// Name returns the file of a segment.
func Name(directory string, first uint64, suffix string) string {
	return filepath.Join(directory, fmt.Sprintf("%016x%s", first, suffix))
}

// Segments returns the sorted numbers of the segments with a file of this suffix.
func Segments(directory, suffix string) (firsts []uint64, err error) {
	entries, err := os.ReadDir(directory)
	for _, e := range entries { // sorted by name
		name, is := strings.CutSuffix(e.Name(), suffix)
		if first, err := strconv.ParseUint(name, 16, 64); is && err == nil && len(name) == 16 {
			firsts = append(firsts, first)
		}
	}
	return firsts, err
}

// InPlace returns an error if an open file no longer has its name, for example because its directory was removed.
func InPlace(f interface{ Stat() (fs.FileInfo, error) }, name string) error {
	is, err := f.Stat()
	if err != nil {
		return err
	}
	found, err := os.Lstat(name)
	if err == nil && !os.SameFile(is, found) {
		err = fmt.Errorf("%s: another file is in its place", name)
	}
	return err
}

// Remove removes a file that may have been removed before.
func Remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Sync makes the names of new files durable.
func Sync(directory string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot open a directory for syncing; NTFS journals file creation
	}
	d, err := os.Open(directory)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
