// Package silent learns as if features died and did not say so (loss.Silent): a dead feature reads some neutral
// value, and what is left arrives as it is. Values says what a dead number reads, Event is an event as a level of
// silent noise sees it, with its step of AdaGrad, and Mask kills features of an event.
package silent

import (
	"fmt"
	"slices"
	"strings"

	"blankout/internal/coder"
	"blankout/internal/model"
)

// Choice says what a dead number reads.
type Choice string

// The choices.
const (
	// Auto is Zero for a column of which at least a hundredth of the readings were 0, else Mean.
	Auto Choice = "auto"
	// Mean is the mean of the readings as they came, before any transform.
	Mean Choice = "mean"
	// Zero is the number 0 as it comes.
	Zero Choice = "zero"
)

// ParseChoice reads auto, mean or zero.
func ParseChoice(s string) (Choice, error) {
	choices := []string{string(Auto), string(Mean), string(Zero)}
	if !slices.Contains(choices, s) {
		return "", fmt.Errorf("silent_value %q: want one of %s", s, strings.Join(choices, ", "))
	}
	return Choice(s), nil
}

// Values knows what dead numbers read, by column, in the unit in which they come. The columns of everything else, words
// and categories, read 0 when they are dead: they are not sent. It is not safe for concurrent use.
type Values struct {
	choice  Choice
	columns []uint32 // ascending
	of      []readings
}

// readings are those of a column.
type readings struct {
	count, zeros, mean float64
	dead               float64 // what it reads when it is dead, renewed as model.Renews says
	zero               bool    // that is 0, and not the mean
}

// zeroShare is the share of zeros from which a dead number reads 0.
const zeroShare = 0.01

// NewValues returns Values without columns.
func NewValues(c Choice) *Values { return &Values{choice: c} }

// Len returns the number of columns.
func (v *Values) Len() int { return len(v.columns) }

// Column returns the i-th column and what it reads when it is dead.
func (v *Values) Column(i int) (column uint32, dead float64) { return v.columns[i], v.of[i].dead }

// Walk finds columns in ascending order. It is valid until Values meets a new column.
type Walk struct {
	v  *Values
	at int
}

// Walk begins at the first column.
func (v *Values) Walk() Walk { return Walk{v: v} }

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
	w.v.of[w.at].read(w.v.choice, x)
}

func (r *readings) read(c Choice, x float64) {
	r.count++
	r.mean += (x - r.mean) / r.count
	if x == 0 {
		r.zeros++
	}
	if model.Renews(r.count) {
		r.renew(c)
	}
}

func (r *readings) renew(c Choice) {
	r.dead, r.zero = r.mean, false
	if c == Zero || c == Auto && r.zeros >= zeroShare*r.count {
		r.dead, r.zero = 0, true
	}
}

// Forget leaves out the columns that gone says are numbers no more.
func (v *Values) Forget(gone []uint32) {
	for _, column := range gone {
		if i, known := slices.BinarySearch(v.columns, column); known {
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
	v.of = v.of[:0]
	for ; len(numbers) > 0; numbers = numbers[5:] {
		v.of = append(v.of, readings{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4] != 0})
	}
}
