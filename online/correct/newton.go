package correct

// This file makes package newton implement the Expert interface.

import "blankout/online/newton"

// second is the second-order expert. If there is one output, it also learns a weight for the base score.
type second struct {
	*newton.Expert
	outputs int
}

func newNewton(s Settings) *second {
	return &second{newton.New(s.Settings, s.Outputs), s.Outputs}
}

var secondLanes = []string{"second order"}

func (e *second) Lanes() []string { return secondLanes }

// Follow implements Expert.
func (e *second) Follow(columns []uint32, numbers int) {
	if !newton.Fits(len(columns), e.outputs) {
		columns = columns[:numbers]
	}
	if !newton.Fits(len(columns), e.outputs) {
		columns = nil
	}
	e.Expert.Follow(columns)
}

func (e *second) Asleep() bool { return len(e.Columns()) == 0 }

func (e *second) NewMemo() any { return e.NewEvent() }

func (e *second) Score(in *Input, base, out []float64, memo any) {
	e.On(memo.(*newton.Event))
	e.ScoreAt(in.Index, in.X, base, out)
	if in.One == 1 {
		return
	}
	for k := range out {
		out[k] -= (1 - in.One) * e.Intercept(0, k)
	}
}

func (e *second) Update(in *Input, memo any, target []float64, active int, weight float64) {
	e.On(memo.(*newton.Event))
	if len(in.Groups.Keys) > 0 && e.Learns() {
		e.Die(in.Groups)
	}
	e.Learn(target, active, weight)
}

func (e *second) Base(int) float64 { return e.Weights(0).Base }

func (e *second) Intercept(_, output int) float64 { return e.Weights(output).Intercept }

// AddWeights implements Expert.
func (e *second) AddWeights(columns []int, x, parts, to []float64) {
	for k := range to {
		w, sum := e.Weights(k).Columns, 0.0
		for i, at := range columns {
			if at < len(w) {
				sum += x[i] * w[at]
			}
		}
		to[k] += parts[0] * sum
	}
}

func (e *second) Grow(outputs int) float64 {
	e.outputs = outputs
	return e.Widen(outputs)
}

func (e *second) Regroup(from [][]int) {
	e.outputs = len(from)
	e.Expert.Regroup(from)
}
