package monitor

// This file collects warnings for users.

import (
	"cmp"
	"slices"

	"blankout/internal/event"
	"blankout/online/watch"
)

// Counted holds the counts on which warnings depend.
type Counted struct {
	counts *watch.Counts
	texts  *watch.Texts
	start  watch.Moment // when the current block of field health started
	Others []watch.Warning
}

// Counted returns the current counts.
func (m *Monitors) Counted() Counted {
	c := Counted{counts: &watch.Counts{Measures: m.Measures.Measures, Baselines: m.Measures.Baselines, Prior: m.Measures.Prior, Refused: m.Refused}, texts: &m.texts, start: m.health.Start()}
	if text := m.stale.warning(m.loss); text != "" {
		c.Others = append(c.Others, watch.Warning{Kind: watch.WarnStale, Text: text})
	}
	for _, text := range m.sets.TooLow() {
		c.Others = append(c.Others, watch.Warning{Kind: watch.WarnCoverage, Text: text})
	}
	return c
}

// Clone returns a copy that does not change.
func (c Counted) Clone() Counted {
	c.counts.Measures, c.counts.Refused, c.texts = c.counts.Measures.Clone(), c.counts.Refused.Clone(), &watch.Texts{}
	return c
}

// Warnings returns the warnings, in the order of watch.WarningKinds.
func (c Counted) Warnings(schema *event.Schema, s watch.Stream) []watch.Warning {
	s.Classes, s.Spelled = schema.Classes, schema.LabelSpellings()
	out := c.counts.Warnings(s)
	if s.Events < watch.WarnAfter && !s.Final {
		return out
	}
	out = slices.Concat(out, c.texts.Warnings(schema), watch.OddTimes(c.start.Time, s.Settings), c.Others)
	slices.SortStableFunc(out, func(a, b watch.Warning) int {
		return cmp.Compare(slices.Index(watch.WarningKinds, a.Kind), slices.Index(watch.WarningKinds, b.Kind))
	})
	return out
}
