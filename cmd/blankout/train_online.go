package main

// This file implements train --solver online, which makes passes of the online learner over a file.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"blankout/app/run"
	"blankout/batch"
	"blankout/batch/svm"
	"blankout/batch/validate"
	"blankout/config"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/health"
	"blankout/online/optimizers"
	"blankout/stream"
	"blankout/stream/record"
)

// onlineFlags are the flags of train for --solver online only.
type onlineFlags struct {
	config online.Config
	passes int
	// scale converts the learner's objective, whose penalty is |w|^2, to the requested objective.
	scale float64
}

func (o *onlineFlags) add(c *cobra.Command) {
	o.config = online.DefaultConfig()
	f, t := c.Flags(), &o.config
	f.IntVar(&o.passes, "passes", 1, "online: `N` passes over the examples")
	f.StringVar(&t.Optimizer, "optimizer", t.Optimizer, "online: optimizer, "+valuesUsage(optimizers.Names()))
	f.Float64Var(&t.ExpectedMissingGroups, "expected-missing-groups", 0, "online: expect a fraction `D` of the groups to be declared missing\n--noise auto then also learns group noise levels")
	f.StringVar(&t.Doubt, "doubt", t.Doubt, "online: on numbers that are probably no measurements, `WHAT`: auto, log (report only) or off")
	f.Float64Var(&t.SilentMissing, "silent-missing", 0, "online: expect a fraction `D` of features to die silently")
	f.IntVar(&t.IRLSBatch, "irls-batch", 0, "online: solve every `N` examples exactly (mini-batch IRLS), after the optimizer's updates or,\nwith --optimizer irls, instead of them")
	f.IntVar(&t.IRLSWindow, "irls-window", 0, "online: solve the latest `N` examples each time, a multiple of --irls-batch")
	f.Float64Var(&t.LearningRate, "learning-rate", t.LearningRate, "online: learning rate; 0 is the optimizer's default")
	f.StringVar(&t.Standardize, "standardize", t.Standardize, "auto, all, scale or none (default none, online auto)")
	f.Lookup("standardize").DefValue = ""
}

// onlineOnly lists the flags above, which an exact solver rejects. exactOnly lists the flags that --solver online
// rejects.
var (
	onlineOnly = []string{"passes", "expected-missing", "expected-missing-groups", "silent-missing", "optimizer", "learning-rate", "doubt", "irls-batch", "irls-window"}
	exactOnly  = []string{"l1", "tol", "copies", "prior", "scaler", "multiclass", "influences",
		"kernel", "drop-q", "keep", "epochs"}
)

// refuseFlags returns an error for the first flag in names that was given.
func refuseFlags(c *cobra.Command, names []string, why string) error {
	for _, name := range names {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			return fmt.Errorf("--%s %s", name, why)
		}
	}
	return nil
}

// refuseUnused returns an error for the first given flag that has no effect on an exact solver.
func (o *trainFlags) refuseUnused(c *cobra.Command) error {
	lossName, _, _ := strings.Cut(o.config.Loss, ":")
	for _, f := range []struct {
		used  bool
		names []string
		why   string
	}{
		{false, []string{"silent-missing"}, "needs --solver online; for an exact solution use --noise silent:D"},
		{false, onlineOnly, "needs --solver online"},
		{svm.IsLoss(lossName), []string{"kernel", "drop-q", "keep", "epochs"}, "needs --loss dropsvm"},
		{!loss.IsRegression(lossName) || o.online.config.MissingPolicy != string(model.MissingRescale), []string{"missing-policy"}, "rescale is for classes: for regression use none, impute, fill or auto"},
		{lossName == "t-logistic" || o.config.Prior == string(batch.L2Prior), []string{"prior"}, "needs --loss t-logistic:T; other losses have the prior l2"},
	} {
		if !f.used {
			if err := refuseFlags(c, f.names, f.why); err != nil {
				return err
			}
		}
	}
	return nil
}

// onlineResult is the JSON output of train --solver online.
type onlineResult struct {
	trainResult
	ProgressiveError   *float64 `json:"progressive_error"`
	ProgressiveLogLoss *float64 `json:"progressive_log_loss"`
	// Mean absolute and root mean squared error, for regression.
	ProgressiveMAE  *float64                `json:"progressive_mae,omitempty"`
	ProgressiveRMSE *float64                `json:"progressive_rmse,omitempty"`
	Level           float64                 `json:"noise_level"`
	Noise           string                  `json:"noise"` // name of the noise level
	Unlabeled       uint64                  `json:"unlabeled"`
	RefusedBy       map[event.Reason]uint64 `json:"refused_by,omitempty"`
	// Progressive holds the measures over all passes; each event is measured before it is learned.
	Progressive online.Summary `json:"progressive"`
	// Warnings are about probable mistakes in the examples or settings.
	Warnings []health.Warning `json:"warnings"`
}

// trainOnline implements train --solver online.
func (p *program) trainOnline(ctx context.Context, o *trainFlags) (err error) {
	screen := p.newScreen(10 * time.Second)
	begin := time.Now()
	if err := o.data.resolve(nil); err != nil {
		return err
	}
	classes := o.data.record.Classes
	o.data.record.Target, o.data.record.Counts = loss.LabelsOf(o.online.config.Loss), loss.OfCounts(o.online.config.Noise)
	ofNumbers := o.data.record.Target != loss.Sign
	if ofNumbers && len(classes) > 0 {
		return usageError{fmt.Errorf("record.classes: loss %s is for regression", o.online.config.Loss)}
	}
	unnamed := len(classes) == 0 && !ofNumbers
	if unnamed && !slices.Contains(o.data.paths, "-") {
		if classes, err = o.findClasses(ctx, 1); err != nil {
			return err
		}
	}
	if unnamed {
		if err := online.CheckLabels(o.online.config.Loss, classes); err != nil {
			return err
		}
	}
	learner, trained, err := p.passOnline(ctx, o, classes, unnamed, screen)
	var refused *run.RefusedError
	strange := errors.As(err, &refused) && refused.Refusal.Reason == event.ReasonLabel || err == nil && trained.RefusedBy[event.ReasonLabel] > 0
	if strange && unnamed && !slices.Contains(o.data.paths, "-") {
		// A class of the data does not occur in the first examples, so look for classes in all examples.
		if classes, err = o.findClasses(ctx, math.MaxInt); err != nil {
			return err
		}
		if err := online.CheckLabels(o.online.config.Loss, classes); err != nil {
			return err
		}
		learner, trained, err = p.passOnline(ctx, o, classes, false, screen)
	}
	if err != nil {
		return err
	}
	if trained.Learned+trained.Unlabeled == 0 && trained.Refused == 0 && o.data.refused == "fail" {
		return errNoRecord(o.data.paths)
	}
	if trained.Learned+trained.Unlabeled == 0 {
		return refusedError{batch.ErrNothing}
	}
	if err := o.data.errNoLabel(int(trained.Unlabeled), int(trained.Learned)); err != nil {
		return err
	}
	m := learner.Report()
	r := onlineResult{Level: loss.LevelOf(m.Noise), Noise: m.Noise.String(), Unlabeled: trained.Unlabeled, RefusedBy: trained.RefusedBy, Progressive: m.Summary(), Warnings: append([]health.Warning{}, trained.Warnings...)}
	r.trainResult = trainResult{Objective: measure.Defined(o.online.scale * trained.Objective), Tol: o.config.Tol, Seconds: time.Since(begin).Seconds(),
		Iterations: o.online.passes, Passes: o.online.passes, Examples: int(trained.Learned + trained.Unlabeled),
		Features: m.Features, Classes: len(learner.Schema().Classes)}
	r.TrainError, r.NumbersReport, r.Counts = measure.Defined(100*trained.Error), trained.Numbers, o.data.join.counts
	r.BaselineReport = trained.Learner.Baselines.Report(trained.Learner.Numbers != nil)
	if n := trained.Learner.Numbers; n != nil {
		first := n.Report()
		r.ProgressiveMAE, r.ProgressiveRMSE = first.MAE, first.RMSE
	}
	first := &trained.Learner.Total
	r.Refused, r.ProgressiveError, r.ProgressiveLogLoss = int(trained.Refused), measure.Defined(100*first.Error()), measure.Defined(first.MeanLogLoss())
	if o.model != "" {
		if err := o.data.write(o.model, learner.Model().CompactFile()); err != nil {
			return err
		}
	}
	for _, w := range r.Warnings {
		p.warn(w.Text)
	}
	p.warnOfClasses(r.Classes, o.online.config)
	screen.done("trained")
	return p.result(r, "reliability", "warnings", "by_missing")
}

// checkOnline creates the learner's configuration from the flags of train. It returns the first error in the flags.
func (o *trainFlags) checkOnline(c *cobra.Command) (err error) {
	if err := refuseFlags(c, exactOnly, "needs an exact solver"); err != nil {
		return err
	}
	given := c.Flags().Changed
	t := &o.online.config
	if given("loss") || given("bound") || given("ell") { // else it has its default, which a preset may change
		if t.Loss, err = o.config.LossName(); err != nil {
			return err
		}
	}
	if len(o.unlabeled) > 0 || given("unlabeled-weight") {
		t.UnlabeledWeight = o.config.Alpha
	}
	if given("noise") {
		t.Noise = o.config.Noise
	}
	if given("covariance-max-fields") {
		t.CovarianceMaxFields = o.covariance
	}
	t.Intercept, t.ExpectedMissing = string(o.config.Intercept), o.missing
	t.C, o.online.scale = o.config.Cost, 1
	if given("l2") {
		l, err := loss.Parse(t.Loss)
		if err != nil {
			return err
		}
		// The objective X |w|^2 + sum loss equals X times |w|^2 + kappa sum loss, with kappa = 1/X.
		t.C, o.online.scale = 1/(o.config.L2*loss.Cost(l, 1)), cmp.Or(o.config.L2, 1)
	}
	sets, err := o.learnerSets()
	if err != nil {
		return err
	}
	if len(sets) > 0 {
		base := config.Default()
		base.Learner = *t
		l, err := config.Load(config.Source{Base: &base, Flags: sets})
		if err != nil {
			return err
		}
		*t = l.Learner
	}
	if o.online.passes < 1 {
		return fmt.Errorf("--passes %d: want at least 1", o.online.passes)
	}
	if len(o.data.paths) == 0 {
		return errors.New("name a file of examples with -d (- is standard input)")
	}
	return t.Check()
}

// leastSeen is the least number of examples in which findClasses looks for classes, because batches of long records are
// small.
const leastSeen = 1000

// findClasses returns the sorted classes of the first batches of every path. If it meets several classes, it looks in at
// least leastSeen examples.
func (o *trainFlags) findClasses(ctx context.Context, batches int) ([]string, error) {
	schema := o.data.record.Schema()
	var labels batch.Builder
	for _, path := range o.data.paths {
		s := o.data.source(schema, path)
		var b event.Batch
		var err error
		for n, seen := 0, 0; err == nil && (n < batches || seen < leastSeen && len(schema.Classes) > 1); n++ {
			if err = s.Next(ctx, &b); err != nil {
				break
			}
			seen += len(b.Examples)
			for i := range b.Examples {
				if e := &b.Examples[i]; e.Refused == nil && e.Label != event.Unlabeled {
					err = cmp.Or(err, labels.Add(&event.Example{Label: e.Label}))
				}
			}
		}
		if err == io.EOF {
			err = nil
		}
		if err = errors.Join(err, s.Close()); err != nil {
			return nil, err
		}
	}
	classes := labels.Data(schema).SortClasses().Schema.Classes
	if len(classes) < 2 {
		return nil, nil // classes are added when they appear
	}
	return classes, nil
}

// passOnline makes the passes over the data. The argument classes has the given classes. If it is nil, classes are
// added when they appear. If unnamed is true and there are more than two classes, further classes are added too: only a
// third class needs another kind of model.
func (p *program) passOnline(ctx context.Context, o *trainFlags, classes []string, unnamed bool, screen *screen) (*online.Learner, *run.Trained, error) {
	data := o.data
	if data.record.Classes, data.record.MaxClasses = classes, 2; classes == nil || unnamed && len(classes) > 2 {
		data.record.MaxClasses = record.DefaultMaxClasses
	}
	schema := data.record.Schema()
	declares := slices.ContainsFunc(data.paths, data.record.Declares)
	c := o.online.config.Among(declares, data.record.Grouped())
	c.Positive = data.record.PositiveName()
	learner, err := online.New(c, schema)
	if err != nil {
		return nil, nil, usageError{err}
	}
	var look learning
	t := &run.Training{
		Learner: learner, Schema: schema, Unnamed: unnamed && slices.Contains(o.data.paths, "-"), Passes: o.online.passes, Memory: 1 << 30, Refused: run.Policy(o.data.refused),
		Fingerprint: config.Fingerprint(learner.Config(), data.record, validate.Config{}),
		Threads:     o.config.Threads, Evaluate: p.json || o.online.passes > 1 && !p.quiet,
		Open: func() (event.Source, error) {
			all := data.source(schema, data.paths...)
			if len(o.unlabeled) == 0 {
				return all, nil
			}
			free := data
			free.record.Unlabeled = true
			return &turns{sources: []*paths{all, free.source(schema, o.unlabeled...)}}, nil
		},
		Observe: func(pass int, s *run.Status) {
			if screen.due() {
				screen.progress(fmt.Sprintf("pass %d  %s", pass+1, progressText(look.look(s))))
			}
		},
	}
	trained, err := t.Run(ctx)
	o.data.reading = data.reading
	if err == nil && o.online.config.Grouped() {
		if err = model.NewGrouping(schema).Check(); err != nil {
			err = fmt.Errorf("noise %s: %w", o.online.config.Noise, err)
		}
	}
	if err == nil && o.online.config.Noise == loss.ObservedNoise {
		if err = schema.CheckRates(); err != nil {
			err = fmt.Errorf("noise %s: %w", o.online.config.Noise, err)
		}
	}
	return learner, trained, err
}

// turns is a source that takes turns among several sources, one batch from each.
type turns struct {
	sources []*paths
	next    int
}

func (t *turns) Next(ctx context.Context, b *event.Batch) error {
	for len(t.sources) > 0 {
		t.next %= len(t.sources)
		err := t.sources[t.next].Next(ctx, b)
		if err != io.EOF {
			t.next++
			return err
		}
		t.sources = slices.Delete(t.sources, t.next, t.next+1)
	}
	return io.EOF
}

func (t *turns) Close() error {
	return closeAll(t.sources)
}

// paths is a source that reads several paths one after the other. It opens the first path in the first call of Next.
type paths struct {
	open func(ctx context.Context, path string) (stream.Opened, error)
	left []string
	now  stream.Opened
}

// source returns a source that reads paths for the Schema s.
func (d *dataFlags) source(s *event.Schema, left ...string) *paths {
	return &paths{left: left, open: func(ctx context.Context, path string) (stream.Opened, error) { return d.open(ctx, path, s) }}
}

func (p *paths) Next(ctx context.Context, b *event.Batch) error {
	for {
		if p.now == nil {
			if len(p.left) == 0 {
				return io.EOF
			}
			s, err := p.open(ctx, p.left[0])
			if err != nil {
				return err
			}
			p.now, p.left = s, p.left[1:]
		}
		err := p.now.Next(ctx, b)
		if err != io.EOF {
			return err
		}
		if err := p.Close(); err != nil {
			return err
		}
	}
}

func (p *paths) Close() error {
	if p.now == nil {
		return nil
	}
	err := p.now.Close()
	p.now = nil
	return err
}
