package online

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/online/synthetic"
)

// The lazy half-life against a metric that shrinks at every event.
func TestHalfLife(t *testing.T) {
	for _, rule := range []string{"adagrad", "dropout-descent", "irls"} {
		c := DefaultConfig()
		c.Optimizer, c.Noise, c.HalfLife = rule, "dropout:0.3", 20
		if rule == "irls" {
			c.IRLSBatch = 30
		}
		lazy := mustNew(t, c, 2)
		eager := c
		eager.HalfLife = 0
		slow := mustNew(t, eager, 2)
		s := synthetic.NewStream(9, 2)
		for i := range 400 {
			e := s.Next()
			slow.forget(math.Exp2(-1.0 / 20))
			if i == 200 { // the rebasing must not be seen
				lazy.forget(1 / lazy.fade.Growth)
				lazy.fade.Growth = 1
			}
			a, b := lazy.Learn(e, nil).Scores[0], slow.Learn(e, nil).Scores[0]
			if math.Abs(a-b) > 1e-9*(1+math.Abs(b)) {
				t.Fatalf("%s, event %d: score %v, want %v", rule, i, a, b)
			}
		}
	}
}

// A half-life in event time: gaps fade by their length, what comes late or
// without a time fades nothing, and a long gap forgets no more than everything.
func TestHalfLifeTime(t *testing.T) {
	for _, rule := range []string{"adagrad", "dropout-descent"} {
		c := DefaultConfig()
		c.Optimizer, c.Noise, c.HalfLifeTime, c.HalfLifeStep = rule, "dropout:0.3", 60, 4000
		lazy := mustNew(t, c, 2)
		eager := c
		eager.HalfLifeTime, eager.HalfLifeStep = 0, 0
		slow := mustNew(t, eager, 2)
		s, r := synthetic.NewStream(9, 2), rand.New(rand.NewPCG(3, 4))
		now, latest := int64(1_700_000_000_000), int64(0)
		for i := range 400 {
			e := s.Next()
			now += int64(r.IntN(20_000))
			switch e.Time = now; {
			case i%10 == 3:
				e.Time = 0
			case i%10 == 5:
				e.Time = now - 40_000
			case i == 300:
				now += 1000 * 60 * 50
				e.Time = now
			}
			if e.Time > latest {
				if latest > 0 {
					slow.forget(math.Exp2(-float64(e.Time-latest) / 60_000))
				}
				latest = e.Time
			}
			a, b := lazy.Learn(e, nil).Scores[0], slow.Learn(e, nil).Scores[0]
			if math.Abs(a-b) > 1e-9*(1+math.Abs(b)) {
				t.Fatalf("%s, event %d: score %v, want %v", rule, i, a, b)
			}
		}
	}
}

// A warning says the same after a restart, figures included.
func TestWarningSurvivesRestart(t *testing.T) {
	c := DefaultConfig()
	l, s := mustNew(t, c, 2), synthetic.NewStream(3, 2)
	for range 10 {
		l.Learn(s.Next(), nil)
	}
	for i := range 2000 {
		l.watch.Prior.Take(i%2, 1, 3.5, 0, uint64(i))
	}
	want := l.Warnings(nil, true)
	if len(want) != 1 {
		t.Fatalf("%+v", want)
	}
	blocks, err := l.Snapshot().Blocks()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(c, blocks)
	if err != nil {
		t.Fatal(err)
	}
	if got := restored.Warnings(nil, true); !slices.Equal(got, want) {
		t.Errorf("restored: %+v\nwant %+v", got, want)
	}
}
