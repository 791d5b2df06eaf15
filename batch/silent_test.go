package batch

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"blankout/batch/internal/problems"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
)

// slowSilent computes the expectation of a loss under silent noise as in docs/mathematics.md. Features of a row fail
// independently. If of is not nil, it has the group of each feature, and the features of a group fail together. A
// failed feature reads its value in dead.
func slowSilent(x, w, dead []float64, of []int, l loss.Loss, y, b float64, n loss.Silent) float64 {
	sum := 0.0
	for _, q := range n.Rates() {
		mean, variance := b, 0.0
		parts := map[int]float64{}
		for j, x := range x {
			if x == 0 {
				continue // the feature is absent
			}
			mean += w[j] * ((1-q)*x + q*dead[j])
			unit := j
			if of != nil {
				unit = of[j]
			}
			parts[unit] += w[j] * (x - dead[j])
		}
		for _, s := range parts {
			variance += q * (1 - q) * s * s
		}
		value, _, _ := l.At(y, mean, variance)
		sum += value / 4
	}
	return sum
}

// silentGroupsOf holds the group of each column of silentData.
var silentGroupsOf = []int{0, 1, 0, 2, 1}

// silentData returns the Data of denseData without crosses, with dead values.
func silentData(t testing.TB, x [][]float64, y, dead []float64) *Data {
	examples, _ := problems.Dense(x, y)
	schema := event.NewSchema(20, []string{"-1", "1"}, 2)
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		schema.AddField(event.Field{Name: name, Kind: event.Numeric, Group: string(rune('g' + silentGroupsOf[i]))})
	}
	d := eventtest.Data(t, new(Builder), schema, examples...)
	if dead != nil {
		d.SetDead(func(column uint32) float64 { return dead[column] })
	}
	return d
}

var deadValues = []float64{0.8, -0.5, 0, 1.5, 0}

// eachSilent calls f for every kind of silent noise, on data with and without dead values.
func eachSilent(t *testing.T, x [][]float64, y []float64, f func(name string, d *Data, dead []float64, of []int, n loss.Silent)) {
	x[0] = []float64{1, 0.5, -0.3, 0.2, -1} // the first row has every column
	for _, dead := range [][]float64{nil, deadValues} {
		d := silentData(t, x, y, dead)
		if dead == nil {
			dead = make([]float64, 5)
		}
		f(fmt.Sprint("silent ", dead), d, dead, nil, loss.Silent{D: 0.4})
		f(fmt.Sprint("silent of groups ", dead), d, dead, silentGroupsOf, loss.Silent{D: 0.7, Groups: true})
	}
}

// TestSilentAgainstTheFormula checks for every loss that the value, the derivatives and the line of the objective equal
// the formula.
func TestSilentAgainstTheFormula(t *testing.T) {
	x, y := drawProblem(t, 31, 40, 5, false)
	r := rand.New(rand.NewPCG(31, 1))
	eachSilent(t, x, y, func(name string, d *Data, dead []float64, of []int, n loss.Silent) {
		for i, l := range append(everyLoss, lossesOfNumbers()...) {
			if l.Facts().Kink != nil && l.Facts().Regression {
				continue // TestSilentRegression covers this loss
			}
			target := y
			if l.Facts().Regression {
				target = numbersOf(x, l.Facts().Target, 5)
			}
			it := everyIntercept[i%3]
			name := fmt.Sprint(name, l, it)
			o := newExpected(t, d, target, l, n, 0.7, it)
			w, v := make([]float64, o.Dim()), make([]float64, o.Dim())
			for i := range w {
				w[i], v[i] = 0.3*r.NormFloat64(), r.NormFloat64()
			}
			want := func(w []float64) float64 {
				b, sum := 0.0, Dot(w[:5], w[:5])
				if it != NoIntercept {
					b = w[5]
				}
				if it == PenalizedIntercept {
					sum += b * b
				}
				for i, x := range x {
					sum += 0.7 * slowSilent(x, w, dead, of, l, target[i], b, n)
				}
				return sum
			}
			if got, want := o.ValueGrad(w, nil), want(w); math.Abs(got-want) > 1e-9*math.Abs(want) {
				t.Errorf("%s: value %v, want %v", name, got, want)
			}
			o.ValueGrad(w, make([]float64, o.Dim()))
			phi := o.Line(v)
			for _, at := range []float64{-0.5, 0.3, 2} {
				u := slices.Clone(w)
				axpy(at, v, u)
				got, _, _ := phi(at)
				must.True(t, math.Abs(got-want(u)) <= 1e-9*math.Abs(want(u)), "%s: value on the line %v, want %v", name, got, want(u))
			}
			if l.Facts().Kink != nil {
				o.Smooth(0.3)
			}
			problems.CheckDerivatives(t, name, exactDiagonal{o}, w, 2e-5)
			checkDense(t, name, o, w)
		}
	})
}

// exactDiagonal hides Diagonal, which omits the mixed terms of the Hessian.
type exactDiagonal struct{ o *Expected }

func (e exactDiagonal) Dim() int                            { return e.o.Dim() }
func (e exactDiagonal) ValueGrad(w, grad []float64) float64 { return e.o.ValueGrad(w, grad) }
func (e exactDiagonal) HessVec(v, out []float64)            { e.o.HessVec(v, out) }

// checkDense compares the matrix of HessVec with its products with vectors, and Diagonal with the matrix of a loss
// without mixed terms.
func checkDense(t *testing.T, name string, o *Expected, w []float64) {
	t.Helper()
	grad, v, out := make([]float64, len(w)), make([]float64, len(w)), make([]float64, len(w))
	o.ValueGrad(w, grad)
	a := o.dense()
	for j := range v {
		clear(v)
		v[j] = 1
		o.HessVec(v, out)
		for i := range out {
			must.True(t, math.Abs(a.At(i, j)-out[i]) <= 1e-10*(1+math.Abs(out[i])), "%s: dense matrix at %d, %d: %v, by a product %v", name, i, j, a.At(i, j), out[i])
		}
	}
	o.Majorise(true)
	defer o.Majorise(false)
	b := o.dense()
	o.Diagonal(out)
	for i := range out {
		must.True(t, math.Abs(b.At(i, i)-out[i]) <= 1e-10*(1+math.Abs(out[i])), "%s: diagonal %d is %v, in the matrix %v", name, i, out[i], b.At(i, i))
	}
	clear(v)
	v[0], v[len(v)-1] = 1, -2
	o.HessVec(v, out)
	for i := range out {
		want := b.At(i, 0) - 2*b.At(i, len(v)-1)
		must.True(t, math.Abs(want-out[i]) <= 1e-10*(1+math.Abs(want)), "%s: product with the majorizer at %d: %v, by the matrix %v", name, i, out[i], want)
	}
}

// TestSilentIsSolved checks that all solvers reach the same minimum, the certificate bounds the gap, and J is convex
// along lines.
func TestSilentIsSolved(t *testing.T) {
	longtest.NotRaced(t)
	x, y := drawProblem(t, 32, 60, 5, false)
	r := rand.New(rand.NewPCG(32, 1))
	eachSilent(t, x, y, func(name string, d *Data, dead []float64, of []int, n loss.Silent) {
		for i, l := range everyLoss {
			it := everyIntercept[i%3]
			name := fmt.Sprint(name, l, it)
			o := newExpected(t, d, y, l, n, 1, it)
			if !o.IsConvex() {
				continue
			}
			best := solve(t, o, Options{Tol: 1e-9})
			must.True(t, best.Converged && best.Gap <= 1.1e-9*best.Objective, "%s: newton: %+v", name, best)
			for _, s := range []Solver{IRLS, LBFGS} {
				other := solve(t, newExpected(t, d, y, l, n, 1, it), Options{Solver: s, Tol: 1e-7, MaxIterations: 5000})
				off := other.Objective - best.Objective
				must.True(t, math.Abs(off) <= 2e-7*best.Objective, "%s: %s ends %g above newton", name, s, off)
			}
			for k := range 10 {
				w := slices.Clone(best.W)
				for i := range w {
					w[i] += math.Pow(10, float64(-k)) * r.NormFloat64()
				}
				if o.Kinked() {
					o.Smooth(math.Pow(10, float64(-r.IntN(8))))
				}
				gap := o.Gap(w)
				o.Smooth(0)
				above := o.ValueGrad(w, nil) - best.Objective
				must.True(t, gap >= above-1e-13*best.Objective, "%s: gap %g below the true %g", name, gap, above)
			}
			for range 10 {
				a, b, middle := make([]float64, o.Dim()), make([]float64, o.Dim()), make([]float64, o.Dim())
				for i := range a {
					a[i], b[i] = 3*r.NormFloat64(), 3*r.NormFloat64()
					middle[i] = (a[i] + b[i]) / 2
				}
				at, ends := o.ValueGrad(middle, nil), (o.ValueGrad(a, nil)+o.ValueGrad(b, nil))/2
				must.True(t, at <= ends*(1+1e-12), "%s: %v in the middle of points of %v", name, at, ends)
			}
		}
	})
}

// TestSilentRegression checks the certificates of regression losses with a kink.
func TestSilentRegression(t *testing.T) {
	longtest.NotRaced(t)
	x, y := drawProblem(t, 33, 60, 5, false)
	eachSilent(t, x, y, func(name string, d *Data, dead []float64, of []int, n loss.Silent) {
		for _, l := range lossesOfNumbers() {
			target := numbersOf(x, l.Facts().Target, 5)
			if l.Facts().Target != loss.Count {
				for i := range target {
					target[i] -= 500
				}
			}
			o := newExpected(t, d, target, l, n, 1, FreeIntercept)
			best := solve(t, o, Options{Tol: 1e-6})
			must.True(t, best.Converged && best.Gap <= 1.01e-6*math.Abs(best.Objective),
				"%s %v: the gap stays at %v of %v after %d steps", name, l, best.Gap, best.Objective, best.Iterations)
			sum := Dot(best.W[:5], best.W[:5])
			for i, x := range x {
				sum += slowSilent(x, best.W, dead, of, l, target[i], best.W[5], n)
			}
			must.True(t, math.Abs(sum-best.Objective) <= 1e-9*math.Abs(sum), "%s %v: objective %v, want %v", name, l, best.Objective, sum)
			other := solve(t, newExpected(t, d, target, l, n, 1, FreeIntercept), Options{Solver: LBFGS, Tol: 1e-5})
			off := other.Objective - best.Objective
			must.True(t, math.Abs(off) <= 1e-4*(1+math.Abs(best.Objective)), "%s %v: lbfgs ends %g above newton", name, l, off)
		}
	})
}

// TestSilentCopies checks that the average over copies with silent failures converges to the expectation, which is
// exact for the squared error.
func TestSilentCopies(t *testing.T) {
	longtest.NotRaced(t)
	x, y := drawProblem(t, 40, 40, 5, true)
	w := []float64{0.5, -0.3, 0.2, 0.4, -0.1, 0.2}
	eachSilent(t, x, y, func(name string, d *Data, dead []float64, of []int, n loss.Silent) {
		const copies = 4000
		c := must.Get(d.Corrupted(n, copies, 3))(t)
		yc := must.List(c.Rows(), func(i int) float64 { return y[i/copies] })
		want := newExpected(t, d, y, loss.Quadratic{}, n, 1, FreeIntercept).ValueGrad(w, nil)
		got := newExpected(t, c, yc, loss.Quadratic{}, loss.NoNoise{}, 1, FreeIntercept).ValueGrad(w, nil)
		must.True(t, math.Abs(got/want-1) <= 0.01, "%s: %d copies come to %v, the expectation is %v", name, copies, got, want)
	})
	// A Corrupter must draw the same failures. Its dead features are 0.
	schema := silentData(t, x, y, nil).Schema
	for _, groups := range []bool{false, true} {
		c := Corrupter{Noise: loss.Silent{D: 0.6, Groups: groups}, Grouping: model.NewGrouping(schema)}
		alive, all, together := 0, 0, 0
		for n := range 4000 {
			v := event.Vec{Index: []uint32{0, 1, 2, 3, 4}, Value: []float64{7, 7, 7, 7, 7}}
			c.Vec(v, []uint16{1, 2, 3, 4, 5}, n, 0)
			if v.Value[0] == v.Value[2] {
				together++
			}
			for _, x := range v.Value {
				if all++; x == 7 {
					alive++
				} else if x != 0 {
					t.Fatalf("a feature of 7 is %v", x)
				}
			}
		}
		// 1 - mean of the rates 0, 0.3, 0.6, 0.9
		fraction := float64(alive) / float64(all)
		must.True(t, math.Abs(fraction-0.55) <= 0.02, "%v of the features are alive", fraction)
		must.True(t, (together == 4000) == groups, "groups %v: %d of 4000 pairs of a group die together", groups, together)
	}
}

// TestSilentRobust checks the robust objectives under silent noise. Influences are by example, and ramps are by example
// and rate. The derivatives of both objectives must equal finite differences.
func TestSilentRobust(t *testing.T) {
	x, y := drawProblem(t, 38, 60, 5, false)
	d := silentData(t, x, y, deadValues)
	c := DefaultConfig()
	c.Loss, c.Noise = "t-logistic:1.5", "silent:0.5"
	fit := must.Get(Train(context.Background(), d, c))(t)
	xi, err := fit.Influences(d, c)
	must.Require(t, err == nil && len(xi[0]) == d.Rows(), "%d influences, %v", len(xi[0]), err)
	for i, v := range xi[0] {
		must.True(t, v > 0 && v <= 1, "the influence of example %d is %v", i, v)
	}
	l := must.Get(loss.NewTLogistic(1.5))(t)
	o := must.Get(NewTLogistic(c.Problem(d, Subproblem{Y: y}, l, loss.Silent{D: 0.5}), StudentPrior, 2))(t)
	grad := make([]float64, o.Dim())
	o.ValueGrad(fit.Problems[0].W, grad)
	must.True(t, norm2(grad) <= 1e-3, "the gradient at the minimum is %v", grad)
	problems.CheckDerivatives(t, "t-logistic", o, []float64{0.3, -0.2, 0.5, 1, -0.7, 0.1}, 1e-5)
}

// TestSilentIsRefused checks that settings are rejected if they do not support silent noise. The error must say what to
// change.
func TestSilentIsRefused(t *testing.T) {
	x, y := drawProblem(t, 39, 30, 5, false)
	d := denseData(t, x, y) // the Schema of denseData has a cross
	for _, c := range []struct{ loss, bound, noise, want string }{
		{"logistic", "gaussian", "silent-group:0.5", "leave out the crosses"},
		{"logistic", "exact", "silent:0.5", "bound exact"},
	} {
		config := DefaultConfig()
		config.Loss, config.Bound, config.Noise = c.loss, c.bound, c.noise
		must.ErrorContains(t, must.Err(Train(context.Background(), d, config)), c.want, c.loss, c.bound, c.noise)
	}
	d.Schema = event.NewSchema(5, []string{"a", "b"}, 2) // the Schema has no fields
	config := DefaultConfig()
	config.Noise = "silent-group:0.5"
	_, err := Train(context.Background(), d, config)
	must.True(t, err != nil && strings.HasPrefix(err.Error(), "noise silent-group:0.5: the examples have no fields"), "no groups: %v", err)
}

// TestGoldenSilent compares the minima with the golden results of an independent program.
func TestGoldenSilent(t *testing.T) {
	var golden struct {
		X       [][]float64
		Targets struct{ Two, Class, Number, Count []float64 }
		Dead    []float64
		Groups  []int
		Cases   []struct {
			Loss, Target         string
			D                    float64
			Dead, Groups         bool
			Weights              []float64
			Intercept, Objective float64
		}
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/silent.json"))(t), &golden))
	schema := event.NewSchema(20, []string{"-1", "1"}, 2)
	for j, group := range golden.Groups {
		schema.AddField(event.Field{Name: fmt.Sprint(j), Kind: event.Numeric, Group: fmt.Sprint("group ", group)})
	}
	var b Builder
	for _, row := range golden.X {
		e := event.Example{Weight: 1}
		for j, x := range row {
			if x != 0 {
				eventtest.Put(&e, uint32(j), x, uint16(j+1))
			}
		}
		must.Do(t, b.Add(&e))
	}
	d := b.Data(schema)
	for _, c := range golden.Cases {
		y := map[string][]float64{"two": golden.Targets.Two, "number": golden.Targets.Number, "count": golden.Targets.Count}[c.Target]
		if class, ok := strings.CutPrefix(c.Target, "class "); ok {
			for _, k := range golden.Targets.Class {
				y = append(y, -1)
				if fmt.Sprint(k) == class {
					y[len(y)-1] = 1
				}
			}
		}
		l := must.Get(loss.Parse(c.Loss))(t)
		d.SetDead(func(column uint32) float64 {
			if !c.Dead {
				return 0
			}
			return golden.Dead[column]
		})
		kappa := 0.7
		if c.Loss == "squared" { // the golden loss "squared" is twice this Loss
			kappa = 1.4
		}
		for _, s := range []Solver{Newton, LBFGS} {
			o := newExpected(t, d, y, l, loss.Silent{D: c.D, Groups: c.Groups}, kappa, FreeIntercept)
			r := solve(t, o, Options{Solver: s, Tol: 1e-12, MaxIterations: 5000})
			if far := problems.Relative(r.W, append(slices.Clone(c.Weights), c.Intercept)); far > 2e-6 || math.Abs(r.Objective-c.Objective) > 1e-7*math.Abs(c.Objective) {
				t.Errorf("%s of %s, D %v, dead values %v, groups %v, %s: weights %g away, objective %.10g, want %.10g", c.Loss, c.Target, c.D, c.Dead, c.Groups, s, far, r.Objective, c.Objective)
			}
		}
	}
	must.True(t, len(golden.Cases) == 44, "%d cases", len(golden.Cases))
}

// TestDeadValues checks the values of dead features that are computed from given raw readings.
func TestDeadValues(t *testing.T) {
	schema := event.NewSchema(20, []string{"-1", "1"}, 2)
	number := schema.AddField(event.Field{Name: "number", Kind: event.Numeric})
	often := schema.AddField(event.Field{Name: "often", Kind: event.Numeric})
	word := schema.AddField(event.Field{Name: "word", Kind: event.Categorical})
	var b Builder
	for i := range 200 {
		e := event.Example{Weight: 1}
		add := func(column uint32, x float64, field uint16) {
			eventtest.Put(&e, column, x, field)
		}
		zero := must.Either(i > 0, 1.0, 0)
		if i%2 == 0 {
			add(1, 5*zero, number) // 1 of 100 readings is 0; half of the examples have no reading
		}
		add(2, 3*zero, often) // 1 of 200 readings is 0
		add(3, 1, word)
		if i != 7 {
			add(4, 2, 0) // omitted in 1 of 200 examples
		}
		if i%50 != 7 {
			add(5, 2, 0) // omitted in 1 of 50 examples
		}
		if i%5 != 0 {
			add(6, 2, 0) // present in 4 of 5 examples
		}
		must.Do(t, b.Add(&e))
	}
	d := b.Data(schema)
	want := []float64{0, 3 * 0.995, 2 * 0.995, 0}
	dead := d.DeadValues()
	must.Require(t, dead != nil && slices.Equal(dead.Columns, []uint32{1, 2, 4, 5}), "numbers are %+v", dead)
	must.Near(t, dead.Reads, want, 1e-12, "what dead features read")
	none := (&Builder{}).Data(schema).DeadValues()
	must.True(t, none == nil, "no column reads %+v", none)
	schema.Absent = event.AbsentMissing
	reads, _ := d.DeadValues().Of(5)
	must.Equal(t, reads, 2, "a column that is missing where it is left out reads")
}

// TestWithDead solves problems with the values of dead features. It checks that the solution minimizes the expected loss
// over failures of the original events. The events have standardized readings, transforms and splines.
func TestWithDead(t *testing.T) {
	x, y := problems.Gaussian(41, 300, 4, false)
	schema := event.NewSchema(20, []string{"-1", "1"}, 2)
	numeric := func(name string) uint16 { return schema.AddField(event.Field{Name: name, Kind: event.Numeric}) }
	fields := must.Map([]string{"a", "b"}, numeric)
	var examples []event.Example
	for i, row := range x {
		e := event.Example{Weight: 1, Offset: int64(i)}
		e.Label = must.Either(y[i] > 0, 1, 0)
		add := func(column uint32, x float64, field uint16) {
			eventtest.Put(&e, column, x, field)
		}
		add(1, math.Sinh(2*row[0]), fields[0]) // a heavy-tailed number
		if i%3 > 0 {
			add(2, row[1]+2, fields[1]) // rarely present, so it gets a presence column
		} else {
			e.Missing = nil
		}
		if i != 17 {
			add(3, row[2]+30, 0) // omitted in one example, where it cannot fail unless it is standardized
		}
		add(4, row[3], 0)
		examples = append(examples, e)
	}
	knots := model.Splines{Columns: []uint32{1}, Knots: [][]float64{{-3, -1, 0.5, 2, 20}}}
	for _, c := range []struct {
		name  string
		mode  model.Standardize
		bends bool
		zeros bool // numbers are often 0, so that a dead number is 0
	}{{"as they came", model.StandardizeNone, false, false}, {"standardized", model.StandardizeAuto, false, false}, {"to 0", model.StandardizeAuto, false, true},
		{"curves", model.StandardizeAuto, true, false}, {"curves to 0", model.StandardizeAuto, true, true}} {
		examples := slices.Clone(examples)
		for i := 3; c.zeros && i < len(examples); i += 20 {
			examples[i].Features.Value = make([]float64, examples[i].Features.Len())
		}
		fit := Standardizer{Presence: true, Mode: c.mode}
		var b Builder
		for i := range examples {
			fit.Observe(&examples[i], schema)
			must.Do(t, b.Add(&examples[i]))
		}
		d := b.Data(schema)
		reads := d.DeadValues()
		var scaler *model.Linear
		if c.mode != model.StandardizeNone {
			d, scaler = must.Get2(fit.Fit(d))(t)
		}
		if c.bends {
			scaler.Scaler.Splines = &knots
			for i := range knots.Knots[0] {
				scaler.Rows.Touch(knots.BasisColumn(0, i))[model.StatInverse] = 1
			}
		}
		// standardized returns the standardized example after all columns in dead have failed.
		standardized := func(e *event.Example, dead map[uint32]bool) event.Vec {
			as := event.Example{Features: event.Vec{Index: e.Features.Index, Value: append([]float64(nil), e.Features.Value...)}}
			for i, column := range as.Features.Index {
				if dead[column] {
					as.Features.Value[i], _ = reads.Of(column)
				}
			}
			if scaler == nil {
				return as.Features
			}
			if dead[3] && len(as.Features.Index) < 4 && as.Features.Index[len(as.Features.Index)-2] != 3 { // column 3 is a 0 that was omitted
				three, _ := reads.Of(3)
				as.Features = event.Vec{Index: []uint32{1, 2, 3, 4}, Value: []float64{as.Features.Value[0], as.Features.Value[1], three, as.Features.Value[2]}}
			}
			return scaler.Standardized(&as, event.Vec{})
		}
		if c.bends {
			b := Builder{Splines: &knots}
			for i := range examples {
				b.Fields(&examples[i])
				e := examples[i]
				e.Field, e.Features = nil, standardized(&e, nil)
				must.Do(t, b.Add(&e))
			}
			d = b.Data(schema)
		}
		d = must.Get(d.WithDead(func(column uint32) float64 {
			if scaler != nil {
				scaler.Dead = reads
				return scaler.DeadStandardized(column)
			}
			x, _ := reads.Of(column)
			return x
		}))(t)
		// Compare the mean squared error over all possible failures of a few examples, by enumeration and by the
		// objective.
		w := make([]float64, d.Columns()+1)
		weight := map[uint32]float64{}
		for j := range d.Columns() {
			w[j] = 0.3*float64(j%5) - 0.4
			weight[d.Column(j)] = w[j]
		}
		w[d.Columns()] = 0.2
		n := loss.Silent{D: 0.5}
		for _, at := range []int{0, 1, 2, 17, 18, 40} {
			only := d.Subset([]int{at})
			o := newExpected(t, only, y[at:at+1], loss.Quadratic{}, n, 1, FreeIntercept)
			got := o.ValueGrad(w, nil) - Dot(w[:d.Columns()], w[:d.Columns()])
			want := 0.0
			e := &examples[at]
			columns := must.Either(at == 17 && scaler != nil, []uint32{1, 2, 3, 4}, e.Features.Index)
			for _, q := range n.Rates() {
				for mask := range 1 << len(columns) {
					p, dead := 1.0, map[uint32]bool{}
					for i, column := range columns {
						if mask>>i&1 == 1 {
							p *= q
							dead[column] = true
						} else {
							p *= 1 - q
						}
					}
					v, f := standardized(e, dead), w[d.Columns()]
					for i, column := range v.Index {
						f += weight[column] * v.Value[i]
					}
					want += p * (f - y[at]) * (f - y[at]) / 4
				}
			}
			must.True(t, math.Abs(got-want) <= 1e-9*math.Abs(want), "%s: example %d costs %v, by all deaths %v", c.name, at, got, want)
		}
		if c.bends { // Newton's method finds the minimum too
			config := DefaultConfig()
			config.Noise = "silent:0.5"
			f, err := Train(context.Background(), d, config)
			must.True(t, err == nil && f.Converged, "%v", fmt.Sprint(c.name, ": ", err))
		}
	}
}

// TestSilentInTheDual checks that the solver in the dual finds the same solution as in the primal for few rows and many
// columns.
func TestSilentInTheDual(t *testing.T) {
	x, y := drawProblem(t, 34, 7, 60, false)
	for j := range x[0] {
		x[0][j] = 1 // the first row has every column
	}
	data := denseData(t, x, y)
	for _, dead := range []float64{0, 0.7} {
		data.SetDead(func(column uint32) float64 { return dead * float64(column%3) })
		for _, l := range []loss.Loss{loss.LogisticGaussian{}, loss.LogisticChen{}, loss.Quadratic{}} {
			for _, s := range []Solver{Newton, IRLS} {
				problem := func() *Expected {
					return newExpected(t, data, y, l, loss.Silent{D: 0.5}, 1, PenalizedIntercept)
				}
				o := problem()
				o.ValueGrad(make([]float64, o.Dim()), make([]float64, o.Dim()))
				must.Require(t, o.dual() != nil, "no dual")
				a := solve(t, problem(), Options{Solver: s, Tol: 1e-12, Dual: true})
				b := solve(t, problem(), Options{Solver: s, Tol: 1e-12})
				far := problems.Relative(a.W, b.W)
				must.True(t, far <= 1e-5 && a.Iterations <= b.Iterations+3, "%v %s, dead %v: in the dual %g away after %d steps, %d without", l, s, dead, far, a.Iterations, b.Iterations)
			}
		}
	}
}
