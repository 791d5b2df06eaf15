package tests

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"hash/crc32"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"blankout/app/run"
	"blankout/app/served"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/kernel"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/online"
	"blankout/stream"
	"blankout/stream/record"
)

var updateFormat = flag.Bool("update-format", false, "write the files of the current format version again; only before it has been released")

// formatEvents are the events that every file of testdata/format* scores.
var formatEvents = []string{
	`{"word":"fine","x":1,"y":-2.5}`, `{"word":"grim","x":0.25,"other":"new"}`, `{"word":["fine","grim"],"x":null}`, `{}`,
}

// formatConfig returns the settings of the learners of testdata/format*. Their checkpoints also hold a quadratic
// approximation of the loss of past events.
func formatConfig() online.Config {
	config := online.DefaultConfig()
	config.IRLSBatch, config.IRLSWindow = 100, 200
	return config
}

// writeFormat writes four files: a checkpoint in the middle of a stream, a snapshot, a batch model and a kernel model.
// It also writes the scores that each file gives for formatEvents.
func writeFormat(t *testing.T, dir string) {
	t.Helper()
	must.Do(t, os.MkdirAll(dir, 0o755))
	recordConfig := record.DefaultConfig()
	recordConfig.Classes = []string{"bad", "good"}
	schema := recordConfig.Schema()
	var lines strings.Builder
	for i := range 300 {
		lines.WriteString([]string{`{"label":"good","word":"fine","x":1.5,"y":-1}`, `{"label":"bad","word":"grim","x":-0.5,"y":2}`, `{"label":"good","word":"fine","x":0.5,"y":null}`}[i%3] + "\n")
	}
	events := must.File(t, "events.jsonl", lines.String())
	source := must.Get(stream.OpenFile(events, recordConfig, schema))(t)
	defer source.Close()
	config := formatConfig()
	l := must.Get(online.New(config, schema))(t)
	r := &run.Runner{Config: run.DefaultConfig(), Source: source, State: run.State{Learner: l}, Schema: schema, Fingerprint: recordConfig.Settings(), FirstVersion: 7 << 32}
	r.Config.Refused, r.Config.MaxEvents = run.PolicySkip, 250
	r.Save = func(blocks iter.Seq[event.Block]) (string, int64, error) {
		return "", 0, checkpoint.WriteFile(filepath.Join(dir, "checkpoint.blankout"), checkpoint.Linear, blocks)
	}
	must.Do(t, r.Run(t.Context()))
	snapshot := served.New(r.Published().Linear, recordConfig)
	snapshot.Version, snapshot.Offsets, snapshot.At = r.Published().Version, r.Published().Offsets, r.Published().At
	must.Do(t, snapshot.WriteFile(filepath.Join(dir, "snapshot.blankout")))
	program := buildProgram(t)
	for name, args := range map[string][]string{
		"linear": {"--loss", "logistic", "--noise", "dropout:0.3", "--standardize", "auto"},
		"kernel": {"--loss", "dropsvm", "--kernel", "rbf:1"},
	} {
		args = append([]string{"train", "-q", "-d", events, "-o", filepath.Join(dir, name+".blankout")}, args...)
		runProgram(t, "", program, args...)
	}
	scores := readScores(t, dir)
	for _, name := range []string{"checkpoint", "snapshot", "linear", "kernel"} {
		scores[name] = formatScores(t, filepath.Join(dir, name+".blankout"))
	}
	data, err := json.MarshalIndent(scores, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "scores.json"), append(data, '\n'), 0o644)
	}
	must.Do(t, err)
}

// readScores reads the stored scores of each file of dir.
func readScores(t *testing.T, dir string) (scores map[string][][]float64) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "scores.json"))
	if err == nil {
		err = json.Unmarshal(data, &scores)
	}
	must.Do(t, err)
	return scores
}

func formatScores(t *testing.T, path string) (scores [][]float64) {
	t.Helper()
	m := must.Get(served.Open(t.Context(), path, served.Options{}))(t)
	for _, event := range formatEvents {
		p := must.Get(m.Predict([]byte(event), 0))(t)
		scores = append(scores, p.Scores)
	}
	return scores
}

// TestFormats checks that stored files of the current format can be read and give the stored scores. Learning must
// continue from the checkpoint. A file of a newer format must be rejected with an error that contains the name of the
// file.
func TestFormats(t *testing.T) {
	longtest.NotRaced(t)
	current := filepath.Join("testdata", "format1")
	if *updateFormat {
		writeFormat(t, current)
	}
	dirs, err := filepath.Glob(filepath.Join("testdata", "format*"))
	must.Require(t, err == nil && len(dirs) == checkpoint.Version, "%d directories of files for %d format versions, %v", len(dirs), checkpoint.Version, err)
	for _, dir := range dirs {
		want := readScores(t, dir)
		must.Require(t, len(want) >= 4, "%v", want)
		for name, scores := range want {
			path := filepath.Join(dir, name+".blankout")
			for i, got := range formatScores(t, path) {
				must.True(t, slices.EqualFunc(got, scores[i], func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(1, math.Abs(b)) }), "%s: event %d: %v, was %v", path, i, got, scores[i])
			}
			newer := must.Get(os.ReadFile(path))(t)
			at := len(checkpoint.Magic)
			binary.LittleEndian.PutUint32(newer[at:], checkpoint.Version+1)
			binary.LittleEndian.PutUint32(newer[at+4:], crc32.Checksum(newer[:at+4], crc32.MakeTable(crc32.Castagnoli)))
			if _, err := served.Decode(newer); !errors.Is(err, checkpoint.ErrNewer) || !strings.Contains(err.Error(), "written by a newer blankout program: format version 2, this program reads up to 1") {
				t.Errorf("%s of a newer version: %v", path, err)
			}
		}
		goOn(t, filepath.Join(dir, "checkpoint.blankout"))
		machine, err := checkpoint.ReadFile(filepath.Join(dir, "kernel.blankout"))
		if err == nil {
			_, err = kernel.ReadModel(machine.Blocks)
		}
		must.True(t, err == nil && machine.Kind == checkpoint.Kernel, "%s: %v", dir, err)
	}
}

// goOn continues from a checkpoint of writeFormat and learns more events.
func goOn(t *testing.T, path string) {
	t.Helper()
	file := must.Get(checkpoint.ReadFile(path))(t)
	recordConfig := record.DefaultConfig()
	config := formatConfig()
	state, err := run.Resume(config, recordConfig.Settings(), file.Blocks)
	l, offsets := state.Learner, state.Offsets
	must.Require(t, err == nil && len(offsets) == 1 && offsets[0].Next == 250 && l.Report().Events == 250, "%s: %v, %v", path, offsets, err)
	decoder := must.Get(record.NewDecoder(recordConfig, l.Schema()))(t)
	var e event.Example
	must.Do(t, decoder.Decode(context.Background(), record.Record{Value: []byte(`{"label":"good","word":"fine","x":1}`)}, &e))
	for range 200 { // until after the next IRLS step
		l.Learn(&e, nil)
	}
	m := l.Report()
	must.True(t, m.Events == 450 && m.RefreshFailures <= 0, "%s: gone on with: %+v", path, m)
}
