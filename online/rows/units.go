package rows

// This file finds the units of an event's features, and brings those of a unit together.

import (
	"slices"

	"blankout/internal/model"
)

// arrangement is the units of an event, and the order of its rows: those of a unit lie
// together. It is part of Groups.
type arrangement struct {
	grouping *model.Grouping
	Grouped  bool // some level has noise of groups: without it all but curves is one unit
	summed   bool // every feature is in a unit that has a sum

	// The event at hand.
	slot   []int32    // by unit: 1 + its place in units, 0 for one that the event lacks
	curve  []int32    // the same by curve
	units  []unitPart // in the order in which the event's features meet them
	spans  []unitSpan // of the features, in the order of the event
	fields []uint16   // of the columns, of an event that leaves dense ones out
	parts  []unitRun  // of the rows
	mixed  bool       // the rows are in another order than the features
	moved  []int32    // then: rows by feature, once one is asked for

	spare Event // room for the event's rows in another order
}

// unitKind is which of the formulas above holds for the features of a unit.
type unitKind int

const (
	alone   unitKind = iota // the only feature of a group that takes part in no product
	grouped                 // of a group
	paired                  // of a pair
	curved                  // of a number with a curve
	unitKinds
)

// unitPart is a unit of the event at hand.
type unitPart struct {
	unit    int32 // that of a curve: its number; -1 for all features where none are in groups
	kind    unitKind
	parents [2]int32 // places of a pair's groups; first that of a curve's group, -1 if it has none
	parent  bool     // of a pair or a curve
	count   int      // of features
	last    int8     // point of a forecast that it survives, see Draw
	at      int      // the first row
	next    int      // the row of its next feature, while they are put in order
}

// unitSpan is features of one unit that follow each other, up to the one before end.
type unitSpan struct {
	end int
	at  int32 // the unit's place in units
}

// unitRun is a run of rows of one unit, or of features that are alone in theirs.
type unitRun struct {
	from, to int
	kind     unitKind
	unit     int // place in units, of the kinds with sums
}

// parented says whether the unit's parents hold places.
func (u *unitPart) parented() bool { return u.kind == paired || u.kind == curved }

// arrange is the search of Groups.Arrange for the units.
func (g *arrangement) arrange(s *Event, fields []uint16, columns []uint32, curves *model.Curves) {
	g.units, g.spans = g.units[:0], g.spans[:0]
	if curves != nil || !g.Grouped {
		g.arrangeCurves(fields, columns, curves)
	} else if len(fields) == 0 {
		for i, column := range columns {
			g.join(i, 1, g.place(g.grouping.Of(0, column)))
		}
	} else {
		last, at := uint16(0), int32(0)
		for i, field := range fields {
			if field != last || field == 0 {
				at = g.place(g.grouping.Of(field, columns[i]))
				last = field
			}
			g.join(i, 1, at)
		}
	}
	g.pairs()
	g.order(s)
}

// arrangeCurves is arrange's search for the units where there may be curves.
func (g *arrangement) arrangeCurves(fields []uint16, columns []uint32, curves *model.Curves) {
	var with []uint32 // the columns that have a curve and are still to come
	if curves != nil {
		with = curves.Columns
		for len(g.curve) < len(with) {
			g.curve = append(g.curve, 0)
		}
	}
	rest := int32(-1)
	for i := 0; i < len(columns); i++ {
		column, curve := columns[i], -1
		if column >= model.FirstHat {
			curve = curves.Of(column)
		} else {
			for len(with) > 0 && with[0] < column {
				with = with[1:]
			}
			if len(with) > 0 && with[0] == column {
				curve = len(curves.Columns) - len(with)
			}
		}
		if curve < 0 && !g.Grouped { // most of a text: those up to the next curve at once
			end := uint32(model.FirstHat)
			if len(with) > 0 {
				end = with[0]
			}
			if rest < 0 {
				rest = int32(len(g.units))
				g.units = append(g.units, unitPart{unit: -1, kind: alone})
			}
			n, _ := slices.BinarySearch(columns[i:], end)
			g.join(i, n, rest)
			i += n - 1
			continue
		}
		if curve >= 0 && g.curve[curve] > 0 {
			g.join(i, 1, g.curve[curve]-1)
			continue
		}
		unit, field := int32(-1), uint16(0)
		if g.Grouped {
			if i < len(fields) {
				field = fields[i]
			}
			unit = g.grouping.Of(field, curves.Source(column))
		}
		switch {
		case curve >= 0:
			u := unitPart{unit: int32(curve), kind: curved, parents: [2]int32{-1, -1}}
			if g.Grouped {
				u.parents[0] = g.place(unit)
				g.units[u.parents[0]].parent = true
			}
			g.units = append(g.units, u)
			g.curve[curve] = int32(len(g.units))
			g.join(i, 1, int32(len(g.units)-1))
		default:
			g.join(i, 1, g.place(unit))
		}
	}
}

// join adds n features from i on to the unit at a place.
func (g *arrangement) join(i, n int, at int32) {
	g.units[at].count += n
	if last := len(g.spans) - 1; last >= 0 && g.spans[last].at == at {
		g.spans[last].end = i + n
	} else {
		g.spans = append(g.spans, unitSpan{i + n, at})
	}
}

// place returns the place in units of a unit, a new one if it is not there.
func (g *arrangement) place(unit int32) int32 {
	for int(unit) >= len(g.slot) {
		g.slot = append(g.slot, 0)
	}
	if at := g.slot[unit]; at > 0 {
		return at - 1
	}
	g.units = append(g.units, unitPart{unit: unit, kind: grouped})
	g.slot[unit] = int32(len(g.units))
	return int32(len(g.units) - 1)
}

// pairs finds the groups of the event's pairs, which need not have features of their
// own, and which units have one feature alone.
func (g *arrangement) pairs() {
	for i := 0; i < len(g.units); i++ { // groups join behind
		if g.units[i].kind != grouped {
			continue
		}
		a, b, pair := g.grouping.Pair(g.units[i].unit)
		if !pair {
			continue
		}
		if g.grouping.Name(a) > g.grouping.Name(b) {
			a, b = b, a // their numbers are others after a restart
		}
		parents := [2]int32{g.place(a), g.place(b)}
		g.units[i].kind, g.units[i].parents = paired, parents
		for _, p := range parents {
			g.units[p].parent = true
		}
	}
	for i := range g.units {
		switch u := &g.units[i]; {
		case u.kind == curved:
			g.curve[u.unit] = 0
		case u.unit < 0:
		default:
			g.slot[u.unit] = 0
			if u.kind == grouped && u.count == 1 && !u.parent && !g.summed {
				u.kind = alone
			}
		}
	}
}

// order gives every unit its rows, which it moves if they are not in this order yet.
func (g *arrangement) order(s *Event) {
	g.parts, g.moved = g.parts[:0], g.moved[:0]
	at, held := 0, 0
	for i := range g.units {
		u := &g.units[i]
		u.at, u.next = at, at
		if u.count == 0 {
			continue
		}
		held++
		at += u.count
		if n := len(g.parts); u.kind == alone && n > 0 && g.parts[n-1].kind == alone {
			g.parts[n-1].to = at
			continue
		}
		g.parts = append(g.parts, unitRun{u.at, at, u.kind, i})
	}
	if g.mixed = len(g.spans) != held; !g.mixed {
		return
	}
	to := &g.spare
	to.Reset(at)
	to.Rows = to.Rows[:at]
	from := 0
	for _, span := range g.spans {
		row, end := g.units[span.at].next, span.end
		copy(to.Rows[row:], s.Rows[from:end])
		copy(to.X[row:], s.X[from:end])
		copy(to.Basis[row:], s.Basis[from:end])
		copy(to.Ridge[row:], s.Ridge[from:end])
		g.units[span.at].next += end - from
		from = end
	}
	s.Rows, to.Rows = to.Rows, s.Rows
	s.X, to.X = to.X, s.X
	s.Basis, to.Basis = to.Basis, s.Basis
	s.Ridge, to.Ridge = to.Ridge, s.Ridge
}

// Row returns the row of a feature by its place in the event.
func (g *arrangement) Row(feature int) int {
	if !g.mixed {
		return feature
	}
	if len(g.moved) == 0 {
		g.move()
	}
	return int(g.moved[feature])
}

// move finds the row of each feature.
func (g *arrangement) move() {
	for i := range g.units {
		g.units[i].next = g.units[i].at
	}
	for _, span := range g.spans {
		for u := &g.units[span.at]; len(g.moved) < span.end; u.next++ {
			g.moved = append(g.moved, int32(u.next))
		}
	}
}

// Draw appends to last, for each row of a feature, the last point that it survives where
// groups die: those before its group does, or the first of two groups. draw draws a point.
func (g *arrangement) Draw(last []int8, draw func() int8) []int8 {
	for i := range g.units {
		if g.units[i].kind == grouped {
			g.units[i].last = draw()
		}
	}
	for i := range g.units {
		if u := &g.units[i]; u.kind == paired {
			u.last = min(g.units[u.parents[0]].last, g.units[u.parents[1]].last)
		} else if u.kind == curved {
			u.last = g.units[u.parents[0]].last
		}
	}
	for _, p := range g.parts {
		for range p.to - p.from {
			if p.kind == alone {
				last = append(last, draw())
			} else {
				last = append(last, g.units[p.unit].last)
			}
		}
	}
	return last
}

// Curves yields the rows, from one to before another, of each number with a curve.
func (g *arrangement) Curves(yield func(from, to int) bool) {
	for _, p := range g.parts {
		if p.kind == curved && !yield(p.from, p.to) {
			return
		}
	}
}

// Together gives all columns of a number with a curve what its first one has.
func (g *arrangement) Together(last []int8) {
	for from, to := range g.Curves {
		for i := from + 1; i < to; i++ {
			last[i] = last[from]
		}
	}
}
