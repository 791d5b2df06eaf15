package online

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// scoresOf returns the predicted scores of an event.
func scoresOf(l *Learner, e *event.Example) []float64 { return slices.Clone(l.Predict(e).Scores) }

// kept returns a Prediction as a store of delayed labels does.
func kept(p Prediction) *Prediction {
	read, err := ReadPrediction(p.Append(nil))
	if err != nil {
		panic(err)
	}
	return &read
}

// long is the Learned of a Prediction that was made when other events had been learned.
const long = 1 << 50

// A stored Prediction comes back as it was, and what Append has not written is none.
func TestReadPrediction(t *testing.T) {
	for _, p := range []Prediction{{Refused: true}, {Learned: 7, Scores: []float64{1, -2}}, {Learned: 1 << 50, Scores: []float64{math.Inf(1)}, Lanes: []float64{3, 4}}} {
		got := kept(p)
		if got.Learned != p.Learned || !slices.Equal(got.Scores, p.Scores) || !slices.Equal(got.Lanes, p.Lanes) || got.Refused != p.Refused {
			t.Errorf("%+v, want %+v", got, p)
		}
	}
	nan := math.NaN()
	for _, stored := range [][]float64{nil, {1}, {1, 1}, {1, -1}, {1, 0.5, 1}, {-1, 0}, {nan, 0}, {1, nan}, {math.Inf(1), 0}, {1, 3, 1, 2}} {
		if p, err := ReadPrediction(stored); err == nil {
			t.Errorf("%v is read as %+v", stored, p)
		}
	}
}

// A delayed label is measured by the prediction made when the event came, and its event is learned as
// any other; the prediction at last is returned.
func TestLearnDelayed(t *testing.T) {
	learner := func() *Learner {
		l, err := New(DefaultConfig(), event.NewSchema(4, []string{"no", "yes"}, 2))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	ev := func(x float64, label int) *event.Example {
		return &event.Example{Features: event.Vec{Index: []uint32{1}, Value: []float64{x}}, Label: label, Weight: 1}
	}
	later, plain := learner(), learner()
	prior := kept(later.Predict(ev(1, event.Unlabeled)))
	prior.Lanes = nil // they would move the mixture weights
	for i := range 50 {
		for _, l := range []*Learner{later, plain} {
			l.Learn(ev(float64(1-2*(i%2)), 1-i%2), nil)
		}
	}
	before := later.Report().Total
	var fresh measure.Classes
	p := later.Learn(ev(1, 1), prior)
	p.Measure(ev(1, 1), &fresh)
	told := slices.Clone(plain.Learn(ev(1, 1), nil).Scores)
	total := later.Report().Total
	if got, want := total.LogLoss-before.LogLoss, math.Log1p(math.Exp(-prior.Scores[0])); math.Abs(got-want) > 1e-12 {
		t.Errorf("the progressive log-loss grew by %v, want %v, that of the arrival", got, want)
	}
	if want := math.Log1p(math.Exp(-told[0])); math.Abs(fresh.LogLoss-want) > 1e-12 || fresh.Weight != 1 || fresh.LogLoss >= total.LogLoss-before.LogLoss {
		t.Errorf("at learning %+v, want a log-loss of %v", fresh, want)
	}
	if a, b := scoresOf(later, ev(1, 1))[0], scoresOf(plain, ev(1, 1))[0]; a != b {
		t.Errorf("learned later it scores %v, at once %v", a, b)
	}
}

// Where the label is a number the progressive measures have the error of what the event was
// told when it came, and the other is measured apart.
func TestLearnNumberDelayed(t *testing.T) {
	c := DefaultConfig()
	c.Loss = "squared"
	later, plain := numberLearner(t, c), numberLearner(t, c)
	events := numbersOf(300, later.Schema().Target, 1)
	last := events[299]
	prior := kept(later.Predict(last))
	prior.Learned = 299 // else it is from before the first label, and not measured
	for _, e := range events[:299] {
		later.Learn(e, nil)
		plain.Learn(e, nil)
	}
	before := later.Report().Numbers.Total.Absolute
	var fresh measure.Classes
	p := later.Learn(last, prior)
	p.Measure(last, &fresh)
	told := plain.Learn(last, nil).Scores[0]
	if got, want := later.Report().Numbers.Total.Absolute-before, math.Abs(last.Target-prior.Scores[0]); math.Abs(got-want) > 1e-6*want {
		t.Errorf("the progressive absolute error grew by %v, want %v, that of the arrival", got, want)
	}
	if want := math.Abs(last.Target - told); math.Abs(fresh.Wrong-want) > 1e-6 || fresh.Weight != 1 || want > 0.5*math.Abs(last.Target-prior.Scores[0]) {
		t.Errorf("at learning %+v, want an error of %v", fresh, want)
	}
	if a, b := scoresOf(later, last)[0], scoresOf(plain, last)[0]; a != b {
		t.Errorf("learned later it scores %v, at once %v", a, b)
	}
}

// The lanes of a prediction are what the levels and the experts score when the event is learned at once.
func TestLanesAreWhatIsLearned(t *testing.T) {
	for _, classes := range []int{0, 2, 3} {
		s := newTides(3, classes, 0)
		l := s.learner(t, nil)
		for range 3000 {
			l.Learn(s.next(), nil)
		}
		for range 200 {
			e := s.next()
			p := kept(l.Predict(e))
			if len(p.Lanes) != 2*l.n+l.second.expert.Count()*l.outputs() || !slices.Equal(p.Scores, l.Published().Score(e, make([]float64, l.outputs()))) && classes < 3 || p.Learned != l.events {
				t.Fatalf("%d classes: %+v", classes, p)
			}
			moved := l.scaling.Read.Moved
			l.Learn(e, nil)
			if len(moved)+len(l.scaling.Read.Moved) > 0 || l.now.hasMoved {
				continue
			}
			said := l.second.expert.Said(slices.Clone(l.now.published[:l.n]))
			if classes == 0 { // the unit has moved the scores meanwhile
				continue
			}
			told := append(slices.Clone(l.averaged(p.Lanes)), p.Lanes[2*l.n:]...)
			for i, f := range said {
				if math.Abs(f-told[i]) > 1e-9*(1+math.Abs(f)) {
					t.Fatalf("%d classes: %d of the levels and experts says %v, has said %v", classes, i, f, told[i])
				}
			}
		}
	}
}

// Lanes of numbers are in the unit of the labels, whatever the Learner's own is: those of the levels, mixed, are the score.
func TestLanesOfNumbers(t *testing.T) {
	c := agedCases(700)[3]
	config := DefaultConfig()
	c.config(&config)
	config.Optimizer = "adagrad"
	l, err := New(config, c.schema())
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range c.events {
		if i > 300 && len(e.Missing) == 0 {
			told := kept(l.Predict(e)).Lanes
			mixed := 0.0
			for v, share := range l.shares.InForce[0].Levels {
				mixed += share * (told[v] + l.levels[v].AverageShare()*(told[l.n+v]-told[v]))
			}
			if want := scoresOf(l, e)[0]; math.Abs(mixed-want) > 1e-9*math.Abs(want) {
				t.Fatalf("event %d: levels that say %v are mixed to %v, want %v", i, told, mixed, want)
			}
			l.earlier.lanes, l.earlier.scores = told, 1
			if l.useEarlier(); math.Abs(l.unit.Score(l.now.told[l.n])-told[l.n]) > 1e-9*math.Abs(told[l.n]) {
				t.Fatalf("event %d: of %v it uses %v", i, told, l.now.told)
			}
			l.earlier.lanes = nil
		}
		l.Learn(e, nil)
	}
}

// Mixture weights follow the lanes of the prior, not what is known when the label has come; a prior without lanes
// counts too.
func TestPriorMovesMixture(t *testing.T) {
	share := func(change func(e *event.Example, prior *Prediction)) []model.Expert {
		s := newTides(3, 2, 0)
		l := s.learner(t, nil)
		for range 2000 {
			e := s.next()
			prior := kept(l.Predict(e))
			change(e, prior)
			l.Learn(e, prior)
		}
		return l.Report().Experts
	}
	as := share(func(*event.Example, *Prediction) {})
	alone := share(func(_ *event.Example, prior *Prediction) { prior.Lanes = nil })
	// The level of .7 has known all, and the others the contrary.
	prophet := share(func(e *event.Example, prior *Prediction) {
		for i := range prior.Lanes {
			prior.Lanes[i] = float64(1-2*e.Label) * 3
		}
		prior.Lanes[2] *= -1
		prior.Lanes[3+2] *= -1
		prior.Learned = long
	})
	fools := share(func(e *event.Example, prior *Prediction) {
		for i := 6; i < len(prior.Lanes); i++ {
			prior.Lanes[i] = float64(1-2*e.Label) * 3
		}
		prior.Learned = long
	})
	beside := func(experts []model.Expert) (sum float64) {
		for _, e := range experts[3:] {
			sum += e.Share
		}
		return sum
	}
	if beside(as) < 0.5 || beside(fools) > 0.1 {
		t.Errorf("experts beside the levels have %v, of such as have said the contrary %v", as, fools)
	}
	if as[2].Share > 0.1 || alone[2].Share > 0.1 || prophet[2].Share < 0.9 {
		t.Errorf("shares %v, of scores alone %v, of a level that had known all %v", as, alone, prophet)
	}
}

// If nothing has been learned since the prior, learning moves the mixture weights as without it. A prior of as many
// outputs as there are counts, one of others does not, even if it is as long.
func TestPriorAtOnce(t *testing.T) {
	s := newTides(3, 2, 0)
	later, plain := s.learner(t, nil), s.learner(t, nil)
	for range 1500 {
		e := s.next()
		prior := later.Predict(e)
		later.Learn(e, &prior)
		plain.Learn(e, nil)
	}
	sameShares(t, later, plain, true)
	for _, outputs := range []int{later.k, later.k + 1} {
		later.earlier.lanes, later.earlier.scores = make([]float64, 2*later.n), outputs
		if later.useEarlier(); (later.now.told != nil) != (outputs == later.k) {
			t.Errorf("of %d outputs, of %d, it uses %v", outputs, later.k, later.now.told)
		}
	}
}

// A prior counts for one event. If it has only lanes of the levels the mixture weights of the other experts rest; a single
// level and another expert both have lanes.
func TestPriorHoldsForOneEvent(t *testing.T) {
	s := newTides(3, 2, 0)
	l, one := s.learner(t, nil), s.learner(t, func(c *Config) { c.Noise = "none" })
	for range 2000 {
		e := s.next()
		l.Learn(e, nil)
		one.Learn(e, nil)
	}
	if n := len(one.Predict(s.next()).Lanes); len(one.levels) > 1 || n != 2*one.n+one.second.expert.Count()*one.k {
		t.Errorf("%d levels and an expert have %d lanes", len(one.levels), n)
	}
	beside := func() string { return fmt.Sprint(l.Report().Experts[len(l.levels):]) }
	before := beside()
	for range 500 {
		e := s.next()
		prior := l.Predict(e)
		prior.Lanes, prior.Learned = prior.Lanes[:2*l.n], long
		l.Learn(e, &prior)
	}
	if after := beside(); after != before {
		t.Errorf("experts that have said nothing had %v and have %v", before, after)
	}
	e := s.next()
	if l.Learn(e, &Prediction{Learned: long, Scores: scoresOf(l, e)}); l.now.told != nil {
		t.Error("what was said of the event before counts")
	}
}

// A prediction made before the first label is compared with no baseline, whatever the number of levels.
func TestPriorBeforeLabels(t *testing.T) {
	for _, noise := range []string{"auto", "none"} {
		s := newTides(3, 2, 0)
		l := s.learner(t, func(c *Config) { c.Noise, c.Optimizer = noise, "adagrad" })
		e := s.next()
		prior := kept(l.Predict(e))
		for range 3 {
			l.Learn(e, prior)
		}
		lastError := func() *float64 { m := l.Report(); return m.Baselines.Report(false).LastError }
		if x := lastError(); x != nil {
			t.Errorf("noise %s: an error of %v of the last class", noise, *x)
		}
		prior = kept(l.Predict(e))
		if l.Learn(e, prior); lastError() == nil {
			t.Errorf("noise %s: no error of the last class", noise)
		}
	}
}

// A prior in a unit that the target has moved is forgotten.
func TestPriorOfAnOldUnit(t *testing.T) {
	c := agedCases(700)[3]
	l := c.learner(t)
	moved, stayed := 0, 0
	for i, e := range c.events {
		own := *e
		own.Target *= 1 + float64(i)/50
		prior := l.Predict(&own)
		if len(prior.Lanes) == 0 {
			l.Learn(&own, nil)
			continue
		}
		prior.Learned = long
		was := l.unit
		l.Learn(&own, &prior)
		if l.unit.Own(1) == was.Own(1) && l.unit.Own(0) == was.Own(0) {
			if stayed++; l.now.told == nil {
				t.Fatal("nothing said counts")
			}
		} else if moved++; l.now.told != nil {
			t.Fatal("what was said in the old unit counts")
		}
	}
	if moved == 0 || stayed == 0 {
		t.Errorf("the unit moved %d times and stayed %d times", moved, stayed)
	}
}
