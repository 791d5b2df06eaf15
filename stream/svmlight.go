package stream

import (
	"encoding/binary"
	"slices"

	"blankout"
)

// svmlightDecoder reads lines of the sparse text format of SVMlight and LIBSVM,
//
//	label index:value index:value ... # comment
//
// A pair qid:n is passed over. Indices usually ascend, and then go straight to
// their columns; otherwise they are sorted, and values of one index summed.
type svmlightDecoder struct{ core }

func newSvmlight(c core) (Decoder, error) { return &svmlightDecoder{c}, nil }

func (d *svmlightDecoder) Decode(r Record, e *blankout.Example) {
	if label, ok := d.decode(&r, e); ok && d.label(&r, e, label) {
		d.accept()
	}
}

// fork returns a decoder for lines that are decoded at the same time as those of
// d, nil where their features get names, which come to be known in order. A label
// is named afterwards, in order, by settle of d.
func (d *svmlightDecoder) fork() *svmlightDecoder {
	if !d.s.NumericIndices {
		return nil
	}
	return &svmlightDecoder{newCore(d.c, d.s)}
}

// settle gives e, which a fork has decoded from r, the class of its label.
func (d *svmlightDecoder) settle(r *Record, e *blankout.Example, label []byte) {
	d.before = d.taken // a refusal takes back no field
	d.label(r, e, label)
}

// decode fills e but for its Label, whose text it returns. ok is false for a
// record that is refused.
func (d *svmlightDecoder) decode(r *Record, e *blankout.Example) (label []byte, ok bool) {
	if !d.begin(r, e) {
		return nil, false
	}
	data, p := r.Value, 0
	for p < len(data) && blank(data[p]) {
		p++
	}
	start := p
	for p < len(data) && !blank(data[p]) && data[p] != '#' {
		if data[p] == ':' || data[p] == ',' {
			d.refuse(r, e, blankout.ReasonLabel, "byte %d: %q where the label should be", start+1, data[start:word(data, start)])
			return nil, false
		}
		p++
	}
	label = data[start:p]
	if len(label) == 0 {
		d.refuse(r, e, blankout.ReasonSyntax, "byte %d: no label", start+1)
		return nil, false
	}
	if notFinite(label) {
		d.refuse(r, e, blankout.ReasonNotFinite, "byte %d: label %s", start+1, label)
		return nil, false
	}
	// An entry takes four bytes at least: 1:1 and a space.
	most := (len(data)-p)/4 + 1
	index, value := slices.Grow(e.Features.Index, most)[:most], slices.Grow(e.Features.Value, most)[:most]
	n, ascending, last := 0, true, int64(-1)
	first, keep := uint64(1), d.s.NumericIndices
	if d.s.ZeroBased {
		first = 0
	}
	for {
		for keep && len(data)-p >= shortEntryBytes && data[p] == ' ' {
			entry := (*[shortEntryBytes]byte)(data[p:])
			i, digits := leadingDigits(binary.LittleEndian.Uint64(entry[1:]))
			if digits == 0 || digits == 8 || entry[digits+1] != ':' {
				break
			}
			at := digits + 2
			x, end := float64(entry[at]-'0'), at+1
			if entry[end] != ' ' || entry[at]-'0' > 9 {
				if x, end = shortValue(entry, at); end == 0 {
					break
				}
			}
			if i -= first; i > d.mask {
				break
			}
			if int64(i) <= last {
				ascending = false
			}
			last = int64(i)
			index[n], value[n] = uint32(i), x
			n++
			p += end
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
				d.refuse(r, e, blankout.ReasonOutOfRange, "byte %d: %.60q is beyond 1e30", start+1, data[start:p])
				return nil, false
			}
		}
		if !keep {
			d.pair(&d.anonymous, blankout.Sparse, name, x)
			continue
		}
		if i -= first; i > d.mask {
			if i == ^uint64(0) {
				d.refuse(r, e, blankout.ReasonOutOfRange, "byte %d: index 0, but indices count from 1 (zero_based is off)", start+1)
			} else {
				d.refuse(r, e, blankout.ReasonOutOfRange, "byte %d: index %s needs more than bits %d", start+1, name, d.s.Bits)
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
	if !ascending {
		for i, column := range e.Features.Index {
			d.add(uint64(column), 0, e.Features.Value[i])
		}
	}
	if !ascending || !keep {
		if !d.finish(r, e) {
			return nil, false
		}
		e.Field = nil
	} else if n > d.c.MaxFeatures {
		d.refuse(r, e, blankout.ReasonTooMany, "%d features, max_features is %d", n, d.c.MaxFeatures)
		return nil, false
	}
	return label, true
}

// shortEntryBytes is how far the fast way looks for the usual entry, behind a
// blank and before another: a column of one to seven digits and a value of one, or
// else a shortValue. It takes no branch for every digit, whose number nobody can
// foresee.
const shortEntryBytes = 24

// shortValue reads a whole value of one to seven digits before a blank, or one that
// begins with a digit, a point and as many. end is 0 if there is something else.
func shortValue(entry *[shortEntryBytes]byte, at int) (x float64, end int) {
	if first := entry[at] - '0'; entry[at+1] == '.' && first <= 9 {
		m, n := leadingDigits(binary.LittleEndian.Uint64(entry[at+2:]))
		if end = at + 2 + n; n == 0 || n == 8 || entry[end] != ' ' {
			return 0, 0
		}
		power := powersOfTen[n&7]
		return float64(uint64(first)*uint64(power)+m) / power, end // both exact, one rounding
	}
	m, n := leadingDigits(binary.LittleEndian.Uint64(entry[at:]))
	if end = at + n; n == 0 || n == 8 || entry[end] != ' ' {
		return 0, 0
	}
	return float64(m), end
}

// refuseEntry refuses the record for what stands at p instead of index:value.
func (d *svmlightDecoder) refuseEntry(r *Record, e *blankout.Example, p int) {
	entry := r.Value[p:word(r.Value, p)]
	for i, c := range entry {
		if c == ':' && notFinite(entry[i+1:]) {
			d.refuse(r, e, blankout.ReasonNotFinite, "byte %d: %.60q is not finite", p+1, entry)
			return
		}
	}
	d.refuse(r, e, blankout.ReasonSyntax, "byte %d: %.60q where index:value should be", p+1, entry)
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
