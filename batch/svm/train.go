package svm

// This file trains a kernel machine on Data from a Config.

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"blankout/batch"
	"blankout/internal/kernel"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Config holds the settings of Train that batch.Config does not have.
type Config struct {
	Kernel string // kernel, as parsed by kernel.Parse
	// Drop is the penalty. Q = 0 gives the ordinary support vector machine, Q = AutoStrength means 1/n for n examples.
	Drop DropSVM
	// Square selects the square loss instead of the hinge, see DropSVM.Square. Ridge also keeps the penalty |w|^2. If
	// Ridge is set and there is no penalty on samples, the result is kernel ridge regression.
	Square, Ridge bool
	// Memory limits the bytes of matrices and caches. The support vector machine recomputes rows of K if K does not
	// fit. For DropSVM, a matrix that does not fit is an error.
	Memory int
	// Kept keeps the matrices of a training for later ones on the same Data. Trainings that share Kept must not run
	// concurrently. It may be nil.
	Kept *Matrices
}

// AutoStrength as the Q of a Config means 1/n for a problem of n examples. The elements of M are sums over n entries of
// K. So a fixed Q would become stronger with more examples, until only a constant remains.
const AutoStrength = -1

// DefaultConfig returns the Config of DropSVM with an RBF kernel, q = 1/n, keep = 0.7 and infinitely many epochs, in at
// most 2 GiB.
func DefaultConfig() Config {
	return Config{Kernel: "rbf", Drop: DropSVM{Q: AutoStrength, Keep: 0.7}, Memory: 2 << 30}
}

// Fit is the result of Train. Its Iterations are steps of SMO.
type Fit struct {
	batch.Solution
	Model  *kernel.Model
	Jitter float64 // largest DropKernel.Jitter of the problems
	// Vectors counts the support vectors of the dual, summed over the problems. If there is a penalty, the model's
	// expansion contains every example.
	Vectors int
	threads int
}

// Train solves the support vector machine of a kernel, or DropSVM, on the labeled examples of d. From c it uses Cost or
// L2, Ell, Intercept, Multiclass, Tol, Threads and Progress, which it calls once per solved problem. In the notation of
// Chen et al. the objective is
//
//	J(w) = l2 |w|^2 + kappa sum m_n max(0, ell - y_n f_n),
//
// with w in the feature space of the kernel (of Kbar for DropSVM). If L2 is set, l2 is L2 and kappa is one. Otherwise
// l2 is one and kappa is 2c. The dual of J is a batch.DualProblem with C_n = kappa m_n/(2 l2), and J is 2 l2 times the
// primal of the DualProblem.
//
// For the square loss kappa is c, and
//
//	J = l2 (2q gamma'M gamma) + kappa sum m_n (y_n - f_n)^2,
//
// plus l2 |w|^2 if Ridge is set.
//
// One-against-one solves each pair of classes on its own examples, with its own K and M.
func Train(ctx context.Context, d *batch.Data, c batch.Config, k Config) (*Fit, error) {
	begin := time.Now()
	t, err := newTrainer(d, c, k)
	if err != nil {
		return nil, err
	}
	f, err := t.train(ctx)
	if err != nil {
		return nil, err
	}
	f.Seconds = time.Since(begin).Seconds()
	return f, nil
}

// IsLoss reports whether a loss is a loss of kernel machines: dropsvm, dropsvm:square for the square loss, or
// dropsvm:ridge. The last is the square loss with the penalty |w|^2.
func IsLoss(loss string) bool {
	name, _, _ := strings.Cut(loss, ":")
	return name == "dropsvm"
}

// Check returns the first error in k, or in the settings of c that apply to kernel machines, that can be found without
// data.
func (k Config) Check(c batch.Config) error {
	if _, err := kernel.Parse(k.Kernel); err != nil {
		return err
	}
	drop := k.Drop
	if drop.Q == AutoStrength {
		drop.Q = 0
	}
	if err := drop.Check(); err != nil {
		return err
	}
	kappa, l2 := c.Penalization(loss.HingeChen{}.Facts().Cost)
	switch {
	case !(kappa > 0) || math.IsInf(kappa, 0):
		return fmt.Errorf("cost c = %v: want a positive number", c.Cost)
	case !(l2 > 0):
		return fmt.Errorf("a kernel machine needs a penalty: --l2 %v must be positive", l2)
	case !(c.Ell > 0) || math.IsInf(c.Ell, 0):
		return fmt.Errorf("margin ell = %v: want a positive number", c.Ell)
	case k.Square && c.Intercept == batch.PenalizedIntercept:
		return fmt.Errorf("the square loss of DropSVM has its intercept free or none")
	case c.Multiclass != "ovr" && c.Multiclass != "ovo":
		return fmt.Errorf("multiclass %q: want ovr or ovo", c.Multiclass)
	}
	return nil
}

// newTrainer prepares the binary problems and the matrices that they share.
func newTrainer(d *batch.Data, c batch.Config, k Config) (*trainer, error) {
	if err := k.Check(c); err != nil {
		return nil, err
	}
	t := &trainer{c: c, k: k}
	t.kappa, t.l2 = c.Penalization(loss.HingeChen{}.Facts().Cost)
	if k.Square {
		t.kappa, t.l2 = c.Penalization(loss.Quadratic{}.Facts().Cost)
	}
	t.c.Threads = max(c.Threads, 1)
	var labeled []int
	for i := range d.Rows() {
		switch {
		case d.Weight(i) == 0:
		case d.Label(i) >= 0:
			labeled = append(labeled, i)
		case c.Alpha > 0:
			return nil, fmt.Errorf("dropsvm: example %d: %w", i, batch.ErrUnlabeled)
		}
	}
	t.from, t.data = d, d.Subset(labeled)
	var err error
	if t.problems, err = c.Subproblems(t.data); err != nil {
		return nil, err
	}
	if t.kernel, err = kernel.Parse(k.Kernel); err != nil {
		return nil, err
	}
	if t.kernel, err = Resolve(t.kernel, t.data); err != nil {
		return nil, err
	}
	t.workers = min(t.c.Threads, len(t.problems))
	if len(t.problems) == 1 || t.problems[0].Negative < 0 {
		if t.shared, err = t.matrix(t.data, t.c.Threads, 1); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// train solves all binary problems.
func (t *trainer) train(ctx context.Context) (*Fit, error) {
	d, c, problems := t.data, t.c, t.problems
	results := make([]result, len(problems))
	var mu sync.Mutex
	err := batch.Each(ctx, t.workers, len(problems), func(ctx context.Context, i int) (err error) {
		if results[i], err = t.solve(ctx, problems[i]); err != nil {
			if len(problems) > 1 {
				err = fmt.Errorf("class %s: %w", d.Schema.Classes[problems[i].Positive], err)
			}
			return err
		}
		if c.Progress != nil {
			mu.Lock()
			defer mu.Unlock()
			c.Progress(batch.Progress{Problem: i, Problems: len(problems), Iteration: results[i].Iterations, Objective: results[i].Objective, Gap: results[i].Gap})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	outputs := len(problems)
	f := &Fit{Solution: batch.Solution{Converged: true}, threads: t.c.Threads}
	head := model.Head{Schema: d.Schema, Loss: "dropsvm", Noise: "none", Outputs: outputs, Intercept: make([]float64, outputs),
		Pairs: outputs > 1 && c.Multiclass == "ovo", Events: uint64(d.Rows()), Trained: "train"}
	coef := make([]float64, d.Rows()*outputs)
	for o, r := range results {
		f.Add(r.Solution)
		f.Jitter = max(f.Jitter, r.jitter)
		f.Vectors += r.vectors
		head.Intercept[o] = r.b
		for j, i := range r.rows {
			coef[i*outputs+o] = r.gamma[j]
		}
	}
	if f.Model, err = NewModel(head, t.kernel, d, coef); err != nil {
		return nil, err
	}
	f.Model.Vectors = f.Vectors
	return f, nil
}

type trainer struct {
	from      *batch.Data // all examples, including unlabeled ones
	data      *batch.Data // labeled examples
	kernel    kernel.Kernel
	c         batch.Config
	k         Config
	kappa, l2 float64
	problems  []batch.Subproblem
	workers   int
	shared    *Matrices
}

// Matrices are the kernel matrices that all problems on the same examples share. The zero value has none.
type Matrices struct {
	from   *batch.Data
	kernel string
	gram   *Gram // nil if it does not fit in memory
	by     DropSVM
	drop   *DropKernel
}

type result struct {
	rows  []int // rows of the data that the problem uses
	gamma []float64
	b     float64
	batch.Solution
	jitter  float64
	vectors int
}

// matrix computes the matrices of the examples d, in a fraction of the memory limit: the limit divided by the integer
// fraction.
func (t *trainer) matrix(d *batch.Data, threads, fraction int) (*Matrices, error) {
	n := d.Rows()
	bytes := 8 * n * n
	drop := t.drop(n)
	dropping := t.k.Square || drop.Q > 0 && drop.Keep < 1
	if dropping {
		bytes *= 4
	}
	if bytes > t.k.Memory/fraction {
		if dropping {
			return nil, fmt.Errorf("DropSVM on %d examples takes %d MB of matrices, more than the %d MB allowed: take fewer examples", n, bytes>>20, t.k.Memory/fraction>>20)
		}
		return &Matrices{}, nil
	}
	m := &Matrices{}
	if t.k.Kept != nil && d == t.data {
		m = t.k.Kept
	}
	return m, m.compute(t, d, drop, threads)
}

// compute computes the matrices of the examples d unless m has them.
func (m *Matrices) compute(t *trainer, d *batch.Data, drop DropSVM, threads int) (err error) {
	if name := t.kernel.String(); m.from != t.from || m.kernel != name {
		gram, err := NewGram(t.kernel, d, threads)
		if err != nil {
			return err
		}
		*m = Matrices{from: t.from, kernel: name, gram: gram}
	}
	if t.k.Square || m.drop != nil && m.by == drop {
		return nil
	}
	if m.drop != nil && m.gram.squared == nil {
		m.gram.squared = make([]float64, len(m.gram.data))
		syrk(m.gram.data, m.gram.squared, m.gram.n)
	}
	m.by = drop
	m.drop, err = drop.Kernel(m.gram)
	return err
}

// drop returns the settings of DropSVM for n examples, with AutoStrength resolved.
func (t *trainer) drop(n int) DropSVM {
	drop := t.k.Drop
	if drop.Q == AutoStrength {
		drop.Q = 1 / float64(max(n, 1))
	}
	return drop
}

func (t *trainer) solve(ctx context.Context, p batch.Subproblem) (result, error) {
	var r result
	d, m := t.data, t.shared
	for i := range p.Y {
		if p.Weight == nil || p.Weight[i] > 0 {
			r.rows = append(r.rows, i)
		}
	}
	if m == nil {
		d = d.Subset(r.rows)
		var err error
		if m, err = t.matrix(d, 1, t.workers); err != nil {
			return r, err
		}
	}
	n := d.Rows()
	y, weight, cost := make([]float64, n), make([]float64, n), make([]float64, n)
	for j, i := range r.rows {
		y[j], weight[j] = p.Y[i], d.Weight(j)
		cost[j] = t.kappa * weight[j] / (2 * t.l2)
	}
	if t.k.Square {
		return r, t.square(&r, m.gram, y, weight)
	}
	var rows batch.GramRows
	if m.gram != nil {
		rows = m.drop.Kbar
		r.jitter = m.drop.Jitter
	} else {
		cached, err := batch.NewCachedGram(t.kernel, d, t.k.Memory/t.workers, t.c.Threads/t.workers)
		if err != nil {
			return r, err
		}
		rows = cached
	}
	dual, err := batch.SolveHinge(ctx, rows, y, cost, t.c.Ell, t.c.Intercept, t.c.Tol)
	if err != nil {
		return r, err
	}
	r.gamma, r.b = dual.Beta, dual.Intercept
	if m.drop != nil {
		r.gamma = m.drop.Expansion(dual.Beta)
	}
	// The certificate includes the rounding error of the sums in Primal and Dual.
	r.Objective, r.Gap = 2*t.l2*dual.Primal, 2*t.l2*(max(dual.Gap, 0)+1e-14*math.Abs(dual.Primal))
	r.Converged, r.Iterations = dual.Converged, dual.Iterations
	for _, b := range dual.Beta {
		if b != 0 {
			r.vectors++
		}
	}
	return r, nil
}

// square writes the closed-form solution of the square loss to r.
func (t *trainer) square(r *result, k *Gram, y, weight []float64) error {
	s := make([]float64, len(weight))
	for i, w := range weight {
		s[i] = t.kappa / t.l2 * w
	}
	ridge := 0.0
	if t.k.Ridge {
		ridge = 1
	}
	var err error
	if r.gamma, r.b, err = t.drop(len(y)).Square(k, y, s, ridge, t.c.Intercept == batch.FreeIntercept); err != nil {
		return err
	}
	// At the minimum the penalties are gamma'K S (y - f), so J = (y - f)'S (y - b).
	for i := range y {
		f := batch.Dot(k.Row(i), r.gamma) + r.b
		r.Objective += t.kappa * weight[i] * (y[i] - f) * (y[i] - r.b)
	}
	r.Gap, r.Converged, r.Iterations, r.vectors = math.Inf(1), true, 1, len(y)
	return nil
}

// TrainError is batch.Data.ErrorOf for the model.
func (f *Fit) TrainError(d *batch.Data) float64 { return d.ErrorOf(f.Model, f.threads) }
