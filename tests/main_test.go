package tests

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

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
	code := longtest.Waiting(m, 4).Run()
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

// TestVersionsNeverGoBack kills a learner, which then continues from an older state. The version of the published model
// must never decrease.
func TestVersionsNeverGoBack(t *testing.T) {
	t.Parallel()
	broker := crashBroker(t, "one")
	l := newLearner(t, buildProgram(t), broker.Brokers()[0], "one")
	l.env = []string{"BLANKOUT_HTTP_ADDRESS=127.0.0.1:0", "BLANKOUT_HTTP_PUBLISH_INTERVAL=1ms", "BLANKOUT_CHECKPOINT_EVENTS=0", "BLANKOUT_CHECKPOINT_INTERVAL=1h"}
	l.flags = nil
	defer http.DefaultClient.CloseIdleConnections()
	serving := regexp.MustCompile(`"url":"(http://[^"]+)"`)
	version, seen, back := uint64(0), 0, false
	var events uint64
	for life := range 4 {
		command := l.start(t)
		deadline := time.Now().Add(30 * time.Second)
		for asked := 0; asked < 20 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			urls := serving.FindAllStringSubmatch(l.log(), -1)
			if len(urls) <= life {
				continue
			}
			response, err := http.Get(urls[life][1] + "/v1/model/offsets")
			if err != nil {
				continue
			}
			var now struct{ Version, Events uint64 }
			err = json.NewDecoder(response.Body).Decode(&now)
			response.Body.Close()
			if err != nil || now.Events == 0 {
				continue
			}
			asked++
			must.True(t, now.Version >= version && (now.Version != version || now.Events == events), "life %d: version %d of %d events after version %d of %d", life, now.Version, now.Events, version, events)
			if now.Version > version {
				seen++
			}
			back = back || now.Events < events
			version, events = now.Version, now.Events
		}
		must.Do(t, command.Process.Kill())
		command.Wait()
	}
	must.True(t, seen >= 4 && back, "%d versions seen, events went back: %v; this tests nothing", seen, back)
}
