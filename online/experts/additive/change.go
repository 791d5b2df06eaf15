package additive

// This file adapts an expert to changes of scales and classes, and encodes its state.

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/online/encode"
	"blankout/online/experts"
	"blankout/online/rows"
)

// Move changes a column's values x to (x - shift)/ratio. Scores stay the same, except if that would extrapolate too
// far. A weight keeps its number if the change would shift the intercept, or the score of the value 1, by more than
// mostMove.
func (e *Expert) Move(m *encode.Move) {
	i, known := slices.BinarySearch(e.columns, m.Column)
	if !known {
		return
	}
	weights, squares := e.block.row(i)
	if m.Renews {
		clear(weights)
		clear(squares)
		return
	}
	ratio, shift := m.Ratio, m.Shift
	intercepts, _ := e.block.row(len(e.columns))
	most := mostMove / max(math.Abs(shift), ratio-1)
	for j, w := range weights {
		if math.Abs(float64(w)) <= most {
			intercepts[j] += float32(shift * float64(w))
			weights[j] = float32(ratio * float64(w))
			squares[j] /= float32(ratio * ratio)
		}
	}
}

// Rescale does nothing, because regression has no expert of splines.
func (e *Expert) Rescale(_, _, _ float64) {}

// Regroup implements experts.Expert.
func (e *Expert) Regroup(from [][]int) (factor float64) {
	was := *e
	e.begin(len(from))
	e.Follow(was.columns, len(was.columns))
	if len(e.columns) < len(was.columns) {
		return 1 // too many columns for so many outputs
	}
	for i := range len(e.columns) + 1 {
		weights, squares := e.block.row(i)
		oldWeights, oldSquares := was.block.row(i)
		rows.Regroup(weights, oldWeights[:len(was.q)], from, was.outputs, true)
		rows.Regroup(squares, oldSquares[:len(was.q)], from, was.outputs, false)
	}
	return 1
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
	for _, values := range [][]float32{e.block.weights, e.block.squares} {
		kept := values
		if c.Float32s(&kept); c.Decode {
			c.Failed = c.Failed || len(kept) != len(values)
			copy(values, kept)
		}
	}
}

// Forget multiplies the sums of squares by keep. The weights do not change, but later steps become larger.
func (e *Expert) Forget(keep float64) {
	for i := range e.block.squares {
		e.block.squares[i] *= float32(keep)
	}
}
