package main

// This file holds the text of --help.

import (
	"fmt"
	"io"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manyFlags is how many flags a command's help lists in one piece; those of more are in
// groups.
const manyFlags = 12

// localFlags is where cobra's template lists a command's own flags, groupedFlags what
// stands there instead.
const (
	localFlags   = "Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}"
	groupedFlags = "{{range $i, $group := flagGroups .}}{{if $i}}\n\n{{end}}{{$group.Title}}Flags:\n{{$group.FlagUsages | trimTrailingWhitespaces}}{{end}}"
)

// groups are the groups of flags in the help of commands that have many: a name means the
// same in every command. A flag of such a command that is in none fails TestHelp.
var groups = []struct {
	title string // before " Flags:"
	names []string
}{
	{"Input", []string{"data", "labels", "unlabelled", "train", "test", "model", "config", "set", "brokers", "topic", "from", "from-group", "max-events", "until-end"}},
	{"Record", []string{"format", "label", "weight", "id", "drop", "zero-based", "refused", "unknown", "group", "groups", "known"}},
	{"Learning", []string{"loss", "bound", "noise", "cost", "l2", "ell", "intercept", "multiclass", "prior", "alpha", "copies", "missing", "expected-missing",
		"expected-missing-groups", "covariance-fields", "standardise", "scaler", "curves", "learn"}},
	{"Solver", []string{"solver", "tol", "threads", "seed"}},
	{"Online learning", []string{"passes", "rule", "eta", "refresh", "refresh-window"}},
	{"Kernel", []string{"kernel", "drop-q", "keep", "epochs"}},
	{"Deletion", []string{"delete", "delete-groups", "rescale", "nightmare", "dead", "repeat", "bins", "label-delay"}},
	{"Selection", []string{"grid", "folds", "validation", "hold-out"}},
	{"Service", []string{"reset", "serve", "keep-serving", "predict-only"}},
	{"Output", []string{"output", "json", "class", "top", "plot", "influences", "help"}},
}

// flagGroup is a group of a command's own flags; its Title is empty where there is one.
type flagGroup struct {
	Title string
	*pflag.FlagSet
}

// flagGroups returns the groups of a command's own flags.
func flagGroups(c *cobra.Command) (out []flagGroup) {
	flags := c.LocalFlags()
	n := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			n++
		}
	})
	if n <= manyFlags {
		return []flagGroup{{"", flags}}
	}
	in := map[string]string{}
	for _, g := range groups {
		for _, name := range g.names {
			in[name] = g.title
		}
	}
	part := func(title string) {
		set := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
		flags.VisitAll(func(f *pflag.Flag) {
			if in[f.Name] == title {
				set.AddFlag(f)
			}
		})
		if set.HasAvailableFlags() {
			if title == "" {
				title = "Other"
			}
			out = append(out, flagGroup{title + " ", set})
		}
	}
	for _, g := range groups {
		part(g.title)
	}
	part("")
	return out
}

// usage writes a command's usage by cobra's template, its flags in columns as a person
// sees them.
func usage(c *cobra.Command) error {
	t, err := template.New("usage").Funcs(template.FuncMap{
		"trimTrailingWhitespaces": func(s string) string { return alignFlags(strings.TrimRight(s, " \n")) },
		"flagGroups":              flagGroups,
		"rpad":                    func(s string, width int) string { return fmt.Sprintf("%-*s", width, s) },
	}).Parse(strings.Replace(c.UsageTemplate(), localFlags, groupedFlags, 1))
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := t.Execute(&text, c); err != nil {
		return err
	}
	_, err = io.WriteString(c.OutOrStderr(), text.String())
	return err
}

// alignFlags corrects what pflag writes of flags: it pads their names by bytes, which
// shifts the text behind a … to the left, and shows a value of one blank, which stands
// for none, as a default.
func alignFlags(text string) string {
	const none = "[= ]"
	var out strings.Builder
	for line := range strings.Lines(text) {
		end := -1
		if strings.HasPrefix(line, "  -") || strings.HasPrefix(line, "      --") {
			if end = strings.Index(line[6:], "   "); end >= 0 {
				end += 6
			}
		}
		if end < 0 { // the rest of the text of the flag before
			out.WriteString(line)
			continue
		}
		name := strings.TrimSuffix(line[:end], none)
		out.WriteString(name + strings.Repeat(" ", end-utf8.RuneCountInString(name)) + line[end:])
	}
	return out.String()
}

// valuesUsage words the values of a flag; those that end in a colon go on with a
// number, which it names.
func valuesUsage(values []string) string {
	numbers := map[string]string{"dropout": ":Q", "group": ":Q", "gaussian": ":SD", "laplace": ":B", "t-logistic": ":T", "fdrop": ":K", "dropsvm": "[:square]"}
	out := make([]string, len(values))
	for i, value := range values {
		name, _, asks := strings.Cut(value, ":")
		out[i] = name
		if number := numbers[name]; number != "" {
			out[i] += number
		} else if asks {
			out[i] += ":X"
		}
	}
	last := len(out) - 1
	return strings.Join(out[:last], ", ") + " or " + out[last]
}
