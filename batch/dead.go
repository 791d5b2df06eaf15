package batch

// This file determines the value that a feature reads after it has failed silently (a dead feature).

import (
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
)

// DeadValues returns the values of dead numbers in the raw Data d, or nil if no column is numeric. A column of a sparse
// format counts as numeric if at least 90 % of the events have it.
func (d *Data) DeadValues() *model.Dead {
	of := make([]model.ColumnReadings, d.Columns())
	for i := range d.Rows() {
		row := d.Row(i)
		for j, c := range row.Index {
			of[c].Read(row.At(j))
		}
	}
	var all model.Zeros
	var numbers []int // compact columns
	for c := range of {
		r, rows := &of[c], float64(d.Rows())
		switch kind := d.Schema.Fields[d.fields.of(d.Column(c))].Kind; {
		case kind == event.Numeric:
		case kind != event.Sparse || 10*r.All < 9*rows:
			continue
		case !d.Schema.ColumnsGoMissing(): // an absent value is a 0
			*r = model.ColumnReadings{Zeros: model.Zeros{All: rows, Zero: r.Zero + rows - r.All}, Mean: r.Mean * r.All / rows}
		}
		all.Add(r.Zeros)
		numbers = append(numbers, c)
	}
	if numbers == nil {
		return nil
	}
	var dead model.Dead
	for _, c := range numbers {
		reads, _ := of[c].Dead(all)
		dead.Columns, dead.Reads = append(dead.Columns, d.Column(c)), append(dead.Reads, reads)
	}
	return &dead
}

// WithDead returns d with the value that each column of the Schema reads after a silent failure, see SetDead. A spline
// column that would not be 0 after the failure of an event's number becomes an explicit zero of that event.
func (d *Data) WithDead(dead func(column uint32) float64) (*Data, error) {
	reads := map[uint32][]uint32{} // spline columns by the column of their number
	for _, column := range d.columns[d.Features():] {
		if source := d.splines.Source(column); dead(column) != 0 {
			reads[source] = append(reads[source], column)
		}
	}
	if len(reads) > 0 {
		var err error
		if d, err = d.changed(d.splines, func(x event.Vec) event.Vec {
			for _, number := range x.Index { // the columns of splines come after all numbers
				for _, column := range reads[number] {
					if at, held := slices.BinarySearch(x.Index, column); !held {
						x.Index, x.Value = slices.Insert(x.Index, at, column), slices.Insert(x.Value, at, 0)
					}
				}
			}
			return x
		}); err != nil {
			return nil, err
		}
	}
	d.SetDead(dead)
	return d, nil
}
