package main

// The command inspect shows the content of a checkpoint, snapshot or model.

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/kernel"
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
the features with the largest weights. For a directory it takes the newest checkpoint. The
text has the names of --json; errors are in percent.

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
			if !features {
				return printText(p.stdout, i, textRows, "reliability", "changes", "by_missing")
			}
			if i.Health == nil {
				return fmt.Errorf("inspect --features: %s: this is not a checkpoint; only checkpoints contain the health of fields", i.File)
			}
			if len(i.Health.Fields) == 0 {
				p.note("no field is monitored: the events are too few, or they have no named fields")
			}
			return printText(p.stdout, i.Health, math.MaxInt)
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
	Fields      int             `json:"fields"`   // number of fields of the record that are learned
	Features    int             `json:"features"` // number of inputs with a row of weights, as in the outputs of run and train
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
	i.Events, i.Classes, i.Columns = head.Events, s.Classes, s.Columns()
	for _, f := range s.Fields {
		if f.Name != "" { // the field of columns without a field
			i.Fields++
		}
	}
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
	i.Features, i.Knots = m.Rows.Features(), m.Rows.Len()-m.Rows.Features()
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
