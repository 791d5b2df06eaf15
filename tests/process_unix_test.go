//go:build unix

package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"blankout/checkpoint"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/internal/streamtest"
)

// TestStartFromAClone runs the commands of docs/start.md in a clone of the repository. They must work without a
// warning. Only the ports differ from the page.
func TestStartFromAClone(t *testing.T) {
	longtest.Only(t)
	for _, name := range []string{"git", "curl", "sh"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("there is no %s", name)
		}
	}
	if _, err := os.Stat("../.git"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("this is no clone")
	}
	clone := filepath.Join(t.TempDir(), "blankout")
	runProgram(t, "", "git", "clone", "-q", "--depth=1", "file://"+absolute(t, ".."), clone)
	text := must.Get(os.ReadFile(filepath.Join(clone, "docs/start.md")))(t)
	broker, page := freeAddress(t), freeAddress(t)
	ports := strings.NewReplacer("127.0.0.1:9092", broker, "127.0.0.1:8642", page)
	background := map[string]string{"blankout broker": broker, "blankout run -f service.toml": page}
	s := shell{t: t, dir: clone}
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		commands := strings.TrimSpace(block[1])
		if at, ok := background[commands]; ok {
			delete(background, commands)
			s.start(commands, broker, page)
			awaitAddress(t, at, at == page)
			continue
		}
		s.run(ports.Replace(commands), broker, page)
	}
	must.True(t, len(background) <= 0 && len(s.said) >= 6, "docs/start.md lacks %v; it has %d blocks", background, len(s.said))
	s.stop()
	for _, said := range s.said {
		must.True(t, !regexp.MustCompile(`(?i)"level":"(WARN|ERROR)"|\bwarning\b`).MatchString(said.String()), "a warning: %s", said)
	}
	n := strings.Count(s.said[4].String()+s.said[5].String(), `"msg":"stopped","events":2000,`)
	must.True(t, n == 1, "the topic was learned %d times: %s", n, s.said)
}

// shell runs the code blocks of a document in one session.
type shell struct {
	t       *testing.T
	dir     string
	exports []string
	said    []*bytes.Buffer
	behind  []*exec.Cmd
}

// command returns a command that runs lines, with the environment variables that earlier blocks have exported.
func (s *shell) command(ctx context.Context, lines, broker, page string) *exec.Cmd {
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(line, "export ") {
			s.exports = append(s.exports, line)
		}
	}
	said := &bytes.Buffer{}
	s.said = append(s.said, said)
	c := exec.CommandContext(ctx, "sh", "-ec", strings.Join(s.exports, "\n")+"\n"+lines)
	c.Dir, c.Stdout, c.Stderr = s.dir, said, said
	c.Env = append(os.Environ(), "BLANKOUT_KAFKA_BROKERS="+broker, "BLANKOUT_HTTP_ADDRESS="+page)
	return c
}

func (s *shell) run(lines, broker, page string) {
	ctx, stop := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer stop()
	if err := s.command(ctx, lines, broker, page).Run(); err != nil {
		s.t.Fatalf("%s: %v: %s", lines, err, s.said[len(s.said)-1])
	}
}

// start runs a command in the background. The command replaces its shell, so that signals reach it.
func (s *shell) start(line, broker, page string) {
	if line == "blankout broker" {
		line += " --address " + broker
	}
	c := s.command(context.Background(), "exec "+line, broker, page)
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.behind = append(s.behind, c)
	s.t.Cleanup(func() { _ = c.Process.Kill() }) // if the test has failed
}

// stop ends the background commands in reverse order.
func (s *shell) stop() {
	for _, c := range slices.Backward(s.behind) {
		if err := errors.Join(c.Process.Signal(syscall.SIGTERM), c.Wait()); err != nil {
			s.t.Errorf("%s: %v: %s", c.Args[2], err, c.Stdout)
		}
	}
}

func absolute(t *testing.T, path string) string {
	path = must.Get(filepath.Abs(path))(t)
	return path
}

func freeAddress(t *testing.T) string {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	return l.Addr().String()
}

// awaitAddress waits until a process listens at an address. If service is set, it also waits until the service is
// ready.
func awaitAddress(t *testing.T, address string, service bool) {
	for range 600 {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			if !service {
				return
			}
			if r, err := http.Get("http://" + address + "/readyz"); err == nil && r.Body.Close() == nil && r.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("nobody listens at %s", address)
}

// TestFewDescriptors checks that a learner with 64 file descriptors and 120 idle connections still saves checkpoints
// and responds to requests.
func TestFewDescriptors(t *testing.T) {
	dir := t.TempDir()
	command := exec.Command("sh", "-c", `ulimit -n 64 && exec "$0" "$@"`, buildProgram(t), "run", "-d", "-", "--serve", "--json", "--set", "http.address=127.0.0.1:0",
		"--set", "checkpoint.events=100", "--set", "checkpoint.interval=0s", "--set", "dead_letter.policy=skip")
	command.Dir = dir
	file := must.Get(os.Create(filepath.Join(dir, "log")))(t)
	defer file.Close()
	log := func() string {
		text, _ := os.ReadFile(file.Name())
		return string(text)
	}
	var summary bytes.Buffer
	command.Stderr, command.Stdout = file, &summary
	events := must.Get(command.StdinPipe())(t)
	must.Do(t, command.Start())
	defer command.Process.Kill()
	var url string
	for began := time.Now(); url == ""; time.Sleep(5 * time.Millisecond) {
		if m := regexp.MustCompile(`"url":"(http://[^"]+)"`).FindStringSubmatch(log()); m != nil {
			url = m[1]
		}
		if time.Since(began) > time.Minute {
			t.Fatal(log())
		}
	}
	for range 120 {
		c := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
		defer c.Close()
	}
	for i := range 1000 {
		if _, err := fmt.Fprintf(events, `{"label":%q,"x":%d}`+"\n", []string{"no", "yes"}[i%2], i%7); err != nil {
			t.Fatalf("%v\n%s", err, log())
		}
	}
	response, err := http.Get(url + "/healthz")
	if err != nil || response.StatusCode != 200 {
		t.Errorf("%+v, %v", response, err)
	} else {
		response.Body.Close()
	}
	events.Close()
	var told struct {
		Events, Checkpoints uint64
	}
	if err := command.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, log())
	}
	if err := json.Unmarshal(summary.Bytes(), &told); err != nil || told.Events != 1000 || told.Checkpoints < 2 || strings.Contains(log(), "too many open files") {
		t.Errorf("%v: %+v\n%s", err, told, log())
	}
}

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
