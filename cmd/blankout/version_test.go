package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testdata/version4 holds a configuration, events, and the checkpoint that the
// program at commit 91b06d8 made of the first 80 of them: blankout run -f blankout.toml -d events.jsonl --max-events 80. It is gone on
// with, and where a setting is another one the start says which, and what helps.
func TestOldCheckpoint(t *testing.T) {
	const oldLogLoss = 0.4879717511967964 // that program's own, after all of them, by the best level and not by a mixture
	source, err := filepath.Abs("testdata/version4")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // the checkpoint names the file as it was given
	if err := os.CopyFS(".", os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("checkpoints", 0o755); err != nil {
		t.Fatal(err)
	}
	const name = "checkpoint-000000000000.blankout"
	if err := os.Rename(name, filepath.Join("checkpoints", name)); err != nil {
		t.Fatal(err)
	}
	blankout := func(args ...string) (code int, stdout, stderr string) {
		var out, log bytes.Buffer
		code = execute(t.Context(), args, strings.NewReader(""), &out, &log)
		return code, out.String(), log.String()
	}
	code, _, log := blankout("run", "-f", "blankout.toml", "-d", "events.jsonl", "--set", "learner.eta=0.7")
	if code != 2 || !strings.Contains(log, name+`: the saved weights were learned under other settings (eta: was "0", is "0.7"): restore the settings, or start afresh with --reset, which sets the checkpoints aside`) {
		t.Errorf("another setting: exit code %d\n%s", code, log)
	}
	code, out, log := blankout("run", "-f", "blankout.toml", "-d", "events.jsonl", "--json")
	var got struct {
		Events  uint64
		Refused uint64
		Total   uint64  `json:"total_events"`
		LogLoss float64 `json:"progressive_log_loss"`
	}
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || got.Events != 40 || got.Refused != 1 || got.Total != 120 || math.Abs(got.LogLoss-oldLogLoss) > 1e-3 {
		t.Errorf("gone on with: exit code %d, %v, %+v\n%s", code, err, got, log)
	}
	code, out, log = blankout("inspect", "--json", filepath.Join("checkpoints", "checkpoint-000000000001.blankout"))
	if code != 0 || !strings.Contains(out, `"events":120,"classes":["n","y"]`) {
		t.Errorf("saved again: exit code %d\n%s%s", code, out, log)
	}
}
