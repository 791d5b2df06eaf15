package config

// This file describes the values that a key can have, and writes them as TOML.

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// isText reports whether values of a type are quoted in TOML.
func isText(t reflect.Type) bool {
	return t.Kind() == reflect.String || t == reflect.TypeFor[time.Duration]() || readsItself(t)
}

// whatFits describes the values that a key of type t can have. Lists and tables contain strings or numbers.
func whatFits(t reflect.Type) string {
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[time.Duration]():
		return `a time in quotes, as in "30s"`
	case isText(t):
		return "a text in quotes"
	case kind == reflect.Bool:
		return "true or false"
	case kind == reflect.Float64:
		return "a number"
	case kind == reflect.Slice || kind == reflect.Array || kind == reflect.Map:
		return map[bool]string{true: "a table, as in ", false: "a list, as in "}[kind == reflect.Map] + example(t)
	}
	return "a whole number"
}

// example returns a TOML value that fits t.
func example(t reflect.Type) string {
	switch kind := t.Kind(); {
	case isText(t):
		return `"a"`
	case kind == reflect.Slice:
		return "[" + example(t.Elem()) + "]"
	case kind == reflect.Array:
		return "[" + strings.Repeat(example(t.Elem())+", ", t.Len()-1) + example(t.Elem()) + "]"
	case kind == reflect.Map:
		return "{name = " + example(t.Elem()) + "}"
	}
	return "2"
}

// Nearest returns ", did you mean NAME?" for the name nearest to a misspelled name, or "" if no name is near.
func Nearest(name string, names []string) string {
	best, at := "", 3
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < at && d <= max(1, len(name)/2) {
			best, at = ", did you mean "+n+"?", d
		}
	}
	return best
}

// format returns a key's value as TOML.
func format(k key) string {
	if k.value.Kind() == reflect.Map {
		var items []string
		for _, name := range k.value.MapKeys() {
			items = append(items, Quote(name.String())+" = "+format(key{value: k.value.MapIndex(name)}))
		}
		slices.Sort(items)
		return "{" + strings.Join(items, ", ") + "}"
	}
	if k.value.Kind() == reflect.Slice && k.value.Len() == 0 {
		return "[]"
	}
	wrapped := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "X", Type: k.value.Type(), Tag: `toml:"x"`}}))
	wrapped.Elem().Field(0).Set(k.value)
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(wrapped.Interface()); err != nil {
		return "# " + err.Error()
	}
	_, text, _ := strings.Cut(strings.TrimSpace(b.String()), "= ")
	return text
}

// Quote returns a TOML string; JSON strings are valid TOML.
func Quote(text string) string {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // cannot happen: every string has a JSON form
	}
	return strings.ReplaceAll(strings.TrimSpace(out.String()), "\x7f", `\u007f`)
}
