package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
)

// writeStream writes DIR/elec2/stream.svm.gz. Its events have 8 columns that are all correlated with the class. Some
// values are 0.
func writeStream(t *testing.T, events int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "elec2"), 0o777))
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	r := rand.New(rand.NewPCG(1, 2))
	for range events {
		label := 2*r.IntN(2) - 1
		fmt.Fprintf(z, "%+d", label)
		for i := range 8 {
			if r.IntN(4) > 0 {
				fmt.Fprintf(z, " %d:%g", i+1, float64(label)+2*r.NormFloat64())
			}
		}
		fmt.Fprintln(z)
	}
	must.Do(t, z.Close())
	must.Do(t, os.WriteFile(filepath.Join(dir, "elec2", "stream.svm.gz"), b.Bytes(), 0o666))
	return dir
}

// worseFrozen is a contender that predicts as another contender while it learns. Its frozen model predicts the wrong
// class for every fifth event.
type worseFrozen struct{ contender }

func (w worseFrozen) Freeze() func(e *event.Example) []float64 {
	predict, n := w.contender.Freeze(), 0
	return func(e *event.Example) []float64 {
		p := predict(e)
		if n++; n%5 == 0 && len(p) == 2 {
			return []float64{p[1], p[0]}
		}
		return p
	}
}

// TestLearners checks that a learner is not reported as worse than itself. A worse learner must be reported with all
// its columns. Missing features must increase the error, by different amounts if they are silent or declared.
// Regression, and settings for both learners, must be accepted.
func TestLearners(t *testing.T) {
	contenders["worse"] = func(c online.Config, s *event.Schema) (contender, error) {
		l, err := newLearner(c, s)
		return worseFrozen{l}, err
	}
	defer delete(contenders, "worse")
	contenders["classes"] = func(c online.Config, s *event.Schema) (contender, error) {
		if c.Loss == "squared" {
			return nil, errors.New("no regression")
		}
		return newLearner(c, s)
	}
	defer delete(contenders, "classes")
	data := writeStream(t, 1800)
	t.Chdir(filepath.Join("..", "..")) // the regression data are files of the repository
	table := func(learners, sets, also string) string {
		var out bytes.Buffer
		c := &comparison{data: data, w: &out, learnersOf: learners, silent: silentOptions{sets: sets, also: also, test: 600}}
		must.Do(t, c.learners())
		return out.String()
	}
	last := func(text string) string {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		verdict := lines[len(lines)-1]
		must.True(t, strings.HasPrefix(verdict, "Declared losses are "), "the last line is no verdict on declared losses: %s", verdict)
		return lines[len(lines)-3]
	}
	same := table("default,default", "elec2,chick_weights", "")
	must.Equal(t, last(same), "No stream is worse with default.")
	n := strings.Count(same, "(+0.00 ± 0.00)")
	must.True(t, n == 4*8, "%d columns of errors without a difference, want 32:\n%s", n, same)
	for _, format := range []string{formatJSON, formatSparse} {
		_, row, _ := strings.Cut(same, "| elec2, "+format+" |")
		row, _, _ = strings.Cut(row, "\n")
		var means [8]float64
		for i, cell := range strings.Split(strings.TrimSuffix(row, " |"), "|") {
			_, err := fmt.Sscan(cell, &means[i])
			must.Require(t, err == nil, "%v", row)
		}
		must.True(t, means[0] > 0 && means[0] < 25 && means[1] < 25 && means[4] > means[1]+5 && means[7] > means[1]+5 && means[4] != means[7], "%s: errors %v", format, means)
	}
	if got := last(table("default,worse", "elec2", "")); !strings.HasPrefix(got, "Worse with worse are 2 of 2, in 28 means, where chance alone makes some 1 of learners that are equally good, and more if they draw other masks: elec2, json, ") || strings.Count(got, " and 13 more") != 2 {
		t.Error(got)
	}
	if got := table("default,classes", "elec2,chick_weights", ""); strings.Contains(got, "| chick_weights,") || !strings.Contains(got, "\nNot learned by both: chick_weights, json; chick_weights, svmlight (no regression).\n") || last(got) != "No stream is worse with classes." {
		t.Error(got)
	}
	other := table("default,default", "elec2,chick_weights", "noise=none,optimizer=adagrad")
	must.True(t, other != same && strings.Contains(other, "Both with `noise=none,optimizer=adagrad`."), "the settings change nothing")
	for _, wrong := range []struct{ learners, sets, also string }{{"default", "elec2", ""}, {"default,young", "elec2", ""}, {"default,default", "mine", ""}, {"default,default", "usps", ""}, {"default,default", "elec2", "noise=sand"}, {"default,classes", "chick_weights", ""}} {
		c := &comparison{data: data, w: &bytes.Buffer{}, learnersOf: wrong.learners, silent: silentOptions{sets: wrong.sets, also: wrong.also, test: 600}}
		must.True(t, c.learners() != nil, "no error: %+v", wrong)
	}
}

// TestTrialVerdict checks that the verdict names a stream if one of its means is worse by more than the allowed
// difference and by more than two standard errors.
func TestTrialVerdict(t *testing.T) {
	of := func(wrong, logLoss []float64) *trialOutcome { return &trialOutcome{learning: losses{wrong, logLoss}} }
	zero := []float64{0, 0, 0, 0}
	for _, c := range []struct {
		wrong, logLoss []float64 // losses of the second learner; the first has losses of 0
		worse          bool
	}{
		{zero, zero, false},
		{[]float64{.09, .09, .09, .09}, []float64{.0009, .0009, .0009, .0009}, false},
		{[]float64{.11, .11, .11, .11}, zero, true},
		{zero, []float64{.0011, .0011, .0011, .0011}, true},
		{[]float64{3, -1, 3, -1}, zero, false}, // 1 ± 1.15
		{[]float64{3, 1, 3, 1}, zero, true},    // 2 ± 0.58
		{[]float64{-9, -9, -9, -9}, zero, false},
		{zero, []float64{math.NaN(), 0, 0, 0}, true},
	} {
		got := trialVerdict("b", []trialPair{{"x", [2]*trialOutcome{of(zero, zero), of(c.wrong, c.logLoss)}, nil}})
		must.True(t, (strings.HasPrefix(got, "Worse with b are 1 of 1, in 1 means, ") && strings.Contains(got, "equally good, and more if they draw other masks: x, learning, ")) == c.worse && c.worse != (got == "No stream is worse with b."),
			"%v %v: %s", c.wrong, c.logLoss, got)
	}
}

// writeDeathSet writes a set with three numeric fields that are all correlated with the class.
func writeDeathSet(t *testing.T, events int) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "mine"), 0o777))
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	b.WriteString("label,a,b,c\n")
	for range events {
		label := r.IntN(2)
		fmt.Fprintf(&b, "%d", label)
		for i := range 3 {
			fmt.Fprintf(&b, ",%g", float64(10*i)+float64(label)+0.5*r.NormFloat64())
		}
		b.WriteByte('\n')
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "mine", "stream.csv"), b.Bytes(), 0o666))
	return dir
}

// TestSilentTables checks that there is a table with every row for each kind of loss. A peer must have the same errors
// for dead and for declared features. Predictions for complete events must be equal in all tables. Failures must
// increase the error.
func TestSilentTables(t *testing.T) {
	var out bytes.Buffer
	c := &comparison{data: writeDeathSet(t, 600), w: &out, silent: silentOptions{sets: "mine", also: "noise=dropout:0.3,calibrate=off", dead: "auto", splits: 2, learn: 300, test: 200, group: 1, copies: 3}}
	must.Do(t, c.silentTables())
	tables := strings.Split(strings.TrimSpace(out.String()), "### ")[1:]
	must.Require(t, len(tables) == 9, "%q", tables)
	for i, title := range []string{"dead: features read their mean", "declared: features are null", "stale: features read what they read in a training event"} {
		means, less := tables[3+2*i], tables[4+2*i]
		must.Require(t, strings.HasPrefix(tables[i], "mine, "+title+"\n") && strings.Count(means, " / ") == 1+9 && strings.Count(less, " ± ") == 9, "%q", tables)
	}
	_, dead, _ := strings.Cut(tables[3], ":")
	for _, table := range tables[5:] {
		_, other, _ := strings.Cut(table, ":")
		must.True(t, dead != other, "two kinds of loss come to the same: %s", table)
	}
	must.True(t, strings.Contains(tables[4], "\n| the default | +0.0 ± 0.0 |\n"), "the first row less itself: %s", tables[4])
	cells := func(table, row string) []string {
		_, line, ok := strings.Cut(table, "\n| "+row+" | ")
		line, _, _ = strings.Cut(line, " |\n")
		must.Require(t, ok, "no row %q in\n%s", row, table)
		return strings.Split(strings.TrimSuffix(line, " |"), " | ")
	}
	for _, row := range []string{"the default", "`expected_missing=0.5`", "`noise=dropout:0.5`", "`silent_missing=0.5`", "dropout descent, clean gradient", "exact logistic regression, the data and 3 copies", "exact logistic regression, `silent:0.5`", "the default, the data and 3 copies", "`noise=dropout:0.3,calibrate=off`"} {
		silent, declared, stale := cells(tables[0], row), cells(tables[1], row), cells(tables[2], row)
		must.True(t, silent[0] == declared[0] && silent[0] == stale[0] && len(silent) == len(deathFractions)+1, "%s: whole events %q silent, %q declared", row, silent, declared)
		must.Equal(t, slices.Equal(silent[:4], declared[:4]), strings.HasPrefix(row, "exact"), row, silent, "silent", declared, "declared: equal")
		for _, lost := range [][]string{silent, stale} {
			var whole, dead float64
			fmt.Sscan(lost[0], &whole)
			fmt.Sscan(lost[3], &dead)
			must.True(t, whole < 20 && dead > whole+5, "%s: %q", row, lost)
		}
	}
	must.Equal(t, cells(tables[0], "the default")[4], "+0.0 ± 0.0", "the first row less itself")
	for _, wrong := range []silentOptions{{sets: "none", dead: "auto", splits: 2, group: 1}, {sets: "mine", rows: "vw", dead: "auto", splits: 2, group: 1}, {sets: "mine", dead: "half", splits: 2, group: 1}, {sets: "mine", also: "noise=sand", dead: "auto", splits: 2, group: 1, learn: 9, test: 9, rows: "default"}} {
		c.silent = wrong
		must.True(t, c.silentTables() != nil, "no error: %+v", wrong)
	}
}

// TestForecasts checks that the forecasts of a learner are near the errors that follow, and that they differ.
func TestForecasts(t *testing.T) {
	var out strings.Builder
	c := &comparison{data: writeDeathSet(t, 1500), w: &out, silent: silentOptions{sets: "mine", dead: "auto", splits: 2, learn: 900, test: 400, group: 1}}
	must.Do(t, c.forecasts())
	row := out.String()[strings.Index(out.String(), "| mine | ")+len("| mine | "):]
	for _, cell := range strings.Split(row, " | ")[:2] {
		var told, served [3]float64
		n, err := fmt.Sscanf(cell, "%f %f %f / %f %f %f", &told[0], &told[1], &told[2], &served[0], &served[1], &served[2])
		must.Require(t, n >= 6, "%v %v", cell, err)
		for i := range told {
			must.True(t, math.Abs(told[i]-served[i]) < 8 && told != served, "forecast %v, measured %v", told, served)
		}
	}
	c.silent.sets = "none"
	must.True(t, c.forecasts() != nil, "no error without the set")
}

// TestDeathSplit checks that failed features read the mean of the training events, or 0, or a reading of a training
// event, or are null. The set of failed
// features must grow with the fraction. Copies must be events of the split in which a fraction of the fields has
// failed.
func TestDeathSplit(t *testing.T) {
	c := &comparison{data: writeDeathSet(t, 400), silent: silentOptions{dead: readsMean, splits: 2, learn: 100, test: 50, group: 2}}
	d, err := c.loadDeath("mine")
	must.Require(t, err == nil && d.columns == 3 && d.groups() == 2 && len(d.examples) == 400, "%v %v", d, err)
	s := d.split(&c.silent, 1)
	must.Require(t, len(s.train) == 100 && len(s.test) == 50 && len(s.dies) == 50, "%v %v %v", len(s.train), len(s.test), len(s.dies))
	mean := [3]float64{}
	for _, e := range s.train {
		for i, x := range e.Features.Value {
			mean[i] += x / 100
		}
	}
	e := &s.test[7]
	half := []bool{true, false}
	silent, declared, stale := s.died(model.LossDead, e, 7, half), s.died(model.LossDeclared, e, 7, half), s.died(model.LossStale, e, 7, half)
	for column := range 2 {
		x := stale.Features.Value[column]
		must.True(t, x != e.Features.Value[column] && slices.ContainsFunc(s.train, func(o event.Example) bool { return o.Features.Value[column] == x }),
			"stale column %d reads %v in place of %v", column, x, e.Features.Value[column])
	}
	x := silent.Features.Value
	must.True(t, math.Abs(x[0]-mean[0]) <= 1e-9 && math.Abs(x[1]-mean[1]) <= 1e-9 && x[2] == e.Features.Value[2] && silent.Missing == nil, "%v of %v: means %v", x, e.Features.Value, mean)
	must.True(t, slices.Equal(declared.Missing, []uint16{1, 2}) && slices.Equal(declared.Features.Value, e.Features.Value[2:]), "declared: %+v", declared)
	copies := s.copied(3)
	dead, whole := 0, 0
	for _, e := range copies {
		x, all := e.Features.Value, true
		for i, column := range []int{0, 2} {
			if math.Abs(x[column]-mean[column]) < 1e-9 {
				dead, all = dead+1, false
			} else if i == 0 && math.Abs(x[1]-mean[1]) < 1e-9 {
				t.Fatal("the second field died without the first")
			}
		}
		if all {
			whole++
		}
	}
	fraction := float64(dead) / (2 * 300)
	must.True(t, len(copies) == 400 && fraction >= .4 && fraction <= .6 && whole >= 150, "%d copies, %g dead, %d whole", len(copies), fraction, whole)
	c.silent.dead = readsZero
	d, err = c.loadDeath("mine")
	must.Require(t, err == nil, "%v", err)
	s = d.split(&c.silent, 1)
	silent = s.died(model.LossDead, e, 7, half)
	must.True(t, silent.Features.Value[0] == 0 && silent.Features.Value[1] == 0, "dead features read %v, want 0", silent.Features.Value)
}

// TestVWProbabilities reads both forms of Vowpal Wabbit's predictions, for two and for more classes.
func TestVWProbabilities(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p")
	for _, x := range []struct {
		text    string
		classes int
		want    float64 // probability of the second class in the last line
	}{{"-1\n0\n", 2, .5}, {"1:0.5 2:0.25 3:0.25\n\n1:0.1 2:0.7 3:0.2\n", 3, .7}} {
		must.Do(t, os.WriteFile(file, []byte(x.text), 0o666))
		p, err := vwProbabilities(file, x.classes, 2)
		must.True(t, err == nil && p[1][1] == x.want && len(p[0]) == x.classes, "%v %v", p, err)
		must.Fails(t, must.Err(vwProbabilities(file, x.classes, 3)), "two predictions for three events")
	}
}

// TestSilently copies an event with nulls. In the copy, whole groups must read the mean of their columns so far. The
// nulls must stay null.
func TestSilently(t *testing.T) {
	const columns = 40
	e := event.Example{Missing: []uint16{1, 2}}
	sum, count := make([]float64, columns), make([]float64, columns)
	for column := range uint32(columns) {
		sum[column], count[column] = 30, 10
		if column > 1 {
			e.Field = append(e.Field, uint16(column+1))
			e.Features.Index, e.Features.Value = append(e.Features.Index, column), append(e.Features.Value, 1)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	dead := 0
	for range 50 {
		c := silently(&e, columns, 2, sum, count, r)
		for i := 0; i < len(c.Features.Value); i += 2 {
			switch pair := [2]float64(c.Features.Value[i : i+2]); pair {
			case [2]float64{3, 3}:
				dead++
			case [2]float64{1, 1}:
			default:
				t.Fatalf("a group reads %v", pair)
			}
		}
		must.Require(t, len(c.Missing) == 2, "the nulls are gone")
	}
	fraction := float64(dead) / (50 * 19)
	must.True(t, fraction >= 0.4 && fraction <= 0.6 && e.Features.Value[0] == 1, "%g of the groups died; the event reads %g", fraction, e.Features.Value[0])
}
