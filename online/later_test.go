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

// An event whose label comes later is measured by the scores of its arrival and learned as
// any other; what it would have been told at last is measured apart.
func TestLearnLater(t *testing.T) {
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
	arrival := slices.Clone(later.Score(ev(1, event.Unlabeled), make([]float64, 1)))
	for i := range 50 {
		for _, l := range []*Learner{later, plain} {
			l.Learn(ev(float64(1-2*(i%2)), 1-i%2))
		}
	}
	before := later.Metrics().Total
	var fresh measure.Classes
	later.LearnLater(ev(1, 1), arrival, &fresh)
	told := slices.Clone(plain.Learn(ev(1, 1)))
	total := later.Metrics().Total
	if got, want := total.LogLoss-before.LogLoss, math.Log1p(math.Exp(-arrival[0])); math.Abs(got-want) > 1e-12 {
		t.Errorf("the progressive log-loss grew by %v, want %v, that of the arrival", got, want)
	}
	if want := math.Log1p(math.Exp(-told[0])); math.Abs(fresh.LogLoss-want) > 1e-12 || fresh.Weight != 1 || fresh.LogLoss >= total.LogLoss-before.LogLoss {
		t.Errorf("at learning %+v, want a log-loss of %v", fresh, want)
	}
	if a, b := later.Score(ev(1, 1), make([]float64, 1))[0], plain.Score(ev(1, 1), make([]float64, 1))[0]; a != b {
		t.Errorf("learned later it scores %v, at once %v", a, b)
	}
}

// Where the label is a number the progressive measures have the error of what the event was
// told when it came, and the other is measured apart.
func TestLearnNumberLater(t *testing.T) {
	c := DefaultConfig()
	c.Loss = "squared"
	later, plain := numberLearner(t, c), numberLearner(t, c)
	events := numbersOf(300, later.unit.Target, 1)
	last := events[299]
	arrival := slices.Clone(later.Score(last, make([]float64, 1)))
	for _, e := range events[:299] {
		later.Learn(e)
		plain.Learn(e)
	}
	before := later.Metrics().Numbers.Total.Absolute
	var fresh measure.Classes
	later.LearnLater(last, arrival, &fresh)
	told := plain.Learn(last)[0]
	if got, want := later.Metrics().Numbers.Total.Absolute-before, math.Abs(last.Target-arrival[0]); math.Abs(got-want) > 1e-6*want {
		t.Errorf("the progressive absolute error grew by %v, want %v, that of the arrival", got, want)
	}
	if want := math.Abs(last.Target - told); math.Abs(fresh.Wrong-want) > 1e-6 || fresh.Weight != 1 || want > 0.5*math.Abs(last.Target-arrival[0]) {
		t.Errorf("at learning %+v, want an error of %v", fresh, want)
	}
	if a, b := later.Score(last, make([]float64, 1))[0], plain.Score(last, make([]float64, 1))[0]; a != b {
		t.Errorf("learned later it scores %v, at once %v", a, b)
	}
}

// What Arrive says of the levels and the experts is what they say when the event is learned at once.
func TestArriveIsWhatIsSaid(t *testing.T) {
	for _, classes := range []int{0, 2, 3} {
		s := newTides(3, classes, 0)
		l := s.learner(t, nil)
		for range 3000 {
			l.Learn(s.next())
		}
		for range 200 {
			e := s.next()
			told := slices.Clone(l.Arrive(e, nil))
			k := l.Outputs()
			if len(told) != k+2+2*l.n+l.second.expert.Count()*k || !slices.Equal(told[:k], l.Score(e, make([]float64, k))) || told[k] != scoresEnd {
				t.Fatalf("%d classes: told %v", classes, told)
			}
			moved := l.scaling.Read.Moved
			l.Learn(e)
			if len(moved)+len(l.scaling.Read.Moved) > 0 || l.now.hasMoved {
				continue
			}
			said := l.second.expert.Said(slices.Clone(l.now.published[:l.n]))
			if classes == 0 { // the unit has moved the scores meanwhile
				continue
			}
			told = append(slices.Clone(l.averaged(told[k+2:])), told[k+2+2*l.n:]...)
			for i, f := range said {
				if math.Abs(f-told[i]) > 1e-9*(1+math.Abs(f)) {
					t.Fatalf("%d classes: %d of the levels and experts says %v, has said %v", classes, i, f, told[i])
				}
			}
		}
	}
}

// Numbers are told in the unit of the labels, whatever the Learner's own is: the levels, mixed, say what Score says.
func TestArriveTellsNumbers(t *testing.T) {
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
			told := l.Arrive(e, nil)[3:]
			mixed := 0.0
			for v, share := range l.shares.InForce[0].Levels {
				mixed += share * (told[v] + l.levels[v].AverageShare()*(told[l.n+v]-told[v]))
			}
			if want := l.Score(e, make([]float64, 1))[0]; math.Abs(mixed-want) > 1e-9*math.Abs(want) {
				t.Fatalf("event %d: levels that say %v are mixed to %v, want %v", i, told, mixed, want)
			}
			l.arrived.own, l.arrived.scores = told, 1
			if l.heed(); math.Abs(l.unit.Score(l.now.told[l.n])-told[l.n]) > 1e-9*math.Abs(told[l.n]) {
				t.Fatalf("event %d: told %v it heeds %v", i, told, l.now.told)
			}
			l.arrived.own = nil
		}
		l.Learn(e)
	}
}

// Shares follow what was said when an event came, not what is known when its label has come; scores alone, as
// an older program stored them, count too.
func TestLaterMovesSharesByWhatWasSaid(t *testing.T) {
	share := func(change func(k int, e *event.Example, told []float64) []float64) []model.Expert {
		s := newTides(3, 2, 0)
		l := s.learner(t, nil)
		for range 2000 {
			e := s.next()
			told := l.Arrive(e, nil)
			l.LearnLater(e, change(l.Outputs(), e, told), &measure.Classes{})
		}
		return l.Metrics().Experts
	}
	as := share(func(_ int, _ *event.Example, told []float64) []float64 { return told })
	alone := share(func(k int, _ *event.Example, told []float64) []float64 { return told[:k] })
	// The level of .7 has known all, and the others the contrary.
	prophet := share(func(k int, e *event.Example, told []float64) []float64 {
		for i := range told[k+2:] {
			told[k+2+i] = float64(1-2*e.Label) * 3
		}
		told[k+2+2] *= -1
		told[k+2+3*k+2] *= -1
		told[k+1] = -1 // it came earlier
		return told
	})
	fools := share(func(k int, e *event.Example, told []float64) []float64 {
		for i := k + 2 + 6*k; i < len(told); i++ {
			told[i] = float64(1-2*e.Label) * 3
		}
		told[k+1] = -1
		return told
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

// Where nothing has been learned since an event came, learning it moves the shares as if it were learned at once. What
// was said by as many outputs as there are counts; of others, though it be as long, nothing does.
func TestLaterAtOnce(t *testing.T) {
	s := newTides(3, 2, 0)
	later, plain := s.learner(t, nil), s.learner(t, nil)
	for range 1500 {
		e := s.next()
		later.LearnLater(e, later.Arrive(e, nil), &measure.Classes{})
		plain.Learn(e)
	}
	sameShares(t, later, plain, true)
	for _, outputs := range []int{later.k, later.k + 1} {
		later.arrived.own, later.arrived.scores = make([]float64, 2*later.n), outputs
		if later.heed(); (later.now.told != nil) != (outputs == later.k) {
			t.Errorf("of %d outputs, of %d, it heeds %v", outputs, later.k, later.now.told)
		}
	}
}

// What was said holds for one event. Where only the levels said something the shares of what is beside them rest; where
// there is but one level, and an expert beside it, both say something.
func TestLaterHoldsForOneEvent(t *testing.T) {
	s := newTides(3, 2, 0)
	l, one := s.learner(t, nil), s.learner(t, func(c *Config) { c.Noise = "none" })
	for range 2000 {
		e := s.next()
		l.Learn(e)
		one.Learn(e)
	}
	if n := len(one.Arrive(s.next(), nil)); len(one.levels) > 1 || n != one.k+2+2*one.n+one.second.expert.Count()*one.k {
		t.Errorf("%d levels and an expert say %d numbers", len(one.levels), n)
	}
	beside := func() string { return fmt.Sprint(l.Metrics().Experts[len(l.levels):]) }
	before := beside()
	for range 500 {
		e := s.next()
		told := l.Arrive(e, nil)[:l.k+2+2*l.n]
		told[l.k+1] = -1 // it came earlier
		l.LearnLater(e, told, &measure.Classes{})
	}
	if after := beside(); after != before {
		t.Errorf("experts that have said nothing had %v and have %v", before, after)
	}
	e := s.next()
	if l.LearnLater(e, l.Score(e, make([]float64, l.k)), &measure.Classes{}); l.now.told != nil {
		t.Error("what was said of the event before counts")
	}
}

// What was said in a unit that the target has moved is forgotten.
func TestLaterForgetsAnOldUnit(t *testing.T) {
	c := agedCases(700)[3]
	l := c.learner(t)
	moved, stayed := 0, 0
	for i, e := range c.events {
		own := *e
		own.Target *= 1 + float64(i)/50
		told := l.Arrive(&own, nil)
		if len(told) == 1 {
			l.Learn(&own)
			continue
		}
		told[2] = -1 // it came earlier
		was := l.unit
		l.LearnLater(&own, told, &measure.Classes{})
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
