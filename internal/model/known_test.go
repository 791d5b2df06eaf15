package model

import (
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/must"
)

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
