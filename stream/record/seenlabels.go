package record

// This file remembers how labels were written: a stream has few classes, and to compare eight bytes takes a tenth of
// reading, spelling and finding a label.

import "encoding/binary"

// seenLabels holds the classes of the JSON labels that came last, by up to eight bytes of their value: all of it and
// what stands behind it.
type seenLabels struct {
	of   [4]seenLabel
	next int    // of that is replaced next
	met  uint64 // the value of this event's label, if it is to be remembered with its class; else 0
	size uint8
}

type seenLabel struct {
	word, mask uint64
	size       int // of the value in bytes; 0: none
	class      int
}

// find returns the class of the label whose value begins at data[p], and where the value ends; ok is false unless it is
// remembered. Then it notes the value for remember.
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

// value notes how many bytes the value has that find did not know.
func (l *seenLabels) value(size int) {
	if l.size = uint8(size); size < 1 || size > 7 {
		l.met = 0
	}
}

// remember takes up the class of the value that was noted.
func (l *seenLabels) remember(class int) {
	if l.met == 0 {
		return
	}
	mask := ^uint64(0) >> (56 - 8*uint(l.size))
	l.of[l.next] = seenLabel{l.met & mask, mask, int(l.size), class}
	l.next, l.met = (l.next+1)%len(l.of), 0
}
