package batch_test

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
)

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

// oneBatch is a Source that returns all events as one batch.
type oneBatch []event.Example

func (o *oneBatch) Next(_ context.Context, b *event.Batch) error {
	if len(*o) == 0 {
		return io.EOF
	}
	*b = event.Batch{Topic: "x", Examples: *o}
	*o = nil
	return nil
}

// TestValidateRegression checks that the live objective equals the learner's own objective on the same events. The
// exact objective must be lower than the live objective, up to the certificate. The measures of both models must agree
// with their predictions for held-out events.
func TestValidateRegression(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
	for i, lossName := range []string{"linear", "absolute", "quantile:0.9", "huber:0.7", "poisson"} {
		for j, intercept := range []string{"free", "penalized", "none"} {
			if !longtest.Some(i+j, 3) {
				continue
			}
			t.Run(lossName+" "+intercept, func(t *testing.T) {
				r, live, exact, learner, all := validatedNumbers(t, lossName, func(c *online.Config) { c.Intercept, c.C = intercept, 0.01 })
				var learned []event.Example
				for i := range all {
					if i%10 > 0 {
						learned = append(learned, all[i])
					}
				}
				source := oneBatch(learned)
				itself, _, _, err := learner.Evaluate(t.Context(), &source, 1)
				if err != nil {
					t.Fatal(err)
				}
				if off := math.Abs(r.Live.Objective - itself); !(off <= 1e-9*math.Abs(itself)) {
					t.Errorf("live objective %.12g, the learner says %.12g", r.Live.Objective, itself)
				}
				if !(r.Gap > 0) || r.Certificate == nil || !(*r.Certificate <= 1e-6*math.Abs(r.Exact.Objective)) {
					t.Errorf("gap %v with certificate %v of %v", r.Gap, r.Certificate, r.Exact.Objective)
				}
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
					if got == nil || math.Abs(*got.MAE-off/weight) > 1e-9**got.MAE || math.Abs(*got.RMSE-math.Sqrt(squares/weight)) > 1e-9**got.RMSE {
						t.Errorf("measures %+v, predictions say MAE %v, RMSE %v", got, off/weight, math.Sqrt(squares/weight))
					}
					if fraction := within / weight; !(fraction > 0.8 && fraction < 0.99) {
						t.Errorf("%v of the targets within nine in ten", fraction)
					}
					if side.to.Error != nil || side.to.LogLoss != nil {
						t.Errorf("measures of classes: %+v", side.to)
					}
				}
			})
		}
	}
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
	if math.Abs(r.Exact.Objective-fit.Objective) > 1e-8*fit.Objective {
		t.Errorf("exact objective %.12g, train says %.12g", r.Exact.Objective, fit.Objective)
	}
	for column := range uint32(6) {
		if got, want := exact.Weight(column, 0), u.Scale*fit.Model.Weight(column, 0); math.Abs(got-want) > 1e-4*math.Abs(want) {
			t.Errorf("weight %d: %v, train says %v", column, got, want)
		}
	}
	if got, want := exact.Intercept[0], u.Center+u.Scale*fit.Model.Intercept[0]; math.Abs(got-want) > 1e-4*math.Abs(want) {
		t.Errorf("intercept %v, train says %v", got, want)
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
		if a, b := exact.Weight(column, 0), outlier.Weight(column, 0); math.Abs(a-b) > 3 {
			t.Errorf("weight %d: %v with a wild target, %v without", column, b, a)
		}
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
	if math.Abs(r.Live.Objective-want) > 1e-9*want {
		t.Errorf("live objective %.12g, want %.12g", r.Live.Objective, want)
	}
}

// TestForecastOfRegressionIsAllMasks checks that the forecast for deleted features is the expectation over all masks. The
// effect of a missing feature must equal the effect of setting it to zero.
func TestForecastOfRegressionIsAllMasks(t *testing.T) {
	longtest.NotRaced(t)
	t.Parallel()
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
		for k, d := range r.Deletions {
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
			if got := *r.Live.Robustness[k]; math.Abs(got-want) > 1e-9*want {
				t.Errorf("%s, %v deleted: forecast %v, all masks say %v", lossName, d, got, want)
			}
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
			if got := *r.Live.GroupRobustness[k]; math.Abs(got-groups) > 0.05*groups { // within the error of drawn masks
				t.Errorf("%s, %v of the groups deleted: forecast %v, all masks say %v", lossName, d, got, groups)
			}
		}
		failures := 0
		for _, f := range r.Failures {
			if f.Kind != "feature" {
				continue
			}
			failures++
			want := sum(off, func(dead uint32) float64 {
				if dead == 1<<(f.Name[1]-'0') {
					return 1
				}
				return 0
			})
			if math.Abs(f.Live-want) > 1e-9*want || math.Abs(f.Rise-(want-*r.Live.RMSE)) > 1e-9*want {
				t.Errorf("%s, without %s: %+v, zeroing says %v after %v", lossName, f.Name, f, want, *r.Live.RMSE)
			}
		}
		if failures != 6 {
			t.Errorf("%d features in %v", failures, r.Failures)
		}
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
	if n == nil || n.Events != 100 || math.Abs(n.Gain-gain) > 1e-6*math.Abs(gain) || math.Abs(n.StandardError-math.Sqrt(squares*100/99)/total) > 1e-9*n.StandardError {
		t.Errorf("%+v, want a gain of %v and a standard error of %v", n, gain, math.Sqrt(squares*100/99)/total)
	}
	if math.Abs(n.Live.Numbers.Deviance-math.Pow(n.Live.Numbers.RMSE, 2)) > 1e-9*n.Live.Numbers.Deviance {
		t.Errorf("deviance %v of RMSE %v", n.Live.Numbers.Deviance, n.Live.Numbers.RMSE)
	}
}
