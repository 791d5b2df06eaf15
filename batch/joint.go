package batch

// This file holds the exact problem of a data set that is cut into parts, each of which is
// in one place only: the parts answer for their rows, and nobody sees all of them.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"blankout/loss"
	"blankout/model"
)

// Ask says what a Question is about.
type Ask uint8

// The questions. A part answers with sums over its rows of positive weight, without any
// penalty. Where a vector is named below it also answers with a vector: by its own columns
// and then, if there is one, the intercept.
const (
	AskLabels   Ask = iota + 1 // how many rows are positive, and how many negative
	AskGradient                // at W, smoothed by Scalars[0]: value; a vector, the gradient
	AskValue                   // at W, smoothed by Scalars[0]: value
	AskHessian                 // at the point of the last gradient: a vector, Hessian times W
	AskDiagonal                // there: a vector, the Hessian's diagonal
	AskLine                    // there: nothing, W being the direction of the AskAlong that follow
	AskAlong                   // at Scalars[0] along the line: value, slope, curvature
	AskScores                  // at W: the size of the slopes, see slopeSize; the AskSlope that follow are there
	AskSlope                   // scores shifted by Scalars[0], smoothed by Scalars[1]: slope
	AskDual                    // the same shift, for good, and smoothing: value, and the sums of dualSums
	AskBound                   // thetas Scalars: the rows' own parts of the gap, sum of v, of weight, and of weight with less v than smoothing; a vector, the gradient at the dual point
)

// Question is what a Joint asks all of its parts.
type Question struct {
	Ask     Ask
	Output  int       // of the model
	Scalars []float64 // see Ask
	W       []float64 // by column of the Joint, then the intercept if there is one; nil where none is asked about
}

// Answer is what a part says.
type Answer struct{ Sums, Vector []float64 }

// Parts is where the parts of a Joint are.
type Parts interface {
	// Ask puts a question to all parts, which work at the same time, and returns their
	// answers in the order of the parts. It is called with one Question after the other,
	// which is borrowed; so are the answers, until the next one.
	Ask(ctx context.Context, q *Question) ([]*Answer, error)
}

// Part is the rows of one part of a data set. It is not safe for concurrent use.
type Part struct {
	data    *Data // learned rows
	config  ValidateConfig
	outputs int
	build   func(*Data, Subproblem, Config) (Objective, error)
	place   []int // own columns among those of the Joint
	problem []*partOf
}

// partOf is a Part's problem of one output.
type partOf struct {
	o                  *Expected // nil without a row that counts
	positive, negative float64
	w, vector          []float64
	line               func(t float64) (value, slope, curvature float64)
}

// Part returns the events learned as a part of a larger data set, for the exact problem of
// classes. No more events can come from here on.
func (v *Evidence) Part(c ValidateConfig) (*Part, error) {
	noise, _, err := jointly(c)
	if err != nil {
		return nil, err
	}
	p := &Part{data: v.all().Subset(v.learned), config: c, outputs: v.live.Outputs, problem: make([]*partOf, v.live.Outputs)}
	if p.build, _, err = c.objective(noise); err != nil {
		return nil, err
	}
	return p, nil
}

// CheckTogether returns why parts cannot solve a problem together, nil if they can.
func CheckTogether(c ValidateConfig) error {
	_, _, err := jointly(c)
	return err
}

// jointly returns the noise and the loss of a problem that parts can solve together.
func jointly(c ValidateConfig) (noise loss.Noise, l loss.Loss, err error) {
	if noise, err = loss.ParseNoise(c.Noise); err != nil {
		return nil, nil, err
	}
	c0, c1, c2 := noise.Coefficients()
	if c0 != 0 {
		return nil, nil, fmt.Errorf("noise %s: it acts on features that are absent too, which no part of the events knows by itself; solve it on one machine", c.Noise)
	}
	if loss.IsRegression(c.Loss) {
		return nil, nil, fmt.Errorf("loss %s: parts are solved together for classes only; solve it on one machine", c.Loss)
	}
	own, _, err := c.estimator()
	if err != nil {
		return nil, nil, err
	}
	if own != nil {
		return nil, nil, fmt.Errorf("loss %s is not solved by sums over parts; solve it on one machine", c.Loss)
	}
	name, err := c.LossName()
	if err != nil {
		return nil, nil, err
	}
	if l, err = loss.Parse(name); err != nil {
		return nil, nil, err
	}
	if c1 == 0 && c2 == 0 && l.Facts().Kink != nil {
		// Nothing rounds the kink off, and the methods for that case read rows one by one.
		return nil, nil, fmt.Errorf("loss %s without noise has a kink, and parts cannot be solved together exactly; solve it on one machine, or learn under noise", name)
	}
	return noise, l, nil
}

// Columns returns the columns of the part in ascending order. The caller must not change
// them.
func (p *Part) Columns() []uint32 { return p.data.columns }

// Rows returns how many events the part has learned.
func (p *Part) Rows() int { return p.data.Rows() }

// Join tells the part the columns of all parts, in ascending order.
func (p *Part) Join(all []uint32) error {
	place, err := placeOf(p.data.columns, all)
	p.place = place
	return err
}

// placeOf returns where own columns are among all, both ascending.
func placeOf(own, all []uint32) ([]int, error) {
	place := make([]int, len(own))
	for i, c := range own {
		at, ok := slices.BinarySearch(all, c)
		if !ok {
			return nil, fmt.Errorf("column %d of a part is not among those of all parts", c)
		}
		place[i] = at
	}
	return place, nil
}

// of returns the problem of an output.
func (p *Part) of(output int) (*partOf, error) {
	if output < 0 || output >= p.outputs {
		return nil, fmt.Errorf("output %d of %d", output, p.outputs)
	}
	if b := p.problem[output]; b != nil {
		return b, nil
	}
	b := &partOf{}
	p.problem[output] = b
	problem, _ := p.data.againstTheRest(output, p.outputs)
	for i, y := range problem.Y {
		switch {
		case !(p.data.Weight(i) > 0):
		case y > 0:
			b.positive++
		case y < 0:
			b.negative++
		}
	}
	if b.positive+b.negative == 0 {
		return b, nil
	}
	o, err := p.build(p.data, problem, p.config.Config)
	if err != nil {
		return nil, err
	}
	e := o.(*Expected)   // see jointly
	clear(e.p.Penalty.R) // the Joint's
	b.o, b.w, b.vector = e, make([]float64, e.dim), make([]float64, e.dim)
	return b, nil
}

// Answer answers a question. The Answer is the caller's until the next one is asked for.
func (p *Part) Answer(ctx context.Context, q *Question) (*Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p.place == nil && len(p.data.columns) > 0 {
		return nil, errors.New("a part was asked before it was told the columns of all")
	}
	if want, ok := scalarsOf[q.Ask]; !ok || len(q.Scalars) != want {
		return nil, fmt.Errorf("question %d with %d numbers", q.Ask, len(q.Scalars))
	}
	b, err := p.of(q.Output)
	if err != nil {
		return nil, err
	}
	if q.Ask == AskLabels {
		return &Answer{Sums: []float64{b.positive, b.negative}}, nil
	}
	o := b.o
	if o == nil {
		return &Answer{Sums: make([]float64, sumsOf[q.Ask])}, nil
	}
	if q.W != nil {
		intercept := o.dim - o.columns
		for i, at := range p.place {
			if at >= len(q.W)-intercept {
				return nil, fmt.Errorf("a vector of %d for column %d", len(q.W), at)
			}
			b.w[i] = q.W[at]
		}
		if intercept > 0 {
			b.w[o.columns] = q.W[len(q.W)-1]
		}
	} else if asksAbout[q.Ask] {
		return nil, fmt.Errorf("question %d without a vector", q.Ask)
	}
	a := &Answer{}
	switch q.Ask {
	case AskGradient, AskValue:
		o.Smooth(q.Scalars[0])
		o.cached = false
		var grad []float64
		if q.Ask == AskGradient {
			grad = b.vector
		}
		a.Sums, a.Vector = []float64{o.ValueGrad(b.w, grad)}, grad
	case AskHessian:
		o.HessVec(b.w, b.vector)
		a.Vector = b.vector
	case AskDiagonal:
		o.Diagonal(b.vector)
		a.Vector = b.vector
	case AskLine:
		b.line = o.Line(b.w)
	case AskAlong:
		if b.line == nil {
			return nil, errors.New("a part was asked along no line")
		}
		value, slope, curvature := b.line(q.Scalars[0])
		a.Sums = []float64{value, slope, curvature}
	case AskScores:
		size := o.slopeSize()
		o.scores(b.w)
		a.Sums = []float64{size}
	case AskSlope:
		o.Smooth(q.Scalars[1])
		a.Sums = []float64{o.slope(q.Scalars[0])}
	case AskDual:
		o.Smooth(q.Scalars[1])
		o.shift(q.Scalars[0])
		value := o.dualPoint()
		up, down := o.dualSums()
		a.Sums = []float64{value, up, down}
	case AskBound:
		kink := o.dualGradient(b.w, b.vector, q.Scalars[0], q.Scalars[1], o.smoothedSlack)
		sharp, variance, all := o.roundingSums()
		a.Sums, a.Vector = []float64{kink, variance, all, sharp}, b.vector
	}
	return a, nil
}

// What belongs to each question: the scalars with it, the sums in its answer, whether it
// has a vector, and whether its answer has.
var (
	scalarsOf = map[Ask]int{AskLabels: 0, AskGradient: 1, AskValue: 1, AskHessian: 0, AskDiagonal: 0, AskLine: 0, AskAlong: 1, AskScores: 0, AskSlope: 2, AskDual: 2, AskBound: 2}
	sumsOf    = map[Ask]int{AskLabels: 2, AskGradient: 1, AskValue: 1, AskAlong: 3, AskScores: 1, AskSlope: 1, AskDual: 3, AskBound: 4}
	asksAbout = map[Ask]bool{AskGradient: true, AskValue: true, AskHessian: true, AskLine: true, AskScores: true, AskBound: true}
	answersIn = map[Ask]bool{AskGradient: true, AskHessian: true, AskDiagonal: true, AskBound: true}
)

// Joint is the regularised expected loss of Expected over rows that are in several parts.
// The parts work at the same time; what they answer is added in their order, so that the
// result does not depend on where a part is. It is an Objective, HessianVector and
// Certifier. An answer that does not come makes all values NaN, which ends Solve; Err then
// says why.
type Joint struct {
	ctx       context.Context
	parts     Parts
	place     [][]int // of each part's columns
	columns   []uint32
	output    int
	penalty   Penalty
	intercept Intercept
	facts     loss.Facts
	convex    bool

	w      []float64 // of the last gradient
	eps    float64
	kink   float64
	spread float64
	sharp  float64 // share of the weight with less variance than smoothing
	rounds int
	err    error
}

// Union returns the columns of all parts, ascending.
func Union(own [][]uint32) []uint32 {
	all := slices.Concat(own...)
	slices.Sort(all)
	return slices.Compact(all)
}

// NewJoint returns the problem of one output over parts whose columns are own, and which
// have been told the Union of these (Part.Join). ctx ends the questions. ok is false where
// the labels do not have both sides: there is nothing to tell apart then.
func NewJoint(ctx context.Context, parts Parts, own [][]uint32, output int, c ValidateConfig) (j *Joint, ok bool, err error) {
	noise, l, err := jointly(c)
	if err != nil {
		return nil, false, err
	}
	_, l2 := c.Penalisation(l.Facts().Cost)
	columns := Union(own)
	j = &Joint{ctx: ctx, parts: parts, columns: columns, output: output, penalty: Ridge(len(columns), l2, c.Intercept), intercept: c.Intercept, facts: l.Facts()}
	j.w = make([]float64, len(j.penalty.R))
	_, c1, c2 := noise.Coefficients()
	if j.convex = j.facts.Convex; c1 == 0 && c2 == 0 {
		j.convex = j.facts.CleanConvex
	}
	for _, own := range own {
		place, err := placeOf(own, columns)
		if err != nil {
			return nil, false, err
		}
		j.place = append(j.place, place)
	}
	sums := j.ask(&Question{Ask: AskLabels}, nil)
	return j, sums[0] > 0 && sums[1] > 0, j.err
}

// Err returns why an answer did not come; nil if all came.
func (j *Joint) Err() error { return j.err }

// Rounds returns how many questions have been asked.
func (j *Joint) Rounds() int { return j.rounds }

// ask asks all parts at the same time. It returns the sums of their answers, and writes
// that of their vectors to out unless that is nil.
func (j *Joint) ask(q *Question, out []float64) []float64 {
	q.Output = j.output
	sums := make([]float64, sumsOf[q.Ask])
	var answers []*Answer
	if j.err == nil {
		j.rounds++
		answers, j.err = j.parts.Ask(j.ctx, q)
	}
	if j.err == nil && len(answers) != len(j.place) {
		j.err = fmt.Errorf("%d answers of %d parts", len(answers), len(j.place))
	}
	for i, a := range answers {
		if j.err == nil && (len(a.Sums) != len(sums) || answersIn[q.Ask] && a.Vector != nil && len(a.Vector) != len(j.place[i])+len(j.w)-len(j.columns)) {
			j.err = fmt.Errorf("part %d answers question %d with %d sums and a vector of %d", i, q.Ask, len(a.Sums), len(a.Vector))
		}
	}
	clear(out)
	if j.err != nil {
		for i := range sums {
			sums[i] = math.NaN()
		}
		for i := range out {
			out[i] = math.NaN()
		}
		return sums
	}
	for i, a := range answers {
		for k, s := range a.Sums {
			sums[k] += s
		}
		if out == nil || a.Vector == nil {
			continue
		}
		for k, at := range j.place[i] {
			out[at] += a.Vector[k]
		}
		if n := len(j.columns); len(out) > n {
			out[n] += a.Vector[len(a.Vector)-1]
		}
	}
	return sums
}

// Dim implements Objective.
func (j *Joint) Dim() int { return len(j.penalty.R) }

// IsConvex reports whether the objective is convex.
func (j *Joint) IsConvex() bool { return j.convex }

// ValueGrad implements Objective.
func (j *Joint) ValueGrad(w, grad []float64) float64 {
	q := &Question{Ask: AskValue, Scalars: []float64{j.eps}, W: w}
	if grad != nil {
		q.Ask = AskGradient
		copy(j.w, w)
	}
	value := j.ask(q, grad)[0]
	return value + j.penalty.ValueGrad(w, grad)
}

// HessVec implements HessianVector.
func (j *Joint) HessVec(v, out []float64) {
	j.ask(&Question{Ask: AskHessian, W: v}, out)
	for d, v := range v {
		out[d] += j.penalty.R[d] * v
	}
}

// Diagonal implements Diagonaler.
func (j *Joint) Diagonal(out []float64) {
	j.ask(&Question{Ask: AskDiagonal}, out)
	for d := range out {
		out[d] += j.penalty.R[d]
	}
}

// Line implements Liner.
func (j *Joint) Line(d []float64) func(t float64) (value, slope, curvature float64) {
	j.ask(&Question{Ask: AskLine, W: d}, nil)
	pen := j.penalty.along(j.w, d)
	return func(t float64) (value, slope, curvature float64) {
		s := j.ask(&Question{Ask: AskAlong, Scalars: []float64{t}}, nil)
		return pen.add(t, s[0], s[1], s[2])
	}
}

// Gap implements Certifier, as Expected's does.
func (j *Joint) Gap(w []float64) float64 {
	j.kink = 0
	if !j.convex {
		return math.Inf(1)
	}
	size := j.ask(&Question{Ask: AskScores, W: w}, nil)[0]
	shift := 0.0
	if j.FreeIntercept() {
		shift = zeroOf(func(shift float64) float64 {
			return j.ask(&Question{Ask: AskSlope, Scalars: []float64{shift, j.eps}}, nil)[0]
		}, size)
		w[len(j.columns)] += shift
	}
	dual := j.ask(&Question{Ask: AskDual, Scalars: []float64{shift, j.eps}}, nil)
	thetaUp, thetaDown := 1.0, 1.0
	if j.FreeIntercept() {
		thetaUp, thetaDown = thetas(dual[1], dual[2])
	}
	r := make([]float64, len(w))
	bound := j.ask(&Question{Ask: AskBound, Scalars: []float64{thetaUp, thetaDown}, W: w}, r)
	j.penalty.ValueGrad(w, r)
	j.kink = bound[0]
	j.spread, j.sharp = math.Sqrt(bound[1]/bound[2]), bound[3]/bound[2]
	if j.err != nil {
		return math.Inf(1)
	}
	return j.penalty.GradientGap(r, j.FreeIntercept()) + j.kink
}

func (j *Joint) FreeIntercept() bool { return j.intercept == FreeIntercept }

// GradientGap implements GradientGapper.
func (j *Joint) GradientGap(r []float64) float64 {
	return j.penalty.GradientGap(r, j.FreeIntercept())
}

// Smooth, Kinked, SmoothingGap and OwnRounding implement Smoother, as Expected does.
func (j *Joint) Smooth(eps float64)    { j.eps = eps }
func (j *Joint) Kinked() bool          { return j.facts.Kink != nil }
func (j *Joint) SmoothingGap() float64 { return j.kink }
func (j *Joint) OwnRounding() (spread float64, unscaled bool) {
	return j.spread, j.sharp < 0.01
}

// Together is the exact solution of a problem whose events are in parts.
type Together struct {
	*model.Linear
	Live, Objective float64 // of the live and of the exact weights
	Gap             float64 // bounds Objective - minimum
	Converged       bool
	Iterations      int
	Rounds          int // questions that each part was asked
	Columns         int
	Seconds         float64
}

// SolveTogether solves the exact problem of a live model on the events of all parts, whose
// columns are own, and which have been told their Union. A caller that knows how many events they
// have sets Events of the model. Errors are ErrOneClass,
// of the configuration, of a part and of ctx.
func SolveTogether(ctx context.Context, live *model.Linear, parts Parts, own [][]uint32, c ValidateConfig) (*Together, error) {
	begin := time.Now()
	columns := Union(own)
	d := &Data{columns: columns, Schema: live.Schema}
	v := NewEvidence(live)
	out := &Together{Converged: true, Columns: len(columns)}
	now := v.weights(d, live, c.Config)
	exact := make(linear, len(now))
	solved := 0
	for k := range now {
		j, ok, err := NewJoint(ctx, parts, own, k, c)
		if err != nil {
			return nil, err
		}
		if !ok {
			exact[k] = make([]float64, len(now[k]))
			copy(exact[k][len(columns):], now[k][len(columns):])
			continue
		}
		solved++
		value := j.ValueGrad(now[k], nil)
		s, err := Solve(ctx, j, Options{Solver: c.Solver, Tol: c.Tol, MaxIterations: c.MaxIterations, Start: now[k], Progress: c.Progress})
		if j.Err() != nil {
			return nil, j.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("solving the exact problem: %w", err)
		}
		exact[k] = s.W
		out.Live += value
		out.Objective += s.Objective
		out.Gap += s.Gap
		out.Converged = out.Converged && s.Converged
		out.Iterations += s.Iterations
		out.Rounds += j.Rounds()
	}
	if solved == 0 {
		return nil, ErrOneClass
	}
	out.Live += v.outside(d, live, c.Config)
	_, name, err := c.objective(loss.NoNoise{})
	if err != nil {
		return nil, err
	}
	out.Linear = v.model(d, live, exact, c.Noise, name)
	out.Seconds = time.Since(begin).Seconds()
	return out, nil
}
