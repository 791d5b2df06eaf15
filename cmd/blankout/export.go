package main

// The command export writes a model as JSON, text or ONNX. The command corrupt writes noisy copies of a data file.

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"blankout/app/served/export"
	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
)

func (p *program) export() *cobra.Command {
	var modelFile, format, missing, out string
	var shard int
	c := &cobra.Command{
		Use:   "export -m MODEL --format json|text|onnx",
		Short: "Write a linear model as JSON, as text or as an ONNX graph",
		Long: `export writes every weight of a linear model, checkpoint or snapshot. text is a line for
each feature with its name or column, the weight of each output, center and scale. json
is one object with everything that a score needs. A feature adds weight (x - center)/scale.

onnx is a graph for ONNX runtimes, with an input for each field or one array of numbered
columns. export refuses a model that ONNX does not support, for instance with text fields.
The graph of a model that imputes has only the policies none and rescale; export warns.
The shards of a group are several models, of which --shard names one.`,
		Example: "  blankout export -m model --format text\n  blankout export -m checkpoints --shard 0 --format json -o shard-0.json\n  blankout export -m model --format json -o model.json\n  blankout export -m model --format onnx --missing-policy rescale -o model.onnx",
		RunE: func(*cobra.Command, []string) error {
			policy, err := model.ParseMissingPolicy(missing)
			if err != nil {
				err = fmt.Errorf("--missing-policy %w", err)
			}
			if !slices.Contains(export.Formats, format) {
				err = fmt.Errorf("--format %q: want one of %s", format, strings.Join(export.Formats, ", "))
			} else if err == nil && policy != model.MissingAuto && format != "onnx" {
				err = fmt.Errorf("--missing-policy %s: needs --format onnx; %s contains only weights", policy, format)
			}
			if err != nil {
				return usageError{err}
			}
			return p.runExport(modelFile, shard, format, policy, out)
		},
	}
	f := c.Flags()
	f.StringVarP(&modelFile, "model", "m", "", "model, checkpoint or snapshot `FILE`, or a directory of checkpoints")
	f.StringVar(&format, "format", "text", "json, text or onnx")
	f.StringVar(&missing, "missing-policy", "auto", "missing `POLICY` of the onnx graph: none, rescale or auto")
	f.IntVar(&shard, "shard", -1, "`NUMBER` of one shard of a group")
	f.StringVarP(&out, "output", "o", "-", "`FILE` to write (- is standard output)")
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(export.Formats, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("missing-policy", cobra.FixedCompletions([]string{"auto", "none", "rescale"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// runExport writes a model, or one shard of a group if shard is not negative.
func (p *program) runExport(modelFile string, shard int, format string, policy model.MissingPolicy, out string) error {
	m, err := readAnswering(modelFile)
	switch {
	case err != nil:
		return err
	case shard >= 0:
		if m, err = m.OneShard(shard); err != nil {
			return usageError{fmt.Errorf("%s: --shard: %w", event.Address(modelFile), err)}
		}
	case m.Shards() != nil:
		return usageError{fmt.Errorf("%s: the shards of a group are several models, and their mean is none that can be exported: name one with --shard 0 to %d, or ask the group over HTTP", event.Address(modelFile), len(m.Shards())-1)}
	}
	p.warnStale(m)
	var b bytes.Buffer
	notes, err := export.Write(&b, m, format, policy)
	if err != nil {
		err = fmt.Errorf("%s: %w", modelFile, err)
		if refused := (*export.RefusedError)(nil); errors.As(err, &refused) {
			return usageError{err}
		}
		return err
	}
	w, err := p.create(out)
	if err != nil {
		return err
	}
	p.warn(notes...)
	_, err = w.Write(b.Bytes())
	return errors.Join(err, w.Close())
}

type corruptFlags struct {
	data  dataFlags
	model string
	noise string
	// deletes holds the probabilities of deleting features and groups. "" means no deletion.
	deletes [2]string
	copies  int
	scale   bool
	seed    uint64
	out     string
}

func (p *program) corrupt() *cobra.Command {
	var o corruptFlags
	c := &cobra.Command{
		Use:   "corrupt -d FILE --noise dropout:Q --copies M -o FILE",
		Short: "Write corrupted copies of examples",
		Long: `corrupt writes noisy copies of every example as svmlight, for other learners. Dropout does
not change the survivors; --rescale multiplies them by 1/(1-Q). The first copies have the
masks of predict --delete with the same seed. With -m, corrupt reads examples with the
settings, columns, names and groups of a model.`,
		Example: "  blankout corrupt -d train.svm --noise dropout:0.5 --copies 10 --rescale --seed 1 -o copies.svm\n" +
			"  blankout corrupt -d train.svm --noise dropout:0.5 --copies 3 -o copies.svm --json\n" +
			"  blankout corrupt -d sensors.svm --groups every:2 --delete 0.1 --delete-groups 0.5 -o deleted.svm\n" +
			"  blankout corrupt -m model -d mails.jsonl --refused skip --noise dropout:0.5 -o copies.svm",
		RunE: func(c *cobra.Command, _ []string) error {
			noise, err := o.parseNoise(c.Flags().Changed("noise"))
			if err == nil && p.json && o.out == "-" {
				err = errors.New("--json and the copies cannot both use standard output: name a file with -o")
			}
			if err == nil && (o.copies < 1 || o.copies > 1<<16) {
				err = fmt.Errorf("--copies %d: want 1 to %d", o.copies, 1<<16)
			}
			if err == nil {
				if c0, _, _ := noise.Coefficients(); c0 != 0 {
					err = fmt.Errorf("noise %v also changes absent features, which a sparse file cannot hold: use dropout, group or poisson", noise)
				}
			}
			if err != nil {
				return usageError{err}
			}
			return p.runCorrupt(c, &o, noise)
		},
	}
	o.data.addForModel(c)
	f := c.Flags()
	f.StringVarP(&o.model, "model", "m", "", "model, checkpoint or snapshot `FILE`, or a directory of checkpoints")
	f.StringVar(&o.noise, "noise", "dropout:0.5", "dropout:Q, group:Q, dropout:Q+group:Q or poisson")
	f.StringVar(&o.deletes[0], "delete", "", "short for --noise dropout:`D`")
	f.StringVar(&o.deletes[1], "delete-groups", "", "short for --noise group:`D`; with --delete for dropout:D+group:D")
	f.IntVar(&o.copies, "copies", 1, "copies of every example")
	f.BoolVar(&o.scale, "rescale", false, "multiply the survivors of dropout by 1/(1-Q)")
	f.Uint64Var(&o.seed, "seed", 0, "seed of all random draws")
	f.StringVarP(&o.out, "output", "o", "-", "`FILE` to write (- is standard output)")
	p.addJSON(c)
	return c
}

// parseNoise returns the noise of --noise, or of the flags that are abbreviations of a noise.
func (o *corruptFlags) parseNoise(named bool) (loss.Noise, error) {
	var parts []string
	for i, name := range []string{"dropout:", "group:"} {
		if o.deletes[i] != "" {
			parts = append(parts, name+o.deletes[i])
		}
	}
	switch {
	case len(parts) == 0:
		return loss.ParseNoise(o.noise)
	case named:
		return nil, errors.New("--delete and --delete-groups stand for a --noise: give either them or --noise")
	}
	return loss.ParseNoise(strings.Join(parts, "+"))
}

// corruptSchema determines how examples are read. It returns the model's Schema or, without a model, a new one.
func (p *program) corruptSchema(o *corruptFlags) (*event.Schema, error) {
	if o.model == "" {
		if err := o.data.resolve(nil); err != nil {
			return nil, err
		}
		return o.data.record.Schema(), nil
	}
	m, err := readModel(o.model)
	if err != nil {
		return nil, err
	}
	if err := o.data.resolve(m); err != nil {
		return nil, err
	}
	p.printFormat(&o.data.settings, m)
	o.data.regroup(m.Schema)
	schema := m.Schema.Clone()
	if loss.IsRegression(m.Loss) {
		// The file may be from a version that treated regression targets as classes.
		schema.Target, schema.Classes = loss.LabelsOf(m.Loss), nil
	} else {
		schema.MaxClasses = max(maxClasses, len(schema.Classes)) // copies may have labels that the model has not seen
	}
	return schema, nil
}

// isSvmlightLabel reports whether a class is valid as the label of an svmlight line.
func isSvmlightLabel(class string) bool {
	x, err := strconv.ParseFloat(class, 64)
	return class != "" && !strings.ContainsAny(class, " \t\r\n\v\f#:,") && (err != nil || !math.IsNaN(x) && !math.IsInf(x, 0))
}

func (p *program) runCorrupt(c *cobra.Command, o *corruptFlags, noise loss.Noise) error {
	schema, err := p.corruptSchema(o)
	if err != nil {
		return err
	}
	w, err := p.create(o.out)
	if err != nil {
		return err
	}
	corrupter := batch.Corrupter{Noise: noise, Seed: o.seed, Keep: !o.scale, Grouping: model.NewGrouping(schema)}
	_, grouped := noise.(loss.GroupDropout)
	silent, _ := noise.(loss.Silent)
	grouped = grouped || silent.Groups
	_, c1, _ := noise.Coefficients()
	var x event.Vec
	var line []byte
	screen := p.newScreen(10 * time.Second)
	n := 0
	err = o.data.each(c.Context(), o.data.paths, schema, func(e *event.Example) error {
		if e.Weight != 1 {
			return fmt.Errorf("an example has importance %v, which svmlight cannot hold", e.Weight)
		}
		if grouped {
			if err := corrupter.Grouping.Check(); err != nil {
				return err
			}
		}
		label := "0"
		switch numbers := schema.Target != loss.Sign; {
		case numbers && e.Label < 0:
			return unusable{errors.New("no label: svmlight would read it as the number 0")}
		case numbers:
			label = strconv.FormatFloat(e.Target, 'g', -1, 64)
		case e.Label >= 0:
			if label = schema.Classes[e.Label]; !isSvmlightLabel(label) {
				return unusable{fmt.Errorf("class %q: svmlight labels cannot be empty, infinite or contain a space, colon, comma or #: rename the class, or skip it with --refused skip", label)}
			}
		}
		for _, v := range e.Features.Value {
			if c1 != 0 && v < 0 {
				return fmt.Errorf("noise %v: a negative feature", noise)
			}
		}
		for copy := range o.copies {
			x.Index = append(x.Index[:0], e.Features.Index...)
			x.Value = append(x.Value[:0], e.Features.Value...)
			corrupter.Vec(x, e.Field, n, copy)
			keep := 0
			for i, v := range x.Value { // the svmlight format omits zeros
				if v != 0 {
					x.Index[keep], x.Value[keep] = x.Index[i], v
					keep++
				}
			}
			line = append(line[:0], label...)
			for i, column := range x.Index[:keep] {
				index := uint64(column)
				if !schema.ZeroBased {
					index++
				}
				line = strconv.AppendUint(append(line, ' '), index, 10)
				line = strconv.AppendFloat(append(line, ':'), x.Value[i], 'g', -1, 64)
			}
			line = append(line, '\n')
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
		if n++; n%1024 == 0 && screen.due() {
			screen.progress(humanize.Comma(int64(n)) + " examples corrupted")
		}
		return nil
	})
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	screen.done(fmt.Sprintf("%s, %s of each", plural(n, "example"), plural(o.copies, "copy")))
	return p.encode(struct {
		Examples int `json:"examples"`
		Copies   int `json:"copies"` // number of copies of each example
	}{n, o.copies})
}
