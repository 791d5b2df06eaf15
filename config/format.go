package config

// This file writes values as TOML.

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

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
