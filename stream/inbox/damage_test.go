package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/stream/record"
)

// files returns the files of a log by name, without its lock.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		if e.Name() != "lock" {
			out[e.Name()] = string(must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t))
		}
	}
	return out
}

// TestFlippedBit flips bits of the last segment. A frame that other frames follow was acknowledged: unless it has been
// learned, opening must fail and leave the file as it is. The end of the last frame cannot be told from a write that was
// interrupted: it is kept in another file. An event that has been learned must never be cut, and its number must not be
// used again.
func TestFlippedBit(t *testing.T) {
	whole := t.TempDir()
	l := open(t, whole, Options{Segment: 900})
	add(t, l, "", events(0, 40)) // beyond the size of a segment
	base := l.next
	ends := []int64{headBytes}
	for i := range 4 {
		add(t, l, fmt.Sprint("key", i), events(int(base)+3*i, 3))
		ends = append(ends, l.segments[len(l.segments)-1].size)
	}
	must.Do(t, l.Close())
	must.Require(t, len(l.segments) == 2 && l.segments[1].first == base, "segments %v", l.segments)
	last := filepath.Base(l.name(base))
	before := files(t, whole)
	for bit := 0; bit < len(before[last]); bit += 9 {
		damaged := []byte(before[last])
		damaged[bit] ^= 1 << (bit % 8)
		frame := slices.IndexFunc(ends, func(end int64) bool { return int64(bit) < end }) - 1 // -1 for the head
		for learned := base - 2; learned <= base+12; learned += 2 {
			dir := t.TempDir()
			for name, data := range before {
				must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
			}
			must.Do(t, os.WriteFile(filepath.Join(dir, last), damaged, 0o600))
			l, err := Open(dir, Options{Learned: learned})
			from, to := base+3*int64(frame), base+3*int64(frame)+3 // damaged events
			if frame < 0 {
				from, to = base, base+1
			}
			where := fmt.Sprintf("byte %d of frame %d, learned %d", bit, frame, learned-base)
			switch {
			case learned >= to, frame == 3 && learned <= from:
				must.Require(t, err == nil, "%s: %v", where, err)
				want := max(learned, base+12)
				if frame == 3 && learned <= from {
					want = from
				}
				must.Require(t, files(t, dir)[last] == string(damaged), "%s: the file is changed", where)
				must.Equal(t, l.Next(), want, where)
				must.EqualSlices(t, read(t, l, at(learned), int(want-learned)), count(int(learned), int(want-learned)))
				add(t, l, "", events(int(want), 1))
				must.Do(t, l.Close())
				if want == from {
					must.Require(t, files(t, dir)[fmt.Sprintf("%016x.cut", from)] == string(damaged[ends[3]:]), "%s: the end is not kept", where)
				}
				l = open(t, dir, Options{Learned: learned})
				must.Equal(t, l.Next(), want+1, where)
				must.EqualSlices(t, read(t, l, at(learned), int(want+1-learned)), count(int(learned), int(want+1-learned)))
				must.Do(t, l.Close())
			default:
				damage, ok := errors.AsType[*DamageError](err)
				must.Require(t, ok && filepath.Base(damage.File) == last, "%s: %v", where, err)
				after := files(t, dir)
				must.Require(t, len(after) == len(before) && after[last] == string(damaged), "%s: the files are changed", where)
			}
		}
	}
}

// TestLearnedEventsAreNotCut checks that a log that ends before the position of the checkpoint is refused and left as it
// is, wherever it was cut.
func TestLearnedEventsAreNotCut(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	var ends []int64
	for i := range 4 {
		add(t, l, "", events(3*i, 3))
		ends = append(ends, l.segments[0].size)
	}
	must.Do(t, l.Close())
	name := l.name(0)
	data := must.Get(os.ReadFile(name))(t)
	for _, size := range []int64{ends[1], ends[1] + 5, ends[2] - 1, ends[2]} {
		must.Do(t, os.WriteFile(name, data[:size], 0o600))
		l, err := Open(dir, Options{Learned: 11})
		if err == nil {
			config := record.DefaultConfig()
			_, err = NewSource(l, config, config.Schema(), at(11))
			must.Do(t, l.Close())
		}
		must.Require(t, err != nil && strings.Contains(err.Error(), "event"), "%d bytes: %v", size, err)
		_, ok := errors.AsType[*DamageError](err)
		must.Require(t, ok, "%d bytes: %v", size, err)
		must.Require(t, bytes.Equal(must.Get(os.ReadFile(name))(t), data[:size]), "%d bytes: the file is changed", size)
	}
}

// TestRemovedDirectory checks that no request is acknowledged once the directory or the file of the log is gone.
func TestRemovedDirectory(t *testing.T) {
	for _, remove := range []func(dir, name string) error{
		func(dir, _ string) error { return os.RemoveAll(dir) },
		func(_, name string) error { return os.Remove(name) },
		func(_, name string) error {
			return errors.Join(os.Rename(name, name+".old"), os.WriteFile(name, nil, 0o600))
		},
	} {
		dir := filepath.Join(t.TempDir(), "inbox")
		l := open(t, dir, Options{})
		add(t, l, "", events(0, 1))
		must.Do(t, remove(dir, l.name(0)))
		_, err := l.Append(context.Background(), nil, events(1, 1))
		must.Require(t, err != nil && strings.Contains(err.Error(), "until the learner restarts"), "%v", err)
	}
}

// TestDirectoryIsSynced checks that the directory is synced after a file is created, because a power failure could
// otherwise remove the file.
func TestDirectoryIsSynced(t *testing.T) {
	dir, synced := t.TempDir(), 0
	o := Options{Segment: 300, sync: func(directory string) error {
		must.Equal(t, directory, dir, "synced")
		synced++
		return nil
	}}
	l := open(t, dir, o)
	for i := range 16 {
		add(t, l, "", events(i, 1))
	}
	must.Require(t, len(l.segments) > 2 && synced == len(l.segments), "%d times for %d files", synced, len(l.segments))
	o.sync = func(string) error { return errors.New("input/output error") }
	must.ErrorContains(t, must.Err(Open(t.TempDir(), o)), "input/output error", "a directory that cannot be synced")
}

// TestReaderWakes checks that a reader that waits receives a single request.
func TestReaderWakes(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	config := record.DefaultConfig()
	s := must.Get(NewSource(l, config, config.Schema(), nil))(t)
	defer s.Close()
	for i := range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		done := make(chan error)
		go func() {
			var b event.Batch
			done <- s.Next(ctx, &b)
		}()
		time.Sleep(50 * time.Millisecond) // the reader waits
		add(t, l, "", events(i, 1))
		must.Do(t, <-done)
		cancel()
	}
}

// TestPassedKeepsWhatIsRead checks that a segment is not removed while it is read, and is removed afterwards.
func TestPassedKeepsWhatIsRead(t *testing.T) {
	l := open(t, t.TempDir(), Options{Segment: 200})
	for i := range 12 {
		add(t, l, "", events(i, 1))
	}
	config := record.DefaultConfig()
	s := must.Get(NewSource(l, config, config.Schema(), nil))(t)
	defer s.Close()
	n := len(l.segments)
	must.Require(t, n > 2, "%d segments", n)
	must.Do(t, l.Passed(12))
	must.Equal(t, len(l.segments), n, "segments while the first is read")
	var b event.Batch
	must.Do(t, s.Next(context.Background(), &b))
	must.Equal(t, len(b.Examples), 12, "events")
	must.Do(t, l.Passed(12))
	must.Equal(t, len(l.segments), 1, "segments after reading")
}

// TestFirstBigRequest checks that a request that is larger than the limit is accepted if nothing waits. The heads of
// segments do not wait.
func TestFirstBigRequest(t *testing.T) {
	l := open(t, t.TempDir(), Options{Most: 1000, Segment: 500})
	for i := range 3 {
		add(t, l, fmt.Sprint(i), events(100*i, 100))
		must.ErrorIs(t, must.Err(l.Append(context.Background(), nil, events(0, 1))), ErrBehind, "behind a big request")
		read(t, l, at(int64(100*i)), 100)
	}
	l = open(t, t.TempDir(), Options{Most: 100})
	big := [][]byte{bytes.Repeat([]byte{'x'}, 60)}
	must.Get(l.Append(context.Background(), nil, big))(t, "the first of two that exceed the limit together")
	must.Equal(t, l.unread(), int64(frameBytes+postBytes+64), "unread bytes")
}
