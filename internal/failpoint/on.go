//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Enabled tells whether the program was built with failpoints.
const Enabled = true

type action struct {
	kill bool
	at   int // the arrival that counts, 0 for every one
}

// The state is the process's by nature: one environment, one program to kill.
var (
	actions  = parse(os.Getenv("BLANKOUT_FAILPOINTS"))
	mu       sync.Mutex
	arrivals = map[string]int{}
)

func parse(spec string) map[string]action {
	m := map[string]action{}
	for _, part := range strings.Split(spec, ",") {
		if part == "" {
			continue
		}
		place, what, _ := strings.Cut(part, "=")
		what, at, counted := strings.Cut(what, "@")
		n, err := strconv.Atoi(at)
		if what != "kill" && what != "error" || counted && (err != nil || n < 1) {
			panic(fmt.Sprintf("BLANKOUT_FAILPOINTS: %q: want PLACE=kill or PLACE=error, with @N for the Nth arrival", part))
		}
		m[place] = action{what == "kill", n}
	}
	return m
}

// Here marks a place. It returns an error if the place is to fail, and does not
// return if the process is to die there.
func Here(place string) error {
	a, ok := actions[place]
	if !ok {
		return nil
	}
	mu.Lock()
	arrivals[place]++
	n := arrivals[place]
	mu.Unlock()
	if a.at != 0 && a.at != n {
		return nil
	}
	if !a.kill {
		return fmt.Errorf("failpoint %s (arrival %d)", place, n)
	}
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		p.Kill()
	}
	select {} // the signal is on its way
}
