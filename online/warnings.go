package online

// This file has warnings about settings that do not fit the stream.

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/health"
)

// NoRate returns warnings about noise with rates by group. It warns about each group that no event has had. It also
// warns if all of the observed rates are 0. met reports whether any event has had a group.
func NoRate(noise loss.Noise, observed bool, met func(name string) bool) []health.Warning {
	n, ok := noise.(loss.GroupDropout)
	switch {
	case !ok || n.Rates == nil:
		return nil
	case observed && len(n.Rates) == 0:
		return []health.Warning{{Kind: health.WarnNoRate, Text: "noise observed: no field has been missing so far, so the weights are learned without noise; use auto to prepare for the first loss"}}
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
	return []health.Warning{{Kind: health.WarnNoRate, Text: fmt.Sprintf("noise has a rate for %s, but no event has a field or group of that name: correct the name and restart with --reset", strings.Join(unknown, ", "))}}
}

// Undeclared returns a warning if missing fields are expected to be declared missing, but no field of the events can be
// declared missing.
func (c *Config) Undeclared(s *event.Schema) []health.Warning {
	key := "expected_missing"
	if c.ExpectedMissing == 0 {
		key = "expected_missing_groups"
	}
	known := func(f event.Field) bool { return f.Kind.Named() }
	if c.ExpectedMissing == 0 && c.ExpectedMissingGroups == 0 || c.SilentMissing > 0 || s.ColumnsGoMissing() || slices.ContainsFunc(s.Fields, known) {
		return nil
	}
	return []health.Warning{{Kind: health.WarnUndeclared, Text: key + " is for declared loss, but these events have no field that can be declared missing: set silent_missing"}}
}

// placeholders returns a warning about each value that counts as missing because it stands for no reading.
func placeholders(f *model.Faults, s *event.Schema) (out []health.Warning) {
	if f == nil {
		return nil
	}
	for _, x := range f.Placeholders {
		out = append(out, health.Warning{Kind: health.WarnPlaceholder, Text: fmt.Sprintf(
			"field %s often reads %v, far from all its other readings: this value counts as missing; send null in its place", strconv.Quote(s.Fields[x.Field].Name), x.Value)})
	}
	return out
}
