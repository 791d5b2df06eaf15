// Package recordtest formats decoded records for tests.
package recordtest

import (
	"fmt"
	"slices"
	"strings"

	"blankout/internal/event"
)

// Show returns the content of an Example as text, with names instead of numbers. The text has its class, entries with
// the dictionary's names, and missing fields, or the refusal.
func Show(s *event.Schema, e *event.Example) string {
	if e.Refused != nil {
		return e.Refused.Error()
	}
	if err := e.Features.Check(); err != nil {
		return err.Error()
	}
	name := s.Namer()
	out := []string{"?"}
	if e.Label >= 0 {
		out[0] = s.Classes[e.Label]
	}
	// Use the order of appearance, which does not depend on the hash.
	byName := map[string]string{}
	var names []string
	for i := 0; i < s.Names.Len(); i++ {
		_, n := s.Names.At(i)
		names = append(names, n)
	}
	for i, d := range e.Features.Index {
		n, kind := name(d), ""
		if e.Field != nil {
			kind = ":" + string("sncwbx"[s.Fields[e.Field[i]].Kind])
		}
		byName[n] = fmt.Sprintf("%s:%v%s", n, e.Features.Value[i], kind)
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	for _, n := range names {
		if s := byName[n]; s != "" {
			out = append(out, s)
		}
	}
	for _, id := range e.Missing {
		out = append(out, "-"+s.Fields[id].Name)
	}
	if e.Weight != 1 {
		out = append(out, fmt.Sprintf("weight=%v", e.Weight))
	}
	if e.Key != nil {
		out = append(out, fmt.Sprintf("key=%s", e.Key))
	}
	if e.Time != 0 {
		out = append(out, fmt.Sprintf("time=%d", e.Time))
	}
	if e.NotFinite != 0 {
		out = append(out, fmt.Sprintf("not-finite=%d", e.NotFinite))
	}
	return strings.Join(out, " ")
}
