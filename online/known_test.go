package online_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

// gaugesLearner returns a Learner for columns without fields. If known is true, an absent column counts as missing,
// otherwise as 0.
func gaugesLearner(t *testing.T, known bool, change func(*online.Config)) *online.Learner {
	t.Helper()
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	schema.NumericIndices, schema.Absent = true, map[bool]string{true: event.AbsentMissing}[known]
	return newLearner(t, with(change), schema)
}

// TestKnown checks a stream in which absent columns are missing. They must not be imputed, and a restart must not
// change anything.
func TestKnown(t *testing.T) {
	longtest.NotRaced(t)
	errors := map[bool]float64{}
	for _, known := range []bool{false, true} {
		l, s := gaugesLearner(t, known, nil), &synthetic.Gauges{R: rand.New(rand.NewPCG(3, 4)), Missing: 0}
		for range 3000 {
			l.Learn(s.Next(), nil)
		}
		other := restart(t, online.DefaultConfig(), l)
		s.Missing = 0.5
		wrong, last := 0, l.Snapshot().Model()
		for range 3000 {
			e := s.Next()
			if model.Predict(last.Score(e, make([]float64, 1))) != e.Label {
				wrong++
			}
			x := last.Standardized(e, event.Vec{})
			for x.Len() > 0 && x.Index[x.Len()-1] >= model.FirstBasisColumn {
				x.Index = x.Index[:x.Len()-1]
			}
			must.Require(t, known == (x.Len() == e.Features.Len()) || e.Features.Len() >= 12, "known %v: of %d readings %d features", known, e.Features.Len(), x.Len())
			a, b := slices.Clone(l.Learn(e, nil).Scores), other.Learn(e, nil).Scores
			must.Require(t, slices.Equal(a, b), "known %v: %v, after a restart %v", known, a, b)
		}
		errors[known] = float64(wrong) / 3000
		sameState(t, "after a restart", blocksOf(t, l), blocksOf(t, other))
		m := last.Missing
		must.True(t, known == (len(m.Columns) == 12) && known == m.ColumnsCanBeMissing, "known %v: %+v", known, m)
	}
	// an absent reading is not 0
	must.True(t, errors[true] < 0.18 && errors[false] > errors[true]+0.1, "errors with half of the readings gone: %v", errors)
}

// pictures draws an event of a table with forty correlated columns. Each column is 0 in at least a third of the events.
func pictures(r *rand.Rand) *event.Example {
	e := &event.Example{Weight: 1, Label: r.IntN(2)}
	of := r.NormFloat64() + 1.5*float64(e.Label)
	for c := range uint32(40) {
		if x := of*math.Cos(float64(c)/6) + 0.5*r.NormFloat64() - float64(c)/40; x > 0 {
			eventtest.Put(e, c, x)
		}
	}
	return e
}

// TestKnownTable checks that the most frequent columns of a table are imputed if they are declared missing, up to the
// configured number. A restart must not change anything. If the configured number decreases, imputation must restart
// from an empty estimate.
func TestKnownTable(t *testing.T) {
	longtest.NotRaced(t)
	l := gaugesLearner(t, true, func(c *online.Config) { c.CovarianceMaxFields = 24 })
	config := l.Config()
	r, held := rand.New(rand.NewPCG(7, 4)), map[uint32]int{}
	var other *online.Learner
	for i := range 3000 {
		if i == 650 { // before the first columns are chosen
			other = restart(t, config, l)
		}
		e := pictures(r)
		for _, column := range e.Features.Index {
			if i < 1000 {
				held[column]++
			}
		}
		a := slices.Clone(l.Learn(e, nil).Scores)
		must.Require(t, other == nil || slices.Equal(a, other.Learn(e, nil).Scores), "event %d: a restart has changed the answer", i)
	}
	m := l.Snapshot().Model()
	zeros, dense := m.Missing.Zeros, m.Scaler.Dense
	must.Require(t, len(zeros)+len(dense) == 24 && len(zeros) != 0 && slices.Equal(m.Covariance.Columns, slices.Sorted(slices.Values(slices.Concat(zeros, dense)))),
		"zeros %v, dense %v, filled in %v", zeros, dense, m.Covariance.Columns)
	for column, n := range held {
		for _, zero := range zeros {
			must.True(t, m.Missing.ReadsZero(column) || slices.Contains(dense, column) || n <= held[zero], "column %d of %d events is not filled in, %d of %d is", column, n, zero, held[zero])
		}
	}
	sameState(t, "after a restart", blocksOf(t, l), blocksOf(t, other))
	config.CovarianceMaxFields = 10
	fewer := restart(t, config, l)
	for range 1000 {
		fewer.Learn(pictures(r), nil)
	}
	c := fewer.Snapshot().Model().Covariance
	must.True(t, len(c.Columns) == 10, "%d columns are filled in", len(c.Columns))
}
