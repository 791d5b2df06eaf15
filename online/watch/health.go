package watch

// This file watches the health of fields: whether one is missing, has values that nobody
// has seen before, or whether its mean or deviation has moved.

import (
	"math"
	"math/bits"
	"slices"

	"blankout"
	"blankout/internal/coder"
	"blankout/model"
)

// Fields watches the condition of each field.
//
// Events are counted in blocks of healthBlock. At the end of a block every measure of
// every field compares the block with what is usual, and then becomes part of it. The
// comparison is a cumulative sum of a supermartingale, see fieldMeasure.step: on a
// stationary stream a sum reaches healthLimit no more often than once in
// e^healthLimit blocks, whatever the distribution is. docs/mathematics.md has the
// derivation, TestHealthFalseAlarms the simulation.
//
// What is null or left out is counted in every event, and costs nothing where nothing
// is missing. Values are looked at in about one of eight events, drawn by the number of the
// event.
type Fields struct {
	Idle
	events uint64 // of the block at hand
	start  Moment // its first event
	// The fields whose absence is counted: all that were usual at the end of some block.
	// They stay in the set, because a field that has died soon ceases to be usual. See
	// model.Missing.
	watched model.FieldSet
	fields  []fieldHealth // by id
	alarms  Alarms
	kinds   Kinds
	rare    Rare

	seen  *model.Missing // the model whose usual fields have been taken up
	words []uint16       // the fields that are bags of words
}

// fieldHealth is about one field.
type fieldHealth struct {
	kind    blankout.Kind
	watched bool // it is in Fields.watched
	// Counts of the current block: events that lacked the field; and, for the sampled events
	// that held it, their number, new values, and sums of powers of the value in units of
	// the reference.
	missing, seen, fresh float64
	sum, square, fourth  float64
	// The latest run of events without the field: its first and its last event.
	run  Moment
	last uint64
	// A number x counts as u = (x - center) inverse, between -healthClip and
	// healthClip. The reference comes from the first values: their number, mean and
	// sum of squared deviations. inverse is 0 until then.
	center, inverse float64
	first           [3]float64
	measures        [fieldMeasures]fieldMeasure
	cost            fieldCost
}

// The measures of a field.
const (
	measureMissing   = iota // share of the events that lack it
	measureNew              // share of its values that are new
	measureMean             // mean of its u
	measureDeviation        // mean of its u^2
	fieldMeasures
)

const (
	// MostFields bounds the fields that are watched, those that appear first.
	MostFields  = 4096
	healthBlock = 256 // events
	// What is now is over some recentEvents, what is usual over some usualEvents.
	recentEvents, usualEvents = 1000, 100_000
	// One of 2^sampledBits events has its values looked at.
	sampledBits = 3
	// A value of a categorical field is new in its first newValues events.
	newValues = 100
	// healthLimit is the sum that raises an alarm, and minus the logarithm of the
	// chance with which a bound of what is usual does not hold.
	healthLimit = 28
	// What one block adds to a sum at most: a burst within one raises no alarm.
	healthStep = healthLimit / 2
	// healthLeast is the fewest observations that tell what is usual.
	healthLeast = 128
	// Values of a number that make the reference, and those after which a reference is
	// checked.
	referenceFirst, referenceCheck = 64, 1000
	healthClip                     = 3
	// An alarm ends after calmBlocks blocks in a row that would not have raised it, or after
	// alarmEvents events, when what it was about has become usual.
	calmBlocks, alarmEvents = 4, 10_000_000
	// The share that a sample leaves of the earlier samples of a field's cost.
	costKeep = 1 - 1.0/3000
	// costLeast is the fewest samples that tell a cost: some 2,000 events of the field.
	costLeast = 64
)

// allowances say from which change on a measure is worth an alarm: by how much the mean
// must exceed its usual value, or fall below it. They depend on the usual mean
// and variance.
var allowances = [...]func(mean, variance float64) (above, below float64){
	measureMissing:   func(_, _ float64) (float64, float64) { return 0.05, 0 },
	alarmKindOf:      func(_, _ float64) (float64, float64) { return 0.05, 0 },
	measureNew:       func(_, _ float64) (float64, float64) { return 0.1, 0 },
	measureMean:      func(_, v float64) (float64, float64) { d := 0.75 * math.Sqrt(max(v, 0.01)); return d, d },
	measureDeviation: func(m, _ float64) (float64, float64) { m = max(m, 0.01); return m, 0.4 * m },
}

// ranges are the least and the largest value that a measure averages.
var ranges = [...][2]float64{
	measureMissing: {0, 1}, measureNew: {0, 1}, alarmKindOf: {0, 1}, measureMean: {-healthClip, healthClip}, measureDeviation: {0, healthClip * healthClip},
}

// fieldMeasure watches the mean of something bounded.
type fieldMeasure struct {
	// Observations, their sum and the sum of their squares, over some usualEvents; they
	// stand still during an alarm.
	n, sum, square float64
	// The same over some recentEvents; of an alarm, since it began.
	recentN, recentSum float64
	// The cumulative sums for a mean that has risen and for one that has fallen, and
	// since when one of them has not been 0.
	above, below float64
	pending      observed // since then, and not in the usual yet
	since        Moment
	sinceN       float64
	sinceSum     float64
	alarm        float64 // 1 or -1 by the direction, 0 for none
	calm         float64 // blocks in a row that would not have raised the alarm
	until        Moment  // the first event of these
	before       float64 // error that was forecast when the alarm was raised, -1 for none
}

// observed is what a block holds of a measure. moved is the part of the sum, not below 0,
// that says nothing of a mean that has risen.
type observed struct{ n, sum, square, moved float64 }

// usual returns the usual mean, a bound of how far the true one is from that, and an upper
// bound of the variance.
//
// With x = healthLimit and n observations of mean m between 0 and b, the true mean lies
// above m + sqrt(2 b m x/n) + 2 b x/n with a chance of at most e^-x (Chernoff). That bounds
// the second moment, and so the variance v; and then by Bernstein's inequality the mean
// is off by more than sqrt(2 v x/n) + (high-low) x/(3 n) with a chance of at most 2 e^-x.
func (m *fieldMeasure) usual(low, high float64) (mean, off, variance float64) {
	const x = healthLimit
	b := max(high*high, low*low)
	mean, second := m.sum/m.n, m.square/m.n
	second += math.Sqrt(2*b*second*x/m.n) + 2*b*x/m.n
	bound := func(v float64) float64 { return math.Sqrt(2*v*x/m.n) + (high-low)*x/(3*m.n) }
	// The variance is the second moment less the square of a mean that is this far off.
	least := max(0, math.Abs(mean)-bound(second))
	variance = max(0, second-least*least)
	return mean, bound(variance), variance
}

// step returns by how much a block of n observations raises the cumulative sum for a mean
// that has risen: lambda (sum - n (mean + allowance)).
//
// By Bernstein's inequality observations y <= mean + reach of this mean and variance have
//
//	E exp(lambda (y - mean)) <= exp(lambda^2 variance / (2 (1 - lambda reach/3))).
//
// With lambda = 2 allowance / (variance + 2 allowance reach/3) the right side is
// exp(lambda allowance): exp(step) is at most 1 in the mean. So exp of the cumulative sum
// is below a Shiryaev-Roberts sum R for which R - (number of blocks) is a
// supermartingale, and the sum reaches h after e^h blocks or more, in the mean.
func (o observed) step(mean, variance, reach, allowance float64) float64 {
	return 2 * allowance / (variance + 2*allowance*reach/3) * (o.sum - o.n*(mean+allowance))
}

// compare takes up a block that began at start, and says whether that has raised an alarm
// or ended one. moved says that the mean of the field has an alarm: its squares then tell
// of that and of nothing else.
func (m *fieldMeasure) compare(kind int, o observed, start Moment, moved bool) (change changeKind) {
	const recent = 1 - float64(healthBlock)/recentEvents
	m.recentN, m.recentSum = m.recentN*recent+o.n, m.recentSum*recent+o.sum
	switch {
	case o.n == 0:
		return 0
	case moved && m.alarm == 0:
		m.above, m.below, m.pending = 0, 0, observed{}
		return 0
	}
	risen := o
	risen.sum -= o.moved
	if m.n >= healthLeast {
		low, high := ranges[kind][0], ranges[kind][1]
		mean, off, variance := m.usual(low, high)
		above, below := allowances[kind](mean, variance)
		up := risen.step(mean+off, variance, high-mean, above)
		down := 0.0
		if below > 0 {
			down = observed{n: o.n, sum: -o.sum}.step(off-mean, variance, mean-low, below)
		}
		switch {
		case m.alarm != 0:
			if m.alarm > 0 && up > 0 || m.alarm < 0 && down > 0 {
				m.calm = 0
				break
			}
			if m.calm == 0 {
				m.until, m.recentN, m.recentSum = start, o.n, o.sum
			}
			if m.calm++; m.calm == calmBlocks {
				m.end()
				change = alarmEnded
			}
		default:
			if m.above == 0 && m.below == 0 {
				m.since, m.sinceN, m.sinceSum = start, 0, 0
			}
			m.above, m.below = max(0, m.above+min(up, healthStep)), max(0, m.below+min(down, healthStep))
			m.sinceN, m.sinceSum = m.sinceN*recent+o.n, m.sinceSum*recent+o.sum
			if max(m.above, m.below) >= healthLimit {
				m.alarm = 1
				if m.below > m.above {
					m.alarm = -1
				}
				m.above, m.below, m.calm, m.pending = 0, 0, 0, observed{}
				m.recentN, m.recentSum = m.sinceN, m.sinceSum
				return alarmRaised
			}
		}
	}
	// A block that may belong to a change becomes part of the usual when it has turned out
	// that it does not.
	p := &m.pending
	p.n, p.sum, p.square = p.n+o.n, p.sum+o.sum, p.square+o.square
	if m.alarm == 0 && m.above == 0 && m.below == 0 {
		const keep = 1 - float64(healthBlock)/usualEvents
		m.n, m.sum, m.square = m.n*keep+p.n, m.sum*keep+p.sum, m.square*keep+p.square
	}
	if m.alarm != 0 || m.above == 0 && m.below == 0 {
		*p = observed{}
	}
	return change
}

// end ends an alarm.
func (m *fieldMeasure) end() { m.alarm, m.calm, m.above, m.below = 0, 0, 0, 0 }

// grow takes up new fields.
func (h *Fields) grow(fields []blankout.Field) {
	for id := len(h.fields); id < min(len(fields), MostFields); id++ {
		h.fields = append(h.fields, fieldHealth{kind: fields[id].Kind})
	}
	h.words = h.words[:0]
	for id := range h.fields {
		if h.fields[id].kind == blankout.Words {
			h.words = append(h.words, uint16(id))
		}
	}
	if n := (len(h.fields) + 63) / 64; n > len(h.watched) {
		h.watched = append(h.watched, make(model.FieldSet, n-len(h.watched))...)
	}
}

// Take counts in an event.
func (h *Fields) Take(m *Met) {
	e := m.Event
	if len(h.fields) < min(len(m.Fields), MostFields) {
		h.grow(m.Fields)
	}
	h.kinds.take(m)
	m.Present = h.kinds.byName(m.Present)
	h.rare.take(m)
	if h.events == 0 {
		h.start = Moment{m.Number, e.Time}
	}
	h.events++
	switch {
	case m.Named:
		for i, word := range h.watched {
			if i < len(m.Present) {
				word &^= m.Present[i]
			}
			if word != 0 {
				h.lack(word, i, m.Number, e.Time)
			}
		}
		for _, id := range h.words {
			if f := &h.fields[id]; f.watched {
				continue // counted above
			} else if m.Present.Has(id) {
				f.seen++
			} else if slices.Contains(e.Missing, id) {
				f.lack(m.Number, e.Time)
			}
		}
		if Sampled(m.Number, sampledBits) {
			h.sampleValues(e, m.Rows)
		}
	case e.Features.Len() == 0: // an event without any field
		for i, word := range h.watched {
			h.lack(word, i, m.Number, e.Time)
		}
	}
	if h.events == healthBlock {
		h.review(m)
	}
}

// lack counts the fields of one word of a FieldSet as missing.
func (h *Fields) lack(word uint64, i int, event uint64, time int64) {
	for ; word != 0; word &= word - 1 {
		h.fields[i<<6|bits.TrailingZeros64(word)].lack(event, time)
	}
}

func (f *fieldHealth) lack(event uint64, time int64) {
	f.missing++
	if f.last != event-1 {
		f.run = Moment{event, time}
	}
	f.last = event
}

// sampleValues looks at the values of an event that the rows do not count yet.
func (h *Fields) sampleValues(e *blankout.Example, rows *model.Table) {
	fields := h.fields
	for i, id := range e.Field {
		if int(id) >= len(fields) {
			continue
		}
		f := &fields[id]
		switch f.kind {
		case blankout.Numeric:
			f.number(e.Features.Value[i])
		case blankout.Categorical:
			f.seen++
			if row := rows.Row(e.Features.Index[i]); row == nil || row[model.StatCount] < newValues {
				f.fresh++
			}
		}
	}
}

func (f *fieldHealth) number(x float64) {
	if f.inverse == 0 {
		f.refer(x)
		return
	}
	u := max(-healthClip, min(healthClip, (x-f.center)*f.inverse))
	v := u * u
	f.seen++
	f.sum += u
	f.square += v
	f.fourth += v * v
}

// refer takes up one of the values that make the reference.
func (f *fieldHealth) refer(x float64) {
	r := &f.first
	r[0]++
	d := x - r[1]
	r[1] += d / r[0]
	r[2] += d * (x - r[1])
	if r[0] < referenceFirst {
		return
	}
	// Values that never differ get the smallest scale in which one that does is far away.
	deviation := math.Sqrt(r[2] / r[0])
	f.center, f.inverse = r[1], 1/max(deviation, 1e-9*math.Abs(r[1]), 1e-30)
	*r = [3]float64{}
}

// review compares the block that is complete with what is usual.
func (h *Fields) review(met *Met) {
	for id := range h.fields {
		f := &h.fields[id]
		if f.kind == blankout.Sparse || f.kind == blankout.Cross {
			continue
		}
		if f.watched || f.kind == blankout.Words {
			h.reviewMeasure(met, id, measureMissing, observed{n: healthBlock, sum: f.missing, square: f.missing})
		}
		switch f.kind {
		case blankout.Categorical:
			h.reviewMeasure(met, id, measureNew, observed{n: f.seen, sum: f.fresh, square: f.fresh})
		case blankout.Numeric:
			mean, deviation := f.numbers()
			h.reviewMeasure(met, id, measureMean, mean)
			h.reviewMeasure(met, id, measureDeviation, deviation)
			f.checkReference()
		}
		if f.kind == blankout.Words && !f.watched && met.Usual != nil && f.seen > healthBlock/2 {
			// Most events hold it: from here on it counts as missing where it is left out, too,
			// and how often that is has to be found out.
			h.watch(id)
			f.measures[measureMissing] = fieldMeasure{}
		}
		f.missing, f.seen, f.fresh, f.sum, f.square, f.fourth = 0, 0, 0, 0, 0, 0
	}
	h.kinds.review(met, h)
	h.rare.review(met, h)
	h.events = 0
	if m := met.Usual; m != nil && m != h.seen {
		h.seen = m
		for _, id := range m.Usual {
			if _, null := slices.BinarySearch(m.UsuallyNull, id); int(id) < len(h.fields) && !null && !h.kinds.later.Has(id) {
				h.watch(int(id))
			}
		}
	}
}

// watch has the absence of a field counted in every event.
func (h *Fields) watch(id int) {
	h.fields[id].watched = true
	h.watched[id>>6] |= 1 << (id & 63)
}

// numbers returns what the block holds of the values of a number. A mean that moves takes
// the squares along, but not those of the distances from the block's own mean, which
// are no larger than from the true one.
func (f *fieldHealth) numbers() (mean, deviation observed) {
	return observed{n: f.seen, sum: f.sum, square: f.square},
		observed{n: f.seen, sum: f.square, square: f.fourth, moved: f.sum * f.sum / max(f.seen, 1)}
}

// checkReference begins a number anew in units that have come to be far from its own.
func (f *fieldHealth) checkReference() {
	m, d := &f.measures[measureMean], &f.measures[measureDeviation]
	if m.n < referenceCheck || m.alarm != 0 || d.alarm != 0 {
		return
	}
	mean := m.sum / m.n
	variance := m.square/m.n - mean*mean
	if variance > 0 && (math.Abs(mean) > 1 || variance > 4 || variance < 0.1) && m.above+m.below+d.above+d.below == 0 {
		f.anew()
	}
}

// anew begins a number anew: its next values are its reference.
func (f *fieldHealth) anew() {
	f.inverse, f.measures[measureMean], f.measures[measureDeviation] = 0, fieldMeasure{}, fieldMeasure{}
}

// reviewMeasure compares one measure of a field.
func (h *Fields) reviewMeasure(met *Met, id, kind int, o observed) {
	f := &h.fields[id]
	x := fieldChange{field: id, kind: kind}
	if kind == measureMissing {
		x.comes = h.kinds.absent(id)
	}
	moved := kind == measureDeviation && f.measures[measureMean].alarm != 0
	var r run
	if kind == measureMissing && f.last == met.Number {
		r = run{f.run, float64(met.Number - f.run.Event + 1)}
	}
	if h.compare(met, &f.measures[kind], x, o, r, moved) == alarmAccepted && f.kind == blankout.Numeric && kind != measureMissing {
		f.anew()
	}
}

// run is a run of events, up to now, that are all as they should not be.
type run struct {
	since Moment
	n     float64
}

// compare compares a measure of a field with what is usual, and shows its alarm, if there is
// one. x says of what it is. An alarm that may have begun with the run has.
func (h *Fields) compare(met *Met, m *fieldMeasure, x fieldChange, o observed, r run, moved bool) changeKind {
	event := met.Number
	x.what = m.compare(x.kind, o, h.start, moved)
	switch {
	case x.what == alarmRaised:
		m.before, m.until = -1, Moment{}
		if x.kind == measureMissing || x.kind == alarmKindOf {
			m.before = met.Error
		}
		if r.n > 0 && r.since.Event >= m.since.Event && r.since.Event < m.since.Event+2*healthBlock {
			m.since, m.recentN, m.recentSum = r.since, r.n, r.n
		}
	case m.alarm != 0 && event-m.since.Event >= alarmEvents:
		x.what = alarmAccepted
	case m.alarm != 0:
		x.what = alarmOn
	case x.what == 0:
		return 0
	}
	x.event, x.since, x.until, x.value = event, m.since, m.until, h.value(m, &x)
	h.alarms.take(x, m.calm > 0, met.Event.Time)
	if x.what == alarmAccepted {
		*m = fieldMeasure{}
	}
	return x.what
}

// fieldCost compares how often events are answered wrongly with how often they would be
// without the field, by weight; events that lack it say nothing.
type fieldCost struct {
	n, with, without float64
	square           float64 // of the differences
}

// Cost takes up how an event that holds the field of this id was answered with it and would
// have been without: 1 is wrong, 0 right.
func (h *Fields) Cost(id uint16, with, without float64) {
	c := &h.fields[id].cost
	c.n = c.n*costKeep + 1
	c.with, c.without = c.with*costKeep+with, c.without*costKeep+without
	c.square = c.square*costKeep + (without-with)*(without-with)
}

// Start returns the first event of the block at hand.
func (h *Fields) Start() Moment { return h.start }

// known says whether enough samples have come for rise to mean something.
func (c *fieldCost) known() bool { return c.n >= costLeast }

// rise returns by how much the error rises where all events lose the field, once that is known,
// and the deviation of that. Of a mean difference of few samples much is chance: it is shrunk by
// the share of its square that its variance explains.
func (c *fieldCost) rise() (rise, off float64) {
	d := (c.without - c.with) / c.n
	variance := max(0, c.square/c.n-d*d) / c.n
	if d != 0 {
		rise = d * max(0, 1-variance/(d*d))
	}
	return rise, math.Sqrt(variance + 1/(c.n*c.n)) // one sample more that would differ
}

// costsState codes what the costs of fields have that State does not.
func (h *Fields) costsState(c *coder.Coder) {
	squares := make([]float64, len(h.fields))
	for id := range h.fields {
		squares[id] = h.fields[id].cost.square
	}
	if c.Floats(&squares); len(squares) != len(h.fields) {
		c.Failed = true
		return
	}
	for id := range h.fields {
		h.fields[id].cost.square = squares[id]
	}
}

// Name names the Watcher.
func (h *Fields) Name() string { return "health" }

// State codes what MeasuresState does not.
func (h *Fields) State(c *coder.Coder) {
	codeParts(c, []part{
		{"alarms", func(c *coder.Coder) { h.alarms.State(c, len(h.fields)) }},
		{"costs", h.costsState},
		{"kinds", func(c *coder.Coder) { h.kinds.State(c, len(h.fields)) }},
		{"rare", func(c *coder.Coder) { h.rare.State(c, len(h.fields)) }},
	})
}

// MeasuresState codes the measures of the fields, which have a place in the learner's own block.
func (h *Fields) MeasuresState(c *coder.Coder) {
	c.Uint(&h.events)
	h.start.state(c)
	c.Uint(&h.alarms.raised)
	n := uint64(len(h.fields))
	c.Uint(&n)
	if c.Decode {
		if n > MostFields {
			c.Failed = true
			return
		}
		h.fields = make([]fieldHealth, n)
		h.watched = make(model.FieldSet, (n+63)/64)
	}
	for id := range h.fields {
		f := &h.fields[id]
		if f.state(c); !c.Decode {
			continue
		}
		if f.watched {
			h.watch(id)
		}
		if f.kind == blankout.Words {
			h.words = append(h.words, uint16(id))
		}
	}
	h.oldAlarms(c)
}

// oldAlarms codes what files without Alarms hold of them, and else nothing.
func (h *Fields) oldAlarms(c *coder.Coder) {
	a, n := &h.alarms, uint64(0)
	c.Uint(&a.changed)
	if c.Uint(&n); !c.Decode {
		return
	}
	if n > healthChanges {
		c.Failed = true
		return
	}
	for range n {
		var x fieldChange
		if x.oldState(c); x.field < 0 || x.field >= len(h.fields) || x.kind < 0 || x.kind >= fieldMeasures {
			c.Failed = true
			return
		}
		a.changes = append(a.changes, x)
	}
	for id := range h.fields {
		for _, kind := range measuresOf(h.fields[id].kind) {
			if m := &h.fields[id].measures[kind]; m.alarm != 0 {
				x := fieldChange{field: id, kind: kind, what: alarmRaised, event: m.since.Event, since: m.since}
				x.value = h.value(m, &x)
				a.resume(x)
			}
		}
	}
}

func (f *fieldHealth) state(c *coder.Coder) {
	kind, watched := uint64(f.kind), uint64(0)
	if f.watched {
		watched = 1
	}
	c.Uint(&kind)
	c.Uint(&watched)
	f.kind, f.watched = blankout.Kind(kind), watched != 0
	if kind > uint64(blankout.Cross) {
		c.Failed = true
	}
	f.run.state(c)
	c.Uint(&f.last)
	c.Each(
		&f.missing, &f.seen, &f.fresh, &f.sum, &f.square, &f.fourth, &f.center, &f.inverse, &f.first[0], &f.first[1], &f.first[2],
		&f.cost.n, &f.cost.with, &f.cost.without)
	for _, kind := range measuresOf(f.kind) {
		f.measures[kind].state(c)
	}
}

func (m *fieldMeasure) state(c *coder.Coder) {
	c.Each(
		&m.n, &m.sum, &m.square, &m.pending.n, &m.pending.sum, &m.pending.square, &m.recentN, &m.recentSum, &m.above, &m.below, &m.sinceN, &m.sinceSum, &m.alarm, &m.calm, &m.before)
	m.since.state(c)
	m.until.state(c)
}

// measuresOf lists the measures that a field of this kind has.
func measuresOf(kind blankout.Kind) []int {
	switch kind {
	case blankout.Numeric:
		return []int{measureMissing, measureMean, measureDeviation}
	case blankout.Categorical:
		return []int{measureMissing, measureNew}
	case blankout.Boolean, blankout.Words:
		return []int{measureMissing}
	}
	return nil
}
