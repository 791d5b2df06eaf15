package model

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
)

// missingModel returns a model of the numbers a, b, c, d with the weights 1, 2, 4, 8. A word of field w has the weight
// 16, and the product a^b has the weight 32. The intercept is -1.
func missingModel() *Linear {
	s := event.NewSchema(5, nil, 2)
	for i, name := range []string{"a", "b", "c", "d", "w", "a^b"} {
		s.AddField(event.Field{Name: name, Kind: []event.Kind{event.Numeric, event.Numeric, event.Numeric, event.Numeric, event.Words, event.Cross}[i]})
	}
	return NewLinear(s, "hinge:gaussian", "none", [][]float64{{1, 2, 4, 8, 16, 32}}, []float64{-1})
}

// missingEvent returns an event with the value 1 for each of the given fields (1 to 6).
func missingEvent(null []uint16, fields ...uint16) *event.Example {
	e := &event.Example{Missing: null}
	for _, id := range fields {
		eventtest.Put(e, uint32(id-1), 1, id)
	}
	return e
}

func TestMissing(t *testing.T) {
	asIs, rescale := MissingNone, MissingRescale
	usual := []uint16{1, 2, 3, 4}
	plain := NewMissing(DefaultMissingPolicies(), nil, nil, nil)
	low := EveryRange(rescale) // rescale only for missing fractions above 0.3
	low[0], low[1] = OnePolicy(asIs), OnePolicy(asIs)
	for i, c := range []struct {
		m     *Missing
		e     *event.Example
		score float64
		rule  MissingPolicy
		names []string
	}{
		{plain, missingEvent(nil, 1, 2, 3, 4), 14, "", nil},
		{plain, missingEvent(nil, 1, 2, 4), 10, "", nil}, // absent, but not listed as usual
		{plain, missingEvent([]uint16{3}, 1, 2, 4), 11*4.0/3 - 1, rescale, []string{"c"}},
		{nil, missingEvent([]uint16{3}, 1, 2, 4), 10, asIs, []string{"c"}},
		{(*Missing)(nil).Forced(rescale), missingEvent([]uint16{3}, 1, 2, 4), 11*4.0/3 - 1, rescale, []string{"c"}},
		{plain.Forced(asIs), missingEvent([]uint16{3}, 1, 2, 4), 10, asIs, []string{"c"}},
		// Two words of one field count as one field, and the product of two fields does not count.
		{plain, &event.Example{Features: event.Vec{Index: []uint32{0, 4, 5, 7}, Value: []float64{1, 1, 1, 1}}, Field: []uint16{1, 5, 6, 5}, Missing: []uint16{3}},
			49*1.5 - 1, rescale, []string{"c"}},
		{plain, missingEvent([]uint16{1, 2, 3, 4}), -1, asIs, []string{"a", "b", "c", "d"}}, // all fields are null
		// Three cases: an absent usual field, a null usual field, and both.
		{NewMissing(DefaultMissingPolicies(), usual, nil, nil), missingEvent(nil, 1, 2, 4), 11*4.0/3 - 1, rescale, []string{"c"}},
		{NewMissing(DefaultMissingPolicies(), usual, nil, nil), missingEvent([]uint16{3}, 1, 4), 9*2 - 1, rescale, []string{"b", "c"}},
		{NewMissing(DefaultMissingPolicies(), nil, []uint16{3}, nil), missingEvent([]uint16{3}, 1, 2, 4), 10, "", nil},
		// In a sparse text format, absent columns are zeros.
		{NewMissing(DefaultMissingPolicies(), usual, nil, nil), &event.Example{Features: event.Vec{Index: []uint32{0, 1}, Value: []float64{1, 1}}}, 2, "", nil},
		// The policy depends on the fraction of null and omitted fields together.
		{NewMissing(low, usual, nil, nil), missingEvent([]uint16{3}, 1, 2, 4), 10, asIs, []string{"c"}},
		{NewMissing(low, usual, nil, nil), missingEvent([]uint16{2, 3}, 1, 4), 9*2 - 1, rescale, []string{"b", "c"}},
		{NewMissing(low, usual, nil, nil), missingEvent(nil, 1, 2, 4), 10, asIs, []string{"c"}},
		// Field 2 is another kind of field 1: one of them is present, so neither is missing.
		{NewMissing(low, []uint16{1, 3}, nil, [][2]uint16{{2, 1}}), missingEvent(nil, 2, 3), 5, "", nil},
		{NewMissing(low, []uint16{1, 3}, nil, [][2]uint16{{2, 1}}), missingEvent(nil, 2), 3, rescale, []string{"c"}},
	} {
		m := missingModel()
		m.Missing = c.m
		a := m.Handling(c.e)
		scale, policy := a.Scale, a.Policy()
		got := m.Score(c.e, make([]float64, 1))[0]
		must.True(t, math.Abs(got-c.score) <= 1e-12 && policy == c.rule, "case %d: score %v by %q (%v), want %v by %q", i, got, policy, scale, c.score, c.rule)
		names := m.MissingFields(c.e)
		must.True(t, slices.Equal(names, c.names), "case %d: missing %q, want %q", i, names, c.names)
		// The results must be the same after a round trip through a file.
		each := must.Get(m.EachBlock())(t)
		blocks := slices.Collect(each)
		read := must.Get(ReadLinear(blocks))(t)
		got = read.Score(c.e, make([]float64, 1))[0]
		must.True(t, math.Abs(got-c.score) <= 1e-12, "case %d: read from a file it scores %v, want %v", i, got, c.score)
	}
}

// TestMissingExplained checks that the contributions in an explanation add up to the score under the missing policy.
func TestMissingExplained(t *testing.T) {
	m := missingModel()
	m.Missing = NewMissing(DefaultMissingPolicies(), nil, nil, nil)
	x := m.Explain(missingEvent([]uint16{3}, 1, 2, 4), 1)
	want := 11*4.0/3 - 1
	must.True(t, math.Abs(x.Score-want) <= 1e-12 && math.Abs(x.Terms[0].Contribution-8*4.0/3) <= 1e-12, "score %v, want %v; %+v", x.Score, want, x.Terms)
	for _, m.Noise = range []string{"dropout:0.5", "gaussian:0.5"} {
		as, rescaled := *m, m.Explain(missingEvent([]uint16{3}, 1, 2, 4), 1)
		as.Missing = as.Missing.Forced(MissingNone)
		if is := as.Explain(missingEvent([]uint16{3}, 1, 2, 4), 1); is.Variance == 0 || math.Abs(rescaled.Variance/is.Variance-16./9) > 1e-12 {
			t.Errorf("%s: variance %v, as is %v", m.Noise, rescaled.Variance, is.Variance)
		} else {
			for i, term := range rescaled.Terms {
				must.True(t, math.Abs(term.Fraction-is.Terms[i].Fraction) <= 1e-12, "%s, column %d: share %v, as is %v", m.Noise, term.Column, term.Fraction, is.Terms[i].Fraction)
			}
		}
	}
}

func TestParseMissingPolicy(t *testing.T) {
	for _, s := range MissingPolicyNames() {
		r, err := ParseMissingPolicy(s)
		must.True(t, err == nil && string(r) == s, "%s: %v, %v", s, r, err)
	}
	for _, s := range []string{"guess", "", "zero"} {
		must.Fails(t, must.Err(ParseMissingPolicy(s)), s, "no error")
	}
	must.Fails(t, json.Unmarshal([]byte(`{"policies":[[1,0,0]]}`), new(Missing)), "rules of one range: no error")
}

func ExampleHead_Handling() {
	m := missingModel()
	m.Missing = NewMissing(DefaultMissingPolicies(), nil, nil, nil)
	a := m.Handling(missingEvent([]uint16{2, 3}, 1, 4)) // b and c are null
	fmt.Println(a.Scale, a.Policy())
	// Output: 2 rescale
}

// TestMissingCountByDefinition compares CountMissing and Roles with their definitions, field by field, for random
// events. The events include nulls of present or unknown fields, and field sets of several words.
func TestMissingCountByDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	draw := func(from, to int, fraction float64) (ids []uint16) {
		for id := from; id < to; id++ {
			if r.Float64() < fraction {
				ids = append(ids, uint16(id))
			}
		}
		return ids
	}
	for range 5000 {
		fields := make([]event.Field, 2+r.IntN(90))
		for id := range fields[1:] {
			fields[1+id].Kind = []event.Kind{event.Numeric, event.Categorical, event.Words, event.Cross}[r.IntN(4)]
		}
		n := len(fields)
		var m *Missing
		if r.IntN(5) > 0 {
			m = NewMissing(DefaultMissingPolicies(), draw(1, n, 0.5), draw(1, n, 0.3), nil)
		}
		e := &event.Example{Field: draw(1, n, 0.6), Missing: draw(1, n+5, 0.4)}
		usual, usuallyNull := func(id uint16) bool { return m != nil && slices.Contains(m.Usual, id) }, func(id uint16) bool { return m != nil && slices.Contains(m.NullIsValue, id) }
		var want MissingCount
		c := &Covariance{}
		var roles ColumnRoles
		for i := range fields[1:] {
			id := uint16(1 + i)
			null, there := slices.Contains(e.Missing, id), slices.Contains(e.Field, id)
			c.Columns, c.Fields, roles = append(c.Columns, uint32(id)), append(c.Fields, id), append(roles, Ignored)
			switch {
			case there && fields[id].Kind.Named():
				want.Named++
			case there && fields[id].Kind != event.Cross:
				want.AlwaysPresent++
			}
			switch {
			case there:
				roles[i] = Observed
			case null && !usuallyNull(id):
				want.Null++
				roles[i] = Imputed
			case !null && usual(id):
				want.Absent++
				roles[i] = Imputed
			case usual(id):
				roles[i] = Imputed
			}
		}
		present := NewFieldSet(n)
		got := m.CountMissing(fields, e, present)
		must.Require(t, got == want || !got.Some() && !want.Some() && got == MissingCount{}, "an event lacks %+v, want %+v", got, want)
		h := &Head{Schema: &event.Schema{Fields: fields}, Covariance: c, Missing: m}
		if !slices.Contains(roles, Imputed) {
			roles = nil
		}
		if got := h.Roles(e, present, nil); !slices.Equal(got, roles) {
			t.Fatalf("parts %v, want %v", got, roles)
		}
	}
}

// TestSubset compares the operations on two sets of unequal length with results computed from the elements. Later words
// of a set may be empty.
func TestSubset(t *testing.T) {
	setOf := func(ids ...uint16) FieldSet {
		var s FieldSet
		for _, id := range ids {
			for int(id>>6) >= len(s) {
				s = append(s, 0)
			}
		}
		s.Add(ids)
		return s
	}
	for _, x := range []struct {
		s, t FieldSet
		want bool
	}{
		{setOf(), setOf(), true}, {setOf(3), setOf(), false}, {setOf(3), setOf(3, 200), true}, {setOf(3, 200), setOf(3), false},
		{setOf(1, 70), setOf(1), false}, {append(setOf(1), 0, 0), setOf(1), true}, {setOf(1, 70), setOf(1, 71), false}, {setOf(1, 70), setOf(1, 70, 71), true},
	} {
		must.Equal(t, x.s.within(x.t), x.want, x.s, "within", x.t)
		got := x.s.outside(x.t) == 0
		must.True(t, got == x.want, "%b has elements outside %b: %v", x.s, x.t, !got)
	}
}

// TestOtherwise checks that Otherwise exchanges the two readings of a lack, and changes nothing else.
func TestOtherwise(t *testing.T) {
	m := NewMissing(DefaultMissingPolicies(), []uint16{2, 5}, []uint16{3, 7}, nil)
	for id, want := range map[uint16][2][]uint16{2: {{5}, {2, 3, 7}}, 7: {{2, 5, 7}, {3}}, 4: {{2, 4, 5}, {3, 7}}} {
		o := m.Otherwise(id)
		must.True(t, slices.Equal(o.Usual, want[0]) && slices.Equal(o.NullIsValue, want[1]) && o.usual.Has(want[0][0]) && !o.nullIsValue.Has(want[0][0]) && o.Policies == m.Policies, "field %d: %+v", id, o)
		if id != 4 {
			back := m.Otherwise(id).Otherwise(id)
			must.True(t, slices.Equal(back.Usual, m.Usual) && slices.Equal(back.NullIsValue, m.NullIsValue), "field %d twice: %+v", id, back)
		}
	}
	must.True(t, slices.Equal(m.Usual, []uint16{2, 5}) && slices.Equal(m.NullIsValue, []uint16{3, 7}), "the Missing itself has changed: %+v", m)
}
