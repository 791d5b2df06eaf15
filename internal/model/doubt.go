package model

// This file predicts events with readings that contradict the other readings of their event.

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"blankout/internal/event"
)

// Doubt decides for each number of an event whether it is a measurement, or the reading of something that has died. It
// needs no report of the loss: a number is doubted if the other numbers of the event do not allow it, or if it is a fill
// value (CellColumn.Fills). An event with doubted numbers is predicted twice, as it is and with these numbers missing or
// corrected; the probabilities are mixed by Weights.
//
// A Doubt belongs to the Covariance of its model. It is immutable and safe for concurrent use. The nil Doubt doubts
// nothing.
type Doubt struct {
	Columns []CellColumn `json:"columns"` // ascending
	// Screen and Gate are evidences, log-likelihood ratios, that few ordinary events exceed: after the first round, and at
	// the end. The second ones are for events with many zeros. Nothing is doubted in an event with less evidence.
	Screen [2]float64 `json:"screen"`
	Gate   [2]float64 `json:"gate"`
	// Weights has the weights of the corrected prediction, by kind and by range of the evidence. Rest has the weights of the
	// prediction without fill values, in place of the prediction with the readings as they are, by range of the evidence.
	Weights [DoubtKinds][DoubtRanges]float64 `json:"weights"`
	Rest    [DoubtRanges]float64             `json:"rest"`

	ready sync.Once
	cells *cells // for the Covariance of the model; nil if it has too few columns
}

// The kinds of events with doubted readings.
const (
	DoubtsFill  = iota // most doubted readings are fill values
	DoubtsZero         // the event has many zeros
	DoubtsOther        // others
	DoubtKinds
)

// DoubtRanges is the number of ranges of the evidence. They end at the Gate plus the doubtEdges, in nats; the last range is
// above them.
const DoubtRanges = 6

var doubtEdges = [DoubtRanges - 1]float64{1, 3, 8, 20, 50}

// DoubtMost is the largest weight of a corrected prediction: the probability of no class falls below a twentieth of that
// of the other predictions.
const DoubtMost = 0.95

// DoubtGone is the probability above which a doubted reading counts as missing. Above doubtSome it is corrected.
const DoubtGone, doubtSome = 0.9, 0.02

// Doubted is what a Doubt finds in an event.
type Doubted struct {
	// Event is the event without the readings that count as missing, and with corrected values of others. Rest is the event
	// without its fill values, nil if it has none.
	Event, Rest *event.Example

	Kind     int
	Range    int // range of the evidence
	Readings []DoubtedReading
}

// DoubtedReading is one doubted number of an event.
type DoubtedReading struct {
	Column      uint32
	Field       uint16  // 0 for a column of a sparse text format
	Value       float64 // the number
	Expected    float64 // what the other numbers of the event predict
	Probability float64 // probability that the number is no measurement
	Reason      DoubtReason
}

// DoubtReason is why a number is doubted.
type DoubtReason string

// The reasons.
const (
	Repeated    DoubtReason = "repeated"    // a fill value
	Contradicts DoubtReason = "contradicts" // contradicts the other numbers
)

// check returns an error if a decoded Doubt is not valid.
func (d *Doubt) check() error {
	for i, c := range d.Columns {
		if i > 0 && c.Column <= d.Columns[i-1].Column || !(c.Zeros >= 0 && c.Zeros <= 1) {
			return fmt.Errorf("doubt: column %d", c.Column)
		}
	}
	for _, weights := range append(d.Weights[:], d.Rest) {
		for _, w := range weights {
			if !(w >= 0 && w <= DoubtMost) {
				return fmt.Errorf("doubt: weight %v", w)
			}
		}
	}
	return nil
}

// With returns a Doubt that also knows the given columns, which it owns.
func (d *Doubt) With(columns []CellColumn) *Doubt {
	return &Doubt{Columns: columns, Screen: d.Screen, Gate: d.Gate, Weights: d.Weights, Rest: d.Rest}
}

// Knowing returns copies of columns that also know the values of dead numbers as fill values, except where 0 is an ordinary
// reading. The result is not nil.
func (d *Dead) Knowing(columns []CellColumn) []CellColumn {
	columns = append([]CellColumn{}, columns...)
	for i := range columns {
		c := &columns[i]
		if reads, known := d.Of(c.Column); known && !c.Flag && !(reads == 0 && c.Zeros >= cellNatural) && !slices.Contains(c.Fills, reads) {
			c.Fills = append(slices.Clone(c.Fills), reads)
		}
	}
	return columns
}

// of returns the cells for the model's Covariance, or nil if that has too few columns.
func (d *Doubt) of(c *Covariance) *cells {
	d.ready.Do(func() {
		if c != nil && len(c.Columns) >= 3 {
			d.cells = newCells(c, d.Columns)
		}
	})
	return d.cells
}

// Doubted returns the doubted readings of an event, or nil if there are none. The event must have passed through Declare.
func (m *Linear) Doubted(e *event.Example) (out *Doubted) {
	m.examine(e, func(x *cells, t *cellEvent) {
		if t.g > m.Doubt.Gate[t.zeros] {
			out = m.doubted(x, e, t)
		}
	})
	return out
}

// Each calls f for each event whose prediction is mixed into the prediction so far, with its weight: first the event
// without fill values, then the corrected event. Weights of 0 are omitted.
func (x *Doubted) Each(d *Doubt, f func(weight float64, e *event.Example)) {
	if w := d.Rest[x.Range]; w > 0 && x.Rest != nil {
		f(w, x.Rest)
	}
	if w := d.Weights[x.Kind][x.Range]; w > 0 {
		f(w, x.Event)
	}
}

// Corrects reports whether any weight is above 0.
func (d *Doubt) Corrects() bool { return d != nil && d.Weights != [DoubtKinds][DoubtRanges]float64{} }

// Examined is what an event tells the learner of a Doubt.
type Examined struct {
	Doubted *Doubted
	Zeros   int // 1 if the event has many zeros, or 0
	// First and Last are the evidence for dead readings after the first round and at the end. They are infinite if the
	// event has a fill value. Last is negative infinity if the first round finds little. First is NaN if nothing can be
	// examined.
	First, Last float64
	// Contradicted has the readings that would count as missing if dead readings were as likely as others, also where Last is
	// below the Gate. It is for the health of fields: Gate and the rate of dead readings follow the stream, and soon accept a
	// sensor that has broken for good.
	Contradicted []DoubtedReading
}

// Examine is Doubted for the learner of a Doubt, which needs more.
func (m *Linear) Examine(e *event.Example) Examined {
	out := Examined{First: math.NaN(), Last: math.NaN()}
	m.examine(e, func(x *cells, t *cellEvent) {
		if out.Zeros, out.First, out.Last = t.zeros, t.first, t.g; t.g == math.Inf(-1) {
			return
		}
		if t.g > m.Doubt.Gate[t.zeros] {
			out.Doubted = m.doubted(x, e, t)
		}
		for _, i := range t.active {
			if x.judged(t, i) {
				rate := t.others
				if t.atom[i] != noAtom {
					rate = t.atoms
				}
				t.r[i] = t.dead[i] / (t.dead[i] + rate)
			}
		}
		out.Contradicted = m.readings(x, t, DoubtGone)
	})
	return out
}

// examine computes the evidence of an event and passes it to f. f is not called if nothing can be examined.
func (m *Linear) examine(e *event.Example, f func(x *cells, t *cellEvent)) {
	d := m.Doubt
	if d == nil || !m.standardizes() {
		return
	}
	x := d.of(m.Covariance)
	if x == nil {
		return
	}
	t, _ := x.idle.Get().(*cellEvent)
	if t == nil {
		t = newCellEvent(x.n)
	}
	defer x.idle.Put(t)
	m.readCells(x, e, t)
	x.infer(t, d.Screen[t.zeros])
	f(x, t)
}

// readCells sets t to the numbers of an event.
func (m *Linear) readCells(x *cells, e *event.Example, t *cellEvent) {
	at := 0
	for i := range x.columns {
		c := &x.columns[i]
		for at < len(e.Features.Index) && e.Features.Index[at] < c.Column {
			at++
		}
		has := at < len(e.Features.Index) && e.Features.Index[at] == c.Column
		row := m.Rows.Row(c.Column)
		t.y[i], t.raw[i], t.atom[i] = 0, 0, noAtom
		if t.out[i] = row == nil || !has && !m.absentIsZero(e, c.Column, m.Covariance.Fields[i]); t.out[i] {
			continue
		}
		if has {
			t.raw[i] = e.Features.Value[at]
		}
		z := m.Scaler.Apply(m.Stats(row), t.raw[i])
		t.y[i] = min(max((z-x.mean[i])/x.sd[i], -5), 5)
		switch {
		case slices.Contains(c.Fills, t.raw[i]):
			t.atom[i] = fillAtom
		case t.raw[i] == 0:
			t.atom[i] = zeroAtom
		}
	}
	x.countZeros(t)
}

// absentIsZero reports whether an event without a column has the value 0 there.
func (m *Linear) absentIsZero(e *event.Example, column uint32, field uint16) bool {
	return field == 0 && !e.MissesColumn(column) && (m.Missing == nil || !m.Missing.ColumnsCanBeMissing || m.Missing.ReadsZero(column))
}

// doubted returns the doubted readings of an event that t describes; nil if there are none.
func (m *Linear) doubted(x *cells, e *event.Example, t *cellEvent) *Doubted {
	out, fills, others := &Doubted{Kind: DoubtsOther - t.zeros}, 0.0, 0.0
	for i := range x.columns {
		if !x.judged(t, i) {
			continue
		}
		if t.atom[i] == fillAtom {
			fills += t.r[i]
		} else {
			others += t.r[i]
		}
	}
	if out.Readings = m.readings(x, t, doubtSome); len(out.Readings) == 0 {
		return nil
	}
	if fills >= others {
		out.Kind = DoubtsFill
	}
	for _, edge := range doubtEdges {
		if t.g-m.Doubt.Gate[t.zeros] > edge {
			out.Range++
		}
	}
	if out.Event = m.correct(x, e, t, false); fills > DoubtGone {
		out.Rest = m.correct(x, e, t, true)
	}
	return out
}

// readings returns the readings with a larger probability than least.
func (m *Linear) readings(x *cells, t *cellEvent, least float64) (out []DoubtedReading) {
	for i := range x.columns {
		if !x.judged(t, i) || t.r[i] <= least {
			continue
		}
		column, reason := x.columns[i].Column, Contradicts
		if t.atom[i] == fillAtom {
			reason = Repeated
		}
		s := m.Scaler.Standardization(m.Stats(m.Rows.Row(column)))
		out = append(out, DoubtedReading{
			Column: column, Field: m.Covariance.Fields[i], Value: t.raw[i], Expected: s.Raw(x.mean[i] + x.sd[i]*t.x[i]), Probability: t.r[i], Reason: reason,
		})
	}
	return out
}

// correct returns a copy of an event in which the doubted readings are missing or corrected. If fills is true, only its
// fill values are missing, and nothing is corrected.
func (m *Linear) correct(x *cells, e *event.Example, t *cellEvent, fills bool) *event.Example {
	gone := make([]bool, len(e.Features.Index))
	values := slices.Clone(e.Features.Value)
	columns := slices.Clone(e.MissingColumns)
	at := 0
	for i := range x.columns {
		column := x.columns[i].Column
		if !x.judged(t, i) || t.r[i] <= doubtSome || fills && (t.atom[i] != fillAtom || t.r[i] <= DoubtGone) {
			continue
		}
		for at < len(gone) && e.Features.Index[at] < column {
			at++
		}
		has := at < len(gone) && e.Features.Index[at] == column
		switch {
		case t.r[i] > DoubtGone && has:
			if gone[at] = true; m.Covariance.Fields[i] == 0 {
				columns = append(columns, column)
			}
		case t.r[i] > DoubtGone:
			columns = append(columns, column)
		case has:
			s := m.Scaler.Standardization(m.Stats(m.Rows.Row(column)))
			values[at] = s.Raw(x.mean[i] + x.sd[i]*((1-t.r[i])*t.y[i]+t.r[i]*t.x[i]))
		}
	}
	with := *e
	with.Features.Value = values
	out := m.without(&with, &event.Example{}, func(i int) bool { return gone[i] })
	slices.Sort(columns)
	out.MissingColumns = slices.Compact(columns)
	return out
}

// MixScores writes the scores to out of which the probabilities are (1 - weight) those of out, and weight those of
// other. Regression mixes the scores.
func MixScores(d Decision, regression bool, weight float64, out, other []float64) []float64 {
	if d.Pairs || regression {
		for k := range out {
			out[k] += weight * (other[k] - out[k])
		}
		return out
	}
	n := max(2, len(out))
	p, q := d.Probabilities(out, make([]float64, n)), d.Probabilities(other, make([]float64, n))
	score := func(k int) float64 {
		x := min(max(p[k]+weight*(q[k]-p[k]), 1e-300), 1-1e-16)
		return d.Link.cut(math.Log(x) - math.Log1p(-x))
	}
	if len(out) == 1 {
		out[0] = score(1)
		return out
	}
	for k := range out {
		out[k] = score(k)
	}
	return out
}

// Reader predicts the events of a stream or file, in their order, with a model. It also finds the fill values of this
// stream, which the model's learner may never have seen. It is for events as they come, not for events that somebody
// makes up: numbers that are held constant would look like fill values.
type Reader struct {
	model    *Linear
	known    []CellColumn
	readings *Readings // nil if the model doubts nothing
	events   int
}

// NewReader returns a Reader for events that will be predicted with a model.
func NewReader(m *Linear) *Reader {
	r := &Reader{model: m}
	if m.Doubt != nil && m.Doubt.of(m.Covariance) != nil {
		r.known, r.readings = m.Doubt.Columns, WithColumns(m.Doubt.Columns)
	}
	return r
}

// A Reader looks for fill values every readerEvery events, and at first whenever the number of events has doubled from
// readerFirst on.
const readerEvery, readerFirst = 32, 16

// For returns the model that predicts an event: it knows all fill values found so far, and those found with this event.
func (r *Reader) For(e *event.Example) *Linear {
	if r.readings == nil {
		return r.model
	}
	r.readings.Note(e)
	if r.events++; r.events%readerEvery == 0 || r.events >= readerFirst && r.events&(r.events-1) == 0 {
		if r.readings.Found() {
			m := *r.model
			m.Doubt = m.Doubt.With(slices.Clone(r.readings.Columns()))
			r.model = &m
		}
	}
	return r.model
}

// Found lists the columns with fill values that the Reader has found and the model did not know, and these values.
func (r *Reader) Found() (found []CellColumn) {
	if r.readings == nil {
		return nil
	}
	for i, c := range r.readings.Columns() {
		before := r.known[i].Fills
		c.Fills = slices.DeleteFunc(slices.Clone(c.Fills), func(x float64) bool { return slices.Contains(before, x) })
		if len(c.Fills) > 0 {
			found = append(found, c)
		}
	}
	return found
}
