// Package longtest keeps tests that take longer than ten seconds out of a plain
// go test ./... and lets CI run them; and those in which the race detector has
// nothing to find out of its runs.
package longtest

import (
	"os"
	"testing"
)

// Variable is the environment variable that asks for long tests when it is 1.
const Variable = "BLANKOUT_LONG"

// Asked reports whether long tests are to run.
func Asked() bool { return os.Getenv(Variable) == "1" }

// Only skips the test unless long tests are to run.
func Only(t testing.TB) {
	t.Helper()
	if !Asked() {
		t.Skip("this test takes long: set " + Variable + "=1 to run it, as .ci/run does")
	}
}

// Some reports whether case i of a list is to run: every nth in a plain go test, every one if long
// tests are to run.
func Some(i, n int) bool { return Asked() || i%n == 0 }

// NotRaced skips a test of numbers under the race detector, which would take ten times as long and
// find nothing: one goroutine works them out, or cheaper tests run the same goroutines.
func NotRaced(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("a test of numbers, in which the race detector has nothing to find: go test without -race")
	}
}
