package online_test

// This file tests how scores become classes: calibration, the positive class and its threshold.

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
)

// TestPositive checks that the rarer class of the first 1,000 events becomes positive if the two labels are no known
// pair, and that a restart does not change the choice. A configured positive class must change measures and the meaning
// of the threshold, but no weights or scores.
func TestPositive(t *testing.T) {
	c := online.DefaultConfig()
	c.Noise, c.Threshold, c.CovarianceMaxFields = "none", 0.8, 0
	teach := func(name string, restart int) *learner {
		var counts [2]int
		c := c
		c.Positive = name
		l := start(t, c, event.NewSchema(10, []string{"rare", "usual"}, 2))
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 1500 {
			if i == restart {
				l = l.restored()
			}
			if name == "" && (i%10 == 0 || i < 10 || i > 990 && i < 1010) {
				got := l.Report().Positive
				must.Require(t, (got == "rare") == (i >= 1000 || counts[0] < counts[1]), "positive before event %d: %q", i, got)
			}
			e := &event.Example{Label: 1, Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{r.NormFloat64(), 1}}}
			if r.Float64() < .2 {
				e.Label, e.Features.Value[0] = 0, e.Features.Value[0]+1
			}
			l.Learn(e, nil)
			counts[e.Label]++
		}
		return l
	}
	found, again, usual, rare := teach("", -1), teach("", 600), teach("usual", -1), teach("rare", -1)
	must.True(t, *found.Report().Binary == *again.Report().Binary, "a restart changes the measures")
	e := &event.Example{Label: 1, Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{.7, 1}}}
	for _, l := range []*learner{again, usual, rare} {
		x, y := found.scores(e), l.scores(e)
		must.True(t, x[0] == y[0], "score %v, want %v", y, x)
	}
	p, q := usual.Report(), rare.Report()
	must.True(t, p.Positive == "usual" && q.Positive == "rare" && math.Abs(p.Binary.AUC()-q.Binary.AUC()) <= 1e-9 && p.Binary.AveragePrecision() >= .85 && q.Binary.AveragePrecision() <= .7,
		"%s %v %v, %s %v %v", p.Positive, p.Binary.AUC(), p.Binary.AveragePrecision(), q.Positive, q.Binary.AUC(), q.Binary.AveragePrecision())
	// The threshold .8 is a probability of the positive class.
	for _, l := range []*learner{usual, rare} {
		h, positiveName := l.model(), l.Report().Positive
		for _, f := range []float64{-2, -1, 0, 1, 2} {
			scores := []float64{f}
			probability := h.Probabilities(scores, make([]float64, 2))[h.Schema.PositiveClass(positiveName)]
			if positive := h.Predict(scores) == h.Schema.PositiveClass(positiveName); positive != (probability > .8) || h.Predict(scores) != l.Predict(e).Decision.Predict(scores) {
				t.Errorf("positive %s: at %v it has probability %v and is called so: %v", positiveName, f, probability, positive)
			}
		}
	}
}

// mislabeled draws an event with a clear class, and flips its label with probability fraction.
func mislabeled(r *rand.Rand, fraction float64) *event.Example {
	x, y := 6*r.Float64()-3, 6*r.Float64()-3
	e := &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{x, y}}}
	e.Label = must.Either((x+y > 0) != (r.Float64() < fraction), 1, 0)
	return e
}

// TestLinkOfWrongLabels checks that calibrate = "auto" learns a link (a function from scores to log-odds) if one label
// in ten is wrong. The link must reduce the loss, the published model must predict the same as the learner, and a
// restart must not change any bits. With "off" there must be no link. The setting must not change any
// weights.
func TestLinkOfWrongLabels(t *testing.T) {
	learners := map[string]*learner{}
	for _, calibrate := range []string{"off", "auto", "on"} {
		c := online.DefaultConfig()
		c.Calibrate, c.Optimizer = calibrate, "adagrad" // the weight of correcting experts depends on the calibration
		l := start(t, c, event.NewSchema(8, []string{"a", "b"}, 2))
		r := rand.New(rand.NewPCG(1, 2))
		learnNext(l, 12_000, func() *event.Example { return mislabeled(r, 0.1) })
		learners[calibrate] = l
	}
	off, auto, on := learners["off"], learners["auto"], learners["on"]
	must.Require(t, off.model().Link == nil && auto.model().Link != nil && on.model().Link != nil, "not those that calibrate have a link")
	now, plain := auto.Report(), off.Report()
	a, b := now.Summary(), plain.Summary()
	must.True(t, *a.RecentLogLoss < *b.RecentLogLoss-0.01 && *a.CalibrationError <= 0.04 && *b.CalibrationError >= 0.06,
		"recent log-loss %v, without a link %v; calibration error %v", *a.RecentLogLoss, *b.RecentLogLoss, *a.CalibrationError)
	r, m := rand.New(rand.NewPCG(9, 2)), auto.model()
	for range 200 {
		e := mislabeled(r, 0)
		scores := m.Score(e, make([]float64, 1))
		got, want := m.Decision().Probability(scores[0]), auto.Predict(e).Decision.Probability(scores[0])
		must.Require(t, got == want, "the model says %v, the learner %v", got, want)
		other := off.model().Score(e, make([]float64, 1))
		must.Require(t, other[0] == scores[0], "weights depend on calibrate: %v and %v", scores[0], other[0])
	}
	again := auto.restored()
	x, y := rand.New(rand.NewPCG(5, 2)), rand.New(rand.NewPCG(5, 2))
	for range 500 {
		auto.Learn(mislabeled(x, 0.1), nil)
		again.Learn(mislabeled(y, 0.1), nil)
	}
	sameState(t, "after a restart", auto.blocks(), again.blocks())
	c := auto.c
	c.Calibrate = "off"
	must.True(t, auto.restoredWith(c).model().Link == nil, "with calibrate off there is a link")
	// There must be no link either if scores are already log-odds, or if class weights change the scores on purpose.
	clear := func(e *event.Example, r *rand.Rand) *event.Example {
		e.Label = 0
		if x := e.Features.Value; r.Float64() < 1/(1+math.Exp(-x[0]-x[1])) {
			e.Label = 1
		}
		return e
	}
	for name, change := range map[string]func(*online.Config){
		"log-odds": func(c *online.Config) { c.Noise = "none" },
		"weighted": func(c *online.Config) { c.Noise, c.ClassWeight = "none", map[string]float64{"b": 8} },
	} {
		c := online.DefaultConfig()
		change(&c)
		l, r := start(t, c, event.NewSchema(8, []string{"a", "b"}, 2)), rand.New(rand.NewPCG(1, 2))
		learnNext(l, 6000, func() *event.Example { return clear(mislabeled(r, 0), r) })
		must.True(t, l.model().Link == nil, "%s: auto calibrates", name)
	}
}

// TestCheckNumbers checks which labels look like regression targets under a loss for classification.
func TestCheckNumbers(t *testing.T) {
	whole := must.List(21, func(i int) string { return fmt.Sprint(i) })
	refused := event.Example{Refused: &event.Refusal{Reason: event.ReasonLabel, Detail: `label "2.5" is not one of the classes`}}
	for _, c := range []struct {
		name    string
		loss    string
		classes []string
		refused bool // the last event has an unknown label
		events  uint64
		numbers bool // want a NumbersError
	}{
		{"two numbers", "logistic", []string{"0.5", "1.5"}, false, 0, false},
		{"three numbers", "logistic", []string{"0.5", "1.5", "2"}, false, 0, true},
		{"three names", "logistic", []string{"0.5", "1.5", "x"}, false, 0, false},
		{"whole numbers", "logistic", whole, false, 0, false},
		{"20 whole numbers under the quadratic loss", "quadratic", whole[:20], false, 0, false},
		{"21 whole numbers under the quadratic loss", "quadratic", whole, false, 0, true},
		{"an unknown number under the quadratic loss", "quadratic", whole[:3], true, 0, true},
		{"an unknown number under the logistic loss", "logistic", whole[:3], true, 0, false},
		{"an unknown number beside names", "quadratic", []string{"a", "b", "c"}, true, 0, false},
		{"just before the limit", "logistic", []string{"0.5", "1.5", "2"}, false, health.WarnAfter - 1, true},
		{"late in the stream", "logistic", []string{"0.5", "1.5", "2"}, false, health.WarnAfter, false},
		{"an unknown number late in the stream", "quadratic", whole[:3], true, health.WarnAfter, false},
		{"regression", "squared", []string{"0.5", "1.5", "2"}, false, 0, false},
	} {
		s := event.NewSchema(8, nil, 100)
		s.Classes = c.classes
		b := &event.Batch{Schema: s, Examples: []event.Example{{Label: 0}, {Label: 1}}}
		if c.refused {
			b.Examples = append(b.Examples, refused)
		}
		must.Equal(t, errors.As(online.CheckNumbers(c.loss, b, len(b.Examples), c.events), new(*online.NumbersError)), c.numbers, c.name)
	}
	b := &event.Batch{Schema: event.NewSchema(8, nil, 100), Examples: []event.Example{{}, refused}}
	b.Schema.Classes = whole[:3]
	must.Do(t, online.CheckNumbers("quadratic", b, 1, 0), "an event that is not among the first n")
}

// TestManyClasses adds 40 classes one after another, with rare labels in between. No class may be predicted before its
// first event, and all classes must be learned. A restart must not change any bits, and the rare labels must increase
// the error only a little.
func TestManyClasses(t *testing.T) {
	const classes, every, events = 40, 25, 2500
	s := setting{online.DefaultConfig(), classes}
	for _, strays := range []bool{true, false} {
		if !strays && !longtest.Asked() {
			continue
		}
		plain, restarted := newRun(t, s, 97), newRun(t, s, 97)
		missed, met := 0, map[string]bool{}
		draw := func(r *run, i int) *row {
			x := &row{weight: 1}
			class := r.feed.r.IntN(min(classes, 2+i/every))
			x.label = fmt.Sprintf("%q", fmt.Sprint("c", class))
			x.set("a", fmt.Sprintf("%q", fmt.Sprint("a", class%8)))
			x.set("b", fmt.Sprintf("%q", fmt.Sprint("b", class/8)))
			x.set("noise", number(r.feed.r.NormFloat64()))
			if strays && i%50 == 49 {
				x.label = fmt.Sprintf("%q", fmt.Sprint("stray", i/100))
			}
			return x
		}
		for i := range events {
			if i == 1 || i == every+1 || i == 500 || i == 1501 {
				restarted.restart()
			}
			x := draw(plain, i)
			e := plain.in.event(x)
			d, scores := plain.decision(), plain.learn(e)
			again := restarted.learn(restarted.in.event(draw(restarted, i)))
			must.Require(t, sameScores(scores, again), "strays %v, event %d: scores %v, after a restart %v", strays, i, scores, again)
			best := d.Predict(scores)
			name := plain.schema.Classes[best]
			must.Require(t, i <= 100 || met[fmt.Sprintf("%q", name)], "strays %v, event %d: class %q is predicted before it came", strays, i, name)
			met[x.label] = true
			if i >= events-500 && best != e.Label && !(strays && i%50 == 49) {
				missed++
			}
		}
		must.True(t, missed <= 100, "strays %v: %d of the last 500 wrong", strays, missed)
		sameState(t, "after restarts", plain.blocks(), restarted.blocks())
		e := clone(plain.in.event(draw(plain, events)))
		snapshot := plain.model()
		sum := must.Sum(snapshot.Probabilities(score(snapshot, e), make([]float64, snapshot.Outputs)))
		must.True(t, math.Abs(sum-1) <= 1e-9 && len(snapshot.Schema.Classes) >= classes, "strays %v: %d classes, whose probabilities sum to %v", strays, len(snapshot.Schema.Classes), sum)
	}
}

// TestHalfLifeTime checks that a half-life in seconds equals a half-life in events if one event arrives per second.
func TestHalfLifeTime(t *testing.T) {
	c := online.DefaultConfig()
	c.Optimizer, c.Noise, c.OnDrift, c.HalfLife = "adagrad", "none", "log", 50
	byEvents := newRun(t, setting{c, 2}, 103)
	c.HalfLife, c.HalfLifeTime = 0, 50
	byTime := newRun(t, setting{c, 2}, 103)
	c.HalfLifeTime = 5000
	slow := newRun(t, setting{c, 2}, 103)
	differs := false
	for i := range 1500 {
		e := byEvents.next()
		a := byEvents.learn(e)
		var b [2][]float64
		for k, r := range []*run{byTime, slow} {
			e := r.next()
			e.Time = 1_700_000_000_000 + 1000*int64(i)
			b[k] = append(b[k], r.learn(e)...)
		}
		// the first event has no predecessor
		must.Require(t, near(b[0], a, 0.02), "event %d: scores %v with a half-life of 50 events, %v with one of 50 seconds", i, a, b[0])
		differs = differs || i > 500 && !near(b[1], a, 0.2)
	}
	must.True(t, differs, "a half-life of 5000 seconds is as one of 50")
}

// TestClassWeight checks that a class with weight 5 is predicted more often than without that weight, and that its
// events are misclassified less often.
func TestClassWeight(t *testing.T) {
	missed := func(weight float64) (of [2]int) {
		c := online.DefaultConfig()
		c.ClassWeight = map[string]float64{"c1": weight}
		r := newRun(t, setting{c, 2}, 107)
		r.feed.value = func(name string, x float64) string { return number(x + 3*r.feed.r.NormFloat64()) }
		for i := range 4000 {
			e := r.next()
			if scores := r.learn(e); i >= 2000 && r.wrong(scores, e) {
				of[e.Label]++
			}
		}
		if r.schema.Classes[0] == "c1" {
			of[0], of[1] = of[1], of[0]
		}
		return of
	}
	plain, heavy := missed(1), missed(5)
	must.True(t, heavy[1] < plain[1]*2/3 && heavy[0] > plain[0], "missed by class %v, with weight 5 of the second %v", plain, heavy)
}

// TestCrosses checks that a configured product of two categories is learned.
func TestCrosses(t *testing.T) {
	for _, crossed := range []bool{false, true} {
		s := setting{online.DefaultConfig(), 2}
		r := newRun(t, s, 109)
		if crossed {
			r.in.c.Crosses = [][2]string{{"left", "right"}}
		}
		r.in.follow(r.in.c.Schema())
		r.learner = start(t, s.c, r.in.schema)
		missed := 0
		for i := range 2000 {
			x := &row{weight: 1}
			a, b := r.feed.r.IntN(2), r.feed.r.IntN(2)
			x.label = fmt.Sprintf("%q", fmt.Sprint("c", a^b))
			x.set("left", fmt.Sprintf(`"l%d"`, a))
			x.set("right", fmt.Sprintf(`"r%d"`, b))
			e := r.in.event(x)
			if scores := r.learn(e); i >= 1000 && r.wrong(scores, e) {
				missed++
			}
		}
		must.True(t, (!crossed || missed <= 20) && (crossed || missed >= 300), "crossed %v: %d of 1000 wrong", crossed, missed)
	}
}

// manyClasses draws events of 60 mostly rare classes. The Schema allows 12.
func manyClasses(seed uint64) stream {
	s := event.NewSchema(16, nil, 12)
	r := rand.New(rand.NewPCG(seed, 6))
	return stream{s, func() *event.Example {
		class := min(int(r.ExpFloat64()*9), 59)
		label, ok := s.Class([]byte(fmt.Sprint("c", class)))
		if !ok {
			panic("no room for a class")
		}
		e := &event.Example{Weight: 1, Label: label}
		for _, word := range []int{class, 100 + r.IntN(30), 200 + class%7} {
			eventtest.Put(e, uint32(word), 1)
		}
		return e
	}}
}

// TestMoreClasses checks that labels beyond max_classes are accepted and counted, unless the classes are configured.
func TestMoreClasses(t *testing.T) {
	for maxClasses, want := range map[int]int{10: 10, 12: 120} {
		s := event.NewSchema(10, nil, maxClasses)
		online.TakeMoreClasses(s)
		got := must.Count(1000, func(label int) bool {
			_, ok := s.Class([]byte(fmt.Sprint("l", label)))
			return ok
		})
		must.True(t, got == want, "%d labels of max_classes %d", got, maxClasses)
	}
}

// TestManyColumnsAfterClasses checks that rare classes share an output as soon as new columns make their separate outputs
// too large, also if the events have one of the first classes. max_memory would otherwise refuse the columns.
func TestManyColumnsAfterClasses(t *testing.T) {
	t.Parallel()
	for frequent, first := range map[int]int{1: 100, 10: 3} { // first is the number of classes before the columns come
		c := online.DefaultConfig()
		c.MaxMemory = 150 << 20
		s := event.NewSchema(20, nil, 100)
		l := newTwins(t, c, s)
		learn := func(class int, columns ...int) {
			t.Helper()
			label, _ := s.Class([]byte(fmt.Sprint("c", class)))
			e := &event.Example{Weight: 1, Label: label}
			for _, column := range columns {
				eventtest.Put(e, uint32(column), 1)
			}
			l.SetSchema(s.View())
			r := l.Refusal(e)
			must.Require(t, r == nil, "%d frequent classes, %d first: %v", frequent, first, r)
			l.Learn(e, nil)
		}
		for class := range first {
			learn(class, class)
		}
		next := 1000
		for n := range 25 {
			columns := make([]int, 4000)
			for i := range columns {
				columns[i] = next
				next++
			}
			learn(n%frequent, columns...)
			if n == 12 {
				l.restart()
			}
		}
		for class := range 100 {
			learn(class, class)
		}
		l.restart()
		learn(0, 1)
	}
}
