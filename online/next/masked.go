package next

// This file finds out how answers do if features go missing: by deleting some of events at hand, before they are
// learned.

import (
	"math"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/next/adagrad"
	"blankout/online/next/encode"
	"blankout/online/next/mixture"
	"blankout/online/probe"
)

// masked draws masks and is room for what they leave.
type masked struct {
	drawn    uint64 // masks
	mask     probe.Mask
	grouping *model.Grouping
	factors  [][2]int // see event.Schema.Factors
	field    []uint16
	left     encode.Input
	scores   adagrad.Scores
	lanes    []float64 // by level and output
	rescaled []float64 // likewise
	bases    []float64 // likewise: the intercepts
	out, own []float64 // by output
}

func newMasked(x *adagrad.Expert, s *event.Schema) masked {
	scores, k := x.NewScores(), x.Outputs
	n := len(scores.Iterate)
	return masked{
		grouping: model.NewGrouping(s), scores: scores,
		lanes: make([]float64, n), rescaled: make([]float64, n), bases: make([]float64, n), out: make([]float64, k), own: make([]float64, k),
	}
}

// sampleMasks answers an event with features deleted by a mask, at each share of missing features: forecasts and the
// mixture weights of ranges learn from that. Where groups are declared they die as a whole, and single features for the
// forecast alone.
func (l *Learner) sampleMasks(e *event.Example, by *mixture.Event) {
	if !masks(l.events) {
		return
	}
	m, declared := &l.masked, l.masked.grouping.Declared()
	m.drawn++
	l.sampleMask(e, by, false, !declared)
	if declared {
		l.sampleMask(e, by, true, true)
	}
}

// sampleMask draws one mask, of features or groups. Mixture weights learn from it if moves is set.
func (l *Learner) sampleMask(e *event.Example, by *mixture.Event, groups, moves bool) {
	m, in, schema := &l.masked, &l.room.in, l.encoder.Schema()
	columns := in.Columns[:in.Features()]
	if m.field = m.field[:0]; len(e.Field) > 0 {
		m.field = l.encoder.Scaling.Scaler.FieldsOf(e, columns, m.field)
	}
	if len(m.factors) != len(schema.Fields) {
		m.factors = schema.Factors()
	}
	x := probe.Features{Columns: columns, Field: m.field, Schema: schema, Factors: m.factors, Known: l.encoder.Fields.Missing.Known && e.IsSparse(schema.Fields)}
	curves := &l.mixture.Table.Features
	if groups {
		curves = &l.mixture.Table.Groups
		m.mask.Draw(x, m.drawn, 0, m.grouping)
		m.mask.Alone(l.config.ExpectedMissing, l.events)
	} else {
		m.mask.Draw(x, m.drawn, 0, nil)
	}
	l.forecast(curves, 0, e, by, l.room.out)
	if moves {
		l.mixture.Table.Masked()
	}
	whole := l.encoder.Fields.All(schema.Fields)
	for point := 1; point < probe.Points; point++ {
		in.Without(func(i int) bool { return int(m.mask.Last[i]) >= point }, &m.left)
		k := whole
		k.Null, k.Named = k.Null+m.mask.Dead[point], k.Named-m.mask.Dead[point]
		m.left.Lack, m.left.Range = k, probe.Range(k)
		m.left.Scale = l.encoder.Fields.Missing.Scale(k)
		l.levels.Score(&m.left, &m.scores)
		l.levels.Published(&m.scores, m.lanes)
		if moves && turns(m.drawn, point) && m.left.Range > 0 && l.mixture.Table.Heeds(m.left.Range) {
			l.observeLacking(&m.left, m.lanes, by)
		}
		l.forecast(curves, point, e, by, l.answer(&m.left, m.lanes, m.out))
	}
}

// forecast takes up what scores of an event lose at a point.
func (l *Learner) forecast(curves *probe.Curves, point int, e *event.Example, by *mixture.Event, scores []float64) {
	if t := l.targets; t != nil {
		d := e.Target - t.unit.Value(scores[0])
		curves.Error.Add(point, d*d)
		return
	}
	j := l.decision().Judge(scores, by.Label)
	wrong := 0.0
	if j.Class != by.Label {
		wrong = 1
	}
	curves.Error.Add(point, wrong)
	curves.LogLoss.Add(point, j.LogLoss)
}

// answer writes to out what the model says of an event, in the Learner's unit, of which lanes are what the levels say.
func (l *Learner) answer(in *encode.Input, lanes, out []float64) []float64 {
	active := l.levels.Active()
	l.mixture.Score(lanes, in.Range, active, out)
	if in.Range > 0 && in.Scale != 1 {
		base := l.base(in.Range)
		for k := range active {
			out[k] = base[k] + in.Scale*(out[k]-base[k])
		}
	}
	return out
}

// base returns the mixed intercepts of a range, by output, borrowed until the next call.
func (l *Learner) base(r int) []float64 {
	m := &l.masked
	l.levels.PublishedIntercepts(l.encoder.Intercepts, m.bases)
	l.mixture.Score(m.bases, r, l.levels.Active(), m.own)
	return m.own
}

// observeLacking takes up what the answers to an event lose that lacks something: its range's policies, with lanes as
// they are mixed, and its lanes, with policies as they are mixed.
func (l *Learner) observeLacking(in *encode.Input, lanes []float64, by *mixture.Event) {
	m, active := &l.masked, l.levels.Active()
	rescaled := 1.0
	if present := in.Lack.Named + in.Lack.Silent; present > 0 {
		rescaled += (in.Lack.Null + in.Lack.Absent) / present
	}
	l.mixture.Score(lanes, in.Range, active, m.out)
	asIs := by.Lost(m.out)
	if by.Lose != nil { // rescaling is for classes
		l.mixture.ObservePolicies(in.Range, asIs, math.NaN())
		return // and all ranges have the levels of whole events
	}
	base := l.base(in.Range)
	for k := range active {
		m.out[k] = base[k] + rescaled*(m.out[k]-base[k])
	}
	l.mixture.ObservePolicies(in.Range, asIs, by.Lost(m.out))
	for j, b := range m.bases {
		m.rescaled[j] = b + in.Scale*(lanes[j]-b)
	}
	l.mixture.Observe(m.rescaled, in.Range, by)
}
