package tests

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/internal/run"
)

// adoptEvery is the number of records between two adoptions of exact solutions.
const adoptEvery = 2000

// adopting returns l with settings that make the learner adopt exact solutions and keep every checkpoint.
func (l *learner) adopting() *learner {
	l.flags = append(l.flags, "--set", "learner.noise=dropout:0.3", "--set", "validate.policy=adopt", "--set", "validate.window=0",
		"--set", "validate.events=2000", "--set", "validate.holdout=9",
		"--set", "validate.directory="+filepath.Join(l.dir, "reports"), "--set", "checkpoint.keep=1000")
	l.numbers = "validate.adopt_margin=-inf,validate.cpu=1"
	return l
}

// at returns the checkpoints that were saved after exactly this many records.
func (l *learner) at(t *testing.T, records uint64) (found [][]byte) {
	t.Helper()
	names := must.Get(checkpoint.List(l.checkpoints()))(t)
	for _, name := range names {
		data := must.Get(os.ReadFile(filepath.Join(l.checkpoints(), name)))(t)
		file := must.Get(checkpoint.Decode(data))(t)
		offsets := must.Get(run.ReadOffsets(file.Blocks))(t)
		if len(offsets) == 1 && offsets[0].Records == records {
			found = append(found, data)
		}
	}
	return found
}

// same reports whether two checkpoints are equal apart from the stored names. A checkpoint contains the names of a
// whole batch of records, even if it was saved in the middle of the batch.
func same(a, b []byte) bool {
	differ := differingBlocks(a, b)
	return len(differ) == 0 || slices.Equal(differ, []string{"names"})
}

// TestCrashAdopting kills a program while it solves for, adopts or saves an exact solution. The newest checkpoint must
// then hold the state before or after the adoption. The final state must equal the final state of a run without kills.
func TestCrashAdopting(t *testing.T) {
	longtest.Only(t)
	program := buildProgram(t, "-tags=failpoint")
	broker := crashBroker(t, "short")
	reference := newLearner(t, program, broker.Brokers()[0], "short").adopting()
	numbers := reference.numbers
	reference.numbers = "validate.adopt_margin=-inf,validate.cpu=0.3" // slow solver: the state before the adoption is saved too
	begin := time.Now()
	reference.finish(t)
	took := time.Since(begin) / 2
	reference.numbers = numbers
	if n := strings.Count(reference.log(), "adopted the exact solution"); n != 3 {
		t.Fatalf("%d adoptions\n%s", n, reference.log())
	}
	sides := map[uint64][][]byte{}
	for n := uint64(adoptEvery); n <= 6000; n += adoptEvery {
		if sides[n] = reference.at(t, n); len(sides[n]) != 2 || bytes.Equal(sides[n][0], sides[n][1]) {
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
		l.check(t, "short", reference)
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)) // different times in each run
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
		l.check(t, "short", reference)
	}
}

// TestCrashAfterWaiting checks a learner whose wait for a solution expires. The learner must save this fact before it
// learns more. Then the final state must equal the final state of a run without kills, even if the solver is fast after
// a restart.
func TestCrashAfterWaiting(t *testing.T) {
	longtest.Only(t)
	program := buildProgram(t, "-tags=failpoint")
	broker := crashBroker(t, "short")
	const points = "BLANKOUT_FAILPOINTS=run.solve=error"
	start := func() *learner {
		l := newLearner(t, program, broker.Brokers()[0], "short").adopting()
		l.flags = append(l.flags, "--set=checkpoint.events=1000000", "--set=checkpoint.interval=1h")
		l.numbers += ",kafka.batch_records=97"
		return l
	}
	// finish learns the remaining records, with a working solver.
	finish := func(l *learner) {
		t.Helper()
		l.env = nil
		l.finish(t)
	}
	reference := start()
	flags := reference.flags
	reference.env, reference.flags = []string{points}, append(reference.flags, "--set=validate.adopt_wait=10ms", "--max-events=2100")
	reference.finish(t)
	reference.flags = flags
	finish(reference)
	if log := reference.log(); strings.Count(log, "no exact solution within adopt_wait") != 1 || strings.Count(log, "adopted the exact solution") != 2 {
		t.Fatalf("not one wait that was cut short and two adoptions\n%s", log)
	}
	for point, past := range map[string]bool{
		"run.solve=kill@1":         false, // killed while it waits
		"run.adopted=kill@1":       false, // the expiry is decided but not saved
		"checkpoint.rename=kill@2": false, // killed before either state is saved
		"run.commit=kill@2":        false, // the expiry is saved
		"run.deadletters=kill@22":  true,  // 21 dead letters precede the expiry, so learning has continued
	} {
		l := start()
		flags := l.flags
		l.env, l.flags = []string{"BLANKOUT_FAILPOINTS=run.solve=error," + point}, append(flags, "--set=validate.adopt_wait=10ms")
		if strings.HasPrefix(point, "run.solve") {
			l.env = []string{"BLANKOUT_FAILPOINTS=" + point}
		}
		must.Fails(t, l.live(t, 0, nil), point, "the place was not reached")
		if !l.decided(t) { // it waits again after the restart
			if past {
				t.Errorf("%s: learning went on, and it was not saved that there was no solution\n%s", point, l.log())
			}
			l.env, l.flags = []string{points}, append(flags, "--set=validate.adopt_wait=10ms", "--max-events=2100")
			if _, offsets, err := l.newest(); err == nil && len(offsets) > 0 {
				l.flags[len(l.flags)-1] = fmt.Sprint("--max-events=", 2100-offsets[0].Records)
			}
			l.finish(t)
		}
		l.flags = flags
		finish(l)
		l.check(t, "short", reference)
	}
}

// newest returns the adoptions and offsets of the newest checkpoint.
func (l *learner) newest() (a run.Adoptions, offsets event.Offsets, err error) {
	names, err := checkpoint.List(l.checkpoints())
	if err != nil || len(names) == 0 {
		return a, nil, err
	}
	file, err := checkpoint.ReadFile(filepath.Join(l.checkpoints(), names[0]))
	if err != nil {
		return a, nil, err
	}
	if a, err = run.ReadAdoptions(file.Blocks); err == nil {
		offsets, err = run.ReadOffsets(file.Blocks)
	}
	return a, offsets, err
}

// decided reports whether the newest checkpoint records that a solution was too late.
func (l *learner) decided(t *testing.T) bool {
	a, _ := must.Get2(l.newest())(t)
	return slices.Equal(a.TimedOut, []uint64{adoptEvery})
}
