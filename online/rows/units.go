package rows

// This file finds the units of an event's features, and orders features by unit.

import (
	"slices"

	"blankout/internal/model"
)

// arrangement holds the units of an event, and an order of its rows in which the rows of each unit are consecutive. It
// is a part of Groups.
type arrangement struct {
	grouping *model.Grouping
	Grouped  bool // a level has noise of groups; otherwise all features without splines are one unit
	summed   bool // every feature is in a unit that has a sum

	// For the current event:
	slot       []int32    // by unit: 1 + its index in units, 0 if it is not in the event
	splineSlot []int32    // the same by spline
	units      []unitPart // units of the event, in the order of its features
	spans      []unitSpan // units of consecutive features, in the order of the event
	fields     []uint16   // fields of the columns, for an event without dense columns
	parts      []unitRun  // units of consecutive rows
	mixed      bool       // the rows have another order than the features
	moved      []int32    // if mixed: row of each feature, computed on request

	spare Event // memory for the reordered rows
}

// unitKind is which formula of Groups applies to the features of a unit.
type unitKind int

const (
	alone   unitKind = iota // the only feature of a group that is in no product
	grouped                 // of a group with several features
	paired                  // of a pair of groups
	splined                 // of a number with a spline
	unitKinds
)

// unitPart is a unit of the current event.
type unitPart struct {
	unit    int32 // key of the unit, or index of the spline; -1 for all features if there are no groups
	kind    unitKind
	parents [2]int32 // indices in units of a pair's groups, or of a spline's group (first); -1 for none
	parent  bool     // it is a group of a pair or of a spline
	count   int      // number of features
	at      int      // index of its first row
	next    int      // index of its next row, while features are ordered
}

// unitSpan is a sequence of features that belong to one unit. It ends before the index end.
type unitSpan struct {
	end int
	at  int32 // index of the unit
}

// unitRun is a sequence of rows of one unit, or of features that are alone in their units.
type unitRun struct {
	from, to int
	kind     unitKind
	unit     int // index of the unit, for kinds that have sums
}

// parented reports whether the field parents is set.
func (u *unitPart) parented() bool { return u.kind == paired || u.kind == splined }

// arrange finds the units for Groups.Arrange.
func (g *arrangement) arrange(s *Event, fields []uint16, columns []uint32, splines *model.Splines) {
	g.units, g.spans = g.units[:0], g.spans[:0]
	if splines != nil || !g.Grouped {
		g.arrangeSplines(fields, columns, splines)
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

// arrangeSplines is arrange for events in which numbers may have splines.
func (g *arrangement) arrangeSplines(fields []uint16, columns []uint32, splines *model.Splines) {
	var with []uint32 // the remaining columns that have splines
	if splines != nil {
		with = splines.Columns
		for len(g.splineSlot) < len(with) {
			g.splineSlot = append(g.splineSlot, 0)
		}
	}
	rest := int32(-1)
	for i := 0; i < len(columns); i++ {
		column, spline := columns[i], -1
		if column >= model.FirstBasisColumn {
			spline = splines.Of(column)
		} else {
			for len(with) > 0 && with[0] < column {
				with = with[1:]
			}
			if len(with) > 0 && with[0] == column {
				spline = len(splines.Columns) - len(with)
			}
		}
		if spline < 0 && !g.Grouped { // for texts: takes all features up to the next spline at once
			end := uint32(model.FirstBasisColumn)
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
		if spline >= 0 && g.splineSlot[spline] > 0 {
			g.join(i, 1, g.splineSlot[spline]-1)
			continue
		}
		unit, field := int32(-1), uint16(0)
		if g.Grouped {
			if i < len(fields) {
				field = fields[i]
			}
			unit = g.grouping.Of(field, splines.Source(column))
		}
		switch {
		case spline >= 0:
			u := unitPart{unit: int32(spline), kind: splined, parents: [2]int32{-1, -1}}
			if g.Grouped {
				u.parents[0] = g.place(unit)
				g.units[u.parents[0]].parent = true
			}
			g.units = append(g.units, u)
			g.splineSlot[spline] = int32(len(g.units))
			g.join(i, 1, int32(len(g.units)-1))
		default:
			g.join(i, 1, g.place(unit))
		}
	}
}

// join adds n features, starting at feature i, to the unit with index at.
func (g *arrangement) join(i, n int, at int32) {
	g.units[at].count += n
	if last := len(g.spans) - 1; last >= 0 && g.spans[last].at == at {
		g.spans[last].end = i + n
	} else {
		g.spans = append(g.spans, unitSpan{i + n, at})
	}
}

// place returns the index in units of a unit. If the unit is new, place adds it.
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

// pairs finds the groups to which the event's pairs belong, because such a group may have no other features. It also
// finds the units with a single feature.
func (g *arrangement) pairs() {
	for i := 0; i < len(g.units); i++ { // the loop appends groups
		if g.units[i].kind != grouped {
			continue
		}
		a, b, pair := g.grouping.Pair(g.units[i].unit)
		if !pair {
			continue
		}
		if g.grouping.Name(a) > g.grouping.Name(b) {
			a, b = b, a // a restart may change the order of the groups' numbers
		}
		parents := [2]int32{g.place(a), g.place(b)}
		g.units[i].kind, g.units[i].parents = paired, parents
		for _, p := range parents {
			g.units[p].parent = true
		}
	}
	for i := range g.units {
		switch u := &g.units[i]; {
		case u.kind == splined:
			g.splineSlot[u.unit] = 0
		case u.unit < 0:
		default:
			g.slot[u.unit] = 0
			if u.kind == grouped && u.count == 1 && !u.parent && !g.summed {
				u.kind = alone
			}
		}
	}
}

// order assigns rows to units, and moves the rows that are in another order.
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

// Row returns the index of the row of a feature of the event.
func (g *arrangement) Row(feature int) int {
	if !g.mixed {
		return feature
	}
	if len(g.moved) == 0 {
		g.move()
	}
	return int(g.moved[feature])
}

// move computes the index of the row of each feature.
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
