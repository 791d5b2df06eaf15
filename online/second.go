package online

// This file has a panel of experts (package panel) learn beside the levels: its score is what
// the levels say, times a coefficient, and what its own weights of numbers and hats add.

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/newton"
	"blankout/online/panel"
	"blankout/online/probe"
	"blankout/online/scaling"
)

// second is the panel, "the expert" here, and what it needs. It answers with the share probe.Mix.Second; what
// it publishes are the values that are own to it in each row.
type second struct {
	expert *panel.Panel // nil where the settings leave it out
	off    bool         // there are too many numbers for it
	gain   panel.Gain
	away   bool                    // it rests, and has no part in the event at hand
	mixes  [probe.Ranges][]float64 // see answering.mixed; valid where made says so
	made   [probe.Ranges]bool
	stale  bool // the rows do not have what the expert's weights are

	// About the event at hand.
	columns            []uint32
	x, raw             []float64 // raw is of the numbers alone, as they come
	placed             bool      // masked.places are those of the event
	base, scores, last []float64 // by output: of the mixed levels, of the expert, and room
	moved              []float64 // by output: by how much its own part was larger before scales moved
	targets            []float64
	pair               [2][]float64 // see secondPair
	summed             bool
	sums               []float64 // see terms
	shares             []float64 // see centerSecond
	groups             newton.Groups
}

const (
	// secondShare is the share that the expert begins with.
	secondShare = 0.5
	// centerEvery is at every how many events a curve is centered.
	centerEvery = 32
	// secondHalfLife is that of what it knows where none is configured, in events.
	secondHalfLife = 2000
)

// on says whether there is an expert.
func (s *second) on() bool { return s.expert != nil && !s.off }

// knows says whether there is an expert that has numbers: without, it is left aside.
func (s *second) knows() bool { return s.on() && len(s.expert.Columns()) > 0 }

// share is its share of the answers that a mixture gives.
func (s *second) share(m *probe.Mix) float64 {
	if !s.knows() || s.gain.Resting() {
		return 0
	}
	return m.Second
}

// attend finds out whether the expert has a part in the event of that number.
func (s *second) attend(number uint64) {
	s.away = s.knows() && s.gain.Resting() && number%panel.RestEvery != 0
}

// secondKnots returns the knots of each curve of so many numbers: as many as the second-order expert has
// room for, and where that has none mostKnots.
func secondKnots(numbers int) int {
	if numbers*(1+fewKnots) <= newton.MostColumns && numbers*(1+mostKnots) > newton.MostColumns {
		return fewKnots
	}
	return mostKnots
}

// The knots of a curve.
const mostKnots, fewKnots = 5, 3

// beginSecond makes the expert, if the settings want one.
func (l *Learner) beginSecond() {
	if !l.set.second {
		return
	}
	half := l.config.HalfLife
	if half == 0 {
		half = secondHalfLife
	}
	own, groups := loss.AsGroups(l.levels[l.natural()].noise).Odds("") // 0 for silent noise: it learns masked copies
	l.second.expert = panel.New(newton.Settings{
		Loss: l.set.loss, Ridge: max(l.set.ridge, leastSecondRidge), HalfLife: half, Strength: own * (1 + groups), Groups: groups,
	}, l.k, !l.set.numbers && !l.set.grouped())
	l.shares.AddSecond(secondShare)
	l.second.room(l.k)
}

// leastSecondRidge keeps the expert's matrix regular where there is no ridge.
const leastSecondRidge = 1e-3

// room makes room for so many outputs.
func (s *second) room(outputs int) {
	for _, p := range []*[]float64{&s.base, &s.scores, &s.last, &s.targets} {
		*p = make([]float64, outputs)
	}
}

// followRead takes up what the bank has read of the event at hand: which numbers there are, and in
// what they are measured.
func (l *answering) followRead() {
	s, read := &l.second, &l.scaling.Read
	if !s.on() {
		return
	}
	s.columns, s.x, s.raw, s.placed = s.columns[:0], s.x[:0], s.raw[:0], false
	for _, v := range read.Values {
		s.columns, s.x, s.raw = append(s.columns, v.Column), append(s.x, v.X), append(s.raw, v.Raw)
	}
	s.moved = zeros(s.moved, l.k)
	if len(read.Moved)+len(read.Gone) > 0 {
		l.addMovedSecond(1)
		l.moveSecond()
		l.addMovedSecond(-1)
		s.changed()
	}
	if l.scaling.Scaler.Curves != nil {
		s.columns, s.x = append(s.columns, l.scaling.Hats.Index...), append(s.x, l.scaling.Hats.Value...)
	}
}

// moveSecond has the expert follow the columns whose scales have moved, and those that are no
// numbers any more.
func (l *answering) moveSecond() {
	s, read := &l.second, &l.scaling.Read
	for _, m := range read.Moved {
		if m.Was.Unit != m.Is.Unit || m.Was.Scale == 0 || m.Is.Scale == 0 {
			s.expert.Renew(m.Column)
			continue
		}
		s.expert.Move(m.Column, m.Ratio, m.Shift)
	}
	if len(read.Gone) == 0 {
		return
	}
	s.expert.Follow(slices.DeleteFunc(slices.Clone(s.expert.Columns()), func(c uint32) bool { return slices.Contains(read.Gone, c) }))
	for _, column := range read.Gone {
		clear(l.own(l.noteOne(column)))
		if i := slices.Index(s.columns, column); i >= 0 {
			s.columns, s.x, s.raw = slices.Delete(s.columns, i, i+1), slices.Delete(s.x, i, i+1), slices.Delete(s.raw, i, i+1)
		}
	}
}

// addMovedSecond adds sign times what the intercept and the columns that move or go add to the expert's
// own part of the scores: as the event had them for a sign above 0, else as it has them.
func (l *answering) addMovedSecond(sign float64) {
	s, read := &l.second, &l.scaling.Read
	add := func(column uint32, x float64) {
		if i, known := slices.BinarySearch(s.expert.Columns(), column); known {
			for k := range s.moved {
				s.moved[k] += sign * x * s.expert.Weight(k, i)
			}
		}
	}
	for k := range s.moved {
		s.moved[k] += sign * s.expert.Intercept(k)
	}
	for _, m := range read.Moved {
		if sign > 0 {
			add(m.Column, m.X)
		} else if i, there := slices.BinarySearch(s.columns, m.Column); there {
			add(m.Column, s.x[i])
		}
	}
	for _, column := range read.Gone {
		if i, there := slices.BinarySearch(s.columns, column); there && !slices.ContainsFunc(read.Moved, func(m scaling.Moved) bool { return m.Column == column }) {
			add(column, s.x[i])
		}
	}
}

// changed says that the expert's weights have changed.
func (s *second) changed() { s.stale, s.made = true, [probe.Ranges]bool{} }

// scoreSecond scores the event at hand: the levels have.
func (l *answering) scoreSecond() {
	s := &l.second
	if !s.on() || !s.knows() && len(s.columns) == 0 {
		return
	}
	s.summed = false
	if s.away {
		clear(l.now.published[l.n:])
		return
	}
	l.mixOf(l.shares.InForce[0].Levels, l.now.published, s.base)
	if s.expert.Score(s.columns, s.x, s.base, s.scores) < len(s.columns) {
		columns := slices.Concat(s.expert.Columns(), s.columns)
		slices.Sort(columns)
		if columns = slices.Compact(columns); !panel.Fits(len(columns), l.k) {
			l.leaveSecond()
			return
		}
		l.followSecond(columns)
		s.expert.Score(s.columns, s.x, s.base, s.scores)
	}
	l.groupSecond()
	for k, added := range s.expert.Added() {
		l.now.published[l.n+k] = added + s.moved[k]
	}
}

// followSecond makes these the expert's columns: hats that the levels do not know get a row.
func (l *answering) followSecond(columns []uint32) {
	l.second.expert.Follow(columns)
	for _, column := range columns {
		if row := l.noteOne(column); column >= model.FirstHat && row[model.StatInverse] == 0 {
			row[model.StatCount], row[model.StatInverse] = 1, 1
		}
	}
}

// leaveSecond leaves the expert out from here on.
func (l *answering) leaveSecond() {
	for _, column := range l.second.expert.Columns() {
		clear(l.own(l.noteOne(column)))
	}
	clear(l.now.published[l.n:])
	l.second.off = true
	l.second.expert.Follow(nil)
}

// withoutSecond makes the Learner one whose settings know no expert: what the levels have learned
// stays.
func (l *Learner) withoutSecond() {
	l.config.Optimizer = "adagrad"
	if l.second.expert == nil {
		return
	}
	width := l.table.Width() - l.ownWeights()
	table := model.NewTable(width)
	for slot := range l.table.Len() {
		column, row := l.table.Column(slot)
		copy(table.Touch(column), row[:width])
	}
	l.table, l.snapshot, l.bias = table, nil, slices.Clip(l.bias[:width])
	l.now.published = l.now.published[:l.n]
	l.set.second, l.second, l.scaling.Expert = false, second{}, nil
	l.shares.RemoveSecond()
	l.wrote()
}

// learnSecond has the expert learn the event at hand.
func (l *answering) learnSecond(e *event.Example) {
	s := &l.second
	if !s.knows() || s.away {
		return
	}
	for k := range l.active {
		s.targets[k] = l.targetOf(l.now.output, k)
	}
	copies := uint64(1)
	if l.silent != nil && l.silent.grouping != nil && l.events <= earlyGroups {
		copies = copiesFirst
	}
	for i := range copies {
		if i > 0 {
			l.drawSilent(i)
			l.scoreSilent()
		}
		if s.expert.Learn(s.targets, l.active, l.now.weight*l.classes[e.Label]) {
			s.changed()
		}
	}
	l.centerSecond()
}

// centerSecond has one of the curves, whose turn it is, add nothing in the mean. The hats of a number add
// up to 1 wherever it is there, so events that have it do not tell what is the curve's and what the
// intercept's; where it goes missing, that decides.
func (l *answering) centerSecond() {
	c := l.scaling.Scaler.Curves
	if c == nil || l.events%centerEvery != 0 {
		return
	}
	curve := int(l.events/centerEvery) % len(c.Columns)
	knots := len(c.Knots[curve])
	if knots < 2 {
		return
	}
	// Knots are quantiles: between each two there are as many numbers.
	shares := l.second.shares[:0]
	for knot := range knots {
		share := 1 / float64(knots-1)
		if knot == 0 || knot == knots-1 {
			share /= 2
		}
		shares = append(shares, share)
	}
	l.second.shares = shares
	l.second.expert.Pull(c.Hat(curve, 0), shares)
	l.second.changed()
}

// publishSecond writes the expert's weights to the rows, before these are read.
func (l *answering) publishSecond() {
	s := &l.second
	if !s.on() || !s.stale {
		return
	}
	s.stale = false
	for i, column := range s.expert.Columns() {
		for k, own := 0, l.own(l.noteOne(column)); k < l.k; k++ {
			own[k] = s.expert.Weights(k)[i]
		}
	}
}

// mixSecond makes the mixture of a range of the shares in force and of the expert's coefficient.
func (l *answering) mixSecond(r int) []float64 {
	s := &l.second
	if s.made[r] {
		return s.mixes[r]
	}
	s.made[r] = true
	pair, share := l.secondPair(r), s.share(&l.shares.InForce[r])
	mix := append(s.mixes[r][:0], pair[0]...)
	for v := range mix {
		mix[v] = (1-share)*mix[v] + share*pair[1][v]
	}
	s.mixes[r] = mix
	return mix
}

// secondPair returns as mixtures what answers the events of a range without the expert, and the
// expert, borrowed.
func (l *answering) secondPair(r int) [2][]float64 {
	s, n := &l.second, len(l.levels)
	for i := range s.pair {
		s.pair[i] = zeros(s.pair[i], n+1)
	}
	coefficient := s.expert.Base()
	for v := range n {
		s.pair[0][v] = l.shares.InForce[r].Levels[v]
		s.pair[1][v] = coefficient * l.shares.InForce[0].Levels[v]
	}
	s.pair[1][n] = 1
	return s.pair
}

// probeSecond takes up what the levels as they are mixed and the expert lose at the event at hand,
// which lacks nothing.
func (l *answering) probeSecond() {
	s := &l.second
	if !s.knows() || s.away {
		return
	}
	levels, experts := l.said()
	switch {
	case len(experts) > 0:
		s.expert.Recall(experts)
	case experts != nil: // there was none yet
		return
	}
	lost := s.expert.Take(l.judge.Lost)
	l.mixOf(l.shares.InForce[0].Levels, levels, s.last)
	alone := l.judge.Lost(s.last)
	l.shares.TakeSecond(0, alone, lost)
	s.gain.Take(alone, l.judge.Lost(s.blend(s.expert.Scores(), l.shares.InForce[0].Second)))
}

// blend moves the scores in last by a share of the way to others, and returns them.
func (s *second) blend(others []float64, share float64) []float64 {
	for k, f := range others {
		s.last[k] += share * (f - s.last[k])
	}
	return s.last
}

// sumTerms finds terms for the event at hand.
func (l *answering) sumTerms() {
	s := &l.second
	if !s.knows() || s.summed {
		return
	}
	s.summed = true
	s.sums = zeros(s.sums, len(l.features())*l.k)
	if s.away {
		return
	}
	places := s.expert.Places()
	if s.placed {
		places = l.masked.places
	}
	columns, at := l.now.columns[:len(l.features())], 0
	for i, column := range s.columns {
		for at < len(columns) && columns[at] < column {
			at++
		}
		feature := at
		if at == len(columns) || columns[at] != column { // a hat that the levels do not know
			var known bool
			if feature, known = slices.BinarySearch(columns, l.scaling.Scaler.Curves.Source(column)); !known {
				continue
			}
		}
		place := places[i]
		if place < 0 {
			continue
		}
		s.expert.AddWeights(s.sums[l.rowOf(feature)*l.k:][:l.k], s.x[i], place)
	}
}

// weight returns the expert's own weight of a column for output k, 0 for one that it does not have.
func (s *second) weight(column uint32, k int) float64 {
	if i, known := slices.BinarySearch(s.expert.Columns(), column); known {
		return s.expert.Weight(k, i)
	}
	return 0
}

// terms returns what the expert's own weights add, by output, for row i at hand: for a number and its
// hats. sumTerms has found it.
func (s *second) terms(i int) []float64 { return s.sums[i*len(s.base):][:len(s.base)] }

// rescaleSecond says that all scores are factor times what they were, and shift.
func (l *answering) rescaleSecond(factor, shift float64) {
	if l.second.on() {
		l.second.expert.Rescale(factor, shift)
		l.second.changed()
	}
}

// widenSecond gives the expert the outputs that the bank has now.
func (l *answering) widenSecond() {
	if l.second.expert == nil {
		return
	}
	l.second.room(l.k)
	l.second.expert.Widen(l.k)
	if !panel.Fits(len(l.second.expert.Columns()), l.k) {
		l.leaveSecond()
	}
	l.second.changed()
}

// adoptSecond has the expert begin anew beside levels that are placed at exact solutions. What these
// say of its hats, mixed as the levels are, is its own; it then answers alone.
func (l *Learner) adoptSecond(hat func(column uint32, v, k int) float64) {
	if !l.second.on() {
		return
	}
	s, mix, hats := &l.second, l.shares.InForce[0].Levels, false
	own := l.scaling.OwnHats()
	s.expert.Restart()
	s.gain = panel.Gain{}
	for _, column := range s.expert.Columns() {
		if !own(column) {
			continue
		}
		hats = true
		for k := range l.active {
			w := 0.0
			for v, share := range mix {
				w += share * hat(column, v, k)
			}
			s.expert.Set(column, k, w)
		}
	}
	if hats {
		l.shares.SecondAlone()
	}
	s.changed()
}

// startFresh has the second-order expert start again, and be mixed in as at the beginning of a stream.
func (l *answering) startFresh() {
	if !l.second.on() {
		return
	}
	l.second.expert.StartFresh()
	l.shares.SecondAgain(secondShare)
	l.second.gain = panel.Gain{}
	l.second.changed()
}

func (l *answering) forgetSecond(keep float64) {
	if l.second.on() {
		l.second.expert.Forget(keep)
	}
}

// state walks the state.
func (s *second) state(c *coder.Coder) {
	off := uint64(0)
	if s.off {
		off = 1
	}
	c.Uint(&off)
	s.off = off != 0
	s.expert.State(c)
	s.gain.State(c)
	s.made = [probe.Ranges]bool{}
}
