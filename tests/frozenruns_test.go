package tests

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"blankout/internal/must"
)

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
