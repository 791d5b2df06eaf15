package main

// This file compares two learners on the same events and masks, by paired differences.

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
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
	"sync"
	"sync/atomic"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"blankout/batch"
	"blankout/config"
	"blankout/internal/event"
	"blankout/internal/loss"
	sums "blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
	"blankout/stream/record"
)

// contender is a learner in a comparison. A prediction has the probability of each class, or one number for regression.
// A prediction is valid until the next call.
type contender interface {
	// Learn learns an event. It returns the prediction that the contender made before learning.
	Learn(e *event.Example) []float64
	// Freeze returns the prediction function of the current model. Use it before the next call of Learn.
	Freeze() func(e *event.Example) []float64
}

// contenders are the learners that the flag -learners can name.
var contenders = map[string]func(online.Config, *event.Schema) (contender, error){
	"default": newLearner,
	"adagrad": func(c online.Config, s *event.Schema) (contender, error) {
		c.Optimizer = "adagrad"
		return newLearner(c, s)
	},
	"plain": func(c online.Config, s *event.Schema) (contender, error) {
		c.Optimizer, c.Calibrate, c.OnDrift, c.Presence = "adagrad", "off", "log", "none"
		return newLearner(c, s)
	},
}

// learner implements contender for an online.Learner.
type learner struct {
	l   *online.Learner
	out []float64
}

func newLearner(c online.Config, s *event.Schema) (contender, error) {
	l, err := online.New(c, s)
	return &learner{l: l}, err
}

func (l *learner) Learn(e *event.Example) []float64 {
	p := l.l.Learn(e, nil)
	l.out = slices.Grow(l.out[:0], max(2, len(p.Scores)))
	if p.Loss != nil {
		return append(l.out, p.Value)
	}
	return p.Decision.Probabilities(p.Scores, l.out)
}

func (l *learner) Freeze() func(e *event.Example) []float64 {
	return modelPrediction(l.l.Snapshot().Model().Compact())
}

// modelPrediction returns the prediction function of a model.
func modelPrediction(m *model.Linear) func(e *event.Example) []float64 {
	scores, out := make([]float64, m.Outputs), make([]float64, 0, max(2, m.Outputs))
	return func(e *event.Example) []float64 {
		m.Score(e, scores)
		if m.Schema.Target != loss.Sign {
			return append(out, m.Value(scores[0]))
		}
		return m.Probabilities(scores, out)
	}
}

// trial is a data set that two learners learn. The files of the data set are in a folder of -data or at a path in the
// repository.
type trial struct {
	name, train, test string // without test the set is a stream, whose model is frozen several times
	most              int    // largest number of events to learn; 0 means all

	once        sync.Once // reads the rows
	err         error
	left        atomic.Int32 // number of outcomes that need the rows
	columns     int
	labels      int        // number of classes
	first, rest []trialRow // rows of train and of test
	unit        trialUnit  // for regression only
}

// trialRow is one event of a trial, with its label.
type trialRow struct {
	label string
	x     event.Vec
}

// trialUnit makes regression losses comparable between sets. Absolute errors are divided by a hundredth of the error of
// predicting the mean, squared errors by the variance.
type trialUnit struct{ absolute, squared float64 }

// mostColumns is the largest number of columns of a set that is written as JSON with a field for each column. In larger
// sets, an event is one text.
const mostColumns = 800

func trials() []*trial {
	return []*trial{
		{name: "imdb", train: "train.svm.gz", test: "test.svm.gz"}, {name: "mnist", train: "train-images-idx3-ubyte.gz", test: "t10k-images-idx3-ubyte.gz", most: 10_000},
		{name: "usps", train: "train.svm.gz", test: "test.svm.gz"}, {name: "gas_drift", train: "stream.svm.gz"},
		{name: "w8a", train: "train.svm.gz", test: "test.svm.gz"}, {name: "talkingdata_clicks", train: "stream.svm.gz"}, {name: "a9a", train: "train.svm.gz", test: "test.svm.gz"},
		{name: "airlines_50k", train: "stream.svm.gz"}, {name: "elec2", train: "stream.svm.gz"}, {name: "sea", train: "stream.svm.gz"},
		{name: "covtype_10k", train: "train.svm.gz", test: "test.svm.gz"}, {name: "outdoor", train: "stream.svm.gz"}, {name: "spam_stream", train: "stream.svm.gz"},
		{name: "mushrooms", train: "train.svm.gz", test: "test.svm.gz"}, {name: "spambase", train: "train.svm.gz", test: "test.svm.gz"},
		{name: "amazon_books", train: "train.svm.gz", test: "test.svm.gz"}, {name: "rcv1_small", train: "train.svm.gz", test: "test.svm.gz"},
		{name: "rt_polarity", train: "all.svm.gz"}, {name: "subj", train: "all.svm.gz"}, {name: "digits", train: "stream.svm.gz"},
		{name: "chick_weights", train: "tests/testdata/numbers/chick_weights.jsonl.gz"}, {name: "trump_approval", train: "tests/testdata/numbers/trump_approval.jsonl.gz"},
		{name: "diabetes", train: "tests/testdata/numbers/diabetes.jsonl.gz"},
	}
}

// numbers reports whether the labels are regression targets.
func (t *trial) numbers() bool { return strings.HasSuffix(t.train, ".jsonl.gz") }

// read loads the files of the trial.
func (t *trial) read(c *comparison) error {
	t.once.Do(func() { t.err = t.readRows(c) })
	return t.err
}

func (t *trial) readRows(c *comparison) error {
	if t.numbers() {
		return t.readNumbers()
	}
	for name, rows := range map[string]*[]trialRow{t.train: &t.first, t.test: &t.rest} {
		if name == "" {
			continue
		}
		s, err := read(c.path(t.name, name), record.DefaultConfig())
		if err != nil {
			return err
		}
		t.labels = max(t.labels, len(s.schema.Classes))
		for i := range s.examples {
			x := s.examples[i].Features
			*rows = append(*rows, trialRow{s.schema.Classes[s.examples[i].Label], x})
			if n := x.Len(); n > 0 {
				t.columns = max(t.columns, int(x.Index[n-1])+1)
			}
		}
	}
	if t.most > 0 {
		t.first = t.first[:min(t.most, len(t.first))]
	}
	r := rand.New(rand.NewPCG(17, 1))
	r.Shuffle(len(t.rest), func(i, j int) { t.rest[i], t.rest[j] = t.rest[j], t.rest[i] })
	t.rest = t.rest[:min(c.silent.test, len(t.rest))]
	return nil
}

// readNumbers reads JSON lines. Each numeric field gets a column, and each value of a text field gets a column.
func (t *trial) readNumbers() (err error) {
	f, err := os.Open(filepath.FromSlash(t.train))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	columns := map[string]uint32{}
	var targets []float64
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var fields map[string]any
		if err := json.Unmarshal(lines.Bytes(), &fields); err != nil {
			return err
		}
		row := trialRow{label: strconv.FormatFloat(fields["label"].(float64), 'g', -1, 64)}
		targets = append(targets, fields["label"].(float64))
		delete(fields, "label")
		values := map[uint32]float64{}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			value, isNumber := fields[name].(float64)
			if !isNumber {
				name, value = name+"="+fields[name].(string), 1
			}
			if _, ok := columns[name]; !ok {
				columns[name] = uint32(len(columns))
			}
			values[columns[name]] = value
		}
		for _, column := range slices.Sorted(maps.Keys(values)) {
			row.x.Index, row.x.Value = append(row.x.Index, column), append(row.x.Value, values[column])
		}
		t.first = append(t.first, row)
	}
	t.columns = len(columns)
	mean, variance := stat.MeanVariance(targets, nil)
	for _, y := range targets {
		t.unit.absolute += math.Abs(y-mean) / float64(len(targets))
	}
	t.unit.squared = variance
	return nil
}

// trialMask specifies the missing features of test events: the fraction of the features, and whether they are declared
// missing or read as 0.
type trialMask struct {
	missing  float64
	declared bool
}

// trialMasks lists all masks. The first mask leaves events complete.
var trialMasks = func() []trialMask {
	out := []trialMask{{}}
	for _, declared := range []bool{true, false} {
		for _, missing := range deathFractions[1:] {
			out = append(out, trialMask{missing, declared})
		}
	}
	return out
}()

func (m trialMask) String() string {
	if m.missing == 0 {
		return "whole"
	}
	return fmt.Sprintf("%s %.0f %%", map[bool]string{true: "declared", false: "silent"}[m.declared], 100*m.missing)
}

// dies returns the smallest missing fraction at which this feature of the i-th test event is missing.
func dies(i int, column uint32) float64 {
	z := (uint64(i)<<32 | uint64(column)) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}

// trialFormat writes the rows of a trial in one record format and decodes them.
type trialFormat struct {
	*trial
	format  string
	text    bool // whether an event is JSON with one text
	decoder record.Decoder
	line    []byte
	missing []uint32
	number  int64
}

const (
	formatJSON    = "json"
	formatSparse  = "svmlight"
	trialTextName = "words"
)

func (t *trial) in(format string) (*trialFormat, record.Config) {
	f := &trialFormat{trial: t, format: format, text: format == formatJSON && t.columns > mostColumns}
	c := record.DefaultConfig()
	c.Format = format
	if f.text {
		c.Text = []string{trialTextName}
	}
	if t.numbers() {
		c.Target = loss.Real
	} else if t.labels == 2 {
		c.MaxClasses = 2
	}
	return f, c
}

// declares reports whether records of the format can declare missing features.
func (f *trialFormat) declares() bool { return !f.text }

// event sets e to a row as the decoder would return it, with the mask of the i-th test event.
func (f *trialFormat) event(row *trialRow, i int, mask trialMask, e *event.Example) error {
	f.missing = f.missing[:0]
	switch {
	case f.format == formatSparse:
		f.writeSparse(row, i, mask)
	case f.text:
		f.writeText(row, i, mask)
	default:
		f.writeFields(row, i, mask)
	}
	f.number++
	*e = event.Example{}
	if err := f.decoder.Decode(context.Background(), record.Record{Value: f.line, Offset: f.number}, e); err != nil {
		return err
	}
	if e.Refused != nil {
		return fmt.Errorf("%s: %w", f.line[:min(len(f.line), 200)], e.Refused)
	}
	if mask.declared && f.format == formatSparse {
		e.MissingColumns = f.missing
	}
	return nil
}

func (f *trialFormat) writeSparse(row *trialRow, i int, mask trialMask) {
	f.line = append(f.line[:0], row.label...)
	for at, column := range row.x.Index {
		if dies(i, column) < mask.missing {
			f.missing = append(f.missing, column) // as predict --delete --declared: a column that is omitted is 0, not missing
			continue
		}
		f.line = strconv.AppendUint(append(f.line, ' '), uint64(column)+1, 10)
		f.line = strconv.AppendFloat(append(f.line, ':'), row.x.Value[at], 'g', -1, 64)
	}
}

func (f *trialFormat) writeText(row *trialRow, i int, mask trialMask) {
	f.line = fmt.Appendf(f.line[:0], `{"label":%q,%q:"`, row.label, trialTextName)
	for at, column := range row.x.Index {
		if dies(i, column) < mask.missing {
			continue
		}
		times := 1
		if x := row.x.Value[at]; x == math.Trunc(x) {
			times = int(min(max(x, 1), 5))
		}
		for range times {
			f.line = append(strconv.AppendUint(append(f.line, 'w'), uint64(column), 10), ' ')
		}
	}
	f.line = append(f.line, `"}`...)
}

func (f *trialFormat) writeFields(row *trialRow, i int, mask trialMask) {
	f.line = fmt.Appendf(f.line[:0], `{"label":%q`, row.label)
	if f.numbers() {
		f.line = fmt.Appendf(f.line[:0], `{"label":%s`, row.label)
	}
	at := 0
	for column := range uint32(f.columns) {
		x := 0.0
		if at < row.x.Len() && row.x.Index[at] == column {
			x = row.x.Value[at]
			at++
		}
		f.line = append(strconv.AppendUint(append(f.line, `,"c`...), uint64(column), 10), `":`...)
		switch dead := dies(i, column) < mask.missing; {
		case dead && mask.declared:
			f.line = append(f.line, "null"...)
		case dead:
			f.line = append(f.line, '0')
		default:
			f.line = strconv.AppendFloat(f.line, x, 'g', -1, 64)
		}
	}
	f.line = append(f.line, '}')
}

// losses holds the error and the loss of each event, in the same order for all learners.
type losses struct{ wrong, loss []float64 }

func (x *losses) add(t *trial, e *event.Example, prediction []float64) {
	if t.numbers() {
		off := math.Abs(prediction[0] - e.Target)
		x.wrong, x.loss = append(x.wrong, 100*off/t.unit.absolute), append(x.loss, off*off/t.unit.squared)
		return
	}
	wrong, p := 100.0, 0.0
	if floats.MaxIdx(prediction) == e.Label {
		wrong = 0
	}
	if e.Label < len(prediction) {
		p = prediction[e.Label]
	}
	x.wrong, x.loss = append(x.wrong, wrong), append(x.loss, sums.LogLoss(p))
}

// trialOutcome holds the losses of a learner while it learns, and the losses of its frozen models for each of
// trialMasks.
type trialOutcome struct {
	learning losses
	frozen   []losses
	seconds  float64
}

// frozenTimes is the number of times that a stream's model is frozen, at even distances. The test set of a frozen model
// has the events that follow.
const frozenTimes = 5

// notLearned reports that a learner does not support the settings of a trial.
type notLearned struct{ error }

// outcome makes one learner learn a trial in one format, and returns the learner's losses.
func (t *trial) outcome(c *comparison, format, learner string, settings online.Config) (*trialOutcome, error) {
	if err := t.read(c); err != nil {
		return nil, err
	}
	begin := time.Now()
	f, rc := t.in(format)
	schema := rc.Schema()
	decoder, err := record.NewDecoder(rc, schema)
	if err != nil {
		return nil, err
	}
	f.decoder = decoder
	if t.numbers() {
		settings.Loss = "squared"
	}
	l, err := contenders[learner](settings.Among(rc.Declares(""), false), schema)
	if err != nil {
		return nil, &notLearned{err}
	}
	out := &trialOutcome{frozen: make([]losses, len(trialMasks))}
	test := func(rows []trialRow, from int) error {
		predict := l.Freeze()
		for at, mask := range trialMasks {
			if mask.declared && !f.declares() {
				continue
			}
			for i := range rows {
				var e event.Example
				if err := f.event(&rows[i], from+i, mask, &e); err != nil {
					return err
				}
				out.frozen[at].add(t, &e, predict(&e))
			}
		}
		return nil
	}
	every := len(t.first) / (frozenTimes + 1)
	for i := range t.first {
		if t.test == "" && i > 0 && i%every == 0 && i/every <= frozenTimes {
			if err := test(t.first[i:i+min(every, c.silent.test/frozenTimes)], i); err != nil {
				return nil, err
			}
		}
		var e event.Example
		if err := f.event(&t.first[i], i, trialMask{}, &e); err != nil {
			return nil, err
		}
		if p := l.Learn(&e); i > 0 || !t.numbers() {
			out.learning.add(t, &e, p)
		}
	}
	if t.test != "" {
		if err := test(t.rest, 0); err != nil {
			return nil, err
		}
	}
	out.seconds = time.Since(begin).Seconds()
	return out, nil
}

// trialPair has the outcomes of both learners for a trial in one format.
type trialPair struct {
	name string
	of   [2]*trialOutcome
	not  error // reason why an outcome is nil
}

// learners writes the section that compares two learners.
func (c *comparison) learners() error {
	names := strings.Split(c.learnersOf, ",")
	if len(names) != 2 || contenders[names[0]] == nil || contenders[names[1]] == nil {
		return fmt.Errorf("-learners %s: want two of %s", c.learnersOf, strings.Join(slices.Sorted(maps.Keys(contenders)), ", "))
	}
	var flags []string
	for setting := range strings.SplitSeq(c.silent.also, ",") {
		if setting != "" {
			flags = append(flags, "learner."+setting)
		}
	}
	loaded, err := config.Load(config.Source{Flags: flags})
	if err != nil {
		return err
	}
	all := trials()
	if c.silent.sets != "" {
		only := strings.Split(c.silent.sets, ",")
		for _, name := range only {
			if !slices.ContainsFunc(all, func(t *trial) bool { return t.name == name }) {
				return fmt.Errorf("-sets %s: there is no such stream", name)
			}
		}
		all = slices.DeleteFunc(all, func(t *trial) bool { return !slices.Contains(only, t.name) })
	}
	begin := time.Now()
	pairs, err := c.trialPairs(all, names, loaded.Learner)
	if err != nil {
		return err
	}
	streams := map[string][]string{} // streams by the reason why they are not learned
	pairs = slices.DeleteFunc(pairs, func(p trialPair) bool {
		if p.not != nil {
			streams[p.not.Error()] = append(streams[p.not.Error()], p.name)
		}
		return p.not != nil
	})
	var left []string
	for _, why := range slices.Sorted(maps.Keys(streams)) {
		left = append(left, fmt.Sprintf("%s (%s)", strings.Join(streams[why], "; "), why))
	}
	if len(pairs) == 0 {
		return fmt.Errorf("no stream is learned by both: %s", strings.Join(left, "; "))
	}
	fmt.Fprintf(c.w, "## Learner %s, and how much more %s loses on the same events\n\n", names[0], names[1])
	if len(flags) > 0 {
		fmt.Fprintf(c.w, "Both with `%s`. ", c.silent.also)
	}
	fmt.Fprintf(c.w, "Every event is scored before it is learned (learning). Then frozen models score at most %d events each, whole or with features\nmissing, null or read as 0: those of a test file by the model of the train file, or of a stream the events that follow %d places.\nDifferences have paired standard errors. Regression has the absolute error in hundredths of that of the mean, and the squared one in variances.\n\n", c.silent.test, frozenTimes)
	c.trialTable("Error, %", "%.2f", pairs, func(l losses) []float64 { return l.wrong })
	c.trialTable("Log-loss", "%.4f", pairs, func(l losses) []float64 { return l.loss })
	fmt.Fprintf(c.w, "Seconds of %s and %s, decoding and scoring included:", names[0], names[1])
	for _, p := range pairs {
		fmt.Fprintf(c.w, " %s %.1f %.1f;", p.name, p.of[0].seconds, p.of[1].seconds)
	}
	fmt.Fprintf(c.w, " all in %.0f.\n\n", time.Since(begin).Seconds())
	if len(left) > 0 {
		fmt.Fprintf(c.w, "Not learned by both: %s.\n\n", strings.Join(left, "; "))
	}
	fmt.Fprintln(c.w, trialVerdict(names[1], pairs))
	fmt.Fprintln(c.w)
	fmt.Fprintln(c.w, declaredVerdict(names[0], pairs))
	return nil
}

// trialPairs makes both learners learn all trials in both formats, concurrently on all cores.
func (c *comparison) trialPairs(all []*trial, names []string, settings online.Config) ([]trialPair, error) {
	formats := []string{formatJSON, formatSparse}
	var pairs []trialPair
	for _, t := range all {
		for _, format := range formats {
			pairs = append(pairs, trialPair{name: t.name + ", " + format})
		}
		t.left.Store(4)
	}
	reasons, failed := make([]*notLearned, 4*len(all)), make([]error, 4*len(all))
	batch.Parallel(runtime.GOMAXPROCS(0), 4*len(all), func(i int) {
		t, format, learner := all[i/4], formats[i/2%2], names[i%2]
		out, err := t.outcome(c, format, learner, settings)
		pairs[i/2].of[i%2] = out
		if !errors.As(err, &reasons[i]) && err != nil {
			failed[i] = fmt.Errorf("%s of %s by %s: %w", format, t.name, learner, err)
		}
		if t.left.Add(-1) == 0 { // frees the memory of the events after the last use
			t.first, t.rest = nil, nil
		}
	})
	for i, not := range reasons {
		if not != nil {
			pairs[i/2].not = not
		}
	}
	return pairs, errors.Join(failed...)
}

// columnsOf returns the losses in the order of the table's columns: learning, then trialMasks.
func (o *trialOutcome) columnsOf() []losses { return append([]losses{o.learning}, o.frozen...) }

func trialColumns() []string {
	names := []string{"learning"}
	for _, m := range trialMasks {
		names = append(names, m.String())
	}
	return names
}

// trialTable writes a table with the means of the first learner, and the differences between the second and the first
// learner.
func (c *comparison) trialTable(title, format string, pairs []trialPair, of func(losses) []float64) {
	fmt.Fprintf(c.w, "### %s\n\n", title)
	c.header(append([]string{"stream"}, trialColumns()...)...)
	for _, p := range pairs {
		fmt.Fprintf(c.w, "| %s |", p.name)
		others := p.of[1].columnsOf()
		for i, first := range p.of[0].columnsOf() {
			if len(of(first)) == 0 {
				fmt.Fprint(c.w, " |")
				continue
			}
			mean, standardError := difference(of(first), of(others[i]))
			fmt.Fprintf(c.w, " "+format+" (%+"+format[1:]+" ± "+format+") |", stat.Mean(of(first), nil), mean, standardError)
		}
		fmt.Fprintln(c.w)
	}
	fmt.Fprintln(c.w)
}

// trialMean is the difference of two means: of two learners, or of one learner in two situations.
type trialMean struct {
	text                string // the measure, the difference and its standard error
	mean, standardError float64
	allowed             float64 // the difference that trialVerdict allows
}

// compared returns the error and the log-loss of b minus the same means of a. It returns nil without events.
func compared(a, b losses) (out []trialMean) {
	if len(a.wrong) == 0 || len(b.wrong) == 0 {
		return nil
	}
	wrong, wrongError := difference(a.wrong, b.wrong)
	loss, lossError := difference(a.loss, b.loss)
	return []trialMean{
		{fmt.Sprintf("error %+.2f ± %.2f", wrong, wrongError), wrong, wrongError, allowedError},
		{fmt.Sprintf("log-loss %+.4f ± %.4f", loss, lossError), loss, lossError, allowedLogLoss},
	}
}

// declaredVerdict names each mean of the first learner that is worse with features declared missing than with the same
// features read as 0, by more than two paired standard errors.
func declaredVerdict(name string, pairs []trialPair) string {
	var worse []string
	means, fractions := 0, len(deathFractions)-1
	for _, p := range pairs {
		for i := range fractions {
			for _, m := range compared(p.of[0].frozen[1+fractions+i], p.of[0].frozen[1+i]) {
				means++
				if !(m.mean <= 2*m.standardError) {
					worse = append(worse, fmt.Sprintf("%s, %s, %s", p.name, trialMasks[1+i], m.text))
				}
			}
		}
	}
	if len(worse) == 0 {
		return fmt.Sprintf("Declared losses are not worse than silent ones with %s, in any of %d means.", name, means)
	}
	return fmt.Sprintf("Declared losses are worse than silent ones with %s in %d of %d means: %s.", name, len(worse), means, strings.Join(worse, "; "))
}

// difference returns the mean of b - a and its standard error over pairs.
func difference(a, b []float64) (mean, standardError float64) {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = b[i] - a[i]
	}
	mean, deviation := stat.MeanStdDev(d, nil)
	return mean, stat.StdErr(deviation, float64(len(d)))
}

// The mean loss of the second learner may exceed the mean of the first learner by these amounts, for any standard
// error.
const allowedError, allowedLogLoss = 0.1, 0.001

// trialVerdict names each stream on which the second learner is worse by more than the allowed difference and by more
// than two paired standard errors. For each stream it names the mean that is worse by the most standard errors.
func trialVerdict(name string, pairs []trialPair) string {
	var worse []string
	all, means := 0, 0 // number of means that are worse, and number of means that differ
	for _, p := range pairs {
		breaches, most, text := 0, 0.0, ""
		others := p.of[1].columnsOf()
		for i, first := range p.of[0].columnsOf() {
			for _, m := range compared(first, others[i]) {
				if m.standardError != 0 {
					means++
				}
				if !(m.mean <= max(m.allowed, 2*m.standardError)) { // also true if the mean is NaN
					breaches++
					if size := m.mean / max(m.standardError, 1e-12); !(size <= most) {
						most, text = size, fmt.Sprintf("%s, %s, %s", p.name, trialColumns()[i], m.text)
					}
				}
			}
		}
		if all += breaches; breaches > 1 {
			text = fmt.Sprintf("%s and %d more", text, breaches-1)
		}
		if breaches > 0 {
			worse = append(worse, text)
		}
	}
	if len(worse) == 0 {
		return fmt.Sprintf("No stream is worse with %s.", name)
	}
	// A normal variable exceeds two standard errors by chance. This estimate includes only the random choice of events.
	// A learner also draws masks, and makes some decisions at certain events only. If the same learner runs twice with
	// different random draws, 114 of these means differ.
	chance := float64(means) * math.Erfc(math.Sqrt2) / 2
	return fmt.Sprintf("Worse with %s are %d of %d, in %d means, where chance alone makes some %.0f of learners that are equally good, and more if they draw other masks: %s.", name, len(worse), len(pairs), all, chance, strings.Join(worse, "; "))
}
