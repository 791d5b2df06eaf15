package online

import (
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/health"
	"blankout/online/impute"
	"blankout/online/mixture"
	"blankout/online/readings"
)

// This file predicts events with missing fields. It mixes the missing policies (none, rescale, impute, fill), and learns
// their mixture weights.

// predictor makes predictions from encoded events. The ensemble scores the event. The scores are then mixed with the
// mixture weights for the event's missing fraction. The fields of predictor are also used by the Learner, which trains
// them.
type predictor struct {
	ensemble
	encoder *encode.Encoder
	imputer *impute.Imputer
	outputs *outputs
	targets *targets // nil for classification
	mixed   mixed
	last    lastLabel
}

// imputed holds the imputed values of an event's missing numeric columns, and the scores that these values add.
type imputed struct {
	numbers  impute.Numbers
	some     bool // whether the fields below are valid for the current event
	expected impute.Expected
	scored   scored
	fills    bool      // whether filled is valid for the current event
	filled   scored    // scored, with the splines of the imputed values
	variance []float64 // by output: variance of the mixed score that the imputed values add
	weights  []float64 // scratch memory for ensemble.weightsOf
	columns  []float64 // mixed weights by imputed column and output
}

func newImputed(x *ensemble) imputed {
	return imputed{scored: x.newScored(), filled: x.newScored(), variance: make([]float64, x.levels.Outputs)}
}

// impute imputes the missing numeric values of the last encoded event, if the prediction depends on them. If learns is
// true, experts without weight in predictions also score the imputed values, and so does the policy fill.
func (x *predictor) impute(in *encode.Input, learns bool, f *imputed) {
	f.some, f.fills, f.numbers.SomeMissing = false, false, false
	if in.Range == 0 {
		return
	}
	// The width of a regression interval depends on the imputed values under every policy.
	if x.imputer.Read(in, x.encoder, &f.numbers); x.targets != nil || x.imputes(in.Range) {
		x.expect(in, learns, learns, f)
	}
}

// imputes reports whether predictions impute in a range of the missing fraction.
func (x *predictor) imputes(r int) bool {
	if r == 0 {
		return false
	}
	s := x.mixture.Policies()[r-1]
	return s[2]+s[3] > 0
}

// expect imputes the missing numeric values that f.numbers lists. If fills is true, the policy fill also scores them where
// it has no weight.
func (x *predictor) expect(in *encode.Input, learns, fills bool, f *imputed) {
	f.fills = false
	if f.some = f.numbers.SomeMissing && in.Range > 0; !f.some {
		return
	}
	x.imputer.Expect(&f.numbers, x.encoder, &f.expected)
	x.score(&f.expected.Input, learns, &f.scored)
	if f.fills = fills || x.mixture.Fill(in.Range) > 0; f.fills {
		x.score(f.expected.Filled(x.encoder), learns, &f.filled)
	}
	levels, own := x.weightsOf(in.Range, f.weights)
	f.weights = levels
	e, outputs := &f.expected.Input, len(f.variance)
	f.columns = slices.Grow(f.columns[:0], len(e.Columns)*outputs)[:len(e.Columns)*outputs]
	for i, column := range e.Columns {
		x.columnWeights(column, e.Rows[i], levels, own, f.columns[i*outputs:][:outputs])
	}
	f.expected.Variances(f.columns, outputs, f.variance[:x.levels.Active()])
}

// policy returns the mixture of the missing policies for an event.
func (x *predictor) policy(in *encode.Input, f *imputed) model.MissingHandling {
	var parts model.ColumnRoles
	if f.some {
		parts = f.numbers.Parts
	}
	return x.encoder.Fields.Missing.Handling(in.Missing, parts)
}

// mixed holds the mixed scores of an event with missing fields, by output.
type mixed struct {
	base       []float64 // scores of only the intercepts
	left       []float64 // scores of the intercepts and the present features
	add        []float64 // scores that the imputed values add
	variance   []float64 // variance of add; borrowed
	active     int       // number of outputs in use
	widen      func(f, v float64) float64
	bases      []float64 // intercepts by component and output
	components []float64 // scratch, by component and output
	out        []float64
	others     []float64
	filled     []float64 // result of fill
	classes    []float64 // filled, by class
	cosines    []float64 // part of the cosines; nil for none
}

func newMixed(x *predictor) mixed {
	k := x.levels.Outputs
	n := x.components()
	return mixed{
		widen: x.widen,
		base:  make([]float64, k), left: make([]float64, k), add: make([]float64, k), out: make([]float64, k), others: make([]float64, k), filled: make([]float64, k),
		bases: make([]float64, n), components: make([]float64, n),
	}
}

// mix mixes the scores of all components with the mixture weights for the event's range of the missing
// fraction. The result is valid until the next call.
func (x *predictor) mix(in *encode.Input, components []float64, f *imputed) *mixed {
	x.intercepts(x.mixed.base, x.mixed.bases)
	return x.mixBy(x.mixture.Weights(in.Range), components, f)
}

// mixBy is mix with the given mixture weights. It uses the intercepts that the last call of mix has computed.
func (x *predictor) mixBy(weights, components []float64, f *imputed) *mixed {
	m, active := &x.mixed, x.levels.Active()
	mixture.Mix(weights, m.bases, active, m.base)
	mixture.Mix(weights, components, active, m.left)
	if f.some {
		mixture.Mix(weights, f.scored.components, active, m.add)
	}
	m.active, m.variance, m.cosines = active, f.variance, x.cosines.part()
	return m
}

// widen returns a score that predicts the mean of a prediction. The mean is over normally distributed scores with mean
// f and variance v.
func (x *predictor) widen(f, v float64) float64 {
	switch t := x.targets; {
	case t == nil:
		return model.WidenClass(f, v)
	case t.unit.Target == loss.Count:
		return model.WidenCount(f, v)
	}
	return f
}

// sum writes scores to out. The part of the present features is multiplied by scale, and the part of the imputed values
// is multiplied by fraction.
func (m *mixed) sum(scale, fraction float64, out []float64) []float64 {
	copy(out[m.active:], m.left[m.active:])
	for k, b := range m.base[:m.active] {
		if out[k] = b + scale*(m.left[k]-b); fraction > 0 {
			out[k] += fraction * m.add[k]
		}
		if m.cosines != nil {
			out[k] += m.cosines[k]
		}
	}
	return out
}

// answer returns the result of sum, corrected by widen for the variance of the imputed values.
func (m *mixed) answer(scale, fraction float64) []float64 {
	out := m.sum(scale, fraction, m.out)
	for k := range m.active {
		if fraction > 0 {
			out[k] = m.widen(out[k], fraction*fraction*m.variance[k])
		}
	}
	return out
}

// fill returns the scores of the policy fill, by output: those of a complete event with imputed numbers in place of the
// missing ones. The result is valid until the next call.
func (x *predictor) fill(components []float64, f *imputed) []float64 {
	m, weights, active := &x.mixed, x.mixture.Weights(0), x.levels.Active()
	mixture.Mix(weights, components, active, m.filled)
	mixture.Mix(weights, f.filled.components, active, m.others)
	for k, add := range m.others[:active] {
		m.filled[k] += add
	}
	if x.cosines.some {
		g := x.cosines.Factor(0)
		for k, c := range x.cosines.sum {
			m.filled[k] += g * c
		}
	}
	return m.filled
}

// answer returns the scores that the model predicts for an event, by class. components holds the scores of all
// components. Regression scores are in the Learner's unit. The result is in out, which must have room
// for all outputs. If classes share an output, the result is in byClass instead.
func (x *predictor) answer(in *encode.Input, components []float64, f *imputed, out []float64, byClass *[]float64) []float64 {
	if in.Range == 0 || in.Scale == 1 && !f.some {
		x.mixture.Score(components, in.Range, x.levels.Active(), out)
		x.cosines.addTo(out)
		return x.outputs.byClass(out, byClass)
	}
	how, m := x.policy(in, f), x.mix(in, components, f)
	fraction, fill := how.Imputes(), how.Weights[3]
	m.sum(how.Scale, fraction, out)
	x.cosines.corrected(out)
	scores := x.outputs.byClass(out, byClass)
	if fraction > 0 { // classes that share an output have different scores, so each is widened separately
		of := x.outputs.rare.Outputs()
		for class, score := range scores {
			k := class
			if of != nil {
				k = of[class]
			}
			if k >= 0 && k < m.active {
				scores[class] = m.widen(score, fraction*fraction*m.variance[k])
			}
		}
	}
	if fill > 0 {
		for class, filled := range x.outputs.byClass(x.fill(components, f), &m.classes) {
			scores[class] += fill * (filled - scores[class])
		}
	}
	return scores
}

// missingVariance returns how much the missing fields of an event widen a regression interval. It is the variance of
// the imputed values. For the fraction of the mixture that does not impute, it includes the square of the omitted part
// of the score.
func (x *predictor) missingVariance(in *encode.Input, components []float64, f *imputed) model.MissingVariance {
	by := model.MissingVariance{Range: in.Range}
	if f.some && x.targets != nil {
		off := (1 - x.policy(in, f).Imputes()) * x.mix(in, components, f).add[0]
		by.Variance = x.targets.unit.Variance(f.variance[0] + off*off)
	}
	return by
}

// observeMissing updates the mixture weights for the event's range of the missing fraction. Policies are compared by
// the mixture of the components, and components are compared by the mixture of the policies. If corrected is true, the
// correcting experts are also compared.
func (x *predictor) observeMissing(in *encode.Input, components []float64, corrected bool, f *imputed, by *mixture.Event) {
	how, m := x.policy(in, f), x.mix(in, components, f)
	regression := by.Lose != nil
	if x.mixture.Chooses() {
		rescaled := 1.0
		if present := in.Missing.Named + in.Missing.AlwaysPresent; present > 0 {
			rescaled += (in.Missing.Null + in.Missing.Absent) / present
		}
		none := by.Lost(m.answer(1, 0))
		losses := [3]float64{none, math.NaN(), none} // without imputed values, impute predicts as none
		if !regression {                             // regression does not rescale
			losses[1] = by.Lost(m.answer(rescaled, 0))
		}
		if f.some {
			losses[2] = by.Lost(m.answer(1, 1))
		}
		x.mixture.ObservePolicies(in.Range, losses)
		if f.fills {
			x.mixture.ObserveFilled(in.Range, by.Lost(m.answer(how.Scale, how.Imputes())), by.Lost(x.fill(components, f)))
		}
	}
	if regression {
		return // all ranges use the mixture weights of complete events
	}
	fraction, outputs := how.Imputes(), len(m.out)
	for j, b := range m.bases[:x.own()] {
		score := b + how.Scale*(components[j]-b)
		if f.some && fraction > 0 {
			score = m.widen(score+fraction*f.scored.components[j], fraction*fraction*m.variance[j%outputs])
		}
		m.components[j] = score
	}
	x.mixture.Observe(m.components, in.Range, by)
	if corrected {
		copy(m.others, x.mixBy(x.mixture.Uncorrected(in.Range), components, f).answer(how.Scale, fraction))
		x.compare(in.Range, m.others, x.mixBy(x.alone(), components, f).answer(how.Scale, fraction), by)
	}
	if x.cosines.some {
		m := x.mixBy(x.mixture.Weights(in.Range), components, f)
		m.cosines = nil
		x.cosines.observe(in.Range, m.answer(how.Scale, fraction), by)
	}
}

// The part below doubts the numbers of events: it lets package readings examine labeled events before they are learned, and
// predicts events with doubted numbers.

// doubts reports whether numbers are doubted at all.
func (l *Learner) doubts() bool { return l.config.Doubt != "off" }

// reader returns a model with everything that is needed to examine the numbers of events. It is valid until the next
// call.
func (l *Learner) reader(d *model.Doubt) *model.Linear {
	m := &l.room.reader
	m.Rows, m.Schema, m.Scaler, m.Missing, m.Faults = l.encoder.Table, l.encoder.Schema(), l.encoder.Scaling.Scaler, l.encoder.Fields.Missing, l.encoder.Faults()
	m.Covariance, m.Doubt = l.predictor.imputer.Covariance(), d
	m.Layout.Width = l.encoder.Table.Width() // rows begin with the statistics of their column
	return m
}

// doubt examines a labeled event whose class is known, and tells the health of fields what it finds. At some events it
// also predicts a copy that has lost features. It must be called before the event is encoded.
func (l *Learner) doubt(e *event.Example, to *health.Met) {
	covariance, columns, d := l.predictor.imputer.Covariance(), 0, &l.room.died
	if covariance != nil {
		columns = len(covariance.Columns)
	}
	whole, masks := doubts(l.events, columns, true)
	if whole && covariance != nil && !covariance.Related() && !l.doubter.Earns() {
		whole, masks = doubts(l.events, columns, false)
	}
	if d.curve = nil; masks && dies(l.events) {
		l.die(e)
	}
	if to.Examined, to.Doubted = false, nil; covariance != nil && l.doubts() {
		if whole {
			l.examine(e, masks, to)
		}
		l.doubter.Note(e, covariance)
	}
	if d.curve != nil && (covariance == nil || l.config.Doubt != "auto") {
		d.losses = l.losses(e, l.predictAsIs(&d.Example).Scores)
	}
}

// examine is the part of doubt with the numbers of the event.
func (l *Learner) examine(e *event.Example, masks bool, to *health.Met) {
	m, d := l.reader(nil), &l.room.died
	x := readings.Event{
		Example: m.Declare(e, &l.room.declared), Number: l.events, Model: m, Squared: l.targets != nil,
		Predict: func(e *event.Example) []float64 { return l.predictAsIs(e).Scores },
		Loss:    func(scores []float64) float64 { return l.compared(e, scores) },
		Mix: func(weight float64, scores, other []float64) []float64 {
			return model.MixScores(l.monitors.Decision(), l.targets != nil, weight, scores, other)
		},
	}
	if d.curve != nil {
		x.Died, x.Dead = m.Declare(&d.Example, &event.Example{}), d.dead
	}
	var scores []float64
	if to.Doubted, scores, to.Examined = l.doubter.Examine(&x, masks); scores != nil {
		d.losses = l.losses(e, scores)
	}
}

// lossOf returns the log-loss of a labeled event whose numbers are taken as they are, or the squared error for
// regression.
func (l *Learner) lossOf(e *event.Example) float64 { return l.compared(e, l.predictAsIs(e).Scores) }

// compared returns the log-loss of the scores of a labeled event, or the squared error for regression, 0 if it is not known.
func (l *Learner) compared(e *event.Example, scores []float64) float64 {
	losses := l.losses(e, scores)
	switch {
	case l.targets == nil:
		return losses[1]
	case losses[0] != losses[0]:
		return 0
	}
	return losses[0]
}

// readLack compares, at some labeled events that lack a field, the losses if the lack is read as a value and as a loss.
// It must be called before the event is encoded.
func (l *Learner) readLack(e *event.Example) {
	n := &l.encoder.Fields
	id, asks := n.Ask(e, l.encoder.Schema().Fields, l.events)
	if !asks {
		return
	}
	missing, loss := n.Missing, l.lossOf(e)
	n.Missing = missing.Otherwise(id)
	other := l.lossOf(e)
	n.Missing = missing
	n.Answer(id, loss, other)
}

// renewDoubt makes what has been learned about doubtful numbers take effect in predictions.
func (l *Learner) renewDoubt() {
	if l.doubts() {
		l.doubted = l.doubter.Published(l.config.Doubt == "log")
	}
}

// doubtedIn returns what predictions doubt in an event; nil if it is predicted as it is.
func (l *Learner) doubtedIn(e *event.Example) *model.Doubted {
	c := l.predictor.imputer.Covariance()
	if c == nil || !l.doubts() || !l.doubted.Corrects() {
		return nil
	}
	if l.doubtedBy != c {
		l.doubtedBy, l.doubted = c, l.doubted.With(l.doubted.Columns)
	}
	m := l.reader(l.doubted)
	return m.Doubted(m.Declare(e, &l.room.declared))
}
