package health

// This file monitors the health of fields. It detects that a field is missing or has another kind of value, or that the
// mean of its values has changed.

import (
	"math"
	"math/bits"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/readings"
)

// Fields monitors the health of each field.
//
// Events are counted in blocks of healthBlock events. At the end of a block each measure of each field is compared with
// its usual value. The block is then added to the usual value. The comparison is a cumulative sum of a supermartingale,
// see observed.step. On a stationary stream a sum reaches healthLimit at most once in e^healthLimit blocks, for any
// distribution. docs/mathematics.md has the derivation, and TestHealthFalseAlarms simulates it.
//
// One measure is presence: the fraction of events without the field, or with a value of another kind. Presence is
// counted at every event, for each field that most events have. This costs nothing at events without missing fields.
// Another measure is the mean of a number. Values are sampled at one event in eight, selected by the number of the
// event. The third measure is the fraction of numbers that the learner doubts, of those that it examines.
type Fields struct {
	events uint64          // number of events in the current block
	named  float64         // number of events in the block whose missing fields are known
	start  readings.Moment // first event of the current block
	// The fields whose absence is counted at every event: all fields that most events had at the end of some block.
	// Fields are never removed from the set. A field that is missing is soon no longer usual (see model.Missing), but
	// its absence must still be counted.
	watched model.FieldSet
	fields  []fieldHealth // by field id
	alarms  alarmLog

	seen *model.Missing // model whose usual fields were added to watched

	// Information about fields of the Schema that have the same name but different kinds of values:
	linked int            // number of processed fields of the Schema
	names  map[string]int // first field of each name
	alike  [][]uint16     // fields of each name that has several
	there  model.FieldSet // scratch: fields of an event
}

// fieldHealth is the health of one field.
type fieldHealth struct {
	kind    event.Kind
	leader  int  // first field with the same name
	name    int  // 1 + index in Fields.alike, 0 if no other field has the same name
	watched bool // whether it is in Fields.watched
	// Counts of the current block. missing is the number of events without the field. For a field that is not in
	// Fields.watched, held is the number of events with the field. null is the number of sampled events in which the
	// field is null. The other counts are over sampled events with the field: the number of these events (seen), and the
	// sums of the scaled value and of its square.
	missing, held, null float64
	seen, sum, square   float64
	// examined is the number of examined events with the number in the current block, and doubted the number of those in
	// which it was probably no measurement. reading and expected are of the latest of these: its value, and the value that
	// the other numbers of the event predict.
	examined, doubted, reading, expected float64
	// The latest run of events without the field: its first event (run) and last event (last).
	run   readings.Moment
	last  uint64
	usual float64 // decayed number of events with the field, over about usualEvents events
	comes form    // form of the field in the alarm about its presence
	// A number x is measured as u = (x - center) inverse, clipped to ±healthClip. first is the reference: the number,
	// mean and sum of squared deviations of the first values. inverse is 0 until there are enough values.
	center, inverse float64
	first           [3]float64
	measures        [fieldMeasures]fieldMeasure
	cost            fieldCost
	stuck           stuck // zero if the field is not stuck
}

// The measures of a field.
const (
	measureMissing = iota // fraction of events without the field with its usual kind of value
	measureMean           // mean of the scaled value u
	measureDoubted        // fraction of examined numbers that are probably no measurements
	fieldMeasures
	alarmStuck = fieldMeasures // alarm that has no measure
)

const (
	// MostFields is the largest number of monitored fields. The fields with the lowest ids are monitored.
	MostFields  = 4096
	healthBlock = 256 // number of events
	// The current value of a measure covers about recentEvents events, and the usual value about usualEvents events.
	recentEvents, usualEvents = 1000, 100_000
	// Values are sampled at one event in 2^sampledBits.
	sampledBits = 3
	// healthLimit is the cumulative sum that raises an alarm. A bound on a usual value is wrong with probability
	// e^-healthLimit.
	// One event in 32 is examined for doubted numbers, so that their limit is lower: doubtedLimit.
	healthLimit, doubtedLimit = 28, 12
	// healthLeast is the smallest number of observations that determine a usual value.
	healthLeast = 128
	// referenceFirst is the number of values from which the reference is computed. The reference is checked after
	// referenceCheck values.
	referenceFirst, referenceCheck = 64, 1000
	healthClip                     = 3
	// An alarm ends after calmBlocks consecutive blocks without a reason for an alarm. It also ends after alarmEvents
	// events, because the change is then the usual state.
	calmBlocks, alarmEvents = 4, 10_000_000
	// costKeep is the decay factor, per sample, of the samples of a field's ablation cost.
	costKeep = 1 - 1.0/3000
	// costLeast is the smallest number of samples from which an ablation cost is reported. About 2,000 events with the
	// field have that many samples.
	costLeast = 64
)

// allowances has a function for each measure. The function returns how far above or below its usual value the mean must
// be for an alarm, given the usual variance.
var allowances = [...]func(variance float64) (above, below float64){
	measureMissing: func(float64) (float64, float64) { return 0.05, 0 },
	measureDoubted: func(float64) (float64, float64) { return 0.05, 0 },
	measureMean:    func(v float64) (float64, float64) { d := 0.75 * math.Sqrt(max(v, 0.01)); return d, d },
}

// limits has the cumulative sum that raises an alarm, by measure. Half of it is the largest increase by one block, so
// that a burst within one block raises no alarm.
var limits = [...]float64{measureMissing: healthLimit, measureMean: healthLimit, measureDoubted: doubtedLimit}

// ranges has the smallest and the largest value of each measure.
var ranges = [...][2]float64{measureMissing: {0, 1}, measureMean: {-healthClip, healthClip}, measureDoubted: {0, 1}}

// fieldMeasure monitors the mean of bounded observations.
type fieldMeasure struct {
	// Number of observations, their sum and the sum of their squares, over about usualEvents events. They do not change
	// during an alarm.
	n, sum, square float64
	// Number and sum of the observations of about recentEvents events or, during an alarm, of the events since it
	// began.
	recentN, recentSum float64
	// Cumulative sums for a mean above and below the usual mean, and the observations since one of the sums became
	// positive.
	above, below float64
	pending      observed // not added to the usual value yet
	since        readings.Moment
	sinceN       float64
	sinceSum     float64
	alarm        float64         // 1 for above, -1 for below, 0 for no alarm
	calm         float64         // number of consecutive blocks that would not have raised the alarm
	until        readings.Moment // first event of the calm blocks
	found        uint64          // event at which the alarm was raised
	before       float64         // expected error when the alarm was raised, -1 if unknown
}

// observed holds the observations of a measure in one block.
type observed struct{ n, sum, square float64 }

// usual returns the usual mean, a bound on its error (off), and an upper bound of the variance.
//
// Let x be the limit, and let n observations between 0 and b have the mean m. The true mean is above m + sqrt(2 b m
// x/n) + 2 b x/n with probability at most e^-x (Chernoff). This bounds the second moment, and so the variance v. By
// Bernstein's inequality the error of the mean is larger than sqrt(2 v x/n) + (high-low) x/(3 n) with probability at
// most 2 e^-x.
func (m *fieldMeasure) usual(x, low, high float64) (mean, off, variance float64) {
	b := max(high*high, low*low)
	mean, second := m.sum/m.n, m.square/m.n
	second += math.Sqrt(2*b*second*x/m.n) + 2*b*x/m.n
	bound := func(v float64) float64 { return math.Sqrt(2*v*x/m.n) + (high-low)*x/(3*m.n) }
	// The variance is the second moment minus the square of the mean. The error of the mean is bounded.
	least := max(0, math.Abs(mean)-bound(second))
	variance = max(0, second-least*least)
	return mean, bound(variance), variance
}

// step returns the increase of the cumulative sum for a higher mean, after a block of n observations: lambda (sum - n
// (mean + allowance)).
//
// If observations y <= mean + reach have this mean and variance, Bernstein's inequality gives
//
//	E exp(lambda (y - mean)) <= exp(lambda^2 variance / (2 (1 - lambda reach/3))).
//
// If lambda = 2 allowance / (variance + 2 allowance reach/3), the right side is exp(lambda allowance). So the
// expectation of exp(step) is at most 1. So exp of the cumulative sum is below a Shiryaev-Roberts sum R for which R -
// (number of blocks) is a supermartingale. The expected number of blocks until the cumulative sum reaches h is at least
// e^h.
func (o observed) step(mean, variance, reach, allowance float64) float64 {
	return 2 * allowance / (variance + 2*allowance*reach/3) * (o.sum - o.n*(mean+allowance))
}

// compare compares a block, which begins at start, with the usual value of a measure. The result is alarmRaised if the
// block raises an alarm, alarmEnded if it ends one, and 0 otherwise.
func (m *fieldMeasure) compare(kind int, o observed, start readings.Moment) (change changeKind) {
	const recent = 1 - float64(healthBlock)/recentEvents
	m.recentN, m.recentSum = m.recentN*recent+o.n, m.recentSum*recent+o.sum
	if o.n == 0 {
		return 0
	}
	if m.n >= healthLeast {
		limit, low, high := limits[kind], ranges[kind][0], ranges[kind][1]
		mean, off, variance := m.usual(limit, low, high)
		above, below := allowances[kind](variance)
		up := o.step(mean+off, variance, high-mean, above)
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
				m.alarm, m.calm, m.above, m.below = 0, 0, 0, 0
				change = alarmEnded
			}
		default:
			if m.above == 0 && m.below == 0 {
				m.since, m.sinceN, m.sinceSum = start, 0, 0
			}
			m.above, m.below = max(0, m.above+min(up, limit/2)), max(0, m.below+min(down, limit/2))
			m.sinceN, m.sinceSum = m.sinceN*recent+o.n, m.sinceSum*recent+o.sum
			if max(m.above, m.below) >= limit {
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
	// If a block may belong to a change, it is added to the usual value only after the cumulative sums have returned to
	// 0.
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

// grow adds new fields.
func (h *Fields) grow(fields []event.Field) {
	if h.names == nil {
		h.names = map[string]int{}
	}
	for id := len(h.fields); id < len(fields); id++ {
		h.fields = append(h.fields, fieldHealth{kind: fields[id].Kind, leader: id})
	}
	if n := (len(h.fields) + 63) / 64; n > len(h.watched) {
		h.watched = append(h.watched, make(model.FieldSet, n-len(h.watched))...)
	}
	for ; h.linked < len(fields); h.linked++ {
		id, f := h.linked, &h.fields[h.linked]
		if f.kind == event.Sparse || f.kind == event.Cross {
			continue
		}
		first, known := h.names[fields[id].Name]
		switch {
		case !known:
			h.names[fields[id].Name] = id
		case f.name == 0: // restored from a checkpoint
			h.link(id, first)
			if h.fields[first].watched {
				h.watch(id)
			}
		}
	}
}

// link records that a field has the same name as the earlier field first.
func (h *Fields) link(id, first int) {
	one := &h.fields[first]
	if one.name == 0 {
		h.alike = append(h.alike, []uint16{uint16(first)})
		one.name = len(h.alike)
	}
	h.fields[id].leader, h.fields[id].name = first, one.name
	h.alike[one.name-1] = append(h.alike[one.name-1], uint16(id))
}

// Take observes an event.
func (h *Fields) Take(m *Met) {
	e := m.Came
	if fields := m.Fields[:min(len(m.Fields), MostFields)]; h.linked < len(fields) {
		h.grow(fields)
	}
	if h.events == 0 {
		h.start = readings.Moment{Event: m.Number, Time: e.Time}
	}
	h.events++
	switch {
	case m.Named:
		h.named++
		present := m.Present // the first field of each name represents all of them
		if len(h.alike) > 0 {
			h.there = h.there.Room(len(h.fields))
			clear(h.there)
			h.there.Add(e.Field)
			present = h.there
		}
		for i, watched := range h.watched {
			word := uint64(0)
			if i < len(present) {
				word = present[i]
			}
			if absent := watched &^ word; absent != 0 {
				h.countMissing(absent, i, m.Number, e.Time)
			}
			for word &^= watched; word != 0; word &= word - 1 {
				if id := i<<6 | bits.TrailingZeros64(word); id < len(h.fields) {
					h.fields[id].held++
				}
			}
		}
		if sampled(m.Number, sampledBits) {
			h.sampleValues(m)
		}
		if m.Examined {
			h.examine(m)
		}
	case e.Features.Len() == 0: // an event without fields
		h.named++
		for i, word := range h.watched {
			h.countMissing(word, i, m.Number, e.Time)
		}
	}
	if h.events == healthBlock {
		h.review(m)
	}
}

// countMissing counts as missing from an event the fields in word, which is word i of a FieldSet.
func (h *Fields) countMissing(word uint64, i int, event uint64, time int64) {
	for ; word != 0; word &= word - 1 {
		f := &h.fields[i<<6|bits.TrailingZeros64(word)]
		f.missing++
		if f.last != event-1 {
			f.run = readings.Moment{Event: event, Time: time}
		}
		f.last = event
	}
}

// sampleValues processes the values of an event. It must be called before the rows count the event.
func (h *Fields) sampleValues(m *Met) {
	fields, e := h.fields, m.Event
	for _, id := range m.Came.Missing {
		if int(id) < len(fields) {
			fields[id].null++
		}
	}
	for i, id := range e.Field {
		if int(id) >= len(fields) {
			continue
		}
		if f := &fields[id]; f.kind == event.Numeric {
			f.number(e.Features.Value[i])
		}
	}
}

// examine counts the numbers of an examined event, and those that are probably no measurements.
func (h *Fields) examine(m *Met) {
	for _, id := range m.Event.Field {
		if int(id) < len(h.fields) {
			h.fields[id].examined++
		}
	}
	for _, r := range m.Doubted {
		if r.Field > 0 && int(r.Field) < len(h.fields) {
			f := &h.fields[r.Field]
			f.doubted++
			f.reading, f.expected = r.Value, r.Expected
		}
	}
}

func (f *fieldHealth) number(x float64) {
	if f.inverse == 0 {
		f.refer(x)
		return
	}
	u := max(-healthClip, min(healthClip, (x-f.center)*f.inverse))
	f.seen++
	f.sum += u
	f.square += u * u
}

// refer adds a value to the values from which the reference of the field is computed.
func (f *fieldHealth) refer(x float64) {
	r := &f.first
	if model.AddMoments(r, x); r[0] < referenceFirst {
		return
	}
	// If all values are equal, the scale is so small that any other value is an outlier.
	deviation := math.Sqrt(r[2] / r[0])
	f.center, f.inverse = r[1], 1/max(deviation, 1e-9*math.Abs(r[1]), 1e-30)
	*r = [3]float64{}
}

// review compares the completed block with the usual values.
func (h *Fields) review(met *Met) {
	for id := range h.fields {
		f := &h.fields[id]
		if f.kind == event.Sparse || f.kind == event.Cross {
			continue
		}
		if h.usualKind(id) {
			h.reviewPresence(met, id)
		}
		if f.kind == event.Numeric {
			h.reviewMeasure(met, id, measureMean, observed{f.seen, f.sum, f.square}, run{})
			f.checkReference()
			h.reviewMeasure(met, id, measureDoubted, observed{f.examined, f.doubted, f.doubted}, run{})
		}
	}
	h.countKinds()
	for id := range h.fields {
		f := &h.fields[id]
		if f.kind == event.Words && met.Usual != nil && f.held > healthBlock/2 {
			// If most events have a field, its absence is counted from now on, and its usual missing rate is learned.
			h.watch(id)
		}
		f.missing, f.held, f.null, f.seen, f.sum, f.square, f.examined, f.doubted = 0, 0, 0, 0, 0, 0, 0, 0
	}
	h.events, h.named = 0, 0
	if m := met.Usual; m != nil && m != h.seen {
		h.seen = m
		for _, id := range m.Usual {
			if int(id) >= len(h.fields) {
				continue
			}
			h.watch(int(id))
			for _, id := range h.kindsOf(int(id)) {
				h.watch(int(id))
			}
		}
	}
}

// watch marks a field as monitored. From then on h checks at every event whether the field is absent.
func (h *Fields) watch(id int) {
	f := &h.fields[id]
	if !f.watched {
		f.watched, f.usual, f.measures[measureMissing] = true, 0, fieldMeasure{}
	}
	h.watched[id>>6] |= 1 << (id & 63)
}

// kindsOf returns all fields that have the name of the field id, or nil if no other field has that name.
func (h *Fields) kindsOf(id int) []uint16 {
	if name := h.fields[id].name; name > 0 {
		return h.alike[name-1]
	}
	return nil
}

// present returns the number of events in the block that have the field.
func (h *Fields) present(id int) float64 {
	if f := &h.fields[id]; !f.watched {
		return f.held
	}
	return h.named - h.fields[id].missing
}

// usualKind reports whether a field is the most frequent one among the fields with the same name.
func (h *Fields) usualKind(id int) bool {
	for _, other := range h.kindsOf(id) {
		if h.fields[other].usual > h.fields[id].usual {
			return false
		}
	}
	return true
}

// countKinds updates the decayed number of events with each field. The number does not change during an alarm about the
// presence of a field with the same name.
func (h *Fields) countKinds() {
	const keep = 1 - float64(healthBlock)/usualEvents
	out := func(id uint16) bool {
		m := &h.fields[id].measures[measureMissing]
		return m.alarm != 0 || m.above > 0
	}
	for id := range h.fields {
		if !out(uint16(id)) && !slices.ContainsFunc(h.kindsOf(id), out) {
			h.fields[id].usual = h.fields[id].usual*keep + h.present(id)
		}
	}
}

// reviewPresence compares the presence of a field with its usual kind of value in the block.
func (h *Fields) reviewPresence(met *Met, id int) {
	f := &h.fields[id]
	m := &f.measures[measureMissing]
	if h.named == 0 || !f.watched {
		return // it is not known which of these events lack the field
	}
	r := run{}
	if f.last == met.Number {
		r = run{f.run, float64(met.Number - f.run.Event + 1)}
	}
	if m.alarm == 0 || m.calm == 0 { // otherwise the field may be recovering
		f.comes = h.comes(id)
	}
	h.reviewMeasure(met, id, measureMissing, observed{n: h.named, sum: f.missing, square: f.missing}, r)
}

// comes returns the form in which a missing field arrived in the block.
func (h *Fields) comes(id int) form {
	f := &h.fields[id]
	other, most := id, 0.0
	for _, of := range h.kindsOf(id) {
		if n := h.present(int(of)); int(of) != id && n > most {
			other, most = int(of), n
		}
	}
	switch {
	case most > 0 && most >= f.missing/2:
		return comesAs + form(h.fields[other].kind)
	case h.fields[f.leader].null > 0:
		return comesNull
	}
	return comesNot
}

// checkReference calls resetReference if the values of a number are far from its reference.
func (f *fieldHealth) checkReference() {
	m := &f.measures[measureMean]
	if m.n < referenceCheck || m.alarm != 0 {
		return
	}
	mean := m.sum / m.n
	variance := m.square/m.n - mean*mean
	if variance > 0 && (math.Abs(mean) > 1 || variance > 4 || variance < 0.1) && m.above+m.below == 0 {
		f.resetReference()
	}
}

// resetReference resets the measures of a number. Its next values become its reference.
func (f *fieldHealth) resetReference() {
	f.inverse, f.measures[measureMean] = 0, fieldMeasure{}
}

// run is a run of n events, up to the current event, in which a field is missing.
type run struct {
	since readings.Moment
	n     float64
}

// reviewMeasure compares a measure of a field with its usual value, and records the start or end of its alarm. If an
// alarm may have begun with the run r, the first event of r becomes the start of the alarm.
func (h *Fields) reviewMeasure(met *Met, id, kind int, o observed, r run) {
	f := &h.fields[id]
	m := &f.measures[kind]
	what := m.compare(kind, o, h.start)
	switch {
	case what == alarmRaised:
		m.found, m.before, m.until = met.Number, -1, readings.Moment{}
		if kind == measureMissing {
			m.before = met.Error
			if r.n > 0 && r.since.Event >= m.since.Event && r.since.Event < m.since.Event+2*healthBlock {
				m.since, m.recentN, m.recentSum = r.since, r.n, r.n
			}
		}
	case m.alarm != 0 && met.Number-m.since.Event >= alarmEvents:
		what = alarmAccepted
	case what == 0:
		return
	}
	x := h.alarm(id, kind)
	x.what, x.event = what, met.Number
	if h.alarms.add(x); what != alarmAccepted {
		return
	}
	if *m = (fieldMeasure{}); f.kind == event.Numeric && kind == measureMean {
		f.resetReference()
	}
}

// alarm returns the current alarm of a measure of a field.
func (h *Fields) alarm(id, kind int) fieldChange {
	f := &h.fields[id]
	m := &f.measures[kind]
	x := fieldChange{field: id, kind: kind, what: alarmRaised, event: m.found, since: m.since, until: m.until, value: h.value(id, kind)}
	if kind == measureMissing {
		x.comes = f.comes
	}
	return x
}

// fieldCost compares the errors of predictions with and without a field. It uses only sampled events that have the
// field, each with weight 1 whatever its importance. Older samples decay, see costKeep.
type fieldCost struct {
	n, with, missing float64
	square           float64 // sum of the squared differences
}

// add records the errors of a prediction with and without a field.
func (c *fieldCost) add(with, without float64) {
	c.n = c.n*costKeep + 1
	c.with, c.missing = c.with*costKeep+with, c.missing*costKeep+without
	c.square = c.square*costKeep + (without-with)*(without-with)
}

// known reports whether there are enough samples for the method rise.
func (c *fieldCost) known() bool { return c.n >= costLeast }

// rise returns how much the error would increase if the field were missing from all events. With few samples the mean
// difference is uncertain. It is therefore reduced by the fraction of its square that its variance explains.
func (c *fieldCost) rise() float64 {
	d := (c.missing - c.with) / c.n
	if d == 0 {
		return 0
	}
	variance := max(0, c.square/c.n-d*d) / c.n
	return d * max(0, 1-variance/(d*d))
}

// State encodes or decodes the state.
func (h *Fields) State(c *coder.Coder) {
	c.Uint(&h.events)
	c.Float(&h.named)
	h.start.State(c)
	if coder.Length(c, &h.fields, MostFields); c.Decode {
		h.watched = model.NewFieldSet(len(h.fields))
	}
	for id := range h.fields {
		f := &h.fields[id]
		if !f.state(c, id) {
			continue
		}
		if f.watched {
			h.watch(id)
		}
		switch {
		case f.leader < 0 || f.leader > id:
			c.Failed = true
			return
		case f.leader < id:
			h.link(id, f.leader)
		}
	}
	h.alarms.state(c, len(h.fields))
}

// state encodes or decodes the field id, and reports whether it was decoded.
func (f *fieldHealth) state(c *coder.Coder, id int) (read bool) {
	kind := uint64(f.kind)
	c.Uint(&kind)
	c.Bool(&f.watched)
	c.Int(&f.leader)
	f.kind = event.Kind(kind)
	c.Uint((*uint64)(&f.comes))
	if kind > uint64(event.Cross) || f.comes > comesAs+form(event.Cross) {
		c.Failed = true
	}
	f.run.State(c)
	c.Uint(&f.last)
	c.Each(
		&f.missing, &f.held, &f.null, &f.usual, &f.seen, &f.sum, &f.square, &f.center, &f.inverse, &f.first[0], &f.first[1], &f.first[2],
		&f.examined, &f.doubted, &f.reading, &f.expected,
		&f.cost.n, &f.cost.with, &f.cost.missing, &f.cost.square)
	for _, kind := range measuresOf(f.kind) {
		f.measures[kind].state(c)
	}
	f.stuck.state(c, id)
	return c.Decode
}

func (m *fieldMeasure) state(c *coder.Coder) {
	c.Each(
		&m.n, &m.sum, &m.square, &m.pending.n, &m.pending.sum, &m.pending.square, &m.recentN, &m.recentSum, &m.above, &m.below, &m.sinceN, &m.sinceSum, &m.alarm, &m.calm, &m.before)
	c.Uint(&m.found)
	m.since.State(c)
	m.until.State(c)
}

// measuresOf returns the measures that apply to a field of this kind.
func measuresOf(kind event.Kind) []int {
	switch kind {
	case event.Numeric:
		return []int{measureMissing, measureMean, measureDoubted}
	case event.Categorical, event.Boolean, event.Words:
		return []int{measureMissing}
	}
	return nil
}
