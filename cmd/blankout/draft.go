package main

// The flags --from-file and --from-topic of config init draft a configuration from a sample of the events.

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"blankout/config"
	"blankout/internal/event"
	"blankout/online/health"
	"blankout/stream"
	"blankout/stream/record"
	"blankout/stream/record/notation"
)

// draftFields is the number of fields that a draft lists individually.
const draftFields = 200

// draft returns a configuration for events like the events of a sample. The sample is read from a file, from kafka://…
// or, if where is "", from the topics of l. The configuration contains the keys that the sample determines, and a
// comment on each field. If no event has the label, todo says what to do about it.
func draft(ctx context.Context, l *config.Loaded, where string) (text []byte, todo string, err error) {
	c, kafka := l.Record, l.Kafka.ConsumerConfig
	kafka.UntilEnd = true // read only the current events of a topic
	read := func() (*sample, error) {
		return readSample(ctx, stream.Input{Where: where, Record: c, Kafka: kafka, Format: c.Format})
	}
	s, err := read()
	if err != nil {
		return nil, "", err
	}
	c.Separator = cmp.Or(s.separator, c.Separator)
	var written []notation.Found // numbers written in text; they are not found again once the notation is set
	if n := s.notation(); n != notation.Plain && c.Notation() == notation.Plain {
		written = s.written
		c.Decimal, c.Thousands = n.Decimal, n.Thousands
		if s, err = read(); err != nil {
			return nil, "", err
		}
	}
	times := s.schema.ReadAs(event.ReadTime)
	for _, key := range s.fields.keys() {
		if name := s.schema.Fields[key.field].Name; key.field != 0 && s.fields[key].n >= sampleLeast && s.fields[key].epochUnit() != "" {
			times = append(times, name)
		}
	}
	plain := c.TimeFeatures
	c.Text, c.TimeFeatures = append(slices.Clone(c.Text), s.schema.ReadAs(event.ReadText)...), addNew(c.TimeFeatures, times, c.Time)
	named, err := read()
	if err != nil {
		return nil, "", err
	}
	if named.refused == s.refused {
		s = named
	} else {
		c.TimeFeatures = plain // record.time_features would refuse the few texts that are not times
	}
	if c.Time == "" {
		for _, field := range append(times, s.timeFields()...) {
			c.Time = field
			timed, err := read()
			if err != nil {
				return nil, "", err
			}
			if timed.time != 0 && timed.refused == s.refused && health.OddTime(timed.time, field) == "" {
				s = timed
				break
			}
			c.Time = ""
		}
	}
	name := cmp.Or(where, strings.Join(kafka.Topics, ", "))
	if s.records == s.refused {
		why := "there is none"
		if s.refused > 0 {
			why = "all are refused, the first for " + event.Printable(s.first)
		}
		return nil, "", refusedError{fmt.Errorf("%s: no event can be read: %s; set the format with --set record.format=FORMAT", name, why)}
	}
	format := cmp.Or(record.FormatOf(where), c.Format)
	var out bytes.Buffer
	line := func(text string, args ...any) { fmt.Fprintf(&out, text+"\n", args...) }
	line("# A draft from the first events of %s: %s.", event.Printable(name), s)
	line("# To see every other key: blankout config init -")
	line("")
	line("[kafka]")
	note := ""
	if address, err := url.Parse(where); err == nil && address.Scheme == "kafka" {
		kafka.Brokers, kafka.Topics = strings.Split(address.Host, ","), []string{strings.Trim(address.Path, "/")}
	} else if where != "" {
		note = "  # where your events are"
	}
	line("brokers = %s%s", quoted(kafka.Brokers...), note)
	line("topics = %s", quoted(kafka.Topics...))
	line("")
	draftRecord(line, &c, format, s)
	for _, f := range written {
		line("# %s", f)
	}
	line("")
	line("[learner]")
	if s.numbers() && !slices.Contains(l.Given(), "learner.loss") {
		line("loss = \"squared\"  # the label has %d different numbers", len(s.classes()))
	}
	line("expected_missing = %v  # the fraction of features you expect to lose", l.Learner.ExpectedMissing)
	line("")
	line("[checkpoint]")
	line("directory = %s", config.Quote(string(l.Checkpoint.Directory)))
	if hasLabelField(&c, format) && s.labeled == 0 {
		todo = fmt.Sprintf("no event has the field %q: set record.label (or give --label)%s", event.Printable(c.Label), s.labelFields(". It could be "))
	}
	return out.Bytes(), todo, nil
}

// addNew returns list with the other names that it does not have, except one.
func addNew(list, other []string, except string) []string {
	list = slices.Clone(list)
	for _, name := range other {
		if name != except && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// hasLabelField reports whether events have a label in a field with a name.
func hasLabelField(c *record.Config, format string) bool {
	return !c.Unlabeled && format != "svmlight" && format != "vw"
}

// draftRecord writes the section [record].
func draftRecord(line func(text string, args ...any), c *record.Config, format string, s *sample) {
	line("[record]")
	line("format = %s", config.Quote(format))
	switch {
	case !hasLabelField(c, format):
	case s.labeled == 0:
		line("label = %s  # NO EVENT HAS IT: name the label's field%s", config.Quote(c.Label), s.labelFields("; it could be "))
	default:
		line("label = %s", config.Quote(c.Label))
	}
	names := s.classes()
	switch {
	case len(names) == 0 || s.numbers():
	case len(names) > draftClasses:
		line("# THE LABEL HAS %d DIFFERENT VALUES: name the label's field", len(names))
	case len(names) == 2:
		line("classes = %s  # the positive one last", quoted(names...))
	case len(names) > 2:
		line("classes = %s", quoted(names...))
	}
	for _, key := range []struct{ name, value string }{{"weight", c.Weight}, {"id", c.ID}, {"time", c.Time}} {
		if key.value != "" {
			line("%s = %s", key.name, config.Quote(key.value))
		}
	}
	if format == "csv" && c.Separator != record.DefaultConfig().Separator {
		line("separator = %s", config.Quote(c.Separator))
	}
	if n := c.Notation(); n != notation.Plain {
		line("decimal = %s", config.Quote(n.Decimal))
		line("thousands = %s", config.Quote(n.Thousands))
	}
	if text := s.fields.leftOut(s.schema, s.records-s.refused); text != "" || c.Absent == event.AbsentZero {
		line("# %s", cmp.Or(text, "absent numbers are 0"))
		line("absent = %s", config.Quote(event.AbsentZero))
	}
	for _, list := range []struct {
		key, note string
		names     []string
	}{{"text", "their words are features", c.Text}, {"time_features", "their hour and weekday are features", c.TimeFeatures}} {
		if len(list.names) > 0 {
			line("%s = %s  # %s", list.key, quoted(list.names...), list.note)
		}
	}
	drop, notes := s.fieldNotes()
	if drop = append(slices.Clone(c.Drop), drop...); len(drop) > 0 {
		line("drop = %s", quoted(drop...))
	}
	if len(notes) > 0 {
		line("# The fields of %s events:", humanize.Comma(int64(s.records-s.refused)))
		for _, note := range notes[:min(len(notes), draftFields)] {
			line("#   %s", note)
		}
		if more := len(s.fields) - draftFields; more > 0 {
			line("#   and %s more", humanize.Comma(int64(more)))
		}
	}
}

// fieldNotes returns notes about the fields. The result drop lists the fields that seem to contain the label.
func (s *sample) fieldNotes() (drop, notes []string) {
	events := s.records - s.refused
	for _, key := range s.fields.keys() {
		if key.field == 0 {
			continue
		}
		r, field := s.fields[key], s.schema.Fields[key.field]
		note := fmt.Sprintf("%s: %s", event.Printable(field.Name), field.Kind)
		if missing := events - r.events; missing > 0 {
			note += fmt.Sprintf(", missing in %.3g %%", 100*float64(missing)/float64(events))
		}
		switch {
		case len(r.numbers) > 0:
			note += fmt.Sprintf(", %.6g to %.6g, %s", r.low, r.high, plural(len(r.numbers), "value"))
		case len(r.columns) > 0:
			note += ", " + plural(len(r.columns), "value")
		}
		if why := r.suspicion(); s.isWritten(field.Name) {
			note += "; ITS TEXTS ARE NUMBERS: write them without quotes"
		} else if why != "" && r.n >= sampleLeast {
			note += "; DROPPED because it looks like " + why
			drop = append(drop, field.Name)
		}
		notes = append(notes, note)
	}
	return drop, notes
}

func quoted(list ...string) string {
	out := make([]string, len(list))
	for i, text := range list {
		out[i] = config.Quote(text)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
