package main

// This file writes the tables about features that fail after learning, for each kind of model.LossKind. A dead feature
// reads its mean or 0, a stale one what it read in a training event, and a declared failure is null.

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"blankout/batch"
	"blankout/config"
	"blankout/internal/event"
	sums "blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
)

// The values that a failed feature reads.
const (
	readsMean = "mean" // mean of the training events
	readsZero = "zero"
)

// zeroSets are the sets whose failed features read 0 unless -dead is given, because 0 is their most frequent value.
var zeroSets = []string{"spambase", "digits", "usps"}

// silentSets are the data sets of section silent unless -sets is given.
const silentSets = "gas_drift,spambase,covtype_10k,usps"

// lossKinds are the kinds of loss that are measured.
var lossKinds = []model.LossKind{model.LossDead, model.LossDeclared, model.LossStale}

// deathFractions are the fractions of the features that have failed in the test events.
var deathFractions = []float64{0, 0.3, 0.5, 0.7}

// copyRates are the fractions of the features that have failed in a corrupted copy. Each copy draws one of these
// fractions.
var copyRates = []float64{0.2, 0.4, 0.6, 0.8}

// silentOptions are the flags of the section silent.
type silentOptions struct {
	sets, rows, also, dead string
	splits, learn, test    int
	group, copies          int
}

func (o *silentOptions) add(f *flag.FlagSet) {
	f.StringVar(&o.sets, "sets", "", "section silent: the `SETS`, folders of -data with train.* and test.*, or stream.*\n(svmlight, CSV or JSON Lines with the label in the field label, without nulls); "+silentSets+" unless given\nsection learners: these streams of docs/quality.md only")
	f.StringVar(&o.rows, "rows", "", "section silent: make these `ROWS` only, by the word in front of their names")
	f.StringVar(&o.also, "also", "", "section silent: further rows, `SETTINGS` of the learner such as noise=dropout:0.3,calibrate=off;noise=none\nsection learners: settings of both learners, such as noise=dropout:0.3,calibrate=off")
	f.StringVar(&o.dead, "dead", "auto", "section silent: dead features read their `mean|zero`; auto is zero for "+strings.Join(zeroSets, ", "))
	f.IntVar(&o.splits, "splits", 3, "section silent: `N` random splits of each set")
	f.IntVar(&o.learn, "learn", 3000, "section silent: learn `N` events of a split, at most 65 % of the set")
	f.IntVar(&o.test, "test", 1200, "sections silent and learners: test with `N` events")
	f.IntVar(&o.group, "group", 1, "section silent: `N` consecutive columns die together")
	f.IntVar(&o.copies, "copies", 3, "section silent: `N` corrupted copies of each event")
}

// deathSet is a data set whose columns are numbers.
type deathSet struct {
	*set
	columns, group int
	reads          string
}

// loadDeath reads the files of a folder as one set with consecutive columns.
func (c *comparison) loadDeath(name string) (*deathSet, error) {
	var files []string
	for _, pattern := range []string{"stream.*", "train.*", "test.*"} {
		found, err := filepath.Glob(c.path(name, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has neither stream.* nor train.* and test.*", c.path(name))
	}
	d := &deathSet{group: c.silent.group, reads: c.silent.dead}
	if d.reads == "auto" {
		d.reads = readsMean
		if slices.Contains(zeroSets, name) {
			d.reads = readsZero
		}
	}
	for _, file := range files {
		s, err := load(file, 100)
		if err != nil {
			return nil, err
		}
		if d.set == nil {
			d.set = s
		} else if !slices.Equal(s.schema.Classes, d.schema.Classes) {
			return nil, fmt.Errorf("%s has the classes %v, %s has %v", file, s.schema.Classes, files[0], d.schema.Classes)
		} else {
			d.examples = append(d.examples, s.examples...)
		}
	}
	d.name = name
	places := map[uint32]int{}
	for i := range d.examples {
		e := &d.examples[i]
		if len(e.Missing) > 0 {
			return nil, fmt.Errorf("%s: event %d has nulls", name, i)
		}
		for _, column := range e.Features.Index {
			places[column] = 0
		}
	}
	for i, column := range slices.Sorted(maps.Keys(places)) {
		places[column] = i
	}
	d.columns = len(places)
	for i := range d.examples {
		e := &d.examples[i]
		dense := event.Vec{Index: make([]uint32, d.columns), Value: make([]float64, d.columns)}
		for column := range dense.Index {
			dense.Index[column] = uint32(column)
		}
		for j, column := range e.Features.Index {
			dense.Value[places[column]] = e.Features.Value[j]
		}
		d.examples[i] = event.Example{Label: e.Label, Weight: e.Weight, Features: dense}
	}
	return d, nil
}

// deathSplit is a random split of a set into training and test events, with the failures in the test events.
type deathSplit struct {
	*deathSet
	seed        uint64
	train, test []event.Example // complete events, with a field for each column
	losses      *model.Losses
	// dies has, for each test event and group, the smallest fraction of failures at which the group has failed.
	dies [][]float64
}

func (d *deathSet) split(o *silentOptions, seed uint64) *deathSplit {
	s := &deathSplit{deathSet: d, seed: seed}
	reads := make([]float64, d.columns)
	r := rand.New(rand.NewPCG(seed, 4))
	order := r.Perm(len(d.examples))
	n := min(o.learn, len(order)*65/100)
	whole := make([]bool, d.groups())
	for i, at := range order[:min(len(order), n+o.test)] {
		e := without(&d.examples[at], d.columns, d.group, whole)
		if i >= n {
			s.test = append(s.test, e)
			dies := make([]float64, d.groups())
			for g := range dies {
				dies[g] = r.Float64()
			}
			s.dies = append(s.dies, dies)
			continue
		}
		s.train = append(s.train, e)
		for column, x := range e.Features.Value {
			reads[column] += x
		}
	}
	for column := range reads {
		if reads[column] /= float64(len(s.train)); d.reads == readsZero {
			reads[column] = 0
		}
	}
	s.losses = &model.Losses{Fields: fieldSchema(d.set, d.columns, d.group).Fields, Dead: &model.Dead{Columns: s.train[0].Features.Index, Reads: reads}, Seed: seed}
	for i := range s.train {
		s.losses.Note(&s.train[i])
	}
	return s
}

func (d *deathSet) groups() int { return (d.columns + d.group - 1) / d.group }

// died returns a copy of a complete event with failed groups. number determines stale readings.
func (s *deathSplit) died(kind model.LossKind, e *event.Example, number int, dead []bool) (out event.Example) {
	lost := make([]bool, s.columns)
	for column := range lost {
		lost[column] = dead[column/s.group]
	}
	s.losses.Lose(kind, e, uint64(number), e.Features.Index, lost, &out)
	return out
}

// copied returns the training events and corrupted copies of each, in random order.
func (s *deathSplit) copied(copies int) []event.Example {
	r := rand.New(rand.NewPCG(s.seed, 5))
	out := slices.Clone(s.train)
	dead := make([]bool, s.groups())
	for range copies {
		for i := range s.train {
			rate := copyRates[r.IntN(len(copyRates))]
			for g := range dead {
				dead[g] = r.Float64() < rate
			}
			out = append(out, s.died(model.LossDead, &s.train[i], i, dead))
		}
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// probabilities returns the probability of each class for each event.
type probabilities func(events []event.Example) ([][]float64, error)

// deathRow is a way to learn, which is one row of the table.
type deathRow struct {
	key, name string
	// peer is true if missing features cannot be declared to the model. For such a model, declared failures are
	// measured like dead features.
	peer  bool
	learn func(s *deathSplit) (probabilities, error)
}

func (c *comparison) deathRows() ([]deathRow, error) {
	o := &c.silent
	expected, noise, silent := "learner.expected_missing=0.5", "learner.noise=dropout:0.5", "silent:0.5"
	if o.group > 1 {
		expected, noise, silent = "learner.expected_missing_groups=0.5", "learner.noise=group:0.5", "silent-group:0.5"
	}
	learner := func(key, name string, settings ...string) deathRow {
		return deathRow{key: key, name: name, learn: func(s *deathSplit) (probabilities, error) { return s.online(s.train, settings) }}
	}
	title := func(setting string) string { return "`" + strings.TrimPrefix(setting, "learner.") + "`" }
	rows := []deathRow{
		learner("default", "the default"),
		learner("expected", title(expected), expected),
		learner("noise", title(noise), noise),
		learner("silent", "`silent_missing=0.5`", "learner.silent_missing=0.5"),
		learner("gradient", "dropout descent, clean gradient", "learner.optimizer=dropout-descent", "learner.noisy_gradient=false", "learner.noise=dropout:0.5"),
	}
	if c.vw != "" {
		rows = append(rows,
			deathRow{"vw", "VW, clean data", true, func(s *deathSplit) (probabilities, error) { return c.vwLearned(s, s.train) }},
			deathRow{"vw", fmt.Sprintf("VW, the data and %d copies", o.copies), true, func(s *deathSplit) (probabilities, error) { return c.vwLearned(s, s.copied(o.copies)) }})
	}
	rows = append(rows,
		deathRow{"logistic", fmt.Sprintf("exact logistic regression, the data and %d copies", o.copies), true, func(s *deathSplit) (probabilities, error) { return s.exact(s.copied(o.copies), "none") }},
		deathRow{"exact", "exact logistic regression, `" + silent + "`", true, func(s *deathSplit) (probabilities, error) { return s.exact(s.train, silent) }},
		deathRow{"copies", fmt.Sprintf("the default, the data and %d copies", o.copies), false, func(s *deathSplit) (probabilities, error) { return s.online(s.copied(o.copies), nil) }})
	if o.rows != "" {
		only := strings.Split(o.rows, ",")
		for _, key := range only {
			if !slices.ContainsFunc(rows, func(r deathRow) bool { return r.key == key }) {
				return nil, fmt.Errorf("-rows %s: no row begins with this word", key)
			}
		}
		rows = slices.DeleteFunc(rows, func(r deathRow) bool { return !slices.Contains(only, r.key) })
	}
	for row := range strings.SplitSeq(o.also, ";") {
		if row == "" {
			continue
		}
		var settings []string
		for setting := range strings.SplitSeq(row, ",") {
			settings = append(settings, "learner."+setting)
		}
		rows = append(rows, learner("also", "`"+row+"`", settings...))
	}
	return rows, nil
}

// online learns the events in one pass of the online learner.
func (s *deathSplit) online(events []event.Example, settings []string) (probabilities, error) {
	l, err := s.learner(events, settings)
	if err != nil {
		return nil, err
	}
	return modelProbabilities(l.Snapshot().Model().Compact()), nil
}

// learner returns a learner that has learned the events in one pass.
func (s *deathSplit) learner(events []event.Example, settings []string) (*online.Learner, error) {
	loaded, err := config.Load(config.Source{Flags: settings})
	if err != nil {
		return nil, err
	}
	l, err := online.New(loaded.Learner.Among(true, s.group > 1), fieldSchema(s.set, s.columns, s.group))
	if err != nil {
		return nil, err
	}
	for i := range events {
		l.Learn(&events[i], nil)
	}
	return l, nil
}

func modelProbabilities(m *model.Linear) probabilities {
	return func(events []event.Example) ([][]float64, error) {
		scores, out, reader := make([]float64, m.Outputs), make([][]float64, len(events)), model.NewReader(m)
		for i := range events {
			m := reader.For(&events[i])
			out[i] = m.Probabilities(m.Score(&events[i], scores), make([]float64, max(2, m.Outputs)))
		}
		return out, nil
	}
}

// standardizer returns a function that removes the fields of events and standardizes the features. It uses the
// statistics of the complete training events.
func (s *deathSplit) standardizer() (func([]event.Example) []event.Example, error) {
	fit := batch.Standardizer{Mode: model.StandardizeAll}
	train := slices.Clone(s.train)
	for i := range train {
		train[i].Field = nil
		fit.Observe(&train[i], s.schema)
	}
	_, scaler, err := fit.Fit(dataOf(s.schema, train))
	if err != nil {
		return nil, err
	}
	return func(events []event.Example) []event.Example {
		events = slices.Clone(events)
		for i := range events {
			e := &events[i]
			e.Field = nil
			e.Features = scaler.Standardized(e, event.Vec{})
		}
		return events
	}, nil
}

// exact solves logistic regression on the events with the given noise.
func (s *deathSplit) exact(events []event.Example, noise string) (probabilities, error) {
	standardized, err := s.standardizer()
	if err != nil {
		return nil, err
	}
	schema := s.schema.Clone()
	if s.group > 1 {
		schema.ColumnGroups = &event.ColumnGroups{Every: uint32(s.group)}
	}
	d := dataOf(schema, standardized(events))
	dead := standardized([]event.Example{s.died(model.LossDead, &s.train[0], 0, slices.Repeat([]bool{true}, s.groups()))})[0].Features
	d.SetDead(func(column uint32) float64 {
		if i, ok := slices.BinarySearch(dead.Index, column); ok {
			return dead.Value[i]
		}
		return 0
	})
	settings := batch.DefaultConfig()
	settings.Tol, settings.Noise = 1e-4, noise
	solved, err := batch.Train(context.Background(), d, settings)
	if err != nil {
		return nil, err
	}
	answer := modelProbabilities(solved.Model)
	return func(events []event.Example) ([][]float64, error) { return answer(standardized(events)) }, nil
}

// vwLearned lets Vowpal Wabbit learn the events in one pass. The events are standardized as for the exact solver.
func (c *comparison) vwLearned(s *deathSplit, events []event.Example) (probabilities, error) {
	standardized, err := s.standardizer()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.work, "vw")
	if err != nil {
		return nil, err
	}
	data, trained, predictions := filepath.Join(dir, "data"), filepath.Join(dir, "model"), filepath.Join(dir, "predictions")
	classes := len(s.schema.Classes)
	options, ask := vwOptions(s.set, nil), []string{"--quiet", "-t"}
	if classes > 2 {
		options, ask = append(options, "--probabilities"), append(ask, "--probabilities")
	}
	write := func(events []event.Example) error {
		return writeText(data, &set{schema: s.schema, examples: standardized(events)}, true)
	}
	if err := write(events); err != nil {
		return nil, err
	}
	if _, err := command(c.vw, append(options, "-d", data, "-f", trained)...); err != nil {
		return nil, err
	}
	return func(events []event.Example) ([][]float64, error) {
		if err := write(events); err != nil {
			return nil, err
		}
		if _, err := command(c.vw, append(ask, "-i", trained, "-d", data, "-p", predictions)...); err != nil {
			return nil, err
		}
		return vwProbabilities(predictions, classes, len(events))
	}, nil
}

// vwProbabilities reads Vowpal Wabbit's predictions: a score for two classes, otherwise CLASS:PROBABILITY for each
// class.
func vwProbabilities(name string, classes, events int) (out [][]float64, err error) {
	err = eachPrediction(name, events, func(words []string) (err error) {
		p := make([]float64, classes)
		if classes == 2 {
			score, err := strconv.ParseFloat(words[0], 64)
			p[1] = 1 / (1 + math.Exp(-score))
			p[0] = 1 - p[1]
			out = append(out, p)
			return err
		}
		for i := range p {
			_, number, _ := strings.Cut(words[min(i, len(words)-1)], ":")
			if p[i], err = strconv.ParseFloat(number, 64); err != nil {
				return err
			}
		}
		out = append(out, p)
		return nil
	})
	return out, err
}

// deathOutcome holds the errors in % and the log-losses, by split and fraction of failures.
type deathOutcome struct{ wrong, logLoss [][]float64 }

// measured measures a model on the test events at each fraction of failures.
func (s *deathSplit) measured(answer probabilities, kind model.LossKind) (wrong, logLoss []float64, err error) {
	dead := make([]bool, s.groups())
	for _, fraction := range deathFractions {
		events := make([]event.Example, len(s.test))
		for i := range s.test {
			for g, from := range s.dies[i] {
				dead[g] = from < fraction
			}
			events[i] = s.died(kind, &s.test[i], i, dead)
		}
		all, err := answer(events)
		if err != nil {
			return nil, nil, err
		}
		var sum sums.Classes
		for i, p := range all {
			sum.Add(floats.MaxIdx(p) == s.test[i].Label, 1, sums.LogLoss(p[s.test[i].Label]), 1)
		}
		wrong, logLoss = append(wrong, 100*sum.Error()), append(logLoss, sum.MeanLogLoss())
	}
	return wrong, logLoss, nil
}

// silentTables compares ways to learn on events with failed features.
func (c *comparison) silentTables() error {
	rows, err := c.deathRows()
	if err != nil {
		return err
	}
	if c.silent.group < 1 || c.silent.splits < 2 || !slices.Contains([]string{"auto", readsMean, readsZero}, c.silent.dead) {
		return errors.New("want -group of at least 1, -splits of at least 2 and -dead auto, mean or zero")
	}
	names := strings.Split(cmp.Or(c.silent.sets, silentSets), ",")
	short, less := map[model.LossKind][]string{}, map[model.LossKind][]string{}
	for _, kind := range lossKinds {
		short[kind], less[kind] = make([]string, len(rows)), make([]string, len(rows))
	}
	for _, name := range names {
		d, err := c.loadDeath(name)
		if err != nil {
			return err
		}
		outcomes, err := c.deathOutcomes(d, rows)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		what := "features"
		if d.group > 1 {
			what = fmt.Sprintf("groups of %d features", d.group)
		}
		reads := map[model.LossKind]string{model.LossDead: "read their mean", model.LossStale: "read what they read in a training event", model.LossDeclared: "are null"}
		if d.reads == readsZero {
			reads[model.LossDead] = "read 0"
		}
		for _, kind := range lossKinds {
			fmt.Fprintf(c.w, "### %s, %s: %s %s\n\n", d.name, kind, what, reads[kind])
			columns := []string{"error in %, log-loss"}
			for _, fraction := range deathFractions {
				columns = append(columns, fmt.Sprintf("%.0f %%", 100*fraction))
			}
			c.header(append(columns, "30 to 70 % less "+rows[0].name)...)
			for i := range rows {
				fmt.Fprintf(c.w, "| %s |%s\n", rows[i].name, outcomes[kind][i].cells(outcomes[kind][0]))
				short[kind][i] += outcomes[kind][i].short()
				less[kind][i] += " " + outcomes[kind][i].less(outcomes[kind][0]) + " |"
			}
			fmt.Fprintln(c.w)
		}
	}
	for _, kind := range lossKinds {
		for _, table := range []struct {
			title string
			cells []string
		}{
			{"error in %, with 0 / 30 50 70 % lost", short[kind]},
			{"error in points less " + rows[0].name + ", mean over 30, 50 and 70 % lost", less[kind]},
		} {
			fmt.Fprintf(c.w, "### %s: %s\n\n| | %s |\n|%s\n", kind, table.title, strings.Join(names, " | "), strings.Repeat("---|", 1+len(names)))
			for i := range rows {
				fmt.Fprintf(c.w, "| %s |%s\n", rows[i].name, table.cells[i])
			}
			fmt.Fprintln(c.w)
		}
	}
	return nil
}

// at returns the numbers at one fraction of failures, by split.
func at(all [][]float64, fraction int) []float64 {
	out := make([]float64, len(all))
	for split := range all {
		out[split] = all[split][fraction]
	}
	return out
}

// short returns the mean errors as text, without their standard errors.
func (o deathOutcome) short() string {
	means := make([]string, len(deathFractions))
	for i := range means {
		means[i] = fmt.Sprintf("%.1f", stat.Mean(at(o.wrong, i), nil))
	}
	return " " + means[0] + " / " + strings.Join(means[1:], " ") + " |"
}

// cells returns the means over the splits with their standard errors, and the paired difference from the row first.
func (o deathOutcome) cells(first deathOutcome) string {
	var b strings.Builder
	for i := range deathFractions {
		fmt.Fprintf(&b, " %s, %s |", meanError(at(o.wrong, i), "%.1f"), meanError(at(o.logLoss, i), "%.3f"))
	}
	return b.String() + " " + o.less(first) + " |"
}

// less returns the mean error with failed features minus the mean error of the row first, paired by split.
func (o deathOutcome) less(first deathOutcome) string {
	less := make([]float64, len(o.wrong))
	for split := range less {
		for i := range deathFractions[1:] {
			less[split] += (o.wrong[split][i+1] - first.wrong[split][i+1]) / float64(len(deathFractions)-1)
		}
	}
	return meanError(less, "%+.1f")
}

func meanError(each []float64, format string) string {
	mean, deviation := stat.MeanStdDev(each, nil)
	return fmt.Sprintf(format+" ± "+strings.Replace(format, "+", "", 1), mean, stat.StdErr(deviation, float64(len(each))))
}

// deathOutcomes returns the outcomes of all rows, by kind of loss.
func (c *comparison) deathOutcomes(d *deathSet, rows []deathRow) (map[model.LossKind][]deathOutcome, error) {
	out := map[model.LossKind][]deathOutcome{}
	splits := make([]*deathSplit, c.silent.splits)
	for i := range splits {
		splits[i] = d.split(&c.silent, 500+uint64(i))
	}
	for _, kind := range lossKinds {
		for range rows {
			out[kind] = append(out[kind], deathOutcome{make([][]float64, len(splits)), make([][]float64, len(splits))})
		}
	}
	failed := make([]error, len(rows)*len(splits))
	batch.Parallel(runtime.GOMAXPROCS(0), len(failed), func(task int) {
		i, at := task/len(splits), task%len(splits)
		row, s := rows[i], splits[at]
		answer, err := row.learn(s)
		for _, kind := range lossKinds {
			measured := kind
			if row.peer && kind == model.LossDeclared {
				measured = model.LossDead
			}
			if o := out[kind][i]; err == nil {
				o.wrong[at], o.logLoss[at], err = s.measured(answer, measured)
			}
		}
		if err != nil {
			failed[task] = fmt.Errorf("%s: %w", row.name, err)
		}
	})
	return out, errors.Join(failed...)
}
