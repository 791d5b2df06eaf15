package record

// This file holds the sparse text format of SVMlight and LIBSVM.

import (
	"context"
	"encoding/binary"
	"math/bits"
	"slices"

	"blankout/internal/event"
)

// Svmlight is the Decoder of lines of the sparse text format of SVMlight and LIBSVM,
//
//	label index:value index:value ... # comment
//
// A pair qid:n is passed over. Indices usually ascend, and then go straight to
// their columns; otherwise they are sorted, and values of one index summed.
//
// Lines whose features are columns may be decoded apart from each other, at the same
// time: by DecodeFeatures of as many Forks, and then, in the order of the records, by
// DecodeLabel of the Decoder itself, since classes come to be known in order.
type Svmlight struct{ core }

func newSvmlight(c core) (Decoder, error) { return &Svmlight{c}, nil }

func (d *Svmlight) Decode(_ context.Context, r Record, e *event.Example) error {
	if label, ok := d.DecodeFeatures(&r, e); ok && d.label(&r, e, label) {
		d.accept(d.s.Names)
	}
	return nil
}

// Fork returns a decoder of features that may work at the same time as d. It returns nil where
// features have names: the Schema must get those in order too.
func (d *Svmlight) Fork() *Svmlight {
	if !d.s.NumericIndices {
		return nil
	}
	return &Svmlight{newCore(d.c, d.s)}
}

// DecodeLabel gives e, of which a fork has decoded the features from r, the class of
// its label. It may refuse it.
func (d *Svmlight) DecodeLabel(r *Record, e *event.Example, label []byte) {
	d.before = d.known // a refusal takes back no field
	d.label(r, e, label)
}

// DecodeFeatures fills e except for its Label, whose text it returns. ok is false for a
// record that is refused.
func (d *Svmlight) DecodeFeatures(r *Record, e *event.Example) (label []byte, ok bool) {
	if !d.begin(r, e) {
		return nil, false
	}
	label, p, ok := d.labelText(r, e)
	if !ok {
		return nil, false
	}
	data := r.Value
	// An entry takes four bytes at least: 1:1 and a space.
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
			if rest := data[p:]; len(rest) > 0 && len(rest) < usualBytes { // a good part of a short line
				tail := spaces
				copy(tail[:], rest)
				read, end, up := usualEntries(tail[:], index[n:], value[n:], first, d.mask, last)
				if n, p = n+read, p+end; read > 0 {
					last, ascending = int64(index[n-1]), ascending && up
				}
			}
		}
		for p < len(data) && blank(data[p]) {
			p++
		}
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
			d.refuseEntry(r, e, start)
			return nil, false
		}
		name := data[start:p]
		p++
		var x float64
		q, whole := p, uint64(0)
		for q < len(data) && data[q]-'0' <= 9 && q-p < 15 {
			whole = 10*whole + uint64(data[q]-'0')
			q++
		}
		if q > p && (q >= len(data) || data[q] == ' ') {
			x, p = float64(whole), q
		} else {
			x, p = number(data, p, false)
			if p < 0 || p < len(data) && !blank(data[p]) && data[p] != '#' {
				d.refuseEntry(r, e, start)
				return nil, false
			}
			if x > maxMagnitude || x < -maxMagnitude {
				d.refuse(r, e, event.ReasonOutOfRange, "byte %d: %.60q is beyond 1e30", start+1, data[start:p])
				return nil, false
			}
		}
		if !keep {
			if d.tooMany() {
				d.refuse(r, e, event.ReasonTooMany, moreFeatures, d.c.MaxFeatures)
				return nil, false
			}
			d.pair(&d.anonymous, event.Sparse, name, x)
			continue
		}
		if i -= first; i > d.mask {
			if i == ^uint64(0) {
				d.refuse(r, e, event.ReasonOutOfRange, "byte %d: index 0, but indices count from 1 (zero_based is off)", start+1)
			} else {
				d.refuse(r, e, event.ReasonOutOfRange, "byte %d: index %s needs more than bits %d", start+1, name, d.s.Bits)
			}
			return nil, false
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

// labelText returns the label that a line begins with, and where that ends.
func (d *Svmlight) labelText(r *Record, e *event.Example) (label []byte, end int, ok bool) {
	data, p := r.Value, 0
	for p < len(data) && blank(data[p]) {
		p++
	}
	start := p
	for p < len(data) && !blank(data[p]) && data[p] != '#' {
		if data[p] == ':' || data[p] == ',' {
			d.refuse(r, e, event.ReasonLabel, "byte %d: %q where the label should be", start+1, data[start:word(data, start)])
			return nil, 0, false
		}
		p++
	}
	label = data[start:p]
	if len(label) == 0 {
		d.refuse(r, e, event.ReasonSyntax, "byte %d: no label", start+1)
		return nil, 0, false
	}
	if notFinite(label) {
		d.refuse(r, e, event.ReasonNotFinite, "byte %d: label %s", start+1, label)
		return nil, 0, false
	}
	return label, p, true
}

// arrange sorts the features of e where they do not ascend, or come from the names of
// entries. It may refuse e.
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
		d.refuse(r, e, event.ReasonTooMany, moreFeatures, d.c.MaxFeatures)
		return false
	}
	return d.counts(r, e)
}

// usualBytes is how far the fast way looks for the usual entry, behind a blank and
// before another: a column of one to seven digits and a value of as many, or of one,
// a point and as many. It takes no branch for every digit, whose number nobody can
// foresee.
const usualBytes = 24

// spaces stand behind the end of a line, so that usualEntries may read to it.
var spaces = [2 * usualBytes]byte([]byte("                                                "))

// usualEntries reads usual entries from the start of data on, the first column
// being that of index first. n is their number, end where they end; ascending says
// that their columns do, from last on. It calls nothing, so that all stays in
// registers.
func usualEntries(data []byte, index []uint32, value []float64, first, mask uint64, last int64) (n, end int, ascending bool) {
	ascending = true
	value = value[:len(index)]
	// The marks of notDigits up to the end of an index, and the one there:
	// as indices ascend, the next one has as many digits, and the processor need
	// not count them before it goes on to the entry that follows.
	var upTo, mark uint64
	digits := 0
	for len(data)-end >= usualBytes && n < len(index) {
		entry := (*[usualBytes]byte)(data[end:])
		text := binary.LittleEndian.Uint64(entry[1:])
		if none := notDigits(text); none&upTo != mark || mark == 0 {
			if digits = bits.TrailingZeros64(none) / 8; digits == 0 || digits == 8 {
				break
			}
			mark = 0x80 << (8 * digits & 63)
			upTo = 2*mark - 1
		}
		at := digits&7 + 2
		if entry[0] != ' ' || entry[at-1] != ':' {
			break
		}
		digit := float64(entry[at] - '0')
		x, next := digit, at+1
		if entry[at+1] != ' ' || entry[at]-'0' > 9 {
			from := at
			if entry[at+1] == '.' && entry[at]-'0' <= 9 {
				from = at + 2
			}
			text := binary.LittleEndian.Uint64(entry[from:])
			n := bits.TrailingZeros64(notDigits(text)) / 8
			if next = from + n; n == 0 || n == 8 || entry[next] != ' ' {
				break
			}
			if x = float64(firstDigits(text, n)); from > at {
				power := powersOfTen[n&7]
				x = (digit*power + x) / power // but for the quotient all is exact
			}
		}
		column := firstDigits(text, digits) - first
		if column > mask {
			break
		}
		if int64(column) <= last {
			ascending = false
		}
		last = int64(column)
		index[n], value[n] = uint32(column), x
		n++
		end += next
	}
	return n, end, ascending
}

// refuseEntry refuses the record for what stands at p instead of index:value.
func (d *Svmlight) refuseEntry(r *Record, e *event.Example, p int) {
	entry := r.Value[p:word(r.Value, p)]
	for i, c := range entry {
		if c == ':' && notFinite(entry[i+1:]) {
			d.refuse(r, e, event.ReasonNotFinite, "byte %d: %.60q is not finite", p+1, entry)
			return
		}
	}
	d.refuse(r, e, event.ReasonSyntax, "byte %d: %.60q where index:value should be", p+1, entry)
}

// blank reports whether c separates words of a line.
func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// word returns the end of the word of a line of svmlight that starts at p.
func word(data []byte, p int) int {
	for p < len(data) && !blank(data[p]) && data[p] != '#' {
		p++
	}
	return p
}
