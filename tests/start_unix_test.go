//go:build unix

package tests

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"blankout/internal/longtest"
	"blankout/internal/must"
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
