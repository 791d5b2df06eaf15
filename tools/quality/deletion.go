package main

// This file writes the table about deleted pixels.

import (
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
	fmt.Fprint(c.w, "## MNIST with deleted pixels, test error %\n\nOne pass of one against the rest, pixels/255; d is the fraction deleted, survivors are rescaled.\n\n")
	columns := []string{"d, %"}
	for _, d := range deletionLevels {
		columns = append(columns, fmt.Sprintf("%.0f", 100*d))
	}
	c.header(columns...)
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
	learned := func(s *set) *model.Linear {
		_, l := measure(s, config)
		return l.Snapshot().Model().Compact()
	}
	known := *train // the caller declares which pixels are missing
	known.schema = train.schema.Clone()
	known.schema.Absent = event.AbsentMissing
	for _, x := range []struct {
		name  string
		train *set
		of    func(m *model.Linear, s *set, d float64) float64
	}{{"known", &known, knownError}, {"not known", train, testError}} {
		if err := row("online, noise auto, expected_missing = d, "+x.name, func(d float64) (float64, error) {
			config.ExpectedMissing = d
			return x.of(learned(x.train), test, d), nil
		}); err != nil {
			return err
		}
	}
	config.ExpectedMissing = 0
	for _, noise := range []string{"none", "dropout:0.5"} {
		config.Noise = noise
		m := learned(train)
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
	testFile := func(vw bool, d float64) (string, error) {
		name := filepath.Join(c.work, fmt.Sprintf("test-%v-%v", vw, d))
		if _, err := os.Stat(name); err == nil {
			return name, nil
		}
		return name, writeText(name, test, vw, deleted(d, 0, 0))
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
		var changes []func(int, event.Vec) event.Vec
		for i := range p.copies {
			changes = append(changes, deleted(p.q, 1, i))
		}
		err := writeText(data, train, p.vw, changes...)
		if err != nil {
			return err
		}
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
