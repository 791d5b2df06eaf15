package tests

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/serve/predict"
	"blankout/stream"
	"blankout/stream/record"
)

// TestCommandsAgree compares the commands with a Learner that is called from Go. The command train must measure the
// score of each event before it learns the event, for any number of threads, any order of the fields, and on a processor
// without FMA and AVX2. The command predict must return the scores of the Learner's snapshot.
func TestCommandsAgree(t *testing.T) {
	t.Parallel()
	program, dir := buildProgram(t), t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, data, 0o666))
		return path
	}
	for _, classes := range []int{2, 3, 0} {
		t.Run(fmt.Sprint(classes), func(t *testing.T) {
			events := write("events.jsonl", commandEvents(5, classes, 2500, false))
			shuffled := write("shuffled.jsonl", commandEvents(5, classes, 2500, true))
			test := write("test.jsonl", commandEvents(6, classes, 500, false))
			learner := online.DefaultConfig()
			args := []string{"--set", "record.text=words", "--weight", "weight"}
			if classes == 0 {
				learner.Loss = "squared"
				args = append(args, "--loss", "squared")
			}
			byHand, m := learnByHand(t, learner, []string{"c0", "c1", "c2"}[:classes], events) // train sorts classes
			var first map[string][]byte
			for _, run := range []struct{ name, file, threads string }{{"one", events, "1"}, {"four", events, "4"}, {"older", events, "2"}, {"shuffled", shuffled, "2"}} {
				path := filepath.Join(dir, run.name)
				var told map[string]any
				train := []string{program, "train", "--solver", "online", "-q", "--json", "-d", run.file, "-o", path, "--threads", run.threads}
				if run.name == "older" {
					train = append([]string{"env", "GODEBUG=cpu.fma=off,cpu.avx2=off"}, train...)
				}
				must.Do(t, json.Unmarshal(runProgram(t, dir, train[0], append(train[1:], args...)...), &told))
				for name, want := range byHand {
					got, _ := told[name].(float64)
					must.True(t, math.Abs(got-want) <= 1e-9*(1+math.Abs(want)), "%s: %s is %v, by hand %v", run.name, name, told[name], want)
				}
				blocks := modelBlocks(t, path)
				if first == nil {
					first = blocks
				}
				for name, data := range first {
					// names are in the order of arrival
					must.True(t, bytes.Equal(data, blocks[name]) || name == "names" && run.file != events, "%s: block %q differs from that of one thread", run.name, name)
				}
			}
			lines := strings.Split(strings.TrimSpace(string(runProgram(t, dir, program, "predict", "-q", "-m", filepath.Join(dir, "one"), "-d", test, "-o", "-"))), "\n")
			at := 0
			eachEvent(t, m.Schema, learner, test, func(e *event.Example) {
				scores := m.Score(e, make([]float64, m.Outputs))
				words := strings.Fields(lines[at])
				want := scores
				if classes == 0 {
					want = []float64{m.Value(scores[0])}
				} else if name := m.Schema.Classes[m.Predict(scores)]; words[0] != name {
					t.Fatalf("event %d: predicted class %s, by hand %s", at, words[0], name)
				}
				if classes > 0 {
					words = words[1:]
				}
				for i, word := range words[:len(want)] { // an interval follows the predicted number
					got, err := strconv.ParseFloat(word, 64)
					must.Require(t, err == nil && math.Abs(got-want[i]) <= 1e-12*(1+math.Abs(want[i])), "event %d: predicted %q, by hand %v", at, lines[at], want)
				}
				at++
			})
			must.True(t, at == len(lines) && at == 500, "%d predictions of %d events", len(lines), at)
		})
	}
}

// commandEvents returns n events as JSON lines. The argument classes is the number of classes, 0 for numeric targets.
// Fields are numbers, categories and words, some of them null. Events have weights. If shuffled is set, the fields of
// all records except the first are in random order.
func commandEvents(seed uint64, classes, n int, shuffled bool) (out []byte) {
	r, order := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	kinds := cmp.Or(classes, 3)
	for i := range n {
		class := r.IntN(kinds)
		signal, words := float64(class)-float64(kinds-1)/2, ""
		for word := range 12 {
			if r.IntN(6) == 0 || class > 0 && word == 3 && r.IntN(3) == 0 {
				words += fmt.Sprintf("w%d ", word)
			}
		}
		fields := []string{
			fmt.Sprintf(`"temp":%g`, 20+2*signal+r.NormFloat64()), fmt.Sprintf(`"load":%g`, 1e4*math.Abs(3+signal/2+r.NormFloat64())),
			fmt.Sprintf(`"site":"s%d"`, (class+r.IntN(3))%4), fmt.Sprintf(`"words":%q`, words),
			fmt.Sprintf(`"label":"c%d"`, class), fmt.Sprintf(`"weight":%g`, []float64{1, 1, 1, 2, 0.5, 1.5}[r.IntN(6)]),
		}
		if classes == 0 {
			fields[4] = fmt.Sprintf(`"label":%g`, 20+5*signal+r.NormFloat64())
		}
		for at, null := range map[int]string{0: `"temp":null`, 2: `"site":null`} {
			if (i+at)%20 == 0 && i > 0 {
				fields[at] = null
			}
		}
		if r.IntN(4) > 0 || i == 0 {
			fields = append(fields, fmt.Sprintf(`"dose":%g`, 1e-3*(2+signal+r.Float64())))
		}
		if shuffled && i > 0 {
			order.Shuffle(len(fields), func(a, b int) { fields[a], fields[b] = fields[b], fields[a] })
		}
		out = append(out, "{"+strings.Join(fields, ",")+"}\n"...)
	}
	return out
}

// commandRecords returns the record settings of TestCommandsAgree.
func commandRecords(learner online.Config) record.Config {
	c := record.DefaultConfig()
	c.Text, c.Weight, c.Target = []string{"words"}, "weight", loss.LabelsOf(learner.Loss)
	return c
}

func eachEvent(t *testing.T, schema *event.Schema, learner online.Config, path string, f func(e *event.Example)) {
	t.Helper()
	file := must.Get(stream.OpenFile(path, commandRecords(learner), schema))(t)
	defer file.Close()
	for e := range eventtest.Examples(t, file.Next) {
		f(e)
	}
}

// learnByHand learns the events of a file by calling a Learner. It returns the model and the progressive measures. The
// measures are computed from their definitions and have the names that train uses.
func learnByHand(t *testing.T, c online.Config, classes []string, path string) (map[string]float64, *model.Linear) {
	t.Helper()
	records := commandRecords(c)
	records.Classes = classes
	schema := records.Schema()
	l := must.Get(online.New(c.Among(true, false), schema))(t)
	var weight, wrong, logLoss, absolute float64
	eachEvent(t, schema, c, path, func(e *event.Example) {
		p := l.Learn(e, nil)
		if c.Loss == "squared" {
			if !math.IsNaN(p.Value) {
				weight += e.Weight
				absolute += e.Weight * math.Abs(p.Value-e.Target)
			}
			return
		}
		weight += e.Weight
		probabilities := p.Decision.Probabilities(p.Scores, make([]float64, max(2, len(p.Scores))))
		best := 0
		for k, x := range probabilities {
			if x > probabilities[best] {
				best = k
			}
		}
		if best != e.Label {
			wrong += e.Weight
		}
		if e.Label < len(probabilities) {
			logLoss -= e.Weight * math.Log(probabilities[e.Label])
		}
	})
	m := l.Snapshot().Model()
	if c.Loss == "squared" {
		return map[string]float64{"progressive_mae": absolute / weight}, m
	}
	return map[string]float64{"progressive_error": 100 * wrong / weight, "progressive_log_loss": logLoss / weight}, m
}

// modelBlocks returns the blocks of a model file.
func modelBlocks(t *testing.T, path string) map[string][]byte {
	t.Helper()
	file := must.Get(checkpoint.ReadFile(path))(t)
	out := map[string][]byte{}
	for _, b := range file.Blocks {
		out[b.Name] = b.Data
	}
	return out
}

// TestRegressionTable checks the table of numeric targets in docs/quality.md. The table must show the program's current
// results on the streams in their original order. The errors of every peer must be larger.
func TestRegressionTable(t *testing.T) {
	longtest.NotRaced(t)
	program := buildProgram(t)
	text := must.Get(os.ReadFile("../docs/quality.md"))(t)
	_, table, ok := strings.Cut(string(text), "\n| regressor | ChickWeights (River)")
	must.Require(t, ok, "docs/quality.md has no table of regressors")
	table, _, _ = strings.Cut(table, "\n\n")
	streams := []string{"chick_weights", "trump_approval", "diabetes"}
	ours, peers := make([]float64, len(streams)), 0
	for i, name := range streams {
		out := must.Get(exec.Command(program, "train", "--solver", "online", "--loss", "squared", "-d", "testdata/numbers/"+name+".jsonl.gz", "-q", "--json").Output())(t)
		var told struct {
			MAE float64 `json:"progressive_mae"`
		}
		must.Do(t, json.Unmarshal(out, &told))
		ours[i] = told.MAE
	}
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(row, "|")
		if len(cells) != 6 {
			continue
		}
		name := strings.TrimSpace(cells[1])
		for i, stream := range streams {
			cell, _, _ := strings.Cut(strings.TrimSpace(cells[2+i]), " / ")
			told, err := strconv.ParseFloat(cell, 64)
			switch {
			case err != nil:
				continue // rows above the table of numeric targets
			case name == "blankout squared" && cell != fmt.Sprintf("%.4g", ours[i]):
				t.Errorf("%s: %v in the table, %.4g today", stream, cell, ours[i])
			case strings.HasPrefix(name, "vw ") || strings.HasPrefix(name, "river "):
				peers++
				must.True(t, told > ours[i], "%s: %s %v is no worse than ours %.4g", stream, name, told, ours[i])
			}
		}
	}
	must.True(t, peers >= 3*len(streams), "%d numbers of peers found", peers)
}

// TestPredictionsSurviveKills kills a program at random times while it scores a topic. In the end every event must have
// its prediction, and every invalid event its error.
func TestPredictionsSurviveKills(t *testing.T) {
	t.Parallel()
	program := buildProgram(t)
	broker := crashBroker(t, "short", "three")
	l := newLearner(t, program, broker.Brokers()[0], "short")
	l.finish(t) // learns the model
	l.flags = []string{"--predict-only", "--set=kafka.create_topics=true", "--set=predict.topic=three", "--set=predict.output=predictions",
		"--set=predict.model=" + l.checkpoints()}
	began := time.Now()
	r := rand.New(rand.NewPCG(uint64(began.UnixNano()), 0))
	kills := max(must.Either(longtest.Asked(), 4, 2), crashKills(t)/8)
	for range kills { // these programs wait for more records at the end of the topic
		delay := time.Duration(r.Float64() * float64(400*time.Millisecond))
		err := l.live(t, delay, (*os.Process).Kill)
		exit := (*exec.ExitError)(nil)
		must.Require(t, errors.As(err, &exit) && exit.ExitCode() == -1, "%v\n%s", err, l.log())
	}
	l.flags = append(l.flags, "--until-end")
	l.finish(t)
	config := stream.DefaultConsumerConfig()
	config.Brokers, config.Topics, config.UntilEnd = broker.Brokers(), []string{"predictions"}, true
	reader := must.Get(stream.NewReader(t.Context(), config, nil))(t)
	defer reader.Close()
	type place struct {
		partition int32
		offset    int64
	}
	times := map[place]int{}
	refused, total := map[place]bool{}, 0
	next := func() (stream.RawBatch, error) { return reader.Next(t.Context()) }
	for b := range must.All(t, next) {
		for _, record := range b.Records {
			var p predict.Output
			must.Do(t, json.Unmarshal(record.Value, &p), record.Value)
			at := place{p.Partition, p.Offset}
			times[at]++
			total++
			if p.Error != "" {
				refused[at] = true
			}
		}
	}
	want := crashTopics["three"].records
	must.True(t, len(times) == want && len(refused) == (want+crashRefused-6)/crashRefused, "%d of %d events predicted, %d refused", len(times), want, len(refused))
	t.Logf("%d kills: %d predictions of %d events, in %v", kills, total, want, time.Since(began).Round(time.Millisecond))
}
