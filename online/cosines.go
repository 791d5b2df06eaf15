package online

// This file adds the cosines of package cosine to predictions, and trains them. They correct the prediction of all other
// experts.

import (
	"cmp"

	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/experts"
	"blankout/online/experts/cosine"
	"blankout/online/levels"
	"blankout/online/mixture"
)

// cosines holds the expert, and what it adds to the latest event that it has scored.
type cosines struct {
	*cosine.Expert
	used   bool // the settings allow cosines
	some   bool // whether the fields below are valid for the current event
	z      model.CosineNumbers
	values cosine.Values
	sum    []float64 // c by output, see package cosine
	added  []float64 // the part in the prediction, by output: g c
	base   []float64 // the prediction without that part, by output
}

// ownCosines has the values of cosines for the labeled event while masked copies of it are scored.
type ownCosines struct {
	some             bool
	values           cosine.Values
	sum, added, base []float64
}

// newCosines returns the cosines. They have no columns if the settings exclude correcting experts. Cosines of numbers that
// are missing together or silently would need another expectation over the noise than single numbers, so such noise
// excludes them.
func (s *settings) newCosines(levels *levels.Expert, c Config) cosines {
	_, silent := levels.Silent()
	x := cosines{used: s.corrects && !silent && !levels.Grouped() && !s.levels.Loss.Facts().Regression}
	x.Expert = cosine.New(cosine.Settings{Loss: s.levels.Loss, Calibrates: c.Calibrate == "on" || c.Calibrate == "auto" && len(c.ClassWeight) == 0, HalfLife: cmp.Or(c.HalfLife, correctHalfLife)}, levels.Outputs)
	x.setOutputs(levels.Outputs)
	return x
}

// follow makes the numeric columns of the correcting experts the columns of the cosines.
func (x *cosines) follow(of *experts.Experts) {
	if x.used {
		x.Follow(of.NumericColumns())
	}
}

// setOutputs adapts the cosines to a number of outputs.
func (x *cosines) setOutputs(outputs int) {
	if x.some = false; len(x.sum) != outputs {
		x.sum, x.added, x.base = make([]float64, outputs), make([]float64, outputs), make([]float64, outputs)
	}
}

// applyCosines makes the learned factors of the cosines take effect. If the cosines then enter or leave predictions, the
// calibration continues with what it would be of such scores.
func (l *Learner) applyCosines() {
	x := l.predictor
	was := x.cosines.Calibration()
	x.cosines.Apply(func(r int) bool { return r == 0 || !x.mixture.LearnsFromMasks(r) })
	if now := x.cosines.Calibration(); now != was && now.Taken() > 0 {
		l.monitors.Recalibrate(*now)
	}
}

// counts reports whether the cosines have a part in predictions in a range of the missing fraction. The policy fill
// predicts as for complete events.
func (x *cosines) counts(of *mixture.Mixture, r int) bool {
	return x.Factor(r) > 0 || of.Fill(r) > 0 && x.Factor(0) > 0
}

// part returns what the cosines add to the prediction of the current event, by output; nil for nothing.
func (x *cosines) part() []float64 {
	if x.some {
		return x.added
	}
	return nil
}

// addTo adds the part of the cosines to the prediction of the others.
func (x *cosines) addTo(out []float64) {
	for k, c := range x.part() {
		out[k] += c
	}
	x.corrected(out)
}

// corrected takes the prediction to which the part of the cosines has been added.
func (x *cosines) corrected(out []float64) {
	for k, c := range x.part() {
		x.base[k] = out[k] - c
	}
}

// readCosines computes the part of the cosines for an event, if the event is learned or the part is not 0. Missing
// numbers that are imputed have their estimates, and other missing numbers are 0.
func (x *predictor) readCosines(in *encode.Input, learns bool, f *imputed) {
	c := &x.cosines
	basis := c.Basis()
	if c.some = basis != nil && (learns || c.counts(x.mixture, in.Range)); !c.some {
		return
	}
	c.z = model.CosineNumbers{}
	for to, from := range model.CommonColumns(basis.Columns, in.Columns[:in.Features()]) {
		c.z[to] = in.X[from]
	}
	x.placeExpected(in.Range, f)
	c.add(in.Range)
}

// placeExpected sets the imputed numbers of an event, unless predictions in its range of the missing fraction do not
// impute.
func (x *predictor) placeExpected(r int, f *imputed) {
	if f.some && x.imputes(r) {
		e := &f.expected.Input
		for to, from := range model.CommonColumns(x.cosines.Basis().Columns, e.Columns) {
			x.cosines.z[to] = e.X[from]
		}
	}
}

// readMaskedCosines is readCosines for a copy of a labeled event in range r of the missing fraction. in is the event with
// all features, and dead the features that are missing.
func (m *masked) readMaskedCosines(in *encode.Input, e *labeled, r int) {
	c := &m.cosines
	basis := c.Basis()
	if c.some = basis != nil && (c.counts(m.mixture, r) || e.trains && r > 0 && c.Takes(e.number)); !c.some {
		return
	}
	c.z = model.CosineNumbers{}
	for to, from := range model.CommonColumns(basis.Columns, in.Columns[:in.Features()]) {
		if !m.dead[from] {
			c.z[to] = in.X[from]
		}
	}
	m.placeExpected(r, &m.imputed)
	c.add(r)
}

// add computes the part for the numbers in z.
func (x *cosines) add(r int) {
	x.Basis().Values(&x.z, &x.values)
	x.Sum(&x.values, x.sum)
	for k, c := range x.sum {
		x.added[k] = x.Factor(r) * c
	}
}

// keep takes the values of the labeled event, which has just been scored.
func (o *ownCosines) keep(x *cosines) {
	if o.some = x.some; o.some {
		o.values = x.values
		o.sum, o.added, o.base = append(o.sum[:0], x.sum...), append(o.added[:0], x.added...), append(o.base[:0], x.base...)
	}
}

// take makes the labeled event the current event again.
func (x *cosines) take(o *ownCosines) {
	if x.some = o.some; x.some {
		copy(x.added, o.added)
	}
}

// learn learns the labeled event.
func (x *cosines) learn(o *ownCosines, target []float64, active int, weight float64) {
	if x.Count(); o.some && weight > 0 && len(o.sum) == x.Outputs() {
		x.Learn(&o.values, o.base, o.sum, target, active, weight)
	}
}

// observe compares the prediction without the cosines (base) and with them, for the current event.
func (x *cosines) observe(r int, base []float64, by *mixture.Event) {
	copy(x.base, base)
	for k, c := range x.sum {
		x.added[k] = x.base[k] + c
	}
	x.Observe(r, x.base, x.added, by)
	x.some = false
}

// append appends the predictions without and with the cosines, for splitComponents when the label arrives.
func (x *cosines) append(out []float64) []float64 {
	if !x.some {
		return out
	}
	out = append(out, x.base...)
	for k, c := range x.sum {
		out = append(out, x.base[k]+c)
	}
	return out
}

// splitComponents separates what cosines.append has appended from the scores of the components.
func (x *predictor) splitComponents(all []float64) (components, corrected []float64) {
	n := len(all) - 2*x.levels.Outputs
	if n > 0 && (n == x.levels.Components() || n == x.componentCount()) {
		return all[:n], all[n:]
	}
	return all, nil
}
