//go:build unix

package tests

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/internal/streamtest"
)

// systemdUnit is the section [Service] of a unit file. It maps each key to its last value.
type systemdUnit map[string]string

func readUnit(t *testing.T) systemdUnit {
	t.Helper()
	text := must.Get(os.ReadFile("../deploy/blankout.service"))(t)
	unit := systemdUnit{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			unit[key] = value
		}
	}
	must.Require(t, unit["Restart"] == "on-failure", "Restart=%s: this test knows on-failure only", unit["Restart"])
	return unit
}

// restarts reports whether systemd restarts the service after its main process has ended with this status.
// Restart=on-failure restarts the service after every signal, except the four signals of a clean end. It also restarts
// the service after every exit code other than zero. RestartPreventExitStatus names further exceptions.
func (u systemdUnit) restarts(w syscall.WaitStatus) bool {
	prevented := strings.Fields(u["RestartPreventExitStatus"])
	if w.Signaled() {
		clean := []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE}
		name := map[syscall.Signal]string{syscall.SIGABRT: "SIGABRT", syscall.SIGKILL: "SIGKILL"}[w.Signal()]
		return !slices.Contains(clean, w.Signal()) && !slices.Contains(prevented, name)
	}
	return w.ExitStatus() != 0 && !slices.Contains(prevented, strconv.Itoa(w.ExitStatus()))
}

// TestUnitRestarts checks that the unit restarts the real program after a panic, after a failed allocation, and after a
// kill by MemoryMax. The program must then continue from its checkpoint. The unit must not restart the program after a
// wrong configuration.
func TestUnitRestarts(t *testing.T) {
	unit := readUnit(t)
	broker := crashBroker(t, "short")
	wrong := newLearner(t, buildProgram(t), broker.Brokers()[0], "short")
	wrong.flags = append(wrong.flags, "--set=learner.learning_rate=-1")
	status := died(t, wrong)
	must.True(t, status.ExitStatus() == 2 && !unit.restarts(status), "a wrong configuration: exit code %d, started again %v", status.ExitStatus(), unit.restarts(status))
	longtest.Only(t) // failpoints need a separate compilation
	program := buildProgram(t, "-tags=failpoint")
	reference := newLearner(t, program, broker.Brokers()[0], "short")
	reference.finish(t)
	for what, want := range map[string]struct {
		signal syscall.Signal
		said   string
	}{
		"panic":  {syscall.SIGABRT, "panic: failpoint checkpoint.create (arrival 2)"},
		"memory": {syscall.SIGABRT, "fatal error: runtime: cannot allocate memory|fatal error: runtime: out of memory"},
		"kill":   {syscall.SIGKILL, ""},
	} {
		l := newLearner(t, program, broker.Brokers()[0], "short")
		l.env = []string{"BLANKOUT_FAILPOINTS=checkpoint.create=" + what + "@2"}
		status := died(t, l)
		must.True(t, status.Signaled() && status.Signal() == want.signal && unit.restarts(status),
			"%s: exit code %d, signal %v: not started again\n%s", what, status.ExitStatus(), status.Signal(), l.log())
		must.True(t, slices.ContainsFunc(strings.Split(want.said, "|"), func(said string) bool { return strings.Contains(l.log(), said) }),
			"%s: the log does not say %q\n%s", what, want.said, l.log())
		l.env = nil
		l.finish(t)
		l.check(t, "short", reference)
	}
}

// died returns the wait status of a program that a test has made fail.
func died(t *testing.T, l *learner) syscall.WaitStatus {
	t.Helper()
	exit := (*exec.ExitError)(nil)
	err := l.live(t, 0, nil)
	must.Require(t, errors.As(err, &exit), "it did not fail: %v\n%s", err, l.log())
	return exit.Sys().(syscall.WaitStatus)
}

// TestStopWithoutDeadLetterTopic stops the program while dead letters cannot be stored. The program must save its state
// and end with exit code 0. The next start must store the dead letters.
func TestStopWithoutDeadLetterTopic(t *testing.T) {
	t.Parallel()
	broker := startBroker(t, map[string]int32{"short": 1, "dead": 1})
	admin := streamtest.Admin(t, broker.Brokers()...)
	l := newLearner(t, buildProgram(t), broker.Brokers()[0], "short")
	l.flags = []string{"--set=dead_letter.topic=dead", "--set=kafka.request_timeout=1s"}
	command := l.start(t)
	defer command.Process.Kill()
	said := func(what string) {
		t.Helper()
		l.await(t, what, func() bool { return strings.Contains(l.log(), what) })
	}
	must.Do(t, fillCrashTopic(t, broker.Brokers(), "short", func(written int) {
		if written != 2000 {
			return
		}
		said(`"msg":"checkpoint saved"`)
		must.Get(admin.DeleteTopics(t.Context(), "dead"))(t)
	}))
	said("dead letters cannot be stored; learning waits") // /readyz reports it too, after request_timeout
	l.stop(t, command)
	said("dead letters cannot be stored; the next start reads their records again")
	must.Get(admin.CreateTopic(t.Context(), 1, 1, nil, "dead"))(t)
	l.flags = append(l.flags, "--until-end")
	l.finish(t)
	reference := newLearner(t, l.program, broker.Brokers()[0], "short")
	reference.finish(t)
	want, _, _ := reference.state(t)
	got, _, _ := l.state(t)
	must.True(t, bytes.Equal(got, want), "the state differs in %s", differingBlocks(got, want))
}
