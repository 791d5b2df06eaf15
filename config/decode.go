package config

// This file finds the keys in configuration structs. It decodes files, variables and flags into the structs, adds
// positions to errors, and describes values and writes them as TOML.

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// key is one setting: the path and the location of a value in a configuration struct.
type key struct {
	path  toml.Key // path of names, beginning with the section
	value reflect.Value
}

func (k key) String() string { return k.path.String() }

// env returns the environment variable that overrides the key: BLANKOUT_LEARNER_NOISE for noise of section [learner].
func (k key) env() string { return envPrefix + strings.ToUpper(strings.Join(k.path, "_")) }

const envPrefix = "BLANKOUT_"

// keys lists the settings of a configuration struct; config is a pointer to the struct. Sections and keys have the
// order of the struct's fields. A struct is a table unless its type decodes TOML itself.
func keys(config any) []key {
	var out []key
	var walk func(path toml.Key, v reflect.Value)
	walk = func(path toml.Key, v reflect.Value) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
			if !f.IsExported() || name == "-" {
				continue
			}
			at := path
			if !f.Anonymous || name != "" {
				at = append(slices.Clone(path), cmp.Or(name, f.Name))
			}
			if f.Type.Kind() == reflect.Struct && !readsItself(f.Type) {
				walk(at, v.Field(i))
				continue
			}
			out = append(out, key{at, v.Field(i)})
		}
	}
	walk(nil, reflect.ValueOf(config).Elem())
	// TOML lists a table's own keys before its sub-tables.
	var sections []string
	for _, k := range out {
		if !slices.Contains(sections, k.path[0]) {
			sections = append(sections, k.path[0])
		}
	}
	slices.SortStableFunc(out, func(a, b key) int {
		return cmp.Or(cmp.Compare(slices.Index(sections, a.path[0]), slices.Index(sections, b.path[0])), cmp.Compare(len(a.path), len(b.path)))
	})
	return out
}

func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) || readsTOML(t)
}

// readsTOML reports whether a type decodes any TOML value itself.
func readsTOML(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[toml.Unmarshaler]())
}

// decodeFile decodes a TOML text over the values in config. It reports every unknown key and the first value of a wrong
// type with its line; place returns the position of a line.
func decodeFile(place func(line int) string, text string, config any) error {
	known := keys(config)
	meta, err := toml.Decode(text, config)
	if err != nil {
		return fileError(place, err, known)
	}
	var all map[string]any
	if _, err := toml.Decode(text, &all); err != nil {
		return fileError(place, err, known)
	}
	var problems []positioned
	for _, k := range known {
		if why := k.misread(valueOf(all, k.path)); why != "" {
			problems = append(problems, positioned{lineOf(text, k.path), k.String() + why})
		}
	}
	_, challengers := all[challengerKey].([]map[string]any) // readChallengers decodes them
	var told toml.Key
	unknown := 0
	for _, k := range meta.Undecoded() {
		if told != nil && isPrefix(told, k) || challengers && k[0] == challengerKey {
			continue // the enclosing table has been reported
		}
		told = k
		if unknown++; unknown <= maxUnknown {
			problems = append(problems, positioned{lineOf(text, k), "unknown key " + k.String() + suggest(k.String(), known)})
		}
	}
	slices.SortStableFunc(problems, func(a, b positioned) int { return cmp.Compare(a.line, b.line) })
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = fmt.Errorf("%s: %s", place(p.line), p.text)
	}
	if n := unknown - maxUnknown; n > 0 {
		errs = append(errs, fmt.Errorf("%s: %d more unknown keys", place(0), n))
	}
	return errors.Join(errs...)
}

// maxUnknown is the largest number of unknown keys to report, because locating each one parses the file again.
const maxUnknown = 10

// misread returns why the TOML package decodes a value into the key although it should not: it converts a negative
// number to a large positive number, takes a number without a unit as nanoseconds, and ignores a value that should be a
// table. It returns "" otherwise.
func (k key) misread(value any) string {
	n, whole := value.(int64)
	_, table := value.(map[string]any)
	switch {
	case whole && n < 0 && k.value.CanUint():
		return fmt.Sprintf(": %d is negative", n)
	case whole && k.value.Type() == reflect.TypeFor[time.Duration](), value != nil && !table && k.value.Kind() == reflect.Map && !readsTOML(k.value.Type()):
		return " should be " + whatFits(k.value.Type())
	}
	return ""
}

type positioned struct {
	line int
	text string
}

func isPrefix(p, k toml.Key) bool { return len(p) <= len(k) && slices.Equal(p, k[:len(p)]) }

// valueOf returns the value of a key in a decoded text, or nil if the text does not have the key. Like the TOML
// package, it ignores the case of names.
func valueOf(all map[string]any, path toml.Key) (value any) {
	value = all
	for _, name := range path {
		table, _ := value.(map[string]any)
		if value = table[name]; value == nil {
			for other := range table {
				if strings.EqualFold(other, name) {
					value = table[other]
				}
			}
		}
	}
	return value
}

// fileError rewrites an error of the TOML package as "file:line: key: what". The TOML package quotes text that it
// cannot parse. This text may be a secret, if the key is unknown or a secret was written in place of a file name. So
// the quote is kept only for known keys whose values are not strings.
func fileError(place func(line int) string, err error, known []key) error {
	e, ok := errors.AsType[toml.ParseError](err)
	if !ok {
		// An error about a value of a wrong type has the form `toml: line 3 (last key "learner.learning_rate"): what`.
		var line int
		_, _ = fmt.Sscanf(err.Error(), "toml: line %d", &line)
		_, rest, _ := strings.Cut(err.Error(), `(last key "`)
		path, what, _ := strings.Cut(rest, `"): `)
		for _, k := range known {
			if at := k.String(); path == at || strings.HasPrefix(path, at+".") {
				return fmt.Errorf("%s: %s should be %s", place(line), k, whatFits(k.value.Type()))
			} else if strings.HasPrefix(at, path+".") {
				return fmt.Errorf("%s: %s should be a table, as in [%s]", place(line), path, path)
			}
		}
		return fmt.Errorf("%s: %s: %s", place(line), path, what)
	}
	isKey, isTable, isText := false, e.LastKey == "", false
	for _, k := range known {
		if path := k.String(); path == e.LastKey || strings.HasPrefix(e.LastKey, path+".") {
			isKey, isText = true, k.value.Kind() == reflect.String && !readsTOML(k.value.Type()) || k.value.Kind() == reflect.Slice && k.value.Type().Elem().Kind() == reflect.String
		} else if strings.HasPrefix(path, e.LastKey+".") {
			isTable = true
		}
	}
	what := e.Message
	switch before, _, got := strings.Cut(what, " but "); {
	case strings.HasPrefix(what, "Key '"): // the key occurs twice
	case !isKey && !isTable:
		what = "unknown key" + suggest(e.LastKey, known)
	case isText:
		what = `not a text: write it in quotes, "like this", on one line, with \" for a quote and \\ for a backslash`
	case isTable && got:
		what = strings.TrimSuffix(before, ",")
	case isTable:
		what = "not TOML: want [section], key = value, or a # and a comment"
	}
	if e.LastKey != "" {
		what = e.LastKey + ": " + what
	}
	return fmt.Errorf("%s: %s", place(e.Position.Line), what)
}

func place(name string, line int) string {
	if line <= 0 {
		return name
	}
	return fmt.Sprintf("%s:%d", name, line)
}

// lineOf returns the line of a key in a TOML text, or 0 if the text does not have the key. The parser reports positions
// only in errors. So lineOf decodes the key into a value whose decoding always fails.
func lineOf(text string, path toml.Key) int {
	t := reflect.TypeFor[refuse]()
	for _, name := range slices.Backward(path) {
		t = reflect.StructOf([]reflect.StructField{{Name: "X", Type: t, Tag: reflect.StructTag(fmt.Sprintf("toml:%q", name))}})
	}
	_, err := toml.Decode(text, reflect.New(t).Interface())
	if e, ok := errors.AsType[toml.ParseError](err); ok {
		return e.Position.Line
	}
	return 0
}

type refuse struct{}

func (*refuse) UnmarshalTOML(any) error { return errors.New("found") }

// set decodes one value into a key. The text has the form of a command line or an environment variable: strings need no
// quotes, and a list may be a,b,c.
func (k key) set(text, origin string) error {
	given := text
	if isText(k.value.Type()) && !(readsTOML(k.value.Type()) && isWhole(text)) {
		text = Quote(text)
	} else if k.value.Kind() == reflect.Slice && !strings.HasPrefix(text, "[") {
		items := strings.Split(text, ",")
		if text == "" {
			items = nil
		}
		if k.value.Type().Elem().Kind() == reflect.String {
			for i, s := range items {
				items[i] = Quote(strings.TrimSpace(s))
			}
		}
		text = "[" + strings.Join(items, ",") + "]"
	}
	wrapped := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "X", Type: k.value.Type(), Tag: `toml:"x"`}}))
	var raw struct{ X any }
	if _, err := toml.Decode("x = "+text, &raw); err == nil {
		if why := k.misread(raw.X); why != "" {
			return fmt.Errorf("%s: %s%s", origin, k, why)
		}
	}
	if _, err := toml.Decode("x = "+text, wrapped.Interface()); err != nil {
		if e, ok := errors.AsType[toml.ParseError](err); ok && isText(k.value.Type()) {
			return fmt.Errorf("%s: %s: %s", origin, k, e.Message)
		}
		what := "" // the error does not quote lists and maps, because they may hold a secret
		if kind := k.value.Kind(); kind != reflect.Slice && kind != reflect.Map {
			what = fmt.Sprintf(" is %q but", given)
		}
		return fmt.Errorf("%s: %s%s should be %s", origin, k, what, whatFits(k.value.Type()))
	}
	k.value.Set(wrapped.Elem().Field(0))
	return nil
}

// unquoted removes TOML quotes around the value of a flag, if the key is a string and the value is quoted.
func (k key) unquoted(value string) string {
	if n := len(value); k.value.Kind() != reflect.String || n < 2 || value[0] != value[n-1] || value[0] != '"' && value[0] != '\'' {
		return value
	}
	var in struct{ X string }
	if _, err := toml.Decode("x = "+value, &in); err != nil {
		return value
	}
	return in.X
}

func isWhole(text string) bool {
	_, err := strconv.ParseUint(text, 10, 63)
	return err == nil
}

// suggest returns ", did you mean NAME?" with the known key nearest to an unknown name. It returns "" if no key is
// near. A key of the same name in another section counts as near.
func suggest(name string, known []key) string {
	section, leaf, _ := strings.Cut(name, ".")
	if section == challengerKey {
		return ": write [[challenger]], once for each"
	}
	best, at := "", 4
	for _, k := range known {
		candidates := []string{k.String()}
		if leaf == "" { // the name is an unknown section, or a key outside of every section
			candidates = []string{k.path[0]}
			if k.path[len(k.path)-1] == section {
				candidates = append(candidates, k.String())
				best, at = k.String(), 0
			}
		}
		for _, c := range candidates {
			if d := distance(name, c); d < at && d <= len(name)/2 {
				best, at = c, d
			} else if strings.HasPrefix(c, name+"_") && at > 3 { // for example password for password_file
				best, at = c, 3
			}
		}
		if _, l, _ := strings.Cut(k.String(), "."); leaf != "" && l == leaf && at > 1 {
			best, at = k.String(), 1
		}
	}
	if best == "" {
		return ""
	}
	return ", did you mean " + best + "?"
}

// distance returns the edit distance of two names (insertion, deletion, replacement, and swap of neighbors).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

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
