package main

// This file holds the text of --help.

import (
	"fmt"
	"io"
	"strings"
	"text/template"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// usage writes a command's usage by cobra's template, its flags in columns as a person
// sees them.
func usage(c *cobra.Command) error {
	t, err := template.New("usage").Funcs(template.FuncMap{
		"trimTrailingWhitespaces": func(s string) string { return alignFlags(strings.TrimRight(s, " \n")) },
		"rpad":                    func(s string, width int) string { return fmt.Sprintf("%-*s", width, s) },
	}).Parse(c.UsageTemplate())
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
