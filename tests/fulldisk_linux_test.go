package tests

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"blankout/internal/longtest"
	"blankout/internal/must"
)

// TestFullDiskUnderLabels fills the disk that stores events waiting for labels. The learner must report the full disk
// and not be ready. SIGTERM must end the learner with exit code 1. Once the disk has space, and after kills, the
// learner must reach the same bytes as a learner without faults.
func TestFullDiskUnderLabels(t *testing.T) {
	longtest.Only(t)
	program := buildProgram(t)
	broker := joinBroker(t, 8_000).Brokers()[0]
	reference := newJoiner(t, program, broker, 0)
	reference.finish(t)

	l := newJoiner(t, program, broker, 0)
	disk := filepath.Join(l.dir, "waiting")
	must.Do(t, os.Mkdir(disk, 0o700))
	size := func(flags uintptr, kilobytes int) error {
		return syscall.Mount("tmpfs", disk, "tmpfs", flags, fmt.Sprintf("size=%dk", kilobytes))
	}
	if err := size(0, 300); err != nil {
		t.Skip("no file system may be mounted here: ", err)
	}
	defer func() {
		must.Do(t, syscall.Unmount(disk, syscall.MNT_DETACH))
	}()
	address := freePorts(t, 1)[0]
	l.flags = append(l.flags, "--set=http.address="+address)
	full := func() bool { return strings.Contains(l.log(), "no space left on device") }

	c := l.start(t)
	l.await(t, "the disk never got full", func() bool { return full() })
	must.Contains(t, l.log(), disk)
	l.await(t, "/readyz responds with status 503", func() bool {
		response, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusServiceUnavailable
	})
	must.Do(t, c.Process.Signal(syscall.SIGTERM))
	exit := (*exec.ExitError)(nil)
	must.True(t, errors.As(c.Wait(), &exit) && exit.ExitCode() == 1, "a stop on a full disk: %v\n%s", c.ProcessState, l.log())

	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)) // different times in each run
	for n := range 20 {
		if n == 10 { // a little later, at another position
			must.Do(t, size(syscall.MS_REMOUNT, 500))
		}
		err := l.live(t, time.Duration(r.Float64()*float64(time.Second)), (*os.Process).Kill)
		exit := (*exec.ExitError)(nil)
		must.Require(t, errors.As(err, &exit) && exit.ExitCode() == -1, "ended by itself: %v\n%s", err, l.log())
	}
	must.Do(t, size(syscall.MS_REMOUNT, 64<<10))
	l.finish(t)
	l.checkJoined(t, reference)
}
