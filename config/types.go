package config

// This file describes the values that a key can have.

import (
	"reflect"
	"strings"
	"time"
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
