package batch

// This file trains a linear model on Data from a Config, and splits several classes into binary problems.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// Config holds the settings of Train. The flags and the configuration file use the same names for them.
type Config struct {
	// Loss is hinge, logistic, quadratic, linear, poisson or one of the Estimators. Bound is gaussian (the default),
	// chen or quadratic-noising, for losses with several bounds. Loss may include the bound, as parsed by loss.Parse;
	// Bound is then "".
	Loss, Bound string
	Ell         float64 // margin of the hinge, unless Loss contains one
	Noise       string  // feature noise, as parsed by loss.ParseNoise
	// Cost is c of Chen et al.: the penalty is |w|^2 and the losses are multiplied by loss.Cost. If L2 is not negative,
	// it replaces Cost: the penalty is L2 |w|^2 and the losses are multiplied by 1.
	Cost float64
	L2   float64
	// L1 adds the penalty L1 |w|_1 on all weights except the intercept. If L2 is 0 and L1 is 1/(2c), the objective is
	// Chen et al.'s equation 1 with the norm |w|_1, divided by 2c.
	L1        float64
	Intercept Intercept
	// Multiclass is ovr (one class against the rest) or ovo (every pair of classes).
	Multiclass string
	Solver     Solver
	Tol        float64
	// Alpha is the weight of the noising penalty of unlabeled examples, see Problem.
	Alpha float64
	// Copies is the number of corrupted copies of every example that replace the expectation. 0 means the exact
	// expectation.
	Copies        int
	Seed          uint64 // seed of the copies and of the starts
	MaxIterations int
	Threads       int
	Prior         string // prior of t-logistic regression: student or l2
	// Estimators are losses that package loss does not have, usually estimators.All().
	Estimators []Estimator `toml:"-"`
	Hooks      `toml:"-"`
}

// Hooks are the callbacks of Train. Any may be nil.
type Hooks struct {
	// Progress is called from several goroutines, one call at a time.
	Progress func(Progress)
	// Pause is called between passes over the data, on the solver's goroutines. It may wait, to leave the processor to
	// other work.
	Pause func()
}

// DefaultConfig returns the settings of logistic regression without noise, solved to a certified relative gap of 1e-6.
func DefaultConfig() Config {
	return Config{Loss: "logistic", Ell: 1, Noise: "none", Cost: 1, L2: -1, Intercept: FreeIntercept,
		Multiclass: "ovr", Tol: 1e-6, Threads: 1, Prior: "student"}
}

// Fit is the result of Train: a model and its accuracy.
type Fit struct {
	Solution
	Model    *model.Linear
	Problems []*Result // result of each output
}

// Solution describes a solved problem, for any kind of model. Objective, Gap, Iterations and Passes are sums over the
// binary problems.
type Solution struct {
	Objective float64 // J at the solution, without smoothing
	// Gap is an upper bound on Objective - min J. It is +Inf if no certificate exists: the objective is not convex or a
	// weight is not penalized.
	Gap float64
	// Converged means that the gap is within the tolerance. Without a certificate it means that the norm of the
	// gradient has decreased to the tolerance, or that rounding hides any further decrease.
	Converged  bool
	Iterations int
	Passes     int // number of passes over the data
	Seconds    float64
}

// Add adds the solution of another problem, except Seconds.
func (s *Solution) Add(other Solution) {
	s.Objective += other.Objective
	s.Gap += other.Gap
	s.Converged = s.Converged && other.Converged
	s.Iterations += other.Iterations
	s.Passes += other.Passes
}

// Subproblem is one of the binary problems of a task with several classes.
type Subproblem struct {
	Positive, Negative int // class indexes; Negative is -1 for all other classes
	Y                  []float64
	Weight             []float64 // importance weights; nil means the weights of the data
}

// Train solves the problem of c on d. It returns an error that names the cause if the data or c are invalid.
func Train(ctx context.Context, d *Data, c Config) (*Fit, error) {
	return TrainFrom(ctx, d, c, nil)
}

// TrainFrom is Train with a start for each problem. A nil start is zero.
func TrainFrom(ctx context.Context, d *Data, c Config, start [][]float64) (*Fit, error) {
	begin := time.Now()
	noise, err := loss.ParseNoise(c.Noise)
	if err != nil {
		return nil, err
	}
	if c.Copies > 0 {
		if d, err = d.Corrupted(noise, c.Copies, c.Seed); err != nil {
			return nil, err
		}
		noise = loss.NoNoise{}
	}
	build, name, err := c.objective(noise)
	if err = cmp.Or(err, d.checkSilent(noise)); err != nil {
		return nil, err
	}
	problems, err := c.Subproblems(d)
	if err != nil {
		return nil, err
	}
	unit := targetUnit{scale: 1}
	if l, err := loss.Parse(strings.TrimSuffix(name, ":"+ExactBound)); err == nil && l.Facts().Regression {
		unit = newTargetUnit(problems[0].Y, d.Weight, l, c.Intercept)
		unit.in(problems[0].Y)
	}
	// The problems share only the data. So threads are first divided among problems, and then used within a problem.
	workers := min(max(c.Threads, 1), len(problems))
	c.Threads = max(c.Threads/workers, 1)
	results := make([]*Result, len(problems))
	var mu sync.Mutex
	err = Each(ctx, workers, len(problems), func(ctx context.Context, i int) error {
		o, err := build(d, problems[i], c)
		if err == nil && c.L1 > 0 {
			o, err = newLasso(o, d, problems[i], c, noise)
		}
		if err == nil {
			opt := Options{Solver: c.Solver, Tol: c.Tol, MaxIterations: c.MaxIterations}
			if i < len(start) {
				opt.Start = unit.weightsIn(start[i], d.Columns())
			}
			if c.Progress != nil {
				opt.Progress = func(p Progress) {
					mu.Lock()
					defer mu.Unlock()
					p.Problem, p.Problems = i, len(problems)
					c.Progress(p)
				}
			}
			results[i], err = Solve(ctx, o, opt)
		}
		if err == nil {
			unit.back(results[i], d.Columns())
		}
		if err != nil && len(problems) > 1 {
			err = fmt.Errorf("class %s: %w", d.Schema.Classes[problems[i].Positive], err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	f := &Fit{Solution: Solution{Converged: true}, Problems: results}
	for _, r := range results {
		f.Add(r.Solution)
	}
	f.Model = c.model(d, results, name)
	f.Model.Pairs = len(problems) > 1 && c.Multiclass == "ovo"
	f.Seconds = time.Since(begin).Seconds()
	return f, nil
}

// Check returns the first error in c that can be found without data.
func (c Config) Check() error {
	noise, err := loss.ParseNoise(c.Noise)
	if err != nil {
		return err
	}
	if c.Multiclass != "ovr" && c.Multiclass != "ovo" {
		return fmt.Errorf("multiclass %q: want ovr or ovo", c.Multiclass)
	}
	switch c.Solver {
	case "", Newton, IRLS, LBFGS, SMO:
	default:
		return fmt.Errorf("solver %q: want newton, irls, lbfgs or smo", c.Solver)
	}
	if c.Copies < 0 {
		return fmt.Errorf("%d corrupted copies: want 0 (the expectation) or more", c.Copies)
	}
	_, _, err = c.objective(noise)
	return err
}

// MeasureNumbers measures a regression model's predictions for the labeled examples. It stores their residuals in the
// model, for its prediction intervals.
func (f *Fit) MeasureNumbers(d *Data) (sums measure.Numbers, err error) {
	l, err := loss.Parse(f.Model.Loss)
	if err != nil {
		return sums, err
	}
	target := f.Model.Target()
	var residuals residuals
	for i, value := range f.values(d) {
		residuals.add(target, d.Target(i), value, 0, d.Weight(i))
	}
	r := residuals.all()
	if r == nil {
		return sums, nil
	}
	f.Model.Residual = r
	for i, value := range f.values(d) {
		low, high := r.Interval(target, value, 0, -1)
		sums.Add(l, d.Target(i), d.Weight(i), value, low, high, 1)
	}
	return sums, nil
}

// values yields the index of each labeled example and the model's prediction for it.
func (f *Fit) values(d *Data) iter.Seq2[int, float64] {
	r := f.Problems[0]
	return func(yield func(int, float64) bool) {
		for i := range d.Rows() {
			if d.Label(i) < 0 {
				continue
			}
			score := d.Row(i).Dot(r.W)
			if len(r.W) > d.Columns() {
				score += r.W[d.Columns()]
			}
			if !yield(i, f.Model.Value(score)) {
				return
			}
		}
	}
}

// residuals accumulates a model.Residual.
type residuals struct {
	model.Residual
	weight, squares float64
	missing         float64   // sum of the squared residuals that missing fields explain
	values, offs    []float64 // predictions and residuals of the examples without missing fields
}

// add adds a target y and its prediction value. The argument v is the variance of the score due to missing fields.
func (r *residuals) add(target loss.Target, y, value, v, weight float64) {
	if weight == 0 {
		return
	}
	off := r.Of(target, y, value)
	r.weight += weight
	step := off - r.Mean
	r.Mean += step * weight / r.weight
	r.squares += weight * step * (off - r.Mean)
	r.missing += weight * r.Increase(target, value, v)
	if v == 0 {
		r.values, r.offs = append(r.values, value), append(r.offs, off)
	}
}

// all returns the accumulated residual, or nil if the total weight is 0.
func (r *residuals) all() *model.Residual {
	if r.weight == 0 {
		return nil
	}
	r.Deviation = math.Sqrt(max(0, r.squares-r.missing) / r.weight)
	r.ByValue = r.spread()
	return &r.Residual
}

const (
	// The residuals of an exact model are measured separately in spreadBins bins of predictions. Each bin has at least
	// leastInBin examples.
	spreadBins, leastInBin = 8, 50
)

// spread returns the size of the residuals as a function of the prediction.
func (r *residuals) spread() *model.Spread {
	n := len(r.values)
	if n < spreadBins*leastInBin {
		return nil
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(r.values[i], r.values[j]) })
	var at, size []float64
	for bin := range spreadBins {
		in := order[bin*n/spreadBins : (bin+1)*n/spreadBins]
		middle, sum := r.values[in[len(in)/2]], 0.0
		for _, i := range in {
			sum += math.Abs(r.offs[i] - r.Mean)
		}
		if len(at) > 0 && !(middle > at[len(at)-1]) {
			continue // not above the prediction of the previous bin: many predictions are equal
		}
		at, size = append(at, middle), append(size, sum/float64(len(in)))
	}
	return model.NewSpread(at, size)
}

// TrainError is Data.ErrorOf for the model.
func (f *Fit) TrainError(d *Data) float64 { return d.ErrorOf(f.Model, 1) }

// ErrorOf returns the weighted fraction of the labeled examples of d that m classifies wrongly. It uses at most the given
// number of threads.
func (d *Data) ErrorOf(m model.Model, threads int) float64 {
	const block = 256
	wrong, total := make([]float64, d.Rows()/block+1), make([]float64, d.Rows()/block+1)
	Parallel(threads, len(wrong), func(g int) {
		scores := make([]float64, max(m.About().Outputs, len(d.Schema.Classes)))
		var x event.Vec
		for i := g * block; i < min((g+1)*block, d.Rows()); i++ {
			if d.Label(i) < 0 {
				continue
			}
			x = d.Vec(i, x)
			if model.Predict(m.ScoreVec(x, scores)) != d.Label(i) {
				wrong[g] += d.Weight(i)
			}
			total[g] += d.Weight(i)
		}
	})
	a, b := 0.0, 0.0
	for g := range wrong {
		a, b = a+wrong[g], b+total[g]
	}
	return a / b
}

// Penalization returns the factor of the losses and the weight of |w|^2. All conventions of the papers about the cost
// are in this function. The argument factor is loss.Facts.Cost.
func (c Config) Penalization(factor float64) (kappa, l2 float64) {
	if c.L2 >= 0 {
		return 1, c.L2
	}
	return factor * c.Cost, 1
}

// Estimator is a loss with its own objective instead of an expectation. Name is the part of the loss before a colon,
// and Bounds are its bounds, "" for the default bound.
type Estimator struct {
	Name   string
	Level  bool // whether a number must follow the name
	Bounds []string
	// New returns the objective. The argument level is the number after the name. The Kappa and Penalty of p implement
	// |w|^2 + c sum loss, or the given L2.
	New func(p Problem, level string, c Config) (Objective, error)
}

// tLogisticLoss is available in every Config, even if Config.Estimators does not list it, because the online learner
// has this loss too. The prior of the loss is lam/2 |w|^2, so a penalty of |w|^2 means lam = 2.
var tLogisticLoss = Estimator{Name: "t-logistic", Level: true, Bounds: []string{"", "chen"}, New: func(p Problem, level string, c Config) (Objective, error) {
	t, err := strconv.ParseFloat(level, 64)
	if err != nil || !finite(t) {
		return nil, fmt.Errorf("loss t-logistic:%s: the level %q is not a number", level, level)
	}
	l, err := loss.NewTLogistic(t)
	if err != nil {
		return nil, err
	}
	p.Loss = l
	_, l2 := c.Penalization(1)
	return NewTLogistic(p, Prior(c.Prior), 2*l2)
}}

// LossNames returns the names with which Config.Loss may start: the losses of package loss, of the estimators and of
// kernel machines. A name that ends in a colon must be followed by a number.
func LossNames(estimators []Estimator) []string {
	var names []string
	for _, name := range loss.Names() {
		if loss.Parameter(name) != "" && loss.Bounds(name)[0] == "" {
			name += ":"
		}
		names = append(names, name)
	}
	for _, o := range estimators {
		name := o.Name
		if o.Level {
			name += ":"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return append(names, "dropsvm")
}

// LossName returns the loss with its bound and margin, as parsed by loss.Parse.
func (c Config) LossName() (string, error) {
	name := c.Loss
	first, _, named := strings.Cut(name, ":")
	// The expectation of the quadratic loss is exact for all of these bounds.
	exact := c.Bound == "gaussian" || c.Bound == "mcf" && first == "quadratic" || c.Bound == "quadratic-noising" && first == "linear"
	bounds := loss.Bounds(first)
	if c.Bound != "" && (len(bounds) > 1 || !exact) {
		if named {
			return "", fmt.Errorf("loss %s and bound %s: give only one bound", c.Loss, c.Bound)
		}
		name += ":" + c.Bound
		named = true
	}
	if c.Ell == 1 {
		return name, nil
	}
	if loss.Parameter(first) != "ell" {
		return "", fmt.Errorf("margin ell = %v: loss %s has none", c.Ell, c.Loss)
	}
	if !named {
		name += ":" + bounds[0]
	}
	return name + ":" + strconv.FormatFloat(c.Ell, 'g', -1, 64), nil
}

// estimator returns the Estimator of Loss and Bound, and the number after the name of the loss. It returns nil if
// Expected is the objective.
func (c Config) estimator() (own *Estimator, level string, err error) {
	first, level, _ := strings.Cut(c.Loss, ":")
	for _, o := range append([]Estimator{tLogisticLoss}, c.Estimators...) {
		switch {
		case o.Name != first:
		case slices.Contains(o.Bounds, c.Bound), o.Bounds[0] == "" && c.Bound == "gaussian": // the default bound may be given explicitly
			return &o, level, nil
		case o.Bounds[0] == "":
			return nil, "", fmt.Errorf("loss %s has no bound %s", first, c.Bound)
		}
	}
	return nil, "", nil
}

// objective returns a function that builds the objective of a binary problem. It also returns the name of the loss for
// the model.
func (c Config) objective(noise loss.Noise) (build func(*Data, Subproblem, Config) (Objective, error), name string, err error) {
	switch {
	case !(c.Cost > 0) || math.IsInf(c.Cost, 0):
		return nil, "", fmt.Errorf("cost c = %v: want a positive number", c.Cost)
	case math.IsNaN(c.L2) || math.IsInf(c.L2, 0):
		return nil, "", fmt.Errorf("penalty l2 = %v: want a number", c.L2)
	case !(c.L1 >= 0) || math.IsInf(c.L1, 0):
		return nil, "", fmt.Errorf("penalty l1 = %v: want a number that is not negative", c.L1)
	case c.L1 > 0 && c.Solver != "" && c.Solver != LBFGS:
		return nil, "", fmt.Errorf("solver %s: a penalty l1 is solved by lbfgs", c.Solver)
	case !(c.Tol >= 0):
		return nil, "", fmt.Errorf("tolerance %v: want a number that is not negative", c.Tol)
	case !(c.Ell > 0) || math.IsInf(c.Ell, 0):
		return nil, "", fmt.Errorf("margin ell = %v: want a positive number", c.Ell)
	case !(c.Alpha >= 0 && c.Alpha <= 1):
		return nil, "", fmt.Errorf("alpha = %v: want a number in [0, 1]", c.Alpha)
	}
	switch c.Intercept {
	case FreeIntercept, PenalizedIntercept, NoIntercept:
	default:
		return nil, "", fmt.Errorf("intercept %q: want free, penalized or none", c.Intercept)
	}
	if c.Bound == ExactBound {
		return c.exact(noise)
	}
	own, level, err := c.estimator()
	if err != nil {
		return nil, "", err
	}
	if own != nil {
		name := c.Loss
		if slices.Contains(loss.Names(), own.Name) && own.Bounds[0] != "" {
			name += ":" + c.Bound // without the bound the name would mean another loss
		}
		return func(d *Data, b Subproblem, c Config) (Objective, error) {
			return own.New(c.Problem(d, b, nil, noise), level, c)
		}, name, nil
	}
	l, err := c.expectation()
	if err != nil {
		return nil, "", err
	}
	return func(d *Data, b Subproblem, c Config) (Objective, error) {
		return NewExpected(c.Problem(d, b, l, noise))
	}, l.String(), nil
}

// exact implements objective for the bound "exact".
func (c Config) exact(noise loss.Noise) (build func(*Data, Subproblem, Config) (Objective, error), name string, err error) {
	q, err := exactRate(noise)
	if err != nil {
		return nil, "", err
	}
	if c.Copies > 0 {
		return nil, "", fmt.Errorf("bound exact excludes copies")
	}
	c.Bound = ""
	if own, _, err := c.estimator(); err != nil {
		return nil, "", err
	} else if own != nil {
		return nil, "", fmt.Errorf("loss %s has no bound %s", c.Loss, ExactBound)
	}
	l, err := c.expectation()
	if err != nil {
		return nil, "", err
	}
	name = l.String()
	if l.Facts().Target == loss.Sign { // the name of a regression loss must stay parseable by the model
		base, rest, _ := strings.Cut(name, ":")
		if _, margin, ok := strings.Cut(rest, ":"); ok {
			rest = ":" + margin
		} else {
			rest = ""
		}
		name = base + ":" + ExactBound + rest
	}
	return func(d *Data, b Subproblem, c Config) (Objective, error) {
		c.Bound = ""
		return c.exactObjective(d, b, l, q)
	}, name, nil
}

// expectation returns the loss whose expectation c minimizes, or an error if the loss is an Estimator.
func (c Config) expectation() (loss.Loss, error) {
	own, _, err := c.estimator()
	if err != nil {
		return nil, err
	}
	if own != nil {
		return nil, fmt.Errorf("loss %s is an objective of its own", c.Loss)
	}
	name, err := c.LossName()
	if err != nil {
		return nil, err
	}
	return loss.Parse(name)
}

// Problem returns the Problem for one binary problem on d. The loss l is nil for an Estimator.
func (c Config) Problem(d *Data, b Subproblem, l loss.Loss, noise loss.Noise) Problem {
	factor := 1.0
	if l != nil {
		factor = l.Facts().Cost
	}
	kappa, l2 := c.Penalization(factor)
	return Problem{Data: d, Y: b.Y, Weight: b.Weight, Loss: l, Noise: noise, Kappa: kappa,
		Intercept: c.Intercept, Penalty: Ridge(d.Columns(), l2, c.Intercept), Alpha: c.Alpha, Threads: c.Threads, Pause: c.Pause}
}

// ErrNothing means that no example has a label and a positive weight.
var ErrNothing = errors.New("no labeled example has a positive weight")

// Subproblems splits the task into binary problems.
func (c Config) Subproblems(d *Data) ([]Subproblem, error) {
	classes := d.Schema.Classes
	switch numbers := loss.IsRegression(c.Loss); {
	case numbers && d.Schema.Target == loss.Sign:
		return nil, fmt.Errorf("loss %s needs numbers for labels, not classes", c.Loss)
	case numbers:
		y := make([]float64, d.Rows())
		for i := range y {
			if y[i] = math.NaN(); d.Label(i) >= 0 {
				y[i] = d.Target(i)
			}
		}
		return []Subproblem{{Positive: 0, Negative: -1, Y: y}}, nil
	case d.Schema.Target != loss.Sign:
		return nil, fmt.Errorf("loss %s needs classes for labels, not numbers", c.Loss)
	}
	count := make([]int, len(classes))
	for i := range d.Rows() {
		if l := d.Label(i); l >= 0 && d.Weight(i) > 0 {
			count[l]++
		}
	}
	var present []int
	for k, n := range count {
		if n > 0 {
			present = append(present, k)
		}
	}
	switch {
	case len(present) == 0:
		return nil, ErrNothing
	case len(present) == 1:
		return nil, fmt.Errorf("every labeled example has class %s: at least two classes are needed", classes[present[0]])
	}
	one := func(positive, negative int) Subproblem {
		b := Subproblem{Positive: positive, Negative: negative, Y: d.signs(positive)}
		if negative >= 0 && len(classes) > 2 {
			b.Weight = make([]float64, d.Rows())
			for i := range b.Weight {
				if l := d.Label(i); l == positive || l == negative || l < 0 {
					b.Weight[i] = d.Weight(i)
				}
			}
		}
		return b
	}
	if len(classes) == 2 {
		return []Subproblem{one(1, 0)}, nil
	}
	for k, n := range count {
		if n == 0 {
			return nil, fmt.Errorf("class %s has no example of positive weight", classes[k])
		}
	}
	var out []Subproblem
	switch c.Multiclass {
	case "ovr":
		for k := range classes {
			out = append(out, one(k, -1))
		}
	case "ovo":
		for j := range classes {
			for k := range j {
				out = append(out, one(j, k))
			}
		}
	default:
		return nil, fmt.Errorf("multiclass %q: want ovr or ovo", c.Multiclass)
	}
	return out, nil
}

// signs returns 1 for examples of the class positive, -1 for examples of other classes and NaN for unlabeled examples.
func (d *Data) signs(positive int) []float64 {
	y := make([]float64, d.Rows())
	for i := range y {
		switch l := d.Label(i); {
		case l == positive:
			y[i] = 1
		case l < 0:
			y[i] = math.NaN()
		default:
			y[i] = -1
		}
	}
	return y
}

// model builds a model from one result for each output.
func (c Config) model(d *Data, results []*Result, loss string) *model.Linear {
	k := len(results)
	m := &model.Linear{Head: model.Head{Schema: d.Schema, Loss: loss, Noise: c.Noise, Outputs: k,
		Intercept: make([]float64, k), Layout: model.Layout{Width: k, Stats: -1}, Trained: "train"}, Rows: model.NewTable(k)}
	for j := range d.Columns() {
		var row []float64
		for i, r := range results {
			if r.W[j] != 0 {
				if row == nil {
					row = m.Rows.Touch(d.Column(j))
				}
				row[i] = r.W[j]
			}
		}
	}
	for i, r := range results {
		if c.Intercept != NoIntercept {
			m.Intercept[i] = r.W[d.Columns()]
		}
	}
	for i := range d.Rows() {
		if d.Label(i) >= 0 {
			m.Events++
		}
	}
	return m
}

// SortClasses returns d with its classes in ascending order, in numeric order if all class names are numbers. If there
// are two classes, the larger class becomes the positive class. The returned Schema is a copy with exactly the classes
// that occur. Regression targets are not changed.
func (d *Data) SortClasses() *Data {
	if d.Schema.Target != loss.Sign {
		return d
	}
	used := make([]bool, len(d.Schema.Classes))
	for _, l := range d.labels {
		if l >= 0 {
			used[l] = true
		}
	}
	var order []int
	numbers := true
	value := make([]float64, len(used))
	for k, u := range used {
		if u {
			order = append(order, k)
			var err error
			value[k], err = strconv.ParseFloat(d.Schema.Classes[k], 64)
			numbers = numbers && err == nil
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if order := cmp.Compare(value[a], value[b]); numbers && order != 0 {
			return order
		}
		return strings.Compare(d.Schema.Classes[a], d.Schema.Classes[b])
	})
	s := *d
	s.Schema = d.Schema.Clone()
	s.Schema.Classes = nil
	to := make([]int32, len(used))
	for k, old := range order {
		to[old] = int32(k)
		s.Schema.Classes = append(s.Schema.Classes, d.Schema.Classes[old])
	}
	s.Schema.MaxClasses = max(len(order), 2)
	s.labels = make([]int32, len(d.labels))
	for i, l := range d.labels {
		s.labels[i] = event.Unlabeled
		if l >= 0 {
			s.labels[i] = to[l]
		}
	}
	return &s
}

// Rarer returns the name of the first of two classes if it is rarer than the second class among the first n labeled
// examples. Otherwise it returns "". It also returns "" for conventional pairs such as 0 and 1, whose larger class is
// positive.
func (d *Data) Rarer(n int) string {
	classes, count := d.Schema.Classes, [2]int{}
	if len(classes) != 2 || event.UsualPair(classes[0], classes[1]) {
		return ""
	}
	for i := 0; i < d.Rows() && count[0]+count[1] < n; i++ {
		if l := d.Label(i); l >= 0 {
			count[l]++
		}
	}
	if count[0] < count[1] {
		return classes[0]
	}
	return ""
}

// Unlabel returns d with all labels removed.
func (d *Data) Unlabel() *Data { return d.UnlabelFrom(0) }

// UnlabelFrom returns d without the labels of all rows from the given row on.
func (d *Data) UnlabelFrom(row int) *Data {
	s := *d
	s.labels = slices.Clone(d.labels)
	for i := range s.labels[row:] {
		s.labels[row+i] = event.Unlabeled
	}
	return &s
}
