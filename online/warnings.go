package online

// This file holds warnings about streams that are not what their owner believes.

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/online/watch"
)

// Warnings returns the Warnings that the state gives rise to, in the order of
// WarningKinds. settings say how records are read; final
// says that no more is to come, so that few records are no excuse.
func (l *Learner) Warnings(settings Fingerprint, final bool) []watch.Warning {
	out := l.watch.Warnings(watch.Stream{Events: l.events, Classes: l.schema.Classes, Outputs: l.young.Outputs(), Spelled: l.schema.LabelSpellings(), Settings: settings, Final: final})
	if l.events < watch.WarnAfter && !final {
		return out
	}
	at := slices.IndexFunc(out, func(w watch.Warning) bool { return w.Kind == watch.WarnPrior || w.Kind == watch.WarnLast })
	if at < 0 {
		at = len(out)
	}
	return slices.Insert(out, at, slices.Concat(watch.MixedKinds(&l.fields.Kinds, l.schema.Fields), l.watch.Texts.Warnings(l.schema), l.noRate(), l.undeclared(), l.noCover(), watch.OddTimes(l.watch.Health.Start().Time, settings), staleWarnings(l.aged.Report(l.set.numbers), l.targetLoss().String()))...)
}

// noRate warns of the rates of the Learner's noise.
func (l *Learner) noRate() []watch.Warning {
	if l.groups == nil {
		return nil
	}
	return NoRate(l.levels[0].noise, l.set.observed, l.groups.Met)
}

// NoRate warns of noise with rates by group of which some are of no group that any event has had or, where rates are observed,
// none is above 0. Met says whether an event has had a group.
func NoRate(noise loss.Noise, observed bool, met func(name string) bool) []watch.Warning {
	n, ok := noise.(loss.GroupDropout)
	switch {
	case !ok || n.Rates == nil:
		return nil
	case observed && len(n.Rates) == 0:
		return []watch.Warning{{Kind: watch.WarnNoRate, Text: "noise observed: no field has been missing so far, so that the weights are learned without noise and nothing prepares them for the first field that dies; auto prepares for any"}}
	case observed:
		return nil
	}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(n.Rates)) {
		if !met(name) {
			unknown = append(unknown, strconv.Quote(name))
		}
	}
	if unknown == nil {
		return nil
	}
	return []watch.Warning{{Kind: watch.WarnNoRate, Text: fmt.Sprintf("noise gives a rate to %s, and no event has had a field or group of that name: mend the name and start afresh with --reset", strings.Join(unknown, ", "))}}
}

func (l *Learner) undeclared() []watch.Warning {
	if l.events == 0 {
		return nil
	}
	return l.config.Undeclared(l.schema)
}

// Undeclared warns that declared loss is expected where no field of the events can be declared missing.
func (c *Config) Undeclared(s *event.Schema) []watch.Warning {
	key := "expected_missing"
	if c.ExpectedMissing == 0 {
		key = "expected_missing_groups"
	}
	known := func(f event.Field) bool { return f.Kind.Named() }
	if c.ExpectedMissing == 0 && c.ExpectedMissingGroups == 0 || c.SilentMissing > 0 || s.ColumnsGoMissing() || slices.ContainsFunc(s.Fields, known) {
		return nil
	}
	return []watch.Warning{{Kind: watch.WarnUndeclared, Text: key + " speaks of declared loss, and nothing here can be declared missing, for no field of the events is a number, a category or a truth value: set silent_missing"}}
}

// staleWarnings warns of weights of some age that predict worse than the class shares.
func staleWarnings(byAge []measure.Aged, lossName string) []watch.Warning {
	if text := staleText(byAge, lossName); text != "" {
		return []watch.Warning{{Kind: watch.WarnStale, Text: text}}
	}
	return nil
}

func staleText(byAge []measure.Aged, lossName string) string {
	return measure.Stale(measure.AgedPercent(byAge), strings.HasPrefix(lossName, "logistic"))
}

// noCover warns of ranges in which sets hold the truth too seldom.
func (l *Learner) noCover() (out []watch.Warning) {
	for _, text := range l.sets.TooLow() {
		out = append(out, watch.Warning{Kind: watch.WarnCoverage, Text: text})
	}
	return out
}
