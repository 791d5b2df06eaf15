package model

// This file determines which fields of an event are missing, and how the event is then scored.

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"blankout/internal/event"
)

// MissingPolicy determines how an event with missing fields is scored.
type MissingPolicy string

const (
	// MissingAuto mixes the other policies with learned weights.
	MissingAuto MissingPolicy = "auto"
	// MissingNone leaves the present fields unchanged. Missing fields add nothing to a score, so a standardized number
	// counts as its mean.
	MissingNone MissingPolicy = "none"
	// MissingRescale multiplies the present features by 1/(1 - fraction missing), so that their total stays in
	// proportion to the intercept.
	MissingRescale MissingPolicy = "rescale"
	// MissingImpute imputes missing numbers from the present numbers, with the model's Covariance. Missing fields of
	// other kinds add nothing.
	MissingImpute MissingPolicy = "impute"
	// MissingFill predicts the event as if it were complete, with imputed numbers in place of the missing ones. Unlike
	// MissingImpute it also uses the splines of these numbers, and the weights for complete events.
	MissingFill MissingPolicy = "fill"
)

// Imputes reports whether the policy alone imputes missing numbers.
func (p MissingPolicy) Imputes() bool { return p == MissingImpute || p == MissingFill }

// missingPolicies are the policies that a model mixes.
var missingPolicies = [4]MissingPolicy{MissingNone, MissingRescale, MissingImpute, MissingFill}

// MissingPolicyNames lists the names that ParseMissingPolicy accepts.
func MissingPolicyNames() []string { return []string{"auto", "none", "rescale", "impute", "fill"} }

// ParseMissingPolicy parses one of MissingPolicyNames.
func ParseMissingPolicy(s string) (MissingPolicy, error) {
	if r := MissingPolicy(s); r == MissingAuto || slices.Contains(missingPolicies[:], r) {
		return r, nil
	}
	return "", fmt.Errorf("%q: want one of %s", s, strings.Join(MissingPolicyNames(), ", "))
}

// PolicyWeights has the mixture weights of the policies none, rescale, impute and fill in a score. The first three act on
// the weights of one model, and fill mixes its own score with theirs.
type PolicyWeights [4]float64

// OnePolicy returns the weights that select one policy. The weight of that policy is 1, and the other weights are 0.
func OnePolicy(policy MissingPolicy) (s PolicyWeights) {
	s[slices.Index(missingPolicies[:], policy)] = 1
	return s
}

// Largest returns the policy with the largest weight, and the first of several equal weights.
func (s PolicyWeights) Largest() MissingPolicy {
	best := 0
	for i := range s {
		if s[i] > s[best] {
			best = i
		}
	}
	return missingPolicies[best]
}

// Others returns the weights without the policy fill, in the same proportion. If there are none, the policy is impute.
func (s PolicyWeights) Others() PolicyWeights {
	rest := s[0] + s[1] + s[2]
	if rest == 0 {
		return OnePolicy(MissingImpute)
	}
	return PolicyWeights{s[0] / rest, s[1] / rest, s[2] / rest}
}

// WithFill returns the weights of Others together with a weight of the policy fill.
func (s PolicyWeights) WithFill(fill float64) PolicyWeights {
	s = s.Others()
	return PolicyWeights{(1 - fill) * s[0], (1 - fill) * s[1], (1 - fill) * s[2], fill}
}

// Plain returns the weights to use if nothing can be imputed. Imputation then changes nothing, as the policy none, which
// gets its weight.
func (s PolicyWeights) Plain() PolicyWeights {
	s = s.Others()
	return PolicyWeights{s[0] + s[2], s[1]}
}

// valid reports whether s are nonnegative weights with the sum 1.
func (s PolicyWeights) valid() bool {
	for _, x := range s {
		if !(x >= 0 && x <= 1) {
			return false
		}
	}
	return math.Abs(s[0]+s[1]+s[2]+s[3]-1) < 1e-6
}

// MissingBins is the number of ranges of the missing fraction, the fraction of an event's fields that is missing. Each
// range has its own policy weights. The ranges end at the MissingEdges; the last range is above them.
const MissingBins = 6

// MissingEdges are the inclusive upper ends of the ranges of the missing fraction.
var MissingEdges = [MissingBins - 1]float64{0.1, 0.3, 0.5, 0.7, 0.85}

// MissingBin returns the range that contains a missing fraction.
func MissingBin(fraction float64) int {
	bin := 0
	for _, edge := range MissingEdges {
		if fraction > edge {
			bin++
		}
	}
	return bin
}

// MissingPolicies has the policy weights of each range of the missing fraction.
type MissingPolicies [MissingBins]PolicyWeights

// PolicyRange has the policy weights of a range of the missing fraction, for reports.
type PolicyRange struct {
	Missing string  `json:"missing"` // the range, as in "0.1-0.3"
	None    float64 `json:"none"`
	Rescale float64 `json:"rescale"`
	Impute  float64 `json:"impute"`
	Fill    float64 `json:"fill"`
}

// Ranges returns the policy weights by range, from few missing fields to many; nil for a nil Missing.
func (m *Missing) Ranges() (out []PolicyRange) {
	if m == nil {
		return nil
	}
	for bin, w := range m.Policies {
		out = append(out, PolicyRange{RangeName(bin + 1), w[0], w[1], w[2], w[3]})
	}
	return out
}

// EveryRange returns the MissingPolicies with one policy for all ranges.
func EveryRange(policy MissingPolicy) (r MissingPolicies) {
	for bin := range r {
		r[bin] = OnePolicy(policy)
	}
	return r
}

// Missing determines which fields of an event are missing, and how the event is then scored. Learning, forecasts,
// validation and predictions all use it.
//
// A field is missing if it is null. A usual field, which most events have, is also missing if it is absent. An absent
// word in a bag of words is 0, and so is an absent column in a sparse text format. Such a word or column is never
// missing, unless the Schema declares that columns can be missing (event.AbsentMissing).
//
// The nil Missing treats only null fields as missing, with the policy none. A Missing is immutable.
type Missing struct {
	// Policies has the policy weights of each range of the fraction of the event's fields that is null or absent.
	Policies MissingPolicies `json:"policies"`
	// Usual lists, in ascending order, the fields that are missing if they are absent. NullIsValue lists the fields
	// that are not missing if they are null or absent: that is one of their values.
	Usual       []uint16 `json:"usual,omitempty"`
	NullIsValue []uint16 `json:"null_is_value,omitempty"`
	// Also lists fields with one name and several kinds of values, as pairs (later id, first id). The fields of one
	// name count as one field, and an event declares only the first id null.
	Also [][2]uint16 `json:"also,omitempty"`
	// ColumnsCanBeMissing means that columns of the Schema can be missing. Columns then lists, in ascending order, the columns of a
	// sparse text format that are missing if they are absent.
	ColumnsCanBeMissing bool     `json:"known,omitempty"`
	Columns             []uint32 `json:"columns,omitempty"`
	// Zeros lists columns of a sparse text format in ascending order; none of them is in Columns. A column in Zeros is
	// 0 if it is absent and not declared missing.
	Zeros []uint32 `json:"zeros,omitempty"`
	// Levels selects the weights for each range of the missing fraction: 0 for the Head's weights, i for
	// Head.Levels[i-1]. Nil selects the Head's weights everywhere.
	Levels []int `json:"levels,omitempty"`

	usual, nullIsValue FieldSet // Usual and NullIsValue as sets
}

// DefaultMissingPolicies selects rescale, until there is evidence for other policies. Rescale suits weights that were
// learned with dropout noise.
func DefaultMissingPolicies() MissingPolicies { return EveryRange(MissingRescale) }

// NewMissing returns a Missing that owns its arguments.
func NewMissing(policies MissingPolicies, usual, nullIsValue []uint16, also [][2]uint16) *Missing {
	m := &Missing{Policies: policies, Usual: usual, NullIsValue: nullIsValue, Also: also}
	m.index()
	return m
}

func (m *Missing) index() { m.usual, m.nullIsValue = setOf(m.Usual), setOf(m.NullIsValue) }

func setOf(ids []uint16) FieldSet {
	if len(ids) == 0 {
		return nil
	}
	s := NewFieldSet(int(slices.Max(ids)) + 1)
	s.Add(ids)
	return s
}

// UnmarshalJSON decodes and checks a Missing.
func (m *Missing) UnmarshalJSON(data []byte) error {
	type plain Missing
	if err := json.Unmarshal(data, (*plain)(m)); err != nil {
		return err
	}
	for _, weights := range m.Policies {
		if !weights.valid() {
			return fmt.Errorf("missing: %v are no shares of the rules", weights)
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

// WithPolicies returns m with other policy weights.
func (m *Missing) WithPolicies(policies MissingPolicies) *Missing {
	if m == nil {
		return NewMissing(policies, nil, nil, nil)
	}
	if m.Policies == policies {
		return m
	}
	with := *m
	with.Policies = policies
	return &with
}

// Otherwise returns m with the other reading of a lack of a field: as a value in place of a loss, or the reverse.
func (m *Missing) Otherwise(id uint16) *Missing {
	without := func(list []uint16) []uint16 {
		return slices.DeleteFunc(slices.Clone(list), func(x uint16) bool { return x == id })
	}
	with := *m
	if with.Usual, with.NullIsValue = without(m.Usual), without(m.NullIsValue); m.usual.Has(id) {
		with.NullIsValue = insert(with.NullIsValue, id)
	} else {
		with.Usual = insert(with.Usual, id)
	}
	with.index()
	return &with
}

func insert(ids []uint16, id uint16) []uint16 {
	at, _ := slices.BinarySearch(ids, id)
	return slices.Insert(ids, at, id)
}

// WithLevels returns m with other Levels, which it owns.
func (m *Missing) WithLevels(levels []int) *Missing {
	with := *m
	with.Levels = levels
	return &with
}

// WithZeros returns m with other Zeros: columns in ascending order, from which it removes Columns.
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

// ReadsZero reports whether a column is one of the Zeros.
func (m *Missing) ReadsZero(column uint32) bool {
	if m == nil {
		return false
	}
	_, zero := slices.BinarySearch(m.Zeros, column)
	return zero
}

// Forced returns m with a single policy, or m itself for MissingAuto. The Levels do not change.
func (m *Missing) Forced(policy MissingPolicy) *Missing {
	if policy == MissingAuto || policy == "" {
		return m
	}
	return m.WithPolicies(EveryRange(policy))
}

// MissingCount counts the fields of an event, without products of fields.
type MissingCount struct {
	Null, Absent float64 // numbers of missing fields: null, or absent although usual
	// Named is the number of present fields that could be missing. AlwaysPresent is the number of other present fields:
	// bags of words, and the namespaces of a sparse text format. If columns can be missing, both numbers count
	// features, not fields.
	Named, AlwaysPresent float64
}

// Some reports whether anything is missing.
func (k MissingCount) Some() bool { return k.Null+k.Absent > 0 }

// Fraction returns the fraction of all fields that is missing: null, or absent although usual.
func (k MissingCount) Fraction() float64 {
	return (k.Null + k.Absent) / (k.Null + k.Absent + k.Named + k.AlwaysPresent)
}

// Deleted returns the count after a fraction of the named fields has become null.
func (k MissingCount) Deleted(fraction float64) MissingCount {
	k.Null += fraction * k.Named
	k.Named *= 1 - fraction
	return k
}

// weights returns the policy weights for an event with this count of missing fields.
func (m *Missing) weights(k MissingCount) PolicyWeights {
	if m == nil || !k.Some() {
		return OnePolicy(MissingNone)
	}
	return m.Policies[MissingBin(k.Fraction())]
}

// Imputes reports whether numbers are imputed in any range of the missing fraction.
func (m *Missing) Imputes() bool {
	return slices.ContainsFunc(m.Policies[:], func(s PolicyWeights) bool { return s[2]+s[3] > 0 })
}

// Plain returns m without imputation. The other policies then have weights in the same proportion.
func (m *Missing) Plain() *Missing {
	policies := m.Policies
	for bin := range policies {
		policies[bin] = policies[bin].Plain()
	}
	return m.WithPolicies(policies)
}

// ImputeWeight returns the mixture weight of the policies that impute for an event with this count of missing fields.
func (m *Missing) ImputeWeight(k MissingCount) float64 {
	s := m.weights(k)
	return s[2] + s[3]
}

// Scale returns the factor by which an event's features are multiplied if nothing is imputed. The factor is 1 with the
// policy none, and 1/(1 - fraction missing) with the policy rescale. For a mixture of policies, the factor is between
// these two values.
func (m *Missing) Scale(k MissingCount) float64 {
	return scale(m.weights(k).Plain(), k)
}

func scale(s PolicyWeights, k MissingCount) float64 {
	if present := k.Named + k.AlwaysPresent; present > 0 { // without fields the score is the intercept
		return 1 + s.Others()[1]*(k.Null+k.Absent)/present
	}
	return 1
}

// CountMissing counts the fields of an event of a Schema with these fields. It overwrites present with the set of
// present fields. present must have capacity for all fields.
func (m *Missing) CountMissing(fields []event.Field, e *event.Example, present FieldSet) (k MissingCount) {
	for i := range present {
		present[i] = 0
	}
	if (len(e.MissingColumns) > 0 || m != nil && m.ColumnsCanBeMissing) && e.IsSparse(fields) {
		return m.CountColumns(fields, e)
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
		return k // the common case: nothing is missing, so the present fields need not be counted
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
			usually, usual = m.nullIsValue.word(i), m.usual.word(i)
		}
		k.Null += float64(bits.OnesCount64(w &^ usually))
		k.Absent -= float64(bits.OnesCount64(w & usual)) // null fields that are usual were counted as absent above
	}
	if m != nil {
		k.Absent += float64(m.usual.outside(present))
	}
	k.Named, k.AlwaysPresent = present.Count(fields)
	return k
}

// MissingHandling determines how an event with missing fields is scored.
type MissingHandling struct {
	// Weights are the mixture weights of the policies, all 0 if nothing is missing.
	Weights PolicyWeights
	// Scale is the factor of the present features, averaged over the policies other than fill.
	Scale float64
	// Roles has the role of each column of the model's Covariance; nil if nothing is imputed.
	Roles ColumnRoles
	// Level selects the weights of a noise level, see Missing.Levels.
	Level int
	// Range is the range of the missing fraction: 0 if nothing is missing, else MissingBin + 1.
	Range int
}

// Imputes returns the weight of imputed values among the policies other than fill.
func (a MissingHandling) Imputes() float64 {
	if a.Weights == (PolicyWeights{}) {
		return 0
	}
	return a.Weights.Others()[2]
}

// Policy returns the policy with the largest weight, "" if nothing is missing.
func (a MissingHandling) Policy() MissingPolicy {
	if a.Weights == (PolicyWeights{}) {
		return ""
	}
	return a.Weights.Largest()
}

// ByPolicy returns the positive weights by policy.
func (a MissingHandling) ByPolicy() map[MissingPolicy]float64 {
	weights := make(map[MissingPolicy]float64)
	for i, fraction := range a.Weights {
		if fraction > 0 {
			weights[missingPolicies[i]] = fraction
		}
	}
	return weights
}

// Handling returns how an event is scored: the policy weights, and the roles of the Covariance's columns.
func (h *Head) Handling(e *event.Example) MissingHandling {
	e = h.declared(e)
	if len(e.Missing)+len(e.MissingColumns) == 0 && (h.Missing == nil || len(h.Missing.Usual) == 0 && len(h.Missing.Columns) == 0) {
		return MissingHandling{Scale: 1}
	}
	var some [16]uint64
	present := FieldSet(some[:]).Room(len(h.Schema.Fields))
	k := h.Missing.CountMissing(h.Schema.Fields, e, present)
	if !k.Some() {
		return MissingHandling{Scale: 1}
	}
	var roles ColumnRoles
	if h.Covariance != nil && h.Missing.ImputeWeight(k) > 0 {
		roles = h.Roles(e, present, nil)
	}
	return h.Missing.Handling(k, roles)
}

// Handling returns how an event with this count of missing fields is scored. roles has the role of each column of the
// Covariance, see Roles.
func (m *Missing) Handling(k MissingCount, roles ColumnRoles) MissingHandling {
	a := MissingHandling{Weights: m.weights(k), Roles: roles}
	if roles == nil {
		if a.Weights = a.Weights.Plain(); k.Named+k.AlwaysPresent <= 0 { // no feature is present to be rescaled
			a.Weights = OnePolicy(MissingNone)
		}
	}
	a.Scale = scale(a.Weights, k)
	if !k.Some() {
		a.Weights = PolicyWeights{}
		return a
	}
	if a.Range = 1 + MissingBin(k.Fraction()); m != nil && m.Levels != nil {
		a.Level = m.Levels[a.Range-1]
	}
	return a
}

// Roles returns the role of each Covariance column for an event: which columns the event has, and which columns must be
// imputed. A column must be imputed if its field is null, or usual and absent. present has the event's fields. Roles
// returns nil if nothing must be imputed. It reuses the memory of room if that is large enough.
func (h *Head) Roles(e *event.Example, present FieldSet, room ColumnRoles) ColumnRoles {
	if roles, some := h.AllRoles(e, present, room); some {
		return roles
	}
	return nil
}

// AllRoles is Roles for callers that also need the roles if nothing is imputed. some reports whether a column is
// imputed.
func (h *Head) AllRoles(e *event.Example, present FieldSet, room ColumnRoles) (roles ColumnRoles, some bool) {
	c, m := h.Covariance, h.Missing
	roles = slices.Grow(room[:0], len(c.Columns))[:len(c.Columns)]
	var words [16]uint64
	null := FieldSet(words[:]).Room(len(h.Schema.Fields))
	null.Add(e.Missing)
	if m != nil {
		for i := range m.nullIsValue[:min(len(m.nullIsValue), len(null))] {
			null[i] &^= m.nullIsValue[i]
		}
	}
	for i, id := range c.Fields {
		part := byte(Ignored)
		switch {
		case id == 0 && e.MissesColumn(c.Columns[i]):
			part = Imputed
		case id == 0 && (m == nil || !m.ColumnsCanBeMissing || hasColumn(e, c.Columns[i]) || m.ReadsZero(c.Columns[i])):
			part = Observed // an absent column is 0
		case id == 0:
			if _, usual := slices.BinarySearch(m.Columns, c.Columns[i]); usual {
				part = Imputed
			}
		case present.Has(id):
			part = Observed
		case null.Has(id), m != nil && m.usual.Has(id):
			part = Imputed
		}
		roles[i], some = part, some || part == Imputed
	}
	return roles, some
}

// CountMissing is Missing.CountMissing for an event under h's Schema. It always counts the present fields.
func (h *Head) CountMissing(e *event.Example) MissingCount {
	e = h.declared(e)
	var some [16]uint64
	present := FieldSet(some[:]).Room(len(h.Schema.Fields))
	k := h.Missing.CountMissing(h.Schema.Fields, e, present)
	if k.Named == 0 { // CountMissing may have skipped the present fields
		k.Named, k.AlwaysPresent = present.Count(h.Schema.Fields)
	}
	return k
}

// MissingFields returns the names of the fields that are missing from an event: null fields, and usual fields that are
// absent. For a sparse text format it returns names of columns.
func (h *Head) MissingFields(e *event.Example) (names []string) {
	e = h.declared(e)
	fields, m := h.Schema.Fields, h.Missing
	if m != nil && len(m.Columns) > 0 && e.IsSparse(fields) {
		name := h.Schema.Namer()
		m.absentColumns(e, func(column uint32) { names = append(names, name(column)) })
		return names
	}
	present := NewFieldSet(len(fields))
	if k := m.CountMissing(fields, e, present); !k.Some() {
		return nil
	}
	missing := slices.Clone(e.Missing)
	if m != nil {
		missing = append(slices.DeleteFunc(missing, func(id uint16) bool {
			_, usually := slices.BinarySearch(m.NullIsValue, id)
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

// NewFieldSet returns an empty set for ids below n.
func NewFieldSet(n int) FieldSet { return make(FieldSet, (n+63)/64) }

// Room returns s, or a new set if s is too small for ids below n.
func (s FieldSet) Room(n int) FieldSet {
	if n <= 64*len(s) {
		return s
	}
	return NewFieldSet(n)
}

// Add adds ids; it ignores ids beyond the capacity.
func (s FieldSet) Add(ids []uint16) {
	if len(s) == 1 { // most streams have few fields, so that one register suffices
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

// word returns word i of the set, or 0 beyond the last word.
func (s FieldSet) word(i int) uint64 {
	if i < len(s) {
		return s[i]
	}
	return 0
}

// Has reports whether id is in the set.
func (s FieldSet) Has(id uint16) bool {
	return int(id>>6) < len(s) && s[id>>6]&(1<<(id&63)) != 0
}

// within reports whether s is a subset of t.
func (s FieldSet) within(t FieldSet) bool {
	for i, w := range s {
		if w&^t.word(i) != 0 {
			return false
		}
	}
	return true
}

// outside returns the number of elements of s that are not in t.
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

// Count returns the number of fields in the set that can be missing (named), and the number of fields that cannot
// (silent). It ignores products of fields and the anonymous field.
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
