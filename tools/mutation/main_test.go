package main

import (
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const example = `package p

import "fmt"

const limit = 2.5

func (t *T) f(a, b int) error {
	if a < b && !t.on {
		t.n++
		t.sum += a * 3
		return fmt.Errorf("%d > %d", a, b+1)
	}
	buffer := make([]int, a+b)
	t.g(buffer, min(a, b))
	return nil
}
`

func TestMutants(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := mutantsOf(dir, "p.go")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"p.go:5 : `2.5` -> `(2 * 2.5)`",
		"p.go:8 T.f: `a < b && !t.on` -> `(a < b && !t.on) && false`",
		"p.go:8 T.f: `a < b && !t.on` -> `(a < b && !t.on) || true`",
		"p.go:8 T.f: `<` -> `<=`", "p.go:8 T.f: `<` -> `>=`", "p.go:8 T.f: `&&` -> `||`", "p.go:8 T.f: `!` -> ``",
		"p.go:9 T.f: `t.n++` -> ``", "p.go:9 T.f: `++` -> `--`",
		"p.go:10 T.f: `t.sum += a * 3` -> ``", "p.go:10 T.f: `+=` -> `-=`", "p.go:10 T.f: `*` -> `/`", "p.go:10 T.f: `3` -> `(3 + 1)`",
		"p.go:14 T.f: `t.g(buffer, min(a, b))` -> ``", "p.go:14 T.f: `min` -> `max`",
	}
	var got []string
	for _, m := range all {
		got = append(got, m.String())
		changed := m.apply([]byte(example))
		if string(changed) == example {
			t.Errorf("%s changes nothing", m)
		}
		if _, err := format.Source(changed); err != nil {
			t.Errorf("%s: %v", m, err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	// A seed draws the same sample again, also after an edit elsewhere; another one
	// draws another.
	edited := strings.Replace(example, "import \"fmt\"\n", "import \"fmt\"\n\n// More lines.\n", 1)
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	later, err := mutantsOf(dir, "p.go")
	if err != nil {
		t.Fatal(err)
	}
	keys := func(all []mutant) (keys []string) {
		for _, m := range all {
			keys = append(keys, m.key())
		}
		return keys
	}
	first := keys(sample(all, 1))
	if again := keys(sample(later, 1)); !slices.Equal(first, again) {
		t.Errorf("the sample of seed 1 was %v and is %v", first, again)
	}
	if other := keys(sample(all, 2)); slices.Equal(first, other) || len(other) != len(first) {
		t.Errorf("the sample of seed 2 is %v", other)
	}
}

// Every mutant that is said to be equivalent is still one.
func TestEquivalent(t *testing.T) {
	same, err := readEquivalent(equivalentText)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, target := range targets {
		all, err := target.mutants("../..")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			if known[m.key()] {
				t.Errorf("two mutants are called %s", m.key())
			}
			known[m.key()] = true
		}
	}
	for key := range same {
		if !known[key] {
			t.Errorf("equivalent.txt: there is no mutant %s", key)
		}
	}
}
