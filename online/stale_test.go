package online_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/measure"
	"blankout/online"
	"blankout/online/watch"
)

// turning draws events of which a number tells the class for turn events, then the opposite, and so on: whoever has just
// learned knows the next class, and weights that are turn events old are sure of the wrong one.
func turning(n, turn int) (out []*event.Example) {
	r := rand.New(rand.NewPCG(3, 5))
	for i := range n {
		x := r.NormFloat64()
		e := &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1}, Value: []float64{3 * x}}}
		if (x > 0) != (i/turn%2 == 1) != (r.Float64() < 0.05) {
			e.Label = 1
		}
		out = append(out, e)
	}
	return out
}

func learnTurning(t *testing.T, turn int, change func(*online.Config)) *online.Learner {
	t.Helper()
	c := online.DefaultConfig()
	if change != nil {
		change(&c)
	}
	l, err := online.New(c, event.NewSchema(8, []string{"a", "b"}, 2))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range turning(12_000, turn) {
		l.Learn(e, nil)
	}
	return l
}

func ofAge(t *testing.T, l *online.Learner, age uint64) measure.Aged {
	t.Helper()
	for _, r := range l.Report().ByAge {
		if r.Age == age {
			return r
		}
	}
	t.Fatalf("nothing is known of age %d", age)
	return measure.Aged{}
}

// Weights that are worse than the class shares at some age are warned of, by the Learner and by what is saved of it; with a
// horizon of that age, they are hardly worse. On a stream that stays as it is there is no such warning.
func TestStaleWeights(t *testing.T) {
	longtest.NotRaced(t)
	stale := func(l *online.Learner) bool {
		is := func(w watch.Warning) bool { return w.Kind == watch.WarnStale }
		a, b := slices.ContainsFunc(l.Warnings(nil, false), is), slices.ContainsFunc(l.Snapshot().Warnings(nil), is)
		if a != b {
			t.Errorf("the learner warns: %v, what is saved of it: %v", a, b)
		}
		return a
	}
	l := learnTurning(t, 1000, nil)
	r := ofAge(t, l, 1000)
	if !(*r.LogLoss > *r.ConstantLogLoss+0.5) || !stale(l) {
		t.Errorf("log-loss at age 1000: %v, of the shares %v; warned: %v", *r.LogLoss, *r.ConstantLogLoss, stale(l))
	}
	if math.Abs(*r.ConstantLogLoss-math.Log(2)) > 0.02 || math.Abs(*r.ConstantError-0.5) > 0.15 {
		t.Errorf("the shares lose %v and err %v", *r.ConstantLogLoss, *r.ConstantError)
	}
	ahead := learnTurning(t, 1000, func(c *online.Config) { c.ServingStaleness = 1000 })
	if r := ofAge(t, ahead, 1000); *r.LogLoss > *r.ConstantLogLoss+0.05 {
		t.Errorf("with a horizon log-loss at age 1000: %v, of the shares %v", *r.LogLoss, *r.ConstantLogLoss)
	}
	if still := learnTurning(t, 1e6, nil); stale(still) {
		t.Error("a stream that stays as it is has useless weights")
	}
	off := learnTurning(t, 1000, func(c *online.Config) { c.ServingStaleness, c.Calibrate = 1000, "off" })
	if off.Snapshot().Model().Link != nil || ahead.Snapshot().Model().Link == nil {
		t.Error("with a horizon there is a link, unless calibrate is off")
	}
}
