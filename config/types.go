package config

// This file describes values of a wrong type: the type of the value, and the type that the key needs.

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// mistyped returns a problem for each key whose value has a wrong type. The map all is the decoded text.
func mistyped(all map[string]any, text string, known []key) (problems []positioned) {
	var told []string // values that should be tables
	for _, k := range known {
		value, at := any(all), 0
		for ; at < len(k.path); at++ {
			table, ok := value.(map[string]any)
			if !ok {
				break
			}
			if value, ok = table[k.path[at]]; !ok {
				break
			}
		}
		path := k.path[:at]
		switch table := path.String(); {
		case value == nil: // the key is not in the text
		case at < len(k.path) && !slices.Contains(told, table):
			told = append(told, table)
			problems = append(problems, positioned{lineOf(text, path), fmt.Sprintf("%s is %s but should be a table, as in [%s]", table, whatIs(value, nil), table)})
		case at == len(k.path) && !fits(value, k.value.Type()):
			problems = append(problems, positioned{lineOf(text, path), fmt.Sprintf("%s is %s but should be %s", k, whatIs(value, k.value.Type()), whatFits(k.value.Type()))})
		}
	}
	return problems
}

// fits reports whether a TOML value has a type that can be decoded into t.
func fits(value any, t reflect.Type) bool {
	switch kind := t.Kind(); {
	case readsTOML(t):
		return true // the type itself reports which values it accepts
	case isText(t):
		_, ok := value.(string)
		return ok
	case kind == reflect.Bool:
		_, ok := value.(bool)
		return ok
	case kind == reflect.Float64:
		_, whole := value.(int64)
		_, ok := value.(float64)
		return ok || whole
	case kind == reflect.Slice || kind == reflect.Array:
		list, ok := value.([]any)
		return ok && (kind == reflect.Slice || len(list) == t.Len()) && !slices.ContainsFunc(list, func(v any) bool { return !fits(v, t.Elem()) })
	case kind == reflect.Map:
		table, ok := value.(map[string]any)
		for _, v := range table {
			ok = ok && fits(v, t.Elem())
		}
		return ok
	}
	_, ok := value.(int64)
	return ok
}

// isText reports whether values of a type are quoted in TOML.
func isText(t reflect.Type) bool {
	return t.Kind() == reflect.String || t == reflect.TypeFor[time.Duration]() || readsItself(t)
}

// whatIs describes the type of a TOML value that does not fit t. It does not include the value, which may be a secret.
func whatIs(value any, t reflect.Type) string {
	switch v := value.(type) {
	case string:
		return "a text"
	case int64:
		return "a whole number"
	case float64:
		return "a number with a fraction"
	case bool:
		return "true or false"
	case []any:
		for _, element := range v {
			if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && !fits(element, t.Elem()) {
				return "a list with " + whatIs(element, t.Elem())
			}
		}
		return fmt.Sprintf("a list of %d", len(v))
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if t != nil && t.Kind() == reflect.Map && !fits(v[name], t.Elem()) {
				return "a table with " + whatIs(v[name], t.Elem())
			}
		}
		return "a table"
	}
	return "tables or a date"
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
		if d := distance(strings.ToLower(name), n); d < at && d <= max(1, len(name)/2) {
			best, at = ", did you mean "+n+"?", d
		}
	}
	return best
}
