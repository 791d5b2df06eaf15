package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRename(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write("go.mod", "module thing // the old name\n\ngo 1.26\n")
	write("a/a.go", "package a\n\nimport (\n\t\"fmt\"\n\n\t\"thing\"\n\tother \"thing/b\"\n\t\"thingamajig\"\n)\n\nvar _ = fmt.Sprint(thing.X, other.Y, thingamajig.Z, \"thing/b\")\n")
	write("b/b.go", "package b\n\nvar Y int\n")
	write("thing.go", "package thing\n\nvar X int\n")
	write(".hidden/c.go", "package c\n\nimport \"thing\"\n")
	const hidden = "package c\n\nimport \"thing\"\n"

	if files, err := rename(dir, "example.org/you/learn"); files != 1 || err != nil {
		t.Fatalf("%d files, %v", files, err)
	}
	const want = "package a\n\nimport (\n\t\"fmt\"\n\n\tthing \"example.org/you/learn\"\n\tother \"example.org/you/learn/b\"\n\t\"thingamajig\"\n)\n\nvar _ = fmt.Sprint(thing.X, other.Y, thingamajig.Z, \"thing/b\")\n"
	if got := read("a/a.go"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := read(".hidden/c.go"); got != hidden {
		t.Errorf("a hidden folder was changed: %s", got)
	}
	if got := read("go.mod"); got != "module example.org/you/learn // the old name\n\ngo 1.26\n" {
		t.Errorf("go.mod: %s", got)
	}
	// Under a path that ends as before the package needs no name.
	if _, err := rename(dir, "example.org/they/learn"); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "two words", "/rooted", "a//b"} {
		if _, err := rename(dir, bad); err == nil {
			t.Errorf("%q was taken for the path of a module", bad)
		}
	}
	write("a/broken.go", "package\n")
	if _, err := rename(dir, "example.org/x"); err == nil {
		t.Error("a file that is no Go was passed over")
	}
	if got := read("go.mod"); got != "module example.org/they/learn // the old name\n\ngo 1.26\n" {
		t.Errorf("go.mod after a failure: %s", got)
	}
}
