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

// TestLoseDead checks that a silently dead number gets the dead value of its column or, if the model has none,
// the center. Other dead features are absent. Nothing is declared missing. Live features keep their values, including
// columns that the model does not have.
func TestLoseDead(t *testing.T) {
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	for id, kind := range []event.Kind{event.Numeric, event.Numeric, event.Categorical, event.Words} {
		schema.AddField(event.Field{Name: string(rune('a' + id)), Kind: kind})
	}
	m := NewLinear(schema, "logistic", "none", [][]float64{{0, 1, 1, 1, 1, 1, 1, 1}}, []float64{0})
	named := event.Example{Features: event.Vec{Index: []uint32{1, 2, 4, 5, 6, 9}, Value: []float64{7, 8, 1, 1, 1, 1}}, Field: []uint16{1, 2, 3, 4, 4, 4}, Missing: []uint16{4}, Label: 1}
	sparse := event.Example{Features: event.Vec{Index: []uint32{1, 4}, Value: []float64{7, 8}}}
	centered := &Linear{Head: m.Head, Rows: NewTable(1 + ScalerWidth)}
	centered.Scaler, centered.Layout = Scaler{Mode: StandardizeAuto, Dense: []uint32{1, 2}}, Layout{Width: 1 + ScalerWidth, Stats: 1}
	for column := range uint32(7) {
		row := centered.Rows.Touch(column)
		row[0], row[1+StatCenter], row[1+StatInverse] = 1, 3, 0.5
	}
	bent := &Linear{Head: centered.Head, Rows: NewTable(1 + ScalerWidth)}
	row := bent.Rows.Touch(1)
	row[1+StatCenter], row[1+StatInverse] = 2, packUnit(0.5, 4)
	knows := *m
	knows.Dead = &Dead{Columns: []uint32{1}, Reads: []float64{-2}}
	for name, c := range map[string]struct {
		m      *Linear
		e      event.Example
		dead   []uint32
		index  []uint32
		value  []float64
		fields []uint16
	}{
		"nothing":        {m, named, nil, named.Features.Index, named.Features.Value, named.Field},
		"knows a number": {&knows, named, []uint32{1, 2, 4, 6}, []uint32{1, 5, 9}, []float64{-2, 1, 1}, []uint16{1, 4, 4}},
		"as they came":   {m, named, []uint32{2, 4}, []uint32{1, 2, 5, 6, 9}, []float64{7, 0, 1, 1, 1}, []uint16{1, 2, 4, 4, 4}},
		"centers":        {centered, named, []uint32{2, 4}, []uint32{1, 2, 5, 6, 9}, []float64{7, 3, 1, 1, 1}, []uint16{1, 2, 4, 4, 4}},
		"left out":       {centered, sparse, []uint32{2, 4}, []uint32{1, 2, 4}, []float64{7, 3, 3}, nil},
		"transformed":    {bent, sparse, []uint32{1}, []uint32{1, 4}, []float64{4 * math.Sinh(2), 8}, nil},
	} {
		x := c.m.Standardized(&c.e, event.Vec{})
		dead := make([]bool, x.Len())
		for i, column := range x.Index {
			dead[i] = slices.Contains(c.dead, column)
		}
		left := event.Example{Features: event.Vec{Index: []uint32{77}, Value: []float64{77}}, Missing: []uint16{2, 3}, Declared: true}
		before := slices.Clone(c.e.Features.Value)
		LossesOf(c.m, 0).Lose(LossDead, &c.e, 0, x.Index, dead, &left)
		if !slices.Equal(left.Features.Index, c.index) || !slices.Equal(left.Field, c.fields) || (left.Field == nil) != (c.fields == nil) {
			t.Errorf("%s: left are columns %v of fields %v, want %v of %v", name, left.Features.Index, left.Field, c.index, c.fields)
			continue
		}
		for i, v := range left.Features.Value {
			must.True(t, math.Abs(v-c.value[i]) <= 1e-12*math.Abs(v), "%s: column %d reads %v, want %v", name, c.index[i], v, c.value[i])
		}
		must.True(t, slices.Equal(left.Missing, c.e.Missing) && !left.Declared && left.Label == c.e.Label && slices.Equal(c.e.Features.Value, before), "%s: left is %+v", name, left)
		x = c.m.Standardized(&left, event.Vec{})
		must.True(t, name != "transformed" || math.Abs(x.Value[0]) <= 1e-12, "a center is standardized to %v", x.Value)
	}
}

// TestLoseStaleAndDeclared checks that a stale number or category is that of an earlier event, that words are absent,
// and that a lost column reads the same whatever else is lost. Before the first earlier event nothing is stale. Declared
// fields are missing unless a part of them is left, and so are declared columns.
func TestLoseStaleAndDeclared(t *testing.T) {
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	for id, kind := range []event.Kind{event.Numeric, event.Categorical, event.Words} {
		schema.AddField(event.Field{Name: string(rune('a' + id)), Kind: kind})
	}
	l := &Losses{Fields: schema.Fields, Seed: 3}
	at := func(n int) *event.Example {
		return &event.Example{Features: event.Vec{Index: []uint32{1, uint32(2 + n%2), 5, 6}, Value: []float64{float64(n), 1, 1, 1}}, Field: []uint16{1, 2, 3, 3}}
	}
	lose := func(kind LossKind, n int, lost ...bool) *event.Example {
		out := &event.Example{Missing: []uint16{7}}
		l.Lose(kind, at(n), uint64(n), at(n).Features.Index, lost, out)
		return out
	}
	got := lose(LossStale, 0, true, true, true, true)
	must.True(t, slices.Equal(got.Features.Index, at(0).Features.Index), "without an earlier event: %+v", got)
	for n := range 3000 {
		l.Note(at(n))
	}
	late, changed := 0, 0
	for n := 3000; n < 4000; n++ {
		all, alone := lose(LossStale, n, true, true, true, false), lose(LossStale, n, true, false, false, false)
		x := all.Features
		must.Require(t, len(x.Index) == 3 && x.Index[0] == 1 && x.Value[0] < 3000 && (x.Index[1] == 2 || x.Index[1] == 3) && x.Index[2] == 6 && slices.Equal(all.Field, []uint16{1, 2, 3}) && len(all.Missing) == 0,
			"%+v", all)
		must.Require(t, alone.Features.Value[0] == x.Value[0] && slices.Equal(alone.Features.Index[1:], at(n).Features.Index[1:]), "%+v alone, %+v of several", alone, all)
		if x.Value[0] >= 1500 {
			late++
		}
		if x.Index[1] != at(n).Features.Index[1] {
			changed++
		}
	}
	must.True(t, late >= 400 && late <= 600 && changed >= 400 && changed <= 600, "of 1000 stale events %d are of the later half of the earlier events, %d have another category", late, changed)
	got = lose(LossDeclared, 0, true, false, true, false)
	must.True(t, slices.Equal(got.Missing, []uint16{1}) && slices.Equal(got.Features.Index, []uint32{2, 6}), "declared: %+v", got)
	sparse, left := event.Example{Features: event.Vec{Index: []uint32{1, 4}, Value: []float64{7, 8}}}, event.Example{}
	l.Lose(LossDeclared, &sparse, 0, []uint32{0, 1, 4, FirstBasisColumn}, []bool{true, true, false, true}, &left)
	must.True(t, slices.Equal(left.MissingColumns, []uint32{0, 1}) && left.Features.Len() == 1 && left.Field == nil, "declared columns: %+v", left)
}

func sparseEvent(columns ...uint32) *event.Example {
	e := &event.Example{Weight: 1}
	for _, c := range columns {
		eventtest.Put(e, c, 1)
	}
	return e
}

// TestColumnUse checks that the columns in nine of ten events are usual, and stop being usual when they become rarer.
func TestColumnUse(t *testing.T) {
	u := ColumnUse{Memory: 50}
	none := NewMissing(DefaultMissingPolicies(), nil, nil, nil)
	for i := range 40 {
		columns := []uint32{2, 7}
		if i%10 == 0 {
			columns = []uint32{uint32(100 + i), 7_000_000} // columns may appear in any order
		} else if i%2 == 0 {
			columns = []uint32{2, 5, 7}
		}
		u.Count(nil, sparseEvent(columns...))
	}
	m := u.Review(none)
	must.True(t, slices.Equal(m.Columns, []uint32{2, 7}) && slices.Equal(u.Columns, []uint32{2, 5, 7, 100, 110, 120, 130, 7_000_000}), "usual %v of %v", m.Columns, u.Columns)
	must.True(t, u.Review(m) == m, "nothing has changed, and there is another Missing")
	for range 160 { // enough events for three halvings
		u.Count(nil, sparseEvent(2))
	}
	m = u.Review(m)
	must.True(t, slices.Equal(m.Columns, []uint32{2}) && slices.Equal(u.Columns, []uint32{2, 5, 7}), "usual %v of %v after 7 has died", m.Columns, u.Columns)
	// Products of fields are not separate columns.
	crossed := sparseEvent(2, 9)
	crossed.Field = []uint16{0, 1}
	fields := []event.Field{{}, {Kind: event.Cross}}
	u = ColumnUse{}
	u.Count(fields, crossed)
	must.True(t, slices.Equal(u.Columns, []uint32{2}) && crossed.IsSparse(fields) && !crossed.IsSparse([]event.Field{{}, {Kind: event.Words}}), "%v", u.Columns)
}

// TestColumnUseAbsent checks which columns are usual if events have only a part of them: readings at random, but not
// pixels, whose zeros are omitted, and not columns that are always 1.
func TestColumnUseAbsent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		reading func() float64
		usual   int
	}{
		"positive":      {func() float64 { return 20 + 3*r.NormFloat64() }, 20},
		"negative":      {func() float64 { return -20 + 3*r.NormFloat64() }, 20},
		"both signs":    {r.NormFloat64, 20},
		"explicit zero": {func() float64 { return float64(r.IntN(5)) }, 20},
		"counts":        {func() float64 { return float64(1 + r.IntN(3)) }, 20},
		"pixels":        {func() float64 { return float64(1 + r.IntN(255)) }, 0},
		"always 1":      {func() float64 { return 1 }, 0},
	} {
		for _, rate := range []float64{0.25, 0.5, 0.75} {
			u := ColumnUse{Memory: 500}
			for range 1024 {
				e := &event.Example{Weight: 1}
				for column := range uint32(20) {
					if r.Float64() < rate {
						eventtest.Put(e, column, c.reading())
					}
				}
				u.Count(nil, e)
			}
			m := u.Review(NewMissing(DefaultMissingPolicies(), nil, nil, nil))
			must.True(t, len(m.Columns) == c.usual, "%s in %v of the events: %d columns are usual, want %d", name, rate, len(m.Columns), c.usual)
		}
	}
}

// TestKnownColumns checks the scale of events in a sparse text format that lack usual columns.
func TestKnownColumns(t *testing.T) {
	rescale, asIs := EveryRange(MissingRescale), EveryRange(MissingNone)
	half := rescale
	for bin := range half {
		half[bin] = PolicyWeights{0.5, 0.5, 0}
	}
	head := func(known bool, policies MissingPolicies) *Head {
		m := NewMissing(policies, nil, nil, nil)
		m.ColumnsCanBeMissing = known
		if known {
			m.Columns = []uint32{1, 4, 6}
		}
		s := event.NewSchema(8, nil, 2)
		s.Absent, s.NumericIndices = map[bool]string{true: event.AbsentMissing}[known], true
		return &Head{Schema: s, Missing: m, Outputs: 1}
	}
	for _, c := range []struct {
		head  *Head
		event *event.Example
		scale float64
		rule  MissingPolicy
		names []string
	}{
		{head(true, rescale), sparseEvent(1, 3, 4, 6), 1, "", nil},
		{head(true, rescale), sparseEvent(3, 6), 2, MissingRescale, []string{"2", "5"}},
		{head(true, half), sparseEvent(3, 6), 1.5, MissingNone, []string{"2", "5"}},
		{head(true, asIs), sparseEvent(3, 6), 1, MissingNone, []string{"2", "5"}},
		{head(false, rescale), sparseEvent(3, 6), 1, "", nil},
	} {
		a := c.head.Handling(c.event)
		scale, policy := a.Scale, a.Policy()
		names := c.head.MissingFields(c.event)
		must.True(t, scale == c.scale && policy == c.rule && slices.Equal(names, c.names), "%v: %v %q %q, want %+v", c.event.Features.Index, scale, policy, names, c)
	}
	deleted := func(h *Head, e *event.Example, dead []bool) float64 {
		var left event.Example
		(&Losses{Fields: h.Schema.Fields}).Lose(LossDeclared, e, 0, e.Features.Index, dead, &left)
		return h.Handling(&left).Scale
	}
	// Two of four features die, and one usual column is already absent.
	e, dead := sparseEvent(1, 2, 3, 6), []bool{true, false, true, false}
	for _, c := range []struct {
		head *Head
		want float64
	}{
		{head(true, rescale), 2.5}, // 2 present, 2 dead and 1 absent: (2 + 2 + 1) / 2
		{head(true, half), 1.75},
		{head(true, asIs), 1},
	} {
		must.Equal(t, deleted(c.head, e, dead), c.want, c.head.Missing)
	}
	// A named field is null once all of its features are deleted.
	named := head(false, rescale)
	named.Schema.AddField(event.Field{Name: "a", Kind: event.Numeric})
	named.Schema.AddField(event.Field{Name: "b", Kind: event.Categorical})
	e = &event.Example{Features: event.Vec{Index: []uint32{1, 2, 3}, Value: []float64{1, 1, 1}}, Field: []uint16{1, 2, 2}}
	one, both := deleted(named, e, []bool{false, true, false}), deleted(named, e, []bool{false, true, true})
	must.True(t, one == 1 && both == 2, "%v %v", one, both)
}

// TestZeros checks that Zeros columns that an event omits count as present, unless the event declares them missing.
// Zeros columns can die like other columns, and are imputed if they are declared missing.
func TestZeros(t *testing.T) {
	m := NewMissing(EveryRange(MissingImpute), nil, nil, nil)
	m.ColumnsCanBeMissing, m.Columns = true, []uint32{1}
	m = m.WithZeros([]uint32{1, 2, 4, 5})
	must.Require(t, slices.Equal(m.Zeros, []uint32{2, 4, 5}), "zeros %v", m.Zeros)
	s := event.NewSchema(8, nil, 2)
	s.Absent, s.NumericIndices = event.AbsentMissing, true
	c := must.Get(NewCovariance([]uint32{1, 2, 4, 6}, make([]uint16, 4), make([]float64, 4), []float64{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}))(t)
	h := &Head{Schema: s, Missing: m, Outputs: 1, Covariance: c}
	e := sparseEvent(3, 4)
	e.MissingColumns = []uint32{2}
	// the event has 3 and 4; 5 is absent but counts as 0
	must.Equal(t, h.CountMissing(e), MissingCount{Null: 1, Absent: 1, Named: 3})
	must.EqualSlices(t, h.Roles(e, nil, nil), ColumnRoles{Imputed, Imputed, Observed, Ignored}, "parts")
	e = sparseEvent(3, 4)
	must.EqualSlices(t, h.Roles(e, nil, nil), ColumnRoles{Imputed, Observed, Observed, Ignored}, "parts")
	x := h.AppendZeros(e, e.Features, event.Vec{})
	must.True(t, slices.Equal(x.Index, []uint32{2, 3, 4, 5}) && slices.Equal(x.Value, []float64{0, e.Features.Value[0], e.Features.Value[1], 0}), "%+v", x)
	var left event.Example
	(&Losses{Fields: s.Fields}).Lose(LossDeclared, e, 0, x.Index, []bool{true, false, true, false}, &left)
	k := h.CountMissing(&left)
	must.True(t, k == (MissingCount{Null: 2, Absent: 1, Named: 2}) && slices.Equal(left.MissingColumns, []uint32{2, 4}), "%+v, %v", k, left.MissingColumns)
	// A column in Zeros never becomes usual.
	u := ColumnUse{Events: 10, Columns: []uint32{2, 7}, Present: []uint64{10, 10}}
	must.EqualSlices(t, u.Review(m).Columns, []uint32{7}, "usual")
}
