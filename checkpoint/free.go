package checkpoint

// This file keeps some of the disk free for others.

import (
	"errors"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
)

// ErrDiskFull is the error of a Save that would have left less than
// Store.MinFree bytes free on the disk. Nothing has been changed then.
var ErrDiskFull = errors.New("the disk is nearly full")

// Free returns how many bytes are free for this program on the directory's disk.
func (s *Store) Free() (int64, error) {
	free, err := s.fs.Free(s.dir)
	if err != nil {
		return 0, fmt.Errorf("checkpoint directory %s: asking for free space: %w", s.dir, err)
	}
	return free, nil
}

// room returns ErrDiskFull if writing so many bytes would leave less than MinFree.
// A disk whose free space cannot be read counts as having room: writing will tell.
func (s *Store) room(bytes int64) error {
	if s.MinFree <= 0 {
		return nil
	}
	free, err := s.Free()
	if err != nil || free-bytes >= s.MinFree {
		return nil
	}
	return fmt.Errorf("%w: %s are free in %s, a checkpoint takes %s and checkpoint.min_free is %s: make room; learning goes on and the next save is tried when it is due",
		ErrDiskFull, humanize.IBytes(uint64(max(free, 0))), s.dir, humanize.IBytes(uint64(bytes)), humanize.IBytes(uint64(s.MinFree)))
}

// guarded is a Writer that looks at the disk again every few megabytes: others
// write to it too, and a checkpoint may be larger than the one before.
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
