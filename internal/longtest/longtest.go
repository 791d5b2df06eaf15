// Package longtest keeps tests that take longer than ten seconds out of a plain go test ./... and lets CI run them. It
// also skips tests under the race detector that cannot have races.
package longtest

import (
	"flag"
	"iter"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
)

// Variable is the environment variable that enables long tests when it is 1.
const Variable = "BLANKOUT_LONG"

// Asked reports whether long tests are enabled.
func Asked() bool { return os.Getenv(Variable) == "1" }

// Only skips the test unless long tests are enabled.
func Only(t testing.TB) {
	t.Helper()
	if !Asked() {
		t.Skip("this test takes long: set " + Variable + "=1 to run it, as .ci/run does")
	}
}

// Some reports whether case i of a list is run: every case if long tests are enabled, else every nth.
func Some(i, n int) bool { return Asked() || i%n == 0 }

// Few yields the cases of a list for which Some(i+shift, n) is true, with their indices i.
func Few[T any](list []T, shift, n int) iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i, v := range list {
			if Some(i+shift, n) && !yield(i, v) {
				return
			}
		}
	}
}

// NotRaced skips a numerical test under the race detector, which would take ten times as long and find nothing. Such a
// test uses one goroutine, or cheaper tests run the same goroutines.
func NotRaced(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("a test of numbers, in which the race detector has nothing to find: go test without -race")
	}
}

// Numeric is NotRaced for a test that runs in parallel with others.
func Numeric(t *testing.T) {
	t.Helper()
	NotRaced(t)
	t.Parallel()
}

// CollectRarely makes the tests of a package collect garbage rarely, for TestMain. The collections would take a sixth of
// the processor time of tests that learn or solve. Benchmarks collect as usual.
func CollectRarely() {
	if flag.Parse(); flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400)
	}
}

// Waiting lets n parallel tests of a package run at a time, for TestMain. More than the number of processors are useful
// where the tests mostly wait for brokers, processes and timeouts. The flag -parallel overrides n.
func Waiting(m *testing.M, n int) interface{ Run() int } { return waiting{m, n} }

type waiting struct {
	*testing.M
	n int
}

func (w waiting) Run() int {
	flag.Parse()
	overridden := false
	flag.Visit(func(f *flag.Flag) { overridden = overridden || f.Name == "test.parallel" })
	if !overridden {
		if err := flag.Set("test.parallel", strconv.Itoa(w.n)); err != nil {
			panic(err)
		}
	}
	return w.M.Run()
}
