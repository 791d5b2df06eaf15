package tests

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"blankout/internal/longtest"
	"blankout/internal/must"
)

// TestReadmeFigures checks README. It must show the output of the demo, except the rates. The errors in README must be
// on the linked pages. The table of speed in README must equal the table in docs/speed.md (make speed writes both).
func TestReadmeFigures(t *testing.T) {
	longtest.NotRaced(t)
	data := must.Get(os.ReadFile("../README.md"))(t)
	readme := string(data)
	t.Run("demo", func(t *testing.T) {
		_, shown, ok := strings.Cut(readme, "```text\n")
		must.Require(t, ok, "README shows no demo")
		shown, _, _ = strings.Cut(shown, "```")
		out, err := exec.Command(buildProgram(t), "demo").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
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
		section, _, closed := strings.Cut(rest, "\n## Performance\n")
		must.Require(t, ok && closed, "README has no section What it gives before its section Performance")
		link, figure := regexp.MustCompile(`\]\((docs/[a-z/-]+\.md)`), regexp.MustCompile(`([0-9]+\.[0-9]+) %`)
		found := 0
		for _, item := range strings.Split(section, "\n| ") {
			var pages strings.Builder
			for _, m := range link.FindAllStringSubmatch(item, -1) {
				page := must.Get(os.ReadFile("../" + m[1]))(t)
				pages.Write(page)
			}
			for _, m := range figure.FindAllStringSubmatch(item, -1) {
				found++
				if !regexp.MustCompile(`(?:^|[^0-9.])` + regexp.QuoteMeta(m[1]) + `(?:$|[^0-9.])`).MatchString(pages.String()) {
					t.Errorf("README has %s %%, which the page that it links to has not:\n%s", m[1], item)
				}
			}
		}
		must.True(t, found >= 10, "%d figures found in README", found)
	})
	t.Run("speed", func(t *testing.T) {
		measured := must.Get(os.ReadFile("../docs/speed.md"))(t)
		_, section, ok := strings.Cut(readme, "\n## Performance\n")
		must.Require(t, ok, "README has no section Performance")
		section, _, _ = strings.Cut(section, "\n## ")
		_, table, ok := strings.Cut(string(measured), "\n\n| one pass over | blankout")
		table, _, _ = strings.Cut(table, "\n\n")
		if !ok || !strings.Contains(section, table+"\n\n") {
			t.Errorf("README's table of speed is not that of docs/speed.md:%s", table)
		}
	})
}
