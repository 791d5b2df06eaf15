package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"blankout/internal/longtest"
	"blankout/internal/must"
)

// TestCommandsInDocuments checks every command in the documents that runs tests by name, because go test does not
// report an unknown name. Each name must be a test, fuzz test or benchmark of the named package. If the command names
// no package, any package will do.
func TestCommandsInDocuments(t *testing.T) {
	longtest.NotRaced(t)
	documents, err := filepath.Glob("../docs/*.md")
	must.Require(t, err == nil && len(documents) != 0, "%v %v", documents, err)
	command := regexp.MustCompile("go test ((?:'[^']*'|[^`'\n])*)")
	word := regexp.MustCompile(`(?:'[^']*'|[^\s'])+`)
	named := regexp.MustCompile("`(?:[a-z]+\\.)?((?:Test|Fuzz|Benchmark)[A-Z]\\w*)[/`]")
	everywhere := map[string]bool{}
	must.Do(t, filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == ".git" {
			return filepath.SkipDir
		}
		for _, name := range functionsIn(t, path, "Test|Fuzz|Benchmark") {
			everywhere[name] = true
		}
		return nil
	}))
	checked := 0
	for _, document := range append(documents, "../README.md", "../CONTRIBUTING.md") {
		text := must.Get(os.ReadFile(document))(t)
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			checked++
			must.True(t, everywhere[m[1]], "%s: there is no %s", document, m[1])
		}
		for _, m := range command.FindAllStringSubmatch(string(text), -1) {
			names := map[string]string{} // by flag
			var packages []string
			flag := ""
			for _, w := range word.FindAllString(strings.ReplaceAll(m[1], `\|`, "|"), -1) {
				w = strings.ReplaceAll(w, "'", "")
				name, value, given := strings.Cut(w, "=")
				switch {
				case strings.HasPrefix(w, "./") || w == ".":
					packages = append(packages, w)
				case given && strings.HasPrefix(w, "-"):
					names[name] = value
				case strings.HasPrefix(w, "-"):
					flag = w
					continue
				default:
					names[flag] = w
				}
				flag = ""
			}
			for _, kind := range []struct{ flag, functions string }{{"-run", "Test|Fuzz"}, {"-fuzz", "Fuzz"}, {"-bench", "Benchmark"}} {
				pattern := names[kind.flag]
				if pattern == "" || pattern == "^$" || pattern == "xxx" {
					continue
				}
				for _, one := range packages {
					if strings.Contains(one, "...") {
						continue
					}
					functions := functionsIn(t, filepath.Join("..", one), kind.functions)
					for _, name := range strings.Split(pattern, "|") {
						name, _, _ = strings.Cut(name, "/")
						checked++
						must.True(t, slices.ContainsFunc(functions, regexp.MustCompile(name).MatchString), "%s: %q runs nothing named %s in %s", document, m[0], name, one)
					}
				}
			}
		}
	}
	must.True(t, checked >= 25, "%d names found in the documents", checked)
}

// functionsIn returns the functions of a package's tests whose names begin with one of the kinds.
func functionsIn(t *testing.T, directory, kinds string) (names []string) {
	sources := must.Get(filepath.Glob(filepath.Join(directory, "*_test.go")))(t)
	function := regexp.MustCompile(`(?m)^func ((?:` + kinds + `)\w*)\(`)
	for _, source := range sources {
		code := must.Get(os.ReadFile(source))(t)
		for _, f := range function.FindAllStringSubmatch(string(code), -1) {
			names = append(names, f[1])
		}
	}
	return names
}

// Every link in the documents to a file of the repository, and to a heading, is valid.
func TestLinksInDocuments(t *testing.T) {
	documents, err := filepath.Glob("../docs/*.md")
	must.Require(t, err == nil && len(documents) != 0, "%v %v", documents, err)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	noWord := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	checked := 0
	for _, document := range append(documents, "../README.md", "../CONTRIBUTING.md") {
		text := must.Get(os.ReadFile(document))(t)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			checked++
			target := document
			if path != "" {
				target = filepath.Join(filepath.Dir(document), path)
			}
			there, err := os.Stat(target)
			if err != nil {
				t.Errorf("%s: %s leads nowhere: %v", document, m[1], err)
				continue
			}
			if anchor == "" || there.IsDir() {
				continue
			}
			must.True(t, slices.ContainsFunc(heading.FindAllStringSubmatch(string(must.Get(os.ReadFile(target))(t)), -1), func(h []string) bool {
				return strings.ReplaceAll(noWord.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == anchor
			}), "%s: %s leads to no heading", document, m[1])
		}
	}
	must.True(t, checked >= 50, "%d links found in the documents", checked)
}

// TestReadmeFigures checks README. It must show the output of the demo, except the rates. The figures of What it gives
// must be on the pages that their row or item links to.
func TestReadmeFigures(t *testing.T) {
	longtest.Numeric(t)
	data := must.Get(os.ReadFile("../README.md"))(t)
	readme := string(data)
	t.Run("demo", func(t *testing.T) {
		_, shown, ok := strings.Cut(readme, "```text\n")
		must.Require(t, ok, "README shows no demo")
		shown, _, _ = strings.Cut(shown, "```")
		out, err := exec.Command(buildProgram(t), "demo").CombinedOutput()
		must.Require(t, err == nil, "%v\n%s", err, out)
		rate := regexp.MustCompile(`  [0-9,.]+(k|M)?/s`)
		said := rate.ReplaceAllString(string(out), "")
		for line := range strings.Lines(shown) {
			if line = strings.TrimRight(rate.ReplaceAllString(line, ""), "\n"); !strings.Contains(said, line) {
				t.Errorf("README says %q; the demo says\n%s", line, out)
				break
			}
		}
	})
	t.Run("figures", func(t *testing.T) {
		_, rest, ok := strings.Cut(readme, "\n## What it gives\n")
		section, _, closed := strings.Cut(rest, "\n## ")
		must.Require(t, ok && closed, "README has no section What it gives")
		link, figure := regexp.MustCompile(`\]\((docs/[a-z/-]+\.md)`), regexp.MustCompile(`[0-9]+(?:\.[0-9]+|,[0-9]{3})`)
		found := 0
		for _, item := range regexp.MustCompile(`\n[|-] `).Split(section, -1) {
			var pages strings.Builder
			for _, m := range link.FindAllStringSubmatch(item, -1) {
				page := must.Get(os.ReadFile("../" + m[1]))(t)
				pages.Write(page)
			}
			for _, f := range figure.FindAllString(item, -1) {
				found++
				must.True(t, regexp.MustCompile(`(?:^|[^0-9.,])`+regexp.QuoteMeta(f)+`(?:$|[^0-9.,]|[.,][^0-9])`).MatchString(pages.String()),
					"README has %s, which the page that it links to has not:\n%s", f, item)
			}
		}
		must.True(t, found >= 25, "%d figures found in README", found)
	})
}
