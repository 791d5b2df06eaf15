package online

// This file tells package cover what was answered, to find how much answers must leave open to hold the
// truth as often as Config.Coverage says.

import (
	"blankout/internal/model"
	"blankout/online/cover"
)

// sizeEvery is how often the size of sets of more than two classes is found.
const sizeEvery = 16

// covers says whether answers have sets that learn.
func (l *answering) covers() bool { return l.sets != nil && l.period == 0 }

// takeTold takes up what the event at hand was told: scores, of classes, what they mean, and what they come to.
func (l *answering) takeTold(scores []float64, label int, d model.Decision, j model.Judged) {
	if l.covers() {
		l.sets.TakeClasses(cover.Answer{
			Range: l.fields.Range, Scores: scores, Label: label, Decision: d, Judged: j, Active: l.activeScores(),
			Sized: l.k == 1 || l.events%sizeEvery == 0, Came: true, Shared: l.shared(),
		})
	}
}

// takeMasked takes up how the event at hand is answered with a mask. The range is r, and filled says that
// what fillPattern found is part of it.
func (l *answering) takeMasked(r int, scores []float64, filled bool) {
	if !l.covers() || r == 0 || !l.shares.Heeds(r) {
		return
	}
	if !l.set.numbers {
		l.judge.Silence(scores)
		d, label := l.judge.Decision, l.judge.Class
		scores := l.byClass(scores)
		l.sets.TakeClasses(cover.Answer{
			Range: r, Scores: scores, Label: label, Decision: d, Judged: d.Judge(scores, label), Active: l.activeScores(), Sized: true, Shared: l.shared(),
		})
		return
	}
	l.takeNumber(l.judge.Raw, l.unit.Value(scores[0]), l.maskedLacked(r, filled))
}

// maskedLacked returns what a mask opens of the interval of a number.
func (l *answering) maskedLacked(r int, filled bool) model.Lacked {
	by := model.Lacked{Range: r}
	if filled {
		off := (1 - l.shares.InForce[r].Rules[2]) * l.probing.sums[2][0]
		by.Variance = l.unit.Variance(l.probing.variance[0] + off*off)
	}
	return by
}

// takeNumber takes up a value that was told for the target y.
func (l *answering) takeNumber(y, value float64, by model.Lacked) {
	if residual := l.residual.Published(); residual != nil && l.covers() {
		l.sets.TakeNumber(l.unit.Target, residual, y, value, by)
	}
}

// interval returns the interval of a value, NaN where none is known.
func (l *answering) interval(value float64, by model.Lacked) (low, high float64) {
	return l.sets.Interval(l.unit.Target, l.residual.Published(), value, by)
}

// blockSets is the block of a checkpoint that holds the scores.
const blockSets = "conformal"
