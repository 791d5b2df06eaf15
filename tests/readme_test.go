package tests

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// What README shows of the demo is what today's program prints, but for the rates, and
// its figures of speed are those of docs/speed.md, which make speed writes.
func TestReadmeFigures(t *testing.T) {
	data, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(data)
	t.Run("demo", func(t *testing.T) {
		_, shown, ok := strings.Cut(readme, "```text\n")
		if !ok {
			t.Fatal("README shows no demo")
		}
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
	t.Run("speed", func(t *testing.T) {
		measured, err := os.ReadFile("../docs/speed.md")
		if err != nil {
			t.Fatal(err)
		}
		_, section, ok := strings.Cut(readme, "\n## Performance\n")
		if !ok {
			t.Fatal("README has no section Performance")
		}
		section, _, _ = strings.Cut(section, "\n## ")
		figures := regexp.MustCompile(`\b[0-9]+\.[0-9]+\b`).FindAllString(section, -1)
		if len(figures) == 0 {
			t.Error("the section Performance has no figures")
		}
		for _, f := range figures {
			if !strings.Contains(string(measured), " "+f+" ") {
				t.Errorf("README's %s is not in docs/speed.md", f)
			}
		}
	})
}
