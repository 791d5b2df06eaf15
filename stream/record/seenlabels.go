package record

// This file caches the spelling of labels. A stream has few classes, and comparing eight bytes takes a tenth of the
// time of reading, normalizing and finding a label.

import "encoding/binary"

// seenLabels has the classes of the most recent JSON labels. The key is up to eight bytes: the whole value and the
// bytes after it.
type seenLabels struct {
	of   [4]seenLabel
	next int    // index of the entry to replace next
	met  uint64 // value of this event's label if it must be stored with its class; otherwise 0
	size uint8
}

type seenLabel struct {
	word, mask uint64
	size       int // length of the value in bytes; 0 for an empty entry
	class      int
}

// find returns the class of the label whose value begins at data[p], and the end of the value. If the value is not in
// the cache, ok is false, and find keeps the value for a later call of remember.
func (l *seenLabels) find(data []byte, p int) (class, next int, ok bool) {
	var tail [8]byte
	from := data[p:]
	if len(from) < len(tail) {
		copy(tail[:], from)
		from = tail[:]
	}
	word := binary.LittleEndian.Uint64(from)
	for i := range l.of {
		if s := &l.of[i]; (word^s.word)&s.mask == 0 && s.size > 0 {
			return s.class, p + s.size, true
		}
	}
	l.met = word
	return 0, p, false
}

// value sets the length of the value that find has kept.
func (l *seenLabels) value(size int) {
	if l.size = uint8(size); size < 1 || size > 7 {
		l.met = 0
	}
}

// remember stores the class of the value that find kept.
func (l *seenLabels) remember(class int) {
	if l.met == 0 {
		return
	}
	mask := ^uint64(0) >> (56 - 8*uint(l.size))
	l.of[l.next] = seenLabel{l.met & mask, mask, int(l.size), class}
	l.next, l.met = (l.next+1)%len(l.of), 0
}
