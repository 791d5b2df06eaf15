package main

// The command inspect shows the content of a checkpoint, snapshot or model.

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"blankout/app/served"
	"blankout/checkpoint"
	"blankout/internal/event"
	"blankout/internal/kernel"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/health"
	"blankout/serve"
)

func (p *program) inspect() *cobra.Command {
	var weights int
	var features bool
	var file string
	c := &cobra.Command{
		Use:   "inspect [-m] FILE",
		Short: "Show the contents of a checkpoint, model or snapshot",
		Long: `inspect verifies a file and shows its contents: offsets, settings, the number of events and
the features with the largest weights. For a directory it takes the newest checkpoint. For
the directory of a group it shows a row for each shard. The text has the names of --json;
errors are in percent.`,
		Example: "  blankout inspect checkpoints\n" +
			"  blankout inspect checkpoints --weights 3\n" +
			"  blankout inspect checkpoints --features\n" +
			"  blankout inspect checkpoints --json",
		Args: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("model") {
				args = append(args, file)
			}
			if len(args) != 1 {
				return usageError{errors.New("inspect: name one file or a directory of checkpoints")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				file = args[0]
			}
			if directories := served.ShardDirectories(file); len(directories) > 0 {
				return p.inspectShards(directories)
			}
			i, err := inspectFile(file, weights)
			if err != nil {
				return err
			}
			if p.json {
				return p.encode(i)
			}
			if !features {
				return printText(p.stdout, i, textRows, "reliability", "changes", "by_missing")
			}
			if i.Health == nil {
				return fmt.Errorf("--features: %s: this is not a checkpoint; only checkpoints contain the health of fields", i.File)
			}
			if len(i.Health.Fields) == 0 {
				p.note("no field is monitored: the events are too few, or they have no named fields")
			}
			return printText(p.stdout, i.Health, math.MaxInt)
		},
	}
	c.Flags().StringVarP(&file, "model", "m", "", "model, checkpoint or snapshot `FILE`, or a directory of checkpoints")
	p.addJSON(c)
	c.Flags().IntVar(&weights, "weights", 10, "number of largest weights to list for each class")
	c.Flags().BoolVar(&features, "features", false, "show the health of the fields instead, the worst first")
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
	LastLabel   float64         `json:"last_label,omitempty"` // see model.Head
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

// shardsInspection is the JSON output of inspect for the directory of a group.
type shardsInspection struct {
	Shards []inspectedShard `json:"shards"`
}

// inspectedShard describes the newest checkpoint of a shard. The errors are of the shard's own predictions; null without
// events, and for regression.
type inspectedShard struct {
	Shard    string   `json:"shard"`
	File     string   `json:"file"` // "" if there is no checkpoint yet
	Bytes    int64    `json:"bytes"`
	Events   uint64   `json:"events"`
	Features int      `json:"features"`
	Records  uint64   `json:"records"` // records of its partitions, including refused ones
	Error    *float64 `json:"error"`
	LogLoss  *float64 `json:"log_loss"`
}

// inspectShards shows a row for each shard.
func (p *program) inspectShards(directories []string) error {
	var out shardsInspection
	for _, directory := range directories {
		row := inspectedShard{Shard: filepath.Base(directory)}
		i, err := inspectFile(directory, 0)
		switch {
		case errors.Is(err, checkpoint.ErrNone):
		case err != nil:
			return err
		default:
			row.File, row.Bytes, row.Events, row.Features = i.File, i.Bytes, i.Events, i.Features
			for _, at := range i.Offsets {
				row.Records += at.Records
			}
			if i.Progress != nil {
				row.Error, row.LogLoss = i.Progress.Error, i.Progress.LogLoss
			}
		}
		out.Shards = append(out.Shards, row)
	}
	if p.json {
		return p.encode(out)
	}
	return printText(p.stdout, out, math.MaxInt)
}

func inspectFile(path string, weights int) (*inspection, error) {
	read, err := readCheckpoint(path)
	if err != nil {
		return nil, err
	}
	file, trained := read.file, read.model
	path = read.path
	i := &inspection{File: path, Kind: file.Kind, Bytes: int64(read.bytes)}
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
	head, s := trained.Head, trained.Schema
	i.Events, i.Classes, i.Columns = head.Events, s.Classes, s.Columns()
	for _, f := range s.Fields {
		if f.Name != "" { // the field of columns without a field
			i.Fields++
		}
	}
	i.Names, i.Collisions = s.Names.Len(), s.Collisions()
	i.LastLabel = head.LastLabel
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
	i.Offsets = trained.Offsets
	if _, err := event.FindBlock(file.Blocks, "snapshot"); err == nil {
		i.Snapshot = &snapshotID{trained.Version, trained.At}
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
			if x.Leader {
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
	return i, nil
}

// namedWeight is a feature's published weight for one class, with the feature's name. A positive weight is evidence for
// the class.
type namedWeight struct {
	Class   string  `json:"class"`
	Feature string  `json:"feature"`
	Column  uint32  `json:"column"`
	Weight  float64 `json:"weight"`
}

// largestWeights returns, for each named class, the n features with the largest evidence for the class, largest first.
// A model with one output has two lists: negative weights are evidence for the other class. If outputs compare pairs of
// classes, the evidence of a feature is the sum over all pairs that include the class.
func largestWeights(m *model.Linear, n int) [][]namedWeight {
	name := m.Namer()
	classes := m.Schema.Classes
	if loss.IsRegression(m.Loss) {
		classes = []string{"smaller numbers", "larger numbers"}
	}
	var out [][]namedWeight
	for class, className := range classes {
		if className == "" {
			continue
		}
		var list []namedWeight
		side := m.ClassSigns(class)
		for i := range m.Rows.Len() {
			column, row := m.Rows.Column(i)
			if w := m.SideWeight(side, row); w > 0 {
				list = append(list, namedWeight{Class: className, Column: column, Weight: w})
			}
		}
		slices.SortFunc(list, func(a, b namedWeight) int {
			return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Column, b.Column))
		})
		list = list[:min(n, len(list))]
		for i := range list {
			list[i].Feature = name(list[i].Column)
		}
		out = append(out, list)
	}
	return out
}
