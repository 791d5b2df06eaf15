package online

// This file answers events that lack something, by the policies for missing fields as they are mixed, and learns how to
// mix them.

import (
	"math"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/impute"
	"blankout/online/mixture"
)

// filled is what is expected of the numbers that an event lacks, and what the levels say of that.
type filled struct {
	numbers  impute.Numbers
	some     bool // it has been found what is expected
	expected impute.Expected
	scored   scored    // what it adds to scores
	variance []float64 // by output: of that, as it is mixed
	levels   []float64 // room, see weightsOf
}

func newFilled(x *ensemble) filled {
	return filled{scored: x.newScored(x.levels.NewScores()), variance: make([]float64, x.levels.Outputs)}
}

// impute finds what is expected of the numbers of the event that was encoded last, where it lacks some and answers need it.
func (l *Learner) impute(in *encode.Input, f *filled) {
	f.some, f.numbers.Lacks = false, false
	if in.Range == 0 {
		return
	}
	if l.imputer.Read(in, l.encoder, &f.numbers); l.targets != nil || l.mixture.Policies()[in.Range-1][2] > 0 {
		l.expect(in, f) // how far off a number may be depends on it in any case
	}
}

// expect finds what is expected of the numbers that an event lacks, whichever it has.
func (l *Learner) expect(in *encode.Input, f *filled) {
	if f.some = f.numbers.Lacks && in.Range > 0; !f.some {
		return
	}
	l.imputer.Expect(&f.numbers, l.encoder, &f.expected)
	l.score(&f.expected.Input, l.awake(l.events), &f.scored)
	levels, own := l.weightsOf(in.Range, f.levels)
	f.levels = levels
	for k := range l.levels.Active() {
		f.variance[k] = f.expected.Variance(func(column uint32, row []float64) float64 { return l.weightOf(column, row, levels, own, k) })
	}
}

// policy says how an event is answered.
func (l *Learner) policy(in *encode.Input, f *filled) model.Answer {
	var parts model.Parts
	if f.some {
		parts = f.numbers.Parts
	}
	return l.encoder.Fields.Missing.Answer(in.Lack, parts)
}

// mixed is what the levels say of an event that lacks something, as they are mixed, by output.
type mixed struct {
	base     []float64 // the intercepts
	left     []float64 // and what is left of the event
	add      []float64 // what is expected of its numbers adds so much
	variance []float64 // of that, borrowed
	active   int
	widen    func(f, v float64) float64
	bases    []float64 // by lane and output: the intercepts
	lanes    []float64 // likewise: room for answers of each alone
	out      []float64
	others   []float64
}

func newMixed(x *ensemble, widen func(f, v float64) float64) mixed {
	k := x.levels.Outputs
	n := len(x.newScored(x.levels.NewScores()).lanes)
	return mixed{
		widen: widen,
		base:  make([]float64, k), left: make([]float64, k), add: make([]float64, k), out: make([]float64, k), others: make([]float64, k),
		bases: make([]float64, n), lanes: make([]float64, n),
	}
}

// mix mixes what the lanes say of an event. The result is borrowed until the next call.
func (l *Learner) mix(in *encode.Input, lanes []float64, f *filled) *mixed {
	m := &l.room.mixed
	l.intercepts(l.encoder.Intercepts, m.base, m.bases)
	return l.mixBy(l.mixture.Weights(in.Range), lanes, f)
}

// mixBy is mix by these weights, with intercepts as they were found last.
func (l *Learner) mixBy(weights, lanes []float64, f *filled) *mixed {
	m, active := &l.room.mixed, l.levels.Active()
	mixture.Mix(weights, m.bases, active, m.base)
	mixture.Mix(weights, lanes, active, m.left)
	if f.some {
		mixture.Mix(weights, f.scored.lanes, active, m.add)
	}
	m.active, m.variance = active, f.variance
	return m
}

// widen makes a score of one a part of which has a variance.
func (l *Learner) widen(f, v float64) float64 {
	switch t := l.targets; {
	case t == nil:
		return model.WidenClass(f, v)
	case t.unit.Target == loss.Count:
		return model.WidenCount(f, v)
	}
	return f
}

// sum writes to out the scores where what is left of the event counts scale times, and what is expected of its numbers this
// share.
func (m *mixed) sum(scale, share float64, out []float64) []float64 {
	copy(out[m.active:], m.left[m.active:])
	for k, b := range m.base[:m.active] {
		if out[k] = b + scale*(m.left[k]-b); share > 0 {
			out[k] += share * m.add[k]
		}
	}
	return out
}

// answer is what is answered then, by output: the scores of sum, widened.
func (m *mixed) answer(scale, share float64) []float64 {
	out := m.sum(scale, share, m.out)
	for k := range m.active {
		if share > 0 {
			out[k] = m.widen(out[k], share*share*m.variance[k])
		}
	}
	return out
}

// answer returns what the model says of an event, in the Learner's unit, by class: in the memory of out, which has room for the
// outputs, or in that of byClass. Lanes are what the levels say.
func (l *Learner) answer(in *encode.Input, lanes []float64, f *filled, out []float64, byClass *[]float64) []float64 {
	if in.Range == 0 || in.Scale == 1 && !f.some {
		l.mixture.Score(lanes, in.Range, l.levels.Active(), out)
		return l.outputs.byClass(out, byClass)
	}
	how, m := l.policy(in, f), l.mix(in, lanes, f)
	share := how.Shares[2]
	scores := l.outputs.byClass(m.sum(how.Scale, share, out), byClass)
	if share > 0 { // classes that share an output differ by what is not imputed
		of := l.outputs.young.Outputs()
		for class, score := range scores {
			k := class
			if of != nil {
				k = of[class]
			}
			if k >= 0 && k < m.active {
				scores[class] = m.widen(score, share*share*m.variance[k])
			}
		}
	}
	return scores
}

// lacks returns what an event lacks by what that opens of the interval of a number: the variance that its score has, for what is
// open about the numbers that it lacks and, as far as they are not imputed, the square of what they would have added. Lanes are what the
// levels say.
func (l *Learner) lacks(in *encode.Input, lanes []float64, f *filled) model.Lacked {
	by := model.Lacked{Range: in.Range}
	if f.some && l.targets != nil {
		off := (1 - l.policy(in, f).Shares[2]) * l.mix(in, lanes, f).add[0]
		by.Variance = l.targets.unit.Variance(f.variance[0] + off*off)
	}
	return by
}

// observeLacking takes up what the answers to an event lose that lacks something: its range's policies, with lanes as
// they are mixed, and its lanes, with policies as they are mixed: the corrected one if that is wanted.
func (l *Learner) observeLacking(in *encode.Input, lanes []float64, corrected bool, f *filled, by *mixture.Event) {
	how, m := l.policy(in, f), l.mix(in, lanes, f)
	regression := by.Lose != nil
	if l.mixture.Chooses() {
		rescaled := 1.0
		if present := in.Lack.Named + in.Lack.Silent; present > 0 {
			rescaled += (in.Lack.Null + in.Lack.Absent) / present
		}
		losses := model.PolicyWeights{by.Lost(m.answer(1, 0)), math.NaN(), math.NaN()}
		if !regression { // rescaling is for classes
			losses[1] = by.Lost(m.answer(rescaled, 0))
		}
		if f.some {
			losses[2] = by.Lost(m.answer(1, 1))
		}
		l.mixture.ObservePolicies(in.Range, losses)
	}
	if regression {
		return // all ranges have the levels of whole events
	}
	share, outputs := how.Shares[2], len(m.out)
	for j, b := range m.bases[:len(l.set.levels.Noises)*outputs] {
		x := b + how.Scale*(lanes[j]-b)
		if f.some && share > 0 {
			x = m.widen(x+share*f.scored.lanes[j], share*share*m.variance[j%outputs])
		}
		m.lanes[j] = x
	}
	l.mixture.Observe(m.lanes, in.Range, by)
	if corrected {
		copy(m.others, l.mixBy(l.mixture.Uncorrected(in.Range), lanes, f).answer(how.Scale, share))
		l.compare(in.Range, m.others, l.mixBy(l.alone(), lanes, f).answer(how.Scale, share), by)
	}
}
