package main

// The command train solves a problem exactly. This file has its flags, its result, and the loading of its data.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"blankout/batch"
	"blankout/batch/estimators"
	"blankout/batch/svm"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/health"
	"blankout/stream/labels"
	"blankout/stream/record/notation"
)

type trainFlags struct {
	online    onlineFlags
	data      dataFlags
	config    batch.Config
	model     string
	unlabeled []string
	scaler    string
	// standardize is the standardization mode of an exact solver.
	standardize string
	missing     float64
	influences  string
	places      []place // origins of the examples, for influences
	kernel      kernelFlags
	covariance  int            // largest number of numeric columns in the covariance
	presence    batch.Presence // presence of the fields in the examples, for --missing-policy
	observed    bool           // whether the noise is loss.ObservedNoise, whose rates are computed from the examples
	dead        *model.Dead    // values of dead numbers
}

func (p *program) train() *cobra.Command {
	o := trainFlags{config: batch.DefaultConfig()}
	o.config.Estimators = estimators.All()
	o.config.Threads = runtime.GOMAXPROCS(0)
	c := &cobra.Command{
		Use:   "train FILE [-o MODEL]",
		Short: "Compute the exact solution from a file or a topic",
		Long: `train minimizes the regularized expected loss of a linear model under feature noise. Its
certificate is an upper bound of the distance to the minimum.

The objective is |w|^2 + 2c sum loss for the hinge and |w|^2 + c sum loss for the
other losses; with --l2 X it is X|w|^2 + sum loss, and --l1 X adds X|w|_1. The sum has
the factor sd(y) for absolute and quantile, and 1/mean(y) for poisson. The certificate
bounds objective - minimum.

--solver online runs the online learner instead. It predicts every example before learning
it, which gives the progressive error. With --json, or after several passes, it also
computes the objective and the training error. --noise and --standardize default to auto.`,
		Example: "  blankout train -d train.svm -o model\n" +
			"  blankout train -d train.svm --loss hinge --noise dropout:0.5 -c 0.1 -o model --json\n" +
			"  blankout train -d train.svm --loss dropsvm --drop-q auto -o model\n" +
			"  blankout train -d train.svm --noise group:0.3 --groups every:8 --standardize all -o model\n" +
			"  blankout train -d train.svm --groups every:8 --standardize all --covariance-max-fields 256 -o model\n" +
			"  blankout train -d train.svm --solver online --passes 2 -o model\n" +
			"  blankout train -d events.jsonl --labels labels.jsonl --id order --set record.time=at -o model",
		Args: fileArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(c); err != nil {
				return usageError{err}
			}
			if err := modelTarget(o.model); err != nil {
				return err
			}
			solve := p.runTrain
			if o.config.Solver == "online" {
				solve = p.trainOnline
			}
			return solve(c.Context(), &o)
		},
	}
	o.data.trains = true
	o.data.add(c)
	o.data.join.add(c)
	o.online.add(c)
	f := c.Flags()
	f.StringVarP(&o.model, "output", "o", "", "write the model to `FILE`")
	t := &o.config
	f.StringVar(&t.Loss, "loss", t.Loss, "`LOSS`: logistic, hinge or, for regression, squared\n"+valuesUsage(batch.LossNames(t.Estimators)))
	f.StringVar(&t.Bound, "bound", "", "form of the expected loss: gaussian (the default), chen, quadratic-noising, mcf\nor exact (over all dropout masks, for at most 16 features in an event)")
	f.StringVar(&t.Noise, "noise", t.Noise, "`NOISE` to tolerate, such as dropout:0.3; online also auto\n"+valuesUsage(loss.NoiseNames())+";\nalso sums dropout:Q+group:Q, rates group:NAME=Q,…, and observed, the rates at which groups are missing")
	f.Float64VarP(&t.Cost, "cost", "c", t.Cost, "weight of the losses against |w|^2 (`COST`)")
	f.Float64Var(&t.L2, "l2", 0, "penalty `X`|w|^2 and losses of weight 1, instead of -c")
	t.L2 = -1
	f.Float64Var(&t.L1, "l1", 0, "add the penalty `X`|w|_1, which leaves weights at 0")
	f.Float64Var(&t.Ell, "ell", t.Ell, "margin of the hinge and the squared hinge")
	f.StringVar((*string)(&t.Intercept), "intercept", string(t.Intercept), "intercept: free, penalized or none")
	f.StringVar(&t.Multiclass, "multiclass", t.Multiclass, "ovr: each class against the rest; ovo: each pair of classes")
	f.StringVar((*string)(&t.Solver), "solver", "", "newton, irls, lbfgs, smo or online (default: the exact solver that suits)")
	f.Float64Var(&t.Tol, "tol", t.Tol, "stop at a certified gap of `R` times the objective")
	f.IntVar(&t.Copies, "copies", 0, "use `M` corrupted copies of every example instead of the expectation")
	f.StringVar(&t.Prior, "prior", t.Prior, "prior of t-logistic: student or l2")
	f.StringArrayVar(&o.unlabeled, "unlabeled", nil, "`FILE` of examples without labels")
	f.Float64Var(&t.Alpha, "unlabeled-weight", 0.4, "weight of unlabeled examples in the noise penalty, online in the accumulators")
	f.StringVar(&o.scaler, "scaler", "", "standardize the features as the `MODEL` does")
	f.Uint64Var(&t.Seed, "seed", 0, "seed of all random draws")
	f.IntVar(&t.Threads, "threads", t.Threads, "at most `N` threads; the result does not depend on it")
	f.Float64Var(&o.missing, "expected-missing", 0, "online: expect a fraction `D` of the features to be declared missing\nfor undeclared loss see --silent-missing")
	addMissingFlag(c, &o.online.config.MissingPolicy)
	f.IntVar(&o.covariance, "covariance-max-fields", 0, "let the model impute the first `N` numeric columns from the others\n256 is a good bound and the default of --solver online; 0 disables imputation")
	f.StringVar(&o.influences, "influences", "", "with t-logistic: write every example's influence to `FILE`\na small influence indicates a wrong label")
	o.kernel.add(f)
	p.addJSON(c)
	f.Lookup("set").Usage += "\nwith --solver online also of [learner], as in --set learner.threshold=0.3"
	return c
}

// check sets derived settings and returns the first error in the flags.
func (o *trainFlags) check(c *cobra.Command) error {
	if c.Flags().Changed("l2") {
		if c.Flags().Changed("cost") && !slices.Contains([]string{"quadratic", "linear", "poisson", "exponential"}, o.config.Loss) {
			return fmt.Errorf("-c and --l2 exclude each other")
		}
		if !(o.config.L2 >= 0) {
			return fmt.Errorf("--l2 %v: want 0 or more", o.config.L2)
		}
	}
	if len(o.unlabeled) > 0 && o.config.Solver != "online" && o.noiseless() {
		return errors.New("--unlabeled needs --noise, such as dropout:0.3, without --copies")
	}
	if o.config.Solver == "online" {
		return o.checkOnline(c)
	}
	if err := o.refuseUnused(c); err != nil {
		return err
	}
	if _, err := model.ParseMissingPolicy(o.online.config.MissingPolicy); err != nil {
		return fmt.Errorf("--missing-policy %w", err)
	}
	if n := o.covariance; n < 0 || n > model.MaxCovariance {
		return fmt.Errorf("--covariance-max-fields %d: want 0 to %d", n, model.MaxCovariance)
	}
	if model.MissingPolicy(o.online.config.MissingPolicy).Imputes() && (o.covariance == 0 || svm.IsLoss(o.config.Loss)) {
		return fmt.Errorf("--missing-policy %s needs a covariance: add --covariance-max-fields 256", o.online.config.MissingPolicy)
	}
	o.standardize = string(model.StandardizeNone)
	if c.Flags().Changed("standardize") {
		mode, err := model.ParseStandardize(o.online.config.Standardize)
		if err != nil {
			return fmt.Errorf("--%w", err)
		}
		if o.scaler != "" {
			return fmt.Errorf("--scaler and --standardize exclude each other")
		}
		o.standardize = string(mode)
	}
	sets, err := o.learnerSets()
	if err != nil {
		return err
	}
	if len(sets) > 0 {
		key, _, _ := strings.Cut(sets[0], "=")
		return fmt.Errorf("--set %s: needs --solver online", key)
	}
	if loss, _, _ := strings.Cut(o.config.Loss, ":"); o.influences != "" && (loss != "t-logistic" || o.config.Copies > 0) {
		return fmt.Errorf("--influences needs --loss t-logistic:T, without --copies")
	}
	if o.observed = o.config.Noise == loss.ObservedNoise; o.observed {
		o.config.Noise = "group:0" // a group noise, for checks before the rates are computed
	}
	check := o.config.Check
	if svm.IsLoss(o.config.Loss) {
		check = o.checkKernel
	}
	return check()
}

// trainResult is the JSON output of train. Scripts depend on its keys.
type trainResult struct {
	Objective   *float64 `json:"objective"` // null if --solver online has not computed it
	Certificate *float64 `json:"certificate"`
	Converged   bool     `json:"converged"`
	Tol         float64  `json:"tol"`
	Seconds     float64  `json:"seconds"`
	LoadSeconds float64  `json:"load_seconds"`
	Iterations  int      `json:"iterations"`
	Passes      int      `json:"passes"`
	Examples    int      `json:"examples"`
	Features    int      `json:"features"`
	Classes     int      `json:"classes"`
	TrainError  *float64 `json:"train_error"`
	// Measures for regression, on the training examples.
	*measure.NumbersReport
	// Losses of baselines that use only the labels, in the order of the examples.
	health.BaselineReport
	Refused int `json:"refused"` // number of rejected and skipped records
	// SupportVectors is the number of nonzero dual variables alpha of a kernel machine, summed over its binary
	// problems.
	SupportVectors int `json:"support_vectors,omitempty"`
	// Noise is the noise that was estimated from the data for --noise observed.
	Noise string `json:"noise,omitempty"`
	// Counts of events and delayed labels (--labels).
	*labels.Counts

	unpenalized bool   // whether the penalty is 0 (--l2 0)
	outlier     string // description of extreme readings that may dominate the solution
	notImputed  string // reason why the model cannot impute as requested
}

func (p *program) runTrain(ctx context.Context, o *trainFlags) error {
	screen := p.newScreen(10 * time.Second)
	begin := time.Now()
	d, scaler, err := p.loadTraining(ctx, o, screen)
	if err != nil {
		return err
	}
	load := time.Since(begin).Seconds()
	if o.observed {
		noise, err := o.presence.Observed(d.Schema)
		if err != nil {
			return refusedError{err}
		}
		o.config.Noise = noise.String()
	}
	o.config.Progress = func(g batch.Progress) {
		if !screen.due() {
			return
		}
		screen.progress(fmt.Sprintf("problem %d of %d, iteration %d: objective %.6g, certified gap %.1e of it", g.Problem+1, g.Problems, g.Iteration, g.Objective, g.Gap/math.Abs(g.Objective)))
	}
	solve := o.trainLinear
	if svm.IsLoss(o.config.Loss) {
		solve = o.trainKernel
	}
	fit, err := solve(ctx, d, scaler)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return refusedError{err}
	}
	r := trainResult{Objective: &fit.Objective, Converged: fit.Converged, Tol: o.config.Tol, Seconds: fit.Seconds, LoadSeconds: load,
		Iterations: fit.Iterations, Passes: fit.Passes, Examples: d.Rows(), Features: d.Features(), Classes: len(d.Schema.Classes), Refused: o.data.tally.refused, unpenalized: o.config.L2 == 0}
	if o.observed {
		r.Noise = o.config.Noise
	}
	if !math.IsInf(fit.Gap, 0) {
		r.Certificate = &fit.Gap
	}
	r.TrainError, r.NumbersReport, r.Counts = fit.trainError, fit.numbers, o.data.join.counts
	r.BaselineReport, r.SupportVectors = baselinesOf(d), fit.vectors
	if o.covariance > 0 && fit.linear != nil && fit.linear.Model.Covariance == nil {
		r.notImputed = "--covariance-max-fields: fewer than two columns can be imputed. Numeric fields of JSON and CSV can, and svmlight columns that nine of ten examples contain"
	}
	if scaler == nil && !svm.IsLoss(o.config.Loss) {
		if column, largest, usual, ok := d.FarthestOutlier(); ok {
			r.outlier = fmt.Sprintf("%s reaches %.3g but is usually near %.3g: such values dominate the model; --standardize auto bounds them", d.Schema.Namer()(column), largest, usual)
		}
	}
	var suspects []string
	if o.influences != "" {
		if suspects, err = o.writeInfluences(fit.linear, d); err != nil {
			return err
		}
	}
	if name := cmp.Or(o.data.record.PositiveName(), d.Rarer(1000)); d.Schema.PositiveClass(name) == 0 {
		fit.model.About().Positive = name
	}
	if o.model != "" {
		if err := o.data.write(o.model, fit.model); err != nil {
			return err
		}
	}
	p.warn(o.unused(d))
	if err := p.printTrained(screen, &r, suspects, d); err != nil {
		return err
	}
	return p.encode(r)
}

// printTrained prints the result of training, with warnings.
func (p *program) printTrained(screen *screen, r *trainResult, suspects []string, d *batch.Data) error {
	if !p.quiet {
		screen.done("trained")
		if err := printText(p.stderr, r, textRows); err != nil {
			return err
		}
		if len(suspects) > 0 {
			fmt.Fprintf(p.stderr, "least influence: %s\n", strings.Join(suspects, "; "))
		}
	}
	if !r.Converged {
		advice := "a larger --tol may help"
		if r.unpenalized && r.Certificate == nil {
			advice = "without a penalty there is no certificate; a small one may help, such as --l2 1e-6"
		}
		p.warn(fmt.Sprintf("the tolerance %g was not reached; %s", r.Tol, advice))
	}
	p.warn(r.outlier, r.notImputed)
	p.warn(d.Schema.LabelSpellings()...)
	for _, f := range notation.Find(d.Schema) {
		p.warn(f.String())
	}
	for _, class := range singles(d) {
		p.warn(fmt.Sprintf("class %q has one example of %s; to exclude it, name the other classes in record.classes and give --refused skip", class, humanize.Comma(int64(d.Rows()))))
	}
	if r.TrainError != nil {
		if class, e := largestClass(d); *r.TrainError >= e*(1-1e-12) {
			p.warn(fmt.Sprintf("on its training examples the model is no better than always %q: the penalty or the noise may be too strong, see -c, --noise, --drop-q", class))
		}
	}
	return nil
}

// noiseless reports whether the objective has no noise penalty.
func (o *trainFlags) noiseless() bool { return o.config.Noise == "none" || o.config.Copies > 0 }

// unused returns a message if unlabeled examples had no effect, otherwise "". Unlabeled examples only affect the noise
// penalty.
func (o *trainFlags) unused(d *batch.Data) string {
	n := 0
	for i := range d.Rows() {
		if d.Label(i) < 0 && d.Weight(i) > 0 {
			n++
		}
	}
	switch {
	case n == 0:
		return ""
	case o.config.Alpha == 0:
		return fmt.Sprintf("%s had no label and were not used, because --unlabeled-weight is 0", plural(n, "example"))
	case o.noiseless():
		return fmt.Sprintf("%s had no label and were not used: they need a noise (--noise dropout:Q)", plural(n, "example"))
	}
	return ""
}

// baselinesOf returns the losses of baselines on the examples. Baselines use only the labels.
func baselinesOf(d *batch.Data) health.BaselineReport {
	var b health.Baselines
	regression := d.Schema.Target != loss.Sign
	for i := range d.Rows() {
		t := health.LabeledEvent{Number: uint64(i) + 1, After: uint64(i), Weight: d.Weight(i), Regression: regression, Label: d.Label(i)}
		if t.Label < 0 || t.Weight == 0 {
			continue
		}
		if regression {
			t.Target = d.Target(i)
		}
		b.Tell(&t)
	}
	return b.Report(regression)
}

// singles returns the classes that have only one example, if there are many examples.
func singles(d *batch.Data) (names []string) {
	if d.Rows() < 100 || len(d.Schema.Classes) == 0 || len(d.Schema.Classes) > 20 {
		return nil
	}
	examples := make([]int, len(d.Schema.Classes))
	for i := range d.Rows() {
		if k := d.Label(i); k >= 0 {
			examples[k]++
		}
	}
	for k, n := range examples {
		if n == 1 {
			names = append(names, d.Schema.Classes[k])
		}
	}
	return names
}

// largestClass returns the class with the largest weight. The result percent is the error of always predicting this
// class.
func largestClass(d *batch.Data) (name string, percent float64) {
	weight := make([]float64, len(d.Schema.Classes))
	total := 0.0
	for i := range d.Rows() {
		if k := d.Label(i); k >= 0 {
			weight[k] += d.Weight(i)
			total += d.Weight(i)
		}
	}
	best := slices.Index(weight, slices.Max(weight))
	return d.Schema.Classes[best], 100 * (1 - weight[best]/total)
}

// learnerSets returns the settings of [learner] that were given with --set.
func (o *trainFlags) learnerSets() (sets []string, err error) {
	for _, set := range o.data.settings.set {
		if !strings.HasPrefix(set, "learner.") {
			continue
		}
		if flag := o.data.flagFor(set); flag != "" {
			return nil, fmt.Errorf("--set %s%s", set, flag)
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// loadTraining reads the training set. If requested, it transforms the examples with the Scaler of a model.
func (p *program) loadTraining(ctx context.Context, o *trainFlags, screen *screen) (*batch.Data, *model.Linear, error) {
	if err := o.data.resolve(nil); err != nil {
		return nil, nil, err
	}
	o.data.record.Target, o.data.record.Counts = loss.LabelsOf(o.config.Loss), loss.OfCounts(o.config.Noise)
	schema := o.data.record.Schema()
	var scaler *model.Linear
	b := batch.Builder{Threads: o.config.Threads}
	if o.scaler != "" {
		var err error
		if scaler, err = o.readScaler(); err != nil {
			return nil, nil, err
		}
		schema, b.Splines = scaler.Schema, scaler.Scaler.Splines
	}
	o.presence.Sparse = o.covariance > 0 || schema.ColumnsGoMissing()
	mode := model.Standardize(o.standardize)
	var x event.Vec
	fit := batch.Standardizer{Mode: mode}
	fit.Presence = o.online.config.Presence == "auto" && !svm.IsLoss(o.config.Loss) && o.config.SupportsSplines()
	count := 0
	add := func(in *packedBatch, i int, at func() string) error {
		e := &in.Examples[i]
		if o.influences != "" {
			o.places = append(o.places, place{at(), string(e.Key)})
		}
		if count++; count%4096 == 0 && screen.due() {
			screen.progress(humanize.Comma(int64(count)) + " examples read")
		}
		o.presence.Add(e)
		if scaler != nil {
			b.Fields(e)
			x = scaler.Standardized(e, event.Vec{Index: x.Index[:0], Value: x.Value[:0]})
			e.Features, x = x, e.Features
		}
		if mode != model.StandardizeNone {
			fit.Observe(e, schema)
		}
		if p, ok := in.packed.(*batch.Packed); ok {
			return b.AddPacked(p, i, e)
		}
		return b.Add(e)
	}
	data := o.data
	if scaler == nil && mode == model.StandardizeNone {
		data.ahead = max(o.config.Threads, 1)
		data.pack = func(examples []event.Example) any { return b.Pack(examples) }
	}
	if err := data.eachPlaced(ctx, data.paths, schema, add); err != nil {
		if len(schema.Classes) == maxClasses && online.AreNumbers(schema.Classes) {
			err = fmt.Errorf("%w; for regression use --loss squared, absolute, quantile:T, huber:D or poisson", err)
		}
		return nil, nil, err
	}
	if err := data.errNoLabel(data.tally.read-data.tally.refused, data.tally.labeled); err != nil {
		return nil, nil, err
	}
	if len(o.unlabeled) > 0 {
		free := data
		free.record.Unlabeled = true
		if err := free.eachPlaced(ctx, o.unlabeled, schema, add); err != nil {
			return nil, nil, err
		}
	}
	o.data.reading = data.reading
	d := b.Data(schema)
	if scaler == nil {
		o.dead = d.DeadValues()
		if len(schema.Classes) == 1 && event.IsZero(schema.Classes[0]) {
			d = d.Unlabel()
		}
		if d = d.SortClasses(); mode != model.StandardizeNone {
			var err error
			if d, scaler, err = fit.Fit(d); err != nil {
				return nil, nil, refusedError{err}
			}
			scaler.Dead = o.dead
		}
	} else {
		o.dead = scaler.Dead
	}
	if !o.silent() {
		return d, scaler, nil
	}
	d, err := d.WithDead(func(column uint32) float64 {
		if scaler != nil {
			return scaler.DeadStandardized(column)
		}
		reads, _ := o.dead.Of(column)
		return reads
	})
	if err != nil {
		return nil, nil, refusedError{err}
	}
	return d, scaler, nil
}

// readScaler reads the model of --scaler, with whose record settings the examples are read.
func (o *trainFlags) readScaler() (*model.Linear, error) {
	m, err := readModel(o.scaler)
	if err != nil {
		return nil, err
	}
	scaler, ok := m.Model.(*model.Linear)
	if !ok {
		return nil, usageError{fmt.Errorf("--scaler %s: a kernel model has no scaler: name a linear model", o.scaler)}
	}
	if err := o.data.resolve(m); err != nil {
		return nil, err
	}
	if scaler.Schema.Target != o.data.record.Target {
		return nil, usageError{fmt.Errorf("--scaler %s: its model is for %s, loss %s for %s", o.scaler, labelsOf(scaler.Schema.Target), o.config.Loss, labelsOf(o.data.record.Target))}
	}
	o.data.regroup(scaler.Schema)
	return scaler, nil
}

// silent reports whether features fail silently under the noise.
func (o *trainFlags) silent() bool {
	noise, err := loss.ParseNoise(o.config.Noise)
	return o.online.config.SilentMissing > 0 || err == nil && loss.IsSilent(noise)
}

// labelsOf returns the name of a kind of target.
func labelsOf(t loss.Target) string {
	if t == loss.Sign {
		return "classes"
	}
	return "numbers"
}
