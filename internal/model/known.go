package model

// This file handles missing columns of sparse text formats, if the Schema declares that columns can be missing. It
// determines which columns events usually have, and which of these columns are absent from an event.

import (
	"math"
	"slices"

	"blankout/internal/event"
)

// ColumnUse counts the events in which each column was present, and keeps the least reading and the mean reading of each
// column. The zero value is ready for use and never forgets.
type ColumnUse struct {
	Events  uint64
	Columns []uint32 // the counted columns, ascending
	Present []uint64 // number of events with the column
	// Least has the smallest absolute reading of each column, 0 if the column has readings of both signs. Mean has the
	// mean of the absolute readings.
	Least, Mean []float64
	// Memory is the number of events that are remembered: counts are halved when Events reaches 2 Memory. 0 remembers
	// all events.
	Memory uint64
}

// A column omits zeros if its least reading is below the fraction closeToZero of the mean reading. Most columns omit zeros
// already if it is below closeTogether, or somewhat more for few readings: fewReadings divided by their number.
const closeToZero, closeTogether, fewReadings = 0.05, 0.1, 2

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
		x := e.Features.Value[j]
		if i == len(u.Columns) || u.Columns[i] > column {
			if len(u.Columns) >= usualColumns {
				continue
			}
			u.Columns, u.Present = slices.Insert(u.Columns, i, column), slices.Insert(u.Present, i, 0)
			u.Least, u.Mean = slices.Insert(u.Least, i, x), slices.Insert(u.Mean, i, 0)
		}
		u.Present[i]++
		switch least := u.Least[i]; {
		case math.Signbit(x) != math.Signbit(least):
			u.Least[i] = 0
		case math.Abs(x) < math.Abs(least):
			u.Least[i] = x
		}
		u.Mean[i] += (math.Abs(x) - u.Mean[i]) / float64(u.Present[i])
	}
	if u.Memory == 0 || u.Events < 2*u.Memory {
		return
	}
	u.Events /= 2
	kept := 0
	for i, n := range u.Present {
		if n /= 2; n > 0 { // otherwise the column is removed
			u.Columns[kept], u.Present[kept], u.Least[kept], u.Mean[kept] = u.Columns[i], n, u.Least[i], u.Mean[i]
			kept++
		}
	}
	u.Columns, u.Present, u.Least, u.Mean = u.Columns[:kept], u.Present[:kept], u.Least[:kept], u.Mean[:kept]
}

// Review returns a Missing with the policies of was and the columns whose absence is a loss. These are the columns that
// nine of ten events have, and the columns that a tenth of the events have. A column of the second kind does not count
// if it, or most of its kind, seem to omit zeros. Review returns was if nothing has changed.
func (u *ColumnUse) Review(was *Missing) *Missing {
	var usual []uint32
	rare, omitting := 0, 0 // columns that a tenth of the events have, but not nine tenths, and those of them that omit zeros
	for i, n := range u.Present {
		if 10*n >= u.Events && 10*n < 9*u.Events {
			if rare++; u.omitsZeros(i, closeTogether+fewReadings/float64(n)) {
				omitting++
			}
		}
	}
	for i, n := range u.Present {
		if 10*n >= 9*u.Events && !was.ReadsZero(u.Columns[i]) || 10*n >= u.Events && 2*omitting < rare && !u.omitsZeros(i, closeToZero) {
			usual = append(usual, u.Columns[i])
		}
	}
	if slices.Equal(usual, was.Columns) {
		return was
	}
	m := *was
	m.Columns = usual
	return m.WithZeros(was.Zeros)
}

// omitsZeros reports whether the readings of a column look like those of a format that omits zeros, such as pixels and
// one-hot categories: they are all equal, or they are never 0 but come close to 0 from one side. The least reading must
// then be below the fraction close of the mean.
func (u *ColumnUse) omitsZeros(i int, close float64) bool {
	least := math.Abs(u.Least[i])
	return least > 0 && (least < close*u.Mean[i] || least == u.Mean[i])
}

// isCross reports whether entry j of an event is a product of fields.
func isCross(fields []event.Field, e *event.Example, j int) bool {
	return j < len(e.Field) && int(e.Field[j]) < len(fields) && fields[e.Field[j]].Kind == event.Cross
}

// CountColumns is CountMissing for an event of a sparse text format whose columns can be declared missing. It counts the
// features of the event, the columns in Zeros, and the usual columns that are absent.
func (m *Missing) CountColumns(fields []event.Field, e *event.Example) (k MissingCount) {
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
