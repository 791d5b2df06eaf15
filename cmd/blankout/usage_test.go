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

// TestPrintText checks the text of values, lists, tables with tables in their rows, and pairs of objects. Control
// characters must be escaped, and long tables must say how much is left out.
func TestPrintText(t *testing.T) {
	type inner struct {
		Class  string  `json:"class"`
		Weight float64 `json:"weight"`
	}
	type row struct {
		Name   string  `json:"name"`
		Size   *int    `json:"size"`
		Inners []inner `json:"inners"`
	}
	type side struct {
		Error *float64  `json:"error"`
		Curve []float64 `json:"curve"`
	}
	var out strings.Builder
	err := printText(&out, struct {
		Events  int        `json:"events"`
		None    *int       `json:"none"`
		Names   []string   `json:"names"`
		Counts  [][]int    `json:"counts"`
		Rows    []row      `json:"rows"`
		Hidden  []row      `json:"hidden"`
		Largest [][]inner  `json:"largest"`
		Live    side       `json:"live"`
		Exact   side       `json:"exact"`
		Many    []struct{} `json:"many"`
	}{
		Events: 1234567, Names: []string{"a\x1b[2J", "b"}, Counts: [][]int{{1, 20}, {3, 4}},
		Rows:    []row{{"x", new(3), []inner{{"c", 0.12345678}}}, {"y", nil, []inner{{"d", 2}}}, {"z", nil, nil}},
		Hidden:  []row{{"x", nil, nil}},
		Largest: [][]inner{{{"c", 1}}, {}, {{"d", 2}}},
		Live:    side{new(2.5), []float64{1, 2}}, Exact: side{nil, []float64{3, 4}},
	}, 2, "hidden")
	want := `events  1,234,567
names   a\x1b[2J, b

counts
  1  20
  3  4

rows
  name  size
  x     3
  y     -
  … and 1 more, see --json

rows.inners
  name  class  weight
  x     c      0.123457
  y     d      2

largest
  class  weight
  c      1
  d      2

            live  exact
  error     2.5   -
  curve[0]  1     3
  curve[1]  2     4
`
	must.True(t, err == nil && out.String() == want, "%v\n%s", err, out.String())
}

// TestPrintUnits checks that errors of classes and losses have units, that a confusion matrix names its rows and columns,
// and that numbers too large for counts are not grouped.
func TestPrintUnits(t *testing.T) {
	var out strings.Builder
	err := printText(&out, struct {
		Error     float64        `json:"error"`
		LogLoss   float64        `json:"log_loss"`
		Forecast  map[string]int `json:"forecast"`
		Sum       uint64         `json:"sum"`
		Events    int            `json:"events"`
		Classes   []string       `json:"classes"`
		Confusion [][]int        `json:"confusion"`
	}{4.5, 0.25, map[string]int{"error": 3}, 1 << 60, 1 << 20, []string{"no", "yes"}, [][]int{{3, 1}, {0, 2}}}, textRows)
	want := `error           4.5 %
log_loss        0.25 nats
forecast.error  3
sum             1152921504606846976
events          1,048,576
classes         no, yes

confusion
  label  as no  as yes
  no     3      1
  yes    0      2
`
	must.True(t, err == nil && out.String() == want, "%v\n%s", err, out.String())
}
