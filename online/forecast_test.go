package online_test

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/mixture"
	"blankout/online/rows"
	"blankout/online/synthetic"
)

// TestForecastAsMeasured checks the forecast of the error with half of the features or groups missing. The forecast
// must equal the error of the published model on new events, with declared and with silently missing features.
func TestForecastAsMeasured(t *testing.T) {
	longtest.NotRaced(t)
	s, next := synthetic.SilentStream(2)
	l := must.Get(online.New(online.DefaultConfig(), s))(t)
	learnNext(l, 8000, next)
	metrics, m := l.Report(), l.Snapshot().Model()
	forecast, grouping := metrics.Forecasts(), model.NewGrouping(s)
	again := metrics.Forecasts()
	must.True(t, again.Declared[5].Error == forecast.Declared[5].Error && again.SilentGroups[5].Error == forecast.SilentGroups[5].Error, "a second call returns another forecast")
	r := rand.New(rand.NewPCG(3, 5))
	// dies draws which columns of an event are missing, in whole groups or independently.
	dies := func(columns []uint32, fields []uint16, groups bool) []bool {
		dead, of := make([]bool, len(columns)), map[string]bool{}
		for i, field := range fields {
			name := s.Fields[field].Name
			if groups && s.Fields[field].Group != "" {
				name = s.Fields[field].Group
			}
			if _, drawn := of[name]; !drawn {
				of[name] = r.IntN(2) == 0
			}
			dead[i] = of[name]
		}
		m.Scaler.Splines.Follow(columns, dead)
		return dead
	}
	must.Require(t, grouping.Declared(), "the fields have no groups")
	const events = 10000
	fresh := must.List(events, func(int) *event.Example { return next() })
	for _, c := range []struct {
		groups, silent bool
		points         []online.ForecastPoint
	}{{false, false, forecast.Declared}, {false, true, forecast.Silent}, {true, false, forecast.DeclaredGroups}, {true, true, forecast.SilentGroups}} {
		var whole, wrong, logLoss float64
		scores := make([]float64, m.Outputs)
		measure := func(e *event.Example, scores []float64) (miss, loss float64) {
			if m.Predict(scores) != e.Label {
				miss = 100.0 / events
			}
			return miss, -math.Log(m.Probabilities(scores, make([]float64, 2))[e.Label]) / events
		}
		for _, e := range fresh {
			x := m.Standardized(e, event.Vec{})
			field := m.Scaler.FieldsOf(e, x.Index, nil)
			dead := dies(x.Index, field, c.groups)
			miss, _ := measure(e, m.Score(e, scores))
			whole += miss
			var left event.Example
			kind := must.Either(c.silent, model.LossDead, model.LossDeclared)
			model.LossesOf(m, 0).Lose(kind, e, 0, x.Index, dead, &left)
			scores = m.Score(&left, scores)
			miss, loss := measure(e, scores)
			wrong, logLoss = wrong+miss, logLoss+loss
		}
		at, zero := c.points[5], c.points[0]
		must.True(t, math.Abs(zero.Error-whole) <= 3 && math.Abs(at.Error-wrong) <= 1+2*at.Deviation && at.Deviation <= 5 && math.Abs(*at.LogLoss-logLoss) <= 0.035 && *zero.LogLoss <= logLoss-0.05,
			"groups %v, silent %v: errors %v and %v and log-losses %v and %v are forecast, of whole events and half; they are %v, %v and, of half, %v", c.groups, c.silent, zero.Error, at.Error, *zero.LogLoss, *at.LogLoss, whole, wrong, logLoss)
	}
}

// TestForecast compares the forecast with the error of the published weights after real deletion.
func TestForecast(t *testing.T) {
	t.Parallel()
	for _, classes := range []int{2, 3} {
		c := online.DefaultConfig()
		c.Noise = "dropout:0.3"
		l, r := streamed(t, c, classes), rand.New(rand.NewPCG(6, 6))
		var actual [online.ForecastPoints]float64
		const warm, n = 2000, 6000
		var m *model.Linear
		e := &event.Example{Weight: 1}
		for i := range warm + n {
			e.Label = r.IntN(classes)
			e.Features.Index, e.Features.Value = e.Features.Index[:0], e.Features.Value[:0]
			for d := range uint32(60) {
				if x := r.NormFloat64() + 0.35*float64((e.Label*7+int(d))%3-1); x > 0 {
					eventtest.Put(e, d, min(x, 1))
				}
			}
			if i >= warm && i%8 == 0 {
				if i%80 == 0 {
					m = l.model()
				}
				for point := range actual {
					d := mixture.Missing(point)
					kept := event.Example{}
					for j, column := range e.Features.Index {
						if r.Float64() >= d {
							eventtest.Put(&kept, column, e.Features.Value[j])
						}
					}
					if model.Predict(m.ScoreRescaled(&kept, 1/(1-d), make([]float64, m.Outputs))) != e.Label {
						actual[point] += 8.0 / n
					}
				}
			}
			l.Learn(e, nil)
		}
		// The standard error is about 2 percentage points for real deletion, and larger for masks.
		within := must.Either(classes > 2, 0.12, 0.06)
		for point, want := range actual {
			got := l.Report().Forecast.Declared[point].Error
			must.True(t, math.Abs(got-want) <= within, "%d classes, %v missing: forecast %v, actual %v", classes, mixture.Missing(point), got, want)
		}
	}
}

// TestForecastOfCalibrated checks the forecast for no missing fields. It must count the errors of the class that the
// calibrated probability predicts.
func TestForecastOfCalibrated(t *testing.T) {
	c := online.DefaultConfig()
	c.Loss, c.Noise, c.Calibrate, c.Threshold = "hinge", "dropout:0.3", "on", 0.8
	l, s := streamed(t, c, 2), synthetic.NewStream(3, 2)
	for range 20_000 {
		e := s.Next()
		e.Weight = 1
		l.Learn(e, nil)
	}
	m := l.Report()
	got, want := m.Forecast.Declared[0].Error, m.Window.Error()
	must.True(t, math.Abs(got-want) <= 0.02, "a forecast of %v, the error was %v", got, want)
}

// TestForecastWholeNumbers checks that the regression forecast for complete events equals the measured error of
// complete events, in the unit of the targets.
func TestForecastWholeNumbers(t *testing.T) {
	schema, draw := readingsOf(16, 0)
	l := newLearner(t, numberConfig("squared"), schema)
	squares, n := 0.0, 0.0
	for i := range 4000 {
		e := draw()
		if p := l.Learn(e, nil); i >= 1000 {
			squares += (p.Value - e.Target) * (p.Value - e.Target)
			n++
		}
	}
	declared, silent := l.Forecasts()
	got, want := declared[0], squares/n
	must.True(t, math.Abs(got-want) < 0.15*want, "the forecast is %v, measured %v", got, want)
	for name, spline := range map[string]float64{"declared": declared[5], "silent": silent[5]} {
		must.True(t, spline > 1.2*squares/n && spline < 4*squares/n, "%s: the forecast for half of the numbers is %v, of whole events %v", name, spline, squares/n)
	}
}

// fileOf is a Source of the first n events of a stream, in batches of 100.
type fileOf struct {
	s      *synthetic.Stream
	n      int
	offset int64
}

func (f *fileOf) Next(_ context.Context, b *event.Batch) error {
	if f.n == 0 {
		return io.EOF
	}
	b.Examples = b.Examples[:0]
	for ; len(b.Examples) < 100 && f.n > 0; f.n-- {
		e := *f.s.Next()
		e.Features, e.Field, e.Missing, e.Offset = e.Features.Clone(), append([]uint16{}, e.Field...), append([]uint16{}, e.Missing...), f.offset
		b.Examples = append(b.Examples, e)
		f.offset++
	}
	b.Topic, b.Next = "t", f.offset
	return nil
}

// TestEvaluate checks that Evaluate agrees with the formula of the objective and with the predictions of the published
// model. One thread and three threads must give the same result bit by bit.
func TestEvaluate(t *testing.T) {
	const n = 650
	for _, classes := range []int{2, 3} {
		for _, noise := range []string{"dropout:0.3", "gaussian:0.2", "dropout:0.1+group:0.3", "group:sensor=0.5,words=0.2"} {
			c := online.DefaultConfig()
			c.Noise, c.C, c.Doubt = noise, 2, "log"
			l := streamed(t, c, classes)
			stream := func() *synthetic.Stream {
				s := synthetic.NewStream(1, classes)
				s.Missing = true
				return s
			}
			s := stream()
			for range n {
				l.learn(s.Next())
			}
			wantJ, wantError := objectiveByHand(l, c, stream(), n)
			var one float64
			for _, threads := range []int{1, 3} {
				objective, wrong, _, err := l.Evaluate(t.Context(), &fileOf{s: stream(), n: n}, threads)
				must.True(t, err == nil && math.Abs(objective-wantJ) <= 1e-9*wantJ && math.Abs(wrong-wantError) <= 1e-12,
					"%d classes, %s, %d threads: J = %v, error %v, %v; by hand %v, %v", classes, noise, threads, objective, wrong, err, wantJ, wantError)
				if threads == 1 {
					one = objective
				} else if objective != one {
					t.Errorf("J = %v on one thread, %v on %d", one, objective, threads)
				}
			}
		}
	}
}

// objectiveByHand returns |w|^2 + c sum loss without noise, for the weights w of the published model. It also returns
// the error of that model's predictions.
func objectiveByHand(l *learner, c online.Config, s *synthetic.Stream, n int) (objective, wrong float64) {
	m := l.model()
	sumsq := make([]float64, m.Outputs)
	for slot := range m.Rows.Len() {
		column, _ := m.Rows.Column(slot)
		for k := range m.Outputs {
			sumsq[k] += m.Weight(column, k) * m.Weight(column, k)
		}
	}
	objective = must.Sum(sumsq)
	noise, lossOf := must2(loss.ParseNoise(m.Noise)), must2(loss.Parse(c.Loss))
	c0, _, c2 := noise.Coefficients()
	groupNoise, grouped := noise.(loss.GroupDropout)
	weight, scores := 0.0, make([]float64, m.Outputs)
	for range n {
		e := s.Next()
		x := m.Standardized(e, event.Vec{})
		for k, f := range m.ScoreRescaled(e, 1, scores) {
			v := c0 * sumsq[k]
			var parts []float64
			for i, d := range x.Index {
				parts = append(parts, x.Value[i]*m.Weight(d, k))
				if !grouped {
					v += c2 * parts[i] * parts[i]
				}
			}
			if grouped {
				v = synthetic.SlowVariance(groupNoise, synthetic.SlowGroups(e, x.Index), x.Index, parts)
			}
			loss, _, _ := lossOf.At(rows.Y(e.Label, k, m.Outputs), f, v)
			objective += c.C * e.Weight * loss
		}
		weight += e.Weight
		if model.Predict(m.Score(e, scores)) != e.Label {
			wrong += e.Weight
		}
	}
	return objective, wrong / weight
}

func must2[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}
