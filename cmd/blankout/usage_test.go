package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/optimizers"
)

// TestHelpIsOneScreen checks that the output of --help fits on one screen. Commands with a longer help must have
// --help-all.
func TestHelpIsOneScreen(t *testing.T) {
	const lines, width = 45, 110
	var visit func(args []string, c *cobra.Command)
	visit = func(args []string, c *cobra.Command) {
		var all [2]string
		for i, flag := range []string{"--help", "--" + helpAll} {
			var out strings.Builder
			if code := execute(t.Context(), append(args[:len(args):len(args)], flag), nil, &out, &out); code != 0 {
				t.Fatalf("%q %s: exit code %d: %s", args, flag, code, out.String())
			}
			all[i] = out.String()
		}
		if n := strings.Count(all[0], "\n"); n > lines {
			t.Errorf("%q: --help has %d lines, a screen %d: give it a brief", args, n, lines)
		}
		_, short := briefs[c.Name()]
		if short != (all[0] != all[1]) || short && !strings.Contains(all[0], "--"+helpAll+" shows all") {
			t.Errorf("%q: has a brief: %v\n%s", args, short, all[0])
		}
		for line := range strings.Lines(all[0]) {
			line = strings.TrimRight(line, "\n")
			if n := utf8.RuneCountInString(line); n > width && !strings.HasPrefix(line, "  blankout ") {
				t.Errorf("%q: a line of %d characters: %s", args, n, line)
			}
			if short && strings.HasPrefix(line, "  ") && strings.ContainsAny(line[len(line)-1:], ",:;") {
				t.Errorf("%q: a text that goes on: %s", args, line)
			}
		}
		for _, sub := range c.Commands() {
			visit(append(args[:len(args):len(args)], sub.Name()), sub)
		}
	}
	visit(nil, (&program{}).root())
}

// TestHelp checks every command's help. The usage texts of all flags must start in one column. A default must be shown
// only if the flag has one.
func TestHelp(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		column, flags := 0, 0
		for line := range strings.Lines(c.UsageString()) {
			if line == "Other Flags:\n" {
				t.Errorf("%s: a flag is in none of the groups of its help", c.CommandPath())
			}
			if strings.HasSuffix(line, "Flags:\n") {
				column = 0 // a new column for this group of flags
			}
			if !strings.HasPrefix(line, "  -") && !strings.HasPrefix(line, "      --") {
				if text := strings.TrimLeft(line, " "); column > 0 && strings.HasPrefix(line, "      ") && utf8.RuneCountInString(line)-utf8.RuneCountInString(text) != column {
					t.Errorf("%s: the text of a flag goes on in another column than %d: %s", c.CommandPath(), column, line)
				}
				continue
			}
			flags++
			end := strings.Index(line[6:], "   ") + 6
			text := strings.TrimLeft(line[end:], " ")
			if at := utf8.RuneCountInString(line) - utf8.RuneCountInString(text); column == 0 {
				column = at
			} else if at != column {
				t.Errorf("%s: in column %d, not %d: %s", c.CommandPath(), at, column, line)
			}
			for _, none := range []string{"[= ]", "default [", "(default )"} {
				if strings.Contains(line, none) {
					t.Errorf("%s: %q in %s", c.CommandPath(), none, line)
				}
			}
			if strings.Count(line, "(default") > 1 {
				t.Errorf("%s: two defaults in %s", c.CommandPath(), line)
			}
		}
		all := 0
		count := func(f *pflag.Flag) {
			if !f.Hidden {
				all++
			}
		}
		c.LocalFlags().VisitAll(count)
		c.InheritedFlags().VisitAll(count)
		if flags != all {
			t.Errorf("%s: %d of %d flags looked at", c.CommandPath(), flags, all)
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	root := (&program{helpAll: true}).root()
	visit(root)

	// run must accept the values that its help lists.
	run, _ := must.Get2(root.Find([]string{"run"}))(t)
	for flag, values := range map[string][]string{
		"loss": loss.Names(), "noise": append(loss.NoiseNames(), "auto", loss.ObservedNoise), "optimizer": optimizers.Names(),
	} {
		_, list, _ := strings.Cut(run.Flags().Lookup(flag).Usage, "\n")
		words := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
		words = slices.DeleteFunc(words, func(word string) bool { return word == "or" })
		if len(words) != len(values) {
			t.Errorf("--%s lists %q, there are %q", flag, words, values)
		}
		for i, word := range words {
			config := online.DefaultConfig()
			name, number, numbered := strings.Cut(word, ":")
			if name != strings.TrimSuffix(values[i], ":") {
				t.Errorf("--%s lists %q for %q", flag, word, values[i])
			}
			if numbered {
				if len(number) > 2 {
					t.Errorf("--%s: %q", flag, word)
				}
				word = name + ":0.5"
				if name == "t-logistic" {
					word = name + ":1.5"
				}
			}
			switch flag {
			case "loss":
				config.Loss = word
			case "noise":
				config.Noise = word
			case "rule":
				config.Optimizer = word
			}
			// A listed value may conflict with another setting. Only an error about an unknown value fails the test.
			if err := config.Check(); err != nil && strings.Contains(err.Error(), "want one of") {
				t.Errorf("--%s %s is listed: %v", flag, word, err)
			}
		}
	}
}

// TestJSON checks that every command that prints results has JSON output. Exceptions are commands that write a file,
// serve a page or run until they are stopped.
func TestJSON(t *testing.T) {
	others := map[string]string{
		"blankout serve": "serves a page", "blankout broker": "prints its address", "blankout export": "--format json", "blankout config init": "writes TOML",
		"blankout completion": "writes a script", "blankout stdio": "answers a program in frames", "blankout help": "writes help",
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		_, other := others[c.CommandPath()]
		if c.HasSubCommands() && c.Name() != "simulate" || other {
			delete(others, c.CommandPath())
			return
		}
		if c.Flags().Lookup("json") == nil {
			t.Errorf("%s has no --json", c.CommandPath())
		}
	}
	root := (&program{helpAll: true}).root()
	root.InitDefaultHelpCmd()
	visit(root)
	if len(others) > 0 {
		t.Errorf("there is no %v", others)
	}
	for _, name := range []string{"run", "train", "predict", "simulate", "corrupt"} {
		c, _, err := root.Find([]string{name})
		if err != nil || !strings.Contains(c.UsageString(), "\nInput Flags:\n") {
			t.Errorf("%s: its flags are in no groups: %v", name, err)
		}
	}
}

// TestFlagsInDocuments checks that every flag of blankout that a document names exists.
func TestFlagsInDocuments(t *testing.T) {
	known := map[string]bool{"help": true, "version": true, "bfgs": true, "oaa": true, "quick": true, "full": true} // the last four are flags of VW and of papers
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		add := func(f *pflag.Flag) { known[f.Name] = true }
		c.LocalFlags().VisitAll(add)
		c.InheritedFlags().VisitAll(add)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit((&program{}).root())
	code := regexp.MustCompile("`(?:blankout )?[^`\n]*--[^`\n]*`|(?m)^(?:    )?blankout .*$")
	flag := regexp.MustCompile(`(?:^|[ \x60])--([a-z][a-z0-9-]*)`)
	documents := must.Get(filepath.Glob("../../docs/*.md"))(t)
	found := 0
	for _, document := range append(documents, "../../README.md") {
		text := must.Get(os.ReadFile(document))(t)
		for _, span := range code.FindAllString(string(text), -1) {
			if command := strings.Trim(span, "` "); !strings.HasPrefix(command, "--") && !strings.HasPrefix(command, "blankout ") && !strings.HasPrefix(command, "-") {
				continue // another program's
			}
			for _, m := range flag.FindAllStringSubmatch(span, -1) {
				if found++; !known[m[1]] {
					t.Errorf("%s: no command has --%s: %s", document, m[1], span)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d flags found in the documents", found)
	}
}
