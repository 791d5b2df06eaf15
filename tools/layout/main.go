// Command layout draws which parts of the module import which other parts, for the picture in CONTRIBUTING.md.
//
//	go run ./tools/layout          print the picture
//	go run ./tools/layout -update  write it into CONTRIBUTING.md
//
// A part is a folder in the list parts. It includes the subfolders that are not parts themselves. An arrow that follows
// from other arrows is left out. For example, if a imports b and b imports c, no arrow is drawn from a to c.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// parts are the folders with their own box in the picture. All other folders, such as internal/failpoint, are helpers
// that every part may import.
var parts = []string{
	"cmd/blankout", "cmd/papers", "papers", "config", "serve", "client", "simulate", "online", "batch", "batch/validate", "checkpoint", "stream",
	"app/run", "app/shards", "app/served", "internal/kernel", "internal/model", "internal/measure", "internal/event", "internal/loss",
}

func main() {
	update := flag.Bool("update", false, "write the picture into CONTRIBUTING.md")
	flag.Parse()
	if err := run(os.Stdout, *update); err != nil {
		fmt.Fprintln(os.Stderr, "layout:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, update bool) error {
	imports, err := list(".")
	if err != nil {
		return err
	}
	text := picture(reduced(byPart(imports)))
	if !update {
		_, err := io.WriteString(out, text)
		return err
	}
	const name = "CONTRIBUTING.md"
	document, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	changed, err := replaced(string(document), text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, []byte(changed), 0o644)
}

// list returns the imports of each package that belongs to the commands or the library of the module in dir, by path
// within the module.
func list(dir string) (map[string][]string, error) {
	c := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports", "./cmd/...", "./client")
	c.Dir, c.Stderr = dir, os.Stderr
	text, err := c.Output()
	if err != nil {
		return nil, err
	}
	imports := map[string][]string{}
	for d := json.NewDecoder(strings.NewReader(string(text))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return imports, nil
		} else if err != nil {
			return nil, err
		}
		from := strings.TrimPrefix(p.ImportPath, "blankout/")
		for _, path := range p.Imports {
			if to, ok := strings.CutPrefix(path, "blankout/"); ok {
				imports[from] = append(imports[from], to)
			}
		}
	}
}

// partOf returns the part to which a package belongs, or "" if it belongs to no part. If the paths of two parts match,
// it returns the longer path.
func partOf(path string) (part string) {
	for _, p := range parts {
		if (path == p || strings.HasPrefix(path, p+"/")) && len(p) > len(part) {
			part = p
		}
	}
	return part
}

// byPart returns, for each part, the set of parts that it imports.
func byPart(imports map[string][]string) map[string]map[string]bool {
	arrows := map[string]map[string]bool{}
	for from, all := range imports {
		a := partOf(from)
		for _, to := range all {
			if b := partOf(to); a != "" && b != "" && a != b {
				if arrows[a] == nil {
					arrows[a] = map[string]bool{}
				}
				arrows[a][b] = true
			}
		}
	}
	return arrows
}

// reduced returns the arrows that do not follow from other arrows.
func reduced(arrows map[string]map[string]bool) map[string]map[string]bool {
	var reaches func(from, to string, seen map[string]bool) bool
	reaches = func(from, to string, seen map[string]bool) bool {
		if seen[from] {
			return false
		}
		seen[from] = true
		for next := range arrows[from] {
			if next == to || reaches(next, to, seen) {
				return true
			}
		}
		return false
	}
	out := map[string]map[string]bool{}
	for from, all := range arrows {
		out[from] = map[string]bool{}
		for to := range all {
			follows := false
			for other := range all {
				follows = follows || other != to && reaches(other, to, map[string]bool{})
			}
			if !follows {
				out[from][to] = true
			}
		}
	}
	return out
}

// picture returns the arrows as a Mermaid flowchart.
func picture(arrows map[string]map[string]bool) string {
	var b strings.Builder
	b.WriteString("```mermaid\nflowchart TD\n")
	for _, from := range parts {
		for _, to := range slices.Sorted(maps.Keys(arrows[from])) {
			fmt.Fprintf(&b, "  %s[%s] --> %s[%s]\n", node(from), from, node(to), to)
		}
	}
	b.WriteString("```\n")
	return b.String()
}

func node(part string) string { return strings.ReplaceAll(part, "/", "_") }

// The picture is between these two lines of the document.
const begin, end = "<!-- made by go run ./tools/layout -update -->\n", "<!-- end -->\n"

// replaced returns the document with its picture replaced by the given picture.
func replaced(document, picture string) (string, error) {
	before, rest, found := strings.Cut(document, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", errors.New("no place for the picture: want lines " + strings.TrimSpace(begin) + " and " + strings.TrimSpace(end))
	}
	return before + begin + picture + end + after, nil
}
