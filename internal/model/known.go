package model

// This file handles missing columns of sparse text formats, if the Schema declares that columns can be missing. It
// determines which columns most events have, and which of these columns are absent from an event.

import (
	"slices"

	"blankout/internal/event"
)

// ColumnUse counts the events in which each column was present. The zero value is ready for use and never forgets.
type ColumnUse struct {
	Events  uint64
	Columns []uint32 // the counted columns, ascending
	Present []uint64 // number of events with the column
	// Memory is the number of events that are remembered: counts are halved when Events reaches 2 Memory. 0 remembers
	// all events.
	Memory uint64
}

// usualColumns is the largest number of columns that are counted.
const usualColumns = 4096

// Count counts an event of a Schema with the given fields.
func (u *ColumnUse) Count(fields []event.Field, e *event.Example) {
	u.Events++
	i := 0
	for j, column := range e.Features.Index {
		if isCross(fields, e, j) {
			continue
		}
		for i < len(u.Columns) && u.Columns[i] < column {
			i++
		}
		if i == len(u.Columns) || u.Columns[i] > column {
			if len(u.Columns) >= usualColumns {
				continue
			}
			u.Columns, u.Present = slices.Insert(u.Columns, i, column), slices.Insert(u.Present, i, 0)
		}
		u.Present[i]++
	}
	if u.Memory == 0 || u.Events < 2*u.Memory {
		return
	}
	u.Events /= 2
	kept := 0
	for i, n := range u.Present {
		if n /= 2; n > 0 { // otherwise the column is removed
			u.Columns[kept], u.Present[kept] = u.Columns[i], n
			kept++
		}
	}
	u.Columns, u.Present = u.Columns[:kept], u.Present[:kept]
}

// Review returns a Missing with the policies of was and the columns that nine of ten events have. It returns was if
// nothing has changed.
func (u *ColumnUse) Review(was *Missing) *Missing {
	var usual []uint32
	for i, n := range u.Present {
		if 10*n >= 9*u.Events && !was.ReadsZero(u.Columns[i]) {
			usual = append(usual, u.Columns[i])
		}
	}
	if slices.Equal(usual, was.Columns) {
		return was
	}
	m := *was
	m.Columns = usual
	return &m
}

// isCross reports whether entry j of an event is a product of fields.
func isCross(fields []event.Field, e *event.Example, j int) bool {
	return j < len(e.Field) && int(e.Field[j]) < len(fields) && fields[e.Field[j]].Kind == event.Cross
}

// countMissingColumns is CountMissing for an event of a sparse text format. It counts the features of the event, the
// columns in Zeros, and the usual columns that are absent.
func (m *Missing) countMissingColumns(fields []event.Field, e *event.Example) (k MissingCount) {
	for j := range e.Features.Index {
		if !isCross(fields, e, j) {
			k.Named++
		}
	}
	k.Null = float64(len(e.MissingColumns))
	m.absentColumns(e, func(uint32) { k.Absent++ })
	m.absentZeros(e, func(uint32) { k.Named++ })
	return k
}

// AppendZeros returns the standardized features x of an event, plus the Zeros columns that the event does not have,
// with the value 0. So these columns can die like other features. The result is in the memory of room, or is x if there
// are no Zeros.
func (h *Head) AppendZeros(e *event.Example, x, room event.Vec) event.Vec {
	m := h.Missing
	if m == nil || len(m.Zeros) == 0 || !e.IsSparse(h.Schema.Fields) {
		return x
	}
	room.Index, room.Value = room.Index[:0], room.Value[:0]
	from := 0
	of := event.Example{Features: x, MissingColumns: e.MissingColumns}
	m.absentZeros(&of, func(column uint32) {
		to, _ := slices.BinarySearch(x.Index, column)
		room.Index, room.Value = append(append(room.Index, x.Index[from:to]...), column), append(append(room.Value, x.Value[from:to]...), 0)
		from = to
	})
	room.Index, room.Value = append(room.Index, x.Index[from:]...), append(room.Value, x.Value[from:]...)
	return room
}

// absentZeros calls f with each column in Zeros that is absent from an event and not declared missing.
func (m *Missing) absentZeros(e *event.Example, f func(column uint32)) {
	if m != nil {
		eachAbsent(m.Zeros, e, f)
	}
}

// absentColumns calls f with each usual column that is absent from an event and not declared missing.
func (m *Missing) absentColumns(e *event.Example, f func(column uint32)) {
	if m != nil {
		eachAbsent(m.Columns, e, f)
	}
}

func eachAbsent(columns []uint32, e *event.Example, f func(column uint32)) {
	i, index := 0, e.Features.Index
	for _, column := range columns {
		for i < len(index) && index[i] < column {
			i++
		}
		if (i == len(index) || index[i] > column) && !e.MissesColumn(column) {
			f(column)
		}
	}
}

// hasColumn reports whether an event has a feature in a column.
func hasColumn(e *event.Example, column uint32) bool {
	_, holds := slices.BinarySearch(e.Features.Index, column)
	return holds
}
