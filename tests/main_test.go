package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"blankout/internal/longtest"
	"blankout/internal/must"
)

// programs holds the programs that tests have requested, each built once.
var programs struct {
	sync.Mutex
	dir     string
	byFlags map[string]string
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "blankout-tests")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs.dir, programs.byFlags = dir, map[string]string{}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// buildProgram builds the program with the given flags and returns its path. It builds with the settings of the tests,
// so that packages in the build cache are reused. Under the race detector it builds without cgo, because only race
// builds can use the cached packages.
func buildProgram(t testing.TB, flags ...string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	key := strings.Join(flags, " ")
	if path, ok := programs.byFlags[key]; ok {
		return path
	}
	path := filepath.Join(programs.dir, "blankout"+strconv.Itoa(len(programs.byFlags)))
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	command := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), "../cmd/blankout")...)
	if longtest.Race && !slices.Contains(flags, "-race") {
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	out, err := command.CombinedOutput()
	must.Require(t, err == nil, "%v: %v\n%s", command, err, out)
	programs.byFlags[key] = path
	return path
}
