package batch

// This file searches a grid of settings for the settings that predict best.

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// Selection configures a search for the best settings, by k-fold cross-validation or on a validation set.
type Selection struct {
	Folds int // number of folds, at least 2; stratified by class
	// Validation, if not nil, replaces the folds: every candidate is trained on all examples and measured on
	// Validation. Validation must have the Schema of the training examples, see Data.WithClassesOf.
	Validation *Data
	Grid       []Axis
	// Deletions lists fractions of features. Each fraction is deleted at random from the held-out examples, and the
	// survivors are rescaled. The best settings are chosen for each fraction separately, because the best settings for
	// 0 are seldom the best for 0.7. Empty means 0 only.
	Deletions []float64
	// Silent means that the model cannot detect deletions: deleted features read their dead values (Data.SetDead) and
	// survivors are not rescaled.
	Silent  bool
	Seed    uint64 // seed of the folds and the deletions
	Threads int
	// Progress is called with the number of finished fits and the total number of fits.
	Progress func(done, all int)
}

// Settings are the training settings of one kind of model that a search can vary.
type Settings[S any] interface {
	// With returns a copy of the settings with one setting changed. The key is the name of its flag.
	With(key, value string) (S, error)
	// Check returns the first error that can be found without data.
	Check() error
	// Chain returns a function that trains on d with settings that differ only in their cost. Call it for one setting
	// after the other; each training uses one thread. workers chains run concurrently and share the memory limit.
	Chain(d *Data, workers int) func(context.Context, S) (model.Model, error)
}

// Axis is a setting, named by the key of Settings.With, and the values to try.
type Axis struct {
	Key    string
	Values []string
}

// ParseAxis parses an Axis written as KEY=VALUE,VALUE,….
func ParseAxis(text string) (Axis, error) {
	key, list, ok := strings.Cut(text, "=")
	if !ok || key == "" || list == "" {
		return Axis{}, fmt.Errorf("%q: want KEY=VALUE,VALUE,…", text)
	}
	return Axis{Key: key, Values: strings.Split(list, ",")}, nil
}

// Candidate is one point of the grid. Error (in percent), Deviation (over the folds) and LogLoss are indexed by
// deletion level.
type Candidate struct {
	Values    []string  `json:"values"` // values by axis
	Error     []float64 `json:"error"`
	Deviation []float64 `json:"deviation"`
	LogLoss   []float64 `json:"log_loss"`
}

// Ranking is the result of a search.
type Ranking struct {
	Keys       []string    `json:"keys"`
	Deletions  []float64   `json:"deletions"`
	Candidates []Candidate `json:"candidates"`
	// Best holds the index of the candidate with the lowest error, by deletion level. Ties go to the lower log-loss,
	// then to the first candidate.
	Best []int `json:"best"`
}

// Name returns a readable name of candidate i.
func (t *Ranking) Name(i int) string { return nameOf(t.Keys, t.Candidates[i].Values) }

func nameOf(keys, values []string) string {
	var parts []string
	for k, v := range values {
		parts = append(parts, keys[k]+" = "+v)
	}
	return strings.Join(parts, ", ")
}

// With returns a copy of the settings with one setting changed. The key is the name of its flag.
func (c Config) With(key, value string) (Config, error) {
	err := c.Set(key, value)
	return c, err
}

// Set changes one setting. The argument key is the name of its flag.
func (c *Config) Set(key, value string) error {
	number := func(to *float64) error {
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("%s = %q is not a number", key, value)
		}
		*to = x
		return nil
	}
	name, _, _ := strings.Cut(c.Loss, ":")
	switch key {
	case "c", "cost":
		return number(&c.Cost)
	case "l2":
		return number(&c.L2)
	case "l1":
		return number(&c.L1)
	case "ell":
		return number(&c.Ell)
	case "alpha":
		return number(&c.Alpha)
	case "loss":
		c.Loss = value
	case "bound":
		c.Bound = value
	case "noise":
		c.Noise = value
	case "level":
		noise, _, _ := strings.Cut(c.Noise, ":")
		if strings.Contains(c.Noise, "+group") { // a number may contain a plus too, as in 1e+3
			return fmt.Errorf("level: noise %s has two of them; vary q, of features, or group", c.Noise)
		}
		if noise == "none" || noise == "" {
			noise = "dropout"
		}
		c.Noise = noise + ":" + value
	case "q", "group": // keep the kind of noise that has no new level
		features, groups := "", ""
		for part := range strings.SplitSeq(c.Noise, "+") {
			switch noise, _, _ := strings.Cut(part, ":"); noise {
			case "dropout":
				features = part
			case "group":
				groups = part
			}
		}
		if key == "q" {
			features = "dropout:" + value
		} else {
			groups = "group:" + value
		}
		c.Noise = strings.Trim(features+"+"+groups, "+")
	case "t", "k":
		c.Loss = name + ":" + value
	case "intercept":
		c.Intercept = Intercept(value)
	case "multiclass":
		c.Multiclass = value
	case "prior":
		c.Prior = value
	default:
		return fmt.Errorf("no setting %q to vary: want one of c, l2, l1, ell, alpha, loss, bound, noise, level, q, group, t, k, intercept, multiclass, prior", key)
	}
	return nil
}

// Point is a point of a grid: the settings and the values of the axes.
type Point[S any] struct {
	Name     string   // readable name, such as "c = 0.1, q = 0.5"
	Values   []string // values by axis
	Settings S
}

// Grid returns the points of a grid. Settings that no axis varies have their values in first. The last axis varies
// fastest. If points are invalid, the error is the error of the first of them.
func Grid[S Settings[S]](first S, axes []Axis) ([]Point[S], error) {
	keys, points := make([]string, len(axes)), []Point[S]{{Settings: first}}
	for i, axis := range axes {
		keys[i] = axis.Key
		var next []Point[S]
		for _, p := range points {
			for _, v := range axis.Values {
				s, err := p.Settings.With(axis.Key, v)
				if err != nil {
					return nil, err
				}
				next = append(next, Point[S]{Values: append(slices.Clone(p.Values), v), Settings: s})
			}
		}
		points = next
	}
	for i := range points {
		p := &points[i]
		p.Name = nameOf(keys, p.Values)
		if err := p.Settings.Check(); err != nil {
			return nil, err
		}
	}
	return points, nil
}

// Held is the loss of one setting on held-out examples. Tie decides between settings of equal Loss.
type Held struct{ Loss, Tie float64 }

// Least returns the index of the setting with the lowest loss among the settings that want accepts. Ties go to the
// first. A nil want accepts all settings. Least returns -1 if want accepts none.
func Least(n int, want func(i int) bool, of func(i int) Held) int {
	best := -1
	for i := range n {
		if want != nil && !want(i) {
			continue
		}
		if best >= 0 {
			a, b := of(i), of(best)
			if better := a.Loss < b.Loss || a.Loss == b.Loss && a.Tie < b.Tie; !better && !math.IsNaN(b.Loss) {
				continue
			}
		}
		best = i
	}
	return best
}

// Select trains every point of the grid around first on d. It returns the Ranking and the settings of each candidate.
// Candidates that differ only in their cost form a chain: each starts from the solution of the previous candidate or
// shares its kernel matrices. Chains run in parallel. The ranking does not depend on the number of threads.
func Select[S Settings[S]](ctx context.Context, d *Data, first S, s Selection) (*Ranking, []S, error) {
	if s.Folds < 2 && s.Validation == nil {
		return nil, nil, fmt.Errorf("%d folds: want at least 2", s.Folds)
	}
	if len(s.Deletions) == 0 {
		s.Deletions = []float64{0}
	}
	for _, q := range s.Deletions {
		if !(q >= 0 && q < 1) {
			return nil, nil, fmt.Errorf("deletion %v: want a fraction in [0, 1)", q)
		}
	}
	t := &Ranking{Deletions: s.Deletions}
	for _, axis := range s.Grid {
		t.Keys = append(t.Keys, axis.Key)
	}
	points, err := Grid(first, s.Grid)
	if err != nil {
		return nil, nil, err
	}
	settings := make([]S, len(points))
	for i, p := range points {
		settings[i] = p.Settings
		t.Candidates = append(t.Candidates, Candidate{Values: p.Values})
	}
	train, test := []*Data{d}, []*Data{s.Validation}
	if s.Validation == nil {
		if train, test, err = d.folds(s.Folds, s.Seed); err != nil {
			return nil, nil, err
		}
	}
	folds, chains := len(train), t.chains()
	cells := make([]cell, len(t.Candidates)*folds)
	var mu sync.Mutex
	done, tasks := 0, len(chains)*folds
	workers := min(max(s.Threads, 1), tasks)
	err = Each(ctx, workers, tasks, func(ctx context.Context, i int) error {
		k := i % folds
		next := first.Chain(train[k], workers)
		for _, candidate := range chains[i/folds] {
			m, err := next(ctx, settings[candidate])
			if err != nil {
				if len(s.Grid) > 0 {
					err = fmt.Errorf("%s: %w", t.Name(candidate), err)
				}
				return err
			}
			to := &cells[candidate*folds+k]
			for _, q := range s.Deletions {
				e, l := measureDeleted(m, test[k], q, s.Silent, s.Seed)
				to.err, to.logLoss = append(to.err, e), append(to.logLoss, l)
			}
			if s.Progress != nil {
				mu.Lock()
				done++
				s.Progress(done, len(cells))
				mu.Unlock()
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	t.measured(cells, folds)
	return t, settings, nil
}

// cell holds the results of one candidate on one fold, by deletion level.
type cell struct{ err, logLoss []float64 }

// chains returns the chains: lists of the indexes of candidates that differ only in their cost.
func (t *Ranking) chains() (chains [][]int) {
	alike := func(a, b []string) bool {
		for k, key := range t.Keys {
			if key != "c" && key != "cost" && key != "l2" && a[k] != b[k] {
				return false
			}
		}
		return true
	}
	for i := range t.Candidates {
		at := slices.IndexFunc(chains, func(chain []int) bool { return alike(t.Candidates[chain[0]].Values, t.Candidates[i].Values) })
		if at < 0 {
			at, chains = len(chains), append(chains, nil)
		}
		chains[at] = append(chains[at], i)
	}
	return chains
}

// measured computes the means of cells over the folds, and chooses the best candidates.
func (t *Ranking) measured(cells []cell, folds int) {
	for i := range t.Candidates {
		n := &t.Candidates[i]
		for j := range t.Deletions {
			mean, square, logLoss := 0.0, 0.0, 0.0
			for _, c := range cells[i*folds : (i+1)*folds] {
				mean += c.err[j] / float64(folds)
				logLoss += c.logLoss[j] / float64(folds)
			}
			for _, c := range cells[i*folds : (i+1)*folds] {
				square += (c.err[j] - mean) * (c.err[j] - mean)
			}
			n.Error, n.LogLoss = append(n.Error, mean), append(n.LogLoss, logLoss)
			n.Deviation = append(n.Deviation, math.Sqrt(square/float64(max(folds-1, 1))))
		}
	}
	for j := range t.Deletions {
		t.Best = append(t.Best, Least(len(t.Candidates), nil, func(i int) Held { return Held{t.Candidates[i].Error[j], t.Candidates[i].LogLoss[j]} }))
	}
}

// Chain implements Settings. Training starts from the previous weights. If the minimum is certified, the result does
// not depend on the start.
func (Config) Chain(d *Data, _ int) func(context.Context, Config) (model.Model, error) {
	var start [][]float64
	return func(ctx context.Context, c Config) (model.Model, error) {
		c.Threads, c.Progress = 1, nil
		fit, err := TrainFrom(ctx, d, c, start)
		if err != nil {
			return nil, err
		}
		start = nil
		if !math.IsInf(fit.Gap, 1) {
			for _, r := range fit.Problems {
				start = append(start, r.W)
			}
		}
		return fit.Model, nil
	}
}

// folds cuts d into k stratified parts. For each part it returns the part as the test set and all other parts as the
// training set. Unlabeled examples are always in the training set.
func (d *Data) folds(k int, seed uint64) (train, test []*Data, err error) {
	fold := make([]int, d.Rows())
	next := 0
	for class, rows := range d.byClass(seed) {
		if class < len(d.Schema.Classes) && len(rows) > 0 && len(rows) < k {
			return nil, nil, fmt.Errorf("class %s has %d examples, too few for %d folds", d.Schema.Classes[class], len(rows), k)
		}
		for _, i := range rows {
			fold[i] = next % k
			next++
			if d.Label(i) < 0 {
				fold[i] = -1
			}
		}
	}
	for f := range k {
		var in, out []int
		for i, at := range fold {
			if at == f {
				out = append(out, i)
			} else {
				in = append(in, i)
			}
		}
		train, test = append(train, d.Subset(in)), append(test, d.Subset(out))
	}
	return train, test, nil
}

// measureDeleted returns the error in percent and the log-loss of a model on d after a fraction q of d's features is
// deleted. The surviving features are scaled by 1/(1-q), or keep their values if silent is set.
func measureDeleted(trained model.Model, d *Data, q float64, silent bool, seed uint64) (err, logLoss float64) {
	m := measure.NewEvaluation(len(d.Schema.Classes))
	c := Corrupter{Noise: loss.Dropout{Q: q}, Seed: seed, Keep: silent}
	if silent {
		c.Splines = d.splines
	}
	var dead []bool
	scores, probabilities := make([]float64, max(trained.About().Outputs, len(d.Schema.Classes))), make([]float64, max(len(d.Schema.Classes), 2))
	var x event.Vec
	for i := range d.Rows() {
		x = d.Vec(i, x)
		switch {
		case q > 0 && silent && d.dead != nil:
			dead = c.Dead(x.Index, nil, i, 0, dead)
			for j, column := range d.Row(i).Index {
				if dead[j] {
					x.Value[j] = d.dead[column]
				}
			}
		case q > 0:
			c.Vec(x, nil, i, 0)
		}
		s := trained.ScoreVec(x, scores)
		probabilities = trained.About().Probabilities(s, probabilities)
		m.Add(d.Label(i), d.Weight(i), s, model.Predict(s), probabilities)
	}
	r := m.Report()
	if r.Error == nil {
		return math.NaN(), math.NaN()
	}
	return *r.Error, *r.LogLoss
}

// WithClassesOf returns v with the class numbers of d. Build v with the Schema of d before you call SortClasses on d.
// WithClassesOf returns an error if v has a class that d does not have.
func (v *Data) WithClassesOf(d *Data) (*Data, error) {
	s := *v
	s.Schema, s.labels = d.Schema, make([]int32, len(v.labels))
	for i, l := range v.labels {
		s.labels[i] = event.Unlabeled
		if l >= 0 {
			k := slices.Index(d.Schema.Classes, v.Schema.Classes[l])
			if k < 0 {
				return nil, fmt.Errorf("example %d has class %s, which no training example has", i, v.Schema.Classes[l])
			}
			s.labels[i] = int32(k)
		}
	}
	s.SetDead(d.deadOf())
	return &s, nil
}
