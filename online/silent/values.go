// Package silent trains a noise level for features that are silently missing (loss.Silent). Such a dead feature has a
// neutral value, and the event does not declare it missing. Values estimates these neutral values, Event makes the
// level's step of AdaGrad for an event, and Mask draws dead features.
package silent

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
)

// Values has, by column, the raw values that numeric columns have when they are dead (silently missing). The columns of
// words and categories have the value 0 when they are dead, because a sender omits them. Values is not safe for
// concurrent use.
type Values struct {
	columns []uint32 // columns in ascending order
	of      []readings
	all     model.Zeros
}

// readings holds the readings of a column.
type readings struct {
	model.ColumnReadings
	dead float64 // value when silently missing, updated when model.Renews returns true
	zero bool    // the value is 0; otherwise it is the mean
}

// Len returns the number of columns.
func (v *Values) Len() int { return len(v.columns) }

// Dead returns the values of dead columns, or nil if there are no columns.
func (v *Values) Dead() *model.Dead {
	if len(v.columns) == 0 {
		return nil
	}
	d := &model.Dead{Columns: slices.Clone(v.columns)}
	for i := range v.of {
		d.Reads = append(d.Reads, v.of[i].dead)
	}
	return d
}

// Walk looks up columns in ascending order. It is valid until a column is added to its Values.
type Walk struct {
	v  *Values
	at int
}

// Walk returns a Walk that starts before the first column.
func (v *Values) Walk() Walk { return Walk{v: v} }

// Standardized is Walk.Standardized for columns in any order. For a spline column, the dead value of its number
// determines the result.
func (v *Values) Standardized(s *model.Scaler, column uint32, stats []float64) float64 {
	at, known := slices.BinarySearch(v.columns, s.Splines.Source(column))
	if column < model.FirstBasisColumn {
		w := Walk{v, at}
		return w.Standardized(s, column, stats)
	}
	if !known {
		return 0
	}
	return s.Splines.At(column, v.of[at].dead)
}

// Standardized returns the dead value of a column, standardized with the statistics of the column. The result is 0 if
// the dead value is the mean of a column that is not transformed, or if the column has no readings.
func (w *Walk) Standardized(s *model.Scaler, column uint32, stats []float64) float64 {
	if !w.find(column) {
		return 0
	}
	if r := &w.v.of[w.at]; r.zero || s.Standardization(stats).Unit != 0 {
		return s.Apply(stats, r.dead)
	}
	return 0
}

// Raw returns the raw dead value of a column, or x if the column has no readings.
func (w *Walk) Raw(column uint32, x float64) float64 {
	if w.find(column) {
		return w.v.of[w.at].dead
	}
	return x
}

// find moves to a column, which must not be before the column of the previous call. It reports whether the column
// exists.
func (w *Walk) find(column uint32) bool {
	columns := w.v.columns
	for w.at < len(columns) && columns[w.at] < column {
		w.at++
	}
	return w.at < len(columns) && columns[w.at] == column
}

// Read adds a reading of a column. Use a new Walk for each event, and add the readings of the event in ascending order
// of columns.
func (w *Walk) Read(column uint32, x float64) {
	if !w.find(column) {
		w.v.columns = slices.Insert(w.v.columns, w.at, column)
		w.v.of = slices.Insert(w.v.of, w.at, readings{})
	}
	r := &w.v.of[w.at]
	before := r.Zero
	r.Read(x)
	if w.v.all.Add(model.Zeros{All: 1, Zero: r.Zero - before}); model.Renews(r.All) {
		r.dead, r.zero = r.Dead(w.v.all)
	}
}

// Forget removes the columns in gone, which are no longer numeric.
func (v *Values) Forget(gone []uint32) {
	for _, column := range gone {
		if i, known := slices.BinarySearch(v.columns, column); known {
			v.all.Add(model.Zeros{All: -v.of[i].All, Zero: -v.of[i].Zero})
			v.columns, v.of = slices.Delete(v.columns, i, i+1), slices.Delete(v.of, i, i+1)
		}
	}
}

// State encodes or decodes the state.
func (v *Values) State(c *coder.Coder) {
	numbers := make([]float64, 0, 5*len(v.of))
	for _, r := range v.of {
		zero := 0.0
		if r.zero {
			zero = 1
		}
		numbers = append(numbers, r.All, r.Zero, r.Mean, r.dead, zero)
	}
	c.Uint32s(&v.columns)
	c.Floats(&numbers)
	if c.Failed = c.Failed || len(numbers) != 5*len(v.columns) || !slices.IsSorted(v.columns); c.Failed {
		return
	}
	v.of, v.all = v.of[:0], model.Zeros{}
	for ; len(numbers) > 0; numbers = numbers[5:] {
		v.of = append(v.of, readings{model.ColumnReadings{Zeros: model.Zeros{All: numbers[0], Zero: numbers[1]}, Mean: numbers[2]}, numbers[3], numbers[4] != 0})
		v.all.Add(v.of[len(v.of)-1].Zeros)
	}
}
