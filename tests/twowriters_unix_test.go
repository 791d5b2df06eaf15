//go:build unix

package tests

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"blankout/checkpoint"
	"blankout/internal/must"
)

// TestTwoWriters removes the checkpoint directory, or the lock in it, under a running learner, and starts a second
// learner there. The first learner must notice before its next write, write nothing, and end with exit code 3. Only the
// second learner may write to the directory. The removed files must not change.
func TestTwoWriters(t *testing.T) {
	t.Parallel()
	program := buildProgram(t)
	for name, lose := range map[string]func(dir string) error{
		"moved":        func(dir string) error { return os.Rename(dir, dir+".bak") },
		"lock removed": func(dir string) error { return os.Remove(filepath.Join(dir, "lock")) },
	} {
		t.Run(name, func(t *testing.T) {
			broker := startBroker(t, map[string]int32{"short": 1})
			first, second := newLearner(t, program, broker.Brokers()[0], "short"), newLearner(t, program, broker.Brokers()[0], "short")
			dir := second.checkpoints()
			first.flags, second.flags = []string{"--set=checkpoint.directory=" + dir}, nil
			one := first.start(t)
			defer one.Process.Kill()
			var two *exec.Cmd
			saved := func(l *learner, least int) {
				t.Helper()
				l.await(t, "checkpoints", func() bool { return strings.Count(l.log(), `"msg":"checkpoint saved"`) >= least })
			}
			moved := map[string][]byte{}
			err := fillCrashTopic(t, broker.Brokers(), "short", func(written int) {
				if written != 3000 {
					return
				}
				saved(first, 2)
				must.Do(t, lose(dir))
				files, _ := filepath.Glob(dir + ".bak/*.blankout") // a .tmp file may be incomplete
				for _, file := range files {
					moved[file] = must.Get(os.ReadFile(file))(t)
				}
				two = second.start(t)
				second.await(t, "it has the directory", func() bool { return strings.Contains(second.log(), "checkpoint") })
			})
			must.Do(t, err)
			defer two.Process.Kill()
			exit := (*exec.ExitError)(nil)
			err = one.Wait()
			must.True(t, errors.As(err, &exit) && exit.ExitCode() == 3, "the first learner: %v, want exit code 3", err)
			// The first learner may notice the loss in the middle of a write. Then its message names the file.
			last := lastLine(first.log())
			must.True(t, strings.HasPrefix(last, "blankout: run: ") && strings.Contains(last, ": "+dir+": "+checkpoint.ErrLost.Error()), "the first learner said %s", last)
			saved(second, 2)
			second.stop(t, two)
			must.True(t, !strings.Contains(second.log(), "could not"), "the second learner was disturbed\n%s", second.log())
			for file, was := range moved {
				is, err := os.ReadFile(file)
				must.True(t, err == nil && bytes.Equal(is, was), "%s was changed: %v", file, err)
			}
			files, _ := filepath.Glob(dir + ".bak/*.blankout")
			must.True(t, len(files) == len(moved), "%d files were moved away, now they are %q", len(moved), files)
			second.flags = []string{"--until-end"}
			second.finish(t)
			reference := newLearner(t, program, broker.Brokers()[0], "short")
			reference.finish(t)
			want, _, _ := reference.state(t)
			got, _, _ := second.state(t)
			must.True(t, bytes.Equal(got, want), "the state differs in %s", differingBlocks(got, want))
		})
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
