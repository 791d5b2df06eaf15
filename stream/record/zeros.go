package record

// This file adds the numbers that a record omits because they are 0.

import (
	"slices"

	"blankout/internal/event"
)

// zeros holds the numeric fields of a Schema whose absence means 0.
type zeros struct {
	fields []zeroField
	known  int      // fields of the Schema that were looked at
	age    int      // age of the core then
	stamps []uint64 // by field ID: the last record with a field of its name
}

type zeroField struct {
	id, first uint16 // of its name the first field, which stands for all kinds
	hash      uint64
}

// addZeros adds a 0 for each number that earlier records had and this one omits, under event.AbsentZero. A number that
// is null, or of another kind this time, is not omitted.
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

// isAge reports whether a field is the age feature of a time.
func (d *core) isAge(name string) bool {
	return slices.ContainsFunc(d.c.TimeFeatures, func(field string) bool { return name == field+".age" })
}
