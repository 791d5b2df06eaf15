package labels

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/internal/seglog"
)

// oneRun is a join that was stopped at a checkpoint and then continued: its directory, its state at the checkpoint and
// the results after the checkpoint.
type oneRun struct {
	directory string
	state     State
	at        *joined // the join at the checkpoint
	records   []arrived
	out       []told
	end       State
}

func newRun(t *testing.T, n, most int) *oneRun {
	t.Helper()
	r := rand.New(rand.NewPCG(4, 4))
	run := &oneRun{directory: t.TempDir(), records: someRecords(r, n)}
	j := newJoined(t, testConfig(200), run.directory)
	j.join.store.most = most
	k := 0
	j.run(t, run.records, func() int { return 3 }, func() bool { k++; return k == 2*n/3 })
	must.Do(t, json.Unmarshal(must.Get(j.join.Freeze().Block())(t).Data, &run.state))
	run.at = &joined{schema: j.schema.Clone(), offsets: j.offsets.Clone()}
	must.Do(t, j.join.Close())
	run.out, run.end = must.Get2(run.goOn(t, run.directory))(t)
	return run
}

// goOn continues from the checkpoint with a copy of the given directory.
func (run *oneRun) goOn(t *testing.T, directory string) (out []told, end State, err error) {
	t.Helper()
	copied := t.TempDir()
	must.Do(t, os.CopyFS(copied, os.DirFS(directory)))
	join, err := Open(testConfig(200), copied, run.state)
	if err != nil {
		return nil, State{}, err
	}
	j := &joined{schema: run.at.schema.Clone(), offsets: run.at.offsets.Clone(), join: join}
	err = j.try(t, run.records, func() int { return 4 }, nil)
	return j.out, join.State(), errors.Join(err, join.Close())
}

// TestDamagedStore changes a byte, truncates a file or removes a file. The damage must be detected or have no effect,
// and the error must name the file or the directory.
func TestDamagedStore(t *testing.T) {
	longtest.NotRaced(t)
	run := newRun(t, 60, 9)
	names, err := filepath.Glob(filepath.Join(run.directory, "*.*s"))
	must.Require(t, err == nil && len(names) >= 6, "files %q, %v", names, err)
	check := func(what, name string, change func(data []byte) []byte) (found bool) {
		t.Helper()
		directory := t.TempDir()
		must.Do(t, os.CopyFS(directory, os.DirFS(run.directory)))
		path := filepath.Join(directory, filepath.Base(name))
		data := must.Get(os.ReadFile(path))(t)
		if data = change(data); data == nil {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, data, 0o600)
		}
		must.Do(t, err)
		out, end, err := run.goOn(t, directory)
		var damaged *DamageError
		var foreign *StateError
		switch {
		case errors.As(err, &damaged):
			must.True(t, filepath.Base(damaged.File) == filepath.Base(name) || data == nil || len(data) != 0, "%s of %s: %v", what, name, err)
			return true
		case errors.As(err, &foreign):
			return true
		case err != nil:
			t.Errorf("%s of %s: %v", what, name, err)
		case !reflect.DeepEqual(out, run.out) || !reflect.DeepEqual(end, run.end):
			t.Errorf("%s of %s: not found out, and it goes on otherwise", what, name)
		}
		return false
	}
	r := rand.New(rand.NewPCG(5, 5))
	tried, found := 0, 0
	for _, name := range names {
		info := must.Get(os.Stat(name))(t)
		for range 12 {
			at, bit := r.Int64N(info.Size()), r.IntN(8)
			tried++
			if check(fmt.Sprintf("bit %d of byte %d", bit, at), name, func(data []byte) []byte { data[at] ^= 1 << bit; return data }) {
				found++
			}
			check(fmt.Sprintf("the end from byte %d on", at), name, func(data []byte) []byte { return data[:at] })
		}
		check("all", name, func([]byte) []byte { return nil })
	}
	// many events no longer wait, so they are not read
	must.True(t, found >= tried/3, "%d of %d changed bits were found out", found, tried)
}

// faulty is a file that cannot be written while *err is set.
type faulty struct {
	seglog.File
	err *error
}

func (f faulty) WriteAt(b []byte, at int64) (int, error) {
	if *f.err != nil {
		return 0, *f.err
	}
	return f.File.WriteAt(b, at)
}

// TestStoreThatCannotWrite checks a file that cannot be written for a while. Nothing may be lost, and the run must
// reach the usual final state once the file can be written.
func TestStoreThatCannotWrite(t *testing.T) {
	run := newRun(t, 60, 9)
	directory := t.TempDir()
	must.Do(t, os.CopyFS(directory, os.DirFS(run.directory)))
	join := must.Get(Open(testConfig(200), directory, run.state))(t)
	join.store.most = 9
	var failure error
	join.store.System.Open = func(name string, flag int) (seglog.File, error) {
		f, err := os.OpenFile(name, flag, 0o600)
		return faulty{f, &failure}, err
	}
	j := &joined{schema: run.at.schema.Clone(), offsets: run.at.offsets.Clone(), join: join}
	failed, n := 0, 0
	err := j.try(t, run.records, func() int { return 4 }, func() bool {
		if n++; n%4 == 2 {
			must.Get(join.Freeze().Block())(t)
		}
		if n%4 == 0 && join.store.heads.Last().Unwritten() > 0 {
			failure = errors.New("no space")
			must.ErrorContains(t, must.Err(join.Freeze().Block()), directory, "a checkpoint where a file cannot be written")
			failed++
			failure = nil
		}
		return false
	})
	must.Require(t, err == nil, "%v", err)
	must.True(t, failed >= 3, "writing failed %d times", failed)
	must.True(t, reflect.DeepEqual(j.out, run.out) && reflect.DeepEqual(join.State(), run.end), "it went on otherwise: %+v, want %+v", join.State(), run.end)
	must.Do(t, join.Close())
}

// TestRemovedStore checks that no checkpoint is made once a file was removed or replaced by another file.
func TestRemovedStore(t *testing.T) {
	for _, name := range []string{"lock", "0000000000000000.heads", "0000000000000000.bodies"} {
		for _, replaced := range []bool{false, true} {
			directory := t.TempDir()
			j := newJoined(t, testConfig(200), directory).join
			arrive(t, j, "a")
			must.Get(j.Freeze().Block())(t)
			path := filepath.Join(directory, name)
			err := os.Rename(path, path+".old")
			if replaced {
				err = errors.Join(err, os.WriteFile(path, nil, 0o600))
			}
			if err != nil {
				t.Skip(err) // for example on Windows
			}
			arrive(t, j, "b")
			_, err = j.Freeze().Block()
			must.ErrorContains(t, err, path, name)
			must.True(t, errors.As(err, new(*seglog.BrokenError)), "%s: %v", name, err)
		}
	}
}

// TestStoreThatCannotSync checks that nothing is written after a failed sync, because only a restart shows the content
// of the disk.
func TestStoreThatCannotSync(t *testing.T) {
	j := newJoined(t, testConfig(200), t.TempDir()).join
	arrive(t, j, "a")
	must.Get(j.Freeze().Block())(t)
	j.store.most = 1 // the next event starts a segment
	arrive(t, j, "b")
	j.store.System.Sync = func(string) error { return errors.New("input/output error") }
	var broken *seglog.BrokenError
	_, err := j.Freeze().Block()
	must.Require(t, errors.As(err, &broken), "a checkpoint that was not synced: %v", err)
	j.store.System.Sync = seglog.Sync
	arrive(t, j, "c")
	_, err = j.Freeze().Block()
	must.True(t, errors.As(err, &broken), "the next one: %v", err)
}

// TestIndex checks an index of many IDs, which are removed after a while. All IDs must be found, and the table must
// stay small.
func TestIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	var x index
	numbers := map[id]uint64{}
	ids := make([]id, 0, 60_000)
	const window = 2000
	first := uint64(1<<32 - 20_000) // makes the low bits of the numbers wrap around
	for number := first; number < first+60_000; number++ {
		low := max(first, number-min(number, window))
		of := hash(fmt.Appendf(nil, "%d", number))
		if n := len(ids); n > 0 && r.IntN(3) == 0 {
			of = ids[max(0, n-1-r.IntN(500))]
		} else if r.IntN(50) == 0 && n > 0 { // add another ID with the same bits
			copy(of[:4], ids[n-1][:4])
		}
		ids = append(ids, of)
		was, known := numbers[of]
		known = known && was >= low
		x.put(of, number, was, known, low)
		numbers[of] = number
		probe := ids[max(0, len(ids)-1-r.IntN(window))]
		want, ok := numbers[probe], false
		for n := range x.find(probe, low, number+1) {
			ok = ok || n == want
		}
		must.Require(t, ok == (want >= low), "number %d of %x: found %t with numbers from %d on", want, probe, ok, low)
	}
	n := len(x.slots)
	must.True(t, n <= 4*window, "%d slots for %d entries", n, window)
}

// TestMaxPendingCountsEarlyLabels checks that max_pending also limits labels that arrive before their event. The oldest
// labels must be removed first.
func TestMaxPendingCountsEarlyLabels(t *testing.T) {
	c := testConfig(1_000_000)
	c.MaxPending = 100
	j := opened(t, c, t.TempDir(), State{})
	advance := func(at int64) {
		j.Advance("labels", 0, &event.Example{Arrival: at})
		w, err := j.Expired()
		must.Require(t, w == nil && err == nil, "%v %v", w, err)
	}
	const n = 5000
	for i := range n {
		advance(int64(i))
		must.Get2(j.Label(&event.Example{Key: fmt.Appendf(nil, "id%d", i), Label: 1, Weight: 1}))(t)
	}
	advance(n)
	s := j.State()
	must.True(t, s.WithinWait == 100 && s.Early == n && s.Unmatched == n-100, "%d held, %d early, %d unknown", s.WithinWait, s.Early, s.Unmatched)
	for i, want := range map[int]Outcome{n - 101: Waits, n - 100: Matches, n - 1: Matches} {
		o, _, err := j.Event(&event.Example{Key: fmt.Appendf(nil, "id%d", i), Weight: 1}, 0, nil)
		must.True(t, err == nil && o == want, "the event of label %d: %v, %v", i, o, err)
	}
	must.Equal(t, j.State().WithinWait, 101, "held")
}

// TestStoreStaysSmall checks that the data for IDs whose wait is over does not grow forever, on disk or in memory.
func TestStoreStaysSmall(t *testing.T) {
	directory := t.TempDir()
	j := opened(t, testConfig(1000), directory, State{})
	j.store.most = 500
	most := 0
	for i := range 40_000 {
		must.Do(t, j.Flush())
		j.Advance("events", 0, &event.Example{Arrival: int64(i)})
		expired(t, j)
		arrive(t, j, fmt.Sprint("id", i))
		if i%1000 == 999 {
			f := j.Freeze()
			must.Get(f.Block())(t)
			must.Do(t, f.LetGo())
			entries := must.Get(os.ReadDir(directory))(t)
			most = max(most, len(entries))
		}
	}
	must.True(t, most <= 16 && len(j.store.index.slots) <= 20_000, "%d files, %d slots for the ids of 3,000 events", most, len(j.store.index.slots))
	n := len(j.store.bodies.Segments)
	must.True(t, n <= 5, "the bodies of %d segments are kept", n)
}

// TestSumCoversEverything checks that any difference in the records changes the checksum, so that a checkpoint of
// another log is detected.
func TestSumCoversEverything(t *testing.T) {
	type told struct {
		id               string
		value, weight    float64
		class            int
		label            float64
		labelWeight      float64
		arrival, delayed int64
	}
	base := told{"a", 1, 3, 1, 0, 2, 100, 5}
	sum := func(r told) uint64 {
		j := newJoined(t, testConfig(1000), t.TempDir()).join
		defer j.Close()
		e := &event.Example{Key: []byte(r.id), Weight: r.weight, Features: event.Vec{Index: []uint32{1}, Value: []float64{r.value}}, Arrival: r.arrival}
		j.Advance("events", 0, e)
		must.Get2(j.Event(e, 0, nil))(t)
		l := &event.Example{Key: []byte(r.id), Label: r.class, Target: r.label, Weight: r.labelWeight, Arrival: r.arrival + r.delayed}
		j.Advance("labels", 0, l)
		o, w, err := j.Label(l)
		must.Require(t, err == nil && o == Matches && w.Weight == r.weight*r.labelWeight, "%v, %+v, %v", o, w, err)
		return j.State().Sum
	}
	seen := map[uint64]int{}
	for i, change := range []func(*told){
		func(*told) {}, func(r *told) { r.id = "b" }, func(r *told) { r.value = 2 }, func(r *told) { r.weight = 4 }, func(r *told) { r.class = 0 },
		func(r *told) { r.label = 7 }, func(r *told) { r.labelWeight = 1 }, func(r *told) { r.arrival++ }, func(r *told) { r.delayed++ },
	} {
		r := base
		change(&r)
		s := sum(r)
		other, ok := seen[s]
		must.True(t, !ok, "changes %d and %d have one sum", other, i)
		seen[s] = i
		must.Equal(t, sum(r), s, "the sum after change", i)
	}
}
