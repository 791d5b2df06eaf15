package online_test

// This file generates test events: JSON records with every kind of field, and their decoder.

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/stream/record"
)

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
