package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"blankout/batch"
	"blankout/internal/measure"
	"blankout/internal/must"
	"blankout/serve"
)

var updateReference = flag.Bool("update-reference", false, "rewrite docs/reference.md")

// TestReference compares docs/reference.md with its sources. The sources are the configuration's comments, the
// commands' flags and results, and the table of metrics. They also include the reasons of refusals, the operations of
// frames and the OpenAPI document.
func TestReference(t *testing.T) {
	const path = "../../docs/reference.md"
	want := "# Reference\n\nEvery configuration key, flag, metric, HTTP path and JSON field.\n\n" +
		"This page is generated: `go test ./cmd/blankout -run TestReference -update-reference`.\n" +
		referenceKeys(t) + referenceFlags() +
		"\n## Metrics\n\n`GET /metrics` serves these to Prometheus, with the usual `go_` and `process_` metrics. Units are base units.\n" +
		"Names that end in `_total` are counters, all others gauges. Counters count since the start of the program unless stated otherwise. No label holds a feature, key or event;\n" +
		"`field` names at most the 10 worst fields with an alarm.\n\n" + referenceMetrics() + referenceReasons(t) + referenceFrames(t) + referenceHTTP(t) + referenceResults(t)
	if *updateReference {
		must.Do(t, os.WriteFile(path, []byte(want), 0o644))
	}
	have := must.Get(os.ReadFile(path))(t)
	must.True(t, string(have) == want, "docs/reference.md differs from the code: go test ./cmd/blankout -run TestReference -update-reference")
}

// cell returns text, escaped for a cell of a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(strings.TrimSpace(text))
}

// referenceKeys returns the keys of config/blankout.toml by section. Consecutive keys without a comment between them
// share a row.
func referenceKeys(t *testing.T) string {
	text := must.Get(os.ReadFile("../../config/blankout.toml"))(t)
	_, body, ok := strings.Cut(string(text), "\n\n")
	must.Require(t, ok, "config/blankout.toml has no first paragraph")
	var out strings.Builder
	out.WriteString("\n## Configuration keys\n\n[Configure](configure.md#the-file) explains how to set a key, and which you need.\n")
	var comment, row []string
	section, pending := "", ""
	flush := func() {
		if len(row) > 0 {
			fmt.Fprintf(&out, "| %s | %s |\n", strings.Join(row, "<br>"), cell(pending))
		}
		row = nil
	}
	keys := 0
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		name, value, isKey := strings.Cut(line, " = ")
		switch {
		case strings.HasPrefix(line, "#"):
			comment = append(comment, strings.TrimPrefix(strings.TrimPrefix(line, "#"), " "))
		case strings.HasPrefix(line, "["):
			flush()
			section = strings.Trim(line, "[]")
			fmt.Fprintf(&out, "\n### [%s]\n\n", section)
			if len(comment) > 0 {
				out.WriteString(strings.Join(comment, "\n") + "\n\n")
			}
			out.WriteString("| key and default | meaning |\n|---|---|\n")
			comment, pending = nil, ""
		case isKey:
			keys++
			if len(comment) > 0 {
				flush()
				pending, comment = strings.Join(comment, " "), nil
			}
			row = append(row, "`"+cell(name+" = "+value)+"`")
		}
	}
	flush()
	must.True(t, keys >= 100, "config/blankout.toml has %d keys", keys)
	fmt.Fprintf(&out, "\n### [[challenger]]\n\n```toml\n%s\n```\n", "# "+strings.Join(comment, "\n# "))
	return out.String()
}

// referenceFlags returns the commands and their flags. Commands that have a flag with the same usage text share a row.
func referenceFlags() string {
	root := (&program{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}).root()
	var out strings.Builder
	out.WriteString("\n## Commands and flags\n\n`blankout COMMAND --help` prints the same with examples. `-q` works with every command. With a\nmodel, the defaults of the flags about records are the model's.\n\n| command | does |\n|---|---|\n")
	type entry struct{ flag, usage string }
	users := map[entry][]string{}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "blankout ")
		if c.HasParent() && c.IsAvailableCommand() {
			fmt.Fprintf(&out, "| `%s` | %s |\n", cell(strings.TrimSuffix(strings.TrimPrefix(c.UseLine(), "blankout "), " [flags]")), cell(c.Short))
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			value, usage := pflag.UnquoteUsage(f)
			usage = strings.Replace(usage, "\n", "; ", 1) // --help shows only the first line
			usage = strings.Replace(usage, " (default: the model's)", "", 1)
			text := "--" + f.Name
			if f.Shorthand != "" {
				text = "-" + f.Shorthand + ", " + text
			}
			if value != "" {
				text += " " + value
			}
			users[entry{text, usage}] = append(users[entry{text, usage}], name)
		})
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(root)
	entries := slices.Collect(maps.Keys(users))
	long := func(e entry) string { return e.flag[strings.Index(e.flag, "--"):] }
	slices.SortFunc(entries, func(a, b entry) int {
		if c := strings.Compare(long(a), long(b)); c != 0 {
			return c
		}
		return strings.Compare(users[a][0]+a.usage, users[b][0]+b.usage)
	})
	out.WriteString("\n| flag | commands | meaning |\n|---|---|---|\n")
	for _, e := range entries {
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", cell(e.flag), strings.Join(users[e], ", "), cell(e.usage))
	}
	return out.String()
}

// referenceReasons returns the reasons of refusals with the comments of their constants.
func referenceReasons(t *testing.T) string {
	code := must.Get(os.ReadFile("../../internal/event/example.go"))(t)
	reasons := regexp.MustCompile(`(?m)^\tReason\w+ +Reason = "([a-z-]+)" +// (.*)$`).FindAllStringSubmatch(string(code), -1)
	n := strings.Count(string(code), " Reason = ")
	must.True(t, n == len(reasons) && n >= 15, "%d of %d reasons have a comment", len(reasons), n)
	var out strings.Builder
	out.WriteString("\n## Reasons of refusals\n\nA message names the byte, counted from 1, and in a file the line.\n\n| reason | when |\n|---|---|\n")
	for _, m := range reasons {
		fmt.Fprintf(&out, "| `%s` | %s |\n", m[1], cell(m[2]))
	}
	return out.String()
}

// referenceFrames returns the operations and flags of blankout stdio with the comments of their constants.
func referenceFrames(t *testing.T) string {
	code := must.Get(os.ReadFile("../../app/stdio/stdio.go"))(t)
	operations := regexp.MustCompile(`(?m)^\top\w+ += '(\w)' // (.*)$`).FindAllStringSubmatch(string(code), -1)
	flags := regexp.MustCompile(`(?m)^\tflag\w+ +(?:= 1 << iota +)?// (.*)$`).FindAllStringSubmatch(string(code), -1)
	must.True(t, len(operations) == 16 && len(flags) == 8, "%d operations and %d flags have a comment", len(operations), len(flags))
	var out strings.Builder
	out.WriteString("\n## Operations of frames\n\n[HTTP and standard input](http.md#frames-over-standard-input) describes the frames.\n\n| letter | request; answer |\n|---|---|\n")
	for _, m := range operations {
		fmt.Fprintf(&out, "| `%s` | %s |\n", m[1], cell(m[2]))
	}
	out.WriteString("\nAdd the flags of `J`, `R` and `S`:\n\n| flag | effect |\n|---|---|\n")
	for i, m := range flags {
		fmt.Fprintf(&out, "| %d | %s |\n", 1<<i, cell(m[1]))
	}
	return out.String()
}

// schema holds the fields of an OpenAPI schema that the page shows.
type schema struct {
	Type        any               `json:"type"`
	Ref         string            `json:"$ref"`
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
	Items       *schema           `json:"items"`
}

// kind returns a description of the type of a field.
func (s schema) kind() string {
	switch x := s.Type.(type) {
	case string:
		if x == "array" && s.Items != nil && s.Items.kind() != "" {
			return "[" + s.Items.kind() + "]"
		}
		return x
	case []any:
		names := must.Map(x, func(name any) string { return fmt.Sprint(name) })
		return strings.Join(names, " or ")
	}
	return s.Ref[strings.LastIndex(s.Ref, "/")+1:]
}

// referenceHTTP returns the paths and the JSON objects of serve/openapi.json.
func referenceHTTP(t *testing.T) string {
	data := must.Get(os.ReadFile("../../serve/openapi.json"))(t)
	var document struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	must.Do(t, json.Unmarshal(data, &document))
	var out strings.Builder
	out.WriteString("\n## HTTP paths\n\n[HTTP](http.md) explains access, learning and limits. A running learner serves the full document at `/openapi.json`.\n\n| path | returns |\n|---|---|\n")
	paths := 0
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(document.Paths[path])) {
			var operation struct {
				Summary string `json:"summary"`
			}
			if json.Unmarshal(document.Paths[path][method], &operation) != nil || operation.Summary == "" {
				continue // request parameters are not listed
			}
			paths++
			fmt.Fprintf(&out, "| `%s %s` | %s |\n", strings.ToUpper(method), path, cell(operation.Summary))
		}
	}
	must.True(t, paths >= 20 && len(document.Components.Schemas) >= 10, "serve/openapi.json has %d paths and %d objects", paths, len(document.Components.Schemas))
	out.WriteString("\n## JSON objects\n")
	for _, name := range slices.Sorted(maps.Keys(document.Components.Schemas)) {
		s := document.Components.Schemas[name]
		fmt.Fprintf(&out, "\n### %s\n\n| field | type: meaning |\n|---|---|\n", name)
		plain := map[string][]string{} // fields without a description, by type
		row := func(field string, s schema) {
			if s.Description == "" {
				plain[s.kind()] = append(plain[s.kind()], "`"+field+"`")
				return
			}
			fmt.Fprintf(&out, "| `%s` | %s |\n", field, cell(s.kind()+": "+s.Description))
		}
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			p := s.Properties[field]
			row(field, p)
			nested := p.Properties
			if p.Items != nil {
				nested = p.Items.Properties
			}
			for _, inner := range slices.Sorted(maps.Keys(nested)) {
				row(field+"."+inner, nested[inner])
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(plain)) {
			fmt.Fprintf(&out, "| %s | %s |\n", strings.Join(plain[kind], ", "), cell(kind))
		}
	}
	return out.String()
}

// referenceResults returns the fields of the JSON objects that commands write.
func referenceResults(t *testing.T) string {
	var out strings.Builder
	described := map[reflect.Type]string{}
	out.WriteString("\n## JSON of commands\n\nCommands write these fields with `--json`, numbers unless another type follows. `[…]` is an array and `{…}` an object.\nNumbers that are undefined are null. Fields can be absent if they do not apply.\n`x` [as `y`] has the elements of the `y` above.\n")
	for _, x := range []struct {
		command string
		result  any
	}{
		{"run --json", runSummary{}},
		{"train --json", trainResult{}},
		{"train --solver online --json", onlineResult{}},
		{"validate --json", batch.Validation{}},
		{"inspect --json", inspection{}},
		{"predict --json, classes", struct {
			measure.ClassesReport
			deletionReport
		}{}},
		{"predict --json, regression", struct {
			measure.NumbersReport
			deletionReport
		}{}},
		{"predict --explain=json", explanation{}},
		{"config check --json", checkResult{}},
	} {
		fmt.Fprintf(&out, "\n**%s.**", x.command)
		fields := jsonFields(reflect.TypeOf(x.result), described, 0)
		if x.command == "train --solver online --json" {
			of := jsonFields(reflect.TypeFor[trainResult](), nil, 0)
			fields = append([]string{"the fields of train"}, slices.DeleteFunc(fields, func(field string) bool { return slices.Contains(of, field) })...)
		}
		must.True(t, len(fields) >= 3, "%s: only %d fields", x.command, len(fields))
		for i, field := range fields {
			if i > 0 {
				out.WriteString(",")
			}
			out.WriteString(" " + field)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// jsonFields returns the names and types of the fields that encoding/json writes for a struct and for the structs in
// it. A struct of at least three fields that is described already, under the name in the map, is not repeated.
func jsonFields(s reflect.Type, described map[reflect.Type]string, depth int) (fields []string) {
	for i := range s.NumField() {
		f := s.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if f.Anonymous && name == "" && inner.Kind() == reflect.Struct {
			fields = append(fields, jsonFields(inner, described, depth)...)
			continue
		}
		if name == "-" || name == "" || !f.IsExported() {
			continue
		}
		kind := "object"
		element := inner
		if inner == reflect.TypeFor[time.Time]() {
			kind, element = "string", reflect.TypeFor[string]() // times are written as RFC 3339 strings
		}
		switch inner.Kind() {
		case reflect.Bool:
			kind = "boolean"
		case reflect.String:
			kind = "string"
		case reflect.Slice, reflect.Array:
			kind, element = "array", inner.Elem()
		case reflect.Float64, reflect.Float32, reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			kind = ""
		}
		if element.Kind() == reflect.Pointer {
			element = element.Elem()
		}
		field := strings.TrimSpace(fmt.Sprintf("`%s` %s", name, kind))
		if element.Kind() == reflect.Struct && depth < 1 {
			brackets := map[string]string{"array": "[]", "object": "{}"}[kind]
			inside := jsonFields(element, described, depth+1)
			if of, ok := described[element]; ok && len(inside) > 2 {
				field = fmt.Sprintf("`%s` %cas `%s`%c", name, brackets[0], of, brackets[1])
			} else if len(inside) > 0 {
				field = fmt.Sprintf("`%s` %c%s%c", name, brackets[0], strings.Join(inside, ", "), brackets[1])
				if described != nil {
					described[element] = name
				}
			}
		}
		if slices.Contains(fields, field) { // the field is also in an embedded struct
			continue
		}
		fields = append(fields, field)
	}
	return fields
}

// referenceMetrics returns the metrics as a Markdown table.
func referenceMetrics() string {
	var b strings.Builder
	b.WriteString("| metric{labels} | meaning |\n|---|---|\n")
	for _, m := range serve.Metrics {
		labels := ""
		if m.Labels != "" {
			labels = "{" + m.Labels + "}"
		}
		fmt.Fprintf(&b, "| `%s`%s | %s |\n", m.Name, labels, m.Help)
	}
	return b.String()
}
