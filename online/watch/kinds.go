package watch

// This file watches as which kind of value each field comes: as a number, a string, a truth value,
// an array, or null.

import (
	"math/bits"
	"slices"

	"blankout"
	"blankout/internal/coder"
	"blankout/model"
)

// Kinds counts, in the events that are sampled, as which kind of value each field comes. Each kind
// of one name is a field of the Schema for itself. A name that has come as several kinds has a
// measure: the share of its values that are not of its usual kind.
type Kinds struct {
	fields []kindCount // by id
	mixed  []mixedName // in the order in which their second kinds came

	// What the Schema tells.
	linked  int            // so many of its fields are in names
	names   map[string]int // the first field of each
	later   model.FieldSet // the others
	firsts  [][2]uint16    // and each of them with the first of its name
	there   model.FieldSet // scratch
	present model.FieldSet // what byName has returned
}

// kindCount is about one field of the Schema.
type kindCount struct {
	seen, null float64 // events of the current block; null ones count for the first of a name
	usual      float64 // events, over some usualEvents
}

// mixedName is a name that has come as several kinds.
type mixedName struct {
	ids     []uint16 // in the order in which they came
	usual   uint16   // the one of most events
	measure fieldMeasure
	// The latest run of sampled events that have it as other kinds alone: its first, and how
	// many.
	run    Moment
	length float64
}

// grow takes up new fields.
func (k *Kinds) grow(fields []blankout.Field) {
	if k.names == nil {
		k.names = map[string]int{}
	}
	for ; k.linked < min(len(fields), MostFields); k.linked++ {
		id, f := k.linked, fields[k.linked]
		if id >= len(k.fields) {
			k.fields = append(k.fields, kindCount{})
		}
		if f.Kind == blankout.Sparse || f.Kind == blankout.Cross {
			continue
		}
		first, known := k.names[f.Name]
		if !known {
			k.names[f.Name] = id
			continue
		}
		if k.later.Has(uint16(id)) {
			continue // a file says so
		}
		k.link(uint16(id), uint16(first))
		at := slices.IndexFunc(k.mixed, func(m mixedName) bool { return int(m.ids[0]) == first })
		if at < 0 {
			at = len(k.mixed)
			k.mixed = append(k.mixed, mixedName{ids: []uint16{uint16(first)}, usual: uint16(first), measure: fieldMeasure{n: k.fields[first].usual}})
		}
		k.mixed[at].ids = append(k.mixed[at].ids, uint16(id))
	}
	k.there = k.there.Room(len(k.fields))
}

// link says that a field has the name of another, which came first.
func (k *Kinds) link(id, first uint16) {
	for int(id>>6) >= len(k.later) {
		k.later = append(k.later, 0)
	}
	k.later.Add([]uint16{id})
	k.firsts = append(k.firsts, [2]uint16{id, first})
}

// byName returns a set of fields with the first of each name that is there as another kind. It is
// valid until the next call.
func (k *Kinds) byName(present model.FieldSet) model.FieldSet {
	if len(k.firsts) == 0 {
		return present
	}
	k.present = append(k.present[:0], present...)
	for _, l := range k.firsts {
		if present.Has(l[0]) {
			k.present.Add(l[1:])
		}
	}
	return k.present
}

func (k *Kinds) take(m *Met) {
	if k.linked < min(len(m.Fields), MostFields) {
		k.grow(m.Fields)
	}
	if !m.Named || !Sampled(m.Number, sampledBits) {
		return
	}
	clear(k.there)
	k.there.Add(m.Event.Field)
	for i, word := range k.there {
		for ; word != 0; word &= word - 1 {
			if id := i<<6 | bits.TrailingZeros64(word); id < len(k.fields) {
				k.fields[id].seen++
			}
		}
	}
	for _, id := range m.Event.Missing {
		if int(id) < len(k.fields) {
			k.fields[id].null++
		}
	}
	for i := range k.mixed {
		k.mixed[i].take(k.there, Moment{m.Number, m.Event.Time})
	}
}

// take takes up the fields of a sampled event.
func (n *mixedName) take(there model.FieldSet, at Moment) {
	switch {
	case there.Has(n.usual):
		n.run, n.length = Moment{}, 0
	case slices.ContainsFunc(n.ids, there.Has):
		if n.length == 0 {
			n.run = at
		}
		n.length++
	}
}

// absent says as what a field comes that is missing, by the block at hand.
func (k *Kinds) absent(id int) form {
	switch {
	case id >= len(k.fields):
		return 0
	case k.fields[id].null > 0:
		return comesNull
	}
	return comesNot
}

func (k *Kinds) review(m *Met, h *Fields) {
	const keep = 1 - float64(healthBlock)/usualEvents
	for i := range k.mixed {
		n := &k.mixed[i]
		if n.review(m, h, k.fields); n.measure.alarm != 0 { // what is usual stands still
			for _, id := range n.ids {
				k.fields[id].seen = 0
			}
		}
	}
	for id := range k.fields {
		f := &k.fields[id]
		f.usual = f.usual*keep + f.seen
		f.seen, f.null = 0, 0
	}
	for i := range k.mixed {
		k.mixed[i].choose(k.fields)
	}
}

// review compares as what the name came in the block with its usual kind.
func (n *mixedName) review(m *Met, h *Fields, fields []kindCount) {
	all, most := 0.0, n.usual
	for _, id := range n.ids {
		all += fields[id].seen
		if id != n.usual && (most == n.usual || fields[id].seen > fields[most].seen) {
			most = id
		}
	}
	others := all - fields[n.usual].seen
	x := fieldChange{field: int(n.usual), kind: alarmKindOf, comes: comesAs + form(h.fields[most].kind)}
	h.compare(m, &n.measure, x, observed{n: all, sum: others, square: others}, run{n.run, n.length}, false)
}

// choose makes the kind of most events the usual one, while nothing is out of the usual.
func (n *mixedName) choose(fields []kindCount) {
	s := &n.measure
	if s.alarm != 0 || s.above != 0 {
		return
	}
	most, all := n.usual, 0.0
	for _, id := range n.ids {
		if all += fields[id].usual; fields[id].usual > fields[most].usual {
			most = id
		}
	}
	if most != n.usual {
		others := all - fields[most].usual
		n.usual, n.measure = most, fieldMeasure{n: all, sum: others, square: others}
	}
}

// report tells the share of values that are not of the usual kind.
func (k *Kinds) report(r *report) {
	for i := range k.mixed {
		n := &k.mixed[i]
		if f := r.field(int(n.usual)); f != nil && n.measure.known() {
			c := n.measure.share()
			f.OtherKinds = &c
			f.strength = max(f.strength, strength(alarmKindOf, c))
		}
	}
}

// State codes what is counted, of so many fields at most.
func (k *Kinds) State(c *coder.Coder, fields int) {
	n := uint64(len(k.fields))
	c.Uint(&n)
	if c.Decode {
		if n > uint64(fields) {
			c.Failed = true
			return
		}
		k.fields = make([]kindCount, n)
	}
	for id := range k.fields {
		f := &k.fields[id]
		c.Each(&f.seen, &f.null, &f.usual)
	}
	n = uint64(len(k.mixed))
	c.Uint(&n)
	if c.Decode {
		if n > uint64(fields) {
			c.Failed = true
			return
		}
		k.mixed = make([]mixedName, n)
	}
	for i := range k.mixed {
		m := &k.mixed[i]
		c.Uint16s(&m.ids)
		usual := int(m.usual)
		c.Int(&usual)
		m.usual = uint16(usual)
		m.measure.state(c)
		m.run.state(c)
		c.Float(&m.length)
		if c.Decode && (len(m.ids) == 0 || int(slices.Max(m.ids)) >= len(k.fields) || !slices.Contains(m.ids, m.usual)) {
			c.Failed = true
			return
		}
		for _, id := range m.ids[1:] {
			if c.Decode {
				k.link(id, m.ids[0])
			}
		}
	}
}
