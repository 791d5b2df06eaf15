// Package encode converts an event to the form that experts use: the rows of its features and their standardized
// values.
package encode

import (
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/scaling"
)

// Input is an encoded event. It is filled once. Experts may then change their parts of its rows, and nothing else. The
// caller borrows it until the next event.
type Input struct {
	Event   *event.Example // with detected readings declared missing
	Number  uint64         // of the event, from 1
	Columns []uint32       // of the features, in the order of Rows
	// Rows has the row of each feature, and the intercepts last. X has the standardized values; that of the intercepts
	// is 1, or 0 if there is no intercept. Features without a row are left out, because they add nothing to a score.
	Rows [][]float64
	X    []float64
	Raw  []float64 // the values as they arrived; borrowed
	// Dead has the standardized values of the features when they have died silently, DeadRaw the raw ones, and Units
	// the unit that each feature dies with. They are filled on request.
	Dead, DeadRaw []float64
	Units         []int32
	// Fields has the field of each column, and Splines the presence columns, if features die together. Fields is empty
	// for a sparse text format. Rates has the rates at which groups are missing, or is nil if they are unchanged.
	Fields  []uint16
	Splines *model.Splines
	Rates   map[string]float64
	// Pairs lists features that die together, by index in Rows: a number and its presence column.
	Pairs [][2]int32
	// Missing counts the missing fields. Range is the range of mixture weights, 0 if nothing is missing. Scale is the
	// factor of the features.
	Missing model.MissingCount
	Range   int
	Scale   float64
	// Moves lists the changes of scales that experts must apply before they learn the event. Rescales means that X will
	// change with the scales.
	Moves    []Move
	Rescales bool
	room     []uint32  // scratch for Columns
	roomRaw  []float64 // scratch for Raw
}

// Features returns the number of features.
func (in *Input) Features() int { return len(in.X) - 1 }

// Move is a change of a column's scale. All scores stay the same if the row's weights are multiplied by Ratio, and the
// intercepts grow by Shift times the old weights. Keep is the factor of the accumulators.
type Move struct {
	Row                []float64
	Ratio, Shift, Keep float64
	Column             uint32
	Numeric            bool // the column has numbers that are centered and scaled
	Was, Is            model.Standardization
	at                 int // index of the column in the event
	center, inverse    float64
}

// Without fills to with an event without its dead features; dead is by index in Columns. The caller sets its Missing. The
// copy can be scored but not learned, because it has no Pairs.
func (in *Input) Without(dead []bool, to *Input) {
	n, left := in.Features(), 0
	to.reset(in.Event, in.Number, n)
	columns, rows, xs, raw := slices.Grow(to.room[:0], n)[:n], to.Rows[:n], to.X[:n], slices.Grow(to.roomRaw[:0], n)[:n]
	for i, gone := range dead[:n] { // without an unpredictable branch
		columns[left], rows[left], xs[left], raw[left] = in.Columns[i], in.Rows[i], in.X[i], in.Raw[i]
		if !gone {
			left++
		}
	}
	to.Columns, to.Rows, to.X, to.Raw = columns[:left], rows[:left], xs[:left], raw[:left]
	to.keep()
	to.close(in.Rows[n], in.X[n])
}

// reset makes memory for so many features.
func (in *Input) reset(e *event.Example, number uint64, features int) {
	in.Event, in.Number, in.Moves, in.Pairs, in.Rates, in.Rescales = e, number, in.Moves[:0], in.Pairs[:0], nil, false
	in.Rows = slices.Grow(in.Rows[:0], features+1)
	in.X = slices.Grow(in.X[:0], features+1)[:features]
}

// own gives Columns and Raw memory of their own, because those of an observed event belong to Scaling. keep saves that
// memory for later.
func (in *Input) own() { in.Columns, in.Raw = in.room[:0], in.roomRaw[:0] }

func (in *Input) keep() { in.room, in.roomRaw = in.Columns, in.Raw }

// add appends a feature.
func (in *Input) add(column uint32, row []float64, x, raw float64) {
	in.Columns, in.Rows, in.X, in.Raw = append(in.Columns, column), append(in.Rows, row), append(in.X, x), append(in.Raw, raw)
}

// close appends the intercepts, with their value.
func (in *Input) close(intercepts []float64, x float64) {
	in.Rows, in.X = append(in.Rows, intercepts), append(in.X, x)
}

// Numbers appends the numbers of a labeled event to read: those that are centered and scaled and, if columns can be
// missing, those that are 0 when absent. Call it before Review.
func (n *Encoder) Numbers(in *Input, read *scaling.Read) {
	of, unfilled := n.kinds(in), n.Scaling.Scaler.Unfilled
	if in.Event.Field == nil && len(of.dense) == 0 && !unfilled {
		return // only words
	}
	for i, column := range in.Columns[:in.Features()] {
		if column >= model.FirstBasisColumn {
			return // spline columns have no values of their own
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

// WithZeros returns an event with the columns that are known to be 0 because it leaves them out, so that masks can
// remove them. The result uses the memory of to, or is in itself if there are none.
func (n *Encoder) WithZeros(in, to *Input) *Input {
	m := n.Fields.Missing
	if !m.Known || len(m.Zeros) == 0 || !in.Event.IsSparse(n.schema.Fields) {
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
