package tests

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"blankout/checkpoint"
	"blankout/internal/longtest"
	"blankout/internal/must"
)

var (
	dumpFrozen    = flag.String("dump-frozen", "", "write what TestFrozen hashes to the directory `DIR`")
	frozenProgram = flag.String("frozen-program", "", "let TestFrozen try the blankout of this `FILE`")
)

var updateFrozen = flag.Bool("update-frozen", false, "write testdata/frozen.txt anew; the commit says why the numbers changed")

// frozen holds the results of the program, by configuration, for comparison with a stored file.
type frozen struct {
	t       *testing.T
	program string
	got     map[string]string // measures and hashes by configuration
	whole   bool              // whether every configuration is tested, as in a long run
	seen    int               // number of requested models and runs so far
}

// leftOut reports whether the next model or run is skipped. A short run of the tests skips five of six.
func (f *frozen) leftOut() bool {
	f.seen++
	return !f.whole && f.seen%6 != 1
}

// TestFrozen compares results of the program with testdata/frozen.txt: measures, and hashes of predictions, forecasts,
// weights and states. The results cover every loss, optimizer, record format and kind of label, streams with missing
// fields, and a group. A change that only moves code must not change any line. A change of results updates the file
// with -update-frozen, and its commit message lists the changed lines and the reasons. A short run tests a sixth of
// the models and runs, unless -run names this test.
//
// To find the cause of a changed line, build the program of the older commit and compare the hashed data:
//
//	go test ./tests -run Frozen -args -dump-frozen /tmp/new
//	go test ./tests -run Frozen -args -dump-frozen /tmp/old -frozen-program OLDER
//	diff -r /tmp/old /tmp/new
func TestFrozen(t *testing.T) {
	longtest.Numeric(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the numbers were made on amd64; another compiler rounds products and sums differently")
	}
	f := &frozen{t: t, program: *frozenProgram, got: map[string]string{}, whole: longtest.Asked() || *updateFrozen || *dumpFrozen != "" || strings.Contains(flag.Lookup("test.run").Value.String(), "Frozen")}
	if f.program == "" {
		f.program = buildProgram(t)
	}
	frozenModels(f)
	events := frozenEvents(t)
	for _, name := range slices.Sorted(maps.Keys(events)) {
		f.run(name, events[name], nil, []string{`record.crosses=[["word", "place"]]`})
	}
	f.run("svmlight", f.sample("elec2/stream.svm.gz"), nil, nil)
	f.run("refresh", f.sample("elec2/stream.svm.gz"), nil, []string{"learner.irls_batch=100", "learner.irls_window=300"})
	f.run("drift", f.sample("elec2/stream.svm.gz"), nil, []string{"learner.half_life=500", "learner.on_drift=forget"})
	frozenRuns(f)
	compareFrozen(t, f.got, f.whole)
}

func (f *frozen) sample(name string) string {
	file, err := filepath.Abs(filepath.Join("../papers/samples", name))
	if err != nil {
		f.t.Fatal(err)
	}
	return file
}

// train trains a model on one sample and scores another sample with it.
func (f *frozen) train(name, data, test string, args ...string) {
	if f.leftOut() {
		return
	}
	model := filepath.Join(f.t.TempDir(), "model")
	out := runProgram(f.t, "", f.program, append([]string{"train", "--json", "-q", "-o", model, "-d", f.sample(data)}, args...)...)
	predicted := runProgram(f.t, "", f.program, "predict", "--json", "-q", "-m", model, "-d", f.sample(test), "-o", model+".scores")
	line := measuresOf(f.t, out, "objective", "train_error", "progressive_error", "progressive_log_loss", "noise_level", "converged")
	if was, ok := f.got["train "+name]; ok && was != line {
		f.t.Errorf("train %s %v: %s, and before %s", name, args, line, was)
	}
	f.got["train "+name] = line
	f.got["predict "+name] = measuresOf(f.t, predicted, "error", "log_loss", "calibration_error") + " " + f.hash("predict "+name, fileBytes(f.t, model+".scores"))
}

// learned runs the program on a file like a service and returns the directory of its checkpoint. The method learnInto
// does the same in a given directory, and continues from the checkpoint in that directory, if there is one.
func (f *frozen) learned(data string, args, settings []string) (dir string) {
	dir = f.t.TempDir()
	f.learnInto(dir, data, args, settings)
	return dir
}

func (f *frozen) learnInto(dir, data string, args, settings []string) (report []byte) {
	for i, a := range args {
		if filepath.IsAbs(a) {
			args[i] = filepath.Base(a)
		}
	}
	all := slices.Concat([]string{"run", "--json", "-q", "-d", filepath.Base(data), "--until-end"}, args) // the state contains the name of the file
	for _, s := range slices.Concat(settings, []string{"checkpoint.directory=" + dir, "dead_letter.file=" + filepath.Join(dir, "dead.jsonl"), "http.address="}) {
		all = append(all, "--set", s)
	}
	return runProgram(f.t, filepath.Dir(data), f.program, all...)
}

// run learns a file. It hashes the saved state, the measures, the forecasts and the weights. It also hashes the
// predictions for the same events, both complete and with groups of fields (or columns) declared missing.
func (f *frozen) run(name, data string, args, settings []string) {
	if f.leftOut() {
		return
	}
	dir := f.t.TempDir()
	report := f.learnInto(dir, data, args, settings)
	part := func(what string, data []byte) string { return " " + what + " " + f.hash("run "+name+" "+what, data) }
	line := "state " + stateHash(f.t, dir)
	line += part("measures", stable(f.t, report, "seconds", "checkpoint", "checkpoints"))
	line += part("inspect", stable(f.t, runProgram(f.t, "", f.program, "inspect", "--json", "--weights", "1000", dir), "file", "bytes", "blocks"))
	answer := func(what string, args ...string) string {
		answers := filepath.Join(dir, what+".jsonl")
		runProgram(f.t, "", f.program, append([]string{"predict", "--json", "-q", "-m", dir, "-d", data, "-o", answers, "--unseen", "answer", "--refused", "skip"}, args...)...)
		return part(what, fileBytes(f.t, answers))
	}
	deletion := "--delete-groups"
	if strings.HasSuffix(data, ".svm.gz") { // the format has no groups of columns
		deletion = "--delete"
	}
	line += answer("answers") + answer("lacking", deletion, "0.4", "--declared", "--seed", "5")
	f.got["run "+name] = line
}

// hash returns the hash of a result, and also writes the result to a file if -dump-frozen is given.
func (f *frozen) hash(name string, data []byte) string {
	if *dumpFrozen != "" {
		if err := os.MkdirAll(*dumpFrozen, 0o755); err != nil {
			f.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*dumpFrozen, strings.NewReplacer(" ", "-", ":", "-", "/", "-", "*", "all").Replace(name)), data, 0o644); err != nil {
			f.t.Fatal(err)
		}
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))[:16]
}

// stable returns a JSON object without the named members. The values of these members differ between runs.
func stable(t *testing.T, data []byte, without ...string) []byte {
	t.Helper()
	var all map[string]json.RawMessage
	must.Do(t, json.Unmarshal(data, &all), data)
	for _, name := range without {
		delete(all, name)
	}
	return must.Get(json.MarshalIndent(all, "", " "))(t)
}

func fileBytes(t *testing.T, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(name))(t)
}

// frozenModels trains exact and online models on the samples, with every loss, noise, bound and optimizer.
func frozenModels(f *frozen) {
	train := f.train
	binary, many := [2]string{"subj/all.svm.gz", "subj/all.svm.gz"}, [2]string{"usps/train.svm.gz", "usps/train.svm.gz"}
	for _, loss := range []string{"hinge", "squared-hinge", "logistic", "quadratic", "exponential", "probit", "erf", "ramp", "t-logistic:1.6", "fdrop:3"} {
		train("binary "+loss, binary[0], binary[1], "--loss", loss, "-c", "0.1")
		if !strings.HasPrefix(loss, "fdrop") {
			train("binary dropout "+loss, binary[0], binary[1], "--loss", loss, "--noise", "dropout:0.5", "-c", "0.1")
		}
	}
	for _, bound := range []string{"hinge chen", "logistic chen", "logistic quadratic-noising", "logistic mcf"} {
		loss, form, _ := strings.Cut(bound, " ")
		train("many dropout "+bound, many[0], many[1], "--loss", loss, "--bound", form, "--noise", "dropout:0.3")
	}
	train("pairs", many[0], many[1], "--multiclass", "ovo", "--noise", "gaussian:0.1")
	train("standardized", "elec2/stream.svm.gz", "elec2/stream.svm.gz", "--standardize", "auto", "--noise", "dropout:0.1")
	train("dropsvm", "uci/heart.svm.gz", "uci/heart.svm.gz", "--loss", "dropsvm")
	train("linear", "uci/heart.svm.gz", "uci/heart.svm.gz", "--loss", "linear", "--noise", "laplace:0.1")
	for _, rule := range []string{"adagrad", "dropout-descent", "ftrl", "irls"} {
		args := []string{"--solver", "online", "--optimizer", rule}
		switch rule {
		case "dropout-descent":
			args = append(args, "--noise", "dropout:0.3")
		case "irls":
			args = append(args, "--irls-batch", "50")
		}
		train("online "+rule, "elec2/stream.svm.gz", "elec2/stream.svm.gz", args...)
		train("online text "+rule, binary[0], binary[1], args...)
		train("online many "+rule, "gas_drift/stream.svm.gz", "gas_drift/stream.svm.gz", args...)
	}
	for _, loss := range []string{"hinge", "hinge:chen", "squared-hinge", "logistic:chen", "quadratic", "probit", "erf", "t-logistic:1.6"} {
		train("online "+loss, binary[0], binary[1], "--solver", "online", "--loss", loss)
	}
	train("online passes", many[0], many[1], "--solver", "online", "--passes", "3")
}

// frozenEvents writes the same events in all formats with field names.
func frozenEvents(t *testing.T) map[string]string {
	dir := t.TempDir()
	var json, csv, vw strings.Builder
	csv.WriteString("label,word,place,x,y\n")
	for i := range 700 {
		h := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
		x, y := float64(h[0])/16-8, float64(h[1])*float64(h[1])
		word, place := []string{"fine", "grim", "odd"}[h[2]%3], []string{"here", "there"}[h[3]%2]
		label := 0
		if x+float64(h[2]%3)*3+float64(h[4])/64 > 4 {
			label = 1
		}
		number := fmt.Sprint(x)
		null := h[5]%8 == 0
		fmt.Fprintf(&json, `{"label":"%d","word":"%s","place":"%s","x":%s,"y":%g,"bag":["%s","b%d"]}`+"\n",
			label, word, place, map[bool]string{true: "null", false: number}[null], y, word, h[6]%20)
		fmt.Fprintf(&csv, "%d,%s,%s,%s,%g\n", label, word, place, map[bool]string{true: "", false: number}[null], y)
		fmt.Fprintf(&vw, "%d |word %s |place %s |n x:%s y:%g\n", 2*label-1, word, place, number, y)
	}
	files := map[string]string{}
	for name, text := range map[string]string{"json": json.String(), "csv": csv.String(), "vw": vw.String()} {
		files[name] = filepath.Join(dir, "events."+name)
		must.Do(t, os.WriteFile(files[name], []byte(text), 0o644))
	}
	return files
}

// runProgram runs a program and returns its standard output. It runs in dir, or in the current directory if dir is
// empty.
func runProgram(t *testing.T, dir, program string, args ...string) []byte {
	t.Helper()
	var out, errors bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = &out, &errors
	err := cmd.Run()
	must.Require(t, err == nil, "%s %s: %v\n%s", program, strings.Join(args, " "), err, errors.String())
	return out.Bytes()
}

// measuresOf returns the named measures that a JSON object contains.
func measuresOf(t *testing.T, data []byte, names ...string) string {
	t.Helper()
	var all map[string]any
	must.Do(t, json.Unmarshal(data, &all), data)
	var out []string
	for _, name := range names {
		if x, ok := all[name]; ok && x != nil {
			out = append(out, fmt.Sprintf("%s %v", name, x))
		}
	}
	return strings.Join(out, " ")
}

// stateHash returns a hash of the blocks of the newest checkpoint.
func stateHash(t *testing.T, dir string) string {
	t.Helper()
	name := must.Get(checkpoint.Newest(dir))(t)
	file := must.Get(checkpoint.ReadFile(name))(t)
	h := sha256.New()
	for _, b := range file.Blocks {
		fmt.Fprintf(h, "%s %d\n", b.Name, len(b.Data))
		h.Write(b.Data)
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:16]
}

func compareFrozen(t *testing.T, got map[string]string, whole bool) {
	const file = "testdata/frozen.txt"
	if *updateFrozen {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(got)) {
			fmt.Fprintf(&b, "%s: %s\n", name, got[name])
		}
		must.Do(t, os.WriteFile(file, []byte(b.String()), 0o644))
		return
	}
	data := must.Get(os.ReadFile(file))(t)
	want := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		want[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		must.True(t, got[name] == want[name], "%s:\n was %s\n is  %s", name, cmp.Or(want[name], "not there"), got[name])
		delete(want, name)
	}
	for name := range want {
		must.True(t, !whole, "%s is gone", name)
	}
}
