package main

// This file lets config check --sample find fields in the first events that would harm learning.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"blankout/config"
	"blankout/internal/event"
	"blankout/online"
	"blankout/online/health"
	"blankout/stream"
	"blankout/stream/record"
	"blankout/stream/record/notation"
)

const (
	sampleRecords = 20_000
	sampleValues  = 2_000_000 // largest number of features, which limits the memory
	sampleLeast   = 20        // least number of readings to judge a field
)

// sample has statistics of the first records of a file or topic, read with the settings of the configuration.
type sample struct {
	time                      int64 // time of the first record that has a time
	schema                    *event.Schema
	fields                    sampled
	records, labeled, refused int
	first                     string      // reason why the first rejected record was rejected
	counts                    map[int]int // number of events by class
	separator                 string      // separator of a CSV file, as detected
	written                   []notation.Found
}

// readSample reads the first records of a file or topic. If no classes are configured, it counts all classes, even
// beyond the limit of a learner.
func readSample(ctx context.Context, in stream.Input) (_ *sample, err error) {
	in.Record.MaxClasses = max(in.Record.MaxClasses, maxClasses)
	out := &sample{schema: in.Record.Schema(), fields: sampled{}, counts: map[int]int{}}
	file, err := in.Open(ctx, out.schema, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if f, ok := file.(*stream.File); ok {
		out.separator = f.Record().Separator
	}
	var b event.Batch
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
			if e.Label != event.Unlabeled {
				out.labeled++
				out.counts[e.Label]++
			}
			out.time = cmp.Or(out.time, e.Time)
			values += e.Features.Len()
			out.fields.add(e, out.schema, out.records)
		}
	}
	out.written = notation.Find(out.schema)
	return out, nil
}

// isWritten reports whether a field contains numbers written as text.
func (s *sample) isWritten(field string) bool {
	return slices.ContainsFunc(s.written, func(f notation.Found) bool { return f.Field == field })
}

// notation returns the notation of numbers that are written as text, or Plain if the sample has no such numbers.
func (s *sample) notation() notation.Notation {
	for _, f := range s.written {
		if f.Notation != notation.Plain {
			return f.Notation
		}
	}
	return notation.Plain
}

// learnable returns an error if no event of the sample can be learned. The error has the exit code that run has for
// such events. The receiver may be nil.
func (r *sampleResult) learnable(unlabeled bool) error {
	switch {
	case r == nil || r.Labeled > 0 || unlabeled && r.Records > r.Refused:
		return nil
	case r.Records == r.Refused:
		return refusedError{errors.New("config check: the sample has no event that can be learned: see the warnings")}
	}
	return usageError{errors.New("config check: no event of the sample has a label: see the warnings")}
}

// checkSample reports probable mistakes in the settings for reading a file, given its first records. Signs of a mistake
// are unlabeled or rejected records, and fields that look like a time or an ID.
func (p *program) checkSample(ctx context.Context, c record.Config, path string) (*sampleResult, error) {
	s, err := readSample(ctx, stream.Input{Where: path, Record: c, Kafka: stream.DefaultConsumerConfig()})
	if err != nil {
		return nil, err
	}
	p.note(fmt.Sprintf("%s: %s", path, s))
	result := &sampleResult{Records: s.records, Labeled: s.labeled, Refused: s.refused, Classes: s.schema.Classes, Warnings: []string{}}
	if s.records == 0 {
		result.Warnings = append(result.Warnings, path+": it contains no record")
	}
	if s.refused > 0 {
		result.Warnings = append(result.Warnings, "the first record was refused: "+event.Printable(s.first))
	}
	if s.records > s.refused && s.labeled == 0 && !c.Unlabeled {
		result.Warnings = append(result.Warnings, fmt.Sprintf("no record has the field record.label = %q: name the label's field%s", c.Label, s.labelFields(". Candidates: ")))
	}
	switch names := s.classes(); {
	case len(names) == 0 || len(c.Classes) > 0:
	case s.numbers() || len(names) > max(c.MaxClasses, 2):
		result.Warnings = append(result.Warnings, s.classAdvice(c))
	default:
		p.note("the classes, for record.classes: " + quoted(names...))
	}
	if absent, err := absentNames(ctx, c, path); err != nil {
		return nil, err
	} else if len(absent) > 0 && s.records > s.refused {
		result.Warnings = append(result.Warnings, "no record has a value of "+strings.Join(absent, ", ")+": check the spelling")
	}
	if text := health.OddTime(s.time, c.Time); c.Time != "" && text != "" {
		result.Warnings = append(result.Warnings, text)
	}
	result.Warnings = append(result.Warnings, s.schema.LabelSpellings()...)
	for k, name := range s.schema.Classes {
		if s.labeled > 1 && s.counts[k] == s.labeled {
			result.Warnings = append(result.Warnings, fmt.Sprintf("every label of %s is %q: at least two classes are needed", plural(s.labeled, "record"), name))
		}
	}
	for _, f := range s.written {
		result.Warnings = append(result.Warnings, f.String())
	}
	for i := range s.schema.Readings {
		if text := s.schema.Readings[i].Advice(); text != "" {
			result.Warnings = append(result.Warnings, text)
		}
	}
	result.Warnings = append(result.Warnings, s.suspicious()...)
	if text := s.fields.leftOut(s.schema, s.records-s.refused); text != "" && c.Absent != event.AbsentZero {
		result.Warnings = append(result.Warnings, text)
	}
	p.warn(result.Warnings...)
	return result, nil
}

// absentNames returns the settings of c that name a field without a value in the sample, as in `record.time = "at"`. It
// reads the sample again without these settings, because otherwise the fields that they name would not be features. It
// returns nil for formats without field names, and for standard input.
func absentNames(ctx context.Context, c record.Config, path string) (out []string, err error) {
	plain := c
	plain.Weight, plain.ID, plain.Time, plain.TimeFeatures = "", "", "", nil
	plain.Infer = false
	plain.Drop, plain.Categorical, plain.Text, plain.Groups, plain.Crosses, plain.Ngrams = nil, nil, nil, nil, nil, 1
	format := cmp.Or(record.FormatOf(path), c.Format)
	if path == "-" || format == "svmlight" || format == "vw" || format == "idx" {
		return nil, nil
	}
	s, err := readSample(ctx, stream.Input{Where: path, Record: plain, Kafka: stream.DefaultConsumerConfig()})
	if err != nil {
		return nil, err
	}
	found := func(name string) bool {
		return name == c.Label || slices.ContainsFunc(s.schema.Fields, func(f event.Field) bool {
			return f.Name == name || strings.HasPrefix(f.Name, name+".") || strings.HasPrefix(f.Name, name+"[")
		})
	}
	look := func(key string, names ...string) {
		for _, name := range names {
			if name != "" && !found(name) {
				out = append(out, fmt.Sprintf("record.%s = %s", key, config.Quote(event.Printable(name))))
			}
		}
	}
	look("weight", c.Weight)
	look("id", c.ID)
	look("time", c.Time)
	look("time_features", c.TimeFeatures...)
	look("drop", c.Drop...)
	look("categorical", c.Categorical...)
	look("text", c.Text...)
	for _, group := range slices.Sorted(maps.Keys(c.Groups)) {
		look("groups", c.Groups[group]...)
	}
	for _, pair := range c.Crosses {
		look("crosses", pair[:]...)
	}
	return out, nil
}

// classes returns the classes that were found. If there are two classes, the last is the larger class of a conventional
// pair, and otherwise the rarer class. More than two classes are sorted as numbers if all are numbers, otherwise by
// decreasing frequency.
func (s *sample) classes() []string {
	names := slices.Clone(s.schema.Classes)
	slices.SortFunc(names, func(a, b string) int {
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		rarer := cmp.Compare(s.counts[slices.Index(s.schema.Classes, b)], s.counts[slices.Index(s.schema.Classes, a)])
		if errX == nil && errY == nil && len(names) > 2 {
			return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
		}
		return cmp.Or(rarer, strings.Compare(a, b))
	})
	if len(names) == 2 && event.UsualPair(names[1], names[0]) {
		slices.Reverse(names)
	}
	return names
}

// numbers reports whether the labels look like regression targets.
func (s *sample) numbers() bool {
	names := s.schema.Classes
	return len(names) > 2 && online.AreNumbers(names) && online.CheckLabels("quadratic", names) != nil
}

// classAdvice returns advice if the sample has more classes than a learner's limit.
func (s *sample) classAdvice(c record.Config) string {
	names := s.classes()
	many := ""
	if len(names) >= maxClasses {
		many = "at least "
	}
	text := fmt.Sprintf("the label has %s%d different values in the first %s", many, len(names), plural(s.records, "record"))
	switch {
	case s.numbers():
		return text + ": for regression set learner.loss to squared (--set learner.loss=squared)"
	case len(names) > draftClasses:
		return text + fmt.Sprintf(": check that record.label = %q is the label's field", c.Label)
	}
	return text + fmt.Sprintf(", and record.max_classes is %d: set record.classes = %s", c.MaxClasses, quoted(names...))
}

// draftClasses is the largest number of classes that a draft lists individually.
const draftClasses = 100

// labelFields returns text followed by the names of the fields that could be the label. Such a field has few values,
// and every event has it. labelFields returns "" if no field could be the label.
func (s *sample) labelFields(text string) string {
	const most, shown = 20, 5
	type candidate struct {
		name string
		n    int
	}
	var found []candidate
	for _, key := range s.fields.keys() {
		r := s.fields[key]
		n := max(len(r.numbers), len(r.columns))
		if key.field != 0 && r.events == s.records-s.refused && n >= 2 && n <= most && 2*n <= r.events {
			found = append(found, candidate{s.schema.Fields[key.field].Name, n})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.n, b.n) })
	var parts []string
	for _, c := range found[:min(len(found), shown)] {
		parts = append(parts, fmt.Sprintf("%s (%d values)", config.Quote(event.Printable(c.name)), c.n))
	}
	if len(parts) == 0 {
		return ""
	}
	return text + strings.Join(parts, ", ")
}

// adviseOn reads the first events of a run that learned nothing or almost nothing, and returns advice. It returns "" if
// it has no advice.
func adviseOn(ctx context.Context, in stream.Input) string {
	if in.Where == "-" {
		return "" // standard input cannot be read again
	}
	in.Kafka.UntilEnd, in.Record.KeepValue = true, false
	s, err := readSample(ctx, in)
	switch {
	case err != nil: // the run has just read the same events and reported the errors
		return ""
	case s.labeled == 0:
		return s.labelFields("fields that could be the label, because they are in every event and have few values: ")
	case len(in.Record.Classes) == 0 && len(s.schema.Classes) > in.Record.MaxClasses:
		return s.classAdvice(in.Record)
	}
	return ""
}

// sampleResult is the JSON output of config check about a sample.
type sampleResult struct {
	Records  int      `json:"records"`
	Labeled  int      `json:"labeled"`
	Refused  int      `json:"refused"`
	Classes  []string `json:"classes"`
	Warnings []string `json:"warnings"`
}

// String returns the numbers of records as text.
func (s *sample) String() string {
	classes := ""
	if n := len(s.schema.Classes); n > 0 && s.labeled > 0 {
		classes = fmt.Sprintf(" of %s", plural(n, "class"))
	}
	return fmt.Sprintf("%s, %s labeled%s, %s refused", plural(s.records, "record"), humanize.Comma(int64(s.labeled)), classes, humanize.Comma(int64(s.refused)))
}

// warn prints warnings for the user. An empty text is no warning.
func (p *program) warn(texts ...string) {
	for _, text := range texts {
		if text != "" {
			fmt.Fprintln(p.stderr, "warning: "+text)
		}
	}
}

// sampled holds the readings of each field. For text formats without fields it holds the readings of each column.
type sampled map[sampledKey]*readings

type sampledKey struct {
	field  uint16
	column uint32 // column, if field is 0
}

type readings struct {
	n         int
	events    int // number of events with the field
	newest    int // number of the last event with the field
	low, high float64
	whole     bool // whether all readings are whole numbers
	rising    int  // number of readings that are larger than the previous one
	last      float64
	numbers   map[float64]struct{} // distinct readings
	columns   map[uint32]struct{}  // distinct columns of categorical values
}

// add adds the values of an event. The argument number is the number of the event's record, counted from 1.
func (f sampled) add(e *event.Example, s *event.Schema, number int) {
	for i, column := range e.Features.Index {
		key := sampledKey{column: column}
		if len(e.Field) > 0 && e.Field[i] != 0 {
			key = sampledKey{field: e.Field[i]}
		}
		r := f[key]
		if r == nil {
			r = &readings{low: math.Inf(1), high: math.Inf(-1), whole: true, last: math.Inf(-1), numbers: map[float64]struct{}{}, columns: map[uint32]struct{}{}}
			f[key] = r
		}
		if r.newest != number {
			r.events, r.newest = r.events+1, number
		}
		switch x := e.Features.Value[i]; s.Fields[key.field].Kind {
		case event.Numeric, event.Sparse:
			r.n++
			r.low, r.high, r.whole = min(r.low, x), max(r.high, x), r.whole && x == math.Trunc(x)
			if x > r.last {
				r.rising++
			}
			r.last = x
			r.numbers[x] = struct{}{}
		case event.Categorical, event.Boolean:
			r.n++
			r.columns[column] = struct{}{}
		}
	}
}

// epochs are the units in which a field may give the time since 1970.
var epochs = []struct {
	unit string
	per  float64 // units per second
}{{"seconds", 1}, {"milliseconds", 1e3}, {"microseconds", 1e6}, {"nanoseconds", 1e9}}

// keys returns the keys in the order of fields.
func (f sampled) keys() []sampledKey {
	return slices.SortedFunc(maps.Keys(f), func(a, b sampledKey) int {
		return int(a.field)<<32 + int(a.column) - int(b.field)<<32 - int(b.column)
	})
}

// timeFields returns the names of the fields that may be the event time: the fields that look like an ID or a time.
func (s *sample) timeFields() (out []string) {
	for _, key := range s.fields.keys() {
		if r := s.fields[key]; key.field != 0 && r.n >= sampleLeast && r.suspicion() != "" {
			out = append(out, s.schema.Fields[key.field].Name)
		}
	}
	return out
}

// suspicious returns the fields that look like a time or an ID, in the order of fields.
func (s *sample) suspicious() (out []string) {
	for _, key := range s.fields.keys() {
		r := s.fields[key]
		if r.n < sampleLeast || s.isWritten(s.schema.Fields[key.field].Name) {
			continue
		}
		name := fmt.Sprintf("column %d", key.column)
		if key.field != 0 {
			name = fmt.Sprintf("field %q", s.schema.Fields[key.field].Name)
		}
		if why := r.suspicion(); why != "" {
			out = append(out, fmt.Sprintf("%s looks like %s", name, why))
		}
	}
	return out
}

// leftOut returns a message if numeric fields are probably omitted whenever they are 0, otherwise "". The condition is
// that at least a third of the events omit most numeric fields. In the other events these fields must never be 0.
func (f sampled) leftOut(s *event.Schema, events int) string {
	left, zero := 0, 0 // number of omitted fields, and number of these that are sometimes 0
	for key, r := range f {
		if s.Fields[key.field].Kind == event.Numeric && events >= sampleLeast && 3*(events-r.n) >= events {
			left++
			if _, is := r.numbers[0]; is {
				zero++
			}
		}
	}
	if left < leftOutLeast || 10*zero > left {
		return ""
	}
	return fmt.Sprintf("%s are absent from at least a third of the events and never 0 in the others. Absent counts as missing: if it means 0, set record.absent = \"zero\"",
		plural(left, "numeric field"))
}

// leftOutLeast is the smallest number of omitted fields for which leftOut returns a message.
const leftOutLeast = 3

// epochUnit returns the unit of readings that are times between 2001 and 2100 and are not constant, otherwise "".
func (r *readings) epochUnit() string {
	for _, e := range epochs {
		if r.low >= 1e9*e.per && r.high < 4.1e9*e.per && r.high > r.low {
			return e.unit
		}
	}
	return ""
}

// suspicion returns a description of readings that look like a time or an ID. It returns "" for the readings of an
// ordinary feature.
func (r *readings) suspicion() string {
	different := func(n int) string {
		return fmt.Sprintf("%s of %s readings are different", humanize.Comma(int64(n)), humanize.Comma(int64(r.n)))
	}
	if unit := r.epochUnit(); unit != "" {
		return fmt.Sprintf("a time in %s since 1970 (%.0f to %.0f): name it in record.time_features, record.time or record.drop", unit, r.low, r.high)
	}
	distinct := max(len(r.numbers), len(r.columns))
	almost := distinct >= r.n*95/100
	switch {
	case !almost:
		return ""
	case len(r.columns) > 0:
		// Different values may share a column, so the number of different values is slightly too small.
		return fmt.Sprintf("an id or a time (about %s): name it in record.id, record.time or record.drop", different(distinct))
	case r.whole && r.rising >= r.n*95/100:
		return fmt.Sprintf("a counter or an id (%s, each larger than the one before): name it in record.id or record.drop", different(distinct))
	case r.whole && r.n >= 100 && distinct >= r.n*99/100 && r.high-r.low >= max(1e6, 1e3*float64(r.n)): // an ID: prices are smaller and repeat
		return fmt.Sprintf("an id (%s, whole numbers from %.0f to %.0f): name it in record.id, record.drop or, if values repeat, record.categorical", different(distinct), r.low, r.high)
	}
	return ""
}
