package record

// This file stores the features of an event before they are summed by column, and its missing fields.

import (
	"math/bits"
	"slices"
)

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
