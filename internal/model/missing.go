package model

// This file decides what is known to be missing from an event, and what its score then is.

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"blankout/internal/event"
)

// MissingPolicy says what counts for how much in an event that is known to lack
// some of its fields.
type MissingPolicy string

const (
	// MissingAuto mixes the others by the shares that the model has measured.
	MissingAuto MissingPolicy = "auto"
	// MissingNone lets the fields that are left count as they always do. What is
	// missing adds nothing to a score: a standardized number is then its mean.
	MissingNone MissingPolicy = "none"
	// MissingRescale multiplies what is left by 1/(1 - share missing), so that it
	// keeps its weight against the intercept.
	MissingRescale MissingPolicy = "rescale"
	// MissingImpute tells the numbers that are missing from those that are left, by the
	// model's Covariance. It leaves missing fields of other kinds as they are.
	MissingImpute MissingPolicy = "impute"
)

// missingRules are those that a model mixes.
var missingPolicies = [3]MissingPolicy{MissingNone, MissingRescale, MissingImpute}

// MissingPolicyNames lists what ParseMissingPolicy reads.
func MissingPolicyNames() []string { return []string{"auto", "none", "rescale", "impute"} }

// ParseMissingPolicy reads one of MissingPolicyNames.
func ParseMissingPolicy(s string) (MissingPolicy, error) {
	if r := MissingPolicy(s); r == MissingAuto || slices.Contains(missingPolicies[:], r) {
		return r, nil
	}
	return "", fmt.Errorf("%q: want one of %s", s, strings.Join(MissingPolicyNames(), ", "))
}

// PolicyWeights holds by rule, in the order as is, rescale, fill, what share of a score it has.
type PolicyWeights [3]float64

// OnePolicy returns the shares that give a rule everything.
func OnePolicy(rule MissingPolicy) (s PolicyWeights) {
	s[slices.Index(missingPolicies[:], rule)] = 1
	return s
}

// Largest returns the rule with the largest share, the first of equal ones.
func (s PolicyWeights) Largest() MissingPolicy {
	best := 0
	for i := range s {
		if s[i] > s[best] {
			best = i
		}
	}
	return missingPolicies[best]
}

// Plain returns the shares where there is nothing to fill in: as is and rescale then count in
// proportion to their own.
func (s PolicyWeights) Plain() PolicyWeights {
	if plain := s[0] + s[1]; plain > 0 {
		return PolicyWeights{s[0] / plain, s[1] / plain, 0}
	}
	return PolicyWeights{1, 0, 0}
}

// valid says whether s are shares.
func (s PolicyWeights) valid() bool {
	for _, x := range s {
		if !(x >= 0 && x <= 1) {
			return false
		}
	}
	return math.Abs(s[0]+s[1]+s[2]-1) < 1e-6
}

// MissingBins is the number of ranges of the share of an event's fields that is
// missing, each of which has shares of the rules: up to each of the MissingEdges, and above.
const MissingBins = 6

// MissingEdges are the shares at which one range ends, itself included.
var MissingEdges = [MissingBins - 1]float64{0.1, 0.3, 0.5, 0.7, 0.85}

// MissingBin returns the range that a share is in.
func MissingBin(share float64) int {
	bin := 0
	for _, edge := range MissingEdges {
		if share > edge {
			bin++
		}
	}
	return bin
}

// MissingPolicies holds the shares of the rules for each range of the share that is missing.
type MissingPolicies [MissingBins]PolicyWeights

// EveryRange returns the MissingPolicies that are the same at every share.
func EveryRange(rule MissingPolicy) (r MissingPolicies) {
	for bin := range r {
		r[bin] = OnePolicy(rule)
	}
	return r
}

// Missing says which fields of an event are known to be missing, and what its
// score then is. It is the one place that decides this, for learning,
// forecasts, validations and predictions alike.
//
// A field is known to be missing where it is null, or where it is a named field
// that is left out, unless that is what it usually is. In bags of words and in the
// sparse text formats what is left out is not said, or 0: that is never missing, but
// where the Schema says that columns go missing (event.AbsentMissing).
//
// The nil Missing, of models whose file says nothing, takes every null as missing
// and nothing else, and scores as is. A Missing is immutable.
type Missing struct {
	// Policies has the weights of the policies in a score, by the fraction of the event's fields that
	// is missing: null or left out.
	Policies MissingPolicies `json:"policies"`
	// Usual lists, in ascending order, the fields that are missing where they are
	// left out; UsuallyNull those that are not missing where they are null.
	Usual       []uint16 `json:"usual,omitempty"`
	UsuallyNull []uint16 `json:"usually_null,omitempty"`
	// Also lists fields of several kinds, as (later id, first id) of one name: one
	// of them stands for all. An event names the first where it says null.
	Also [][2]uint16 `json:"also,omitempty"`
	// Known says that of the Schema columns go missing. Columns then lists, in ascending order, the columns of
	// a sparse text format that are missing where they are left out.
	Known   bool     `json:"known,omitempty"`
	Columns []uint32 `json:"columns,omitempty"`
	// Zeros lists, in ascending order, the columns of a table in a sparse text format, none of the
	// Columns, that are present and 0 where they are left out and not declared missing.
	Zeros []uint32 `json:"zeros,omitempty"`
	// Levels says by range of the share that is missing, null or left out, which weights
	// answer: 0 those of the Head itself, i those of Head.Levels[i-1]. Nil is 0 everywhere.
	Levels []int `json:"levels,omitempty"`

	usual, usuallyNull FieldSet // the same as Usual and UsuallyNull
}

// DefaultMissingPolicies rescales at every share: that is right for weights that
// were learned as if features went missing, until there is evidence.
func DefaultMissingPolicies() MissingPolicies { return EveryRange(MissingRescale) }

// NewMissing returns a Missing that owns its arguments.
func NewMissing(rules MissingPolicies, usual, usuallyNull []uint16, also [][2]uint16) *Missing {
	m := &Missing{Policies: rules, Usual: usual, UsuallyNull: usuallyNull, Also: also}
	m.index()
	return m
}

func (m *Missing) index() { m.usual, m.usuallyNull = setOf(m.Usual), setOf(m.UsuallyNull) }

func setOf(ids []uint16) FieldSet {
	if len(ids) == 0 {
		return nil
	}
	s := NewFieldSet(int(slices.Max(ids)) + 1)
	s.Add(ids)
	return s
}

// UnmarshalJSON reads a Missing and checks it.
func (m *Missing) UnmarshalJSON(data []byte) error {
	type plain Missing
	if err := json.Unmarshal(data, (*plain)(m)); err != nil {
		return err
	}
	for _, shares := range m.Policies {
		if !shares.valid() {
			return fmt.Errorf("missing: %v are no shares of the rules", shares)
		}
	}
	if m.Levels != nil && len(m.Levels) != MissingBins {
		return fmt.Errorf("missing: %d levels for %d ranges", len(m.Levels), MissingBins)
	}
	if !slices.IsSorted(m.Columns) || !slices.IsSorted(m.Zeros) {
		return fmt.Errorf("missing: the columns are not in ascending order")
	}
	m.index()
	return nil
}

// WithPolicies returns m with other rules.
func (m *Missing) WithPolicies(rules MissingPolicies) *Missing {
	if m == nil {
		return NewMissing(rules, nil, nil, nil)
	}
	if m.Policies == rules {
		return m
	}
	with := *m
	with.Policies = rules
	return &with
}

// WithLevels returns m with other Levels, which it owns.
func (m *Missing) WithLevels(levels []int) *Missing {
	with := *m
	with.Levels = levels
	return &with
}

// WithZeros returns m with other Zeros: columns in ascending order, those of the Columns left out.
func (m *Missing) WithZeros(columns []uint32) *Missing {
	with := *m
	with.Zeros = nil
	for _, column := range columns {
		if _, usual := slices.BinarySearch(m.Columns, column); !usual {
			with.Zeros = append(with.Zeros, column)
		}
	}
	return &with
}

// ReadsZero says whether a column is one of the Zeros.
func (m *Missing) ReadsZero(column uint32) bool {
	if m == nil {
		return false
	}
	_, zero := slices.BinarySearch(m.Zeros, column)
	return zero
}

// Forced returns m with one rule for everything, m itself for MissingAuto. The Levels stay
// what they are.
func (m *Missing) Forced(rule MissingPolicy) *Missing {
	if rule == MissingAuto || rule == "" {
		return m
	}
	return m.WithPolicies(EveryRange(rule))
}

// Lack counts the fields of an event, without products of fields.
type Lack struct {
	Null, Absent float64 // known to be missing
	// Named are those present whose absence would be known, Silent the others:
	// bags of words, and the namespaces of a sparse text format. Where the Schema says
	// that columns go missing, an event its features are counted, and not fields.
	Named, Silent float64
}

// Some says whether anything is known to be missing.
func (k Lack) Some() bool { return k.Null+k.Absent > 0 }

// Share returns what share of all that could be there is missing, null or left out.
func (k Lack) Share() float64 { return (k.Null + k.Absent) / (k.Null + k.Absent + k.Named + k.Silent) }

// Deleted returns what k is after a share of the named fields has become null.
func (k Lack) Deleted(share float64) Lack {
	k.Null += share * k.Named
	k.Named *= 1 - share
	return k
}

// shares returns what share of the score each rule has for an event that lacks k.
func (m *Missing) shares(k Lack) PolicyWeights {
	if m == nil || !k.Some() {
		return PolicyWeights{1, 0, 0}
	}
	return m.Policies[MissingBin(k.Share())]
}

// Fill says whether numbers are filled in at some share.
func (m *Missing) Fill() bool {
	return slices.ContainsFunc(m.Policies[:], func(s PolicyWeights) bool { return s[2] > 0 })
}

// Plain returns m without filling in: the other rules then count in proportion to their shares.
func (m *Missing) Plain() *Missing {
	rules := m.Policies
	for bin := range rules {
		rules[bin] = rules[bin].Plain()
	}
	return m.WithPolicies(rules)
}

// Fills returns what share of the score filling in has for an event that lacks k.
func (m *Missing) Fills(k Lack) float64 { return m.shares(k)[2] }

// Scale returns what the features of an event that lacks k are multiplied by where nothing is
// filled in: 1, or more by the share that rescaling by 1/(1 - share missing) has.
func (m *Missing) Scale(k Lack) float64 {
	return scale(m.shares(k).Plain(), k)
}

func scale(s PolicyWeights, k Lack) float64 {
	if present := k.Named + k.Silent; present > 0 { // without fields it is the intercept alone
		return 1 + s[1]*(k.Null+k.Absent)/present
	}
	return 1
}

// Growth returns by what share of itself Scale grows where one more of the named fields
// of an event that lacks k becomes null.
func (m *Missing) Growth(k Lack) float64 {
	present := k.Named + k.Silent
	if m == nil || present <= 0 {
		return 0
	}
	rescaled := m.shares(k).Plain()[1]
	scale := m.Scale(k)
	return (scale - 1 + rescaled) / (scale * present) // what is lost is shared by fewer
}

// Lack counts the fields of an event of a Schema with these fields. It uses the
// set given, which has room for them, and leaves the fields present in it.
func (m *Missing) Lack(fields []event.Field, e *event.Example, present FieldSet) (k Lack) {
	for i := range present {
		present[i] = 0
	}
	if m != nil && m.Known && e.IsSparse(fields) || e.Field == nil && len(e.MissingColumns) > 0 {
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
	var room [16]uint64
	null := FieldSet(room[:]).Room(len(fields))
	null.Add(e.Missing)
	for i, w := range null[:min(len(null), (len(fields)+63)/64)] {
		if w &^= present.word(i); (i+1)*64 > len(fields) {
			w &= 1<<(len(fields)&63) - 1
		}
		usually, usual := uint64(0), uint64(0)
		if m != nil {
			usually, usual = m.usuallyNull.word(i), m.usual.word(i)
		}
		k.Null += float64(bits.OnesCount64(w &^ usually))
		k.Absent -= float64(bits.OnesCount64(w & usual)) // they are among those counted now
	}
	if m != nil {
		k.Absent += float64(m.usual.outside(present))
	}
	k.Named, k.Silent = present.Count(fields)
	return k
}

// Answer says how an event is answered that is known to lack fields.
type Answer struct {
	// Shares are the weights of the policies, all 0 if nothing is known to be missing.
	Shares PolicyWeights
	// Scale is by what the features that the event holds are multiplied, over all rules.
	Scale float64
	// Parts says which columns of the model's Covariance are filled in; nil if none is. What
	// is filled in counts for the share of that rule.
	Parts Parts
	// Level says which weights answer, see Missing.Levels.
	Level int
	// Range is that of the share of the event's fields that is missing: 0 if none is, else one more
	// than MissingBin.
	Range int
}

// Policy returns the policy with the largest weight, "" if nothing is known to be missing.
func (a Answer) Policy() MissingPolicy {
	if a.Shares == (PolicyWeights{}) {
		return ""
	}
	return a.Shares.Largest()
}

// ByRule returns the shares above 0 by rule.
func (a Answer) ByPolicy() map[MissingPolicy]float64 {
	shares := make(map[MissingPolicy]float64)
	for i, share := range a.Shares {
		if share > 0 {
			shares[missingPolicies[i]] = share
		}
	}
	return shares
}

// Answer returns how an event is answered.
func (h *Head) Answer(e *event.Example) Answer {
	e = h.declared(e)
	if len(e.Missing)+len(e.MissingColumns) == 0 && (h.Missing == nil || len(h.Missing.Usual) == 0 && len(h.Missing.Columns) == 0) {
		return Answer{Scale: 1}
	}
	var some [16]uint64
	present := FieldSet(some[:]).Room(len(h.Schema.Fields))
	k := h.Missing.Lack(h.Schema.Fields, e, present)
	if !k.Some() {
		return Answer{Scale: 1}
	}
	var parts Parts
	if h.Covariance != nil && h.Missing.Fills(k) > 0 {
		parts = h.Parts(e, present, nil)
	}
	return h.Missing.Answer(k, parts)
}

// Answer returns how an event is answered that lacks k, of which these parts can be filled in.
func (m *Missing) Answer(k Lack, parts Parts) Answer {
	a := Answer{Shares: m.shares(k), Parts: parts}
	if parts == nil {
		if a.Shares = a.Shares.Plain(); k.Named+k.Silent <= 0 { // there is nothing to rescale
			a.Shares = PolicyWeights{1, 0, 0}
		}
	}
	a.Scale = scale(a.Shares, k)
	if !k.Some() {
		a.Shares = PolicyWeights{}
		return a
	}
	if a.Range = 1 + MissingBin(k.Share()); m != nil && m.Levels != nil {
		a.Level = m.Levels[a.Range-1]
	}
	return a
}

// Parts says which columns of the Covariance an event holds, and which are filled in: those of
// fields that are null, and of fields that are left out although usual. present are its fields.
// It is nil where none is filled in, else in the memory of room where that is large enough.
func (h *Head) Parts(e *event.Example, present FieldSet, room Parts) Parts {
	if parts, some := h.AllParts(e, present, room); some {
		return parts
	}
	return nil
}

// AllParts is Parts for a caller that wants to know of an event of which none is filled in, too.
func (h *Head) AllParts(e *event.Example, present FieldSet, room Parts) (parts Parts, some bool) {
	c, m := h.Covariance, h.Missing
	parts = slices.Grow(room[:0], len(c.Columns))[:len(c.Columns)]
	var words [16]uint64
	null := FieldSet(words[:]).Room(len(h.Schema.Fields))
	null.Add(e.Missing)
	if m != nil {
		for i := range m.usuallyNull[:min(len(m.usuallyNull), len(null))] {
			null[i] &^= m.usuallyNull[i]
		}
	}
	for i, id := range c.Fields {
		part := byte(Apart)
		switch {
		case id == 0 && e.LacksColumn(c.Columns[i]):
			part = Filled
		case id == 0 && (m == nil || !m.Known || hasColumn(e, c.Columns[i]) || m.ReadsZero(c.Columns[i])):
			part = Observed // left out it is 0
		case id == 0:
			if _, usual := slices.BinarySearch(m.Columns, c.Columns[i]); usual {
				part = Filled
			}
		case present.Has(id):
			part = Observed
		case null.Has(id), m != nil && m.usual.Has(id):
			part = Filled
		}
		parts[i], some = part, some || part == Filled
	}
	return parts, some
}

// Delete sets left to what is left of an event of which some features have died, and to
// what is then known to be missing. x are its features as ScoreVec takes them, field
// those of their fields (see Example.FieldsOf), dead says which have died. A field that
// has lost everything is null; features of a sparse text format are missing if that is
// declared. It keeps the memory of left.
func (h *Head) Delete(e *event.Example, x event.Vec, field []uint16, dead []bool, declared bool, left *event.Example) {
	e = h.declared(e)
	left.Field, left.Missing, left.MissingColumns, left.Declared = left.Field[:0], append(left.Missing[:0], e.Missing...), left.MissingColumns[:0], true
	kept, sparse := &left.Features, e.IsSparse(h.Schema.Fields)
	kept.Index, kept.Value = kept.Index[:0], kept.Value[:0]
	for i, column := range x.Index {
		id := uint16(0)
		if field != nil {
			id = field[i]
		}
		switch {
		case !dead[i]:
			left.Field = append(left.Field, id)
			kept.Index, kept.Value = append(kept.Index, column), append(kept.Value, x.Value[i])
		case (id == 0 || sparse) && declared:
			left.MissingColumns = append(left.MissingColumns, column)
		case id != 0 && !sparse:
			left.Missing = append(left.Missing, id)
		}
	}
	slices.Sort(left.Missing)
	left.Missing = slices.DeleteFunc(slices.Compact(left.Missing), func(id uint16) bool {
		return int(id) < len(h.Schema.Fields) && h.Schema.Fields[id].Kind == event.Cross || slices.Contains(left.Field, id)
	})
	if field == nil {
		left.Field = nil
	} else if left.Field == nil {
		left.Field = []uint16{}
	}
}

// Lack is that of Missing for an event under h's Schema, its fields counted in
// any case.
func (h *Head) Lack(e *event.Example) Lack {
	e = h.declared(e)
	var some [16]uint64
	present := FieldSet(some[:]).Room(len(h.Schema.Fields))
	k := h.Missing.Lack(h.Schema.Fields, e, present)
	if k.Named == 0 { // they may not have been counted
		k.Named, k.Silent = present.Count(h.Schema.Fields)
	}
	return k
}

// MissingFields returns the names of the fields that are known to be missing
// from an event: those that are null, and those that are usual and left out. In a sparse
// text format they are the names of columns.
func (h *Head) MissingFields(e *event.Example) (names []string) {
	e = h.declared(e)
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

// word returns a word of the set, 0 beyond it.
func (s FieldSet) word(i int) uint64 {
	if i < len(s) {
		return s[i]
	}
	return 0
}

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

// Count counts the fields of a set: those whose absence would be known, and the others.
// Products of fields and the anonymous field count as neither.
func (s FieldSet) Count(fields []event.Field) (named, silent float64) {
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			switch id := i<<6 | bits.TrailingZeros64(w); {
			case id == 0 || id >= len(fields) || fields[id].Kind == event.Cross:
			case fields[id].Kind.Named():
				named++
			default:
				silent++
			}
		}
	}
	return named, silent
}
