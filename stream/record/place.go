package record

// This file stores the names of records with a schema as a tree, as jsonDecoder does for JSON.

import (
	"fmt"
	"slices"
	"strconv"

	"blankout/internal/event"
)

// place is a field at one position of a record, with its name joined with dots. It is a field of the enclosing record,
// a key of a map, or an index of an array.
type place struct {
	named
	size     int  // size of the whole name in bytes
	kept     bool // whether the place is in the tree
	of       any  // record type of its fields
	fields   []*place
	others   map[any][]*place // fields of other types, if a union allows several
	keys     map[string]*place
	elements []*place
}

// places is the tree of places, with the additions of the current record. If the record is refused, its additions are
// removed. core converts the names to columns.
type places struct {
	core
	root  *place
	count int      // number of places in the tree, at most max_fields; later names get a temporary place
	grown []func() // undo the additions of this record
	left  int      // remaining number of values of the record, including values that take no bytes

	reason  event.Reason
	failure string
}

func newPlaces(c core) places {
	return places{core: c, root: &place{kept: true}}
}

// end completes e, or refuses it for the reason that fail stored.
func (d *places) end(r *Record, e *event.Example) {
	if d.failure != "" {
		d.refuse(r, e, d.reason, "%s", d.failure)
	} else {
		d.complete(r, e)
	}
	if e.Refused != nil {
		for _, undo := range slices.Backward(d.grown) {
			undo()
		}
		d.count -= len(d.grown)
	}
	clear(d.grown)
	d.grown, d.failure = d.grown[:0], ""
}

// fail stores why the record is refused and returns false.
func (d *places) fail(reason event.Reason, format string, args ...any) bool {
	if d.failure == "" {
		d.reason, d.failure = reason, fmt.Sprintf(format, args...)
	}
	return false
}

// fields returns the places of the n fields of a record of type of at p. A place is nil if newField must create it.
func (d *places) fields(p *place, of any, n int) []*place {
	switch {
	case p.of == of:
		return p.fields
	case p.of == nil:
		p.of, p.fields = of, make([]*place, n)
		return p.fields
	case p.others == nil:
		p.others = map[any][]*place{}
	}
	if p.others[of] == nil {
		p.others[of] = make([]*place, n)
	}
	return p.others[of]
}

// newField creates the place of field i of the fields at p. It returns nil after a failure.
func (d *places) newField(p *place, fields []*place, i int, name string) *place {
	joint := "."
	if p == d.root {
		joint = ""
	}
	c := d.place(p, joint, name)
	if c != nil && c.kept {
		fields[i] = c
		d.grown = append(d.grown, func() { fields[i] = nil })
	}
	return c
}

// key returns the place of a key of the map at p, or nil after a failure.
func (d *places) key(p *place, key []byte) *place {
	if c := p.keys[string(key)]; c != nil {
		return c
	}
	name := string(key)
	c := d.place(p, ".", name)
	if c != nil && c.kept {
		if p.keys == nil {
			p.keys = map[string]*place{}
		}
		p.keys[name] = c
		d.grown = append(d.grown, func() { delete(p.keys, name) })
	}
	return c
}

// element returns the place of element i of the array at p, or nil after a failure.
func (d *places) element(p *place, i int) *place {
	for len(p.elements) <= i {
		c := d.place(p, "[", strconv.Itoa(len(p.elements))+"]")
		if c == nil {
			return nil
		}
		if !c.kept {
			return d.place(p, "[", strconv.Itoa(i)+"]")
		}
		p.elements = append(p.elements, c)
		d.grown = append(d.grown, func() { p.elements = p.elements[:len(p.elements)-1] })
	}
	return p.elements[i]
}

func (d *places) place(p *place, joint, name string) *place {
	size := p.size + len(joint) + len(name)
	if size > maxFieldBytes || size > maxNameBytes && len(p.name) > maxNameBytes {
		d.fail(event.ReasonOversize, "field %.80q…: a name of %d bytes, the most is %d", p.name+joint+name[:min(len(name), 80)], size, maxFieldBytes)
		return nil
	}
	c := &place{named: d.named(p.name + joint + name), size: size}
	if p.role == isDropped {
		c.role = isDropped
	}
	if c.kept = p.kept && d.count < d.c.MaxFields; c.kept {
		d.count++
	}
	return c
}

// number adds a number as a feature of p, or uses it by the role of p. text formats the number if a name is needed.
func (d *places) number(p *place, x float64, text func([]byte) []byte) bool {
	if p.role == isFeature && p.times == nil && !p.categorical && x <= maxMagnitude && x >= -maxMagnitude { // most numbers
		d.addNumber(&p.named, x)
		return true
	}
	reason, detail := d.numberOf(&p.named, x, text)
	return detail == "" || d.fail(reason, "field %.80q%s", p.name, detail)
}

func (d *places) float(p *place, x float64) bool {
	return d.number(p, x, func(b []byte) []byte { return strconv.AppendFloat(b, x, 'g', -1, 64) })
}

func (d *places) integer(p *place, x int64) bool {
	return d.number(p, float64(x), func(b []byte) []byte { return strconv.AppendInt(b, x, 10) })
}

// text adds a string as a feature of p, or uses it by the role of p. word means that the string is an element of an
// array.
func (d *places) text(p *place, text []byte, word bool) bool {
	switch {
	case p.role == isDropped:
	case p.role != isFeature:
		return d.role(p, text)
	case p.times != nil:
		return d.time(p, text)
	case !word && d.writtenNumber(&p.named, text):
	case !d.addString(&p.named, text, word):
		return d.tooManyFeatures()
	}
	return !d.tooMany() || d.tooManyFeatures()
}

// time uses the text of p, which is a field with time features.
func (d *places) time(p *place, text []byte) bool {
	return d.takeTime(&p.named, text) || d.fail(event.ReasonSyntax, "field %.80q, %.40q: %s", p.name, text, wantTime)
}

func (d *places) boolean(p *place, x bool) bool {
	text := strconv.AppendBool(d.short[:0], x)
	switch {
	case p.role == isDropped:
	case p.role != isFeature:
		return d.role(p, text)
	default:
		d.pair(&p.named, event.Boolean, text, 1)
	}
	return true
}

// null marks p as missing.
func (d *places) null(p *place) bool {
	if p.role == isFeature {
		d.miss(&p.named)
	}
	return true
}

// role uses the text of a label, weight, ID or time.
func (d *places) role(p *place, text []byte) bool {
	reason, detail := d.special(p.role, text, false)
	return detail == "" || d.fail(reason, "field %.80q: %s", p.name, detail)
}

// several fails for a label, weight, ID or time that has more than one value.
func (d *places) several(p *place) bool {
	return p.role == isFeature || p.role == isDropped || d.fail(event.ReasonSyntax, "field %.80q, which is the %s, has several values", p.name, roleKeys[p.role])
}

func (d *places) tooManyFeatures() bool {
	return d.fail(event.ReasonTooMany, moreFeatures, d.c.MaxFeatures)
}

// spend subtracts n values from the number that the size of the record allows. So the cost of a record is proportional
// to its size, although omitted fields and empty elements take few bytes or none.
func (d *places) spend(n int) bool {
	if d.left -= n; d.left >= 0 {
		return true
	}
	return d.fail(event.ReasonTooMany, "more values, most of them left out or empty, than its bytes and four times max_features, %d", d.c.MaxFeatures)
}
