package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"blankout/checkpoint"
	"blankout/internal/must"
)

// TestOtherStateVersion checks that run rejects a checkpoint whose learner has a different state version. The error
// must name the file and both versions, and must give advice.
func TestOtherStateVersion(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Do(t, os.WriteFile("events.jsonl", []byte(strings.Repeat("{\"label\":0,\"x\":1}\n{\"label\":1,\"x\":2}\n", 20)), 0o644))
	run := func() (code int, log string) {
		var out, errors bytes.Buffer
		code = execute(t.Context(), []string{"run", "-d", "events.jsonl", "--label", "label", "--set", "http.address="}, strings.NewReader(""), &out, &errors)
		return code, errors.String()
	}
	code, log := run()
	must.Require(t, code == 0, "exit code %d\n%s", code, log)
	names, err := filepath.Glob(filepath.Join("checkpoints", "*.blankout"))
	must.Require(t, err == nil && len(names) != 0, "%v %v", names, err)
	for _, name := range names {
		file := must.Get(checkpoint.ReadFile(name))(t)
		data := must.Get(file.Block("learner"))(t)
		data[0] += 3
		must.Do(t, checkpoint.WriteFile(name, file.Kind, slices.Values(file.Blocks)))
	}
	code, log = run()
	must.True(t, code == 3 && strings.Contains(log, filepath.Base(names[len(names)-1])+": restoring the learner: block learner has version ") && strings.Contains(log, ", and this program reads version ") && strings.Contains(log, "--reset"),
		"exit code %d\n%s", code, log)
}
