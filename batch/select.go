package batch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"blankout"
)

// Selection is a search for the settings that predict best, by k-fold cross
// validation.
type Selection struct {
	Folds int // at least 2; stratified by class
	Grid  []Axis
	// Deletions lists the shares of features that the held-out examples lose at
	// random, survivors rescaled. The best settings are chosen for each on its
	// own: what is best at 0 is seldom best at 0.7. Empty means 0 only.
	Deletions []float64
	Seed      uint64 // of folds and deletions
	Threads   int
	// Progress is told how many of the fits are done.
	Progress func(done, all int)
}

// Axis is a setting, as Config.Set names it, and the values to try.
type Axis struct {
	Key    string
	Values []string
}

// Candidate is one point of the grid. Error, Deviation (of the folds) and LogLoss
// go by deletion level; Error is in percent.
type Candidate struct {
	Values    []string  `json:"values"` // by axis
	Error     []float64 `json:"error"`
	Deviation []float64 `json:"deviation"`
	LogLoss   []float64 `json:"log_loss"`
	config    Config
}

// Table is a finished search.
type Table struct {
	Keys       []string    `json:"keys"`
	Deletions  []float64   `json:"deletions"`
	Candidates []Candidate `json:"candidates"`
	// Best is the candidate with the lowest error by deletion level, of equal
	// ones that with the lower log-loss, then the first.
	Best []int `json:"best"`
}

// Config returns the settings of a candidate.
func (t *Table) Config(candidate int) Config { return t.Candidates[candidate].config }

// Set gives the setting of a flag's name a value.
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
	case "level", "q":
		noise, _, _ := strings.Cut(c.Noise, ":")
		if key == "q" || noise == "none" || noise == "" {
			noise = "dropout"
		}
		c.Noise = noise + ":" + value
	case "t", "k":
		c.Loss = name + ":" + value
	case "intercept":
		c.Intercept = Intercept(value)
	case "multiclass":
		c.Multiclass = value
	case "prior":
		c.Prior = value
	default:
		return fmt.Errorf("no setting %q to vary: want one of c, l2, ell, alpha, loss, bound, noise, level, q, t, k, intercept, multiclass, prior", key)
	}
	return nil
}

// Select tries every point of the grid on d. The fits run side by side; the
// table does not depend on how many at a time.
func Select(ctx context.Context, d *Data, c Config, s Selection) (*Table, error) {
	if s.Folds < 2 {
		return nil, fmt.Errorf("%d folds: want at least 2", s.Folds)
	}
	if len(s.Deletions) == 0 {
		s.Deletions = []float64{0}
	}
	for _, q := range s.Deletions {
		if !(q >= 0 && q < 1) {
			return nil, fmt.Errorf("deletion %v: want a share in [0, 1)", q)
		}
	}
	t := &Table{Deletions: s.Deletions, Candidates: []Candidate{{config: c}}}
	for _, axis := range s.Grid {
		t.Keys = append(t.Keys, axis.Key)
		var next []Candidate
		for _, old := range t.Candidates {
			for _, v := range axis.Values {
				n := Candidate{Values: append(slices.Clone(old.Values), v), config: old.config}
				if err := n.config.Set(axis.Key, v); err != nil {
					return nil, err
				}
				next = append(next, n)
			}
		}
		t.Candidates = next
	}
	for i := range t.Candidates {
		if err := t.Candidates[i].config.Check(); err != nil {
			return nil, err
		}
	}
	train, test, err := d.folds(s.Folds, s.Seed)
	if err != nil {
		return nil, err
	}
	type cell struct{ err, logLoss []float64 }
	cells := make([]cell, len(t.Candidates)*s.Folds)
	errs := make([]error, len(cells))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	done := 0
	parallel(max(s.Threads, 1), len(cells), func(i int) {
		k := i % s.Folds
		config := t.Candidates[i/s.Folds].config
		config.Threads, config.Progress = 1, nil
		fit, err := Train(ctx, train[k], config)
		if err != nil {
			errs[i] = fmt.Errorf("%s: %w", t.name(i/s.Folds), err)
			cancel()
			return
		}
		for _, q := range s.Deletions {
			e, l := fit.measure(test[k], q, s.Seed)
			cells[i].err, cells[i].logLoss = append(cells[i].err, e), append(cells[i].logLoss, l)
		}
		if s.Progress != nil {
			mu.Lock()
			done++
			s.Progress(done, len(cells))
			mu.Unlock()
		}
	})
	if err := firstError(errs); err != nil {
		return nil, err
	}
	for i := range t.Candidates {
		n := &t.Candidates[i]
		for j := range s.Deletions {
			mean, square, logLoss := 0.0, 0.0, 0.0
			for _, c := range cells[i*s.Folds : (i+1)*s.Folds] {
				mean += c.err[j] / float64(s.Folds)
				logLoss += c.logLoss[j] / float64(s.Folds)
			}
			for _, c := range cells[i*s.Folds : (i+1)*s.Folds] {
				square += (c.err[j] - mean) * (c.err[j] - mean)
			}
			n.Error, n.LogLoss = append(n.Error, mean), append(n.LogLoss, logLoss)
			n.Deviation = append(n.Deviation, math.Sqrt(square/float64(s.Folds-1)))
		}
	}
	for j := range s.Deletions {
		best := 0
		for i := range t.Candidates {
			a, b := &t.Candidates[i], &t.Candidates[best]
			if a.Error[j] < b.Error[j] || a.Error[j] == b.Error[j] && a.LogLoss[j] < b.LogLoss[j] {
				best = i
			}
		}
		t.Best = append(t.Best, best)
	}
	return t, nil
}

// name says which candidate i is, for people.
func (t *Table) name(i int) string {
	var parts []string
	for k, v := range t.Candidates[i].Values {
		parts = append(parts, t.Keys[k]+" = "+v)
	}
	return strings.Join(parts, ", ")
}

// firstError returns the first of the errors that is not just a task told to
// stop because of another; failing that, the first.
func firstError(errs []error) error {
	var stopped error
	for _, err := range errs {
		switch {
		case err == nil:
		case !errors.Is(err, context.Canceled):
			return err
		case stopped == nil:
			stopped = err
		}
	}
	return stopped
}

// folds cuts d into k parts, each with its share of every class, and returns
// for each part the others, to train on, and the part itself. Unlabelled examples
// are always trained on.
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

// measure returns the error in percent and the log-loss of the model on d after a
// share q of its features is deleted and the others are scaled by 1/(1-q).
func (f *Fit) measure(d *Data, q float64, seed uint64) (err, logLoss float64) {
	m := NewMeasures(len(d.Schema.Classes))
	c := Corrupter{Noise: blankout.Dropout{Q: q}, Seed: seed}
	scores, probabilities := make([]float64, f.Model.Outputs), make([]float64, max(len(d.Schema.Classes), 2))
	var x blankout.Vec
	for i := range d.Rows() {
		row := d.Row(i)
		x.Index, x.Value = x.Index[:0], x.Value[:0]
		for j, column := range row.Index {
			x.Index = append(x.Index, d.Column(int(column)))
			x.Value = append(x.Value, row.At(j))
		}
		if q > 0 {
			c.Vec(x, i, 0)
		}
		s := f.Model.ScoreVec(x, scores)
		probabilities = f.Model.Probabilities(s, probabilities)
		m.Add(d.Label(i), d.Weight(i), s, probabilities)
	}
	r := m.Report()
	if r.Error == nil {
		return math.NaN(), math.NaN()
	}
	return *r.Error, *r.LogLoss
}
