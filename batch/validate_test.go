package batch_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/batch"
	"blankout/batch/internal/adult"
	"blankout/batch/internal/problems"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
)

// validated learns all events except every tenth event, and then validates the model.
func validated(t *testing.T, schema *event.Schema, all []event.Example, change func(*online.Config), c batch.ValidateConfig) (r *batch.Validation, live, exact *model.Linear) {
	t.Helper()
	config := online.DefaultConfig()
	config.Noise, config.Doubt = "dropout:0.3", "log" // a validation takes numbers as they are
	change(&config)
	learner := must.Get(online.New(config, schema))(t)
	for i := range all {
		if i%10 > 0 {
			learner.Learn(&all[i], nil)
		}
	}
	live = learner.Snapshot().Model()
	v := heldOutTenth(t, live, all)
	c.Loss, c.Noise = live.Loss, live.Noise
	r, solution := must.Get2(v.Validate(context.Background(), c))(t)
	return r, live, solution.Linear
}

// TestValidateIsTrain checks the exact solution of a validation. It must equal the result of Train on the same events,
// with the frozen Scaler of the live model.
func TestValidateIsTrain(t *testing.T) {
	longtest.Numeric(t)
	adultSchema, adultEvents := adult.Events(t)
	severalSchema, more := problems.Several(4, 800)
	tests := []struct {
		name   string
		schema *event.Schema
		all    []event.Example
		change func(*online.Config)
		loss   string
	}{
		{"adult", adultSchema, adultEvents, func(*online.Config) {}, "logistic"},
		{"hinge", adultSchema, adultEvents, func(c *online.Config) { c.Loss = "hinge" }, "hinge"},
		{"constant noise", adultSchema, adultEvents, func(c *online.Config) { c.Noise = "gaussian:0.1" }, "logistic"},
		{"four classes", severalSchema, more, func(*online.Config) {}, "logistic"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := batch.DefaultValidateConfig()
			c.Tol = 1e-10
			r, live, exact := validated(t, tt.schema, tt.all, tt.change, c)

			train := batch.DefaultConfig()
			train.Loss, train.Noise, train.Tol = tt.loss, live.Noise, 1e-10
			var b batch.Builder
			for i := range tt.all {
				if e := tt.all[i]; i%10 > 0 {
					e.Features = live.Standardized(&e, event.Vec{})
					must.Do(t, b.Add(&e))
				}
			}
			fit := must.Get(batch.Train(context.Background(), b.Data(tt.schema), train))(t)
			must.True(t, math.Abs(r.Exact.Objective-fit.Objective) <= 1e-8*fit.Objective, "exact objective %.12g, train says %.12g", r.Exact.Objective, fit.Objective)
			must.True(t, r.Gap > 0 && r.Certificate != nil && *r.Certificate <= r.Gap, "gap %v with certificate %v", r.Gap, r.Certificate)
			// The returned model must have the exact weights: for raw events, its Scaler must give the same scores.
			wrong, held := 0, 0
			for i := range tt.all {
				if i%10 == 0 {
					held++
					if model.Predict(exact.Score(&tt.all[i], make([]float64, exact.Outputs))) != tt.all[i].Label {
						wrong++
					}
				}
			}
			want := 100 * float64(wrong) / float64(held)
			must.True(t, math.Abs(want-*r.Exact.Error) <= 1e-9 && r.Holdout == held, "error %v %% on %d events, the model says %v %% on %d", *r.Exact.Error, r.Holdout, want, held)
		})
	}
}

// without returns an event from which each feature is removed with probability d. A removed feature is null if it has a
// field.
func without(r *rand.Rand, e *event.Example, d float64) *event.Example {
	left := &event.Example{Label: e.Label, Weight: e.Weight, Missing: slices.Clone(e.Missing)}
	for j, column := range e.Features.Index {
		if r.Float64() < d {
			if e.Field != nil {
				left.Missing = append(left.Missing, e.Field[j])
			}
			continue
		}
		eventtest.Put(left, column, e.Features.Value[j])
		if e.Field != nil {
			left.Field = append(left.Field, e.Field[j])
		}
	}
	return left
}

// TestForecastIsSimulation checks that the forecast equals the model's error on events with deleted features. The
// effect of a missing feature or group must equal the effect of setting it to zero. For several classes the forecast
// draws 64 masks for each of 200 events, with a standard error of 0.4 points. The forecast selects the noise level by
// the missing fraction of each mask, not by the deleted fraction. This causes a difference of 0.3 points.
func TestForecastIsSimulation(t *testing.T) {
	longtest.Numeric(t)
	adultSchema, adultEvents := adult.Events(t)
	severalSchema, more := problems.Several(4, 2000)
	binarySchema, binary := problems.Several(2, 4000) // 20 features, so that the forecast uses the normal approximation
	for _, tt := range []struct {
		name   string
		schema *event.Schema
		all    []event.Example
	}{{"adult", adultSchema, adultEvents}, {"four classes", severalSchema, more}, {"two classes", binarySchema, binary}} {
		t.Run(tt.name, func(t *testing.T) {
			r, live, _ := validated(t, tt.schema, tt.all, func(c *online.Config) { c.Optimizer = "adagrad" }, batch.DefaultValidateConfig()) // no splines
			var held []event.Example
			for i := 0; i < len(tt.all); i += 10 {
				held = append(held, tt.all[i])
			}
			for k, d := range r.Deletions {
				if d > 0.7 || !longtest.Some(k, 3) {
					continue
				}
				copies := must.Either(longtest.Asked(), 120, 60) // standard error 0.4 points with 60
				wrong, silently := 0, 0
				draw := rand.New(rand.NewPCG(3, uint64(k)))
				var left event.Example
				for i := range held {
					for range copies {
						dead := must.List(held[i].Features.Len(), func(int) bool { return draw.Float64() < d })
						model.LossesOf(live, 0).Lose(model.LossDead, &held[i], 0, held[i].Features.Index, dead, &left)
						if model.Predict(live.Score(&left, make([]float64, live.Outputs))) != held[i].Label {
							silently++
						}
						if model.Predict(live.Score(without(draw, &held[i], d), make([]float64, live.Outputs))) != held[i].Label {
							wrong++
						}
					}
				}
				simulated := 100 * float64(wrong) / float64(copies*len(held))
				silent := 100 * float64(silently) / float64(copies*len(held))
				got := *r.Live.SilentRobustness[k]
				must.True(t, math.Abs(got-silent) <= 1.5, "at %v, silently, the forecast is %.2f %%, simulation says %.2f %%", d, got, silent)
				t.Logf("%.1f: forecast %.2f, simulated %.2f", d, *r.Live.Robustness[k], simulated)
				must.True(t, math.Abs(*r.Live.Robustness[k]-simulated) <= 1.5, "at %v the forecast is %.2f %%, simulation says %.2f %%", d, *r.Live.Robustness[k], simulated)
			}
			name := tt.schema.Namer()
			kinds := map[string]int{}
			for _, f := range r.Failures {
				kinds[f.Kind]++
				wrong := 0
				for i := range held {
					x := live.Standardized(&held[i], event.Vec{})
					for j, column := range x.Index {
						field := tt.schema.Fields[0]
						if held[i].Field != nil {
							field = tt.schema.Fields[held[i].Field[j]]
						}
						if map[string]string{"feature": name(column), "field": field.Name, "group": field.Group}[f.Kind] == f.Name {
							x.Value[j] = 0
						}
					}
					if model.Predict(live.ScoreVec(x, make([]float64, live.Outputs))) != held[i].Label {
						wrong++
					}
				}
				want := 100 * float64(wrong) / float64(len(held))
				must.True(t, math.Abs(want-f.Live) <= 1e-9, "%s %s: error %v if it dies, want %v", f.Kind, f.Name, f.Live, want)
			}
			must.True(t, kinds["feature"] != 0 && (tt.all[0].Field == nil || kinds["group"] == 2 && kinds["field"] == 20), "failures by kind: %v", kinds)
		})
	}
}

// TestFailureOfCross checks that the products of a missing field with other fields are missing too. The predictions
// must use the model's threshold and calibration.
func TestFailureOfCross(t *testing.T) {
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	schema.Crosses = [][2]string{{"a", "b"}}
	for _, f := range []event.Field{{Name: "a", Kind: event.Numeric, Group: "left"}, {Name: "b", Kind: event.Numeric, Group: "right"}, {Name: "a^b", Kind: event.Cross}} {
		schema.AddField(f)
	}
	live := model.NewLinear(schema, "logistic", "none", [][]float64{{0, 0.5, -0.3, 2}}, []float64{0.1})
	live.Threshold, live.Link = 0.3, &model.Link{Scores: []float64{-4, 4}, LogOdds: []float64{-6.2, 5.8}}
	v := batch.NewEvidence(live)
	var all []event.Example
	r := rand.New(rand.NewPCG(1, 5))
	for i := range 200 {
		a, b := r.NormFloat64(), r.NormFloat64()
		e := event.Example{Label: r.IntN(2), Weight: 1, Field: []uint16{1, 2, 3}}
		if a*b > 0 {
			e.Label = i / 100
		}
		e.Features = event.Vec{Index: []uint32{1, 2, 3}, Value: []float64{a, b, a * b}}
		all = append(all, e)
		must.Do(t, v.Learned(&e, 1))
	}
	c := batch.DefaultValidateConfig()
	c.Loss, c.Noise, c.Prior = "logistic", "none", "l2"
	report, _ := must.Get2(v.Validate(t.Context(), c))(t)
	for name, side := range map[string]batch.ModelMeasures{"live": report.Live, "exact": report.Exact} {
		must.True(t, math.Abs(*side.Robustness[0]-*side.Error) <= 1e-9, "%s: error %v, with nothing deleted %v", name, *side.Error, *side.Robustness[0])
	}
	want := map[string][]int{"field a": {0, 2}, "field b": {1, 2}, "group left": {0, 2}, "group right": {1, 2}}
	for _, f := range report.Failures {
		lost, ok := want[f.Kind+" "+f.Name]
		must.True(t, f.Kind != "field" || ok, "%s dies by itself", f.Name)
		if !ok {
			continue
		}
		delete(want, f.Kind+" "+f.Name)
		wrong := 0.0
		for _, e := range all {
			x := append([]float64(nil), e.Features.Value...)
			for _, j := range lost {
				x[j] = 0
			}
			if live.Predict(live.ScoreVec(event.Vec{Index: e.Features.Index, Value: x}, make([]float64, 1))) != e.Label {
				wrong++
			}
		}
		must.True(t, f.Live == 100*wrong/float64(len(all)), "%s %s: %v, want %v", f.Kind, f.Name, f.Live, 100*wrong/float64(len(all)))
	}
	must.True(t, len(want) <= 0, "missing %v", want)
}

// TestValidateMissing checks that events with missing fields are measured with the model's own missing policy.
func TestValidateMissing(t *testing.T) {
	for _, policy := range []model.MissingPolicy{model.MissingNone, model.MissingRescale} {
		schema, all := problems.Several(2, 3000)
		r := rand.New(rand.NewPCG(5, 5))
		weights := must.List(1<<schema.Bits, func(int) float64 { return 0.1 * r.NormFloat64() })
		live := model.NewLinear(schema, "logistic", "none", [][]float64{weights}, []float64{0.2})
		live.Missing = (*model.Missing)(nil).Forced(policy)
		v := batch.NewEvidence(live)
		wrong, loss, held := 0, 0.0, 0.0
		for i := range all {
			e := without(r, &all[i], 0.4)
			if i%3 > 0 {
				must.Do(t, v.Learned(e, 1))
				continue
			}
			must.Do(t, v.HeldOut(e))
			held++
			f := live.Score(e, make([]float64, 1))[0]
			if y := float64(2*e.Label - 1); y*f <= 0 {
				wrong++
				loss += math.Log1p(math.Exp(y*f)) - y*f
			} else {
				loss += math.Log1p(math.Exp(-y * f))
			}
		}
		c := batch.DefaultValidateConfig()
		c.Loss, c.Noise, c.Prior, c.Deletions = "logistic", "none", "l2", []float64{0}
		report, exact := must.Get2(v.Validate(t.Context(), c))(t)
		if want := 100 * float64(wrong) / held; math.Abs(*report.Live.Error-want) > 1e-9 || math.Abs(*report.Live.Robustness[0]-want) > 1e-9 {
			t.Errorf("%s: error %v %%, with nothing more deleted %v %%, as answered %v %%", policy, *report.Live.Error, *report.Live.Robustness[0], want)
		}
		must.True(t, math.Abs(*report.Live.LogLoss-loss/held) <= 1e-9, "%s: log-loss %v, as answered %v", policy, *report.Live.LogLoss, loss/held)
		must.True(t, exact.Missing == live.Missing, "%s: the exact solution has another rule, %v", policy, exact.Missing)
	}
}

// heldOutTenth returns the Evidence for a model that has learned all events except every tenth event.
func heldOutTenth(t *testing.T, live *model.Linear, all []event.Example) *batch.Evidence {
	t.Helper()
	v := batch.NewEvidence(live)
	for i := range all {
		var err error
		if i%10 > 0 {
			err = v.Learned(&all[i], all[i].Weight)
		} else {
			err = v.HeldOut(&all[i])
		}
		must.Do(t, err)
	}
	return v
}

// TestValidateUnderSilentNoise checks the exact solution of a validation under silent noise. It must equal the result
// of Train with the live model's dead values.
func TestValidateUnderSilentNoise(t *testing.T) {
	t.Parallel()
	schema, all := problems.Several(3, 300)
	for i := range all {
		for j := range all[i].Features.Value {
			all[i].Features.Value[j] += 3 // shifts the mean far from 0
		}
	}
	for k, value := range []string{"mean", "zero"} {
		for i := range all {
			if value == "zero" && i%20 == 3 { // often enough that a dead number is 0
				clear(all[i].Features.Value)
			}
		}
		config := online.DefaultConfig()
		config.Noise = "silent:0.5"
		learner := must.Get(online.New(config, schema))(t)
		for i := range all {
			learner.Learn(&all[i], nil)
		}
		live := learner.Snapshot().Model()
		zero := slices.Max(live.Dead.Reads) == 0
		must.True(t, zero == (value == "zero"), "%s: dead numbers read %v", value, live.Dead.Reads)
		v := batch.NewEvidence(live)
		train := batch.DefaultConfig()
		train.Loss, train.Noise, train.Tol = live.Loss, live.Noise, 1e-10
		var b batch.Builder
		for i := range all {
			must.Do(t, v.Learned(&all[i], 1))
			e := all[i]
			e.Features, e.Field = live.Standardized(&all[i], event.Vec{}), nil
			must.Do(t, b.Add(&e))
		}
		foreign := all[0].Features.Index[0]
		for _, less := range longtest.Few([]bool{false, true}, k, 2) {
			c := batch.DefaultValidateConfig()
			c.Loss, c.Noise, c.Tol = live.Loss, live.Noise, 1e-10
			d := b.Data(schema)
			if less { // exclude a column that only other experts have
				c.Foreign, c.Level = func(column uint32) bool { return column == foreign }, live
				b = batch.Builder{}
				for i := range all {
					e := all[i]
					e.Features, e.Field = live.Standardized(&all[i], event.Vec{}), nil
					if e.Features.Index[0] == foreign {
						e.Features = event.Vec{Index: e.Features.Index[1:], Value: e.Features.Value[1:]}
					}
					must.Do(t, b.Add(&e))
				}
				d = b.Data(schema)
			}
			d.SetDead(live.DeadStandardized)
			fit := must.Get(batch.Train(context.Background(), d, train))(t)
			r, _ := must.Get2(v.Validate(context.Background(), c))(t)
			must.True(t, math.Abs(r.Exact.Objective-fit.Objective) <= 1e-8*fit.Objective, "%s, a column less %v: exact objective %.12g, train says %.12g", value, less, r.Exact.Objective, fit.Objective)
			must.True(t, r.Live.Objective > r.Exact.Objective, "%s: the live objective %v is below the least, %v", value, r.Live.Objective, r.Exact.Objective)
		}
	}
}

// TestHalvesAreFair checks the comparison of a live model with an exact solution. An exact solution of a small sample
// overfits the sample, so the live model would seem much worse on these events. Solving on one half of the sample and
// measuring on the other half avoids this.
func TestHalvesAreFair(t *testing.T) {
	longtest.Numeric(t)
	const columns, learned, size = 30, 100_000, 800
	r := rand.New(rand.NewPCG(3, 4))
	w := must.List(columns, func(int) float64 { return r.NormFloat64() / 3 })
	made := func() *event.Example {
		e := &event.Example{Weight: 1}
		z := 0.0
		for j := range columns {
			x := r.NormFloat64()
			eventtest.Put(e, uint32(j), x)
			z += w[j] * x
		}
		e.Label = must.Either(r.Float64() < 1/(1+math.Exp(-z)), 1, 0)
		return e
	}
	config := online.DefaultConfig()
	config.Noise, config.Optimizer = "none", "adagrad" // no splines: one weight per column
	l := must.Get(online.New(config, event.NewSchema(18, []string{"no", "yes"}, 2)))(t)
	for range learned {
		l.Learn(made(), nil)
	}
	live := l.Snapshot().Model()
	var gaps [2]float64 // gap on the events that were solved, and gap on the two halves
	const rounds = 8
	spread := 0.0
	for range rounds {
		for halves := range 2 {
			v := batch.NewEvidence(live)
			for i := range size {
				e := made()
				e.Weight = float64(learned) / (size / 2)
				if i%2 == 0 {
					must.Do(t, v.Learned(e, e.Weight))
				} else {
					must.Do(t, v.HeldOut(e))
				}
			}
			c := batch.DefaultValidateConfig()
			c.Loss, c.Noise, c.HalfSample, c.Deletions = live.Loss, live.Noise, halves == 1, nil
			report, _ := must.Get2(v.Validate(context.Background(), c))(t)
			gaps[halves] += *report.RelativeGap / rounds
			spread += report.GapError
			must.True(t, (report.GapError > 0) == c.HalfSample && report.MeasuredOn == map[bool]string{true: "sample", false: "holdout"}[c.HalfSample], "halves %v: %+v", c.HalfSample, report)
		}
	}
	t.Logf("gaps %v, told error %v", gaps, spread/rounds)
	// 30 weights for 400 events overfit by about 30/800 nats, while the loss is about 0.5 nats. The overfitting is
	// larger than the true gap.
	must.True(t, gaps[0] >= 0.04 && math.Abs(gaps[1]) <= gaps[0]/4, "the mean gap is %.4f, of halves %.4f", gaps[0], gaps[1])
}

// TestValidateByLevel checks the validation of a live model that predicts with several noise levels. The error of each
// event must be measured with the noise level that predicts it. The error at a deleted fraction must be the error of
// the noise level for that fraction.
func TestValidateByLevel(t *testing.T) {
	t.Parallel()
	s := eventtest.Schema(13, "", "a", "b")
	// One reading determines the class. The other readings are noisy copies of the first.
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]event.Example, 20_000)
	for i := range all {
		e := &all[i]
		*e = event.Example{Label: r.IntN(2), Weight: 1, Offset: int64(i)}
		strong := float64(2*e.Label-1) + 0.5*r.NormFloat64()
		for j := range uint16(13) {
			x := strong
			if j > 0 {
				x += 1.5 * r.NormFloat64()
			}
			e.Field = append(e.Field, j+1)
			eventtest.Put(e, uint32(j), x)
		}
		if i%10 == 0 && i%20 == 0 { // every 20th event: half of the holdout
			*e = *without(r, e, 0.6)
		}
	}
	report, live, exact := validated(t, s, all, func(c *online.Config) { c.Noise, c.MissingPolicy = "auto", "none" }, batch.DefaultValidateConfig())
	must.Require(t, len(live.Levels) != 0 && live.Missing.Levels[3] != 0 && exact.Levels == nil, "levels %v, %d of the exact solution", live.Missing.Levels, len(exact.Levels))
	for name, m := range map[string]struct {
		model *model.Linear
		said  float64
	}{"live": {live, *report.Live.Error}, "exact": {exact, *report.Exact.Error}} {
		wrong := 0.0
		for i := 0; i < len(all); i += 10 {
			if m.model.Predict(m.model.Score(&all[i], make([]float64, 1))) != all[i].Label {
				wrong += 100. / 2000
			}
		}
		must.True(t, math.Abs(wrong-m.said) <= 1e-9, "%s: %v %% wrong, the validation says %v", name, wrong, m.said)
	}
	alone, err := batch.NewEvidence(live.Alone()), error(nil)
	for i := 0; i < len(all) && err == nil; i += 10 {
		err = alone.HeldOut(&all[i])
	}
	for i := 1; i < len(all) && err == nil; i += 10 {
		err = alone.Learned(&all[i], 1)
	}
	must.Do(t, err)
	c := batch.DefaultValidateConfig()
	c.Loss, c.Noise = live.Loss, live.Noise
	one, _ := must.Get2(alone.Validate(t.Context(), c))(t)
	for i, fraction := range report.Deletions {
		by, own := *report.Live.Robustness[i], *one.Live.Robustness[i]
		if another := live.Missing.Levels[model.MissingBin(fraction)] > 0 && fraction > 0; another == (by == own) {
			t.Errorf("%v deleted: error %v %%, of the published level %v, and level %d answers", fraction, by, own, live.Missing.Levels[model.MissingBin(fraction)])
		}
	}
}

// numbers returns events for regression, with targets far from 0 or with counts.
func numbers(target loss.Target, n int) (*event.Schema, []event.Example) {
	r := rand.New(rand.NewPCG(7, 8))
	schema := event.NewSchema(10, nil, 2)
	schema.Target = target
	const features = 6
	for i := range features {
		schema.AddField(event.Field{Name: string(rune('a' + i)), Kind: event.Numeric, Group: []string{"left", "right"}[i%2]})
	}
	var all []event.Example
	for i := range n {
		e := event.Example{Weight: []float64{1, 2, 0.5}[i%3], Offset: int64(i)}
		f := 0.3
		for j := range features {
			x := r.NormFloat64()
			f += x * 0.3 * float64(j-2)
			eventtest.Put(&e, uint32(j), x, uint16(j+1))
		}
		if e.Target = 5000 + 40*(f+r.NormFloat64()); target == loss.Count {
			e.Target = math.Floor(20 * math.Exp(f/2+r.NormFloat64()/5))
		}
		all = append(all, e)
	}
	return schema, all
}

// validatedNumbers learns all events except every tenth and then validates the model.
func validatedNumbers(t *testing.T, lossName string, change func(*online.Config)) (r *batch.Validation, live, exact *model.Linear, learner *online.Learner, all []event.Example) {
	t.Helper()
	config := online.DefaultConfig()
	config.Loss, config.Noise, config.MissingPolicy, config.Doubt = lossName, "dropout:0.3", "none", "log"
	change(&config)
	var schema *event.Schema
	schema, all = numbers(loss.LabelsOf(lossName), 3000)
	learner = must.Get(online.New(config, schema))(t)
	for i := range all {
		if i%10 > 0 {
			learner.Learn(&all[i], nil)
		}
	}
	s := learner.Snapshot()
	live = s.Model()
	v := heldOutTenth(t, live, all)
	c := batch.DefaultValidateConfig()
	c.Loss, c.Noise, c.Unit, c.Tol, c.Prior = live.Loss, live.Noise, s.Unit(), 1e-8, "l2"
	c.Cost, c.Intercept = config.C, batch.Intercept(config.Intercept)
	r, solution := must.Get2(v.Validate(context.Background(), c))(t)
	return r, live, solution.Linear, learner, all
}

// TestValidateRegression checks that the live objective equals the learner's own objective on the same events. The
// exact objective must be lower than the live objective, up to the certificate. The measures of both models must agree
// with their predictions for held-out events.
func TestValidateRegression(t *testing.T) {
	longtest.Numeric(t)
	for i, lossName := range []string{"linear", "absolute", "quantile:0.9", "huber:0.7", "poisson"} {
		for _, intercept := range longtest.Few([]string{"free", "penalized", "none"}, i, 3) {
			t.Run(lossName+" "+intercept, func(t *testing.T) {
				r, live, exact, learner, all := validatedNumbers(t, lossName, func(c *online.Config) { c.Intercept, c.C = intercept, 0.01 })
				var learned []event.Example
				for i := range all {
					if i%10 > 0 {
						learned = append(learned, all[i])
					}
				}
				source := eventtest.Source(event.Batch{Topic: "x", Examples: learned})
				itself, _, _, err := learner.Evaluate(t.Context(), source, 1)
				must.Do(t, err)
				must.True(t, math.Abs(r.Live.Objective-itself) <= 1e-9*math.Abs(itself), "live objective %.12g, the learner says %.12g", r.Live.Objective, itself)
				must.True(t, r.Gap > 0 && r.Certificate != nil && *r.Certificate <= 1e-6*math.Abs(r.Exact.Objective), "gap %v with certificate %v of %v", r.Gap, r.Certificate, r.Exact.Objective)
				for _, side := range []struct {
					m  *model.Linear
					to batch.ModelMeasures
				}{{live, r.Live}, {exact, r.Exact}} {
					squares, off, weight, within := 0.0, 0.0, 0.0, 0.0
					for i := 0; i < len(all); i += 10 {
						e := &all[i]
						value := side.m.Value(side.m.Score(e, make([]float64, 1))[0])
						weight += e.Weight
						off += e.Weight * math.Abs(e.Target-value)
						squares += e.Weight * (e.Target - value) * (e.Target - value)
						if low, high := side.m.Interval(value, model.MissingVariance{}); low <= e.Target && e.Target <= high {
							within += e.Weight
						}
					}
					got := side.to.NumbersReport
					must.True(t, got != nil && math.Abs(*got.MAE-off/weight) <= 1e-9**got.MAE && math.Abs(*got.RMSE-math.Sqrt(squares/weight)) <= 1e-9**got.RMSE,
						"measures %+v, predictions say MAE %v, RMSE %v", got, off/weight, math.Sqrt(squares/weight))
					fraction := within / weight
					must.True(t, fraction > 0.8 && fraction < 0.99, "%v of the targets within nine in ten", fraction)
					must.True(t, side.to.Error == nil && side.to.LogLoss == nil, "measures of classes: %+v", side.to)
				}
			})
		}
	}
}

// TestValidateRegressionClips checks that a target beyond the bounds is clipped, as in learning. A single target must
// not dominate the exact solution.
func TestValidateRegressionClips(t *testing.T) {
	_, _, exact, learner, all := validatedNumbers(t, "linear", func(*online.Config) {})
	all[2001].Target = 1e9
	s := learner.Snapshot()
	v := batch.NewEvidence(s.Model())
	for i := range all {
		if i%10 > 0 {
			must.Do(t, v.Learned(&all[i], all[i].Weight))
		}
	}
	c := batch.DefaultValidateConfig()
	c.Loss, c.Noise, c.Unit, c.Tol, c.Prior = s.Model().Loss, s.Model().Noise, s.Unit(), 1e-8, "l2"
	_, outlier := must.Get2(v.Validate(t.Context(), c))(t)
	for column := range uint32(6) {
		a, b := exact.Weight(column, 0), outlier.Weight(column, 0)
		must.True(t, math.Abs(a-b) <= 3, "weight %d: %v with a wild target, %v without", column, b, a)
	}
}

// TestValidateRegressionOutside checks that the penalty includes the weights of columns that occur in no event, in the
// learner's unit.
func TestValidateRegressionOutside(t *testing.T) {
	_, live, _, learner, all := validatedNumbers(t, "linear", func(c *online.Config) { c.Noise, c.C, c.Optimizer = "none", 0.01, "adagrad" })
	u := learner.Snapshot().Unit()
	v := batch.NewEvidence(live)
	l := must.Get(loss.Parse("linear"))(t)
	want := 0.0
	for i := range all {
		e := &all[i]
		e.Features.Index, e.Features.Value, e.Field = e.Features.Index[:5], e.Features.Value[:5], e.Field[:5]
		e.Missing = []uint16{6}
		must.Do(t, v.Learned(e, e.Weight))
		f := live.ScoreVec(live.Standardized(e, event.Vec{}), make([]float64, 1))[0]
		value, _, _ := l.At((e.Target-u.Center)/u.Scale, (f-u.Center)/u.Scale, 0)
		want += loss.Cost(l, 0.01) * e.Weight * value
	}
	for column := range uint32(6) {
		want += math.Pow(live.Weight(column, 0)/u.Scale, 2)
	}
	c := batch.DefaultValidateConfig()
	c.Loss, c.Noise, c.Unit, c.Cost, c.Prior = live.Loss, live.Noise, u, 0.01, "l2"
	r, _ := must.Get2(v.Validate(t.Context(), c))(t)
	must.True(t, math.Abs(r.Live.Objective-want) <= 1e-9*want, "live objective %.12g, want %.12g", r.Live.Objective, want)
}

// TestForecastOfRegressionIsAllMasks checks that the forecast for deleted features is the expectation over all masks. The
// effect of a missing feature must equal the effect of setting it to zero.
func TestForecastOfRegressionIsAllMasks(t *testing.T) {
	longtest.Numeric(t)
	for _, lossName := range []string{"linear", "poisson"} {
		r, live, _, _, all := validatedNumbers(t, lossName, func(*online.Config) {})
		sum := func(error func(e *event.Example, dead uint32) float64, chance func(dead uint32) float64) float64 {
			squares, weight := 0.0, 0.0
			for i := 0; i < len(all); i += 10 {
				weight += all[i].Weight
				for dead := range uint32(1 << 6) {
					if p := chance(dead); p > 0 {
						squares += p * all[i].Weight * math.Pow(error(&all[i], dead), 2)
					}
				}
			}
			return math.Sqrt(squares / weight)
		}
		off := func(e *event.Example, dead uint32) float64 {
			x := live.Standardized(e, event.Vec{})
			for j, column := range x.Index {
				if dead>>live.Scaler.Splines.Source(column)&1 == 1 { // spline columns are deleted with their number
					x.Value[j] = 0
				}
			}
			return e.Target - live.Value(live.ScoreVec(x, make([]float64, 1))[0])
		}
		for k, d := range longtest.Few(r.Deletions, 1, 3) {
			want := sum(off, func(dead uint32) float64 {
				p := 1.0
				for j := range 6 {
					if dead>>j&1 == 1 {
						p *= d
					} else {
						p *= 1 - d
					}
				}
				return p
			})
			got := *r.Live.Robustness[k]
			must.True(t, math.Abs(got-want) <= 1e-9*want, "%s, %v deleted: forecast %v, all masks say %v", lossName, d, got, want)
			groups := sum(off, func(dead uint32) float64 { // features a, c and e are in one group, the other features in another
				switch dead {
				case 0:
					return (1 - d) * (1 - d)
				case 0b010101, 0b101010:
					return d * (1 - d)
				case 0b111111:
					return d * d
				}
				return 0
			})
			// within the error of drawn masks
			got = *r.Live.GroupRobustness[k]
			must.True(t, math.Abs(got-groups) <= 0.05*groups, "%s, %v of the groups deleted: forecast %v, all masks say %v", lossName, d, got, groups)
		}
		failures := 0
		for _, f := range r.Failures {
			if f.Kind != "feature" {
				continue
			}
			failures++
			want := sum(off, func(dead uint32) float64 { return must.Either(dead == 1<<(f.Name[1]-'0'), 1.0, 0) })
			must.True(t, math.Abs(f.Live-want) <= 1e-9*want && math.Abs(f.Rise-(want-*r.Live.RMSE)) <= 1e-9*want, "%s, without %s: %+v, zeroing says %v after %v", lossName, f.Name, f, want, *r.Live.RMSE)
		}
		must.True(t, failures == 6, "%d features in %v", failures, r.Failures)
	}
}

// TestNewestOfRegression checks that the comparison on the newest events uses paired differences of the deviance.
func TestNewestOfRegression(t *testing.T) {
	r, live, exact, _, all := validatedNumbers(t, "linear", func(*online.Config) {})
	var differences, weights []float64
	for i := 0; i < len(all); i += 10 {
		e := &all[i]
		square := func(m *model.Linear) float64 { return math.Pow(e.Target-m.Score(e, make([]float64, 1))[0], 2) }
		differences, weights = append(differences, square(live)-square(exact)), append(weights, e.Weight)
	}
	differences, weights = differences[200:], weights[200:] // the newest 100 of 300 events
	gain, total := 0.0, 0.0
	for i, d := range differences {
		gain += weights[i] * d
		total += weights[i]
	}
	gain /= total
	squares := 0.0
	for i, d := range differences {
		squares += math.Pow(weights[i]*(d-gain), 2)
	}
	n := r.Newest
	must.True(t, n != nil && n.Events == 100 && math.Abs(n.Gain-gain) <= 1e-6*math.Abs(gain) && math.Abs(n.StandardError-math.Sqrt(squares*100/99)/total) <= 1e-9*n.StandardError,
		"%+v, want a gain of %v and a standard error of %v", n, gain, math.Sqrt(squares*100/99)/total)
	must.True(t, math.Abs(n.Live.Numbers.Deviance-math.Pow(n.Live.Numbers.RMSE, 2)) <= 1e-9*n.Live.Numbers.Deviance, "deviance %v of RMSE %v", n.Live.Numbers.Deviance, n.Live.Numbers.RMSE)
}

// TestValidateRegressionIsTrain checks that the exact solution equals the result of Train on the same targets,
// converted to the unit.
func TestValidateRegressionIsTrain(t *testing.T) {
	r, live, exact, learner, all := validatedNumbers(t, "linear", func(c *online.Config) { c.C, c.Optimizer = 0.01, "adagrad" })
	u := learner.Snapshot().Unit()
	var b batch.Builder
	for i := range all {
		if e := all[i]; i%10 > 0 {
			e.Features = live.Standardized(&e, event.Vec{})
			e.Target = (e.Target - u.Center) / u.Scale
			must.Do(t, b.Add(&e))
		}
	}
	train := batch.DefaultConfig()
	train.Loss, train.Noise, train.Cost, train.Tol = "linear", live.Noise, 0.01, 1e-10
	fit := must.Get(batch.Train(t.Context(), b.Data(live.Schema), train))(t)
	must.True(t, math.Abs(r.Exact.Objective-fit.Objective) <= 1e-8*fit.Objective, "exact objective %.12g, train says %.12g", r.Exact.Objective, fit.Objective)
	for column := range uint32(6) {
		got, want := exact.Weight(column, 0), u.Scale*fit.Model.Weight(column, 0)
		must.True(t, math.Abs(got-want) <= 1e-4*math.Abs(want), "weight %d: %v, train says %v", column, got, want)
	}
	got, want := exact.Intercept[0], u.Center+u.Scale*fit.Model.Intercept[0]
	must.True(t, math.Abs(got-want) <= 1e-4*math.Abs(want), "intercept %v, train says %v", got, want)
}
