package record

// This file implements the sparse text format of SVMlight and LIBSVM.

import (
	"context"
	"encoding/binary"
	"math/bits"
	"slices"

	"blankout/internal/event"
)

// Svmlight is the Decoder for the sparse text format of SVMlight and LIBSVM. A line is
//
//	label index:value index:value ... # comment
//
// A pair qid:n is ignored. Ascending indices, the usual case, become columns directly. Otherwise the features are
// sorted, and values of one index are summed.
//
// Lines whose features are columns may be decoded in parallel. DecodeFeatures of several Forks decodes the features.
// Then DecodeLabel of the Decoder itself decodes the labels in the order of the records, because classes are numbered
// in that order.
type Svmlight struct{ core }

func newSvmlight(c core) (Decoder, error) { return &Svmlight{c}, nil }

func (d *Svmlight) Decode(_ context.Context, r Record, e *event.Example) error {
	if label, ok := d.DecodeFeatures(&r, e); ok && d.label(&r, e, label) {
		d.accept(d.s.Names)
	}
	return nil
}

// Fork returns a decoder of features that may run concurrently with d. It returns nil if features have names, because
// the Schema must receive names in order.
func (d *Svmlight) Fork() *Svmlight {
	if !d.s.NumericIndices {
		return nil
	}
	return &Svmlight{newCore(d.c, d.s)}
}

// DecodeLabel sets the class of e, whose features a fork has decoded from r. It may refuse e.
func (d *Svmlight) DecodeLabel(r *Record, e *event.Example, label []byte) {
	d.before = d.known // so that a refusal removes no field
	d.label(r, e, label)
}

// DecodeFeatures fills e except for its Label, whose text it returns. ok is false for a refused record.
func (d *Svmlight) DecodeFeatures(r *Record, e *event.Example) (label []byte, ok bool) {
	if !d.begin(r, e, false) {
		return nil, false
	}
	label, p, ok := d.labelText(r, e)
	if !ok {
		return nil, false
	}
	data := r.Value
	// An entry takes at least four bytes, for example 1:1 and a space.
	most := (len(data)-p)/4 + 1
	index, value := slices.Grow(e.Features.Index, most)[:most], slices.Grow(e.Features.Value, most)[:most]
	n, ascending, last := 0, true, int64(-1)
	first, keep := uint64(1), d.s.NumericIndices
	if d.s.ZeroBased {
		first = 0
	}
	for {
		if keep {
			read, end, up := usualEntries(data[p:], index[n:], value[n:], first, d.mask, last)
			if n, p = n+read, p+end; read > 0 {
				last, ascending = int64(index[n-1]), ascending && up
			}
			if rest := data[p:]; len(rest) > 0 && len(rest) < usualBytes { // copy the rest of the line, which may be most of a short line
				tail := spaces
				copy(tail[:], rest)
				read, end, up := usualEntries(tail[:], index[n:], value[n:], first, d.mask, last)
				if n, p = n+read, p+end; read > 0 {
					last, ascending = int64(index[n-1]), ascending && up
				}
			}
		}
		p = skipBlanks(data, p)
		if p >= len(data) || data[p] == '#' {
			break
		}
		start := p
		i := uint64(0)
		for p < len(data) && data[p]-'0' <= 9 && p-start < 19 {
			i = 10*i + uint64(data[p]-'0')
			p++
		}
		if p == start || p >= len(data) || data[p] != ':' {
			if len(data)-start >= 4 && string(data[start:start+4]) == "qid:" {
				p = word(data, start)
				continue
			}
			return nil, d.refuseEntry(r, e, start)
		}
		name := data[start:p]
		var x float64
		x, p = number(data, p+1, false)
		if p < 0 || p < len(data) && !blank(data[p]) && data[p] != '#' {
			return nil, d.refuseEntry(r, e, start)
		}
		if x > maxMagnitude || x < -maxMagnitude {
			return nil, d.refuse(r, e, event.ReasonOutOfRange, "byte %d: %.60q is beyond 1e30", start+1, data[start:p])
		}
		if !keep {
			if d.tooMany() {
				return nil, d.refuse(r, e, event.ReasonTooMany, moreFeatures, d.c.MaxFeatures)
			}
			d.pair(&d.anonymous, event.Sparse, name, x)
			continue
		}
		if i -= first; i > d.mask {
			if i == ^uint64(0) {
				return nil, d.refuse(r, e, event.ReasonOutOfRange, "byte %d: index 0, but indices start at 1 (set zero_based if they start at 0)", start+1)
			}
			return nil, d.refuse(r, e, event.ReasonOutOfRange, "byte %d: index %s needs more than bits %d", start+1, name, d.s.Bits)
		}
		if int64(i) <= last {
			ascending = false
		}
		last = int64(i)
		index[n], value[n] = uint32(i), x
		n++
	}
	e.Features.Index, e.Features.Value = index[:n], value[:n]
	return label, d.arrange(r, e, keep, ascending)
}

// labelText returns the label at the start of a line, and its end.
func (d *Svmlight) labelText(r *Record, e *event.Example) (label []byte, end int, ok bool) {
	data := r.Value
	start := skipBlanks(data, 0)
	p := start
	for p < len(data) && !blank(data[p]) && data[p] != '#' {
		if data[p] == ':' || data[p] == ',' {
			return nil, 0, d.refuse(r, e, event.ReasonLabel, "byte %d: %q where the label should be", start+1, data[start:word(data, start)])
		}
		p++
	}
	label = data[start:p]
	if len(label) == 0 {
		return nil, 0, d.refuse(r, e, event.ReasonSyntax, "byte %d: no label", start+1)
	}
	if notFinite(label) {
		return nil, 0, d.refuse(r, e, event.ReasonNotFinite, "byte %d: label %s", start+1, label)
	}
	return label, p, true
}

// arrange sorts the features of e if they do not ascend or if entries have names. It may refuse e.
func (d *Svmlight) arrange(r *Record, e *event.Example, keep, ascending bool) bool {
	if !ascending {
		for i, column := range e.Features.Index {
			d.addAt(uint32(column), uint64(column), 0, e.Features.Value[i])
		}
	}
	if !ascending || !keep {
		ok := d.finish(r, e)
		e.Field = nil
		return ok
	}
	e.Field = nil
	if len(e.Features.Index) > d.c.MaxFeatures {
		return d.refuse(r, e, event.ReasonTooMany, moreFeatures, d.c.MaxFeatures)
	}
	return d.counts(r, e)
}

// usualBytes is the number of bytes in which the fast path expects a usual entry, between two blanks. The column of a
// usual entry has one to seven digits. Its value may have a minus sign, has one to seven digits, and may have a point and
// up to eight more digits. The fast path has no unpredictable branch per digit.
const usualBytes = 32

// spaces are appended to the end of a line, so that usualEntries may read up to it.
var spaces = [2 * usualBytes]byte([]byte("                                                                "))

// usualEntries reads usual entries from the start of data. first is the index of the first column. n is the number of
// entries, and end is the position after them. ascending reports that their columns ascend and are greater than last.
func usualEntries(data []byte, index []uint32, value []float64, first, mask uint64, last int64) (n, end int, ascending bool) {
	if hasAVX2 && len(data) >= usualBytes && len(index) > 0 {
		_ = value[len(index)-1]
		return usualEntriesAVX2(&data[0], len(data), &index[0], &value[0], len(index), first, mask, last)
	}
	return usualEntriesLoop(data, index, value, first, mask, last)
}

// usualEntriesLoop is usualEntries for all processors.
func usualEntriesLoop(data []byte, index []uint32, value []float64, first, mask uint64, last int64) (n, end int, ascending bool) {
	ascending = true
	for len(data)-end >= usualBytes && n < len(index) {
		entry := (*[usualBytes]byte)(data[end:])
		column, at := someDigits(entry[1:])
		if at++; at == 1 || at > 8 || entry[0] != ' ' || entry[at] != ':' {
			break
		}
		at++
		negative := entry[at] == '-'
		if negative {
			at++
		}
		whole, digits := someDigits(entry[at:])
		at += digits
		if digits == 0 || digits == 8 {
			break
		}
		x := float64(whole)
		if entry[at] == '.' {
			fraction, digits := someDigits(entry[at+1:])
			if at += 1 + digits; digits == 0 {
				break
			}
			power := powersOfTen[digits]
			x = (x*power + float64(fraction)) / power // only the division rounds
		}
		if column -= first; entry[at] != ' ' || column > mask {
			break
		}
		if negative {
			x = -x
		}
		ascending = ascending && int64(column) > last
		last = int64(column)
		index[n], value[n] = uint32(column), x
		n++
		end += at
	}
	return n, end, ascending
}

// someDigits returns the number at the start of text, and its number of digits, at most eight. text has eight bytes or
// more.
func someDigits(text []byte) (x uint64, digits int) {
	w := binary.LittleEndian.Uint64(text)
	if digits = bits.TrailingZeros64(notDigits(w)) / 8; digits == 0 {
		return 0, 0
	}
	return firstDigits(w, digits), digits
}

// refuseEntry refuses the record because the text at p is not index:value. It returns false.
func (d *Svmlight) refuseEntry(r *Record, e *event.Example, p int) bool {
	entry := r.Value[p:word(r.Value, p)]
	for i, c := range entry {
		if c == ':' && notFinite(entry[i+1:]) {
			return d.refuse(r, e, event.ReasonNotFinite, "byte %d: %.60q is not finite", p+1, entry)
		}
	}
	return d.refuse(r, e, event.ReasonSyntax, "byte %d: %.60q where index:value should be", p+1, entry)
}
