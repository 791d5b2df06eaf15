package online_test

import (
	"math"
	"math/rand/v2"

	"blankout/internal/event"
	"blankout/internal/eventtest"
)

// stream draws events of two classes.
type stream struct {
	schema *event.Schema
	next   func() *event.Example
}

// records draws events with fields: numbers with very different scales, a number whose mean changes with time,
// categories and words.
func records(seed uint64) stream {
	s := event.NewSchema(16, []string{"no", "yes"}, 2)
	var ids []uint16
	for _, f := range []event.Field{{Name: "age", Kind: event.Numeric}, {Name: "amount", Kind: event.Numeric}, {Name: "moving", Kind: event.Numeric}, {Name: "shop", Kind: event.Categorical}, {Name: "text", Kind: event.Words}} {
		ids = append(ids, s.AddField(f))
	}
	r, n := rand.New(rand.NewPCG(seed, 1)), 0.0
	return stream{s, func() *event.Example {
		n++
		age, amount, moving := 40+12*r.NormFloat64(), 5000*r.ExpFloat64(), n/100+r.NormFloat64()
		shop, word := r.IntN(30), r.IntN(200)
		e := &event.Example{
			Features: event.Vec{Index: []uint32{1, 2, 3, 100 + uint32(shop), 1000 + uint32(word)}, Value: []float64{age, amount, moving, 1, 1}},
			Field:    ids, Weight: 1,
		}
		if (age-40)/12+amount/5000-1+float64(shop%3)-1+float64(word%2)+r.NormFloat64() > 0.5 {
			e.Label = 1
		}
		return e
	}}
}

// table draws events of a sparse text format. Some columns are always present, some often, some rarely, and a few
// values are outliers.
func table(seed uint64) stream {
	r := rand.New(rand.NewPCG(seed, 2))
	return stream{event.NewSchema(12, []string{"-1", "1"}, 2), func() *event.Example {
		e, score := &event.Example{Weight: 1}, r.NormFloat64()
		for column := range uint32(12) {
			if column >= 4 && r.Float64() < 0.1*float64(column-3) {
				continue
			}
			x := (1 + float64(column)) * (2 + r.NormFloat64())
			if r.IntN(500) == 0 {
				x *= 1e6
			}
			eventtest.Put(e, column+1, x)
			score += math.Copysign(math.Mod(math.Abs(x)/(1+float64(column)), 3)-1, 1) * float64(int(column)%3-1)
		}
		if score > 0 {
			e.Label = 1
		}
		return e
	}}
}

// texts draws bags of words.
func texts(seed uint64) stream {
	r := rand.New(rand.NewPCG(seed, 3))
	return stream{event.NewSchema(16, []string{"-1", "1"}, 2), func() *event.Example {
		e := &event.Example{Weight: 1, Label: r.IntN(2)}
		word := uint32(0)
		for range 5 + r.IntN(20) {
			word += 1 + uint32(math.Exp(6*r.Float64()))
			if e.Label == 1 && word%7 == 0 || e.Label == 0 && word%7 == 1 {
				continue
			}
			eventtest.Put(e, word, 1)
		}
		return e
	}}
}

// nulls draws records with some fields declared missing and some omitted.
func nulls(seed uint64) stream {
	s, r := records(seed), rand.New(rand.NewPCG(seed, 4))
	whole := s.next
	s.next = func() *event.Example {
		e, missing := whole(), [3]bool{}
		if r.IntN(3) > 0 {
			return e
		}
		fraction := r.Float64()
		for i := range missing {
			missing[i] = r.Float64() < fraction
		}
		left := &event.Example{Label: e.Label, Weight: e.Weight}
		for i, column := range e.Features.Index {
			if i < 2 && missing[i] {
				left.Missing = append(left.Missing, e.Field[i])
			}
			if i < 3 && missing[i] {
				continue
			}
			eventtest.Put(left, column, e.Features.Value[i], e.Field[i])
		}
		return left
	}
	return s
}

// seldom draws records that omit a number in two of five events, depending on the label.
func seldom(seed uint64) stream {
	s, r := records(seed), rand.New(rand.NewPCG(seed, 8))
	whole := s.next
	s.next = func() *event.Example {
		e := whole()
		if r.IntN(5) < 2 {
			e.Features.Index, e.Features.Value = append(e.Features.Index[:1:1], e.Features.Index[2:]...), append(e.Features.Value[:1:1], e.Features.Value[2:]...)
			e.Field = append(e.Field[:1:1], e.Field[2:]...)
			e.Label |= r.IntN(2)
		}
		return e
	}
	return s
}

var streams = map[string]func(seed uint64) stream{"records": records, "table": table, "texts": texts, "nulls": nulls, "sensors": sensors, "columns": columns}

// sensors draws records of correlated numbers, many of them missing. The class and the regression target depend on
// their common cause.
func sensors(seed uint64) stream {
	s := event.NewSchema(16, []string{"no", "yes"}, 2)
	const n = 6
	var ids []uint16
	for i := range n {
		ids = append(ids, s.AddField(event.Field{Name: string(rune('a' + i)), Kind: event.Numeric}))
	}
	r := rand.New(rand.NewPCG(seed, 5))
	return stream{s, func() *event.Example {
		e, missing := &event.Example{Weight: 1}, 0.0
		if r.IntN(2) == 0 {
			missing = r.Float64()
		}
		common, other := r.NormFloat64(), r.NormFloat64()
		for i, id := range ids {
			x := float64(i+1) * (10 + common + 0.3*other*float64(i%2) + 0.4*r.NormFloat64())
			if r.IntN(400) == 0 {
				x *= 1e5
			}
			switch {
			case r.Float64() >= missing:
				eventtest.Put(e, uint32(i+1), x, id)
			case r.IntN(3) > 0: // otherwise the field is omitted
				e.Missing = append(e.Missing, id)
			}
		}
		e.Target = math.Round(5 * math.Exp(0.5*common))
		if common+0.5*r.NormFloat64() > 0 {
			e.Label = 1
		}
		return e
	}}
}

// columns draws rows of a table in a sparse text format with missing columns. Two of the columns are rarely above 0.
func columns(seed uint64) stream {
	s := event.NewSchema(12, []string{"-1", "1"}, 2)
	s.Absent = event.AbsentMissing
	r := rand.New(rand.NewPCG(seed, 6))
	return stream{s, func() *event.Example {
		e, missing := &event.Example{Weight: 1}, 0.0
		if r.IntN(2) == 0 {
			missing = r.Float64()
		}
		common := r.NormFloat64()
		for i := range 6 {
			x := float64(i+1) * (3 + common + 0.5*r.NormFloat64())
			if i >= 4 {
				x = max(0, x-5+3*common)
			}
			column := uint32(i + 1)
			switch {
			case r.Float64() < missing && (i >= 4 || r.IntN(2) == 0):
				e.MissingColumns = append(e.MissingColumns, column)
			case r.Float64() >= missing && x != 0:
				eventtest.Put(e, column, x)
			}
		}
		if common+0.5*r.NormFloat64() > 0 {
			e.Label = 1
		}
		return e
	}}
}
