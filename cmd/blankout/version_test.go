package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testdata/version4 holds a configuration, events, and a checkpoint of a program whose state this one does not read. The
// start says so, and that the model in it can still be read, which it can.
func TestOldCheckpoint(t *testing.T) {
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
	code, _, log := blankout("run", "-f", "blankout.toml", "-d", "events.jsonl")
	if code != 3 || !strings.Contains(log, name+": restoring the learner: block learner has version 4, which an earlier program wrote, and this one reads version") || !strings.Contains(log, "--reset") {
		t.Errorf("exit code %d\n%s", code, log)
	}
	code, out, log := blankout("predict", "-m", filepath.Join("checkpoints", name), "-d", "events.jsonl", "--json", "-o", os.DevNull, "--refused", "skip")
	if code != 0 || !strings.Contains(out, `"error":`) {
		t.Errorf("predict: exit code %d\n%s%s", code, out, log)
	}
}
