package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/optimizers"
)

// TestHelpListsValues checks that run accepts the values that its help lists, and lists all.
func TestHelpListsValues(t *testing.T) {
	root := (&program{}).root()
	run, _ := must.Get2(root.Find([]string{"run"}))(t)
	for flag, values := range map[string][]string{
		"noise": append(loss.NoiseNames(), "auto", loss.ObservedNoise), "optimizer": optimizers.Names(),
	} {
		_, list, _ := strings.Cut(run.Flags().Lookup(flag).Usage, "\n")
		words := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
		words = slices.DeleteFunc(words, func(word string) bool { return word == "or" })
		must.True(t, len(words) == len(values), "--%s lists %q, there are %q", flag, words, values)
		for i, word := range words {
			config := online.DefaultConfig()
			name, number, numbered := strings.Cut(word, ":")
			must.True(t, name == strings.TrimSuffix(values[i], ":"), "--%s lists %q for %q", flag, word, values[i])
			if numbered {
				must.True(t, len(number) <= 2, "--%s: %q", flag, word)
				word = name + ":0.5"
				if name == "t-logistic" {
					word = name + ":1.5"
				}
			}
			switch flag {
			case "noise":
				config.Noise = word
			case "optimizer":
				config.Optimizer = word
			}
			// A listed value may conflict with another setting. Only an error about an unknown value fails the test.
			err := config.Check()
			must.True(t, err == nil || !strings.Contains(err.Error(), "want one of"), "--%s %s is listed: %v", flag, word, err)
		}
	}
}

// TestJSON checks that every command that prints results has JSON output. Exceptions are commands that write a file,
// serve a page or run until they are stopped.
func TestJSON(t *testing.T) {
	others := map[string]string{
		"blankout serve": "serves a page", "blankout broker": "prints its address", "blankout export": "--format json", "blankout config init": "writes TOML", "blankout sample": "writes events",
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
		must.True(t, c.Flags().Lookup("json") != nil, "%s has no --json", c.CommandPath())
	}
	root := (&program{}).root()
	root.InitDefaultHelpCmd()
	visit(root)
	must.True(t, len(others) <= 0, "there is no %v", others)
}

// TestFlagsInDocuments checks that every flag of blankout that a document names exists.
func TestFlagsInDocuments(t *testing.T) {
	known := map[string]bool{"help": true, "version": true, "bfgs": true, "oaa": true, "daemon": true, "port": true, "save": true, "invert": true, "audit": true, "quick": true, "full": true} // flags of VW and of papers
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
				found++
				must.True(t, known[m[1]], "%s: no command has --%s: %s", document, m[1], span)
			}
		}
	}
	must.True(t, found >= 50, "only %d flags found in the documents", found)
}
