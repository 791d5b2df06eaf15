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
	for i, t := range r.each {
		c, n := &r.columns[i], float64(t.taken)
		for at := 0; at < len(t.readings) && r.many[i] < 3; at++ {
			if x := t.readings[at]; x != noReading {
				r.meet(i, x)
			}
		}
		if n < readingsKept/4 {
			continue
		}
		zeros := t.count(0)
		if r.blocks[i] == 0 {
			c.Zeros = zeros / n
			c.Usual, c.Often = t.most(func(float64) bool { return true })
			c.Often /= n
		}
		for value, count := range c.frequent(t) {
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
		c.Least, c.Flag = c.Least && t.least >= 0, r.many[i] < 3
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
func (c *CellColumn) frequent(t *tally) func(yield func(value, count float64) bool) {
	return func(yield func(value, count float64) bool) {
		natural := c.Zeros >= cellNatural
		value, most := t.most(func(x float64) bool { return x != c.Usual && !(natural && x == 0) })
		if yield(c.Usual, t.count(c.Usual)) && most > 0 {
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
	for i, t := range r.each {
		c := &r.columns[i]
		for value, count := range c.frequent(t) {
			if c.fills(value, count, float64(t.taken)) {
				found = c.fill(value) || found
			}
		}
	}
	return found
}

// each yields the latest readings of each column, counted. They are valid until the next. A line of the cache has the
// readings of eight columns, so as many columns are read together.
func (r *Readings) each(yield func(i int, t *tally) bool) {
	const together = 8
	var room [together][readingsKept]float64
	var t tally
	n := len(r.columns)
	for first := 0; first < n; first += together {
		last := min(first+together, n)
		for k := range r.events {
			row := r.recent[k*n+first : k*n+last]
			for j := range min(len(row), together) {
				room[j][k%readingsKept] = row[j]
			}
		}
		for i := first; i < last; i++ {
			if t.take(room[i-first][:r.events]); !yield(i, &t) {
				return
			}
		}
	}
}

// slotBits is the logarithm of the number of slots in a tally: enough that few values collide.
const slotBits = 10

// tally counts the values of at most readingsKept readings.
type tally struct {
	readings []float64
	taken    int                  // number of readings, without noReading
	least    float64              // the smallest reading
	first    [1 << slotBits]uint8 // 1 + the first reading with a value
	more     [readingsKept]uint8  // number of later readings with the value of a first reading
	latest   [readingsKept]uint8  // the latest of them
	repeats  bool                 // some value was read more than once
}

// slot returns the slot of a value, which is empty if no reading has the value.
func (t *tally) slot(x float64) *uint8 {
	at := math.Float64bits(x+0) * 0x9e3779b97f4a7c15 >> (64 - slotBits)
	for t.first[at] > 0 && t.readings[t.first[at]-1] != x {
		at = (at + 1) % (1 << slotBits)
	}
	return &t.first[at]
}

// take counts readings, which t borrows.
func (t *tally) take(readings []float64) {
	*t = tally{readings: readings, least: noReading}
	for k, x := range readings {
		if x == noReading {
			continue
		}
		t.taken++
		if x < t.least {
			t.least = x
		}
		slot := t.slot(x)
		if *slot == 0 {
			*slot = uint8(k + 1)
			continue
		}
		first := (*slot - 1) % readingsKept
		t.more[first], t.latest[first], t.repeats = t.more[first]+1, uint8(k), true
	}
}

// count returns the number of readings with a value.
func (t *tally) count(x float64) float64 {
	if first := *t.slot(x); first > 0 {
		return 1 + float64(t.more[first-1])
	}
	return 0
}

// most returns the most frequent of the values that may be, and its number; of several, the one that was complete
// first. The number is 0 if no reading may be.
func (t *tally) most(may func(x float64) bool) (value, count float64) {
	most, latest := -1, 0
	for k, x := range t.readings {
		if most >= 0 && int(t.more[k]) < max(most, 1) || x == noReading || !may(x) {
			continue
		}
		if more := int(t.more[k]); more > most || more == most && int(t.latest[k]) < latest {
			value, most, latest = x, more, int(t.latest[k])
		}
		if !t.repeats {
			break
		}
	}
	return value, float64(most + 1)
}

// State encodes or decodes a Readings.
func (r *Readings) State(c *coder.Coder) {
	if coder.Length(c, &r.columns, MaxCovariance); c.Decode {
		n := len(r.columns)
		*r = Readings{columns: r.columns, follows: make([]uint32, n), pairs: make([][2]float64, n), many: make([]byte, n), blocks: make([]float64, n)}
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
	c.Int(&r.next)
	c.Int(&r.events)
	if uint(r.next) >= readingsKept || uint(r.events) > readingsKept {
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
