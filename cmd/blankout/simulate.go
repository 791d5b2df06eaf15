package main

// The command simulate replays recorded events and removes features from them.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"blankout/app/served"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/simulate"
)

type simulateFlags struct {
	data       dataFlags
	models     []string
	nightmares []string
	deletes    [2]string // fractions of features and of groups to delete
	groups     []string
	declared   bool
	rescale    bool
	missing    string
	maxEvents  int
	replay     simulate.Replay
	out        string
}

func (p *program) simulate() *cobra.Command {
	var o simulateFlags
	c := &cobra.Command{
		Use:   "simulate -m MODEL[,MODEL…] FILE [--nightmare NIGHTMARE] [-o DIR]",
		Short: "Replay recorded events while features die, and measure the error",
		Long: `simulate replays recorded events to models in nightmares: features die, drift
or become noisy. -o writes results.json, results.csv and figures (PNG and SVG)
of the error by the level of the nightmare and over time.

Lost features have three curves with the same masks. Declared: they are missing, and the
missing policy applies. Dead: a number reads its mean or 0, other features are absent;
learner.silent_missing prepares a model for it. Stale: a number or category is that of an
earlier event. The last line compares declared and dead. Without --nightmare, 30, 50 and 70 % of the features die.

  random:SHARE         every feature dies with this probability
  groups:SHARE         every group of features dies (record.groups, --groups, else fields)
  worst:K              the K features that support the true class most die
  group:NAME           a field, a group of fields, or columns by number as in 1-8
  group:*              each field and group in turn
  burst:NAME@A-B       a group dies at event A (from 0) and returns at event B
  block:R,C,H,W        a rectangle of an image; block:SIZE: a square, anywhere
  drift:NAME:A,B       every value x of a group becomes A x + B
  stuck:NAME:VALUE     every value of a group becomes VALUE, detected and undetected
  noise:[NAME:]SD      normal noise is added

With a loss of regression, errors are root mean squared errors (RMSE)
and mean absolute errors (MAE) in the unit of the labels.

The last number may be a list or a range: worst:0,5,10 or random:0..0.9/0.1. A nightmare may
end in @A-B, events or percentages: drift:temperature:1,5@30%-60%.

A checkpoint contains its record settings; flags override them, and -f replaces them.`,
		Example: "  blankout simulate -m model -d test.svm\n" +
			"  blankout simulate -m model -d test.svm --nightmare random:0..0.9/0.1 --repeat 10 --seed 7 -o nightmares\n" +
			"  blankout simulate -m plain=model,robust=model2 -d test.svm --nightmare worst:0,1,2 --nightmare group:2 --json\n" +
			"  blankout simulate -m model -d test.svm --groups every:8 --delete-groups 0,0.3,0.5,0.7 --rescale\n" +
			"  blankout simulate -m plain=model,robust=model2 -d test.svm --nightmare burst:1@30%-60% -o bursts",
		Args: fileArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return usageError{err}
			}
			return p.runSimulate(c.Context(), &o)
		},
	}
	o.data.addForModel(c)
	f := c.Flags()
	f.StringSliceVarP(&o.models, "model", "m", nil, "models, checkpoints or snapshots, `FILE` or NAME=FILE")
	f.StringArrayVar(&o.nightmares, "nightmare", nil, "`NIGHTMARE`; repeat the flag for more tables and figures")
	f.StringVar(&o.deletes[0], "delete", "", "`D,…`: short for --nightmare random:D,…")
	f.StringVar(&o.deletes[1], "delete-groups", "", "`D,…`: short for --nightmare groups:D,…")
	f.StringArrayVar(&o.groups, "group", nil, "`NAME=COLUMNS`: name columns of a sparse format, as in sensor1=1-8,17-24")
	f.BoolVar(&o.declared, "declared", false, "show only the declared curve")
	f.BoolVar(&o.rescale, "rescale", false, "add a curve: drop dead features, and multiply the others by 1/(fraction left)")
	addMissingFlag(c, &o.missing)
	f.IntVar(&o.replay.Repeat, "repeat", 5, "repeat random draws `R` times; two or more give confidence bands")
	f.Uint64Var(&o.replay.Seed, "seed", 0, "seed of all random draws")
	f.IntVar(&o.replay.Bins, "bins", 50, "number of points of the error over time")
	f.IntVar(&o.maxEvents, "max-events", 0, "take the first `N` events only")
	f.IntVar(&o.replay.Threads, "threads", runtime.GOMAXPROCS(0), "at most `N` threads; the result does not depend on it")
	f.StringVarP(&o.out, "output", "o", "", "write tables and figures into `DIR`")
	p.addJSON(c)
	nightmares := []string{"random:0..0.9/0.1", "groups:0..0.9/0.1", "worst:0,1,2,5,10,20", "group:*", "burst:", "block:", "drift:", "stuck:", "noise:"}
	_ = c.RegisterFlagCompletionFunc("nightmare", cobra.FixedCompletions(nightmares, cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp))
	_ = c.MarkFlagDirname("output")
	return c
}

// check sets the options of the replay from the flags, and returns the first error in the flags.
func (o *simulateFlags) check() error {
	r := &o.replay
	for i, name := range []string{"random:", "groups:"} {
		if o.deletes[i] != "" {
			o.nightmares = append(o.nightmares, name+o.deletes[i])
		}
	}
	if len(o.nightmares) == 0 {
		o.nightmares = []string{"random:0.3,0.5,0.7"}
	}
	for _, s := range o.nightmares {
		if s == "group:*" || strings.HasPrefix(s, "group:*@") {
			r.Families = append(r.Families, simulate.Family{Name: s}) // its levels, one per group, need the Schema
			continue
		}
		family, err := simulate.ParseFamily(s)
		if err != nil {
			return err
		}
		r.Families = append(r.Families, family.WithNothing())
	}
	r.Treatments = []simulate.Treatment{{Loss: model.LossDeclared}}
	if !o.declared {
		r.Treatments = append(r.Treatments, simulate.Treatment{Loss: model.LossDead}, simulate.Treatment{Loss: model.LossStale})
	}
	if o.rescale {
		r.Treatments = append(r.Treatments, simulate.Treatment{Loss: model.LossDeclared, Rescale: true})
	}
	if _, err := model.ParseMissingPolicy(o.missing); err != nil {
		return fmt.Errorf("--missing-policy %w", err)
	}
	r.Groups = map[string][]event.Span{}
	for _, g := range o.groups {
		name, columns, ok := strings.Cut(g, "=")
		spans, good := event.ParseSpans(columns, o.data.flags.ZeroBased)
		if !ok || name == "" || !good {
			return fmt.Errorf("--group %q: want NAME=COLUMNS, as in sensor1=1-8,17", g)
		}
		r.Groups[name] = spans
	}
	switch {
	case r.Repeat < 1 || r.Repeat > 1<<15:
		return fmt.Errorf("--repeat %d: want 1 to %d", r.Repeat, 1<<15)
	case r.Bins < 1:
		return fmt.Errorf("--bins %d: want at least 1", r.Bins)
	case len(o.models) == 0:
		return errors.New("name a model with -m")
	case len(o.data.paths) == 0:
		return errors.New("name a file of examples with -d (- is standard input)")
	}
	if n := len(o.data.paths); slices.Contains(o.data.paths, "-") && (n > 1 || len(o.models) > 1) {
		return errors.New("-d -: standard input can be read only once: give one model")
	}
	return nil
}

func (p *program) runSimulate(ctx context.Context, o *simulateFlags) error {
	screen := p.newScreen(10 * time.Second)
	begin := time.Now()
	o.replay.Progress = func(done, all int) {
		if screen.due() {
			screen.progress(fmt.Sprintf("%s of %s replays", humanize.Comma(int64(done)), humanize.Comma(int64(all))))
		}
	}
	subjects, err := p.subjects(ctx, o, screen)
	if err != nil {
		return err
	}
	o.eachGroup(subjects[0].Schema)
	result, err := o.replay.Run(ctx, subjects)
	if err != nil {
		return err
	}
	var files []string
	if o.out != "" {
		if files, err = result.Save(o.out); err != nil {
			return err
		}
		for i := range files {
			files[i] = filepath.Join(o.out, files[i])
		}
	}
	if !p.quiet {
		screen.done(fmt.Sprintf("%s events, %d curves, %.1f s", humanize.Comma(int64(result.Events)), len(result.Curves), time.Since(begin).Seconds()))
		if err := result.WriteTable(p.stderr); err != nil {
			return err
		}
		if text := result.SilentLoss().String(); text != "" {
			fmt.Fprintf(p.stderr, "\n%s\n", text)
		}
		if len(files) > 0 {
			fmt.Fprintf(p.stderr, "\nwritten: %s\n", strings.Join(files, " "))
		}
	}
	return p.encode(struct {
		*simulate.Result
		SilentLoss *simulate.SilentLoss `json:"silent_loss,omitempty"`
		Files      []string             `json:"files"`
		Refused    int                  `json:"refused"`
	}{result, result.SilentLoss(), files, o.data.tally.refused})
}

// eachGroup adds a level for each group to the families that are named group:*.
func (o *simulateFlags) eachGroup(s *event.Schema) {
	for i := range o.replay.Families {
		f := &o.replay.Families[i]
		if f.Levels != nil {
			continue
		}
		_, window, windowed := strings.Cut(f.Name, "@")
		var names []string
		for _, g := range o.groups {
			name, _, _ := strings.Cut(g, "=")
			names = append(names, name)
		}
		for _, field := range s.Fields[1:] {
			if name := cmp.Or(field.Group, field.Name); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		for _, name := range append([]string{""}, names...) {
			text := "none"
			if name != "" {
				text = "group:" + name
				if windowed {
					text += "@" + window
				}
			}
			if n, err := simulate.Parse(text); err == nil {
				f.Levels = append(f.Levels, simulate.Level{Nightmare: n, X: math.NaN()})
			}
		}
	}
}

// subjects reads the models, each with its events.
func (p *program) subjects(ctx context.Context, o *simulateFlags, screen *screen) ([]*simulate.Subject, error) {
	var subjects []*simulate.Subject
	shared := map[string]*simulate.Subject{} // subjects that share events, by Schema and record settings
	for _, path := range eachShard(o.models) {
		name, file, named := strings.Cut(path, "=")
		if !named {
			file = path
			name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		}
		s := &simulate.Subject{Name: name}
		m, err := readModel(file)
		if err != nil {
			return nil, err
		}
		if err := forceMissing(m, model.MissingPolicy(o.missing)); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		s.Model = m.Model
		if loss.IsRegression(m.Loss) {
			// A model file of an earlier version may list regression targets as classes.
			m.Schema.Target, m.Schema.Classes = loss.LabelsOf(m.Loss), nil
		}
		data := o.data
		if err := data.resolve(m); err != nil {
			return nil, err
		}
		data.regroup(m.Schema)
		p.printFormat(&o.data.settings, m)
		key, err := json.Marshal([]any{m.Schema, data.record})
		if err != nil {
			return nil, err
		}
		if same := shared[string(key)]; same != nil {
			s.Examples, s.Schema = same.Examples, same.Schema
		} else {
			if s.Examples, err = o.examples(ctx, &data, data.paths, m.Schema, screen); err != nil {
				return nil, err
			}
			s.Schema, shared[string(key)] = m.Schema, s
		}
		subjects = append(subjects, s)
	}
	for i, s := range subjects {
		if slices.ContainsFunc(subjects[:i], func(other *simulate.Subject) bool { return other.Name == s.Name }) {
			return nil, usageError{fmt.Errorf("two models are called %s: name them with -m NAME=FILE", s.Name)}
		}
	}
	return subjects, nil
}

// eachShard replaces each NAME=DIRECTORY of a group by its shards, which are replayed separately: NAME/shard-K.
func eachShard(models []string) (out []string) {
	for _, path := range models {
		name, file, named := strings.Cut(path, "=")
		if !named {
			name, file = filepath.Base(path), path
		}
		directories := served.ShardDirectories(file)
		if len(directories) == 0 {
			out = append(out, path)
		}
		for _, directory := range directories {
			out = append(out, name+"/"+filepath.Base(directory)+"="+directory)
		}
	}
	return out
}

// examples reads copies of all events. The flag --max-events limits their number.
func (o *simulateFlags) examples(ctx context.Context, data *dataFlags, paths []string, s *event.Schema, screen *screen) ([]event.Example, error) {
	var out []event.Example
	err := data.each(ctx, paths, s, func(e *event.Example) error {
		if o.maxEvents > 0 && len(out) == o.maxEvents {
			return errEnough
		}
		out = append(out, event.Example{Features: e.Features.Clone(), Field: slices.Clone(e.Field), Missing: slices.Clone(e.Missing),
			Label: e.Label, Target: e.Target, Weight: e.Weight, Time: e.Time, Offset: e.Offset})
		if len(out)%4096 == 0 && screen.due() {
			screen.progress(humanize.Comma(int64(len(out))) + " events read")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, refusedError{fmt.Errorf("%s: no events", strings.Join(paths, " "))}
	}
	return out, nil
}
