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

// TestReadmeFigures checks README. It must show the output of the demo, except the rates. The figures of What it gives
// must be on the pages that their row or item links to.
func TestReadmeFigures(t *testing.T) {
	longtest.NotRaced(t)
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
