package online

import (
	"cmp"
	"math"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/experts"
	"blankout/online/experts/cosine"
	"blankout/online/experts/levels"
	"blankout/online/health"
	"blankout/online/mixture"
)

// This file adds the cosines of package cosine to predictions, and trains them. They correct the prediction of all other
// experts.

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

// The part below lets the last label take part in the predictions of a Learner. It is part of the stream and not of the model:
// published models, and predictions for labels that come late, leave it out.

// lastLabel holds the last label, and the prediction of the current event with it.
type lastLabel struct {
	mixture.LastLabel
	used     bool // the settings allow it
	coverage float64
	told     health.LabeledEvent
	moved    float64 // how much it raises the log-odds of the second class of two
	chances  []float64
	scores   []float64
}

// newLastLabel returns the last label of a new stream. Class weights and losses without likelihood shift scores on
// purpose, so a mixture that minimizes the log-loss of classes would undo that.
func (s *settings) newLastLabel(c Config) lastLabel {
	regression := s.levels.Loss.Facts().Regression
	return lastLabel{LastLabel: mixture.NewLastLabel(), used: regression || s.likelihood && len(c.ClassWeight) == 0, coverage: c.Coverage}
}

// alone is a prediction without the last label.
type alone struct {
	scores           []float64
	decision         model.Decision
	value, low, high float64
}

// Alone returns the prediction of the model alone: without the last label, which only the Learner knows.
func (p *Prediction) Alone() Prediction {
	out := *p
	if a := p.alone; a.scores != nil {
		out.Scores, out.Decision, out.Value, out.Low, out.High, out.alone = a.scores, a.decision, a.value, a.low, a.high, alone{}
	}
	return out
}

// tell mixes the last label into a prediction.
func (l *Learner) tell(p *Prediction) {
	x := &l.predictor.last
	if !x.used || l.levels.Passed() || x.Weight() == 0 || p.Loss != nil && math.IsNaN(p.Value) {
		return
	}
	p.alone = alone{p.Scores, p.Decision, p.Value, p.Low, p.High}
	if p.Loss != nil {
		p.Value = x.MixNumber(p.Value)
		p.Low, p.High = x.interval(p.Value, &p.alone)
		score := p.Value
		if l.targets.unit.Target == loss.Count {
			score = math.Log(max(score, math.SmallestNonzeroFloat64))
		}
		x.scores = append(x.scores[:0], score)
		p.Scores = x.scores
		return
	}
	n := max(2, len(p.Scores))
	x.chances = append(x.chances[:0], make([]float64, n)...)
	chances := p.Decision.Probabilities(p.Scores, x.chances)
	x.moved = -math.Log(max(chances[1], math.SmallestNonzeroFloat64) / max(chances[0], math.SmallestNonzeroFloat64))
	x.Mix(chances, l.monitors.Counts.Classes)
	if len(p.Scores) == 1 {
		x.scores = append(x.scores[:0], math.Log(chances[1]/chances[0]))
		x.moved += x.scores[0]
	} else {
		x.scores = x.scores[:0]
		for _, c := range chances {
			x.scores = append(x.scores, math.Log(c/(1-c)))
		}
	}
	p.Scores, p.Decision.Link = x.scores, nil // the scores are log-odds
}

// lastLabel returns the weight of the last label in predictions, or 0 if it has never had a part in them.
func (l *Learner) lastLabel() float64 {
	if !l.monitors.Counts.Baselines.Helped {
		return 0
	}
	return l.predictor.last.Share()
}

// interval returns the interval of a value that has been mixed with the last label.
func (x *lastLabel) interval(value float64, a *alone) (low, high float64) {
	return value - x.Width*(a.value-a.low), value + x.Width*(a.high-a.value)
}

// tellLabeled mixes the last label into p, the prediction of a labeled event, and learns from seen, which has the event
// with the prediction of the model alone. It returns what the measures take, or nil if that is seen. p is nil for a label
// that comes late.
func (l *Learner) tellLabeled(p *Prediction, seen *health.LabeledEvent) *health.LabeledEvent {
	x := &l.predictor.last
	if p == nil || !x.used || l.levels.Passed() {
		x.Forget()
		return nil
	}
	l.tell(p)
	if seen.Regression {
		x.Number(seen.Target, seen.Value, p.Loss, seeks(seen.Number))
	} else {
		x.Class(seen.Label, seen.Loss, l.monitors.Counts.Classes, max(2, len(p.Scores)), seeks(seen.Number))
	}
	if p.alone.scores == nil {
		return nil
	}
	x.told = *seen
	if !seen.Regression {
		j := p.Decision.Judge(p.Scores, seen.Label)
		x.told.Loss, x.told.Predicted, x.told.Probability = j.LogLoss, j.Class, j.Probability
		if len(p.Scores) == 1 {
			x.told.Score += x.moved // the AUC also ranks scores without the last label, which are no log-odds before their link
		}
		return &x.told
	}
	x.told.Value = p.Value
	x.told.Low, x.told.High = x.interval(p.Value, &alone{value: seen.Value, low: seen.Low, high: seen.High})
	if x.told.Low <= x.told.High {
		x.Cover(x.told.Low <= seen.Target && seen.Target <= x.told.High, x.coverage)
	}
	return &x.told
}
