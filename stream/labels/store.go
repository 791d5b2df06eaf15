package labels

// This file stores the waiting events: a log on disk, read and written by position.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/failpoint"
	"blankout/internal/seglog"

	"github.com/cespare/xxhash/v2"
)

// store keeps the part of the merged log that may still affect results. Each record that changes something appends one
// entry. A tick is the number of a record in the merged log. A checkpoint
// needs the store as it was at a tick: to go back, the store removes the entries of that tick and later ticks.
//
// The store has two logs, which begin a segment at the same tick. Heads have a fixed size, so the number of an entry
// gives the position of its head. Bodies are in a separate file; learning an event needs its body. That file is removed
// once no event of the segment waits.
//
//	NUMBER.heads   the segment's tick and the checksum before it, then a frame for each entry from that number on
//	TICK.bodies    the bytes of the events from that tick on
//
// An index in memory maps the hash of an ID to its newest entry.
//
// Errors name the file. If a file cannot be written, as on a full disk, nothing is lost: unwritten bytes stay in memory
// and the next flush writes them. Any goroutine may call the methods of a store. But only one goroutine may call the
// methods that change which events wait.
type store struct {
	*seglog.Directory
	heads, bodies *seglog.Log
	index         index
	end           uint64 // number of the next entry
	after         uint64 // 1 + tick of the newest entry
	sum           uint64 // checksum over all entries
	// expired is the number of the oldest entry that pass has not removed. next is that entry once oldest has read it.
	expired uint64
	next    *entry
	body    []byte // result of the method event
	head    []byte // the newest head, for its memory
	// A new segment starts after most entries or mostBytes bytes of bodies.
	most, mostBytes int
}

// The limits of a segment. Space is freed only by whole segments.
const (
	segmentEntries = 1 << 17
	segmentBytes   = 32 << 20
)

// id is the hash of an ID. Two IDs have the same hash with probability 2^-128.
type id [16]byte

// entry is the change that a record of the merged log makes, and the resulting state of the record's ID.
type entry struct {
	number uint64 // number of the entry, counted from the beginning
	tick   uint64
	label  bool  // whether the record is a label
	time   int64 // time of arrival by the logs, in milliseconds
	id     id
	standing
}

// standing is the state of an ID.
type standing struct {
	event   uint64 // 1 + the tick of the event's arrival, or 0 before its arrival
	came    int64  // time of the event's arrival
	labeled bool
	class   int
	target  float64 // replaces the class for regression
	weight  float64
	// at and length are the position of the event's body in its segment, and hash is its checksum.
	at, length int
	hash       uint64
}

const (
	headSize  = seglog.FrameBytes + 96
	placeSize = 16 // where the body is stored, at the end of a head
)

// The kinds of heads, as bits. The class follows them.
const (
	isLabel = 1 << iota
	isLabeled
	classShift = iota
)

// code encodes or decodes the payload of a head.
func (e *entry) code(c *coder.Coder) {
	kind := e.class << classShift
	if e.label {
		kind |= isLabel
	}
	if e.labeled {
		kind |= isLabeled
	}
	c.Int(&kind)
	e.label, e.labeled, e.class = kind&isLabel != 0, kind&isLabeled != 0, kind>>classShift
	for half := range 2 {
		part := binary.LittleEndian.Uint64(e.id[8*half:])
		c.Uint(&part)
		binary.LittleEndian.PutUint64(e.id[8*half:], part)
	}
	c.Uint(&e.tick)
	c.Int64(&e.time)
	c.Uint(&e.event)
	c.Int64(&e.came)
	c.Float(&e.target)
	c.Float(&e.weight)
	c.Uint(&e.hash)
	c.Int(&e.at)
	c.Int(&e.length)
}

// decode decodes a head, and reports whether it is intact.
func (e *entry) decode(head []byte) bool {
	payload, end := seglog.Frame(head, 0)
	c := coder.Read(payload)
	e.code(c)
	return end == headSize && c.Done()
}

// add returns the checksum over the entries up to one, from the checksum before it. It covers the content of the log,
// not where it is stored.
func add(sum uint64, head []byte) uint64 {
	return (sum + xxhash.Sum64(head[seglog.FrameBytes:headSize-placeSize])) * 0x9e3779b97f4a7c15
}

// StateError reports that the waiting events on disk do not match the checkpoint.
type StateError struct{ Directory, Why string }

func (e *StateError) Error() string {
	return fmt.Sprintf("the waiting events in %s do not match the checkpoint: %s; restore the directory, or restart with --reset", e.Directory, e.Why)
}

// DamageError reports that a file of waiting events has been changed or truncated.
type DamageError struct{ File, Why string }

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged: %s; restore the directory of waiting events, or restart with --reset", e.File, e.Why)
}

// openStore opens the store in a directory and goes back to a tick. sum is the expected checksum, which detects a store
// of another log. first is the oldest tick within the wait.
func openStore(directory string, tick, sum, first uint64) (_ *store, err error) {
	s := &store{most: segmentEntries, mostBytes: segmentBytes}
	switch s.Directory, err = seglog.Lock(directory, seglog.System{}); {
	case errors.Is(err, seglog.ErrInUse):
		return nil, fmt.Errorf("the waiting events in %w: give each learner its own labels.directory", err)
	case err != nil:
		return nil, fmt.Errorf("events that wait for labels: %w", err)
	}
	if s.bodies, err = s.Open(".bodies", "blankout waits 2"); err == nil {
		s.heads, err = s.Open(".heads", "blankout waits 2")
	}
	switch {
	case err != nil:
	case tick > 0:
		err = s.goBack(tick, sum, first)
	default:
		if err = s.beginAfter(0); err != nil {
			err = fmt.Errorf("emptying what waits for labels: %w", err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// beginAfter removes all segments after the first n, and begins a new one.
func (s *store) beginAfter(n int) error {
	for len(s.heads.Segments) > n {
		if err := s.heads.Remove(s.heads.Last()); err != nil {
			return err
		}
	}
	for len(s.bodies.Segments) > 0 && s.bodies.Last().Number >= s.after {
		if err := s.bodies.Remove(s.bodies.Last()); err != nil {
			return err
		}
	}
	s.begin()
	return nil
}

// begin starts a new segment.
func (s *store) begin() {
	head := binary.LittleEndian.AppendUint64(nil, s.after)
	s.heads.Begin(s.end, binary.LittleEndian.AppendUint64(head, s.sum))
	s.bodies.Begin(s.after, nil)
}

// since returns the first tick whose entries are in a segment or a later one, and the checksum over the entries before
// it. It is valid if the segment has a Head.
func since(g *seglog.Segment) (tick, before uint64) {
	return binary.LittleEndian.Uint64(g.Head), binary.LittleEndian.Uint64(g.Head[8:])
}

// goBack reads the heads before the tick into the index, and removes all later entries.
func (s *store) goBack(tick, sum, first uint64) error {
	if err := failpoint.Here("labels.goback"); err != nil {
		return err
	}
	if len(s.heads.Segments) == 0 {
		return &StateError{s.Path, "there are none"}
	}
	s.expired = math.MaxUint64
	cut, n := "", 0 // reason why the log ends in the last of n segments
	for ; n < len(s.heads.Segments) && cut == ""; n++ {
		g := s.heads.Segments[n]
		if n > 0 && s.end != g.Number {
			cut = fmt.Sprintf("it ends before entry %d", g.Number)
			break
		}
		if g.Head == nil {
			cut = "its head is not what was written"
			continue
		}
		if from, before := since(g); n == 0 {
			if s.end, s.after, s.sum = g.Number, from, before; from > first {
				return &StateError{s.Path, fmt.Sprintf("events from record %d on are needed, but those before %d were removed", first, from)}
			}
		}
		var err error
		if cut, err = s.readHeads(g, tick, first); err != nil {
			return err
		}
	}
	switch {
	case s.sum == sum:
	case cut == "" || cut == later:
		return &StateError{s.Path, "they never got as far, or are others"}
	default:
		return &DamageError{s.heads.Segments[n-1].Name, cut}
	}
	s.expired = min(s.expired, s.end)
	if s.heads.Segments[n-1].Number == s.end { // it has no entries
		n--
	}
	return s.beginAfter(n)
}

// later is the reason for ending at an entry of the tick or later.
const later = "later"

// readHeads reads the heads of a segment up to the tick, and cuts it there. cut is the reason why the log ends there, or
// "" if the log may continue in the next segment.
func (s *store) readHeads(g *seglog.Segment, tick, first uint64) (cut string, err error) {
	data, err := g.Read(g.Start)
	if err != nil {
		return "", fmt.Errorf("%s: %w", g.Name, err)
	}
	from, _ := since(g)
	bodies := s.bodies.Find(from)
	for e := (entry{}); len(data) > 0; data = data[headSize:] {
		switch e.number = s.end; {
		case len(data) < headSize:
			cut = fmt.Sprintf("entry %d is cut short", e.number)
		case !e.decode(data[:headSize]):
			cut = fmt.Sprintf("entry %d is not what was written", e.number)
		case e.tick >= tick:
			cut = later
		}
		if cut != "" {
			break
		}
		s.end, s.after, s.sum = s.end+1, e.tick+1, add(s.sum, data)
		if e.tick >= first {
			s.expired = min(s.expired, e.number)
			switch {
			case e.label:
			case bodies == nil || bodies.Number != from:
				return "", &StateError{s.Path, fmt.Sprintf("events from record %d on are needed, but those up to %d were removed", first, e.tick)}
			case int64(e.at+e.length) > bodies.Size():
				return "", &DamageError{bodies.Name, "it is cut short"}
			}
		}
		newest, ok, err := s.newest(e.id)
		if err != nil {
			return "", err
		}
		s.index.put(e.id, e.number, newest.number, ok, s.heads.Segments[0].Number)
	}
	g.Cut(g.Start + int64(s.end-g.Number)*headSize)
	return cut, nil
}

// read reads the entry with the given number, which must be in the store.
func (s *store) read(number uint64, e *entry) error {
	var head [headSize]byte
	g := s.heads.Find(number)
	if err := g.ReadAt(head[:], g.Start+int64(number-g.Number)*headSize); err != nil {
		return fmt.Errorf("%s: entry %d: %w", g.Name, number, err)
	}
	if e.number = number; !e.decode(head[:]) {
		return &DamageError{g.Name, fmt.Sprintf("entry %d is not what was written", number)}
	}
	return nil
}

// newest returns the newest entry of an ID. The caller has locked Mu.
func (s *store) newest(of id) (e entry, ok bool, err error) {
	for number := range s.index.find(of, s.heads.Segments[0].Number, s.end) {
		if err := s.read(number, &e); err != nil {
			return e, false, err
		}
		if e.id == of {
			return e, true, nil
		}
	}
	return entry{}, false, nil
}

// find locks Mu and returns the newest entry of an ID.
func (s *store) find(of id) (entry, bool, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.newest(of)
}

// put appends an entry, and a body if it is an event. was is the newest entry of the ID if found is set.
func (s *store) put(e *entry, body []byte, was *entry, found bool) error {
	if err := failpoint.Here("labels.put"); err != nil {
		return err
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.end-s.heads.Last().Number >= uint64(s.most) || s.bodies.Last().Size() >= int64(s.mostBytes) {
		s.begin()
	}
	if !e.label {
		e.at, e.length, e.hash = int(s.bodies.Last().Size()), len(body), xxhash.Sum64(body)
		s.bodies.Last().Append(body)
	}
	c := coder.Coder{Out: slices.Grow(s.head, headSize)[:seglog.FrameBytes]}
	e.code(&c)
	seglog.Seal(c.Out)
	s.heads.Last().Append(c.Out)
	s.head = c.Out[:0]
	e.number = s.end
	s.end, s.after, s.sum = s.end+1, e.tick+1, add(s.sum, c.Out)
	s.index.put(e.id, e.number, was.number, found, s.heads.Segments[0].Number)
	return nil
}

// event returns the body of an event. The slice is valid until the next call.
func (s *store) event(of *standing) ([]byte, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	g := s.bodies.Find(of.event - 1)
	if g == nil {
		return nil, &DamageError{s.Path, fmt.Sprintf("the event of record %d was removed", of.event-1)}
	}
	s.body = slices.Grow(s.body[:0], of.length)[:of.length]
	if err := g.ReadAt(s.body, int64(of.at)); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%s: the event of record %d: %w", g.Name, of.event-1, err)
	} else if err != nil || xxhash.Sum64(s.body) != of.hash {
		return nil, &DamageError{g.Name, fmt.Sprintf("the event of record %d is not what was written", of.event-1)}
	}
	return s.body, nil
}

// oldest returns the oldest entry that pass has not removed, or nil.
func (s *store) oldest() (*entry, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.next == nil && s.expired < s.end {
		e := &entry{}
		if err := s.read(s.expired, e); err != nil {
			return nil, err
		}
		s.next = e
	}
	return s.next, nil
}

// pass removes the oldest entry, so that oldest returns the next entry.
func (s *store) pass() {
	s.expired++
	s.next = nil
}

// flushBytes is the number of unwritten bytes from which flushIfMuch writes.
const flushBytes = 1 << 20

// flushIfMuch writes the unwritten bytes if there are many. If it fails, it may be called again.
func (s *store) flushIfMuch() error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.heads.Last().Unwritten()+s.bodies.Last().Unwritten() < flushBytes {
		return nil
	}
	return unwritten(s.Flush())
}

// mark syncs all entries so far to disk, for a checkpoint. Any goroutine may call it.
func (s *store) mark() error { return unwritten(s.Sync()) }

// unwritten returns the error of writing the store.
func unwritten(err error) error {
	switch _, broken := errors.AsType[*seglog.BrokenError](err); {
	case broken:
		return fmt.Errorf("waiting events may not be on disk: %w; a restart continues from the last checkpoint", err)
	case err != nil:
		return fmt.Errorf("writing the events that wait for labels: %w", err)
	}
	return nil
}

// freeUnneeded removes the bodies of segments whose entries are all before the tick slim. It removes such a segment
// completely if the times of all its entries are less than before, or the ticks of all its entries are less than all.
// Only the goroutine that calls mark may call it.
func (s *store) freeUnneeded(slim uint64, before int64, all uint64) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for len(s.bodies.Segments) > 1 && s.bodies.Segments[1].Number <= slim {
		if err := s.bodies.Remove(s.bodies.Segments[0]); err != nil {
			return err
		}
	}
	for len(s.heads.Segments) > 1 {
		next, last := s.heads.Segments[1], entry{}
		if from, _ := since(next); from > slim {
			return nil
		}
		if err := s.read(next.Number-1, &last); err != nil {
			return err
		}
		if last.time >= before && last.tick >= all {
			return nil
		}
		if err := s.heads.Remove(s.heads.Segments[0]); err != nil {
			return err
		}
	}
	return nil
}
