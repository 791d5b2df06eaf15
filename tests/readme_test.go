package tests

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"blankout/internal/longtest"
)

// What README shows of the demo is what today's program prints, but for the rates, and
// its table of speed is that of docs/speed.md: make speed writes both.
func TestReadmeFigures(t *testing.T) {
	longtest.NotRaced(t)
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
		_, table, ok := strings.Cut(string(measured), "\n\n| one pass over | blankout")
		table, _, _ = strings.Cut(table, "\n\n")
		if !ok || !strings.Contains(section, table+"\n\n") {
			t.Errorf("README's table of speed is not that of docs/speed.md:%s", table)
		}
	})
}
