package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

// TestMain lets the scripts below run this test binary as blankout: the real
// program in a process of its own, main included.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"blankout": main})
}

func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"code": checkCode},
	})
}

// checkCode is the script command "code N args…": blankout with these arguments
// must end with exit code N. What it wrote is in the files out and err.
func checkCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: code N args…")
	}
	var out, err strings.Builder
	here, e := os.Getwd()
	ts.Check(e)
	ts.Check(os.Chdir(ts.Getenv("WORK")))
	defer os.Chdir(here)
	got := run(context.Background(), args[1:], strings.NewReader(""), &out, &err)
	ts.Check(os.WriteFile("out", []byte(out.String()), 0o600))
	ts.Check(os.WriteFile("err", []byte(err.String()), 0o600))
	if want := args[0]; want != string(rune('0'+got)) {
		ts.Fatalf("exit code %d, want %s; stderr:\n%s", got, want, err.String())
	}
}

// TestExamples holds every line of every command's example against the scripts:
// what a help text shows has been run, word for word.
func TestExamples(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]bool{}
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			ran[strings.TrimSpace(strings.TrimPrefix(line, "exec "))] = true
		}
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Example == "" && c.Name() != "help" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			if line = strings.TrimSpace(line); line != "" && !ran[line] {
				t.Errorf("%s: no script runs the example %q", c.CommandPath(), line)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit((&program{}).root())
}
