package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/internal/s3test"
)

// TestCrashWithStore kills the program at every access to an object store, makes accesses fail, and makes the store
// unreachable. The program must recover after a restart. The checkpoints in the store must equal checkpoints on disk.
func TestCrashWithStore(t *testing.T) {
	longtest.Only(t)
	program := buildProgram(t, "-tags=failpoint")
	broker := crashBroker(t, "short")
	reference := newLearner(t, program, broker.Brokers()[0], "short")
	reference.finish(t)
	for _, point := range []string{
		"checkpoint.create=kill@1", "checkpoint.create=kill@3", "checkpoint.create=error@3",
		"checkpoint.write=kill@4", "checkpoint.rename=kill@1", "checkpoint.rename=kill@3", "checkpoint.rename=error@3",
		"checkpoint.written=kill@1", "checkpoint.written=kill@3", "checkpoint.written=error@3",
		"checkpoint.remove=kill@1", "checkpoint.remove=error@1", "run.commit=kill@1",
	} {
		store := s3test.Start()
		t.Cleanup(store.Close)
		l := newLearner(t, program, broker.Brokers()[0], "short", "--set=checkpoint.directory=s3://models/crash", "--set=s3.region="+s3test.Region, "--set=s3.endpoint="+store.URL, "--set=checkpoint.keep=1")
		keys := []string{"AWS_ACCESS_KEY_ID=" + s3test.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s3test.SecretKey}
		l.env = keys
		l.failAt(t, point, false)
		l.finish(t)
		must.True(t, !strings.Contains(point, "kill") || strings.Contains(l.log(), "another learner owned the checkpoints") || point == "checkpoint.create=kill@1",
			"%s: nobody was told of the learner that was killed\n%s", point, l.log())
		must.Do(t, os.MkdirAll(l.checkpoints(), 0o700))
		for _, name := range store.Names("/models/crash/checkpoint-") {
			name = "checkpoint-" + name
			must.Do(t, os.WriteFile(filepath.Join(l.checkpoints(), name), store.Get("/models/crash/"+name), 0o600))
		}
		l.check(t, "short", reference)
	}
}
