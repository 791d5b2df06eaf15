package main

// This file measures what the time of blankout buys: the error of new events, beside that of Vowpal Wabbit in one pass, and
// in as many passes as fit into the same processor time.

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
)

// mostPasses bounds the passes of Vowpal Wabbit. The time of one is measured by morePasses.
const mostPasses, morePasses = 50, 11

// buys appends the section to docs/speed.md. A fifth of the events of each set, chosen at random, is predicted.
func (c *comparison) buys() error {
	if err := c.build(); err != nil {
		return err
	}
	fmt.Fprint(c.w, `## What the time buys

Each learner learns four fifths of the events, in random order, and predicts the others. A cell has processor time, error
and log-loss. In the last column vw makes as many passes as fit into the processor time of blankout:

| set | blankout, the default | vw, one pass | vw |
|---|---|---|---|
`)
	for _, d := range []contest{gasDrift, denseImages} {
		if err := c.buysOf(d); err != nil {
			return fmt.Errorf("%s: %w", d.title, err)
		}
	}
	fmt.Fprintln(c.w)
	return nil
}

func (c *comparison) buysOf(d contest) error {
	s, err := d.load(c)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(3, 4))
	r.Shuffle(len(s.examples), func(i, j int) { s.examples[i], s.examples[j] = s.examples[j], s.examples[i] })
	n := len(s.examples) / 5
	test := &set{name: s.name, schema: s.schema, examples: s.examples[:n]}
	s.examples = s.examples[n:]
	file := func(name string) string { return filepath.Join(c.work, "buys."+name) }
	for _, err := range []error{
		writeText(file("svm"), s, false), writeText(file("test.svm"), test, false),
		writeText(file("vw"), s, true), writeText(file("test.vw"), test, true),
	} {
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(c.w, "| %s |", d.title)
	cell := func(passes string, time run, wrong, loss float64) {
		fmt.Fprintf(c.w, " %s%.2f s, %.2f %%, %.4f |", passes, time.cpu.Seconds(), 100*wrong, loss)
	}
	ours, err := timed([]string{c.binary, "train", "-d", file("svm"), "-o", file("model"), "--solver", "online"})
	if err != nil {
		return err
	}
	out, err := command(c.binary, "predict", "-m", file("model"), "-d", file("test.svm"), "-o", file("answers.csv"), "--json")
	if err != nil {
		return err
	}
	var p struct {
		Error   float64 `json:"error"`
		LogLoss float64 `json:"log_loss"`
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return err
	}
	cell("", ours, p.Error/100, p.LogLoss)
	vw := func(passes int) (run, error) {
		args := append([]string{c.vw, "-d", file("vw"), "-f", file("model.vw")}, vwOptions(s, []string{"--probabilities"})...)
		if passes > 1 {
			args = append(args, "--passes", strconv.Itoa(passes), "-c", "-k", "--holdout_off")
		}
		return timed(args)
	}
	once, err := vw(1)
	if err != nil {
		return err
	}
	wrong, loss, err := c.vwTested(test, file("model.vw"), file("test.vw"))
	if err != nil {
		return err
	}
	cell("", once, wrong, loss)
	more, err := vw(morePasses)
	if err != nil {
		return err
	}
	passes := mostPasses
	if each := (more.cpu - once.cpu) / (morePasses - 1); each > 0 {
		passes = max(2, min(mostPasses, 1+int((ours.cpu-once.cpu)/each)))
	}
	many, err := vw(passes)
	if err != nil {
		return err
	}
	if wrong, loss, err = c.vwTested(test, file("model.vw"), file("test.vw")); err != nil {
		return err
	}
	cell(fmt.Sprintf("%d passes: ", passes), many, wrong, loss)
	fmt.Fprintln(c.w)
	return nil
}

// vwTested returns the error and the log-loss of a model of Vowpal Wabbit on a file with the events of a set.
func (c *comparison) vwTested(s *set, trained, data string) (wrong, loss float64, err error) {
	predictions := filepath.Join(c.work, "buys.predictions")
	if _, err := command(c.vw, "--quiet", "-t", "-i", trained, "-d", data, "-p", predictions, "--probabilities"); err != nil {
		return 0, 0, err
	}
	all, err := vwProbabilities(predictions, s.schema.Outputs(), len(s.examples))
	if err != nil {
		return 0, 0, err
	}
	for i, p := range all {
		label, n := s.examples[i].Label, float64(len(all))
		if p[label] < slices.Max(p) {
			wrong += 1 / n
		}
		loss -= math.Log(max(p[label], 1e-6)) / n
	}
	return wrong, loss, nil
}
