package monitor

// This file warns of streams that are not what their owner believes.

import (
	"cmp"
	"slices"

	"blankout/internal/model"
	"blankout/online/watch"
)

// Stream is what warnings are about besides what the monitors know.
type Stream struct {
	watch.Stream
	Kinds    *model.FieldUse // as values of which kinds fields come
	Expected *watch.Warning  // what the settings and the stream do not agree about, nil for nothing
}

// Warnings returns what the state gives rise to, in the order of watch.WarningKinds.
func (m *Monitors) Warnings(s Stream) []watch.Warning {
	schema := m.health.schema
	s.Classes, s.Spelled = schema.Classes, schema.LabelSpellings()
	counted := watch.Watch{Measures: m.Measures.Measures, Baselines: m.Measures.Baselines, Prior: m.Measures.Prior, Refused: m.Refused}
	out := counted.Warnings(s.Stream)
	if s.Events < watch.WarnAfter && !s.Final {
		return out
	}
	out = slices.Concat(out, watch.MixedKinds(s.Kinds, schema.Fields), m.texts.Warnings(schema), m.sets.warnings(), watch.OddTimes(m.health.Start().Time, s.Settings))
	if s.Expected != nil {
		out = append(out, *s.Expected)
	}
	slices.SortStableFunc(out, func(a, b watch.Warning) int {
		return cmp.Compare(slices.Index(watch.WarningKinds, a.Kind), slices.Index(watch.WarningKinds, b.Kind))
	})
	return out
}
