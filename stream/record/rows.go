package record

// This file creates events from rows of numbers, for programs that need not write text.

import (
	"math"
	"strconv"

	"blankout/internal/event"
)

// Rows creates events from rows of numbers whose columns are named once. The events equal the events from JSON objects
// with these numbers. NaN is null.
type Rows struct {
	core
	columns []named
}

// NewRows returns a Rows for columns with the given names. Like a Decoder, it adds fields to s and is not safe for
// concurrent use.
func NewRows(c Config, s *event.Schema, columns []string) (*Rows, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	d := &Rows{core: newCore(c, s)}
	for _, name := range columns {
		d.columns = append(d.columns, d.named(name))
	}
	return d, nil
}

// Decode fills e from a row, which has a number for each column, and from the Label of r.
func (d *Rows) Decode(r Record, row []float64, e *event.Example) {
	d.reset(&r, e)
	for i, x := range row {
		n := &d.columns[i]
		if math.IsNaN(x) {
			if n.role == isFeature {
				d.miss(n)
			}
			continue
		}
		reason, detail := d.numberOf(n, x, func(b []byte) []byte { return strconv.AppendFloat(b, x, 'f', -1, 64) })
		if detail != "" {
			d.refuse(&r, e, reason, "column %.80q%s", n.name, detail)
			return
		}
	}
	d.complete(&r, e)
}

// SparseRows creates events from sparse rows of numbers. The events equal the events from svmlight lines, whose indices
// start at 1 unless the Schema is ZeroBased.
type SparseRows struct{ core }

// NewSparseRows returns a SparseRows. Like a Decoder, it adds fields to s and is not safe for concurrent
// use.
func NewSparseRows(c Config, s *event.Schema) (*SparseRows, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	return &SparseRows{newCore(c, s)}, nil
}

// Decode fills e from a row with values in columns, which start at 0, and from the Label of r. NaN is omitted if
// columns can be missing, and otherwise e is refused.
func (d *SparseRows) Decode(r Record, columns []int64, values []float64, e *event.Example) {
	d.reset(&r, e)
	for i, column := range columns {
		x := values[i]
		if column < 0 || d.s.NumericIndices && uint64(column) > d.mask {
			d.refuse(&r, e, event.ReasonOutOfRange, "column %d: there are 2^%d from 0 on", column, d.s.Bits)
			return
		}
		switch {
		case math.IsNaN(x) && d.s.ColumnsGoMissing(): // the omitted column is missing
		case math.IsNaN(x):
			d.refuse(&r, e, event.ReasonNotFinite, "column %d is NaN: if columns can be missing, set record.absent = \"missing\"", column)
			return
		case math.IsInf(x, 0):
			d.refuse(&r, e, event.ReasonNotFinite, "column %d is %g", column, x)
			return
		case x > maxMagnitude || x < -maxMagnitude:
			d.refuse(&r, e, event.ReasonOutOfRange, "column %d is %g, the limit is 1e30", column, x)
			return
		case d.s.NumericIndices:
			d.addAt(uint32(column), uint64(column), 0, x)
		default:
			name := column + 1
			if d.s.ZeroBased {
				name = column
			}
			d.pair(&d.anonymous, event.Sparse, strconv.AppendInt(nil, name, 10), x)
		}
	}
	d.complete(&r, e)
	e.Field = nil
}
