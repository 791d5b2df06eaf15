package main

// config check --sample looks at the first events for fields that will do harm.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/dustin/go-humanize"

	"blankout"
	"blankout/online"
	"blankout/record"
	"blankout/stream"
)

const (
	sampleRecords = 20_000
	sampleValues  = 2_000_000 // features at most, which bounds the memory
	sampleLeast   = 20        // a field with fewer readings is not judged
)

// A sample is what the first records of a file or topic hold, read as a configuration says.
type sample struct {
	time                       int64 // of the first record that has one
	schema                     *blankout.Schema
	fields                     sampled
	records, labelled, refused int
	first                      string // what was wrong with the first record refused
}

// readSample reads the first records of a file or topic.
func readSample(ctx context.Context, in stream.Input) (_ *sample, err error) {
	out := &sample{schema: in.Record.Schema()}
	file, err := in.Open(ctx, out.schema, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var b blankout.Batch
	for values := 0; out.records < sampleRecords && values < sampleValues; {
		if err := file.Next(ctx, &b); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		for i := range b.Examples {
			e := &b.Examples[i]
			if out.records++; e.Refused != nil {
				if out.refused++; out.refused == 1 {
					out.first = e.Refused.Error()
				}
				continue
			}
			if e.Label != blankout.Unlabelled {
				out.labelled++
			}
			if out.time == 0 {
				out.time = e.Time
			}
			values += e.Features.Len()
			out.fields.add(e, out.schema, out.records)
		}
	}
	return out, nil
}

// checkSample tells what looks wrong with how the configuration reads the first records of
// a file: records without a label or refused, and fields that look like a time or an id.
func (p *program) checkSample(ctx context.Context, c record.Config, path string) (*sampleResult, error) {
	s, err := readSample(ctx, stream.Input{Where: path, Record: c, Kafka: stream.DefaultConsumerConfig()})
	if err != nil {
		return nil, err
	}
	p.note(fmt.Sprintf("%s: %s", path, s))
	result := &sampleResult{Records: s.records, Labelled: s.labelled, Refused: s.refused, Classes: s.schema.Classes, Warnings: []string{}}
	if s.refused > 0 {
		result.Warnings = append(result.Warnings, "the first record refused: "+blankout.Printable(s.first))
	}
	if s.records > s.refused && s.labelled == 0 && !c.Unlabelled {
		result.Warnings = append(result.Warnings, fmt.Sprintf("no record has a label: is record.label = %q the field that holds it?", c.Label))
	}
	if text := online.OddTime(s.time, c.Time); c.Time != "" && text != "" {
		result.Warnings = append(result.Warnings, text)
	}
	result.Warnings = append(result.Warnings, s.fields.suspicious(s.schema)...)
	if text := s.fields.leftOut(s.schema, s.records-s.refused); text != "" {
		result.Warnings = append(result.Warnings, text)
	}
	for _, text := range result.Warnings {
		p.warn(text)
	}
	return result, nil
}

// sampleResult is what config check --json says of a sample.
type sampleResult struct {
	Records  int      `json:"records"`
	Labelled int      `json:"labelled"`
	Refused  int      `json:"refused"`
	Classes  []string `json:"classes"`
	Warnings []string `json:"warnings"`
}

// String counts the records, for people.
func (s *sample) String() string {
	classes := ""
	if n := len(s.schema.Classes); s.labelled > 0 {
		classes = fmt.Sprintf(" of %s", plural(n, "class"))
	}
	return fmt.Sprintf("%s, %s labelled%s, %s refused", plural(s.records, "record"), humanize.Comma(int64(s.labelled)), classes, humanize.Comma(int64(s.refused)))
}

// warn tells a person that something is probably wrong.
func (p *program) warn(text string) { fmt.Fprintln(p.stderr, "warning: "+text) }

// sampled are the readings of each field or, of text formats without fields, of
// each column.
type sampled map[sampledKey]*readings

type sampledKey struct {
	field  uint16
	column uint32 // of field 0
}

type readings struct {
	n         int
	events    int // that have the field
	newest    int // the number of the last of them
	low, high float64
	whole     bool // all are whole numbers
	rising    int  // readings above the one before
	last      float64
	numbers   map[float64]struct{} // different ones
	columns   map[uint32]struct{}  // different ones, of names
}

// add counts an event in, the record of this number from 1 on.
func (f *sampled) add(e *blankout.Example, s *blankout.Schema, number int) {
	if *f == nil {
		*f = sampled{}
	}
	for i, column := range e.Features.Index {
		key := sampledKey{column: column}
		if len(e.Field) > 0 && e.Field[i] != 0 {
			key = sampledKey{field: e.Field[i]}
		}
		r := (*f)[key]
		if r == nil {
			r = &readings{low: math.Inf(1), high: math.Inf(-1), whole: true, last: math.Inf(-1), numbers: map[float64]struct{}{}, columns: map[uint32]struct{}{}}
			(*f)[key] = r
		}
		if r.newest != number {
			r.events, r.newest = r.events+1, number
		}
		switch x := e.Features.Value[i]; s.Fields[key.field].Kind {
		case blankout.Numeric, blankout.Sparse:
			r.n++
			r.low, r.high, r.whole = min(r.low, x), max(r.high, x), r.whole && x == math.Trunc(x)
			if x > r.last {
				r.rising++
			}
			r.last = x
			r.numbers[x] = struct{}{}
		case blankout.Categorical:
			r.n++
			r.columns[column] = struct{}{}
		}
	}
}

// epochs are the units in which times since 1970 are written.
var epochs = []struct {
	unit string
	per  float64 // a second
}{{"seconds", 1}, {"milliseconds", 1e3}, {"microseconds", 1e6}, {"nanoseconds", 1e9}}

// keys returns what was read, in the order of fields.
func (f sampled) keys() []sampledKey {
	return slices.SortedFunc(maps.Keys(f), func(a, b sampledKey) int {
		return int(a.field)<<32 + int(a.column) - int(b.field)<<32 - int(b.column)
	})
}

// suspicious names the fields that look like a time or an id, in their order.
func (f sampled) suspicious(s *blankout.Schema) (out []string) {
	for _, key := range f.keys() {
		r := f[key]
		if r.n < sampleLeast {
			continue
		}
		name := fmt.Sprintf("column %d", key.column)
		if key.field != 0 {
			name = fmt.Sprintf("field %q", s.Fields[key.field].Name)
		}
		if why := r.suspicion(); why != "" {
			out = append(out, fmt.Sprintf("%s looks like %s", name, why))
		}
	}
	return out
}

// leftOut tells that most numeric fields are left out by most of so many events, whose
// usual value is then probably 0; "" if they are not.
func (f sampled) leftOut(s *blankout.Schema, events int) string {
	numeric, seldom := 0, 0
	for key, r := range f {
		if s.Fields[key.field].Kind == blankout.Numeric {
			if numeric++; 2*r.n < events {
				seldom++
			}
		}
	}
	if seldom < sampleLeast || 2*seldom < numeric {
		return ""
	}
	return fmt.Sprintf("%s of %s are left out of most events, where they count as their mean: if what is left out means 0, set learner.standardise = \"scale\"",
		humanize.Comma(int64(seldom)), plural(numeric, "numeric field"))
}

// suspicion says what the readings look like, "" for an ordinary feature.
func (r *readings) suspicion() string {
	different := func(n int) string {
		return fmt.Sprintf("%s of %s readings are different", humanize.Comma(int64(n)), humanize.Comma(int64(r.n)))
	}
	for _, e := range epochs {
		// From 2001 to 2100, and not one and the same.
		if r.low >= 1e9*e.per && r.high < 4.1e9*e.per && r.high > r.low {
			return fmt.Sprintf("a time in %s since 1970 (%.0f to %.0f), which only grows: name it in record.time, or in record.drop", e.unit, r.low, r.high)
		}
	}
	distinct := max(len(r.numbers), len(r.columns))
	almost := distinct >= r.n*95/100
	switch {
	case !almost:
		return ""
	case len(r.columns) > 0:
		return fmt.Sprintf("an id or a time (%s): name it in record.id, record.time or record.drop", different(distinct))
	case r.whole && r.rising >= r.n*95/100:
		return fmt.Sprintf("a counter or an id (%s, and each is larger than the one before): name it in record.id or record.drop", different(distinct))
	case r.whole && r.n >= 100 && distinct >= r.n*99/100 && r.high-r.low >= max(1e6, 1e3*float64(r.n)): // a price is smaller, and comes again
		return fmt.Sprintf("an id (%s, whole numbers from %.0f to %.0f): name it in record.id, record.drop or, if it comes again, record.categorical", different(distinct), r.low, r.high)
	}
	return ""
}
