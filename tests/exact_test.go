package tests

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"blankout/batch"
	"blankout/internal/longtest"
	"blankout/internal/must"
)

// firstLines decompresses the first n lines of a file into another file.
func firstLines(t *testing.T, from, to string, n int) string {
	t.Helper()
	in := must.Get(os.Open(from))(t)
	defer in.Close()
	z := must.Get(gzip.NewReader(in))(t)
	var out bytes.Buffer
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for range n {
		must.Require(t, lines.Scan(), "%s: fewer than %d lines: %v", from, n, lines.Err())
		out.Write(lines.Bytes())
		out.WriteByte('\n')
	}
	path := must.File(t, to, out.Bytes())
	return path
}

// wordEvents writes the examples of an svmlight file as JSON events, each with its columns as a list of words. It returns
// the path of the new file.
func wordEvents(t *testing.T, from string) string {
	t.Helper()
	var out bytes.Buffer
	for line := range strings.Lines(string(must.Get(os.ReadFile(from))(t))) {
		label, columns, _ := strings.Cut(strings.TrimSpace(line), " ")
		var words []string
		for _, column := range strings.Fields(columns) {
			word, _, _ := strings.Cut(column, ":")
			words = append(words, "w"+word)
		}
		out.Write(must.Get(json.Marshal(map[string]any{"label": label, "words": words}))(t))
		out.WriteByte('\n')
	}
	path := must.File(t, "words.jsonl", out.Bytes())
	return path
}

// TestExactIsTrain learns a whole topic. The exact objective of a validation of the checkpoint must equal the objective
// of train on the same events. (Short runs compare validations with train in ../batch. This test compiles the program
// again, with failpoints.)
func TestExactIsTrain(t *testing.T) {
	longtest.Only(t)
	longtest.NotRaced(t)
	program := buildProgram(t, "-tags=failpoint")
	samples := filepath.Join("..", "papers", "samples")
	for _, test := range []struct {
		name, data, format string
		records, classes   int
	}{
		{"words", wordEvents(t, firstLines(t, filepath.Join(samples, "subj", "all.svm.gz"), "subj.svm", 150)), "json", 150, 2},
		{"mnist", filepath.Join(samples, "mnist", "train-images-idx3-ubyte.gz"), "svmlight", 300, 10},
		{"imdb", firstLines(t, filepath.Join(samples, "imdb", "train.svm.gz"), "imdb.svm", 50), "svmlight", 50, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			broker := startBroker(t, map[string]int32{"events": 1})
			dir := t.TempDir()
			run := func(args ...string) []byte {
				t.Helper()
				c := exec.Command(program, append(args, "-q")...)
				c.Dir, c.Env = dir, append(os.Environ(), "BLANKOUT_FAILPOINTS=validate.cpu=1,validate.tol=1e-10")
				var trouble bytes.Buffer
				c.Stderr = &trouble
				out, err := c.Output()
				must.Require(t, err == nil, "%v: %v\n%s", args, err, trouble.String())
				return out
			}
			data := must.Get(filepath.Abs(test.data))(t)
			config := fmt.Sprintf("[kafka]\nbrokers = [%q]\n[record]\nformat = %q\nmax_classes = %d\n[learner]\nnoise = \"dropout:0.3\"\n"+
				"[http]\naddress = \"\"\n[validate]\nevents = 0\n",
				broker.Brokers()[0], test.format, test.classes)
			must.Do(t, os.WriteFile(filepath.Join(dir, "blankout.toml"), []byte(config), 0o644))
			run("produce", "-f", "blankout.toml", "-d", data, "--set", "record.format=")
			run("run", "-f", "blankout.toml", "--until-end", "--json")
			var now batch.Validation
			var trained struct{ Objective float64 }
			for text, to := range map[string]any{
				string(run("validate", "-m", "checkpoints", "-f", "blankout.toml", "--json")): &now,
				string(run("train", "-d", data, "-o", "exact.blankout", "--noise", "dropout:0.3", "--prior", "l2", "--tol", "1e-10", "--json",
					"--scaler", filepath.Join("checkpoints", "checkpoint-000000000000.blankout"))): &trained,
			} {
				must.Do(t, json.Unmarshal([]byte(text), to), text)
			}
			must.True(t, now.Verified && now.Records == uint64(test.records) && now.Gap >= 1e-3*now.Exact.Objective, "report %+v", now)
			got := now.Exact.Objective
			must.True(t, math.Abs(got/trained.Objective-1) <= 1e-8, "validate %.12g, train %.12g", got, trained.Objective)
			t.Logf("live %.12g, exact %.12g, train %.12g", now.Live.Objective, now.Exact.Objective, trained.Objective)
		})
	}
}
