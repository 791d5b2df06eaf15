package batch

// This file determines the value that a feature reads after it has failed silently (a dead feature).

import (
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
)

// DeadValueReadings gathers the raw readings of numeric columns. The values of dead features are computed from these
// readings. The zero value is ready for use.
type DeadValueReadings struct {
	examples float64
	columns  map[uint32]*columnReadings
	all      *model.Zeros // readings of all numbers; nil if events have been added since
}

// columnReadings counts and averages the readings of one column.
type columnReadings struct {
	n, zeros, mean float64
	kind           event.Kind
}

func (r *columnReadings) add(x float64) {
	if r.n++; x == 0 {
		r.zeros++
	}
	r.mean += (x - r.mean) / r.n
}

// Observe adds an event with its raw values, before standardization.
func (g *DeadValueReadings) Observe(e *event.Example, schema *event.Schema) {
	if g.columns == nil {
		g.columns = map[uint32]*columnReadings{}
	}
	g.examples++
	g.all = nil
	named := len(e.Field) == e.Features.Len()
	for i, column := range e.Features.Index {
		r := g.columns[column]
		if r == nil {
			r = &columnReadings{}
			if named {
				r.kind = schema.Fields[e.Field[i]].Kind
			}
			g.columns[column] = r
		}
		r.add(e.Features.Value[i])
	}
}

// DeathsOf returns the readings of all raw events of d. Only numeric columns are used.
func DeathsOf(d *Data) *DeadValueReadings {
	all := make([]columnReadings, d.Columns())
	for i := range d.Rows() {
		row := d.Row(i)
		for j, c := range row.Index {
			all[c].add(row.At(j))
		}
	}
	g := &DeadValueReadings{examples: float64(d.Rows()), columns: map[uint32]*columnReadings{}}
	for c := range all {
		r := &all[c]
		if r.kind = d.Schema.Fields[d.fields.of(d.Column(c))].Kind; g.number(r) {
			g.columns[d.Column(c)] = r
		}
	}
	return g
}

// number reports whether a column is numeric. A column of a sparse format counts as numeric if at least 90 % of the
// events have it.
func (g *DeadValueReadings) number(r *columnReadings) bool {
	return r.kind == event.Numeric || r.kind == event.Sparse && 10*r.n >= 9*g.examples
}

// Numbers returns the raw values of dead numbers, or nil if there are no numbers.
func (g *DeadValueReadings) Numbers(schema *event.Schema) *model.Dead {
	var dead model.Dead
	for column, r := range g.columns {
		if g.number(r) {
			dead.Columns = append(dead.Columns, column)
		}
	}
	if dead.Columns == nil {
		return nil
	}
	slices.Sort(dead.Columns)
	for _, column := range dead.Columns {
		dead.Reads = append(dead.Reads, g.Value(column, schema))
	}
	return &dead
}

// Value returns the raw value of a column's dead feature. It returns 0 if the column is not a number.
func (g *DeadValueReadings) Value(column uint32, schema *event.Schema) float64 {
	r := g.columns[column]
	if r == nil || !g.number(r) {
		return 0
	}
	own, mean := g.zeros(r, schema)
	if model.DeadIsZero(own, g.allZeros(schema)) {
		return 0
	}
	return mean
}

// zeros returns the fraction of readings of a numeric column that are 0, as model.Zeros, and the mean of all its
// readings.
func (g *DeadValueReadings) zeros(r *columnReadings, schema *event.Schema) (z model.Zeros, mean float64) {
	z.Add(r.n, r.zeros)
	mean = r.mean
	if r.kind == event.Sparse && !schema.ColumnsGoMissing() { // an absent value is a 0
		left := g.examples - r.n
		z.Add(left, left)
		mean *= r.n / g.examples
	}
	return z, mean
}

// allZeros returns how often all numbers together read 0.
func (g *DeadValueReadings) allZeros(schema *event.Schema) model.Zeros {
	if g.all == nil {
		g.all = &model.Zeros{}
		for _, r := range g.columns {
			if g.number(r) {
				z, _ := g.zeros(r, schema)
				g.all.Add(z.Readings, z.Zeros)
			}
		}
	}
	return *g.all
}

// Apply returns d with the values of dead features for silent noise, as set by Data.SetDead. The model scaler has the
// Scaler that standardized d; it is nil if d is raw.
func (g *DeadValueReadings) Apply(d *Data, scaler *model.Linear) (*Data, error) {
	var splines *model.Splines
	if scaler != nil {
		splines = scaler.Scaler.Splines
	}
	standardized := func(column uint32, x float64) float64 {
		if scaler == nil {
			return x
		}
		row := scaler.Rows.Row(column)
		if row == nil {
			return 0
		}
		if stats := scaler.Stats(row); stats != nil {
			return scaler.Scaler.Apply(stats, x)
		}
		return x
	}
	dead := func(column uint32) float64 {
		x := g.Value(splines.Source(column), d.Schema)
		if column >= model.FirstBasisColumn {
			x = splines.At(column, x)
		}
		return standardized(column, x)
	}
	d, err := d.holding(g.left(d, splines, dead))
	if err != nil {
		return nil, err
	}
	d.SetDead(dead)
	return d, nil
}

// left returns a function that finds, for a row, the absent columns that would not be 0 if their features were dead.
// These are spline columns of the row's numbers, and columns of sparse formats that are 0 if absent.
func (g *DeadValueReadings) left(d *Data, splines *model.Splines, dead func(column uint32) float64) func(x event.Vec) []uint32 {
	var always []uint32
	for column, r := range g.columns {
		if r.kind == event.Sparse && !d.Schema.ColumnsGoMissing() && dead(column) != 0 {
			always = append(always, column)
		}
	}
	slices.Sort(always)
	hats := map[uint32][]uint32{} // spline columns by the number's column
	if splines != nil {
		for i, column := range splines.Columns {
			for knot := range splines.Knots[i] {
				if hat := splines.BasisColumn(i, knot); dead(hat) != 0 {
					hats[column] = append(hats[column], hat)
				}
			}
		}
	}
	var out []uint32
	missing := func(x event.Vec, column uint32) {
		if _, ok := slices.BinarySearch(x.Index, column); !ok {
			out = append(out, column)
		}
	}
	return func(x event.Vec) []uint32 {
		out = out[:0]
		if x.Len() < d.Columns() {
			for _, column := range always {
				missing(x, column)
			}
		}
		for _, column := range x.Index {
			for _, hat := range hats[column] {
				missing(x, hat)
			}
		}
		return out
	}
}

// holding returns d with explicit zeros: each row also has the columns that the function left returns for the row. The
// function left may return the columns in any order.
func (d *Data) holding(left func(x event.Vec) []uint32) (*Data, error) {
	var x event.Vec
	whole := true
	for i := 0; whole && i < d.Rows(); i++ {
		x = d.Vec(i, x)
		whole = len(left(x)) == 0
	}
	if whole {
		return d, nil
	}
	return d.changed(d.splines, func(x event.Vec) event.Vec {
		for _, column := range left(x) {
			at, _ := slices.BinarySearch(x.Index, column)
			x.Index, x.Value = slices.Insert(x.Index, at, column), slices.Insert(x.Value, at, 0)
		}
		return x
	})
}
