package main

// This file makes the tables of speed.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// speed measures whole processes, from text to learned weights that nobody
// saves: blankout train --solver online and vw on the same events, run in turn,
// the median of five runs. The progressive errors say that both learn.
func (c *comparison) speed() error {
	binary := filepath.Join(c.work, "blankout")
	if _, err := command("go", "build", "-o", binary, "./cmd/blankout"); err != nil {
		return err
	}
	start, err := c.peerStart()
	if err != nil {
		return err
	}
	fmt.Fprintf(c.w, "# Speed beside Vowpal Wabbit\n\nMade by `make speed DATA=DIR VW=vw` on %d cores (%s): whole processes, one pass, from text\nto learned weights. Seconds of wall clock and of processor time are medians of five runs in turn; ratios are to vw\nwith the logistic loss on the same events. The %.2f s that vw takes for no events are subtracted from its\ntimes, because an interpreter may start it; blankout's times are not reduced. blankout's default is auto.\n\n| data | learner | wall | processor | wall / vw | processor / vw | progressive error, %% |\n|---|---|---|---|---|---|---|\n", runtime.NumCPU(), processor(), start.wall.Seconds())
	for _, d := range []struct {
		name    string
		classes int
		file    string
		ours    []string
		vw      [][]string
	}{
		{"mnist", 10, "train-images-idx3-ubyte.gz", []string{"--standardise", "none"}, [][]string{nil, {"squared"}}},
		{"imdb", 2, "train.svm.gz", nil, [][]string{nil}},
		{"json", 2, "", []string{"--label", "_label"}, [][]string{{"--json"}}},
	} {
		ours, theirs := filepath.Join(c.work, d.name+".svm"), filepath.Join(c.work, d.name+".vw")
		var s *set
		var err error
		if d.name == "json" {
			ours = filepath.Join(c.work, "events.json")
			theirs = ours
			if err := writeEvents(ours, 500_000); err != nil {
				return err
			}
			if s, err = loadJSON(ours); err != nil {
				return err
			}
		} else {
			if s, err = load(c.path(d.name, d.file), d.classes); err != nil {
				return err
			}
			if err := errors.Join(writeText(ours, s, false, nil), writeText(theirs, s, true, nil)); err != nil {
				return err
			}
		}
		type contestant struct {
			name string
			args []string
			runs []run
		}
		train := append([]string{binary, "train", "-d", ours, "--solver", "online", "--quiet"}, d.ours...)
		all := []*contestant{
			{name: "blankout, dropout .5", args: append(slices.Clone(train), "--noise", "dropout:0.5")},
			{name: "the same and the objective (--json)", args: append(slices.Clone(train), "--noise", "dropout:0.5", "--json")},
			{name: "blankout, auto", args: append(slices.Clone(train), "--noise", "auto")},
		}
		if c.vw != "" {
			for _, o := range d.vw {
				args := append(append([]string{c.vw}, vwOptions(s, o)...), "-d", theirs)
				name := vwLogistic
				if slices.Contains(o, "squared") {
					name = "vw, squared loss"
				}
				all = append(all, &contestant{name: name, args: args})
			}
		}
		for range 5 {
			for _, x := range all {
				r, err := timed(x.args)
				if err != nil {
					return err
				}
				if x.args[0] == c.vw {
					r.wall, r.cpu = r.wall-start.wall, r.cpu-start.cpu
				}
				x.runs = append(x.runs, r)
			}
		}
		for _, x := range all {
			wrong := ""
			if x.args[0] == binary {
				out, err := command(x.args[0], append(slices.Clone(x.args[1:]), "--json")...)
				if err != nil {
					return err
				}
				var r struct {
					Error float64 `json:"progressive_error"`
				}
				if err := json.Unmarshal(out, &r); err != nil {
					return err
				}
				wrong = fmt.Sprintf("%.2f", r.Error)
			} else {
				predictions := filepath.Join(c.work, "predictions")
				if _, err := command(x.args[0], append(slices.Clone(x.args[1:]), "-p", predictions)...); err != nil {
					return err
				}
				p, err := predicted(predictions, s, true)
				if err != nil {
					return err
				}
				wrong = p.String()
			}
			wall, cpu := median(x.runs)
			ratios := "| |"
			if i := slices.IndexFunc(all, func(x *contestant) bool { return x.name == vwLogistic }); i >= 0 {
				theirWall, theirCPU := median(all[i].runs)
				ratios = fmt.Sprintf("| %.2f | %.2f |", wall.Seconds()/theirWall.Seconds(), cpu.Seconds()/theirCPU.Seconds())
			}
			fmt.Fprintf(c.w, "| %s | %s | %.2f | %.2f %s %s |\n", d.name, x.name, wall.Seconds(), cpu.Seconds(), ratios, wrong)
		}
	}
	fmt.Fprintln(c.w)
	return nil
}

const vwLogistic = "vw --loss_function logistic"

// peerStart returns how long vw takes for no events.
func (c *comparison) peerStart() (r run, err error) {
	if c.vw == "" {
		return r, nil
	}
	empty := filepath.Join(c.work, "empty.vw")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		return r, err
	}
	var runs []run
	for range 5 {
		r, err := timed([]string{c.vw, "--loss_function", "logistic", "--quiet", "-d", empty})
		if err != nil {
			return r, err
		}
		runs = append(runs, r)
	}
	r.wall, r.cpu = median(runs)
	return r, nil
}

// processor returns the name of the processor, where the system tells.
func processor() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t: "))
		}
	}
	return runtime.GOARCH
}

// run is how long a process took.
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
	var walls, cpus []time.Duration
	for _, r := range runs {
		walls, cpus = append(walls, r.wall), append(cpus, r.cpu)
	}
	slices.Sort(walls)
	slices.Sort(cpus)
	return walls[len(walls)/2], cpus[len(cpus)/2]
}

// writeEvents writes n made-up events of about 180 bytes, a JSON object a line,
// with the label where vw --json wants it.
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
	var line []byte
	for range n {
		age, hours, gain := 17+r.IntN(60), 10+r.IntN(60), 100*r.ExpFloat64()
		job, school, country := r.IntN(len(jobs)), r.IntN(len(schools)), r.IntN(len(countries))
		label := "-1"
		if float64(age)/20+float64(hours)/20+gain/200+float64(school%3)-float64(job)+1.5*r.NormFloat64() > 3.5 {
			label = "1"
		}
		line = append(line[:0], `{"_label":`...)
		line = append(line, label...)
		line = strconv.AppendInt(append(line, `,"age":`...), int64(age), 10)
		line = strconv.AppendInt(append(line, `,"hours_per_week":`...), int64(hours), 10)
		line = strconv.AppendFloat(append(line, `,"capital_gain":`...), gain, 'f', 2, 64)
		line = append(append(line, `,"workclass":"`...), jobs[job]...)
		line = append(append(line, `","education":"`...), schools[school]...)
		line = append(append(line, `","country":"`...), countries[country]...)
		line = strconv.AppendFloat(append(line, `","score":`...), r.Float64(), 'f', 3, 64)
		line = strconv.AppendInt(append(line, `,"campaign":"c`...), int64(r.IntN(500)), 10)
		line = append(line, "\"}\n"...)
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return w.Flush()
}
