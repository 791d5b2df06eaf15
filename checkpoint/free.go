package checkpoint

// This file keeps a part of the disk free for other programs.

import (
	"errors"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
)

// ErrDiskFull is the error of a Save that would leave less than Store.MinFree bytes free. Such a Save changes nothing.
var ErrDiskFull = errors.New("the disk is nearly full")

// Free returns the number of bytes that are free for this program on the directory's disk.
func (s *Store) Free() (int64, error) {
	free, err := s.fs.Free(s.dir)
	if err != nil {
		return 0, fmt.Errorf("checkpoint directory %s: asking for free space: %w", s.dir, err)
	}
	return free, nil
}

// room returns ErrDiskFull if writing this many bytes would leave less than MinFree. It returns nil if the free space
// cannot be determined.
func (s *Store) room(bytes int64) error {
	if s.MinFree <= 0 {
		return nil
	}
	free, err := s.Free()
	if err != nil || free-bytes >= s.MinFree {
		return nil
	}
	return fmt.Errorf("%w: %s are free in %s, a checkpoint needs %s and checkpoint.min_free is %s: free some space; learning continues and saves at the next due time",
		ErrDiskFull, humanize.IBytes(uint64(max(free, 0))), s.dir, humanize.IBytes(uint64(bytes)), humanize.IBytes(uint64(s.MinFree)))
}

// guarded is a Writer that checks the free space every few megabytes. Other programs also write to the disk, and a
// checkpoint may be larger than the previous checkpoint.
type guarded struct {
	w     io.Writer
	store *Store
	since int64
}

func (g *guarded) Write(p []byte) (int, error) {
	if g.since += int64(len(p)); g.since > 4<<20 {
		g.since = 0
		if err := g.store.room(int64(len(p))); err != nil {
			return 0, err
		}
	}
	return g.w.Write(p)
}
