package online

// This file answers events in every way before they are learned: whole ones, those that lack
// fields by themselves, and those of which a mask deletes some. What the answers lose moves the
// shares of levels and rules; what the mixed answer loses is the forecast.

import (
	"bytes"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/probe"
)

// probing is the scratch memory of probes.
type probing struct {
	coefficient []float64   // by level and output, of lags
	base        []float64   // by level and output: the published intercepts
	bins, left  [][]float64 // by point, of level and output: what dies there, and what is left
	gone        [][]float64 // by point, of level and output: what is dead adds if nobody says so
	field       []uint16    // by feature, see event.Example.FieldsOf
	factors     [][2]int    // see event.Schema.Factors
	mask        probe.Mask
	absent      probe.Mask // of the columns of the Covariance that are 0 because the event at hand leaves them out
	zeros       []uint32   // these
	zeroPlaces  []int      // and their places
	places      []int      // by feature: its place in the Covariance, -1 for none
	part, own   model.Parts
	x, observed []float64
	add         []float64  // by level and output: what filling in adds
	variance    []float64  // by output
	filled      patternMix // that add and variance are of, of the event at hand
	w, extra    []float64  // by place
	sums        [3][]float64
	out         []float64 // by output
	losses      []float64
}

// patternMix is a pattern, empty for none, and a mixture of levels.
type patternMix struct {
	pattern model.Parts
	mix     []float64
}

// Shares are put in force at every applyEvery-th event.
const applyEvery = 256

// probe takes up what the answers to the event at hand lose.
func (l *answering) probe(e *event.Example) {
	l.judging(e)
	often := probe.AsCame(l.events, l.second.share(&l.shares.InForce[0]) == 0)
	whole := !l.fields.Lack.Some() && l.period == 0 && often
	switch {
	case l.silent != nil:
		l.judgeSilent(whole)
	case whole:
		if len(l.levels) > 1 {
			l.probeWhole()
		}
		l.probeSecond()
	}
	if !l.set.numbers && l.k == 1 || l.set.numbers {
		l.forecastExactly()
	}
	own := often && l.lacksOwn() && l.period == 0 && !l.shared()
	if !own && !probe.Due(l.events) {
		return
	}
	l.prepare(e)
	if own {
		l.probeOwn(e)
	}
	if !probe.Due(l.events) {
		return
	}
	declared := l.filling.grouping.Declared()
	l.probeMasked(e, false, !declared)
	if declared || l.grouped() {
		l.probeMasked(e, true, declared)
	}
}

// probeWhole takes up what the levels lose at the event at hand, which lacks nothing.
func (l *answering) probeWhole() {
	p := &l.probing
	said, _ := l.said()
	p.losses = l.judge.AddLosses(p.losses[:0], said[:l.n], l.k)
	if l.shared() {
		l.shares.AddLevels(p.losses)
	} else {
		l.shares.TakeLevels(0, p.losses)
	}
}

// judging makes the event at hand the one that scores are judged by.
func (l *answering) judging(e *event.Example) {
	j := &l.judge
	j.Label, j.Class, j.Active, j.Classes = l.now.output, e.Label, l.active, &l.young
	if l.set.numbers {
		j.Unit, j.Raw, j.Target = l.unit, e.Target, l.now.target
	} else {
		j.Decision = l.decision()
	}
}

// prepare finds the intercepts and the features' fields and places of the event at hand.
func (l *answering) prepare(e *event.Example) {
	p, now := &l.probing, &l.now
	p.filled.pattern, p.base, p.coefficient = p.filled.pattern[:0], p.base[:0], p.coefficient[:0]
	w, u := l.weights(l.bias), l.lags(l.bias)
	for j := range l.n {
		c, b := l.levels[j/l.k].LagShare(), 0.0
		if l.set.intercept {
			b = w[j] + c*u[j]
		}
		p.base, p.coefficient = append(p.base, b), append(p.coefficient, c)
	}
	if l.second.knows() {
		for k := range l.k {
			p.base = append(p.base, l.second.expert.Intercept(k))
		}
		l.sumTerms()
	}
	columns := now.columns[:len(l.features())]
	p.field = p.field[:0]
	if len(e.Field) > 0 {
		p.field = l.scaling.Scaler.FieldsOf(e, columns, p.field)
	}
	if len(p.factors) != len(l.schema.Fields) {
		p.factors = l.schema.Factors()
	}
	p.places = p.places[:0]
	c := l.filling.Covariance
	if c == nil {
		return
	}
	n := len(c.Columns)
	p.part, p.observed = slices.Grow(p.part[:0], n)[:n], zeros(p.observed, n)
	for i, id := range c.Fields {
		if p.part[i] = model.Apart; id == 0 && (!l.fields.Missing.Known || l.fields.Missing.ReadsZero(c.Columns[i])) {
			p.part[i] = model.Observed // left out it is 0
		}
	}
	h := model.Head{Schema: l.schema, Covariance: c, Missing: l.fields.Missing}
	p.own = h.Parts(e, l.fields.Present, p.own[:0])
	copy(p.part, p.own)
	at := 0
	for i, column := range columns {
		for at < n && c.Columns[at] < column {
			at++
		}
		place := -1
		if at < n && c.Columns[at] == column {
			place = at
			x := now.step.X[l.rowOf(i)]
			if p.observed[at], p.part[at] = x, model.Observed; model.IsWild(x) {
				p.part[at] = model.Apart
			}
		}
		p.places = append(p.places, place)
	}
}

// lacksOwn says whether the event at hand lacks some of its fields by itself, and not all.
func (l *answering) lacksOwn() bool {
	k := &l.fields.Lack
	return k.Some() && k.Named+k.Silent > 0
}

// probeOwn takes up the answers to the event at hand, which lacks fields by itself.
func (l *answering) probeOwn(e *event.Example) {
	k, p := l.fields.Lack, &l.probing
	p.left = grown(p.left, probe.Points, len(p.base))
	left := p.left[0]
	for j, b := range p.base {
		left[j] = l.now.published[j] - b
	}
	filled := l.filling.Covariance != nil && slices.Contains(p.part, model.Filled) && l.fills(0)
	if filled {
		l.fillPattern(probe.Range(k), p.part)
	} else if l.filling.Covariance != nil && slices.Contains(p.part, model.Filled) {
		return // not its turn
	}
	l.shares.Own(probe.Range(k))
	l.weigh(probe.Range(k), k, left, filled, true)
}

// probeMasked takes up the answers to the event at hand with features, or groups of them, deleted by
// a mask: the forecasts, and what the ranges learn if moves is set. A nested mask has for each
// feature the last point that it survives.
func (l *answering) probeMasked(e *event.Example, groups, moves bool) {
	p := &l.probing
	lack := l.fields.All(l.schema.Fields)
	named := l.drawMask(e, groups)
	l.sumLeft()
	l.sumGone()
	declared, silent := &l.shares.Features, &l.shares.SilentFeatures
	if groups {
		declared, silent = &l.shares.Groups, &l.shares.SilentGroups
	}
	if groups || l.k > 1 {
		declared.Error.Add(0, l.judge.Wrong(l.told()))
	}
	declared.LogLoss.Add(0, l.judge.LogLoss(l.told()))
	covers := moves
	if moves = moves && l.period == 0 && !l.shared(); moves {
		l.shares.Masked()
	}
	c := l.filling.Covariance
	p.own = append(p.own[:0], p.part...)
	for point := 1; point < probe.Points; point++ {
		turn := l.events <= probe.Second || (probe.Number(l.events)+uint64(point))%2 == 0
		if turn {
			score := l.scoreGone(point)
			silent.Error.Add(point, l.judge.Wrong(score))
			silent.LogLoss.Add(point, l.judge.LogLoss(score))
		}
		k := lack
		k.Null, k.Named = k.Null+p.mask.Dead[point], k.Named-p.mask.Dead[point]
		if len(p.zeros) > 0 {
			k.Null, k.Named = k.Null+p.absent.Dead[point], k.Named-p.absent.Dead[point]
		}
		r, fill := probe.Range(k), false
		if c != nil && named {
			copy(p.part, p.own)
			for i, place := range p.places {
				if place >= 0 && int(p.mask.Last[i]) < point {
					p.part[place] = model.Filled
				}
			}
			for i, place := range p.zeroPlaces {
				if int(p.absent.Last[i]) < point {
					p.part[place] = model.Filled
				}
			}
			if fill = slices.Contains(p.part, model.Filled); fill && !l.fills(point) {
				continue
			}
		}
		if fill {
			l.fillPattern(r, p.part)
		}
		score := l.weigh(r, k, p.left[point], fill, moves && turn && r > 0 && l.shares.Heeds(r))
		if covers {
			l.takeMasked(r, score, fill)
		}
		if groups || l.sampled(lack.Deleted(probe.Missing(point))) {
			declared.Error.Add(point, l.judge.Wrong(score))
		}
		declared.LogLoss.Add(point, l.judge.LogLoss(score))
	}
	copy(p.part, p.own)
}

// fills says whether a point of a mask is filled in at the event at hand.
func (l *answering) fills(point int) bool {
	return probe.Fills(l.events, point, len(l.filling.Columns))
}

// drawMask draws for each feature of the event at hand, or each group of them, the last point that it
// survives. It says whether anything of the event is known to be missing when it dies.
func (l *answering) drawMask(e *event.Example, groups bool) (named bool) {
	p := &l.probing
	x := probe.Features{
		Columns: l.now.columns[:len(l.features())], Field: p.field, Schema: l.schema, Factors: p.factors,
		Curves: l.scaling.Scaler.Curves, Known: l.fields.Missing.Known && e.IsSparse(l.schema.Fields),
	}
	l.drawAbsent(e, x, groups)
	if !groups {
		return p.mask.Draw(x, probe.Number(l.events), len(l.filling.Columns), nil)
	}
	named = p.mask.Draw(x, probe.Number(l.events), len(l.filling.Columns), l.filling.grouping)
	p.mask.Alone(l.config.ExpectedMissing, l.events) // which the user expects beside groups
	return named
}

// drawAbsent draws the same for the columns of the Covariance that are 0 because the event at hand leaves them out.
func (l *answering) drawAbsent(e *event.Example, x probe.Features, groups bool) {
	p, c := &l.probing, l.filling.Covariance
	p.zeros, p.zeroPlaces = p.zeros[:0], p.zeroPlaces[:0]
	if c == nil || !x.Known || len(l.fields.Missing.Zeros) == 0 {
		return
	}
	at := 0
	for place, column := range c.Columns {
		for at < len(x.Columns) && x.Columns[at] < column {
			at++
		}
		if (at == len(x.Columns) || x.Columns[at] != column) && l.fields.Missing.ReadsZero(column) && !e.LacksColumn(column) {
			p.zeros, p.zeroPlaces = append(p.zeros, column), append(p.zeroPlaces, place)
		}
	}
	x.Columns, x.Field = p.zeros, nil
	if !groups {
		p.absent.Draw(x, probe.Number(l.events), len(l.filling.Columns), nil)
		return
	}
	p.absent.Draw(x, probe.Number(l.events), len(l.filling.Columns), l.filling.grouping)
	p.absent.Alone(l.config.ExpectedMissing, l.events)
}

// sumLeft sums what is left of the event at hand at each point.
func (l *answering) sumLeft() {
	p, n := &l.probing, len(l.probing.base)
	p.bins, p.left = grown(p.bins, 1, n), grown(p.left, probe.Points, n)
	for point := range p.left {
		clear(p.left[point])
	}
	clear(p.bins[0])
	rows := l.features()
	for i, last := range p.mask.Last {
		to := p.bins[0] // dead in any case
		if last >= 0 {
			to = p.left[last]
		}
		at := l.rowOf(i)
		row, x := rows[at], l.now.step.X[at]
		w, lag := l.weights(row), l.lags(row)
		for j, c := range p.coefficient {
			to[j] += x * (w[j] + c*lag[j])
		}
		if n > l.n {
			for k, term := range l.second.terms(at) {
				to[l.n+k] += term
			}
		}
	}
	for point := probe.Points - 2; point >= 0; point-- {
		for j, x := range p.left[point+1] {
			p.left[point][j] += x
		}
	}
}

// sumGone sums what the features of the event at hand that are dead at each point add if they died silently: a number
// reads what it reads when it is dead, everything else is not sent.
func (l *answering) sumGone() {
	p, s, n := &l.probing, &l.second, len(l.probing.base)
	p.gone = grown(p.gone, probe.Points, n)
	for point := range p.gone {
		clear(p.gone[point])
	}
	rows, curves := l.features(), l.scaling.Scaler.Curves
	walk, raw := l.dead.Walk(), l.dead.Walk()
	for i, column := range l.now.columns[:len(rows)] {
		first := int(p.mask.Last[i]) + 1 // point at which it is dead
		if first >= probe.Points {
			continue
		}
		at, to := l.rowOf(i), p.gone[first]
		row, z := rows[at], 0.0
		switch {
		case column >= model.FirstHat:
			z = l.now.step.X[at] // its number is there
		case l.silent != nil:
			z = l.silent.dead[at]
		default:
			z = walk.Standardized(&l.scaling.Scaler, column, row[:model.ScalerWidth])
		}
		if z != 0 {
			w, lag := l.weights(row), l.lags(row)
			for j, c := range p.coefficient {
				to[j] += z * (w[j] + c*lag[j])
			}
		}
		if n == l.n || s.away || column >= model.FirstHat {
			continue
		}
		add := func(column uint32, x float64) {
			if place, known := slices.BinarySearch(s.expert.Columns(), column); known && x != 0 {
				s.expert.AddWeights(to[l.n:], x, place)
			}
		}
		add(column, z)
		if curve := curves.Of(column); curve >= 0 {
			if x := raw.Raw(column, math.NaN()); x == x {
				knot, first, next := curves.Hats(curve, x)
				add(curves.Hat(curve, knot), first)
				add(curves.Hat(curve, knot)+1, next)
			}
		}
	}
	for point := 1; point < probe.Points; point++ {
		for j, x := range p.gone[point-1] {
			p.gone[point][j] += x
		}
	}
}

// scoreGone returns the scores, borrowed, of the event at hand where what is dead at a point died silently: those of an event
// that lacks nothing.
func (l *answering) scoreGone(point int) []float64 {
	p := &l.probing
	rest := p.gone[point]
	for j, x := range p.left[point] {
		rest[j] += x
	}
	base, rest, _ := l.sumsOf(l.mixed(0), rest, false)
	for k := range l.active {
		p.out[k] = base[k] + rest[k]
	}
	return p.out
}

// fillPattern finds what filling in a pattern adds to the scores of the event at hand, and the
// variance of that: of the weights as the range mixes them, for all levels.
func (l *answering) fillPattern(r int, pattern model.Parts) {
	p, c, mix := &l.probing, l.filling.Covariance, l.mixed(r)
	last := &p.filled
	if bytes.Equal(pattern, last.pattern) && slices.Equal(mix, last.mix) {
		return // as at the point before
	}
	last.pattern, last.mix = append(last.pattern[:0], pattern...), append(last.mix[:0], mix...)
	p.add, p.variance = zeros(p.add, len(p.base)), zeros(p.variance, l.k)
	fill := c.Fill(pattern)
	if fill == nil {
		return
	}
	p.x = append(p.x[:0], p.observed...)
	fill.Expect(p.x)
	n := len(c.Columns)
	p.w, p.extra = zeros(p.w, n*l.k), zeros(p.extra, n)
	for i, part := range pattern {
		if part != model.Filled {
			continue
		}
		row := l.table.Row(c.Columns[i])
		if row == nil {
			continue
		}
		w, lag := l.weights(row), l.lags(row)
		for j, a := range p.coefficient {
			published := w[j] + a*lag[j]
			p.add[j] += p.x[i] * published
			p.w[j%l.k*n+i] += mix[j/l.k] * published
		}
		for k := range len(p.base) - l.n {
			own := l.second.weight(c.Columns[i], k)
			p.add[l.n+k] += p.x[i] * own
			p.w[k*n+i] += mix[len(l.levels)] * own
		}
	}
	for k := range l.active {
		_, p.variance[k] = fill.Repair(p.w[k*n:][:n], p.extra)
	}
}

// weigh answers an event that lacks k, of which left is what is left, in every way, and returns
// the scores of the mixed answer, borrowed. If moves is set the range learns from what they lose.
func (l *answering) weigh(r int, k model.Lack, left []float64, filled, moves bool) []float64 {
	p := &l.probing
	mix, rules := l.mixed(r), l.shares.InForce[r].Rules
	if r == 0 {
		rules = model.PolicyWeights{1, 0, 0}
	}
	rescaled := 1.0
	if present := k.Named + k.Silent; present > 0 {
		rescaled += (k.Null + k.Absent) / present
	}
	if !filled {
		rules = rules.Plain()
	}
	scale := rules[0] + rules[1]*rescaled + rules[2]
	var base, rest, add []float64
	answer := func(scale, fill float64) []float64 {
		for k := range l.active {
			f := base[k] + scale*rest[k]
			if fill > 0 {
				f = l.judge.Widen(f+fill*add[k], fill*fill*p.variance[k])
			}
			p.out[k] = f
		}
		return p.out
	}
	if s := &l.second; moves && !l.set.numbers && s.knows() && !s.away {
		var lost [2]float64
		for i, mix := range l.secondPair(r) {
			base, rest, add = l.sumsOf(mix, left, filled)
			lost[i] = l.judge.Lost(answer(scale, rules[2]))
			if i == 0 {
				copy(s.last, p.out)
				continue
			}
			s.blend(p.out, l.shares.InForce[r].Second)
		}
		l.shares.TakeSecond(r, lost[0], lost[1])
		if !l.shares.Heeds(r) {
			s.gain.Take(lost[0], l.judge.Lost(s.last))
		}
	}
	base, rest, add = l.sumsOf(mix, left, filled)
	if moves && l.set.missingRule == model.MissingAuto {
		losses := model.PolicyWeights{l.judge.Lost(answer(1, 0)), math.NaN(), math.NaN()}
		if !l.set.numbers {
			losses[1] = l.judge.Lost(answer(rescaled, 0))
		}
		if filled {
			losses[2] = l.judge.Lost(answer(1, 1))
		}
		l.shares.TakeRules(r, losses)
	}
	// Where labels are numbers, intervals do not tell how far the weights of a stronger noise are off
	// for the fields that are left: all ranges have the levels of whole events.
	if moves && len(l.levels) > 1 && !l.set.numbers {
		p.losses = p.losses[:0]
		for j := range l.n {
			f := p.base[j] + scale*left[j]
			if k := j % l.k; filled && k < l.active {
				f = l.judge.Widen(f+rules[2]*p.add[j], rules[2]*rules[2]*p.variance[k])
			}
			p.losses = append(p.losses, f)
		}
		p.losses = l.judge.AddLosses(p.losses, p.losses, l.k)
		l.shares.TakeLevels(r, p.losses[l.n:])
	}
	return answer(scale, rules[2])
}

// sumsOf mixes the intercepts, what is left, and what is filled in.
func (l *answering) sumsOf(mix, left []float64, filled bool) (base, rest, add []float64) {
	p := &l.probing
	if len(mix) == 1 && mix[0] == 1 { // the only level
		if filled {
			p.sums[2] = append(p.sums[2][:0], p.add...)
		}
		return p.base, left, p.sums[2]
	}
	for i := range p.sums {
		p.sums[i] = zeros(p.sums[i], l.k)
	}
	l.mixOf(mix, p.base, p.sums[0])
	l.mixOf(mix, left, p.sums[1])
	if filled {
		l.mixOf(mix, p.add, p.sums[2])
	}
	return p.sums[0], p.sums[1], p.sums[2]
}

// told returns a copy of what the event at hand was answered.
func (l *answering) told() []float64 {
	copy(l.probing.out, l.now.scores)
	return l.probing.out
}

// grown returns lists of n numbers each.
func grown(lists [][]float64, count, n int) [][]float64 {
	for len(lists) < count {
		lists = append(lists, nil)
	}
	for i := range lists {
		if len(lists[i]) != n {
			lists[i] = make([]float64, n)
		}
	}
	return lists
}

// zeros returns n zero values, in the memory of list where that is large enough.
func zeros[T any](list []T, n int) []T {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}
