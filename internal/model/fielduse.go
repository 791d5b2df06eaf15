package model

// This file determines which fields most events have.

import (
	"math"
	"slices"

	"blankout/internal/event"
)

// FieldUse counts the events in which each field was present and in which it was null. It determines the usual fields,
// which most events have. The zero value is ready for use and never forgets.
type FieldUse struct {
	Events        uint64
	Present, Null []uint64
	// Memory limits how long events count: all counts are halved when Events reaches 2 Memory. 0 means that old events
	// count fully.
	Memory uint64
	// Classes has the number of events of each of the first mostClasses classes. Lacked has these numbers for the events in
	// which a field is null, by field id.
	Classes []uint64
	Lacked  [][]uint64
	// AbsentIsZero means that absent fields are not missing, see event.AbsentZero.
	AbsentIsZero bool
	// Gains and Squares have, by field id, the sum of how much better a lack of the field is predicted if it is read as a
	// loss than as a value, in nats, and the sum of the squares.
	Gains, Squares []float64

	// usually, nullIsValue and also are reused by Review, so that Review allocates only if something has changed.
	usually, nullIsValue []uint16
	also                 [][2]uint16
	first                map[string]uint16 // first field id of each name
	named                int               // number of fields in first
}

// usualFields is the largest number of fields that are counted.
const usualFields = 4096

// mostClasses is the number of classes that are counted.
const mostClasses = 32

// Count counts an event, given its present fields, its null fields and its class, which is negative if it is not known.
func (u *FieldUse) Count(present FieldSet, null []uint16, class int) {
	u.Events++
	if class >= 0 && class < mostClasses {
		u.Classes = atLeast(u.Classes, class)
		u.Classes[class]++
	}
	present.Each(func(id int) {
		if id < usualFields {
			u.Present = atLeast(u.Present, id)
			u.Present[id]++
		}
	})
	for _, id := range null {
		if id < usualFields && !present.Has(id) {
			u.Null = atLeast(u.Null, int(id))
			if u.Null[id]++; class >= 0 && class < mostClasses {
				for int(id) >= len(u.Lacked) {
					u.Lacked = append(u.Lacked, nil)
				}
				u.Lacked[id] = atLeast(u.Lacked[id], class)
				u.Lacked[id][class]++
			}
		}
	}
	if u.Memory > 0 && u.Events == 2*u.Memory {
		u.Events /= 2
		for _, list := range append([][]uint64{u.Present, u.Null, u.Classes}, u.Lacked...) {
			for i := range list {
				list[i] /= 2
			}
		}
	}
}

func atLeast(list []uint64, id int) []uint64 {
	for id >= len(list) {
		list = append(list, 0)
	}
	return list
}

// countOf returns the count of an id, 0 for one beyond the list.
func countOf(list []uint64, id int) uint64 {
	if id < len(list) {
		return list[id]
	}
	return 0
}

// Review returns a Missing with the policies of was and the current usual fields. It returns was itself if nothing has
// changed.
func (u *FieldUse) Review(was *Missing, fields []event.Field) *Missing {
	u.lists(fields)
	if u.named > len(fields) { // fields were removed
		u.named, u.also = 0, nil
		clear(u.first)
	}
	if u.first == nil {
		u.first = map[string]uint16{}
	}
	for ; u.named < min(len(fields), usualFields); u.named++ {
		f, id := fields[u.named], uint16(u.named)
		switch one, known := u.first[f.Name]; {
		case known && f.Kind != event.Cross:
			u.also = append(u.also, [2]uint16{id, one})
		case !known:
			u.first[f.Name] = id
		}
	}
	if slices.Equal(u.usually, was.Usual) && slices.Equal(u.nullIsValue, was.NullIsValue) && slices.Equal(u.also, was.Also) {
		return was
	}
	m := *was
	m.Usual, m.NullIsValue, m.Also = slices.Clone(u.usually), slices.Clone(u.nullIsValue), slices.Clone(u.also)
	m.index()
	return &m
}

// lists sets nullIsValue to the fields whose null is a value, and usually to the fields that an event lacks if it leaves
// them out. A field is in at most one of the two, so that null and left out are read alike. Losses decide (reads). Where
// they are even, null is a value of a field that is mostly null if it says something about the class (telling), or if
// most of all fields are null, so that little is left to make up for a loss; otherwise it is a loss. A field that most
// events have when it is not null, or that is null in most, is lacking if it is left out.
func (u *FieldUse) lists(fields []event.Field) {
	u.usually, u.nullIsValue = u.usually[:0], u.nullIsValue[:0]
	nulls := sum(u.Null)
	little := nulls > mostlyNull*(nulls+sum(u.Present))
	for id := range min(max(len(u.Present), len(u.Null)), len(fields)) {
		present, null := countOf(u.Present, id), countOf(u.Null, id)
		loss, value := u.reads(id)
		switch {
		case value, !loss && null > present && (little || u.telling(id)):
			u.nullIsValue = append(u.nullIsValue, uint16(id))
		case !u.AbsentIsZero && fields[id].Kind.Named() && (loss || null > present || 2*present > u.Events-min(null, u.Events)):
			u.usually = append(u.usually, uint16(id))
		}
	}
}

// Most fields are null if more than the fraction mostlyNull of them is.
const mostlyNull = 0.45

func sum(counts []uint64) (sum float64) {
	for _, n := range counts {
		sum += float64(n)
	}
	return sum
}

// telling reports whether null in a field says something about the class: a test of independence, by likelihood ratio. It
// also returns true if no class is known.
func (u *FieldUse) telling(id int) bool {
	if id >= len(u.Lacked) {
		return true
	}
	var all, null, g, classes float64
	for class, n := range u.Classes {
		all += float64(n)
		null += float64(countOf(u.Lacked[id], class))
	}
	for class, n := range u.Classes {
		lacked := float64(countOf(u.Lacked[id], class))
		if n > 0 {
			classes++
		}
		for _, x := range [2][2]float64{{lacked, null}, {float64(n) - lacked, all - null}} {
			if x[0] > 0 {
				g += 2 * x[0] * math.Log(x[0]*all/(x[1]*float64(n)))
			}
		}
	}
	return g > classes+tellingDeviations*math.Sqrt(2*classes)
}

// AppendTelling appends, in ascending order, the fields that are often null and whose null says something about the class.
func (u *FieldUse) AppendTelling(ids []uint16) []uint16 {
	for id, n := range u.Null[:min(len(u.Null), len(u.Lacked))] {
		if 20*n >= u.Events && u.telling(id) {
			ids = append(ids, uint16(id))
		}
	}
	return ids
}

// tellingDeviations is by how many standard deviations of chance null must depend on the class.
const tellingDeviations = 5

// reads reports whether losses show that a lack of a field is better read as a loss, or as a value.
func (u *FieldUse) reads(id int) (loss, value bool) {
	if id >= len(u.Gains) {
		return false, false
	}
	doubt := readingDeviations * math.Sqrt(u.Squares[id])
	return u.Gains[id] > doubt, u.Gains[id] < -doubt
}

// Gain adds a comparison of both readings of a field.
func (u *FieldUse) Gain(id uint16, gain float64) {
	for int(id) >= len(u.Gains) {
		u.Gains, u.Squares = append(u.Gains, 0), append(u.Squares, 1)
	}
	gain = min(max(gain, -mostGain), mostGain)
	u.Gains[id] = (1-1.0/gainMemory)*u.Gains[id] + gain
	u.Squares[id] = (1-1.0/gainMemory)*u.Squares[id] + gain*gain
}

// Gains cover gainMemory comparisons, each of at most mostGain. A reading is better if the sum differs from 0 by
// readingDeviations standard deviations.
const gainMemory, mostGain, readingDeviations = 2048, 3, 3

// AppendAmbiguous appends the fields whose lack may be read in two ways: fields that some events have, and others lack.
func (u *FieldUse) AppendAmbiguous(ids []uint32, fields []event.Field) []uint32 {
	for id := range min(len(u.Present), len(fields)) {
		if n := u.Present[id]; fields[id].Kind.Named() && n >= 8 && 20*n >= u.Events && n < u.Events {
			ids = append(ids, uint32(id))
		}
	}
	return ids
}

// maxRate is the largest missing rate of a group, so that the remaining features are scaled by at most ten.
const maxRate = 0.9

// Rates returns, for each group, the fraction of events in which the group was missing, at most maxRate. The key is
// Field.Group, or the name of a field without a group. The fraction is the mean over the fields of the group. A field
// is missing from an event if it is null, or if it is a usual field and absent.
//
// Rates omits groups that have never been missing. It also omits fields that are not usual and never null, because
// their absence has no meaning. The fractions are rounded to 1/10,000.
func (u *FieldUse) Rates(fields []event.Field) map[string]float64 {
	type count struct {
		group         string
		present, null uint64
		named         bool
	}
	var names []string
	counts := map[string]*count{} // by name, because one field may have several kinds
	for id, f := range fields {
		if f.Kind == event.Cross || f.Kind == event.Sparse {
			continue
		}
		c := counts[f.Name]
		if c == nil {
			c = &count{group: f.GroupName()}
			counts[f.Name] = c
			names = append(names, f.Name)
		}
		c.named = c.named || f.Kind.Named()
		c.present += countOf(u.Present, id)
		c.null += countOf(u.Null, id)
	}
	rates, of := map[string]float64{}, map[string]float64{}
	for _, name := range names {
		c := counts[name]
		lost := c.null
		if !u.AbsentIsZero && c.named && 2*c.present > u.Events-min(c.null, u.Events) {
			lost = u.Events - min(c.present, u.Events)
		} else if c.null == 0 {
			continue
		}
		rates[c.group] += float64(lost) / float64(u.Events)
		of[c.group]++
	}
	for group, n := range of {
		if rates[group] = math.Round(1e4*min(rates[group]/n, maxRate)) / 1e4; rates[group] == 0 {
			delete(rates, group)
		}
	}
	return rates
}
