package correct

// This file makes package additive implement the Expert interface.

import "blankout/online/additive"

// splineFit is the spline expert. It has one lane (linear model) for each learning rate.
type splineFit struct {
	*additive.Expert
	outputs int
}

func newAdditive(s Settings) *splineFit {
	return &splineFit{additive.New(s.Loss, s.Strength, s.Outputs), s.Outputs}
}

var splineLanes = []string{"splines", "fast splines"}

func (e *splineFit) Lanes() []string { return splineLanes }

// splinesFit reports whether the spline expert supports these numbers of columns and outputs.
func splinesFit(columns []uint32, outputs int) bool { return additive.Fits(len(columns), outputs) }

// Follow implements Expert.
func (e *splineFit) Follow(columns []uint32, _ int) {
	if !splinesFit(columns, e.outputs) {
		columns = nil
	}
	e.Expert.Follow(columns)
}

func (e *splineFit) Asleep() bool { return len(e.Columns()) == 0 }

func (e *splineFit) NewMemo() any { return e.NewEvent() }

func (e *splineFit) Score(in *Input, base, out []float64, memo any) {
	if e.On(memo.(*additive.Event)); e.Asleep() {
		in = &Input{One: in.One}
	}
	e.Expert.Score(in.Index, in.X, base)
	for lane := range splineLanes {
		copy(out[lane*e.outputs:], e.Scores(lane))
		for k := 0; in.One != 1 && k < e.outputs; k++ {
			out[lane*e.outputs+k] -= (1 - in.One) * e.Intercept(lane, k)
		}
	}
}

func (e *splineFit) Update(_ *Input, memo any, target []float64, active int, weight float64) {
	if e.Asleep() {
		return
	}
	e.On(memo.(*additive.Event))
	e.Learn(target, active, weight)
}

func (e *splineFit) Base(int) float64 { return 1 }

// AddWeights implements Expert.
func (e *splineFit) AddWeights(columns []int, x, parts, to []float64) {
	if !e.Asleep() {
		e.Expert.AddWeights(columns, x, parts, to)
	}
}

// Rescale does nothing, because regression has no expert of splines.
func (e *splineFit) Rescale(float64, float64) {}

func (e *splineFit) Grow(outputs int) float64 {
	e.outputs = outputs
	e.Widen(outputs)
	return 1
}

func (e *splineFit) Regroup(from [][]int) {
	e.outputs = len(from)
	e.Expert.Regroup(from)
}
