package newton

import (
	"slices"

	"blankout/online/experts"
)

// tested is an Expert with the event that it is to learn next.
type tested struct {
	*Expert
	in           experts.Input
	base, scores []float64
}

func newTested(s Settings, outputs int, columns ...uint32) *tested {
	e := &tested{Expert: New(s, outputs)}
	e.follow(slices.Sorted(slices.Values(columns)))
	return e
}

// Score writes the scores of an event to out. It ignores columns that the Expert does not have.
func (e *tested) Score(columns []uint32, x, base, out []float64) {
	e.in = experts.Input{One: 1}
	for i, column := range columns {
		if at, known := slices.BinarySearch(e.columns, column); known {
			e.in.Index, e.in.X = append(e.in.Index, at), append(e.in.X, x[i])
		}
	}
	e.Sum(&e.in, out)
	for k, b := range base {
		out[k] += b + e.Base(0)*b
	}
	e.base, e.scores = slices.Clone(base), slices.Clone(out)
}

// Learn learns the event that was scored last.
func (e *tested) Learn(y []float64, active int, importance float64) (moved bool) {
	return e.learn(&e.in, e.base, e.scores, y, active, importance)
}

// Die sets the groups of the event that was scored last.
func (e *tested) Die(g experts.Groups) {
	e.in.Groups = g
	e.take(&e.in, e.base, e.scores)
}

// weights are the coefficients of the score of one output.
type weights struct {
	Intercept, Base float64
	Columns         []float64
}

func (e *tested) Weights(k int) weights {
	return weights{e.u[k][0], 1 + e.Base(0), e.u[k][e.first:]}
}
