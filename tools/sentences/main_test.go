package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"blankout/internal/must"
)

// list returns the output of the command for one file.
func list(t *testing.T, name, text string, count bool) string {
	t.Helper()
	t.Chdir(t.TempDir())
	must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.Do(t, os.WriteFile(name, []byte(text), 0o644))
	var out bytes.Buffer
	must.Do(t, run(&out, []string{"."}, count))
	return out.String()
}

func TestHabitsOfComments(t *testing.T) {
	got := list(t, "a.go", `// Package a returns a sum.
package a

// Sum returns the sum. Those that are
// absent count as zero. The caller tells the unit. The beside value is 0. A sum is one that counts.
//
//	Whoever reads code sees no sentence here.
//
// It is empty at the start. When x is 0, the sum is 0.
func Sum() {
	//go:noinline whoever
}

/* Fine words, and nothing else.
What is left is odd. */
`, false)
	want := `a.go:4: noun: Those that are absent count as zero.
a.go:5: verb: The caller tells the unit.
a.go:5: odd: The beside value is 0.
a.go:5: pronoun: A sum is one that counts.
a.go:9: pronoun: It is empty at the start.
a.go:9: condition: When x is 0, the sum is 0.
a.go:15: noun: What is left is odd.
a.go:15: odd: What is left is odd.
`
	must.True(t, got == want, "got\n%swant\n%s", got, want)
}

func TestHabitsOfMarkdown(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", longest))
	got := list(t, "docs/a.md", "---\ntitle: whoever is there\n---\n# Whoever reads\n\nYou can tell `whoever` at [a page](whoever.md). "+
		"Unless you do,\nnothing happens.\n\n```\nwhoever reads this\n```\n\n- One is enough.\n- "+long+"\n- more "+long+"\n\n| a | b |\n|---|---|\n| plain words here | those of the owner |\n", false)
	want := `docs/a.md:6: condition: Unless you do, nothing happens.
docs/a.md:13: pronoun: One is enough.
docs/a.md:15: long: more ` + long + `
docs/a.md:19: noun: those of the owner
`
	must.True(t, got == want, "got\n%swant\n%s", got, want)
}

func TestCount(t *testing.T) {
	lines := strings.Split(list(t, "docs/a.md", "Whoever reads this, e.g. the owner. All of it is fine.\n\nWhat is odd here?\n", true), "\n")
	want := []string{"docs", "3", "2", "2", "0", "0", "0", "1", "0"}
	must.EqualSlices(t, strings.Fields(lines[1]), want, "got the row")
	got := strings.Fields(lines[2])
	must.True(t, got[0] == "total" && slices.Equal(got[1:], want[1:]), "got the total %q, not %q", got, want[1:])
}
