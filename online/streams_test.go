package online_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/stream/record"
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
		e.Label = must.Either((age-40)/12+amount/5000-1+float64(shop%3)-1+float64(word%2)+r.NormFloat64() > 0.5, 1, 0)
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
		e.Label = must.Either(score > 0, 1, 0)
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
	ids := must.List(n, func(i int) uint16 { return s.AddField(event.Field{Name: string(rune('a' + i)), Kind: event.Numeric}) })
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
		e.Label = must.Either(common+0.5*r.NormFloat64() > 0, 1, 0)
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
		e.Label = must.Either(common+0.5*r.NormFloat64() > 0, 1, 0)
		return e
	}}
}

// row is a record as text, by field.
type row struct {
	label  string // JSON, or "" without a label
	weight float64
	class  int     // index of the class
	y      float64 // the target, in its unit
	names  []string
	values []string // JSON
}

func (x *row) set(name, value string) {
	for i := range x.names {
		if x.names[i] == name {
			x.values[i] = value
			return
		}
	}
	x.names, x.values = append(x.names, name), append(x.values, value)
}

// json formats the record with its fields in the given order; nil means sorted by name.
func (x *row) json(order []int) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range x.names {
		if order != nil {
			i = order[i]
		}
		fmt.Fprintf(&b, "%q:%s,", x.names[i], x.values[i])
	}
	if x.label != "" {
		fmt.Fprintf(&b, `"label":%s,`, x.label)
	}
	fmt.Fprintf(&b, `"weight":%s}`, number(x.weight))
	return b.Bytes()
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// feed makes rows. Every field depends on the class or the target.
type feed struct {
	r       *rand.Rand
	classes int                                 // 0 means regression
	labels  func(class int) string              // returns a class label as JSON
	target  func(y float64) float64             // converts a target to its unit
	value   func(name string, x float64) string // formats a number of the named field as JSON
	nulls   float64                             // probability that temp, volt and site are null
	weights bool                                // events have different weights
	heavy   bool                                // a few events of weight 300
	turned  bool                                // the concept is reversed
}

func newFeed(seed uint64, classes int) *feed {
	return &feed{
		r: rand.New(rand.NewPCG(seed, 1)), classes: classes,
		labels: func(class int) string { return fmt.Sprintf("%q", fmt.Sprint("c", class)) },
		target: func(y float64) float64 { return y },
		value:  func(_ string, x float64) string { return number(x) },
	}
}

func (f *feed) next() *row {
	r := f.r
	x := &row{weight: 1}
	signal := r.NormFloat64()
	if f.classes > 0 {
		x.class = r.IntN(f.classes)
		signal = float64(x.class) - float64(f.classes-1)/2
		x.label = f.labels(x.class)
	} else {
		x.y = f.target(20 + 5*signal + r.NormFloat64())
		x.label = number(x.y)
	}
	if f.turned {
		signal = -signal
	}
	temp := 20 + 2*signal + r.NormFloat64()
	x.set("temp", f.value("temp", temp))
	x.set("load", f.value("load", 1e4*math.Abs(3+signal/2+r.NormFloat64())))
	x.set("volt", f.value("volt", 5+(temp-20)/2+0.2*math.Abs(r.NormFloat64())))
	if r.IntN(4) > 0 {
		x.set("dose", f.value("dose", 1e-3*(2+signal+r.Float64())))
	}
	site := r.IntN(4)
	if r.IntN(3) == 0 {
		site = int(math.Abs(2*signal)) % 4
	}
	x.set("site", fmt.Sprintf("%q", fmt.Sprint("s", site)))
	var words bytes.Buffer
	for word := range 12 {
		if r.IntN(6) == 0 || signal > 0 && word == 3 && r.IntN(3) == 0 {
			fmt.Fprintf(&words, "w%d ", word)
		}
	}
	x.set("words", fmt.Sprintf("%q", words.String()))
	for _, name := range []string{"temp", "volt", "site"} {
		if r.Float64() < f.nulls {
			x.set(name, "null")
		}
	}
	if f.weights {
		x.weight = []float64{1, 1, 1, 2, 0.5, 1.5}[r.IntN(6)]
	}
	if f.heavy && r.IntN(50) == 0 {
		x.weight = 300
	}
	return x
}

// reader decodes rows.
type reader struct {
	t       *testing.T
	c       record.Config
	schema  *event.Schema
	decoder record.Decoder
	n       int64
}

// recordsOf returns the record format for a setting.
func recordsOf(s setting) record.Config {
	c := record.DefaultConfig()
	c.Format, c.Weight, c.Text, c.Bits = "json", "weight", []string{"words"}, 12
	c.Groups = map[string][]string{"sensor": {"temp", "volt"}, "place": {"site", "dose"}}
	c.Target = loss.LabelsOf(s.c.Loss)
	return c
}

func newReader(t *testing.T, s setting) *reader {
	t.Helper()
	r := &reader{t: t, c: recordsOf(s)}
	r.follow(r.c.Schema())
	return r
}

// follow makes the decoder continue with the given Schema.
func (r *reader) follow(s *event.Schema) {
	r.t.Helper()
	r.decoder = must.Get(record.NewDecoder(r.c, s))(r.t)
	r.schema = s
}

func (r *reader) event(x *row) *event.Example { return r.decode(x.json(nil)) }

func (r *reader) decode(text []byte) *event.Example {
	r.t.Helper()
	r.n++
	e := &event.Example{}
	must.Do(r.t, r.decoder.Decode(context.Background(), record.Record{Value: text, Offset: r.n}, e))
	return clone(e)
}

// clone returns a deep copy of an event.
func clone(e *event.Example) *event.Example {
	out := *e
	out.Features = e.Features.Clone()
	out.Field = append([]uint16(nil), e.Field...)
	if e.Field != nil && out.Field == nil {
		out.Field = []uint16{}
	}
	out.Missing = append([]uint16(nil), e.Missing...)
	return &out
}
