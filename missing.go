package blankout

// This file decides what is known to be missing from an event, and what its score then is.

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// MissingRule says what counts for how much in an event that is known to lack
// some of its fields.
type MissingRule string

const (
	// MissingAuto is whichever of the others the model has measured to be better.
	MissingAuto MissingRule = "auto"
	// MissingAsIs lets the fields that are left count as they always do. What is
	// missing adds nothing to a score: a standardised number is then its mean.
	MissingAsIs MissingRule = "as-is"
	// MissingRescale multiplies what is left by 1/(1 - share missing), so that it
	// keeps its weight against the intercept.
	MissingRescale MissingRule = "rescale"
)

// ParseMissingRule reads auto, as-is or rescale.
func ParseMissingRule(s string) (MissingRule, error) {
	switch r := MissingRule(s); r {
	case MissingAuto, MissingAsIs, MissingRescale:
		return r, nil
	case "fill":
		return "", fmt.Errorf("missing %q: this program cannot fill in missing values; want auto, as-is or rescale", s)
	}
	return "", fmt.Errorf("missing %q: want auto, as-is or rescale", s)
}

// missingSure is by how many standard errors the other rule must be better.
const missingSure = 2

// Better returns the rule that has proved better, or r itself in doubt. It gets the
// sums over events of the difference of log-loss, rescaled less as is, and of its
// square.
func (r MissingRule) Better(sum, squares float64) MissingRule {
	switch sure := missingSure * math.Sqrt(squares); {
	case sum > sure:
		return MissingAsIs
	case sum < -sure:
		return MissingRescale
	}
	return r
}

// MissingBins is the number of ranges of the share of an event's fields that is
// missing, each of which has a rule: up to 0.1, 0.3, 0.5, 0.7, and above.
const MissingBins = 5

// MissingBin returns the range that a share is in.
func MissingBin(share float64) int {
	bin := 0
	for _, edge := range [MissingBins - 1]float64{0.1, 0.3, 0.5, 0.7} {
		if share > edge {
			bin++
		}
	}
	return bin
}

// MissingRules holds a rule for each range of the share that is missing.
type MissingRules [MissingBins]MissingRule

// Missing says which fields of an event are known to be missing, and what its
// score then is. It is the one place that decides this, for learning,
// forecasts, validations and predictions alike.
//
// A field is known to be missing where it is null, or where it is a named field
// that is left out, unless that is what it usually is. In bags of words and in the
// sparse text formats what is left out is not said, or 0: that is never missing, but
// for the columns that Schema.Known is about.
//
// The nil Missing, of models whose file says nothing, takes every null as missing
// and nothing else, and scores as is. A Missing is immutable.
type Missing struct {
	// Null is for the fields that are null, by the share of the event's fields that
	// they are; Absent is for those that are left out.
	Null   MissingRules `json:"null"`
	Absent MissingRules `json:"absent"`
	// Usual lists, in ascending order, the fields that are missing where they are
	// left out; UsuallyNull those that are not missing where they are null.
	Usual       []uint16 `json:"usual,omitempty"`
	UsuallyNull []uint16 `json:"usually_null,omitempty"`
	// Also lists fields of several kinds, as (later id, first id) of one name: one
	// of them stands for all. An event names the first where it says null.
	Also [][2]uint16 `json:"also,omitempty"`
	// Known is that of the Schema. Columns then lists, in ascending order, the columns of
	// a sparse text format that are missing where they are left out.
	Known   bool     `json:"known,omitempty"`
	Columns []uint32 `json:"columns,omitempty"`

	usual FieldSet // the same as Usual
}

// DefaultMissingRules rescales at every share: that is right for weights that
// were learned as if features went missing, until there is evidence.
func DefaultMissingRules() MissingRules {
	return MissingRules{MissingRescale, MissingRescale, MissingRescale, MissingRescale, MissingRescale}
}

// NewMissing returns a Missing that owns its arguments.
func NewMissing(null, absent MissingRules, usual, usuallyNull []uint16, also [][2]uint16) *Missing {
	m := &Missing{Null: null, Absent: absent, Usual: usual, UsuallyNull: usuallyNull, Also: also}
	m.index()
	return m
}

func (m *Missing) index() {
	if n := len(m.Usual); n > 0 {
		m.usual = NewFieldSet(int(slices.Max(m.Usual)) + 1)
		m.usual.Add(m.Usual)
	}
}

// UnmarshalJSON reads a Missing and checks it.
func (m *Missing) UnmarshalJSON(data []byte) error {
	type plain Missing
	if err := json.Unmarshal(data, (*plain)(m)); err != nil {
		return err
	}
	for _, rules := range []MissingRules{m.Null, m.Absent} {
		for _, r := range rules {
			if r != MissingAsIs && r != MissingRescale {
				return fmt.Errorf("missing: rule %q: want as-is or rescale", r)
			}
		}
	}
	if !slices.IsSorted(m.Columns) {
		return fmt.Errorf("missing: the columns are not in ascending order")
	}
	m.index()
	return nil
}

// WithRules returns m with other rules.
func (m *Missing) WithRules(null, absent MissingRules) *Missing {
	if m == nil {
		return NewMissing(null, absent, nil, nil, nil)
	}
	with := *m
	with.Null, with.Absent = null, absent
	return &with
}

// Forced returns m with one rule for everything, m itself for MissingAuto.
func (m *Missing) Forced(rule MissingRule) *Missing {
	if rule == MissingAuto || rule == "" {
		return m
	}
	all := MissingRules{rule, rule, rule, rule, rule}
	return m.WithRules(all, all)
}

// Lack counts the fields of an event. Products of fields are none.
type Lack struct {
	Null, Absent float64 // known to be missing
	// Named are those present whose absence would be known, Silent the others:
	// bags of words, and the namespaces of a sparse text format. Where Schema.Known is
	// about an event its features are counted, and not fields.
	Named, Silent float64
}

// Some says whether anything is known to be missing.
func (k Lack) Some() bool { return k.Null+k.Absent > 0 }

// Struck returns what k is after a share of the named fields has become null.
func (k Lack) Struck(share float64) Lack {
	k.Null += share * k.Named
	k.Named *= 1 - share
	return k
}

// Scale returns by what the features of an event are multiplied that lacks k: 1,
// or by the rule for its share 1/(1 - share missing).
func (m *Missing) Scale(k Lack) float64 {
	present := k.Named + k.Silent
	if m == nil || present <= 0 { // without fields it is the intercept alone
		return 1
	}
	lost := 0.0
	if k.Null > 0 && m.Null[MissingBin(k.Null/(k.Null+present))] == MissingRescale {
		lost += k.Null
	}
	if k.Absent > 0 && m.Absent[MissingBin(k.Absent/(k.Absent+present))] == MissingRescale {
		lost += k.Absent
	}
	return 1 + lost/present
}

// Growth returns by what share of itself Scale grows where one more of the named fields
// of an event that lacks k becomes null.
func (m *Missing) Growth(k Lack) float64 {
	present := k.Named + k.Silent
	if m == nil || present <= 0 {
		return 0
	}
	scale := m.Scale(k)
	grows := scale - 1 // what is lost is shared by fewer
	if m.Null[MissingBin(k.Null/(k.Null+present))] == MissingRescale {
		grows++
	}
	return grows / (scale * present)
}

// Lack counts the fields of an event of a Schema with these fields. It uses the
// set given, which has room for them, and leaves the fields present in it.
func (m *Missing) Lack(fields []Field, e *Example, present FieldSet) (k Lack) {
	for i := range present {
		present[i] = 0
	}
	if m != nil && m.Known && e.IsSparse(fields) {
		return m.lackOfColumns(fields, e)
	}
	if e.Field == nil && e.Features.Len() > 0 {
		return k // a sparse text format without fields
	}
	present.Add(e.Field)
	if m != nil {
		for _, a := range m.Also {
			if present.Has(a[0]) {
				present.remove(a[0])
				present.Add(a[1:])
			}
		}
	}
	if len(e.Missing) == 0 && (m == nil || m.usual.within(present)) {
		return k // the usual case: the fields present need no counting
	}
	for _, id := range e.Missing {
		switch {
		case int(id) >= len(fields) || present.Has(id):
		case m == nil:
			k.Null++
		default:
			if _, usually := slices.BinarySearch(m.UsuallyNull, id); !usually {
				k.Null++
			}
			if m.usual.Has(id) {
				k.Absent-- // it is one of those counted now
			}
		}
	}
	if m != nil {
		k.Absent += float64(m.usual.outside(present))
	}
	k.Named, k.Silent = present.Count(fields)
	return k
}

// Answer returns by what the features of an event are multiplied, and which rule
// says so: "" if nothing is known to be missing.
func (h *Head) Answer(e *Example) (scale float64, rule MissingRule) {
	if len(e.Missing) == 0 && (h.Missing == nil || len(h.Missing.Usual) == 0 && len(h.Missing.Columns) == 0) {
		return 1, ""
	}
	var some [16]uint64
	k := h.Missing.Lack(h.Schema.Fields, e, FieldSet(some[:]).Room(len(h.Schema.Fields)))
	if !k.Some() {
		return 1, ""
	}
	if scale = h.Missing.Scale(k); scale == 1 {
		return 1, MissingAsIs
	}
	return scale, MissingRescale
}

// Lack is that of Missing for an event under h's Schema, its fields counted in
// any case.
func (h *Head) Lack(e *Example) Lack {
	var some [16]uint64
	present := FieldSet(some[:]).Room(len(h.Schema.Fields))
	k := h.Missing.Lack(h.Schema.Fields, e, present)
	if k.Named == 0 { // they may not have been counted
		k.Named, k.Silent = present.Count(h.Schema.Fields)
	}
	return k
}

// MissingFields returns the names of the fields that are known to be missing
// from an event: those that are null, and those that are usual and left out. Of a sparse
// text format they are the names of columns.
func (h *Head) MissingFields(e *Example) (names []string) {
	fields, m := h.Schema.Fields, h.Missing
	if m != nil && len(m.Columns) > 0 && e.IsSparse(fields) {
		name := h.Schema.Namer()
		m.absentColumns(e, func(column uint32) { names = append(names, name(column)) })
		return names
	}
	present := NewFieldSet(len(fields))
	if k := m.Lack(fields, e, present); !k.Some() {
		return nil
	}
	missing := slices.Clone(e.Missing)
	if m != nil {
		missing = append(slices.DeleteFunc(missing, func(id uint16) bool {
			_, usually := slices.BinarySearch(m.UsuallyNull, id)
			return usually
		}), m.Usual...)
		slices.Sort(missing)
		missing = slices.Compact(missing)
	}
	for _, id := range missing {
		if int(id) < len(fields) && !present.Has(id) {
			names = append(names, fields[id].Name)
		}
	}
	return names
}

// FieldSet is a set of field ids.
type FieldSet []uint64

// NewFieldSet returns an empty set with room for the ids below n.
func NewFieldSet(n int) FieldSet { return make(FieldSet, (n+63)/64) }

// Room returns s, or a new set, with room for the ids below n.
func (s FieldSet) Room(n int) FieldSet {
	if n <= 64*len(s) {
		return s
	}
	return NewFieldSet(n)
}

// Add adds ids; those that it has no room for are left out.
func (s FieldSet) Add(ids []uint16) {
	if len(s) == 1 { // most streams have no more fields: a register will do
		w := s[0]
		for _, id := range ids {
			if id < 64 {
				w |= 1 << (id & 63)
			}
		}
		s[0] = w
		return
	}
	for _, id := range ids {
		if i := int(id >> 6); i < len(s) {
			s[i] |= 1 << (id & 63)
		}
	}
}

func (s FieldSet) remove(id uint16) { s[id>>6] &^= 1 << (id & 63) }

// Has says whether id is in the set.
func (s FieldSet) Has(id uint16) bool {
	return int(id>>6) < len(s) && s[id>>6]&(1<<(id&63)) != 0
}

// within says whether all of s is in t.
func (s FieldSet) within(t FieldSet) bool {
	for i, w := range s {
		if i >= len(t) || w&^t[i] != 0 {
			return i >= len(t) && w == 0
		}
	}
	return true
}

// outside counts what of s is not in t.
func (s FieldSet) outside(t FieldSet) (n int) {
	for i, w := range s {
		if i < len(t) {
			w &^= t[i]
		}
		n += bits.OnesCount64(w)
	}
	return n
}

// Each calls f with the ids in ascending order.
func (s FieldSet) Each(f func(id int)) {
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			f(i<<6 | bits.TrailingZeros64(w))
		}
	}
}

// Count counts the fields of a set: those whose absence would be known, and the
// others. Products of fields are none, and the anonymous field is neither.
func (s FieldSet) Count(fields []Field) (named, silent float64) {
	s.Each(func(id int) {
		switch {
		case id == 0 || id >= len(fields) || fields[id].Kind == Cross:
		case fields[id].Kind.Named():
			named++
		default:
			silent++
		}
	})
	return named, silent
}

// Named says whether the absence of a field of this kind can be known: of one
// number, string or truth value under a name.
func (k Kind) Named() bool { return k == Numeric || k == Categorical || k == Boolean }
