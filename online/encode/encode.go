package encode

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/fields"
	"blankout/online/scaling"
	"blankout/online/share"
	"blankout/online/silent"
	"blankout/online/watch"
)

// Encoder encodes events. It owns the rows, the statistics in them, and the scales; the other parts of a row belong to
// the experts that learn them.
type Encoder struct {
	Table      *model.Table
	Intercepts []float64 // laid out as a row of the Table
	Scaling    scaling.Scaling
	schema     *event.Schema
	Fields     fields.Fields // which fields events usually have
	transform  func(field string) model.Transform
	faults     faults
	deaths     deaths
	start      func(row []float64)
	together   Together
	intercept  float64 // its feature's value
	shared     *share.Interval
	growth     float64 // see share.Interval.Note
	known      int     // fields that events have had
	due        bool    // the columns that are dense are to be looked for again
}

// Settings are what an Encoder is made from.
type Settings struct {
	Standardize model.Standardize
	Transform   func(field string) model.Transform // of the numbers of a field
	Width       int                                // of rows, in values
	Policies    model.MissingPolicies
	Faulty      Faulty
	Silence     Silence
	Presence    bool                // numbers that many events leave out get a second column, for being there
	Start       func(row []float64) // fills a new row, which is all zero
	Together    Together
	Constant    bool // noise is the same whatever a feature reads, see scaling.Settings
	Intercept   bool // there is one
	// Knots returns the most knots of the splines of so many numbers; nil where no splines are wanted.
	Knots func(numbers int) int
}

// Together says what is wanted to be known of features that die together.
type Together struct {
	Grouping *model.Grouping
	Fields   bool // of each Input, of which field its columns are
	Rates    bool // and how often groups are missing
}

// New returns an Encoder of events of a Schema.
func New(c Settings, s *event.Schema) *Encoder {
	n := &Encoder{
		Table: model.NewTable(c.Width), Intercepts: make([]float64, c.Width), schema: s, transform: c.Transform, faults: faults{Faulty: c.Faulty},
		deaths:  deaths{Silence: c.Silence, values: silent.NewValues(c.Silence.Value)},
		Scaling: scaling.New(scaling.Settings{Presence: c.Presence, Constant: c.Constant, Expert: c.Knots}, c.Standardize, s.ColumnsGoMissing()), Fields: fields.New(c.Policies, s.Absent),
		start: c.Start, together: c.Together,
	}
	if n.Intercepts[model.StatCount] = 1; c.Intercept {
		n.intercept = 1
	}
	if n.start != nil {
		n.start(n.Intercepts)
	}
	return n
}

// Follow gives the Encoder a later state of its Schema.
func (n *Encoder) Follow(s *event.Schema) {
	n.schema = s
	n.together.Grouping.Follow(s)
}

// Schema returns the Schema that the Encoder was given last.
func (n *Encoder) Schema() *event.Schema { return n.schema }

// Observe encodes a labeled event: it counts its features into the statistics of their columns, finds scales anew where
// it is time, and fills X by the scales as they were, as Read would. What must become of scales and weights before the event is
// learned is in Moves: see Rescale.
func (n *Encoder) Observe(came *event.Example, number uint64, in *Input) {
	if n.known = max(n.known, 1); len(n.Scaling.Kinds) < len(n.schema.Fields) {
		for _, id := range came.Field {
			n.known = max(n.known, int(id)+1)
		}
		n.addFields()
	}
	e := n.declare(came)
	n.lack(e, in)
	var rates map[string]float64
	if !n.shares() {
		rates = n.count(came, e, number)
		n.Scaling.Bend(e, n.Table.Len())
	}
	columns, raw, numbers := n.columns(e)
	in.reset(e, number, len(columns))
	in.Columns, in.Raw, in.Rows, in.Rates = columns, raw, n.Table.TouchAll(columns, in.Rows), rates
	if n.shared != nil {
		n.shared.Note(n.Table, columns, in.Rows, n.growth)
	}
	if n.start != nil {
		for _, row := range in.Rows {
			if row[model.StatCount] == 0 {
				n.start(row)
			}
		}
	}
	if n.Scaling.Scaler.Mode == model.StandardizeNone {
		for i, row := range in.Rows {
			row[model.StatCount]++
			in.X[i] = raw[i]
		}
	} else {
		n.observe(in, raw[:numbers])
		for i := numbers; i < len(columns); i++ {
			row := in.Rows[i]
			row[model.StatCount]++
			row[model.StatInverse], in.X[i] = 1, raw[i]
		}
		n.pair(in)
		if n.shares() {
			n.Scaling.Events++
		} else {
			n.due = n.Scaling.Count(e.Features)
		}
	}
	in.close(n.Intercepts, n.intercept)
	n.died(in)
}

// lack finds out what an event lacks.
func (n *Encoder) lack(e *event.Example, in *Input) {
	n.Fields.Take(e, n.schema.Fields)
	in.Lack, in.Range, in.Scale = n.Fields.Lack, n.Fields.Range, n.Fields.Scale
}

// Count counts the fields of an event as it came, which was read last: that decides what later ones lack.
func (n *Encoder) Count(came *event.Example, in *Input) {
	in.Rates = n.count(came, in.Event, in.Number)
}

func (n *Encoder) count(came, e *event.Example, number uint64) (rates map[string]float64) {
	if len(e.Field) > 0 || len(e.Missing) > 0 || n.Fields.Missing.Known {
		if n.Fields.Count(came, e, n.schema.Fields, number) && n.together.Rates {
			rates = n.Fields.Rates(n.schema.Fields)
		}
	}
	return rates
}

// columns returns the columns and values of an event's features, with the dense columns that it leaves out, and behind the
// first so many those that say that a number is there.
func (n *Encoder) columns(e *event.Example) (columns []uint32, raw []float64, numbers int) {
	if len(n.Scaling.Scaler.Dense) == 0 && n.Scaling.Scaler.Curves == nil {
		return e.Features.Index, e.Features.Value, e.Features.Len()
	}
	return n.Scaling.Columns(e.Features)
}

// pair finds which numbers of an event have a column that says that they are there.
func (n *Encoder) pair(in *Input) {
	at := len(in.Columns)
	for at > 0 && in.Columns[at-1] >= model.FirstHat {
		at--
	}
	for i := at; i < len(in.Columns); i++ {
		number, there := slices.BinarySearch(in.Columns[:at], n.Scaling.Scaler.Curves.Source(in.Columns[i]))
		if there {
			in.Pairs = append(in.Pairs, [2]int32{int32(number), int32(i)})
		}
	}
}

// observe counts the features in one by one, most of them in runs that change no scale.
func (n *Encoder) observe(in *Input, raw []float64) {
	from := 0
	if fields := n.fields(in); fields != nil && !n.shares() {
		if from = n.steady(in, raw, 0, fields); from == len(raw) {
			return // as most events
		}
	}
	of := n.kinds(in)
	for i := from; ; i++ {
		switch {
		case of.fields == nil:
			if i = n.divided(in, raw, i, of.upTo(i)); in.Event.Field == nil {
				i = n.deviating(in, raw, i, &of)
			}
		case !n.shares():
			i = n.steady(in, raw, i, of.fields)
		}
		if i == len(raw) {
			return
		}
		t, field := of.treat(i)
		if n.shares() {
			t = n.shared.Treat(i, t, in.Rows[i])
		}
		n.observeOne(in, i, raw[i], t, field)
	}
}

// observeOne counts a feature in that may change its column's scale.
func (n *Encoder) observeOne(in *Input, i int, x float64, t scaling.Treatment, field uint16) {
	row, column, scaler := in.Rows[i], in.Columns[i], &n.Scaling.Scaler
	stats := row[:model.ScalerWidth:model.ScalerWidth]
	known, center, inverse := stats[model.StatCount] > 0, stats[model.StatCenter], stats[model.StatInverse]
	z := scaler.Deviations(stats, x)
	if t == scaling.Numeric && !n.shares() {
		n.Scaling.Reading(column, field, x, z)
	}
	m := n.Scaling.Observe(column, stats, x, z, t, field)
	if stays := stats[model.StatCenter] == center && stats[model.StatInverse] == inverse; !stays || m.Moves() || m.Keep != 1 {
		was := [model.ScalerWidth]float64{model.StatCenter: center, model.StatInverse: inverse}
		in.Moves = append(in.Moves, Move{
			Row: row, Ratio: m.Ratio, Shift: m.Shift, Keep: m.Keep, Column: column, Numeric: t == scaling.Numeric,
			Was: scaler.Standardization(was[:]), Is: scaler.Standardization(stats), at: i, center: stats[model.StatCenter], inverse: stats[model.StatInverse],
		})
		if known { // a column that comes has no weights, so that nothing it says depends on its scale
			in.Rescales = true
			stats[model.StatCenter], stats[model.StatInverse] = center, inverse
		} else if !stays {
			z = scaler.Deviations(stats, x)
		}
	}
	in.X[i] = scaler.Clip(stats, z)
}

// Rescale puts the scales in force that Observe has found for the columns of an event, once it has been scored, and fills X by
// them. The weights are to be moved next.
func (n *Encoder) Rescale(in *Input) {
	for _, m := range in.Moves {
		m.Row[model.StatCenter], m.Row[model.StatInverse] = m.center, m.inverse
		in.X[m.at] = n.Scaling.Scaler.Apply(m.Row[:model.ScalerWidth], in.Raw[m.at])
	}
	n.died(in)
}

// steady observes the features from i on, of an event with fields, that change no scale: names that stand alone, and
// numbers whose columns keep theirs (scaling.Steady). It returns the first other one.
func (n *Encoder) steady(in *Input, raw []float64, i int, fields []uint16) int {
	kinds, bending := n.Scaling.Kinds, n.Scaling.Bending()
	rows, raw, xs := in.Rows[:len(fields)], raw[:len(fields)], in.X[:len(fields)]
	for ; i < len(fields); i++ {
		stats, x := (*[model.ScalerWidth]float64)(rows[i]), raw[i]
		count := stats[model.StatCount] + 1
		switch kinds[fields[i]] {
		case event.Numeric:
			z := (x - stats[model.StatCenter]) * stats[model.StatInverse]
			if bending || !(z >= -model.ScalerClip && z <= model.ScalerClip) || !scaling.Steady(stats, count) {
				return i
			}
			model.AddReading(stats, count, x)
			xs[i] = z
		case event.Cross, event.Sparse:
			return i
		default:
			if stats[model.StatInverse] != 1 || stats[model.StatCenter] != 0 || !(x >= -model.ScalerClip && x <= model.ScalerClip) {
				return i
			}
			stats[model.StatCount], xs[i] = count, x
		}
	}
	return i
}

// divided observes the features from i to end whose columns are only divided by a number that stays as it is, and
// returns the first other one.
func (n *Encoder) divided(in *Input, raw []float64, i, end int) int {
	if i >= end {
		return i
	}
	rows, raw, xs := in.Rows[:end], raw[:end], in.X[:end]
	for ; i < len(rows); i++ {
		stats := (*[model.ScalerWidth]float64)(rows[i])
		x := raw[i] * stats[model.StatInverse]
		if !(stats[model.StatInverse] > 0 && x >= -1 && x <= 1) || !model.CountWithin(stats, stats[model.StatCount]+1, math.Abs(raw[i])) {
			return i
		}
		xs[i] = x
	}
	return i
}

// deviating observes the features from i on, of an event of a sparse text format, whose columns are scaled by their deviation and
// keep their scale, and returns the first other one.
func (n *Encoder) deviating(in *Input, raw []float64, i int, of *kinds) int {
	if n.Scaling.Reads() || !of.settled || n.shares() {
		return i
	}
	for ; i < len(raw); i++ {
		of.dense, of.spread = from(of.dense, in.Columns[i]), from(of.spread, in.Columns[i])
		dense := begins(of.dense, in.Columns[i])
		if !dense && !begins(of.spread, in.Columns[i]) {
			return i
		}
		stats, x := (*[model.ScalerWidth]float64)(in.Rows[i]), raw[i]
		count, inverse := stats[model.StatCount]+1, stats[model.StatInverse]
		z := n.Scaling.Scaler.Deviations(stats[:], x)
		switch {
		case inverse == 0 || !(z >= -model.ScalerClip && z <= model.ScalerClip):
			return i
		case dense && !scaling.Rests(count) || !dense && !scaling.RestsSpread(count, z):
			return i
		case inverse < 0: // moments are those of transformed readings
			x = stats[model.StatCenter] - z/inverse
		}
		model.AddReading(stats, count, x)
		in.X[i] = z
	}
	return i
}

// Review is what has become of columns.
type Review struct {
	Moves []Move   // what must become of weights
	Gone  []uint32 // columns that were numbers that all events have, and no more are
	Some  bool     // it has been decided anew which columns are numbers of which kind
}

// Review looks for the columns that are dense, when it is time for that; else it returns nil. It comes after an event has
// been learned.
func (n *Encoder) Review() *Review {
	if !n.due {
		return nil
	}
	r := &Review{}
	n.due = false
	n.Scaling.Read.Reviewed = false
	r.Gone = n.Scaling.Review(n.touch, func(row []float64, ratio, shift float64) {
		r.Moves = append(r.Moves, Move{Row: row, Ratio: ratio, Shift: shift, Keep: 1})
	})
	r.Some = n.Scaling.Read.Reviewed
	return r
}

// Met makes to an event as it came and as it was encoded, as monitors are shown it.
func (n *Encoder) Met(came *event.Example, in *Input, to *watch.Met) {
	fields, e := n.schema.Fields, in.Event
	to.Event, to.Came, to.Number, to.Named, to.Present = e, came, in.Number, n.Fields.Named, n.Fields.PresentIn(came, e, fields)
	to.Fields, to.Rows, to.Usual, to.Of = fields[:min(len(fields), len(n.Scaling.Kinds))], n.Table, n.Fields.Usual(in.Number), nil
	if e.Features.Len() > 0 && len(in.Columns) == e.Features.Len() && &in.Columns[0] == &e.Features.Index[0] { // it was observed
		to.Of = in.Rows
	}
}

// Read encodes an event of which nothing is learned, and changes nothing: features of columns that no labeled event
// had are left out.
func (n *Encoder) Read(e *event.Example, number uint64, in *Input) {
	e = n.declare(e)
	n.lack(e, in)
	columns, raw, _ := n.columns(e)
	in.reset(e, number, 0)
	in.own()
	none := n.Scaling.Scaler.Mode == model.StandardizeNone
	for i, column := range columns {
		row := n.Table.Row(column)
		if row == nil || row[model.StatCount] == 0 {
			continue
		}
		x := raw[i]
		if !none {
			x = n.Scaling.Scaler.Apply(row[:model.ScalerWidth], x)
		}
		in.add(column, row, x, raw[i])
	}
	in.keep()
	n.pair(in)
	in.close(n.Intercepts, n.intercept)
	n.died(in)
}

// ReadStandardized encodes an event that is standardized already, to be remeasured: its rows may be changed.
func (n *Encoder) ReadStandardized(e *event.Example, number uint64, in *Input) {
	in.reset(e, number, e.Features.Len())
	in.Columns, in.Raw, in.Rows = e.Features.Index, e.Features.Value, n.Table.TouchAll(e.Features.Index, in.Rows)
	copy(in.X, e.Features.Value)
	n.pair(in)
	in.close(n.Intercepts, n.intercept)
	n.died(in)
}

// Share says that the Encoder is that of a learner which is one of several from here on, in an interval. growth is that of
// what experts sum over events.
func (n *Encoder) Share(in *share.Interval, growth float64) { n.shared, n.growth = in, growth }

// shares says whether what is decided once for all is left to others.
func (n *Encoder) shares() bool { return n.shared != nil && !n.shared.Alone }

// Note takes down the rows of an Input that was read, before they are changed.
func (n *Encoder) Note(in *Input) {
	if n.shared != nil {
		n.shared.Note(n.Table, in.Columns, in.Rows, n.growth)
	}
}

// touch returns the row of a column that is no part of the event at hand, for writing.
func (n *Encoder) touch(column uint32) []float64 {
	row := n.Table.Touch(column)
	if n.shared != nil {
		n.shared.NoteOne(n.Table, column, row, n.growth)
	}
	return row
}

// Widen gives rows so many values. The other parts than the statistics are filled from the row as it was.
func (n *Encoder) Widen(width int, fill func(to, from []float64)) {
	was, table := n.Table, model.NewTable(width)
	widened := func(to, from []float64) []float64 {
		copy(to, from[:model.ScalerWidth])
		fill(to, from)
		return to
	}
	for slot := range was.Len() {
		column, row := was.Column(slot)
		widened(table.Touch(column), row)
	}
	n.Table, n.Intercepts = table, widened(make([]float64, width), n.Intercepts)
}

// addFields takes up the fields of the Schema that events have had. No others, for the Schema may be that of many events later.
func (n *Encoder) addFields() {
	for i := len(n.Scaling.Kinds); i < min(n.known, len(n.schema.Fields)); i++ {
		f := n.schema.Fields[i]
		n.Scaling.AddField(f.Kind, n.transform(f.Name))
	}
}

// State codes all but the rows of features.
func (n *Encoder) State(c *coder.Coder) {
	c.Floats(&n.Intercepts)
	n.Fields.State(c)
	n.Scaling.DenseState(c)
	n.Scaling.ReadingsState(c)
	n.Scaling.CurvesState(c, n.shares())
	n.faults.state(c)
	n.deaths.values.State(c)
	if c.Int(&n.known); c.Decode {
		n.addFields() // a Delta may come before the Schema that it was learned with
		c.Failed = c.Failed || len(n.Intercepts) != n.Table.Width() || n.Scaling.Misfit() || n.Fields.Misfit()
	}
}
