package online_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

// TestImputingPays checks that imputing correlated numbers has a lower loss than rescaling. The loss of "auto" must be
// close to the loss of the best policy.
func TestImputingPays(t *testing.T) {
	lost := map[string]float64{}
	for _, policy := range []string{"auto", "impute", "rescale", "none"} {
		c := plain()
		c.MissingPolicy = policy
		s := sensors(10)
		l := newLearner(t, c, s.schema)
		for n := range 6000 {
			e := s.next()
			p := l.Learn(e, nil)
			if n >= 1000 && len(e.Features.Index) < 5 {
				lost[policy] += p.Decision.LogLoss(p.Scores, e.Label)
			}
		}
	}
	must.True(t, lost["impute"] < 0.99*lost["rescale"] && lost["impute"] < 0.95*lost["none"] && lost["auto"] < 1.01*lost["impute"], "events that lack numbers lose %v", lost)
}

// numberConfig returns settings for regression.
func numberConfig(name string) online.Config {
	c := plain()
	c.Loss = name
	return c
}

// TestImputedRegression checks that for regression the Snapshot predicts the same as Predict. The error on complete
// events must not depend on how many events have missing numbers.
func TestImputedRegression(t *testing.T) {
	for _, name := range []string{"squared", "absolute", "poisson", "silent"} {
		c, s := numberConfig(name), sensors(11)
		if name == "silent" {
			c = numberConfig("squared")
			c.SilentMissing = 0.4
		}
		s.schema.Target, s.schema.Classes = loss.LabelsOf(c.Loss), nil
		l := newLearner(t, c, s.schema)
		learnNext(l, 2000, s.next)
		m := l.Snapshot().Model()
		sum, n, squares := 0.0, 0.0, 0.0
		for range 500 {
			e := s.next()
			got, want := l.Predict(e), m.Score(e, make([]float64, 1))[0]
			must.Require(t, math.Abs(got.Scores[0]-want) <= 1e-9*max(1, math.Abs(want)), "%s: Predict says %v, the snapshot %v", name, got.Scores[0], want)
			by := model.ScoreVariance(m, e)
			low, high := m.Interval(m.Value(want), by)
			width := high - low
			must.Require(t, width > 0 && math.Abs(got.Low-low)+math.Abs(got.High-high) <= 1e-9*width, "%s: Predict says %v to %v, the snapshot %v to %v", name, got.Low, got.High, low, high)
			if by.Range == 0 {
				d := e.Target - m.Value(want)
				sum, n, squares = sum+d, n+1, squares+d*d
			} else if !(by.Variance >= 0) {
				t.Fatalf("%s: the variance %v", name, by.Variance)
			}
		}
		if name != "squared" {
			continue
		}
		deviation, of := m.Residual.Deviation, math.Sqrt(squares/n)
		must.True(t, deviation < 1.15*of, "the residual's deviation is %v, of whole events %v", deviation, of)
	}
}

// TestFewerImputed checks that the limit on imputed columns may change between runs.
func TestFewerImputed(t *testing.T) {
	s := sensors(12)
	l := newLearner(t, plain(), s.schema)
	learnNext(l, 600, s.next)
	for most, want := range map[int]int{0: 0, 3: 0, 6: 6} {
		c := plain()
		c.CovarianceMaxFields = most
		again := restart(t, c, l)
		e := &event.Example{Weight: 1, Missing: []uint16{1}, Field: []uint16{2}, Features: event.Vec{Index: []uint32{2}, Value: []float64{21}}}
		m := again.Snapshot().Model()
		agree(t, again, e)
		columns := 0
		if m.Covariance != nil {
			columns = len(m.Covariance.Columns)
		}
		must.True(t, columns == want && (most != 0 || !m.Missing.Imputes()), "at most %d numbers: there is a covariance of %d, and policies %v", most, columns, m.Missing.Policies)
		learnNext(again, 300, s.next)
		if c := again.Snapshot().Model().Covariance; most > 0 && (c == nil || len(c.Columns) != most) {
			t.Errorf("at most %d numbers: later there are others", most)
		}
	}
}

// TestImputedClasses checks several classes, which share an output while they have few events. The Snapshot must
// predict the same as Predict.
func TestImputedClasses(t *testing.T) {
	for _, missing := range []float64{0, 0.4} {
		c := plain()
		c.SilentMissing = missing
		schema, draw := readingsOf(14, 30)
		names := schema.Classes
		schema.Classes, schema.MaxClasses = nil, 12
		l := newLearner(t, c, schema)
		online.TakeMoreClasses(schema)
		r, filled, shared := rand.New(rand.NewPCG(15, 15)), 0, false
		for n := range 1500 {
			e := draw()
			if e.Label > n/40 {
				e.Label %= n/40 + 1
			}
			e = without(e, r)
			if e.Label >= len(schema.Classes) {
				schema.Classes = names[:e.Label+1]
			}
			if n%20 == 19 {
				m := l.Snapshot().Model()
				agree(t, l, e)
				if a := m.Handling(e); a.Roles != nil && a.Weights[2] > 0 {
					filled++
				}
				shared = shared || m.Layout.Outputs != nil
			}
			l.Learn(e, nil)
		}
		must.True(t, filled >= 20 && shared, "%d events have numbers imputed, classes share an output: %v", filled, shared)
	}
}

// without returns a copy of an event. In half of the calls some numbers of the copy are null.
func without(e *event.Example, r *rand.Rand) *event.Example {
	fraction := 0.0
	if r.IntN(2) == 0 {
		fraction = r.Float64()
	}
	left := &event.Example{Label: e.Label, Target: e.Target, Weight: e.Weight}
	for i, id := range e.Field {
		if r.Float64() < fraction {
			left.Missing = append(left.Missing, id)
			continue
		}
		eventtest.Put(left, e.Features.Index[i], e.Features.Value[i], id)
	}
	return left
}

// bent draws events of 70 numbers, too many for cosines, that follow two hidden ones; half of them are null. The label
// depends on how far one hidden number is from 0, so that only splines can use the numbers.
func bent(seed uint64) stream {
	s := event.NewSchema(128, []string{"no", "yes"}, 2)
	ids := must.List(70, func(i int) uint16 { return s.AddField(event.Field{Name: fmt.Sprint("x", i), Kind: event.Numeric}) })
	r := rand.New(rand.NewPCG(seed, 6))
	return stream{s, func() *event.Example {
		e, hidden := &event.Example{Weight: 1}, [2]float64{r.NormFloat64(), r.NormFloat64()}
		for i, id := range ids {
			if r.IntN(2) == 0 {
				e.Missing = append(e.Missing, id)
				continue
			}
			eventtest.Put(e, uint32(i+1), float64(i)+hidden[i%2]+0.3*r.NormFloat64(), id)
		}
		e.Label = must.Either(math.Abs(hidden[0])+0.3*r.NormFloat64() > 0.7, 1, 0)
		return e
	}}
}

// TestFillingPays checks that the policy fill, whose splines see the estimate of a missing number, has a lower loss than
// imputation where that matters, and that "auto" finds this.
func TestFillingPays(t *testing.T) {
	lost := map[string]float64{}
	for _, policy := range []string{"auto", "impute", "fill"} {
		c := online.DefaultConfig()
		c.MissingPolicy = policy
		s := bent(10)
		l := newLearner(t, c, s.schema)
		for n := range 4000 {
			e := s.next()
			if p := l.Learn(e, nil); n >= 1000 && len(e.Missing) > 0 {
				lost[policy] += p.Decision.LogLoss(p.Scores, e.Label)
			}
		}
	}
	must.True(t, lost["fill"] < 0.95*lost["impute"] && lost["auto"] < 0.97*lost["impute"], "events that lack numbers lose %v", lost)
}

// TestFilled compares the policy fill with the prediction of a complete event whose missing numbers are their
// expectations given the others.
func TestFilled(t *testing.T) {
	for name, s := range map[string]stream{"bent": bent(11), "sensors": sensors(11)} {
		c := online.DefaultConfig()
		c.Doubt = "off"
		l := newLearner(t, c, s.schema)
		learnNext(l, 3000, s.next)
		m, compared := l.Snapshot().Model(), 0
		m = m.WithMissing(m.Missing.Forced(model.MissingFill))
		for range 300 {
			e := s.next()
			roles := m.Handling(e).Roles
			if roles == nil {
				continue
			}
			compared++
			x := m.Standardized(e, event.Vec{})
			m.MarkOutliers(x, roles)
			values := make([]float64, len(roles))
			for place, column := range m.Covariance.Columns {
				if at, ok := slices.BinarySearch(x.Index, column); ok {
					values[place] = x.Value[at]
				}
			}
			m.Covariance.Imputation(roles).Expect(values)
			complete := &event.Example{Weight: 1, Declared: true}
			for place, column := range m.Covariance.Columns {
				field := m.Covariance.Fields[place]
				if at := slices.Index(e.Features.Index, column); at >= 0 {
					eventtest.Put(complete, column, e.Features.Value[at], field)
				} else if roles[place] == model.Imputed {
					eventtest.Put(complete, column, m.Scaler.Standardization(m.Stats(m.Rows.Row(column))).Raw(values[place]), field)
				}
			}
			got, want := score(m, e), score(m, complete)
			for k := range got {
				must.Require(t, math.Abs(got[k]-want[k]) <= 1e-9*max(1, math.Abs(want[k])),
					"%s: %v is predicted as %v, the complete event %v as %v", name, e.Features, got, complete.Features, want)
			}
		}
		must.True(t, compared >= 50, "%s: %d events compared", name, compared)
	}
}

// TestLevelsByMissing checks that levels with high noise get most mixture weight for events with many missing fields.
// The learner must find this from masks or from events with missing fields. The error must be lower than with one
// level, and the forecast must match the error.
func TestLevelsByMissing(t *testing.T) {
	longtest.NotRaced(t)
	for _, learned := range []float64{0, 0.5} {
		c := online.DefaultConfig()
		c.MissingPolicy = "none"
		l := must.Get(online.New(c, synthetic.OneStrongSchema()))(t)
		for k, e := range synthetic.OneStrong(must.Either(longtest.Asked(), 12_000, 8000), 0, 1) {
			if learned > 0 && k%3 == 0 {
				e = synthetic.OneStrong(1, learned, uint64(k))[0]
			}
			l.Learn(e, nil)
		}
		m := l.Snapshot().Model()
		var wrong [2]float64
		test := synthetic.OneStrong(must.Either(longtest.Asked(), 8000, 5000), 0.6, 2)
		for _, e := range test {
			scores := m.Score(e, make([]float64, 1))
			live := scoresOf(l, e)
			must.Require(t, math.Abs(live[0]-scores[0]) <= 1e-12, "live %v, published %v", live, scores)
			for i, of := range []*model.Linear{m.Alone(), m} {
				if of.Predict(of.Score(e, scores)) != e.Label {
					wrong[i] += 100 / float64(len(test))
				}
			}
		}
		metrics := l.Report()
		must.Require(t, len(m.Levels) != 0 && m.Missing.Levels[3] != 0, "learned with %v: shares are answered by %v of %v", learned, m.Missing.Levels, metrics.LevelsByMissing)
		must.True(t, metrics.LevelsByMissing[3] == m.Levels[m.Missing.Levels[3]-1].Noise, "%v, but the model has %+v", metrics.LevelsByMissing, m.Levels)
		got := 100 * metrics.Forecast.Declared[6].Error
		must.True(t, learned != 0 || math.Abs(got-wrong[1]) <= 3, "learned with %v null: forecast %.2f %%, %.2f are wrong", learned, got, wrong[1])
		// with missing fields in the stream, all noise levels learn from such events
		must.True(t, (learned != 0 || wrong[1] < wrong[0]-4) && wrong[1] < wrong[0]+0.2,
			"learned with %v null: %.2f %% wrong by the weights of whole events, %.2f by those of the share", learned, wrong[0], wrong[1])
	}
}
