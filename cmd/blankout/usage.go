package main

// This file formats the text of --help.

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manyFlags is the largest number of flags that are listed without groups.
const manyFlags = 12

// localFlags is the list of a command's own flags in cobra's template. groupedFlags replaces it.
const (
	localFlags   = "Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}"
	groupedFlags = "{{range $i, $group := flagGroups .}}{{if $i}}\n\n{{end}}{{$group.Title}}Flags:\n{{$group.FlagUsages | trimTrailingWhitespaces}}{{end}}"
)

// helpAll is the name of the flag for the full help of a command whose --help is brief.
const helpAll = "help-all"

// brief selects the part of a long help that --help shows on one screen.
type brief struct {
	paragraphs, examples int      // number of paragraphs and examples to show, from the first
	flags                []string // flags to show, with the first line of their usage
}

// briefs holds the brief of each command that has one, by the command's name.
var briefs = map[string]brief{
	"run": {1, 5, []string{"config", "data", "set", "brokers", "topic", "format", "label", "drop", "labels", "id", "loss", "noise", "expected-missing", "silent-missing", "group",
		"reset", "until-end", "max-events", "serve", "keep-serving", "predict-only", "json", "help", helpAll}},
	"train": {1, 5, []string{"config", "data", "set", "format", "label", "drop", "unlabeled", "output", "loss", "noise", "cost", "standardize", "expected-missing", "silent-missing", "missing-policy",
		"solver", "tol", "passes", "seed", "json", "help", helpAll}},
	"predict": {1, 4, []string{"config", "data", "model", "set", "unlabeled", "format", "label", "drop", "refused", "missing-policy", "output", "explain", "delete", "delete-groups", "declared", "rescale",
		"seed", "json", "help", helpAll}},
	"simulate": {2, 3, []string{"config", "data", "model", "set", "label", "groups", "nightmare", "delete", "delete-groups", "repeat", "seed", "learn", "output", "json", "help", helpAll}},
	"corrupt":  {1, 3, []string{"config", "data", "model", "set", "label", "noise", "copies", "rescale", "seed", "output", "json", "help", helpAll}},
}

// addHelpAll adds the flag --help-all to the commands that have a brief.
func addHelpAll(root *cobra.Command) {
	for _, c := range root.Commands() {
		if _, ok := briefs[c.Name()]; ok {
			c.Flags().Bool(helpAll, false, "show all flags and the full description")
		}
	}
}

// askedForAll replaces --help-all in args by --help and reports whether args had --help-all. So --help-all works
// wherever --help works.
func askedForAll(args []string) ([]string, bool) {
	args = slices.Clone(args)
	for i, arg := range args {
		switch arg {
		case "--":
			return args, false
		case "--" + helpAll:
			args[i] = "--help"
			return args, true
		}
	}
	return args, false
}

// help prints the help of a command.
func (p *program) help(c *cobra.Command, _ []string) {
	text := cmp.Or(c.Long, c.Short)
	if b, ok := briefs[c.Name()]; ok && !p.helpAll {
		paragraphs := strings.Split(text, "\n\n")
		text = strings.Join(paragraphs[:min(b.paragraphs, len(paragraphs))], "\n\n")
	}
	fmt.Fprintf(c.OutOrStdout(), "%s\n\n%s", text, c.UsageString())
}

// groups are the groups of flags in the help of commands with many flags. A flag name is in the same group in every
// command. TestHelp fails if a flag of such a command is in no group.
var groups = []struct {
	title string // title before " Flags:"
	names []string
}{
	{"Input", []string{"data", "labels", "unlabeled", "model", "config", "set", "brokers", "topic", "from", "from-group", "max-events", "until-end"}},
	{"Record", []string{"format", "label", "weight", "id", "drop", "zero-based", "refused", "unseen", "group", "groups", "absent"}},
	{"Learning", []string{"loss", "bound", "noise", "silent-value", "cost", "l2", "l1", "ell", "intercept", "multiclass", "prior", "unlabeled-weight", "copies", "missing-policy", "expected-missing",
		"expected-missing-groups", "silent-missing", "covariance-max-fields", "stuck", "standardize", "scaler", "learn"}},
	{"Solver", []string{"solver", "tol", "threads", "seed"}},
	{"Online learning", []string{"passes", "optimizer", "learning-rate", "irls-batch", "irls-window"}},
	{"Kernel", []string{"kernel", "drop-q", "keep", "epochs"}},
	{"Deletion", []string{"delete", "delete-groups", "declared", "rescale", "nightmare", "repeat", "bins"}},
	{"Service", []string{"reset", "serve", "keep-serving", "predict-only"}},
	{"Output", []string{"output", "answers", "json", "explain", "class", "top", "influences", "help", helpAll}},
}

// flagGroup is a group of a command's own flags. Its Title is empty if the command has only one group.
type flagGroup struct {
	Title string
	*pflag.FlagSet
}

// flagGroups returns the groups of a command's own flags.
func (p *program) flagGroups(c *cobra.Command) (out []flagGroup) {
	flags := c.LocalFlags()
	if b, ok := briefs[c.Name()]; ok && !p.helpAll {
		set := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
		set.SortFlags = false
		for _, name := range b.flags {
			f := *flags.Lookup(name)
			f.Usage, _, _ = strings.Cut(f.Usage, "\n")
			set.AddFlag(&f)
		}
		return []flagGroup{{"", set}}
	}
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

// usage prints a command's usage with cobra's template and aligned flags.
func (p *program) usage(c *cobra.Command) error {
	t, err := template.New("usage").Funcs(template.FuncMap{
		"trimTrailingWhitespaces": func(s string) string { return alignFlags(strings.TrimRight(s, " \n")) },
		"flagGroups":              p.flagGroups,
		"rpad":                    func(s string, width int) string { return fmt.Sprintf("%-*s", width, s) },
	}).Parse(strings.Replace(c.UsageTemplate(), localFlags, groupedFlags, 1))
	if err != nil {
		return err
	}
	shown := *c
	b, short := briefs[c.Name()]
	if short = short && !p.helpAll; short {
		lines := strings.SplitAfter(c.Example, "\n")
		shown.Example = strings.TrimRight(strings.Join(lines[:min(b.examples, len(lines))], ""), "\n")
	}
	var text strings.Builder
	if err := t.Execute(&text, &shown); err != nil {
		return err
	}
	if short {
		fmt.Fprintf(&text, "\n%s --%s shows all flags.\n", c.CommandPath(), helpAll)
	}
	_, err = io.WriteString(c.OutOrStderr(), text.String())
	return err
}

// alignFlags corrects two errors in pflag's output. pflag pads names by bytes, so the text after a "…" is not aligned.
// pflag also prints the value " ", which means no value, as a default.
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
		if end < 0 { // a continuation of the usage of the previous flag
			out.WriteString(line)
			continue
		}
		name := strings.TrimSuffix(line[:end], none)
		out.WriteString(name + strings.Repeat(" ", end-utf8.RuneCountInString(name)) + line[end:])
	}
	return out.String()
}

// valuesUsage formats the possible values of a flag. A value that ends in a colon is followed by a number.
func valuesUsage(values []string) string {
	numbers := map[string]string{"dropout": ":Q", "group": ":Q", "gaussian": ":SD", "laplace": ":B", "t-logistic": ":T", "fdrop": ":K", "dropsvm": "[:square|:ridge]"}
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
	return wrapped(strings.Join(out[:last], ", ") + " or " + out[last])
}

// wrapped breaks a text into lines that fit next to the names of flags on a terminal.
func wrapped(text string) string {
	const width = 88
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i > 0 && at+1+n > width:
			b.WriteByte('\n')
			at = 0
		case i > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
