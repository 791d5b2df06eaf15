package validate_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"blankout/batch"
	"blankout/batch/validate"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
)

// examples is a Source that returns all events as one batch.
type examples []event.Example

func (x *examples) Next(_ context.Context, b *event.Batch) error {
	if len(*x) == 0 {
		return io.EOF
	}
	*b = event.Batch{Topic: "x", Examples: *x, Next: int64(len(*x))}
	*x = nil
	return nil
}

// adopt makes a learner adopt the exact solution of all learned events, for any gain. It also returns the Validator
// that it used.
func adopt(t *testing.T, c online.Config, l *online.Learner, all []event.Example, at event.Offsets) (*validate.Validator, *validate.Adoption) {
	t.Helper()
	v := validator(c, all)
	v.Config.AdoptMargin = math.Inf(-1)
	a, err := v.Adopt(t.Context(), l.Snapshot(), at)
	if err != nil || a.Learner == nil {
		t.Fatal(a, err)
	}
	return v, a
}

// validator returns a Validator that can read all events again.
func validator(c online.Config, all []event.Example) *validate.Validator {
	v := &validate.Validator{Config: validate.DefaultConfig(), Learner: c,
		Open: func(context.Context, *event.Schema, event.Offsets) (event.Source, error) {
			x := examples(slices.Clone(all))
			return &x, nil
		}}
	v.Config.CPU = 1
	return v
}

// learnSome learns events of k classes and adopts the exact solution.
func learnSome(t *testing.T, c online.Config, k int, events int) (*online.Learner, *validate.Adoption, []event.Example) {
	l, a, all, _ := learnAndGap(t, c, k, events)
	return l, a, all
}

// learnAndGap is learnSome that also returns a function for the relative gap of a model on the events.
func learnAndGap(t *testing.T, c online.Config, k int, events int) (*online.Learner, *validate.Adoption, []event.Example, func(*model.Linear) float64) {
	t.Helper()
	l, all, at := learned(t, c, k, events)
	v, a := adopt(t, c, l, all, at)
	return l, a, all, func(m *model.Linear) float64 {
		r, _ := must.Get2(v.Validate(t.Context(), validate.Request{Live: m, At: at}))(t)
		return *r.RelativeGap
	}
}

// learned returns a learner that has learned events of k classes.
func learned(t *testing.T, c online.Config, k int, events int) (*online.Learner, []event.Example, event.Offsets) {
	t.Helper()
	schema := event.NewSchema(12, nil, k)
	for i := range k {
		if _, ok := schema.Class(fmt.Append(nil, i)); !ok {
			t.Fatal("class")
		}
	}
	l := must.Get(online.New(c, schema))(t)
	r := rand.New(rand.NewPCG(3, 4))
	var all []event.Example
	var at event.Offsets
	p := at.At("x", 0, 0)
	for i := range events {
		e := event.Example{Offset: int64(i), Label: r.IntN(k), Weight: []float64{1, 1, 2.5}[i%3], Fingerprint: r.Uint64()}
		for j := range uint32(8) {
			if r.IntN(3) > 0 {
				eventtest.Put(&e, j, r.NormFloat64()+float64((int(j)+e.Label)%k))
			}
		}
		if i%11 == 5 {
			e.Label = event.Unlabeled
		}
		l.Learn(&e, nil)
		must.Do(t, p.Advance(e.Offset, e.Fingerprint))
		all = append(all, e)
	}
	return l, all, at
}

// TestAdoptDoesNotRest checks that a validation pauses to let learning proceed. An adoption must not pause, because
// learning waits for it.
func TestAdoptDoesNotRest(t *testing.T) {
	c := online.DefaultConfig()
	c.Noise = "dropout:0.3"
	l, all, at := learned(t, c, 2, 1000)
	v := validator(c, all)
	v.Config.CPU, v.Config.AdoptMargin = validate.DefaultConfig().CPU, math.Inf(-1)
	if r, _, err := v.Validate(t.Context(), validate.RequestOf(l.Snapshot(), at)); err != nil || r.Pause == 0 {
		t.Errorf("a validation has rested for %v s: %v", r.Pause, err)
	}
	if a, err := v.Adopt(t.Context(), l.Snapshot(), at); err != nil || a.Learner == nil || a.Report.Pause > 0 {
		t.Errorf("an adoption has rested for %v s: %v, %s", a.Report.Pause, err, a.Reason)
	}
}

// TestAdoptOptimizers checks that every optimizer continues learning from the adopted solution. After more events, the
// learner's gap to the minimum may be at most twice the gap of the replaced weights. If the gap is larger, it must be
// at most 1.5 times the gap that the replaced weights have after learning the same events.
func TestAdoptOptimizers(t *testing.T) {
	longtest.NotRaced(t)
	all := map[string]func(*online.Config){
		"adagrad":               func(*online.Config) {},
		"margin":                func(c *online.Config) { c.Loss = "hinge:gaussian:0.5" },
		"squared hinge, margin": func(c *online.Config) { c.Loss = "squared-hinge:gaussian:0.5" },
		"dropout-descent":       func(c *online.Config) { c.Optimizer = "dropout-descent" },
		"sgd":                   func(c *online.Config) { c.Optimizer = "sgd" }, "ftrl": func(c *online.Config) { c.Optimizer = "ftrl" },
		"irls": func(c *online.Config) { c.Optimizer, c.IRLSBatch = "irls", 50 }, "refresh": func(c *online.Config) { c.IRLSBatch, c.IRLSWindow = 50, 100 },
		"gaussian noise": func(c *online.Config) { c.Noise = "gaussian:0.5" }, "unlabeled": func(c *online.Config) { c.UnlabeledWeight = 0.5 },
		"hinge": func(c *online.Config) { c.Loss = "hinge" }, "penalized": func(c *online.Config) { c.Intercept = "penalized" },
		"no intercept": func(c *online.Config) { c.Intercept = "none" }, "clean": func(c *online.Config) { c.Noise = "none" },
		"no average": func(c *online.Config) { c.Average = 0 },
	}
	for i, name := range slices.Sorted(maps.Keys(all)) {
		edit := all[name]
		for _, k := range []int{2, 3} {
			if !longtest.Some(i+k, 2) {
				continue
			}
			if k > 2 && name != "adagrad" && name != "ftrl" && name != "refresh" {
				continue
			}
			t.Run(fmt.Sprint(name, k), func(t *testing.T) {
				c := online.DefaultConfig()
				c.Noise = "dropout:0.3"
				edit(&c)
				before, a, all, gap := learnAndGap(t, c, k, 407)
				exact := a.Exact
				trained := a.Learner.Snapshot().Model()
				distance := func(m *model.Linear) (d float64) {
					for j := range uint32(8) {
						for o := range exact.Outputs {
							d += math.Abs(m.Weight(j, o) - exact.Weight(j, o))
						}
					}
					for o := range exact.Outputs {
						d += math.Abs(m.Intercept[o] - exact.Intercept[o])
					}
					return d
				}
				was := distance(before.Snapshot().Model())
				if d := distance(trained); d != 0 || !(was > 1e-4) {
					t.Fatalf("adopted weights are off by %g, learned ones by %g", d, was)
				}
				if got, want := a.Learner.Report(), before.Report(); got.Events != want.Events || got.Total != want.Total {
					t.Errorf("measures %+v, want %+v", got.Total, want.Total)
				}
				learned, adopted := gap(before.Snapshot().Model()), gap(trained)
				for i := range 60 {
					a.Learner.Learn(&all[i], nil)
					before.Learn(&all[i], nil)
				}
				later, instead := gap(a.Learner.Snapshot().Model()), gap(before.Snapshot().Model())
				if !(adopted < 1e-6 && later > adopted && later < max(2*learned, 1.5*instead)) {
					t.Errorf("the relative gap was %.3g, adopted it is %.3g; 60 events later %.3g, and %.3g if not adopted", learned, adopted, later, instead)
				}
			})
		}
	}
}

// TestAdoptExperts checks that a learner with several noise levels adopts the exact solution of each level. A learner
// with only that level must adopt the same bits. For the level with the largest mixture weight, the solutions must
// agree within the solver's tolerance, because the solver starts from the mixture. The learner has no second-order
// expert, because it would be part of both mixtures.
func TestAdoptExperts(t *testing.T) {
	c := online.DefaultConfig()
	c.Optimizer, c.Adapt = "adagrad", true
	for _, k := range []int{2, 3} {
		_, bank, _ := learnSome(t, c, k, 407)
		outputs, levels := 1, len(c.Levels)
		if k > 2 {
			outputs = k
		}
		rows := bank.Learner.Snapshot().Model().Rows
		published := loss.LevelOf(bank.Learner.Report().Noise)
		for v, q := range c.Levels {
			alone := c
			alone.Noise = fmt.Sprint("dropout:", q)
			if q == 0 {
				alone.Noise = "none"
			}
			_, one, _ := learnSome(t, alone, k, 407)
			most := 1e-9
			if q == published {
				most = 1e-3
			}
			own := one.Learner.Snapshot().Model().Rows
			for j := range uint32(8) {
				got, want := rows.Row(j)[model.ScalerWidth:], own.Row(j)[model.ScalerWidth:]
				for part := range 3 {
					for o := range outputs {
						a, b := got[part*levels*outputs+v*outputs+o], want[part*outputs+o]
						if math.Abs(a-b) > most*(1+math.Abs(b)) {
							t.Fatalf("%d classes, level %v, column %d, part %d: %v, alone %v", k, q, j, part, a, b)
						}
					}
				}
			}
		}
	}
}

// bent learns events of numbers with nonlinear effects. For 0 classes it draws regression targets. The result draw is a
// function that draws the next event. If scarce is set, the events have a third number, which is absent from a third of
// the events.
func bent(t *testing.T, c online.Config, classes int, scarce bool) (l *online.Learner, all []event.Example, at event.Offsets, draw func() event.Example) {
	t.Helper()
	schema := event.NewSchema(8, []string{"ebb", "flow", "slack"}[:classes], classes)
	if classes == 0 {
		schema.Target, c.Loss = loss.Real, "squared"
	}
	for _, name := range []string{"a", "b", "c"} {
		schema.AddField(event.Field{Name: name, Kind: event.Numeric})
	}
	l = must.Get(online.New(c, schema))(t)
	r := rand.New(rand.NewPCG(5, 6))
	draw = func() event.Example {
		a, b := r.NormFloat64(), r.NormFloat64()
		e := event.Example{Offset: int64(len(all)), Weight: 1, Fingerprint: r.Uint64(), Field: []uint16{0, 1}, Features: event.Vec{Index: []uint32{0, 1}, Value: []float64{a, 3 + b}}}
		switch f := math.Abs(a) + 0.3*b + 0.2*r.NormFloat64(); {
		case classes == 0:
			e.Target = 50 + 10*f
		case f > 0.8:
			e.Label = 1 + r.IntN(classes-1)
		}
		if scarce && r.IntN(3) < 2 {
			e.Field = append(e.Field, 2)
			eventtest.Put(&e, 2, r.NormFloat64()+float64(e.Label))
		}
		return e
	}
	p := at.At("x", 0, 0)
	for range 6000 {
		e := draw()
		l.Learn(&e, nil)
		must.Do(t, p.Advance(e.Offset, e.Fingerprint))
		all = append(all, e)
	}
	return l, all, at, draw
}

// TestGapOfTheLevelAlone checks that the gap is measured on the problem of the noise level, without the spline columns
// of the second-order expert. The exact solution for predictions must have these spline columns.
func TestGapOfTheLevelAlone(t *testing.T) {
	longtest.NotRaced(t)
	for i, classes := range []int{2, 3} {
		for j, of := range []struct {
			noise  string
			halves bool
		}{{"dropout:0.3", false}, {"dropout:0.3", true}, {"group:0.3", false}} {
			if !longtest.Some(i+j, 2) {
				continue
			}
			var reports [2]*batch.Validation
			var exact [2]*model.Linear
			for i, rule := range []string{"auto", "adagrad"} {
				c := online.DefaultConfig()
				c.Noise, c.Optimizer = of.noise, rule
				l, all, at, _ := bent(t, c, classes, true)
				request := validate.RequestOf(l.Snapshot(), at)
				if of.halves {
					request.Sample, request.Most = validate.NewSample(validate.SampleBytes), len(all)
					for j := range all {
						request.Sample.Offer("x", 0, &all[j])
					}
				}
				reports[i], exact[i] = must.Get2(validator(c, all).Validate(t.Context(), request))(t)
			}
			auto, alone := reports[0], reports[1]
			for i, pair := range [][2]float64{{auto.Live.Objective, alone.Live.Objective}, {auto.Exact.Objective, alone.Exact.Objective}} {
				if math.Abs(pair[0]-pair[1]) > 1e-9*pair[1] {
					t.Errorf("%d classes, %v: objective %s is %v, beside no other expert %v", classes, of, []string{"live", "exact"}[i], pair[0], pair[1])
				}
			}
			if (auto.GapError > 0) != of.halves || auto.GapError > 2*alone.GapError {
				t.Errorf("%d classes, %v: the gap %v has the error %v, beside no other expert %v", classes, of, *auto.RelativeGap, auto.GapError, alone.GapError)
			}
			if !of.halves && !(*auto.Exact.LogLoss < 0.9**alone.Exact.LogLoss) {
				t.Errorf("%d classes: the exact solution with curves has a log-loss of %.4f, without of %.4f", classes, *auto.Exact.LogLoss, *alone.Exact.LogLoss)
			}
			if splines := exact[1].Scaler.Splines; splines == nil || !slices.ContainsFunc(splines.Columns, func(column uint32) bool { return column == 2 }) {
				t.Errorf("nothing tells that the third number is there: %+v", splines)
			}
		}
	}
}

// TestBeginsAtTheEarlierSolution checks that a validation starts from the previous solution and converges to it
// quickly.
func TestBeginsAtTheEarlierSolution(t *testing.T) {
	c := online.DefaultConfig()
	c.Optimizer = "adagrad"
	l, all, at, _ := bent(t, c, 2, false)
	v, request := validator(c, all), validate.RequestOf(l.Snapshot(), at)
	for round := range 2 {
		problem := v.Problem(request)
		problem.Tol = 1e-9
		if problem.Start != request.Earlier {
			t.Fatal("it begins elsewhere")
		}
		evidence := batch.NewEvidence(request.Live)
		for i := range all {
			must.Do(t, evidence.Learned(&all[i], 1))
		}
		exact := must.Get(evidence.Exact(t.Context(), request.Live, problem))(t)
		if (exact.Iterations <= 1) != (round == 1) {
			t.Errorf("round %d: %d iterations", round, exact.Iterations)
		}
		request.Earlier = exact.Linear
	}
}

// TestAdoptSplines adopts an exact solution for numbers with nonlinear effects. The second-order expert must have the
// spline columns of the exact solution. The adopted state must predict as the exact solution does, and learning must
// continue from it.
func TestAdoptSplines(t *testing.T) {
	for _, classes := range []int{2, 3, 0} {
		c := online.DefaultConfig()
		if c.Noise = "dropout:0.3"; classes == 0 {
			c.Loss = "squared"
		}
		l, all, at, draw := bent(t, c, classes, false)
		before := l.Snapshot().Model()
		if splines := before.Scaler.Splines; splines == nil || len(splines.Knots[0]) < 3 {
			t.Fatalf("curves %+v", splines)
		}
		_, a := adopt(t, c, l, all, at)
		adopted := a.Learner.Snapshot().Model()
		var fresh []event.Example
		for range 3000 {
			fresh = append(fresh, draw())
		}
		wrong := func(m *model.Linear) (fraction float64) {
			for i := range fresh {
				scores := m.Score(&fresh[i], make([]float64, m.Outputs))
				if classes == 0 {
					fraction += math.Abs(scores[0]-fresh[i].Target) / 10 / float64(len(fresh))
				} else if model.Predict(scores) != fresh[i].Label {
					fraction += 1 / float64(len(fresh))
				}
			}
			return fraction
		}
		for i := range fresh {
			got, want := adopted.Score(&fresh[i], make([]float64, adopted.Outputs)), a.Exact.Score(&fresh[i], make([]float64, adopted.Outputs))
			for k := range got {
				if math.Abs(got[k]-want[k]) > 1e-9*(1+math.Abs(want[k])) {
					t.Fatalf("%d classes: event %d is answered %v, by the exact solution %v", classes, i, got, want)
				}
			}
		}
		was, is := wrong(before), wrong(adopted)
		for i := range all {
			a.Learner.Learn(&all[i], nil)
		}
		later := wrong(a.Learner.Snapshot().Model())
		t.Logf("%d classes: errors %.3f, adopted %.3f, %d events later %.3f", classes, was, is, len(all), later)
		if is > was+0.01 || later > was+0.01 {
			t.Errorf("%d classes: errors %.3f, adopted %.3f, %d events later %.3f", classes, was, is, len(all), later)
		}
	}
}

// TestAdoptAccumulators checks that the accumulators of AdaGrad are the sums of squared gradients at the exact solution.
func TestAdoptAccumulators(t *testing.T) {
	c := online.DefaultConfig()
	c.Noise = "dropout:0.3"
	_, a, all := learnSome(t, c, 2, 300)
	m := a.Learner.Snapshot().Model()
	loss := must.Get(loss.Parse(c.Loss))(t)
	want := make([]float64, 8)
	for i := range all {
		e := &all[i]
		if e.Label == event.Unlabeled {
			continue
		}
		x := m.Standardized(e, event.Vec{})
		f, v := m.Intercept[0], 0.0
		for j, d := range x.Index {
			w := m.Weight(d, 0)
			f, v = f+w*x.Value[j], v+0.3/0.7*w*w*x.Value[j]*x.Value[j]
		}
		repeats := math.Ceil(e.Weight)
		_, df, dv := loss.At(float64(2*e.Label-1), f, v)
		for j, d := range x.Index {
			z, w := x.Value[j], m.Weight(d, 0)
			g := e.Weight / repeats * (df*z + 2*dv*0.3/0.7*z*z*w) // the penalty is part of the initial accumulators
			want[d] += repeats * g * g
		}
	}
	for d, want := range want {
		if got := m.Rows.Row(uint32(d))[model.ScalerWidth+1]; math.Abs(got-want) > 1e-9*want {
			t.Errorf("column %d: metric %v, want %v", d, got, want)
		}
	}
}

// TestAdoptAccumulatorsOfRegression checks the accumulators of every column for regression. They must be the sums of
// squared gradients in the original unit of the targets, divided by the square of the learner's unit.
func TestAdoptAccumulatorsOfRegression(t *testing.T) {
	c := online.DefaultConfig()
	c.Loss, c.Noise = "squared", "dropout:0.3"
	schema := event.NewSchema(12, nil, 2)
	schema.Target = loss.Real
	l := must.Get(online.New(c, schema))(t)
	r := rand.New(rand.NewPCG(3, 4))
	var all []event.Example
	var at event.Offsets
	p := at.At("x", 0, 0)
	var y []float64
	for i := range 300 {
		e := event.Example{Offset: int64(i), Weight: []float64{1, 1, 2.5}[i%3], Fingerprint: r.Uint64(), Target: 500 + 30*r.NormFloat64()}
		for j := range uint32(8) {
			if r.IntN(3) > 0 {
				x := r.NormFloat64()
				eventtest.Put(&e, j, x)
				e.Target += 10 * float64(j) * x
			}
		}
		l.Learn(&e, nil)
		must.Do(t, p.Advance(e.Offset, e.Fingerprint))
		all, y = append(all, e), append(y, e.Target)
	}
	_, a := adopt(t, c, l, all, at)
	m := a.Learner.Snapshot().Model()
	own := make([]float64, 8)
	for i := range all {
		e := &all[i]
		x := m.Standardized(e, event.Vec{})
		off := m.Score(e, make([]float64, 1))[0] - e.Target
		repeats := math.Ceil(e.Weight)
		for j, d := range x.Index {
			z := x.Value[j]
			g := e.Weight / repeats * (off*z + 0.3/0.7*z*z*m.Weight(d, 0))
			own[d] += repeats * g * g
		}
	}
	first := m.Rows.Row(0)[model.ScalerWidth+1] / own[0]
	for d, own := range own {
		if got := m.Rows.Row(uint32(d))[model.ScalerWidth+1] / own; math.Abs(got-first) > 1e-9*first {
			t.Errorf("column %d: the metric is %v of that in the labels' own unit, of column 0 %v", d, got, first)
		}
	}
	if v := stat.Variance(y, nil) * first; !(v > 0.5 && v < 2) {
		t.Errorf("the metric times the variance of the labels is %v of that in their own unit", v)
	}
}

// TestAdoptUnderDrift checks that the exact solution is not adopted if the stream has drifted, because it is worse for
// new events. On a stationary stream the solution must be adopted if it is significantly better.
func TestAdoptUnderDrift(t *testing.T) {
	const n, flip, after, holdout = 3000, 2000, 1000, 5
	for _, drifts := range []bool{true, false} {
		c := online.DefaultConfig()
		c.Noise, c.LearningRate = "none", 0.02 // a low learning rate, so that one pass is not enough to converge
		if drifts {
			c.LearningRate = 0
		}
		schema := event.NewSchema(12, []string{"no", "yes"}, 2)
		learner := must.Get(online.New(c, schema))(t)
		r := rand.New(rand.NewPCG(8, 9))
		var all []event.Example
		var at event.Offsets
		p := at.At("x", 0, 0)
		for i := range n + after {
			e := event.Example{Offset: int64(i), Weight: 1, Fingerprint: r.Uint64(), Time: int64(i)}
			score := 0.0
			for j := range uint32(10) {
				x := r.NormFloat64()
				eventtest.Put(&e, j, x)
				if score += x; drifts && i >= flip && j >= 2 {
					score -= 2 * x // most of the effect of x is reversed
				}
			}
			if score+0.5*r.NormFloat64() > 0 {
				e.Label = 1
			}
			if all = append(all, e); i >= n {
				continue
			}
			if !validate.HeldOut(0, e.Offset, holdout) {
				learner.Learn(&e, nil)
			}
			must.Do(t, p.Advance(e.Offset, e.Fingerprint))
		}
		v := validate.Validator{Config: validate.DefaultConfig(), Learner: c,
			Open: func(context.Context, *event.Schema, event.Offsets) (event.Source, error) {
				x := examples(slices.Clone(all[:n]))
				return &x, nil
			}}
		v.Config.CPU, v.Config.Holdout, v.Config.Policy, v.Config.Window = 1, holdout, "adopt", 0
		live := learner.Snapshot()
		a := must.Get(v.Adopt(t.Context(), live, at))(t)
		newest := a.Report.Newest
		if newest == nil || newest.MeasuredOn != "holdout" || newest.Events < 100 || newest.Events > n/holdout/4 {
			t.Fatalf("compared on %+v", newest)
		}
		if !drifts {
			if a.Learner == nil || newest.Better != "exact" {
				t.Errorf("the stream stands still: %q, %+v", a.Reason, newest)
			}
			continue
		}
		if a.Learner != nil || !a.Kept || newest.Better != "live" || !strings.Contains(a.Reason, "the live weights are better") || a.Report.NotAdopted != a.Reason {
			t.Errorf("the stream drifts: %q, %+v", a.Reason, newest)
		}
		// If the margin is -Inf, the solution must be adopted, although it is worse for new events.
		v.Config.AdoptMargin = math.Inf(-1)
		if a = must.Get(v.Adopt(t.Context(), live, at))(t); a.Learner == nil {
			t.Fatal(a)
		}
		wrong := func(m *model.Linear) (count int) {
			for i := range all[n:] {
				e := &all[n+i]
				if m.Predict(m.Score(e, make([]float64, 1))) != e.Label {
					count++
				}
			}
			return count
		}
		if kept, adopted := wrong(live.Model()), wrong(a.Learner.Snapshot().Model()); kept+after/20 > adopted {
			t.Errorf("of the next %d events the live model gets %d wrong, the exact solution %d", after, kept, adopted)
		} else {
			t.Logf("of the next %d events the live model gets %d wrong, the exact solution %d", after, kept, adopted)
		}
	}
}

// TestAdoptCountsUnlabeled checks that the event count after an adoption includes unlabeled events only if learning
// counts them too.
func TestAdoptCountsUnlabeled(t *testing.T) {
	for _, alpha := range []float64{0, 0.5} {
		c := online.DefaultConfig()
		c.Noise, c.UnlabeledWeight = "dropout:0.3", alpha
		l, _, all := learnSome(t, c, 2, 407)
		adopted := func(unlabeled float64) []event.Block {
			var at event.Offsets
			p := at.At("x", 0, 0)
			events := slices.Clone(all)
			for i := range events {
				e := &events[i]
				must.Do(t, p.Advance(e.Offset, e.Fingerprint))
				if e.Label == event.Unlabeled {
					e.Weight = unlabeled
				}
			}
			v := validate.Validator{Config: validate.DefaultConfig(), Learner: c,
				Open: func(context.Context, *event.Schema, event.Offsets) (event.Source, error) {
					x := examples(slices.Clone(events))
					return &x, nil
				}}
			v.Config.CPU, v.Config.AdoptMargin = 1, math.Inf(-1)
			a, err := v.Adopt(t.Context(), l.Snapshot(), at)
			if err != nil || a.Learner == nil {
				t.Fatal(a, err)
			}
			return must.Get(a.Learner.Snapshot().Blocks())(t)
		}
		with, without := adopted(1), adopted(0)
		same := slices.EqualFunc(with, without, func(a, b event.Block) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) })
		if same != (alpha == 0) {
			t.Errorf("alpha %g: without the unlabeled events the state is the same: %v", alpha, same)
		}
	}
}

// TestAdoptNeedsACertificate checks that a solution without a certificate within the tolerance is never adopted,
// however large its gain is.
func TestAdoptNeedsACertificate(t *testing.T) {
	c := online.DefaultConfig()
	c.Noise = "dropout:0.3"
	l, all, at := learned(t, c, 2, 300)
	v := validator(c, all)
	v.Config.AdoptMargin, v.Config.Tol = math.Inf(-1), 1e-300
	a, err := v.Adopt(t.Context(), l.Snapshot(), at)
	if err != nil || a.Learner != nil || a.Kept || !strings.Contains(a.Reason, "is not certified to the tolerance 1e-300") || a.Report.NotAdopted != a.Reason || a.Report.Adopted {
		t.Errorf("%+v, %v", a, err)
	}
	// The loss is not convex: the solver converges, but no gap can be computed.
	c.Loss = "erf"
	l, all, at = learned(t, c, 2, 300)
	v = validator(c, all)
	v.Config.AdoptMargin = math.Inf(-1)
	if a, err := v.Adopt(t.Context(), l.Snapshot(), at); err != nil || a.Learner != nil || !strings.Contains(a.Reason, "is not certified") {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestAdoptRefusesWorseSolutions checks two kinds of solutions that must not be adopted at any margin: equally good
// solutions, and solutions that cannot be compared.
func TestAdoptRefusesWorseSolutions(t *testing.T) {
	c := online.DefaultConfig()
	c.Noise = "dropout:0.3"
	l, all, at := learned(t, c, 2, 300)
	v := validator(c, all)
	for _, x := range []struct {
		margin float64
		adopts bool
	}{{-1e9, true}, {1e9, false}, {math.NaN(), false}} {
		v.Config.AdoptMargin = x.margin
		a, err := v.Adopt(t.Context(), l.Snapshot(), at)
		if err != nil || (a.Learner != nil) != x.adopts || a.Kept == x.adopts {
			t.Errorf("margin %v: learner %v, kept %v, %s, %v", x.margin, a.Learner != nil, a.Kept, a.Reason, err)
		}
		if n := a.Report.Newest; n == nil || n.Gain == 0 {
			t.Fatalf("the gain is %v", n)
		} else if x.margin == -1e9 { // the margin that equals the gain
			v.Config.AdoptMargin = n.Gain / n.StandardError
			if v.Config.AdoptMargin*n.StandardError != n.Gain {
				t.Skip("their quotient is rounded")
			}
			if a, err := v.Adopt(t.Context(), l.Snapshot(), at); err != nil || a.Learner != nil || !a.Kept {
				t.Errorf("a gain of just the margin: %s, %v", a.Reason, err)
			}
		}
	}
}
