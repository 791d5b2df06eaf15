package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/licensecheck"
)

var updateLicences = flag.Bool("update-licences", false, "rewrite licences.txt")

// The table of licences says of every module of the program, on each system that it
// is built for, what the module's own licence files are recognised as.
func TestLicences(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{
		"stdlib": recognised(t, strings.TrimSpace(string(root))),
		// Its LICENSE leaves "your choice of exactly one" of the two in licenses/.
		"github.com/golang/freetype": "FTL OR GPL-2.0-or-later",
	}
	for _, system := range []string{"linux", "darwin", "windows"} {
		list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}{{end}}{{end}}", ".")
		list.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if path, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && found[path] == "" {
				found[path] = recognised(t, dir)
			}
		}
	}
	var want bytes.Buffer
	for path := range found {
		fmt.Fprintf(&want, "%s %s\n", path, found[path])
	}
	lines := strings.SplitAfter(want.String(), "\n")
	slices.Sort(lines)
	sorted := strings.Join(lines, "")
	if *updateLicences {
		if err := os.WriteFile("licences.txt", []byte(sorted), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if licences != sorted {
		t.Errorf("licences.txt differs from the modules' files, which say (go test ./cmd/blankout -run Licences -update-licences):\n%s", sorted)
	}
}

// recognised returns the licences in a module's directory as SPDX names them.
func recognised(t *testing.T, dir string) string {
	t.Helper()
	var ids []string
	for _, pattern := range []string{"LICENSE*", "License*", "LICENCE*", "COPYING*", "licenses/*"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if info, err := os.Stat(file); err != nil || info.IsDir() {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range licensecheck.Scan(text).Match {
				if !slices.Contains(ids, match.ID) {
					ids = append(ids, match.ID)
				}
			}
		}
	}
	if len(ids) == 0 {
		t.Errorf("%s: no licence is recognised", dir)
	}
	slices.Sort(ids)
	return strings.Join(ids, " AND ")
}
