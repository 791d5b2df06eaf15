package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online/health"
)

// TestHealthOfFields checks the reports about a sensor that fails and recovers. The log of run must use the times of
// the records. The command inspect must list the alarms of a checkpoint and, with --features, the state of every field.
// Stopping and restarting during an alarm must not change the reports.
func TestHealthOfFields(t *testing.T) {
	t.Chdir(t.TempDir())
	var lines bytes.Buffer
	for i := range 8000 {
		label, x, vibration := "ok", i%7, "null"
		if i%2 == 1 {
			label, x = "broken", i%7+5
		}
		if i < 3000 || i >= 6000 {
			vibration = fmt.Sprint(x)
		}
		fmt.Fprintf(&lines, `{"label":%q,"at":%d,"vibration":%s,"room":"r%d","version":2,"level\u001b[2J":%d}`+"\n", label, 1_700_000_000_000+1000*i, vibration, i%5, i%11)
	}
	must.Do(t, os.WriteFile("events.jsonl", lines.Bytes(), 0o644))
	run := []string{"run", "-d", "events.jsonl", "--set", "record.label=label", "--set", "record.time=at", "--set", "checkpoint.directory=checkpoints", "--set", "http.address=", "--max-events"}
	dead := "vibration missing in 100 % since 2023-11-14T23:03:20Z (usually 0 %); error forecast "
	_, log := blankout(t, append(run, "5000")...)
	must.True(t, strings.Count(log, dead) == 1, "the log: %s", log)
	out, _ := blankout(t, "inspect", "checkpoints")
	must.True(t, strings.Contains(out, dead), "inspect: %s", out)
	out, _ = blankout(t, "inspect", "checkpoints", "--features")
	must.True(t, strings.Count(out, dead) == 2 && strings.Contains(out, "\nchanges\n") && !strings.Contains(out, "\x1b") && !strings.Contains(out, "NaN"), "inspect --features: %s", out)
	for _, want := range []string{" vibration numeric 1 0 ", ` level\x1b[2J numeric 0 0 `, " room categorical ", " 0.9998 true "} {
		must.True(t, strings.Contains(strings.Join(strings.Fields(out), " "), want), "inspect --features lacks %q: %s", want, out)
	}
	var i struct{ Health *health.Health }
	out, _ = blankout(t, "inspect", "checkpoints", "--json")
	err := json.Unmarshal([]byte(out), &i)
	must.True(t, err == nil && i.Health.Alarms == 1 && i.Health.Fields[0].Alarms[0].SinceEvent == 3001, "inspect --json: %v %s", err, out)
	_, log = blankout(t, append(run, "3000")...)
	must.True(t, !strings.Contains(log, dead) && strings.Count(log, "back to normal: vibration missing in 0 % since 2023-11-14T23:5") == 1, "the log: %s", log)
	out, _ = blankout(t, "inspect", "checkpoints")
	must.True(t, !strings.Contains(out, "\nhealth.fields.alarms\n"), "inspect: %s", out)
}

// TestLargestWeights checks that the evidence for a class is summed over all outputs that involve the class.
func TestLargestWeights(t *testing.T) {
	for _, c := range []struct {
		name    string
		classes []string
		loss    string
		pairs   bool
		weights [][]float64 // weights by output and column
		want    string
	}{
		{"two classes", []string{"no", "yes"}, "logistic:gaussian", false, [][]float64{{2, -1}}, "no #1 1, yes #0 2"},
		{"one against the rest", []string{"a", "b", "c"}, "logistic:gaussian", false, [][]float64{{1, 0}, {0, 2}, {3, -1}}, "a #0 1, b #1 2, c #0 3"},
		{"pairs b:a, c:a, c:b", []string{"a", "b", "c"}, "logistic:gaussian", true, [][]float64{{-1, 0}, {-2, 1}, {0, 4}}, "a #0 3, c #1 5"},
		{"numbers", []string{"3", "5", "8"}, "linear", false, [][]float64{{2, -1}}, "smaller numbers #1 1, larger numbers #0 2"},
	} {
		m := model.NewLinear(event.NewSchema(4, c.classes, 0), c.loss, "none", c.weights, make([]float64, len(c.weights)))
		m.Pairs = c.pairs
		got := ""
		for _, list := range largestWeights(m, 1) {
			for _, w := range list {
				got += fmt.Sprintf(", %s %s %v", w.Class, w.Feature, w.Weight)
			}
		}
		must.True(t, got == ", "+c.want, "%s: %s, want %s", c.name, got[2:], c.want)
	}
}
