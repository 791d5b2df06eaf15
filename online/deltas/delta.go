package deltas

// This file defines deltas, which contain what a learner in a group has learned in an interval, and merges their
// statistics.

import (
	"encoding/binary"
	"math"

	"blankout/internal/model"
	"blankout/online/scaling"
)

// Delta contains what a Learner has learned in an interval, to be added to the merged model. online.Learner cuts and
// adds Deltas. A Delta is immutable.
type Delta struct {
	Kind      Kind
	Precision int    // bits of each weight change when encoded: 32 or 64
	Events    uint64 // number of events, including unlabeled events
	// State holds the sums of measures or, for a Full Delta, the whole state except the rows.
	State   []byte
	Width   int // number of values per row
	Columns []uint32
	// Values holds Width values for each column. For a Full Delta they are the Learner's row. For a Shared Delta they
	// are
	//
	//	[events] [flags] [mean, sum of squares] [center, 1/scale] [u] [ΔG]:
	//
	// the number of the interval's events with the column; flags; the moments of the column's readings in the interval;
	// the scale in effect (if the column is centered or new, or if its scale has grown); and by noise level and output
	// the changes of the weight (u) and of AdaGrad's accumulator (ΔG).
	Values []float64
}

// MaxInterval is the largest number of events of a Shared Delta.
const MaxInterval = 1 << 20

// Kind is the kind of a Delta's rows.
type Kind uint8

const (
	// Full Deltas have whole rows. A Full Delta replaces the model from which its author started, and is exact. It
	// cannot be added if another Delta has been added since.
	Full Kind = iota
	// Shared Deltas have changes that are added to the model.
	Shared
)

// Indices in Shared rows.
const (
	Count = iota // number of the interval's events with the column
	flags
	mean
	squares
	center
	inverse
	Parts // start of the weight changes u
)

// Flags of a row of a Shared Delta.
const (
	hasMoments = 1 << iota // the column is centered
	hasForce               // has center and 1/scale
	isAsIs                 // center is 0 and 1/scale is 1
	flagBits   = iota
)

// MinRowBytes returns the smallest number of bytes of an encoded row, including its column.
func (d *Delta) MinRowBytes() int {
	if d.Kind == Full {
		return 1 + 8*d.Width
	}
	return 2 + max(0, d.Width-Parts)*d.Precision/8
}

// MaxRowBytes returns the largest number of bytes of an encoded row, including its column.
func (d *Delta) MaxRowBytes() int {
	return 2*binary.MaxVarintLen64 + 8*d.Width
}

// AppendRow appends the encoding of row i to data.
func (d *Delta) AppendRow(data []byte, i int) []byte {
	v := d.Values[i*d.Width:][:d.Width]
	put := func(list []float64) {
		for _, x := range list {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(x))
		}
	}
	if d.Kind == Full {
		put(v)
		return data
	}
	bits := uint64(v[flags])
	data = binary.AppendUvarint(data, uint64(v[Count])<<flagBits|bits)
	if bits&hasMoments != 0 {
		put(v[mean:center])
	}
	if bits&hasForce != 0 {
		put(v[center:Parts])
	}
	if d.Precision == 64 {
		put(v[Parts:])
		return data
	}
	for _, x := range v[Parts:] {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(x)))
	}
	return data
}

// ReadRow decodes the row at the start of data, appends it to Values, and returns the rest of data. It returns nil if
// the row is invalid.
func (d *Delta) ReadRow(data []byte) []byte {
	bad := false
	take := func(n, size int) {
		if bad = bad || len(data) < n*size/8; bad {
			return
		}
		for range n {
			var x float64
			if size == 64 {
				x = math.Float64frombits(binary.LittleEndian.Uint64(data))
			} else {
				x = float64(math.Float32frombits(binary.LittleEndian.Uint32(data)))
			}
			data = data[size/8:]
			d.Values = append(d.Values, x)
			bad = bad || x-x != 0 // not finite
		}
	}
	if d.Kind == Full {
		take(d.Width, 64)
	} else {
		head, n := binary.Uvarint(data)
		if n <= 0 || d.Width <= Parts || head>>flagBits > 1<<53 {
			return nil
		}
		data = data[n:]
		bits := head & (1<<flagBits - 1)
		d.Values = append(d.Values, float64(head>>flagBits), float64(bits))
		if bits&hasMoments != 0 {
			take(2, 64)
		} else {
			d.Values = append(d.Values, 0, 0)
		}
		switch {
		case bits&hasForce != 0 && bits&isAsIs != 0:
			return nil
		case bits&hasForce != 0:
			take(2, 64)
		case bits&isAsIs != 0:
			d.Values = append(d.Values, 0, 1)
		default:
			d.Values = append(d.Values, 0, 0)
		}
		take(d.Width-Parts, d.Precision)
	}
	if bad {
		return nil
	}
	if data == nil {
		return []byte{}
	}
	return data
}

// round rounds the changes of a Shared Delta to Precision, so that encoding is exact. If 32 bits cannot hold a change,
// Precision becomes 64.
func (d *Delta) round() {
	for pass := range 2 {
		for i := range d.Columns {
			v := d.Values[i*d.Width:][Parts:d.Width]
			for j, x := range v {
				y := float64(float32(x))
				if y-y != 0 {
					d.Precision = 64
					return
				}
				if pass == 1 {
					v[j] = y
				}
			}
		}
	}
}

// Merged describes how the weights of a column must change after statistics have been merged. First, the intercepts
// increase by Shift times the Delta's weight changes. Then Move applies to all weights of the column. Last, the weights
// increase by Factor times the Delta's weight changes.
type Merged struct {
	Shift  float64
	Move   scaling.Move
	Factor float64
}

// Merge merges the statistics of a row of a Shared Delta into the statistics of its column, exactly (Chan, Golub &
// LeVeque 1983). The center and scale in effect change when the count has grown by a sixteenth, as in
// model.Scaler.Observe.
func Merge(stats, v []float64, s *model.Scaler) (m Merged) {
	bits, before := int(v[flags]), stats[model.StatCount]
	stats[model.StatCount] = before + v[Count]
	m = Merged{Move: scaling.Move{Ratio: 1, Keep: 1}, Factor: 1}
	switch {
	case bits&(hasForce|isAsIs) == 0:
	case before == 0:
		stats[model.StatCenter], stats[model.StatInverse] = v[center], v[inverse]
	case bits&hasMoments == 0 && v[inverse] < stats[model.StatInverse] && v[inverse] > 0:
		// The Delta's author has seen a larger value than this model.
		m.Move.Ratio = stats[model.StatInverse] / v[inverse]
		stats[model.StatInverse] = v[inverse]
	default:
		m.Factor, m.Shift = convert(stats, v, s)
	}
	if bits&hasMoments != 0 {
		if mergeMoments(stats, before, v) {
			m.Move.Ratio, m.Move.Shift = model.Renew(stats)
		}
	} else if before == 0 {
		model.Unwatch(stats)
	}
	return m
}

// convert converts the weight changes of a column from the author's center and scale to the current ones. The weights
// must change by factor times the author's changes, and the intercepts by shift times these changes. Scores then change
// as they did for the author.
func convert(stats, v []float64, s *model.Scaler) (factor, shift float64) {
	if stats[model.StatCenter] == v[center] && stats[model.StatInverse] == v[inverse] {
		return 1, 0
	}
	var theirs [model.ScalerWidth]float64
	theirs[model.StatCenter], theirs[model.StatInverse] = v[center], v[inverse]
	here, there := s.Standardization(stats), s.Standardization(theirs[:])
	if here.Scale == 0 || there.Scale == 0 || here.Unit != there.Unit {
		return 0, 0 // without a scale the weight has no unit
	}
	return here.Scale / there.Scale, (here.Center - there.Center) / there.Scale
}

// mergeMoments merges the moments of the readings in v into stats, which has before earlier readings. renews reports
// whether the scale in effect must change.
func mergeMoments(stats []float64, before float64, v []float64) (renews bool) {
	n, added := stats[model.StatCount], v[Count]
	if before == 0 {
		stats[model.StatMean], stats[model.StatSquares] = v[mean], v[squares]
		return false
	}
	d := v[mean] - stats[model.StatMean]
	stats[model.StatMean] = math.FMA(d, added/n, stats[model.StatMean])
	stats[model.StatSquares] += math.FMA(d*d, before*added/n, v[squares])
	return model.RenewsBetween(before, n)
}
