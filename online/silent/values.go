// Package silent learns as if features died and did not say so (loss.Silent): a dead feature reads some neutral
// value, and what is left arrives as it is. Values says what a dead number reads, Event is an event as a level of
// silent noise sees it, with its step of AdaGrad, and Mask kills features of an event.
package silent

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
)

// Values knows what dead numbers read, by column, in the unit in which they come. The columns of everything else, words
// and categories, read 0 when they are dead: they are not sent. It is not safe for concurrent use.
type Values struct {
	choice  model.SilentValue
	columns []uint32 // ascending
	of      []readings
	all     model.Zeros
}

// readings are those of a column.
type readings struct {
	count, zeros, mean float64
	dead               float64 // what it reads when it is dead, renewed as model.Renews says
	zero               bool    // that is 0, and not the mean
}

// NewValues returns Values without columns.
func NewValues(c model.SilentValue) *Values { return &Values{choice: c} }

// Len returns the number of columns.
func (v *Values) Len() int { return len(v.columns) }

// Dead returns what the columns read when they are dead, nil where there are none.
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

// Walk finds columns in ascending order. It is valid until Values meets a new column.
type Walk struct {
	v  *Values
	at int
}

// Walk begins at the first column.
func (v *Values) Walk() Walk { return Walk{v: v} }

// Standardized is Walk.Standardized of any column. A hat is that of what its number reads.
func (v *Values) Standardized(s *model.Scaler, column uint32, stats []float64) float64 {
	at, known := slices.BinarySearch(v.columns, s.Curves.Source(column))
	if column < model.FirstHat {
		w := Walk{v, at}
		return w.Standardized(s, column, stats)
	}
	if !known {
		return 0
	}
	return s.Curves.At(column, v.of[at].dead)
}

// Standardized returns what a column reads when it is dead, as its statistics standardize it. The mean of a column that is
// not transformed is its center, 0. So is what a column reads of which no number was read.
func (w *Walk) Standardized(s *model.Scaler, column uint32, stats []float64) float64 {
	if !w.find(column) {
		return 0
	}
	if r := &w.v.of[w.at]; r.zero || s.Standardization(stats).Unit != 0 {
		return s.Apply(stats, r.dead)
	}
	return 0
}

// Raw returns what a column reads when it is dead as it comes, or x where no number of it was read.
func (w *Walk) Raw(column uint32, x float64) float64 {
	if w.find(column) {
		return w.v.of[w.at].dead
	}
	return x
}

// find moves on to a column, which must not be before the one that was looked for last.
func (w *Walk) find(column uint32) bool {
	columns := w.v.columns
	for w.at < len(columns) && columns[w.at] < column {
		w.at++
	}
	return w.at < len(columns) && columns[w.at] == column
}

// Read takes up a reading of a column. Those of an event come in ascending order of their columns, along one Walk.
func (w *Walk) Read(column uint32, x float64) {
	if !w.find(column) {
		w.v.columns = slices.Insert(w.v.columns, w.at, column)
		w.v.of = slices.Insert(w.v.of, w.at, readings{})
	}
	v, r, zero := w.v, &w.v.of[w.at], 0.0
	if x == 0 {
		zero = 1
	}
	v.all.Add(1, zero)
	r.count, r.zeros = r.count+1, r.zeros+zero
	r.mean += (x - r.mean) / r.count
	if !model.Renews(r.count) {
		return
	}
	r.dead, r.zero = r.mean, false
	if v.choice.Zero(model.Zeros{Readings: r.count, Zeros: r.zeros}, v.all) {
		r.dead, r.zero = 0, true
	}
}

// Forget leaves out the columns that gone says are numbers no more.
func (v *Values) Forget(gone []uint32) {
	for _, column := range gone {
		if i, known := slices.BinarySearch(v.columns, column); known {
			v.all.Add(-v.of[i].count, -v.of[i].zeros)
			v.columns, v.of = slices.Delete(v.columns, i, i+1), slices.Delete(v.of, i, i+1)
		}
	}
}

// State walks the state.
func (v *Values) State(c *coder.Coder) {
	numbers := make([]float64, 0, 5*len(v.of))
	for _, r := range v.of {
		zero := 0.0
		if r.zero {
			zero = 1
		}
		numbers = append(numbers, r.count, r.zeros, r.mean, r.dead, zero)
	}
	c.Uint32s(&v.columns)
	c.Floats(&numbers)
	if c.Failed = c.Failed || len(numbers) != 5*len(v.columns) || !slices.IsSorted(v.columns); c.Failed {
		return
	}
	v.of, v.all = v.of[:0], model.Zeros{}
	for ; len(numbers) > 0; numbers = numbers[5:] {
		v.of = append(v.of, readings{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4] != 0})
		v.all.Add(numbers[0], numbers[1])
	}
}
