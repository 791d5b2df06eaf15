package online

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/online/synthetic"
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

// The lanes of a prediction are what the levels and the experts score when the event is learned at once.
func TestLanesAreWhatIsLearned(t *testing.T) {
	for _, classes := range []int{0, 2, 3} {
		s := synthetic.NewTides(3, classes, 0)
		l := tidesLearner(t, s, nil)
		for range 3000 {
			l.Learn(s.Next(), nil)
		}
		for range 200 {
			e := s.Next()
			p := kept(l.Predict(e))
			if len(p.Lanes) != 2*l.n+l.second.expert.Count()*l.outputs() || !slices.Equal(p.Scores, l.Snapshot().Model().Score(e, make([]float64, l.outputs()))) && classes < 3 || p.Learned != l.events {
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

// If nothing has been learned since the prior, learning moves the mixture weights as without it. A prior of as many
// outputs as there are counts, one of others does not, even if it is as long.
func TestPriorAtOnce(t *testing.T) {
	s := synthetic.NewTides(3, 2, 0)
	later, plain := tidesLearner(t, s, nil), tidesLearner(t, s, nil)
	for range 1500 {
		e := s.Next()
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
	s := synthetic.NewTides(3, 2, 0)
	l, one := tidesLearner(t, s, nil), tidesLearner(t, s, func(c *Config) { c.Noise = "none" })
	for range 2000 {
		e := s.Next()
		l.Learn(e, nil)
		one.Learn(e, nil)
	}
	if n := len(one.Predict(s.Next()).Lanes); len(one.levels) > 1 || n != 2*one.n+one.second.expert.Count()*one.k {
		t.Errorf("%d levels and an expert have %d lanes", len(one.levels), n)
	}
	beside := func() string { return fmt.Sprint(l.Report().Experts[len(l.levels):]) }
	before := beside()
	for range 500 {
		e := s.Next()
		prior := l.Predict(e)
		prior.Lanes, prior.Learned = prior.Lanes[:2*l.n], synthetic.Long
		l.Learn(e, &prior)
	}
	if after := beside(); after != before {
		t.Errorf("experts that have said nothing had %v and have %v", before, after)
	}
	e := s.Next()
	if l.Learn(e, &Prediction{Learned: synthetic.Long, Scores: scoresOf(l, e)}); l.now.told != nil {
		t.Error("what was said of the event before counts")
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
		prior.Learned = synthetic.Long
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
