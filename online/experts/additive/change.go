package additive

// This file adapts an expert to changes of scales and classes, and encodes its state.

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/online/experts"
	"blankout/online/rows"
)

// Move changes a column's values x to (x - shift)/ratio. Scores stay the same, except if that would extrapolate too
// far. A weight keeps its number if the change would shift the intercept, or the score of the value 1, by more than
// mostMove.
func (e *Expert) Move(column uint32, ratio, shift float64) {
	i, known := slices.BinarySearch(e.columns, column)
	if !known {
		return
	}
	row, intercept := e.table[i], e.layout.Weights(e.bias)
	most := mostMove / max(math.Abs(shift), ratio-1)
	for j, w := range e.layout.Weights(row) {
		if math.Abs(w) <= most {
			intercept[j] += shift * w
			e.optimizer.Rescale(row, j, j+1, ratio)
		}
	}
}

// Renew resets the weights of a column, because the meaning of its values changes.
func (e *Expert) Renew(column uint32) {
	if i, known := slices.BinarySearch(e.columns, column); known {
		e.table[i] = e.newRow()
	}
}

// Rescale does nothing, because regression has no expert of splines.
func (e *Expert) Rescale(float64, float64) {}

// Grow increases the number of outputs. A single output for two classes becomes the output of the second class, and
// its negation becomes the output of the first.
func (e *Expert) Grow(outputs int) (factor float64) {
	if outputs == e.outputs {
		return 1
	}
	was := *e
	e.begin(outputs)
	e.Follow(was.columns, len(was.columns))
	e.widenRow(e.bias, was.bias, was.layout)
	for i, row := range was.table {
		e.widenRow(e.table[i], row, was.layout)
	}
	return 1
}

// Regroup replaces the old outputs by one new output for each list in from. A list holds the indices of old outputs,
// and the new output starts as their mean.
func (e *Expert) Regroup(from [][]int) {
	was := *e
	e.begin(len(from))
	e.Follow(was.columns, len(was.columns))
	regroup := func(to, of []float64) {
		for part := range parts {
			rows.Regroup(e.layout.Part(to, part), was.layout.Part(of, part), from, was.outputs)
		}
	}
	regroup(e.bias, was.bias)
	for i, row := range was.table {
		regroup(e.table[i], row)
	}
}

func (e *Expert) widenRow(to, from []float64, was rows.Layout) {
	for part := range parts {
		for r := range Rates {
			old, wide := was.Part(from, part)[r*was.Outputs:][:was.Outputs], e.layout.Part(to, part)[r*e.outputs:][:e.outputs]
			if copy(wide, old); was.Outputs > 1 {
				continue
			}
			if wide[1] = old[0]; part != 1 { // accumulators must not change their sign
				wide[0] = -old[0]
			}
		}
	}
}

// State encodes or decodes the state. The reader must have the same settings and number of outputs.
func (e *Expert) State(c *coder.Coder) {
	columns := e.columns
	if c.Uint32s(&columns); c.Decode {
		if !experts.ColumnsFit(len(columns), e.outputs) || !slices.IsSorted(columns) || len(slices.Compact(slices.Clone(columns))) != len(columns) {
			c.Failed = true
			return
		}
		e.begin(e.outputs)
		e.Follow(columns, len(columns))
	}
	for _, row := range append(slices.Clone(e.table), e.bias) {
		values := row[rows.FirstPart:][:2*e.layout.N]
		kept := values
		if c.Floats(&kept); c.Decode {
			c.Failed = c.Failed || len(kept) != len(values)
			copy(values, kept)
		}
	}
}

// Forget multiplies the accumulators by keep. The weights do not change, but later steps become larger.
func (e *Expert) Forget(keep float64) {
	for _, row := range e.table {
		e.optimizer.Forget(row, false, keep)
	}
	e.optimizer.Forget(e.bias, true, keep)
}
