package record

// This file implements the text format of Vowpal Wabbit.

import (
	"bytes"
	"context"
	"math"

	"blankout/internal/event"
)

// vwDecoder decodes the text format of Vowpal Wabbit. A line is
//
//	[label [importance]] ['tag] |namespace[:scale] name[:value] ... |...
//
// A namespace is a field, and a name in it is the feature namespace=name. A bar followed by a blank starts the
// anonymous field. The tag is the key of the event. A line without a label is unlabeled.
type vwDecoder struct {
	core
	namespaces map[string]*named
	grown      []string // namespaces that this event has added
}

func newVW(c core) (Decoder, error) {
	return &vwDecoder{core: c, namespaces: map[string]*named{}}, nil
}

func (d *vwDecoder) Decode(_ context.Context, r Record, e *event.Example) error {
	if !d.begin(&r, e, false) {
		return nil
	}
	p := d.head(&r, e)
	for p >= 0 && p < len(r.Value) {
		p = d.namespace(&r, e, p)
	}
	if e.Refused == nil {
		d.complete(&r, e)
	}
	if e.Refused != nil { // undo the additions of a refused event
		for _, name := range d.grown {
			delete(d.namespaces, name)
		}
	}
	clear(d.grown)
	d.grown = d.grown[:0]
	return nil
}

// head reads the text before the first bar. It returns the position of the bar, or the end of the line without a bar.
// It returns -1 after a refusal.
func (d *vwDecoder) head(r *Record, e *event.Example) int {
	data := r.Value
	bar := bytes.IndexByte(data, '|')
	if bar < 0 {
		bar = len(data)
	}
	for p, words := 0, 0; ; words++ {
		p = skipBlanks(data[:bar], p)
		if p == bar {
			return bar
		}
		start := p
		for p < bar && !blank(data[p]) {
			p++
		}
		text := data[start:p]
		switch {
		case text[0] == '\'':
			d.id = text[1:]
		case p == bar && bar < len(data): // the word ends directly at the bar
			d.id = text
		case words == 0:
			if notFinite(text) {
				return d.stop(r, e, event.ReasonNotFinite, "byte %d: label %s", start+1, text)
			}
			if bytes.IndexByte(text, ':') >= 0 || bytes.IndexByte(text, ',') >= 0 {
				return d.stop(r, e, event.ReasonLabel, "byte %d: %.40q is not one label", start+1, text)
			}
			d.special(isLabel, text, true)
		case words == 1:
			if reason, detail := d.special(isWeight, text, true); detail != "" {
				return d.stop(r, e, reason, "byte %d: %s", start+1, detail)
			}
		default:
			return d.stop(r, e, event.ReasonSyntax, "byte %d: %.40q, want at most label, importance and tag before the first |", start+1, text)
		}
	}
}

// stop refuses the record and returns -1.
func (d *vwDecoder) stop(r *Record, e *event.Example, reason event.Reason, detail string, args ...any) int {
	d.refuse(r, e, reason, detail, args...)
	return -1
}

// namespace reads from the bar at p to the next bar or the end.
func (d *vwDecoder) namespace(r *Record, e *event.Example, p int) int {
	data := r.Value
	p++
	n, scale := &d.anonymous, 1.0
	if p < len(data) && !blank(data[p]) && data[p] != '|' {
		name, value, end := d.word(r, e, p)
		if end < 0 {
			return -1
		}
		if len(name) > 0 {
			n = d.namespaces[string(name)]
			if n == nil {
				if len(name) > maxFieldBytes {
					return d.stop(r, e, event.ReasonOversize, "byte %d: namespace %.40q…: a name of %d bytes, the most is %d", p+1, name, len(name), maxFieldBytes)
				}
				field := d.named(string(name))
				if n = &field; len(d.namespaces) < d.c.MaxFields && len(name) <= maxNameBytes {
					d.namespaces[field.name] = n
					d.grown = append(d.grown, field.name)
				}
			}
		}
		scale, p = value, end
	}
	for {
		p = skipBlanks(data, p)
		if p >= len(data) || data[p] == '|' {
			return p
		}
		if d.tooMany() {
			return d.stop(r, e, event.ReasonTooMany, moreFeatures, d.c.MaxFeatures)
		}
		start := p
		name, x, end := d.word(r, e, p)
		if end < 0 {
			return -1
		}
		p = end
		if n.role == isDropped {
			continue
		}
		if x *= scale; math.Abs(x) > maxMagnitude {
			return d.stop(r, e, event.ReasonOutOfRange, "byte %d: %.60q is beyond 1e30", start+1, data[start:end])
		}
		if n == &d.anonymous && d.s.NumericIndices {
			if column, ok := d.index(name); ok {
				d.addAt(uint32(column), column, 0, x)
				continue
			}
		}
		d.pair(n, event.Sparse, name, x)
	}
}

// word reads name or name:value at p. A name without a value has the value 1. end is -1 after a refusal.
func (d *vwDecoder) word(r *Record, e *event.Example, p int) (name []byte, value float64, end int) {
	data, start := r.Value, p
	for p < len(data) && !blank(data[p]) && data[p] != '|' && data[p] != ':' {
		p++
	}
	name = data[start:p]
	if p >= len(data) || data[p] != ':' {
		return name, 1, p
	}
	value, end = number(data, p+1, false)
	if end < 0 || end < len(data) && !blank(data[end]) && data[end] != '|' {
		for end = p + 1; end < len(data) && !blank(data[end]) && data[end] != '|'; end++ {
		}
		if notFinite(data[p+1 : end]) {
			return nil, 0, d.stop(r, e, event.ReasonNotFinite, "byte %d: %.60q is not finite", start+1, data[start:end])
		}
		return nil, 0, d.stop(r, e, event.ReasonSyntax, "byte %d: %.60q, want name or name:number", start+1, data[start:end])
	}
	if value > maxMagnitude || value < -maxMagnitude {
		return nil, 0, d.stop(r, e, event.ReasonOutOfRange, "byte %d: %.60q is beyond 1e30", start+1, data[start:end])
	}
	return name, value, end
}

// index returns the column of a name that is a number, as in svmlight.
func (d *vwDecoder) index(name []byte) (column uint64, ok bool) {
	if len(name) == 0 || len(name) > 10 {
		return 0, false
	}
	for _, c := range name {
		if c-'0' > 9 {
			return 0, false
		}
		column = 10*column + uint64(c-'0')
	}
	if !d.s.ZeroBased {
		column-- // index 0 becomes an invalid column, beyond the mask
	}
	return column, column <= d.mask
}
