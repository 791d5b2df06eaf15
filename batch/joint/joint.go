// Package joint solves the exact problem of a data set that is cut into parts, each of which is
// in one place only: the parts answer for their rows, and nobody sees all of them.
//
// A [Part] answers a [Question] with sums over its rows, [Parts] puts questions to all of them
// at the same time, and an [Objective] of batch.Solve is made of the answers. [Solve] does all
// of it.
package joint

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"blankout/batch"
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

// Question is what an Objective asks all of its parts.
type Question struct {
	Ask     Ask
	Output  int       // of the model
	Scalars []float64 // see Ask
	W       []float64 // by column of the Objective, then the intercept if there is one; nil where none is asked about
}

// Answer is what a part says.
type Answer struct{ Sums, Vector []float64 }

// Parts is where the parts of an Objective are.
type Parts interface {
	// Ask puts a question to all parts, which work at the same time, and returns their
	// answers in the order of the parts. It is called with one Question after the other,
	// which is borrowed; so are the answers, until the next one.
	Ask(ctx context.Context, q *Question) ([]*Answer, error)
}

// Part is the rows of one part of a data set. It is not safe for concurrent use.
type Part struct {
	data    *batch.Data // learned rows
	columns []uint32
	config  batch.ValidateConfig
	noise   loss.Noise
	loss    loss.Loss
	place   []int // own columns among those of the Objective
	problem []*partOf
}

// partOf is a Part's problem of one output.
type partOf struct {
	rows               *batch.RowSums // nil without a row that counts
	positive, negative float64
	w, vector          []float64
	line               func(t float64) (value, slope, curvature float64)
}

// NewPart returns the events learned as a part of a larger data set, for the exact problem of
// classes. No more events can come from here on.
func NewPart(v *batch.Evidence, c batch.ValidateConfig) (*Part, error) {
	noise, l, err := check(c)
	if err != nil {
		return nil, err
	}
	p := &Part{data: v.LearnedData(), config: c, noise: noise, loss: l, problem: make([]*partOf, v.Outputs())}
	for i := range p.data.Columns() {
		p.columns = append(p.columns, p.data.Column(i))
	}
	return p, nil
}

// Check returns why parts cannot solve a problem together, nil if they can.
func Check(c batch.ValidateConfig) error {
	_, _, err := check(c)
	return err
}

// check returns the noise and the loss of a problem that parts can solve together.
func check(c batch.ValidateConfig) (noise loss.Noise, l loss.Loss, err error) {
	if err := c.Check(); err != nil {
		return nil, nil, err
	}
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
	if l, err = c.Expectation(); err != nil {
		return nil, nil, fmt.Errorf("parts are solved together by sums over their rows, and %w; solve it on one machine", err)
	}
	if c1 == 0 && c2 == 0 && l.Facts().Kink != nil {
		// Nothing rounds the kink off, and the methods for that case read rows one by one.
		return nil, nil, fmt.Errorf("loss %v without noise has a kink, and parts cannot be solved together exactly; solve it on one machine, or learn under noise", l)
	}
	return noise, l, nil
}

// Columns returns the columns of the part in ascending order. The caller must not change
// them.
func (p *Part) Columns() []uint32 { return p.columns }

// Rows returns how many events the part has learned.
func (p *Part) Rows() int { return p.data.Rows() }

// Join tells the part the columns of all parts, in ascending order.
func (p *Part) Join(all []uint32) error {
	place, err := placeOf(p.columns, all)
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
	if output < 0 || output >= len(p.problem) {
		return nil, fmt.Errorf("output %d of %d", output, len(p.problem))
	}
	if b := p.problem[output]; b != nil {
		return b, nil
	}
	b := &partOf{}
	p.problem[output] = b
	problem, _ := p.data.AgainstTheRest(output, len(p.problem))
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
	rows, err := batch.NewRowSums(p.config.Problem(p.data, problem, p.loss, p.noise))
	if err != nil {
		return nil, err
	}
	b.rows, b.w, b.vector = rows, make([]float64, rows.Dim()), make([]float64, rows.Dim())
	return b, nil
}

// Answer answers a question. The Answer is the caller's until the next one is asked for.
func (p *Part) Answer(ctx context.Context, q *Question) (*Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p.place == nil && len(p.columns) > 0 {
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
	if b.rows == nil {
		return &Answer{Sums: make([]float64, sumsOf[q.Ask])}, nil
	}
	if q.W != nil {
		if err := p.pick(q.W, b.w); err != nil {
			return nil, err
		}
	} else if asksAbout[q.Ask] {
		return nil, fmt.Errorf("question %d without a vector", q.Ask)
	}
	return b.answer(q)
}

// pick writes what a vector of the Objective has of the part's columns and intercept to w.
func (p *Part) pick(all, w []float64) error {
	intercept := len(w) - len(p.place)
	for i, at := range p.place {
		if at >= len(all)-intercept {
			return fmt.Errorf("a vector of %d for column %d", len(all), at)
		}
		w[i] = all[at]
	}
	if intercept > 0 {
		w[len(p.place)] = all[len(all)-1]
	}
	return nil
}

// answer answers a question about b.w.
func (b *partOf) answer(q *Question) (*Answer, error) {
	a := &Answer{}
	switch q.Ask {
	case AskGradient:
		b.rows.Smooth(q.Scalars[0])
		a.Sums, a.Vector = []float64{b.rows.ValueGrad(b.w, b.vector)}, b.vector
	case AskValue:
		b.rows.Smooth(q.Scalars[0])
		a.Sums = []float64{b.rows.ValueGrad(b.w, nil)}
	case AskHessian:
		b.rows.HessVec(b.w, b.vector)
		a.Vector = b.vector
	case AskDiagonal:
		b.rows.Diagonal(b.vector)
		a.Vector = b.vector
	case AskLine:
		b.line = b.rows.Line(b.w)
	case AskAlong:
		if b.line == nil {
			return nil, errors.New("a part was asked along no line")
		}
		value, slope, curvature := b.line(q.Scalars[0])
		a.Sums = []float64{value, slope, curvature}
	case AskScores:
		a.Sums = []float64{b.rows.Scores(b.w)}
	case AskSlope:
		b.rows.Smooth(q.Scalars[1])
		a.Sums = []float64{b.rows.Slope(q.Scalars[0])}
	case AskDual:
		b.rows.Smooth(q.Scalars[1])
		value, up, down := b.rows.Dual(q.Scalars[0])
		a.Sums = []float64{value, up, down}
	case AskBound:
		kink := b.rows.Bound(b.w, q.Scalars[0], q.Scalars[1], b.vector)
		sharp, variance, all := b.rows.Rounding()
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

// Objective is the regularised expected loss of batch.Expected over rows that are in several parts.
// The parts work at the same time; what they answer is added in their order, so that the
// result does not depend on where a part is. It is a batch.HessianVector and
// batch.Certifier. An answer that does not come makes all values NaN, which ends Solve; Err then
// says why.
type Objective struct {
	ctx       context.Context
	parts     Parts
	place     [][]int // of each part's columns
	columns   []uint32
	output    int
	penalty   batch.Penalty
	intercept batch.Intercept
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

// New returns the problem of one output over parts whose columns are own, and which
// have been told the Union of these (Part.Join). ctx ends the questions. ok is false where
// the labels do not have both sides: there is nothing to tell apart then.
func New(ctx context.Context, parts Parts, own [][]uint32, output int, c batch.ValidateConfig) (j *Objective, ok bool, err error) {
	noise, l, err := check(c)
	if err != nil {
		return nil, false, err
	}
	_, l2 := c.Penalisation(l.Facts().Cost)
	columns := Union(own)
	j = &Objective{ctx: ctx, parts: parts, columns: columns, output: output, penalty: batch.Ridge(len(columns), l2, c.Intercept), intercept: c.Intercept, facts: l.Facts()}
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
func (j *Objective) Err() error { return j.err }

// Rounds returns how many questions have been asked.
func (j *Objective) Rounds() int { return j.rounds }

// ask asks all parts at the same time. It returns the sums of their answers, and writes
// that of their vectors to out unless that is nil.
func (j *Objective) ask(q *Question, out []float64) []float64 {
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

// Dim implements batch.Objective.
func (j *Objective) Dim() int { return len(j.penalty.R) }

// IsConvex reports whether the objective is convex.
func (j *Objective) IsConvex() bool { return j.convex }

// ValueGrad implements batch.Objective.
func (j *Objective) ValueGrad(w, grad []float64) float64 {
	q := &Question{Ask: AskValue, Scalars: []float64{j.eps}, W: w}
	if grad != nil {
		q.Ask = AskGradient
		copy(j.w, w)
	}
	value := j.ask(q, grad)[0]
	return value + j.penalty.ValueGrad(w, grad)
}

// HessVec implements batch.HessianVector.
func (j *Objective) HessVec(v, out []float64) {
	j.ask(&Question{Ask: AskHessian, W: v}, out)
	for d, v := range v {
		out[d] += j.penalty.R[d] * v
	}
}

// Diagonal implements batch.Diagonaler.
func (j *Objective) Diagonal(out []float64) {
	j.ask(&Question{Ask: AskDiagonal}, out)
	for d := range out {
		out[d] += j.penalty.R[d]
	}
}

// Line implements batch.Liner.
func (j *Objective) Line(d []float64) func(t float64) (value, slope, curvature float64) {
	j.ask(&Question{Ask: AskLine, W: d}, nil)
	pen := j.penalty.Along(j.w, d)
	return func(t float64) (value, slope, curvature float64) {
		s := j.ask(&Question{Ask: AskAlong, Scalars: []float64{t}}, nil)
		return pen.Add(t, s[0], s[1], s[2])
	}
}

// Gap implements batch.Certifier, as Expected's does.
func (j *Objective) Gap(w []float64) (gap float64) {
	j.kink = 0
	if !j.convex {
		return math.Inf(1)
	}
	gap, j.kink = batch.DualGap(j, j.penalty, j.FreeIntercept(), w)
	if j.err != nil {
		return math.Inf(1)
	}
	return gap
}

// Scores implements batch.DualRows.
func (j *Objective) Scores(w []float64) (size float64) {
	return j.ask(&Question{Ask: AskScores, W: w}, nil)[0]
}

// Slope implements batch.DualRows.
func (j *Objective) Slope(shift float64) float64 {
	return j.ask(&Question{Ask: AskSlope, Scalars: []float64{shift, j.eps}}, nil)[0]
}

// Dual implements batch.DualRows.
func (j *Objective) Dual(shift float64) (value, up, down float64) {
	s := j.ask(&Question{Ask: AskDual, Scalars: []float64{shift, j.eps}}, nil)
	return s[0], s[1], s[2]
}

// Bound implements batch.DualRows.
func (j *Objective) Bound(w []float64, thetaUp, thetaDown float64, r []float64) (kink float64) {
	s := j.ask(&Question{Ask: AskBound, Scalars: []float64{thetaUp, thetaDown}, W: w}, r)
	j.spread, j.sharp = math.Sqrt(s[1]/s[2]), s[3]/s[2]
	return s[0]
}

// FreeIntercept reports whether no penalty holds the intercept.
func (j *Objective) FreeIntercept() bool { return j.intercept == batch.FreeIntercept }

// GradientGap implements batch.GradientGapper.
func (j *Objective) GradientGap(r []float64) float64 {
	return j.penalty.GradientGap(r, j.FreeIntercept())
}

// Smooth, Kinked, SmoothingGap and OwnRounding implement batch.Smoother, as Expected does.
func (j *Objective) Smooth(eps float64)    { j.eps = eps }
func (j *Objective) Kinked() bool          { return j.facts.Kink != nil }
func (j *Objective) SmoothingGap() float64 { return j.kink }
func (j *Objective) OwnRounding() (spread float64, unscaled bool) {
	return j.spread, j.sharp < 0.01
}

// Solution is the exact solution of a problem whose events are in parts.
type Solution struct {
	*batch.Exact
	Rounds  int // questions that each part was asked
	Columns int
	Seconds float64
}

// Solve solves the exact problem of a live model on the events of all parts, whose
// columns are own, and which have been told their Union. A caller that knows how many events they
// have sets Events of the model. Errors are batch.ErrOneClass, of the configuration, of a part
// and of ctx.
func Solve(ctx context.Context, live *model.Linear, parts Parts, own [][]uint32, c batch.ValidateConfig) (*Solution, error) {
	begin := time.Now()
	columns := Union(own)
	var asked []*Objective
	exact, err := batch.NewEvidence(live).ExactOf(ctx, columns, c, func(output int) (batch.Objective, error) {
		j, ok, err := New(ctx, parts, own, output, c)
		if err != nil || !ok {
			return nil, err
		}
		asked = append(asked, j)
		return j, nil
	})
	out := &Solution{Exact: exact, Columns: len(columns)}
	for _, j := range asked {
		if j.Err() != nil {
			return nil, j.Err()
		}
		out.Rounds += j.Rounds()
	}
	if err != nil {
		return nil, err
	}
	out.Seconds = time.Since(begin).Seconds()
	return out, nil
}
