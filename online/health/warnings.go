package health

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/stream/record/notation"
)

// This file has warnings about streams that are probably not what the user expects.

// Warning describes a property of a stream that the user probably does not expect. It depends only on the state, so a
// restarted run has the same warnings.
type Warning struct {
	Kind string `json:"kind"` // one of WarningKinds
	Text string `json:"text"` // a sentence with counts and names
}

// WarningKinds lists the kinds of Warnings.
var WarningKinds = []string{WarnUnlabeled, WarnRefused, WarnStrayLabel, WarnSpelling, WarnKinds, WarnText, WarnPlaceholder, WarnOneClass, WarnNoRate, WarnUndeclared, WarnCoverage, WarnTime, WarnStale, WarnPrior, WarnLast}

// OfRecords reports whether a Warning is about the records, rather than about the learned model. When the same records
// are read again, such a Warning is redundant.
func (w Warning) OfRecords() bool {
	return w.Kind != WarnPrior && w.Kind != WarnLast && w.Kind != WarnStale && w.Kind != WarnNoRate && w.Kind != WarnUndeclared && w.Kind != WarnCoverage
}

const (
	WarnUnlabeled   = "no-labels"        // no event has had a label
	WarnRefused     = "refused"          // more than the fraction maxRefused of the records were rejected
	WarnStrayLabel  = "stray-label"      // a very rare label uses a class
	WarnSpelling    = "label-spelling"   // labels are the same number in different spellings
	WarnKinds       = "mixed-kinds"      // a field has values of several kinds
	WarnText        = "numbers-as-text"  // the texts of a field are numbers, and each is its own category
	WarnPlaceholder = "placeholder"      // a value far from all other readings of a field repeats, and counts as missing
	WarnOneClass    = "one-class"        // all labels are the same class
	WarnNoRate      = "no-rate"          // the noise has rates for unknown groups, or nothing is missing
	WarnUndeclared  = "none-declared"    // missing fields are expected to be declared, but no field can be declared missing
	WarnCoverage    = "low-coverage"     // prediction sets or intervals have less than learner.coverage
	WarnTime        = "odd-time"         // the times of records are probably in another unit
	WarnStale       = "worse-when-stale" // weights of some age have a higher loss than the class frequencies
	WarnPrior       = "worse-than-prior" // the class frequencies, or the mean, predict better
	WarnLast        = "worse-than-last"  // the last label predicts better
)

const (
	// WarnAfter is the number of records after which a run that has not ended starts to warn.
	WarnAfter = 1000
	// maxRefused is the fraction of rejected records above which there is a warning. It applies to all records, and to
	// about the last refusedMemory records.
	maxRefused    = 0.05
	refusedMemory = 1000
	// A class with several events is stray if it has few events: less than the fraction strayFraction of the labeled
	// events, and less than that fraction of the events rejected for their label.
	strayFraction = 0.05
	strayLeast    = 10 // smallest number of labeled events and of events rejected for their label
	// A class with one event is also stray after singleAfter labeled events (ten times WarnAfter in a stream that
	// continues). This holds only if there are at most singleOf classes, because some of many classes are expected to
	// be rare.
	singleAfter, singleOf = 100, 20
)

// Stream holds the information on which warnings depend, except the counts.
type Stream struct {
	Events   uint64
	Classes  []string
	Outputs  []int             // output of each class, if classes share an output, see model.Layout
	Spelled  []string          // result of Schema.LabelSpellings
	Settings map[string]string // settings of how records are read
	Final    bool              // the stream has ended, so too few records are a reason for a warning
}

// warnings returns the warnings about the counts and measures, in the order of WarningKinds.
func (w *Counts) warnings(s Stream) (out []Warning) {
	m, events, classes, settings, final := &w.Measures, s.Events, s.Classes, s.Settings, s.Final
	if events+w.Refused.Count == 0 || events+w.Refused.Count < WarnAfter && !final {
		return nil
	}
	labeled := events - m.Unlabeled
	add := func(kind, format string, args ...any) { out = append(out, Warning{kind, fmt.Sprintf(format, args...)}) }
	if labeled == 0 && events > 0 && settings["unlabeled"] != "true" {
		field := ""
		if name := settings["label"]; name != "" && (settings["format"] == "" || settings["format"] == "json" || settings["format"] == "csv") {
			field = fmt.Sprintf(": no event has the field record.label = %q", name)
		}
		add(WarnUnlabeled, "none of %d events had a label, so nothing was learned%s", events, field)
	}
	refused := w.Refused.Count
	for reason, r := range w.Refused.By {
		if !reason.Faulty() {
			refused -= r.Count
		}
	}
	records := events + refused
	all := float64(refused) / float64(records)
	lately := w.Refused.latest(events) / min(refusedMemory, float64(records))
	if refused > 0 && (all > maxRefused || records >= WarnAfter && lately > maxRefused) {
		recent := ""
		if all <= maxRefused {
			recent = fmt.Sprintf(", and about %.0f %% of the latest %d", 100*min(lately, 1), refusedMemory)
		}
		add(WarnRefused, "%d of %d records (%.3g %%)%s were refused: %s", refused, records, 100*all, recent, w.Refused.reasons())
	}
	if others := w.Refused.By[event.ReasonLabel]; min(others.Count, labeled) >= strayLeast {
		for label, n := range m.Classes {
			if n > 0 && float64(n) < max(2, strayFraction*float64(min(others.Count, labeled))) && label < len(classes) {
				add(WarnStrayLabel, "the label %s of %d of %d events has taken one of %d classes, and %d records were refused for a label outside them (first: %s); "+
					"name the classes in record.classes and restart with --reset", strconv.Quote(classes[label]), n, labeled, len(classes), others.Count, event.Printable(others.First))
				break
			}
		}
	}
	least := uint64(10 * WarnAfter)
	if final {
		least = singleAfter
	}
	if strays := slices.ContainsFunc(out, func(w Warning) bool { return w.Kind == WarnStrayLabel }); !strays && labeled >= least && len(classes) <= singleOf {
		var single []string
		for label, n := range m.Classes {
			if n == 1 && label < len(classes) {
				single = append(single, strconv.Quote(classes[label]))
			}
		}
		switch len(single) {
		case 0:
		case 1:
			add(WarnStrayLabel, "class %s has one example of %d; to exclude it, name the other classes in record.classes", single[0], labeled)
		default:
			add(WarnStrayLabel, "classes %s have one example each of %d; to exclude them, name the other classes in record.classes", strings.Join(single, ", "), labeled)
		}
	}
	if class, others := m.crowded(s.Outputs); others > 0 && class < len(classes) {
		add(WarnStrayLabel, "class %s had %d events but shares an output with %d other classes because of record.max_classes or learner.max_memory, so the model hardly distinguishes them; "+
			"name the classes in record.classes, or raise the bound, and restart with --reset", strconv.Quote(classes[class]), m.Classes[class], others)
	}
	for _, text := range s.Spelled {
		add(WarnSpelling, "%s", text)
	}
	if class := m.only(); m.Numbers == nil && class >= 0 && class < len(classes) && (final && labeled >= 2 || labeled >= WarnAfter) {
		add(WarnOneClass, "every label of %d events is %s: at least two classes are needed", labeled, strconv.Quote(classes[class]))
	}
	if b, better := w.Baselines.betterMean(); better && m.Numbers != nil {
		own, mean := measure.Apart(b.Own, b.Baseline, 4)
		add(WarnPrior, "the predictions are worse than the mean of the targets: the mean absolute error of the latest labeled events is %s, with the mean %s; "+
			"usual causes are a growing field, such as a time or an id (blankout config check --sample FILE finds it), or values of very different sizes", own, mean)
	}
	if p := &w.Prior; p.diverged() {
		add(WarnPrior, "learning has diverged: the %d labeled events up to event %d have an average score of %.3g, which is useless as log-odds, and a mean log-loss of %.4g nats (class frequencies: %.4g); "+
			"the steps are too large: lower learner.learning_rate, set optimizer = \"adagrad\", set noisy_gradient = false with dropout-descent, or set standardize = \"auto\" if values have very different sizes", priorBlock, p.Event, p.Size, p.LogLoss, p.Frequencies)
	} else if p.Exceeded {
		own, frequencies := measure.Apart(p.LogLoss, p.Frequencies, 4)
		add(WarnPrior, "the predictions are worse than the class frequencies: the mean log-loss of the %d labeled events up to event %d was %s nats, with the frequencies so far %s; "+
			"usual causes are a growing field, such as a time or an id (blankout config check --sample FILE finds it), or values of very different sizes", priorBlock, p.Event, own, frequencies)
	}
	if b, better := w.Baselines.betterLast(m.Numbers != nil); better {
		const cause = "labels change slowly here: add the previous label, or earlier values, as a field of each event"
		if m.Numbers != nil {
			own, last := measure.Apart(b.Own, b.Baseline, 4)
			add(WarnLast, "the predictions of the model alone are worse than repeating the last label: the mean absolute error of the latest labeled events is %s, with the last label %s; "+cause, own, last)
		} else {
			own, last := measure.Apart(100*b.Own, 100*b.Baseline, 3)
			add(WarnLast, "the predictions of the model alone are worse than repeating the last label: the error of the latest labeled events is %s %%, with the last label %s %%; "+cause, own, last)
		}
	}
	return out
}

// OddTime explains why the time of a record, in milliseconds since 1970, is probably in another unit. If seconds are
// read as milliseconds, the time is in January 1970. If microseconds or nanoseconds are, the time is after the year
// 2100. OddTime returns "" for other times.
func OddTime(ms int64, field string) string {
	at := time.UnixMilli(ms).UTC()
	if ms == 0 || ms > 0 && at.Before(time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC)) && !at.Before(time.Date(1970, 2, 1, 0, 0, 0, 0, time.UTC)) || ms < 0 {
		return ""
	}
	return fmt.Sprintf("record.time = %q reads %d as the time %s%s, but expects milliseconds since 1970 or RFC 3339 times; "+
		"write such times, or unset record.time", field, ms, at.Format(time.RFC3339), looksLike(ms))
}

// looksLike returns the unit in which x would be a time between 2001 and 2100, or "" if there is no such unit.
func looksLike(x int64) string {
	for _, unit := range []struct {
		name string
		per  int64 // units per second
	}{{"seconds", 1}, {"microseconds", 1e6}, {"nanoseconds", 1e9}} {
		if s := x / unit.per; s >= 978307200 && s < 4133980800 {
			return fmt.Sprintf(", but it looks like %s since 1970 (%s)", unit.name, time.Unix(s, 0).UTC().Format(time.RFC3339))
		}
	}
	return ""
}

// oddTimes returns a warning about an implausible time, if the settings name a time field.
func oddTimes(ms int64, settings map[string]string) []Warning {
	if settings["time"] == "" {
		return nil
	}
	if text := OddTime(ms, settings["time"]); text != "" {
		return []Warning{{WarnTime, text}}
	}
	return nil
}

const (
	// A field has mixed kinds if its rarer kinds are no exceptions. They must be in at least mixedLeast counted events,
	// and in at least the fraction mixedFraction of the events with the field.
	mixedLeast    = 5
	mixedFraction = 0.01
	// mixedNamed is the largest number of fields that one warning names.
	mixedNamed = 5
)

// MixedKinds returns a warning about the fields that have values of several kinds.
func MixedKinds(use *model.FieldUse, fields []event.Field) []Warning {
	type of struct {
		kind  event.Kind
		count uint64
	}
	var names []string // names in the order of the fields
	byName := map[string][]of{}
	for id := 1; id < min(len(use.Present), len(fields)); id++ {
		f := fields[id]
		if f.Kind == event.Cross || use.Present[id] < mixedLeast {
			continue
		}
		if byName[f.Name] == nil {
			names = append(names, f.Name)
		}
		byName[f.Name] = append(byName[f.Name], of{f.Kind, use.Present[id]})
	}
	var mixed []string
	for _, name := range names {
		kinds, all := byName[name], uint64(0)
		for _, k := range kinds {
			all += k.count
		}
		text := slices.ContainsFunc(kinds, func(k of) bool { return k.kind == event.Words })
		kinds = slices.DeleteFunc(kinds, func(k of) bool {
			first := text && k.count <= event.ReadingValues // the first values are read in several ways, see event.Reading
			return first || float64(k.count) < mixedFraction*float64(all)
		})
		if len(kinds) < 2 {
			continue
		}
		var fractions []string
		for _, k := range kinds {
			fractions = append(fractions, fmt.Sprintf("%s in %.3g %%", k.kind, 100*float64(k.count)/float64(all)))
		}
		mixed = append(mixed, fmt.Sprintf("%s (%s)", strconv.Quote(name), strings.Join(fractions, ", ")))
	}
	if len(mixed) == 0 {
		return nil
	}
	more := ""
	if n := len(mixed) - mixedNamed; n > 0 {
		mixed, more = mixed[:mixedNamed], fmt.Sprintf(" and %d more", n)
	}
	return []Warning{{WarnKinds, fmt.Sprintf("fields have values of several kinds, recently %s%s: each kind has its own weights; "+
		"record.categorical turns numbers into names, and record.missing lists texts that mean missing in CSV", strings.Join(mixed, "; "), more)}}
}

// BlockWarnings is the name of the checkpoint block with the Warnings, if there are any.
const BlockWarnings = "warnings" // JSON

// ReadWarnings decodes the Warnings in a checkpoint.
func ReadWarnings(blocks []event.Block) (out []Warning, err error) {
	if _, err := event.FindBlock(blocks, BlockWarnings); err != nil {
		return nil, nil
	}
	err = event.ReadJSON(blocks, BlockWarnings, &out)
	return out, err
}

// The part below joins all warnings.

// Counted holds the counts from which warnings are computed.
type Counted struct {
	counts Counts
	texts  *texts
	time   int64 // of the first event of the current block of field health
	Others []Warning
}

// Counted returns the current counts.
func (m *Monitors) Counted() Counted {
	c := Counted{counts: m.Counts, texts: &m.texts, time: m.fields.start.Time}
	if text := m.Older.warning(m.loss); text != "" {
		c.Others = append(c.Others, Warning{Kind: WarnStale, Text: text})
	}
	for _, text := range m.sets.TooLow() {
		c.Others = append(c.Others, Warning{Kind: WarnCoverage, Text: text})
	}
	return c
}

// Clone returns a copy that shares no memory with c.
func (c Counted) Clone() Counted {
	c.counts.Measures, c.counts.Refused, c.texts = c.counts.Measures.clone(), c.counts.Refused.clone(), &texts{}
	return c
}

// Warnings returns the warnings, in the order of health.WarningKinds.
func (c Counted) Warnings(schema *event.Schema, s Stream) []Warning {
	s.Classes, s.Spelled = schema.Classes, schema.LabelSpellings()
	out := c.counts.warnings(s)
	if s.Events < WarnAfter && !s.Final {
		return out
	}
	out = slices.Concat(out, c.texts.warnings(schema), oddTimes(c.time, s.Settings), c.Others)
	slices.SortStableFunc(out, func(a, b Warning) int {
		return cmp.Compare(slices.Index(WarningKinds, a.Kind), slices.Index(WarningKinds, b.Kind))
	})
	return out
}

// The part below warns about numbers that arrive as text.

// texts warns about fields whose texts are numbers. It stores how many names of the Schema it has processed. Its
// warnings depend only on the Schema.
type texts struct {
	looked int
	found  []Warning
}

// textsNamed is the largest number of fields that one warning names.
const textsNamed = 5

// warnings returns the Warnings about the names of a Schema.
func (t *texts) warnings(s *event.Schema) []Warning {
	if n := notation.Looked(s); n != t.looked {
		t.looked, t.found = n, nil
		if found := notation.Find(s); len(found) > 0 {
			t.found = []Warning{{WarnText, textOf(found)}}
		}
	}
	return t.found
}

func textOf(found []notation.Found) string {
	var texts []string
	for _, f := range found[:min(len(found), textsNamed)] {
		texts = append(texts, f.String())
	}
	if more := len(found) - textsNamed; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more fields", more))
	}
	return strings.Join(texts, "; ")
}
