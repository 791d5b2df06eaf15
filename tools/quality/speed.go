package main

// This file writes docs/speed.md. The page compares whole processes with Vowpal Wabbit, and has the measurements of
// work.go.

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"blankout/internal/event"
)

// contest is a set of events that blankout and vw learn one after the other.
type contest struct {
	name, file string // file is in the data folder; "" means generated JSON events
	title      string
	classes    int
	columns    uint32 // columns from this number on are left out
	ours, vw   []string
	events     int     // only the first events; 0 is all
	times      int     // the events are learned so many times over; 0 is once
	dense      float64 // normal noise of this size is added to each column; 0 is none
	positive   bool    // values below 0 are left out
}

var contests = []contest{
	{name: "mnist", file: mnistImages, title: "MNIST, 10 classes, 784 columns", classes: 10, columns: 785, ours: []string{"--standardize", "none"}},
	{name: "mnist", file: mnistImages, title: "MNIST with noise, half of the pixels above 0, 20,000 events", classes: 10, columns: 785, events: 20_000, dense: 0.1, positive: true},
	denseImages,
	{name: "imdb", file: "train.svm.gz", title: "IMDB, unigrams", classes: 2, columns: imdbUnigrams, vw: []string{"-b", "22"}},
	{name: "imdb", file: "train.svm.gz", title: "IMDB, uni- and bigrams", classes: 2, columns: 1 << 31, vw: []string{"-b", "22"}},
	gasDrift,
	{name: "gas_drift", file: gasDrift.file, title: "gas_drift ten times over", classes: 6, columns: 1 << 31, times: 10},
	{name: "json", title: "JSON, 11 features", classes: 2, ours: []string{"--label", "_label"}, vw: []string{"--json"}},
}

const mnistImages = "train-images-idx3-ubyte.gz"

var (
	denseImages = contest{name: "mnist", file: mnistImages, title: "MNIST with noise, 784 dense columns, 10,000 events", classes: 10, columns: 785, events: 10_000, dense: 0.1}
	gasDrift    = contest{name: "gas_drift", file: "stream.svm.gz", title: "gas_drift, 6 classes, 128 dense numbers", classes: 6, columns: 1 << 31}
)

// imdbUnigrams is the number of unigrams of the data set imdb, which are its first columns. Bigrams follow.
const imdbUnigrams = 47123

// contestant is a program that learns, with its measured times in each round. All but River in the topic are in the order
// blankout with a fixed level, blankout by default, vw with logistic and with squared loss.
type contestant struct {
	name, gap string // for section solvers
	args      []string
	runs      []run
	wrong     float64 // progressive error
}

// runOnce runs the contestants in turn, and keeps their times.
func runOnce(all []*contestant) error {
	for _, x := range all {
		r, err := timed(x.args)
		if err != nil {
			return err
		}
		x.runs = append(x.runs, r)
	}
	return nil
}

const rounds = 5

// fixedLevel has the options for a single noise level and optimizer. By default, three noise levels and three experts
// are learned concurrently.
var fixedLevel = []string{"--optimizer", "adagrad", "--noise", "dropout:0.5"}

// speed measures blankout train --solver online and vw on the same events. The progressive errors show that both
// programs learn from the events.
func (c *comparison) speed() error {
	if c.vw == "" {
		return errors.New("speed: name Vowpal Wabbit's command with -vw")
	}
	begin := time.Now()
	if err := c.build(); err != nil {
		return err
	}
	var rows strings.Builder
	for _, d := range contests {
		all, err := c.contest(d)
		if err != nil {
			return fmt.Errorf("%s: %w", d.title, err)
		}
		rows.WriteString(ratios(d.title, all))
	}
	river, err := c.topicContest(&rows)
	if err != nil {
		return err
	}
	out, err := command(c.vw, "--version")
	if err != nil {
		return err
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	m, rates, err := c.works()
	if err != nil {
		return err
	}
	fmt.Fprintf(c.w, `# Speed

%[1]s writes this page. It ran with vw %[8]s in %[2]d minutes on %[3]d cores (%[4]s).
The programs take turns, and times are medians of %[5]d runs. If the cores are shared, prefer processor time.

## Compared with Vowpal Wabbit

Each process makes one pass, from a text file to a file of weights. The fixed level is %[6]s. A cell has processor time /
wall-clock time and the progressive error. Times without a unit are divided by the times of vw with logistic loss. Above
1, vw is faster:

| one pass over | vw, logistic loss | blankout, fixed level | blankout, the default | vw, squared loss |
|---|---|---|---|---|
%[7]s
On the topic, River with confluent-kafka takes %[9]s.

`, "`make speed DATA=DIR VW=vw KAFKA=HOST:PORT PYTHON=python`", int(time.Since(begin).Minutes()+1), runtime.NumCPU(), processor(), rounds, "`--optimizer adagrad --noise dropout:0.5`", rows.String(), version, river)
	if err := c.buys(); err != nil {
		return err
	}
	writeWorks(c.w, m, rates)
	return nil
}

// ratios returns a row of the table: the times of vw with logistic loss, the times of blankout with a fixed level and by
// default and of vw with squared loss, divided by them, and the errors.
func ratios(title string, all []*contestant) string {
	wall, cpu := median(all[2].runs)
	row := fmt.Sprintf("| %s | %s ", title, all[2])
	for _, x := range []*contestant{all[0], all[1], all[3]} {
		w, p := median(x.runs)
		row += fmt.Sprintf("| %.2f / %.2f, %.2f %% ", p.Seconds()/cpu.Seconds(), w.Seconds()/wall.Seconds(), 100*x.wrong)
	}
	return row + "|\n"
}

// String returns the times and the error.
func (x *contestant) String() string {
	wall, cpu := median(x.runs)
	return fmt.Sprintf("%.2f / %.2f s, %.2f %%", cpu.Seconds(), wall.Seconds(), 100*x.wrong)
}

// contest runs blankout with a fixed level and by default, and vw with both losses.
func (c *comparison) contest(d contest) (all []*contestant, err error) {
	ours, theirs, s, err := c.contestFiles(d)
	if err != nil {
		return nil, err
	}
	train := append([]string{c.binary, "train", "-d", ours, "-o", filepath.Join(c.work, "ours"), "--solver", "online"}, d.ours...)
	vw := func(loss ...string) []string {
		return append(append([]string{c.vw, "-d", theirs, "-f", filepath.Join(c.work, "theirs")}, d.vw...), vwOptions(s, loss)...)
	}
	all = []*contestant{
		{args: slices.Concat(train, fixedLevel)},
		{args: train},
		{args: vw()},
		{args: vw("squared")},
	}
	for range rounds {
		if err := runOnce(all); err != nil {
			return nil, err
		}
	}
	for _, x := range all {
		if x.wrong, err = c.progressiveError(x, s); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// contestFiles writes the events in the formats that blankout and vw read.
func (c *comparison) contestFiles(d contest) (ours, theirs string, s *set, err error) {
	ours, theirs = filepath.Join(c.work, "ours.svm"), filepath.Join(c.work, "theirs.vw")
	if d.file == "" {
		ours = filepath.Join(c.work, "events.json")
		if err := writeEvents(ours, 500_000); err != nil {
			return "", "", nil, err
		}
		s, err = loadJSON(ours)
		return ours, ours, s, err
	}
	if s, err = d.load(c); err != nil {
		return "", "", nil, err
	}
	return ours, theirs, s, errors.Join(writeText(ours, s, false), writeText(theirs, s, true))
}

// load reads the events.
func (d contest) load(c *comparison) (*set, error) {
	s, err := load(c.path(d.name, d.file), d.classes)
	if err != nil {
		return nil, err
	}
	if d.events > 0 {
		s.examples = s.examples[:d.events]
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range s.examples {
		x := &s.examples[i].Features
		n, _ := slices.BinarySearch(x.Index, d.columns)
		*x = event.Vec{Index: x.Index[:n], Value: x.Value[:n]}
		if d.dense > 0 {
			*x = d.noisy(*x, r)
		}
	}
	s.examples = slices.Repeat(s.examples, max(1, d.times))
	return s, nil
}

// noisy returns a vector with all columns, to which noise is added.
func (d contest) noisy(x event.Vec, r *rand.Rand) (out event.Vec) {
	at := 0
	for column := uint32(1); column < d.columns; column++ {
		value := d.dense * r.NormFloat64()
		if at < len(x.Index) && x.Index[at] == column {
			value += x.Value[at]
			at++
		}
		if value > 0 || !d.positive {
			out.Index, out.Value = append(out.Index, column), append(out.Value, value)
		}
	}
	return out
}

// progressiveError runs a contestant once more. It returns the fraction of events that the contestant predicted wrongly
// before learning them.
func (c *comparison) progressiveError(x *contestant, s *set) (float64, error) {
	if x.args[0] == c.vw {
		predictions := filepath.Join(c.work, "predictions")
		if _, err := command(x.args[0], append(slices.Clone(x.args[1:]), "-p", predictions)...); err != nil {
			return 0, err
		}
		p, err := predicted(predictions, s, true)
		return p.wrong, err
	}
	out, err := command(x.args[0], append(slices.Clone(x.args[1:]), "--json")...)
	if err != nil {
		return 0, err
	}
	var r struct {
		Error float64 `json:"progressive_error"`
	}
	err = json.Unmarshal(out, &r)
	return r.Error / 100, err
}

// processor returns the name of the processor, if the system provides it.
func processor() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t: "))
		}
	}
	return runtime.GOARCH
}

// run has the wall time and the processor time of a process.
type run struct{ wall, cpu time.Duration }

func timed(args []string) (run, error) {
	x := exec.Command(args[0], args[1:]...)
	begin := time.Now()
	if out, err := x.CombinedOutput(); err != nil {
		return run{}, fmt.Errorf("%v: %w\n%s", args, err, out)
	}
	return run{time.Since(begin), x.ProcessState.UserTime() + x.ProcessState.SystemTime()}, nil
}

func median(runs []run) (wall, cpu time.Duration) {
	middle := func(of func(r run) time.Duration) time.Duration {
		slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(of(a), of(b)) })
		return of(runs[len(runs)/2])
	}
	return middle(func(r run) time.Duration { return r.wall }), middle(func(r run) time.Duration { return r.cpu })
}

// writeEvents writes n generated events of about 220 bytes and 11 features, one JSON object per line. The label is in
// the field that vw --json expects.
func writeEvents(name string, n int) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	r := rand.New(rand.NewPCG(1, 1))
	jobs := []string{"private", "state-gov", "self-employed", "federal-gov", "without-pay"}
	schools := []string{"bachelors", "masters", "hs-grad", "doctorate", "11th", "some-college"}
	countries := []string{"united-states", "mexico", "canada", "germany", "india", "philippines"}
	for range n {
		age, hours, gain := 17+r.IntN(60), 10+r.IntN(60), 100*r.ExpFloat64()
		job, school, country := r.IntN(len(jobs)), r.IntN(len(schools)), r.IntN(len(countries))
		label := -1
		if float64(age)/20+float64(hours)/20+gain/200+float64(school%3)-float64(job)+1.5*r.NormFloat64() > 3.5 {
			label = 1
		}
		fmt.Fprintf(w, `{"_label":%d,"age":%d,"hours_per_week":%d,"capital_gain":%.2f,"workclass":"%s","education":"%s","country":"%s","score":%.3f,"campaign":"c%d","marital":"state%d","sex":"s%d","shop":"shop-%d"}`+"\n",
			label, age, hours, gain, jobs[job], schools[school], countries[country], r.Float64(), r.IntN(500), r.IntN(5), r.IntN(2), r.IntN(1000))
	}
	return w.Flush()
}
