// Package cosine corrects the prediction of all other experts by cosines of the event's numbers (random Fourier
// features; Rahimi & Recht 2007). So a score is not limited to sums over single numbers: with b_k the prediction of the
// others, the corrected score of output k is
//
//	f_k = b_k + g c_k,  c_k = sum_j w_jk cosine_j(z),
//
// where z has the standardized numbers, with estimates for missing ones, see model.CosineBasis. The weights w are learned
// for the loss of b_k + c_k as those of the second-order expert (package newton), with a curvature of blocks: with x the
// values of the cosines, h the sum of x'A_i^-1 x over blocks i and r the curvature of the loss,
//
//	A_i += a x x',  w_k -= df_k A^-1 x,  a = r - phi/h,
//
// where phi forgets as there, and A^-1 x is shortened as if A had the sum of the blocks' leverages. With the mixture weights
// u, v and w of b, b + c/2 and b + c, the factor g is v/2 + w. There is one factor for each range of the missing fraction,
// and it is 0 where the cosines do not reduce the loss.
package cosine

import (
	"math"
	"slices"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/conformal"
	"blankout/online/experts/newton"
	"blankout/online/mixture"
)

const (
	// Ridge is the initial curvature, and Block the number of cosines in a block.
	Ridge, Block = 1, 32
	// Of the first learnAll events all are learned, up to event learnHalf every second, and then every fourth.
	learnAll, learnHalf = 8192, 32_768
	// mostForgotten is the largest phi.
	mostForgotten = 0.5
	// mostWeight is the largest valid weight. If a weight is larger, the expert restarts.
	mostWeight = 1e6
	// mostWeights is the largest product of cosines and outputs.
	mostWeights = 20_000
	// firstWeight is the initial factor.
	firstWeight = 0.05
	// leastFactor is the smallest factor in effect; smaller ones count as 0.
	leastFactor = 0.2
	// After restAfter consecutive events without a part in predictions the expert rests: it then takes part in one of
	// 2^restBits events.
	restAfter, restBits = 4096, 6
	// The list of columns is fixed after fixedAfter events, unless more than half of the columns would be new.
	fixedAfter = 1000
)

// The switching rates of the mixture weights for complete events, and for other ranges of the missing fraction.
var wholeRates, rangeRates = []float64{1e-5, 1e-4, 1e-3}, []float64{0.01}

// Settings are the settings of an Expert.
type Settings struct {
	Loss       loss.Loss // newton.Wanted must be true
	HalfLife   float64   // half-life of the curvature in events, above 0
	Calibrates bool      // predictions are calibrated
}

// Values has the values of the cosines at an event.
type Values = [model.Cosines]float64

// Expert learns the weights of the cosines. It has no columns, and changes no prediction, until Follow. An Expert is not
// safe for concurrent use.
type Expert struct {
	Settings
	slopes    newton.Slopes
	outputs   int
	basis     *model.CosineBasis // nil for no cosines
	weights   []float64          // by cosine and output
	curvature newton.Blocks
	ranges    [mixture.Ranges]mixture.Weights
	factors   [mixture.Ranges]float64 // g by range, in effect
	// alone and together calibrate b and b + c, each by its own scores. The calibration in force is that of the
	// prediction, which would favor whichever of the two is predicted.
	alone, together conformal.Link
	learned, idle   uint64    // number of events learned, and of the latest events without a part in predictions
	counts          bool      // whether the cosines have a part in predictions of events that arrive
	df, half        []float64 // scratch by output
}

// New returns an Expert without columns.
func New(s Settings, outputs int) *Expert {
	e := &Expert{Settings: s, slopes: newton.NewSlopes(s.Loss), alone: conformal.NewLink(), together: conformal.NewLink()}
	for r := range e.ranges {
		rates := rangeRates
		if r == 0 {
			rates = wholeRates
		}
		e.ranges[r] = mixture.NewWeights([]float64{1 - firstWeight, firstWeight / 2, firstWeight / 2}, rates...)
	}
	e.begin(outputs, nil)
	return e
}

// begin sets the number of outputs and the columns, and resets the weights.
func (e *Expert) begin(outputs int, basis *model.CosineBasis) {
	e.outputs, e.basis, e.learned = outputs, basis, 0
	e.df, e.half, e.weights, e.curvature = make([]float64, outputs), make([]float64, outputs), nil, newton.Blocks{}
	if basis != nil {
		e.weights, e.curvature = make([]float64, model.Cosines*outputs), newton.NewBlocks(model.Cosines, Block, Ridge)
	}
	e.Apply(func(r int) bool { return r == 0 })
}

// Follow makes numeric columns, which must be ascending, the columns of the cosines.
func (e *Expert) Follow(columns []uint32) {
	if len(columns) > model.MaxCosineColumns || model.Cosines*e.outputs > mostWeights {
		columns = nil
	}
	if e.basis == nil && len(columns) < 2 {
		return
	}
	if e.basis != nil && len(columns) > 1 {
		unknown := 0
		for range model.CommonColumns(e.basis.Columns, columns) {
			unknown--
		}
		unknown += len(columns)
		if unknown == 0 || e.learned >= fixedAfter && 2*unknown <= len(columns) {
			return
		}
	}
	e.begin(e.outputs, model.NewCosineBasis(slices.Clone(columns)))
}

// Basis returns the cosines, or nil if there are none.
func (e *Expert) Basis() *model.CosineBasis { return e.basis }

// Outputs returns the number of outputs.
func (e *Expert) Outputs() int { return e.outputs }

// Factor returns the factor g for events in a range of the missing fraction.
func (e *Expert) Factor(r int) float64 { return e.factors[r] }

// Takes reports whether the expert takes part in learning the event with this number.
func (e *Expert) Takes(number uint64) bool {
	return e.basis != nil && (e.idle < restAfter || number*0x9e3779b97f4a7c15>>(64-restBits) == 0)
}

// Sum writes c to out, by output.
func (e *Expert) Sum(values *Values, out []float64) { model.SumCosines(values, e.weights, out) }

// Learn learns an event. base and sum are b and c by output; the first active outputs are in use. An Expert whose weights
// are not finite restarts.
func (e *Expert) Learn(values *Values, base, sum, target []float64, active int, importance float64) {
	e.learned++
	every := e.every()
	if e.learned%every != 0 {
		return
	}
	h, r := e.curvature.Leverage(values[:]), 0.0
	for k := range active {
		var c float64
		e.df[k], _, c = e.slopes.Derive(target[k], base[k]+sum[k], 0, h)
		r = max(r, c)
	}
	forgotten := min(Block*-math.Expm1(-math.Ln2*float64(every)/e.HalfLife)*min(1, 4*r), mostForgotten)
	a := importance*r - forgotten/h
	step := -importance / (1 + a*h)
	valid := e.curvature.Update(a, func(j int, gain float64) {
		w := e.weights[j*e.outputs:][:active]
		for k, df := range e.df[:active] {
			w[k] += step * df * gain
		}
	})
	if !valid || slices.ContainsFunc(e.weights, func(w float64) bool { return !(math.Abs(w) <= mostWeight) }) {
		e.begin(e.outputs, e.basis)
	}
}

// every returns the interval, in events, at which an event is learned.
func (e *Expert) every() uint64 {
	switch {
	case e.learned <= learnAll:
		return 1
	case e.learned <= learnHalf:
		return 2
	}
	return 4
}

// Observe compares b (base), b + c/2 and b + c (both) at an event in range r of the missing fraction.
func (e *Expert) Observe(r int, base, both []float64, by *mixture.Event) {
	for k := range e.half {
		e.half[k] = (base[k] + both[k]) / 2
	}
	e.ranges[r].Take([]float64{e.loss(r, &e.alone, base, by), e.loss(r, &e.together, e.half, by), e.loss(r, &e.together, both, by)})
	if by.Lose == nil && r == 0 && e.Calibrates {
		e.alone.Take(base, by.Active, by.Label, 1)
		e.together.Take(both, by.Active, by.Label, 1)
	}
}

// loss returns the loss of scores with a calibration.
func (e *Expert) loss(r int, own *conformal.Link, scores []float64, by *mixture.Event) float64 {
	if by.Lose != nil || r > 0 || !e.Calibrates {
		return by.Served(scores)
	}
	d := by.Decision
	d.Link = inForce(own)
	return by.ServedBy(d, scores)
}

func inForce(l *conformal.Link) *model.Link {
	if l.Helps() {
		return l.Latest()
	}
	return nil
}

// Calibration returns the calibration of predictions without the cosines or with them, by the factor in effect.
func (e *Expert) Calibration() *conformal.Link {
	if e.factors[0] < 0.5 {
		return &e.alone
	}
	return &e.together
}

// Decision returns the Decision by which scores without the cosines are compared with each other.
func (e *Expert) Decision(d model.Decision) model.Decision {
	if e.factors[0] > 0 && e.Calibrates {
		d.Link = inForce(&e.alone)
	}
	return d
}

// Apply makes the learned factors take effect. arrive reports whether events arrive in a range of the missing fraction.
func (e *Expert) Apply(arrive func(r int) bool) {
	e.counts = false
	for r := range e.factors {
		e.factors[r] = 0
		if e.basis != nil {
			w := e.ranges[r].Mix(nil)
			if g := w[1]/2 + w[2]; g >= leastFactor {
				e.factors[r] = g
			}
		}
		e.counts = e.counts || e.factors[r] > 0 && arrive(r)
	}
}

// Count counts a labeled event, for Takes.
func (e *Expert) Count() {
	if e.counts {
		e.idle = 0
	} else if e.idle < restAfter {
		e.idle++
	}
}

// Published returns the weights for predictions, or nil if all factors are 0.
func (e *Expert) Published() *model.CosineWeights {
	if e.basis == nil || slices.Max(e.factors[:]) == 0 {
		return nil
	}
	return &model.CosineWeights{Basis: e.basis, Outputs: e.outputs, Factors: e.factors, Weights: slices.Clone(e.weights)}
}
