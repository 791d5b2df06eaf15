package main

// The command inspect shows the content of a checkpoint, snapshot or model.

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/kernel"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/internal/run"
	"blankout/online"
	"blankout/online/health"
	"blankout/serve"
)

func (p *program) inspect() *cobra.Command {
	var asJSON bool
	var weights int
	var features bool
	var group, file string
	var settings configFlags
	c := &cobra.Command{
		Use:   "inspect [-m] FILE",
		Short: "Show the contents of a checkpoint, model or snapshot",
		Long: `inspect verifies a file and shows its contents: offsets, settings, the number of events and
the features with the largest weights. For a directory it takes the newest checkpoint.

With --group it reads the commit log of a group of learners instead. It reports the group's
progress, the commits of each member and the refused commits.`,
		Example: "  blankout inspect checkpoints\n" +
			"  blankout inspect checkpoints --weights 3\n" +
			"  blankout inspect checkpoints --features\n" +
			"  blankout inspect checkpoints --json\n" +
			"  blankout inspect --group fraud -f blankout.toml",
		Args: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("model") {
				args = append(args, file)
			}
			if group != "" && len(args) == 0 {
				return nil
			}
			if len(args) != 1 || group != "" {
				return usageError{errors.New("inspect: name one file, a directory of checkpoints, or --group NAME")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if group != "" {
				r, err := p.inspectGroup(c.Context(), []string{group}, &settings)
				if err != nil {
					return fmt.Errorf("inspect: %w", err)
				}
				return p.printGroup(r, asJSON)
			}
			if len(args) > 0 {
				file = args[0]
			}
			i, err := inspectFile(file, weights)
			if err != nil {
				return fmt.Errorf("inspect: %w", err)
			}
			if asJSON {
				return json.NewEncoder(p.stdout).Encode(i)
			}
			out := bufio.NewWriter(p.stdout)
			if features {
				if i.Health == nil {
					return fmt.Errorf("inspect --features: %s: this is not a checkpoint; only checkpoints contain the health of fields", i.File)
				}
				printFeatures(out, i.Health)
			} else {
				i.print(out, isTerminal(p.stdout))
			}
			return out.Flush()
		},
	}
	c.Flags().StringVarP(&file, "model", "m", "", "model, checkpoint or snapshot `FILE`, or a directory of checkpoints, as without -m")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	c.Flags().IntVar(&weights, "weights", 10, "number of largest weights to list for each class")
	c.Flags().BoolVar(&features, "features", false, "show the health of the fields instead: what is missing or has drifted, the worst first")
	c.Flags().StringVar(&group, "group", "", "show the commit log of group `NAME` instead of a file")
	settings.add(c)
	return c
}

// inspection is the JSON output of inspect: the content of a file. Errors are in percent.
type inspection struct {
	File        string          `json:"file"`
	Kind        checkpoint.Kind `json:"kind"`
	Bytes       int64           `json:"bytes"`
	Events      uint64          `json:"events"`
	Classes     []string        `json:"classes"`
	Fields      int             `json:"fields"`
	Features    int             `json:"features"` // number of columns with a row of weights
	Knots       int             `json:"knots"`    // number of further rows, for the knots of splines
	Columns     uint64          `json:"columns"`
	Names       int             `json:"names"`
	Collisions  int             `json:"name_collisions"`
	Memory      int             `json:"memory_bytes"` // memory of the rows
	Loss        string          `json:"loss"`
	Noise       string          `json:"noise"`
	Trained     string          `json:"trained"`
	Standardize string          `json:"standardize"`
	Intercept   []float64       `json:"intercept"`
	Kernel      string          `json:"kernel,omitempty"`
	Vectors     int             `json:"support_vectors,omitempty"` // number of support vectors of the dual, alpha > 0
	Expansion   int             `json:"expansion,omitempty"`       // number of examples used for scoring
	Norm        float64         `json:"weight_norm"`
	Stuck       []stuckField    `json:"stuck,omitempty"`
	// Policies has the weights of the missing policies, if named fields or declared columns can be missing.
	Policies []model.PolicyRange `json:"missing_policies,omitempty"`
	Offsets  event.Offsets       `json:"offsets,omitempty"`
	Progress *online.Summary     `json:"progress,omitempty"` // progress of the learner in a checkpoint
	Warnings []health.Warning    `json:"warnings,omitempty"` // warnings in a checkpoint
	Health   *health.Health      `json:"health,omitempty"`   // health of the fields in a checkpoint
	Snapshot *snapshotID         `json:"snapshot,omitempty"`
	// Learner is the name of the model's learner, if the stream has several learners. For a checkpoint, Learners
	// compares the learners.
	Learner  string                `json:"learner,omitempty"`
	Learners []serve.LearnerReport `json:"learners,omitempty"`
	Largest  [][]namedWeight       `json:"largest_weights"`
	Blocks   []blockSize           `json:"blocks"`
}

// snapshotID identifies a snapshot among a learner's published models.
type snapshotID struct {
	Version   uint64    `json:"version"`
	Published time.Time `json:"published"`
}

// stuckField is a field that the model treats as missing when it has a certain value.
type stuckField struct {
	Field string  `json:"field"`
	Value float64 `json:"value"`
}

type blockSize struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

func inspectFile(path string, weights int) (*inspection, error) {
	file, path, bytes, err := readCheckpoint(path)
	if err != nil {
		return nil, err
	}
	i := &inspection{File: path, Kind: file.Kind, Bytes: int64(bytes)}
	rows := blockSize{Name: "rows"}
	for _, b := range file.Blocks {
		if learner, ok := learnerOfBlock(b.Name); ok {
			if n := len(i.Blocks); n == 0 || i.Blocks[n-1].Name != learner {
				i.Blocks = append(i.Blocks, blockSize{learner, 0})
			}
			i.Blocks[len(i.Blocks)-1].Bytes += len(b.Data)
			continue
		}
		if ok, _ := filepath.Match("rows/*", b.Name); ok {
			rows.Bytes += len(b.Data)
			continue
		}
		i.Blocks = append(i.Blocks, blockSize{b.Name, len(b.Data)})
	}
	i.Blocks = append(i.Blocks, rows)
	trained, err := modelOf(file, path)
	if err != nil {
		return nil, err
	}
	head, s := trained.Head, trained.Schema
	i.Events, i.Classes, i.Fields, i.Columns = head.Events, s.Classes, len(s.Fields), s.Columns()
	i.Names, i.Collisions = s.Names.Len(), s.Collisions()
	i.Loss, i.Noise, i.Trained, i.Standardize, i.Intercept = head.Loss, head.Noise, head.Trained, string(head.Scaler.Mode), head.Intercept
	if k, ok := trained.Model.(*kernel.Model); ok {
		i.Kernel, i.Vectors, i.Expansion = k.Kernel.String(), k.Vectors, k.Support()
	}
	m, ok := trained.Model.(*model.Linear)
	if !ok {
		return i, nil
	}
	i.Memory, i.Norm, i.Largest = m.Rows.Bytes(), m.Norm(), largestWeights(m, weights)
	for slot := range m.Rows.Len() {
		if column, _ := m.Rows.Column(slot); column < model.FirstBasisColumn {
			i.Features++
		} else {
			i.Knots++
		}
	}
	i.Policies = m.Missing.Ranges()
	if m.Faults != nil {
		for _, f := range m.Faults.Stuck {
			i.Stuck = append(i.Stuck, stuckField{s.Fields[f.Field].Name, f.Value})
		}
	}
	// A model file has no stream position, and a snapshot has no history, so these blocks are optional.
	if _, err := event.FindBlock(file.Blocks, "offsets"); err == nil {
		if i.Offsets, err = run.ReadOffsets(file.Blocks); err != nil {
			return nil, refusedError{fmt.Errorf("%s: %w", path, err)}
		}
	}
	if _, err := event.FindBlock(file.Blocks, "summary"); err == nil {
		if i.Progress, err = online.ReadSummary(file.Blocks); err != nil {
			return nil, refusedError{fmt.Errorf("%s: %w", path, err)}
		}
	}
	if i.Learner = trained.Learner; i.Progress != nil {
		if i.Learners, err = learnersOf(file.Blocks, i.Progress); err != nil {
			return nil, refusedError{fmt.Errorf("%s: %w", path, err)}
		}
		for _, x := range i.Learners {
			if x.Lead {
				i.Learner = x.Name
			}
		}
	}
	if i.Warnings, err = health.ReadWarnings(file.Blocks); err != nil {
		return nil, refusedError{fmt.Errorf("%s: %w", path, err)}
	}
	if i.Health, err = health.ReadHealth(file.Blocks); err != nil {
		return nil, refusedError{fmt.Errorf("%s: %w", path, err)}
	}
	if data, err := event.FindBlock(file.Blocks, "snapshot"); err == nil {
		i.Snapshot = &snapshotID{}
		if err := json.Unmarshal(data, i.Snapshot); err != nil {
			return nil, refusedError{fmt.Errorf("%s: block snapshot: %w", path, err)}
		}
	}
	return i, nil
}

// print prints the content of a file. draw adds bar charts as text.
func (i *inspection) print(out *bufio.Writer, draw bool) {
	fmt.Fprintf(out, "%s: %s, %s, all checksums valid\n", i.File, i.Kind, humanize.IBytes(uint64(i.Bytes)))
	switch i.Kind {
	case checkpoint.Kernel:
		fmt.Fprintf(out, "learned       from %s events: %s, loss %s, kernel %s\n", humanize.Comma(int64(i.Events)), i.Trained, i.Loss, i.Kernel)
		fmt.Fprintf(out, "classes       %q\n", i.Classes)
		fmt.Fprintf(out, "support       %s vectors (alpha > 0), %s examples in the expansion, intercept %.4g\n", humanize.Comma(int64(i.Vectors)), humanize.Comma(int64(i.Expansion)), i.Intercept)
	case checkpoint.Linear:
		fmt.Fprintf(out, "learned       from %s events: %s, loss %s, noise %s\n", humanize.Comma(int64(i.Events)), i.Trained, i.Loss, i.Noise)
		fmt.Fprintf(out, "classes       %q\n", i.Classes)
		fmt.Fprintf(out, "features      %s of %s columns, in %s", humanize.Comma(int64(i.Features)), humanize.Comma(int64(i.Columns)), plural(i.Fields, "field"))
		if i.Knots > 0 {
			fmt.Fprintf(out, ", and %s", plural(i.Knots, "knot"))
		}
		if i.Names > 0 {
			fmt.Fprintf(out, "; %s known, %s of them share a column", plural(i.Names, "name"), humanize.Comma(int64(i.Collisions)))
		}
		fmt.Fprintln(out)
		fmt.Fprintf(out, "memory        %s of rows\n", humanize.IBytes(uint64(i.Memory)))
		fmt.Fprintf(out, "weights       norm %.4g, intercept %.4g\n", i.Norm, i.Intercept)
	}
	if s := i.Snapshot; s != nil && s.Version > 0 {
		fmt.Fprintf(out, "snapshot      version %d, published %s\n", s.Version, s.Published.UTC().Format(time.RFC3339))
	}
	for _, s := range i.Stuck {
		fmt.Fprintf(out, "stuck         %s is missing where it reads %v\n", event.Printable(s.Field), s.Value)
	}
	for _, w := range i.Warnings {
		fmt.Fprintf(out, "warning       %s\n", w.Text)
	}
	if i.Health != nil {
		printAlarms(out, i.Health)
	}
	var levels []string // by range of the missing fraction
	if p := i.Progress; p != nil {
		printProgress(out, p, draw)
		levels = p.LevelsByMissing
	}
	if len(i.Policies) > 0 {
		printPolicies(out, i.Policies, levels)
	}
	printLearners(out, i.Learners)
	if len(i.Offsets) > 0 {
		fmt.Fprintln(out)
		t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "topic\tpartition\tnext offset\trecords\tsum of fingerprints")
		for _, p := range i.Offsets {
			fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%016x\n", p.Topic, p.Partition, p.Next, p.Records, p.Sum)
		}
		t.Flush()
	}
	for _, list := range i.Largest {
		if len(list) == 0 {
			continue
		}
		note := ""
		if slices.ContainsFunc(list, func(w namedWeight) bool { return w.Column >= model.FirstBasisColumn }) {
			note = " (number@x is a spline at x)"
		}
		fmt.Fprintf(out, "\nlargest weights for %s%s\n", event.Printable(list[0].Class), note)
		t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		for _, w := range list {
			fmt.Fprintf(t, "  %.4f\t  %s\n", w.Weight, event.Printable(w.Feature))
		}
		t.Flush()
	}
}

// printProgress prints the quality of the progressive predictions, and the expected errors with missing features.
func printProgress(out *bufio.Writer, s *online.Summary, draw bool) {
	if s.Error != nil && s.LogLoss != nil {
		fmt.Fprintf(out, "progressive   error %.4g %%, log-loss %.4g; lately %.4g %%, %.4g%s\n", *s.Error, *s.LogLoss, *s.RecentError, *s.RecentLogLoss, baselinesLine(s.BaselineReport))
	}
	if s.AUC != nil && s.Recall != nil {
		fmt.Fprintf(out, "              AUC %.4f, average precision %.4f, recall %.3g, calibration error %.3g", *s.AUC, *s.AveragePrecision, *s.Recall, *s.CalibrationError)
		if s.Precision != nil {
			fmt.Fprintf(out, ", precision %.3g", *s.Precision)
		}
		fmt.Fprintln(out)
	}
	if n := s.NumbersSummary; n != nil {
		all := numbersLine(measure.NumbersReport{MAE: n.MAE, RMSE: n.RMSE, R2: n.R2, Deviance: n.Deviance, Coverage: n.Coverage})
		lately := numbersLine(measure.NumbersReport{MAE: n.RecentMAE, RMSE: n.RecentRMSE})
		fmt.Fprintf(out, "progressive   %s; lately %s%s\n", all, lately, baselinesLine(s.BaselineReport))
	}
	for i, r := range s.ByAge {
		name := ""
		if i == 0 {
			name = "staleness"
		}
		fmt.Fprintf(out, "%-13s %s\n", name, ageLine(r))
	}
	if s.Mislabeled > 0 {
		fmt.Fprintf(out, "mislabeled    %s events whose label is probably wrong\n", humanize.Comma(int64(s.Mislabeled)))
	}
	if s.Drift.Alarms > 0 {
		fmt.Fprintf(out, "drift         %s, the latest at event %s: log-loss %.4g, %.4g before\n", plural(int(s.Drift.Alarms), "alarm"), humanize.Comma(int64(s.Drift.Event)), s.Drift.After, s.Drift.Before)
	}
	if len(s.Experts) > 1 {
		var levels, corrections []string
		corrected := 0.0
		for _, e := range s.Experts {
			part := fmt.Sprintf("%s %.1f %%", e.Name, 100*e.Weight)
			if e.Corrects {
				corrections, corrected = append(corrections, part), corrected+e.Weight
			} else {
				levels = append(levels, part)
			}
		}
		fmt.Fprintf(out, "experts       %s\n", strings.Join(levels, ", "))
		if len(corrections) > 0 {
			fmt.Fprintf(out, "              their mixture is corrected by %s; uncorrected %.1f %%\n", strings.Join(corrections, ", "), 100*max(1-corrected, 0))
		}
	}
	for i, x := range s.Sets {
		name, size := "", fmt.Sprintf("%.3g classes", x.Size)
		if i == 0 {
			name = "sets"
		}
		if s.NumbersSummary != nil {
			size = fmt.Sprintf("width %.4g", x.Size)
		}
		fmt.Fprintf(out, "%-13s with %s of the fields missing %.1f %% hold the label, lately %.1f %%, %s\n", name, x.Range, 100*x.Coverage, 100*x.Recent, size)
	}
	classCoverage(out, s.CoverageByClass)
	if s.Forecast == nil {
		return
	}
	forecastTable(out, s, draw, "features", s.Forecast.Declared, s.Forecast.Silent)
	if s.Forecast.DeclaredGroups != nil {
		forecastTable(out, s, draw, "groups", s.Forecast.DeclaredGroups, s.Forecast.SilentGroups)
	}
}

// mostClassLines is the largest number of classes for which inspect prints the coverage.
const mostClassLines = 10

// classCoverage prints, for each class, how often the prediction sets of the class's events contained the class. The
// class with the lowest coverage is first.
func classCoverage(out io.Writer, classes []measure.ClassCoverage) {
	classes = slices.DeleteFunc(slices.Clone(classes), func(c measure.ClassCoverage) bool { return c.Events == 0 })
	slices.SortStableFunc(classes, func(a, b measure.ClassCoverage) int { return cmp.Compare(a.Recent, b.Recent) })
	for i, c := range classes[:min(len(classes), mostClassLines)] {
		name := ""
		if i == 0 {
			name = "by class"
		}
		fmt.Fprintf(out, "%-13s of %s events of %s %.1f %% of the sets hold it, lately %.1f %%\n", name, humanize.Comma(int64(c.Events)), printable([]string{c.Class})[0], 100*c.Coverage, 100*c.Recent)
	}
	if n := len(classes) - mostClassLines; n > 0 {
		fmt.Fprintf(out, "%-13s and %d more classes with higher coverage\n", "", n)
	}
}

// ageLine returns a line about predictions by weights of a given staleness.
func ageLine(r measure.StaleLoss) string {
	told := func(err, logLoss, deviance *float64) string {
		switch {
		case err == nil:
			return "unknown"
		case logLoss != nil:
			return fmt.Sprintf("error %.4g %%, log-loss %.4g", *err, *logLoss)
		case deviance != nil:
			return fmt.Sprintf("MAE %.4g, deviance %.4g", *err, *deviance)
		}
		return fmt.Sprintf("MAE %.4g", *err)
	}
	events := humanize.Comma(int64(r.Events))
	if r.Age == 0 {
		return fmt.Sprintf("current weights: %s, at %s events", told(r.Error, r.LogLoss, r.Deviance), events)
	}
	return fmt.Sprintf("weights %s events old: %s, at %s events; current weights there: %s", humanize.Comma(int64(r.Age)),
		told(r.Error, r.LogLoss, r.Deviance), events, told(r.FreshError, r.FreshLogLoss, r.FreshDeviance))
}

// forecastTable prints the forecast errors for declared and for silent loss.
func forecastTable(out io.Writer, s *online.Summary, draw bool, what string, declared, silent []online.ForecastPoint) {
	measured, format := "error, in %,", "\t%.1f"
	if s.NumbersSummary != nil {
		measured, format = "RMSE", "\t%.4g"
	}
	fmt.Fprintf(out, "\nforecast of the %s if a fraction of the %s goes missing (events with masked fields, predicted before they are learned)\n", measured, what)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for d := range online.ForecastPoints {
		fmt.Fprintf(t, "\t%d %%", 10*d)
	}
	if draw {
		fmt.Fprint(t, "\t")
	}
	fmt.Fprintln(t, "\t")
	for _, row := range []struct {
		name   string
		points []online.ForecastPoint
	}{{"declared", declared}, {"silent", silent}} {
		fmt.Fprint(t, row.name)
		var errors []float64
		for _, p := range row.points {
			fmt.Fprintf(t, format, p.Error)
			errors = append(errors, p.Error)
		}
		if draw {
			fmt.Fprint(t, "\t", sparkline(errors))
		}
		fmt.Fprintln(t, "\t")
	}
	t.Flush()
}

// printPolicies prints, for each range of the missing fraction, the weights of the missing policies and the noise level
// with the largest weight. The argument levels is nil if there is one level.
func printPolicies(out *bufio.Writer, ranges []model.PolicyRange, levels []string) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nfraction missing\tnone\trescale\timpute\t")
	if levels != nil {
		fmt.Fprint(t, "noise level\t")
	}
	fmt.Fprintln(t)
	for bin, r := range ranges {
		fmt.Fprintf(t, "%s\t%.1f %%\t%.1f %%\t%.1f %%\t", r.Missing, 100*r.None, 100*r.Rescale, 100*r.Impute)
		if bin < len(levels) {
			fmt.Fprintf(t, "%s\t", levels[bin])
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}
