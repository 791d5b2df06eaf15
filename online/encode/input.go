// Package encode converts an event to the form that the mixed learners (experts) use: the rows of its features and
// their standardized values.
package encode

import (
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/scaling"
)

// Input is an encoded event. After encoding, experts may change only their parts of its rows. The Input is valid until
// the next event is encoded.
type Input struct {
	Event   *event.Example // detected faulty readings are declared missing
	Number  uint64         // number of the event, from 1
	Columns []uint32       // columns of the features, in the order of Rows
	// Rows has the row of each feature and, as its last element, the row of the intercepts. X has the standardized
	// values. The last element of X is 1, or 0 if there is no intercept. Features without a row are omitted, because
	// they do not change a score.
	Rows [][]float64
	X    []float64
	Raw  []float64 // raw values as they arrived, borrowed
	// Dead has the standardized values that the features have when silently missing, and DeadRaw has their raw values.
	// Units has the index of the unit (group or field) with which each feature is missing. All three are filled only on
	// request.
	Dead, DeadRaw []float64
	Units         []int32
	// If features are dropped together, Fields has the field of each column, and Splines has the presence columns.
	// Fields is empty for a sparse text format. Rates has the rates at which groups are missing; nil means that the
	// rates have not changed.
	Fields  []uint16
	Splines *model.Splines
	Rates   map[string]float64
	// Pairs lists the features that are missing together, as two indices in Rows: of a numeric column and of its
	// presence column.
	Pairs [][2]int32
	// Missing counts the missing fields. Range is the range of the missing fraction, or 0 if nothing is missing. Scale
	// is the factor that multiplies the features' part of a score to make up for missing features.
	Missing model.MissingCount
	Range   int
	Scale   float64
	// Moves lists the changes of scales that experts must apply before they learn the event. Rescales reports whether X
	// will change when the new scales take effect.
	Moves    []Move
	Rescales bool
	room     []uint32  // reusable memory for Columns
	roomRaw  []float64 // reusable memory for Raw
}

// Features returns the number of features.
func (in *Input) Features() int { return len(in.X) - 1 }

// Move is a change of a column's scale. Scores stay the same if the weights in Row are multiplied by Ratio and the
// intercepts increase by Shift times the old weights. Keep is the factor of the accumulators.
type Move struct {
	Row                []float64
	Ratio, Shift, Keep float64
	Column             uint32
	Numeric            bool // the column is numeric, centered and scaled
	Was, Is            model.Standardization
	At                 int // index of the column in the Input
	center, inverse    float64
}

// Mask sets to to a copy of the Input without the missing features. dead is by index in Columns. The caller must set
// the field Missing of the copy. The copy can be scored but not learned, because its Pairs are not set.
func (in *Input) Mask(dead []bool, to *Input) {
	n, left := in.Features(), 0
	to.reset(in.Event, in.Number, n)
	columns, rows, xs, raw := slices.Grow(to.room[:0], n)[:n], to.Rows[:n], to.X[:n], slices.Grow(to.roomRaw[:0], n)[:n]
	for i, gone := range dead[:n] { // avoids an unpredictable branch
		columns[left], rows[left], xs[left], raw[left] = in.Columns[i], in.Rows[i], in.X[i], in.Raw[i]
		if !gone {
			left++
		}
	}
	to.Columns, to.Rows, to.X, to.Raw = columns[:left], rows[:left], xs[:left], raw[:left]
	to.keep()
	to.close(in.Rows[n], in.X[n])
}

// reset prepares the Input for an event with the given number of features.
func (in *Input) reset(e *event.Example, number uint64, features int) {
	in.Event, in.Number, in.Moves, in.Pairs, in.Rates, in.Rescales = e, number, in.Moves[:0], in.Pairs[:0], nil, false
	in.Rows = slices.Grow(in.Rows[:0], features+1)
	in.X = slices.Grow(in.X[:0], features+1)[:features]
}

// own gives Columns and Raw memory that belongs to the Input. In an observed event they are slices that belong to
// Scaling.
func (in *Input) own() { in.Columns, in.Raw = in.room[:0], in.roomRaw[:0] }

func (in *Input) keep() { in.room, in.roomRaw = in.Columns, in.Raw }

// add appends a feature.
func (in *Input) add(column uint32, row []float64, x, raw float64) {
	in.Columns, in.Rows, in.X, in.Raw = append(in.Columns, column), append(in.Rows, row), append(in.X, x), append(in.Raw, raw)
}

// close appends the row of the intercepts, with the value x.
func (in *Input) close(intercepts []float64, x float64) {
	in.Rows, in.X = append(in.Rows, intercepts), append(in.X, x)
}

// Numbers appends the numeric features of a labeled event to read. Numeric features are the centered and scaled columns
// and, if columns can be missing, the columns that are 0 if absent. Call Numbers before Review.
func (n *Encoder) Numbers(in *Input, read *scaling.Read) {
	of, unfilled := n.kinds(in), n.Scaling.Scaler.Unfilled
	if in.Event.Field == nil && len(of.dense) == 0 && !unfilled {
		return // the event has only categories
	}
	for i, column := range in.Columns[:in.Features()] {
		if column >= model.FirstBasisColumn {
			return // spline columns have no raw values
		}
		switch t, field := of.treat(i); {
		case t == scaling.Numeric:
			if int(field) >= len(n.Scaling.Kinds) || n.Scaling.Kinds[field] != event.Numeric {
				field = 0
			}
			read.Values = append(read.Values, scaling.Value{Column: column, Field: field, X: in.X[i], Raw: in.Raw[i]})
		case t == scaling.Spread && unfilled:
			read.Spread = append(read.Spread, scaling.Value{Column: column, X: in.X[i]})
		}
	}
}

// WithZeros returns a copy of an event in to that also lists the absent columns that are known to be 0. Masks can then
// remove these columns. If there are no such columns, it returns in.
func (n *Encoder) WithZeros(in, to *Input) *Input {
	m := n.Fields.Missing
	if !m.ColumnsCanBeMissing || len(m.Zeros) == 0 || !in.Event.IsSparse(n.schema.Fields) {
		return in
	}
	to.reset(in.Event, in.Number, 0)
	to.own()
	to.Missing, to.Range, to.Scale = in.Missing, in.Range, in.Scale
	at, features := 0, in.Features()
	for _, column := range m.Zeros {
		for ; at < features && in.Columns[at] < column; at++ {
			to.add(in.Columns[at], in.Rows[at], in.X[at], in.Raw[at])
		}
		if at < features && in.Columns[at] == column || in.Event.MissesColumn(column) {
			continue
		}
		if row := n.Table.Row(column); row != nil {
			to.add(column, row, 0, 0)
		}
	}
	for ; at < features; at++ {
		to.add(in.Columns[at], in.Rows[at], in.X[at], in.Raw[at])
	}
	to.keep()
	to.close(in.Rows[features], in.X[features])
	return to
}
