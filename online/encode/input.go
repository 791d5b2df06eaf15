// Package encode makes of an event what learns and answers: the rows of its features and their standardized values.
package encode

import (
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/scaling"
)

// Input is an event, encoded. It is filled once, read-only afterwards but for the rows that experts own parts of, and
// borrowed until the next event.
type Input struct {
	Event   *event.Example // with what tells nothing declared missing
	Number  uint64         // of the event, from 1 on
	Columns []uint32       // of its features, in the order of Rows
	// Rows are those of the features and last that of the intercepts, X the standardized values, 1 for the intercepts, 0 where there are none.
	// A feature that has no row adds nothing and is left out.
	Rows [][]float64
	X    []float64
	Raw  []float64 // the values as they came, borrowed
	// Dead is what the features read when they have died silently, DeadRaw that as it comes, and Units what they die with,
	// where that is wanted.
	Dead, DeadRaw []float64
	Units         []int32
	// Fields are those of the columns, none of an event of a sparse text format, and Curves the numbers that have further
	// columns, where it is wanted to be known which features die together. Rates are how often groups are missing, nil where
	// that is as before.
	Fields []uint16
	Curves *model.Curves
	Rates  map[string]float64
	// Pairs are features that die together, as places in Rows: a number, and behind all numbers that it is there.
	Pairs [][2]int32
	// Lack is what the event lacks of the fields that it usually has, Range that of the mixture weights that answer it (0 if
	// it lacks nothing), Scale what its features count by.
	Lack  model.Lack
	Range int
	Scale float64
	// Moves are what experts must do with their weights before they learn the event. Rescales says that X, by which the event is
	// scored, is by scales that are then others.
	Moves    []Move
	Rescales bool
	room     []uint32  // for Columns
	roomRaw  []float64 // for Raw
}

// Features returns how many of the rows are those of features.
func (in *Input) Features() int { return len(in.X) - 1 }

// Move says that the scale of a row's column has changed. The score of no event changes if its weights are multiplied
// by Ratio and those of the intercepts grow by the old weights times Shift. Keep is what is left of the sums of
// squared gradients.
type Move struct {
	Row                []float64
	Ratio, Shift, Keep float64
	Column             uint32
	Numeric            bool // the column is of numbers that are centered and scaled
	Was, Is            model.Standardization
	at                 int // where the column stands in the event
	center, inverse    float64
}

// Without fills to with what is left of an event where some features are gone: those that are dead, by their
// place in Columns. Its Lack is what the event then lacks. It is to be scored and not to be learned: it has no Pairs.
func (in *Input) Without(dead []bool, to *Input) {
	n, left := in.Features(), 0
	to.reset(in.Event, in.Number, n)
	columns, rows, xs, raw := slices.Grow(to.room[:0], n)[:n], to.Rows[:n], to.X[:n], slices.Grow(to.roomRaw[:0], n)[:n]
	for i, gone := range dead[:n] { // no branch that nobody can foretell
		columns[left], rows[left], xs[left], raw[left] = in.Columns[i], in.Rows[i], in.X[i], in.Raw[i]
		if !gone {
			left++
		}
	}
	to.Columns, to.Rows, to.X, to.Raw = columns[:left], rows[:left], xs[:left], raw[:left]
	to.keep()
	to.close(in.Rows[n], in.X[n])
}

// reset makes room for so many features.
func (in *Input) reset(e *event.Example, number uint64, features int) {
	in.Event, in.Number, in.Moves, in.Pairs, in.Rates, in.Rescales = e, number, in.Moves[:0], in.Pairs[:0], nil, false
	in.Rows = slices.Grow(in.Rows[:0], features+1)
	in.X = slices.Grow(in.X[:0], features+1)[:features]
}

// own makes Columns and Raw memory of its own, to which features are added: not that of an observed event, which is the
// Scaling's. Keep keeps the memory for later.
func (in *Input) own() { in.Columns, in.Raw = in.room[:0], in.roomRaw[:0] }

func (in *Input) keep() { in.room, in.roomRaw = in.Columns, in.Raw }

// add adds a feature.
func (in *Input) add(column uint32, row []float64, x, raw float64) {
	in.Columns, in.Rows, in.X, in.Raw = append(in.Columns, column), append(in.Rows, row), append(in.X, x), append(in.Raw, raw)
}

// close adds the intercepts, whose value is 1, or 0 where there are none.
func (in *Input) close(intercepts []float64, x float64) {
	in.Rows, in.X = append(in.Rows, intercepts), append(in.X, x)
}

// Numbers appends to read the numbers of a labeled event: those that are centered and scaled, and where events are known to
// lack columns those that are 0 where they are left out. Its Review has not come yet.
func (n *Encoder) Numbers(in *Input, read *scaling.Read) {
	of, unfilled := n.kinds(in), n.Scaling.Scaler.Unfilled
	if in.Event.Field == nil && len(of.dense) == 0 && !unfilled {
		return // words
	}
	for i, column := range in.Columns[:in.Features()] {
		if column >= model.FirstHat {
			return // no numbers of their own
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

// WithZeros returns an event with the columns that are known to be 0 because it leaves them out, in the memory of to: so
// they can go missing as others do. Without such columns it is in itself.
func (n *Encoder) WithZeros(in, to *Input) *Input {
	m := n.Fields.Missing
	if !m.Known || len(m.Zeros) == 0 || !in.Event.IsSparse(n.schema.Fields) {
		return in
	}
	to.reset(in.Event, in.Number, 0)
	to.own()
	to.Lack, to.Range, to.Scale = in.Lack, in.Range, in.Scale
	at, features := 0, in.Features()
	for _, column := range m.Zeros {
		for ; at < features && in.Columns[at] < column; at++ {
			to.add(in.Columns[at], in.Rows[at], in.X[at], in.Raw[at])
		}
		if at < features && in.Columns[at] == column || in.Event.LacksColumn(column) {
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
