package tests

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"blankout/checkpoint"
	"blankout/internal/longtest"
	"blankout/run"
)

// adoptEvery is after how many of the topic's records a solution is adopted.
const adoptEvery = 2000

// adopting has a learner adopt exact solutions and keep every checkpoint.
func (l *learner) adopting() *learner {
	l.flags = append(l.flags, "--set", "learner.noise=dropout:0.3", "--set", "validate.policy=adopt", "--set", "validate.adopt_margin=-inf", "--set", "validate.window=0",
		"--set", "validate.events=2000", "--set", "validate.validation_cpu=1", "--set", "validate.holdout=9",
		"--set", "validate.directory="+filepath.Join(l.dir, "reports"), "--set", "checkpoint.keep=1000")
	return l
}

// at returns the checkpoints made after exactly so many records.
func (l *learner) at(t *testing.T, records uint64) (found [][]byte) {
	t.Helper()
	names, err := checkpoint.List(l.checkpoints())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(l.checkpoints(), name))
		if err != nil {
			t.Fatal(err)
		}
		file, err := checkpoint.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		offsets, err := run.ReadOffsets(file.Blocks)
		if err != nil {
			t.Fatal(err)
		}
		if len(offsets) == 1 && offsets[0].Records == records {
			found = append(found, data)
		}
	}
	return found
}

// same says whether two checkpoints differ in nothing but the names remembered:
// those of a whole batch are, whatever record of it the checkpoint ends with.
func same(a, b []byte) bool {
	differ := differingBlocks(a, b)
	return len(differ) == 0 || slices.Equal(differ, []string{"names"})
}

// A program killed while it solves for, adopts, or saves an exact solution
// leaves the state of before or of after, and ends where one left alone does.
func TestCrashAdopting(t *testing.T) {
	longtest.Only(t)
	program := buildProgram(t, "-tags=failpoint")
	broker := crashBroker(t, "short")
	whole := newLearner(t, program, broker.Brokers()[0], "short").adopting()
	flags := whole.flags
	whole.flags = append(whole.flags, "--set", "validate.validation_cpu=0.3") // slow: what comes before is saved too
	begin := time.Now()
	whole.finish(t)
	took := time.Since(begin) / 2
	whole.flags = flags
	if n := strings.Count(whole.log(), "adopted the exact solution"); n != 3 {
		t.Fatalf("%d adoptions\n%s", n, whole.log())
	}
	sides := map[uint64][][]byte{}
	for n := uint64(adoptEvery); n <= 6000; n += adoptEvery {
		if sides[n] = whole.at(t, n); len(sides[n]) != 2 || bytes.Equal(sides[n][0], sides[n][1]) {
			t.Fatalf("%d checkpoints at %d records, want that before adopting and that after", len(sides[n]), n)
		}
	}
	check := func(l *learner, what string) {
		t.Helper()
		if names, _ := checkpoint.List(l.checkpoints()); len(names) == 0 {
			return
		}
		_, offsets, _ := l.state(t)
		if len(offsets) == 0 {
			return
		}
		n := offsets[0].Records
		for _, data := range l.at(t, n) {
			if n > 0 && n%adoptEvery == 0 && !slices.ContainsFunc(sides[n], func(side []byte) bool { return same(side, data) }) {
				t.Fatalf("%s: the checkpoint at %d is that of neither side, it differs in %s and %s\n%s", what, n,
					differingBlocks(sides[n][0], data), differingBlocks(sides[n][1], data), l.log())
			}
		}
	}
	for _, point := range []string{"run.solve=kill@1", "run.adopt=kill@2", "run.adopted=kill@1",
		"run.solve=error@1", "run.adopted=error@1"} {
		l := newLearner(t, program, broker.Brokers()[0], "short").adopting()
		l.env = []string{"BLANKOUT_FAILPOINTS=" + point}
		if err := l.live(t, 0, nil); (err == nil) != strings.HasPrefix(point, "run.solve=error") {
			t.Errorf("%s: %v\n%s", point, err, l.log())
		}
		check(l, point)
		l.env = nil
		l.finish(t)
		l.check(t, "short", whole)
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)) // another instant every time
	for range max(crashKills(t)/8, 1) {
		l := newLearner(t, program, broker.Brokers()[0], "short").adopting()
		for range 3 {
			end := (*os.Process).Kill
			if r.IntN(3) == 0 {
				end = func(p *os.Process) error { return p.Signal(os.Interrupt) }
			}
			_ = l.live(t, time.Duration(r.Float64()*float64(took)), end)
			check(l, "a random instant")
		}
		l.finish(t)
		l.check(t, "short", whole)
	}
}
