//go:build unix

package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"blankout/internal/must"
)

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
