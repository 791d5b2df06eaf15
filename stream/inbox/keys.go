package inbox

// This file stores the keys of the latest requests.

import (
	"encoding/binary"
)

// keys has the latest requests with keys, at most maxKeys.
type keys struct {
	of    map[key]placed
	order []key // oldest first; order is a ring that starts at begin
	begin int
}

// placed is the position of the events of a request.
type placed struct {
	first  int64
	events int
}

const (
	maxKeys  = 1 << 16
	keyBytes = 28
)

func (k *keys) find(of key) (placed, bool) {
	was, ok := k.of[of]
	return was, ok
}

func (k *keys) add(of key, at placed) {
	if of.none() {
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

// encode appends the magic number and the head of a segment, which has the keys.
func (k *keys) encode(out []byte, first int64) []byte {
	le := binary.LittleEndian
	known := k.order[k.begin:]
	out = le.AppendUint64(out, uint64(first))
	out = le.AppendUint32(out, uint32(len(known)))
	out = le.AppendUint32(out, 0)
	for _, of := range known {
		at := k.of[of]
		out = append(out, of[:]...)
		out = le.AppendUint64(out, uint64(at.first))
		out = le.AppendUint32(out, uint32(at.events))
	}
	le.PutUint32(out[headBytes-4:], headChecksum(out))
	return out
}

func headChecksum(head []byte) uint32 {
	return checksum(head[:headBytes-4]) ^ checksum(head[headBytes:])
}

// readHead decodes the head of a segment. It returns the keys and the start of the frames, or 0 if the head is
// incomplete.
func readHead(data []byte, first int64) (k keys, at int) {
	le := binary.LittleEndian
	if len(data) < headBytes || string(data[:len(magic)]) != string(magic) || int64(le.Uint64(data[len(magic):])) != first {
		return k, 0
	}
	n := int(le.Uint32(data[len(magic)+8:]))
	if at = headBytes + n*keyBytes; n > maxKeys || len(data) < at || le.Uint32(data[headBytes-4:]) != headChecksum(data[:at]) {
		return k, 0
	}
	for p := data[headBytes:at]; len(p) > 0; p = p[keyBytes:] {
		k.add(key(p[:16]), placed{int64(le.Uint64(p[16:])), int(le.Uint32(p[24:]))})
	}
	return k, at
}
