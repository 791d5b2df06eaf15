package online

// This file holds warnings about streams that are not what their owner believes.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"blankout"
	"blankout/internal/coder"
	"blankout/loss"
	"blankout/model"
)

// Warning says that something about a stream is probably not as its owner
// believes. It follows from the Learner's state alone, so that a run which was
// stopped and started again warns of the same.
type Warning struct {
	Kind string `json:"kind"` // one of WarningKinds
	Text string `json:"text"` // a sentence with counts and names
}

// WarningKinds lists the kinds of Warnings.
var WarningKinds = []string{warnUnlabelled, warnRefused, warnStrayLabel, warnKinds, warnNoCurve, warnNoRate, warnTime, warnPrior}

// OfRecords says whether a Warning is about the records that came, and not about what has
// been made of them: when the same come again it tells nothing new, and counts them twice.
func (w Warning) OfRecords() bool {
	return w.Kind != warnPrior && w.Kind != warnNoCurve && w.Kind != warnNoRate
}

const (
	warnUnlabelled = "no-labels"        // no event has had a label
	warnRefused    = "refused"          // more than maxRefused of the records were refused
	warnStrayLabel = "stray-label"      // a label that hardly ever comes has taken the place of a class
	warnKinds      = "mixed-kinds"      // a field comes as values of several kinds
	warnNoCurve    = "no-curve"         // a name in field_curves is of no number
	warnNoRate     = "no-rate"          // the rates of the noise are of no group, or nothing is missing
	warnTime       = "odd-time"         // the times of records are hardly in the unit that they are read in
	warnPrior      = "worse-than-prior" // the class shares alone would have predicted better
)

const (
	// warnAfter is the number of records before which a run that goes on warns of
	// nothing.
	warnAfter = 1000
	// maxRefused is the share of refused records above which there is a warning,
	// of all records or of about the latest refusedMemory.
	maxRefused    = 0.05
	refusedMemory = 1000
	// A class is a stray one if its events, where there are more than one, are fewer
	// than this share of all labelled ones and of those refused for their label.
	strayShare = 0.05
	strayLeast = 10 // of either
	// A class of one event is a stray one, too, once singleAfter events are labelled (in a
	// stream that goes on, ten times warnAfter) and there are at most singleOf classes, so that
	// none is expected to be rare.
	singleAfter, singleOf = 100, 20
	// priorBlock is the number of labelled events over which the log-loss is
	// compared with that of the class shares.
	priorBlock = 2000
)

// Refusals are the records refused for one reason.
type Refusals struct {
	Count uint64 `json:"count"`
	First string `json:"first"` // what was wrong with the first of them
}

// maxFirst bounds the bytes of Refusals.First.
const maxFirst = 160

// Prior compares the progressive log-loss with that of the class shares, over one
// block of priorBlock labelled events after the other. Both are weighted by
// importance, as learning is.
type Prior struct {
	// Exceeded says that the last complete block's log-loss was above that of the
	// shares, and no later one has been a hundredth below it.
	Exceeded bool
	Event    uint64  // the number of the event that completed the last block
	LogLoss  float64 // of that block, in nats
	Shares   float64 // log-loss of its class shares

	events uint64 // labelled, of the block at hand
	loss   float64
	weight []float64 // by class
}

// add counts in an event. Most events cost two additions.
func (p *Prior) add(label int, weight, loss float64, event uint64) {
	for label >= len(p.weight) {
		p.weight = append(p.weight, 0)
	}
	p.events++
	p.loss += weight * loss
	p.weight[label] += weight
	if p.events == priorBlock {
		p.complete(event)
	}
}

// complete compares, and begins the next block. The shares pay for being learned
// from the block's n events themselves: (classes - 1)/2 log n nats.
func (p *Prior) complete(event uint64) {
	total, entropy, classes := 0.0, 0.0, 0
	for _, w := range p.weight {
		total += w
	}
	for _, w := range p.weight {
		if w > 0 {
			entropy -= w / total * math.Log(w/total)
			classes++
		}
	}
	if total > 0 {
		n := float64(p.events)
		p.Event, p.LogLoss = event, p.loss/total
		p.Shares = entropy + float64(classes-1)/2*math.Log(n)/n
		p.Exceeded = p.LogLoss > p.Shares || p.Exceeded && p.LogLoss > 0.99*p.Shares
	}
	p.events, p.loss = 0, 0
	clear(p.weight)
}

// refuse counts a refused record.
func (l *Learner) refuse(e *blankout.Example) {
	m := &l.measures.sums
	reason, detail := blankout.ReasonOutOfRange, "a value or a weight that is not finite, or is beyond 1e30"
	if e.Refused != nil {
		reason, detail = e.Refused.Reason, e.Refused.Detail
	}
	if m.RefusedBy == nil {
		m.RefusedBy = map[blankout.Reason]Refusals{}
	}
	r := m.RefusedBy[reason]
	if r.Count++; r.Count == 1 {
		r.First = firstBytes(strings.ToValidUTF8(detail, "\uFFFD"), maxFirst)
	}
	m.RefusedBy[reason] = r
	if m.Refused++; !reason.Faulty() {
		return // nothing is wrong with the record
	}
	m.refusedLately, m.refusedAt = m.latelyRefused(l.events)+1, l.events+m.Refused
}

// latelyRefused is the number of refusals in which an old one counts less by a
// factor of e every refusedMemory records.
func (m *Metrics) latelyRefused(events uint64) float64 {
	if m.refusedLately == 0 {
		return 0
	}
	return m.refusedLately * math.Exp(-float64(events+m.Refused-m.refusedAt)/refusedMemory)
}

// firstBytes returns at most so many of the first bytes of s.
func firstBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// Warnings returns the Warnings that the state gives rise to, in the order of
// WarningKinds. settings say how records are read; final
// says that no more is to come, so that few records are no excuse.
func (l *Learner) Warnings(settings Fingerprint, final bool) []Warning {
	out := l.measures.sums.warnings(l.events, l.schema.Classes, settings, final)
	if l.events < warnAfter && !final {
		return out
	}
	at := slices.IndexFunc(out, func(w Warning) bool { return w.Kind == warnPrior })
	if at < 0 {
		at = len(out)
	}
	return slices.Insert(out, at, slices.Concat(mixedKinds(&l.missing.kinds, l.schema.Fields), l.noCurve(), l.noRate(), oddTime(l.watchers.health.Start().Time, settings))...)
}

// OddTime says why the time of a record, in milliseconds since 1970, is hardly one that was
// meant: it lies in January 1970, where seconds are that are read as milliseconds, or
// after the year 2100, where microseconds and nanoseconds are. It is "" where it may be.
func OddTime(ms int64, field string) string {
	at := time.UnixMilli(ms).UTC()
	if ms == 0 || ms > 0 && at.Before(time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC)) && !at.Before(time.Date(1970, 2, 1, 0, 0, 0, 0, time.UTC)) || ms < 0 {
		return ""
	}
	return fmt.Sprintf("record.time = %q reads %d as the time %s: it wants milliseconds since 1970 or RFC 3339 times; "+
		"write such times, or leave record.time out", field, ms, at.Format(time.RFC3339))
}

// oddTime warns of a time that is hardly one that was meant, where a field holds times.
func oddTime(ms int64, settings Fingerprint) []Warning {
	if settings["time"] == "" {
		return nil
	}
	if text := OddTime(ms, settings["time"]); text != "" {
		return []Warning{{warnTime, text}}
	}
	return nil
}

// noCurve warns of names in field_curves that no number has come by.
func (l *Learner) noCurve() []Warning {
	if !l.scaling.bent {
		return nil
	}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(l.config.FieldCurves)) {
		if !slices.ContainsFunc(l.schema.Fields, func(f blankout.Field) bool { return f.Name == name && f.Kind == blankout.Numeric }) {
			unknown = append(unknown, strconv.Quote(name))
		}
	}
	if unknown == nil {
		return nil
	}
	return []Warning{{warnNoCurve, fmt.Sprintf("field_curves names %s, and no event has had a number of that name; curves are found once, after %d events: mend the name and start afresh with --reset",
		strings.Join(unknown, ", "), curveEvents)}}
}

// noRate warns of noise with rates by group of which some are of no group that any event
// has had, or none is above 0.
func (l *Learner) noRate() []Warning {
	n, ok := l.levels[0].noise.(loss.GroupDropout)
	switch {
	case !ok || n.Rates == nil || l.groups == nil:
		return nil
	case l.set.observed && len(n.Rates) == 0:
		return []Warning{{warnNoRate, "noise observed: no field has been missing so far, so that the weights are learned without noise and nothing prepares them for the first field that dies; auto prepares for any"}}
	case l.set.observed:
		return nil
	}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(n.Rates)) {
		if !l.groups.grouping.Met(name) {
			unknown = append(unknown, strconv.Quote(name))
		}
	}
	if unknown == nil {
		return nil
	}
	return []Warning{{warnNoRate, fmt.Sprintf("noise gives a rate to %s, and no event has had a field or group of that name: mend the name and start afresh with --reset", strings.Join(unknown, ", "))}}
}

const (
	// A field is of several kinds if the rarer ones have come in at least mixedLeast of the
	// counted events, and in at least mixedShare of those with the field.
	mixedLeast = 5
	mixedShare = 0.01
	// mixedNamed bounds the fields that are named.
	mixedNamed = 5
)

// mixedKinds warns of fields whose values are now of one kind and now of another.
func mixedKinds(use *model.FieldUse, fields []blankout.Field) []Warning {
	type of struct {
		kind  blankout.Kind
		count uint64
	}
	var names []string // in the order of the fields
	byName := map[string][]of{}
	for id := 1; id < min(len(use.Present), len(fields)); id++ {
		f := fields[id]
		if f.Kind == blankout.Cross || use.Present[id] < mixedLeast {
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
		kinds = slices.DeleteFunc(kinds, func(k of) bool { return float64(k.count) < mixedShare*float64(all) })
		if len(kinds) < 2 {
			continue
		}
		var shares []string
		for _, k := range kinds {
			shares = append(shares, fmt.Sprintf("%s in %.3g %%", k.kind, 100*float64(k.count)/float64(all)))
		}
		mixed = append(mixed, fmt.Sprintf("%s (%s)", strconv.Quote(name), strings.Join(shares, ", ")))
	}
	if len(mixed) == 0 {
		return nil
	}
	more := ""
	if n := len(mixed) - mixedNamed; n > 0 {
		mixed, more = mixed[:mixedNamed], fmt.Sprintf(" and %d more", n)
	}
	return []Warning{{warnKinds, fmt.Sprintf("fields come as values of several kinds, of late %s%s: each kind is a field of its own, with weights of its own; "+
		"record.categorical makes names of numbers, and record.missing lists what stands for an unknown value in CSV", strings.Join(mixed, "; "), more)}}
}

func (m *Metrics) warnings(events uint64, classes []string, settings Fingerprint, final bool) (out []Warning) {
	if events+m.Refused == 0 || events+m.Refused < warnAfter && !final {
		return nil
	}
	labelled := events - m.Unlabelled
	add := func(kind, format string, args ...any) { out = append(out, Warning{kind, fmt.Sprintf(format, args...)}) }
	if labelled == 0 && events > 0 && settings["unlabelled"] != "true" {
		field := ""
		if name := settings["label"]; name != "" && (settings["format"] == "" || settings["format"] == "json" || settings["format"] == "csv") {
			field = fmt.Sprintf(": record.label = %q names no field that they have", name)
		}
		add(warnUnlabelled, "none of %d events has had a label, so nothing has been learned%s", events, field)
	}
	refused := m.Refused
	for reason, r := range m.RefusedBy {
		if !reason.Faulty() {
			refused -= r.Count
		}
	}
	records := events + refused
	all := float64(refused) / float64(records)
	lately := m.latelyRefused(events) / min(refusedMemory, float64(records))
	if refused > 0 && (all > maxRefused || records >= warnAfter && lately > maxRefused) {
		recent := ""
		if all <= maxRefused {
			recent = fmt.Sprintf(", and about %.0f %% of the latest %d", 100*min(lately, 1), refusedMemory)
		}
		add(warnRefused, "%d of %d records (%.3g %%)%s were refused: %s", refused, records, 100*all, recent, m.refusedReasons())
	}
	if others := m.RefusedBy[blankout.ReasonLabel]; min(others.Count, labelled) >= strayLeast {
		for label, n := range m.Classes {
			if n > 0 && float64(n) < max(2, strayShare*float64(min(others.Count, labelled))) && label < len(classes) {
				add(warnStrayLabel, "the label %s of %d of %d events has taken one of %d classes, and %d records were refused for a label that is none of them (the first: %s); "+
					"name the classes in record.classes and start afresh with --reset", strconv.Quote(classes[label]), n, labelled, len(classes), others.Count, blankout.Printable(others.First))
				break
			}
		}
	}
	least := uint64(10 * warnAfter)
	if final {
		least = singleAfter
	}
	if strays := slices.ContainsFunc(out, func(w Warning) bool { return w.Kind == warnStrayLabel }); !strays && labelled >= least && len(classes) <= singleOf {
		var single []string
		for label, n := range m.Classes {
			if n == 1 && label < len(classes) {
				single = append(single, strconv.Quote(classes[label]))
			}
		}
		switch len(single) {
		case 0:
		case 1:
			add(warnStrayLabel, "class %s has one example of %d: is it a class? (record.classes leaves others out)", single[0], labelled)
		default:
			add(warnStrayLabel, "classes %s have one example each of %d: are they classes? (record.classes leaves others out)", strings.Join(single, ", "), labelled)
		}
	}
	if n := m.Numbers; n != nil && n.Baseline.Exceeded {
		b := &n.Baseline
		add(warnPrior, "the predictions are worse than the mean of the targets alone: the mean absolute error of the %d labelled events up to event %d was %.4g, that of the mean %.4g; "+
			"a field that grows without end, such as a time or an id, is a usual cause (blankout config check --sample FILE names such fields), or values of very different sizes", priorBlock, b.Event, b.MAE, b.Mean)
	}
	if p := &m.Prior; p.Exceeded {
		add(warnPrior, "the predictions are worse than the class shares alone: the mean log-loss of the %d labelled events up to event %d was %.4g nats, that of the shares %.4g; "+
			"a field that grows without end, such as a time or an id, is a usual cause (blankout config check --sample FILE names such fields), or values of very different sizes", priorBlock, p.Event, p.LogLoss, p.Shares)
	}
	return out
}

// refusedReasons lists the reasons with their counts, the most frequent first.
func (m *Metrics) refusedReasons() string {
	reasons := slices.SortedFunc(maps.Keys(m.RefusedBy), func(a, b blankout.Reason) int {
		return cmp.Or(-cmp.Compare(m.RefusedBy[a].Count, m.RefusedBy[b].Count), cmp.Compare(a, b))
	})
	var parts []string
	for _, reason := range reasons {
		if r := m.RefusedBy[reason]; reason.Faulty() {
			parts = append(parts, fmt.Sprintf("%s %d (the first: %s)", reason, r.Count, blankout.Printable(r.First)))
		}
	}
	return strings.Join(parts, ", ")
}

// BlockWarnings is the block of a checkpoint that holds its Warnings, if any.
const BlockWarnings = "warnings" // JSON

// ReadWarnings returns the Warnings that a checkpoint holds.
func ReadWarnings(blocks []blankout.Block) (out []Warning, err error) {
	data, err := blankout.FindBlock(blocks, BlockWarnings)
	if err != nil {
		return nil, nil
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("block %s: %w", BlockWarnings, err)
	}
	return out, nil
}

// refusedState codes the counts of refused records. They are a block of their own:
// refused records change nothing else.
func (m *Metrics) refusedState(c *coder.Coder) {
	c.Uint(&m.Refused)
	reasons := slices.Sorted(maps.Keys(m.RefusedBy))
	n := uint64(len(reasons))
	c.Uint(&n)
	for i := range n {
		var reason, first []byte
		var count uint64
		if !c.Decode {
			r := m.RefusedBy[reasons[i]]
			reason, first, count = []byte(reasons[i]), []byte(r.First), r.Count
		}
		c.Bytes(&reason)
		c.Uint(&count)
		c.Bytes(&first)
		if c.Failed {
			return
		}
		if c.Decode {
			if m.RefusedBy == nil {
				m.RefusedBy = map[blankout.Reason]Refusals{}
			}
			m.RefusedBy[blankout.Reason(reason)] = Refusals{count, string(first)}
		}
	}
	c.Float(&m.refusedLately)
	c.Uint(&m.refusedAt)
}

// state codes a comparison with the class shares.
func (p *Prior) state(c *coder.Coder) {
	exceeded := uint64(0)
	if p.Exceeded {
		exceeded = 1
	}
	c.Uint(&exceeded)
	p.Exceeded = exceeded != 0
	c.Uint(&p.Event)
	c.Float(&p.LogLoss)
	c.Float(&p.Shares)
	c.Uint(&p.events)
	c.Float(&p.loss)
	c.Floats(&p.weight)
}
