package share

// This file holds what one of several learners has learned in an interval, and merges its statistics.

import (
	"encoding/binary"
	"math"

	"blankout/internal/model"
	"blankout/online/scaling"
)

// Delta is what a Learner has learned since it began an interval, to be added to a model
// that is the fold of such deltas. online.Learner cuts one, and adds one. It is not
// changed once it is made.
type Delta struct {
	Kind      Kind
	Precision int    // bits of a weight's change when it is written: 32 or 64
	Events    uint64 // learned, unlabeled ones included
	// State holds the sums that are measured, and of a Full one everything that is not in a row.
	State   []byte
	Width   int // values of a row
	Columns []uint32
	// Values holds Width values for each column: of a Full one the Learner's row, of a
	// Shared one
	//
	//	[events] [flags] [mean, sum of squares] [center, 1/scale] [u] [ΔG],
	//
	// the events of the interval that held the column, the moments of its readings, what was
	// in force where the column is centered or new or its scale has grown, and by level and output
	// the change of the weight and of AdaGrad's sum.
	Values []float64
}

// MaxInterval bounds the events of a Shared Delta.
const MaxInterval = 1 << 20

// Kind says what a Delta's rows are.
type Kind uint8

const (
	// Full holds rows as they are, to be set. It replaces the model that its author
	// began with, and so is exact; nobody else may have added to that.
	Full Kind = iota
	// Shared holds changes, to be added.
	Shared
)

// Places in a row of a Shared one.
const (
	Count = iota // events that held the column
	flags
	mean
	squares
	center
	inverse
	Parts // where u begins
)

// Flags of a row of a Shared one.
const (
	hasMoments = 1 << iota // of a column that is centered
	hasForce               // center and 1/scale
	isAsIs                 // they are 0 and 1
	flagBits   = iota
)

// MinRowBytes is the least that AppendRow and the step to a column write.
func (d *Delta) MinRowBytes() int {
	if d.Kind == Full {
		return 1 + 8*d.Width
	}
	return 2 + max(0, d.Width-Parts)*d.Precision/8
}

// MaxRowBytes is the most that they write.
func (d *Delta) MaxRowBytes() int {
	return 2*binary.MaxVarintLen64 + 8*d.Width
}

// AppendRow appends row i of the delta to data.
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

// ReadRow appends the row that data begins with to the delta's Values, and returns what is
// behind it, nil if it does not fit.
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
			bad = bad || x-x != 0 // nothing learned is infinite or no number
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

// round makes the changes of a Shared one what Precision can hold, so that it is the same
// before it is written and after. Where 32 bits cannot hold one, Precision becomes 64.
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

// Merged is what follows for the weights from statistics that were merged: the intercepts take up the
// changes of the weights times Shift, then all weights of the column Move, then the changes of the weights
// are added, times Factor.
type Merged struct {
	Shift  float64
	Move   scaling.Move
	Factor float64
}

// Merge merges the statistics of a row of a Shared Delta into those of its column, exactly (Chan, Golub &
// LeVeque 1983). The center and scale in force are renewed when the count has grown by a
// sixteenth, as by model.Scaler.Observe.
func Merge(stats, v []float64, s *model.Scaler) (m Merged) {
	bits, before := int(v[flags]), stats[model.StatCount]
	stats[model.StatCount] = before + v[Count]
	m = Merged{Move: scaling.Move{Ratio: 1, Keep: 1}, Factor: 1}
	switch {
	case bits&(hasForce|isAsIs) == 0:
	case before == 0:
		stats[model.StatCenter], stats[model.StatInverse] = v[center], v[inverse]
	case bits&hasMoments == 0 && v[inverse] < stats[model.StatInverse] && v[inverse] > 0:
		// Someone has met a larger value.
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

// convert makes the changes of a column fit what is in force here, where at their author
// it was another center and scale: it returns the factor of the weights, and by what times them the
// intercepts take up the difference of the centers, so that scores change as they did there.
func convert(stats, v []float64, s *model.Scaler) (factor, shift float64) {
	if stats[model.StatCenter] == v[center] && stats[model.StatInverse] == v[inverse] {
		return 1, 0
	}
	var theirs [model.ScalerWidth]float64
	theirs[model.StatCenter], theirs[model.StatInverse] = v[center], v[inverse]
	here, there := s.Standardization(stats), s.Standardization(theirs[:])
	if here.Scale == 0 || there.Scale == 0 || here.Unit != there.Unit {
		return 0, 0 // the slope means nothing here
	}
	return here.Scale / there.Scale, (here.Center - there.Center) / there.Scale
}

// mergeMoments merges the moments of readings into those of a row of so many before. It says whether
// what is in force is to be renewed.
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
