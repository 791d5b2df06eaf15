package record

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"blankout/internal/event"
)

// This file manages the fields and the new names of records, which decoding adds to a Schema.

// fieldTable finds the fields of a Schema by name, and adds new fields. The additions of a record can be undone.
type fieldTable struct {
	s       *event.Schema
	mask    uint64
	most    int // largest number of fields
	groups  func(field string) string
	columns event.TakenColumns
	taken   uint64 // number of changes of columns, from 1
	fields  map[fieldKey]uint16
	known   int // number of fields of s that are in the map fields
	before  int // number of fields before the current record
	age     int // number of times that fields were removed
	// firstID has, by name, the id of the first field with that name. under has, by name, the fields whose names
	// continue it with a dot or an index, for example a.b and a[0] for a.
	firstID map[string]uint16
	under   map[string]*below
}

type fieldKey struct {
	name string
	kind event.Kind
}

// below has the fields whose names continue another name.
type below struct {
	ids    []uint16
	missed uint64 // last record that marked all of them as missing
}

func newFieldTable(c Config, s *event.Schema) fieldTable {
	d := fieldTable{
		s: s, mask: s.Columns() - 1, most: c.MaxFields, taken: 1, groups: c.groupOf,
		fields: map[fieldKey]uint16{}, firstID: map[string]uint16{}, under: map[string]*below{},
	}
	d.takeFields()
	return d
}

// begin starts a record.
func (d *fieldTable) begin() {
	if d.known != len(d.s.Fields) {
		d.takeFields()
	}
	d.before = d.known
}

// fieldID returns the ID of the field with that name and kind. It adds the field if the limit allows it; otherwise it
// returns 0.
func (d *fieldTable) fieldID(name string, kind event.Kind) uint16 {
	key := fieldKey{name, kind}
	id, ok := d.fields[key]
	if !ok && len(d.s.Fields) < d.most && len(name) <= maxNameBytes {
		f := event.Field{Name: name, Kind: kind, Group: d.groups(name)}
		if d.s.Apart && kind == event.Numeric {
			f.Column = d.columns.Of(d.fieldHash(name), d.mask)
		}
		id = d.s.AddField(f)
		d.takeFields()
	}
	return id
}

// takeFields adds fields of the Schema that d does not have yet, because another decoder may have added them.
func (d *fieldTable) takeFields() {
	for ; d.known < len(d.s.Fields); d.known++ {
		if d.known > 0 {
			d.addField(d.s.Fields[d.known], uint16(d.known))
		} else {
			d.fields[fieldKey{"", event.Sparse}] = 0
		}
	}
}

func (d *fieldTable) addField(f event.Field, id uint16) {
	d.fields[fieldKey{f.Name, f.Kind}] = id
	if d.s.Owns(int(id)) {
		d.columns.Take(f.Column)
		d.taken++
	}
	if d.firstID[f.Name] > 0 {
		return
	}
	d.firstID[f.Name] = id
	eachParent(f.Name, func(parent string) {
		b := d.under[parent]
		if b == nil {
			b = &below{}
			d.under[parent] = b
		}
		b.ids = append(b.ids, id)
	})
}

// eachParent calls f with each name that the given name continues with a dot or an index.
func eachParent(name string, f func(parent string)) {
	depth := 0
	for i, c := range []byte(name) {
		if (c == '.' || c == '[') && depth < maxDepth {
			depth++
			f(name[:i])
		}
	}
}

// dropFields removes the fields that the current record has added, the latest first.
func (d *fieldTable) dropFields() {
	for id := d.known - 1; id >= d.before; id-- {
		f := d.s.Fields[id]
		delete(d.fields, fieldKey{f.Name, f.Kind})
		if d.s.Owns(id) {
			d.columns.Release(f.Column)
			d.taken++
		}
		if int(d.firstID[f.Name]) == id {
			delete(d.firstID, f.Name)
			eachParent(f.Name, func(parent string) {
				if b := d.under[parent]; len(b.ids) > 1 {
					b.ids = b.ids[:len(b.ids)-1]
				} else {
					delete(d.under, parent)
				}
			})
		}
	}
	d.s.DropFields(d.before)
	d.known = d.before
}

func (d *fieldTable) fieldHash(name string) uint64 { return fieldHash(name, d.s.Seed) }

func fieldHash(name string, seed uint64) uint64 { return event.Mix(xxhash.Sum64String(name) + seed) }

// newName is a name that is added to the dictionary if its record is accepted.
type newName struct {
	hash uint64
	name string
}

// newNames are the names of a record that the dictionary needs.
type newNames struct {
	names []newName
	text  []byte // scratch memory
}

func (d *newNames) remember(hash uint64, name string) {
	d.names = append(d.names, newName{hash, cutName(name)})
}

// rememberValue stores the name name=value, or only the value if name is empty.
func (d *newNames) rememberValue(hash uint64, name string, value []byte) {
	d.text = append(d.text[:0], name...)
	if name != "" {
		d.text = append(d.text, '=')
	}
	d.text = append(d.text, value[:min(len(value), maxNameBytes+1)]...)
	d.remember(hash, string(d.text))
}

// forget discards the names of a record and frees their memory.
func (d *newNames) forget() {
	clear(d.names)
	d.names = d.names[:0]
}

// accept adds the names of an accepted record to the dictionary.
func (d *newNames) accept(to *event.Names) {
	for _, n := range d.names {
		if to.Wants(n.hash) { // several names with one hash count once
			to.Add(n.hash, []byte(n.name))
		}
	}
	d.forget()
}

// nameIn returns the name with a hash, or "" if it is neither in the dictionary nor new.
func (d *newNames) nameIn(dictionary *event.Names, hash uint64) string {
	if name := dictionary.Find(hash); name != "" {
		return name
	}
	for _, n := range d.names {
		if n.hash == hash {
			return n.name
		}
	}
	return ""
}

// The part below caches the spelling of labels. A stream has few classes, and comparing eight bytes takes a tenth of the
// time of reading, normalizing and finding a label.

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
