//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Enabled reports whether the program was built with failpoints.
const Enabled = true

type action struct {
	what  string // action: kill, error, panic, slow or memory
	while string // file that must exist for the action; "" for none
	at    int    // number of the arrival that acts; 0 for every arrival
}

// The state is global, because it applies to the whole process.
var (
	actions, numbers = parse(os.Getenv("BLANKOUT_FAILPOINTS"))
	mu               sync.Mutex
	arrivals         = map[string]int{}
)

func parse(spec string) (map[string]action, map[string]float64) {
	m, set := map[string]action{}, map[string]float64{}
	for _, part := range strings.Split(spec, ",") {
		if part == "" {
			continue
		}
		place, what, _ := strings.Cut(part, "=")
		if x, err := strconv.ParseFloat(what, 64); err == nil {
			set[place] = x
			continue
		}
		what, at, counted := strings.Cut(what, "@")
		n, err := strconv.Atoi(at)
		what, while, _ := strings.Cut(what, ":")
		if !slices.Contains([]string{"kill", "error", "panic", "slow", "memory"}, what) || counted && (err != nil || n < 1) {
			panic(fmt.Sprintf("BLANKOUT_FAILPOINTS: %q: want PLACE=kill, error, panic, slow or memory, with :FILE while that exists, with @N for the Nth arrival", part))
		}
		m[place] = action{what, while, n}
	}
	return m, set
}

// Number returns a setting that only tests change.
func Number(name string, usual float64) float64 {
	if x, ok := numbers[name]; ok {
		return x
	}
	return usual
}

// Here marks a place. It returns an error if the failpoint's action is an error. It does not return if the action kills
// the process.
func Here(place string) error {
	a, ok := actions[place]
	if !ok {
		return nil
	}
	if a.while != "" {
		if _, err := os.Stat(a.while); err != nil {
			return nil
		}
	}
	mu.Lock()
	arrivals[place]++
	n := arrivals[place]
	mu.Unlock()
	if a.at != 0 && a.at != n {
		return nil
	}
	switch a.what {
	case "error":
		return fmt.Errorf("failpoint %s (arrival %d)", place, n)
	case "slow":
		time.Sleep(250 * time.Millisecond)
		return nil
	case "panic":
		panic(fmt.Sprintf("failpoint %s (arrival %d)", place, n))
	case "memory":
		// The memory is never touched, so this exhausts the address space but not the machine's memory.
		for held := [][]byte(nil); ; held = append(held, make([]byte, 1<<40)) {
		}
	}
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		p.Kill()
	}
	select {} // wait until the signal arrives
}
