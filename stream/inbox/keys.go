package inbox

// This file stores the keys of the latest requests and events.

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// key is a hash of the key of a request or of the ID of an event, or zeros if there is none.
type key [keyBytes]byte

// hashes returns the keys of a frame.
func hashes(texts []string) (out []byte) {
	for _, text := range texts {
		var k key
		if text != "" {
			sum := sha256.Sum256([]byte(text))
			copy(k[:], sum[:])
		}
		out = append(out, k[:]...)
	}
	return out
}

// keys has the latest keys, at most maxKeys.
type keys struct {
	of    map[key]placed
	order []key // oldest first; order is a ring that starts at begin
	begin int
}

// placed is the place of the events of a key.
type placed struct {
	first     int64 // number of the first event in a Log, or its offset in a partition
	partition int32 // 0 in a Log
	events    int
	body      uint64 // checksum of the events
}

const (
	maxKeys    = 1 << 16
	keyBytes   = 16
	entryBytes = keyBytes + 20
)

// ReusedError reports that a key or an ID was used before, with other content. No event of the request was stored.
type ReusedError struct {
	Event int   // index of the event in the request, or -1 for the key of the request
	First int64 // number of the event, or offset of the record, that has the key; -1 for an event of this request
}

func (e *ReusedError) Error() string {
	what := "its ID belongs to another event"
	if e.Event < 0 {
		what = "this key was used before, for other events"
	}
	if e.First >= 0 {
		what += fmt.Sprintf(" (number %d)", e.First)
	}
	return what + ": use a new one"
}

// entry is a key of a frame, with the events that it covers.
type entry struct {
	key           key
	index, events int
	body          uint64
}

// entries returns the keys of a frame. The key of events without a key is zeros.
func (f *frame) entries() (out []entry) {
	if len(f.keys) <= keyBytes {
		e := entry{events: f.events, body: xxhash.Sum64(f.rest)}
		copy(e.key[:], f.keys)
		return []entry{e}
	}
	f.each(func(i int, data []byte) {
		out = append(out, entry{key(f.keys[i*keyBytes:]), i, 1, xxhash.Sum64(data)})
	})
	return out
}

// find returns the place of a key. k may be nil.
func (k *keys) find(of key) (was placed, ok bool) {
	if k == nil {
		return was, false
	}
	was, ok = k.of[of]
	return was, ok
}

// fresh returns the indices of the events of a frame that neither k nor more has. stored describes the other events.
func (k *keys) fresh(f *frame, more *keys) (fresh []int, stored Stored, err error) {
	here := map[key]uint64{}
	for _, e := range f.entries() {
		was, found := k.find(e.key)
		if !found {
			was, found = more.find(e.key)
		}
		if body, twice := here[e.key]; twice && !found {
			was, found = placed{first: -1, body: body}, true
		}
		switch {
		case found && was.body != e.body:
			return nil, Stored{}, &ReusedError{e.index, was.first}
		case found:
			if stored.Repeated += e.events; stored.Repeated == e.events {
				stored.First, stored.partition = was.first, was.partition
			}
			continue
		case e.key != key{}:
			here[e.key] = e.body
		}
		for i := range e.events {
			fresh = append(fresh, e.index+i)
		}
	}
	return fresh, stored, nil
}

// remember adds the keys of a frame, which has been stored.
func (k *keys) remember(f *frame, partition int32) {
	for _, e := range f.entries() {
		k.add(e.key, placed{f.first + int64(e.index), partition, e.events, e.body})
	}
}

func (k *keys) add(of key, at placed) {
	if of == (key{}) {
		return
	}
	if k.of == nil {
		k.of = map[key]placed{}
	}
	if _, again := k.of[of]; !again {
		k.order = append(k.order, of)
	}
	k.of[of] = at
	if len(k.of) > maxKeys {
		delete(k.of, k.order[k.begin])
		if k.begin++; k.begin > maxKeys {
			k.order, k.begin = append([]key(nil), k.order[k.begin:]...), 0
		}
	}
}

// encode returns the keys for the head of a segment.
func (k *keys) encode() (out []byte) {
	le := binary.LittleEndian
	for _, of := range k.order[k.begin:] {
		at := k.of[of]
		out = append(out, of[:]...)
		out = le.AppendUint64(out, uint64(at.first))
		out = le.AppendUint32(out, uint32(at.events))
		out = le.AppendUint64(out, at.body)
	}
	return out
}

// readKeys decodes the keys in the head of a segment.
func readKeys(head []byte) (k keys) {
	le := binary.LittleEndian
	for p := head; len(p) >= entryBytes; p = p[entryBytes:] {
		k.add(key(p[:keyBytes]), placed{first: int64(le.Uint64(p[16:])), events: int(le.Uint32(p[24:])), body: le.Uint64(p[28:])})
	}
	return k
}
