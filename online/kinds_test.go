package online_test

// This file tests many classes, omitted numbers, event times and class weights.

import (
	"fmt"
	"math"
	"testing"

	"blankout/internal/longtest"
	"blankout/online"
)

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
			if again := restarted.learn(restarted.in.event(draw(restarted, i))); !sameScores(scores, again) {
				t.Fatalf("strays %v, event %d: scores %v, after a restart %v", strays, i, scores, again)
			}
			best := d.Predict(scores)
			if name := plain.schema.Classes[best]; i > 100 && !met[fmt.Sprintf("%q", name)] {
				t.Fatalf("strays %v, event %d: class %q is predicted before it came", strays, i, name)
			}
			met[x.label] = true
			if i >= events-500 && best != e.Label && !(strays && i%50 == 49) {
				missed++
			}
		}
		if missed > 100 {
			t.Errorf("strays %v: %d of the last 500 wrong", strays, missed)
		}
		sameState(t, "after restarts", plain.blocks(), restarted.blocks())
		e := clone(plain.in.event(draw(plain, events)))
		snapshot := plain.model()
		sum := 0.0
		for _, p := range snapshot.Probabilities(score(snapshot, e), make([]float64, snapshot.Outputs)) {
			sum += p
		}
		if math.Abs(sum-1) > 1e-9 || len(snapshot.Schema.Classes) < classes {
			t.Errorf("strays %v: %d classes, whose probabilities sum to %v", strays, len(snapshot.Schema.Classes), sum)
		}
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
		if !near(b[0], a, 0.02) { // the first event has no predecessor
			t.Fatalf("event %d: scores %v with a half-life of 50 events, %v with one of 50 seconds", i, a, b[0])
		}
		differs = differs || i > 500 && !near(b[1], a, 0.2)
	}
	if !differs {
		t.Error("a half-life of 5000 seconds is as one of 50")
	}
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
	if !(heavy[1] < plain[1]*2/3 && heavy[0] > plain[0]) {
		t.Errorf("missed by class %v, with weight 5 of the second %v", plain, heavy)
	}
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
		if crossed && missed > 20 || !crossed && missed < 300 {
			t.Errorf("crossed %v: %d of 1000 wrong", crossed, missed)
		}
	}
}
