package record

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"blankout/internal/event"
)

// This file stores the features of an event before they are summed by column, and its missing fields.

// entry is a feature of the event before columns are sorted and summed.
type entry struct {
	value float64
	field uint16
}

// entryList has the entries of an event.
type entryList struct {
	entries []entry
	order   []uint64 // column<<32 | index of the entry
	sorted  []uint64 // order, sorted; before sorting, it has the previous event's order
	spare   []uint64 // scratch memory for sorting
	hash    []uint64 // hash of each entry, only for crosses
}

func (d *entryList) reset() { d.entries, d.order, d.hash = d.entries[:0], d.order[:0], d.hash[:0] }

// put adds an entry.
func (d *entryList) put(column uint32, id uint16, x float64) {
	d.order = append(d.order, uint64(column)<<32|uint64(len(d.order)))
	d.entries = append(d.entries, entry{x, id})
}

// sort sorts d.order into d.sorted. For 17 to 64 entries it starts with the permutation that sorted the previous event,
// because most columns keep their index.
func (d *entryList) sort(mask uint64) {
	order, sorted := d.order, d.sorted
	if len(order) <= 16 {
		d.sorted = sortShort(sorted[:0], order)
		return
	}
	if len(order) > 64 {
		d.radixSort(mask)
		return
	}
	if len(sorted) == len(order) {
		for i, o := range sorted {
			sorted[i] = order[uint32(o)]
		}
	} else {
		sorted = append(sorted[:0], order...)
		d.sorted = sorted
	}
	for i := 1; i < len(sorted); i++ {
		x := sorted[i]
		if sorted[i-1] < x {
			continue
		}
		j := i
		for ; j > 0 && sorted[j-1] > x; j-- {
			sorted[j] = sorted[j-1]
		}
		sorted[j] = x
	}
}

// sortShort appends at most 16 numbers to a list, sorted with Batcher's sorting networks, which have no data-dependent
// branches. The columns of names change from event to event. Each change would cost a branch misprediction, which takes
// longer than the whole network.
func sortShort(to, s []uint64) []uint64 {
	x := [16]uint64{}
	for i := copy(x[:], s); i < len(x); i++ {
		x[i] = ^uint64(0)
	}
	sortEight((*[8]uint64)(x[:8]))
	if len(s) > 8 {
		sortEight((*[8]uint64)(x[8:]))
		for i := range 8 {
			x[i], x[i+8] = ordered(x[i], x[i+8])
		}
		for i := 4; i < 8; i++ {
			x[i], x[i+4] = ordered(x[i], x[i+4])
		}
		for i := 2; i < 14; i += 4 {
			x[i], x[i+2] = ordered(x[i], x[i+2])
			x[i+1], x[i+3] = ordered(x[i+1], x[i+3])
		}
		for i := 1; i < 15; i += 2 {
			x[i], x[i+1] = ordered(x[i], x[i+1])
		}
	}
	return append(to, x[:len(s)]...)
}

func sortEight(x *[8]uint64) {
	a, b, c, d, e, f, g, h := x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
	a, b = ordered(a, b)
	c, d = ordered(c, d)
	e, f = ordered(e, f)
	g, h = ordered(g, h)
	a, c = ordered(a, c)
	b, d = ordered(b, d)
	e, g = ordered(e, g)
	f, h = ordered(f, h)
	b, c = ordered(b, c)
	f, g = ordered(f, g)
	a, e = ordered(a, e)
	b, f = ordered(b, f)
	c, g = ordered(c, g)
	d, h = ordered(d, h)
	c, e = ordered(c, e)
	d, f = ordered(d, f)
	b, c = ordered(b, c)
	d, e = ordered(d, e)
	f, g = ordered(f, g)
	*x = [8]uint64{a, b, c, d, e, f, g, h}
}

// ordered returns the smaller number first.
func ordered(x, y uint64) (uint64, uint64) {
	least := x
	if y < x {
		least = y
	}
	return least, x ^ y ^ least
}

// radixSort sorts by column, byte by byte from the lowest byte. It is stable.
func (d *entryList) radixSort(mask uint64) {
	n := len(d.order)
	from, to := append(d.sorted[:0], d.order...), slices.Grow(d.spare[:0], n)[:n]
	for shift := 32; shift < 32+bits.Len64(mask) && !slices.IsSorted(from); shift += 8 {
		var at [256]int
		for _, o := range from {
			at[byte(o>>shift)]++
		}
		sum := 0
		for i, n := range at {
			at[i] = sum
			sum += n
		}
		for _, o := range from {
			b := byte(o >> shift)
			to[at[b]] = o
			at[b]++
		}
		from, to = to, from
	}
	d.sorted, d.spare = from, to
}

// nulls has the missing fields of an event.
type nulls struct {
	missing []uint16
	missed  []uint64 // for each field, the last record that marked it as missing
	records uint64   // number of the current record
}

func (d *nulls) begin(missing []uint16) {
	d.missing = missing
	d.records++
}

func (d *nulls) missField(id uint16) {
	for len(d.missed) <= int(id) {
		d.missed = append(d.missed, 0)
	}
	if d.missed[id] != d.records {
		d.missed[id] = d.records
		d.missing = append(d.missing, id)
	}
}

// The part below caches the columns of short values. Streams repeat values such as countries and jobs, and finding a cached
// value takes a third of the time of hashing it.

// shortText is a text of at most 15 bytes. low has the first eight bytes. high has the next seven bytes, and the length
// in its highest byte. The bytes after the end of the text are 0.
type shortText struct{ low, high uint64 }

func (t shortText) size() int { return int(t.high >> 56) }

// shortString returns the string whose opening quote is before data[p]. ok is false if the string is longer, not
// closed, or not plain ASCII.
func shortString(data []byte, p int) (t shortText, ok bool) {
	var tail [16]byte
	from := tail[:]
	if len(data)-p >= len(tail) {
		from = data[p : p+len(tail)]
	} else {
		copy(from, data[p:]) // zero bytes do not count as plain
	}
	// If lengths vary, a branch on the length costs more than reading both words.
	x0, x1 := binary.LittleEndian.Uint64(from), binary.LittleEndian.Uint64(from[8:])
	n0, n1 := uint(bits.TrailingZeros64(notPlain(x0)))/8, uint(bits.TrailingZeros64(notPlain(x1)))/8
	n1 &= -(n0 / 8) // 0 unless the whole first word is plain
	n := n0 + n1
	if n == 16 || from[n] != '"' {
		return t, false
	}
	return shortText{x0 & (1<<(8*n0) - 1), x1&(1<<(8*n1)-1) | uint64(n)<<56}, true
}

// notPlain returns the highest bit of each of eight bytes that is a quote, a backslash, a control character or not
// ASCII. The first byte is the lowest. Bits after the first such bit may be wrong.
func notPlain(x uint64) uint64 {
	const low = 0x0101010101010101
	quote, slash := x^('"'*low), x^('\\'*low)
	return ((quote-low)&^quote | (slash-low)&^slash | (x-' '*low)&^x | x) & (0x80 * low)
}

// shortColumns caches the columns of the most recent short values. Each value has one possible slot, which is
// determined by its bits.
type shortColumns struct{ table []shortColumn }

type shortColumn struct {
	text   shortText
	field  uint64 // hash of the field
	taken  uint64 // fieldTable.taken when the column was found; 0 for an empty slot
	column uint32
}

const shortBits = 11 // 2,048 columns, which take 80 KB

func (c *shortColumns) at(field uint64, t shortText) *shortColumn {
	if c.table == nil {
		c.table = make([]shortColumn, 1<<shortBits)
	}
	return &c.table[((t.low^field)*0x9e3779b97f4a7c15^t.high)*0xff51afd7ed558ccd>>(64-shortBits)]
}

// shortPair is pair for a short value t. It caches the column of a value whose name the dictionary no longer needs. It
// caches nothing if there are crosses, because crosses need the hash of the value. It updates n.strange.
func (d *core) shortPair(n *named, t shortText, value []byte) {
	c := d.shortColumns.at(n.hash, t)
	if c.text == t && c.field == n.hash && c.taken == d.taken && len(d.crosses) == 0 {
		d.put(c.column, d.idOf(n, event.Categorical), 1)
		if n.strange > 0 {
			n.strange--
		}
		return
	}
	n.strange = min(n.strange+1, 16)
	if d.isRead(n) || n.reading == 0 && !isWord(value) {
		if as, ms := d.readString(n, value, false); n.reading > 0 {
			d.addRead(n, value, as, ms) // 15 bytes have few words
			return
		}
	}
	if column, wanted := d.pair(n, event.Categorical, value, 1); !wanted {
		*c = shortColumn{t, n.hash, d.taken, column}
	}
}

// The part below adds numbers that a record omits because they are 0.

// zeros has the numeric fields of a Schema whose absence means 0.
type zeros struct {
	fields []zeroField
	known  int      // number of fields of the Schema that were examined
	age    int      // age of the core at that time
	stamps []uint64 // for each field ID: the number of the latest record with a field of that name
}

type zeroField struct {
	id, first uint16 // first is the first field with the same name, which represents all kinds
	hash      uint64
}

// addZeros adds a 0 for each number that earlier records had and this record omits, under event.AbsentZero. A number
// that is null, or of another kind in this record, is not omitted.
func (d *core) addZeros() {
	if d.s.Absent != event.AbsentZero {
		return
	}
	z := &d.zeros
	if z.age != d.age {
		*z = zeros{age: d.age, stamps: z.stamps}
	}
	known := d.known
	if d.s.Closed > 0 {
		known = min(known, d.s.Closed)
	}
	for ; z.known < known; z.known++ {
		if f := d.s.Fields[z.known]; f.Kind == event.Numeric && !d.isAge(f.Name) {
			z.fields = append(z.fields, zeroField{uint16(z.known), d.firstID[f.Name], d.fieldHash(f.Name)})
		}
	}
	if n := len(d.s.Fields); n > len(z.stamps) {
		z.stamps = append(z.stamps, make([]uint64, n-len(z.stamps))...)
	}
	for i := range d.entries {
		z.stamps[d.firstID[d.s.Fields[d.entries[i].field].Name]] = d.records
	}
	for _, id := range d.missing {
		z.stamps[d.firstID[d.s.Fields[id].Name]] = d.records
	}
	for _, f := range z.fields {
		if z.stamps[f.first] == d.records {
			continue
		}
		if d.s.Apart {
			d.addAt(d.s.Fields[f.id].Column, f.hash, f.id, 0)
		} else {
			d.add(f.hash, f.id, 0)
		}
	}
}

// isAge reports whether a field is the age feature of a time field.
func (d *core) isAge(name string) bool {
	return slices.ContainsFunc(d.c.TimeFeatures, func(field string) bool { return name == field+".age" })
}
