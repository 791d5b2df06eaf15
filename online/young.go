package online

// This file has young classes share an output once outputs of their own would take too much room, see package young.

import (
	"math"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/online/memory"
	"blankout/online/rows"
	"blankout/online/young"
)

// blockYoung is the block of a checkpoint that holds which output learns which class; without it each has one of its own.
const blockYoung = "young"

// youngBytes is how many bytes the outputs of young classes may take before these classes share one. Half of it is then for
// those of the most events.
const youngBytes = 128 << 20

// moreClasses is how many times as many labels as max_classes may come besides.
const moreClasses = 9

// TakeMoreClasses has the decoder of a Schema name more classes than max_classes: labels that come a few times, whose classes share
// an output, then take no class's place. It is for classes that nobody has named, of a stream that a single Learner learns.
func TakeMoreClasses(s *event.Schema) {
	if s.Target == loss.Sign && s.MaxClasses > young.Own {
		s.MoreClasses = moreClasses * s.MaxClasses
	}
}

// outputsAfter returns how many outputs there will be after an event, at most, and whether young classes begin to share
// one with it. full says that there is no other way to have that many.
func (l *answering) outputsAfter(e *event.Example) (outputs int, begins, full bool) {
	label := e.Label
	switch {
	case l.young.On():
		if label >= l.young.Known() && l.young.Young() == 0 || l.promotes(e) && l.young.Young() > 1 {
			return l.k + 1, false, false
		}
		return l.k, false, false
	case label >= max(l.k, 2):
		outputs = label + 1
	default:
		outputs = l.k
	}
	// Several learners of one model have an output for each class that there may be.
	if label < 0 || outputs <= young.Own || l.set.numbers || l.share != nil {
		return outputs, false, false
	}
	count := l.youngAlone(outputs)
	if full = count > 0 && (outputs > l.schema.MaxClasses || outputs > l.k && !l.fits(outputs)); full {
		return outputs - count + 2, true, true
	}
	return outputs, l.youngCost(e, count-1) > l.youngBytes, false
}

// isYoung says whether a class has had too few events for an output of its own where room is short.
func (l *answering) isYoung(class int) bool {
	return class >= young.Own && l.eventsOf(class) < young.Ripe
}

// eventsOf returns the number of labeled events of a class.
func (l *answering) eventsOf(class int) uint64 {
	if class < len(l.measured.Classes) {
		return l.measured.Classes[class]
	}
	return 0
}

// youngAlone returns how many of the first classes are young and share no output.
func (l *answering) youngAlone(classes int) (n int) {
	for class := young.Own; class < classes; class++ {
		if l.isYoung(class) && !l.young.IsYoung(class) {
			n++
		}
	}
	return n
}

// youngCost returns how many bytes so many outputs may take when an event has been learned.
func (l *answering) youngCost(e *event.Example, outputs int) int64 {
	return memory.Bytes(l.table.Len()+len(e.Features.Index), outputs*(l.width(2)-l.width(1)))
}

// promotes says whether an event gives its class, which shares an output, one of its own: the eighth if there is room
// for it at all, the second if young classes then take half of what they may.
func (l *answering) promotes(e *event.Example) bool {
	if e.Label < 0 || !l.young.IsYoung(e.Label) {
		return false
	}
	events, alone := 1+l.eventsOf(e.Label), l.youngAlone(l.young.Known())
	own := l.k - 1 // the others are those of single classes
	switch {
	case events < 2 || l.young.Young() > 1 && !l.fits(l.k+1):
		return false
	case events < young.Ripe:
		return own < l.schema.MaxClasses && 2*l.youngCost(e, alone+1) <= l.youngBytes
	}
	return own < l.schema.MaxClasses || alone > 0
}

// fits says whether the rows of so many outputs fit Config.MaxMemory.
func (l *bank) fits(outputs int) bool {
	return memory.Bound(l.config.MaxMemory).Fits(l.table.Len(), l.width(outputs))
}

// shareOutputs changes which output learns which class as an event needs it, before it is scored.
func (l *Learner) shareOutputs(e *event.Example) {
	_, begins, full := l.outputsAfter(e)
	half := int(l.youngBytes / max(1, 2*l.youngCost(e, 1)))
	switch {
	case begins:
		if l.k < young.Own {
			l.widen(young.Own)
			l.setAnswerOutputs()
		}
		l.activate(young.Own)
		if full {
			half = 0
		}
		l.mergeYoung(half)
	case !l.young.On():
		return
	case l.youngCost(e, l.youngAlone(l.young.Known())) > l.youngBytes:
		l.mergeYoung(half)
	}
	for e.Label >= l.young.Known() {
		if l.young.Young() == 0 {
			l.widen(l.k + 1)
			l.activate(l.k)
			l.setAnswerOutputs()
		}
		l.shiftIntercepts(l.young.Shared(), l.young.Add(l.k-1))
	}
	if l.promotes(e) {
		if l.k-1 >= l.schema.MaxClasses { // another class leaves its place
			l.mergeYoung(0)
		}
		l.promote(e.Label)
	}
}

// mergeYoung has young classes share an output from here on, but for at most so many of the most events. It begins as
// the mean of theirs, as likely as all of them together.
func (l *Learner) mergeYoung(but int) {
	known, least := l.activeScores(), uint64(young.Ripe) // which have fewer events share
	var count [young.Ripe]int
	for class := young.Own; class < known; class++ {
		if l.isYoung(class) && !l.young.IsYoung(class) {
			count[l.eventsOf(class)]++
		}
	}
	for ; least > 1 && count[least-1] <= but; least-- {
		but -= count[least-1]
	}
	from := l.young.Merge(known, l.k, func(class int) bool { return class >= young.Own && l.eventsOf(class) < least }, l.eventsOf)
	var all []float64 // by level
	last := from[len(from)-1]
	for v := range l.levels {
		sum := 0.0
		for _, k := range last {
			sum += math.Exp(l.weights(l.bias)[v*l.k+k])
		}
		all = append(all, math.Log(sum))
	}
	l.regroup(from)
	if len(last) > 1 && l.set.intercept {
		for v, b := range all {
			j := v*l.k + l.young.Shared()
			l.shiftIntercept(j, b-l.weights(l.bias)[j])
		}
	}
}

// promote gives a class that shares an output one of its own: the shared one if no other class has it.
func (l *Learner) promote(class int) {
	if l.young.Young() > 1 {
		from := make([][]int, l.k, l.k+1)
		for k := range from {
			from[k] = []int{k}
		}
		l.regroup(append(from, []int{l.young.Shared()}))
	}
	own, shared := l.young.Promote(class, l.k-1)
	l.shiftIntercepts(l.young.Output(class), own)
	l.shiftIntercepts(l.young.Shared(), shared)
}

// regroup gives the Learner as many outputs as there are lists: each begins as the mean of those former ones.
func (l *Learner) regroup(from [][]int) {
	was := *l.bank
	sumsq := make([][]float64, len(l.levels))
	for v := range l.levels {
		sumsq[v] = l.levels[v].sumsq
	}
	l.setOutputs(len(from))
	regroup := func(to, of []float64) {
		l.rule.Start(to)
		copy(to[:rows.FirstPart], of[:rows.FirstPart])
		for part := range l.parts() {
			rows.Regroup(l.layout.Part(to, part), was.layout.Part(of, part), from, was.k)
		}
	}
	for slot := range was.table.Len() {
		column, row := was.table.Column(slot)
		regroup(l.table.Touch(column), row)
	}
	regroup(l.bias, was.bias)
	for v := range l.levels {
		rows.Regroup(l.levels[v].sumsq, sumsq[v], from, was.k)
	}
	l.active = l.k
	l.wrote()
	if l.second.expert != nil {
		l.second.expert.Regroup(from)
	}
	l.young.Changed = l.events + 1
	l.setAnswerOutputs()
}

// shiftIntercepts adds to the intercepts of an output.
func (l *bank) shiftIntercepts(output int, by float64) {
	if by == 0 || !l.set.intercept {
		return
	}
	for j := output; j < l.n; j += l.k {
		l.shiftIntercept(j, by)
	}
}

// shiftIntercept adds to an intercept: the lag of the average stays.
func (l *bank) shiftIntercept(j int, by float64) {
	b, center := l.weights(l.bias)[j]+by, l.refresh.CenterOf(l.bias)[j]+by
	l.rule.Set(l.bias, j, b)
	l.refresh.CenterOf(l.bias)[j] = center // the weights themselves, or the window's own
}

// activeScores returns how many of the first scores are in use: those of the classes that have appeared.
func (l *answering) activeScores() int {
	if l.young.On() {
		return l.young.Known()
	}
	return l.active
}

// byClass returns the scores of the classes, given those of the outputs, borrowed until the next call.
func (l *answering) byClass(scores []float64) []float64 {
	if !l.young.On() {
		return scores
	}
	l.classScores = l.young.Expand(scores, rows.NoClass, l.classScores[:0])
	return l.classScores
}
