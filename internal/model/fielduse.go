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
	// AbsentIsZero means that absent fields are not missing, see event.AbsentZero.
	AbsentIsZero bool

	// usually, usuallyNull and also are reused by Review, so that Review allocates only if something has changed.
	usually, usuallyNull []uint16
	also                 [][2]uint16
	first                map[string]uint16 // first field id of each name
	named                int               // number of fields in first
}

// usualFields is the largest number of fields that are counted.
const usualFields = 4096

// Count counts an event, given its present fields and its null fields.
func (u *FieldUse) Count(present FieldSet, null []uint16) {
	u.Events++
	present.Each(func(id int) {
		if id < usualFields {
			u.Present = atLeast(u.Present, id)
			u.Present[id]++
		}
	})
	for _, id := range null {
		if id < usualFields && !present.Has(id) {
			u.Null = atLeast(u.Null, int(id))
			u.Null[id]++
		}
	}
	if u.Memory > 0 && u.Events == 2*u.Memory {
		u.Events /= 2
		for _, list := range [][]uint64{u.Present, u.Null} {
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
	if slices.Equal(u.usually, was.Usual) && slices.Equal(u.usuallyNull, was.UsuallyNull) && slices.Equal(u.also, was.Also) {
		return was
	}
	m := *was
	m.Usual, m.UsuallyNull, m.Also = slices.Clone(u.usually), slices.Clone(u.usuallyNull), slices.Clone(u.also)
	m.index()
	return &m
}

// lists sets usuallyNull to the fields that are null more often than present, and usually to the other fields that are
// present in most events in which they are not null. A field is never in both: a usually null field that is left out of
// an event is read as null.
func (u *FieldUse) lists(fields []event.Field) {
	u.usually, u.usuallyNull = u.usually[:0], u.usuallyNull[:0]
	for id := range min(max(len(u.Present), len(u.Null)), len(fields)) {
		present, null := uint64(0), uint64(0)
		if id < len(u.Present) {
			present = u.Present[id]
		}
		if id < len(u.Null) {
			null = u.Null[id]
		}
		switch {
		case null > present:
			u.usuallyNull = append(u.usuallyNull, uint16(id))
		case !u.AbsentIsZero && fields[id].Kind.Named() && 2*present > u.Events-min(null, u.Events):
			u.usually = append(u.usually, uint16(id))
		}
	}
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
		if id < len(u.Present) {
			c.present += u.Present[id]
		}
		if id < len(u.Null) {
			c.null += u.Null[id]
		}
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
