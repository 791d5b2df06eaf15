package online

// This file makes of the scores of the bank what a reader of the model is told.

import (
	"blankout/internal/event"
	"blankout/online/answer"
	"blankout/online/cover"
	"blankout/online/fields"
	"blankout/online/numbers"
	"blankout/online/probe"
	"blankout/online/rows"
	"blankout/online/watch"
	"slices"
)

// answering makes of the bank's scores what a reader of the model is told: it owns all that
// decides an answer, and no weight but those of the second-order expert.
type answering struct {
	*bank
	chosen   int          // the level with the largest share of whole events
	shares   *probe.Table // of levels and rules
	probing  probing
	fields   fields.Fields
	base     []float64 // by output: the published intercepts, where the event at hand lacks fields
	filling  filling
	deleting deleting
	link     answer.Link // see linked
	judge    answer.Judge
	residual numbers.Residual // of numbers
	second   second
	masked   masked
	earlier  earlier
	faults   faults
	// Mixture weights come into force more often up to this event, see drifted.
	hurriedUntil uint64
	sets         *cover.Cover // nil where Config.Coverage is 0
	// positive names the positive one of two classes, "" where nothing does: see positiveName.
	positive    string
	measured    *watch.Measures // which classes have come, for the positive one
	classScores []float64       // see byClass
}

// widened returns the scores of an event from before there were as many classes as now.
func (l *answering) widened(scores []float64) []float64 {
	n := l.young.Scores(l.k)
	if len(scores) == n {
		return scores
	}
	out := slices.Clone(scores)
	if len(out) == 1 {
		out = []float64{-scores[0], scores[0]}
	}
	for len(out) < n {
		out = append(out, rows.NoClass)
	}
	return out
}

// publish makes of the sums what the model answers to the event, and takes up how its numbers
// go together.
func (l *answering) publish(e *event.Example) {
	now := &l.now
	l.followRead()
	for j := range l.n {
		now.published[j] = now.step.F[j] + l.levels[j/l.k].LagShare()*now.lag[j]
		if now.hasMoved {
			now.published[j] += now.moved[j]
		}
	}
	l.scoreSecond()
	l.mixOf(l.mixed(l.fields.Range), now.published, now.scores)
	if l.fields.Lack.Some() {
		l.fillAnswer(e, now.scores)
		l.answer()
	}
	l.readDead(e)
	if l.scaling.Read.Reviewed {
		l.chooseZeros()
	}
	l.filling.Follow(&l.scaling.Read, l.filling.gathers, l.events, l.fade.Growth, l.schema.Fields, l.fields.Missing.Zeros)
	for k := l.active; k < l.k; k++ {
		now.scores[k] = rows.NoClass
	}
}

// lack finds out what the event at hand lacks and how that is answered, and counts its fields. It comes
// before anything of the event is learned.
func (l *answering) lack(e *event.Example) {
	second := l.second.on()
	l.second.attend(l.events)
	l.filling.gathers, l.filling.answers = e.Label != event.Unlabeled && l.fillsIn() && l.events%l.filling.Every() == 0, false
	l.scaling.Read.Notes, l.scaling.Read.Follows = l.filling.gathers || second || l.readsDead(), len(l.filling.Columns) > 0 || second
	l.scaling.Read.Hats = second && !l.second.away
	fields := l.schema.Fields
	if !l.fields.Take(e, fields) {
		return
	}
	if l.fields.Lack.Some() {
		l.interceptsOf(l.mixed(l.fields.Range), l.base)
	}
	if !l.shared() && l.fields.Count(l.faults.asCame(e), e, fields, l.events) && l.set.observed {
		l.setRates(l.fields.Rates(fields))
	}
}

// answer makes of the scores at hand, which are those of the features as they are,
// what the model answers to an event that lacks some.
func (l *answering) answer() {
	scores := l.now.scores
	for k := range l.active {
		scores[k] = l.base[k] + l.fields.Scale*(scores[k]-l.base[k])
	}
	if l.filling.answers {
		copy(scores, l.filling.answer[:l.active])
	}
}
