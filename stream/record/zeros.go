package record

// This file adds numbers that a record omits because they are 0.

import (
	"slices"

	"blankout/internal/event"
)

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
