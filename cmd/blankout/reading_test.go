package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"blankout/internal/must"
)

// TestReadingsAtRestarts checks that run without a configuration learns texts and times as such, says so once, and that
// stops at any event change nothing, even while the first values decide how a field is read.
func TestReadingsAtRestarts(t *testing.T) {
	var lines strings.Builder
	for i := range 1200 {
		label, hour := "ab"[i*i/7%2], i*7%12
		fault := []string{"printer jam", "login slow"}[i*i/7%2]
		if i%2 == 0 { // only the hour tells the class
			fault, hour = "please wait", hour+int(label-'a')*12
		}
		fmt.Fprintf(&lines, `{"label":"%c","x":%d`, label, i%7)
		fmt.Fprintf(&lines, `,"at":"1/%d/2026 %d:00","body":"Please help, %s number %d"`, i/24%28+1, hour, fault, i)
		if i%19 == 0 { // a field that takes long to decide, and changes its mind
			fmt.Fprintf(&lines, `,"note":%q`, []string{"no", fmt.Sprint("one two three ", i), "n/a"}[i%5%3])
		}
		lines.WriteString("}\n")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "events.jsonl")
	must.Do(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	run := func(checkpoints string, more ...string) string {
		_, log := blankout(t, append([]string{"run", "-d", path, "--set", "http.address=", "--set", "checkpoint.directory=" + filepath.Join(dir, checkpoints), "--set", "checkpoint.keep=1"}, more...)...)
		return log
	}
	saved := func(checkpoints string) []byte {
		files := must.Get(filepath.Glob(filepath.Join(dir, checkpoints, "*.blankout")))(t)
		return must.Get(os.ReadFile(files[len(files)-1]))(t)
	}
	said := run("whole")
	for text, want := range map[string]int{`field \"body\" is read as text`: 1, `field \"at\" is read as a time`: 1, "is read as": 2} {
		must.Equal(t, strings.Count(said, text), want, text, said)
	}
	must.True(t, regexp.MustCompile(`error_percent_lately":[01]?\.`).MatchString(said), "too many errors:\n%s", said)
	for _, n := range []string{"13", "29", "100", "250", "700", "1200"} {
		said = run("parts", "--max-events", n)
	}
	must.Equal(t, strings.Count(said, "is read as"), 0, "of the last run, after it is final", said)
	must.True(t, bytes.Equal(saved("parts"), saved("whole")), "after stops the checkpoint differs")
}

// TestAnswersNameLostFields checks that a line of run --answers names the fields that are null, and those that are stuck.
func TestAnswersNameLostFields(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var lines strings.Builder
	for i := range 3000 {
		x, y := fmt.Sprintf("%.4f", r.NormFloat64()), fmt.Sprintf("%.4f", r.NormFloat64())
		if i >= 2000 {
			x = "1.25"
		}
		if i == 1500 || i == 2900 {
			y = "null"
		}
		fmt.Fprintf(&lines, `{"label":"%c","x":%s,"y":%s}`+"\n", 'a'+r.IntN(2), x, y)
	}
	path := must.File(t, "events.jsonl", lines.String())
	out, _ := blankout(t, "run", "-q", "-d", path, "--answers", "--set", "http.address=", "--set", "checkpoint.directory="+t.TempDir())
	answers := strings.Split(strings.TrimSpace(out), "\n")
	for i, want := range map[int]string{1499: "}}", 1500: `}},"missing":["y"]}`, 2900: `"missing":["x","y"],"stuck":["x"]}`, 2901: `"missing":["x"],"stuck":["x"]}`} {
		want = strings.Replace(want, "}}", "}", 1)
		must.True(t, strings.HasSuffix(answers[i], want), "record %d: %s, want %s", i, answers[i], want)
	}
}
