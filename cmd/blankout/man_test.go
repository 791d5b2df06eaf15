package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every command has a page, with each of its flags and each word of its help: nothing in
// them is taken for the marks of a markup. There are no other pages, and the same program
// writes the same ones.
func TestMan(t *testing.T) {
	dir := t.TempDir()
	if err := writePages((&program{}).root(), dir); err != nil {
		t.Fatal(err)
	}
	again := t.TempDir()
	if err := writePages((&program{}).root(), again); err != nil {
		t.Fatal(err)
	}
	marks := strings.NewReplacer(`\fB`, "", `\fP`, "", `\fI`, "", `\fR`, "", `\&`, "", `\-`, "-", `\\`, `\`, `\~`, "~", `\`, "")
	commands := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Name() == "help" {
			return
		}
		commands++
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			return
		}
		if second, err := os.ReadFile(filepath.Join(again, name)); err != nil || string(second) != string(page) {
			t.Errorf("%s: another page the second time: %v", name, err)
		}
		text := marks.Replace(string(page))
		if strings.Contains(text, "HISTORY") {
			t.Errorf("%s tells the day it was written", name)
		}
		want := c.Short + " " + c.Long
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				_, usage := pflag.UnquoteUsage(f)
				want += " --" + f.Name + " " + usage
			}
		})
		for _, word := range strings.Fields(want + " " + c.Example) {
			if !strings.Contains(text, word) {
				t.Errorf("%s lacks %q", name, word)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit((&program{}).root())
	pages, err := os.ReadDir(dir)
	if err != nil || len(pages) != commands || commands < 25 {
		t.Errorf("%d pages of %d commands: %v", len(pages), commands, err)
	}
}
