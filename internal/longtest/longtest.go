// Package longtest keeps tests that take longer than ten seconds out of a plain
// go test ./... and lets CI run them.
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
