package model

// This file keeps the latest readings of numeric columns, and finds the values of dead readings among them.

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
)

// Readings has the latest readings of the columns of a Covariance. It finds fill values: a sensor that dies, or a
// program that replaces a lost value, writes the same value again and again. A value is a fill value from the moment at
// which its fraction of a column's latest readings is far larger than that of any value so far.
//
// The zero value is for a new stream. A Readings is not safe for concurrent use.
type Readings struct {
	columns []CellColumn
	follows []uint32     // the columns, in the list of the latest call of Follow
	pairs   [][2]float64 // the first two values of each column
	many    []byte       // number of values in pairs, 3 for more than two values
	blocks  []float64    // number of completed blocks of each column
	recent  []float64    // latest readings, by event and column; noReading for none
	next    int          // place of the next event in recent
	events  int          // number of events in recent
}

// noReading stands for a reading that an event does not have. It is beyond event.MaxMagnitude.
const noReading = math.MaxFloat64

const (
	// readingsKept is the number of events that a Readings keeps.
	readingsKept = 128
	// A fill value has at least fillLeast of the latest readings, and at least the fraction fillFraction or fillFactor
	// times the largest fraction of one value in ordinary events. fillDeviations is how many standard deviations of
	// chance it must exceed that.
	fillLeast, fillFraction, fillFactor, fillDeviations = 4, 0.08, 1.5, 2
	// mostFills is the largest number of fill values of a column.
	mostFills = 4
	// readingsMemory is the number of blocks over which fractions are averaged.
	readingsMemory = 64
	// 0 is a fill value of a column that has not read it in zeroBlocks blocks, nor ever.
	zeroBlocks = 8
)

// Columns returns what is known of each column. The caller must not change it.
func (r *Readings) Columns() []CellColumn { return r.columns }

// WithColumns returns a Readings for a reader of a model, which knows what the model knows of its columns.
func WithColumns(columns []CellColumn) *Readings {
	r := &Readings{columns: slices.Clone(columns)}
	for _, c := range columns {
		r.follows = append(r.follows, c.Column)
	}
	r.recent = make([]float64, readingsKept*len(columns))
	return r
}

// Follow makes the columns of r those of a Covariance. Columns that stay keep their statistics, and the latest readings
// are forgotten if columns change.
func (r *Readings) Follow(columns []uint32) {
	if len(columns) > 0 && len(columns) == len(r.follows) && &columns[0] == &r.follows[0] {
		return // lists of a Covariance do not change
	}
	r.follows = columns
	if slices.EqualFunc(r.columns, columns, func(c CellColumn, column uint32) bool { return c.Column == column }) {
		return
	}
	was := *r
	*r = Readings{follows: columns, recent: make([]float64, readingsKept*len(columns))}
	for _, column := range columns {
		at, ok := slices.BinarySearchFunc(was.columns, column, func(c CellColumn, column uint32) int { return int(c.Column) - int(column) })
		if !ok {
			r.columns, r.pairs, r.many, r.blocks = append(r.columns, CellColumn{Column: column, Least: true, Flag: true}), append(r.pairs, [2]float64{}), append(r.many, 0), append(r.blocks, 0)
			continue
		}
		r.columns, r.pairs, r.many, r.blocks = append(r.columns, was.columns[at]), append(r.pairs, was.pairs[at]), append(r.many, was.many[at]), append(r.blocks, was.blocks[at])
	}
}

// Note keeps the readings of an event. A column that an event without fields does not have is 0.
func (r *Readings) Note(e *event.Example) {
	n, absent, at := len(r.columns), noReading, 0
	row, columns, values := r.recent[r.next*n:][:n], e.Features.Index, e.Features.Value
	r.next, r.events = (r.next+1)%readingsKept, min(r.events+1, readingsKept)
	if slices.Equal(columns, r.follows) { // usual in a table
		copy(row, values)
		return
	}
	if e.Field == nil {
		absent = 0
	}
	for i, column := range r.follows[:n] {
		for at < len(columns) && columns[at] < column {
			at++
		}
		if row[i] = absent; at < len(columns) && columns[at] == column {
			row[i] = values[at]
		}
	}
}

// Due reports whether a block of events is complete, after which a learner calls Learn.
func (r *Readings) Due() bool { return r.next == 0 && r.events == readingsKept }

// Stale returns an earlier reading of column i, chosen by a number. ok is false if there is none.
func (r *Readings) Stale(i int, number uint64) (x float64, ok bool) {
	if r.events == 0 {
		return 0, false
	}
	x = r.recent[int(number%uint64(r.events))*len(r.columns)+i]
	return x, x != noReading
}

// Learn updates the statistics of all columns from the latest block of events, and reports whether it has found a fill
// value.
func (r *Readings) Learn() (found bool) {
	var room [readingsKept]float64
	for i := range r.columns {
		c, readings := &r.columns[i], r.of(i, &room)
		n, zeros, least := float64(len(readings)), 0.0, math.Inf(1)
		for _, x := range readings {
			if least = min(least, x); x == 0 {
				zeros++
			}
			if r.many[i] < 3 {
				r.meet(i, x)
			}
		}
		if n < readingsKept/4 {
			continue
		}
		if r.blocks[i] == 0 {
			c.Zeros = zeros / n
			c.Usual, c.Often = repeated(readings)
			c.Often /= n
		}
		for value, count := range c.frequent(readings) {
			most := &c.Most
			if value == c.Usual {
				most = &c.Often
			}
			if r.blocks[i] > 0 && c.fills(value, count, n) {
				found = c.fill(value) || found
			} else if !slices.Contains(c.Fills, value) {
				*most = max(count/n, *most-(*most-count/n)/readingsMemory)
			}
		}
		r.blocks[i] = min(r.blocks[i]+1, readingsMemory)
		c.Zeros += (zeros/n - c.Zeros) / r.blocks[i]
		switch fills := c.fills(0, zeros, n); {
		case c.Zeros == 0 && r.blocks[i] >= zeroBlocks:
			found = c.fill(0) || found
		case zeros > 0 && !fills: // an ordinary reading after all
			c.Fills = slices.DeleteFunc(slices.Clone(c.Fills), func(x float64) bool { return x == 0 })
		}
		c.Least, c.Flag = c.Least && least >= 0, r.many[i] < 3
	}
	return found
}

// meet records a value of column i until it has had more than two.
func (r *Readings) meet(i int, x float64) {
	switch k := r.many[i]; {
	case k == 3, k > 0 && r.pairs[i][0] == x, k > 1 && r.pairs[i][1] == x:
	case k == 2:
		r.many[i] = 3
	default:
		r.pairs[i][k] = x
		r.many[i]++
	}
}

// fills reports whether a value with the given number of n latest readings is a fill value.
func (c *CellColumn) fills(value, count, n float64) bool {
	most := c.Most
	if value == c.Usual {
		most = c.Often
	}
	p := max(fillFraction, fillFactor*most)
	return count >= fillLeast && count > p*n+fillDeviations*math.Sqrt(n*max(most*(1-most), 0)) && !(value == 0 && c.Zeros >= cellNatural)
}

// frequent yields the usual value and the most frequent other value, with their numbers among the readings of the column.
// So a usual value, such as many zeros, hides no other value.
func (c *CellColumn) frequent(readings []float64) func(yield func(value, count float64) bool) {
	return func(yield func(value, count float64) bool) {
		var room [readingsKept]float64
		often, natural, others := 0.0, c.Zeros >= cellNatural, room[:0]
		for _, x := range readings {
			if x == c.Usual {
				often++
			} else if x != 0 || !natural {
				others = append(others, x)
			}
		}
		value, most := repeated(others)
		if yield(c.Usual, often) && most > 0 {
			yield(value, most)
		}
	}
}

// fill adds a fill value, in place of the oldest of too many. It reports whether it is new.
func (c *CellColumn) fill(value float64) bool {
	if c.Flag || slices.Contains(c.Fills, value) {
		return false
	}
	fills := append(slices.Clone(c.Fills), value) // models share the former slice
	c.Fills = fills[max(0, len(fills)-mostFills):]
	return true
}

// Found adds the fill values among the latest readings of a reader, and reports whether one is new. It does not change
// what ordinary events are like.
func (r *Readings) Found() (found bool) {
	var room [readingsKept]float64
	for i := range r.columns {
		readings := r.of(i, &room)
		c := &r.columns[i]
		for value, count := range c.frequent(readings) {
			if c.fills(value, count, float64(len(readings))) {
				found = c.fill(value) || found
			}
		}
	}
	return found
}

// of returns the latest readings of column i, in the memory of room.
func (r *Readings) of(i int, room *[readingsKept]float64) []float64 {
	out := room[:0]
	for at := i; at < r.events*len(r.columns); at += len(r.columns) {
		if x := r.recent[at]; x != noReading {
			out = append(out, x)
		}
	}
	return out
}

// slotBits is the logarithm of the number of slots in repeated: enough that few values collide.
const slotBits = 10

// repeated returns the most frequent of at most readingsKept readings, and its number.
func repeated(readings []float64) (value, most float64) {
	var slots [1 << slotBits]byte // 1 + the first reading with a value
	var counts [readingsKept]byte
	largest := byte(0)
	for k, x := range readings {
		at := math.Float64bits(x+0) * 0x9e3779b97f4a7c15 >> (64 - slotBits)
		for slots[at] > 0 && readings[slots[at]-1] != x {
			at = (at + 1) % (1 << slotBits)
		}
		if slots[at] == 0 {
			slots[at] = byte(k + 1)
		}
		count := &counts[(slots[at]-1)%readingsKept]
		if *count++; *count > largest {
			value, largest = x, *count
		}
	}
	return value, float64(largest)
}

// State encodes or decodes a Readings.
func (r *Readings) State(c *coder.Coder) {
	n := uint64(len(r.columns))
	c.Uint(&n)
	if c.Decode {
		if n > MaxCovariance {
			c.Failed = true
			return
		}
		*r = Readings{columns: make([]CellColumn, n), follows: make([]uint32, n), pairs: make([][2]float64, n), many: make([]byte, n), blocks: make([]float64, n)}
	}
	for i := range r.columns {
		k := &r.columns[i]
		column, many := uint64(k.Column), uint64(r.many[i])
		c.Uint(&column)
		c.Uint(&many)
		if c.Decode { // while it encodes, others may read the columns
			k.Column, r.many[i], r.follows[i] = uint32(column), byte(many), uint32(column)
		}
		c.Each(&k.Zeros, &k.Usual, &k.Often, &k.Most, &r.pairs[i][0], &r.pairs[i][1], &r.blocks[i])
		c.Bool(&k.Least)
		c.Bool(&k.Flag)
		c.Floats(&k.Fills)
		c.Failed = c.Failed || column > math.MaxUint32 || many > 3 || len(k.Fills) > mostFills || !(k.Zeros >= 0 && k.Zeros <= 1 && k.Most >= 0 && k.Most <= 1 && k.Often >= 0 && k.Often <= 1)
	}
	next, events := uint64(r.next), uint64(r.events)
	c.Uint(&next)
	c.Uint(&events)
	if r.next, r.events = int(next), int(events); next >= readingsKept || events > readingsKept {
		c.Failed = true
		return
	}
	var kept []float64
	if !c.Decode {
		kept = r.recent[:r.events*len(r.columns)]
	}
	c.Floats(&kept)
	if c.Decode {
		r.recent = make([]float64, readingsKept*len(r.columns))
		c.Failed = c.Failed || copy(r.recent, kept) != r.events*len(r.columns) || len(kept) != r.events*len(r.columns)
	}
}
