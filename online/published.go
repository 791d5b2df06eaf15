package online

// This file describes the layout of the published model: the indices in a row at which readers find the weights, their
// factors, and the intercepts.

import (
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/mixture"
)

// layout returns, for each expert, the index of its weights in a row and their factor. levels and own are results of
// weightsOf. intercept has the mixed intercepts by class.
func (x *predictor) layout(levels []float64, own float64) (out model.Layout, intercept []float64) {
	intercept = make([]float64, x.levels.Outputs)
	y := &x.outputs.rare
	out = model.Layout{Width: x.encoder.Table.Width(), Mix: x.parts(levels, own, x.encoder.Intercepts, intercept), Outputs: y.Outputs()}
	if p := out.Mix[0]; len(out.Mix) == 1 && p.Factor == 1 {
		out.Weight, out.Lag, out.Average, out.Mix = p.Weight, p.Lag, p.Average, nil
	}
	for k := x.levels.Active(); k < len(intercept); k++ {
		intercept[k] = mixture.NoClass
	}
	if t := x.targets; t != nil {
		intercept[0] = t.unit.Score(intercept[0])
		if out.Scale = t.unit.Scale; t.unit.Target == loss.Count {
			out.Scale = 0
		}
	}
	return out, y.Expand(intercept, mixture.NoClass, nil)
}

// noise returns the noise of the level with the largest mixture weight in range r.
func (x *predictor) noise(r int) loss.Noise { return x.levels.Noises[x.mixture.Largest(r)] }

// listed returns the experts with their mixture weights, or nil if there is only one expert.
func (x *predictor) listed() (experts []model.Expert) {
	all := 0.0
	for _, w := range x.mixture.Uncorrected(0) {
		all += w
	}
	for v, name := range x.levels.Names() {
		experts = append(experts, model.Expert{Name: name, Weight: x.mixture.Uncorrected(0)[v] / all})
	}
	if x.experts.HasColumns() {
		experts = append(experts, x.experts.Published(x.mixture.Corrected(0))...)
	}
	if x.cosines.Basis() != nil {
		experts = append(experts, model.Expert{Name: "cosines", Weight: x.cosines.Factor(0), Corrects: true})
	}
	if len(experts) == 1 {
		return nil
	}
	return experts
}
