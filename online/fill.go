package online

// This file fills in numbers that an event lacks: it gathers the covariance of the
// numeric columns while learning, and finds out for which shares of missing fields
// filling in answers events better than the other rules.

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"blankout"
	"blankout/internal/coder"
	"blankout/model"
)

// filling is what the Learner knows of how numbers go together. It keeps, of the first
// Config.CovarianceFields numeric columns as a score takes them, the weighted mean and
// the sums of products of the deviations from it. The Covariance in force is made of
// these now and then, so that what is worked out for a pattern of missing columns can be
// kept. Everything is counted in events, and nothing depends on what is kept.
//
// A value that is null, left out or wild counts with what the Covariance in force expects
// of it given the others, and with the variance of that. Later events
// weigh more: the sums remember covarianceMemory gathered events, or what the
// half-life leaves, and an alarm that makes the learner forget leaves a tenth of them.
type filling struct {
	columns  []uint32 // ascending
	fields   []uint16 // see model.Covariance
	gathered uint64   // events
	weight   float64  // of all of them
	unit     float64  // of the next one
	growth   float64  // of fade at the last one
	mean     []float64
	squares  []float64 // weighted sums of products of deviations, the lower triangle row by row
	due      bool      // a column has come, gone or moved far: the next event renews

	covariance *model.Covariance // in force, nil before there are two columns

	rules [2][model.MissingBins]ruleChoice // for nulls and for what is left out
	drawn uint64                           // masks

	grouping *model.Grouping
	filled
}

// filled is about the event that is answered: no part of the state.
type filled struct {
	x        []float64
	parts    model.Parts
	residual []float64
	vec      blankout.Vec
	field    []uint16
	dead     []bool
	killed   map[int32]bool
	places   []int       // by row
	has      model.Parts // of the event before anything is deleted
	left     blankout.Example
	answer   []float64 // scores of the published level
	levels   []float64 // of all levels, where the event is filled in
	losses   []float64 // by level
}

// numbersRead is what the bank read of an event's numeric columns, in the order in which it
// comes about: of some columns the centre or scale moved; the values, as scores take them;
// columns that ceased to be numeric.
type numbersRead struct {
	// gathers says that the values are wanted, follows that moves are.
	gathers, follows bool
	moved            []movedScale
	values           []readValue
	gone             []uint32
}

type movedScale struct {
	column  uint32
	was, is model.Standardisation
}

// readValue is a numeric value of an event.
type readValue struct {
	column uint32
	field  uint16 // of the event, 0 for a column of a sparse text format
	x      float64
}

func (r *numbersRead) clear() {
	r.moved, r.values, r.gone = r.moved[:0], r.values[:0], r.gone[:0]
}

// note takes down a value.
func (r *numbersRead) note(column uint32, kind blankout.Kind, field uint16, x float64) {
	if kind != blankout.Numeric {
		field = 0
	}
	r.values = append(r.values, readValue{column, field, x})
}

// ruleChoice compares, for a range of shares, the three rules.
type ruleChoice struct {
	events float64
	own    float64 // that lacked fields by themselves
	model.RuleComparison
	plain model.MissingRule // the better one of the other two; "" as long as none has been left for filling in
}

const (
	// covarianceMemory bounds the gathered events that are remembered.
	covarianceMemory = 16_384
	// One event in gatherLeast is gathered until there are gatherFirst times as many as columns,
	// and later where columns are few; else one in as many as there are columns over gatherColumns.
	gatherLeast, gatherFirst, gatherColumns = 4, 8, 8
	// An event that lacks columns costs far more: one that lacks k of them is gathered at every
	// (k^2/gatherLacking)-th event at most, and until there are gatherFirst times as many
	// events as columns at every (k^2/gatherLackingFirst)-th.
	gatherLacking, gatherLackingFirst = 80, 640
	// Masks are drawn at every drawEvery-th of the first events, then at every drawLater-th,
	// and less often where there are many columns. The losses that they are compared by are
	// far from normal: with half as many masks the first 4,464 events of gas_drift and the
	// digits of usps left three ranges of five to rescaling, which made up to 5 points more
	// errors there than filling in.
	drawFirst, drawEvery, drawLater = 8192, 8, 128
	// The rules remember so many comparisons of a range: with the masks that are drawn later,
	// and ten columns, some 600,000 events; with events that lack fields by themselves, as many of
	// those. With ten times as many, what was true of the first events would outlive a drift; with a
	// quarter, chance often makes a rule give way that is better by little.
	ruleMemory = 1000
	// With more columns than this the forecasts of what is filled in take one point at a time.
	fillSampled = 32
	// leastCompared is how many events are compared before filling in may be the rule.
	leastCompared = 16
	// masksAlike of the events for which a mask is drawn get the same one in a row, so that its
	// repair is computed once.
	masksAlike = 4
	// movedFar is by how much the centre or scale of a column may move, in its deviations,
	// before the Covariance in force no longer fits it.
	movedFar = 0.1
	// covarianceRidge is how many events without any covariance are added for each column:
	// of few events it is not known.
	covarianceRidge = 0.1
)

// fillsIn says whether the covariance is gathered. Several learners of one model gather
// none.
func (l *answering) fillsIn() bool { return l.set.fills && l.share == nil }

// gatherEvery returns every how many events one is gathered: its products grow with the
// square of the columns, the update with their number.
func (l *answering) gatherEvery() uint64 {
	n := uint64(len(l.filling.columns))
	if l.filling.gathered < gatherFirst*n {
		return gatherLeast
	}
	return max(gatherLeast, n/gatherColumns)
}

// passesOver says whether to skip an event that would be gathered but lacks columns: the
// covariance of what it lacks takes time that grows with their square and with the others.
func (l *answering) passesOver(lacks int) bool {
	spare := gatherLacking
	if l.filling.gathered < gatherFirst*uint64(len(l.filling.columns)) {
		spare = gatherLackingFirst
	}
	every := l.gatherEvery()
	return l.events/every%max(1, uint64(lacks*lacks/spare)/every) != 0
}

// draws says whether a mask is drawn at the event at hand to compare the rules.
func (l *answering) draws() bool {
	every := drawLater + len(l.filling.columns)*len(l.filling.columns)/16
	if l.events <= drawFirst {
		every = drawEvery + len(l.filling.columns)/16
	}
	return l.events%uint64(every) == 0
}

// gatherRead takes up what the bank has read.
func (l *answering) gatherRead() {
	read := &l.now.read
	for _, m := range read.moved {
		l.filling.moved(m.column, m.was, m.is)
	}
	if len(read.values) > 0 {
		l.gatherValues(read.values)
	}
	for _, column := range read.gone {
		l.filling.remove(column)
	}
}

// gatherValues takes up the numeric values of an event.
func (l *answering) gatherValues(values []readValue) {
	f := &l.filling
	if len(f.columns) < l.config.CovarianceFields {
		for _, v := range values {
			if at, known := slices.BinarySearch(f.columns, v.column); !known && len(f.columns) < l.config.CovarianceFields {
				f.insert(at, v.column, l.firstOfName(v.field))
			}
		}
	}
	n := len(f.columns)
	if n < 2 {
		return
	}
	f.x, f.parts = slices.Grow(f.x[:0], n)[:n], slices.Grow(f.parts[:0], n)[:n]
	for i := range f.parts {
		f.parts[i] = model.Filled
	}
	held, next := 0, 0
	for _, v := range values {
		at := next
		if at == n || f.columns[at] != v.column { // most events hold their columns in order
			var known bool
			if at, known = slices.BinarySearch(f.columns, v.column); !known {
				continue
			}
		}
		next = at + 1
		if !model.IsWild(v.x) {
			f.x[at], f.parts[at] = v.x, model.Observed
			held++
		}
	}
	if held == 0 || l.passesOver(n-held) {
		return
	}
	if f.due || f.covariance == nil || renewsAt(f.gathered, n) {
		f.renew()
	}
	growth := l.fade.growth
	keep := min(1-1.0/covarianceMemory, f.growth/growth)
	f.growth = growth
	if f.unit /= keep; f.unit > maxGrowth {
		f.scale(1 / f.unit)
	}
	f.gathered++
	if held < n {
		if f.covariance == nil || len(f.covariance.Columns) != n {
			return
		}
		fill := f.covariance.Fill(f.parts)
		fill.Expect(f.x)
		f.residual = slices.Grow(f.residual[:0], n*n)[:n*n]
		clear(f.residual)
		fill.AddResidual(f.unit, f.residual)
		for i := range n {
			if f.parts[i] != model.Filled {
				continue
			}
			for j := range i + 1 {
				f.squares[i*n+j] += f.residual[i*n+j]
			}
		}
	}
	was := f.weight
	f.weight += f.unit
	for i, m := range f.mean {
		f.x[i] -= m
		f.mean[i] += f.unit / f.weight * f.x[i]
	}
	blas64.Syr(f.unit*was/f.weight, blas64.Vector{N: n, Data: f.x, Inc: 1}, blas64.Symmetric{Uplo: blas.Lower, N: n, Data: f.squares, Stride: n})
}

// renewsAt says whether the Covariance of n columns is renewed after so many gathered
// events: at every quarter of a power of two, or every half where there are many columns.
func renewsAt(gathered uint64, n int) bool {
	parts := uint64(4)
	if n > 64 {
		parts = 2
	}
	if gathered < max(8, uint64(n)/4) {
		return false
	}
	power := uint64(1) << min(bits.Len64(gathered)-1, 13)
	return gathered%(power/parts) == 0
}

// renew puts a Covariance of what has been gathered in force.
func (f *filling) renew() {
	n := len(f.columns)
	f.due = false
	mean, matrix := slices.Clone(f.mean), make([]float64, n*n)
	// Covariances shrink as if events without any had been added.
	certain := f.weight / (f.weight + covarianceRidge*float64(n)*f.unit)
	for i := range n {
		for j := range i + 1 {
			x := f.squares[i*n+j] / f.weight
			if i != j {
				x *= certain
			}
			matrix[i*n+j], matrix[j*n+i] = x, x
		}
	}
	if c, err := model.NewCovariance(slices.Clone(f.columns), slices.Clone(f.fields), mean, matrix); err == nil {
		f.covariance = c
	}
}

// scale multiplies all weights.
func (f *filling) scale(by float64) {
	f.unit *= by
	f.forget(by)
}

// forget leaves a share of what has been gathered.
func (f *filling) forget(keep float64) {
	f.weight *= keep
	for i := range f.squares {
		f.squares[i] *= keep
	}
}

// insert gives a column its place: as if it had been met in one event, with the
// deviation 1 that standardised values have.
func (f *filling) insert(at int, column uint32, field uint16) {
	n := len(f.columns)
	if n == 0 {
		f.weight, f.unit, f.growth = 1, 1, 1
	}
	f.columns, f.fields, f.mean = slices.Insert(f.columns, at, column), slices.Insert(f.fields, at, field), slices.Insert(f.mean, at, 0)
	squares := make([]float64, (n+1)*(n+1))
	for i := range n {
		for j := range i + 1 {
			to, from := i, j
			if i >= at {
				to++
			}
			if j >= at {
				from++
			}
			squares[to*(n+1)+from] = f.squares[i*n+j]
		}
	}
	squares[at*(n+1)+at] = f.weight
	f.squares, f.due = squares, true
}

// remove takes a column out.
func (f *filling) remove(column uint32) {
	at, known := slices.BinarySearch(f.columns, column)
	if !known {
		return
	}
	n := len(f.columns)
	f.columns, f.fields, f.mean = slices.Delete(f.columns, at, at+1), slices.Delete(f.fields, at, at+1), slices.Delete(f.mean, at, at+1)
	squares := make([]float64, 0, (n-1)*(n-1))
	for i := range n {
		for j := range n {
			if i != at && j != at {
				squares = append(squares, f.squares[i*n+j])
			}
		}
	}
	f.squares, f.due = squares, true
	if len(f.columns) < 2 {
		f.covariance = nil
	}
}

// moved takes up that what is in force of a column's statistics is no longer what it was:
// a value z is now (z - shift)/ratio.
func (f *filling) moved(column uint32, was, is model.Standardisation) {
	at, known := slices.BinarySearch(f.columns, column)
	if !known {
		return
	}
	if was.Unit != is.Unit || was.Scale == 0 || is.Scale == 0 { // other values than before
		f.mean[at] = 0
		f.each(at, func(x *float64, own bool) {
			if *x = 0; own {
				*x = f.weight
			}
		})
		f.due = true
		return
	}
	ratio, shift := is.Scale/was.Scale, (is.Centre-was.Centre)/was.Scale
	f.mean[at] = (f.mean[at] - shift) / ratio
	f.each(at, func(x *float64, own bool) {
		if *x /= ratio; own {
			*x /= ratio
		}
	})
	f.due = f.due || math.Abs(shift) > movedFar || math.Abs(math.Log(ratio)) > movedFar
}

// each calls do with the entries of a column's row, and says which is the column's own.
func (f *filling) each(at int, do func(x *float64, own bool)) {
	n := len(f.columns)
	for j := range n {
		do(&f.squares[max(at, j)*n+min(at, j)], j == at)
	}
}

// firstOfName returns the first field of the name of a field.
func (l *answering) firstOfName(field uint16) uint16 {
	name := l.schema.Fields[field].Name
	return uint16(slices.IndexFunc(l.schema.Fields, func(f blankout.Field) bool { return f.Name == name }))
}

// fillAnswer finds the scores that filling in gives the event at hand, if the model
// answers it so. It comes before anything of the event is learned.
func (l *answering) fillAnswer(e *blankout.Example) {
	now := &l.missing.event
	if l.filling.covariance == nil || !l.missing.fills() {
		return
	}
	m := l.modelOf(now.level)
	if m.Answer(e).Parts == nil {
		return
	}
	now.filled = true
	l.filling.answer = slices.Grow(l.filling.answer[:0], l.k)[:l.k]
	m.Score(e, l.filling.answer)
	// The forecasts of all levels sample the events.
	l.filling.levels = slices.Grow(l.filling.levels[:0], l.n)[:l.n]
	for v := range l.levels {
		if to := l.filling.levels[v*l.k:][:l.k]; v == now.level {
			copy(to, l.filling.answer)
		} else if l.events <= forecastFirst || l.events%forecastEvery == 0 {
			l.modelOf(v).Score(e, to)
		}
	}
}

// fills says whether filling in is the rule of some range.
func (m *missing) fills() bool {
	return slices.Contains(m.model.Null[:], model.MissingFill) || slices.Contains(m.model.Absent[:], model.MissingFill)
}

// The two lists of filling.rules.
const (
	forNull = iota
	forAbsent
)

// lossesBy returns what an event of which x and left say what is left loses under each rule,
// for nulls or for what is left out: the log-loss, and where labels are numbers the Config's.
func (l *answering) lossesBy(m *model.Linear, kind int, x blankout.Vec, left *blankout.Example, label int) (losses model.RuleLosses) {
	rules := l.missing.model
	for i, rule := range missingRules {
		if l.set.numbers && rule == model.MissingRescale { // is for classes
			losses[i] = losses[0]
			continue
		}
		forced := rules.Forced(rule)
		if kind == forNull {
			forced = rules.WithRules(forced.Null, rules.Absent)
		} else {
			forced = rules.WithRules(rules.Null, forced.Absent)
		}
		scores := m.WithMissing(forced).ScoreLacking(x, left, l.filling.answer)
		if l.set.numbers {
			losses[i], _, _ = l.set.loss.At(l.now.target, l.unit.own(scores[0]), 0)
		} else {
			losses[i] = l.decision().LogLoss(scores, label)
		}
	}
	return losses
}

// compareOwn compares the rules on the event at hand, which lacks fields by itself, before
// it is learned from.
func (l *answering) compareOwn(e *blankout.Example, label int) {
	f, k := &l.filling, l.missing.event.lack
	present := k.Named + k.Silent
	if f.covariance == nil || present == 0 || l.events%uint64(1+len(f.columns)/16) != 0 {
		return
	}
	m := l.modelOf(l.missing.event.level)
	if m.WithMissing(l.missing.model.Forced(model.MissingFill)).Answer(e).Parts == nil {
		return // no number is missing
	}
	f.answer = slices.Grow(f.answer[:0], l.k)[:l.k]
	f.vec = m.Standardised(e, blankout.Vec{Index: f.vec.Index[:0], Value: f.vec.Value[:0]})
	for kind, n := range [2]float64{forNull: k.Null, forAbsent: k.Absent} {
		if !(n > 0) {
			continue
		}
		bin := model.MissingBin(n / (n + present))
		c := &f.rules[kind][bin]
		if c.own++; c.own == comparisonOwn {
			c.events = comparisonOwn
		}
		c.take(l.lossesBy(m, kind, f.vec, e, label))
		l.follow(kind, bin)
	}
}

// take adds what an event loses under each rule.
func (c *ruleChoice) take(losses model.RuleLosses) {
	c.events++
	c.Add(1-1/min(ruleMemory, 8+c.events/2), 1, losses)
}

// choose returns the rule of a range, given the present one and plain, which is the better
// of the other two by a comparison of their own. Filling in takes over, or is given up,
// where the evidence is more than chance often explains. That is less than
// blankout.RuleComparison.Better asks for, because here none of the rules is the natural
// one.
func (c *ruleChoice) choose(now, plain model.MissingRule) model.MissingRule {
	i := 0 // of plain: its difference from filling in has the square i+1
	if plain == model.MissingRescale {
		i = 1
	}
	gain, chance := c.Sum[i]-c.Sum[2], takesOver*math.Sqrt(c.Squares[i+1])
	switch {
	case c.events < leastCompared || math.Abs(gain) <= chance:
		return now
	case gain < 0:
		return plain
	}
	c.plain = plain
	return model.MissingFill
}

// drawnPoints are the points of a Forecast, in the order in which compareDrawn takes them:
// one of each range of shares before a second one of any.
var drawnPoints = [ForecastPoints - 1]int{2, 4, 6, 8, 1, 3, 5, 7, 9}

// compareDrawn compares the answers of a bank, or else the rules if there is a choice of
// filling in, on the event at hand with fields deleted by a mask that is drawn: those of a
// share of the fields, or of groups of them where groups are named.
func (l *answering) compareDrawn(e *blankout.Example, label int) {
	f, fills := &l.filling, l.fillsIn() && l.filling.covariance != nil
	if !fills && !l.choosesLevels() || !l.draws() {
		return
	}
	number := f.drawn / masksAlike
	f.drawn++
	point := drawnPoints[number%uint64(len(drawnPoints))]
	m := l.modelOf(l.chosen)
	f.answer = slices.Grow(f.answer[:0], l.k)[:l.k]
	f.vec = m.Standardised(e, blankout.Vec{Index: f.vec.Index[:0], Value: f.vec.Value[:0]})
	f.field = l.scaling.scaler.FieldsOf(e, f.vec.Index, f.field)
	sparse := l.deleteFields(e, ForecastMissing(point), number)
	left := &f.left
	m.Delete(e, f.vec, f.field, f.dead, sparse, left)
	k := m.Lack(left)
	present := k.Named + k.Silent
	if k.Null == 0 || present == 0 {
		return
	}
	if l.choosesLevels() {
		if c := &l.missing.answers[model.MissingBin(k.Share())]; c.own < comparisonOwn {
			l.compareAnswers(c, left.Features, left, k, label)
		}
		return
	}
	bin := model.MissingBin(k.Null / (k.Null + present))
	if c := &f.rules[forNull][bin]; c.own < comparisonOwn {
		c.take(l.lossesBy(m, forNull, left.Features, left, label))
		l.follow(forNull, bin)
	}
}

// fillPlaces returns for each row of the event at hand its place in the Covariance, -1 if it
// has none, and sets filling.x and filling.has to what the event holds.
func (l *answering) fillPlaces() []int {
	f, n := &l.filling, len(l.filling.covariance.Columns)
	f.places = slices.Grow(f.places[:0], len(l.features()))[:len(l.features())]
	f.x, f.has = slices.Grow(f.x[:0], n)[:n], slices.Grow(f.has[:0], n)[:n]
	for i := range f.has {
		f.has[i] = model.Apart
	}
	at, columns := 0, f.covariance.Columns
	for i, column := range l.now.columns[:len(f.places)] {
		row := l.rowOf(i)
		for at < n && columns[at] < column {
			at++
		}
		if f.places[row] = -1; at < n && columns[at] == column {
			x := l.now.step.X[row]
			f.places[row], f.x[at] = at, x
			if f.has[at] = model.Observed; model.IsWild(x) {
				f.has[at] = model.Apart
			}
		}
	}
	return f.places
}

// fillDeleted sets filling.x to what is expected of the numbers that do not survive a point of
// a forecast, of which last says what they do. places are those of fillPlaces, which must come
// anew before it is called again.
func (l *answering) fillDeleted(places []int, last []int8, point int) {
	f := &l.filling
	l.partsLeft(places, last, point)
	if fill := f.covariance.Fill(f.parts); fill != nil {
		fill.Expect(f.x)
	}
}

// partsLeft sets filling.parts to what is left of the event at hand.
func (l *answering) partsLeft(places []int, last []int8, point int) {
	f := &l.filling
	f.parts = append(f.parts[:0], f.has...)
	for i, last := range last {
		if at := places[i]; at >= 0 && int(last) < point {
			f.parts[at] = model.Filled
		}
	}
}

// samplesFill says whether a filled point of a forecast takes a sample of the event at
// hand. Where there are many columns one point at a time does, because each has a new
// pattern of missing columns to work out.
func (l *answering) samplesFill(point int) bool {
	if l.missing.event.lack.Some() {
		return false
	}
	return len(l.filling.columns) <= fillSampled || l.events/forecastEveryK%(ForecastPoints-1) == uint64(point-1)
}

// fillsLack says whether an event that lacks nothing by itself is filled in after a mask
// has deleted so much of it. What else a filled-in event lacks is not forecast.
func (l *answering) fillsLack(deleted model.Lack) bool {
	present := deleted.Named + deleted.Silent
	return l.filling.covariance != nil && l.missing.event.named && deleted.Null > 0 &&
		l.missing.model.Null[model.MissingBin(deleted.Null/(deleted.Null+present))] == model.MissingFill
}

// filledPoints returns, as bits, the points of a forecast at which events are filled in.
// The expectation of what dies then takes its place; that this is uncertain seldom changes
// the class, and is left out. Nothing dies at point 0.
func (l *answering) filledPoints() (points uint) {
	if l.filling.covariance == nil || !l.missing.event.named || !l.missing.fills() {
		return 0
	}
	for point := 1; point < ForecastPoints; point++ {
		if l.missing.model.Null[forecastBins[point]] == model.MissingFill {
			points |= 1 << point
		}
	}
	return points
}

// forecastBins are the ranges of the share missing that the points of a forecast fall in.
var forecastBins = func() (bins [ForecastPoints]int) {
	for point := range bins {
		bins[point] = model.MissingBin(ForecastMissing(point))
	}
	return bins
}()

// deleteFields sets f.dead to which of the features f.vec of e die under a mask: those of named
// fields, together with what they die with, each with the given chance. In a sparse text
// format it deletes the columns that can be filled in, and returns true.
func (l *answering) deleteFields(e *blankout.Example, chance float64, number uint64) (sparse bool) {
	f := &l.filling
	kills := func(unit uint64) bool {
		var r rand.PCG
		r.Seed(unit^0x626c616e6b6f7574, number)
		return float64(r.Uint64()>>11)/(1<<53) < chance
	}
	if f.killed == nil {
		f.killed = map[int32]bool{}
	}
	clear(f.killed)
	fields := l.schema.Fields
	f.dead = slices.Grow(f.dead[:0], len(f.vec.Index))[:len(f.vec.Index)]
	clear(f.dead)
	if sparse = e.IsSparse(fields); sparse {
		columns := l.schema.ColumnGroups != nil
		for i, column := range f.vec.Index {
			source := l.scaling.scaler.Curves.Source(column)
			if _, in := slices.BinarySearch(f.columns, source); !in {
				continue
			}
			unit := uint64(source) + 1
			if columns {
				unit = f.grouping.Hash(f.grouping.Of(0, source))
			}
			f.dead[i] = kills(unit)
		}
		return true
	}
	for _, id := range e.Field {
		if int(id) >= len(fields) || !fields[id].Kind.Named() {
			continue
		}
		unit := f.grouping.Of(id, 0)
		if _, known := f.killed[unit]; !known {
			f.killed[unit] = kills(f.grouping.Hash(unit))
		}
	}
	for i, id := range f.field {
		if int(id) >= len(fields) || !(fields[id].Kind.Named() || fields[id].Kind == blankout.Cross) {
			continue
		}
		unit := f.grouping.Of(id, f.vec.Index[i])
		if f.dead[i] = f.killed[unit]; fields[id].Kind == blankout.Cross {
			if a, b, pair := f.grouping.Pair(unit); pair {
				f.dead[i] = f.killed[a] || f.killed[b]
			}
		}
	}
	return false
}

// empty says whether there is nothing to keep. The masks that are drawn are counted where
// nothing is filled in, too: levels are compared on them.
func (f *filling) empty() bool { return len(f.columns) == 0 && f.drawn == 0 }

// blockFill is the block of the state that this file keeps.
const blockFill = "fill"

// state walks the block.
func (f *filling) state(c *coder.Coder) {
	c.Uint32s(&f.columns)
	c.Uint16s(&f.fields)
	c.Uint(&f.gathered)
	c.Float(&f.weight)
	c.Float(&f.unit)
	c.Float(&f.growth)
	c.Floats(&f.mean)
	n := len(f.columns)
	var triangle []float64
	for i := range n {
		if !c.Decode {
			triangle = append(triangle, f.squares[i*n:i*n+i+1]...)
		}
	}
	c.Floats(&triangle)
	if c.Decode {
		if len(triangle) != n*(n+1)/2 || n > model.MaxCovariance || len(f.fields) != n || len(f.mean) != n || !slices.IsSorted(f.columns) {
			c.Failed = true
			return
		}
		f.squares = make([]float64, n*n)
		for i := range n {
			triangle = triangle[copy(f.squares[i*n:i*n+i+1], triangle):]
		}
	}
	due := uint64(0)
	if f.due {
		due = 1
	}
	c.Uint(&due)
	f.due = due != 0
	c.Failed = c.Failed || due > 1
	c.Uint(&f.drawn)
	for kind := range f.rules {
		for bin := range f.rules[kind] {
			r := &f.rules[kind][bin]
			c.Each(&r.events, &r.own, &r.Sum[1], &r.Sum[2], &r.Squares[0], &r.Squares[1], &r.Squares[2])
			plain := []byte(r.plain)
			c.Bytes(&plain)
			r.plain = model.MissingRule(plain)
			c.Failed = c.Failed || r.plain != "" && r.plain != model.MissingAsIs && r.plain != model.MissingRescale
		}
	}
}
