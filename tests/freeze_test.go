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
)

var updateFrozen = flag.Bool("update-frozen", false, "write testdata/frozen.txt anew; the commit says why the numbers changed")

// TestFrozen holds the program to its own numbers. For every loss, update rule and
// record format it trains or learns from a sample and compares the measures, and
// hashes of the predictions and of the learner's state, with testdata/frozen.txt.
// A change of structure must leave every line as it is. A change of numbers updates
// the file with -update-frozen, and its commit says which lines changed and why.
func TestFrozen(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the numbers were made on amd64; another compiler rounds products and sums differently")
	}
	program := buildProgram(t)
	samples, err := filepath.Abs("../experiment/samples")
	if err != nil {
		t.Fatal(err)
	}
	sample := func(name string) string { return filepath.Join(samples, name) }
	got := map[string]string{}

	// train makes a model of a sample and scores another with it.
	train := func(name, data, test string, args ...string) {
		model := filepath.Join(t.TempDir(), "model")
		out := runProgram(t, "", program, append([]string{"train", "--json", "-q", "-m", model, "-d", sample(data)}, args...)...)
		predicted := runProgram(t, "", program, "predict", "--json", "-q", "-m", model, "-d", sample(test), "-o", model+".scores")
		got["train "+name] = measuresOf(t, out, "objective", "train_error", "progressive_error", "progressive_log_loss", "level", "converged")
		got["predict "+name] = measuresOf(t, predicted, "error", "log_loss", "calibration_error") + " " + fileHash(t, model+".scores")
	}
	// run learns from a file as the service does and hashes the state that it saves.
	run := func(name, data string, settings ...string) {
		dir := t.TempDir()
		args := []string{"run", "--json", "-q", "-d", filepath.Base(data), "--until-end"} // the state names the file
		settings = append(settings, "checkpoint.directory="+dir, "dead_letter.file="+filepath.Join(t.TempDir(), "dead.jsonl"), "http.address=")
		for _, s := range settings {
			args = append(args, "--set", s)
		}
		runProgram(t, filepath.Dir(data), program, args...)
		got["run "+name] = stateHash(t, dir)
	}

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
	train("standardised", "elec2/stream.svm.gz", "elec2/stream.svm.gz", "--standardise", "auto", "--noise", "dropout:0.1")
	train("dropsvm", "uci/heart.svm.gz", "uci/heart.svm.gz", "--loss", "dropsvm")
	train("linear", "uci/heart.svm.gz", "uci/heart.svm.gz", "--loss", "linear", "--noise", "laplace:0.1")
	for _, rule := range []string{"adagrad", "dropout-descent", "sgd", "arow", "ftrl", "irls"} {
		args := []string{"--solver", "online", "--rule", rule}
		switch rule {
		case "dropout-descent":
			args = append(args, "--noise", "dropout:0.3")
		case "arow":
			args = append(args, "--loss", "hinge", "--noise", "none")
		case "irls":
			args = append(args, "--refresh", "50")
		}
		train("online "+rule, "elec2/stream.svm.gz", "elec2/stream.svm.gz", args...)
		train("online text "+rule, binary[0], binary[1], args...)
		train("online many "+rule, "gas_drift/stream.svm.gz", "gas_drift/stream.svm.gz", args...)
	}
	for _, loss := range []string{"hinge", "hinge:chen", "squared-hinge", "logistic:chen", "quadratic", "probit", "erf", "t-logistic:1.6"} {
		train("online "+loss, binary[0], binary[1], "--solver", "online", "--loss", loss)
	}
	train("online passes", many[0], many[1], "--solver", "online", "--passes", "3")

	for name, data := range frozenEvents(t) {
		run(name, data, `record.crosses=[["word", "place"]]`)
	}
	run("svmlight", sample("elec2/stream.svm.gz"))
	run("refresh", sample("elec2/stream.svm.gz"), "learner.refresh=100")
	run("drift", sample("elec2/stream.svm.gz"), "learner.half_life=500", "learner.on_drift=forget")

	compareFrozen(t, got)
}

// frozenEvents writes the same events in the formats that name their fields.
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
		if err := os.WriteFile(files[name], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func runProgram(t *testing.T, dir, program string, args ...string) []byte {
	t.Helper()
	var out, errors bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = &out, &errors
	if err := cmd.Run(); err != nil {
		t.Fatalf("blankout %s: %v\n%s", strings.Join(args, " "), err, errors.String())
	}
	return out.Bytes()
}

// measuresOf returns those of the named measures that a JSON object has.
func measuresOf(t *testing.T, data []byte, names ...string) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	var out []string
	for _, name := range names {
		if x, ok := all[name]; ok && x != nil {
			out = append(out, fmt.Sprintf("%s %v", name, x))
		}
	}
	return strings.Join(out, " ")
}

func fileHash(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))[:16]
}

// stateHash returns a hash of the newest checkpoint's blocks.
func stateHash(t *testing.T, dir string) string {
	t.Helper()
	name, err := checkpoint.Newest(dir)
	if err != nil {
		t.Fatal(err)
	}
	file, err := checkpoint.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	for _, b := range file.Blocks {
		fmt.Fprintf(h, "%s %d\n", b.Name, len(b.Data))
		h.Write(b.Data)
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:16]
}

func compareFrozen(t *testing.T, got map[string]string) {
	const file = "testdata/frozen.txt"
	if *updateFrozen {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(got)) {
			fmt.Fprintf(&b, "%s: %s\n", name, got[name])
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		want[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if got[name] != want[name] {
			t.Errorf("%s:\n was %s\n is  %s", name, cmp.Or(want[name], "not there"), got[name])
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is gone", name)
	}
}
