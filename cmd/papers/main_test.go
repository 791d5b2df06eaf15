package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"blankout/internal/longtest"
	"blankout/internal/must"
)

// TestMain lets the scripts run this test binary as papers.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"papers": main})
}

func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true,
		Condition: func(condition string) (bool, error) {
			if condition != "long" {
				return false, fmt.Errorf("unknown condition %q", condition)
			}
			return longtest.Asked(), nil
		},
	})
}

// TestExamples checks that the scripts run the commands that the help shows.
func TestExamples(t *testing.T) {
	names := must.Get(filepath.Glob("testdata/script/*.txtar"))(t)
	var scripts strings.Builder
	for _, name := range names {
		text := must.Get(os.ReadFile(name))(t)
		scripts.Write(text)
	}
	for line := range strings.Lines(command(nil, nil).Example) {
		line := "exec " + strings.TrimSpace(line) + "\n"
		must.True(t, strings.Contains(scripts.String(), line), "no script runs %q", line)
	}
}

// TestExitCode checks that wrong usage and failures have different exit codes.
func TestExitCode(t *testing.T) {
	for args, want := range map[string]int{
		"quadratic-penalty --full --output small": 2,
		"nothing -o out":                          2,
		"quadratic-penalty":                       2,
		"quadratic-penalty --quick --full -o out": 2,
		"one two -o out":                          2,
		"--unseen":                                2,
		"quadratic-penalty --data testdata -o " + t.TempDir(): 1,
		"index -o testdata": 1,
	} {
		var out, err strings.Builder
		code := execute(t.Context(), strings.Fields(args), &out, &err)
		must.True(t, code == want && err.Len() != 0, "papers %s: exit code %d, want %d: %s", args, code, want, err.String())
	}
}
