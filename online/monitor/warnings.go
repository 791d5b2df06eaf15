package monitor

// This file collects warnings for users.

import (
	"cmp"
	"slices"

	"blankout/internal/event"
	"blankout/online/health"
)

// Counted holds the counts from which warnings are computed.
type Counted struct {
	counts *health.Counts
	texts  *health.Texts
	start  health.Moment // when the current block of field health started
	Others []health.Warning
}

// Counted returns the current counts.
func (m *Monitors) Counted() Counted {
	c := Counted{counts: &health.Counts{Measures: m.Measures.Measures, Baselines: m.Measures.Baselines, Prior: m.Measures.Prior, Refused: m.Refused}, texts: &m.texts, start: m.fieldHealth.Start()}
	if text := m.Older.warning(m.loss); text != "" {
		c.Others = append(c.Others, health.Warning{Kind: health.WarnStale, Text: text})
	}
	for _, text := range m.sets.TooLow() {
		c.Others = append(c.Others, health.Warning{Kind: health.WarnCoverage, Text: text})
	}
	return c
}

// Clone returns a copy that shares no memory with c.
func (c Counted) Clone() Counted {
	c.counts.Measures, c.counts.Refused, c.texts = c.counts.Measures.Clone(), c.counts.Refused.Clone(), &health.Texts{}
	return c
}

// Warnings returns the warnings, in the order of health.WarningKinds.
func (c Counted) Warnings(schema *event.Schema, s health.Stream) []health.Warning {
	s.Classes, s.Spelled = schema.Classes, schema.LabelSpellings()
	out := c.counts.Warnings(s)
	if s.Events < health.WarnAfter && !s.Final {
		return out
	}
	out = slices.Concat(out, c.texts.Warnings(schema), health.OddTimes(c.start.Time, s.Settings), c.Others)
	slices.SortStableFunc(out, func(a, b health.Warning) int {
		return cmp.Compare(slices.Index(health.WarningKinds, a.Kind), slices.Index(health.WarningKinds, b.Kind))
	})
	return out
}
