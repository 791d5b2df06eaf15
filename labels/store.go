package labels

// This file keeps what waits on disk.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"

	"blankout/internal/coder"
	"blankout/internal/failpoint"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// store is the window of the merged log that may still matter, by tick (the number of a
// record in that log) and by id. What it holds of one tick never changes, so that a state
// of any tick can be gone back to while a checkpoint may need it:
//
//	t TICK             what the record of the tick has changed: a deed
//	i LENGTH ID ^TICK  what is known of the id since that tick: a standing; the newest is first
//	c TICK             the sum over all deeds before the tick, written with a checkpoint
//	m                  how much has been let go
//
// Numbers in keys are big-endian, so that keys have the order of ticks. Going back to a
// tick deletes what was written at it and later; letting go deletes what no checkpoint
// that is kept needs.
type store struct {
	db    *pebble.DB
	cache *pebble.Cache
	gone  gone
	// next are the oldest deeds that have not been passed by expire, read ahead.
	next []deed
	// at is the tick behind the last of next.
	at  uint64
	key []byte // scratch
}

// gone says what has been let go: the features of deeds before Slim, all of those before
// All.
type gone struct{ Slim, All uint64 }

// deed is what a record has changed.
type deed struct {
	tick  uint64
	label bool // the record is a label
	// forgotten says that the body was taken away for good.
	forgotten bool
	time      int64 // when it came, by the time of the logs, in milliseconds
	id        []byte
	body      []byte // of an event: what it is learned from; nil if that was let go
}

func (d *deed) encode() []byte {
	c := &coder.Coder{}
	c.Int64(&d.time)
	c.Bytes(&d.id)
	kind := byte(0)
	switch {
	case d.label:
		kind = 1
	case d.forgotten:
		kind = 2
	}
	return append(append(c.Out, kind), d.body...)
}

func decodeDeed(tick uint64, data []byte) (d deed, err error) {
	c := coder.Read(data)
	d.tick = tick
	c.Int64(&d.time)
	c.Bytes(&d.id)
	if c.Failed || len(c.In) == 0 || c.In[0] > 2 {
		return d, fmt.Errorf("what waits of record %d cannot be read", tick)
	}
	d.label, d.forgotten = c.In[0] == 1, c.In[0] == 2
	d.body = append(d.body, c.In[1:]...)
	return d, nil
}

// standing is what is known of an id.
type standing struct {
	event    uint64 // 1 + the tick at which the event came, 0 before that
	came     int64  // when that was
	labelled bool
	class    int
	target   float64 // instead of a class, where labels are numbers
	weight   float64
	told     int64 // when the label came
}

func (s *standing) state(c *coder.Coder) {
	c.Uint(&s.event)
	c.Int64(&s.came)
	labelled := uint64(0)
	if s.labelled {
		labelled = 1
	}
	c.Uint(&labelled)
	s.labelled = labelled == 1
	c.Int(&s.class)
	c.Float(&s.weight)
	c.Int64(&s.told)
	if c.Decode && len(c.In) > 0 || !c.Decode && s.target != 0 {
		c.Float(&s.target) // of classes nothing is written
	}
}

// openStore opens the store in a directory and goes back to the tick, whose sum says that
// it is the same log.
func openStore(directory string, memory int64, tick, sum, first uint64) (_ *store, err error) {
	s := &store{cache: pebble.NewCache(memory / 2)}
	defer s.cache.Unref()
	if err := os.MkdirAll(directory, 0o700); err != nil { // they are events: nobody else reads them
		return nil, fmt.Errorf("events that wait for labels: %w", err)
	}
	options := &pebble.Options{
		Cache: s.cache, Comparer: comparer, MemTableSize: uint64(memory / 8), Logger: silent{}, // of which there may be several
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10) // most ids that are looked for are new
	}
	s.db, err = pebble.Open(directory, options)
	if err != nil {
		return nil, fmt.Errorf("opening the events that wait for labels in %s: %w", directory, err)
	}
	defer func() {
		if err != nil {
			s.db.Close()
		}
	}()
	if tick == 0 {
		err = s.empty()
	} else {
		err = s.goBack(directory, tick, sum, first)
	}
	return s, err
}

// comparer has the order of bytes. What precedes the tick in the key of an id is its prefix,
// which filters know: an id that is not there is found out without a read. Where the prefix
// ends is told by the length in the key and not by the key's end, for pebble also compares
// keys that it has shortened.
var comparer = func() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = "blankout.ticks"
	c.Split = func(key []byte) int {
		const id = 1 + 4 // where it begins
		if len(key) < id || key[0] != 'i' {
			return len(key)
		}
		return int(min(uint64(len(key)), id+uint64(binary.BigEndian.Uint32(key[1:]))))
	}
	return &c
}()

// silent is a pebble.Logger: errors come back from the calls, and nothing else matters
// here.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf("store of labels: "+format, args...))
}

func tickKey(kind byte, tick uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, tick)
}

func (s *store) idKey(id []byte, tick uint64) []byte {
	s.key = appendIDKey(s.key[:0], id, tick)
	return s.key
}

func appendIDKey(key, id []byte, tick uint64) []byte {
	key = binary.BigEndian.AppendUint32(append(key, 'i'), uint32(len(id)))
	return binary.BigEndian.AppendUint64(append(key, id...), ^tick)
}

func (s *store) empty() error {
	if err := s.db.DeleteRange([]byte{0}, []byte{0xff}, pebble.Sync); err != nil {
		return fmt.Errorf("emptying what waits for labels: %w", err)
	}
	return nil
}

// StateError says that what waits on disk is not what a checkpoint needs.
type StateError struct{ Directory, Why string }

func (e *StateError) Error() string {
	return fmt.Sprintf("the events that wait for labels in %s do not go with the checkpoint: %s; restore the directory, or start afresh with --reset", e.Directory, e.Why)
}

func (s *store) goBack(directory string, tick, sum, first uint64) error {
	value, closer, err := s.db.Get(tickKey('c', tick))
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return &StateError{directory, "they never got as far, or are others"}
	case err != nil:
		return err
	}
	was := binary.BigEndian.Uint64(value)
	if err := closer.Close(); err != nil {
		return err
	}
	if was != sum {
		return &StateError{directory, "they are others"}
	}
	if value, closer, err := s.db.Get([]byte{'m'}); err == nil {
		s.gone = gone{binary.BigEndian.Uint64(value), binary.BigEndian.Uint64(value[8:])}
		if err := closer.Close(); err != nil {
			return err
		}
	} else if !errors.Is(err, pebble.ErrNotFound) {
		return err
	}
	if s.gone.Slim > first {
		return &StateError{directory, fmt.Sprintf("events from record %d on are needed, those before %d were let go", first, s.gone.Slim)}
	}
	s.at = first
	if err := failpoint.Here("labels.goback"); err != nil {
		return err
	}
	b := s.db.NewBatch()
	defer b.Close()
	var failed error
	err = s.each(tick, math.MaxUint64, func(d *deed) bool {
		failed = b.Delete(s.idKey(d.id, d.tick), nil)
		return failed == nil
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	for _, kind := range []byte{'t', 'c'} {
		from := tick
		if kind == 'c' {
			from++
		}
		if err := b.DeleteRange(tickKey(kind, from), []byte{kind + 1}, nil); err != nil {
			return err
		}
	}
	return b.Commit(pebble.Sync)
}

// each calls f with the deeds of [from, to) in order until it returns false.
func (s *store) each(from, to uint64, f func(*deed) bool) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: tickKey('t', from), UpperBound: tickKey('t', to)})
	if err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return errors.Join(err, it.Close())
		}
		d, err := decodeDeed(binary.BigEndian.Uint64(it.Key()[1:]), value)
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if !f(&d) {
			break
		}
	}
	return it.Close()
}

// put writes what the record of a tick has changed, and returns its hash.
func (s *store) put(d *deed, st *standing) (uint64, error) {
	value := d.encode()
	if err := s.db.Set(tickKey('t', d.tick), value, pebble.NoSync); err != nil {
		return 0, err
	}
	if err := failpoint.Here("labels.put"); err != nil {
		return 0, err
	}
	c := &coder.Coder{}
	st.state(c)
	if err := s.db.Set(s.idKey(d.id, d.tick), c.Out, pebble.NoSync); err != nil {
		return 0, err
	}
	return xxhash.Sum64(value) ^ xxhash.Sum64(c.Out), nil
}

// find returns what is known of an id, and since which tick.
func (s *store) find(id []byte) (st standing, since uint64, ok bool, err error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return st, 0, false, err
	}
	if ok = it.SeekPrefixGE(s.idKey(id, math.MaxUint64)); ok { // the newest
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			c := coder.Read(value)
			if st.state(c); !c.Done() {
				err = fmt.Errorf("what is known of the id %q cannot be read", id)
			}
			key := it.Key()
			since = ^binary.BigEndian.Uint64(key[len(key)-8:])
		}
	}
	return st, since, ok, errors.Join(err, it.Close())
}

// event returns the deed of an event.
func (s *store) event(tick uint64) (d deed, err error) {
	value, closer, err := s.db.Get(tickKey('t', tick))
	if err != nil {
		return d, fmt.Errorf("the event of record %d: %w", tick, err)
	}
	d, err = decodeDeed(tick, value)
	return d, errors.Join(err, closer.Close())
}

// forget takes the body of an event away and sees to it that the files do not hold it any
// more.
func (s *store) forget(tick uint64) error {
	d, err := s.event(tick)
	if err != nil {
		return err
	}
	d.forgotten, d.body = true, nil
	key := tickKey('t', tick)
	if err := s.db.Set(key, d.encode(), pebble.Sync); err != nil {
		return err
	}
	if err := failpoint.Here("labels.forget"); err != nil {
		return err
	}
	return s.db.Compact(context.Background(), key, tickKey('t', tick+1), false)
}

// readAhead is how many deeds oldest reads at a time.
const readAhead = 256

// oldest returns the oldest deed that has not been passed, nil if there is none.
func (s *store) oldest() (*deed, error) {
	if len(s.next) == 0 {
		s.next = s.next[:0]
		err := s.each(s.at, math.MaxUint64, func(d *deed) bool {
			s.next = append(s.next, *d)
			s.at = d.tick + 1
			return len(s.next) < readAhead
		})
		if err != nil {
			return nil, err
		}
	}
	if len(s.next) == 0 {
		return nil, nil
	}
	return &s.next[0], nil
}

// pass passes the oldest deed.
func (s *store) pass() { s.next = s.next[1:] }

// mark writes everything to disk for a checkpoint of that tick and sum. It may be called
// from any goroutine.
func (s *store) mark(tick, sum uint64) error {
	if err := s.db.Set(tickKey('c', tick), binary.BigEndian.AppendUint64(nil, sum), pebble.Sync); err != nil {
		return fmt.Errorf("writing the events that wait for labels: %w", err)
	}
	return nil
}

// letGo lets go of the features of the events before tick slim, of all that came before
// the time, and of the marks before tick mark. Only one goroutine may do so.
func (s *store) letGo(slim uint64, before int64, mark uint64) error {
	b := s.db.NewBatch()
	defer func() { b.Close() }()
	flush := func(least int) error {
		if b.Len() < least {
			return nil
		}
		b.Set([]byte{'m'}, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, s.gone.Slim), s.gone.All), nil)
		if err := b.Commit(pebble.NoSync); err != nil {
			return err
		}
		b.Close()
		b = s.db.NewBatch()
		return nil
	}
	const size = 1 << 20
	var failed error
	if s.gone.Slim < slim {
		err := s.each(s.gone.Slim, slim, func(d *deed) bool {
			d.body = nil
			failed = errors.Join(b.Set(tickKey('t', d.tick), d.encode(), nil), flush(size))
			s.gone.Slim = d.tick + 1
			return failed == nil
		})
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		s.gone.Slim = slim
	}
	key := []byte(nil)
	err := s.each(s.gone.All, slim, func(d *deed) bool {
		if d.time >= before {
			return false
		}
		key = appendIDKey(key[:0], d.id, d.tick)
		s.gone.All = d.tick + 1
		failed = errors.Join(b.Delete(key, nil), b.Delete(tickKey('t', d.tick), nil), flush(size))
		return failed == nil
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if err := b.DeleteRange(tickKey('c', 0), tickKey('c', mark), nil); err != nil {
		return err
	}
	return flush(0)
}

func (s *store) close() error { return s.db.Close() }
