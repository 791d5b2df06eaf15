package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"blankout/batch"
	"blankout/batch/svm"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/served/export"
	"blankout/simulate"
)

// checkSelection returns the first error in the flags for choosing settings.
func (o *trainFlags) checkSelection() error {
	switch {
	case o.folds > 0 && len(o.validation) > 0:
		return fmt.Errorf("--folds and --validation exclude each other")
	case (o.folds > 0 || len(o.validation) > 0) != (len(o.grid) > 0):
		return fmt.Errorf("--grid needs --folds or --validation")
	case len(o.grid) > 0 && loss.IsRegression(o.config.Loss):
		return fmt.Errorf("--grid compares classification errors: loss %s is for regression", o.config.Loss)
	case o.plot != "" && len(o.grid) == 0:
		return fmt.Errorf("--plot needs --grid")
	}
	if ending := filepath.Ext(o.plot); o.plot != "" && ending != ".svg" && ending != ".png" {
		return fmt.Errorf("--plot %s: want a name that ends in .svg or .png", o.plot)
	}
	return nil
}

// deletions are the additional deleted fractions at which the grid is measured, for comparison.
var deletions = []float64{0, 0.1, 0.3, 0.5, 0.7, 0.9}

// parseGrid parses --grid.
func parseGrid(grid []string) (axes []batch.Axis, err error) {
	for _, g := range grid {
		axis, err := batch.ParseAxis(g)
		if err != nil {
			return nil, usageError{fmt.Errorf("--grid %w", err)}
		}
		axes = append(axes, axis)
	}
	return axes, nil
}

// selectSettings chooses settings from the grid and stores the best settings in o. The first deleted fraction in the
// table is the expected fraction. The other fractions are for comparison.
func (p *program) selectSettings(ctx context.Context, o *trainFlags, d *batch.Data, scaler *model.Linear, screen *screen) (*batch.Ranking, error) {
	axes, err := parseGrid(o.grid)
	if err != nil {
		return nil, err
	}
	s := batch.Selection{Folds: o.folds, Seed: o.config.Seed, Threads: o.config.Threads, Deletions: []float64{o.missing}, Silent: o.silent(), Grid: axes}
	for _, q := range deletions {
		if !slices.Contains(s.Deletions, q) {
			s.Deletions = append(s.Deletions, q)
		}
	}
	if len(o.validation) > 0 {
		if s.Validation, err = p.loadValidation(ctx, o, d, scaler); err != nil {
			return nil, err
		}
	}
	s.Progress = func(done, all int) {
		if screen.due() {
			screen.progress(fmt.Sprintf("%d of %d fits", done, all))
		}
	}
	var t *batch.Ranking
	if svm.IsLoss(o.config.Loss) {
		var all []svm.Machine
		if t, all, err = batch.Select(ctx, d, svm.Machine{Config: o.config, Kernel: o.kernel.config}, s); err == nil {
			o.config, o.kernel.config = all[t.Best[0]].Config, all[t.Best[0]].Kernel
		}
	} else {
		var all []batch.Config
		if t, all, err = batch.Select(ctx, d, o.config, s); err == nil {
			o.config = all[t.Best[0]]
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, refusedError{err}
	}
	if !p.quiet {
		w := tabwriter.NewWriter(p.stderr, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(w, "%s\t", strings.Join(t.Keys, "\t"))
		for _, q := range t.Deletions {
			fmt.Fprintf(w, "error %% at %g %%\t", 100*q)
		}
		fmt.Fprintln(w)
		for i, c := range t.Candidates {
			fmt.Fprintf(w, "%s\t", strings.Join(c.Values, "\t"))
			for j, e := range c.Error {
				mark := ""
				if t.Best[j] == i {
					mark = "*"
				}
				fmt.Fprintf(w, "%s%.2f\t", mark, e)
			}
			fmt.Fprintln(w)
		}
		if err := w.Flush(); err != nil {
			return nil, err
		}
		fmt.Fprintf(p.stderr, "chosen for %g %% deleted: %s\n", 100*t.Deletions[0], t.Name(t.Best[0]))
	}
	if o.plot != "" {
		if err := plotTable(t, o.plot); err != nil {
			return nil, fmt.Errorf("plotting the grid: %w", err)
		}
	}
	return t, nil
}

// loadValidation reads the validation set with the same settings as the training set d.
func (p *program) loadValidation(ctx context.Context, o *trainFlags, d *batch.Data, scaler *model.Linear) (*batch.Data, error) {
	schema := d.Schema.Clone()
	known := len(schema.Classes)
	schema.MaxClasses = known + 1 // one more than the existing classes, so that an unseen class can be reported
	var b batch.Builder
	var x event.Vec
	err := o.data.eachPlaced(ctx, o.validation, schema, func(in *packedBatch, i int, _ func() string) error {
		e := &in.Examples[i]
		if e.Label >= known {
			return fmt.Errorf("label %.40q is not one of the training classes %q", in.Schema.Classes[e.Label], d.Schema.Classes)
		}
		if scaler != nil {
			x = scaler.Standardized(e, event.Vec{Index: x.Index[:0], Value: x.Value[:0]})
			e.Features, x = x, e.Features
		}
		return b.Add(e)
	})
	if err != nil {
		return nil, err
	}
	v, err := b.Data(schema).WithClassesOf(d)
	if err == nil && v.Rows() == 0 {
		err = errors.New("no examples")
	}
	if err != nil {
		return nil, refusedError{fmt.Errorf("--validation %s: %w", strings.Join(o.validation, ", "), err)}
	}
	return v, nil
}

// plotTable draws the candidates' errors as a function of the deleted fraction to path. For each numeric setting of the
// grid, it draws the lowest error as a function of the setting to a separate file.
func plotTable(t *batch.Ranking, path string) error {
	order := make([]int, len(t.Deletions))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(t.Deletions[a], t.Deletions[b]) })
	f := simulate.Figure{Title: "Held-out error of the candidates", X: "features deleted (%)", Y: "error (%)"}
	for i, c := range t.Candidates {
		// Many lines cannot be distinguished, so draw only the candidates that are best for some fraction.
		if len(t.Candidates) > 10 && !slices.Contains(t.Best, i) {
			continue
		}
		s := simulate.Series{Name: t.Name(i)}
		for _, j := range order {
			s.X, s.Y = append(s.X, 100*t.Deletions[j]), append(s.Y, c.Error[j])
		}
		f.Series = append(f.Series, s)
	}
	if len(t.Candidates) > 10 {
		f.Title = fmt.Sprintf("Held-out error: the candidates (of %d) that are best at some level", len(t.Candidates))
	}
	if err := f.SaveAs(path); err != nil {
		return err
	}
	for k := range t.Keys {
		f, ok := profile(t, k, order)
		if !ok {
			continue
		}
		ending := filepath.Ext(path)
		if err := f.SaveAs(strings.TrimSuffix(path, ending) + "-" + t.Keys[k] + ending); err != nil {
			return err
		}
	}
	return nil
}

// profile draws the lowest error by the values of setting k, one line for each deleted fraction. It returns false if
// the setting has fewer than two values or a value that is not a number.
func profile(t *batch.Ranking, k int, order []int) (f simulate.Figure, ok bool) {
	var values []float64
	for _, c := range t.Candidates {
		x, err := strconv.ParseFloat(c.Values[k], 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return f, false
		}
		if !slices.Contains(values, x) {
			values = append(values, x)
		}
	}
	slices.Sort(values)
	if len(values) < 2 {
		return f, false
	}
	f = simulate.Figure{Title: "Lowest held-out error over " + t.Keys[k], X: t.Keys[k], Y: "error (%)",
		LogX: values[0] > 0 && values[len(values)-1] >= 20*values[0]}
	for _, j := range order {
		s := simulate.Series{Name: fmt.Sprintf("%g %% deleted", 100*t.Deletions[j]), X: values}
		for _, x := range values {
			lowest := math.Inf(1)
			for _, c := range t.Candidates {
				if v, _ := strconv.ParseFloat(c.Values[k], 64); v == x {
					lowest = min(lowest, c.Error[j])
				}
			}
			s.Y = append(s.Y, lowest)
		}
		f.Series = append(f.Series, s)
	}
	return f, true
}

// place is the origin of an example. The field at is file and line, or topic, partition and offset. The field key is
// the key of the record.
type place struct{ at, key string }

// writeInfluences writes a line of tab-separated values for each example: origin, key, class, and the influence in each
// binary problem. It returns the origins of the examples with the smallest influence.
func (o *trainFlags) writeInfluences(fit *batch.Fit, d *batch.Data) (suspects []string, err error) {
	xi, err := fit.Influences(d, o.config)
	if err != nil {
		return nil, err
	}
	file, err := createFile(o.influences)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := bufio.NewWriter(file)
	fmt.Fprint(w, "place\tkey\tclass")
	classes := d.Schema.Classes
	if len(xi) == 1 {
		fmt.Fprint(w, "\tinfluence")
	}
	for _, name := range export.OutputNames(&fit.Model.Head) {
		fmt.Fprintf(w, "\tinfluence:%s", event.Printable(name))
	}
	fmt.Fprintln(w)
	type suspect struct {
		row   int
		least float64
	}
	var all []suspect
	for i, at := range o.places {
		key, class := "", ""
		if at.key != "" {
			key = strconv.QuoteToGraphic(at.key) // the key may contain tabs
		}
		if k := d.Label(i); k >= 0 {
			class = event.Printable(classes[k])
		}
		fmt.Fprintf(w, "%s\t%s\t%s", at.at, key, class)
		least := math.Inf(1)
		for _, x := range xi {
			fmt.Fprint(w, "\t")
			if !math.IsNaN(x[i]) {
				least = min(least, x[i])
				fmt.Fprintf(w, "%.6g", x[i])
			}
		}
		fmt.Fprintln(w)
		if !math.IsInf(least, 1) {
			all = append(all, suspect{i, least})
		}
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b suspect) int { return cmp.Compare(a.least, b.least) })
	for _, s := range all[:min(len(all), 5)] {
		suspects = append(suspects, fmt.Sprintf("%s (class %s) %.2g", o.places[s.row].at, event.Printable(classes[max(d.Label(s.row), 0)]), s.least))
	}
	return suspects, nil
}
