// Package encode converts an event to the form that the mixed learners (experts) use: the rows of its features and
// their standardized values. It owns the statistics of columns (Scaling), from which it determines scales, dense columns
// and the knots of splines.
package encode

import (
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/readings"
	"blankout/online/silent"
)

// Input is an encoded event. After encoding, experts may change only their parts of its rows. The Input is valid until
// the next event is encoded.
type Input struct {
	Event   *event.Example // detected faulty readings are declared missing
	Number  uint64         // number of the event, from 1
	Columns []uint32       // columns of the features, in the order of Rows
	// Rows has the row of each feature and, as its last element, the row of the intercepts. X has the standardized
	// values. The last element of X is 1, or 0 if there is no intercept. Features without a row are omitted, because
	// they do not change a score.
	Rows [][]float64
	X    []float64
	Raw  []float64 // raw values as they arrived, borrowed
	// Dead has the standardized values that the features have when silently missing, and DeadRaw has their raw values.
	// Units has the index of the unit (group or field) with which each feature is missing. All three are filled only on
	// request.
	Dead, DeadRaw []float64
	Units         []int32
	// If features are dropped together, Fields has the field of each column, and Splines has the presence columns.
	// Fields is empty for a sparse text format. Rates has the rates at which groups are missing; nil means that the
	// rates have not changed.
	Fields  []uint16
	Splines *model.Splines
	Rates   map[string]float64
	// Pairs lists the features that are missing together, as two indices in Rows: of a numeric column and of its
	// presence column.
	Pairs [][2]int32
	// Missing counts the missing fields. Range is the range of the missing fraction, or 0 if nothing is missing. Scale
	// is the factor that multiplies the features' part of a score to make up for missing features.
	Missing model.MissingCount
	Range   int
	Scale   float64
	// Moves lists the changes of scales that experts must apply before they learn the event. Rescales reports whether X
	// will change when the new scales take effect.
	Moves    []Move
	Rescales bool
	room     []uint32  // reusable memory for Columns
	roomRaw  []float64 // reusable memory for Raw
}

// Features returns the number of features.
func (in *Input) Features() int { return len(in.X) - 1 }

// Move is a change of a column's scale. Scores stay the same if the weights in Row are multiplied by Ratio and the
// intercepts increase by Shift times the old weights. Keep is the factor of the accumulators.
type Move struct {
	Row                []float64
	Ratio, Shift, Keep float64
	Column             uint32
	Numeric            bool // the column is numeric, centered and scaled
	Renews             bool // the meaning of the column's values changes, so that its weights are void
	Was, Is            model.Standardization
	At                 int // index of the column in the Input
	center, inverse    float64
}

// Mask sets to to a copy of the Input without the missing features. dead is by index in Columns. The caller must set
// the field Missing of the copy. The copy can be scored but not learned, because its Pairs are not set.
func (in *Input) Mask(dead []bool, to *Input) {
	n, left := in.Features(), 0
	to.reset(in.Event, in.Number, n)
	columns, rows, xs, raw := slices.Grow(to.room[:0], n)[:n], to.Rows[:n], to.X[:n], slices.Grow(to.roomRaw[:0], n)[:n]
	for i, gone := range dead[:n] { // avoids an unpredictable branch
		columns[left], rows[left], xs[left], raw[left] = in.Columns[i], in.Rows[i], in.X[i], in.Raw[i]
		if !gone {
			left++
		}
	}
	to.Columns, to.Rows, to.X, to.Raw = columns[:left], rows[:left], xs[:left], raw[:left]
	to.keep()
	to.close(in.Rows[n], in.X[n])
}

// reset prepares the Input for an event with the given number of features.
func (in *Input) reset(e *event.Example, number uint64, features int) {
	in.Event, in.Number, in.Moves, in.Pairs, in.Rates, in.Rescales = e, number, in.Moves[:0], in.Pairs[:0], nil, false
	in.Rows = slices.Grow(in.Rows[:0], features+1)
	in.X = slices.Grow(in.X[:0], features+1)[:features]
}

// own gives Columns and Raw memory that belongs to the Input. In an observed event they are slices that belong to
// Scaling.
func (in *Input) own() { in.Columns, in.Raw = in.room[:0], in.roomRaw[:0] }

func (in *Input) keep() { in.room, in.roomRaw = in.Columns, in.Raw }

// add appends a feature.
func (in *Input) add(column uint32, row []float64, x, raw float64) {
	in.Columns, in.Rows, in.X, in.Raw = append(in.Columns, column), append(in.Rows, row), append(in.X, x), append(in.Raw, raw)
}

// close appends the row of the intercepts, with the value x.
func (in *Input) close(intercepts []float64, x float64) {
	in.Rows, in.X = append(in.Rows, intercepts), append(in.X, x)
}

// Numbers appends the numeric features of a labeled event to read. Numeric features are the centered and scaled columns
// and, if columns can be missing, the columns that are 0 if absent. Call Numbers before Review.
func (n *Encoder) Numbers(in *Input, read *Numbers) {
	of, unfilled := n.kinds(in), n.Scaling.Scaler.Unfilled
	if in.Event.Field == nil && len(of.dense) == 0 && !unfilled {
		return // the event has only categories
	}
	for i, column := range in.Columns[:in.Features()] {
		if column >= model.FirstBasisColumn {
			return // spline columns have no raw values
		}
		switch t, field := of.treat(i); {
		case t == treatNumeric:
			if int(field) >= len(n.Scaling.Kinds) || n.Scaling.Kinds[field] != event.Numeric {
				field = 0
			}
			read.Values = append(read.Values, Number{Column: column, Field: field, X: in.X[i], Raw: in.Raw[i]})
		case t == treatSpread && unfilled:
			read.Spread = append(read.Spread, Number{Column: column, X: in.X[i]})
		}
	}
}

// WithZeros returns a copy of an event in to that also lists the absent columns that are known to be 0. Masks can then
// remove these columns. If there are no such columns, it returns in.
func (n *Encoder) WithZeros(in, to *Input) *Input {
	m := n.Fields.Missing
	if !m.ColumnsCanBeMissing || len(m.Zeros) == 0 || !in.Event.IsSparse(n.schema.Fields) {
		return in
	}
	to.reset(in.Event, in.Number, 0)
	to.own()
	to.Missing, to.Range, to.Scale = in.Missing, in.Range, in.Scale
	at, features := 0, in.Features()
	for _, column := range m.Zeros {
		for ; at < features && in.Columns[at] < column; at++ {
			to.add(in.Columns[at], in.Rows[at], in.X[at], in.Raw[at])
		}
		if at < features && in.Columns[at] == column || in.Event.MissesColumn(column) {
			continue
		}
		if row := n.Table.Row(column); row != nil {
			to.add(column, row, 0, 0)
		}
	}
	for ; at < features; at++ {
		to.add(in.Columns[at], in.Rows[at], in.X[at], in.Raw[at])
	}
	to.keep()
	to.close(in.Rows[features], in.X[features])
	return to
}

// The part below finds readings that carry no information, and estimates the values that features have when they are silently
// missing.

// Faults returns the rules by which readings are declared missing, or nil if there are none.
func (n *Encoder) Faults() *model.Faults { return n.faults.InEffect() }

// Stuck returns the stuck fields, whether they are declared missing or not.
func (n *Encoder) Stuck() []readings.Run { return n.faults.Runs() }

// Repeats returns how often a field repeats its value, see readings.Detector.
func (n *Encoder) Repeats(id int) (fraction float64, never, ok bool) { return n.faults.Repeats(id) }

// Find looks for stuck fields and placeholders in a learned event in its raw form. It returns the fields that have become
// stuck or have recovered. If it has found a placeholder, the statistics of that column begin again with its other
// readings, and r has the changes.
func (n *Encoder) Find(e *event.Example, now readings.Moment) (changes []readings.Change, r *Review) {
	changes, found := n.faults.Find(e, n.schema.Fields, now)
	for _, x := range found {
		if r == nil {
			r = &Review{}
		}
		row := n.Table.Touch(x.Column)
		ratio, shift := n.Scaling.restartWith(row, x.Others)
		r.Moves, r.Removed = append(r.Moves, Move{Row: row, Ratio: ratio, Shift: shift, Keep: 1}), append(r.Removed, x.Column)
	}
	return changes, r
}

// presences returns, in ascending order, the fields whose readings get a presence column whatever their number: those
// whose null tells the class, and those with a placeholder.
func (n *Encoder) presences() []uint16 {
	ids := append(n.Fields.Telling(), n.faults.Placeholders()...)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Silence selects which information about silently missing features an Input has.
type Silence struct {
	Learned bool // provide the values of an Input's features when silently missing
	Groups  bool // also provide the units that are missing as a whole
}

// deaths holds the values that numeric columns have when they are silently missing (dead).
type deaths struct {
	Silence
	values *silent.Values
	read   Numbers // scratch for ReadDead
}

// Dead returns the values of silently missing (dead) numeric columns, or nil before any number has been read.
func (n *Encoder) Dead() *model.Dead { return n.deaths.values.Dead() }

// ReadsWhenDead returns the standardized value of a column that is silently missing (dead).
func (n *Encoder) ReadsWhenDead(column uint32) float64 {
	row := n.Table.Row(column)
	if row == nil {
		return 0
	}
	return n.deaths.values.Standardized(&n.Scaling.Scaler, column, row[:model.ScalerWidth])
}

// The dead values are updated at the first deadFirst labeled events, and then at one event in deadEvery. If a noise
// level has silent noise, they are updated at every event.
const deadFirst, deadEvery = 1024, 16

// ReadDead updates the values of silently missing (dead) columns from a labeled event. It ignores outliers.
func (n *Encoder) ReadDead(in *Input) {
	d := &n.deaths
	if n.Scaling.Scaler.Mode == model.StandardizeNone || !d.Learned && in.Number > deadFirst && in.Number%deadEvery != 0 {
		return
	}
	d.read.Clear()
	n.Numbers(in, &d.read)
	walk := d.values.Walk()
	for _, v := range d.read.Values {
		if !model.IsOutlier(v.X) {
			walk.Read(v.Column, v.Raw)
		}
	}
}

// ForgetDead removes columns that are no longer numeric.
func (n *Encoder) ForgetDead(r *Review) { n.deaths.values.Forget(r.Removed) }

// ImputeDead sets Dead and DeadRaw of an Input: the values that the event's features would have if they were silently
// missing.
func (n *Encoder) ImputeDead(in *Input) {
	columns, walk := in.Columns[:in.Features()], n.deaths.values.Walk()
	in.Dead = slices.Grow(in.Dead[:0], len(columns))[:len(columns)]
	in.DeadRaw = append(in.DeadRaw[:0], in.Raw...)
	for i, column := range columns {
		if column >= model.FirstBasisColumn {
			in.Dead[i] = in.X[i] // a presence column keeps its value, because the dead number is still present
			continue
		}
		in.Dead[i] = walk.Standardized(&n.Scaling.Scaler, column, in.Rows[i][:model.ScalerWidth])
		in.DeadRaw[i] = walk.Raw(column, in.Raw[i])
	}
}

// died sets the fields of an Input that describe features that are silently missing or dropped together.
func (n *Encoder) died(in *Input) {
	d := &n.deaths
	columns := in.Columns[:in.Features()]
	if in.Fields, in.Splines = in.Fields[:0], n.Scaling.Scaler.Splines; (n.together.Fields || d.Groups) && len(in.Event.Field) > 0 {
		in.Fields = n.Scaling.Scaler.FieldsOf(in.Event, columns, in.Fields)
	}
	if in.Dead, in.Units = in.Dead[:0], in.Units[:0]; !d.Learned {
		return
	}
	if n.ImputeDead(in); !d.Groups {
		return
	}
	for i, column := range columns {
		field := uint16(0)
		if i < len(in.Fields) {
			field = in.Fields[i]
		}
		in.Units = append(in.Units, n.together.Grouping.Of(field, in.Splines.Source(column)))
	}
}

// Silently sets to to a copy of the Input in which some features are silently missing. dead is by index in Columns. The
// copy declares no field missing. ImputeDead must have been called before. The copy shares Rows and Columns with in,
// and is valid only for scoring.
func (in *Input) Silently(dead []bool, to *Input) {
	n := in.Features()
	to.Event, to.Number, to.Scale, to.Rows, to.Columns = in.Event, in.Number, 1, in.Rows, in.Columns[:n]
	to.X, to.Raw = append(to.X[:0], in.X...), append(to.Raw[:0], in.Raw[:n]...)
	for i, gone := range dead[:n] { // selects bits, because a branch would be unpredictable
		x, raw := math.Float64bits(in.X[i]), math.Float64bits(in.Raw[i])
		deadX, deadRaw := math.Float64bits(in.Dead[i]), math.Float64bits(in.DeadRaw[i])
		if gone {
			x = deadX
		}
		if gone {
			raw = deadRaw
		}
		to.X[i], to.Raw[i] = math.Float64frombits(x), math.Float64frombits(raw)
	}
}
