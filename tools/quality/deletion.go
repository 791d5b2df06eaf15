package main

// This file writes the tables that compare the learner with exact solutions, and the tables about deleted pixels.

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online"
)

// exact compares one or more passes of the learner with the exact solution for the same noise, c, intercept and
// scaling.
func (c *comparison) exact() error {
	sets := []struct {
		name, train, test string
		classes           int
		passes            []int
		noises            []string
		standardize       string
	}{
		{"a9a", "train.svm.gz", "test.svm.gz", 2, []int{1, 10}, []string{"none", "dropout:0.5"}, "none"},
		{"imdb", "train.svm.gz", "test.svm.gz", 2, []int{1}, []string{"none", "dropout:0.5"}, "none"},
		{"mnist", "train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz", 10, []int{1, 10, 30}, []string{"dropout:0.5"}, "none"},
		{"covtype_10k", "train.svm.gz", "test.svm.gz", 7, []int{10, 100}, []string{"none", "dropout:0.5"}, "auto"},
		{"amazon_books", "train.svm.gz", "test.svm.gz", 2, []int{10}, []string{"none", "dropout:0.5"}, "none"},
	}
	fmt.Fprint(c.w, "## Few passes and the exact solution, test error %\n\nAdaGrad at one level and the exact solver under the same noise, c = 1, free intercept and features, `on_drift = \"log\"`. Excess is the objective's, in percent of the exact one.\n\n| set | noise | passes | online | exact | excess |\n|---|---|---|---|---|---|\n")
	for _, d := range sets {
		train, err := load(c.path(d.name, d.train), d.classes)
		if err != nil {
			return err
		}
		test, err := load(c.path(d.name, d.test), d.classes)
		if err != nil {
			return err
		}
		for _, noise := range d.noises {
			config := online.DefaultConfig()
			// The exact problem has no splines, so the learner must have no spline experts.
			config.Optimizer, config.Noise, config.Standardize = "adagrad", noise, d.standardize
			// A drift alarm must not change the learner, because the learner would then no longer approach the optimum
			// for all events.
			config.OnDrift = "log"
			b := batch.DefaultConfig()
			b.Noise = noise
			var fit *batch.Fit
			for _, passes := range d.passes {
				l, err := learn(train, config, passes)
				if err != nil {
					return err
				}
				m := l.Snapshot().Model().Compact()
				if fit == nil || d.standardize != "none" { // standardized features depend on the learner
					if fit, err = exactModel(train, m, b); err != nil {
						return err
					}
				}
				reached := objective(m, train, config)
				fmt.Fprintf(c.w, "| %s | %s | %d | %.2f | %.2f | %.2f |\n", d.name, noise, passes,
					100*testError(m, test, 0), 100*withScaler{m, fit.Model}.testError(test, 0), 100*(reached-fit.Objective)/fit.Objective)
			}
		}
	}
	fmt.Fprintln(c.w)
	return nil
}

// objective returns |w|^2 + kappa sum loss of a model on its training set.
func objective(m *model.Linear, s *set, c online.Config) float64 {
	l, err := loss.Parse(c.Loss)
	if err != nil {
		panic(err)
	}
	noise, err := loss.ParseNoise(m.Noise)
	if err != nil {
		panic(err)
	}
	_, _, c2 := noise.Coefficients()
	sum := 0.0
	for slot := range m.Rows.Len() {
		column, _ := m.Rows.Column(slot)
		for k := range m.Outputs {
			w := m.Weight(column, k)
			sum += w * w
		}
	}
	kappa := loss.Cost(l, c.C)
	scores := make([]float64, m.Outputs)
	for i := range s.examples {
		e := &s.examples[i]
		x := m.Standardized(e, event.Vec{})
		for k, f := range scoreVec(m, x, scores) {
			v := 0.0
			for j, d := range x.Index {
				w := x.Value[j] * m.Weight(d, k)
				v += w * w
			}
			y := -1.0
			if m.Outputs == 1 && e.Label == 1 || m.Outputs > 1 && e.Label == k {
				y = 1
			}
			value, _, _ := l.At(y, f, c2*v)
			sum += kappa * value
		}
	}
	return sum
}

var deletionLevels = []float64{0, .1, .2, .3, .4, .5, .6, .7, .8, .9}

// deletion measures errors on MNIST with pixels deleted at random and the remaining pixels rescaled. It compares the
// learner after one pass, the exact solution, and peers trained on copies with deleted pixels. All of them are tested
// with the same masks.
func (c *comparison) deletion() error {
	train, err := load(c.path("mnist", "train-images-idx3-ubyte.gz"), 10)
	if err != nil {
		return err
	}
	test, err := load(c.path("mnist", "t10k-images-idx3-ubyte.gz"), 10)
	if err != nil {
		return err
	}
	fmt.Fprint(c.w, "## MNIST with deleted pixels, test error %\n\nOne pass of one against the rest, pixels/255; d is the fraction deleted, survivors are rescaled.\n\n| d, % |")
	for _, d := range deletionLevels {
		fmt.Fprintf(c.w, " %.0f |", 100*d)
	}
	fmt.Fprint(c.w, "\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	row := func(name string, wrong func(d float64) (float64, error)) error {
		fmt.Fprintf(c.w, "| %s |", name)
		for _, d := range deletionLevels {
			x, err := wrong(d)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Fprintf(c.w, " %.1f |", 100*x)
		}
		fmt.Fprintln(c.w)
		return nil
	}
	config := online.DefaultConfig()
	config.Standardize = "none"
	known := *train // the caller declares which pixels are missing
	known.schema = train.schema.Clone()
	known.schema.Absent = event.AbsentMissing
	if err := row("online, noise auto, expected_missing = d, known", func(d float64) (float64, error) {
		config.ExpectedMissing = d
		l, err := learn(&known, config, 1)
		if err != nil {
			return 0, err
		}
		return knownError(l.Snapshot().Model().Compact(), test, d), nil
	}); err != nil {
		return err
	}
	if err := row("online, noise auto, expected_missing = d, not known", func(d float64) (float64, error) {
		config.ExpectedMissing = d
		l, err := learn(train, config, 1)
		if err != nil {
			return 0, err
		}
		return testError(l.Snapshot().Model().Compact(), test, d), nil
	}); err != nil {
		return err
	}
	config.ExpectedMissing = 0
	for _, noise := range []string{"none", "dropout:0.5"} {
		config.Noise = noise
		l, err := learn(train, config, 1)
		if err != nil {
			return err
		}
		m := l.Snapshot().Model().Compact()
		if err := row("online, noise "+noise, func(d float64) (float64, error) { return testError(m, test, d), nil }); err != nil {
			return err
		}
		if noise == "none" {
			continue
		}
		b := batch.DefaultConfig()
		b.Noise, b.Tol = noise, 1e-4
		fit, err := exactModel(train, m, b)
		if err != nil {
			return err
		}
		if err := row("exact, noise "+noise, func(d float64) (float64, error) { return testError(fit.Model, test, d), nil }); err != nil {
			return err
		}
	}
	return c.corruptedPeers(train, test, row)
}

// corruptedPeers trains the peers on copies with deleted pixels.
func (c *comparison) corruptedPeers(train, test *set, row func(string, func(float64) (float64, error)) error) error {
	deleted := func(q float64, seed uint64, copy int) func(int, event.Vec) event.Vec {
		x := batch.Corrupter{Noise: loss.Dropout{Q: q}, Seed: seed}
		return func(i int, v event.Vec) event.Vec {
			if q > 0 {
				x.Vec(v, nil, i, copy)
			}
			return v
		}
	}
	copies := func(name string, vw bool, q float64, n int) (err error) {
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w := bufio.NewWriterSize(f, 1<<20)
		for i := range n {
			if err := appendText(w, train, vw, deleted(q, 1, i)); err != nil {
				return err
			}
		}
		return w.Flush()
	}
	type tests map[bool]map[float64]string
	files := tests{true: {}, false: {}}
	testFile := func(vw bool, d float64) (string, error) {
		if files[vw][d] == "" {
			name := filepath.Join(c.work, fmt.Sprintf("test-%v-%v", vw, d))
			if err := writeText(name, test, vw, deleted(d, 0, 0)); err != nil {
				return "", err
			}
			files[vw][d] = name
		}
		return files[vw][d], nil
	}
	data, model, predictions := filepath.Join(c.work, "train"), filepath.Join(c.work, "model"), filepath.Join(c.work, "predictions")
	for _, p := range []struct {
		vw     bool
		q      float64
		copies int
	}{{true, 0, 1}, {true, .5, 1}, {true, .7, 1}, {true, .5, 10}, {false, .5, 1}, {false, .7, 1}} {
		name := "LIBLINEAR"
		if p.vw {
			name = "VW"
		}
		if p.vw && c.vw == "" || !p.vw && c.liblinear == "" {
			continue
		}
		if err := copies(data, p.vw, p.q, p.copies); err != nil {
			return err
		}
		var err error
		if p.vw {
			_, err = command(c.vw, append(vwOptions(train, nil), "-d", data, "-f", model)...)
		} else {
			_, err = command(c.liblinear, "-q", data, model)
		}
		if err != nil {
			return err
		}
		name += ", " + strconv.Itoa(p.copies) + map[bool]string{true: " copy", false: " copies"}[p.copies == 1] + fmt.Sprintf(" at q = %g", p.q)
		if p.q == 0 {
			name = "VW"
		}
		if err := row(name, func(d float64) (float64, error) {
			file, err := testFile(p.vw, d)
			if err != nil {
				return 0, err
			}
			if p.vw {
				_, err = command(c.vw, "--quiet", "-t", "-i", model, "-d", file, "-p", predictions)
			} else {
				_, err = command(filepath.Join(filepath.Dir(c.liblinear), "liblinear-predict"), file, model, predictions)
			}
			if err != nil {
				return 0, err
			}
			m, err := predicted(predictions, test, p.vw)
			return m.wrong, err
		}); err != nil {
			return err
		}
	}
	fmt.Fprintln(c.w)
	return nil
}
