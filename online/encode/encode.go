package encode

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/readings"
	"blankout/online/silent"
)

// Rows holds all rows of a learner. The Encoder owns the column statistics at the start of each row, and the experts own
// the rest.
type Rows struct {
	Table      *model.Table
	Intercepts []float64 // row of the intercepts, with the same layout
}

// Encoder encodes events. It owns the scales of columns.
type Encoder struct {
	Rows
	Scaling   Scaling
	schema    *event.Schema
	Fields    readings.Fields // which fields events usually have
	faults    readings.Faults
	deaths    deaths
	together  Together
	intercept float64 // value of the constant feature
	known     int     // number of fields that events have had so far
	due       bool    // dense columns must be reviewed
	turns     bool    // fields have turned out to count, or not to, see Scaling.turnCounts
}

// Settings are the settings of an Encoder.
type Settings struct {
	Standardize model.Standardize
	Width       int // number of values in a row
	Policies    model.MissingPolicies
	Numbers     bool // labels are numbers, not classes
	Faulty      readings.Faulty
	Silence     Silence
	Presence    bool // numeric columns that are absent from many events get a presence column
	Named       bool // only numeric columns of named fields get a presence column
	Together    Together
	Constant    bool // the noise is independent of feature values, see rows.Event.Basis
	Intercept   bool // whether there is an intercept
	// Knots returns the largest number of knots per spline, given the number of numeric columns. Knots is nil if there
	// are no splines.
	Knots func(numbers int) int
}

// Together selects which information about features that are dropped together an Input has.
type Together struct {
	Grouping *model.Grouping
	Fields   bool // provide the field of each column of an Input
	Rates    bool // also provide the rates at which groups are missing
}

// New returns an Encoder for events of a Schema.
func New(c Settings, s *event.Schema) *Encoder {
	n := &Encoder{
		Rows: Rows{model.NewTable(c.Width), make([]float64, c.Width)}, schema: s, faults: readings.Faults{Faulty: c.Faulty},
		deaths:  deaths{Silence: c.Silence, values: &silent.Values{}},
		Scaling: newScaling(c, s.ColumnsGoMissing()), Fields: readings.New(c.Policies, s.Absent, c.Numbers),
		together: c.Together,
	}
	if n.Intercepts[model.StatCount] = 1; c.Intercept {
		n.intercept = 1
	}
	return n
}

// Follow replaces the Schema by a later version of the same Schema.
func (n *Encoder) Follow(s *event.Schema) {
	n.schema = s
	n.together.Grouping.Follow(s)
}

// Schema returns the current Schema.
func (n *Encoder) Schema() *event.Schema { return n.schema }

// Observe encodes a labeled event and adds its features to the statistics of their columns. X has the values with the
// old scales, as Read would return them. Features of new columns, which Read would omit, have their first scale, which
// takes effect immediately. Moves lists the changes of scales. The other changes take effect when Rescale is called.
func (n *Encoder) Observe(came *event.Example, number uint64, in *Input) {
	if n.known = max(n.known, 1); len(n.Scaling.Kinds) < len(n.schema.Fields) {
		for _, id := range came.Field {
			n.known = max(n.known, int(id)+1)
		}
		n.addFields()
	}
	e := n.faults.Declare(came, n.schema)
	n.findMissing(e, in)
	rates := n.count(came, e, number)
	n.Scaling.countForKnots(e, n.Table.Len(), n.presences)
	n.turns = n.Scaling.watchCounts(e)
	columns, raw, numbers := n.columns(e)
	in.reset(e, number, len(columns))
	in.Columns, in.Raw, in.Rows, in.Rates = columns, raw, n.Table.TouchAll(columns, in.Rows), rates
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
		n.due = n.Scaling.count(e.Features)
	}
	in.close(n.Intercepts, n.intercept)
	n.died(in)
}

// findMissing determines which fields of an event are missing.
func (n *Encoder) findMissing(e *event.Example, in *Input) {
	n.Fields.Take(e, n.schema.Fields)
	in.Missing, in.Range, in.Scale = n.Fields.Missed, n.Fields.Range, n.Fields.Scale
}

// Count counts which fields an event has. The event must have been encoded by Read. The counts determine which fields
// count as missing in later events.
func (n *Encoder) Count(came *event.Example, in *Input) {
	in.Rates = n.count(came, in.Event, in.Number)
}

func (n *Encoder) count(came, e *event.Example, number uint64) (rates map[string]float64) {
	if len(e.Field) > 0 || len(e.Missing) > 0 || n.Fields.Missing.ColumnsCanBeMissing {
		if n.Fields.Count(came, e, n.schema.Fields, number) && n.together.Rates {
			rates = n.Fields.Rates(n.schema.Fields)
		}
	}
	return rates
}

// columns returns the columns and raw values of an event's features. Absent dense columns are added, and then the
// presence columns. numbers is the number of columns before the presence columns.
func (n *Encoder) columns(e *event.Example) (columns []uint32, raw []float64, numbers int) {
	if len(n.Scaling.Scaler.Dense) == 0 && n.Scaling.Scaler.Splines == nil {
		return e.Features.Index, e.Features.Value, e.Features.Len()
	}
	return n.Scaling.columns(e.Features)
}

// pair finds the numeric columns of an event that have a presence column.
func (n *Encoder) pair(in *Input) {
	at := len(in.Columns)
	for at > 0 && in.Columns[at-1] >= model.FirstBasisColumn {
		at--
	}
	number := 0
	for i := at; i < len(in.Columns); i++ {
		source := n.Scaling.Scaler.Splines.Source(in.Columns[i]) // ascends
		for number < at && in.Columns[number] < source {
			number++
		}
		if number < at && in.Columns[number] == source {
			in.Pairs = append(in.Pairs, [2]int32{int32(number), int32(i)})
		}
	}
}

// observe adds the features of an event to the column statistics. Consecutive features that change no scale are added
// together, and the other features one by one.
func (n *Encoder) observe(in *Input, raw []float64) {
	from := 0
	if fields := n.fields(in); fields != nil {
		if from = n.steady(in, raw, 0, fields); from == len(raw) {
			return // usually no feature remains
		}
	}
	of := n.kinds(in)
	for i := from; ; i++ {
		switch {
		case of.fields == nil:
			if i = n.divided(in, raw, i, of.upTo(i)); in.Event.Field == nil {
				i = n.deviating(in, raw, i, &of)
			}
		default:
			i = n.steady(in, raw, i, of.fields)
		}
		if i == len(raw) {
			return
		}
		t, field := of.treat(i)
		n.observeOne(in, i, raw[i], t, field)
	}
}

// observeOne adds one feature to the statistics of its column. That may change the column's scale.
func (n *Encoder) observeOne(in *Input, i int, x float64, t treatment, field uint16) {
	row, column, scaler := in.Rows[i], in.Columns[i], &n.Scaling.Scaler
	stats := row[:model.ScalerWidth:model.ScalerWidth]
	known, center, inverse := stats[model.StatCount] > 0, stats[model.StatCenter], stats[model.StatInverse]
	z := scaler.Deviations(stats, x)
	if t == treatNumeric {
		n.Scaling.reading(column, field, x, z)
	}
	m := n.Scaling.observe(column, stats, x, z, t, field)
	if stays := stats[model.StatCenter] == center && stats[model.StatInverse] == inverse; !stays || m.moves() || m.Keep != 1 {
		was := [model.ScalerWidth]float64{model.StatCenter: center, model.StatInverse: inverse}
		from, to := scaler.Standardization(was[:]), scaler.Standardization(stats)
		in.Moves = append(in.Moves, Move{
			Row: row, Ratio: m.Ratio, Shift: m.Shift, Keep: m.Keep, Column: column, Numeric: t == treatNumeric, Renews: from.Unit != to.Unit || to.Scale == 0,
			Was: from, Is: to, At: i, center: stats[model.StatCenter], inverse: stats[model.StatInverse],
		})
		if known { // the weights of a new column are 0, so no score depends on its scale
			in.Rescales = true
			stats[model.StatCenter], stats[model.StatInverse] = center, inverse
		} else if !stays {
			z = scaler.Deviations(stats, x)
		}
	}
	in.X[i] = scaler.Clip(stats, z)
}

// Rescale makes the new scales of Observe take effect and updates X. Call it after the event has been scored. The
// caller must then convert the weights.
func (n *Encoder) Rescale(in *Input) {
	for _, m := range in.Moves {
		m.Row[model.StatCenter], m.Row[model.StatInverse] = m.center, m.inverse
		in.X[m.At] = n.Scaling.Scaler.Apply(m.Row[:model.ScalerWidth], in.Raw[m.At])
	}
	n.died(in)
}

// steady adds consecutive features, starting at index i, that change no scale: categories, and numbers with a settled
// scale (keepsScale, and not transformed). It is for events with fields. It returns the index after the added features.
func (n *Encoder) steady(in *Input, raw []float64, i int, fields []uint16) int {
	kinds, bending := n.Scaling.Kinds, n.Scaling.seeksKnots()
	rows, raw, xs := in.Rows[:len(fields)], raw[:len(fields)], in.X[:len(fields)]
	for ; i < len(fields); i++ {
		stats, x := (*[model.ScalerWidth]float64)(rows[i]), raw[i]
		count := stats[model.StatCount] + 1
		switch kinds[fields[i]] {
		case event.Numeric:
			z := (x - stats[model.StatCenter]) * stats[model.StatInverse]
			if bending || n.Scaling.rereads(in.Columns[i]) || !(z >= -model.ScalerClip && z <= model.ScalerClip) ||
				!(stats[model.StatInverse] > 0) || !keepsScale(count) && !n.Scaling.samples(in.Columns[i], count, x) {
				return i
			}
			model.AddReading(stats, count, x)
			xs[i] = z
		case event.Cross:
			z := x * stats[model.StatInverse]
			if !(stats[model.StatInverse] > 0 && z >= -1 && z <= 1) || !model.CountWithin(stats, count, math.Abs(x)) {
				return i
			}
			xs[i] = z
		case event.Sparse:
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

// divided adds the features from index i to end, whose columns are only divided by a constant. It returns the index
// after the added features.
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

// deviating adds consecutive features, starting at index i, whose columns keep their scale, the standard deviation. It
// is for events of a sparse text format. It returns the index after the added features.
func (n *Encoder) deviating(in *Input, raw []float64, i int, of *kinds) int {
	reads, kinds := n.Scaling.reads(), n.Scaling.Kinds
	if reads && len(kinds) > 0 && kinds[0] == event.Numeric {
		return i
	}
	dense, spread := of.dense, of.spread
	columns, rows, xs := in.Columns[:len(raw)], in.Rows[:len(raw)], in.X[:len(raw)]
	table := !reads && slices.Equal(columns[i:], dense)
	for ; i < len(raw); i++ {
		if table {
			if i = settled(rows, raw, xs, i); i == len(raw) {
				break
			}
		}
		dense, spread = from(dense, columns[i]), from(spread, columns[i])
		isDense := begins(dense, columns[i])
		if !isDense && !(of.settled && begins(spread, columns[i])) {
			break
		}
		stats, x := (*[model.ScalerWidth]float64)(rows[i]), raw[i]
		count, inverse := stats[model.StatCount]+1, stats[model.StatInverse]
		z := n.Scaling.Scaler.Deviations(stats[:], x)
		if inverse == 0 || !(z >= -model.ScalerClip && z <= model.ScalerClip) || isDense && !keepsScale(count) && !n.Scaling.samples(columns[i], count, x) || !isDense && !keepsSpread(count, z) {
			break
		}
		if reads && isDense {
			n.Scaling.reading(columns[i], 0, x, z)
		}
		if inverse < 0 { // the statistics are of transformed values
			x = stats[model.StatCenter] - z/inverse
		}
		model.AddReading(stats, count, x)
		xs[i] = z
	}
	of.dense, of.spread = dense, spread
	return i
}

// settled is the usual case of deviating for an event with all dense columns: it adds consecutive features, starting at
// index i, that change only the count and the moments of columns without a transform.
func settled(rows [][]float64, raw, xs []float64, i int) int {
	rows, raw, xs = rows[:len(xs)], raw[:len(xs)], xs[:len(xs):len(xs)]
	latest, rests := 0.0, false // most columns have the same number of readings
	for ; i < len(xs); i++ {
		stats, x := (*[model.ScalerWidth]float64)(rows[i]), raw[i]
		count, inverse := stats[model.StatCount]+1, stats[model.StatInverse]
		if count != latest {
			latest, rests = count, keepsScale(count)
		}
		z := (x - stats[model.StatCenter]) * inverse
		if !(rests && inverse > 0 && z >= -model.ScalerClip && z <= model.ScalerClip) {
			break
		}
		model.AddReading(stats, count, x)
		xs[i] = z
	}
	return i
}

// Review is the result of a review of the columns.
type Review struct {
	Moves   []Move   // changes of columns' scales
	Removed []uint32 // columns that are no longer dense numeric columns
	Some    bool     // the list of numeric columns was recomputed
}

// Review recomputes which fields are usual and which columns are dense. If no review of columns is due, it returns nil.
// Call it after an event has been learned.
func (n *Encoder) Review() *Review {
	n.Fields.Review(n.schema.Fields)
	if !n.due && !n.turns {
		return nil
	}
	r := &Review{}
	move := func(row []float64, ratio, shift float64) {
		r.Moves = append(r.Moves, Move{Row: row, Ratio: ratio, Shift: shift, Keep: 1})
	}
	if n.due {
		r.Removed = n.Scaling.review(n.Fields.Missing.Columns, n.Table.Touch, move)
		r.Some = n.Scaling.events <= denseEvents
	}
	if n.turns {
		r.Removed = append(r.Removed, n.Scaling.turnCounts(n.Table.Touch, move)...)
	}
	n.due, n.turns = false, false
	return r
}

// Read encodes an event without learning from it, and changes no state. It omits features whose column was in no
// labeled event so far.
func (n *Encoder) Read(e *event.Example, number uint64, in *Input) {
	e = n.faults.Declare(e, n.schema)
	n.findMissing(e, in)
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

// Widen changes the number of values per row. fill converts the part of a row that belongs to the experts. Widen itself
// copies the statistics.
func (n *Rows) Widen(width int, fill func(to, from []float64)) {
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

// addFields processes the Schema's fields that events have had so far. The Schema may also contain fields of later
// events, which must not have an effect yet.
func (n *Encoder) addFields() {
	for i := len(n.Scaling.Kinds); i < min(n.known, len(n.schema.Fields)); i++ {
		f := n.schema.Fields[i]
		n.Scaling.addField(f.Kind)
	}
}

// State encodes or decodes the state, except the rows of features.
func (n *Encoder) State(c *coder.Coder) {
	c.Floats(&n.Intercepts)
	n.Fields.State(c)
	n.Scaling.denseState(c)
	n.Scaling.readingsState(c)
	n.Scaling.knotsState(c)
	n.faults.State(c)
	n.deaths.values.State(c)
	if c.Int(&n.known); c.Decode {
		n.addFields()
		c.Failed = c.Failed || len(n.Intercepts) != n.Table.Width() || n.Scaling.misfit() || n.Fields.Misfit()
	}
}

// The part below determines how each feature of an event is scaled.

// kinds determines how the features of one event are scaled, in ascending order of their columns.
type kinds struct {
	n       *Encoder
	in      *Input
	fields  []uint16 // see method Encoder.fields
	settled bool     // the list of dense columns is final
	dense   []uint32 // dense columns from the current feature on
	spread  []uint32 // spread columns from the current feature on
	stored  int      // index of the first feature of the event that has not been passed
	field   uint16   // field of the current feature
	end     int      // end of the features that are only divided, from upTo
}

func (n *Encoder) kinds(in *Input) kinds {
	return kinds{n: n, in: in, fields: n.fields(in), settled: n.Scaling.settled(), dense: n.Scaling.Scaler.Dense, spread: n.Scaling.SpreadColumns()}
}

// fields returns the fields of an event's features. It returns nil if there is a column whose scaling does not follow
// from the kind of its field.
func (n *Encoder) fields(in *Input) []uint16 {
	if len(n.Scaling.Scaler.Dense) > 0 || len(n.Scaling.SpreadColumns()) > 0 || n.Scaling.Scaler.Mode != model.StandardizeAuto {
		return nil
	}
	return in.Event.Field
}

// upTo returns the index after consecutive features, starting at i, that are only divided by a constant. It is for
// events of a sparse text format.
func (k *kinds) upTo(i int) int {
	mode := k.n.Scaling.Scaler.Mode
	if k.in.Event.Field != nil || i == len(k.in.Columns) || mode != model.StandardizeScale && !(mode == model.StandardizeAuto && k.settled) {
		return i
	}
	if i < k.end {
		return k.end
	}
	next, columns := uint32(model.FirstBasisColumn), k.in.Columns
	for _, list := range [2]*[]uint32{&k.dense, &k.spread} {
		if *list = from(*list, columns[i]); len(*list) > 0 {
			next = min(next, (*list)[0])
		}
	}
	if k.end = len(columns); columns[k.end-1] >= next {
		for k.end = i; columns[k.end] < next; {
			k.end++
		}
	}
	return k.end
}

// treat returns how feature i is scaled, and its field.
func (k *kinds) treat(i int) (t treatment, field uint16) {
	if k.fields != nil {
		field = k.fields[i]
		return k.n.Scaling.treat(k.n.Scaling.Kinds[field], false, false, k.settled), field
	}
	column, e, kind := k.in.Columns[i], k.in.Event, event.Sparse
	if len(k.n.Scaling.Kinds) > 0 {
		kind = k.n.Scaling.Kinds[0]
	}
	if e.Field != nil {
		for k.stored < len(e.Features.Index) && e.Features.Index[k.stored] < column {
			k.stored++
		}
		if k.stored < len(e.Features.Index) && e.Features.Index[k.stored] == column {
			k.field = e.Field[k.stored]
		}
		kind = k.n.Scaling.Kinds[k.field]
	}
	k.dense, k.spread = from(k.dense, column), from(k.spread, column)
	return k.n.Scaling.treat(kind, begins(k.dense, column), begins(k.spread, column), k.settled), k.field
}

// from returns the part of an ascending list that starts at the given column. It needs no search if the list has all
// columns up to the given one.
func from(list []uint32, column uint32) []uint32 {
	if len(list) > 0 && column-list[0] < uint32(len(list)) && list[column-list[0]] == column {
		return list[column-list[0]:]
	}
	for len(list) > 0 && list[0] < column {
		list = list[1:]
	}
	return list
}

func begins(list []uint32, column uint32) bool { return len(list) > 0 && list[0] == column }

// The part below ends the observation of events, before an exact solution is computed.

// Freeze makes the statistics of all events take effect. It returns the Scaler, and the table, whose rows begin with
// the statistics of their columns. kind returns the kind of a column's field. Freeze does not convert weights, so it
// may be used only before the rows have weights. The Encoder must not be used afterwards.
func (n *Encoder) Freeze(kind func(column uint32) event.Kind) (model.Scaler, *model.Table) {
	s := &n.Scaling
	if !s.settled() && s.Scaler.Mode != model.StandardizeScale {
		s.review(n.Fields.Missing.Columns, n.Table.Touch, func([]float64, float64, float64) {})
	}
	if s.seeksKnots() {
		s.findKnots(n.Table.Len(), n.presences)
	}
	for i := range n.Table.Len() {
		column, row := n.Table.Column(i)
		s.freeze(column, row[:model.ScalerWidth], kind(column))
	}
	if c := s.Scaler.Splines; c != nil {
		for i := range c.Columns {
			n.Table.Touch(c.BasisColumn(i, 0))[model.StatInverse] = 1
		}
	}
	return s.Scaler, n.Table
}
