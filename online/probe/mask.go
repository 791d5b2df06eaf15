package probe

// This file says which events are probes, and draws masks.

import (
	"math/bits"
	"math/rand/v2"

	"blankout/internal/event"
	"blankout/internal/model"
)

const (
	// Masks are drawn for each of the first first events, then for every fourth, after Second for every
	// sixteenth, whose ranges learn from every second point then, and after third for every 64th.
	first, Second, third = 1024, 8192, 65_536
	// A mask serves for one more probe in a row for every masksAlike columns that may be filled in: what is
	// worked out for a pattern of missing columns is kept meanwhile.
	masksAlike = 48
	// With more columns than fillAll only some points of a mask are filled in.
	fillAll, fillSome = 32, 128
)

// AsCame says whether the event of this number is compared as it came: every fourth one after Second, and
// after third every sixteenth where the levels alone answer.
func AsCame(event uint64, alone bool) bool {
	switch {
	case event <= Second:
		return true
	case event <= third || !alone:
		return event%4 == 0
	}
	return event%16 == 0
}

// Due says whether a mask is drawn for the event of this number.
func Due(event uint64) bool {
	switch {
	case event <= first:
		return true
	case event <= Second:
		return event%4 == 0
	case event <= third:
		return event%16 == 0
	}
	return event%64 == 0
}

// Number counts the probes up to the event of this number.
func Number(event uint64) uint64 {
	n := min(event, first)
	if event > first {
		n += (min(event, Second) - first) / 4
	}
	if event > Second {
		n += (min(event, third) - Second) / 16
	}
	if event > third {
		n += (event - third) / 64
	}
	return n
}

// Fills says whether a point is filled in at the event of this number, where so many columns may be.
func Fills(event uint64, point, columns int) bool {
	every := uint64(3)
	switch {
	case columns <= fillAll:
		return true
	case columns > fillSome:
		every = uint64(Points * (1 + columns/256))
	}
	return (Number(event)+uint64(point))%every == 0
}

// Features are those of an event.
type Features struct {
	Columns []uint32
	Field   []uint16 // of each, see event.Example.FieldsOf; empty for a sparse text format
	Schema  *event.Schema
	Factors [][2]int      // see event.Schema.Factors
	Curves  *model.Curves // whose hats die with their number
	Known   bool          // it is sparse, and its Schema says what is known to be missing
}

// Mask deletes features. It is nested: each has the last point that it survives.
type Mask struct {
	Last []int8          // by feature
	Dead [Points]float64 // fields that are dead at each point
	dies []int8          // by field: its last point, -1 for one that is not in the event
}

// Draw draws the mask of a number, where so many columns may be filled in: groups die as a whole
// where they are given, else each feature by itself. It says whether anything of the event is known to
// be missing when it dies.
func (m *Mask) Draw(x Features, masks uint64, columns int, groups *model.Grouping) (named bool) {
	fields := x.Schema.Fields
	length := 1 + uint64(columns)/masksAlike
	number := masks / length
	point := func(key uint64) int8 {
		var r rand.PCG
		// Eight masks in a row take each key to each eighth of the rates once, so that their mean
		// says more than that of eight masks that know nothing of each other.
		r.Seed(key^0x626c616e6b6f7574, length<<32^number/8)
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
		var a, b uint64 // what it dies with
		source := x.Curves.Source(column)
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
		case x.Known:
			if column < model.FirstHat {
				m.die(at)
			}
		case id != 0 && fields[id].Kind.Named() && m.dies[id] < 0:
			m.dies[id] = at
			m.die(at)
		}
		named = named || x.Known || id != 0 && fields[id].Kind.Named()
	}
	for _, id := range x.Field {
		if int(id) < len(m.dies) {
			m.dies[id] = -1
		}
	}
	for point := 1; point < Points; point++ {
		m.Dead[point] += m.Dead[point-1]
	}
	return named
}

// die counts a field that survives a point as its last.
func (m *Mask) die(last int8) {
	if last+1 < Points {
		m.Dead[last+1]++
	}
}

// Alone lets features die by themselves, too, at a rate.
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
