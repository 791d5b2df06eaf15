package event

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// This file defines ColumnGroups, the groups of columns in sparse text formats.

// ColumnGroups defines which columns of a sparse text format fail together, for example all columns of a sensor. Such a
// format has no fields that could define groups. A column without a group fails alone.
type ColumnGroups struct {
	// Every divides the columns into groups of Every consecutive columns, from column 0 on. 0 means no such groups.
	Every uint32 `json:"every,omitempty"`
	// Named lists groups by name. A column in several groups belongs to the first.
	Named []NamedColumns `json:"named,omitempty"`
}

// NamedColumns is a named group of columns.
type NamedColumns struct {
	Name  string `json:"name"`
	Spans []Span `json:"spans"`
}

// Span is the range of columns From <= c < To.
type Span struct {
	From uint32 `json:"from"`
	To   uint32 `json:"to"`
}

// ParseSpans parses the column numbers of a sparse text format, for example 1-8,12. zeroBased means that these numbers
// start at 0.
func ParseSpans(s string, zeroBased bool) ([]Span, bool) {
	base := uint64(1)
	if zeroBased {
		base = 0
	}
	var spans []Span
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 32)
		to, err2 := strconv.ParseUint(last, 10, 32)
		if err1 != nil || err2 != nil || from < base || to < from || to-base+1 > math.MaxUint32 {
			return nil, false
		}
		spans = append(spans, Span{uint32(from - base), uint32(to - base + 1)})
	}
	return spans, true
}

// Find returns the columns of a named group.
func (g *ColumnGroups) Find(name string) ([]Span, bool) {
	if g == nil {
		return nil, false
	}
	if i := slices.IndexFunc(g.Named, func(n NamedColumns) bool { return n.Name == name }); i >= 0 {
		return g.Named[i].Spans, true
	}
	return nil, false
}

// String returns a text that two ColumnGroups share only if they define the same groups.
func (g *ColumnGroups) String() string {
	if g == nil {
		return ""
	}
	var s strings.Builder
	if g.Every > 0 {
		fmt.Fprintf(&s, "every:%d", g.Every)
	}
	for _, n := range g.Named {
		fmt.Fprintf(&s, "%q%v", n.Name, n.Spans)
	}
	return s.String()
}
