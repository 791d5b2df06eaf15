package next

// This file answers events that lack something, by the policies for missing fields as they are mixed, and learns how to
// mix them.

import (
	"math"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/next/adagrad"
	"blankout/online/next/encode"
	"blankout/online/next/impute"
	"blankout/online/next/mixture"
)

// filled is what is expected of the numbers that an event lacks, and what the levels say of that.
type filled struct {
	numbers  impute.Numbers
	some     bool // it has been found what is expected
	expected impute.Expected
	scores   adagrad.Scores
	lanes    []float64 // by level and output: what it adds to a score
	variance []float64 // by output: of that, as it is mixed
}

func newFilled(x *adagrad.Expert) filled {
	scores := x.NewScores()
	return filled{scores: scores, lanes: make([]float64, len(scores.Iterate)), variance: make([]float64, x.Outputs)}
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
	l.levels.Score(&f.expected.Input, &f.scores)
	l.levels.Published(&f.scores, f.lanes)
	weights := l.mixture.Weights(in.Range)
	for k := range l.levels.Active() {
		f.variance[k] = f.expected.Variance(func(row []float64) float64 { return l.levels.Weight(row, weights, k) })
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
	bases    []float64 // by level and output: the intercepts
	lanes    []float64 // likewise: room for answers of each alone
	out      []float64
}

func newMixed(x *adagrad.Expert, widen func(f, v float64) float64) mixed {
	n, k := len(x.NewScores().Iterate), x.Outputs
	return mixed{
		widen: widen,
		base:  make([]float64, k), left: make([]float64, k), add: make([]float64, k), out: make([]float64, k),
		bases: make([]float64, n), lanes: make([]float64, n),
	}
}

// mix mixes what the levels say of an event. The result is borrowed until the next call.
func (l *Learner) mix(in *encode.Input, lanes []float64, f *filled) *mixed {
	m, active := &l.room.mixed, l.levels.Active()
	l.levels.PublishedIntercepts(l.encoder.Intercepts, m.bases)
	l.mixture.Score(m.bases, in.Range, active, m.base)
	l.mixture.Score(lanes, in.Range, active, m.left)
	if f.some {
		l.mixture.Score(f.lanes, in.Range, active, m.add)
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
// they are mixed, and its lanes, with policies as they are mixed.
func (l *Learner) observeLacking(in *encode.Input, lanes []float64, f *filled, by *mixture.Event) {
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
	for j, b := range m.bases {
		x := b + how.Scale*(lanes[j]-b)
		if f.some && share > 0 {
			x = m.widen(x+share*f.lanes[j], share*share*m.variance[j%outputs])
		}
		m.lanes[j] = x
	}
	l.mixture.Observe(m.lanes, in.Range, by)
}
