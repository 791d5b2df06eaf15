package model

// This file defines the groups of features that die together.

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// Grouping maps the features of a Schema to units that die together under GroupDropout. A unit is a group, or a pair of
// groups for the product of two fields of different groups. A pair dies if one of its groups dies. The group of a named
// field is Field.Group. Without Field.Group the field is its own group, together with all fields of the same name. The
// group of a column of the anonymous field is defined by Schema.ColumnGroups; without them the anonymous field is one
// group.
//
// Units are numbered from 0 in the order in which Of sees them. Call Follow when the Schema grows. A Grouping belongs
// to one goroutine.
type Grouping struct {
	schema  *event.Schema
	fields  []int32          // unit of each field id
	columns []int32          // for columns of the anonymous field below denseColumns: unit + 1, 0 if not seen yet
	sparse  map[uint32]int32 // unit of each larger column of the anonymous field
	units   []unit
	byName  map[string]int32
}

// unit is one group (a and b are -1) or the pair of the groups a and b.
type unit struct {
	name string
	a, b int32
}

// NewGrouping returns the Grouping of a Schema.
func NewGrouping(s *event.Schema) *Grouping {
	return &Grouping{schema: s, sparse: map[uint32]int32{}, byName: map[string]int32{}}
}

// Declared reports whether there are named groups, so that some fields share a group.
func (g *Grouping) Declared() bool {
	return g.schema.ColumnGroups != nil || slices.ContainsFunc(g.schema.Fields, func(f event.Field) bool { return f.Group != "" })
}

// Follow replaces the Schema by a later version.
func (g *Grouping) Follow(s *event.Schema) { g.schema = s }

// ErrNoGroups reports that nothing defines which features die together.
var ErrNoGroups = errors.New("the examples have no fields, so their groups are unknown: name them with --groups every:8 or --groups FILE (record.groups)")

// Check returns ErrNoGroups if there are no fields, so that all features are in one group.
func (g *Grouping) Check() error {
	if g.schema.ColumnGroups == nil && len(g.schema.Fields) < 2 {
		return ErrNoGroups
	}
	return nil
}

// Of returns the unit of a feature, given its field and column. If the event was decoded with a later Schema, a field
// that this Schema does not have counts as the anonymous field.
func (g *Grouping) Of(field uint16, column uint32) int32 {
	if int(field) >= len(g.schema.Fields) {
		field = 0
	}
	if field == 0 && g.schema.ColumnGroups != nil {
		return g.ofColumn(column)
	}
	if int(field) >= len(g.fields) {
		g.follow(int(field))
	}
	return g.fields[field]
}

// Len returns the number of units so far.
func (g *Grouping) Len() int { return len(g.units) }

// Pair returns the two groups of a unit, and whether it is a pair.
func (g *Grouping) Pair(unit int32) (a, b int32, ok bool) {
	u := g.units[unit]
	return u.a, u.b, u.a >= 0
}

// Name returns the name of a unit.
func (g *Grouping) Name(unit int32) string { return g.units[unit].name }

// Met reports whether Of has seen a feature of the group with the given name.
func (g *Grouping) Met(name string) bool {
	_, ok := g.byName[name]
	return ok
}

// Restore calls Of for all features of the Schema's fields. If the Schema groups columns, it also calls Of for the
// columns of t.
func (g *Grouping) Restore(t *Table) {
	g.follow(len(g.schema.Fields) - 1)
	if g.schema.ColumnGroups == nil {
		return
	}
	for slot := range t.Len() {
		if column, _ := t.Column(slot); column < FirstBasisColumn {
			g.ofColumn(column)
		}
	}
}

// Hash returns a number that depends only on the name of a unit, so that random draws are equal under every Schema with
// that unit.
func (g *Grouping) Hash(unit int32) uint64 {
	h := fnv.New64a()
	h.Write([]byte(g.units[unit].name)) // Write never fails
	return h.Sum64()
}

// covariances returns the covariance under n of each part w_d x_d with the score, given the units of the features. The
// sum of the covariances is the score's variance.
func (g *Grouping) covariances(n loss.GroupDropout, units []int32, parts []float64) []float64 {
	sum := make([]float64, g.Len()) // sums by unit; the sum of a group includes its pairs
	for i, u := range units {
		sum[u] += parts[i]
		if a, b, pair := g.Pair(u); pair {
			sum[a] += parts[i]
			sum[b] += parts[i]
		}
	}
	out := make([]float64, len(parts))
	for i, u := range units {
		r, rg := n.Odds(g.Name(u))
		together, own := rg*sum[u], r*(1+rg)
		if a, b, pair := g.Pair(u); pair {
			_, ra := n.Odds(g.Name(a))
			_, rb := n.Odds(g.Name(b))
			together, own = ra*sum[a]+rb*sum[b]+ra*rb*sum[u], r*(1+ra)*(1+rb)
		}
		out[i] = parts[i] * (together + own*parts[i])
	}
	return out
}

// denseColumns is the number of columns that a Grouping keeps in an array. The array grows with the largest column.
const denseColumns = 1 << 20

func (g *Grouping) ofColumn(column uint32) int32 {
	switch {
	case int(column) < len(g.columns):
		if u := g.columns[column]; u > 0 {
			return u - 1
		}
	case column < denseColumns:
		g.columns = append(g.columns, make([]int32, int(column)+1-len(g.columns))...)
	default:
		u, ok := g.sparse[column]
		if !ok {
			u = g.group(g.columnName(column))
			g.sparse[column] = u
		}
		return u
	}
	u := g.group(g.columnName(column))
	g.columns[column] = u + 1
	return u
}

// columnName returns the name of the group of a column in the anonymous field.
func (g *Grouping) columnName(column uint32) string {
	c := g.schema.ColumnGroups
	for _, n := range c.Named {
		for _, s := range n.Spans {
			if s.From <= column && column < s.To {
				return n.Name
			}
		}
	}
	base := uint64(1)
	if g.schema.ZeroBased {
		base = 0
	}
	if c.Every > 1 {
		from := uint64(column - column%c.Every)
		return fmt.Sprintf("%d-%d", from+base, from+uint64(c.Every)-1+base)
	}
	return strconv.FormatUint(uint64(column)+base, 10)
}

// follow assigns units to the Schema's fields up to the one with this id.
func (g *Grouping) follow(id int) {
	for len(g.fields) <= id {
		f := g.schema.Fields[len(g.fields)]
		a, b := f.GroupName(), f.GroupName()
		if f.Kind == event.Cross {
			a, b = g.parents(f)
		}
		u := g.group(a)
		if a != b {
			u = g.pair(u, g.group(b))
		}
		g.fields = append(g.fields, u)
	}
}

// parents returns the names of the groups of the two factors of a product.
func (g *Grouping) parents(f event.Field) (a, b string) {
	for _, pair := range g.schema.Crosses {
		if pair[0]+"^"+pair[1] != f.Name {
			continue
		}
		for i, name := range pair {
			for _, parent := range g.schema.Fields {
				if parent.Name == name && parent.Kind != event.Cross {
					pair[i] = parent.GroupName()
				}
			}
		}
		return pair[0], pair[1]
	}
	return f.GroupName(), f.GroupName() // the Schema lacks the factors of this product
}

func (g *Grouping) group(name string) int32 {
	u, ok := g.byName[name]
	if !ok {
		u = g.add(unit{name, -1, -1})
		g.byName[name] = u
	}
	return u
}

func (g *Grouping) pair(a, b int32) int32 {
	a, b = min(a, b), max(a, b)
	for i, u := range g.units {
		if u.a == a && u.b == b {
			return int32(i)
		}
	}
	return g.add(unit{g.units[a].name + "^" + g.units[b].name, a, b})
}

func (g *Grouping) add(u unit) int32 {
	g.units = append(g.units, u)
	return int32(len(g.units) - 1)
}
