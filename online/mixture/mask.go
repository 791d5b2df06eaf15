package mixture

// This file draws masks.

import (
	"math/bits"
	"math/rand/v2"

	"blankout/internal/event"
	"blankout/internal/model"
)

// Features describes the features of an event, for Mask.Draw.
type Features struct {
	Columns []uint32
	Field   []uint16 // field of each feature, see event.Example.FieldsOf; empty for a sparse text format
	Schema  *event.Schema
	Factors [][2]int       // see event.Schema.Factors
	Splines *model.Splines // splines, whose presence and basis columns are missing with their number
	Sparse  bool           // the event of a sparse text format: each of its columns can be declared missing
}

// Mask removes features from an event. It removes increasing fractions of features at several points (missing
// fractions). The masks are nested: a feature is present at all points up to its last point.
type Mask struct {
	Last []int8          // by feature: the last point where it is present
	Dead [Points]float64 // number of missing fields at each point
	dies []int8          // by field: the last point where it is present, -1 if it is not in the event
}

// Draw draws the mask with this number. If groups is not nil, whole groups are removed, otherwise each feature
// independently.
func (m *Mask) Draw(x Features, number uint64, groups *model.Grouping) {
	fields := x.Schema.Fields
	point := func(key uint64) int8 {
		var r rand.PCG
		// In eight consecutive masks each key (field or group) gets a rate in each eighth of [0, 1] once. The mean over
		// these masks is therefore more precise than over independent masks.
		r.Seed(key^0x626c616e6b6f7574, 1<<32^number/8)
		return PointOf(r.Uint64() ^ bits.Reverse64(number%8))
	}
	for len(m.dies) < len(fields) {
		m.dies = append(m.dies, -1)
	}
	m.Last, m.Dead = m.Last[:0], [Points]float64{}
	key := func(id uint16, column uint32) uint64 {
		if id != 0 && fields[id].Kind.Named() {
			return 1<<40 | uint64(id)
		}
		return uint64(column)
	}
	for i, column := range x.Columns {
		id := uint16(0)
		if len(x.Field) > 0 && int(x.Field[i]) < len(fields) {
			id = x.Field[i]
		}
		var a, b uint64 // keys (fields or groups) with which the feature is removed
		source := x.Splines.Source(column)
		switch {
		case groups != nil:
			unit := groups.Of(id, source)
			if one, other, pair := groups.Pair(unit); pair {
				a, b = groups.Hash(one), groups.Hash(other)
			} else {
				a = groups.Hash(unit)
				b = a
			}
		case id != 0 && fields[id].Kind == event.Cross:
			f := x.Factors[id]
			a, b = key(uint16(f[0]), source), key(uint16(f[1]), source)
		default:
			a = key(id, source)
			b = a
		}
		at := point(a)
		if b != a {
			at = min(at, point(b))
		}
		m.Last = append(m.Last, at)
		switch {
		case x.Sparse:
			if column < model.FirstBasisColumn {
				m.die(at)
			}
		case id != 0 && fields[id].Kind.Named() && m.dies[id] < 0:
			m.dies[id] = at
			m.die(at)
		}
	}
	for _, id := range x.Field {
		if int(id) < len(m.dies) {
			m.dies[id] = -1
		}
	}
	for point := 1; point < Points; point++ {
		m.Dead[point] += m.Dead[point-1]
	}
}

// die counts a field that is present up to the point last.
func (m *Mask) die(last int8) {
	if last+1 < Points {
		m.Dead[last+1]++
	}
}

// Alone also removes single features with the given probability, after Draw has removed groups.
func (m *Mask) Alone(rate float64, event uint64) {
	if rate == 0 {
		return
	}
	var r rand.PCG
	r.Seed(event, 0x67726f757073)
	for i := range m.Last {
		if float64(r.Uint64()>>11)/(1<<53) < rate {
			m.Last[i] = -1
		}
	}
}

// PointOf returns the last point at which a feature is present. u/2^64 is a fraction in [0, 1) that is drawn for the
// feature.
func PointOf(u uint64) int8 { return int8(u >> 32 * Points >> 32) }
