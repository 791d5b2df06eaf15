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
	"strings"
	"testing"

	"blankout/internal/event"
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
