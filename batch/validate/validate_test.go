package validate_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

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

// validator returns a Validator that can read all events again.
func validator(c online.Config, all []event.Example) *validate.Validator {
	v := &validate.Validator{Config: validate.DefaultConfig(), Learner: c,
		Open: func(context.Context, *event.Schema, event.Offsets) (event.Source, error) {
			return eventtest.Source(event.Batch{Topic: "x", Examples: slices.Clone(all), Next: int64(len(all))}), nil
		}}
	v.Config.CPU = 1
	return v
}

// learned returns a learner that has learned events of k classes.
func learned(t *testing.T, c online.Config, k int, events int) (*online.Learner, []event.Example, event.Offsets) {
	t.Helper()
	schema := event.NewSchema(12, nil, k)
	for i := range k {
		_, ok := schema.Class(fmt.Append(nil, i))
		must.Require(t, ok, "class")
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

// bent learns events of numbers with nonlinear effects. For 0 classes it draws regression targets. If scarce is set, the events have a third number, which is absent from a third of
// the events.
func bent(t *testing.T, c online.Config, classes int, scarce bool) (l *online.Learner, all []event.Example, at event.Offsets) {
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
	draw := func() event.Example {
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
	return l, all, at
}

// TestGapOfTheLevelAlone checks that the gap is measured on the problem of the noise level, without the spline columns
// of the second-order expert. The exact solution for predictions must have these spline columns.
func TestGapOfTheLevelAlone(t *testing.T) {
	longtest.NotRaced(t)
	for i, classes := range []int{2, 3} {
		for _, of := range longtest.Few([]struct {
			noise  string
			halves bool
		}{{"dropout:0.3", false}, {"dropout:0.3", true}, {"group:0.3", false}}, i+1, 3) {
			var reports [2]*batch.Validation
			var exact [2]*model.Linear
			for i, rule := range []string{"auto", "adagrad"} {
				c := online.DefaultConfig()
				c.Noise, c.Optimizer = of.noise, rule
				l, all, at := bent(t, c, classes, true)
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
				must.True(t, math.Abs(pair[0]-pair[1]) <= 1e-9*pair[1],
					"%d classes, %v: objective %s is %v, beside no other expert %v", classes, of, []string{"live", "exact"}[i], pair[0], pair[1])
			}
			must.True(t, (auto.GapError > 0) == of.halves && auto.GapError <= 2*alone.GapError,
				"%d classes, %v: the gap %v has the error %v, beside no other expert %v", classes, of, *auto.RelativeGap, auto.GapError, alone.GapError)
			must.True(t, of.halves || *auto.Exact.LogLoss < 0.9**alone.Exact.LogLoss,
				"%d classes: the exact solution with curves has a log-loss of %.4f, without of %.4f", classes, *auto.Exact.LogLoss, *alone.Exact.LogLoss)
			splines := exact[1].Scaler.Splines
			must.True(t, splines != nil && slices.ContainsFunc(splines.Columns, func(column uint32) bool { return column == 2 }), "nothing tells that the third number is there: %+v", splines)
		}
	}
}

// TestBeginsAtTheEarlierSolution checks that a validation starts from the previous solution and converges to it
// quickly.
func TestBeginsAtTheEarlierSolution(t *testing.T) {
	c := online.DefaultConfig()
	c.Optimizer = "adagrad"
	l, all, at := bent(t, c, 2, false)
	v, request := validator(c, all), validate.RequestOf(l.Snapshot(), at)
	for round := range 2 {
		problem := v.Problem(request)
		problem.Tol = 1e-9
		must.Require(t, problem.Start == request.Earlier, "it begins elsewhere")
		evidence := batch.NewEvidence(request.Live)
		for i := range all {
			must.Do(t, evidence.Learned(&all[i], 1))
		}
		exact := must.Get(evidence.Exact(t.Context(), request.Live, problem))(t)
		must.True(t, (exact.Iterations <= 1) == (round == 1), "round %d: %d iterations", round, exact.Iterations)
		request.Earlier = exact.Linear
	}
}

// TestValidationRests checks that a validation pauses to let learning proceed.
func TestValidationRests(t *testing.T) {
	c := online.DefaultConfig()
	c.Noise = "dropout:0.3"
	l, all, at := learned(t, c, 2, 1000)
	v := validator(c, all)
	v.Config.CPU = validate.DefaultConfig().CPU
	r, _, err := v.Validate(t.Context(), validate.RequestOf(l.Snapshot(), at))
	must.True(t, err == nil && r.Pause != 0, "a validation has rested for %v s: %v", r.Pause, err)
}

// TestNewestUnderDrift checks that the live weights are reported as better on the newest events if the stream has
// drifted. On a stationary stream the exact solution must be better.
func TestNewestUnderDrift(t *testing.T) {
	const n, flip, holdout = 3000, 2000, 5
	for _, drifts := range []bool{true, false} {
		c := online.DefaultConfig()
		c.Noise, c.LearningRate = "none", 0.02 // a low learning rate, so that one pass is not enough to converge
		if drifts {
			c.LearningRate = 0
		}
		schema := event.NewSchema(12, []string{"no", "yes"}, 2)
		learner := must.Get(online.New(c, schema))(t)
		random := rand.New(rand.NewPCG(8, 9))
		var all []event.Example
		var at event.Offsets
		p := at.At("x", 0, 0)
		for i := range n {
			e := event.Example{Offset: int64(i), Weight: 1, Fingerprint: random.Uint64(), Time: int64(i)}
			score := 0.0
			for j := range uint32(10) {
				x := random.NormFloat64()
				eventtest.Put(&e, j, x)
				if score += x; drifts && i >= flip && j >= 2 {
					score -= 2 * x // most of the effect of x is reversed
				}
			}
			e.Label = must.Either(score+0.5*random.NormFloat64() > 0, 1, 0)
			all = append(all, e)
			if !validate.HeldOut(0, e.Offset, holdout) {
				learner.Learn(&e, nil)
			}
			must.Do(t, p.Advance(e.Offset, e.Fingerprint))
		}
		v := validator(c, all)
		v.Config.Holdout = holdout
		r, _ := must.Get2(v.Validate(t.Context(), validate.RequestOf(learner.Snapshot(), at)))(t)
		newest, want := r.Newest, map[bool]string{true: "live", false: "exact"}[drifts]
		must.True(t, newest != nil && newest.MeasuredOn == "holdout" && newest.Events >= 100 && newest.Events <= n/holdout/4 && newest.Better == want,
			"drifts %v: %+v, want %s to be better", drifts, newest, want)
	}
}
