package online

// This file finds out how answers do if features go missing: by deleting some of events at hand, before they are
// learned.

import (
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/impute"
	"blankout/online/mixture"
	"blankout/online/monitor"
	"blankout/online/probe"
	"blankout/online/silent"
)

// masked draws masks and is room for what they leave.
type masked struct {
	drawn    uint64 // masks
	mask     probe.Mask
	grouping *model.Grouping
	factors  [][2]int // see event.Schema.Factors
	field    []uint16
	whole    encode.Input // with the columns that are known to be 0
	numbers  impute.Numbers
	dead     []bool       // by feature
	left     encode.Input // without those
	silently encode.Input // with those that have died silently
	scored   scored
	filled   filled
	out      []float64 // by output
	byClass  []float64 // scores
	seen     monitor.Event
	silent   silent.Mask
}

func newMasked(x *ensemble) masked {
	return masked{grouping: x.levels.Grouping, scored: x.newScored(x.levels.NewScores()), filled: newFilled(x), out: make([]float64, x.levels.Outputs)}
}

// sampleMasks answers an event with features deleted by a mask, at each share of missing features: forecasts and the
// mixture weights of ranges learn from that. Where groups are declared they die as a whole, and single features for the
// forecast alone.
func (l *Learner) sampleMasks(e *event.Example, by *mixture.Event) {
	if !masks(l.events) {
		return
	}
	m, declared, moves := &l.masked, l.masked.grouping.Declared(), !l.member.shares() && !l.levels.Passed()
	m.drawn++
	l.sampleMask(e, by, false, !declared && moves)
	if l.groups() {
		l.sampleMask(e, by, true, declared && moves)
	}
}

// groups says whether it is forecast what is lost if groups die, of which fields of none are ones by themselves.
func (l *Learner) groups() bool { return l.masked.grouping.Declared() || l.levels.Grouped() }

// sampleMask draws one mask, of features or groups. Mixture weights learn from it if moves is set.
func (l *Learner) sampleMask(e *event.Example, by *mixture.Event, groups, moves bool) {
	m, schema := &l.masked, l.encoder.Schema()
	in := l.encoder.WithZeros(&l.room.in, &m.whole)
	l.imputer.Read(in, l.encoder, &m.numbers)
	columns, numbers := in.Columns[:in.Features()], l.imputer.Columns()
	if m.field = m.field[:0]; len(in.Event.Field) > 0 {
		m.field = l.encoder.Scaling.Scaler.FieldsOf(in.Event, columns, m.field)
	}
	if len(m.factors) != len(schema.Fields) {
		m.factors = schema.Factors()
	}
	x := probe.Features{Columns: columns, Field: m.field, Schema: schema, Factors: m.factors, Curves: l.encoder.Scaling.Scaler.Curves, Known: l.encoder.Fields.Missing.Known && in.Event.IsSparse(schema.Fields)}
	curves, silently := &l.mixture.Table.Features, &l.mixture.Table.SilentFeatures
	if groups {
		curves, silently = &l.mixture.Table.Groups, &l.mixture.Table.SilentGroups
		m.mask.Draw(x, m.drawn, m.grouping)
		m.mask.Alone(l.config.ExpectedMissing, l.events)
	} else {
		m.mask.Draw(x, m.drawn, nil)
	}
	if groups { // of features more events tell
		l.forecast(curves, 0, e, l.answer(&l.room.in, l.room.scored.lanes, &l.room.filled, m.out, &m.byClass))
	}
	if moves {
		l.mixture.Table.Masked()
	}
	l.encoder.FillDead(in)
	whole, awake := l.encoder.Fields.All(schema.Fields), l.awake(l.events)
	for point := 1; point < probe.Points; point++ {
		m.dead = m.dead[:0]
		for _, last := range m.mask.Last {
			m.dead = append(m.dead, int(last) < point)
		}
		if turns(m.drawn, point) {
			l.forecastSilent(in, silently, point, e)
		}
		if m.numbers.Without(m.dead, &m.filled.numbers); m.filled.numbers.Lacks && !imputes(m.drawn, point, numbers) {
			continue
		}
		in.Without(m.dead, &m.left)
		k := whole
		k.Null, k.Named = k.Null+m.mask.Dead[point], k.Named-m.mask.Dead[point]
		m.left.Lack, m.left.Range = k, probe.Range(k)
		m.left.Scale = l.encoder.Fields.Missing.Scale(k)
		l.score(&m.left, awake, &m.scored)
		l.expect(&m.left, &m.filled)
		heeds := moves && m.left.Range > 0 && l.mixture.Table.Heeds(m.left.Range)
		if heeds && turns(m.drawn, point) {
			l.observeLacking(&m.left, m.scored.lanes, awake, &m.filled, by)
		}
		scores := l.answer(&m.left, m.scored.lanes, &m.filled, m.out, &m.byClass)
		if j := l.forecast(curves, point, e, scores); heeds && (l.events <= decidesSome || turns(m.drawn, point)) {
			l.observeMasked(e, scores, j)
		}
	}
}

// observeMasked shows the monitors what the answer to what a mask has left of an event comes to.
func (l *Learner) observeMasked(e *event.Example, scores []float64, j model.Judged) {
	m := &l.masked
	seen := &m.seen
	seen.Again, seen.Lacks = l.levels.Passed(), l.lacks(&m.left, m.scored.lanes, &m.filled)
	if t := l.targets; t != nil {
		seen.Regression, seen.Target, seen.Value, seen.Residual = true, e.Target, t.unit.Value(scores[0]), t.residual.PublishedIn(&t.before)
	} else {
		seen.Scores, seen.Label, seen.Decision = scores, e.Label, l.monitors.Decision()
		seen.Judged, seen.Active = j, l.outputs.active(l.levels.Active())
	}
	l.monitors.Masked(seen)
}

// forecastSilent takes up what scores of an event lose at a point if what is dead has died silently.
func (l *Learner) forecastSilent(in *encode.Input, curves *probe.Curves, point int, e *event.Example) {
	m := &l.masked
	in.Silently(m.dead, &m.silently)
	l.score(&m.silently, false, &m.scored)
	l.forecast(curves, point, e, l.answer(&m.silently, m.scored.lanes, &m.filled, m.out, &m.byClass))
}

// silenced returns what the lanes are judged by at an event that lacks nothing: what they say of it or, where there is a level
// of silent noise, of a copy some features of which have died silently.
func (l *Learner) silenced(s said) said {
	m, in := &l.masked, &l.room.in
	if !m.dies(&l.ensemble, in, l.events, 0) {
		return s
	}
	l.score(&m.silently, s.experts != nil, &m.scored)
	return l.saidOf(&m.scored, nil, nil)
}

// dies fills silently with a copy of an event some features of which have died silently, as a level of silent noise learns it: one
// of several copies. It returns whether there is one.
func (m *masked) dies(x *ensemble, in *encode.Input, number, copy uint64) bool {
	noise, some := x.levels.Silent()
	if !some {
		return false
	}
	var units []int32
	if noise.Groups {
		units = in.Units
	}
	if m.silent.Draw(noise, in.Features(), units, number, copy); m.silent.Some {
		in.Silently(m.silent.Dead, &m.silently)
	}
	return m.silent.Some
}

// copiesFirst is how many silently masked copies of each of the first earlyGroups events the experts learn that correct the
// levels where groups die; of others they learn one.
const copiesFirst, earlyGroups = 3, 2000

// correctAll has the experts that correct the levels learn the event at hand or, where there is a level of silent noise, copies
// of it some features of which have died silently.
func (l *Learner) correctAll(weight float64) {
	r, m := &l.room, &l.masked
	if !r.scored.some {
		return
	}
	noise, some := l.levels.Silent()
	copies := uint64(1)
	if some && noise.Groups && l.events <= earlyGroups {
		copies = copiesFirst
	}
	for i := range copies {
		s := &r.scored
		if m.dies(&l.ensemble, &r.in, l.events, i) {
			s = &m.scored
			l.score(&m.silently, true, s)
		}
		l.teach(s, r.target, weight)
	}
}

// forecast takes up what scores of an event lose at a point, and returns it, of classes.
func (l *Learner) forecast(curves *probe.Curves, point int, e *event.Example, scores []float64) (j model.Judged) {
	if t := l.targets; t != nil {
		addSquare(curves, point, e, t.unit.Value(scores[0]))
		return j
	}
	j = l.monitors.Decision().Judge(scores, e.Label)
	addForecast(curves, point, e, j)
	return j
}

// addForecast takes up what has been lost at a point.
func addForecast(curves *probe.Curves, point int, e *event.Example, j model.Judged) {
	wrong := 0.0
	if j.Class != e.Label {
		wrong = 1
	}
	curves.Error.Add(point, wrong)
	curves.LogLoss.Add(point, j.LogLoss)
}

// addSquare is addForecast for a value that is predicted of a number.
func addSquare(curves *probe.Curves, point int, e *event.Example, value float64) {
	d := e.Target - value
	curves.Error.Add(point, d*d)
}
