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
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/encode"
	"blankout/online/health"
	"blankout/online/optimizers"
	"blankout/online/synthetic"
)

// absences is a stream of events with numeric fields, as from JSON. The first field is always present. The second field
// is omitted in two of five events, more often in class 0. The third field is null in two of five events. The fourth
// field is omitted in one of twenty events.
type absences struct {
	schema *event.Schema
	r      *rand.Rand
	n      int
}

func newAbsences(seed uint64) *absences {
	s := event.NewSchema(8, []string{"no", "yes"}, 2)
	for i := range 4 {
		s.Fields = append(s.Fields, event.Field{Name: fmt.Sprint("n", i), Kind: event.Numeric})
	}
	return &absences{schema: s, r: rand.New(rand.NewPCG(seed, 1))}
}

func (a *absences) next() *event.Example {
	e := &event.Example{Label: a.r.IntN(2), Weight: 1}
	a.n++
	add := func(field uint16) { eventtest.Put(e, uint32(10*field), 300+a.r.NormFloat64(), field) }
	add(1)
	if a.r.Float64() < 0.2+0.8*float64(e.Label) {
		add(2)
	}
	if a.n%5 < 2 {
		e.Missing = append(e.Missing, 3)
	} else {
		add(3)
	}
	if a.n%20 != 0 {
		add(4)
	}
	return e
}

// TestPresence checks that a number that is often omitted gets a presence column, and that the column improves
// predictions. A number that is null or rarely omitted must not get a presence column.
func TestPresence(t *testing.T) {
	longtest.NotRaced(t)
	errors := map[string]float64{}
	for _, presence := range []string{"auto", "none"} {
		a := newAbsences(1)
		c := asIs(online.DefaultConfig())
		c.Presence, c.Optimizer = presence, "adagrad" // the second-order expert has its own splines
		l := must.Get(online.New(c, a.schema))(t)
		learnNext(l, 6000, a.next)
		splines := l.Snapshot().Model().Scaler.Splines
		must.Require(t, presence != "none" || splines == nil, "none: %+v", splines)
		must.Require(t, presence != "auto" || splines != nil && slices.Equal(splines.Columns, []uint32{20}) && slices.Equal(splines.Knots[0], model.Present()), "auto: %+v, want one of column 20", splines)
		errors[presence] = l.Report().Window.Error()
		// The published model must also have the presence column, and explanations must name it.
		m := l.Snapshot().Model()
		a2 := newAbsences(2)
		for range 50 {
			e := a2.next()
			got := l.Snapshot().Model().Score(e, make([]float64, 1))
			want := alone(l.Learn(e, nil)).Scores
			must.Require(t, math.Abs(got[0]-want[0]) <= 1e-9*(1+math.Abs(want[0])), "%s: the model scores %v, the Learner %v", presence, got, want)
		}
		if presence == "auto" {
			must.Equal(t, m.Namer()(model.FirstBasisColumn), m.Namer()(20)+"@present", "it is named")
		}
	}
	// The smallest possible error is .1: the field is present with probability .2 in one class and 1 in the other.
	must.True(t, errors["auto"] <= 0.13 && errors["none"] >= 0.3, "errors %v", errors)
}

// TestPresenceOfManyRows checks that a learner with many rows after the first events adds no presence columns, before
// and after a restart. Rows that are added later must not change that.
func TestPresenceOfManyRows(t *testing.T) {
	longtest.NotRaced(t)
	for _, c := range []struct {
		words int // new categories per event
		found bool
	}{{4, true}, {5, false}} {
		for _, at := range []int{500, 1000, 1001, 1200} {
			a := newAbsences(5)
			a.schema = event.NewSchema(32_000, []string{"no", "yes"}, 2)
			for i := range 4 {
				a.schema.Fields = append(a.schema.Fields, event.Field{Name: fmt.Sprint("n", i), Kind: event.Numeric})
			}
			a.schema.Fields = append(a.schema.Fields, event.Field{Name: "text", Kind: event.Words})
			config := online.DefaultConfig()
			config.Optimizer = "adagrad"
			l := must.Get(online.New(config, a.schema))(t)
			for n := 1; n <= 1300; n++ {
				e := a.next()
				for word := range c.words {
					eventtest.Put(e, uint32(100+n*c.words+word), 1, 5)
				}
				if l.Learn(e, nil); n == at {
					l = restart(t, config, l)
				}
			}
			rows := l.Report().Rows
			must.Require(t, rows >= 4*1300, "%d rows", rows)
			found := l.Snapshot().Model().Scaler.Splines != nil
			must.True(t, found == c.found, "%d words an event, saved at %d: presence %v", c.words, at, found)
		}
	}
}

// TestPresenceInEveryOptimizer tests every optimizer with presence columns. The snapshot must give the same scores as
// Learn, and all numbers must be finite. A learner that is restored before or after presence columns are added must
// continue bit by bit.
func TestPresenceInEveryOptimizer(t *testing.T) {
	longtest.Numeric(t)
	for i, rule := range optimizers.Table {
		for j, noise := range []string{"auto", "none", "dropout:0.4", "dropout:0.2+group:0.4"} {
			for k, classes := range []int{2, 3} {
				c := online.DefaultConfig()
				c.Optimizer, c.Noise = rule.Name, noise
				if c.Check() != nil || (i+j+k)%2 > 0 || !longtest.Some(i/2+j/2, 2) { // every two values are combined
					continue
				}
				t.Run(fmt.Sprint(rule.Name, "/", noise, "/", classes), func(t *testing.T) { restoredWithPresence(t, c, classes) })
			}
		}
	}
}

func restoredWithPresence(t *testing.T, c online.Config, classes int) {
	l, s := newTwins(t, c, synthetic.StreamSchema(classes)), synthetic.NewStream(7, classes)
	s.Missing, s.Omits = true, true
	cuts := []int{400, encode.KnotEvents, encode.KnotEvents + 60}
	for i := range encode.KnotEvents + 120 {
		e, want := s.Next(), []float64(nil)
		if slices.Contains(cuts, i) {
			l.restart()
			if i != encode.KnotEvents { // new presence columns have no weight
				want = score(l.Snapshot().Model(), e)
			}
		}
		got := alone(l.Learn(e, nil)).Scores
		must.True(t, want == nil || near(got, want, 1e-9), "event %d: Learn scored %v, the snapshot scores %v", i, got, want)
	}
	must.Require(t, l.Snapshot().Model().Scaler.Splines != nil, "no presence was found")
	l.same(t, "presence")
	finite(t, l.Learner)
}

// lacking learns n events of numeric fields, and returns the Learner with its progressive error and log-loss. draw returns
// the numbers of an event by field, NaN for null, and whether each is left out; and the class.
func lacking(t *testing.T, n, fields int, draw func(r *rand.Rand, put func(field int, x float64)) (label int)) (l *online.Learner, wrong, loss float64) {
	s := event.NewSchema(64, []string{"a", "b", "c"}, 3)
	for i := range fields {
		s.Fields = append(s.Fields, event.Field{Name: fmt.Sprint("n", i+1), Kind: event.Numeric, Column: uint32(i + 1)})
	}
	l = must.Get(online.New(online.DefaultConfig(), s))(t)
	r := rand.New(rand.NewPCG(7, 8))
	for range n {
		e := &event.Example{Weight: 1}
		numbers := map[int]float64{}
		e.Label = draw(r, func(field int, x float64) { numbers[field] = x })
		for field := range fields {
			switch x, some := numbers[field+1]; {
			case some && x == x:
				eventtest.Put(e, uint32(field+1), x, uint16(field+1))
			case some:
				e.Missing = append(e.Missing, uint16(field+1))
			}
		}
		p := l.Predict(e)
		j := p.Decision.Judge(p.Scores, e.Label)
		loss += j.LogLoss / float64(n)
		if j.Class != e.Label {
			wrong += 1 / float64(n)
		}
		l.Learn(e, nil)
	}
	return l, wrong, loss
}

// present reports whether a column has a presence column.
func present(l *online.Learner, column uint32) bool {
	c := l.Snapshot().Model().Scaler.Splines
	return c != nil && c.Of(column) >= 0 && slices.Equal(c.Knots[c.Of(column)], model.Present())
}

// TestLacks checks what null, absent and placeholders mean: null at random is a loss at any fraction, null that tells the
// class is a value, a field that counts is 0 where it is left out, and a placeholder is null. The bounds are near the
// least possible loss.
func TestLacks(t *testing.T) {
	longtest.NotRaced(t)
	null := math.NaN()
	for i, fraction := range longtest.Few([]float64{0.7, 0.45}, 0, 2) {
		_, _, loss := lacking(t, 8000, 2, func(r *rand.Rand, put func(int, float64)) int {
			x, z := r.NormFloat64(), r.NormFloat64()
			if put(1, x); r.Float64() < fraction {
				put(2, null)
			} else {
				put(2, z)
			}
			return must.Either(x+z > 0, 1, 0)
		})
		must.True(t, loss <= []float64{0.42, 0.31}[i], "null in %v of the events: %.4f nats", fraction, loss)
	}
	l, wrong, _ := lacking(t, 4000, 2, func(r *rand.Rand, put func(int, float64)) int {
		label := r.IntN(3)
		if put(1, float64(label)+r.NormFloat64()); label == 2 {
			put(2, 3+r.NormFloat64())
		} else {
			put(2, null)
		}
		return label
	})
	m := l.Snapshot().Model().Missing
	must.True(t, wrong <= 0.29 && slices.Equal(m.NullIsValue, []uint16{2}), "null tells the class: error %.4f, %+v", wrong, m)
	_, wrong, _ = lacking(t, 2000, 6, func(r *rand.Rand, put func(int, float64)) int {
		label := r.IntN(2)
		for i := 1; i <= 3; i++ {
			put(i+3*label, 1)
		}
		return label
	})
	must.True(t, wrong <= 0.01, "fields that are always 1: error %.4f", wrong)
	_, wrong, _ = lacking(t, 4000, 2, func(r *rand.Rand, put func(int, float64)) int { // a rating is no count
		x, stars := r.NormFloat64(), float64(1+r.IntN(5))
		if put(1, x); r.Float64() < 0.4 {
			put(2, stars)
			x += 2 * (stars - 3)
		}
		return must.Either(r.Float64() < 1/(1+math.Exp(-x)), 1, 0)
	})
	must.True(t, wrong <= 0.27, "a rating that most events leave out: error %.4f", wrong)
	l, wrong, _ = lacking(t, 8000, 2, func(r *rand.Rand, put func(int, float64)) int {
		label := r.IntN(2)
		if put(1, 0.5*float64(label)+r.NormFloat64()); r.Float64() < []float64{0.05, 0.35}[label] {
			put(2, null)
		} else {
			put(2, float64(label)+r.NormFloat64())
		}
		return label
	})
	must.True(t, wrong <= 0.275 && present(l, 2), "null in a fifth of the events tells the class: error %.4f", wrong)
	for _, value := range longtest.Few([]float64{-999, 9999, math.MaxInt32}, 2, 3) {
		l, wrong, loss := lacking(t, 3000, 2, func(r *rand.Rand, put func(int, float64)) int {
			x := r.NormFloat64()
			if put(2, x+r.NormFloat64()); r.IntN(5) == 0 {
				put(1, value)
			} else {
				put(1, x)
			}
			return must.Either(x+0.5*r.NormFloat64() > 0, 1, 0)
		})
		warned := slices.ContainsFunc(l.Warnings(nil, true), func(w health.Warning) bool { return w.Kind == health.WarnPlaceholder })
		if center := l.Snapshot().Model().Center(1); wrong > 0.21 || loss > 0.405 || !warned || !present(l, 1) || math.Abs(center) > 0.2 {
			t.Errorf("%v in a fifth of the events: error %.4f, %.4f nats, warned %v, center %v", value, wrong, loss, warned, center)
		}
	}
}

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
		learnNext(l, 3000, s.Next)
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
	learnNext(fewer, 1000, func() *event.Example { return pictures(r) })
	c := fewer.Snapshot().Model().Covariance
	must.True(t, len(c.Columns) == 10, "%d columns are filled in", len(c.Columns))
}
