// Package encode makes of an event what learns and answers: the rows of its features and their standardized values.
package encode

import (
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
)

// Input is an event, encoded. It is filled once, read-only afterwards but for the rows that experts own parts of, and
// borrowed until the next event.
type Input struct {
	Event   *event.Example
	Number  uint64   // of the event, from 1 on
	Columns []uint32 // of its features, in the order of Rows
	// Rows are those of the features and last that of the intercepts, X the standardized values, 1 for the intercepts.
	// A feature that has no row adds nothing and is left out.
	Rows [][]float64
	X    []float64
	// Lack is what the event lacks of the fields that it usually has, Range that of the mixture weights that answer it (0 if
	// it lacks nothing), Scale what its features count by.
	Lack  model.Lack
	Range int
	Scale float64
	// Moves are what experts must do with their weights before they score the event.
	Moves []Move
	room  []uint32 // for Columns
}

// Features returns how many of the rows are those of features.
func (in *Input) Features() int { return len(in.X) - 1 }

// Move says that the scale of a row's column has changed. The score of no event changes if its weights are multiplied
// by Ratio and those of the intercepts grow by the old weights times Shift. Keep is what is left of the sums of
// squared gradients.
type Move struct {
	Row                []float64
	Ratio, Shift, Keep float64
}

// Without fills to with what is left of an event where some features are gone: those that alive says no to, by their
// place in Columns. Its Lack is what the event then lacks.
func (in *Input) Without(alive func(i int) bool, to *Input) {
	n := in.Features()
	to.reset(in.Event, in.Number, 0)
	for i, x := range in.X[:n] {
		if alive(i) {
			to.Rows, to.X = append(to.Rows, in.Rows[i]), append(to.X, x)
		}
	}
	to.close(in.Rows[n])
}

// reset makes room for so many features.
func (in *Input) reset(e *event.Example, number uint64, features int) {
	in.Event, in.Number, in.Moves = e, number, in.Moves[:0]
	in.Rows = slices.Grow(in.Rows[:0], features+1)
	in.X = slices.Grow(in.X[:0], features+1)[:features]
}

// close adds the intercepts.
func (in *Input) close(intercepts []float64) {
	in.Rows, in.X = append(in.Rows, intercepts), append(in.X, 1)
}
