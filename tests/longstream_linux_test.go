package tests

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"blankout/internal/event"
	"blankout/internal/must"
	"blankout/internal/streamtest"
	"blankout/simulate"
	"blankout/stream"
	"blankout/stream/record"
)

// TestLongStream makes the real program learn a long stream with drift from a real broker. make long-stream runs the
// test with ten million events, and writes figures to BLANKOUT_LONG_STREAM_OUT. Every event must be learned, and memory
// must not grow. On real data the error must rise when the stream changes and fall again.
func TestLongStream(t *testing.T) {
	events, data, out := 1_000_000, "../papers/samples/covtype_10k/train.svm.gz", os.Getenv("BLANKOUT_LONG_STREAM_OUT")
	if text := os.Getenv("BLANKOUT_LONG_STREAM"); text != "" {
		var err error
		if events, err = strconv.Atoi(text); err != nil || events < 100_000 {
			t.Fatalf("BLANKOUT_LONG_STREAM=%q: want a number of events of at least 100000", text)
		}
	}
	if dir := os.Getenv("BLANKOUT_LONG_STREAM_DATA"); dir != "" {
		data = filepath.Join(dir, "covtype_10k", "train.svm.gz")
	}
	broker := startKafka(t)
	program := buildProgram(t)
	must.Get(streamtest.Admin(t, broker.plain).CreateTopic(t.Context(), 1, 1, nil, "long"))(t)
	l := &learner{program: program, dir: t.TempDir(), flags: []string{"--until-end"}}
	config := fmt.Sprintf("[kafka]\nbrokers = [%q]\ntopics = [\"long\"]\n[record]\nformat = \"json\"\n[checkpoint]\ndirectory = %q\n[validate]\ndirectory = %q\n[http]\naddress = \"127.0.0.1:0\"\n", broker.plain, l.checkpoints(), filepath.Join(l.dir, "reports"))
	must.Do(t, os.WriteFile(filepath.Join(l.dir, "blankout.toml"), []byte(config), 0o644))

	began := time.Now()
	source := readDrifting(t, data)
	produce := exec.Command(program, "produce", "-q", "-f", filepath.Join(l.dir, "blankout.toml"), "-d", "-")
	pipe := must.Get(produce.StdinPipe())(t)
	var said strings.Builder
	produce.Stdout, produce.Stderr = &said, &said
	must.Do(t, produce.Start())
	positive, err := source.write(pipe, events)
	if err == nil {
		err = pipe.Close()
	}
	if waited := produce.Wait(); err != nil || waited != nil {
		t.Fatal(err, waited, said.String())
	}
	produced := time.Since(began)

	command := l.start(t)
	defer command.Process.Kill()
	url := l.url(t)
	defer http.DefaultClient.CloseIdleConnections()
	began = time.Now()
	var samples []longSample
	for ctx := t.Context(); ; {
		m, err := metrics(ctx, url)
		if err != nil {
			break // the program has ended; Wait returns the reason
		}
		samples = append(samples, longSample{time.Since(began).Seconds(), m[`blankout_events_total{outcome="learned"}`], m[`blankout_progressive_error_ratio{span="total"}`],
			m[`blankout_progressive_error_ratio{span="window"}`], m["process_resident_memory_bytes"]})
		time.Sleep(min(time.Second, time.Duration(events)*20*time.Nanosecond))
	}
	if err := command.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, l.log())
	}
	_, _, learned := l.state(t)
	must.Equal(t, learned, uint64(events), "learned events")
	must.Require(t, len(samples) >= 20, "%d samples: too few to say anything", len(samples))
	constant := min(positive, 1-positive)
	last := samples[len(samples)-1]
	must.True(t, last.total < constant, "error %.3f, of a constant answer %.3f", last.total, constant)
	n := len(samples)
	// The heap reaches its final size within half a million events, so memory must not grow in the second half.
	if early, late := samples[n/2].memory, last.memory; late > 1.1*early+20e6 {
		t.Errorf("memory grows: %.0f MB half way, %.0f at the end", early/1e6, late/1e6)
	}
	// worst returns the largest recent error between two fractions of the stream.
	worst := func(from, to float64) (w float64) {
		for _, s := range samples {
			if at := s.events / float64(events); at >= from && at < to {
				w = max(w, s.recent)
			}
		}
		return w
	}
	before, swapped, dead := worst(0.3, driftSwap[0]), worst(driftSwap[0], driftSwap[1]), worst(driftDeath[0], driftDeath[1])
	// Check the rise of the error on real data only. The embedded sample is so small that the learner memorizes its
	// events.
	if real := os.Getenv("BLANKOUT_LONG_STREAM_DATA") != ""; real && (swapped <= before || dead <= before || last.recent >= max(swapped, dead)) {
		t.Errorf("recent error at most %.3f before the change, %.3f and %.3f in the changes, %.3f at the end", before, swapped, dead, last.recent)
	}
	if out != "" {
		must.Do(t, drawLong(out, samples, events, constant, produced))
	}
}

// driftSwap is the part of the stream in which two columns are swapped. driftDeath is the part in which three columns
// are missing. Both are fractions of the stream's length.
var driftSwap, driftDeath = [2]float64{0.5, 0.6}, [2]float64{0.75, 0.85}

// drifting holds the events from which a stream is drawn.
type drifting struct{ events []event.Example }

func readDrifting(t *testing.T, path string) (d drifting) {
	t.Helper()
	c := record.DefaultConfig()
	c.Classes, c.MaxClasses = []string{"0", "1", "2", "3", "4", "5", "6"}, 7
	src := must.Get(stream.OpenFile(path, c, c.Schema()))(t)
	defer src.Close()
	var b event.Batch
	for src.Next(t.Context(), &b) == nil {
		for i := range b.Examples {
			must.Require(t, b.Examples[i].Refused == nil, "%v", b.Examples[i].Refused)
			d.events = append(d.events, event.Example{Features: b.Examples[i].Features.Clone(), Label: b.Examples[i].Label})
		}
	}
	must.Require(t, len(d.events) != 0, "%s has no events", path)
	return d
}

// driftNames are the names of the ten numeric columns of covtype_10k.
var driftNames = [10]string{"elevation", "aspect", "slope", "to_water", "above_water", "to_roads", "shade_9", "shade_12", "shade_15", "to_fire"}

// write writes n events as JSON, drawn with replacement. The label is true if the forest is of the second type (label 1
// of the data). The ten numbers are multiplied by slowly changing factors. In driftSwap the first and the sixth number
// are swapped. In driftDeath the first, the fourth and the tenth number are null. write returns the fraction of
// positive events.
func (d drifting) write(to io.Writer, n int) (positive float64, err error) {
	w := bufio.NewWriterSize(to, 1<<20)
	r := rand.New(rand.NewPCG(1, 1))
	var line []byte
	for i := range n {
		e := &d.events[r.IntN(len(d.events))]
		at := float64(i) / float64(n)
		label := "other"
		if e.Label == 1 {
			label = "second"
			positive++
		}
		line = append(append(append(line[:0], `{"label":"`...), label...), `","ground":[`...)
		var numbers [10]float64
		separator := ""
		for j, column := range e.Features.Index {
			if k := int(column); k < len(numbers) {
				numbers[k] = e.Features.Value[j] * (1 + 0.3*math.Sin(2*math.Pi*(3*at+float64(k)/10)))
			} else { // one-hot columns of wilderness areas and soils
				line = append(strconv.AppendInt(append(append(line, separator...), `"g`...), int64(k), 10), '"')
				separator = ","
			}
		}
		line = append(line, ']')
		if at >= driftSwap[0] && at < driftSwap[1] {
			numbers[0], numbers[5] = numbers[5], numbers[0]
		}
		for k, x := range numbers {
			line = append(append(append(line, `,"`...), driftNames[k]...), `":`...)
			if at >= driftDeath[0] && at < driftDeath[1] && (k == 0 || k == 3 || k == 9) {
				line = append(line, "null"...)
			} else {
				line = strconv.AppendInt(line, int64(math.Round(x)), 10)
			}
		}
		if _, err := w.Write(append(line, "}\n"...)); err != nil {
			return 0, err
		}
	}
	return positive / float64(n), w.Flush()
}

// longSample holds the metrics of the program at one time.
type longSample struct{ seconds, events, total, recent, memory float64 }

// drawLong writes the figures and the page results.md.
func drawLong(dir string, samples []longSample, events int, constant float64, produced time.Duration) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	total := simulate.Series{Name: "all events so far", Form: simulate.BareLine}
	recent := simulate.Series{Name: "recent events", Form: simulate.BareLine}
	always := simulate.Series{Name: "constant answer", Form: simulate.BareLine, Dashed: true, X: []float64{0, float64(events) / 1e6}, Y: []float64{100 * constant, 100 * constant}}
	memory, rate := simulate.Series{Form: simulate.BareLine}, simulate.Series{Form: simulate.BareLine}
	step := max(1, len(samples)/100)
	most := 0.0
	for i, s := range samples {
		if s.events == 0 {
			continue
		}
		at := s.events / 1e6
		most = max(most, s.memory)
		total.X, total.Y = append(total.X, at), append(total.Y, 100*s.total)
		recent.X, recent.Y = append(recent.X, at), append(recent.Y, 100*s.recent)
		memory.X, memory.Y = append(memory.X, at), append(memory.Y, s.memory/1e6)
		if before := samples[max(0, i-step)]; i%step == 0 && s.events > before.events {
			rate.X, rate.Y = append(rate.X, at), append(rate.Y, (s.events-before.events)/(s.seconds-before.seconds)/1e3)
		}
	}
	var marks []simulate.Mark
	for _, m := range []struct {
		at   float64
		name string
	}{{driftSwap[0], "two swapped"}, {driftSwap[1], ""}, {driftDeath[0], "three null"}, {driftDeath[1], ""}} {
		marks = append(marks, simulate.Mark{X: m.at * float64(events) / 1e6, Name: m.name})
	}
	for name, f := range map[string]*simulate.Figure{
		"error":  {Y: "error, each event scored before it is learned (%)", Series: []simulate.Series{total, recent, always}},
		"memory": {Y: "resident memory (MB)", Series: []simulate.Series{memory}},
		"rate":   {Y: "thousands of events a second", Series: []simulate.Series{rate}},
	} {
		f.Title, f.X, f.Marks, f.Height = "A long stream with drift, from a real broker", "millions of events", marks, 8
		if name != "error" {
			f.Marks, f.YMax = nil, 1.2*max(0.001, slices.Max(f.Series[0].Y))
		}
		if err := f.Save(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	last := samples[len(samples)-1]
	text := fmt.Sprintf(`# A long stream from a real broker

Made by `+"`make long-stream EVENTS=%d DATA=DIR`"+` on %d processors that other work shared, so the rate is a lower bound.

`+"`blankout produce`"+` wrote %d events to an Apache Kafka broker in %.0f s. `+"`blankout run --until-end`"+`, configured by only the topic and the
folder of its state, learned every event once in %.0f s (%.0f thousand a second). %d readings of its metrics:

| | |
|---|---|
| error of all events, each predicted before it is learned | %.2f %% |
| of a constant answer | %.2f %% |
| resident memory half way, at the end, most | %.0f, %.0f, %.0f MB |

The events are drawn with replacement from the 8,000 training events of covtype_10k. The drift is ours: the gains of the ten numbers turn
three times by 30 %%; from %.0f to %.0f %% of the stream two numbers are swapped; from %.0f to %.0f %% three are null.

![error](error.png)

![memory](memory.png)

![rate](rate.png)
`, events, runtime.NumCPU(), events, produced.Seconds(), last.seconds, float64(events)/last.seconds/1e3, len(samples), 100*last.total, 100*constant, samples[len(samples)/2].memory/1e6, last.memory/1e6, most/1e6,
		100*driftSwap[0], 100*driftSwap[1], 100*driftDeath[0], 100*driftDeath[1])
	return os.WriteFile(filepath.Join(dir, "results.md"), []byte(text), 0o644)
}
