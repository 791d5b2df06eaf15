package tests

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
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

// leftOut reports whether the next model or run is skipped. A short run of the tests skips nine of ten.
func (f *frozen) leftOut() bool {
	f.seen++
	return !f.whole && f.seen%10 != 1
}

// TestFrozen compares results of the program with testdata/frozen.txt: measures, and hashes of predictions, forecasts,
// weights and states. The results cover every loss, optimizer, record format and kind of label, streams with missing
// fields, and a group. A change that only moves code must not change any line. A change of results updates the file
// with -update-frozen, and its commit message lists the changed lines and the reasons. A short run tests a tenth of
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
		label := must.Either(x+float64(h[2]%3)*3+float64(h[4])/64 > 4, 1, 0)
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

// sensors writes events as JSON lines. Their correlated numbers form three groups, some of which fail for a while. The
// argument label is the kind of label: classes, a number or a count. The relation between fields and label changes
// after two thirds of the stream.
func sensors(t *testing.T, dir, name string, n, classes int, label string) string {
	t.Helper()
	r := rand.New(rand.NewPCG(7, uint64(classes)))
	var b strings.Builder
	for i := range n {
		heat, load := r.NormFloat64(), r.NormFloat64()
		if i > 2*n/3 {
			heat = -heat
		}
		sense := heat - 0.7*load*load + 0.4*r.NormFloat64()
		var y any
		switch label {
		case "number":
			y = 20 + 5*sense
		case "count":
			y = math.Floor(math.Exp(0.5*sense) * 3)
		default:
			y = fmt.Sprintf("c%d", min(classes-1, max(0, int(math.Floor((sense+1.5)*float64(classes)/3)))))
		}
		fields := []string{
			fmt.Sprintf(`"id":"e%d","at":%d,"label":%s`, i, 1_700_000_000_000+1000*i, quoted(y)),
		}
		number := func(field string, x float64, dead bool) {
			if dead {
				fields = append(fields, fmt.Sprintf("%q:null", field))
			} else if r.IntN(40) > 0 {
				fields = append(fields, fmt.Sprintf("%q:%.6g", field, x))
			}
		}
		engine, cabin := i%50 < 8, r.IntN(6) == 0
		number("oil", 80+10*heat+r.NormFloat64(), engine)
		number("water", 60+8*heat+2*r.NormFloat64(), engine)
		number("rpm", 3000*math.Exp(load), false)
		number("torque", 200+60*load+10*r.NormFloat64(), cabin)
		number("wear", math.Abs(r.NormFloat64()), cabin)
		fields = append(fields, fmt.Sprintf(`"driver":"d%d"`, r.IntN(12)), fmt.Sprintf(`"note":"%s road w%d"`, []string{"wet", "dry"}[r.IntN(2)], r.IntN(30)))
		if r.IntN(9) == 0 {
			fields = append(fields, fmt.Sprintf(`"trailer":%.3g`, 1+r.Float64()))
		}
		fmt.Fprintf(&b, "{%s}\n", strings.Join(fields, ","))
	}
	file := filepath.Join(dir, name)
	must.Do(t, os.WriteFile(file, []byte(b.String()), 0o644))
	return file
}

func quoted(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// laterLabels splits labeled events into a file of events and a file of labels that arrive up to a minute later.
func laterLabels(t *testing.T, file string) (events, labels string) {
	t.Helper()
	data := must.Get(os.ReadFile(file))(t)
	type later struct {
		at   float64
		line string
	}
	var e strings.Builder
	var all []later
	for line := range strings.Lines(string(data)) {
		var fields map[string]any
		must.Do(t, json.Unmarshal([]byte(line), &fields))
		at := fields["at"].(float64) + 1000*float64(len(line)*7%60)
		if len(all)%11 > 0 { // one event in eleven gets no label
			all = append(all, later{at, quoted(map[string]any{"id": fields["id"], "label": fields["label"], "at": at})})
		} else {
			all = append(all, later{at, quoted(map[string]any{"id": "nobody", "label": fields["label"], "at": at})})
		}
		delete(fields, "label")
		e.WriteString(quoted(fields) + "\n")
	}
	slices.SortStableFunc(all, func(a, b later) int { return int(a.at - b.at) })
	var l strings.Builder
	for _, x := range all {
		l.WriteString(x.line + "\n")
	}
	events, labels = file+".events.jsonl", file+".labels.jsonl"
	for name, text := range map[string]string{events: e.String(), labels: l.String()} {
		must.Do(t, os.WriteFile(name, []byte(text), 0o644))
	}
	return events, labels
}

// frozenRuns learns streams like a service. It hashes measures, forecasts, saved states and weights by column. It also
// hashes the predictions for complete events and for events with missing groups of fields.
func frozenRuns(f *frozen) {
	t, dir := f.t, f.t.TempDir()
	two := sensors(t, dir, "two.jsonl", 2600, 2, "")
	five := sensors(t, dir, "five.jsonl", 1800, 5, "")
	number := sensors(t, dir, "number.jsonl", 1800, 1, "number")
	count := sensors(t, dir, "count.jsonl", 1800, 1, "count")
	events, labels := laterLabels(t, two)
	base := []string{"record.id=id", "record.time=at", `record.groups={engine = ["oil", "water"], cabin = ["torque", "wear"]}`}
	of := func(settings ...string) []string { return slices.Concat(base, settings) }

	for _, c := range []struct {
		name, data string
		args       []string
		settings   []string
	}{
		{"two", two, nil, of()},
		{"two text", two, nil, of("record.text=note", "record.ngrams=2", `record.crosses=[["driver", "trailer"]]`)},
		{"two adagrad alone", two, nil, of("learner.noise=dropout:0.3")},
		{"two dropout-descent", two, nil, of("learner.optimizer=dropout-descent", "learner.noise=dropout:0.3")},
		{"two ftrl", two, nil, of("learner.optimizer=ftrl", "learner.l1=0.01")},
		{"two irls", two, nil, of("learner.optimizer=irls", "learner.irls_batch=50", "learner.noise=dropout:0.3")},
		{"two refresh window", two, nil, of("learner.irls_batch=50", "learner.irls_window=200", "learner.noise=dropout:0.3")},
		{"two gaussian", two, nil, of("learner.noise=gaussian:0.2")},
		{"two poisson", two, nil, of("learner.noise=poisson", "learner.standardize=none", "record.drop=rpm")},
		{"two groups", two, nil, of("learner.noise=dropout:0.1+group:0.3")},
		{"two groups by name", two, nil, of("learner.noise=group:engine=0.3,cabin=0.1")},
		{"two groups auto", two, nil, of("learner.expected_missing_groups=0.3")},
		{"two observed", two, nil, of("learner.noise=observed")},
		{"two fill", two, nil, of("learner.missing_policy=impute")},
		{"two rescale", two, nil, of("learner.missing_policy=rescale")},
		{"two calibrate", two, nil, of("learner.calibrate=on", "learner.threshold=0.3")},
		{"two half-life", two, nil, of("learner.half_life=400", "learner.on_drift=forget")},
		{"two half-life time", two, nil, of("learner.half_life_time=300")},
		{"two t-logistic", two, nil, of("learner.loss=t-logistic:1.6", "learner.mislabeled_below=0.3")},
		{"two class weight", two, nil, of("learner.class_weight={c1 = 3.0}", "record.positive=c0")},
		{"two eta", two, nil, of("learner.learning_rate=0.2")},
		{"two standardize all", two, nil, of("learner.standardize=all")},
		{"two standardize scale", two, nil, of("learner.standardize=scale", "learner.noise=dropout:0.3")},
		{"two validated", two, nil, of("validate.events=1000", "validate.holdout=10", "validate.directory=", "learner.noise=dropout:0.3")},
		{"late", events, []string{"--labels", labels}, of("labels.max_delay=40s")},
		{"late numbers", events, []string{"--labels", labels}, of("labels.max_delay=1m", "learner.noise=none")},
		{"five", five, nil, of("record.max_classes=6")},
		{"five alone", five, nil, of("record.max_classes=6", "learner.noise=dropout:0.3")},
		{"five groups", five, nil, of("record.max_classes=5", "learner.noise=group:0.3")},
		{"five chen", five, nil, of("record.max_classes=5", "learner.loss=logistic:chen", "learner.missing_policy=impute")},
		{"five drift", five, nil, of("record.max_classes=5", "learner.on_drift=forget", "learner.covariance_max_fields=0")},
		{"number", number, nil, of("learner.loss=squared")},
		{"number fill", number, nil, of("learner.loss=squared", "learner.missing_policy=impute", "learner.noise=dropout:0.3")},
		{"number quantile", number, nil, of("learner.loss=quantile:0.9")},
		{"number huber", number, nil, of("learner.loss=huber:1", "learner.half_life=500")},
		{"number poisson", count, nil, of("learner.loss=poisson")},
		{"sparse known", f.sample("usps/test.svm.gz"), nil, []string{"record.absent=missing", "record.max_classes=10", `record.groups={left = ["1-128"], right = ["129-256"]}`}},
		{"sparse text", f.sample("subj/all.svm.gz"), nil, nil},
	} {
		f.run(c.name, c.data, c.args, c.settings)
	}

	// A run that is stopped in the middle and restarted must reach the state of an uninterrupted run.
	stopped := []string{"learner.covariance_max_fields=256", "learner.covariance_max_fields=0"}
	if !f.whole {
		stopped = stopped[:1]
	}
	for _, more := range stopped {
		settings := of(more)
		whole, parts := f.learned(two, nil, settings), t.TempDir()
		for _, last := range []string{"900", "1000", "0"} {
			f.learnInto(parts, two, []string{"--max-events", last}, settings)
		}
		a, b := stateHash(t, whole), stateHash(t, parts)
		must.True(t, a == b, "%s: a run stopped twice has state %s, one run has %s", more, b, a)
	}

	// The commands that read a checkpoint are tested too.
	checkpoint := f.learned(two, nil, base)
	validate := runProgram(t, filepath.Dir(two), f.program, "validate", "--json", "-q", "-m", checkpoint, "-d", filepath.Base(two))
	f.got["validate"] = f.hash("validate", stable(t, validate, "time", "seconds", "read_seconds", "pause_seconds"))
	explained := runProgram(t, filepath.Dir(two), f.program, "predict", "--explain=json", "-q", "-m", checkpoint, "-d", filepath.Base(two), "--max-events", "60")
	f.got["explain"] = f.hash("explain", explained)
	for _, format := range []string{"json", "text"} {
		f.got["export "+format] = f.hash("export "+format, runProgram(t, "", f.program, "export", "--format", format, "-m", checkpoint))
	}
	for _, nightmare := range []string{"random:0,0.4", "groups:0.5", "worst:2", "group:engine", "burst:cabin@30%-60%", "drift:oil:1,5@30%-60%", "noise:0.3"} {
		simulated := runProgram(t, "", f.program, "simulate", "--json", "-q", "-m", "model="+checkpoint, "-d", two, "--nightmare", nightmare, "--seed", "3", "-o", t.TempDir())
		f.got["simulate "+nightmare] = f.hash("simulate "+nightmare, stable(t, simulated, "seconds", "output", "files"))
	}

	// Results must not depend on the number of threads.
	for _, threads := range []string{"1", "2"} {
		f.seen = 0
		f.train("threads", "usps/train.svm.gz", "usps/train.svm.gz", "--loss", "hinge", "--noise", "dropout:0.3", "--threads", threads)
	}
}
