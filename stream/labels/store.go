package labels

// This file stores the waiting events: a log on disk, read and written by position.

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"sync"

	"blankout/internal/failpoint"
	"blankout/internal/seglog"

	"github.com/cespare/xxhash/v2"
	"github.com/gofrs/flock"
)

// store keeps the part of the merged log that may still affect results. Each record that changes something appends one
// entry. A tick is the number of a record in the merged log. A checkpoint
// needs the store as it was at a tick: to go back, the store removes the entries of that tick and later ticks.
//
// The log is divided into segments of two files. Heads have a fixed size, so the number of an entry gives the position
// of its head. Bodies are in a separate file; learning an event needs its body. That file is removed once no event of
// the segment waits.
//
//	NUMBER.heads   the segment's head, then a head for each entry from that number on
//	NUMBER.bodies  for each event: checksum, length, bytes, zeros up to a multiple of 8
//
// An index in memory maps the hash of an ID to its newest entry.
//
// Errors name the file. If a file cannot be written, as on a full disk, nothing is lost: unwritten bytes stay in memory
// and the next flush writes them. Any goroutine may call the methods of a store. But only one goroutine may call the
// methods that change which events wait.
type store struct {
	directory string
	lock      *flock.Flock
	segments  []*segment // oldest first; there is at least one
	index     index
	sum       uint64 // checksum over all entries
	// expired is the number of the oldest entry that pass has not removed. next is that entry once oldest has read it.
	expired uint64
	next    *entry
	body    []byte // result of the method event
	// A new segment starts after most entries or mostBytes bytes of bodies.
	most, mostBytes int

	mu sync.Mutex // protects segments and their buffers from mark and release
	// broken is the reason why written data may not be on disk, or nil.
	broken error
}

// The limits of a segment. Space is freed only by whole segments.
const (
	segmentEntries = 1 << 17
	segmentBytes   = 32 << 20
)

// segment is a part of the log.
type segment struct {
	first  uint64 // number of its first entry
	count  int
	since  uint64 // first tick whose entries are in this segment or a later one
	before uint64 // checksum over the entries before first
	// last is the tick of the last entry, and late is the time of the last entry.
	last uint64
	late int64
	// bodyEnd is the end of the bodies, including unwritten bytes.
	bodyEnd int64

	heads, bodies       *os.File // nil before the first write; bodies is also nil after removal
	headsOut, bodiesOut []byte   // unwritten bytes at the end of each file
	slim                bool     // the bodies were removed
	dirty               bool     // set if written bytes are not synced
}

func (g *segment) end() uint64 { return g.first + uint64(g.count) }

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
	sum    uint64 // checksum over the entries up to this one
	body   int64  // for an event: position of its body in the file
	length int    // length of the body
}

// standing is the state of an ID.
type standing struct {
	event uint64 // 1 + the tick of the event's arrival, or 0 before its arrival
	// entry is the number of the event's entry, and came is the time of its arrival.
	entry   uint64
	came    int64
	labeled bool
	class   int
	target  float64 // replaces the class for regression
	weight  float64
}

const headSize = 96

// The kinds of heads, as bits.
const (
	isLabel = 1 << iota
	isLabeled
	isNumber // the label is a regression target
)

// encode appends the head of an entry, which begins with its checksum.
func (e *entry) encode(out []byte) []byte {
	kind, value := uint32(0), uint64(int64(e.class))
	if e.label {
		kind |= isLabel
	}
	if e.labeled {
		kind |= isLabeled
	}
	if e.target != 0 {
		kind, value = kind|isNumber, math.Float64bits(e.target)
	}
	at, le := len(out), binary.LittleEndian
	out = le.AppendUint32(out, 0)
	out = le.AppendUint32(out, kind)
	out = le.AppendUint64(out, e.tick)
	out = le.AppendUint64(out, uint64(e.time))
	out = append(out, e.id[:]...)
	out = le.AppendUint64(out, e.event)
	out = le.AppendUint64(out, uint64(e.came))
	out = le.AppendUint64(out, value)
	out = le.AppendUint64(out, math.Float64bits(e.weight))
	out = le.AppendUint64(out, e.entry)
	out = le.AppendUint32(out, uint32(e.length))
	out = le.AppendUint32(out, uint32(e.body/8))
	out = le.AppendUint64(out, e.sum)
	le.PutUint32(out[at:], checksum(out[at+4:]))
	return out
}

// summed returns the part of a head that the checksum covers: the content of the log, not where it is stored.
func summed(head []byte) []byte { return head[4:72] }

// decode decodes a head, and reports whether it is intact.
func (e *entry) decode(head []byte) bool {
	le := binary.LittleEndian
	kind := le.Uint32(head[4:])
	*e = entry{
		number: e.number, tick: le.Uint64(head[8:]), label: kind&isLabel != 0, time: int64(le.Uint64(head[16:])), id: id(head[24:40]),
		standing: standing{event: le.Uint64(head[40:]), came: int64(le.Uint64(head[48:])), labeled: kind&isLabeled != 0,
			weight: math.Float64frombits(le.Uint64(head[64:])), entry: le.Uint64(head[72:])},
		length: int(le.Uint32(head[80:])), body: 8 * int64(le.Uint32(head[84:])), sum: le.Uint64(head[88:]),
	}
	if value := le.Uint64(head[56:]); kind&isNumber != 0 {
		e.target = math.Float64frombits(value)
	} else {
		e.class = int(int64(value))
	}
	return le.Uint32(head) == checksum(head[4:])
}

var magic = []byte("blankout waits 1") // start of a file of heads

// encode returns the first headSize bytes of a file of heads.
func (g *segment) encode() []byte {
	le := binary.LittleEndian
	out := append(make([]byte, 0, headSize), magic...)
	out = le.AppendUint64(out, g.first)
	out = le.AppendUint64(out, g.since)
	out = le.AppendUint64(out, g.before)
	out = append(out, make([]byte, headSize-4-len(out))...)
	return le.AppendUint32(out, checksum(out))
}

func checksum(b []byte) uint32 { return uint32(xxhash.Sum64(b)) }

// bodyHead is the size of a body's checksum and length, with which it begins.
const bodyHead = 8

// bodySize returns the size of a body in its file.
func bodySize(length int) int64 { return int64(bodyHead+length+7) / 8 * 8 }

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
	s := &store{directory: directory, most: segmentEntries, mostBytes: segmentBytes}
	switch s.lock, err = seglog.Lock(directory); {
	case errors.Is(err, seglog.ErrInUse):
		return nil, fmt.Errorf("the waiting events in %w: give each learner its own labels.directory", err)
	case err != nil:
		return nil, fmt.Errorf("events that wait for labels: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if tick == 0 {
		return s, s.empty()
	}
	return s, s.goBack(tick, sum, first)
}

func (s *store) headsName(first uint64) string { return seglog.Name(s.directory, first, ".heads") }

func (s *store) bodiesName(first uint64) string { return seglog.Name(s.directory, first, ".bodies") }

// remove removes the files of a segment.
func (s *store) remove(first uint64) error {
	if err := seglog.Remove(s.bodiesName(first)); err != nil {
		return err
	}
	return seglog.Remove(s.headsName(first))
}

func (s *store) empty() error {
	firsts, err := seglog.Segments(s.directory, ".heads")
	for _, first := range firsts {
		err = errors.Join(err, s.remove(first))
	}
	if err != nil {
		return fmt.Errorf("emptying what waits for labels: %w", err)
	}
	s.segments = []*segment{{}}
	return nil
}

// goBack opens the segments, reads the heads before the tick into the index, and removes all later entries.
func (s *store) goBack(tick, sum, first uint64) error {
	if err := failpoint.Here("labels.goback"); err != nil {
		return err
	}
	firsts, err := seglog.Segments(s.directory, ".heads")
	if err != nil {
		return err
	}
	if len(firsts) == 0 {
		return &StateError{s.directory, "there are none"}
	}
	s.expired = math.MaxUint64
	cut := "" // reason why the log ends in the last segment
	for n, number := range firsts {
		if n > 0 && s.segments[n-1].end() != number {
			cut = fmt.Sprintf("it ends before entry %d", number)
		}
		if cut != "" {
			break
		}
		if cut, err = s.open(number, tick, first); err != nil {
			return err
		}
		if g := s.segments[0]; g.since > first {
			return &StateError{s.directory, fmt.Sprintf("events from record %d on are needed, but those before %d were removed", first, g.since)}
		}
	}
	g := s.segments[len(s.segments)-1]
	switch {
	case s.sum == sum:
	case cut == "" || cut == later:
		return &StateError{s.directory, "they never got as far, or are others"}
	default:
		return &DamageError{s.headsName(g.first), cut}
	}
	s.expired = min(s.expired, g.end())
	return s.cutOff(g, firsts[len(s.segments):])
}

// later is the reason for ending at an entry of the tick or later.
const later = "later"

// open opens a segment and reads its heads up to the tick. cut is the reason why the log ends there, or "" if the log
// may continue in the next segment.
func (s *store) open(number, tick, first uint64) (cut string, err error) {
	name := s.headsName(number)
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	g := &segment{first: number}
	s.segments = append(s.segments, g)
	le := binary.LittleEndian
	switch {
	case len(data) < headSize:
		return "its head is cut short", nil
	case !bytes.Equal(data[:len(magic)], magic), le.Uint32(data[headSize-4:]) != checksum(data[:headSize-4]), le.Uint64(data[len(magic):]) != number:
		return "its head is not what was written", nil
	}
	g.since, g.before = le.Uint64(data[len(magic)+8:]), le.Uint64(data[len(magic)+16:])
	if len(s.segments) == 1 {
		s.sum = g.before
	}
	if g.heads, err = os.OpenFile(name, os.O_RDWR, 0); err != nil {
		return "", err
	}
	e := entry{}
	for data = data[headSize:]; cut == "" && len(data) > 0; {
		if len(data) < headSize {
			cut = fmt.Sprintf("entry %d is cut short", g.end())
			break
		}
		e.number = g.end()
		switch ok := e.decode(data[:headSize]); {
		case !ok:
			cut = fmt.Sprintf("entry %d is not what was written", e.number)
			continue
		case e.tick >= tick:
			cut = later
			continue
		}
		g.take(&e)
		s.sum = e.sum
		if e.tick >= first {
			s.expired = min(s.expired, e.number)
		}
		newest, ok, err := s.newest(e.id)
		if err != nil {
			return "", err
		}
		s.index.put(e.id, e.number, newest.number, ok, s.segments[0].first)
		data = data[headSize:]
	}
	return cut, s.openBodies(g, first)
}

// openBodies opens a segment's file of bodies, which may have been removed.
func (s *store) openBodies(g *segment, first uint64) (err error) {
	g.bodies, err = os.OpenFile(s.bodiesName(g.first), os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if g.slim = g.bodyEnd > 0; g.slim && g.last >= first {
			return &StateError{s.directory, fmt.Sprintf("events from record %d on are needed, but those up to %d were removed", first, g.last)}
		}
		return nil
	case err != nil:
		return err
	}
	if info, err := g.bodies.Stat(); err != nil || info.Size() < g.bodyEnd {
		return cmp.Or(err, error(&DamageError{s.bodiesName(g.first), "it is cut short"}))
	}
	return nil
}

// take counts an entry in the segment.
func (g *segment) take(e *entry) {
	g.count++
	g.last, g.late = e.tick, e.time
	if !e.label {
		g.bodyEnd = e.body + bodySize(e.length)
	}
}

// cutOff removes later segments, and everything after the last entry of g.
func (s *store) cutOff(g *segment, firsts []uint64) error {
	for _, first := range slices.Backward(firsts) { // backward, so that the remaining segments never have a gap
		if err := s.remove(first); err != nil {
			return err
		}
	}
	if g.heads == nil { // the head is incomplete; the previous segment has the checksum
		g.since, g.before = s.segments[len(s.segments)-2].last+1, s.sum
		return s.remove(g.first)
	}
	if g.bodies != nil {
		if err := g.bodies.Truncate(g.bodyEnd); err != nil {
			return err
		}
	}
	g.dirty = true
	return g.heads.Truncate(headSize * int64(1+g.count))
}

// segmentOf returns the segment that contains an entry.
func (s *store) segmentOf(number uint64) *segment {
	i, ok := slices.BinarySearchFunc(s.segments, number, func(g *segment, number uint64) int { return cmp.Compare(g.first, number) })
	if !ok {
		i--
	}
	return s.segments[i]
}

// read reads the entry with the given number, which must be in the store.
func (s *store) read(number uint64, e *entry) error {
	var buffer [headSize]byte
	g := s.segmentOf(number)
	e.number = number
	at := int(number - g.first)
	if written := g.count - len(g.headsOut)/headSize; at >= written {
		e.decode(g.headsOut[headSize*(at-written):][:headSize])
		return nil
	}
	if _, err := g.heads.ReadAt(buffer[:], headSize*int64(1+at)); err != nil {
		return fmt.Errorf("%s: entry %d: %w", s.headsName(g.first), number, err)
	}
	if !e.decode(buffer[:]) {
		return &DamageError{s.headsName(g.first), fmt.Sprintf("entry %d is not what was written", number)}
	}
	return nil
}

// newest returns the newest entry of an ID. The caller has locked mu.
func (s *store) newest(of id) (e entry, ok bool, err error) {
	first := s.segments[0].first
	for number := range s.index.find(of, first, s.segments[len(s.segments)-1].end()) {
		if err := s.read(number, &e); err != nil {
			return e, false, err
		}
		if e.id == of {
			return e, true, nil
		}
	}
	return entry{}, false, nil
}

// find locks mu and returns the newest entry of an ID.
func (s *store) find(of id) (entry, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest(of)
}

// put appends an entry, and a body if it is an event. was is the newest entry of the ID if found is set.
func (s *store) put(e *entry, body []byte, was *entry, found bool) error {
	if err := failpoint.Here("labels.put"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.segments[len(s.segments)-1]
	e.number = g.end()
	hash := uint64(0)
	if !e.label {
		e.entry, e.body, e.length = e.number, g.bodyEnd, len(body)
		hash = xxhash.Sum64(body)
		g.bodiesOut = binary.LittleEndian.AppendUint32(g.bodiesOut, checksum(body))
		g.bodiesOut = binary.LittleEndian.AppendUint32(g.bodiesOut, uint32(len(body)))
		g.bodiesOut = append(g.bodiesOut, body...)
		g.bodiesOut = append(g.bodiesOut, make([]byte, bodySize(len(body))-int64(bodyHead+len(body)))...)
	}
	from := len(g.headsOut)
	g.headsOut = e.encode(g.headsOut)
	e.sum = (s.sum+(hash^xxhash.Sum64(summed(g.headsOut[from:]))))*0x9e3779b97f4a7c15 + e.tick
	g.headsOut = e.encode(g.headsOut[:from])
	s.sum = e.sum
	g.take(e)
	s.index.put(e.id, e.number, was.number, found, s.segments[0].first)
	return nil
}

// event returns the body of an event's entry. The slice is valid until the next call.
func (s *store) event(number uint64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var e entry
	if err := s.read(number, &e); err != nil {
		return nil, err
	}
	g := s.segmentOf(number)
	s.body = slices.Grow(s.body[:0], bodyHead+e.length)[:bodyHead+e.length]
	body := s.body
	if written := g.bodyEnd - int64(len(g.bodiesOut)); e.body >= written {
		copy(body, g.bodiesOut[e.body-written:])
	} else if _, err := g.bodies.ReadAt(body, e.body); err != nil {
		return nil, fmt.Errorf("%s: the event of entry %d: %w", s.bodiesName(g.first), number, err)
	}
	sum, length := binary.LittleEndian.Uint32(body), binary.LittleEndian.Uint32(body[4:])
	if body = body[bodyHead:]; length != uint32(e.length) || sum != checksum(body) {
		return nil, &DamageError{s.bodiesName(g.first), fmt.Sprintf("the event of entry %d is not what was written", number)}
	}
	return body, nil
}

// oldest returns the oldest entry that pass has not removed, or nil.
func (s *store) oldest() (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil && s.expired < s.segments[len(s.segments)-1].end() {
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

// flushIfMuch writes the unwritten bytes if there are many, and starts a new segment if the last segment is full. If it
// fails, it may be called again.
func (s *store) flushIfMuch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.segments[len(s.segments)-1]
	full := g.count >= s.most || g.bodyEnd >= int64(s.mostBytes)
	if !full && len(g.headsOut)+len(g.bodiesOut) < flushBytes {
		return nil
	}
	if err := s.flush(); err != nil || !full {
		return err
	}
	s.segments = append(s.segments, &segment{first: g.end(), since: g.last + 1, before: s.sum})
	return nil
}

// flush writes the unwritten bytes. The caller has locked mu.
func (s *store) flush() error {
	if s.broken != nil {
		return s.broken
	}
	g := s.segments[len(s.segments)-1]
	if len(g.headsOut) == 0 {
		return nil
	}
	if err := s.create(&g.heads, s.headsName(g.first), g.encode()); err != nil {
		return err
	}
	if len(g.bodiesOut) > 0 {
		name := s.bodiesName(g.first)
		if err := s.create(&g.bodies, name, nil); err != nil {
			return err
		}
		if err := write(g.bodies, g.bodiesOut, g.bodyEnd-int64(len(g.bodiesOut)), name); err != nil {
			return err
		}
		g.dirty = true
		g.bodiesOut = g.bodiesOut[:0]
	}
	written := g.count - len(g.headsOut)/headSize
	if err := write(g.heads, g.headsOut, headSize*int64(1+written), s.headsName(g.first)); err != nil {
		return err
	}
	g.dirty = true
	g.headsOut = g.headsOut[:0]
	return nil
}

// create creates a file that begins with head, unless the file exists.
func (s *store) create(file **os.File, name string, head []byte) error {
	if *file != nil {
		return nil
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := write(f, head, 0, name); err != nil {
		return errors.Join(err, f.Close())
	}
	*file = f
	return nil
}

// write writes all of b at a position of a file.
func write(f *os.File, b []byte, at int64, name string) error {
	if err := failpoint.Here("labels.write"); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err := f.WriteAt(b, at)
	return err // the error names the file
}

// BrokenError reports that it is unknown whether written data is on disk. Only reopening the store shows the content of
// the disk.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string {
	return fmt.Sprintf("waiting events may not be on disk: %v; a restart continues from the last checkpoint", e.Err)
}

func (e *BrokenError) Unwrap() error { return e.Err }

// mark syncs all entries so far to disk, for a checkpoint. Any goroutine may call it.
func (s *store) mark() error {
	var files []*os.File
	s.mu.Lock()
	if err := s.flush(); err != nil {
		s.mu.Unlock()
		return fmt.Errorf("writing the events that wait for labels: %w", err)
	}
	errs := []error{s.inPlace()}
	for _, g := range s.segments {
		if g.dirty {
			g.dirty = false
			for _, f := range []*os.File{g.bodies, g.heads} {
				if f != nil {
					files = append(files, f)
				}
			}
		}
	}
	s.mu.Unlock()
	for _, f := range files { // only release closes these files, on the same goroutine
		errs = append(errs, f.Sync())
	}
	if len(files) > 0 {
		errs = append(errs, seglog.Sync(s.directory))
	}
	if err := errors.Join(errs...); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.broken = &BrokenError{fmt.Errorf("%s: %w", s.directory, err)}
		return s.broken
	}
	return nil
}

// inPlace returns an error if the lock or a file of a segment no longer has its name. The caller has locked mu.
func (s *store) inPlace() error {
	held, err := s.lock.Stat()
	now, gone := os.Lstat(s.lock.Path())
	if err = cmp.Or(err, gone); err == nil && !os.SameFile(now, held) {
		err = fmt.Errorf("%s was replaced: another learner may use the directory", s.lock.Path())
	}
	for _, g := range s.segments {
		if err == nil && g.heads != nil {
			err = seglog.InPlace(g.heads, s.headsName(g.first))
		}
		if err == nil && g.bodies != nil {
			err = seglog.InPlace(g.bodies, s.bodiesName(g.first))
		}
	}
	return err
}

// freeUnneeded removes the bodies of segments whose entries are all before the tick slim. It removes such a segment
// completely if the times of all its entries are less than before, or the ticks of all its entries are less than all.
// Only the goroutine that calls mark may call it.
func (s *store) freeUnneeded(slim uint64, before int64, all uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.segments[:len(s.segments)-1] {
		if g.last >= slim {
			break
		}
		if g.bodies != nil {
			err := errors.Join(g.bodies.Close(), seglog.Remove(s.bodiesName(g.first)))
			if g.bodies = nil; err != nil {
				return err
			}
		}
		g.slim = true
	}
	for len(s.segments) > 1 && s.segments[0].slim && (s.segments[0].late < before || s.segments[0].last < all) {
		g := s.segments[0]
		err := errors.Join(g.heads.Close(), seglog.Remove(s.headsName(g.first)))
		if s.segments = s.segments[1:]; err != nil {
			return err
		}
	}
	return nil
}

// close closes the files. Unwritten entries are discarded: they are after the last checkpoint and will be read again.
func (s *store) close() error {
	var errs []error
	for _, g := range s.segments {
		for _, f := range []*os.File{g.heads, g.bodies} {
			if f != nil {
				errs = append(errs, f.Close())
			}
		}
	}
	return errors.Join(append(errs, s.lock.Unlock())...)
}
