package main

// This file formats texts of --help.

import (
	"strings"
	"unicode/utf8"
)

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
