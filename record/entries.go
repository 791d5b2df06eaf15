package record

// This file holds the features of an event before they are summed by column, and what it
// lacks.

import (
	"math/bits"
	"slices"
)

// entry is a feature of the event before columns are sorted and summed.
type entry struct {
	value float64
	field uint16
}

// entryList is the entries of an event.
type entryList struct {
	entries []entry
	order   []uint64 // column<<32 | number of the entry
	sorted  []uint64 // order, sorted; until then that of the last event
	spare   []uint64 // of the sort
	hash    []uint64 // by entry, only for crosses
}

func (d *entryList) reset() { d.entries, d.order, d.hash = d.entries[:0], d.order[:0], d.hash[:0] }

// put adds an entry.
func (d *entryList) put(column uint32, id uint16, x float64) {
	d.order = append(d.order, uint64(column)<<32|uint64(len(d.order)))
	d.entries = append(d.entries, entry{x, id})
}

// sort sorts d.order to d.sorted. It starts with the permutation that sorted the
// last event: most of its columns are where they were.
func (d *entryList) sort(mask uint64) {
	order, sorted := d.order, d.sorted
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

// radixSort sorts by column, byte by byte from the lowest; entries of one column
// keep their order.
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

// nulls are the fields that an event lacks.
type nulls struct {
	missing []uint16
	missed  []uint64 // by field, the last record that noted it as missing
	records uint64   // number of this record
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
