package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"blankout/config"
	"blankout/internal/must"
)

// TestSample checks that config check --sample reports a field if it grows without limit or if its values do not
// repeat. It must report no other field.
func TestSample(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var lines bytes.Buffer
	write := json.NewEncoder(&lines)
	for i := range 500 {
		event := map[string]any{
			"label": r.IntN(2), "seconds": 1_763_000_000 + i/3, "ms": 1_763_000_000_000 + 731*r.IntN(500), "ns": 1.763e18 + 1e9*float64(i),
			"user": r.IntN(1_000_000_000), "serial": 17 + i, "uuid": fmt.Sprintf("%016x", r.Uint64()), "when": fmt.Sprintf("2026-01-01T00:%02d:%02dZ", i/60, i%60),
			"cents": 100 + r.IntN(60_000), "x": r.NormFloat64(), "hour": r.IntN(24), "city": []string{"Oslo", "Rome"}[r.IntN(2)], "ok": r.IntN(2) == 0,
			"page": fmt.Sprint("p", r.IntN(300)), "words": []string{"a", fmt.Sprint("b", i)}, "constant": 1_763_000_000, "year": 2000 + r.IntN(25),
		}
		if i < 15 { // too few readings to judge the field
			event["rare"] = i
		}
		must.Do(t, write.Encode(event))
	}
	path := must.File(t, "events.jsonl", lines.Bytes())
	check := func(settings ...string) (names []string, said string) {
		args := []string{"config", "check", "--sample", path}
		for _, s := range settings {
			args = append(args, "--set", s)
		}
		out, log := blankout(t, args...)
		for _, m := range regexp.MustCompile(`(?m)^warning: field "([a-z]+)" looks like`).FindAllStringSubmatch(log, -1) {
			names = append(names, m[1])
		}
		slices.Sort(names)
		return names, out + log
	}
	got, said := check()
	want := []string{"ms", "serial", "user", "uuid"}
	must.True(t, slices.Equal(got, want), "named %q, want %q\n%s", got, want, said)
	for _, want := range []string{
		`field "seconds" is read as a time`, `field "ns" is read as a time`, `field "when" is read as a time`, `field "ms" looks like a time in milliseconds since 1970 (17630000`, `field "serial" looks like a counter or an id (500 of 500 readings are different`,
		`field "user" looks like an id (`, "500 records, 500 labeled of 2 classes, 0 refused",
	} {
		must.True(t, strings.Contains(said, want), "%q is not said:\n%s", want, said)
	}
	must.True(t, !strings.Contains(said, `"constant"`), "a constant is named:\n%s", said)
	// Fields that the configuration uses or drops are not reported.
	got, said = check("record.time=ms", "record.id=uuid", "record.drop=ns,seconds,serial,user,when")
	must.True(t, len(got) == 0, "named %q\n%s", got, said)
}

// TestSampleOfSparseNumbers reads a sample in which most events omit most numeric fields. The report must describe how
// omitted fields are treated.
func TestSampleOfSparseNumbers(t *testing.T) {
	for _, test := range []struct {
		share float64
		zeros bool // whether the data contain some explicit zeros
		set   string
		want  bool
	}{{0.2, false, "", true}, {0.5, false, "", true}, {0.8, false, "", false}, {0.2, true, "", false}, {0.2, false, "record.absent=zero", false}} {
		fraction, want := test.share, test.want
		r := rand.New(rand.NewPCG(2, 1))
		var lines bytes.Buffer
		write := json.NewEncoder(&lines)
		for range 200 {
			event := map[string]any{"label": r.IntN(2), "always": r.NormFloat64()}
			for i := range 30 {
				if r.Float64() < fraction {
					event[fmt.Sprint("pixel", i)] = r.Float64()
					if test.zeros && r.IntN(5) == 0 {
						event[fmt.Sprint("pixel", i)] = 0
					}
				}
			}
			must.Do(t, write.Encode(event))
		}
		path := must.File(t, "events.jsonl", lines.Bytes())
		_, log := blankout(t, "config", "check", "--sample", path, "--set", cmp.Or(test.set, "record.bits=22"))
		must.Equal(t, strings.Contains(log, "30 numeric fields are absent from at least a third of the events"), want, "share", fraction, log)
	}
}

// TestCheckSampleOfFewLabels checks that config check --sample warns about a sample without labels. If the classes are
// configured, it must also warn about a sample whose labels are all of one class.
func TestCheckSampleOfFewLabels(t *testing.T) {
	for _, x := range []struct{ name, sample, label, want string }{
		{"no label", "{\"x\":1}\n{\"x\":2}\n", "y", `no record has the field record.label = "y"`},
		{"wrong label", "{\"x\":1,\"y\":\"a\"}\n{\"x\":2,\"y\":\"b\"}\n{\"x\":2,\"y\":\"b\"}\n{\"x\":2,\"y\":\"a\"}\n", "z", `name the label's field. Candidates: "`},
		{"one class", "{\"x\":1,\"y\":\"b\"}\n{\"x\":2,\"y\":\"b\"}\n", "y", `every label of 2 records is "b"`},
		{"empty", "", "y", "no record"},
	} {
		path := must.File(t, "sample.jsonl", x.sample)
		var log bytes.Buffer
		execute(t.Context(), []string{"config", "check", "--sample", path, "--set", "record.label=" + x.label, "--set", `record.classes=["a","b"]`}, strings.NewReader(""), &log, &log)
		must.True(t, strings.Contains(log.String(), x.want), "%s: %s", x.name, log.String())
	}
}

// TestDraftTime checks that a draft names a field as the time, or for its features, only if all of its values are times.
func TestDraftTime(t *testing.T) {
	for other, want := range map[string]string{"2026-01-31T13:00:00Z": "time = \"at\"\ntime_features = [\"at\"]", "unknown": "classes = [\"a\", \"b\"]  # the positive one last\n# The fields"} {
		var text strings.Builder
		for i := range 60 {
			at := must.Either(i == 40, other, fmt.Sprintf("2026-01-31T12:00:%02dZ", i))
			fmt.Fprintf(&text, "{\"label\":\"%c\",\"at\":%q,\"x\":%d}\n", 'a'+i%2, at, i%7)
		}
		path := must.File(t, "events.jsonl", text.String())
		got, _ := must.Get2(draft(t.Context(), must.Get(config.Load(config.Source{}))(t), path))(t)
		must.Contains(t, string(got), "\n"+want)
	}
}

// TestReadingsAtRestarts checks that run without a configuration learns texts and times as such, says so once, and that
// stops at any event change nothing, even while the first values decide how a field is read.
func TestReadingsAtRestarts(t *testing.T) {
	var lines strings.Builder
	for i := range 1200 {
		label, hour := "ab"[i*i/7%2], i*7%12
		fault := []string{"printer jam", "login slow"}[i*i/7%2]
		if i%2 == 0 { // only the hour tells the class
			fault, hour = "please wait", hour+int(label-'a')*12
		}
		fmt.Fprintf(&lines, `{"label":"%c","x":%d`, label, i%7)
		fmt.Fprintf(&lines, `,"at":"1/%d/2026 %d:00","body":"Please help, %s number %d"`, i/24%28+1, hour, fault, i)
		if i%19 == 0 { // a field that takes long to decide, and changes its mind
			fmt.Fprintf(&lines, `,"note":%q`, []string{"no", fmt.Sprint("one two three ", i), "n/a"}[i%5%3])
		}
		lines.WriteString("}\n")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "events.jsonl")
	must.Do(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	run := func(checkpoints string, more ...string) string {
		_, log := blankout(t, append([]string{"run", "-d", path, "--set", "http.address=", "--set", "checkpoint.directory=" + filepath.Join(dir, checkpoints), "--set", "checkpoint.keep=1"}, more...)...)
		return log
	}
	saved := func(checkpoints string) []byte {
		files := must.Get(filepath.Glob(filepath.Join(dir, checkpoints, "*.blankout")))(t)
		return must.Get(os.ReadFile(files[len(files)-1]))(t)
	}
	said := run("whole")
	for text, want := range map[string]int{`field \"body\" is read as text`: 1, `field \"at\" is read as a time`: 1, "is read as": 2} {
		must.Equal(t, strings.Count(said, text), want, text, said)
	}
	must.True(t, regexp.MustCompile(`error_percent_lately":[01]?\.`).MatchString(said), "too many errors:\n%s", said)
	for _, n := range []string{"13", "29", "100", "250", "700", "1200"} {
		said = run("parts", "--max-events", n)
	}
	must.Equal(t, strings.Count(said, "is read as"), 0, "of the last run, after it is final", said)
	must.True(t, bytes.Equal(saved("parts"), saved("whole")), "after stops the checkpoint differs")
}

// TestAnswersNameLostFields checks that a line of run --answers names the fields that are null, and those that are stuck.
func TestAnswersNameLostFields(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var lines strings.Builder
	for i := range 3000 {
		x, y := fmt.Sprintf("%.4f", r.NormFloat64()), fmt.Sprintf("%.4f", r.NormFloat64())
		if i >= 2000 {
			x = "1.25"
		}
		if i == 1500 || i == 2900 {
			y = "null"
		}
		fmt.Fprintf(&lines, `{"label":"%c","x":%s,"y":%s}`+"\n", 'a'+r.IntN(2), x, y)
	}
	path := must.File(t, "events.jsonl", lines.String())
	out, _ := blankout(t, "run", "-q", "-d", path, "--answers", "--set", "http.address=", "--set", "checkpoint.directory="+t.TempDir())
	answers := strings.Split(strings.TrimSpace(out), "\n")
	for i, want := range map[int]string{1499: "}}", 1500: `}},"missing":["y"]}`, 2900: `"missing":["x","y"],"stuck":["x"]}`, 2901: `"missing":["x"],"stuck":["x"]}`} {
		want = strings.Replace(want, "}}", "}", 1)
		must.True(t, strings.HasSuffix(answers[i], want), "record %d: %s, want %s", i, answers[i], want)
	}
}
