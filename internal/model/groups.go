package model

// This file says which columns die together.

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// Grouping tells which features of the events of a Schema die together under
// GroupDropout. Every feature has a unit: a group, or a pair of groups for the product
// of two fields of different groups, which dies with either. The group of a named field
// is Field.Group, else the field itself (its name, whatever its kinds); that of a column
// of the anonymous field is as Schema.ColumnGroups says, without them the anonymous
// field as a whole.
//
// Units are numbered from 0 in the order in which Of meets them, so that an array holds
// what belongs to each. A Grouping follows its Schema as it grows and belongs to one
// goroutine.
type Grouping struct {
	schema  *event.Schema
	fields  []int32          // unit by field id
	columns []int32          // 1 + unit by column of the anonymous field below denseColumns, 0 for one not met
	sparse  map[uint32]int32 // unit by column of the anonymous field from there on
	units   []unit
	byName  map[string]int32
}

// unit is a group, a and b being -1, or the pair of the groups a and b.
type unit struct {
	name string
	a, b int32
}

// NewGrouping returns the Grouping of a Schema.
func NewGrouping(s *event.Schema) *Grouping {
	return &Grouping{schema: s, sparse: map[uint32]int32{}, byName: map[string]int32{}}
}

// Declared says whether groups are named, so that not every field is one of its own.
func (g *Grouping) Declared() bool {
	return g.schema.ColumnGroups != nil || slices.ContainsFunc(g.schema.Fields, func(f event.Field) bool { return f.Group != "" })
}

// Follow gives g a later state of its Schema: the same, perhaps with more fields.
func (g *Grouping) Follow(s *event.Schema) { g.schema = s }

// ErrNoGroups says that nothing tells which features die together.
var ErrNoGroups = errors.New("nothing says which features die together, for the examples have no fields: say which columns do, with --groups every:8 or --groups FILE (record.groups)")

// Check returns ErrNoGroups if all features would be in one group for want of any fields.
func (g *Grouping) Check() error {
	if g.schema.ColumnGroups == nil && len(g.schema.Fields) < 2 {
		return ErrNoGroups
	}
	return nil
}

// Of returns the unit of a feature in this column that came from the field of this id.
// A field that the Schema does not have, of an event that was read under a newer one,
// counts as the anonymous field.
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

// Len returns how many units there are so far.
func (g *Grouping) Len() int { return len(g.units) }

// Pair returns the two groups of a unit that is a pair, and whether it is one.
func (g *Grouping) Pair(unit int32) (a, b int32, ok bool) {
	u := g.units[unit]
	return u.a, u.b, u.a >= 0
}

// Name returns the name of a unit.
func (g *Grouping) Name(unit int32) string { return g.units[unit].name }

// Met says whether a feature of the group of this name has been met.
func (g *Grouping) Met(name string) bool {
	_, ok := g.byName[name]
	return ok
}

// Hash returns a number that depends on the name of a unit alone: whatever draws
// random numbers from it draws the same under every Schema that knows the group.
func (g *Grouping) Hash(unit int32) uint64 {
	h := fnv.New64a()
	h.Write([]byte(g.units[unit].name)) // which never fails
	return h.Sum64()
}

// covariances returns for the parts w_d x_d of a score, of features of these units, the
// covariance of each with the score under n; their sum is the score's variance.
func (g *Grouping) covariances(n loss.GroupDropout, units []int32, parts []float64) []float64 {
	sum := make([]float64, g.Len()) // by group, with the pairs it is in, and by pair
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

// denseColumns bounds the columns that a Grouping keeps in an array: a single one may be
// any number, and the memory follows those that there are.
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

// columnName returns the name of the group of a column of the anonymous field.
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

// follow numbers the units of the Schema's fields up to the one of this id.
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

// parents returns the names of the groups of the two fields that a cross is made of.
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
	return f.GroupName(), f.GroupName() // of a Schema without its crosses
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
