package config

// This file decodes values into the fields of configuration structs. Every value goes the same way: the text of a file,
// a variable or a flag is parsed as TOML, and key.set decodes the TOML value. The file also adds positions to errors,
// and describes values and writes them as TOML.

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
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

// name returns the last name of the path, and table the names before it.
func (k key) name() string  { return k.path[len(k.path)-1] }
func (k key) table() string { return k.path[:len(k.path)-1].String() }

// env returns the environment variable that overrides the key: BLANKOUT_LEARNER_NOISE for noise of section [learner].
func (k key) env() string { return envPrefix + strings.ToUpper(strings.Join(k.path, "_")) }

const envPrefix = "BLANKOUT_"

// keys lists the settings of a configuration struct; config is a pointer to the struct. Their paths begin with prefix.
// Sections and keys have the order of the struct's fields. Every field has a TOML name or is embedded. A struct is a
// table.
func keys(prefix toml.Key, config any) []key {
	var out []key
	var walk func(path toml.Key, v reflect.Value)
	walk = func(path toml.Key, v reflect.Value) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name := f.Tag.Get("toml")
			at := append(slices.Clone(path), name)
			switch {
			case name == "-" || !f.IsExported():
			case f.Anonymous:
				walk(path, v.Field(i))
			case f.Type.Kind() == reflect.Struct:
				first := len(out)
				walk(at, v.Field(i))
				// TOML lists a table's own keys before its sub-tables.
				slices.SortStableFunc(out[first:], func(a, b key) int { return cmp.Compare(len(a.path), len(b.path)) })
			default:
				out = append(out, key{at, v.Field(i)})
			}
		}
	}
	walk(prefix, reflect.ValueOf(config).Elem())
	return out
}

// document is a parsed TOML text. Its values are decoded one by one.
type document struct {
	name        string // of the file
	meta        toml.MetaData
	root        table
	challengers []table // the tables [[challenger]], which are not in root
}

type table map[string]toml.Primitive

// parse parses a TOML text with the known keys.
func parse(name, text string, known []key) (d *document, err error) {
	d = &document{name: name}
	if d.meta, err = toml.Decode(text, &d.root); err != nil {
		return nil, d.syntaxError(err, known)
	}
	if d.meta.PrimitiveDecode(d.root[challengerKey], &d.challengers) == nil {
		delete(d.root, challengerKey)
	}
	return d, nil
}

// maxUnknown is the largest number of unknown keys to report, because finding the line of each one takes time.
const maxUnknown = 10

// decode decodes a table and its sub-tables into known keys. The paths of the keys in the table begin with prefix. Like
// the TOML package, decode ignores the case of names. It returns the origins of the keys and tables by path. It reports
// every unknown key and every value of a wrong type with its line.
func (d *document) decode(prefix toml.Key, root table, known []key) (map[string]string, error) {
	origins := map[string]string{}
	problems := map[int][]error{} // by line
	unknown := 0
	var walk func(path toml.Key, of table)
	walk = func(path toml.Key, of table) {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			value, at := of[name], append(slices.Clone(path), name)
			i := slices.IndexFunc(known, func(k key) bool {
				return len(k.path) >= len(at) && slices.EqualFunc(k.path[:len(at)], at, strings.EqualFold)
			})
			if i < 0 {
				if unknown++; unknown <= maxUnknown {
					line := d.line(value)
					problems[line] = append(problems[line], fmt.Errorf("%s: unknown key %s%s", d.place(line), at, suggest(at.String(), known)))
				}
				continue
			}
			k, line := known[i], d.line(value)
			at = k.path[:len(at)]
			origins[at.String()] = d.place(line)
			if len(at) == len(k.path) {
				problems[line] = append(problems[line], k.set(d.place(line), &d.meta, value, ""))
			} else if inner := d.table(value); inner == nil {
				problems[line] = append(problems[line], fmt.Errorf("%s: %s should be a table, as in [%s]", d.place(line), at, at))
			} else {
				walk(at, inner)
			}
		}
	}
	walk(prefix, root)
	var errs []error
	for _, line := range slices.Sorted(maps.Keys(problems)) {
		errs = append(errs, problems[line]...)
	}
	if n := unknown - maxUnknown; n > 0 {
		errs = append(errs, fmt.Errorf("%s: %d more unknown keys", d.name, n))
	}
	return origins, errors.Join(errs...)
}

// place returns the position of a line of the file. The line 0 is unknown.
func (d *document) place(line int) string {
	if line == 0 {
		return d.name
	}
	return fmt.Sprintf("%s:%d", d.name, line)
}

// line returns the line of a value. A table that has no header has the line of one of its keys. The TOML package
// reports positions only in errors. So line decodes the value into a type whose decoding always fails. The line is 0 in
// a table [[challenger]], because the package mixes up the lines of several such tables.
func (d *document) line(value toml.Primitive) int {
	e, _ := errors.AsType[toml.ParseError](d.meta.PrimitiveDecode(value, new(refuse)))
	if len(d.challengers) > 0 && strings.HasPrefix(e.LastKey, challengerKey+".") {
		return 0
	}
	if inner := d.table(value); e.Position.Line == 0 && len(inner) > 0 {
		return d.line(inner[slices.Min(slices.Collect(maps.Keys(inner)))])
	}
	return e.Position.Line
}

// table returns the table that a value is, or nil.
func (d *document) table(value toml.Primitive) (t table) {
	_ = d.meta.PrimitiveDecode(value, &t)
	return t
}

type refuse struct{}

func (*refuse) UnmarshalTOML(any) error { return errors.New("found") }

// set decodes a TOML value into the key. An error begins with the origin of the value. It may contain given, which is
// empty or quotes the value.
//
// The TOML package would decode some values that it should not: it converts a negative number to a large positive
// number, takes a number without a unit as nanoseconds, and ignores a value that should be a table.
func (k key) set(origin string, meta *toml.MetaData, value toml.Primitive, given string) error {
	var raw any
	_ = meta.PrimitiveDecode(value, &raw)
	n, whole := raw.(int64)
	_, isTable := raw.(map[string]any)
	decoded := reflect.New(k.value.Type()) // the list or map in k.value may belong to another configuration
	err := meta.PrimitiveDecode(value, decoded.Interface())
	e, told := errors.AsType[toml.ParseError](err)
	switch {
	case whole && n < 0 && k.value.CanUint():
		return fmt.Errorf("%s: %s: %d is negative", origin, k, n)
	case told:
		return fmt.Errorf("%s: %s: %s", origin, k, e.Message)
	case err != nil || whole && isTime(k.value.Type()) || !isTable && k.value.Kind() == reflect.Map:
		return k.misfit(origin, given)
	}
	k.value.Set(decoded.Elem())
	return nil
}

// misfit returns the error that a value does not fit the key's type.
func (k key) misfit(origin, given string) error {
	if kind := k.value.Kind(); kind == reflect.Slice || kind == reflect.Map {
		given = "" // it may hold a secret
	}
	return fmt.Errorf("%s: %s%s should be %s", origin, k, given, whatFits(k.value.Type()))
}

// setText sets the key to a text of the command line or the environment: strings need no quotes, and a list may be
// a,b,c. An error begins with the origin.
func (k key) setText(origin, text string) error {
	given, t := fmt.Sprintf(" is %q but", text), k.value.Type()
	if isText(t) {
		text = Quote(text)
	} else if t.Kind() == reflect.Slice && !strings.HasPrefix(text, "[") {
		items := strings.Split(text, ",")
		for i := range items {
			if isText(t.Elem()) && text != "" {
				items[i] = Quote(strings.TrimSpace(items[i]))
			}
		}
		text = "[" + strings.Join(items, ",") + "]"
	}
	var in struct{ X toml.Primitive }
	meta, err := toml.Decode("x = "+text, &in)
	if err != nil {
		return k.misfit(origin, given)
	}
	return k.set(origin, &meta, in.X, given)
}

// unquoted removes TOML quotes around the value of a flag, if the key is a string.
func (k key) unquoted(value string) string {
	var in struct{ X string }
	if _, err := toml.Decode("x = "+value, &in); err != nil || k.value.Kind() != reflect.String {
		return value
	}
	return in.X
}

// syntaxError rewrites an error of the TOML package as "file:line: key: what". The TOML package quotes text that it
// cannot parse. This text may be a secret, if the key is unknown or a secret was written in place of a file name. So
// the quote is kept only for known keys whose values are not strings.
func (d *document) syntaxError(err error, known []key) error {
	e, _ := errors.AsType[toml.ParseError](err)
	path, ofChallenger := strings.CutPrefix(e.LastKey, challengerKey+".")
	if ofChallenger {
		known = keys(nil, new(Challenger))
	}
	isKey, ofText, isTable := false, false, path == "" || path == challengerKey
	for _, k := range known {
		if strings.HasPrefix(path+".", k.String()+".") {
			t := k.value.Type()
			isKey, ofText = true, isText(t) || t.Kind() == reflect.Slice && isText(t.Elem())
		} else if strings.HasPrefix(k.String(), path+".") {
			isTable = true
		}
	}
	what := e.Message
	switch before, _, got := strings.Cut(what, " but "); {
	case strings.HasPrefix(what, "Key '"): // the key occurs twice
	case !isKey && !isTable:
		what = "unknown key" + suggest(path, known)
	case ofText:
		what = `not a text: write it in quotes, "like this", on one line, with \" for a quote and \\ for a backslash`
	case isTable && got:
		what = strings.TrimSuffix(before, ",")
	case isTable:
		what = "not TOML: want [section], key = value, or a # and a comment"
	}
	if e.LastKey != "" {
		what = e.LastKey + ": " + what
	}
	return fmt.Errorf("%s: %s", d.place(e.Position.Line), what)
}

// suggest returns ", did you mean NAME?" with the known key nearest to an unknown name. It returns "" if no key is
// near. A key of the same name in another section counts as near.
func suggest(name string, known []key) string {
	path := strings.Split(name, ".")
	var names []string // keys and tables as deep as the unknown name
	for _, k := range known {
		if k.name() == path[len(path)-1] || strings.HasPrefix(k.String(), name+"_") { // for example password for password_file
			return ", did you mean " + k.String() + "?"
		}
		names = append(names, k.path[:min(len(path), len(k.path))].String())
	}
	if path[0] == challengerKey && len(path) < 3 {
		return ": write [[challenger]], once for each, or --set challenger.NAME.KEY=VALUE"
	}
	return Nearest(name, names)
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

// distance returns the edit distance of two names (insertion, deletion, replacement, and swap of neighbors).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j], rows[i][j-1], rows[i-1][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

func isTime(t reflect.Type) bool { return t == reflect.TypeFor[time.Duration]() }

// isText reports whether values of a type are quoted in TOML.
func isText(t reflect.Type) bool {
	switch reflect.New(t).Interface().(type) {
	case encoding.TextUnmarshaler, toml.Unmarshaler:
		return true
	}
	return t.Kind() == reflect.String || isTime(t)
}

// whatFits describes the values that a key of type t can have. Lists and tables contain strings or numbers.
func whatFits(t reflect.Type) string {
	switch kind := t.Kind(); {
	case isTime(t):
		return `a time in quotes, as in "30s"`
	case isText(t):
		return "a text in quotes"
	case kind == reflect.Bool:
		return "true or false"
	case kind == reflect.Float64:
		return "a number"
	case kind == reflect.Slice:
		return "a list, as in " + example(t)
	case kind == reflect.Map:
		return "a table, as in " + example(t)
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

// assignment returns the key's line in a TOML text.
func (k key) assignment() string { return k.name() + " = " + format(k) }

// format returns a key's value as TOML.
func format(k key) string {
	switch kind := k.value.Kind(); {
	case kind == reflect.Map:
		var items []string
		for _, name := range k.value.MapKeys() {
			items = append(items, Quote(name.String())+" = "+format(key{value: k.value.MapIndex(name)}))
		}
		slices.Sort(items)
		return "{" + strings.Join(items, ", ") + "}"
	case kind == reflect.Slice && k.value.Len() == 0:
		return "[]"
	}
	text, err := toml.Marshal(map[string]any{"x": k.value.Interface()})
	if err != nil {
		panic(err) // cannot happen: every key has a type of TOML
	}
	return strings.TrimPrefix(strings.TrimSpace(string(text)), "x = ")
}

// Quote returns a TOML string. It replaces bytes that are not UTF-8.
func Quote(text string) string { return format(key{value: reflect.ValueOf(string([]rune(text)))}) }
