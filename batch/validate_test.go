package batch_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/batch"
	"blankout/batch/internal/problems"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
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
	longtest.NotRaced(t)
	t.Parallel()
	adultSchema, adult := problems.Events(t, "testdata/adult.svm.gz")
	severalSchema, more := problems.Several(4, 800)
	tests := []struct {
		name   string
		schema *event.Schema
		all    []event.Example
		change func(*online.Config)
		loss   string
	}{
		{"adult", adultSchema, adult, func(*online.Config) {}, "logistic"},
		{"hinge", adultSchema, adult, func(c *online.Config) { c.Loss = "hinge" }, "hinge"},
		{"constant noise", adultSchema, adult, func(c *online.Config) { c.Noise = "gaussian:0.1" }, "logistic"},
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
			if math.Abs(r.Exact.Objective-fit.Objective) > 1e-8*fit.Objective {
				t.Errorf("exact objective %.12g, train says %.12g", r.Exact.Objective, fit.Objective)
			}
			if !(r.Gap > 0) || r.Certificate == nil || *r.Certificate > r.Gap {
				t.Errorf("gap %v with certificate %v", r.Gap, r.Certificate)
			}
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
			if want := 100 * float64(wrong) / float64(held); math.Abs(want-*r.Exact.Error) > 1e-9 || r.Holdout != held {
				t.Errorf("error %v %% on %d events, the model says %v %% on %d", *r.Exact.Error, r.Holdout, want, held)
			}
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

// TestGroupForecastIsSimulation compares the forecast for missing groups with the effect of deleting the groups. They
// must agree within the sampling error of the masks. The cases have two and more classes. If there are no groups, there
// must be no such forecast.
func TestGroupForecastIsSimulation(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	const every = 4
	config := batch.DefaultValidateConfig()
	var fractions []float64
	for k, d := range config.Deletions {
		if longtest.Some(k+2, 4) {
			fractions = append(fractions, d)
		}
	}
	config.Deletions = fractions
	for _, classes := range []int{2, 4} {
		schema, all := problems.Several(classes, 200)
		for i := range schema.Fields {
			schema.Fields[i].Group = ""
		}
		if r, _, _ := validated(t, schema, all, func(*online.Config) {}, config); r.Live.GroupRobustness != nil {
			t.Errorf("without groups: %v", r.Live.GroupRobustness)
		}
		schema, all = problems.Several(classes, 1400)
		for i := range schema.Fields[1:] {
			schema.Fields[1+i].Group = fmt.Sprint("g", i/every)
		}
		r, live, _ := validated(t, schema, all, func(*online.Config) {}, config)
		for k, d := range r.Deletions {
			const copies = 80
			wrong, held := 0, 0
			draw := rand.New(rand.NewPCG(3, uint64(k)))
			for i := 0; i < len(all); i += 10 {
				for range copies {
					dead := map[uint32]bool{}
					left := event.Example{Weight: 1}
					for j, column := range all[i].Features.Index {
						group := column / every
						if _, drawn := dead[group]; !drawn {
							dead[group] = draw.Float64() < d
						}
						if dead[group] {
							left.Missing = append(left.Missing, all[i].Field[j])
						} else {
							left.Field = append(left.Field, all[i].Field[j])
							eventtest.Put(&left, column, all[i].Features.Value[j])
						}
					}
					if held++; model.Predict(live.Score(&left, make([]float64, live.Outputs))) != all[i].Label {
						wrong++
					}
				}
			}
			if got, want := *r.Live.GroupRobustness[k], 100*float64(wrong)/float64(held); math.Abs(got-want) > 1.2 {
				t.Errorf("%d classes, %v of the groups dead: forecast %.2f %%, simulation says %.2f %%", classes, d, got, want)
			}
		}
	}
}

// TestForecastIsSimulation checks that the forecast equals the model's error on events with deleted features. The
// effect of a missing feature or group must equal the effect of setting it to zero. For several classes the forecast
// draws 64 masks for each of 200 events, with a standard error of 0.4 points. The forecast selects the noise level by
// the missing fraction of each mask, not by the deleted fraction. This causes a difference of 0.3 points.
func TestForecastIsSimulation(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	adultSchema, adult := problems.Events(t, "testdata/adult.svm.gz")
	severalSchema, more := problems.Several(4, 2000)
	binarySchema, binary := problems.Several(2, 4000) // 20 features, so that the forecast uses the normal approximation
	for _, tt := range []struct {
		name   string
		schema *event.Schema
		all    []event.Example
	}{{"adult", adultSchema, adult}, {"four classes", severalSchema, more}, {"two classes", binarySchema, binary}} {
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
				const copies = 120 // standard error 0.3 points
				wrong, silently := 0, 0
				draw := rand.New(rand.NewPCG(3, uint64(k)))
				var left event.Example
				for i := range held {
					for range copies {
						var dead []bool
						for range held[i].Features.Index {
							dead = append(dead, draw.Float64() < d)
						}
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
				if got := *r.Live.SilentRobustness[k]; math.Abs(got-silent) > 1.5 {
					t.Errorf("at %v, silently, the forecast is %.2f %%, simulation says %.2f %%", d, got, silent)
				}
				t.Logf("%.1f: forecast %.2f, simulated %.2f", d, *r.Live.Robustness[k], simulated)
				if math.Abs(*r.Live.Robustness[k]-simulated) > 1.5 {
					t.Errorf("at %v the forecast is %.2f %%, simulation says %.2f %%", d, *r.Live.Robustness[k], simulated)
				}
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
				if want := 100 * float64(wrong) / float64(len(held)); math.Abs(want-f.Live) > 1e-9 {
					t.Errorf("%s %s: error %v if it dies, want %v", f.Kind, f.Name, f.Live, want)
				}
			}
			if kinds["feature"] == 0 || tt.all[0].Field != nil && (kinds["group"] != 2 || kinds["field"] != 20) {
				t.Errorf("failures by kind: %v", kinds)
			}
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
		if math.Abs(*side.Robustness[0]-*side.Error) > 1e-9 {
			t.Errorf("%s: error %v, with nothing deleted %v", name, *side.Error, *side.Robustness[0])
		}
	}
	want := map[string][]int{"field a": {0, 2}, "field b": {1, 2}, "group left": {0, 2}, "group right": {1, 2}}
	for _, f := range report.Failures {
		lost, ok := want[f.Kind+" "+f.Name]
		if f.Kind == "field" && !ok {
			t.Errorf("%s dies by itself", f.Name)
		}
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
		if f.Live != 100*wrong/float64(len(all)) {
			t.Errorf("%s %s: %v, want %v", f.Kind, f.Name, f.Live, 100*wrong/float64(len(all)))
		}
	}
	if len(want) > 0 {
		t.Errorf("missing %v", want)
	}
}

// TestValidateMissing checks that events with missing fields are measured with the model's own missing policy.
func TestValidateMissing(t *testing.T) {
	for _, policy := range []model.MissingPolicy{model.MissingNone, model.MissingRescale} {
		schema, all := problems.Several(2, 3000)
		r := rand.New(rand.NewPCG(5, 5))
		weights := make([]float64, 1<<schema.Bits)
		for i := range weights {
			weights[i] = 0.1 * r.NormFloat64()
		}
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
		if math.Abs(*report.Live.LogLoss-loss/held) > 1e-9 {
			t.Errorf("%s: log-loss %v, as answered %v", policy, *report.Live.LogLoss, loss/held)
		}
		if exact.Missing != live.Missing {
			t.Errorf("%s: the exact solution has another rule, %v", policy, exact.Missing)
		}
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
		if err != nil {
			t.Fatal(err)
		}
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
	for _, value := range []string{"mean", "zero"} {
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
		if zero := slices.Max(live.Dead.Reads) == 0; zero != (value == "zero") {
			t.Errorf("%s: dead numbers read %v", value, live.Dead.Reads)
		}
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
		for _, less := range []bool{false, true} {
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
			if math.Abs(r.Exact.Objective-fit.Objective) > 1e-8*fit.Objective {
				t.Errorf("%s, a column less %v: exact objective %.12g, train says %.12g", value, less, r.Exact.Objective, fit.Objective)
			}
			if !(r.Live.Objective > r.Exact.Objective) {
				t.Errorf("%s: the live objective %v is below the least, %v", value, r.Live.Objective, r.Exact.Objective)
			}
		}
	}
}
